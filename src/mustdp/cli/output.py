"""What a command prints: JSON, a table or text; bounds in words; a progress bar."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TextIO

from mustdp.errors import NumericalFailure
from mustdp.mechanisms.registry import searched_argument
from mustdp.mechanisms.relation import Relation
from mustdp.numerics.formatting import (
    aligned,
    as_stated,
    estimate_in_words,
    exact_or_rounded,
    noise_needed,
    noise_used,
    percent,
    percent_stated,
    readable,
)
from mustdp.progress import Progress

if TYPE_CHECKING:
    from mustdp.accounting.bounds import Bounds
    from mustdp.accounting.risk import Risk
    from mustdp.calibration.budget import PrivacySpent
    from mustdp.mechanisms.mechanism import Mechanism
    from mustdp.sampling.epochs import Sampling

# The progress bar: on standard error, and only if that is a terminal.


@contextmanager
def progress(doing: str = "") -> Iterator[Progress]:
    """Show a bar while the block runs; what it gives moves the bar.

    Until a total is known the bar only shows that work is going on. It is removed when the block
    ends.
    """
    if not (sys.stderr and sys.stderr.isatty()):
        yield lambda what, done=0, total=None: None
        return

    from rich import progress as rich
    from rich.console import Console

    console = Console(file=sys.stderr, highlight=False, emoji=False)
    words = rich.TextColumn("{task.description}", markup=False)
    columns = (words, rich.BarColumn(), rich.TimeElapsedColumn())
    with rich.Progress(
        *columns, console=console, transient=True, redirect_stdout=False, redirect_stderr=False
    ) as bar:
        task = bar.add_task(doing, total=None)

        def move(what: str, done: int = 0, total: int | None = None, /) -> None:
            words = what if total is None else f"{what}: {done} of {total}"
            bar.update(task, description=words, completed=done, total=total)

        yield move


# Printing: one JSON object, a table on a terminal, or plain text elsewhere.


#: A terminal shows at most this many rows; files, pipes and JSON hold them all.
_MOST_ROWS = 40


@dataclass(frozen=True)
class Answer:
    """The result of a command, before it is known where it goes."""

    data: Mapping[str, Any]
    heading: str = ""
    columns: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()
    note: str = ""
    #: Goes to standard error, so that it is seen whatever is done with the result.
    remark: str = ""
    #: Go there as well, a line each, and into JSON.
    warnings: tuple[str, ...] = ()
    as_json: bool = False


def show(answer: Answer, out: TextIO | None = None, err: TextIO | None = None) -> None:
    """Print ``answer`` to ``out`` and its remark to ``err``."""
    out, err = out or sys.stdout, err or sys.stderr
    if out is None:
        raise OSError("standard output is closed")
    if answer.as_json:
        noted = {"warnings": list(answer.warnings)} if answer.warnings else {}
        text = as_json({**answer.data, **noted})
        print(text, file=out)
    elif out.isatty():
        _show_table(answer, out)
    else:
        print(as_text(answer), file=out)
    out.flush()
    for line in answer.warnings:
        print(f"mustdp: warning: {line}", file=err)
    if answer.remark:
        print(f"mustdp: {answer.remark}", file=err)


def as_json(data: Mapping[str, Any]) -> str:
    """One JSON object; a number that JSON cannot hold is a failure, not an answer.

    >>> as_json({"epsilon": 1.0, "counts": [1, 2]})
    '{"epsilon": 1.0, "counts": [1, 2]}'
    """
    try:
        return json.dumps(data, allow_nan=False)
    except ValueError:
        raise NumericalFailure("a result is infinite or not a number") from None


def as_text(answer: Answer) -> str:
    """Plain text with aligned columns."""
    lines = [answer.heading] if answer.heading else []
    if answer.columns:
        lines += aligned([answer.columns, *answer.rows])
    lines += [answer.note] if answer.note else []
    return "\n".join(lines)


def stacked(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Rows one below the other, a line for each cell: where a table is too wide, nothing is cut.

    >>> stacked(("scheme", "epsilon, upper"), [("wor", "1.23")])
    ['', 'scheme: wor', 'epsilon, upper: 1.23']
    """
    lines: list[str] = []
    for row in rows:
        lines.append("")
        lines += [f"{name}: {cell}" for name, cell in zip(columns, row, strict=True)]
    return lines


def _show_table(answer: Answer, out: TextIO) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table

    console = Console(file=out, markup=False, highlight=False, emoji=False)
    if answer.heading:
        console.print(answer.heading, style="bold")
    if answer.columns:
        rows = answer.rows[:_MOST_ROWS]
        table = Table(box=box.SIMPLE_HEAD)
        for column in answer.columns:
            table.add_column(column, justify="right", no_wrap=True)
        for row in rows:
            table.add_row(*row)
        unbounded = console.options.update(width=10_000)
        if console.measure(table, options=unbounded).maximum <= console.width:
            console.print(table)
        else:
            console.print("\n".join(stacked(answer.columns, rows)), soft_wrap=True)
        if len(answer.rows) > _MOST_ROWS:
            console.print(f"and {len(answer.rows) - _MOST_ROWS} more rows: --json prints them all")
    if answer.note:
        console.print(answer.note, style="dim")


# Schemes, noises and bounds in words, and bounds as data: the same in every command.


#: Digits of a noise multiplier in words.
MULTIPLIER = 5


def describe(scheme: Sampling) -> str:
    """A scheme in one phrase, as a heading."""
    from mustdp.sampling.epochs import Epoch
    from mustdp.sampling.schemes import Multistage, Poisson, TruncatedPoisson

    if isinstance(scheme, Multistage):
        return f"{scheme.name} of {scheme.n} records, stages {','.join(map(str, scheme.stages))}"
    if isinstance(scheme, Poisson):
        return f"{scheme.name} of {scheme.n} records, rate {as_stated(scheme.rate)}"
    if isinstance(scheme, TruncatedPoisson):
        drawn = f"rate {as_stated(scheme.rate)}, at most {scheme.cap}"
        return f"{scheme.name} of up to {scheme.n} records, {drawn}"
    if isinstance(scheme, Epoch):
        size = readable(scheme.expected_size, "nearest")
        each = " to" if scheme.times == 1 else f", each to {scheme.times} of"
        return f"{scheme.name} of {scheme.n} records{each} {scheme.bins} batches of about {size}"
    return scheme.name


def scheme_as_data(scheme: Sampling) -> dict[str, Any]:
    """A scheme as data, with what decides its privacy and its use."""
    return {**scheme.describe(), "eta": scheme.eta, "expected_distinct": scheme.expected_distinct}


def plan_as_data(
    scheme: Sampling, mechanism: Mechanism, relation: Relation, shift: float | None, group: int = 1
) -> dict[str, Any]:
    """A scheme, its noise and its neighbours as data, which most answers begin with."""
    return {
        **scheme_as_data(scheme),
        **mechanism.describe(),
        "relation": relation.option,
        **group_as_data(group),
        "shift": shift,
    }


def ends(bounds: Bounds, digits: int = 3) -> tuple[str, str]:
    """Lower and upper bound, each rounded to its safe side."""
    return readable(bounds.lower, "down", digits), readable(bounds.upper, "up", digits)


def two_sided(bounds: Bounds, about: str = "") -> dict[str, float]:
    """Lower and upper bound; one that is infinite is a failure, not an answer."""
    check_finite(bounds.lower, bounds.upper, about)
    return {"lower": bounds.lower, "upper": bounds.upper}


def check_finite(lower: float, upper: float, about: str = "") -> None:
    """Refuse an infinite upper end.

    JSON cannot hold infinity, and what stands in for it may compare as small: for jq, null is
    below every number.
    """
    if not math.isfinite(upper):
        attained = f" ({readable(lower, 'down')} is attained)" if lower > 0 else ""
        raise NumericalFailure(
            f"epsilon has no finite upper bound{about and ' '}{about}{attained}; more noise, fewer "
            "steps or a larger delta may help"
        )


def origin_as_data(bounds: Bounds) -> dict[str, Any]:
    """Where the bounds come from."""
    return {
        "attained_by": bounds.attained_by,
        "direction": bounds.direction,
        "numerical_gap": bounds.numerical_gap,
        **({"coarse": True} if bounds.coarse else {}),
    }


def limit_as_data(limit: str | None) -> dict[str, str]:
    """What ended a search where its target did not."""
    return {} if limit is None else {"limit": limit}


def group_as_data(group: int) -> dict[str, int]:
    """The records of one person as data, where there may be several."""
    return {} if group == 1 else {"group": group}


def _stated(given: float | list[float]) -> str:
    return ",".join(map(as_stated, given)) if isinstance(given, list) else as_stated(given)


def noise_in_words(
    mechanism: Mechanism, shift: float | None, relation: Relation, *, found: bool = False
) -> str:
    """The noise, its shift and the relation; a noise that was ``found`` is one to be used.

    A shift is an inverse of noise: that of a noise to be used is rounded down, any other up.
    """
    searched = searched_argument(mechanism)
    sizes = ""
    for name, given in mechanism.describe().items():
        if name not in ("mechanism", "shift"):
            needed = found and name == searched
            shown = noise_needed(given, MULTIPLIER) if needed else _stated(given)
            sizes += f"{name.replace('_', ' ')} {shown}, "
    moved = shift_in_words(mechanism, shift, found=found)
    return f"{mechanism.name} noise, {sizes}{moved}relation {relation.option}."


def shift_in_words(mechanism: Mechanism, shift: float | None, *, found: bool = False) -> str:
    """The shift of one copy of a record: as it was given, or that of a noise multiplier."""
    if shift is None:
        return ""
    given = mechanism.describe().get("shift") == shift
    shown = as_stated(shift) if given else exact_or_rounded(shift, "down" if found else "up")
    return f"shift {shown} per copy, "


def run_noise_in_words(noise_multiplier: float, source: str, relation: Relation) -> str:
    """The noise of a run, where it came from, and the relation."""
    return (
        f"noise multiplier {noise_used(noise_multiplier, MULTIPLIER)} ({source}), "
        f"relation {relation.option}."
    )


#: The first line of what is printed of a run with a seed.
EXPERIMENT = "an experiment with a seed, no private release: its noise can be repeated"


def cost(spent: PrivacySpent) -> dict[str, Any]:
    """Epsilon as data; of a seeded run, which has none, what it would cost without the seed."""
    if spent.seeded:
        return {"seeded": True, "epsilon_without_seed": two_sided(spent.epsilon)}
    return {"epsilon": two_sided(spent.epsilon)}


def spent_in_words(spent: PrivacySpent, by: str) -> str:
    """What was spent ``by`` a run, one that has no seed or would have none."""
    without = " without the seed" if spent.seeded else ""
    lower, upper = ends(spent.epsilon, 4)
    return (
        f"epsilon{without} at delta {as_stated(spent.delta)}: at least {lower}, at most {upper} "
        f"{by}."
    )


def heading_with_seed(spent: PrivacySpent, heading: str) -> str:
    """The heading, with a word before it where there is no privacy."""
    return f"{EXPERIMENT}\n{heading}" if spent.seeded else heading


def seed_in_words(seed: int | None) -> str:
    """The remark upon a run whose noise can be repeated; nothing without a seed."""
    if seed is None:
        return ""
    return (
        f"a run with --seed {seed} can be repeated, its noise with it, and is therefore for "
        "experiments only; a private release needs a run without it"
    )


# Cells that two commands share: risk and calibrate, release and bootstrap.


#: Headings of :func:`risk_rows`.
RISK_COLUMNS = ("false accusations", "found, at least", "at most", "50 % becomes", "1 % becomes")


def risk_rows(found: Risk) -> tuple[tuple[str, ...], ...]:
    """A row for each false-positive rate: what is found, and what suspicions become at most."""
    from mustdp.accounting.risk import PRIORS

    grown = [found.becomes(prior) for prior in PRIORS]
    return tuple(
        (
            percent_stated(rate),
            percent(one.lower, "down"),
            percent(one.upper, "up"),
            *(percent(each[index].upper, "up") for each in grown),
        )
        for index, (rate, one) in enumerate(zip(found.fpr, found.tpr, strict=True))
    )


def estimate_cells(one: Any) -> tuple[str, str, str]:
    """Value, standard error and interval of an estimate."""
    value, error, low, high = estimate_in_words(one.value, one.standard_error, one.interval)
    return value, error, f"[{low}, {high}]"
