"""A private bootstrap: draw subsets, compute statistics on each, release them with noise, infer.

Order matters. What was asked for is checked first, then the noise is settled and certified, then
the data are read and the exact replicates computed. Only then is the ledger charged and the noise
drawn, in one place and once: a share of the work that had to be repeated repeats nothing that was
released.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from mustdp.calibration.settle import Spent
from mustdp.errors import InvalidParameter, NumericalFailure
from mustdp.ledger.ledger import Ledger
from mustdp.mechanisms.relation import resolve_relation
from mustdp.numerics import checks
from mustdp.numerics.arrays import FloatArray
from mustdp.resampling.designs import MOST_REPLICATES, Design
from mustdp.resampling.execution.partitioned import open_partitioned
from mustdp.resampling.execution.replicates import check_execution, run_replicates
from mustdp.resampling.inference import infer
from mustdp.resampling.intervals import KINDS, Kind, check_kind
from mustdp.resampling.noise import settle_design
from mustdp.resampling.result import BootstrapResult, InferenceNote
from mustdp.resampling.sources.opening import open_source
from mustdp.resampling.sources.source import Source
from mustdp.resampling.statistics.actual_size import OfActualSize
from mustdp.resampling.statistics.joint import Joint
from mustdp.resampling.statistics.named import read_statistic
from mustdp.resampling.statistics.query import Query, Statistic
from mustdp.sampling.scheme import Scheme
from mustdp.sampling.seeding import noise_generator, release_seed

#: A bound for all columns, one for each, or one by name.
Limits = float | Sequence[float] | Mapping[str, float]


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
    epsilon_prime: float | None = None,
    relation: str | None = None,
    interval: Kind = "normal",
    level: float = 0.95,
    correct_bias: bool = True,
    workers: int | None = None,
    dask: Any = None,
    ledger: Ledger | None = None,
    random_state: Any = None,
    progress: Callable[[int, int], None] | None = None,
) -> BootstrapResult:
    """Estimate with intervals from noisy replicates on random subsets, at a certified cost.

    ``data``: an array, a pandas or polars frame, an Arrow table, or the path of a CSV or Parquet
    file; ``columns`` picks columns by name. Values are clipped to [lower, upper], which must be
    known without looking at the data. ``statistic``: one or several of mean, variance, sd, median,
    quantile:P, proportion:…, covariance, correlation, regression, or Statistic objects; several
    share one release. ``design``: a scheme with ``replicates`` draws, or a :class:`Design` such as
    :func:`double_bootstrap` and :func:`bag_of_little_bootstraps` give.

    The noise comes from a total (``epsilon``, ``delta``) for everything released here, or is given
    as ``noise_multiplier``, or as the MUST paper's per-query ``epsilon_prime``, which is not a
    guarantee. ``interval`` is normal, percentile or bootstrap-t.

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
    checks.choice("interval", interval, KINDS)
    level = checks.real("level", level, above=0, below=1)
    check_kind(interval, level, chosen)
    check_execution(workers, dask)
    names = (columns,) if isinstance(columns, str) else None if columns is None else tuple(columns)
    check_limits(lower, upper)
    privacy = settle_design(
        chosen,
        queries=len(wanted),
        epsilon=epsilon,
        delta=delta,
        noise_multiplier=noise_multiplier,
        epsilon_prime=epsilon_prime,
        relation=relation,
    ).spent()
    if ledger is not None:
        _check_ledger(ledger, chosen, privacy)
    source = _open(data, names, chosen.n, dask)
    low, high = _limits("lower", lower, source), _limits("upper", upper, source)
    query = _joint(wanted, source, low, high, chosen, paper=epsilon_prime is not None)
    seed = release_seed(random_state)
    exact = run_replicates(
        source, chosen, query, seed,
        lower=low, upper=high, workers=workers, dask=dask, progress=progress,
    )  # fmt: skip
    if not np.all(np.isfinite(exact)):
        raise NumericalFailure("a statistic is not finite on some subset; nothing was released")
    scales = noise_scales(query, privacy)
    if ledger is not None:
        _charge(ledger, privacy)
    released = exact + noise_generator(seed).standard_normal(exact.shape) * scales
    found = infer(
        chosen, query, released, scales**2, kind=interval, level=level, correct=correct_bias
    )
    for note in found.notes:
        warnings.warn(note, InferenceNote, stacklevel=2)
    return BootstrapResult(
        found.estimates, privacy, chosen, level, interval, found.replicates, found.notes
    )


def noise_scales(query: Query, privacy: Spent) -> FloatArray:
    """Standard deviation of the noise of every coordinate."""
    return np.concatenate(
        [np.full(block.width, privacy.noise_multiplier * block.reach) for block in query.blocks]
    )


def _open(data: Any, names: tuple[str, ...] | None, n: int, dask: Any) -> Source:
    """The data where they are; partitions of a dask collection stay on their cluster."""
    if not hasattr(data, "__dask_graph__"):
        return open_source(data, names, n=n)
    client = None if dask is None or isinstance(dask, str) else dask
    source = open_partitioned(data, names, client)
    if source.n != n:
        raise InvalidParameter(f"n must be the number of records, {source.n}, got {n}")
    return source


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
    return Design(design, checks.integer("replicates", replicates, 2, MOST_REPLICATES))


def check_limits(lower: Limits, upper: Limits) -> None:
    """Refuse limits that are wrong whatever the columns are."""
    for name, limit in (("lower", lower), ("upper", upper)):
        values = limit.values() if isinstance(limit, Mapping) else np.atleast_1d(limit)
        for value in values:
            checks.real(name, value)
    if isinstance(lower, int | float) and isinstance(upper, int | float):
        _check_order(lower, upper, "")


def _check_order(low: float, high: float, where: str) -> None:
    if not low < high:
        raise InvalidParameter(f"lower must be below upper{where}, got {low!r} and {high!r}")


def _limits(name: str, limit: Limits, source: Source) -> tuple[float, ...]:
    columns = source.columns
    if isinstance(limit, Mapping):
        if set(limit) != set(columns):
            raise InvalidParameter(
                f"{name} must have one entry for each of {', '.join(columns)}, "
                f"got {', '.join(map(str, limit))}"
            )
        return tuple(float(limit[column]) for column in columns)
    values = np.atleast_1d(np.asarray(limit, dtype=np.float64))
    if values.ndim != 1 or values.size not in (1, len(columns)):
        raise InvalidParameter(
            f"{name} must be one number or one for each of the {len(columns)} columns, "
            f"got {values.size}"
        )
    return tuple(float(x) for x in np.broadcast_to(values, len(columns)))


def _joint(
    wanted: Sequence[Statistic],
    source: Source,
    low: Sequence[float],
    high: Sequence[float],
    design: Design,
    *,
    paper: bool,
) -> Query:
    """Bind all statistics to their columns and put them into one release."""
    for column, least, most in zip(source.columns, low, high, strict=True):
        _check_order(least, most, f" for column {column}")
    picks: list[tuple[int, ...]] = []
    queries: list[Query] = []
    for statistic in wanted:
        pick = _pick(statistic, source.columns)
        statistic.check_columns(len(pick))
        ends = tuple(low[k] for k in pick), tuple(high[k] for k in pick)
        picks.append(pick)
        if paper and design.poisson:
            queries.append(OfActualSize(statistic, *ends, round(design.size)))
        else:
            queries.append(statistic.query(*ends, design.size, poisson=design.poisson))
    return Joint(tuple(queries), tuple(picks), names=_names(wanted, picks, source.columns))


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
            raise InvalidParameter(
                f"columns of {statistic.name} must be among {', '.join(columns)}, got {wanted!r}"
            )
    return tuple(found)


def _charge(ledger: Ledger, privacy: Spent) -> None:
    if privacy.plan is None or not privacy.certified:
        raise InvalidParameter(
            "ledger must be left out for a release without a guarantee: it could not be charged"
        )
    ledger.step(privacy.plan)


def _check_ledger(ledger: Ledger, design: Design, privacy: Spent) -> None:
    """A ledger of another relation would answer a question that was not asked."""
    used = ledger.relation or resolve_relation(design.scheme, None)
    if used != privacy.relation:
        raise InvalidParameter(
            f"relation must be that of the ledger, {used}, got {privacy.relation}; make the ledger "
            f"with Ledger(relation={privacy.relation!r})"
        )
