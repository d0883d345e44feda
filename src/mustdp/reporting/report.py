"""The report: one page about one choice of sizes, in tables, pictures and plain words."""

from __future__ import annotations

import math
import platform
import shlex
from collections.abc import Mapping
from fractions import Fraction
from importlib.metadata import version
from typing import TYPE_CHECKING, TypeAlias

from mustdp.accounting.risk import Risk
from mustdp.calibration.compare import EpochRow
from mustdp.execution.processes import Mapper, map_serial
from mustdp.numerics.formatting import (
    as_stated,
    chance_drawn,
    formatted,
    given_or_rounded,
    noise_needed,
    percent,
    percent_stated,
    readable,
)
from mustdp.reporting.findings import Findings
from mustdp.reporting.pages import Page, PageCell, PageTable, Tone
from mustdp.reporting.plots.drawing import (
    Rendered,
    Theme,
    figure_of,
    in_both_themes,
    look_of,
    new_axes,
)
from mustdp.reporting.plots.privacy import (
    aligned_profile,
    contours,
    epsilon_against_steps,
    multiplicity_law,
    profile_bands,
)
from mustdp.sampling.catalogue import EPOCHS
from mustdp.version import __version__

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: Differences below this are called none.
_SAME = 0.005


def label(name: str) -> str:
    """A scheme's name in running text, or that of an epoch."""
    return EPOCHS[name].label if name in EPOCHS else look_of(name).label


def records(value: float) -> str:
    """A size or an expected number of records, with separators."""
    return (
        f"{value:,.0f}" if value >= 100 or float(value).is_integer() else readable(value, "nearest")
    )


def times(steps: int) -> str:
    """A number of steps."""
    return "1 step" if steps == 1 else f"{steps:,} steps"


def small(value: float) -> str:
    """A delta as people write it.

    >>> small(1e-5), small(0.001)
    ('1e-5', '0.001')
    """
    return as_stated(value).replace("e-0", "e-")


def up(value: float, digits: int = 3) -> str:
    """A certified bound, which may be infinite."""
    return readable(value, "up", digits) if math.isfinite(value) else "no known limit"


# The numbers in plain words, each sentence computed from them. Nothing here knows in advance which
# scheme is better: every comparison is made, and the words follow from how it came out.


def headline(found: Findings) -> str:
    """The result in one sentence."""
    question, reference = found.question, found.reference
    ours = found.rows["must-ow"]
    if found.same_noise:
        return (
            f"With noise multiplier {as_stated(question.noise_multiplier or 0.0)}, "
            f"{times(question.steps)} of {label(reference.scheme.name)} are certified for epsilon "
            f"{up(reference.epsilon.upper)} at delta {small(question.delta)}, and as "
            f"many of MUSTow for {up(ours.epsilon.upper)}."
        )
    return (
        f"For epsilon {as_stated(question.epsilon or 0.0)} at delta {small(question.delta)} after "
        f"{times(question.steps)}, {label(reference.scheme.name)} needs a noise multiplier of "
        f"{noise_needed(reference.noise_multiplier, 4)} and MUSTow one of "
        f"{noise_needed(ours.noise_multiplier, 4)}."
    )


def reading(found: Findings) -> list[str]:
    """What the numbers say, most important first."""
    sentences = [_best(found), _proven(found), *_work(found), *_tails(found), _gap(found)]
    return [sentence for sentence in sentences if sentence]


def _best(found: Findings) -> str:
    """Which scheme comes out best, and where the MUST schemes stand."""
    costs = {row.scheme.name: found.cost(row) for row in found.comparison}
    least, base = min(costs.values()), found.cost(found.reference)
    best = [label(name) for name, cost in costs.items() if cost <= least * (1.0 + _SAME)]
    one, several, unit = (
        ("is certified", "are certified", "is certified for {} times the epsilon")
        if found.same_noise
        else ("needs", "need", "takes {} times the noise")
    )
    names = best[0] if len(best) == 1 else f"{', '.join(best[:-1])} and {best[-1]}"
    what = "for the smallest epsilon" if found.same_noise else "the least noise"
    first, second = (formatted(costs[name] / base, ".3f", "up") for name in ("must-ow", "must-ww"))
    twins = (
        "; MUSTwo is WR and MUSToo is WOR under another name, with the same numbers"
        if "must-oo" in found.rows
        else ""
    )
    return (
        f"**{names} {one if len(best) == 1 else several} {what}**: "
        f"{up(least, 3 if found.same_noise else 4)}. MUSTow {unit.format(first)} of "
        f"{label(found.reference.scheme.name)}, MUSTww {second} times{twins}."
    )


def _proven(found: Findings) -> str:
    """Whether the order of MUSTow and the reference is a fact or a matter of proof."""
    reference = found.reference.scheme.name
    if not {"must-ow", reference} <= set(found.at_one_noise):
        return ""
    ours, theirs = (found.at_one_noise[name] for name in ("must-ow", reference))
    name = label(reference)
    at = "At this noise" if found.same_noise else f"With the noise of {name}"
    if all(
        math.isclose(*pair, rel_tol=_SAME)
        for pair in ((ours.lower, theirs.lower), (ours.upper, theirs.upper))
    ):
        return f"**MUSTow and {name} cost practically the same here.**"
    if ours.lower > theirs.upper:
        return (
            f"**That MUSTow costs more is a fact, not a weakness of the proof.** {at}, two "
            "neighbouring data sets exist between which MUSTow loses an "
            f"epsilon of {readable(ours.lower, 'down')}, while {name} never loses more than "
            f"{up(theirs.upper)}, both at delta {small(found.question.delta)}. Copies "
            "of a record in one batch add up, and noise has to cover them."
        )
    if ours.upper < theirs.lower:
        return (
            f"**That MUSTow costs less is a fact.** {at}, it "
            f"never loses more than epsilon {up(ours.upper)}, while {name} reaches "
            f"{readable(theirs.lower, 'down')} on some pair of data sets."
        )
    return (
        f"**Which of MUSTow and {name} costs more is not settled by these bounds.** "
        f"{at}, the true epsilon of MUSTow lies between "
        f"{readable(ours.lower, 'down')} and {up(ours.upper)}, that of {name} between "
        f"{readable(theirs.lower, 'down')} and {up(theirs.upper)}."
    )


def _work(found: Findings) -> list[str]:
    """What MUSTow saves, and what WOR could do with the same saving."""
    ours, question = found.rows["must-ow"], found.question
    share = ours.expected_distinct / question.m
    if share > 1.0 - _SAME:
        return []
    sentences = [
        f"**A step of MUSTow works on {records(ours.expected_distinct)} distinct records** instead "
        f"of {records(question.m)}: {share:.0%} of the gradients, because a copy is computed once."
    ]
    same = found.same_work
    if same is not None:
        mine, plain = ours.noise_multiplier / question.m, same.noise_multiplier / same.m
        sentences.append(
            f"Plain WOR batches of {records(same.m)} records do about the same work per step. For "
            "the same guarantee they need a noise multiplier of "
            f"{noise_needed(same.noise_multiplier, 4)}, which on the mean of a batch is "
            f"{up(plain)} contribution bounds, against {up(mine)} for MUSTow. "
            f"{_verdict(mine / plain)}"
        )
    return sentences


def _verdict(ratio: float) -> str:
    """Whether MUSTow's way of saving work is better than plain smaller batches."""
    if ratio > 1.0 + _SAME:
        return (
            f"MUSTow's mean is {ratio:.2f} times as noisy for the same work and the same "
            "guarantee: **at these sizes, smaller plain batches are the better way to save.**"
        )
    if ratio < 1.0 - _SAME:
        return (
            f"MUSTow's mean has {ratio:.2f} times the noise for the same work and the same "
            "guarantee: **here the saving pays**, though copies also make the mean itself vary "
            "more from batch to batch."
        )
    return "The noise of both is the same for the same work and guarantee."


def _tails(found: Findings) -> list[str]:
    """How fast delta falls beyond the target, where schemes agree at the target itself."""
    question, reference = found.question, found.reference.scheme.name
    if question.epsilon is None:
        return []
    ours, theirs = found.profiles["must-ow"], found.profiles[reference]
    index = int(abs(ours.epsilon - 1.5 * question.epsilon).argmin())
    epsilon = float(ours.epsilon[index])
    mine, plain = float(ours.upper[index]), float(theirs.upper[index])
    if not (epsilon > question.epsilon and plain > 0):
        return []
    order = "slower" if mine > 1.1 * plain else "faster" if mine < plain / 1.1 else "as fast"
    sentences = [
        f"The schemes agree at the target only. At epsilon {up(epsilon)}, delta is "
        f"certified to be at most {up(mine)} for MUSTow and {up(plain)} "
        f"for {label(reference)}: it falls {order}{'' if order == 'as fast' else ' with MUSTow'}."
    ]
    counts = sorted(found.by_steps["must-ow"].keys() & found.by_steps[reference].keys())
    first, last = counts[0], counts[-1]
    if first < question.steps < last:
        early, late = (
            f"{up(found.by_steps['must-ow'][count].upper)} for MUSTow and "
            f"{up(found.by_steps[reference][count].upper)} for {label(reference)}"
            for count in (first, last)
        )
        sentences.append(
            f"Stopped early, after {times(first)}, epsilon is at most {early}; run on to "
            f"{times(last)}, it is at most {late}."
        )
    return sentences


def _gap(found: Findings) -> str:
    """How much better any proof could ever be."""
    rows = [row for row in found.comparison if row.epsilon.lower > 0]
    if not rows:
        return ""
    widest = max(rows, key=lambda row: row.epsilon.upper / row.epsilon.lower)
    return (
        f"How far the truth may lie below the certified numbers: the widest gap is that of "
        f"{label(widest.scheme.name)}, whose epsilon is certified to be at most "
        f"{up(widest.epsilon.upper)}, while {readable(widest.epsilon.lower, 'down')} is reached by "
        f"some pair of data sets ({found.comparison.relation.differing(found.question.group)}). "
        "The true epsilon is between the two."
    )


def factor(epsilon: float) -> str:
    """e^epsilon, rounded up.

    >>> factor(2.0), factor(600.0)
    ('7.39', 'e^600, which is no limit in practice')
    """
    if epsilon > 50.0:
        return f"e^{given_or_rounded(epsilon, 'up')}, which is no limit in practice"
    return readable(math.exp(epsilon), "up")


def one_in(delta: float) -> str:
    """A small chance as people say it.

    >>> one_in(1e-5), one_in(0.3)
    ('one case in 100,000', '0.3 of all cases')
    """
    if delta > 0.1:
        return f"{as_stated(delta)} of all cases"
    return f"one case in {math.floor(1 / Fraction(as_stated(delta))):,}"


# Tables.


def row_cells(row: EpochRow) -> list[str]:
    """Noise and bounds of a row; bounds are rounded to their safe side."""
    upper = row.epsilon.upper
    return [
        noise_needed(row.noise_multiplier, 4),
        readable(row.epsilon.lower, "down"),
        readable(upper, "up") if math.isfinite(upper) else "no finite bound",
    ]


def risk_cells(risk: Risk) -> list[str]:
    """What an attacker achieves at most: advantage, rates, and what suspicions become."""
    place = risk.fpr.index(0.01)
    return [
        readable(risk.advantage.upper, "up"),
        *(percent(one.upper, "up") for one in risk.tpr),
        *(percent(risk.becomes(prior)[place].upper, "up") for prior in (0.5, 0.01)),
    ]


def _comparison_table(found: Findings) -> PageTable:
    question, reference = found.question, found.reference
    rows = list(found.rows.values())
    base, least = found.cost(reference), min(map(found.cost, rows))

    def tone(cost: float) -> Tone:
        """Good for the smallest, bad for what is clearly above the reference."""
        return "good" if cost <= least * (1.0 + _SAME) else "bad" if cost > 1.05 * base else ""

    def cells(row: EpochRow) -> list[str | PageCell]:
        cost = found.cost(row)
        relative = PageCell(formatted(cost / base, ".3f", "up"), tone(cost))
        noise, lower, upper = row_cells(row)
        mean = readable(row.noise_multiplier / question.m, "up")
        if found.same_noise:
            return [label(row.scheme.name), noise, mean, lower, upper, relative]
        return [label(row.scheme.name), noise, relative, mean, lower, upper]

    bounds = ["noise on the mean", "epsilon, at least", "epsilon, at most"]
    name = label(reference.scheme.name)
    columns = (
        ["scheme", "noise multiplier", *bounds, f"epsilon / {name}"]
        if found.same_noise
        else ["scheme", "noise multiplier", f"noise / {name}", *bounds]
    )
    what = (
        "What each scheme guarantees with noise multiplier "
        f"{as_stated(question.noise_multiplier or 0.0)}"
        if found.same_noise
        else "The noise that keeps each scheme within epsilon = "
        f"{as_stated(question.epsilon or 0.0)}"
    )
    return PageTable(
        columns,
        list(map(cells, rows)),
        f"{what}, at delta = {small(question.delta)} after {times(question.steps)}; neighbours: "
        f"{found.comparison.relation.differing(question.group)}.",
    )


def _risk_table(found: Findings) -> PageTable:
    rates = next(iter(found.risks.values())).fpr
    return PageTable(
        [
            "scheme",
            "advantage, at least",
            "at most",
            *(f"found at {percent_stated(rate)} false, at most" for rate in rates),
            "50 % becomes, at most",
            "1 % becomes, at most",
        ],
        [
            [label(name), readable(risk.advantage.lower, "down"), *risk_cells(risk)]
            for name, risk in found.risks.items()
        ],
        "What an attacker who sees everything that is released can achieve, each scheme with its "
        "noise from the table above.",
    )


def _work_table(found: Findings) -> PageTable:
    name = found.reference.scheme.name
    base = found.draw_seconds[name]

    def cells(row: EpochRow) -> list[str]:
        seconds = found.draw_seconds[row.scheme.name]
        timed = not math.isnan(seconds)
        return [
            label(row.scheme.name),
            chance_drawn(row.eta),
            records(row.expected_distinct),
            f"{row.expected_distinct / found.question.m:.3f}",
            f"{1e6 * seconds:,.0f} µs" if timed else "not timed",
            f"{seconds / base:.2f}" if timed and base > 0 else "",
        ]

    return PageTable(
        [
            "scheme",
            "eta",
            "distinct records",
            "gradients / m",
            "draw, measured",
            f"draw / {label(name)}",
        ],
        list(map(cells, found.comparison)),
        "What one step costs. Each distinct record is computed once and weighted by its copies.",
    )


# Pictures, each drawn once for both themes, several at a time if there are processes.


#: Pictures by name, each by the name of the theme.
Pictures: TypeAlias = Mapping[str, Mapping[str, Rendered]]
#: Inches of a picture on the page.
_WIDTH, _HEIGHT = 4.6, 3.6
#: In the order of the page, with about how long each takes.
_SECONDS = {"profiles": 0.8, "steps": 0.5, "copies": 1.0, "sizes": 0.6, "aligned": 1.0}


def pictures(found: Findings, mapper: Mapper = map_serial) -> Pictures:
    """All pictures that there are for what was found."""
    names = [name for name in _SECONDS if name != "sizes" or found.sensitivity is not None]
    drawn = mapper(_render, [(found, name) for name in names], cost=lambda job: _SECONDS[job[1]])
    return dict(zip(names, drawn, strict=True))


def _render(job: tuple[Findings, str]) -> dict[str, Rendered]:
    """One picture in both themes."""
    found, name = job

    def drawing(theme: Theme) -> Figure:
        return figure_of(draw(found, name, new_axes(theme, _WIDTH, _HEIGHT)))

    return in_both_themes(drawing, name, recolour=True)


def draw(found: Findings, name: str, ax: Axes) -> Axes:
    """Draw one of the pictures of the report and of the explorer."""
    question, around = found.question, found.sensitivity
    if name == "profiles":
        target = None if question.epsilon is None else (question.epsilon, question.delta)
        return profile_bands(found.profiles, ax=ax, mark=target)
    if name == "steps":
        mark = None if question.epsilon is None else (float(question.steps), question.epsilon)
        bands = {scheme: bounds for scheme, bounds in found.by_steps.items() if bounds}
        return epsilon_against_steps(bands, ax=ax, mark=mark)
    if name == "copies":
        rows = {row.scheme.name: row for row in found.comparison}
        return multiplicity_law([rows[scheme].scheme for scheme in found.profiles], ax=ax)
    if name == "sizes" and around is not None:
        here = question.b, question.m
        return contours(
            around.b, around.m, around.epsilon, of="certified ε of MUSTow", mark=here, ax=ax
        )
    return aligned_profile(found.aligned, ax=ax, linear_within=1e-6)


# The page.


def report_page(
    found: Findings, out: str = "mustdp-report.html", mapper: Mapper = map_serial
) -> Page:
    """The page for what was found, which is to be written to ``out``."""
    question = found.question
    own = f"--noise-multiplier {found.rows['must-ow'].noise_multiplier!r}"
    commands = (
        f"mustdp report {question.options} --out {shlex.quote(out)}",
        f"mustdp compare {question.options}",
        f"mustdp account --scheme must-ow {question.sizes} {own} {question.neighbours}",
    )
    packages = ", ".join(f"{name} {version(name)}" for name in ("numpy", "scipy", "matplotlib"))
    return Page(
        f"Sampling {question.m:,} of {question.n:,} records, {times(question.steps)}",
        headline(found),
        template="mustdp.reporting/templates/report.html.j2",
        footer="",
        found=found,
        question=question,
        sentences=reading(found),
        reference=label(found.reference.scheme.name),
        schemes=", ".join(map(label, found.profiles)),
        absent=[
            label(name)
            for name in ("poisson", "wor", "must-wo", "must-oo")
            if name not in found.rows
        ],
        comparison=_comparison_table(found),
        risks=_risk_table(found),
        work=_work_table(found),
        other_sizes=other_sizes(found),
        pictures=pictures(found, mapper),
        commands="\n".join(commands),
        versions=f"mustdp {__version__}, Python {platform.python_version()}, {packages}",
        as_stated=as_stated,
        given_or_rounded=given_or_rounded,
        label=label,
        noise_needed=noise_needed,
        small=small,
        times=times,
        factor=factor,
        one_in=one_in,
        thousands="{:,}".format,
    )


def other_sizes(found: Findings) -> str:
    """How much b and m matter."""
    around, question = found.sensitivity, found.question
    if around is None:
        return "b and m cannot be varied around these sizes."
    here = around.at(question.b, question.m)
    ends = []
    for size, what in ((around.b[0], "smallest"), (around.b[-1], "largest")):
        there = around.at(size, question.m)
        if size != question.b and not math.isnan(there):
            ends.append(f"with the {what} first stage here, b = {size:,}, it is {up(there)}")
    noise = noise_needed(around.noise_multiplier, 4)
    certified = (
        ""
        if math.isnan(here)
        else f" At b = {question.b:,}, m = {question.m:,}, the certified epsilon is {up(here)}"
        f"{'; ' if ends else ''}{' and '.join(ends)}."
    )
    kept = f"MUSTow with the noise multiplier {noise} kept as it is."
    return f"{kept}{certified} With b = n, MUSTow is WR."
