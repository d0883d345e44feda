"""From noisy replicates to estimates with standard errors and intervals.

Everything here only reads what was released, so it costs no privacy. The released vectors are
averaged first and turned into estimates afterwards, which keeps the noise from bending them; an
estimate's error is that of the vector seen along the estimate's gradient (delta method), judged by
:mod:`mustdp.resampling.spread`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from mustdp.errors import InvalidParameter, NumericalFailure
from mustdp.numerics.arrays import FloatArray
from mustdp.resampling.designs import Design
from mustdp.resampling.intervals import Kind, bootstrap_t, percentile, t_quantile
from mustdp.resampling.spread import Spread, spread_of
from mustdp.resampling.statistics.query import Query

#: Below this chance of repeated pairs nobody needs to be told of the correction.
_WORTH_A_WORD = 0.005
_NO_T = "the noise drowns the standard errors of single subsets, so the interval is the normal one"
_DROWNED = (
    "the noise drowns the variation of the replicates, so the standard error is mostly that of "
    "the noise and errs on the safe side; fewer replicates, a smaller share of the records in "
    "each, or a larger epsilon would help"
)


@dataclass(frozen=True)
class Estimate:
    """One estimate, its standard error and its interval."""

    label: str
    value: float
    standard_error: float
    interval: tuple[float, float]
    noise_share: float
    degrees_of_freedom: float
    #: Whether the noise hides the variation of the replicates, so that the error is mostly noise.
    drowned: bool = False

    @property
    def width(self) -> float:
        """Width of the interval."""
        return self.interval[1] - self.interval[0]


@dataclass(frozen=True, eq=False)
class Inference:
    """Estimates, the replicates behind them, and what a reader has to know."""

    estimates: tuple[Estimate, ...]
    replicates: FloatArray  # (releases, estimates), noisy
    notes: tuple[str, ...]


def infer(
    design: Design,
    query: Query,
    released: FloatArray,
    noise: FloatArray,
    *,
    kind: Kind = "normal",
    level: float = 0.95,
    correct: bool = True,
) -> Inference:
    """Draw inference from ``released`` (releases, width) with noise variances (width,).

    ``correct`` undoes the bias of averages over pairs that repeated records cause.
    """
    notes = []
    factor = _pair_factor(design, query) if correct else np.ones(query.width)
    if float(factor.max()) > 1.0 + _WORTH_A_WORD:
        notes.append(
            f"two draws of a subset are the same record with chance {design.repeated_pairs:.3g}, "
            "which makes variances and covariances too small by that share; this is corrected"
        )
    vectors, noise = released * factor, noise * factor**2
    average = vectors.mean(axis=0)
    values = query.estimate(average)
    if not np.all(np.isfinite(values)):
        raise NumericalFailure(
            "a statistic is not finite at the average of the replicates: "
            + ", ".join(f"{label} = {x}" for label, x in zip(query.labels, values, strict=True))
        )
    own = [
        spread_of(design, _grouped(design, column), float(variance))
        for column, variance in zip(vectors.T, noise, strict=True)
    ]
    gradient = _gradient(query, average, np.sqrt([spread.variance for spread in own]))
    shrunk = _shrunk(design, query, vectors, average, own) if kind == "percentile" else None
    estimates = []
    for j, label in enumerate(query.labels):
        along = _grouped(design, vectors @ gradient[j])
        noise_along = float(gradient[j] ** 2 @ noise)
        spread = spread_of(design, along, noise_along)
        value, error = float(values[j]), math.sqrt(spread.variance)
        quantile = t_quantile(level, spread)
        ends = (value - quantile * error, value + quantile * error)
        if shrunk is not None:
            ends = percentile(value, shrunk[:, j], spread, level)
        elif kind == "bootstrap-t":
            studentised = bootstrap_t(value, along, noise_along, design, spread, level)
            if studentised is None:
                notes.append(f"{label}: {_NO_T}")
            ends = studentised or ends
        else:
            special = query.interval(average, _covariance(vectors, noise, own), quantile)
            if special is not None and np.all(np.isfinite(special[j])):
                ends = float(special[j, 0]), float(special[j, 1])
                error = (ends[1] - ends[0]) / (2.0 * quantile)
        if spread.drowned:
            notes.append(f"{label}: {_DROWNED}")
        estimates.append(
            Estimate(
                label,
                value,
                error,
                ends,
                spread.noise_share,
                spread.degrees_of_freedom,
                spread.drowned,
            )
        )
    widths = np.array([estimate.width for estimate in estimates])
    notes += query.cautions(average, widths)
    return Inference(tuple(estimates), query.estimate(vectors), tuple(notes))


def _pair_factor(design: Design, query: Query) -> FloatArray:
    """What averages over pairs of positions are multiplied by; one for everything else."""
    paired = np.array(query.paired)
    if not paired.any():
        return np.ones(query.width)
    distinct = 1.0 - design.repeated_pairs
    if not distinct > 0:
        raise InvalidParameter(
            "a variance or covariance needs subsets of more than one distinct record, got "
            f"{design.scheme!r}"
        )
    return np.where(paired, 1.0 / distinct, 1.0)


def _grouped(design: Design, column: FloatArray) -> FloatArray:
    return column.reshape(design.subsets, design.reuse)


def _gradient(query: Query, average: FloatArray, errors: FloatArray) -> FloatArray:
    """Slopes of the estimates over one standard error either way: (estimates, width)."""
    step = np.maximum(errors, 1e-9 * np.maximum(np.abs(average), 1e-9))
    moves = np.diag(step)
    rise = query.estimate(average + moves) - query.estimate(average - moves)
    return np.asarray((rise / (2.0 * step)[:, None]).T)


def _shrunk(
    design: Design, query: Query, vectors: FloatArray, average: FloatArray, own: list[Spread]
) -> FloatArray:
    """Estimates at replicates shrunk to the variation that the data alone cause."""
    grouped = vectors.reshape(design.subsets, design.reuse, -1)
    centre = grouped.mean(axis=1, keepdims=True) if design.reuse > 1 else average
    residuals = (grouped - centre).reshape(design.releases, -1)
    seen = np.maximum(np.mean(residuals**2, axis=0), 1e-300)
    wanted = np.array([spread.sampling for spread in own])
    return query.estimate(average + residuals * np.sqrt(wanted / seen))


def _covariance(vectors: FloatArray, noise: FloatArray, own: list[Spread]) -> FloatArray:
    """Covariance of the average.

    Noise is independent from coordinate to coordinate. What the data cause is correlated as the
    replicates are once their noise is taken out.
    """
    centred = vectors - vectors.mean(axis=0)
    seen = centred.T @ centred / max(len(vectors) - 1, 1)
    exact = np.sqrt(np.maximum(np.diagonal(seen) - noise, 1e-3 * np.diagonal(seen) + 1e-300))
    correlation = np.clip(seen / np.outer(exact, exact), -1.0, 1.0)
    np.fill_diagonal(correlation, 1.0)
    caused = np.sqrt([spread.sampling + spread.resampling for spread in own])
    found = correlation * np.outer(caused, caused)
    return np.asarray(found + np.diag([spread.noise for spread in own]))
