"""``private_release``: one noisy release on all records, with estimates and intervals."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from mustdp.accounting.plan import Plan
from mustdp.calibration.budget import PrivacySpent, plan_with_noise
from mustdp.data.columns import check_missing
from mustdp.errors import InvalidParameter
from mustdp.estimation.bootstrap.query import Statistic
from mustdp.estimation.release.counts import Clipping
from mustdp.estimation.release.named import read_asked
from mustdp.estimation.release.parts import Piece
from mustdp.estimation.release.records import column_names, missing_of, open_table, read_once
from mustdp.estimation.release.result import ReleaseResult
from mustdp.estimation.release.rounds import run_rounds
from mustdp.estimation.release.schema import OTHER, Limits, PublicSchema, read_schema
from mustdp.estimation.release.spelled import spelled
from mustdp.estimation.release.statistic import StatisticRequest, read_shares
from mustdp.ledger.release import LedgerOrPath, charge_release, check_release
from mustdp.limits import warn_of_large_delta
from mustdp.mechanisms.contract import Mechanism
from mustdp.mechanisms.relation import Relation
from mustdp.numerics import checks
from mustdp.progress import Progress
from mustdp.randomness.keys import release_key
from mustdp.randomness.noise_bits import NoiseSource
from mustdp.sampling.schemes import Scheme, wor

# The noise of one release on all records: settled and certified before any data are touched.


@dataclass(frozen=True)
class OneRelease:
    """A job of one Gaussian release; nothing is drawn, so its number of records says nothing."""

    @property
    def scheme(self) -> Scheme:
        """All of one record."""
        return wor(1, 1)

    def plan(self, mechanism: Mechanism, /) -> Plan:
        """The mechanism itself, on all records."""
        return mechanism


def settle_release(
    *,
    epsilon: float | None,
    delta: float | None,
    noise_multiplier: float | None,
    relation: Relation,
) -> PrivacySpent:
    """What a release with this budget costs; exactly one of epsilon and noise_multiplier."""
    if delta is None:
        raise InvalidParameter.refusing(
            "delta", "must be given, well below one over the number of records", "none"
        )
    return plan_with_noise(
        OneRelease(),
        delta=delta,
        epsilon=epsilon,
        noise_multiplier=noise_multiplier,
        relation=relation,
    ).spent()


# ``private_release``: one noisy release on all records, with estimates and intervals.
#
# Order matters. What was asked for is checked first, then the noise is settled and certified and
# the ledger asked, then the data are read and exact sums made, in whole steps of a lattice. Only
# then is the ledger charged and noise drawn. Estimates that are curved in what was released get a
# second round on the same data, for their standard errors, out of the same budget (``stack.py``).


def private_release(
    data: Any,
    statistics: str | Statistic | Sequence[str | Statistic] = "mean",
    *,
    lower: Limits | None = None,
    upper: Limits | None = None,
    columns: str | Sequence[str] | None = None,
    categories: Mapping[str, Sequence[str]] | None = None,
    by: str | None = None,
    groups: Sequence[str] | None = None,
    dates: Mapping[str, str] | None = None,
    missing: str | float | None = None,
    whole: str | Sequence[str] | None = None,
    epsilon: float | None = None,
    delta: float | None = None,
    noise_multiplier: float | None = None,
    relation: str = "replace_one",
    population: int | str | None = None,
    weights: str | None = None,
    largest_weight: float | None = None,
    strata: str | None = None,
    stratum_shares: Mapping[str, float] | None = None,
    cluster: str | None = None,
    largest_cluster: int | None = None,
    unit: str = "record",
    level: float = 0.95,
    simultaneous: bool = False,
    report_clipping: float | None = None,
    ledger: LedgerOrPath = None,
    seed: Any = None,
    progress: Progress | None = None,
) -> ReleaseResult:
    """Release statistics of all records once, with intervals for sampling and noise together.

    All statistics share the budget: ``epsilon`` at ``delta``, or a ``noise_multiplier``.

    Parameters
    ----------
    data : array, frame, table, path or Reading
        The records: an array, a pandas or polars frame, an Arrow table, or a CSV or Parquet file.
    statistics : str, Statistic or sequence of them, default="mean"
        One or several of count, sum, mean, proportion:CONDITION, variance, sd, median, quantile:P,
        histogram, covariance, correlation, regression, contingency. Each is asked of every column,
        or of those behind an @, as in ``mean@age``; the bootstrap's objects, such as
        ``md.Mean(columns=["age"])``, will do.
    lower : float, sequence or mapping, default=None
        Lower ends of the ranges that values are clipped to: one for all columns, one for each, or
        by name. Public: they must be known without looking at the data. Needed where numbers are
        used.
    upper : float, sequence or mapping, default=None
        Upper ends of the ranges, given like ``lower``.
    columns : str or sequence of str, default=None
        The columns that are used; None means all.
    categories : mapping, default=None
        Public lists of categories by column.
    by : str, default=None
        A column of groups: everything is released for each group and for all others together.
    groups : sequence of str, default=None
        The public values of that column.
    dates : mapping, default=None
        Columns of dates, with a public day each from which days are counted.
    missing : "refuse", "drop" or float, default=None
        What is done with missing values: "refuse"; "drop", which leaves a record out of every
        statistic that needs the value and makes the number of records used private; or the number
        in its place. None means what a :class:`Reading` says, and "refuse" for other data.
    whole : str or sequence of str, default=None
        Columns of which it is public that their values are whole numbers: their quantiles are whole
        numbers, too. Without it that is read off the release, where the noise allows.
    epsilon : float, default=None
        What the certified epsilon of the whole release must not exceed.
    delta : float
        The delta at which epsilon is stated, well below 1/n; it has no default.
    noise_multiplier : float, default=None
        Scale of the noise over C, the bound on the norm of what one record contributes to a sum;
        from 1e-9 to 1e9.
    relation : {"replace_one", "add_remove"}, default="replace_one"
        Which data sets are neighbours. Under replace_one the number of records is public; under
        add_remove it is not, and is released with noise wherever it is needed.
    population : int or "census", default=None
        The size of what the records were sampled from; "census" where they are all of it, so that
        only noise is left; None means endless.
    weights : str, default=None
        A column of survey weights: means are then ratios of weighted sums (Hajek), counts and sums
        those of the population.
    largest_weight : float, default=None
        Public; larger weights are cut to it.
    strata : str, default=None
        A column of strata: estimates are put together from them, sums and tables as those of the
        ``population``.
    stratum_shares : mapping, default=None
        The strata's public shares of the population, which add up to 1. Strata that are not
        listed are one more, named "other"; without a share of its own it counts for nothing.
    cluster : str, default=None
        A column of numbers of clusters: standard errors are then those of clusters.
    largest_cluster : int, default=None
        Public; so many records of a cluster count at most.
    unit : {"record", "cluster"}, default="record"
        What the guarantee protects: a record, or all records of a cluster.
    level : float, default=0.95
        Confidence of the intervals, above 0 and below 1.
    simultaneous : bool, default=False
        Whether all intervals are widened until they hold together (Bonferroni).
    report_clipping : float, default=None
        A share of the budget, such as 0.05, that goes into saying how many values were clipped.
    ledger : Ledger, str or path, default=None
        Charged once, before noise is drawn; what would pass its limit is refused before the data
        are read. A path is that of a ledger in a file, which must be there.
    seed : int, Generator or RandomState, default=None
        Repeats a run, which is for experiments only: whoever knows the seed can subtract the noise.
        None takes fresh entropy from the operating system.
    progress : Progress, default=None
        Called whenever the work has got further.

    Returns
    -------
    ReleaseResult
        Estimates with intervals, and what they cost; all of it may be published.

    Raises
    ------
    InvalidParameter
        An argument is outside what is allowed.
    BudgetExceeded
        The charge does not fit the limit of the ledger; nothing was written.
    NumericalFailure
        No number that can be trusted was found.

    Warns
    -----
    LargeDelta
        ``delta`` is above one in the number of records, where that is public.
    SeededRelease
        A seed was given.

    Examples
    --------
    >>> import numpy as np
    >>> ages = np.random.default_rng(0).uniform(20, 80, 10_000)
    >>> result = private_release(ages, "mean", lower=0, upper=100, epsilon=1, delta=1e-6)
    >>> low, high = result.interval
    >>> bool(low < result.estimate < high)
    True
    """
    used = Relation.read(relation)
    given = (statistics,) if isinstance(statistics, str | Statistic) else tuple(statistics)
    asked = tuple(map(spelled, given))
    if not asked:
        raise InvalidParameter("statistics must name at least one statistic, got none")
    level = checks.real("level", level, above=0, below=1)
    if report_clipping is not None:
        report_clipping = checks.real("report_clipping", report_clipping, above=0, below=1)
    if (weights is None) != (largest_weight is None):
        raise InvalidParameter("weights and largest_weight must be given together")
    if (cluster is None) != (largest_cluster is None):
        raise InvalidParameter("cluster and largest_cluster must be given together")
    if checks.choice("unit", unit, ("record", "cluster")) == "cluster" and cluster is None:
        raise InvalidParameter.refusing("unit", "must be record without clusters", repr(unit))
    shares = read_shares(strata, stratum_shares, by)
    if strata is not None:
        by, groups = strata, tuple(name for name in shares if name != OTHER)
    missing = check_missing(missing_of(data, missing))
    names = (columns,) if isinstance(columns, str) else None if columns is None else tuple(columns)
    schema = read_schema(
        column_names(data) if names is None else names,
        named=names is not None,
        lower=lower, upper=upper, categories=categories, dates=dates, by=by, groups=groups,
        dropped=missing == "drop", relation=used, population=population,
        largest_weight=largest_weight, largest_cluster=largest_cluster,
        whole_clusters=unit == "cluster", shares=tuple(shares.values()),
        once=read_once(data), whole=whole,
    )  # fmt: skip

    def bound(to: PublicSchema) -> list[StatisticRequest]:
        found = [one for text in asked for one in read_asked(text, to)]
        if report_clipping is not None:
            used = dict.fromkeys(k for one in found for k in one.columns)
            numbers = (k for k in used if to.columns[k].range is not None)
            found += [Clipping(to, (k,)) for k in numbers]
        return found

    wanted = bound(schema)
    if any(one.twice for one in wanted) and read_once(data):
        raise InvalidParameter.refusing(
            "data", f"must be a file for {', '.join(asked)}: it is gone through twice", "'-'"
        )
    privacy = settle_release(
        epsilon=epsilon, delta=delta, noise_multiplier=noise_multiplier, relation=used
    )
    key = release_key(seed, name="seed")
    privacy = replace(privacy, seeded=key.seeded)
    check_release(ledger, OneRelease().scheme, privacy)
    table = open_table(
        data, schema, {k for one in wanted for k in one.columns}, missing, weights, cluster
    )
    read = 0

    def pieces() -> Iterator[Piece]:
        nonlocal read
        read = 0
        for piece in table.pieces():
            read += len(piece)
            yield piece

    def charge() -> None:
        if schema.public_size:
            warn_of_large_delta(privacy.delta, read)
        charge_release(ledger, privacy.plan, f"release: {', '.join(asked)}"[:200])

    estimates = run_rounds(
        schema,
        pieces,
        bound,
        privacy.noise_multiplier,
        charge=charge,
        source=NoiseSource(key.seed),
        level=level,
        simultaneous=simultaneous,
        clipping=report_clipping,
        progress=progress,
    )
    return ReleaseResult(estimates, privacy, level)
