"""Simulations: one estimator, many seeds or data sets, all fitted in one batched run."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mustdp.calibration.settle import Spent
from mustdp.errors import InvalidParameter
from mustdp.numerics.arrays import FloatArray
from mustdp.numerics.checks import frozen
from mustdp.randomness.seeds import read_seed
from mustdp.training.linear.chains import StackedRecords, descend_chains
from mustdp.training.linear.estimator import PrivateLinearModel, split_weights
from mustdp.training.linear.settings import settle_recipe
from mustdp.training.linear.unquoted import checked


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
    privacy : Spent
        What *one* chain would cost; chains on the same records would add up.
    coefficient_path : ndarray or None
        (R, steps, K, d): the weights after every step, if they were asked for.
    intercept_path : ndarray or None
        (R, steps, K): the intercepts after every step, if they were asked for.

    Examples
    --------
    >>> import mustdp as md
    >>> import numpy as np
    >>> X = np.random.default_rng(0).uniform(-1, 1, (200, 1))
    >>> model = md.DPLinearRegression(m=20, steps=5, noise_multiplier=2.0, delta=1e-5)
    >>> chains = md.fit_chains(model, X, X[:, 0], seeds=range(4))
    >>> chains.coefficients.shape, chains.privacy.seeded
    ((4, 1, 1), True)
    """

    coefficients: FloatArray
    intercepts: FloatArray
    losses: FloatArray
    privacy: Spent
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
    >>> md.fit_chains(model, X, X[:, 0], seeds=[1, 2, 3]).intercepts.shape
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
