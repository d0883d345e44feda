"""``private_release``: one noisy release on all records, with estimates and intervals.

Order matters. What was asked for is checked first, then the noise is settled and certified and the
ledger asked, then the data are read and exact sums made, in whole steps of a lattice. Only then is
the ledger charged and noise drawn. Estimates that are curved in what was released get a second
round on the same data, for their standard errors, out of the same budget (``stack.py``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from mustdp.errors import InvalidParameter
from mustdp.ledger.ledger import Ledger
from mustdp.ledger.release import charge_release, check_release
from mustdp.mechanisms.relation import Relation
from mustdp.numerics import checks
from mustdp.progress import Progress
from mustdp.randomness.keys import release_key
from mustdp.randomness.noise_bits import NoiseSource
from mustdp.releasing.budget import OneRelease, settle_release
from mustdp.releasing.describing import Limits, read_ground
from mustdp.releasing.ground import Ground
from mustdp.releasing.records import column_names, missing_of, open_table, read_once
from mustdp.releasing.result import ReleaseResult
from mustdp.releasing.rounds import run_rounds
from mustdp.releasing.statistics.asked import Asked
from mustdp.releasing.statistics.counts import Clipping
from mustdp.releasing.statistics.named import read_asked
from mustdp.releasing.statistics.spelled import spelled
from mustdp.releasing.strata import read_shares
from mustdp.resampling.sources.wanted import check_missing
from mustdp.resampling.statistics.query import Statistic


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
    ledger: Ledger | None = None,
    seed: Any = None,
    progress: Progress | None = None,
) -> ReleaseResult:
    """Release statistics of all records once, with intervals for sampling and noise together.

    ``statistics``: one or several of count, sum, mean, proportion:CONDITION, variance, sd, median,
    quantile:P, histogram, covariance, correlation, regression, contingency; they share the budget.
    Each is asked of every column, or of those behind an @, as in ``mean@age``; the bootstrap's
    objects, such as ``md.Mean(columns=["age"])``, will do. Numbers are clipped to [lower, upper],
    which must be known without looking at the data; ``categories`` are public lists by column;
    ``dates`` are columns of dates with a public day each, from which days are counted. ``by`` names
    a column and ``groups`` its public values: everything is then released for each of them and for
    all others together.

    ``missing``: ``"refuse"``, the default; ``"drop"``, which leaves a record out of every statistic
    that needs the value and makes the number of records used private; or the number in its place.
    ``relation``: under replace_one the number of records is public; under add_remove it is not, and
    is released with noise wherever it is needed. ``population`` is the size of what the records
    were sampled from, or ``"census"`` where they are all of it: only noise is left then.
    ``weights`` names a column of survey weights, cut to the public ``largest_weight``: means are
    then ratios of weighted sums (Hajek), counts and sums those of the population. ``strata`` names
    the column of strata, ``stratum_shares`` their public shares of the population: estimates are
    put together from the strata, sums and tables as those of the ``population``. ``cluster`` names
    a column of numbers of clusters: standard errors are those of clusters, and with
    ``unit="cluster"`` a whole cluster, of which ``largest_cluster`` records count at most, is what
    the guarantee protects.
    ``simultaneous`` widens all intervals until they hold together (Bonferroni). ``report_clipping``
    is a share of the budget, such as 0.05, that goes into saying how many values were clipped.

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
        by, groups = strata, tuple(shares)
    missing = check_missing(missing_of(data, missing))
    names = (columns,) if isinstance(columns, str) else None if columns is None else tuple(columns)
    ground = read_ground(
        column_names(data) if names is None else names,
        named=names is not None,
        lower=lower, upper=upper, categories=categories, dates=dates, by=by, groups=groups,
        dropped=missing == "drop", relation=used, population=population,
        largest_weight=largest_weight, largest_cluster=largest_cluster,
        whole_clusters=unit == "cluster", shares=tuple(shares.values()),
        once=read_once(data),
    )  # fmt: skip

    def bound(to: Ground) -> list[Asked]:
        found = [one for text in asked for one in read_asked(text, to)]
        if report_clipping is not None:
            used = dict.fromkeys(k for one in found for k in one.columns)
            numbers = (k for k in used if to.columns[k].range is not None)
            found += [Clipping(to, (k,)) for k in numbers]
        return found

    wanted = bound(ground)
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
        data, ground, {k for one in wanted for k in one.columns}, missing, weights, cluster
    )
    estimates = run_rounds(
        ground,
        table.pieces,
        bound,
        privacy.noise_multiplier,
        charge=lambda: charge_release(ledger, privacy.plan, f"release: {', '.join(asked)}"[:200]),
        source=NoiseSource(key.seed),
        level=level,
        simultaneous=simultaneous,
        clipping=report_clipping,
        progress=progress,
    )
    return ReleaseResult(estimates, privacy, level)
