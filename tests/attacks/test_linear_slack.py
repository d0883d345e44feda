"""Rounding to the lattice is part of what a record of a linear model may move."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray

import mustdp as md
from mustdp.numerics.arrays import ROUNDOFF
from mustdp.randomness.keys import NoiseSource
from mustdp.training.linear.descent import (
    ExactNoise,
    LinearRecords,
    Recipe,
    SquaredError,
    descend,
    exact_noise,
)

WIDTH, CLIP = 100, 1.0


def noise_of(
    noise_multiplier: float, rows: NDArray[np.float64], targets: NDArray[np.float64]
) -> ExactNoise:
    scheme = md.random_allocation(2, 1)
    budget = md.types.Budget(
        scheme, noise_multiplier, 1, 1e-5, md.types.Relation.ADD_REMOVE, "test"
    )
    records = LinearRecords(rows, targets, SquaredError(), False)
    return exact_noise(records, Recipe(budget, CLIP, np.ones(1), 0.0), NoiseSource())


def steps_of_sum(
    noise: ExactNoise, rows: NDArray[np.float64], targets: NDArray[np.float64]
) -> NDArray[np.int64]:
    """The sum that noise is added to, in steps of the lattice, at weights of zero."""
    records = LinearRecords(rows, targets, SquaredError(), False)
    batch = md.types.Batch(np.arange(len(rows)), np.ones(len(rows), dtype=np.int64))
    total, _ = records.clipped_sum(np.zeros((1, WIDTH)), batch, noise.bound)
    steps: NDArray[np.int64] = noise._noise.lattice.rounded(total)[0]
    return steps


@pytest.mark.parametrize("noise_multiplier", [1000.0, 3000.0, 8000.0])
def test_rounding_of_both_sums_stays_within_the_clip(noise_multiplier: float) -> None:
    """A record that is there leaves each entry just below half a step, and the one that is added
    lifts it just above the next half: each entry moves by nearly a step more than it contributes.
    """
    noise = noise_of(noise_multiplier, np.zeros((2, WIDTH)), np.zeros(2))
    step = noise._noise.lattice.step
    most = noise.bound / step
    whole = np.full(WIDTH, math.floor(most / math.sqrt(WIDTH)) - 1)
    for _ in range(4):  # as many entries as the bound allows are made a step longer
        for entry in range(WIDTH):
            whole[entry] += 1
            if np.linalg.norm(whole + 1 / 32) > most * (1 - 1e-12):
                whole[entry] -= 1
    # Gradients are -2 y x at weights of zero, so that these add 1/2 - 1/64 steps, and x.
    rows = np.stack([np.ones(WIDTH), (whole + 1 / 32) * step])
    targets = np.array([-(1 / 2 - 1 / 64) * step / 2, -0.5])
    before = steps_of_sum(noise, rows[:1], targets[:1])
    after = steps_of_sum(noise, rows, targets)
    assert not before.any()
    assert np.array_equal(after, whole + 1)  # the record was not clipped, and all were lifted
    moved = sum(int(entry) ** 2 for entry in after - before) * Fraction(step) ** 2
    assert moved <= Fraction(CLIP) ** 2
    # Nearly all of the slack is needed: a part of it would not do.
    assert moved > (Fraction(CLIP) - Fraction(step)) ** 2


@pytest.mark.parametrize(("entries", "copies", "additions"), [(1, 1, 1), (785, 10**4, 5000)])
def test_the_slack_covers_what_was_derived(entries: int, copies: int, additions: int) -> None:
    """Twice the error of the sum and twice that of the lattice, with room for the last digits."""
    noise = ExactNoise(
        NoiseSource(), 2.0, CLIP, entries=entries, copies=copies, additions=additions
    )
    step = noise._noise.lattice.step
    error = additions * ROUNDOFF * copies * CLIP + 0.5 * math.sqrt(entries) * step
    assert noise.bound <= CLIP - 2.0 * error
    assert noise.bound >= CLIP - 2.1 * error


def test_the_error_of_the_sum_is_counted_for_the_largest_batch() -> None:
    """However N products are cut into blocks, s in a block and t blocks, s + t >= 2 sqrt(N)."""
    n = 10**6
    records = LinearRecords(np.ones((5, 1)), np.zeros(5), SquaredError(), False)
    budget = md.types.Budget(md.wor(n, n), 1.0, 1, 1e-9, md.types.Relation.REPLACE_ONE, "test")
    noise = exact_noise(records, Recipe(budget, CLIP, np.ones(1), 0.0), NoiseSource())
    assert noise.bound <= CLIP - 2.0 * (2.0 * math.sqrt(n)) * ROUNDOFF * n * CLIP


class Recorded:
    """Releases sums as they are, with a bound well below the clip."""

    bound = 0.25

    def released(self, total: NDArray[np.float64]) -> NDArray[np.float64]:
        return total


def test_a_run_clips_to_the_bound_that_the_slack_leaves() -> None:
    records = LinearRecords(np.ones((1, 1)), np.full(1, 100.0), SquaredError(), False)
    budget = md.types.Budget(md.wor(1, 1), 1.0, 1, 1e-5, md.types.Relation.REPLACE_ONE, "test")
    recipe = Recipe(budget, CLIP, np.ones(1), 0.0)
    weights = descend(records, recipe, None, noise=Recorded()).weights
    assert 0.2499 < weights[0, 0] <= 0.25
