"""From a plan to certified bounds: the whole algorithm on one page."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

from mustdp.accounting.atom_pairs import AtomPairs
from mustdp.accounting.bounds import Bounds
from mustdp.accounting.pure import Pure
from mustdp.accounting.refine import Fractions, Look, refine
from mustdp.accounting.sides import UpperSide
from mustdp.accounting.workings import Workings
from mustdp.errors import Contradiction, NumericalFailure
from mustdp.limits import SMALLEST_DELTA
from mustdp.loss.questions import DeltaAt, EpsilonAt, Question
from mustdp.mechanisms.relation import Relation

FRACTIONS = Fractions(first=0.05, finest=0.05 / 64, boldness=0.9)
#: Accuracies from here on begin with a coarser spacing, which is as certified.
_ROUGH = 0.01
#: How far from the largest loss, as a share of it, chords to it begin.
_NEAR = 0.2
#: Tables of atoms that are tried, by how fine they are, and how much closer bounds have to come.
_FINER, _WORTH = (2.0, 4.0, 8.0), 0.8
#: Spacings that serve where the first one is too fine for the longest transform.
_COARSER = (0.2, 0.8)


def certify(
    work: Workings,
    question: Question,
    accuracy: float,
    *,
    both_sides: bool = True,
    mixed: bool = True,
    strict: bool = True,
) -> Bounds:
    """Answer a question about a plan from both sides, or only from above.

    The plan was described by whoever asks; ``work`` counted its atoms and holds, under the relation
    that was resolved, the dominating pair of each and the pairs that it attains; mixtures of their
    orders are left out unless ``mixed``. Where the two
    bounds meet their distance is the proof of their accuracy; elsewhere their numerical part is
    estimated by doubling the spacing. What is out of reach of the accuracy is refused if
    ``strict``, else answered by the best bounds seen, which hold all the same, marked as coarse.
    """
    found = _bounds(work, question, accuracy, both_sides=both_sides, mixed=mixed, strict=strict)
    if not both_sides or math.isinf(found.upper) or not work.on_grids:
        return _said_if_vacuous(found, question)
    # Some atoms are tabulated on grids of their own, which the spacing of losses says nothing of.
    room = question.room(found.upper, accuracy)

    def again(fine: float) -> Bounds:
        other = work.at(fine)
        return _bounds(other, question, accuracy, both_sides=True, mixed=mixed, strict=False)

    if not _apart(found, question, accuracy):
        return replace(found, numerical_gap=found.upper - found.lower)
    if work.exact:
        levels = [fine for fine in _FINER if fine <= work.finest]
        found = _tabulated_finer(found, question, accuracy, again, levels)
    else:
        rough = again(0.5)
        # Twice as wide, errors are four times as large.
        moved = max(0.0, rough.upper - found.upper) + max(0.0, found.lower - rough.lower)
        gap = min(max(found.numerical_gap, moved / 3.0), found.upper - found.lower)
        met = gap <= question.room(found.upper, accuracy) / 2
        found = replace(found, numerical_gap=gap, coarse=not met)
    if strict and found.coarse and math.isfinite(found.upper):
        raise NumericalFailure(
            f"{question.name} = {found.upper!r} is certified, but its numerical part "
            f"{found.numerical_gap:.3g} could not be brought below {room:.3g}"
        )
    return _said_if_vacuous(found, question)


def _tabulated_finer(
    found: Bounds,
    question: Question,
    accuracy: float,
    again: Callable[[float], Bounds],
    levels: Sequence[float],
) -> Bounds:
    """Bounds that would meet but for numerics, on finer tables until they do or none helps."""
    for fine in levels:
        before = found.upper - found.lower
        found = _best([found, again(fine)])
        distance = found.upper - found.lower
        if not _apart(found, question, accuracy):
            return replace(found, numerical_gap=distance, coarse=False)
        if not distance < _WORTH * before:
            break
    return replace(found, numerical_gap=found.upper - found.lower, coarse=True)


def _apart(found: Bounds, question: Question, accuracy: float) -> bool:
    """Whether more than the accuracy is between two bounds; tiny deltas are as good as none."""
    room = question.room(found.upper, accuracy)
    if isinstance(question, DeltaAt):
        room = max(room, SMALLEST_DELTA)
    return not found.upper - found.lower <= room


def _said_if_vacuous(found: Bounds, question: Question) -> Bounds:
    """Bounds that say nothing say so."""
    nothing = isinstance(question, DeltaAt) and found.upper >= 1.0 and found.lower <= 0.0
    if nothing or math.isinf(found.upper):
        return replace(found, numerical_gap=found.upper - found.lower, coarse=True)
    return found


def _bounds(
    work: Workings,
    question: Question,
    accuracy: float,
    *,
    both_sides: bool,
    mixed: bool,
    strict: bool,
) -> Bounds:
    """The same from the atoms as they are tabulated."""
    relation = work.relation
    pure = work.pure
    if pure is not None and isinstance(question, DeltaAt) and question.epsilon >= pure.upper:
        return Bounds(0.0, 0.0, "none", "both", 0.0, relation)  # no loss is that large
    if work.steps == 1:  # nothing to compose: the profiles themselves are the answer
        return _uncomposed(work.pairs[0], question, relation, pure, both_sides=both_sides)
    if isinstance(question, EpsilonAt) and work.beyond >= question.delta:
        return Bounds(0.0, math.inf, "none", "both", math.inf, relation)

    seen: list[Bounds] = []

    def look_at(fraction: float) -> Look[Bounds]:
        grid = work.grid(fraction)  # the pairs are scouted and one grid is laid for all
        # Discretise and compose: chords above the profiles, merged outcomes of the concrete pairs.
        above = work.upper(grid)
        below = work.lower(grid, mixed=mixed) if both_sides else None
        # Read off.
        upper, direction = above.worst(question)
        lower, name = (0.0, "") if below is None else below.best(question)
        if pure is not None:
            upper = _within(pure, above, question, upper)
            if isinstance(question, DeltaAt):
                lower, name = max((lower, name), (pure.attained(question.epsilon), "aligned"))
        lower = consistent(lower, upper)
        room = question.room(upper, accuracy)
        if math.isinf(upper) or upper - lower <= room:
            seen.append(Bounds(lower, upper, name, direction, upper - lower, relation))
            return Look(seen[-1], good_enough=True)
        # How much of the distance is due to the grid?
        gap = above.gap(question, direction)
        if below is not None:
            gap = max(gap, below.gap(question, name))
        gap = min(gap, upper - lower)  # a finer grid moves neither bound past the other
        excess = gap / (room / 2) if room > 0 else math.inf
        seen.append(Bounds(lower, upper, name, direction, gap, relation))
        return Look(
            seen[-1],
            good_enough=gap <= room / 2,
            excess=excess,
            finest=grid.finest,
            shortfall=f"{question.name} = {upper!r} is certified, but its numerical part "
            f"{gap:.3g} could not be brought below {room / 2:.3g}; "
            f"accuracy={1.1 * accuracy * excess:.2g} can be reached",
        )

    fractions = FRACTIONS if accuracy < _ROUGH else replace(FRACTIONS, first=4 * FRACTIONS.first)
    try:
        return refine(look_at, fractions)
    except Contradiction:
        raise
    except NumericalFailure as failure:
        if strict or not (seen or _looked(look_at)):
            raise failure
        best = _best(seen)
        room = question.room(best.upper, accuracy)
        met = best.upper - best.lower <= room or best.numerical_gap <= room / 2
        return replace(best, coarse=not met)


def _within(pure: Pure, above: UpperSide, question: Question, upper: float) -> float:
    """An upper bound that knows where the losses end.

    Delta is convex in e^epsilon and zero at the largest loss, so it lies below the chord from any
    smaller epsilon to there; grids that end a little beyond do not know.
    """
    if not isinstance(question, DeltaAt):
        return min(upper, pure.upper)
    left, furthest = pure.upper - question.epsilon, _NEAR * pure.upper
    away = 4.0 * left
    while away <= furthest:
        start = pure.upper - away
        value, _ = above.worst(DeltaAt(start))
        share = math.expm1(-left) / math.expm1(-away) * (1.0 + 1e-13)
        upper = min(upper, value * share * (1.0 + 4e-16 * pure.upper / left))
        away *= 4.0
    return upper


def _looked(look_at: Callable[[float], Look[Bounds]]) -> bool:
    """Whether one of the coarser spacings gave anything."""
    for fraction in _COARSER:
        try:
            look_at(fraction)
        except Contradiction:
            raise
        except NumericalFailure:
            continue
        return True
    return False


def _best(seen: list[Bounds]) -> Bounds:
    """The smallest certified and the largest attained of several answers to one question."""
    above = min(seen, key=lambda bounds: bounds.upper)
    below = max(seen, key=lambda bounds: bounds.lower)
    lower = consistent(below.lower, above.upper)
    gap = min(max(above.numerical_gap, below.numerical_gap), above.upper - lower)
    return replace(above, lower=lower, attained_by=below.attained_by, numerical_gap=gap)


def _uncomposed(
    pairs: AtomPairs,
    question: Question,
    relation: Relation,
    pure: Pure | None,
    *,
    both_sides: bool,
) -> Bounds:
    """One atom that occurs once: its profiles and pairs answer directly."""
    certified = [(question.of_profile(each), name) for name, each in pairs.directions.items()]
    upper, direction = max(certified, key=lambda answer: answer[0])
    seen = pairs.families.items() if both_sides else ()
    attained = [(question.of_pair(each, upper), name) for name, each in seen]
    if pure is not None and isinstance(question, EpsilonAt):
        upper = min(upper, pure.upper)
    lower, name = max([(0.0, "none"), *attained], key=lambda answer: answer[0])
    return Bounds(consistent(lower, upper), upper, name, direction, 0.0, relation)


def consistent(lower: float, upper: float) -> float:
    """The lower bound, or a refusal to answer if the two contradict each other."""
    if not lower <= upper * (1.0 + 1e-9) + 1e-300:
        raise Contradiction(
            f"the bounds contradict each other: {lower!r} is attained, {upper!r} was certified"
        )
    return min(lower, upper)
