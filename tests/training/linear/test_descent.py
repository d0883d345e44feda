"""One run: its batches, its noise, its divisor."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

import mustdp as md
from mustdp import NumericalFailure
from mustdp.training.linear.descent import (
    LinearRecords,
    Recipe,
    SquaredError,
    descend,
    learning_rates,
)
from tests.training.linear.brute_force import clipped_sum
from tests.training.linear.problems import KINDS, budget_of, records_of

#: So little noise that it cannot be seen.
SILENT = 1e-7


def recipe_of(
    scheme: md.types.Scheme, steps: int, noise: float, rate: float = 0.5, clip: float = 1.0
) -> Recipe:
    return Recipe(
        budget_of(scheme, steps, noise), clip, learning_rates(rate, "constant", steps), 0.25
    )


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("scheme", "divisor"),
    [(md.must_ow(40, 10, 25), 25), (md.wr(40, 9), 9), (md.poisson(40, 0.2), 8)],
)
def test_a_run_by_hand(kind: str, scheme: md.types.Scheme, divisor: float) -> None:
    """The stream's batches, brute-force sums, and always the fixed divisor."""
    records, seed = records_of(kind, 40, 3, np.random.default_rng(1)), 99
    done = descend(records, recipe_of(scheme, 6, SILENT), seed)
    weights = np.full((records.loss.outputs, 4), 0.25)
    sizes = set()
    for batch in scheme.batches(seed, count=6):
        sizes.add(batch.size)
        total = clipped_sum(kind, weights, records.rows, records.targets, batch, 1.0, True)
        weights = weights - 0.5 / divisor * total
    np.testing.assert_allclose(done.weights, weights, rtol=1e-6, atol=1e-6)
    if scheme.name == "poisson":
        assert len(sizes) > 1  # so the realised size would have been seen


def nothing_but_noise(n: int, width: int) -> LinearRecords:
    """Records without any gradient at the start: rows and targets that are zero."""
    return LinearRecords(np.zeros((n, width)), np.zeros(n), SquaredError(), False)


@pytest.mark.parametrize("scheme", [md.wor(50, 20), md.poisson(50, 0.4), md.poisson(50, 1e-9)])
def test_the_noise_has_the_stated_scale(scheme: md.types.Scheme) -> None:
    """Chi-square at level 1e-3, two-sided: the truth passes, 10 % off either way does not.

    With a rate of 1e-9 every batch is empty: its steps are noise alone.
    """
    width, z, clip, rate = 4000, 2.0, 3.0, 0.5
    recipe = recipe_of(scheme, 1, z, rate, clip)
    moved = descend(nothing_but_noise(50, width), recipe, 12).weights - 0.25
    deviation = rate * z * clip / scheme.expected_size
    square = float(np.sum((moved / deviation) ** 2))
    low, high = stats.chi2.ppf(0.0005, width), stats.chi2.ppf(0.9995, width)
    assert low < square < high
    for wrong in (0.9, 1.1):
        assert not low < square / wrong**2 < high
    assert abs(moved.mean()) < 3.5 * deviation / np.sqrt(width)


def test_the_noise_of_different_steps_is_independent() -> None:
    width, steps, scheme = 4000, 2, md.wor(50, 20)
    first, both = (
        descend(nothing_but_noise(50, width), recipe_of(scheme, k, 1.0), 3).weights - 0.25
        for k in (1, steps)
    )
    # The run of one step is the beginning of the run of two.
    correlation = np.corrcoef(first[0], (both - first)[0])[0, 1]
    assert abs(correlation) < 3.5 / np.sqrt(width)


def test_a_run_is_decided_by_its_seed() -> None:
    records = records_of("multinomial", 40, 3, np.random.default_rng(2))
    recipe = recipe_of(md.must_ww(40, 10, 20), 5, 1.0)
    first, again, other = (descend(records, recipe, seed).weights for seed in (1, 1, 2))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


def test_every_step_is_announced() -> None:
    heard: list[int] = []
    records = records_of("squared", 20, 2, np.random.default_rng(3))
    done = descend(records, recipe_of(md.wor(20, 5), 7, 1.0), 1, heard.append)
    assert heard == [1, 2, 3, 4, 5, 6, 7]
    assert done.losses.shape == (7,)
    with pytest.raises(ValueError, match="read-only"):
        done.weights[0, 0] = 1.0


def test_weights_beyond_floating_point_are_refused() -> None:
    records = nothing_but_noise(5, 2)
    recipe = Recipe(budget_of(md.wor(5, 1), 1, 1e5), 1.0, np.array([1e306]), 0.0)
    with pytest.raises(NumericalFailure, match="learning rate"):
        descend(records, recipe, 1)
