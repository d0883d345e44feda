"""Tiny draws against their exact joint law, and against laws close by that they must not have.

Per scheme: the copies of one record, of two records together, the number of distinct records, and
the whole vector of copies. Levels are those of chi_square.py, seeds are fixed.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import cache
from math import comb

import numpy as np
import pytest

import mustdp as md
from tests.sampling.chi_square import ACCEPT, REJECT, p_value
from tests.sampling.exact_laws import Counts, joint_law, law_of

DRAWS = 20_000

#: Each scheme with one close by: the same parameters but one, or the same sizes drawn otherwise.
PAIRS: dict[str, tuple[md.types.Scheme, md.types.Scheme]] = {
    "poisson": (md.poisson(4, 0.3), md.poisson(4, 0.33)),
    "wor": (md.wor(5, 2), md.wr(5, 2)),
    "wr": (md.wr(4, 4), md.must_ww(4, 16, 4)),
    "must-ow": (md.must_ow(5, 4, 4), md.wr(5, 4)),
    "must-ww": (md.must_ww(4, 4, 4), md.must_ow(4, 3, 4)),
    "must-wo": (md.must_wo(4, 5, 3), md.must_ow(4, 3, 3)),
    "must-oo": (md.must_oo(5, 4, 3), md.must_wo(5, 4, 3)),
    "three with": (
        md.multistage(4, [("wr", 5), ("wr", 4), ("wr", 4)]),
        md.multistage(4, [("wr", 4), ("wr", 4)]),
    ),
    "four mixed": (
        md.multistage(5, [("wor", 4), ("wr", 4), ("wor", 3), ("wr", 3)]),
        md.multistage(5, [("wor", 4), ("wr", 4), ("wr", 3)]),
    ),
}


def one_record(counts: Counts) -> int:
    return counts[-1]


def two_records(counts: Counts) -> tuple[int, int]:
    return counts[0], counts[2]


def distinct(counts: Counts) -> int:
    return sum(count > 0 for count in counts)


def everything(counts: Counts) -> Counts:
    return counts


@cache
def drawn(name: str) -> list[Counts]:
    """Vectors of copies of many draws."""
    scheme, _ = PAIRS[name]
    rng = np.random.default_rng(20_231_213)
    vectors = np.zeros((DRAWS, scheme.n), dtype=np.int64)
    for vector in vectors:
        batch = scheme.draw(rng)
        vector[batch.indices] = batch.counts
    return [tuple(vector) for vector in vectors.tolist()]


@pytest.mark.parametrize("statistic", [one_record, two_records, distinct, everything])
@pytest.mark.parametrize("name", PAIRS)
def test_draws_have_the_law(name: str, statistic: Callable[[Counts], object]) -> None:
    scheme, _ = PAIRS[name]
    assert p_value(map(statistic, drawn(name)), law_of(scheme, statistic)) > ACCEPT


@pytest.mark.parametrize("statistic", [one_record, two_records, distinct, everything])
@pytest.mark.parametrize("name", PAIRS)
def test_draws_do_not_have_the_law_close_by(
    name: str, statistic: Callable[[Counts], object]
) -> None:
    _, close_by = PAIRS[name]
    assert p_value(map(statistic, drawn(name)), law_of(close_by, statistic)) < REJECT


def test_equal_marginals_are_told_apart_by_two_records() -> None:
    """Poisson(1/2) and WOR(4, 2) agree on every single record and differ on pairs."""
    rng = np.random.default_rng(5)
    poisson, wor = md.poisson(4, 0.5), md.wor(4, 2)
    vectors = []
    for _ in range(5_000):
        taken = np.bincount(poisson.draw(rng).indices, minlength=4)
        vectors.append(tuple(taken.tolist()))
    assert p_value(map(one_record, vectors), law_of(wor, one_record)) > ACCEPT
    assert p_value(map(two_records, vectors), law_of(poisson, two_records)) > ACCEPT
    assert p_value(map(two_records, vectors), law_of(wor, two_records)) < REJECT


def test_binomial_size_then_without_replacement_is_coin_flips() -> None:
    """Exactly: a set of k records has chance Bin(k; n, q) / C(n, k) = q^k (1-q)^(n-k)."""
    n, q = 4, Fraction(3, 10)
    flips = joint_law(md.poisson(n, 0.5))
    for taken in flips:
        k = sum(taken)
        size = comb(n, k) * q**k * (1 - q) ** (n - k)
        given_size = joint_law(md.wor(n, k))[taken] if k else Fraction(1)
        assert size * given_size == q**k * (1 - q) ** (n - k)


def test_coin_flips_and_drawn_poisson_batches_pass_the_same_test() -> None:
    rng = np.random.default_rng(8)
    law = joint_law(md.poisson(4, 0.3))
    flips = [tuple(row) for row in (rng.random((DRAWS, 4)) < 0.3).astype(int).tolist()]
    assert p_value(flips, law) > ACCEPT
    assert p_value(drawn("poisson"), law) > ACCEPT
