"""Table S1: one application by the paper's theorem, to the printed digit; what is certified.

The paper's last row (Gaussian, MUSTww, Delta/sigma = 1) repeats the Laplace row. That is not typed
in here but found: the printed rows are compared, and the row is compared with both mechanisms.
"""

from __future__ import annotations

from typing import Any

from mustdp.amplification.one_slope import amplify
from mustdp.amplification.one_step import one_step
from mustdp.experiments.cells import Cell, Outcome, Settings, Table, judge
from mustdp.experiments.item import Item, Report
from mustdp.experiments.needed_noise import least_and_most, needed_noise
from mustdp.experiments.published import half_unit, published
from mustdp.experiments.schemes import scheme_called
from mustdp.mechanisms.mechanism import Mechanism, gaussian, laplace

MECHANISMS = {"laplace": laplace, "gaussian": gaussian}


def run(settings: Settings, report: Report) -> Outcome:
    """Every cell of Table S1, the certified values beside it, and the schemes at equal cost."""
    paper = published("S1")
    report("the paper's theorem")
    tables = [_epsilon_table(paper)]
    for mechanism in MECHANISMS:
        tables += [_delta_table(paper, mechanism, shift) for shift in paper["delta"][mechanism]]
    report("certified bounds")
    guarantee = _guarantee(paper)
    equal = needed_noise(settings, report, n=paper["n"], b=paper["b"], m=paper["m"], steps=1)
    return Outcome((*tables, guarantee, equal), reading=_reading(tables, guarantee, equal))


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
            judge(name, _column(row.epsilon), float(text), row.epsilon_prime,
                  half_unit=half_unit(text))
            for row, text in zip(rows, printed, strict=True)
        ]  # fmt: skip
    return Table("epsilon-prime", "ε′ of one application", tuple(cells), "paper")


def _delta_table(paper: dict[str, Any], mechanism: str, shift: str) -> Table:
    noise = MECHANISMS[mechanism](shift=float(shift))
    base = noise.delta(paper["epsilon"])
    cells = [
        judge("δ before", _column(e), float(text), float(value), half_unit=half_unit(text))
        for e, text, value in zip(
            paper["epsilon"], paper["delta"][mechanism][shift], base, strict=True
        )
    ]
    for name, printed in paper["delta_prime"][mechanism][shift].items():
        found = _delta_prime(paper, name, noise)
        reason = _repeated(paper, mechanism, shift, name)
        cells += [
            judge(f"{name} δ′", _column(e), float(text), value, half_unit=half_unit(text),
                  reason=reason)
            for e, text, value in zip(paper["epsilon"], printed, found, strict=True)
        ]  # fmt: skip
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
            judge("", "", float(text), value, half_unit=half_unit(text))
            for text, value in zip(printed, values, strict=True)
        )
        if all(cell.verdict == "matches" for cell in near):
            return (
                f"The printed row repeats the {other.capitalize()} row of {name} digit by digit, "
                f"and the theorem gives these values for {other.capitalize()} noise."
            )
    return ""


def _guarantee(paper: dict[str, Any]) -> Table:
    """One application at shift 1: the theorem, the certificate and what a pair attains."""
    cells = []
    for mechanism, make in MECHANISMS.items():
        for name in paper["epsilon_prime"]:
            rows = amplify(
                scheme_called(name, *_sizes(paper)), make(shift=1.0), paper["epsilon"][1:4]
            )
            step = one_step(rows.scheme, rows.mechanism, rows.column("epsilon_prime"))
            label = f"{mechanism.capitalize()}, {name}"
            for k, row in enumerate(rows):
                for words, value in (
                    ("theorem", row.delta_prime),
                    ("certified", float(step.upper[k])),
                    ("attained", float(step.lower[k])),
                ):
                    cells.append(Cell(label, f"{_column(row.epsilon)}: {words}", None, value))
    return Table(
        "certified",
        "What one application really costs at the ε′ above, Δ/σ = 1",
        tuple(cells),
        "guarantee",
        "δ at ε′ of the row: by the paper's theorem, by the certificate (it holds for every pair "
        "of neighbouring data sets), and what a concrete pair of data sets attains. One record "
        "replaced.",
    )


def _reading(tables: list[Table], guarantee: Table, equal: Table) -> tuple[str, ...]:
    cells = [cell for table in tables for cell in table.cells]
    matching = sum(cell.verdict == "matches" for cell in cells)
    values = {(cell.row, cell.column): cell.ours or 0.0 for cell in guarantee.cells}
    looser = [
        values[row, column.replace("certified", "theorem")] / value
        for (row, column), value in values.items()
        if column.endswith("certified") and row.startswith("Gaussian")
    ]
    return (
        f"{matching} of {len(cells)} printed numbers come out as printed.",
        "The theorem is valid, and loose where copies occur: for Gaussian noise at Δ/σ = 1 its δ′ "
        f"is up to {max(looser):.3f} times the certified value.",
        least_and_most(equal),
    )


ITEM = Item("table-s1", "Table S1: ε′ and δ′ of one application", run)
