"""Table S1: one application by the paper's theorem, to the printed digit; what is certified.

The paper's last row (Gaussian, MUSTww, Delta/sigma = 1) repeats the Laplace row. That is not typed
in here but found: the printed rows are compared, and the row is compared with both mechanisms.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from mustdp.amplification.one_slope import amplify
from mustdp.amplification.one_step import one_step
from mustdp.experiments.comparison import needed_noise
from mustdp.experiments.comparison.equal_guarantee import Settled
from mustdp.experiments.frame.cells import Cell, Table, new
from mustdp.experiments.frame.items import Outcome, Settings
from mustdp.experiments.frame.published import judge_printed, published, scheme_called
from mustdp.mechanisms.mechanism import Mechanism, gaussian, laplace
from mustdp.progress import Progress

MECHANISMS = {"laplace": laplace, "gaussian": gaussian}


class Applied(NamedTuple):
    """Delta of one application at the epsilon' of a base epsilon."""

    mechanism: str
    name: str
    epsilon: float
    theorem: float
    certified: float
    attained: float


def run(settings: Settings, progress: Progress) -> Outcome:
    """Every cell of Table S1, the certified values beside it, and the schemes at equal cost."""
    paper = published("S1")
    progress("the paper's theorem")
    tables = [_epsilon_table(paper)]
    for mechanism in MECHANISMS:
        tables += [_delta_table(paper, mechanism, shift) for shift in paper["delta"][mechanism]]
    progress("certified bounds")
    found = _applied(paper)
    needed = needed_noise.settle(settings, progress, _sizes(paper), steps=1)
    return Outcome(
        (*tables, _guarantee(found), needed_noise.noise_table(needed, settings.quick)),
        reading=_reading(tables, found, needed),
    )


def _sizes(paper: dict[str, Any]) -> tuple[int, int, int]:
    return paper["n"], paper["b"], paper["m"]


def _column(epsilon: float) -> str:
    return f"ε = {epsilon:g}"


def _epsilon_table(paper: dict[str, Any]) -> Table:
    cells = []
    for name, printed in paper["epsilon_prime"].items():
        scheme = scheme_called(name, *_sizes(paper))
        rows = amplify(scheme, gaussian(shift=1.0), paper["epsilon"])
        cells += [
            judge_printed(name, _column(row.epsilon), text, row.epsilon_prime)
            for row, text in zip(rows, printed, strict=True)
        ]
    return Table("epsilon-prime", "ε′ of one application", tuple(cells), "paper")


def _delta_table(paper: dict[str, Any], mechanism: str, shift: str) -> Table:
    noise = MECHANISMS[mechanism](shift=float(shift))
    base = noise.delta(paper["epsilon"])
    cells = [
        judge_printed("δ before", _column(e), text, float(value))
        for e, text, value in zip(
            paper["epsilon"], paper["delta"][mechanism][shift], base, strict=True
        )
    ]
    for name, printed in paper["delta_prime"][mechanism][shift].items():
        found = _delta_prime(paper, name, noise)
        reason = _repeated(paper, mechanism, shift, name)
        cells += [
            judge_printed(f"{name} δ′", _column(e), text, value, reason)
            for e, text, value in zip(paper["epsilon"], printed, found, strict=True)
        ]
    title = f"δ and δ′ of one application, {mechanism.capitalize()} noise, Δ/σ = {shift}"
    return Table(f"delta-{mechanism}-{shift}", title, tuple(cells), "paper")


def _delta_prime(paper: dict[str, Any], name: str, noise: Mechanism) -> list[float]:
    rows = amplify(scheme_called(name, *_sizes(paper)), noise, paper["epsilon"])
    return [row.delta_prime for row in rows]


def _repeated(paper: dict[str, Any], mechanism: str, shift: str, name: str) -> str:
    """Says so if the printed row is that of another mechanism, word for word and by its values."""
    printed = paper["delta_prime"][mechanism][shift][name]
    for other, rows in paper["delta_prime"].items():
        if other == mechanism or rows[shift][name] != printed:
            continue
        values = _delta_prime(paper, name, MECHANISMS[other](shift=float(shift)))
        near = (
            judge_printed("", "", text, value) for text, value in zip(printed, values, strict=True)
        )
        if all(cell.verdict == "matches" for cell in near):
            return (
                f"The printed row repeats the {other.capitalize()} row of {name} digit by digit, "
                f"and the theorem gives these values for {other.capitalize()} noise."
            )
    return ""


def _applied(paper: dict[str, Any]) -> list[Applied]:
    """One application at shift 1 for every mechanism and scheme."""
    found = []
    for mechanism, make in MECHANISMS.items():
        for name in paper["epsilon_prime"]:
            scheme, noise = scheme_called(name, *_sizes(paper)), make(shift=1.0)
            rows = amplify(scheme, noise, paper["epsilon"][1:4])
            step = one_step(scheme, noise, rows.column("epsilon_prime"))
            found += [
                Applied(mechanism, name, row.epsilon, row.delta_prime, float(upper), float(lower))
                for row, upper, lower in zip(rows, step.upper, step.lower, strict=True)
            ]
    return found


def _guarantee(found: list[Applied]) -> Table:
    cells: list[Cell] = []
    for at in found:
        row, column = f"{at.mechanism.capitalize()}, {at.name}", _column(at.epsilon)
        cells += [
            new(row, f"{column}: theorem", at.theorem),
            new(row, f"{column}: certified", at.certified, bound="upper"),
            new(row, f"{column}: attained", at.attained, bound="lower"),
        ]
    return Table(
        "certified",
        "What one application really costs at the ε′ above, Δ/σ = 1",
        tuple(cells),
        "guarantee",
        "δ at ε′ of the row: by the paper's theorem, by the certificate (it holds for every pair "
        "of neighbouring data sets), and what a concrete pair of data sets attains. One record "
        "replaced.",
    )


def _reading(
    tables: list[Table], found: list[Applied], needed: Sequence[Settled]
) -> tuple[str, ...]:
    count = sum(len(table.cells) for table in tables)
    matching = sum(table.count("matches") for table in tables)
    looser = max(at.theorem / at.certified for at in found if at.mechanism == "gaussian")
    return (
        f"{matching} of {count} printed numbers come out as printed.",
        "The theorem is valid, and loose where copies occur: for Gaussian noise at Δ/σ = 1 its δ′ "
        f"is up to {looser:.3f} times the certified value.",
        needed_noise.least_and_most(needed),
    )
