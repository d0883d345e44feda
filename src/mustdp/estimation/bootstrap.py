"""``private_bootstrap``: draw subsets, release statistics of each with noise, infer."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import chdtri

from mustdp.accounting.plan import Plan
from mustdp.calibration.budget import NoisyPlan, PrivacySpent, plan_with_noise
from mustdp.data.dask import open_partitioned
from mustdp.data.frames import Source
from mustdp.data.opening import open_source
from mustdp.errors import InvalidParameter, NumericalFailure
from mustdp.estimation.designs import MOST_REPLICATES, Design
from mustdp.estimation.intervals import (
    CLEARLY,
    RARE,
    ROUGH,
    Interval,
    Spread,
    positive_mean,
    rare_error,
    rare_limit,
    vacuous_interval,
)
from mustdp.estimation.queries import (
    Averaged,
    JointQuery,
    LinearQuery,
    Query,
    check_held,
    exact_release,
)
from mustdp.estimation.replicates import check_execution, run_replicates
from mustdp.estimation.result import KINDS, BootstrapResult, Estimate, InferenceNote, Kind
from mustdp.estimation.schema import Limits, Range, Shape, SubsetSchema, check_limits, read_ranges
from mustdp.estimation.statistics.statistic import Statistic, read_statistics
from mustdp.ledger.release import LedgerOrPath, charge_release, check_release
from mustdp.mechanisms.contract import Mechanism
from mustdp.mechanisms.mechanism import gaussian
from mustdp.mechanisms.relation import drawn_from, most_copies
from mustdp.numerics import checks
from mustdp.numerics.arrays import FloatArray
from mustdp.progress import Progress
from mustdp.randomness.keys import NoiseSource, release_key
from mustdp.sampling.schemes import Scheme

# The noise of a design's releases: settled (``calibration/budget.py``) for the design's plan.
#
# The plan says no more than what is proved of the statistics. If all contributions lie in a ball
# of the reach and are added up, its noise is given as a multiplier, which the accountant takes to
# say just that. Otherwise (moments, averages over pairs, functions of a user's own) only the
# distance of any two results is bounded, by twice the reach, and the noise is given as the shift
# of one copy. One number for each subset is all there is to hide where the width of the release is
# one: a total is one integer on one lattice, and so is its noise. What was assumed is compared
# with the query that is run.


@dataclass(frozen=True)
class _Apart:
    """A design of which only the distance of any two results is known."""

    design: Design

    @property
    def scheme(self) -> Scheme:
        return self.design.scheme

    def plan(self, mechanism: Mechanism, /) -> Plan:
        return self.design.plan(gaussian(shift=mechanism.shift_for(2.0)))


def settle_design(
    design: Design,
    *,
    shape: Shape | None = None,
    delta: float | None = None,
    epsilon: float | None = None,
    noise_multiplier: float | None = None,
    relation: str | None = None,
) -> NoisyPlan:
    """Settle the noise of one release of all statistics together on every subset.

    Exactly one of ``epsilon`` and ``noise_multiplier`` is given. Without a ``shape`` contributions
    are taken to be in a ball, as those of a clipped sum are.
    """
    known = Shape(in_a_ball=True) if shape is None else shape
    return plan_with_noise(
        design if known.in_a_ball else _Apart(design),
        delta=delta,
        epsilon=epsilon,
        noise_multiplier=noise_multiplier,
        relation=relation,
        dimension=1 if known.one_number else None,
    )


def shape_of(statistics: Sequence[Statistic], poisson: bool, *, charged: bool) -> Shape:
    """What is known of all statistics together, before any data are read.

    A ledger counts releases of any dimension; what is ``charged`` to one is settled like that.
    """
    shapes = [statistic.shape(poisson) for statistic in statistics]
    single = len(shapes) == 1 and shapes[0].one_number and not charged
    return Shape(all(shape.in_a_ball for shape in shapes), single)


def check_shape(shape: Shape, query: JointQuery, privacy: PrivacySpent) -> None:
    """Refuse a query that has not the shape for which its noise was settled, if it was charged."""
    if privacy.plan is None:
        return
    adds_up = all(isinstance(part, LinearQuery) and part.within_reach for part in query.queries)
    if (shape.in_a_ball and not adds_up) or (shape.one_number and query.width != 1):
        raise NumericalFailure(
            f"the noise was settled for {shape!r}, which a release of width {query.width} is not; "
            "nothing was released"
        )


# Kinds of interval: the one that is made, and those that are refused, each with its reason.
#
# The interval is the estimate plus and minus a t quantile times its standard error, where an
# estimate has no better one of its own, such as a quantile or a proportion.


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
# The average of all replicates differs from the truth by the sampling of the data from a population
# of N records, the resampling, and the noise,
#
#     V = S^2 ((1 - n/N)/n + A/s) + N/(r s),
#
# which contains the m-out-of-n scaling, the duplicates and the noise, each once. The precision of V
# itself gives degrees of freedom (Satterthwaite 1946), so that an interval is wider where much
# noise was subtracted.
#
# *Dominated by noise.* If S^2 were 0, its estimate would have the standard error (N / (r A)) sqrt(2
# / (s - 1)). An estimate below that cannot be told from nothing: the noise hides it, and the result
# says so. Its place is taken by the limit that S^2 stays below with a chance of 95 %, from the
# chi-square law of B, and at least by the mean of the normal law around it cut off at zero. So it
# is where hardly any record differs (*rare values* in ``intervals.py``): S^2 comes from about s /
# A.


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
        hidden = max(upper, positive_mean(influence, null), rare_limit(influence, largest, a / s))
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


def _between_means(design: Design) -> float:
    return design.between + design.within / design.reuse


# From noisy replicates to estimates with standard errors and intervals.
#
# Everything here only reads what was released, so it costs no privacy. The released vectors are
# averaged first and turned into estimates afterwards, which keeps the noise from bending them.
# Where what was released tells the sampling error itself (means by their squares, proportions,
# quantiles), the statistic says so. Else an estimate's error is that of the vector seen along the
# estimate's gradient (delta method), judged as above; what
# is differentiated is not clipped anywhere, and over steps far smaller than an error. Where a
# noisy variance that is divided by is not clear of the noise, the interval is all that is
# possible.


#: Below this chance of repeated pairs readers need not be told of the correction.
_WORTH_A_WORD = 0.005
#: Steps of derivatives, in standard errors.
_STEP = 1e-3
_HIDDEN_BY_NOISE = (
    "the noise drowns what the data vary by, so that an upper limit of it is in the standard "
    "error, which errs on the safe side; a larger epsilon, narrower bounds, or one release on all "
    "records where there is a formula would help"
)


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
        found = known
        if found is None:
            found = _replicated(
                design, query, j, vectors, noise, at, gradient[j], errors, each, population
            )
        flags = tuple(flag for flag in found.flags if flag != ROUGH)
        if found.noise_dominated and not flags:
            flags = (_HIDDEN_BY_NOISE,)
        notes += [f"{label}: {flag}" for flag in flags]
        estimates.append(
            Estimate(
                label,
                found.value,
                found.standard_error,
                found.ends,
                found.noise_share,
                "" if descriptions is None else descriptions[j],
                flags,
                found.degrees_of_freedom,
                found.noise_dominated,
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
) -> Interval:
    """One estimate judged by how its replicates differ."""
    behind, part, own = query.behind(place)
    divisors = behind.divided_by(at.vector[part])
    slopes = _gradient(behind.divided_by, at.vector[part], errors[part])
    clear = divisors > CLEARLY * np.sqrt(slopes**2 @ at.noise[part])
    value = float(query.smooth(at.vector)[place])
    if not (np.all(clear) and math.isfinite(value) and np.all(np.isfinite(gradient))):
        return vacuous_interval(behind.supports[own], behind.hidden)
    along = (vectors @ gradient).reshape(design.subsets, design.reuse)
    caused = float(gradient**2 @ noise)
    spread = spread_of(design, along, caused, population, behind.largest(at.vector[part]))
    found = behind.interval(own, value, spread, level)
    # Hidden, but not by the noise.
    few = found.flags == (ROUGH,) and spread.noise_share < 0.5
    return replace(found, flags=(RARE,)) if few else found


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


# Statistics bound to the columns that they read, and put into one release.


def joined(
    statistics: Sequence[Statistic],
    source: Source,
    low: Sequence[float],
    high: Sequence[float],
    design: Design,
) -> JointQuery:
    """Bind all statistics to their columns and put them into one release."""
    public = SubsetSchema(low, high, design.size, design.poisson, design.repeated_pairs)
    picks: list[tuple[int, ...]] = []
    queries: list[Query] = []
    for statistic in statistics:
        pick = statistic.positions(source.columns)
        statistic.check_columns(len(pick))
        picks.append(pick)
        own = public.of(pick)
        names = [_called(source.columns[k]) for k in pick]
        queries.append(statistic.labelled(statistic.query(own), names))
    return JointQuery(tuple(queries), tuple(picks), names=_names(statistics, picks, source.columns))


def check_ranges(
    statistics: Sequence[Statistic],
    names: Sequence[str] | None,
    lower: Limits,
    upper: Limits,
) -> None:
    """Refuse ranges that a statistic cannot take, as far as they are known before the columns are.

    ``names`` are the columns that were asked for, None for all that the data have.
    """
    if names is not None:
        ranges = read_ranges(names, lower, upper)
        for one in statistics:
            for k in one.positions(names):
                if names[k] in ranges:
                    one.check_range(ranges[names[k]])
    elif isinstance(lower, int | float) and isinstance(upper, int | float):
        for one in statistics:
            one.check_range(Range(float(lower), float(upper)))


def _called(name: str) -> str:
    """A column by its name, or by its place where it has none."""
    return f"column {name}" if name.isdigit() else name


def descriptions(
    statistics: Sequence[Statistic],
    query: JointQuery,
    columns: Sequence[str],
    low: Sequence[float],
    high: Sequence[float],
) -> tuple[str, ...]:
    """What every estimate is one of: clipped columns are called so."""
    said = [
        f"{_called(name)} clipped to [{least:g}, {most:g}]"
        for name, least, most in zip(columns, low, high, strict=True)
    ]
    return tuple(
        statistic.described(label, [said[k] for k in pick])
        for statistic, own, pick in zip(statistics, query.queries, query.picks, strict=True)
        for label in own.labels
    )


def _names(
    statistics: Sequence[Statistic], picks: Sequence[Sequence[int]], columns: Sequence[str]
) -> tuple[str, ...] | None:
    """What tells equal statistics of different columns apart: the columns' names."""
    names = [statistic.name for statistic in statistics]
    if len(set(names)) == len(names):
        return None
    return tuple(",".join(columns[k] for k in pick) for pick in picks)


def label_of(statistics: Sequence[Statistic]) -> str:
    """What an entry of a ledger says about a bootstrap."""
    label = f"bootstrap: {', '.join(statistic.name for statistic in statistics)}"
    return label if len(label) <= 200 else f"{label[:197]}..."


# A private bootstrap: draw subsets, compute statistics on each, release them with noise, infer.
#
# Order matters. What was asked for is checked first, then the noise is settled and certified, then
# the data are read and the exact replicates computed, in steps of a lattice. Only then is the
# ledger charged and the noise drawn, in one place and once: work that had to be repeated repeats
# nothing that was released. The source of the noise never leaves this process.


def private_bootstrap(
    data: Any,
    statistics: str | Statistic | Sequence[str | Statistic] = "mean",
    *,
    lower: Limits,
    upper: Limits,
    design: Design | Scheme,
    replicates: int | None = None,
    columns: str | Sequence[str] | None = None,
    epsilon: float | None = None,
    delta: float | None = None,
    noise_multiplier: float | None = None,
    relation: str | None = None,
    interval: Kind = "normal",
    level: float = 0.95,
    simultaneous: bool = False,
    population: int | None = None,
    correct_bias: bool = True,
    workers: int | None = None,
    dask: Any = None,
    insecure: bool = False,
    ledger: LedgerOrPath = None,
    seed: Any = None,
    progress: Progress | None = None,
) -> BootstrapResult:
    """Estimate with intervals from noisy replicates on random subsets, at a certified cost.

    The noise comes from a total ``epsilon`` at ``delta`` for everything released here, or from a
    ``noise_multiplier``.

    Parameters
    ----------
    data : array, frame, table, path or Reading
        The records: an array, a pandas or polars frame, an Arrow table, the path of a CSV or
        Parquet file, or partitions on a Dask cluster.
    statistics : str, Statistic or sequence of them, default="mean"
        One or several, by name or as objects: ``"mean"``, ``"quantile:0.9"``, ``"mean@age"``,
        ``md.types.Mean()``; ``mustdp bootstrap --help`` lists the names. Several share one release.
    lower : float, sequence or mapping
        Lower ends of the ranges that values are clipped to: one for all columns, one for each, or
        by name. Public: they must be known without looking at the data.
    upper : float, sequence or mapping
        Upper ends of the ranges, given like ``lower``.
    design : Scheme or Design
        A scheme, with ``replicates`` draws; or a :class:`Design` such as :func:`double_bootstrap`
        and :func:`bag_of_little_bootstraps` give. With Poisson subsets under add_remove the number
        of records is private: the scheme's n is an estimate that is not compared with the data.
    replicates : int, default=None
        Number of subsets; needed with a scheme.
    columns : str or sequence of str, default=None
        The columns that are used; None means all numeric ones.
    epsilon : float, default=None
        What the certified epsilon of the whole release must not exceed.
    delta : float
        The delta at which epsilon is stated, well below 1/n; it has no default.
    noise_multiplier : float, default=None
        Scale of the noise over C, the bound on the norm of what one record contributes to a sum;
        from 1e-9 to 1e9.
    relation : {"replace_one", "add_remove"}, default=None
        Which data sets are neighbours; None means add_remove where every draw is by Poisson
        sampling or random allocation, and replace_one otherwise.
    interval : {"normal"}, default="normal"
        Kind of interval; other names are refused with the reason.
    level : float, default=0.95
        Confidence of the intervals, above 0 and below 1.
    simultaneous : bool, default=False
        Whether all intervals are widened until they hold together (Bonferroni).
    population : int, default=None
        The size of what the records were drawn from, without replacement; None means endless.
    correct_bias : bool, default=True
        Whether what repeated records do to averages over pairs is divided out.
    workers : int, default=None
        Processes on this machine; None means what suits the work.
    dask : "local", distributed.Client or str, default=None
        A cluster to compute on, by its client or the address of its scheduler; "local" makes one
        here.
    insecure : bool, default=False
        Whether to accept a scheduler without certificates: anybody can read the records there.
    ledger : Ledger, str or path, default=None
        Charged once, before noise is drawn; what would pass its limit is refused before the data
        are read. A path is that of a ledger in a file, which must be there.
    seed : int, Generator or RandomState, default=None
        Repeats a run, for experiments only: anyone who knows the seed can subtract the noise.
        None takes fresh entropy from the operating system.
    progress : Progress, default=None
        Called whenever the work has got further.

    Returns
    -------
    BootstrapResult
        Estimates with intervals, and what they cost; all of it may be published.

    Raises
    ------
    InvalidParameter
        An argument is outside what is allowed.
    NotCovered
        No theorem of this package covers what was asked.
    BudgetExceeded
        The charge does not fit the limit of the ledger; nothing was written.
    ClusterLost
        The cluster has gone before the work was done; nothing was released.

    Warns
    -----
    InferenceNote
        A reader has to know something about an estimate.
    LargeDelta
        ``delta`` is above one in the design's number of records.
    SeededRelease
        A seed was given.

    Examples
    --------
    >>> import numpy as np, mustdp as md
    >>> ages = np.random.default_rng(0).uniform(20, 80, 10_000)
    >>> result = private_bootstrap(
    ...     ages, "mean", lower=0, upper=100, design=md.wor(10_000, 500), replicates=50,
    ...     epsilon=1, delta=1e-6,
    ... )
    >>> low, high = result.interval
    >>> bool(low < result.estimate < high)
    True
    """
    asked = read_statistics(statistics)
    for one in asked:
        one.check_bootstrap()
        if one.columns is not None:
            one.check_columns(len(one.columns))
    chosen = _read_design(design, replicates)
    check_subsets(chosen)
    check_kind(interval)
    level = checks.real("level", level, above=0, below=1)
    if not isinstance(simultaneous, bool):
        raise InvalidParameter(f"simultaneous must be True or False, got {simultaneous!r}")
    if population is not None:
        population = checks.integer("population", population, chosen.n)
    check_execution(workers, dask, insecure)
    names = (columns,) if isinstance(columns, str) else None if columns is None else tuple(columns)
    check_limits(lower, upper)
    check_ranges(asked, names, lower, upper)
    shape = shape_of(asked, chosen.poisson, charged=ledger is not None)
    privacy = settle_design(
        chosen,
        shape=shape,
        epsilon=epsilon,
        delta=delta,
        noise_multiplier=noise_multiplier,
        relation=relation,
    ).spent()
    key = release_key(seed, name="seed")
    privacy = replace(privacy, seeded=key.seeded)
    check_release(ledger, chosen.scheme, privacy)
    source = _open(data, names, dask)
    drawn = replace(chosen, scheme=drawn_from(chosen.scheme, privacy.relation, source.n))
    ranges = read_ranges(source.columns, lower, upper)
    if set(ranges) != set(source.columns):
        raise InvalidParameter(
            f"lower and upper must have one entry for each of the {len(source.columns)} columns, "
            f"by name, got {', '.join(ranges)}"
        )
    low = tuple(ranges[name].lower for name in source.columns)
    high = tuple(ranges[name].upper for name in source.columns)
    query = joined(asked, source, low, high, chosen)
    check_shape(shape, query, privacy)
    check_held("replicates", query.width, chosen.releases)
    copies = most_copies(chosen.scheme, privacy.relation)
    exact = exact_release(query, privacy.noise_multiplier, copies)
    totals = run_replicates(
        source, drawn, exact.stepped, key,
        lower=low, upper=high, stated=chosen, workers=workers, dask=dask,
        insecure=insecure, progress=progress,
    )  # fmt: skip
    charge_release(ledger, privacy.plan, label_of(asked))
    released = exact.released(totals, NoiseSource(key.seed))
    found = infer(
        chosen, query, released, exact.deviations**2,
        level=level, correct=correct_bias, simultaneous=simultaneous,
        population=math.inf if population is None else population,
        descriptions=descriptions(asked, query, source.columns, low, high),
    )  # fmt: skip
    for note in found.notes:
        warnings.warn(note, InferenceNote, stacklevel=2)
    return BootstrapResult(
        found.estimates, privacy, chosen, level, interval, found.replicates, found.notes,
        simultaneous,
    )  # fmt: skip


def _open(data: Any, names: tuple[str, ...] | None, dask: Any) -> Source:
    """The data where they are; partitions of a dask collection stay on their cluster."""
    if not hasattr(data, "__dask_graph__"):
        return open_source(data, names)
    return open_partitioned(data, names, None if dask is None or isinstance(dask, str) else dask)


def _read_design(design: Design | Scheme, replicates: int | None) -> Design:
    if isinstance(design, Design):
        if replicates is not None and replicates != design.releases:
            raise InvalidParameter(
                f"replicates must be left out or be {design.releases}, which the design makes, "
                f"got {replicates!r}"
            )
        return design
    if replicates is None:
        raise InvalidParameter("replicates must be given with a scheme: the number of subsets")
    return Design(design, checks.integer("replicates", replicates, FEWEST_SUBSETS, MOST_REPLICATES))
