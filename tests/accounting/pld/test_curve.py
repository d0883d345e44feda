"""Curves of composed losses: where their pairs are asked, and what their moments leave out."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from mustdp.accounting.pld.discretise import DiscreteLoss, DominatingPair, Grid
from mustdp.accounting.pld.readoff import ComposedLoss, UpperCurve
from tests.arrays import FloatArray


def test_a_curve_asks_its_pairs_at_or_below_the_grid() -> None:
    asked: list[FloatArray] = []

    def profile(epsilon: FloatArray) -> FloatArray:
        asked.append(epsilon)
        return np.exp(-1.0 - epsilon)

    points, spacing = np.arange(0, 60), 0.07
    pair = DominatingPair(profile, lambda e: profile(e))
    UpperCurve([pair], [3], Grid(spacing, (points,)))
    assert len(asked) == 2
    for epsilon in asked:
        for point, where in zip(points.tolist(), epsilon, strict=True):
            assert Fraction(float(where)) <= point * Fraction(spacing)


def test_moments_say_how_much_they_leave_out() -> None:
    masses = np.array([0.6, 0.3, 0.06, 0.03, 0.01])
    loss = DiscreteLoss(0.1, np.array([-2, 1, 5, 9, 30]), masses)
    outside = ComposedLoss([(loss, 3)], "upper").log_mgf(np.array([1.0]), 0.15)[1]
    assert outside >= 1 - 0.96**3  # the two largest losses, at most 5 % in each step
    assert outside == pytest.approx(1 - 0.96**3, rel=1e-9)
