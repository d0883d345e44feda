"""``mustdp bootstrap``: estimates and intervals from noisy replicates on random subsets."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

from mustdp.cli import words
from mustdp.cli.budgets import BudgetOptions
from mustdp.cli.bundles import with_bundles
from mustdp.cli.designs import DesignOptions
from mustdp.cli.numbers import read_inner_rate, read_integer, read_natural, read_number
from mustdp.cli.options import JsonOption, SchemeOptions
from mustdp.cli.output import Answer
from mustdp.cli.progress import progress
from mustdp.cli.reading_options import FileArgument, ReadingOptions, per_column
from mustdp.cli.targets import RelationOption
from mustdp.cli.typed import Panel, word_from
from mustdp.errors import InvalidParameter
from mustdp.numerics.decimals import readable

if TYPE_CHECKING:
    from mustdp.resampling.result import BootstrapResult

_resampling = Panel(
    "Resampling",
    """
    --column NAME     Column to read; repeat it for several.
    --lower L         Values below are clipped to it. Once, or once for each --column. Must be known
                      without looking at the data.
    --upper U         Values above are clipped to it.
    --statistic NAME  mean (the default), variance, sd, median, quantile:P, proportion:>X (or >=, <,
                      <=, =), covariance, correlation, regression (the last column on the others).
                      Repeat it for several in one release.
    --interval KIND   normal; percentile, bootstrap-t and BCa are refused with the reason.
    --level P         Coverage of the interval.
    --simultaneous    Widen all intervals until they hold together (Bonferroni).
    --population N    Size of the population that the records were drawn from, without replacement.
    --workers W       Processes on this machine. Default: by the work.
    --dask ADDRESS    Run on a Dask cluster: the scheduler's address (tls://...), or local.
    --insecure        Accept a scheduler without certificates (tcp://...): anybody who reaches it
                      can read the records and run code.
    --seed INT        Reproducible, for experiments only: whoever knows the seed can subtract the
                      noise.
    --ledger FILE     Charge the release to this ledger (mustdp ledger create); one that would pass
                      its limit is refused before the data are read.
    """,
)
ColumnOption = Annotated[list[str] | None, _resampling("--column")]
SeedOption = Annotated[int | None, _resampling("--seed", read_natural)]
LedgerOption = Annotated[str | None, _resampling("--ledger")]


@dataclass(frozen=True)
class ResamplingOptions:
    """What :func:`mustdp.private_bootstrap` takes under the same names."""

    relation: RelationOption = None
    interval: Annotated[
        str, _resampling("--interval", word_from("mustdp.resampling.intervals", "WORDS"))
    ] = "normal"
    level: Annotated[float, _resampling("--level", read_inner_rate)] = 0.95
    simultaneous: Annotated[bool, _resampling("--simultaneous")] = False
    population: Annotated[int | None, _resampling("--population", read_natural)] = None
    workers: Annotated[int | None, _resampling("--workers", partial(read_integer, high=4096))] = (
        None
    )
    dask: Annotated[str | None, _resampling("--dask")] = None
    insecure: Annotated[bool, _resampling("--insecure")] = False
    seed: SeedOption = None


@with_bundles
def bootstrap(
    file: FileArgument,
    *,
    scheme: SchemeOptions,
    design: DesignOptions,
    budget: BudgetOptions,
    reading: ReadingOptions,
    column: ColumnOption = None,
    lower: Annotated[list[float] | None, _resampling("--lower", read_number)] = None,
    upper: Annotated[list[float] | None, _resampling("--upper", read_number)] = None,
    statistic: Annotated[list[str] | None, _resampling("--statistic")] = None,
    settings: ResamplingOptions,
    ledger: LedgerOption = None,
    json: JsonOption = False,
) -> Answer:
    """Estimate with confidence intervals from noisy replicates, at a certified total cost.

    -n may be left out: it is the number of rows of the file (not with poisson under add-remove,
    where that number is private and -n a public estimate of it). Only drawn rows of a Parquet file
    are read. Everything is checked, calibrated and certified before anything is computed from the
    data.

    Example: mustdp bootstrap ages.csv --column age --lower 0 --upper 100 --statistic mean
    --design subsampling -m 500 --replicates 100 --epsilon 1 --delta 1e-6
    """
    limits: dict[str, Any] = {
        "lower": _limits("--lower", lower, column),
        "upper": _limits("--upper", upper, column),
    }
    noise = budget.read(scheme.n)
    options, counts = design.check(scheme)

    from mustdp.randomness.seeds import SeededRelease
    from mustdp.resampling.bootstrap import check_limits, private_bootstrap
    from mustdp.resampling.result import InferenceNote
    from mustdp.resampling.sources.opening import open_source, refuse_dropping
    from mustdp.resampling.statistics.named import read_statistic

    check_limits(**limits)
    wanted = [read_statistic(name) for name in statistic or ("mean",)]
    data: Any = reading.of(file)
    refuse_dropping(data)
    if options.n is None:
        options.size_is_private(settings.relation)  # the answer shows it
        with progress(f"opening {file}"):
            data = open_source(data, tuple(column) if column else None)
    plan = design.build(options, options.n or data.n, counts)
    import mustdp

    opened = nullcontext() if ledger is None else mustdp.Ledger.open(ledger)
    with (
        warnings.catch_warnings(),
        progress("certifying and resampling") as move,
        opened as charged,
    ):
        # Both are part of the answer: the notes below the table, the seed as a remark.
        warnings.simplefilter("ignore", InferenceNote)
        warnings.simplefilter("ignore", SeededRelease)
        result = private_bootstrap(
            data, wanted, design=plan, columns=tuple(column) if column else None,
            progress=move, ledger=charged, **limits, **noise, **asdict(settings),
        )  # fmt: skip
    return _answer(result, settings.seed, json)


def _limits(
    name: str, values: list[float] | None, columns: list[str] | None
) -> float | tuple[float, ...]:
    if not values:
        raise InvalidParameter(f"{name} is missing: give the end of the range that is known")
    return per_column(name, values, columns or ("",))


def _answer(result: BootstrapResult, seed: int | None, as_json: bool) -> Answer:
    privacy = result.privacy
    if privacy.plan is not None:
        words.two_sided(privacy.epsilon, "here")
    data = result.as_dict()
    data["privacy"]["relation"] = privacy.relation.option
    percent = f"{100 * result.level:g} % interval"
    design = result.design
    reused = f", each used {design.reuse} times" if design.reuse > 1 else ""
    return Answer(
        data,
        as_json=as_json,
        heading=words.headed(
            privacy, f"{words.describe(design.scheme)}; subsets: {design.subsets}{reused}"
        ),
        columns=("estimate of", "value", "standard error", percent, "noise share"),
        rows=tuple(
            (
                estimate.description or estimate.label,
                words.known(estimate.value, digits=5),
                words.known(estimate.standard_error, "up"),
                f"[{readable(estimate.interval[0], 'down', 5)}, "
                f"{readable(estimate.interval[1], 'up', 5)}]",
                f"{100 * estimate.noise_share:.0f} %",
            )
            for estimate in result.estimates
        ),
        note="\n".join((*_cost(result), *(f"note: {note}." for note in result.notes))),
        remark=words.seed_in_words(seed),
    )


def _cost(result: BootstrapResult) -> Iterator[str]:
    privacy = result.privacy
    relation = privacy.relation
    if privacy.plan is None:
        yield f"epsilon: no guarantee is known ({privacy.source})."
    else:
        yield words.spent_in_words(privacy, "for all replicates together")
        yield words.both_in_words(privacy.epsilon, "epsilon", relation, result.design.scheme)
    settled = words.settled_in_words(privacy.noise_multiplier, privacy.source, relation)
    yield f"gaussian noise, {settled}"
    if privacy.dimension == 1:
        yield "accounted for as one number a subset (dimension 1)."
    yield "noise share: part of the squared standard error that the noise causes."
