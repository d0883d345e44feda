"""The staircase mechanism against its density, added up over fine cells."""

from __future__ import annotations

import math

import numpy as np
import pytest

import mustdp as md
from tests.arrays import FloatArray

#: Cells of this width have ends at every step where gamma is a multiple of 0.05.
WIDTH = 0.05


def masses(epsilon: float, gamma: float, moved: float) -> FloatArray:
    """Chances of fine cells of the density of Geng & Viswanath, moved by a distance."""
    x = (np.arange(-4000, 4000) + 0.5) * WIDTH
    low = math.exp(-epsilon)
    top = (1.0 - low) / (2.0 * (gamma + low * (1.0 - gamma)))
    return np.asarray(top * WIDTH * low ** np.floor(np.abs(x - moved) + 1.0 - gamma + 1e-9))


def divergence(epsilon: float, gamma: float, moved: float, at: float) -> float:
    p, q = masses(epsilon, gamma, moved), masses(epsilon, gamma, 0.0)
    return float(np.maximum(p - math.exp(at) * q, 0.0).sum())


@pytest.mark.parametrize("gamma", [0.05, 0.3, 0.5, 0.75, 1.0])
@pytest.mark.parametrize("epsilon", [0.7, 2.0])
def test_no_distance_within_a_group_costs_more_than_is_certified(
    epsilon: float, gamma: float
) -> None:
    assert masses(epsilon, gamma, 0.0).sum() == pytest.approx(1.0, rel=1e-12)
    for group in (1, 2, 3):
        account = md.account(md.staircase(epsilon, gamma), group=group)
        for share in (0.0, 0.3, 0.5, 0.77, 1.0):
            at = share * group * epsilon
            nearer = [divergence(epsilon, gamma, d * WIDTH, at) for d in range(1, 20 * group)]
            whole = divergence(epsilon, gamma, float(group), at)
            assert max(nearer) <= whole + 1e-13
            assert account.delta(at).upper == pytest.approx(whole, rel=1e-9, abs=1e-12)


def test_the_classical_figures_hold() -> None:
    """The epsilon at delta = 0; at gamma = 1/2 the loss is never 0, as in randomized response."""
    assert md.account(md.staircase(1.5, 0.2)).epsilon(delta=0).upper == pytest.approx(1.5, rel=1e-9)
    told, moved = md.randomized_response(0.9), md.staircase(0.9, 0.5)
    for at in (0.0, 0.3, 0.8):
        assert md.account(moved).delta(at).upper == pytest.approx(
            md.account(told).delta(at).upper, rel=1e-9
        )


def test_steps_that_nearly_coincide_are_kept_apart() -> None:
    """At gamma = 1/4 steps of laws that are moved by half a sensitivity meet."""
    for gamma in (0.25, math.nextafter(0.25, 1.0), 0.25 + 1e-12):
        step = md.subsample(md.wor(10, 3), md.staircase(40.0, gamma))
        bounds = md.account(step, relation="replace_one").delta(0.5)
        assert 0.2 < bounds.lower <= bounds.upper < 0.31


def test_many_records_and_tiny_epsilons_are_certified() -> None:
    few = md.account(md.staircase(1e-9, 0.3), group=100).delta(0.0)
    assert few.lower <= few.upper < 1e-7
    many = md.account(md.staircase(0.001, 0.4), group=5000).epsilon(delta=0)
    assert many.upper == pytest.approx(5.0, rel=1e-6)
    assert md.account(md.staircase(100.0, 0.4), group=20).delta(10.0).upper == pytest.approx(1.0)
