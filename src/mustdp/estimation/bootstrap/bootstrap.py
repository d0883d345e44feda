"""A private bootstrap: draw subsets, compute statistics on each, release them with noise, infer."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from mustdp.data.dask import open_partitioned
from mustdp.data.opening import open_source
from mustdp.data.source import Source
from mustdp.errors import InvalidParameter
from mustdp.estimation.bootstrap.designs import MOST_REPLICATES, Design
from mustdp.estimation.bootstrap.inference import (
    FEWEST_SUBSETS,
    Kind,
    check_kind,
    check_subsets,
    infer,
)
from mustdp.estimation.bootstrap.lattices import check_shape, exact_release, settle_design, shape_of
from mustdp.estimation.bootstrap.named import read_statistic
from mustdp.estimation.bootstrap.query import (
    Joint,
    Public,
    Query,
    Statistic,
    check_held,
)
from mustdp.estimation.bootstrap.replicates import check_execution, run_replicates
from mustdp.estimation.bootstrap.result import BootstrapResult, InferenceNote
from mustdp.ledger.release import LedgerOrPath, charge_release, check_release
from mustdp.mechanisms.relation import drawn_from, most_copies
from mustdp.numerics import checks
from mustdp.progress import Progress
from mustdp.randomness.keys import release_key
from mustdp.randomness.noise_bits import NoiseSource
from mustdp.sampling.schemes import Scheme

# Statistics bound to the columns that they read, and put into one release.


def joined(
    wanted: Sequence[Statistic],
    source: Source,
    low: Sequence[float],
    high: Sequence[float],
    design: Design,
) -> Joint:
    """Bind all statistics to their columns and put them into one release."""
    for at, (least, most) in enumerate(zip(low, high, strict=True)):
        check_order(least, most, f" for column {at} (the first is 0)")
    public = Public(low, high, design.size, design.poisson, design.repeated_pairs)
    picks: list[tuple[int, ...]] = []
    queries: list[Query] = []
    for statistic in wanted:
        pick = _pick(statistic, source.columns)
        statistic.check_columns(len(pick))
        picks.append(pick)
        own = public.of(pick)
        queries.append(
            statistic.labelled(statistic.query(own), [_called(source.columns[k]) for k in pick])
        )
    return Joint(tuple(queries), tuple(picks), names=_names(wanted, picks, source.columns))


def _called(name: str) -> str:
    """A column by its name, or by its place where it has none."""
    return f"column {name}" if name.isdigit() else name


def descriptions(
    wanted: Sequence[Statistic],
    query: Joint,
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
        for statistic, own, pick in zip(wanted, query.queries, query.picks, strict=True)
        for label in own.labels
    )


def _names(
    wanted: Sequence[Statistic], picks: Sequence[Sequence[int]], columns: Sequence[str]
) -> tuple[str, ...] | None:
    """What tells equal statistics of different columns apart: the columns' names."""
    names = [statistic.name for statistic in wanted]
    if len(set(names)) == len(names):
        return None
    return tuple(",".join(columns[k] for k in pick) for pick in picks)


def _pick(statistic: Statistic, columns: Sequence[str]) -> tuple[int, ...]:
    if statistic.columns is None:
        return tuple(range(len(columns)))
    found = []
    for wanted in statistic.columns:
        if isinstance(wanted, str) and wanted in columns:
            found.append(list(columns).index(wanted))
        elif isinstance(wanted, int) and 0 <= wanted < len(columns):
            found.append(wanted)
        else:
            allowed = f"of {statistic.name} must be among the {len(columns)} selected"
            raise InvalidParameter.refusing("columns", allowed, repr(wanted))
    return tuple(found)


def label_of(wanted: Sequence[Statistic]) -> str:
    """What an entry of a ledger says about a bootstrap."""
    label = f"bootstrap: {', '.join(statistic.name for statistic in wanted)}"
    return label if len(label) <= 200 else f"{label[:197]}..."


def check_order(low: float, high: float, where: str) -> None:
    """Refuse ends of a range that are not in order."""
    if not low < high:
        allowed, got = f"must be below {{upper}}{where}", f"{low!r} and {high!r}"
        raise InvalidParameter.refusing("lower", allowed, got, mentions=("upper",))


# A private bootstrap: draw subsets, compute statistics on each, release them with noise, infer.
#
# Order matters. What was asked for is checked first, then the noise is settled and certified, then
# the data are read and the exact replicates computed, in steps of a lattice. Only then is the
# ledger charged and the noise drawn, in one place and once: work that had to be repeated repeats
# nothing that was released. The source of the noise never leaves this process.


#: A bound for all columns, one for each, or one by name.
Limits = float | Sequence[float] | Mapping[str, float]

#: Ends of ranges are within this: the variance of a variance has to stay a number.
_FARTHEST = 1e60


def private_bootstrap(
    data: Any,
    statistic: str | Statistic | Sequence[str | Statistic] = "mean",
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
    statistic : str, Statistic or sequence of them, default="mean"
        One or several of mean, variance, sd, median, quantile:P, proportion:…, covariance,
        correlation, regression, or objects such as ``md.Mean()``; several share one release.
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
        Repeats a run, which is for experiments only: whoever knows the seed can subtract the noise.
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
    wanted = _read_statistics(statistic)
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
    shape = shape_of(wanted, chosen.poisson, charged=ledger is not None)
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
    low, high = _limits("lower", lower, source), _limits("upper", upper, source)
    _check_widths(low, high)
    query = joined(wanted, source, low, high, chosen)
    check_shape(shape, query, privacy)
    check_held("replicates", query.width, chosen.releases)
    copies = most_copies(chosen.scheme, privacy.relation)
    exact = exact_release(query, privacy.noise_multiplier, copies)
    totals = run_replicates(
        source, drawn, exact.stepped, key,
        lower=low, upper=high, stated=chosen, workers=workers, dask=dask,
        insecure=insecure, progress=progress,
    )  # fmt: skip
    charge_release(ledger, privacy.plan, label_of(wanted))
    released = exact.released(totals, NoiseSource(key.seed))
    found = infer(
        chosen, query, released, exact.deviations**2,
        level=level, correct=correct_bias, simultaneous=simultaneous,
        population=math.inf if population is None else population,
        descriptions=descriptions(wanted, query, source.columns, low, high),
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


def _read_statistics(
    statistic: str | Statistic | Sequence[str | Statistic],
) -> tuple[Statistic, ...]:
    given = (statistic,) if isinstance(statistic, str | Statistic) else tuple(statistic)
    if not given:
        raise InvalidParameter("statistic must name at least one statistic, got none")
    return tuple(read_statistic(one) for one in given)


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


def check_limits(lower: Limits, upper: Limits) -> None:
    """Refuse limits that are wrong whatever the columns are."""
    for name, limit in (("lower", lower), ("upper", upper)):
        values = limit.values() if isinstance(limit, Mapping) else np.atleast_1d(limit)
        for value in values:
            checks.real(name, value, at_least=-_FARTHEST, at_most=_FARTHEST)
    if isinstance(lower, int | float) and isinstance(upper, int | float):
        check_order(lower, upper, "")


def _check_widths(lower: Sequence[float], upper: Sequence[float]) -> None:
    """Refuse ranges so narrow that the variance of a variance would vanish."""
    for low, high in zip(lower, upper, strict=True):
        if low < high and not high - low >= 1.0 / _FARTHEST:
            raise InvalidParameter.refusing(
                "lower",
                f"and {{upper}} must be apart by at least {1.0 / _FARTHEST:g}",
                f"{low!r} and {high!r}",
                mentions=("upper",),
            )


def _limits(name: str, limit: Limits, source: Source) -> tuple[float, ...]:
    columns = source.columns
    if isinstance(limit, Mapping):
        if set(limit) != set(columns):
            raise InvalidParameter(
                f"{name} must have one entry for each of the {len(columns)} columns, by name, "
                f"got {', '.join(map(str, limit))}"
            )
        return tuple(float(limit[column]) for column in columns)
    values = np.atleast_1d(np.asarray(limit, dtype=np.float64))
    if values.ndim != 1 or values.size not in (1, len(columns)):
        allowed = f"must be one number or one for each of the {len(columns)} columns"
        raise InvalidParameter.refusing(name, allowed, values.size)
    return tuple(float(x) for x in np.broadcast_to(values, len(columns)))
