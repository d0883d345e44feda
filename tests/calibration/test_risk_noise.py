"""Noise for what an attacker may achieve: met on the safe side, and not far from it."""

from __future__ import annotations

import math
from typing import Any

import pytest
from scipy.special import ndtr, ndtri

import mustdp as md
from mustdp import InvalidParameter

ALL = md.wor(100, 100)


@pytest.mark.parametrize(("steps", "tpr", "fpr"), [(1, 0.3, 0.1), (50, 0.05, 0.01)])
def test_tpr_of_gaussian_noise(steps: int, tpr: float, fpr: float) -> None:
    """All records in every step: mu = Phi^-1(tpr) + Phi^-1(1 - fpr) = 2 sqrt(steps)/z."""
    found = md.calibrate(ALL, tpr=tpr, fpr=fpr, steps=steps)
    exact = 2.0 * math.sqrt(steps) / float(ndtri(tpr) + ndtri(1.0 - fpr))
    assert exact <= found.noise_multiplier <= exact * 1.005
    reached = found.risk.tpr[found.risk.fpr.index(fpr)]
    assert reached.upper <= tpr
    assert reached.upper >= tpr * 0.995


@pytest.mark.parametrize("advantage", [0.01, 0.3])
def test_advantage_of_gaussian_noise(advantage: float) -> None:
    found = md.calibrate(ALL, advantage=advantage, steps=10)
    exact = 2.0 * math.sqrt(10) / (2.0 * float(ndtri(0.5 + advantage / 2)))
    assert exact <= found.noise_multiplier <= exact * 1.005
    assert found.risk.advantage.upper <= advantage
    # Noise that is a hundredth smaller is too little.
    short = 2.0 * math.sqrt(10) / (0.99 * exact)
    assert 2.0 * ndtr(short / 2.0) - 1.0 > advantage


def test_a_subsampled_plan_is_accounted_for_again() -> None:
    scheme = md.wor(100, 10)
    found = md.calibrate(scheme, tpr=0.1, fpr=0.05, steps=3)
    plan = md.repeat(3, md.subsample(scheme, found.mechanism))
    assert found.plan == plan
    assert md.account(plan).risk([0.05]).tpr[0].upper <= 0.1
    assert (found.scheme, found.steps, found.relation) == (scheme, 3, "replace_one")


@pytest.mark.parametrize(
    "target",
    [
        {"tpr": 0.05},
        {"fpr": 0.05},
        {"tpr": 0.05, "fpr": 0.05},
        {"tpr": 0.05, "fpr": 0.1},
        {"tpr": 1.0, "fpr": 0.1},
        {"tpr": float("nan"), "fpr": 0.1},
        {"tpr": 0.5, "fpr": float("nan")},
        {"advantage": 0.0},
        {"advantage": 1.0},
        {"advantage": float("nan")},
        {"advantage": 0.1, "fpr": 0.1},
        {"advantage": 0.1, "tpr": 0.2, "fpr": 0.1},
        {"advantage": 0.1, "epsilon": 1.0},
        {"advantage": 0.1, "delta": 1e-5},
        {"epsilon": 1.0},
        {},
    ],
)
def test_targets_that_are_none(target: dict[str, Any]) -> None:
    with pytest.raises(InvalidParameter):
        md.calibrate(ALL, steps=2, **target)


@pytest.mark.parametrize("target", [{"tpr": 0.5, "fpr": 0.01}, {"advantage": 0.5}])
def test_a_target_that_needs_no_noise_says_so(target: dict[str, float]) -> None:
    found = md.calibrate(md.poisson(1000, 0.01), steps=1, **target)  # type: ignore[call-overload]
    assert found.noise_multiplier == 1e-4
    assert found.limit is not None
    assert "hardly any noise" in str(found)
    needed = md.calibrate(md.poisson(1000, 0.01), steps=1, tpr=0.015, fpr=0.01)
    assert needed.limit is None
    assert needed.noise_multiplier > 1e-4
