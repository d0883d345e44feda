"""Noisy gradient descent on batches of a scheme: Algorithm S1 of the MUST paper, for linear models.

Every step draws a batch, sums the clipped gradients of its distinct records weighted by their
counts, adds Gaussian noise of standard deviation z * clip to that sum, and divides by the batch
size of the scheme: the fixed m, or the expected n * rate for Poisson. It never divides by the
realised size, which would be one more thing to protect. An empty batch is a step of noise alone.

[Z] = Zhao, Zhou & Liu, arXiv 2312.13389, supplement, Algorithm S1. Their sigma is on the mean, so
that sigma = z * clip / m here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from mustdp.errors import InvalidParameter, NumericalFailure
from mustdp.numerics.arrays import FloatArray
from mustdp.numerics.checks import frozen
from mustdp.randomness.keys import BatchKey, noise_generator
from mustdp.sampling.scheme import Scheme
from mustdp.training.budget import Budget
from mustdp.training.linear.clipping import Records

OnStep = Callable[[int], object]


def check_draws(scheme: Scheme) -> None:
    """Refuse a scheme that never draws anything: its expected size is what sums are divided by."""
    if not scheme.expected_size > 0:
        raise InvalidParameter(f"scheme must draw at least one record, got {scheme!r}")


@dataclass(frozen=True)
class Recipe:
    """All that a run needs besides the data; ``settings.py`` settles and checks it beforehand."""

    budget: Budget
    clip: float
    rates: FloatArray
    start: float

    def __post_init__(self) -> None:
        check_draws(self.budget.scheme)

    @property
    def deviation(self) -> float:
        """Standard deviation of the noise on the sum of clipped gradients."""
        return self.budget.noise_multiplier * self.clip

    @property
    def step_sizes(self) -> FloatArray:
        """What the noisy sum of each step is multiplied by: its rate over the batch size."""
        sizes: FloatArray = self.rates / self.budget.scheme.expected_size
        return sizes


@dataclass(frozen=True)
class Descent:
    """The last weights of a run, (K, width), and the mean loss of every batch (not private)."""

    weights: FloatArray
    losses: FloatArray


def descend(
    records: Records, recipe: Recipe, seed: int | BatchKey, on_step: OnStep | None = None
) -> Descent:
    """Run all steps of ``recipe`` on ``records``; ``on_step`` hears the number of each."""
    weights = np.full((records.loss.outputs, records.width), recipe.start)
    noise, sizes = noise_generator(seed), recipe.step_sizes
    losses = np.empty(recipe.budget.steps)
    batches = recipe.budget.scheme.batches(seed, count=recipe.budget.steps)
    with np.errstate(over="ignore", invalid="ignore"):
        for step, batch in enumerate(batches):
            total, losses[step] = records.clipped_sum(weights, batch, recipe.clip)
            total += recipe.deviation * noise.standard_normal(weights.shape)
            weights -= sizes[step] * total
            if on_step is not None:
                on_step(step + 1)
    check_converged(weights, recipe.rates)
    return Descent(frozen(weights), frozen(losses))


def check_converged(weights: FloatArray, rates: FloatArray) -> None:
    """Refuse weights beyond floating point; they are private, so looking at them costs nothing."""
    if not np.isfinite(weights).all():
        raise NumericalFailure(
            "the weights are no longer finite: the learning rate (here up to "
            f"{float(np.max(rates)):g}) is too large for this clip and noise"
        )
