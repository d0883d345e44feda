"""The law of the noise: boundaries to the last bit, tails, and samples against exact chances."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import repeat

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mustdp.errors import InvalidParameter, NumericalFailure
from mustdp.noise.exact import CHUNK, GAUSSIAN, LAPLACE, Law, exact_noise, rounded, settle
from mustdp.randomness.keys import NoiseSource
from tests.noise.exact_tails import DIGITS, LAWS, boundary, rounded_law, tail
from tests.sampling.chi_square import ACCEPT, REJECT, p_value_of_counts

ONES = 2**64 - 1
#: All bits but a few are zero: nearly the least V that goes on from a word, yet above 0.
LOW = 1


def more(*words: int, then: int = 0) -> Callable[[], int]:
    """A source that goes on with these words."""

    def drawn() -> Iterator[int]:
        yield from words
        yield from repeat(then)

    return drawn().__next__


def as_words(
    leading: list[int], negative: bool = False
) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
    """The words whose V begins with these 63 bits."""
    return np.array([ONES - x if negative else x for x in leading], dtype=np.uint64)


def last_below(law: Law, ratio: float, size: int, bits: int) -> int:
    """The last number of so many bits with which a V can begin that is rounded to ``size``."""
    with mp.workdps(DIGITS):
        return int(mp.floor(mp.ldexp(tail(law, boundary(ratio, size)), bits)))


@pytest.mark.parametrize("negative", [False, True])
@pytest.mark.parametrize("ratio", [1.0, 2.5, 7.9, 1000.1])
@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.name)
def test_every_boundary_lies_where_it_should_to_the_last_bit(
    law: Law, ratio: float, negative: bool
) -> None:
    """P(|K| >= j) is the number of words below the boundary: exact down to tails of 1e-18."""
    sign, far = (-1 if negative else 1), 9.0 if law is GAUSSIAN else 43.0
    sizes = sorted({int(k) for k in np.geomspace(1, far * ratio, 40)})
    checked = 0
    for size in sizes:
        at = last_below(law, ratio, size, 63)
        wide = (at >> 38) + 4  # farther from the boundary than the margin reaches
        places = [at - wide, at - 1, at, at + 1, at + wide]
        words = as_words([max(0, place) for place in places], negative)
        found, undecided = rounded(law, words, ratio)
        assert 2 in undecided
        ends = [
            {settle(law, int(word), ratio, more(then=then)) * sign for then in (LOW, ONES)}
            for word in words
        ]
        for place, end in zip(places, ends, strict=True):
            assert place < 0 or (max(end) >= size) == (place <= at)
            assert place < 0 or (min(end) >= size) == (place < at)
        decided = np.setdiff1d(np.arange(5), undecided)
        assert all(ends[k] == {int(found[k]) * sign} for k in decided)
        if at > 2**25:
            assert {0, 4} <= set(decided.tolist())
            checked += 1
    assert checked >= (5 if ratio == 1 else 10)


@pytest.mark.parametrize("share", [1e-12, 1e-15, 1e-18, 1e-20, 1e-25, 1e-30])
@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.name)
def test_tails_have_their_true_chance(law: Law, share: float) -> None:
    """The boundary of a tail, to 127 bits: the words before it are in it, those after not."""
    ratio = 37.3
    with mp.workdps(DIGITS):
        guess = mp.sqrt(2) * mp.erfinv(1 - mp.mpf(share)) if law is GAUSSIAN else -mp.log(share)
        size = int(guess * ratio)
    at = last_below(law, ratio, size, 127)
    assert 0.05 * share < at / 2.0**127 < 20 * share
    for shift, reached in ((-1, True), (1, False)):
        first, second = divmod(at + shift, 2**64)
        for then in (LOW, ONES):
            found = settle(law, first, ratio, more(second, then=then))
            assert (found >= size) == reached
    first, second = divmod(at, 2**64)
    assert settle(law, first, ratio, more(second, then=LOW)) == size
    assert settle(law, first, ratio, more(second, then=ONES)) == size - 1


def test_the_extreme_tail_goes_on_for_ever() -> None:
    for law, word, sign in ((GAUSSIAN, 0, 1), (LAPLACE, ONES, -1)):
        size = settle(law, word, 1.0, more(0, 0, 1)) * sign  # V is 2^-255
        assert (
            tail(law, boundary(1.0, size + 1)) < mp.mpf(2) ** -255 < tail(law, boundary(1.0, size))
        )
    with pytest.raises(NumericalFailure, match="generator is broken"):
        settle(GAUSSIAN, 0, 1.0, more())


@given(
    word=st.one_of(st.integers(0, ONES), st.integers(0, 2**30), st.integers(ONES - 2**30, ONES)),
    exponent=st.floats(-10, 32),
    law=st.sampled_from(LAWS),
)
@settings(max_examples=300, deadline=None)
def test_what_is_decided_at_once_holds_for_every_continuation(
    word: int, exponent: float, law: Law
) -> None:
    ratio = 2.0**exponent
    found, undecided = rounded(law, np.array([word], dtype=np.uint64), ratio)
    ends = {settle(law, word, ratio, more(then=then)) for then in (LOW, ONES)}
    if len(undecided) == 0:
        assert ends == {int(found[0])}
    else:
        assert found[0] == 0


def test_the_margin_is_needed() -> None:
    """Among words next to boundaries some would be rounded wrongly if arithmetic were trusted."""
    ratio, wrong = 2.0**32, 0
    for size in range(10**9, 10**9 + 200):
        at = last_below(GAUSSIAN, ratio, size, 63)
        naive = round(ratio * -float(GAUSSIAN.negative_sizes(float(at - 1) * 2.0**-64)))
        wrong += naive != settle(GAUSSIAN, at - 1, ratio, more())
    assert wrong > 20


def counted(law: Law, ratio: float, count: int, seed: int) -> dict[int, int]:
    source, most = NoiseSource(seed), 2**20
    totals = np.zeros(1, dtype=np.int64)
    middle = 0
    for start in range(0, count, most):
        found = exact_noise(law, ratio, min(most, count - start), source)
        reach = max(middle, int(np.abs(found).max()))
        totals = np.pad(totals, reach - middle)
        middle = reach
        totals += np.bincount(found + middle, minlength=2 * middle + 1)
    return {k - middle: int(n) for k, n in enumerate(totals) if n}


def level(seen: dict[int, int], law: Law, ratio: float, wrong: float = 1.0) -> float:
    return p_value_of_counts(seen, rounded_law(law, ratio, wrong=wrong, cut=1e-15))


@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.name)
@pytest.mark.parametrize("ratio", [1.0, 2.6, 8.0])
def test_samples_have_the_law(law: Law, ratio: float) -> None:
    seen = counted(law, ratio, 1_500_000, seed=5)
    assert level(seen, law, ratio) > ACCEPT
    assert level(seen, law, ratio, wrong=1.01) < REJECT
    assert level(seen, law, ratio, wrong=0.99) < REJECT


@pytest.mark.slow
@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.name)
def test_a_variance_off_by_a_thousandth_is_noticed(law: Law) -> None:
    ratio = 1.5
    seen = counted(law, ratio, 350_000_000, seed=6)
    assert level(seen, law, ratio) > ACCEPT
    for wrong in (1.001**0.5, 0.999**0.5):
        assert level(seen, law, ratio, wrong=wrong) < REJECT


def test_fine_lattices_have_the_moments_of_the_normal_law() -> None:
    found = exact_noise(GAUSSIAN, 2.0**26, 400_000, NoiseSource(7)) / 2.0**26
    assert abs(found.mean()) < 4 / 400_000**0.5
    assert abs(found.var() - 1) < 4 * (2 / 400_000) ** 0.5
    assert abs(np.mean(found**4) - 3) < 4 * (96 / 400_000) ** 0.5
    assert abs(np.corrcoef(found[1:], found[:-1])[0, 1]) < 4 / 400_000**0.5


def test_noise_of_many_chunks_is_the_noise_of_its_words() -> None:
    """The stream is: a first word for every value, then what the undecided draw, in order."""
    count, ratio = 5 * CHUNK + 5, 2.0**32
    found, source = exact_noise(LAPLACE, ratio, count, NoiseSource(8)), NoiseSource(8)
    words = np.concatenate([source.words(min(CHUNK, count - k)) for k in range(0, count, CHUNK)])
    expected, undecided = rounded(LAPLACE, words, ratio)
    for at in undecided:
        expected[at] = settle(LAPLACE, int(words[at]), ratio, lambda: int(source.words(1)[0]))
    assert np.array_equal(found, expected)
    assert len(undecided) > 3


@pytest.mark.parametrize("ratio", [0.0, -1.0, float("nan"), float("inf"), 2.0**33, 2.0**-11])
def test_ratios_that_cannot_be_served(ratio: float) -> None:
    with pytest.raises(InvalidParameter, match="scale / step must be"):
        exact_noise(GAUSSIAN, ratio, 3, NoiseSource(1))


def test_no_noise_at_all() -> None:
    assert exact_noise(GAUSSIAN, 1.0, 0, NoiseSource(1)).shape == (0,)
    with pytest.raises(InvalidParameter, match="count must be"):
        exact_noise(GAUSSIAN, 1.0, -1, NoiseSource(1))
