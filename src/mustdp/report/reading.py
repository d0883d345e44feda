"""The numbers of a report in plain words, each sentence computed from them.

Nothing here knows in advance which scheme is better: every comparison is made, and the words follow
from how it came out.
"""

from __future__ import annotations

import math

from mustdp.numerics.decimals import as_stated, formatted, noise_needed, readable
from mustdp.plots.drawing import look_of
from mustdp.report.findings import Findings
from mustdp.sampling.catalogue import EPOCHS

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
    asked, reference = found.question, found.reference
    ours = found.rows["must-ow"]
    if found.same_noise:
        return (
            f"With noise multiplier {as_stated(asked.noise_multiplier or 0.0)}, "
            f"{times(asked.steps)} of {label(reference.scheme.name)} are certified for epsilon "
            f"{readable(reference.epsilon.upper, 'up')} at delta {small(asked.delta)}, and as "
            f"many of MUSTow for {readable(ours.epsilon.upper, 'up')}."
        )
    return (
        f"For epsilon {as_stated(asked.epsilon or 0.0)} at delta {small(asked.delta)} after "
        f"{times(asked.steps)}, {label(reference.scheme.name)} needs a noise multiplier of "
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
    ours, asked = found.rows["must-ow"], found.question
    share = ours.expected_distinct / asked.m
    if share > 1.0 - _SAME:
        return []
    sentences = [
        f"**A step of MUSTow works on {records(ours.expected_distinct)} distinct records** instead "
        f"of {records(asked.m)}: {share:.0%} of the gradients, because a copy is computed once."
    ]
    same = found.same_work
    if same is not None:
        mine, plain = ours.noise_multiplier / asked.m, same.noise_multiplier / same.m
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
    asked, reference = found.question, found.reference.scheme.name
    if found.same_noise or asked.epsilon is None:
        return []
    ours, theirs = found.profiles["must-ow"], found.profiles[reference]
    index = int(abs(ours.epsilon - 1.5 * asked.epsilon).argmin())
    epsilon = float(ours.epsilon[index])
    mine, plain = float(ours.upper[index]), float(theirs.upper[index])
    if not (epsilon > asked.epsilon and plain > 0):
        return []
    order = "slower" if mine > 1.1 * plain else "faster" if mine < plain / 1.1 else "as fast"
    sentences = [
        f"The schemes agree at the target only. At epsilon {readable(epsilon, 'up')}, delta is "
        f"certified to be at most {readable(mine, 'up')} for MUSTow and {readable(plain, 'up')} "
        f"for {label(reference)}: it falls {order}{'' if order == 'as fast' else ' with MUSTow'}."
    ]
    counts = sorted(found.by_steps["must-ow"].keys() & found.by_steps[reference].keys())
    first, last = counts[0], counts[-1]
    if first < asked.steps < last:
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
