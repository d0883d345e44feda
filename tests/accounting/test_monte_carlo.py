"""Simulated losses of attained pairs: estimates of delta must be inside the bounds.

Delta is the mean of (1 - e^(eps - L))_+ under P, with values in [0, 1], so Hoeffding's inequality
gives an interval of any level. A false alarm has probability 1e-6 per comparison.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.typing import NDArray

import mustdp as md

FloatArray = NDArray[np.float64]
SAMPLES = 400_000
LEVEL = 1e-6
WIDTH = math.sqrt(math.log(2 / LEVEL) / (2 * SAMPLES))


def simulated(
    scheme: md.types.Scheme, shift: float, steps: int, way: str, rng: np.random.Generator
) -> FloatArray:
    """Losses of ``steps`` steps of the aligned, reversed or symmetric pair under P."""
    chances = scheme.multiplicity()
    places = np.arange(chances.size, dtype=np.float64) * shift
    total = np.zeros(SAMPLES)
    for _ in range(steps):
        noise = rng.standard_normal(SAMPLES)
        drawn = rng.choice(places, size=SAMPLES, p=chances / chances.sum())
        if way == "aligned":
            total += mixture_ratio(chances, places, noise + drawn)
        elif way == "reversed":
            total -= mixture_ratio(chances, places, noise)
        else:
            x = noise + drawn / 2
            total += mixture_ratio(chances, places / 2, x) - mixture_ratio(chances, places / 2, -x)
    return total


def mixture_ratio(chances: FloatArray, places: FloatArray, x: FloatArray) -> FloatArray:
    terms = [p * np.exp(a * x - a * a / 2) for p, a in zip(chances, places, strict=True) if p > 0]
    return np.asarray(np.log(np.sum(terms, axis=0)))


@pytest.mark.parametrize(
    ("scheme", "shift"),
    [(md.wor(20, 4), 1.0), (md.wr(20, 6), 0.8), (md.must_ow(30, 10, 8), 0.7)],
    ids=["wor", "wr", "must-ow"],
)
def test_simulated_deltas_are_inside_the_bounds(scheme: md.types.Scheme, shift: float) -> None:
    rng = np.random.default_rng(20_240_613)
    steps = 8
    plan = md.repeat(steps, md.subsample(scheme, md.gaussian(shift=shift)))
    account = md.account(plan, relation="replace_one", composition="pair")
    best = dict.fromkeys((0.2, 1.0, 2.0), 0.0)
    for way in ("aligned", "reversed", "symmetric"):
        losses = simulated(scheme, shift, steps, way, rng)
        for epsilon in best:
            estimate = float(np.mean(-np.expm1(np.minimum(epsilon - losses, 0.0))))
            best[epsilon] = max(best[epsilon], estimate)
    for epsilon, estimate in best.items():
        bounds = account.delta(epsilon)
        assert estimate - WIDTH <= bounds.upper
        assert bounds.lower <= estimate + WIDTH
        # The test can fail: bounds of a plan with a tenth more steps do not fit the estimate.
    longer = md.account(
        md.repeat(steps + 4, md.subsample(scheme, md.gaussian(shift=shift))),
        relation="replace_one",
        composition="pair",
    )
    assert longer.delta(1.0).lower > best[1.0] + WIDTH
    shorter = md.account(
        md.repeat(steps - 4, md.subsample(scheme, md.gaussian(shift=shift))),
        relation="replace_one",
        composition="pair",
    )
    assert shorter.delta(1.0).upper < best[1.0] - WIDTH


def test_removing_a_record_by_simulation() -> None:
    """Under add_remove the two bounds meet at the simulated value."""
    rng = np.random.default_rng(7)
    scheme, shift, steps = md.wr(20, 6), 0.8, 8
    account = md.account(
        md.repeat(steps, md.subsample(scheme, md.gaussian(shift=shift))), relation="add_remove"
    )
    losses = simulated(scheme, shift, steps, "aligned", rng)
    for epsilon in (0.2, 1.0, 2.0):
        estimate = float(np.mean(-np.expm1(np.minimum(epsilon - losses, 0.0))))
        bounds = account.delta(epsilon)
        assert bounds.direction == "remove"
        assert abs(estimate - bounds.upper) <= WIDTH + 0.01 * bounds.upper
        assert abs(estimate - bounds.lower) <= WIDTH + 0.01 * bounds.upper
