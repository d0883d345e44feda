"""Epochs seen through one sum: chances of cells, tests that exist, and the pair of their hull."""

from __future__ import annotations

import itertools
import math

import mpmath as mp
import numpy as np
import pytest
from scipy.stats import norm

from mustdp import NumericalFailure
from mustdp.accounting.epochs.observed import (
    FewLarge,
    OutcomeCells,
    Rejections,
    rejecting_above,
    rejecting_pair,
)
from tests.arrays import FloatArray

S = 0.9
CELLS = OutcomeCells(0.1, np.array([-3, 0, 2, 7]), np.array([-0.8, 0.1, 1.3]))


def brute_force(threshold: int, moved: float, batches: int) -> float:
    """Chance that the numbers of all batches add up to the threshold, one batch being moved."""
    ends = np.concatenate([[-np.inf], CELLS.ends, [np.inf]])
    still, other = np.diff(norm.cdf(ends)), np.diff(norm.cdf(ends - moved))
    found = 0.0
    for cells in itertools.product(range(4), repeat=batches):
        if sum(int(CELLS.index[cell]) for cell in cells) >= threshold:
            found += float(other[cells[0]] * np.prod(still[list(cells[1:])]))
    return found


def seen(batches: int, tilt: float, aim: float) -> Rejections:
    (absent, off), (one, _), (other, _) = (CELLS.law(shift) for shift in (0.0, S, -S))
    rest = (absent, batches - 1)
    mixed = [(1.0, [(one, 1), rest])], [(1.0, [(other, 1), rest])]
    return rejecting_above(*mixed, batches * 2 * off, tilt, aim)


def test_tests_have_the_chances_of_all_cases_counted() -> None:
    found = seen(4, 1.0, 0.5)
    exact = {(brute_force(t, S, 4), brute_force(t, -S, 4)) for t in range(-12, 29)}
    assert found.p.size > 8
    for p, q in zip(found.p.tolist(), found.q.tolist(), strict=True):
        near = min(exact, key=lambda one: abs(one[0] - p) + abs(one[1] - q))
        # P from below, Q from above, and close.
        assert near[0] * (1.0 - 1e-6) <= p <= near[0]
        assert near[1] <= q <= near[1] * (1.0 + 1e-6)


def test_few_large_cells_have_the_chances_of_all_cases_counted() -> None:
    """The last cell is large; two large ones are left out from below and added from above."""
    (absent, off), (one, _), (other, _) = (CELLS.law(shift) for shift in (0.0, S, -S))
    watched = FewLarge(absent, 4, bound=0.3, size=1.5, tilt=0.7, aim=0.5)
    found = watched.rejections(one, other, 1.0, 8 * off)
    exact = {(brute_force(t, S, 4), brute_force(t, -S, 4)) for t in range(-12, 29)}
    large = 1.0 - norm.cdf(1.3)
    two_q = 3.0 * large * (1.0 - norm.cdf(1.3 + S)) + 4.5 * large**2
    two_p = 3.0 * large * (1.0 - norm.cdf(1.3 - S)) + 3.0 * large**2
    assert found.p.size >= 3
    for p, q in zip(found.p.tolist(), found.q.tolist(), strict=True):
        assert any(a - two_p <= p <= a and b <= q <= (b + two_q) * (1.0 + 1e-6) for a, b in exact)


def test_the_pair_of_tests_attains_what_they_do_and_no_more() -> None:
    tests = seen(4, 1.0, 0.5)
    pair = rejecting_pair("symmetric", [tests], [tests])
    assert pair.p.sum() <= 1.0 <= pair.q.sum()
    ratio = pair.p / pair.q
    assert np.all(np.diff(ratio) > 0.0)
    for epsilon in (0.0, 0.4, 1.0):
        alpha = math.exp(epsilon)
        rejecting, accepting = tests.p - alpha * tests.q, 1.0 - tests.q - alpha * (1.0 - tests.p)
        best = max(0.0, float(rejecting.max()), float(accepting.max()))
        assert pair.attained(epsilon) == pytest.approx(best, rel=1e-9)
    # Backwards, it is the same by symmetry.
    back = float(np.maximum(pair.q - math.exp(0.4) * pair.p, 0.0).sum())
    assert back == pytest.approx(pair.attained(0.4), rel=1e-9)


def test_both_ends_of_the_hull_keep_their_digits() -> None:
    # The Gaussian pair itself, by tests deep in the tail.
    t = np.linspace(-1.0, 12.0, 1500)
    tests = Rejections(norm.sf(t - 1.0), norm.sf(t))
    pair = rejecting_pair("aligned", [tests], [tests])
    for epsilon in (0.0, 2.0, 8.0):
        k = epsilon - 0.5
        exact = float(norm.sf(k) - math.exp(epsilon) * norm.sf(k + 1.0))
        assert 0.999 * exact <= pair.attained(epsilon) <= exact
        back = float(np.maximum(pair.q - math.exp(epsilon) * pair.p, 0.0).sum())
        assert 0.999 * exact <= back <= exact * (1.0 + 1e-9)


def chances(ends: FloatArray, shift: float) -> list[float]:
    with mp.workdps(240):
        heads = [mp.ncdf(mp.mpf(float(end)) - mp.mpf(shift)) for end in ends]
        heads = [mp.mpf(0), *heads, mp.mpf(1)]
        return [float(b - a) for a, b in itertools.pairwise(heads)]


@pytest.mark.parametrize("shift", [0.0, 3.3, -3.3])
def test_chances_of_cells_are_as_accurate_as_they_say(shift: float) -> None:
    ends = np.concatenate([np.linspace(-25.0, 25.0, 60), [25.001, 25.003]])
    cells = OutcomeCells.trimmed(0.1, np.arange(ends.size + 1), ends, shift)
    law, error = cells.law(shift)
    off = np.abs(law.masses / np.array(chances(cells.ends, shift)) - 1.0)
    assert float(off.max()) <= 0.5 * error < 1e-9
    assert cells.ends.size == ends.size


def test_ends_too_far_out_are_merged_and_too_narrow_ones_refused() -> None:
    ends = np.array([-60.0, -1.0, 0.0, 29.0, 31.0])
    cells = OutcomeCells.trimmed(0.1, np.arange(6), ends, 0.5)
    assert cells.ends.tolist() == [-1.0, 0.0, 29.0]
    assert cells.index.tolist() == [1, 2, 3, 4]
    with pytest.raises(NumericalFailure, match="known to"):
        OutcomeCells(0.1, np.arange(3), np.array([0.1, 0.1 + 1e-15])).law(0.0)


def test_errors_of_cells_are_taken_off_p_and_added_to_q() -> None:
    absent, one, other = (CELLS.law(shift)[0] for shift in (0.0, S, -S))
    mixed = [(1.0, [(one, 1), (absent, 3)])], [(1.0, [(other, 1), (absent, 3)])]
    exact, doubted = (rejecting_above(*mixed, error, 1.0, 0.5) for error in (0.0, 1e-3))
    kept = doubted.p.size
    assert kept == exact.p.size
    assert doubted.p == pytest.approx(exact.p * (1.0 - 1e-3), rel=1e-9)
    assert doubted.q == pytest.approx(exact.q * (1.0 + 1e-3), rel=1e-9)
