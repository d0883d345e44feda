"""Many independent runs side by side, for simulations: the same results as one after another.

Chain number r is decided by seed number r alone. It draws the batches that a single run with that
seed would draw, and noise in floating point, which is no release but
quickly made; the arithmetic of all chains is done at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mustdp.numerics.arrays import FloatArray, IntArray
from mustdp.numerics.checks import frozen
from mustdp.randomness.keys import noise_generator
from mustdp.sampling.batch import Batch
from mustdp.sampling.streams import BatchStream
from mustdp.training.linear.clipping import clip_gradient, rows_and_norms
from mustdp.training.linear.descent import Descent, OnStep, Recipe, check_converged
from mustdp.training.linear.exact_scores import Grid
from mustdp.training.linear.losses import Loss

#: Entries of gathered rows that are worked on at once.
_GATHERED = 1 << 17


class StackedRecords:
    """The records of R chains: one data set for all of them, or one each (R, n, d)."""

    def __init__(
        self,
        rows: NDArray[Any],
        targets: NDArray[Any],
        loss: Loss,
        fit_intercept: bool,
        chains: int,
    ) -> None:
        own = rows.ndim == 3
        self.loss, self.fit_intercept = loss, fit_intercept
        self.grid = Grid.of(rows.shape[-1])
        self.rows, self.norms = rows_and_norms(
            rows.reshape(-1, rows.shape[-1]), self.grid, fit_intercept
        )
        own_targets = targets.ndim == 2
        self.targets = np.ascontiguousarray(targets.reshape(-1))
        each = np.arange(chains, dtype=np.int64) * rows.shape[-2]
        self._row_offset = each if own else np.zeros_like(each)
        self._target_offset = each if own_targets else np.zeros_like(each)
        self.chains = chains

    @property
    def width(self) -> int:
        """Parameters per score: the features, and the intercept where there is one."""
        return int(self.rows.shape[1]) + self.fit_intercept

    def clipped_sums(
        self, weights: FloatArray, batches: Sequence[Batch], clip: float
    ) -> tuple[FloatArray, FloatArray]:
        """What ``Records.clipped_sum`` gives, for every chain: (R, K, width) and (R,)."""
        indices, counts = _padded(batches)
        totals, losses = np.empty_like(weights), np.full(self.chains, np.nan)
        together = max(1, _GATHERED // max(1, indices.shape[1] * self.rows.shape[1]))
        for begin in range(0, self.chains, together):
            part = slice(begin, begin + together)
            totals[part], losses[part] = self._some(
                weights[part], indices[part], counts[part], clip, part
            )
        return totals, losses

    def _some(
        self, weights: FloatArray, indices: IntArray, counts: FloatArray, clip: float, part: slice
    ) -> tuple[FloatArray, FloatArray]:
        features = self.rows.shape[1]
        places = indices + self._row_offset[part, None]
        rows = self.rows[places].astype(np.float64, copy=False)
        scores = self.grid.weights(weights[:, :, :features]) @ rows.swapaxes(1, 2)
        if self.fit_intercept:
            scores += weights[:, :, features, None]
        targets = self.targets[indices + self._target_offset[part, None]]
        gradient, values = self.loss.evaluate(scores, targets)
        clip_gradient(gradient, self.norms[places], counts, clip, features)
        totals = np.empty_like(weights)
        totals[:, :, :features] = gradient @ rows
        if self.fit_intercept:
            totals[:, :, features] = gradient.sum(axis=-1)
        return totals, np.einsum("rk,rk->r", values, counts) / counts.sum(axis=1)


def descend_chains(
    records: StackedRecords,
    recipe: Recipe,
    seeds: Sequence[int],
    *,
    keep_path: bool = False,
    on_step: OnStep | None = None,
) -> Descent:
    """Run one chain per seed; chain r is what ``descend`` gives for it with simulated noise.

    Weights are (R, K, width), losses (R, steps) and all weights, if they are kept, (R, steps, K,
    width).
    """
    steps, scheme = recipe.budget.steps, recipe.budget.scheme
    weights = np.full((len(seeds), records.loss.outputs, records.width), recipe.start)
    streams = [BatchStream(scheme, seed, stop=steps) for seed in seeds]
    noises = [noise_generator(seed) for seed in seeds]
    drawn, losses = np.empty_like(weights), np.empty((len(seeds), steps))
    path = np.empty((steps, *weights.shape)) if keep_path else None
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        for step, size in enumerate(recipe.step_sizes):
            batches = [next(stream) for stream in streams]
            totals, losses[:, step] = records.clipped_sums(weights, batches, recipe.clip)
            for noise, own in zip(noises, drawn, strict=True):
                noise.standard_normal(out=own)
            totals += recipe.deviation * drawn
            weights -= size * totals
            if path is not None:
                path[step] = weights
            if on_step is not None:
                on_step(step + 1)
    check_converged(weights, recipe.rates)
    return Descent(
        frozen(weights), frozen(losses), None if path is None else frozen(path.swapaxes(0, 1))
    )


def _padded(batches: Sequence[Batch]) -> tuple[IntArray, FloatArray]:
    """Indices and counts of all batches as two tables; entries beyond a batch count zero."""
    sizes = np.array([batch.distinct for batch in batches])
    held = np.arange(max(1, int(sizes.max()))) < sizes[:, None]
    indices, counts = np.zeros(held.shape, dtype=np.int64), np.zeros(held.shape)
    indices[held] = np.concatenate([batch.indices for batch in batches])
    counts[held] = np.concatenate([batch.counts for batch in batches])
    return indices, counts
