"""The page of a report: tables, pictures and words for what was found."""

from __future__ import annotations

import math
import platform
import shlex
from collections.abc import Mapping
from fractions import Fraction
from importlib.metadata import version
from typing import TYPE_CHECKING, TypeAlias

from mustdp.accounting.risk import Risk
from mustdp.calibration.compare import ComparisonRow
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
from mustdp.reporting.pages import Cell, Page, Tone
from mustdp.reporting.plots.drawing import (
    DARK,
    LIGHT,
    Rendered,
    Theme,
    figure_of,
    in_the_dark,
    look_of,
    new_axes,
    render,
)
from mustdp.reporting.plots.privacy import (
    aligned_profile,
    contours,
    epsilon_against_steps,
    multiplicity_law,
    profile_bands,
)
from mustdp.reporting.report.findings import Findings
from mustdp.sampling.catalogue import EPOCHS
from mustdp.version import __version__

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Command lines that reproduce the numbers.


def commands(found: Findings, out: str) -> str:
    """Three lines: the page, its table, and the account of MUSTow by itself."""
    question = found.question
    sizes = f"-n {question.n} -b {question.b} -m {question.m}"
    relation = f"--relation {found.comparison.relation.option}"
    relation += "" if question.group == 1 else f" --group {question.group}"
    target = f"--steps {question.steps} --delta {question.delta!r}"
    noise = (
        f"--noise-multiplier {question.noise_multiplier!r}"
        if question.epsilon is None
        else f"--epsilon {question.epsilon!r}"
    )
    own = f"--noise-multiplier {found.rows['must-ow'].noise_multiplier!r}"
    return "\n".join(
        (
            f"mustdp report {sizes} {target} {noise} {relation} --out {shlex.quote(out)}",
            f"mustdp compare {sizes} {target} {noise} {relation}",
            f"mustdp account --scheme must-ow {sizes} {target} {own} {relation}",
        )
    )


# The numbers in plain words, each sentence computed from them. Nothing here knows in advance which
# scheme is better: every comparison is made, and the words follow from how it came out.


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


def headline(found: Findings) -> str:
    """The result in one sentence."""
    question, reference = found.question, found.reference
    ours = found.rows["must-ow"]
    if found.same_noise:
        return (
            f"With noise multiplier {as_stated(question.noise_multiplier or 0.0)}, "
            f"{times(question.steps)} of {label(reference.scheme.name)} are certified for epsilon "
            f"{readable(reference.epsilon.upper, 'up')} at delta {small(question.delta)}, and as "
            f"many of MUSTow for {readable(ours.epsilon.upper, 'up')}."
        )
    return (
        f"For epsilon {as_stated(question.epsilon or 0.0)} at delta {small(question.delta)} after "
        f"{times(question.steps)}, {label(reference.scheme.name)} needs a noise multiplier of "
        f"{noise_needed(reference.noise_multiplier, 4)} and MUSTow one of "
        f"{noise_needed(ours.noise_multiplier, 4)}."
    )


def reading(found: Findings) -> list[str]:
    """What the numbers say, most important first."""
    said = [_best(found), _proven(found), *_work(found), *_tails(found), _gap(found)]
    return [sentence for sentence in said if sentence]


def _best(found: Findings) -> str:
    """Which scheme comes out best, and where the MUST schemes stand."""
    rows = list(found.comparison)
    costs = {row.scheme.name: found.cost(row) for row in rows}
    least = min(costs.values())
    best = [name for name, cost in costs.items() if cost <= least * (1.0 + _SAME)]
    what = "is certified for the smallest epsilon" if found.same_noise else "needs the least noise"
    amount = readable(least, "up", 3 if found.same_noise else 4)
    names = _listed([label(name) for name in best])
    verb = what if len(best) == 1 else what.replace("is ", "are ").replace("needs", "need")
    return f"**{names} {verb}**: {amount}. {_against_reference(found)}"


def _against_reference(found: Findings) -> str:
    reference = found.reference
    base = found.cost(reference)
    first, second = (
        formatted(found.cost(found.rows[name]) / base, ".3f", "up")
        for name in ("must-ow", "must-ww")
    )
    unit = (
        "is certified for {} times the epsilon"
        if found.same_noise
        else ("takes {} times the noise")
    )
    return (
        f"MUSTow {unit.format(first)} of {label(reference.scheme.name)}, MUSTww "
        f"{second} times{_equal_laws(found)}."
    )


def _equal_laws(found: Findings) -> str:
    if "must-oo" not in found.rows:
        return ""
    return "; MUSTwo is WR and MUSToo is WOR under another name, with the same numbers"


def _proven(found: Findings) -> str:
    """Whether the order of MUSTow and the reference is a fact or a matter of proof."""
    reference = found.reference
    if not {"must-ow", reference.scheme.name} <= set(found.at_one_noise):
        return ""
    ours, theirs = (found.at_one_noise[name] for name in ("must-ow", reference.scheme.name))
    name = label(reference.scheme.name)
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
            f"{readable(theirs.upper, 'up')}, both at delta {small(found.question.delta)}. Copies "
            "of a record in one batch add up, and noise has to cover them."
        )
    if ours.upper < theirs.lower:
        return (
            f"**That MUSTow costs less is a fact.** {at}, it "
            f"never loses more than epsilon {readable(ours.upper, 'up')}, while {name} reaches "
            f"{readable(theirs.lower, 'down')} on some pair of data sets."
        )
    return (
        f"**Which of MUSTow and {name} costs more is not settled by these bounds.** "
        f"{at}, the true epsilon of MUSTow lies between "
        f"{readable(ours.lower, 'down')} and {_most(ours.upper)}, that of {name} between "
        f"{readable(theirs.lower, 'down')} and {_most(theirs.upper)}."
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
            f"{readable(plain, 'up')} contribution bounds, against {readable(mine, 'up')} for "
            f"MUSTow. {_verdict(mine / plain)}"
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
    if found.same_noise or question.epsilon is None:
        return []
    ours, theirs = found.profiles["must-ow"], found.profiles[reference]
    index = int(abs(ours.epsilon - 1.5 * question.epsilon).argmin())
    epsilon = float(ours.epsilon[index])
    mine, plain = float(ours.upper[index]), float(theirs.upper[index])
    if not (epsilon > question.epsilon and plain > 0):
        return []
    order = "slower" if mine > 1.1 * plain else "faster" if mine < plain / 1.1 else "as fast"
    sentences = [
        f"The schemes agree at the target only. At epsilon {readable(epsilon, 'up')}, delta is "
        f"certified to be at most {readable(mine, 'up')} for MUSTow and {readable(plain, 'up')} "
        f"for {label(reference)}: it falls {order}{'' if order == 'as fast' else ' with MUSTow'}."
    ]
    counts = sorted(found.by_steps["must-ow"].keys() & found.by_steps[reference].keys())
    first, last = counts[0], counts[-1]
    if first < question.steps < last:
        early, late = (
            f"{readable(found.by_steps['must-ow'][count].upper, 'up')} for MUSTow and "
            f"{readable(found.by_steps[reference][count].upper, 'up')} for {label(reference)}"
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
    bounds = widest.epsilon
    return (
        f"How far the truth may lie below the certified numbers: the widest gap is that of "
        f"{label(widest.scheme.name)}, whose epsilon is certified to be at most "
        f"{readable(bounds.upper, 'up')}, while {readable(bounds.lower, 'down')} is reached by "
        f"some pair of data sets ({found.comparison.relation.differing(found.question.group)}). "
        "No proof can go below that."
    )


def _most(value: float) -> str:
    """An upper bound, which may be infinite."""
    return readable(value, "up") if math.isfinite(value) else "no known limit"


def _listed(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


# Definitions, for readers who meet the words for the first time.


def meanings(page: Page, found: Findings) -> None:
    """Epsilon and delta first, with the numbers of this page."""
    question = found.question
    epsilon = found.reference.epsilon.upper if question.epsilon is None else question.epsilon
    page.points(
        [
            "**Epsilon**: how much everything that is released may change what somebody believes. "
            "The odds of any suspicion about one record (chances for, against chances against) are "
            "multiplied or divided by at most e^epsilon; epsilon "
            f"{given_or_rounded(epsilon, 'up')} means by at most {_factor(epsilon)}, and 0 means "
            "not at all.",
            "**Delta**: the chance that this limit may be broken. With delta = "
            f"{small(question.delta)} the release is no easier to attack than one that keeps the "
            f"limit and reveals a record outright in {_one_in(question.delta)}. It should be well "
            "below one in the number of records.",
            "**Certified, at most**: proved for every pair of neighbouring data sets, with all "
            "errors of computing counted. **Attained, at least**: some pair of data sets reaches "
            "it, so that no better proof can go below.",
            "**Poisson**: every record is taken with chance m/n, so that batches vary in size. "
            "**WOR**, **WR**: m of n records without or with replacement.",
            "**MUSTow**: b of n without, then m of those with replacement; **MUSTww**: both with; "
            "**MUSTwo**: with, then without; **MUSToo**: both without.",
            "**Noise multiplier**: standard deviation of the Gaussian noise on the sum over the "
            "batch, divided by the bound on one record's contribution.",
            "**Neighbours**: data sets with "
            f"{found.comparison.relation.differing(found.question.group)}, for all schemes alike.",
        ]
    )


def _factor(epsilon: float) -> str:
    """e^epsilon, rounded up.

    >>> _factor(2.0), _factor(600.0)
    ('7.39', 'e^600, which is no limit in practice')
    """
    if epsilon > 50.0:
        return f"e^{given_or_rounded(epsilon, 'up')}, which is no limit in practice"
    return readable(math.exp(epsilon), "up")


def _one_in(delta: float) -> str:
    """A small chance as people say it.

    >>> _one_in(1e-5), _one_in(0.3)
    ('one case in 100,000', '0.3 of all cases')
    """
    if delta > 0.1:
        return f"{as_stated(delta)} of all cases"
    return f"one case in {math.floor(1 / Fraction(as_stated(delta))):,}"


# Attackers: what they achieve at most, by scheme, and two sentences to quote.


def attackers(page: Page, found: Findings) -> None:
    """What somebody who sees everything released can achieve under each scheme."""
    ours = found.risks["must-ow"]
    page.paragraph(f"**MUSTow, to quote.** {' '.join(ours.sentences())}")
    other = found.reference.scheme.name
    if other in found.risks:
        page.paragraph(f"**{label(other)}, to quote.** {' '.join(found.risks[other].sentences())}")
    page.table(
        (
            "scheme",
            "advantage, at least",
            "at most",
            *(f"found at {percent_stated(rate)} false, at most" for rate in ours.fpr),
            "50 % becomes, at most",
            "1 % becomes, at most",
        ),
        [_row(name, risk) for name, risk in found.risks.items()],
        "What an attacker who sees everything that is released can achieve, each scheme with its "
        "noise from the table above.",
    )
    page.note(
        "Advantage: true-positive rate less false-positive rate, at its largest. Found: the share "
        "of records that were there and are accused, if this share of those that were not there is "
        "accused falsely. Becomes: what a suspicion held before is after an accusation at 1 % "
        "false ones. At most: certified for every attacker and pair of neighbouring data sets; at "
        "least: reached by an attacker on a concrete pair."
    )


def _row(name: str, risk: Risk) -> list[str]:
    place = risk.fpr.index(0.01)
    return [
        label(name),
        readable(risk.advantage.lower, "down"),
        readable(risk.advantage.upper, "up"),
        *(percent(one.upper, "up") for one in risk.tpr),
        *(percent(risk.becomes(prior)[place].upper, "up") for prior in (0.5, 0.01)),
    ]


# Pictures, each drawn for both themes, pool at a time if processes are given.


#: Pictures by name, each by the name of the theme.
Pictures: TypeAlias = Mapping[str, Mapping[str, Rendered]]

_WIDTH, _HEIGHT = 4.6, 3.6
#: In the order of the page, which numbers them, with about how long each takes.
_SECONDS = {"profiles": 0.8, "steps": 0.5, "copies": 1.0, "sizes": 0.6, "aligned": 1.0}


def pictures(found: Findings, mapper: Mapper) -> Pictures:
    """All pictures that there are for what was found."""
    names = [name for name in _SECONDS if name != "sizes" or found.sensitivity is not None]
    jobs = [(found, name, f"p{number}") for number, name in enumerate(names, 1)]
    return dict(zip(names, mapper(_drawn, jobs, cost=_long), strict=True))


def _long(job: tuple[Findings, str, str]) -> float:
    return _SECONDS[job[1]]


def _drawn(job: tuple[Findings, str, str]) -> dict[str, Rendered]:
    """One picture in both themes."""
    found, name, number = job

    def drawn(theme: Theme) -> Rendered:
        ax = new_axes(theme, _WIDTH, _HEIGHT)
        _draw(found, name, ax)
        return render(figure_of(ax), f"{number}-{theme.name}")

    light = drawn(LIGHT)
    dark = in_the_dark(light, f"{number}-light", f"{number}-dark") or drawn(DARK)
    return {LIGHT.name: light, DARK.name: dark}


def _draw(found: Findings, name: str, ax: Axes) -> None:
    question, around = found.question, found.sensitivity
    if name == "profiles":
        target = None if question.epsilon is None else (question.epsilon, question.delta)
        profile_bands(found.profiles, ax=ax, mark=target)
    elif name == "steps":
        mark = None if question.epsilon is None else (float(question.steps), question.epsilon)
        epsilon_against_steps(found.by_steps, ax=ax, mark=mark)
    elif name == "copies":
        multiplicity_law([found.rows[scheme].scheme for scheme in found.profiles], ax=ax)
    elif name == "aligned":
        aligned_profile(found.aligned, ax=ax, linear_within=1e-6)
    elif around is not None:
        here = question.b, question.m
        contours(around.b, around.m, around.epsilon, of="certified ε of MUSTow", mark=here, ax=ax)


# The page itself.


def compose(found: Findings, out: str = "mustdp-report.html", mapper: Mapper = map_serial) -> Page:
    """The page for what was found, which is to be written to ``out``.

    ``mapper`` draws its pictures, one after the other unless told.
    """
    question, drawn = found.question, pictures(found, mapper)
    page = Page(
        f"Sampling {question.m:,} of {question.n:,} records, {times(question.steps)}",
        headline(found),
    )
    _facts(page, found)
    page.heading("In short")
    page.points(reading(found))
    page.heading("The same noise" if found.same_noise else "The same guarantee")
    _comparison(page, found)
    page.heading("Bounds")
    _bounds(page, found, drawn)
    page.heading("What an attacker can achieve")
    attackers(page, found)
    page.heading("Work per step")
    _work_section(page, found, drawn)
    page.heading("Other sizes")
    other_sizes(page, found, drawn)
    page.heading("One application")
    _one_application(page, found, drawn)
    page.heading("What the words mean")
    meanings(page, found)
    page.heading("Do it again")
    _again(page, found, out)
    return page


def _facts(page: Page, found: Findings) -> None:
    question = found.question
    noise = (
        ("noise multiplier, for all", as_stated(question.noise_multiplier or 0.0))
        if found.same_noise
        else ("epsilon, for all", as_stated(question.epsilon or 0.0))
    )
    page.facts(
        [
            ("records, n", f"{question.n:,}"),
            ("first stage, b", f"{question.b:,}"),
            ("batch, m", f"{question.m:,}"),
            ("steps", f"{question.steps:,}"),
            noise,
            ("delta", f"{small(question.delta)}"),
            *([] if question.group == 1 else [("records of one person", f"{question.group:,}")]),
        ]
    )


def _comparison(page: Page, found: Findings) -> None:
    question, reference = found.question, found.reference
    rows = [*found.comparison, *found.comparison.epochs]
    costs, base = [found.cost(row) for row in rows], found.cost(reference)

    def row_of(row: ComparisonRow, cost: float) -> list[str | Cell]:
        relative = Cell(formatted(cost / base, ".3f", "up"), _tone(cost, base, costs))
        return [
            label(row.scheme.name),
            noise_needed(row.noise_multiplier, 4),
            *([] if found.same_noise else [relative]),
            readable(row.noise_multiplier / question.m, "up"),
            readable(row.epsilon.lower, "down"),
            readable(row.epsilon.upper, "up"),
            *([relative] if found.same_noise else []),
        ]

    name = label(reference.scheme.name)
    columns = (
        "scheme",
        "noise multiplier",
        *(() if found.same_noise else (f"noise / {name}",)),
        "noise on the mean",
        "epsilon, at least",
        "epsilon, at most",
        *((f"epsilon / {name}",) if found.same_noise else ()),
    )
    what = (
        "What each scheme guarantees with noise multiplier "
        f"{as_stated(question.noise_multiplier or 0.0)}"
        if found.same_noise
        else "The noise that keeps each scheme within epsilon = "
        f"{as_stated(question.epsilon or 0.0)}"
    )
    page.table(
        columns,
        [row_of(row, cost) for row, cost in zip(rows, costs, strict=True)],
        f"{what}, at delta = {small(question.delta)} after {times(question.steps)}; neighbours: "
        f"{found.comparison.relation.differing(question.group)}.",
    )
    page.note(
        "At most: certified for every pair of neighbouring data sets, the number to rely on. At "
        "least: reached by a concrete pair. Noise on the mean: noise multiplier divided by m, the "
        "noise on the average of a batch in units of the contribution bound."
    )
    absent = [name for name in ("poisson", "wor", "must-wo", "must-oo") if name not in found.rows]
    if absent:
        page.note(
            f"Left out: {', '.join(map(label, absent))}, which cannot draw {question.m:,} without "
            "replacement."
        )


def _tone(cost: float, base: float, costs: list[float]) -> Tone:
    """Good for the smallest, bad for what is clearly above the reference."""
    if cost <= min(costs) * 1.005:
        return "good"
    return "bad" if cost > 1.05 * base else ""


def _bounds(page: Page, found: Findings, drawn: Pictures) -> None:
    question = found.question
    target = None if question.epsilon is None else (question.epsilon, question.delta)
    noise = "the same noise" if found.same_noise else "its own noise from the table above"
    page.paragraph(
        f"Each scheme with {noise}. The line is the certified upper bound; the shade reaches down "
        "to what some pair of data sets attains, so the truth lies in the shade. Where no shade is "
        "to be seen, the bounds meet. Away from the numbers asked about, bands of fixed-size "
        "batches come from one pass through all steps, and what mustdp account certifies there may "
        "be a little less. The picture of other sizes has one dominating pair per step."
    )
    page.figure(
        drawn["profiles"],
        f"The privacy profile after {times(question.steps)}"
        + ("." if target is None else "; thin lines cross at the target."),
        alt=f"delta against epsilon for {_names(found)}, falling bands"
        + (
            ""
            if target is None
            else f" that meet at epsilon {as_stated(target[0])}, delta {small(target[1])}"
        ),
    )
    page.figure(
        drawn["steps"],
        f"Epsilon at delta = {small(question.delta)} as steps go on with the same noise.",
        alt=f"epsilon against steps for {_names(found)}, rising bands",
    )


def _work_section(page: Page, found: Findings, drawn: Pictures) -> None:
    question, reference = found.question, found.reference
    base = found.draw_seconds[reference.scheme.name]
    rows = []
    for row in found.comparison:
        seconds = found.draw_seconds[row.scheme.name]
        timed = not math.isnan(seconds)
        rows.append(
            (
                label(row.scheme.name),
                chance_drawn(row.eta),
                records(row.expected_distinct),
                f"{row.expected_distinct / question.m:.3f}",
                f"{1e6 * seconds:,.0f} µs" if timed else "not timed",
                f"{seconds / base:.2f}" if timed and base > 0 else "",
            )
        )
    name = label(reference.scheme.name)
    page.table(
        (
            "scheme", "eta", "distinct records", "gradients / m", "draw, measured",
            f"draw / {name}",
        ),
        rows,
        "What one step costs. Each distinct record is computed once and weighted by its copies.",
    )  # fmt: skip
    page.note(
        "eta: the chance that a given record is drawn at all; n eta distinct records are expected. "
        "Draw times are medians measured on the computer that made this page; the other columns "
        "are exact."
    )
    page.figure(
        drawn["copies"],
        "How often a record that is drawn occurs in the batch. Copies are what costs privacy: j "
        "copies move the result j times as far.",
        alt=f"probability of j copies of a record against j for {_names(found)}",
    )


def other_sizes(page: Page, found: Findings, drawn: Pictures) -> None:
    """How much b and m matter."""
    around, question = found.sensitivity, found.question
    if around is None:
        page.paragraph("b and m cannot be varied around these sizes.")
        return
    here = around.at(question.b, question.m)
    sentences = []
    for size, what in ((around.b[0], "smallest"), (around.b[-1], "largest")):
        there = around.at(size, question.m)
        if size != question.b and not math.isnan(there):
            sentences.append(
                f"with the {what} first stage here, b = {size:,}, it is {readable(there, 'up')}"
            )
    told = f"; {' and '.join(sentences)}" if sentences else ""
    start = "" if math.isnan(here) else f"At b = {question.b:,}, m = {question.m:,}, the certified "
    page.paragraph(
        f"MUSTow with the noise multiplier {noise_needed(around.noise_multiplier, 4)} kept as it "
        "is. "
        + (f"{start}epsilon is {readable(here, 'up')}{told}." if start else "")
        + " With b = n, MUSTow is WR."
    )
    page.figure(
        drawn["sizes"],
        "Certified epsilon over the sizes of both stages; the circle is the choice of this page."
        + (" White: nothing could be certified there." if around.holes else ""),
        alt="contours of the certified epsilon over b and m",
    )


def _one_application(page: Page, found: Findings, drawn: Pictures) -> None:
    noise = noise_needed(found.reference.noise_multiplier, 4)
    page.paragraph(
        f"The aligned privacy profile of arXiv 2312.13389: what **one** draw does to a base point "
        f"(ε, δ) of the Gaussian mechanism with noise multiplier {noise}, by the paper's "
        "Theorem 4. Left of the upright line epsilon shrinks, below the level line delta does. The "
        "theorem is valid but loose, and it says nothing about many steps; the numbers above do "
        "not rest on it."
    )
    page.figure(
        drawn["aligned"],
        "For one record replaced. Markers where ε is a whole number. The upright axis is linear up "
        "to a millionth and logarithmic beyond, above and below zero.",
        alt="delta' minus delta against epsilon' over epsilon, one curve per scheme, with the "
        "quadrants strong, weak I, weak II and dilution",
    )


def _again(page: Page, found: Findings, out: str) -> None:
    page.code(commands(found, out))
    packages = ", ".join(f"{name} {version(name)}" for name in ("numpy", "scipy", "matplotlib"))
    page.note(
        f"mustdp {__version__}, Python {platform.python_version()}, {packages}. Everything but the "
        "draw times comes out the same again."
    )


def _names(found: Findings) -> str:
    return ", ".join(label(name) for name in found.profiles)
