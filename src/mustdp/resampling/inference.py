"""From noisy replicates to estimates with standard errors and intervals.

Everything here only reads what was released, so it costs no privacy. The released vectors are
averaged first and turned into estimates afterwards, which keeps the noise from bending them. Where
what was released tells the sampling error itself (means by their squares, proportions, quantiles),
the statistic says so. Else an estimate's error is that of the vector seen along the estimate's
gradient (delta method), judged by :mod:`mustdp.resampling.spread`; what is differentiated is not
clipped anywhere, and over steps far smaller than an error. Where a noisy variance that is divided
by is not clear of the noise, the interval is all that is possible.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from mustdp.errors import InvalidParameter, NumericalFailure
from mustdp.numerics.arrays import FloatArray
from mustdp.resampling.designs import Design
from mustdp.resampling.spread import check_subsets, factor_of, spread_of
from mustdp.resampling.statistics.query import Averaged, Query
from mustdp.resampling.statistics.reading import (
    CLEARLY,
    RARE,
    UNCLEAR,
    Reading,
    Spread,
    everything,
)

#: Below this chance of repeated pairs nobody needs to be told of the correction.
_WORTH_A_WORD = 0.005
#: Steps of derivatives, in standard errors.
_STEP = 1e-3
_DROWNED = (
    "the noise drowns what the data vary by, so that an upper limit of it is in the standard "
    "error, which errs on the safe side; a larger epsilon, narrower bounds, or one release on all "
    "records where there is a formula would help"
)


@dataclass(frozen=True)
class Estimate:
    """One estimate, its standard error and its interval.

    Attributes
    ----------
    label : str
        Which estimate.
    value : float
        The estimate; NaN where noise leaves nothing to be known, which the result's notes say.
    standard_error : float
        Of sampling and noise together; NaN where there is no estimate.
    interval : (float, float)
        The interval for sampling and noise together, at the result's level.
    noise_share : float
        Which share of the variance is that of the noise.
    degrees_of_freedom : float
        Those of the t quantile behind the interval.
    drowned : bool
        Whether the noise hides the variation of the data, so that an upper limit stands for it.
    description : str
        What was estimated, in words.
    """

    label: str
    value: float
    standard_error: float
    interval: tuple[float, float]
    noise_share: float
    degrees_of_freedom: float
    drowned: bool = False
    description: str = ""

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
    level: float = 0.95,
    correct: bool = True,
    population: float = math.inf,
    simultaneous: bool = False,
    descriptions: tuple[str, ...] | None = None,
) -> Inference:
    """Draw inference from ``released`` (releases, width) with noise variances (width,).

    ``correct`` undoes the bias of averages over pairs that repeated records cause. ``population``
    is the number of records that those of the data were drawn from, without replacement.
    ``simultaneous`` widens all intervals until they hold together (Bonferroni).
    """
    check_subsets(design)
    notes = []
    factor = _pair_factor(design, query) if correct else np.ones(query.width)
    if float(factor.max()) > 1.0 + _WORTH_A_WORD:
        notes.append(
            f"two draws of a subset are the same record with chance {design.repeated_pairs:.3g}, "
            "which makes variances and covariances too small by that share; this is corrected"
        )
    vectors, noise = released * factor, noise * factor**2
    average = vectors.mean(axis=0)
    _check_finite(query, average)
    at = Averaged(average, noise / design.releases, factor_of(design, population))
    count = len(query.labels)
    each = 1.0 - (1.0 - level) / count if simultaneous else level
    errors = np.std(vectors, axis=0, ddof=1) / math.sqrt(design.releases)
    gradient = _gradient(query.smooth, average, errors)
    estimates = []
    for j, (label, known) in enumerate(zip(query.labels, query.known(at, each), strict=True)):
        reading = known
        if reading is None:
            reading = _replicated(
                design, query, j, vectors, noise, at, gradient[j], errors, each, population
            )
        notes += [f"{label}: {flag}" for flag in reading.flags]
        if reading.spread.drowned and not reading.flags:
            notes.append(f"{label}: {_DROWNED}")
        estimates.append(
            Estimate(
                label,
                reading.value,
                reading.standard_error,
                reading.interval,
                reading.spread.noise_share,
                reading.spread.degrees_of_freedom,
                reading.spread.drowned,
                "" if descriptions is None else descriptions[j],
            )
        )
    groups = vectors.reshape(design.subsets, design.reuse, -1).mean(axis=1)
    notes += query.cautions(at, groups)
    return Inference(tuple(estimates), query.estimate(vectors), tuple(notes))


def _replicated(
    design: Design,
    query: Query,
    place: int,
    vectors: FloatArray,
    noise: FloatArray,
    at: Averaged,
    gradient: FloatArray,
    errors: FloatArray,
    level: float,
    population: float,
) -> Reading:
    """One estimate judged by how its replicates differ."""
    behind, part, own = query.behind(place)
    divisors = behind.divided_by(at.vector[part])
    slopes = _gradient(behind.divided_by, at.vector[part], errors[part])
    clear = divisors > CLEARLY * np.sqrt(slopes**2 @ at.noise[part])
    value = float(query.smooth(at.vector)[place])
    if not (np.all(clear) and math.isfinite(value) and np.all(np.isfinite(gradient))):
        low, high = behind.possible[own]
        return everything((low, high), Spread(0.0, (0.5 * (high - low)) ** 2), UNCLEAR)
    along = (vectors @ gradient).reshape(design.subsets, design.reuse)
    caused = float(gradient**2 @ noise)
    spread = spread_of(design, along, caused, population, behind.largest(at.vector[part]))
    reading = behind.read(own, value, spread, level)
    # Drowned, but not by the noise.
    few = spread.drowned and spread.noise_share < 0.5 and not reading.flags
    return replace(reading, flags=(RARE,)) if few else reading


def _check_finite(query: Query, average: FloatArray) -> None:
    values = query.estimate(average)
    if not np.all(np.isfinite(values)):
        raise NumericalFailure(
            "a statistic is not finite at the average of the replicates: "
            + ", ".join(f"{label} = {x}" for label, x in zip(query.labels, values, strict=True))
        )


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


def _gradient(
    function: Callable[[FloatArray], FloatArray], average: FloatArray, errors: FloatArray
) -> FloatArray:
    """Slopes of a function of vectors over small steps either way: (numbers, width)."""
    step = np.maximum(_STEP * errors, 1e-9 * np.maximum(np.abs(average), 1e-6))
    moves = np.diag(step)
    with np.errstate(invalid="ignore", divide="ignore"):
        rise = function(average + moves) - function(average - moves)
    return np.asarray((rise / (2.0 * step)[:, None]).T)
