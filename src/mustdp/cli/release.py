"""``mustdp release`` and ``plan``: statistics in one noisy release, and what it will tell."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated, Any

from mustdp.cli import output
from mustdp.cli.data_options import (
    FILES,
    STATISTICS,
    FileArgument,
    FileOptions,
    ReadingOptions,
    ReleaseRelationOption,
    ReportOption,
    StatisticsOptions,
    SurveyOptions,
    read_numbers,
    read_shares,
    write_files,
)
from mustdp.cli.options import (
    ACCOUNTING,
    DeltaOption,
    LedgerOption,
    SeedOption,
    TargetOption,
    declared_release,
    read_noise,
    read_target,
    stated,
)
from mustdp.cli.output import Answer, progress
from mustdp.cli.parameters import (
    Panel,
    clipped,
    exactly_one,
    read_inner_rate,
    read_integer,
    read_positive,
    read_rate,
    with_bundles,
    word_from,
    word_of,
)
from mustdp.errors import InvalidParameter
from mustdp.numerics.formatting import given_or_rounded, percent_stated, readable

if TYPE_CHECKING:
    from mustdp.estimation.contrasts import Contrast
    from mustdp.estimation.result import ReleaseResult


def read_date(name: str, text: str) -> tuple[str, str]:
    """COLUMN=ORIGIN."""
    column, sign, origin = text.rpartition("=")
    if not (sign and column):
        raise InvalidParameter.refusing(name, "must be COLUMN=YYYY-MM-DD", repr(clipped(text)))
    return column, origin


def read_pair(name: str, text: str) -> tuple[str, str]:
    """Two groups between which stands a semicolon, or a comma."""
    found = tuple(word.strip() for word in text.split(";" if ";" in text else ","))
    if len(found) != 2 or not all(found):
        raise InvalidParameter.refusing(name, "must be two groups A,B or A;B", repr(clipped(text)))
    return found[0], found[1]


_statistics = Panel(
    STATISTICS,
    """
    --date COLUMN=ORIGIN     A column of dates, counted in days from this public day, as --lower and
                             --upper are.
    --report-clipping SHARE  Also release how many values were clipped, for this share of the
                             budget, such as 0.05.
    --find-range COLUMN      For heavy tails: find the range of a column between --lower and --upper
                             first, on a logarithmic grid. May be repeated.
    --range-share SHARE      The share of the budget for finding ranges (0.1).
    --simultaneous           Widen all intervals until they hold together (Bonferroni).
    --public-totals COLUMN=A:480,B:520
                             With --consistent: numbers of records by group that are public.
    --whole-counts           With --consistent: numbers of records that are whole and not negative.
    --difference A,B         Compare two groups by their difference, with a test; a semicolon
                             between them where they have commas. May be repeated.
    --ratio A,B              The same by their ratio.
    --adjust NAME            Several comparisons: p-values by holm (the default), bonferroni or
                             none.
    --labels YAML            A file with names of columns and groups, title and footnotes.
    """,
)
_written = Panel(
    FILES,
    """
    --wide  CSV and LaTeX with a row for each group and a column for each statistic.
    """,
)
_accounting = Panel(
    ACCOUNTING,
    """
    --noise-multiplier Z  Instead of --epsilon: noise over what one record contributes.
    """,
)


@with_bundles
def release(
    file: FileArgument,
    reading: ReadingOptions,
    wanted: StatisticsOptions,
    survey: SurveyOptions,
    date: Annotated[list[Any] | None, _statistics("--date", read_date)] = None,
    epsilon: TargetOption = None,
    delta: DeltaOption = None,
    noise_multiplier: Annotated[float | None, _accounting("--noise-multiplier", read_noise)] = None,
    relation: ReleaseRelationOption = None,
    simultaneous: Annotated[bool, _statistics("--simultaneous")] = False,
    report_clipping: Annotated[
        float | None, _statistics("--report-clipping", read_inner_rate)
    ] = None,
    find_range: Annotated[list[str] | None, _statistics("--find-range")] = None,
    range_share: Annotated[float, _statistics("--range-share", read_inner_rate)] = 0.1,
    public_totals: Annotated[list[Any] | None, _statistics("--public-totals", read_numbers)] = None,
    whole_counts: Annotated[bool, _statistics("--whole-counts")] = False,
    difference: Annotated[list[Any] | None, _statistics("--difference", read_pair)] = None,
    ratio: Annotated[list[Any] | None, _statistics("--ratio", read_pair)] = None,
    adjust: Annotated[
        str, _statistics("--adjust", word_of(("holm", "bonferroni", "none")))
    ] = "holm",
    labels: Annotated[str | None, _statistics("--labels")] = None,
    seed: SeedOption = None,
    ledger: LedgerOption = None,
    *,
    files: FileOptions,
    wide: Annotated[bool, _written("--wide")] = False,
) -> Answer:
    """Release statistics of all records once, at a certified cost, with confidence intervals.

    No resampling: where a formula exists this is never wider than a bootstrap at the same epsilon.
    The intervals account for sampling and for noise. Under replace-one (the default) the number of
    records is public; under add-remove it is released with noise. Everything is checked, calibrated
    and certified before the data are read.

    Where --ledger declares releases (mustdp ledger declare), --epsilon and --delta are left out:
    the command makes the next one.

    Example: mustdp release people.csv --column age --lower 0 --upper 100 --statistic mean
    --statistic sd --epsilon 1 --delta 1e-6
    """
    declared = ledger is not None and epsilon is None and noise_multiplier is None
    if not declared:
        exactly_one({"--epsilon": epsilon, "--noise-multiplier": noise_multiplier})
    from mustdp.estimation.schema import Ranges, Survey

    settings: dict[str, Any] = {
        **wanted.read(
            tuple(wanted.column or ()),
            dates=date,
            public_totals=public_totals,
            whole_counts=whole_counts,
        ),
        "survey": Survey(**asdict(survey)),
        "ranges": Ranges(tuple(find_range or ()), range_share, report_clipping),
        "epsilon": epsilon,
        "delta": delta if declared else stated(delta, None),
        "noise_multiplier": noise_multiplier,
        "simultaneous": simultaneous,
        "seed": seed,
    }
    if (difference or ratio) and wanted.by is None:
        raise InvalidParameter("--difference must be given together with --by and its groups")
    if relation is not None:
        settings["relation"] = relation
    written = files.paths()
    pairs = {"difference": difference or (), "ratio": ratio or ()}

    import mustdp
    from mustdp.estimation.codebook import Codebook, check_contrasts
    from mustdp.estimation.tables import read_groupings
    from mustdp.ledger.release import open_existing
    from mustdp.randomness.keys import SeededRelease
    from mustdp.reporting.release_page import release_page

    codebook = Codebook() if labels is None else Codebook.read(labels)
    if any(pairs.values()):  # before anything is spent
        names = ("by", "groups", "total", "consistent")
        check_contrasts(read_groupings(**{name: settings[name] for name in names}), pairs)
    opened = nullcontext() if ledger is None else open_existing(ledger)
    with warnings.catch_warnings(), progress("certifying and adding up") as move, opened as charged:
        warnings.simplefilter("ignore", SeededRelease)  # part of the answer, as a remark
        if declared and charged is not None:  # what was given goes before what was declared
            given = {name: value for name, value in settings.items() if value is not None}
            settings |= {**declared_release(charged), **given}
        result = mustdp.private_release(
            reading.of(file), wanted.statistics, ledger=charged, progress=move, **settings
        )  # fmt: skip
        standing = None if charged is None else charged.standing()
        found = codebook.labelled_contrasts(
            one
            for kind, own in pairs.items()
            if own
            for one in result.all_contrasts(own, kind=kind, adjust=adjust)
        )
        result = codebook.labelled(result)
        write_files(
            written,
            lambda: release_page(result, standing, codebook, found),
            result.table() if wide else result,
        )
    return _answer(result, seed, found)


def _answer(result: ReleaseResult, seed: int | None, found: tuple[Contrast, ...]) -> Answer:
    privacy = result.privacy
    output.two_sided(privacy.epsilon, "here")
    data = result.as_dict()
    if found:
        data["contrasts"] = [one.as_dict() for one in found]
    data["privacy"]["relation"] = privacy.relation.option
    return Answer(
        data,
        heading=output.heading_with_seed(privacy, "one release on all records"),
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
                *output.estimate_cells(one),
                f"{100 * one.noise_share:.0f} %",
            )
            for one in (*result.estimates, *found)
        ),
        note="\n".join((*_tests(result, found), *_cost(result), *_notes(result), *_flags(result))),
        remark=output.seed_in_words(seed),
    )


def _tests(result: ReleaseResult, found: tuple[Contrast, ...]) -> Iterator[str]:
    for estimate in result.estimates:
        if estimate.test is not None:
            yield f"test: {estimate.label}: {estimate.test}."
    for one in found:
        p = readable(one.p_value, "up", 2) if math.isfinite(one.p_value) else "unknown"
        yield f"test: {one.label}: p = {p}."


def _notes(result: ReleaseResult) -> Iterator[str]:
    yield from (f"note: {one}." for one in result.notes)


def _flags(result: ReleaseResult) -> Iterator[str]:
    for one in result.estimates:
        if one.candidates:
            yield f"note: {one.label}: the mode is one of {', '.join(one.candidates)}."
        yield from (f"note: {one.label}: {flag}." for flag in one.flags)
    said = dict.fromkeys(one.description.removesuffix(one.where) for one in result.estimates)
    yield f"estimated: {'; '.join(list(said)[:12])}{'; and so on' if len(said) > 12 else ''}."


def _cost(result: ReleaseResult) -> Iterator[str]:
    privacy = result.privacy
    yield output.spent_in_words(privacy, "for everything released here")
    settled = output.run_noise_in_words(privacy.noise_multiplier, privacy.source, privacy.relation)
    yield f"gaussian noise, {settled}"
    yield "noise share: part of the squared standard error that the noise causes."


# Planning a release: expected widths, before any data are read.


_plan_statistics = Panel(
    STATISTICS,
    """
    -n INT      Required: number of records, or an estimate of it.
    --like LAW  The assumed distribution of values within their ranges: normal or uniform.
    --weight-range LOW,HIGH     Survey weights, spread evenly between these.
    --stratum-shares A=X,B=Y    Shares of strata in the population.
    --stratum-sizes A=X,B=Y     Their shares of the sample, where these differ.
    --cluster-size INT          Clusters of this many records.
    --cluster-correlation X     The correlation of values within clusters.
    --missing-share SHARE       The share of values that are missing, and dropped.
    """,
)
_plan_accounting = Panel(
    ACCOUNTING,
    """
    --epsilon E     An epsilon; repeat it to compare several. Give this or --width.
    --width WIDTH   Instead of --epsilon: the smallest epsilon for intervals of at most this width.
    --relative      --width is relative to the value, such as 0.05.
    --releases INT  This many releases share the budget, such as 12 in a year.
    """,
)


def read_range(name: str, text: str) -> tuple[float, float]:
    """LOW,HIGH."""
    words = text.split(",")
    if len(words) != 2:
        raise InvalidParameter.refusing(name, "must be two numbers LOW,HIGH", repr(clipped(text)))
    return read_positive(name, words[0]), read_positive(name, words[1])


@dataclass(frozen=True)
class PlannedSurveyOptions:
    """What :class:`mustdp.types.PlannedSurvey` takes."""

    weight_range: Annotated[Any, _plan_statistics("--weight-range", read_range)] = None
    stratum_shares: Annotated[Any, _plan_statistics("--stratum-shares", read_shares)] = None
    stratum_sizes: Annotated[Any, _plan_statistics("--stratum-sizes", read_shares)] = None
    cluster_size: Annotated[int | None, _plan_statistics("--cluster-size", read_integer)] = None
    cluster_correlation: Annotated[float, _plan_statistics("--cluster-correlation", read_rate)] = (
        0.05
    )
    missing_share: Annotated[float, _plan_statistics("--missing-share", read_rate)] = 0.0


@with_bundles
def plan(
    wanted: StatisticsOptions,
    *,
    n: Annotated[int | None, _plan_statistics("-n", read_integer)] = None,
    epsilon: Annotated[list[float] | None, _plan_accounting("--epsilon", read_target)] = None,
    width: Annotated[float | None, _plan_accounting("--width", read_positive)] = None,
    delta: DeltaOption = None,
    relation: ReleaseRelationOption = None,
    like: Annotated[
        str, _plan_statistics("--like", word_from("mustdp.estimation.planning", "LIKE"))
    ] = "normal",
    survey: PlannedSurveyOptions,
    relative: Annotated[bool, _plan_accounting("--relative")] = False,
    releases: Annotated[int, _plan_accounting("--releases", read_integer)] = 1,
    report: ReportOption = None,
) -> Answer:
    """Predict how wide the intervals of a release will be, or which epsilon a width needs.

    No data are read: numbers are assumed to be distributed over their ranges as --like says,
    groups and categories to be equally large.

    Example: mustdp plan -n 10000 --column age --lower 0 --upper 100 --statistic mean
    --epsilon 0.5 --epsilon 1 --delta 1e-6
    """
    exactly_one({"--epsilon": epsilon or None, "--width": width})
    if n is None:
        raise InvalidParameter("-n is missing: give the number of records, or an estimate of it")
    settings: dict[str, Any] = {
        **wanted.read(tuple(wanted.column or ("value",))),
        "n": n,
        "delta": stated(delta, n),
        "like": like,
    }
    if relation is not None:
        settings["relation"] = relation
    settings["releases"] = releases

    target = FileOptions(report=report).paths().get("--report")

    from mustdp.estimation.planning import PlannedSurvey, expected_widths, smallest_epsilon

    given = asdict(survey)
    settings["survey"] = PlannedSurvey(weights=given.pop("weight_range"), **given)
    statistics, level = wanted.statistics, wanted.level
    if width is not None:
        found = [smallest_epsilon(width, statistics, relative=relative, **settings)]
    else:
        found = [
            (one, expected_widths(statistics, epsilon=one, **settings)) for one in epsilon or ()
        ]
    if target is not None:
        from mustdp.reporting.release_page import plan_page

        around = found[0][0]
        several = [
            (one, expected_widths(statistics, epsilon=one, **settings))
            for one in ([at for at, _ in found] if len(found) > 2 else _epsilons_around(around))
        ]
        plan_page(several, n).write(target)
    flat = [(at, one) for at, several in found for one in several]
    rows = [{"epsilon": at, **one.as_dict()} for at, one in flat]
    return Answer(
        {
            "rows": rows,
            "n": n,
            "delta": settings["delta"],
            "like": like,
            "level": level,
            "releases": releases,
        },
        heading=f"{n} records, expected; nothing was read and nothing is spent"
        + (f"; each of {releases} releases that share epsilon" if releases > 1 else ""),
        columns=("epsilon", "estimate of", "width", "of value", "standard error", "noise share"),
        rows=tuple(
            (
                given_or_rounded(at, "up", 4),
                one.label,
                _width(one.width),
                _percent(one.relative_width),
                _width(one.standard_error),
                f"{100 * one.noise_share:.0f} %",
            )
            for at, one in flat
        ),
        note=f"width: of the {percent_stated(level)} interval, for {like} data within the ranges.",
    )


def _epsilons_around(epsilon: float) -> list[float]:
    """Epsilons around one, for a picture."""
    return [epsilon * 2.0**k for k in range(-4, 4)]


def _percent(share: float) -> str:
    return f"{readable(100.0 * share, 'up', 3)} %" if share < float("inf") else "unknown"


def _width(value: float) -> str:
    return readable(value, "up", 4) if value < float("inf") else "unknown"
