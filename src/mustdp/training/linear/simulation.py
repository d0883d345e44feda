"""Simulations: one estimator, many seeds or data sets, all fitted in one batched run."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mustdp.calibration.settle import PrivacySpent
from mustdp.errors import InvalidParameter
from mustdp.numerics.arrays import FloatArray, IntArray
from mustdp.numerics.checks import frozen
from mustdp.randomness.keys import noise_generator, read_seed
from mustdp.sampling.batch import Batch
from mustdp.sampling.streams import BatchStream
from mustdp.training.linear.descent import (
    Descent,
    Grid,
    Loss,
    OnStep,
    Recipe,
    check_converged,
    clip_gradient,
    rows_and_norms,
    settle_recipe,
)
from mustdp.training.linear.models import PrivateLinearModel, checked, split_weights

# Many independent runs side by side, for simulations: the same results as one after another.
#
# Chain number r is decided by seed number r alone. It draws the batches that a single run with that
# seed would draw, and noise in floating point, which is fast but no release; the arithmetic of all
# chains is done at once.


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
        self, weights: FloatArray, batches: Sequence[Batch], bound: float
    ) -> tuple[FloatArray, FloatArray]:
        """What ``Records.clipped_sum`` gives, for every chain: (R, K, width) and (R,)."""
        indices, counts = _padded(batches)
        totals, losses = np.empty_like(weights), np.full(self.chains, np.nan)
        together = max(1, _GATHERED // max(1, indices.shape[1] * self.rows.shape[1]))
        for begin in range(0, self.chains, together):
            part = slice(begin, begin + together)
            totals[part], losses[part] = self._some(
                weights[part], indices[part], counts[part], bound, part
            )
        return totals, losses

    def _some(
        self, weights: FloatArray, indices: IntArray, counts: FloatArray, bound: float, part: slice
    ) -> tuple[FloatArray, FloatArray]:
        features = self.rows.shape[1]
        places = indices + self._row_offset[part, None]
        rows = self.rows[places].astype(np.float64, copy=False)
        scores = self.grid.weights(weights[:, :, :features]) @ rows.swapaxes(1, 2)
        if self.fit_intercept:
            scores += weights[:, :, features, None]
        targets = self.targets[indices + self._target_offset[part, None]]
        gradient, values = self.loss.evaluate(scores, targets)
        clip_gradient(gradient, self.norms[places], counts, bound, features)
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
            totals, losses[:, step] = records.clipped_sums(weights, batches, recipe.max_grad_norm)
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


# The public function and what it returns.


@dataclass(frozen=True)
class Chains:
    """R fitted chains. All of it is simulation output: seeded, and so not a private release.

    Attributes
    ----------
    coefficients : ndarray
        (R, K, d): weights of each chain; K is 1 but for three classes or more.
    intercepts : ndarray
        (R, K): intercepts of each chain.
    losses : ndarray
        (R, steps): mean loss of every batch, without noise.
    privacy : PrivacySpent
        What *one* chain would cost; chains on the same records would add up.
    coefficient_path : ndarray or None
        (R, steps, K, d): the weights after every step, with ``keep_path=True``.
    intercept_path : ndarray or None
        (R, steps, K): the intercepts after every step, with ``keep_path=True``.

    Examples
    --------
    >>> import mustdp as md
    >>> import numpy as np
    >>> X = np.random.default_rng(0).uniform(-1, 1, (200, 1))
    >>> model = md.DPLinearRegression(m=20, steps=5, noise_multiplier=2.0, delta=1e-5)
    >>> chains = md.reproduction.fit_chains(model, X, X[:, 0], seeds=range(4))
    >>> chains.coefficients.shape, chains.privacy.seeded
    ((4, 1, 1), True)
    """

    coefficients: FloatArray
    intercepts: FloatArray
    losses: FloatArray
    privacy: PrivacySpent
    coefficient_path: FloatArray | None
    intercept_path: FloatArray | None


def fit_chains(
    model: PrivateLinearModel, X: Any, y: Any, seeds: Iterable[int], *, keep_path: bool = False
) -> Chains:
    """Fit a model once for every seed, in one batched run; ``model`` itself is not changed.

    Chain r has the weights that ``model`` would have after ``fit`` with ``random_state=seeds[r]``
    on its data set.

    Parameters
    ----------
    model : DPLinearRegression or DPLogisticRegression
        The model, with ``random_state=None``.
    X : array_like
        Rows (n, d) of one data set, or (R, n, d) of one per seed.
    y : array_like
        Targets (n,) or (R, n).
    seeds : iterable of int
        One for each chain.
    keep_path : bool, default=False
        Whether to keep the weights after every step.

    Returns
    -------
    Chains
        The fitted weights of all chains.

    Examples
    --------
    >>> import mustdp as md
    >>> import numpy as np
    >>> X = np.random.default_rng(0).uniform(-1, 1, (200, 1))
    >>> model = md.DPLinearRegression(m=20, steps=5, noise_multiplier=2.0, delta=1e-5)
    >>> md.reproduction.fit_chains(model, X, X[:, 0], seeds=[1, 2, 3]).intercepts.shape
    (3, 1)
    """
    if not isinstance(model, PrivateLinearModel):
        raise InvalidParameter(f"model must be a private linear model of mustdp, got {model!r}")
    if model.random_state is not None:
        raise InvalidParameter(
            f"random_state of the model must be None here, seeds say it all; "
            f"got {model.random_state!r}"
        )
    listed = [read_seed(seed, "seeds") for seed in seeds]
    if not listed:
        raise InvalidParameter("seeds must hold at least one seed, got none")
    rows, flat = _read_data(X, y, len(listed))
    loss, targets, _ = checked(model._read_targets, flat.reshape(-1))
    recipe = settle_recipe(model, rows.shape[-2])
    records = StackedRecords(
        rows, targets.reshape(flat.shape), loss, bool(model.fit_intercept), len(listed)
    )
    privacy = replace(recipe.budget.spent(), seeded=True)
    done = descend_chains(records, recipe, listed, keep_path=keep_path, on_step=model.on_step)
    last = split_weights(done.weights, records.fit_intercept)
    path = (None, None) if done.path is None else split_weights(done.path, records.fit_intercept)
    return Chains(frozen(last[0]), frozen(last[1]), done.losses, privacy, *path)


def _read_data(X: Any, y: Any, chains: int) -> tuple[NDArray[Any], NDArray[Any]]:
    rows, targets = checked(np.asarray, X), checked(np.asarray, y)
    if rows.dtype.kind == "c" or targets.dtype.kind == "c":
        raise InvalidParameter("X and y must be real: Complex data not supported")
    if rows.dtype != np.float32:
        rows = checked(rows.astype, np.float64, copy=False)
    if rows.ndim not in (2, 3) or rows.size == 0:
        raise InvalidParameter(f"X must have the shape (n, d) or (chains, n, d), got {rows.shape}")
    if rows.ndim == 3 and len(rows) != chains:
        raise InvalidParameter(
            f"X must hold one data set for each of the {chains} seeds, got {len(rows)}"
        )
    n = rows.shape[-2]
    if targets.shape not in ((n,), (chains, n)):
        raise InvalidParameter(
            f"y must have the shape ({n},) or ({chains}, {n}), got {targets.shape}"
        )
    if not np.isfinite(rows).all():
        raise InvalidParameter("X must be finite, got NaN or infinity")
    if targets.dtype.kind == "f" and not np.isfinite(targets).all():
        raise InvalidParameter("y must be finite, got NaN or infinity")
    return rows, targets
