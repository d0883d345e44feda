"""Noisy gradient descent on batches of a scheme: Algorithm S1 of the MUST paper, for linear models.

Every step draws a batch, sums the clipped gradients of its distinct records weighted by their
counts, releases that sum with Gaussian noise of standard deviation z * clip (``perturbing.py``),
and divides by the batch size of the scheme: the fixed m, or the expected n * rate for Poisson and
n / bins for random allocation. It never divides by the realised size, which would be one more thing
to protect. An empty batch is a step of noise alone.

[Z] = Zhao, Zhou & Liu, arXiv 2312.13389, supplement, Algorithm S1. Their sigma is on the mean, so
that sigma = z * clip / m here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from mustdp.errors import InvalidParameter, NumericalFailure
from mustdp.mechanisms.relation import drawn_from, most_copies
from mustdp.numerics.arrays import FloatArray
from mustdp.numerics.checks import frozen
from mustdp.randomness.keys import BatchKey, batch_key
from mustdp.randomness.noise_bits import NoiseSource
from mustdp.sampling.epochs import Sampling
from mustdp.sampling.streams import BatchStream
from mustdp.training.budget import Budget
from mustdp.training.linear.clipping import Records
from mustdp.training.linear.perturbing import ExactNoise, Perturbation

#: Called with the number of each finished step: an event of the run, whose length the caller has
#: stated, and so no ``Progress``.
OnStep = Callable[[int], object]


def check_draws(scheme: Sampling) -> None:
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
        return np.asarray(self.rates / self.budget.scheme.expected_size)


@dataclass(frozen=True)
class Descent:
    """The last weights of a run, (K, width), and the mean loss of every batch (not private)."""

    weights: FloatArray
    losses: FloatArray
    #: All weights, where they were kept.
    path: FloatArray | None = None


def descend(
    records: Records,
    recipe: Recipe,
    key: BatchKey | int | None,
    on_step: OnStep | None = None,
    noise: Perturbation | None = None,
) -> Descent:
    """Run all steps of ``recipe`` on ``records``; ``on_step`` hears the number of each.

    ``key`` decides the batches. The noise is exact, secret unless the key is a seed; ``noise``
    puts another in its place, for simulations.
    """
    budget, key = recipe.budget, batch_key(key)
    scheme = drawn_from(budget.scheme, budget.relation, len(records.rows))
    weights = np.full((records.loss.outputs, records.width), recipe.start)
    if noise is None:
        noise = exact_noise(records, recipe, NoiseSource(key.seed))
    sizes, losses = recipe.step_sizes, np.empty(budget.steps)
    with np.errstate(over="ignore", invalid="ignore"):
        for step, batch in enumerate(BatchStream(scheme, key, stop=budget.steps)):
            total, losses[step] = records.clipped_sum(weights, batch, noise.bound)
            weights -= sizes[step] * noise.released(total)
            if on_step is not None:
                on_step(step + 1)
    check_converged(weights, recipe.rates)
    return Descent(frozen(weights), frozen(losses))


def exact_noise(records: Records, recipe: Recipe, source: NoiseSource) -> ExactNoise:
    """The noise of a run whose steps are released."""
    copies = most_copies(recipe.budget.scheme, recipe.budget.relation)
    return ExactNoise(
        source,
        recipe.deviation,
        recipe.clip,
        entries=records.loss.outputs * records.width,
        copies=copies,
        additions=records.additions(copies),
    )


def check_converged(weights: FloatArray, rates: FloatArray) -> None:
    """Refuse weights beyond floating point; they are private, so looking at them costs nothing."""
    if not np.isfinite(weights).all():
        raise NumericalFailure(
            "the weights are no longer finite: the learning rate (here up to "
            f"{float(np.max(rates)):g}) is too large for this clip and noise"
        )
