"""From a plan to certified bounds: the whole algorithm on one page."""

from __future__ import annotations

import math

from mustdp.accounting.atom_pairs import AtomPairs
from mustdp.accounting.bounds import Bounds
from mustdp.accounting.refine import Fractions, Look, refine
from mustdp.accounting.workings import Workings
from mustdp.errors import NumericalFailure
from mustdp.loss.questions import EpsilonAt, Question
from mustdp.mechanisms.relation import Relation

FRACTIONS = Fractions(first=0.05, finest=0.05 / 64, boldness=0.9)


def certify(
    work: Workings, question: Question, accuracy: float, *, both_sides: bool = True
) -> Bounds:
    """Answer a question about a plan from both sides, or only from above.

    The plan was described by whoever asks; ``work`` counted its atoms and holds, under the relation
    that was resolved, the dominating pair of each and the pairs that it attains. Where the two
    bounds meet their distance is the proof of their accuracy; elsewhere their numerical part is
    estimated by doubling the spacing.
    """
    relation = work.relation
    if work.steps == 1:  # nothing to compose: the profiles themselves are the answer
        return _uncomposed(work.pairs[0], question, relation)
    if isinstance(question, EpsilonAt) and work.beyond >= question.delta:
        return Bounds(0.0, math.inf, "none", "both", math.inf, relation)

    def look_at(fraction: float) -> Look[Bounds]:
        grid = work.grid(fraction)  # the pairs are scouted and one grid is laid for all
        # Discretise and compose: chords above the profiles, merged outcomes of the concrete pairs.
        above = work.upper(grid)
        below = work.lower(grid) if both_sides else None
        # Read off.
        upper, direction = above.worst(question)
        lower, name = (0.0, "") if below is None else below.best(question)
        lower = consistent(lower, upper)
        room = question.room(upper, accuracy)
        if math.isinf(upper) or upper - lower <= room:
            met = Bounds(lower, upper, name, direction, upper - lower, relation)
            return Look(met, good_enough=True)
        # How much of the distance is due to the grid?
        gap = above.gap(question, direction)
        if below is not None:
            gap = max(gap, below.gap(question, name))
        excess = gap / (room / 2) if room > 0 else math.inf
        return Look(
            Bounds(lower, upper, name, direction, gap, relation),
            good_enough=gap <= room / 2,
            excess=excess,
            finest=grid.finest,
            shortfall=f"{question.name} = {upper!r} is certified, but its numerical part "
            f"{gap:.3g} could not be brought below {room / 2:.3g}; "
            f"accuracy={1.1 * accuracy * excess:.2g} can be reached",
        )

    return refine(look_at, FRACTIONS)


def _uncomposed(pairs: AtomPairs, question: Question, relation: Relation) -> Bounds:
    """One atom that occurs once: its profiles and pairs answer directly."""
    certified = [(question.of_profile(each), name) for name, each in pairs.directions.items()]
    attained = [(question.of_pair(each), name) for name, each in pairs.families.items()]
    upper, direction = max(certified, key=lambda answer: answer[0])
    lower, name = max([(0.0, "none"), *attained], key=lambda answer: answer[0])
    return Bounds(consistent(lower, upper), upper, name, direction, 0.0, relation)


def consistent(lower: float, upper: float) -> float:
    """The lower bound, or a refusal to answer if the two contradict each other."""
    if not lower <= upper * (1.0 + 1e-9) + 1e-300:
        raise NumericalFailure(
            f"the bounds contradict each other: {lower!r} is attained, {upper!r} was certified"
        )
    return min(lower, upper)
