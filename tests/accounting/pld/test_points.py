"""Where profiles are evaluated."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from mustdp import NumericalFailure
from mustdp.accounting.pld.discretise import (
    NEGLIGIBLE,
    DominatingPair,
    FirstLook,
    _points,
    first_look,
    lay_grid,
)
from mustdp.limits import LARGEST_EPSILON
from mustdp.mechanisms.mechanism import GaussianNoise

FloatArray = NDArray[np.float64]


def gaussian(shift: float) -> DominatingPair:
    def profile(epsilon: FloatArray) -> FloatArray:
        return GaussianNoise().profile(np.array(shift), epsilon)

    return DominatingPair(profile, profile)


@pytest.mark.parametrize("shift", [1e-6, 1e-3, 0.1, 1.0, 10.0])
def test_scouting_sees_reach_and_spread(shift: float) -> None:
    seen = first_look(gaussian(shift))
    assert seen.deviation == pytest.approx(shift, rel=0.1)  # the loss is N(s^2/2, s^2)
    assert seen.reach <= LARGEST_EPSILON
    if seen.reach < LARGEST_EPSILON:
        assert gaussian(shift).values(np.array([seen.reach]))[0][0] <= NEGLIGIBLE


def test_the_grid_is_a_fraction_of_the_typical_deviation() -> None:
    looks = [FirstLook(5.0, 0.4), FirstLook(0.5, 0.02)]
    grid = lay_grid(looks, [10, 990], 0.05)
    typical = np.sqrt((10 * 0.4**2 + 990 * 0.02**2) / 1000)
    assert grid.spacing == pytest.approx(0.05 * typical)
    for look, points in zip(looks, grid.points, strict=True):
        assert points[0] == 0
        assert np.all(np.diff(points) > 0)
        assert points[-1] * grid.spacing >= look.reach


def test_points_are_dense_near_zero_and_proportional_further_out() -> None:
    points = _points(0.01, 0.5, 40.0, 0.03)
    assert points[:50].tolist() == list(range(50))
    assert points[-1] == 4000
    assert points.size < 300
    far = points[points > 100].astype(float)
    assert np.max(far[1:] / far[:-1]) < 1.05


def test_too_many_points_are_refused() -> None:
    with pytest.raises(NumericalFailure, match="evaluations"):
        _points(1e-9, 1.0, 10.0, 0.01)
