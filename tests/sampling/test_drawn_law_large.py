"""Draws of real size, one test per way of drawing, against exact laws and laws close by.

Tiny draws never sort, split or leave numpy's binomial sampler; these do.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import norm

import mustdp as md
from mustdp.sampling import schemes
from tests.sampling.chi_square import ACCEPT, REJECT, p_value, p_value_of_numbers
from tests.sampling.exact_laws import distinct_law


def copies(scheme: md.types.Scheme, group: int, draws: int, seed: int) -> list[int]:
    """Copies of the last ``group`` records in each of many draws."""
    rng = np.random.default_rng(seed)
    first = scheme.n - group
    found = []
    for _ in range(draws):
        batch = scheme.draw(rng)
        found.append(int(batch.counts[batch.indices >= first].sum()))
    return found


def level(numbers: list[int], law: schemes.Window) -> float:
    return p_value_of_numbers(numbers, law.first, law.probabilities)


@pytest.mark.parametrize(
    ("scheme", "close_by", "group"),
    [
        (md.wr(3000, 200), md.wr(3000, 208), 600),  # sorted
        (md.wor(30_000, 400), md.wor(30_000, 412), 6000),  # few of many
        (md.wor(20_000, 4000), md.wr(20_000, 4000), 8000),  # many of many
        (md.must_ow(3000, 60, 150), md.wr(3000, 150), 900),  # counted, then placed
        (md.must_ww(3000, 60, 150), md.wr(3000, 150), 900),  # counted, then sorted
        (md.must_ww(4000, 3000, 150), md.must_ww(4000, 400, 150), 1200),  # sorted twice
        (md.must_ww(900, 60, 150), md.wr(900, 150), 300),  # counted twice
        (md.must_ow(10**9, 40, 60_000), md.must_ow(10**9, 44, 60_000), 3 * 10**8),  # split
        (
            md.multistage(5000, [("wor", 100), ("wr", 90), ("wr", 80)]),
            md.multistage(5000, [("wor", 100), ("wr", 80)]),
            1500,
        ),
        (md.poisson(10**6, 1e-4), md.poisson(10**6, 1.04e-4), 10**6),
    ],
    ids=str,
)
def test_copies_of_a_group(scheme: md.types.Scheme, close_by: md.types.Scheme, group: int) -> None:
    found = copies(scheme, group, 6_000, seed=41)
    assert level(found, scheme.law(group)) > ACCEPT
    assert level(found, close_by.law(group)) < REJECT


@pytest.mark.parametrize(
    ("scheme", "close_by"),
    [
        (md.wr(3000, 200), md.wr(2700, 200)),
        (md.wr(150, 200), md.wr(147, 200)),
        (md.must_ow(10**6, 150, 200), md.must_ow(10**6, 147, 200)),
        (md.must_ww(3000, 150, 200), md.must_ww(3000, 147, 200)),
        (md.must_ww(10**12, 150, 200), md.must_ww(10**12, 147, 200)),
        (md.must_ww(300, 2000, 200), md.wr(300, 200)),
    ],
    ids=str,
)
def test_number_of_distinct_records(
    scheme: md.types.Multistage, close_by: md.types.Multistage
) -> None:
    rng = np.random.default_rng(17)
    found = [scheme.draw(rng).distinct for _ in range(6_000)]
    assert p_value(found, distinct_law(scheme)) > ACCEPT
    assert p_value(found, distinct_law(close_by)) < REJECT


def test_splitting_gives_the_multinomial_law_of_every_slot_and_pair() -> None:
    slots, total = 5, 10**6
    rng = np.random.default_rng(23)
    weights = np.ones(slots, dtype=np.int64)
    found = np.array([schemes.split(total, weights, rng) for _ in range(4_000)])
    assert (found.sum(axis=1) == total).all()
    one, two = (schemes.binomial(total, k, slots, 1e-20) for k in (1, 2))
    off = schemes.binomial(total + 1_000, 1, slots, 1e-20)  # half a standard deviation more
    for slot in range(slots):
        assert level(found[:, slot].tolist(), one) > ACCEPT
        assert level(found[:, slot].tolist(), off) < REJECT
    apart = np.convolve(one.probabilities, one.probabilities)
    for a, b in ((0, 1), (1, 2), (2, 3), (0, 4)):
        together = (found[:, a] + found[:, b]).tolist()
        assert level(together, two) > ACCEPT
        assert level(together, schemes.Window(2 * one.first, apart, 0.0, 0.0)) < REJECT


def test_splitting_respects_unequal_weights() -> None:
    weights = np.array([5, 0, 1, 3, 1], dtype=np.int64)
    rng = np.random.default_rng(29)
    found = np.array([schemes.split(1000, weights, rng) for _ in range(4_000)])
    assert (found[:, 1] == 0).all()
    for slot, weight in ((0, 5), (3, 3), (4, 1)):
        assert level(found[:, slot].tolist(), schemes.binomial(1000, weight, 10, 0.0)) > ACCEPT
    assert level(found[:, 0].tolist(), schemes.binomial(1000, 51, 100, 0.0)) < REJECT


def test_splitting_more_draws_than_one_binomial_number_can_give() -> None:
    total = 5 * schemes.LARGEST_TRIALS + 12_345
    rng = np.random.default_rng(31)
    weights = np.ones(3, dtype=np.int64)
    found = np.array([schemes.split(total, weights, rng) for _ in range(2_000)])
    assert (found.sum(axis=1) == total).all()
    tenths = dict(enumerate([0.1, 0.2, 0.2, 0.2, 0.2, 0.1]))
    edges = norm.ppf([0.1, 0.3, 0.5, 0.7, 0.9])
    for slot in range(3):
        spread = (found[:, slot] - total / 3) / np.sqrt(total * 2 / 9)
        assert p_value(np.searchsorted(edges, spread).tolist(), tenths) > ACCEPT
        assert p_value(np.searchsorted(edges, spread + 0.2).tolist(), tenths) < REJECT


@pytest.mark.parametrize(("n", "rate"), [(2**53, 1e-14), (2**53, 2.0**-53), (2**40, 4e-11)])
def test_poisson_beyond_the_binomial_sampler(n: int, rate: float) -> None:
    scheme, rng = md.poisson(n, rate), np.random.default_rng(37)
    sizes = [scheme.draw(rng).size for _ in range(20_000)]
    assert level(sizes, scheme.law(group=n)) > ACCEPT
    assert level(sizes, md.poisson(n, 1.06 * rate).law(group=n)) < REJECT


@pytest.mark.parametrize(
    "scheme",
    [
        md.poisson(100_000, 0.001),
        md.poisson(2**53, 100 / 2**53),
        md.wor(100_000, 100),
        md.wr(100_000, 100),
        md.must_ow(100_000, 3000, 100),
        md.must_ww(100_000, 3000, 100),
    ],
    ids=str,
)
def test_no_record_is_preferred(scheme: md.types.Scheme) -> None:
    """One record per draw, taken at random from the batch, is uniform; a tilt is rejected."""
    rng = np.random.default_rng(43)
    cells = []
    for _ in range(10_000):
        indices = scheme.draw(rng).indices
        cells.append(int(rng.choice(indices)) * 25 // scheme.n)
    even = dict.fromkeys(range(25), 1 / 25)
    tilted = {cell: (1 + 0.015 * (cell - 12)) / 25 for cell in range(25)}
    assert p_value(cells, even) > ACCEPT
    assert p_value(cells, tilted) < REJECT
