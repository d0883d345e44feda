"""Answers as the page shows them: rows of text, CSV, LaTeX and pictures."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from mustdp.explorer.asked import Asked
from mustdp.explorer.parts import SAME_LAW, Part, grid
from mustdp.numerics.decimals import chance_drawn, noise_needed, percent, readable
from mustdp.numerics.exports import csv_table, latex_comment, latex_text
from mustdp.plots.bands import epsilon_against_steps, profile_bands
from mustdp.plots.contours import contours
from mustdp.plots.drawing import Theme, figure_of, new_axes
from mustdp.sampling.catalogue import CATALOGUE, EPOCHS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Answers = Mapping[Part, dict[str, Any]]
COLUMNS = (
    "scheme", "eta", "distinct records", "noise multiplier", "epsilon, at least",
    "epsilon, at most", "advantage, at most", "found at 1 % false, at most",
    "50 % becomes, at most", "1 % becomes, at most",
)  # fmt: skip
PICTURES = ("profile", "steps", "contour")
_WIDTH, _HEIGHT = 4.8, 3.7
_LABELS = {one.name: one.label for one in (*CATALOGUE, *EPOCHS.values())}


def rows_of(asked: Asked, answers: Answers) -> list[list[str]]:
    """A row for every scheme; what is not known yet is empty."""
    names = [scheme.name for scheme in asked.schemes]
    rows = []
    for name in names:
        row = answers.get(Part("row", asked, name))
        # Schemes with the law of another one have its risk.
        twin = SAME_LAW.get(name, name)
        risk = answers.get(Part("risk", asked, twin if twin in names else name))
        rows.append([_LABELS[name], *_bounds(row), *_risk(risk)])
    return rows


def _bounds(row: dict[str, Any] | None) -> list[str]:
    if row is None:
        return [""] * 5
    if "error" in row:
        return ["", "", "", "", "none can be certified"]
    return [
        chance_drawn(row["eta"]),
        readable(row["distinct"], "nearest"),
        noise_needed(row["noise"], 4),
        readable(row["lower"], "down"),
        readable(row["upper"], "up") if math.isfinite(row["upper"]) else "no finite bound",
    ]


def _risk(risk: dict[str, Any] | None) -> list[str]:
    if risk is None or "error" in risk:
        return [""] * 4
    return [
        readable(risk["advantage"][1], "up"),
        percent(risk["tpr"][1][2], "up"),
        *(percent(one, "up") for one in risk["becomes"]),
    ]


def sentences(asked: Asked, answers: Answers) -> list[str]:
    """Two sentences to quote about MUSTow, once they are known."""
    risk = answers.get(Part("risk", asked, "must-ow"), {})
    return list(risk.get("words", ()))


def as_csv(asked: Asked, answers: Answers) -> str:
    """The table for spreadsheets, at full precision."""
    rows: list[tuple[Any, ...]] = [
        ("scheme", "eta", "expected_distinct", "noise_multiplier", "epsilon_lower",
         "epsilon_upper", "advantage_upper", "tpr_upper_at_fpr_0.01"),
    ]  # fmt: skip
    for scheme in asked.schemes:
        row = answers.get(Part("row", asked, scheme.name), {})
        risk = answers.get(Part("risk", asked, SAME_LAW.get(scheme.name, scheme.name)), {})
        known = [row.get(name, "") for name in ("eta", "distinct", "noise", "lower", "upper")]
        known += [risk["advantage"][1], risk["tpr"][1][2]] if "tpr" in risk else ["", ""]
        rows.append((scheme.name, *(repr(v) if isinstance(v, float) else v for v in known)))
    return csv_table(rows)


def as_latex(asked: Asked, answers: Answers) -> str:
    """The table for papers; bounds rounded to their safe side."""
    head = " & ".join(map(latex_text, COLUMNS))
    body = [" & ".join(map(latex_text, row)) + r" \\" for row in rows_of(asked, answers)]
    lines = (
        latex_comment(asked.command),
        rf"\begin{{tabular}}{{l{'r' * (len(COLUMNS) - 1)}}}",
        r"\hline", rf"{head} \\", r"\hline", *body, r"\hline", r"\end{tabular}",
    )  # fmt: skip
    return "\n".join(lines) + "\n"


def ready(name: str, asked: Asked, answers: Answers) -> bool:
    """Whether there is something to draw, all of it."""
    wanted = _wanted(name, asked)
    known = [answers.get(part) for part in wanted]
    drawn = [one for one in known if one is not None and "error" not in one]
    return bool(wanted) and all(one is not None for one in known) and bool(drawn)


def picture(name: str, asked: Asked, answers: Answers, theme: Theme) -> Figure:
    """One of the pictures, drawn from the answers."""
    axes = new_axes(theme, _WIDTH, _HEIGHT)
    found = {
        part.which: answers[part]
        for part in _wanted(name, asked)
        if "error" not in answers.get(part, {"error": ""})
    }
    if name == "profile":
        mark = None if asked.epsilon is None else (asked.epsilon, asked.delta)
        curves = {which: one["curve"] for which, one in found.items()}
        return figure_of(profile_bands(curves, ax=axes, mark=mark))
    if name == "steps":
        target = None if asked.epsilon is None else (float(asked.steps), asked.epsilon)
        bands = {which: one["bounds"] for which, one in found.items() if one["bounds"]}
        return figure_of(epsilon_against_steps(bands, ax=axes, mark=target))
    first, batches = grid(asked)
    nothing = [math.nan] * len(first)
    values = [found.get(str(size), {"epsilon": nothing})["epsilon"] for size in batches]
    return figure_of(
        contours(
            first, batches, values, of="certified ε of MUSTow", mark=(asked.b, asked.m), ax=axes
        )
    )


def _wanted(name: str, asked: Asked) -> list[Part]:
    if name == "contour":
        return [Part("contour", asked, str(size)) for size in grid(asked)[1]]
    names = [scheme.name for scheme in asked.schemes]
    return [Part(name, asked, one) for one in names if SAME_LAW.get(one) not in names]
