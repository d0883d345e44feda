"""``mustdp release``: statistics of all records in one noisy release, with intervals."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated, Any

from mustdp.cli import output as words
from mustdp.cli.bootstrap import ColumnOption, LedgerOption, SeedOption, numbers_of
from mustdp.cli.data_options import FileArgument, ReadingOptions, per_column
from mustdp.cli.options import (
    ACCOUNTING,
    DeltaOption,
    JsonOption,
    TargetOption,
    declared_release,
    read_noise,
    read_relation,
    stated,
)
from mustdp.cli.output import Answer, progress
from mustdp.cli.parameters import (
    Panel,
    clipped,
    exactly_one,
    read_inner_rate,
    read_integer,
    read_number,
    read_positive,
    with_bundles,
    word_of,
)
from mustdp.cli.report import writable
from mustdp.errors import InvalidParameter
from mustdp.extras import required
from mustdp.mechanisms.relation import Relation
from mustdp.numerics.formatting import percent_stated

if TYPE_CHECKING:
    from pathlib import Path

    from mustdp.estimation.release.result import ReleaseResult
    from mustdp.ledger.entry import LedgerStatus

# The options that say which statistics of which columns are wanted, shared by release and plan.


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


_statistics = Panel(
    STATISTICS,
    """
    --lower L                  Values below are clipped to it: once for all, once for each --column,
                               or as COLUMN=L. Must be known without looking at the data.
    --upper U                  Values above are clipped to it.
    --statistic NAME           count, sum, mean (the default), proportion:>X (or >=, <, <=, =,
                               =CATEGORY), variance, sd, median, quantile:P, histogram[:CELLS],
                               covariance, correlation, regression (the last column on the others),
                               contingency. Of every --column, or of some: mean@age. Repeat it for
                               several in one release. Numbers of records and sums are those
                               expected among as many records of the population; with --population
                               census those at hand.
    --categories COLUMN=A,B,C  A column of categories; the list is public, and what is not in it is
                               'other'.
    --whole COLUMN             Its values are whole numbers, as is publicly known; so are its
                               quantiles then.
    --by COLUMN                Release everything for each of --groups.
    --groups A,B,C             The groups, a public list; everybody else, and missing ones, are
                               'other'.
    --population N             Size of the population sampled from, for smaller errors; census: the
                               records are all of it, and only noise is left.
    --level P                  Coverage of the intervals.
    """,
)


@dataclass(frozen=True)
class StatisticsOptions:
    """Columns with their ranges or categories, statistics, groups, population and level."""

    column: ColumnOption = None
    lower: Annotated[list[Any] | None, _statistics("--lower", read_limit)] = None
    upper: Annotated[list[Any] | None, _statistics("--upper", read_limit)] = None
    statistic: Annotated[list[str] | None, _statistics("--statistic")] = None
    categories: Annotated[list[Any] | None, _statistics("--categories", read_categories)] = None
    whole: Annotated[list[str] | None, _statistics("--whole")] = None
    by: Annotated[str | None, _statistics("--by")] = None
    groups: Annotated[tuple[str, ...] | None, _statistics("--groups", read_list)] = None
    population: Annotated[Any, _statistics("--population", read_population)] = None
    level: Annotated[float, _statistics("--level", read_inner_rate)] = 0.95

    @property
    def asked(self) -> tuple[str, ...]:
        """The statistics."""
        return tuple(self.statistic or ("mean",))

    def read(self, names: tuple[str, ...]) -> dict[str, Any]:
        """Everything else, as the package takes it; ``names`` are the columns."""
        return {
            "columns": names,
            "lower": limits("--lower", self.lower, names),
            "upper": limits("--upper", self.upper, names),
            "categories": dict(self.categories or ()),
            "whole": tuple(self.whole or ()),
            "by": self.by,
            "groups": self.groups,
            "population": self.population,
            "level": self.level,
        }


def limits(
    name: str, given: list[tuple[str | None, float]] | None, columns: tuple[str, ...]
) -> float | tuple[float, ...] | dict[str, float] | None:
    """The ends of the ranges, as the package takes them."""
    if not given:
        return None
    named = {column: value for column, value in given if column is not None}
    if named:
        if len(named) != len(given):
            raise InvalidParameter(f"{name} must be given as COLUMN=NUMBER everywhere or nowhere")
        return named
    return per_column(name, [value for _, value in given], columns)


# The options of survey designs: weights, strata and clusters.


_survey = Panel(
    "Survey design",
    """
    --weights COLUMN          A column of survey weights.
    --largest-weight W        The largest weight, known without looking; larger ones are cut to it.
    --strata COLUMN           A column of strata.
    --stratum-shares A=X,B=Y  Shares of the strata in the population, which are public.
    --cluster COLUMN          A column of numbers of clusters, such as households.
    --largest-cluster M       The most records that a cluster has, or that count of it.
    --unit UNIT               What the guarantee protects: a record, or a whole cluster.
    """,
)


def read_shares(name: str, text: str) -> dict[str, float]:
    """A=0.3,B=0.7."""
    found = {}
    for item in text.split(","):
        stratum, sign, share = item.rpartition("=")
        if not (sign and stratum.strip()) or stratum.strip() in found:
            raise InvalidParameter.refusing(
                name, "must be a list A=SHARE,B=SHARE", repr(clipped(text))
            )
        found[stratum.strip()] = read_positive(name, share)
    return found


@dataclass(frozen=True)
class SurveyOptions:
    """``--weights``, ``--strata`` and ``--cluster`` with what is public about them."""

    weights: Annotated[str | None, _survey("--weights")] = None
    largest_weight: Annotated[float | None, _survey("--largest-weight", read_positive)] = None
    strata: Annotated[str | None, _survey("--strata")] = None
    stratum_shares: Annotated[Any, _survey("--stratum-shares", read_shares)] = None
    cluster: Annotated[str | None, _survey("--cluster")] = None
    largest_cluster: Annotated[int | None, _survey("--largest-cluster", read_integer)] = None
    unit: Annotated[str, _survey("--unit", word_of(("record", "cluster")))] = "record"


# ``mustdp release``: statistics of all records in one noisy release, with intervals.


def read_date(name: str, text: str) -> tuple[str, str]:
    """COLUMN=ORIGIN."""
    column, sign, origin = text.rpartition("=")
    if not (sign and column):
        raise InvalidParameter.refusing(name, "must be COLUMN=YYYY-MM-DD", repr(clipped(text)))
    return column, origin


_statistics_release = Panel(
    STATISTICS,
    """
    --date COLUMN=ORIGIN     A column of dates, counted in days from this public day, as --lower and
                             --upper are.
    --report-clipping SHARE  Say how many values were clipped, for this share of the budget, such as
                             0.05.
    --simultaneous           Widen all intervals until they hold together (Bonferroni).
    """,
)
_written = Panel(
    "Files to write",
    """
    --report FILE  Write a page with pictures, in words for everybody.
    --csv FILE     Write the estimates as a CSV table.
    --latex FILE   Write the estimates as a LaTeX table.
    """,
)
_noise = Panel(
    None,
    """
    --noise-multiplier Z  Instead of --epsilon: noise over what one record contributes.
    """,
)
_accounting = Panel(
    ACCOUNTING,
    """
    --relation NAME  Which data sets are neighbours: replace-one (one record is swapped, and the
                     number of records is public; the default) or add-remove (one record more or
                     less; numbers of records are released with noise).
    """,
)
RelationOption = Annotated[Relation | None, _accounting("--relation", read_relation)]
ReportOption = Annotated[str | None, _written("--report")]


@with_bundles
def release(
    file: FileArgument,
    reading: ReadingOptions,
    wanted: StatisticsOptions,
    survey: SurveyOptions,
    date: Annotated[list[Any] | None, _statistics_release("--date", read_date)] = None,
    epsilon: TargetOption = None,
    delta: DeltaOption = None,
    noise_multiplier: Annotated[float | None, _noise("--noise-multiplier", read_noise)] = None,
    relation: RelationOption = None,
    simultaneous: Annotated[bool, _statistics_release("--simultaneous")] = False,
    report_clipping: Annotated[
        float | None, _statistics_release("--report-clipping", read_inner_rate)
    ] = None,
    seed: SeedOption = None,
    ledger: LedgerOption = None,
    report: ReportOption = None,
    csv: Annotated[str | None, _written("--csv")] = None,
    latex: Annotated[str | None, _written("--latex")] = None,
    json: JsonOption = False,
) -> Answer:
    """Release statistics of all records once, at a certified cost, with confidence intervals.

    No resampling: where a formula exists this is never wider than a bootstrap at the same epsilon.
    The intervals account for sampling and for noise. Under replace-one (the default) the number of
    records is public; under add-remove it is released with noise. Everything is checked, calibrated
    and certified before the data are read.

    Where --ledger declares releases (mustdp ledger declare), --epsilon is left out: the next one of
    them is drawn.

    Example: mustdp release people.csv --column age --lower 0 --upper 100 --statistic mean
    --statistic sd --epsilon 1 --delta 1e-6
    """
    declared = ledger is not None and epsilon is None and noise_multiplier is None
    if not declared:
        exactly_one({"--epsilon": epsilon, "--noise-multiplier": noise_multiplier})
    settings: dict[str, Any] = {
        **wanted.read(tuple(wanted.column or ())),
        **asdict(survey),
        "dates": dict(date or ()),
        "epsilon": epsilon,
        "delta": delta if declared else stated(delta, None),
        "noise_multiplier": noise_multiplier,
        "simultaneous": simultaneous,
        "report_clipping": report_clipping,
        "seed": seed,
    }
    if relation is not None:
        settings["relation"] = relation
    written = {
        name: writable(name, path)
        for name, path in (("--report", report), ("--csv", csv), ("--latex", latex))
        if path is not None
    }
    if report is not None:
        required("matplotlib", "a report page")

    import mustdp
    from mustdp.ledger.release import open_existing
    from mustdp.randomness.keys import SeededRelease

    opened = nullcontext() if ledger is None else open_existing(ledger)
    with warnings.catch_warnings(), progress("certifying and adding up") as move, opened as charged:
        warnings.simplefilter("ignore", SeededRelease)  # part of the answer, as a remark
        if declared and charged is not None:  # what was given goes before what was declared
            given = {name: value for name, value in settings.items() if value is not None}
            settings |= {**declared_release(charged), **given}
        result = mustdp.private_release(
            reading.of(file), wanted.asked, ledger=charged, progress=move, **settings
        )  # fmt: skip
        standing = None if charged is None else charged.standing()
        _write(result, standing, written)
    return _answer(result, seed, json)


def _write(result: ReleaseResult, standing: LedgerStatus | None, paths: dict[str, Path]) -> None:
    from mustdp.files.replacing import SHARED, replace_file
    from mustdp.reporting.release_page import release_page

    for name, path in paths.items():
        if name == "--report":
            release_page(result, standing).write(path)
        else:
            text = result.as_csv() if name == "--csv" else result.as_latex()
            replace_file(path, text.encode(), mode=SHARED)


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
            f"{percent_stated(result.level)} interval",
            "noise share",
        ),
        rows=tuple(
            (
                one.label,
                *numbers_of(one),
                f"{100 * one.noise_share:.0f} %",
            )
            for one in result.estimates
        ),
        note="\n".join((*_cost(result), *_flags(result))),
        remark=words.seed_in_words(seed),
    )


def _flags(result: ReleaseResult) -> Iterator[str]:
    for one in result.estimates:
        yield from (f"note: {one.label}: {flag}." for flag in one.flags)
    said = dict.fromkeys(one.description.removesuffix(one.where) for one in result.estimates)
    yield f"estimated: {'; '.join(list(said)[:12])}{'; ...' if len(said) > 12 else ''}."


def _cost(result: ReleaseResult) -> Iterator[str]:
    privacy = result.privacy
    yield words.spent_in_words(privacy, "for everything released here")
    settled = words.settled_in_words(privacy.noise_multiplier, privacy.source, privacy.relation)
    yield f"gaussian noise, {settled}"
    yield "noise share: part of the squared standard error that the noise causes."
