"""From noisy replicates to estimates with standard errors and intervals."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal, get_args

import numpy as np
from scipy.special import chdtri, log_ndtr

from mustdp.errors import InvalidParameter, NumericalFailure
from mustdp.estimation.bootstrap.designs import Design
from mustdp.estimation.bootstrap.query import (
    CLEARLY,
    RARE,
    UNCLEAR,
    Averaged,
    Query,
    Reading,
    Spread,
    everything,
    rare_error,
    rare_limit,
)
from mustdp.numerics import checks
from mustdp.numerics.arrays import FloatArray

# Kinds of interval: the one that is made, and those that are refused, each with its reason.
#
# The interval is the estimate plus and minus a t quantile times its standard error, where an
# estimate has no better one of its own, such as a quantile or a proportion.


Kind = Literal["normal"]
KINDS: tuple[Kind, ...] = get_args(Kind)
#: Names that people know from bootstraps without noise, and why there is no such interval here.
REFUSED = {
    "percentile": "the shape of replicates on m records with noise is neither that of n records "
    "nor free of the noise's own",
    "bootstrap-t": "the noise hides the standard errors of single subsets, by which it would have "
    "to divide",
    "BCa": "its acceleration needs the influence of every single record, which must not be "
    "released",
}
#: All of them, for anyone who reads a word.
WORDS = (*KINDS, *REFUSED)


def check_kind(kind: str) -> None:
    """Refuse any other kind than the one that is made."""
    checks.choice("interval", kind, WORDS)
    if kind in REFUSED:
        raise InvalidParameter.refusing(
            "interval", f"must be normal, because for {kind} {REFUSED[kind]}", repr(kind)
        )


# How far an estimate is from the truth, judged from noisy replicates.
#
# One number is released for each of s * r subsets: s groups, each with a first stage of its own,
# and r second stages on it (r = 1 for plain designs). In one direction u of the released vector,
#
#     u_ti = (statistic on subset i of group t) + noise,      noise of known variance N,
#
# and with S^2 the variance of a record's influence, a_b and a_w the design's ``between`` and
# ``within``, A = a_b + a_w / r,
#
#     E B = A S^2 + N / r      B: sample variance of the s group means, s - 1 degrees of freedom.
#
# With the noise subtracted this gives S^2. (The variance inside the groups tells S^2 as well, but
# that of few first stages: with heavy tails they all miss the same records, so it is left alone.)
# The average of all replicates differs from the truth by the sampling of the data from a
# population of N records, the resampling, and the noise,
#
#     V = S^2 ((1 - n/N)/n + A/s) + N/(r s),
#
# which contains the m-out-of-n scaling, the duplicates and the noise, each once. The precision of
# V itself gives degrees of freedom (Satterthwaite 1946), so that an interval is wider where much
# noise was subtracted.
#
# *Drowned.* If S^2 were 0, its estimate would have the standard error (N / (r A)) sqrt(2 / (s -
# 1)). An estimate below that cannot be told from nothing: noise drowns the replicates, and the
# result says so. Its place is taken by the limit that S^2 stays below with a chance of 95 %, from
# the chi-square law of B, and at least by the mean of the normal law around it cut off at zero. So
# it is where hardly any record differs (*rare values* in ``statistics/reading.py``): S^2 comes
# from about s / A.


#: With fewer subsets a standard error says next to nothing.
FEWEST_SUBSETS = 4
#: Chance that a hidden variance stays below the limit that takes its place.
_SURE = 0.95


def check_subsets(design: Design) -> None:
    """Refuse a design that cannot tell how far its subsets differ."""
    if design.subsets < FEWEST_SUBSETS:
        raise InvalidParameter.refusing(
            "replicates" if design.reuse == 1 else "subsets",
            f"must be at least {FEWEST_SUBSETS}: a standard error comes from how subsets that "
            "were drawn independently differ",
            design.subsets,
        )
    if not design.between + design.within > 0:
        raise InvalidParameter(
            "every subset of this design is the whole data set, so that replicates say nothing "
            "about sampling error: draw fewer records than there are, or with replacement"
        )


def factor_of(design: Design, population: float = math.inf) -> float:
    """What S^2 is multiplied by in the variance of the average of all replicates."""
    unsampled = max(0.0, 1.0 - design.n / population)
    return unsampled / design.n + _between_means(design) / design.subsets


def spread_of(
    design: Design,
    replicates: FloatArray,
    noise: float,
    population: float = math.inf,
    largest: float = 0.0,
) -> Spread:
    """Judge ``replicates`` (groups, reuse), each with noise of variance ``noise``.

    ``largest`` is the largest influence of a record, where it is known.
    """
    check_subsets(design)
    s, r = replicates.shape
    df, a, own = s - 1, _between_means(design), noise / r
    seen = float(np.var(replicates.mean(axis=1), ddof=1))
    influence = (seen - own) / a
    null = own / a * math.sqrt(2.0 / df)
    factor = factor_of(design, population)
    if noise > 0 and influence < null:
        upper = (seen * df / float(chdtri(df, _SURE)) - own) / a
        hidden = max(upper, not_negative(influence, null), rare_limit(influence, largest, a / s))
        return Spread(hidden * factor, own / s, noise_dominated=True)
    influence = max(influence, 0.0)
    rare = rare_error(influence, largest, a / s)
    if influence < rare or (largest > 0 and influence == 0.0):
        return Spread(rare_limit(influence, largest, a / s) * factor, own / s, noise_dominated=True)
    total = influence * factor + own / s
    doubt = math.hypot((influence + own / a) * math.sqrt(2.0 / df), rare) * factor
    return Spread(
        influence * factor, own / s, 2.0 * (total / doubt) ** 2 if doubt > 0 else math.inf
    )


def not_negative(mean: float, error: float) -> float:
    """Mean of the normal law with this mean and standard deviation, given that it is positive."""
    at = max(mean / error, -30.0)
    density = math.exp(-0.5 * at * at - float(log_ndtr(at))) / math.sqrt(2.0 * math.pi)
    return error * (at + density)


def _between_means(design: Design) -> float:
    return design.between + design.within / design.reuse


# From noisy replicates to estimates with standard errors and intervals.
#
# Everything here only reads what was released, so it costs no privacy. The released vectors are
# averaged first and turned into estimates afterwards, which keeps the noise from bending them.
# Where what was released tells the sampling error itself (means by their squares, proportions,
# quantiles), the statistic says so. Else an estimate's error is that of the vector seen along the
# estimate's gradient (delta method), judged by :mod:`mustdp.estimation.bootstrap.inference`; what
# is differentiated is not clipped anywhere, and over steps far smaller than an error. Where a
# noisy variance that is divided by is not clear of the noise, the interval is all that is
# possible.


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
    noise_dominated : bool
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
    noise_dominated: bool = False
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
        if reading.spread.noise_dominated and not reading.flags:
            notes.append(f"{label}: {_DROWNED}")
        estimates.append(
            Estimate(
                label,
                reading.value,
                reading.standard_error,
                reading.interval,
                reading.spread.noise_share,
                reading.spread.degrees_of_freedom,
                reading.spread.noise_dominated,
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
    few = spread.noise_dominated and spread.noise_share < 0.5 and not reading.flags
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
