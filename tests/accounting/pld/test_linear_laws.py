"""Laws on a linear grid: above and below in convex order, and errors that would break that."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mustdp.accounting.epochs.sums import IndependentSum, _scanned, above, below, places
from mustdp.accounting.epochs.tables import OneSide, outcome_pair
from mustdp.accounting.epochs.terms import Term
from mustdp.accounting.pld.discretise import DiscreteLoss
from mustdp.mechanisms.mechanism import GaussianNoise
from mustdp.numerics.convex import lower_hull
from tests.arrays import FloatArray

TERMS = [Term(1.0), Term(0.2), Term(3.0), Term(0.8, 1.3), Term(0.3, 4.0)]


def calls(law: DiscreteLoss, x: FloatArray) -> FloatArray:
    return np.asarray(np.maximum(law.losses - x[:, None], 0.0) @ law.masses)


def exact(term: Term, x: FloatArray) -> FloatArray:
    return term.value(term.mean + x) + np.maximum(-x, 0.0)


def grid(term: Term, fineness: float) -> tuple[float, FloatArray]:
    spread = float(term.value(np.array([term.mean]))[0])
    return fineness * spread, np.linspace(-6.0, 12.0, 371) * spread


def is_above(law: DiscreteLoss, term: Term, cut: float, x: FloatArray) -> bool:
    return bool(np.all(calls(law, x) + cut >= exact(term, x) * (1.0 - 1e-9)))


@pytest.mark.parametrize("term", TERMS, ids=str)
@settings(max_examples=8, deadline=None)
@given(fineness=st.floats(0.02, 0.8), centre=st.sampled_from([0.0, 2.5, -1.7]))
def test_one_law_is_above_and_one_below(term: Term, fineness: float, centre: float) -> None:
    spacing, x = grid(term, fineness)
    middle = centre * spacing / fineness
    index = places(spacing, float(x[0]) * 3, float(x[-1]) * 3, even=40, centre=middle)
    upper = above(term, spacing, index)
    assert is_above(upper.law, term, upper.cut_high, x)
    assert upper.law.total == pytest.approx(1.0, abs=1e-9)
    lower = below(term, spacing, index).law
    assert np.all(calls(lower, x) <= exact(term, x) * (1.0 + 1e-9) + 1e-14)
    assert lower.total <= 1.0 + 1e-12
    # Puts as well: the means agree.
    assert abs(lower.mean) <= 1e-9 * spacing / fineness + 1e-12


def test_mass_moved_to_one_neighbour_only_is_noticed() -> None:
    term = Term(1.0)
    spacing, x = grid(term, 0.3)
    index = places(spacing, float(x[0]) * 3, float(x[-1]) * 3)
    right = above(term, spacing, index)
    cdf = term.tails(term.mean + index.astype(np.float64) * spacing)[0]
    # All of a cell to its lower end: right in the limit, and too little everywhere.
    moved = DiscreteLoss(spacing, index[:-1], np.diff(cdf))
    assert is_above(right.law, term, right.cut_high, x)
    assert not is_above(moved, term, right.cut_high, x)
    # And the law from below is no law from above.
    assert not is_above(below(term, spacing, index).law, term, 0.0, x)


def test_sums_are_bracketed_as_monte_carlo_sees_them() -> None:
    rng, s, bins = np.random.default_rng(5), 1.1, 5
    g = rng.standard_normal((400_000, bins))
    drawn = np.exp(s * g - s * s / 2).sum(axis=1) - bins
    for mirrored in (False, True):
        total = IndependentSum(Term(s), bins, mirrored=mirrored)
        y = np.array([0.0, 0.7, 1.5])
        aim = total.aim(0.0, 1.5)
        low, high = total.lower(y, aim), total.upper(y, aim)
        assert np.all(low <= high)
        assert np.all(high <= 1.02 * low)
        seen = np.maximum((-drawn if mirrored else drawn)[:, None] - y, 0.0)
        error = 5.0 * seen.std(axis=0) / np.sqrt(g.shape[0])
        assert np.all(low - error <= seen.mean(axis=0))
        assert np.all(seen.mean(axis=0) <= high + error)


def test_a_pair_below_a_known_profile() -> None:
    noise, size = GaussianNoise(), np.array(1.3)
    x = np.concatenate([[0.0], np.geomspace(1e-3, 60.0, 300)])
    profile = noise.profile(size, np.log1p(x))
    side = OneSide(x, profile * (1.0 - 1e-3), profile * (1.0 + 1e-3))
    pair = outcome_pair("aligned", side, side)
    assert pair.p.sum() <= 1.0
    for epsilon in (0.0, 0.01, 0.5, 2.0, 4.0):
        truth = float(noise.profile(size, np.array(epsilon)))
        assert 0.98 * truth <= pair.attained(epsilon) <= truth
    # Bounds that are exchanged claim more than there is.
    wrong = OneSide(x, profile * (1.0 + 1e-2), profile * (1.0 - 1e-2))
    assert outcome_pair("aligned", wrong, wrong).attained(1.0) > float(
        noise.profile(size, np.array(1.0))
    )


@pytest.mark.parametrize("seed", range(6))
def test_one_scan_of_puts_and_calls_is_the_hull_of_calls(seed: int) -> None:
    draws = np.random.default_rng(seed)
    x = np.sort(draws.uniform(-3.0, 4.0, 60))
    # Prices above both lines that no call is below, and not convex.
    calls = np.maximum(-x, 0.0) + np.exp(-np.abs(x)) * draws.uniform(0.5, 1.0, x.size)
    turn = int(np.argmax(x >= 0.0))
    values = np.where(np.arange(x.size) < turn, calls + x, calls)
    assert _scanned(x, values, turn).tolist() == lower_hull(x, calls).tolist()
