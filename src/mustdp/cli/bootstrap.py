"""``mustdp bootstrap``: estimates and intervals from noisy replicates on random subsets."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import nullcontext
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mustdp.cli import words
from mustdp.cli.budgets import BudgetOptions
from mustdp.cli.bundles import with_bundles
from mustdp.cli.designs import DesignOptions, resampling_option
from mustdp.cli.numbers import read_integer, read_natural, read_number
from mustdp.cli.options import JsonOption, SchemeOptions
from mustdp.cli.output import Answer
from mustdp.cli.progress import progress
from mustdp.cli.reading_options import FileArgument, ReadingOptions
from mustdp.cli.targets import RelationOption
from mustdp.cli.typed import word_from
from mustdp.errors import InvalidParameter
from mustdp.mechanisms.relation import Relation
from mustdp.numerics.decimals import as_stated, readable

if TYPE_CHECKING:
    from mustdp.resampling.result import BootstrapResult

ColumnOption = Annotated[
    list[str] | None,
    resampling_option("--column", metavar="NAME", help="Column to read; repeat it for several."),
]
LowerOption = Annotated[
    list[float] | None,
    resampling_option(
        "--lower",
        read_number,
        metavar="L",
        help="Values below are clipped to it. Once, or once for each --column. Must be known "
        "without looking at the data.",
    ),
]
UpperOption = Annotated[
    list[float] | None,
    resampling_option("--upper", read_number, metavar="U", help="Values above are clipped to it."),
]
StatisticOption = Annotated[
    list[str] | None,
    resampling_option(
        "--statistic",
        metavar="NAME",
        help="mean (the default), variance, sd, median, quantile:P, proportion:>X (or >=, <, <=, "
        "=), covariance, correlation, regression (the last column on the others). Repeat it for "
        "several in one release.",
    ),
]
IntervalOption = Annotated[
    str,
    resampling_option(
        "--interval",
        word_from("mustdp.resampling.intervals", "WORDS"),
        metavar="KIND",
        help="normal; percentile, bootstrap-t and BCa are refused with the reason.",
        show_default=True,
    ),
]
LevelOption = Annotated[
    float,
    resampling_option(
        "--level",
        partial(read_number, above=0, below=1),
        metavar="P",
        help="Coverage of the interval.",
        show_default=True,
    ),
]
SimultaneousOption = Annotated[
    bool,
    typer.Option(
        "--simultaneous",
        help="Widen all intervals until they hold together (Bonferroni).",
        rich_help_panel="Resampling",
    ),
]
PopulationOption = Annotated[
    int | None,
    resampling_option(
        "--population",
        read_natural,
        metavar="N",
        help="Size of the population that the records were drawn from, without replacement.",
    ),
]
WorkersOption = Annotated[
    int | None,
    resampling_option(
        "--workers",
        partial(read_integer, high=4096),
        metavar="W",
        help="Processes on this machine. Default: by the work.",
    ),
]
DaskOption = Annotated[
    str | None,
    resampling_option(
        "--dask",
        metavar="ADDRESS",
        help="Run on a Dask cluster: the scheduler's address (tls://...), or local.",
    ),
]
InsecureOption = Annotated[
    bool,
    typer.Option(
        "--insecure",
        rich_help_panel="Resampling",
        help="Accept a scheduler without certificates (tcp://...): anybody who reaches it can read "
        "the records and run code.",
    ),
]
SeedOption = Annotated[
    int | None,
    resampling_option(
        "--seed",
        read_natural,
        metavar="INT",
        help="Reproducible, for experiments only: whoever knows the seed can subtract the noise.",
    ),
]
LedgerOption = Annotated[
    str | None,
    resampling_option(
        "--ledger",
        metavar="FILE",
        help="Charge the release to this ledger (mustdp ledger create); one that would pass its "
        "limit is refused before the data are read.",
    ),
]


@with_bundles
def bootstrap(
    file: FileArgument,
    scheme: SchemeOptions,
    design: DesignOptions,
    budget: BudgetOptions,
    reading: ReadingOptions,
    column: ColumnOption = None,
    lower: LowerOption = None,
    upper: UpperOption = None,
    statistic: StatisticOption = None,
    relation: RelationOption = None,
    interval: IntervalOption = "normal",
    level: LevelOption = 0.95,
    simultaneous: SimultaneousOption = False,
    population: PopulationOption = None,
    workers: WorkersOption = None,
    dask: DaskOption = None,
    insecure: InsecureOption = False,
    seed: SeedOption = None,
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
    settings: dict[str, Any] = {
        "interval": interval,
        "level": level,
        "simultaneous": simultaneous,
        "population": population,
        "relation": relation,
        "workers": workers,
        "dask": dask,
        "insecure": insecure,
        "seed": seed,
    }
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
        _check_size_is_public(options, relation)
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
            progress=move, ledger=charged, **limits, **noise, **settings,
        )  # fmt: skip
    return _answer(result, seed, json)


def _check_size_is_public(options: SchemeOptions, relation: Relation | None) -> None:
    """Refuse to take -n from the file where the answer, which shows it, must not tell it."""
    if options.scheme == "poisson" and relation != Relation.REPLACE_ONE:
        raise InvalidParameter(
            "-n is missing: under add-remove the number of records is private; give a public "
            "estimate of it, or --relation replace-one"
        )


def _limits(
    name: str, values: list[float] | None, columns: list[str] | None
) -> float | tuple[float, ...]:
    if not values:
        raise InvalidParameter(f"{name} is missing: give the end of the range that is known")
    if len(values) not in (1, len(columns or ("",))):
        raise InvalidParameter.refusing(
            name, "must be given once, or once for each --column", f"{len(values)} of them"
        )
    return values[0] if len(values) == 1 else tuple(values)


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
                readable(estimate.value, digits=5),
                readable(estimate.standard_error, "up"),
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
        without = " without the seed" if privacy.seeded else ""
        yield (
            f"epsilon{without} at delta {as_stated(privacy.delta)}: at least "
            f"{readable(privacy.epsilon.lower, 'down', 4)}, at most "
            f"{readable(privacy.epsilon.upper, 'up', 4)} for all replicates together."
        )
        yield words.both_in_words(privacy.epsilon, "epsilon", relation, result.design.scheme)
    settled = words.settled_in_words(privacy.noise_multiplier, privacy.source, relation)
    yield f"gaussian noise, {settled}"
    if privacy.dimension == 1:
        yield "accounted for as one number a subset (dimension 1)."
    yield "noise share: part of the squared standard error that the noise causes."
