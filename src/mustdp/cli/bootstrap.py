"""``mustdp bootstrap``: estimates and intervals from noisy replicates on random subsets."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mustdp.cli import words
from mustdp.cli.budgets import BudgetOptions
from mustdp.cli.bundles import with_bundles
from mustdp.cli.designs import DesignOptions, resampling_option
from mustdp.cli.numbers import number, one_of, whole
from mustdp.cli.options import JsonOption, SchemeOptions
from mustdp.cli.output import Answer, readable
from mustdp.cli.progress import progress
from mustdp.cli.targets import RelationOption, read_relation
from mustdp.errors import InvalidParameter
from mustdp.numerics.decimals import as_stated

if TYPE_CHECKING:
    from mustdp.resampling.result import BootstrapResult

_KINDS = ("normal", "percentile", "bootstrap-t")

FileArgument = Annotated[
    str, typer.Argument(metavar="FILE", help="A CSV or Parquet file.", show_default=False)
]
ColumnOption = Annotated[
    list[str] | None,
    resampling_option("--column", metavar="NAME", help="Column to read; repeat it for several."),
]
LowerOption = Annotated[
    list[str] | None,
    resampling_option(
        "--lower",
        metavar="L",
        help="Values below are clipped to it. Once, or once for each --column. Must be known "
        "without looking at the data.",
    ),
]
UpperOption = Annotated[
    list[str] | None,
    resampling_option("--upper", metavar="U", help="Values above are clipped to it."),
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
        metavar="KIND",
        help="normal, percentile or bootstrap-t (nested designs).",
        show_default=True,
    ),
]
LevelOption = Annotated[
    str,
    resampling_option("--level", metavar="P", help="Coverage of the interval.", show_default=True),
]
WorkersOption = Annotated[
    str | None,
    resampling_option(
        "--workers", metavar="W", help="Processes on this machine. Default: by the work."
    ),
]
DaskOption = Annotated[
    str | None,
    resampling_option(
        "--dask",
        metavar="ADDRESS",
        help="Run on a Dask cluster: the scheduler's address (tcp://...), or local.",
    ),
]
SeedOption = Annotated[
    str | None,
    resampling_option(
        "--seed",
        metavar="INT",
        help="Reproducible, for experiments only: whoever knows the seed can subtract the noise.",
    ),
]


@with_bundles
def bootstrap(
    file: FileArgument,
    scheme: SchemeOptions,
    design: DesignOptions,
    budget: BudgetOptions,
    column: ColumnOption = None,
    lower: LowerOption = None,
    upper: UpperOption = None,
    statistic: StatisticOption = None,
    relation: RelationOption = None,
    interval: IntervalOption = "normal",
    level: LevelOption = "0.95",
    workers: WorkersOption = None,
    dask: DaskOption = None,
    seed: SeedOption = None,
    json: JsonOption = False,
) -> Answer:
    """Estimate with confidence intervals from noisy replicates, at a certified total cost.

    -n may be left out: it is the number of rows of the file. Only drawn rows of a Parquet file are
    read. Everything is checked, calibrated and certified before anything is computed from the data.

    Example: mustdp bootstrap ages.csv --column age --lower 0 --upper 100 --statistic mean
    --design subsampling -m 500 --replicates 100 --epsilon 1 --delta 1e-6
    """
    limits: dict[str, Any] = {
        "lower": _limits("--lower", lower, column),
        "upper": _limits("--upper", upper, column),
    }
    noise = budget.read()
    settings: dict[str, Any] = {
        "interval": one_of("--interval", interval, _KINDS),
        "level": number("--level", level, above=0, below=1),
        "relation": None if relation is None else read_relation(relation),
        "workers": None if workers is None else whole("--workers", workers, 1, 4096),
        "dask": dask,
        "random_state": None if seed is None else whole("--seed", seed, 0),
    }
    options, counts = design.check(scheme)

    from mustdp.resampling.bootstrap import check_limits, private_bootstrap
    from mustdp.resampling.result import InferenceNote
    from mustdp.resampling.sources.opening import open_source
    from mustdp.resampling.statistics.named import read_statistic
    from mustdp.sampling.seeding import SeededRelease

    check_limits(**limits)
    wanted = [read_statistic(name) for name in statistic or ("mean",)]
    if options.n is None:
        with progress(doing=f"opening {file}"):
            data: Any = open_source(file, tuple(column) if column else None)
        options = dataclasses.replace(options, n=str(data.n))
    else:
        data = file
    plan = design.build(options, counts)
    with warnings.catch_warnings(), _counting() as on_share:
        # Both are part of the answer: the notes below the table, the seed as a remark.
        warnings.simplefilter("ignore", InferenceNote)
        warnings.simplefilter("ignore", SeededRelease)
        result = private_bootstrap(
            data, wanted, design=plan, columns=tuple(column) if column else None,
            progress=on_share, **limits, **noise, **settings,
        )  # fmt: skip
    return _answer(result, settings["random_state"], json)


def _limits(
    option: str, texts: list[str] | None, columns: list[str] | None
) -> float | tuple[float, ...]:
    if not texts:
        raise InvalidParameter(f"{option} is missing: give the end of the range that is known")
    values = tuple(number(option, text) for text in texts)
    if len(values) not in (1, len(columns or ("",))):
        raise InvalidParameter(
            f"{option} must be given once, or once for each --column, got {len(values)} of them"
        )
    return values[0] if len(values) == 1 else values


@contextmanager
def _counting() -> Iterator[Callable[[int, int], None]]:
    """A bar over the shares of the work, drawn once their number is known."""
    with progress(doing="certifying and resampling") as begin:
        yield lambda done, total: begin(f"{done} of {total} shares of the replicates")


def _answer(result: BootstrapResult, seed: int | None, as_json: bool) -> Answer:
    privacy = result.privacy
    if privacy.plan is not None:
        words.two_sided(privacy.epsilon, "here")
    data = result.as_dict()
    relation = words.typed(privacy.relation)
    data["privacy"]["relation"] = relation
    remark = ""
    if seed is not None:
        remark = (
            f"a run with --seed {seed} can be repeated, its noise with it, and is therefore for "
            "experiments only; a private release needs a run without it"
        )
    percent = f"{100 * result.level:g} % interval"
    design = result.design
    reused = f", each used {design.reuse} times" if design.reuse > 1 else ""
    return Answer(
        data,
        as_json=as_json,
        heading=f"{words.describe(design.scheme)}; subsets: {design.subsets}{reused}",
        columns=("estimate of", "value", "standard error", percent, "noise share"),
        rows=tuple(
            (
                estimate.label,
                readable(estimate.value, digits=5),
                readable(estimate.standard_error, "up"),
                f"[{readable(estimate.interval[0], 'down', 5)}, "
                f"{readable(estimate.interval[1], 'up', 5)}]",
                f"{100 * estimate.noise_share:.0f} %",
            )
            for estimate in result.estimates
        ),
        note="\n".join((*_cost(result, relation), *(f"note: {note}." for note in result.notes))),
        remark=remark,
    )


def _cost(result: BootstrapResult, relation: str) -> Iterator[str]:
    privacy = result.privacy
    if privacy.plan is None:
        yield f"epsilon: no guarantee is known ({privacy.source})."
    else:
        yield (
            f"epsilon at delta {as_stated(privacy.delta)}: at least "
            f"{readable(privacy.epsilon.lower, 'down', 4)}, at most "
            f"{readable(privacy.epsilon.upper, 'up', 4)} for all replicates together."
        )
        yield words.upper_in_words(privacy.epsilon, "epsilon", relation)
        yield words.lower_in_words(privacy.epsilon, relation, result.design.scheme)
    yield (
        f"gaussian noise, noise multiplier {words.multiplier_in_words(privacy.noise_multiplier)} "
        f"({privacy.source}), relation {relation}."
    )
    yield "noise share: part of the squared standard error that the noise causes."
