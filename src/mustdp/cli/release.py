"""``mustdp release``: statistics of all records in one noisy release, with intervals."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import nullcontext
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mustdp.cli import words
from mustdp.cli.bootstrap import ColumnOption, LedgerOption, SeedOption
from mustdp.cli.bundles import with_bundles
from mustdp.cli.numbers import clipped, read_number
from mustdp.cli.options import JsonOption, read_noise
from mustdp.cli.output import Answer
from mustdp.cli.progress import progress
from mustdp.cli.reading_options import FileArgument, ReadingOptions
from mustdp.cli.targets import DeltaOption, RelationOption, TargetOption, stated
from mustdp.cli.typed import exactly_one, option
from mustdp.errors import InvalidParameter
from mustdp.numerics.decimals import as_stated, readable

if TYPE_CHECKING:
    from mustdp.releasing.result import ReleaseResult

STATISTICS = "Statistics"


def read_population(name: str, text: str) -> int | str:
    """A whole number, or census."""
    if text == "census":
        return text
    if not text.isdecimal():
        raise InvalidParameter.refusing(
            name, "must be a whole number or census", repr(clipped(text))
        )
    return int(text)


def read_list(name: str, text: str) -> tuple[str, ...]:
    """Words between commas."""
    found = tuple(word.strip() for word in text.split(","))
    if not all(found):
        raise InvalidParameter.refusing(name, "must be a list A,B,C", repr(clipped(text)))
    return found


def read_limit(name: str, text: str) -> tuple[str | None, float]:
    """A number, or COLUMN=NUMBER."""
    column, sign, number = text.rpartition("=")
    return (column if sign else None), read_number(name, number)


def read_categories(name: str, text: str) -> tuple[str, tuple[str, ...]]:
    """COLUMN=A,B,C."""
    column, sign, rest = text.partition("=")
    if not (sign and column):
        raise InvalidParameter.refusing(name, "must be COLUMN=A,B,C", repr(clipped(text)))
    return column, read_list(name, rest)


def read_date(name: str, text: str) -> tuple[str, str]:
    """COLUMN=ORIGIN."""
    column, sign, origin = text.rpartition("=")
    if not (sign and column):
        raise InvalidParameter.refusing(name, "must be COLUMN=YYYY-MM-DD", repr(clipped(text)))
    return column, origin


LowerOption = Annotated[
    list[Any] | None,
    option(
        "--lower", read_limit, metavar="L",
        help="Values below are clipped to it: once for all, once for each --column, or as "
        "COLUMN=L. Must be known without looking at the data.", panel=STATISTICS,
    ),
]  # fmt: skip
UpperOption = Annotated[
    list[Any] | None,
    option(
        "--upper", read_limit, metavar="U", help="Values above are clipped to it.",
        panel=STATISTICS,
    ),
]  # fmt: skip
StatisticOption = Annotated[
    list[str] | None,
    option(
        "--statistic",
        metavar="NAME",
        help="count, sum, mean (the default), proportion:>X (or >=, <, <=, =, =CATEGORY), "
        "variance, sd, median, quantile:P, histogram[:CELLS], covariance, correlation, "
        "regression (the last column on the others), contingency. Of every --column, or of "
        "some: mean@age. Repeat it for several in one release.",
        panel=STATISTICS,
    ),
]
CategoriesOption = Annotated[
    list[Any] | None,
    option(
        "--categories", read_categories, metavar="COLUMN=A,B,C",
        help="A column of categories; the list is public, and what is not in it is 'other'.",
        panel=STATISTICS,
    ),
]  # fmt: skip
ByOption = Annotated[
    str | None,
    option(
        "--by", metavar="COLUMN", help="Release everything for each of --groups.",
        panel=STATISTICS,
    ),
]  # fmt: skip
GroupsOption = Annotated[
    tuple[str, ...] | None,
    option(
        "--groups", read_list, metavar="A,B,C",
        help="The groups, a public list; everybody else, and missing ones, are 'other'.",
        panel=STATISTICS,
    ),
]  # fmt: skip
DateOption = Annotated[
    list[Any] | None,
    option(
        "--date", read_date, metavar="COLUMN=ORIGIN",
        help="A column of dates, counted in days from this public day, as --lower and --upper are.",
        panel=STATISTICS,
    ),
]  # fmt: skip
PopulationOption = Annotated[
    Any,
    option(
        "--population", read_population, metavar="N",
        help="Size of the population sampled from, for smaller errors; census: the records are "
        "all of it, and only noise is left.", panel=STATISTICS,
    ),
]  # fmt: skip
LevelOption = Annotated[
    float,
    option(
        "--level", partial(read_number, above=0, below=1), metavar="P",
        help="Coverage of the intervals.", panel=STATISTICS, show_default=True,
    ),
]  # fmt: skip
MultiplierOption = Annotated[
    float | None,
    option(
        "--noise-multiplier", read_noise, metavar="Z",
        help="Instead of --epsilon: noise over what one record contributes.",
    ),
]  # fmt: skip
SimultaneousOption = Annotated[
    bool,
    typer.Option(
        "--simultaneous",
        help="Widen all intervals until they hold together (Bonferroni).",
        rich_help_panel=STATISTICS,
    ),
]


@with_bundles
def release(
    file: FileArgument,
    reading: ReadingOptions,
    column: ColumnOption = None,
    lower: LowerOption = None,
    upper: UpperOption = None,
    statistic: StatisticOption = None,
    categories: CategoriesOption = None,
    date: DateOption = None,
    by: ByOption = None,
    groups: GroupsOption = None,
    population: PopulationOption = None,
    epsilon: TargetOption = None,
    delta: DeltaOption = None,
    noise_multiplier: MultiplierOption = None,
    relation: RelationOption = None,
    level: LevelOption = 0.95,
    simultaneous: SimultaneousOption = False,
    seed: SeedOption = None,
    ledger: LedgerOption = None,
    json: JsonOption = False,
) -> Answer:
    """Release statistics of all records once, at a certified cost, with confidence intervals.

    No resampling: where a formula exists this is never wider than a bootstrap at the same epsilon.
    The intervals account for sampling and for noise. Under replace-one (the default) the number of
    records is public; under add-remove it is released with noise. Everything is checked, calibrated
    and certified before the data are read.

    Example: mustdp release people.csv --column age --lower 0 --upper 100 --statistic mean
    --statistic sd --epsilon 1 --delta 1e-6
    """
    exactly_one({"--epsilon": epsilon, "--noise-multiplier": noise_multiplier})
    names = tuple(column or ())
    settings: dict[str, Any] = {
        "lower": _limits("--lower", lower, names),
        "upper": _limits("--upper", upper, names),
        "categories": dict(categories or ()),
        "by": by,
        "groups": groups,
        "dates": dict(date or ()),
        "population": population,
        "epsilon": epsilon,
        "delta": stated(delta, None),
        "noise_multiplier": noise_multiplier,
        "level": level,
        "simultaneous": simultaneous,
        "seed": seed,
    }
    if relation is not None:
        settings["relation"] = relation

    import mustdp
    from mustdp.randomness.seeds import SeededRelease

    opened = nullcontext() if ledger is None else mustdp.Ledger.open(ledger)
    with warnings.catch_warnings(), progress("certifying and adding up") as move, opened as charged:
        warnings.simplefilter("ignore", SeededRelease)  # part of the answer, as a remark
        result = mustdp.private_release(
            reading.of(file), tuple(statistic or ("mean",)), columns=names, ledger=charged,
            progress=move, **settings,
        )  # fmt: skip
    return _answer(result, seed, json)


def _limits(
    name: str, given: list[tuple[str | None, float]] | None, columns: tuple[str, ...]
) -> float | tuple[float, ...] | dict[str, float] | None:
    if not given:
        return None
    named = {column: value for column, value in given if column is not None}
    if named:
        if len(named) != len(given):
            raise InvalidParameter(f"{name} must be given as COLUMN=NUMBER everywhere or nowhere")
        return named
    if len(given) not in (1, len(columns)):
        raise InvalidParameter.refusing(
            name, "must be given once, or once for each --column", f"{len(given)} of them"
        )
    values = tuple(value for _, value in given)
    return values[0] if len(values) == 1 else values


def _answer(result: ReleaseResult, seed: int | None, as_json: bool) -> Answer:
    privacy = result.privacy
    words.two_sided(privacy.epsilon, "here")
    data = result.as_dict()
    data["privacy"]["relation"] = privacy.relation.option
    return Answer(
        data,
        as_json=as_json,
        heading=words.headed(privacy, "one release on all records"),
        columns=(
            "estimate of",
            "value",
            "standard error",
            f"{100 * result.level:g} % interval",
            "noise share",
        ),
        rows=tuple(
            (
                one.label,
                readable(one.value, digits=5),
                _shown(one.standard_error, "up"),
                f"[{_shown(one.interval[0], 'down', 5)}, {_shown(one.interval[1], 'up', 5)}]",
                f"{100 * one.noise_share:.0f} %",
            )
            for one in result.estimates
        ),
        note="\n".join((*_cost(result), *_flags(result))),
        remark=words.seed_in_words(seed),
    )


def _shown(value: float, toward: Any, digits: int = 3) -> str:
    return readable(value, toward, digits) if abs(value) < float("inf") else "unknown"


def _flags(result: ReleaseResult) -> Iterator[str]:
    for one in result.estimates:
        yield from (f"note: {one.label}: {flag}." for flag in one.flags)
    said = dict.fromkeys(one.description for one in result.estimates)
    yield f"estimated: {'; '.join(list(said)[:12])}{'; ...' if len(said) > 12 else ''}."


def _cost(result: ReleaseResult) -> Iterator[str]:
    privacy = result.privacy
    without = " without the seed" if privacy.seeded else ""
    yield (
        f"epsilon{without} at delta {as_stated(privacy.delta)}: at least "
        f"{readable(privacy.epsilon.lower, 'down', 4)}, at most "
        f"{readable(privacy.epsilon.upper, 'up', 4)} for everything released here."
    )
    settled = words.settled_in_words(privacy.noise_multiplier, privacy.source, privacy.relation)
    yield f"gaussian noise, {settled}"
    yield "noise share: part of the squared standard error that the noise causes."
