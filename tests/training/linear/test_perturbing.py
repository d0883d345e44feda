"""What a step releases: on the lattice, within the sensitivity that was accounted for."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mustdp as md
from mustdp import InvalidParameter
from mustdp.randomness.keys import NoiseSource
from mustdp.training.linear.descent import (
    ExactNoise,
    LinearRecords,
    Recipe,
    SquaredError,
    descend,
    exact_noise,
)
from mustdp.types import Batch
from tests.training.linear.problems import budget_of, loss_of, targets_of


def whole(indices: int) -> Batch:
    return Batch(np.arange(indices), np.ones(indices, dtype=np.int64))


def exact_norm(vector: Any) -> float:
    """The 2-norm, from exact squares."""
    total = sum((Fraction(float(x)) ** 2 for x in np.ravel(vector)), Fraction(0))
    scale = Fraction(2) ** 200
    return math.isqrt(int(total * scale * scale)) / float(scale)


@settings(max_examples=60)
@given(
    st.sampled_from(["squared", "logistic", "multinomial"]),
    st.integers(1, 40),
    st.floats(-30, 30),
    st.floats(-30, 30),
    st.floats(-29, 8),
    st.booleans(),
)
def test_no_record_contributes_more_than_the_bound(
    kind: str, features: int, rows: float, start: float, clip: float, single: bool
) -> None:
    """One record alone, magnitudes from 1e-30 to 1e30, its contribution squared exactly."""
    rng = np.random.default_rng(5)
    data = rng.normal(size=(1, features)) * 10.0**rows
    if single:
        data = data.astype(np.float32)
        if not np.isfinite(data).all():
            return
    records = LinearRecords(data, targets_of(kind, 1, rng), loss_of(kind), True)
    weights = rng.normal(size=(records.loss.outputs, records.width)) * 10.0**start
    bound = 10.0**clip
    with np.errstate(all="ignore"):
        total, _ = records.clipped_sum(weights, whole(1), bound)
    assert exact_norm(total) <= bound


def test_swapping_a_record_moves_the_sum_by_the_bound_at_most() -> None:
    """Many records that add up to much, and the one that differs at both ends of its range."""
    n = 200_000
    rng = np.random.default_rng(6)
    data = np.concatenate([rng.uniform(0.1, 1.0, (n, 1)) * 1e3, np.ones((n, 1))], axis=1)
    targets = np.full(n, -1e6)
    noise = exact_noise(
        LinearRecords(data, targets, SquaredError(), False),
        Recipe(budget_of(md.wor(n, n), 1, 1.0), 1.0, np.ones(1), 0.0),
        NoiseSource(),
    )
    sums = []
    for end in (-1e6, 1e6):
        targets[0] = end
        records = LinearRecords(data, targets, SquaredError(), False)
        total, _ = records.clipped_sum(np.zeros((1, 2)), whole(n), noise.bound)
        sums.append(noise._noise.lattice.points(noise._noise.lattice.rounded(total)))
    assert exact_norm(sums[0]) > 0.9 * n
    moved = exact_norm(sums[1] - sums[0])
    assert 1.99 < moved <= 2.0


def test_everything_released_lies_on_the_lattice() -> None:
    records = LinearRecords(
        np.random.default_rng(1).normal(size=(50, 3)), np.zeros(50), SquaredError(), True
    )
    recipe = Recipe(budget_of(md.wor(50, 20), 1, 1.3), 0.7, np.full(1, 20.0), 0.0)
    noise = exact_noise(records, recipe, NoiseSource())
    step = noise._noise.lattice.step
    # The rate over the batch size is one: the weights are what was released.
    weights = descend(records, recipe, None).weights
    assert np.array_equal(np.rint(weights / step), weights / step)
    assert step <= 2.0**-20 * recipe.deviation


def test_weights_are_in_the_range_of_no_normal_generator() -> None:
    """Without the record the sum is zero: would every weight be deviation times a double?

    With floating-point noise they all are, and with a record hardly any: that told them apart. The
    same question about exact noise has the same answer with the record and without.
    """
    deviation, width = 1.3, 2000

    def found(noise: np.ndarray[Any, Any]) -> float:
        guess = noise / deviation
        near = [np.nextafter(guess, -np.inf), guess, np.nextafter(guess, np.inf)]
        return float(np.mean(np.any([deviation * x == noise for x in near], axis=0)))

    rng = np.random.default_rng(2)
    plain = deviation * rng.standard_normal(width)
    assert found(plain) == 1.0
    assert found(plain + 0.1) < 0.95
    exact = ExactNoise(NoiseSource(), deviation, 1.0, entries=width, copies=10, additions=10)
    absent, present = (found(exact.released(np.full(width, x))) for x in (0.0, 0.1))
    # Lattice points have bits to spare, so nearly all are products with and without the record.
    assert abs(absent - present) < 5 * math.sqrt(0.25 / width)


@pytest.mark.parametrize(
    ("deviation", "clip", "copies"), [(1e9, 1.0, 10), (1e-12, 1.0, 10**6), (1.0, 1.0, 2**53)]
)
def test_what_rounding_would_decide_is_refused(deviation: float, clip: float, copies: int) -> None:
    with pytest.raises(InvalidParameter, match=r"max_grad_norm must|records \* reach"):
        ExactNoise(NoiseSource(), deviation, clip, entries=100, copies=copies, additions=1000)
