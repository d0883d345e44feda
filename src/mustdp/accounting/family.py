"""Fixed-size batches under replace_one: composition with a family of pairs instead of one.

One dominating pair per step is as bad as the aligned pair at alpha >= 1 and as the reversed one
below; no data set is both. Here the worst member of a family is chosen in every step and at every
alpha (``loss/recursion.py``): still a proof, almost exact. The lower bound is attained by a data
holder who chooses between aligned and reversed as releases come in.

Steps of one kind are worked through backwards, one by one; of several kinds each by itself, and
the results are composed as one dominating pair per kind, in any order (docs/derivations/family.md).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from mustdp.accounting.atom_pairs import AtomPairs, atom_pairs
from mustdp.accounting.bounds import DeltaProfile, FamilyBounds
from mustdp.accounting.families import family_of
from mustdp.accounting.plan import Atom
from mustdp.accounting.workings import Workings
from mustdp.errors import InvalidParameter
from mustdp.limits import LARGEST_EPSILON
from mustdp.loss.blocks import block_loss
from mustdp.loss.compose import Composition, Part
from mustdp.loss.curve import ComposedLoss, UpperCurve
from mustdp.loss.discrete import DiscreteLoss
from mustdp.loss.dots import connect
from mustdp.loss.members import chosen_members
from mustdp.loss.points import Survey, survey
from mustdp.loss.questions import EpsilonAt, Question
from mustdp.loss.recursion import Recursion, Window, answer, profile_of
from mustdp.loss.strategy import Attained, attained
from mustdp.mechanisms.relation import Relation

#: Work: grid points times members times steps; about a hundred million a second on one core.
DEFAULT_WORK = 6e8
#: Share of delta that losses counted as infinite may take, here and in the profiles of blocks.
_RARE, _BLOCK_RARE = 1e-4, 1e-4
_OLD_FRACTION, _LOWER_FRACTION = 0.1, 0.06
_FRACTIONS = (0.1, 0.15, 0.2, 0.3)
_MOST_MEMBERS, _FEWEST_MEMBERS = 64, 16
#: How much work buys one cell more of a family that is refined.
_WORK_PER_CELL = 2e6
#: Points of a profile, for a quick answer and for one that takes its time, and where that begins.
_POINTS, _THOROUGH = (72, 160), 3e8
#: Values that are kept of all members together: rare losses that reach far make long transforms.
_MOST_VALUES = 1.6e7
#: Where along the way cells are judged, as shares of all steps.
_MARKS = (1 / 64, 1 / 16, 1 / 8, 0.25, 0.4, 0.6, 0.8, 0.97)
#: The shortest block that gains anything, and the delta at which the path through one is seen.
_SHORTEST_BLOCK, _BLOCK_DELTA = 8, 1e-3

Counted = tuple[Atom, int]
Watch = Callable[[Recursion], None]
_UNKNOWN = Attained(0.0, "none", (), ())


def family_bounds(
    counted: Sequence[Counted],
    relation: Relation,
    question: Question,
    *,
    dimension: int | None = None,
    work: float = DEFAULT_WORK,
    known: tuple[Workings, float] | None = None,
    watch: Watch = lambda _: None,
) -> FamilyBounds | None:
    """Bounds of epsilon at delta, or of delta at epsilon; None where no atom has a family.

    ``counted`` are atoms, each once, with how often they occur, in whatever order. ``known`` is
    what one pair per step worked out, and its upper bound. ``watch`` sees the upper side after
    every step, unless steps are taken in blocks.
    """
    if not counted or any(count < 1 for _, count in counted):
        raise InvalidParameter("every atom must occur at least once")
    plan = _Plan(tuple(counted), relation, question, dimension, known)
    if plan.steps < 2 or all(family is None for family in plan.families.values()):
        return None
    return plan.answer(work, watch)


class _Plan:
    """One question about atoms and their counts."""

    def __init__(
        self, counted: tuple[Counted, ...], relation: Relation, question: Question,
        dimension: int | None, known: tuple[Workings, float] | None,
    ) -> None:  # fmt: skip
        self.question = question
        self.atoms: tuple[Atom, ...] = tuple(atom for atom, _ in counted)
        self.counts = [count for _, count in counted]
        self.steps = sum(self.counts)
        if known is None:
            self.pairs = tuple(atom_pairs(atom, relation, "certified") for atom in self.atoms)
            dominating = [pair.dominating for pair in self.pairs]
            self.survey = survey(dominating, self.counts)
            single = UpperCurve(dominating, self.counts, self.survey.grid(_OLD_FRACTION))
            self.old = single.value(question)
        else:
            done, self.old = known
            self.pairs, self.survey = done.pairs, done.survey
        self.scouted = self.survey.scouted
        self.deviation = math.sqrt(
            math.fsum(k * s.deviation**2 for k, s in zip(self.counts, self.scouted, strict=True))
        )
        asks_epsilon = isinstance(question, EpsilonAt)
        self.delta = question.at if asks_epsilon else self.old
        self.epsilon = self.old if asks_epsilon else question.at
        self._reaches: dict[int, float] = {}
        self._profile: DeltaProfile | None = None
        self.rare = _RARE * self.delta / self.steps
        tail = max(1e-30, 0.01 * self.rare)
        self.families = {
            atom: family_of(atom, relation, dimension=dimension, tail=tail) for atom in self.atoms
        }

    def answer(self, work: float, watch: Watch) -> FamilyBounds:
        """Both bounds within the stated work."""
        if not (0.0 < self.delta < 1.0 and self.epsilon < LARGEST_EPSILON):
            return FamilyBounds(0.0, self.old, "none", "single pair", 1, 1)
        self._more_cells = work / _WORK_PER_CELL
        self._points = _POINTS[work >= _THOROUGH]
        if len(self.atoms) > 1:  # what is attained would belong to one order of the steps
            low, (upper, composition, block, members) = _UNKNOWN, self._by_kind(work)
        else:
            low = self._lower(self.question, self.epsilon, self.deviation, 0, self.steps)
            upper, composition, block, members = self._upper(low, work, watch)
        if not upper < self.old:
            upper, composition, block, members = self.old, "single pair", 1, 1
        return FamilyBounds(
            low.value, upper, low.attained_by, composition, block, members, self._profile
        )

    def _lower(
        self, question: Question, epsilon: float, deviation: float, which: int, length: int
    ) -> Attained:
        """What ``length`` steps of one atom attain; ``epsilon`` lies above the answer."""
        families = self.pairs[which].families
        if "aligned" not in families or "reversed" not in families:
            return _UNKNOWN
        grid = self.survey.grid(_LOWER_FRACTION)
        pairs = [families["aligned"], families["reversed"]]
        choices = [(pairs, grid.points[which], length)]
        return attained(choices, grid.spacing, question, epsilon, deviation, _MARKS, self.rare)

    def _upper(self, low: Attained, work: float, watch: Watch) -> tuple[float, str, int, int]:
        """The bound, how it was composed, the steps of a block, and the members of the family."""
        for fraction in _FRACTIONS:
            window = self._window(low, fraction)
            members = min(work / self.steps, _MOST_VALUES) / window.transform
            if members >= _MOST_MEMBERS / 2:
                break
        most = int(min(_MOST_MEMBERS, max(_FEWEST_MEMBERS, members)))
        if members < _FEWEST_MEMBERS / 1.5:
            return self._in_blocks(low.slope, work)
        near = low.value if isinstance(self.question, EpsilonAt) else self.epsilon
        cover = self._members(0, low, window, most, near, self.deviation)
        recursion = Recursion(window, "upper")
        kernels = recursion.kernels(cover)
        for _ in range(self.steps):
            recursion.step(kernels)
            watch(recursion)
        self._profile = profile_of(recursion)
        return answer(recursion, self.question), "family", self.steps, len(cover)

    def _in_blocks(self, slope: float, work: float) -> tuple[float, str, int, int]:
        """Blocks of equal length, and the shorter last one, as dominating pairs."""
        found = self._blocks(0, math.ceil(self.steps / 2), slope, work)
        if found is None:
            return math.inf, "", 1, 1
        parts, length, members = found
        return self._composed(parts), "family in blocks", length, members

    def _composed(self, parts: Sequence[Part]) -> float:
        """The answer for blocks as dominating pairs."""
        composed = ComposedLoss(parts, "upper")
        self._profile = lambda epsilon: composed.curve(epsilon, self.delta)
        return self.question.of_composed(composed)

    def _by_kind(self, work: float) -> tuple[float, str, int, int]:
        """Each kind of step in blocks of its own, as long as possible."""
        grid = self.survey.grid(_FRACTIONS[-1])
        single: list[Part] = [
            (connect(pair.dominating, grid.spacing, points), count)
            for pair, points, count in zip(self.pairs, grid.points, self.counts, strict=True)
        ]
        slope = max(0.1, Composition(single).best_tilt(self.epsilon))
        parts: list[Part] = []
        shortest, widest = self.steps, 1
        for which, count in enumerate(self.counts):
            found = None
            if self.families[self.atoms[which]] is not None and count > 1:
                found = self._blocks(which, count, slope, work / len(self.atoms))
            if found is None:
                parts.append(single[which])
                continue
            own, length, members = found
            parts += own
            shortest, widest = min(shortest, length), max(widest, members)
        return self._composed(parts), "family in blocks", shortest, widest

    def _blocks(
        self, which: int, length: int, slope: float, work: float
    ) -> tuple[list[Part], int, int] | None:
        """All steps of one atom in blocks of at most ``length``; None if those were too short."""
        count = self.counts[which]
        while True:
            window = self._block_window(which, length, slope)
            needed = window.transform * length * _FEWEST_MEMBERS
            if needed <= work and window.transform * _FEWEST_MEMBERS <= _MOST_VALUES:
                break
            # The window shrinks with the block, so this ends a little early rather than late.
            length = math.ceil(count / math.ceil(count / length * min(max(needed / work, 1.1), 2)))
            if length < _SHORTEST_BLOCK:
                return None
        deviation = self.scouted[which].deviation * math.sqrt(length)
        inner = self._lower(EpsilonAt(_BLOCK_DELTA), 5.0 * deviation, deviation, which, length)
        cover = self._members(which, inner, window, _FEWEST_MEMBERS, inner.value, deviation)
        recursion = Recursion(window, "upper")
        kernels = recursion.kernels(cover)
        whole, rest = divmod(count, length)
        parts = []
        for step in range(1, length + 1):
            recursion.step(kernels)
            if step in (rest, length):
                loss = block_loss(window.spacing, recursion.values[-window.first :])
                parts.append((loss, 1 if step == rest else whole))
        return parts, length, len(cover)

    def _window(self, low: Attained, fraction: float) -> Window:
        """All steps: around the path from the answer down to zero."""
        asked = isinstance(self.question, EpsilonAt) and low.value > 0
        near = low.value if asked else self.epsilon
        return self._frame(0, fraction, near + 1.5 * self.deviation, self.deviation, low.slope)

    def _block_window(self, which: int, length: int, slope: float) -> Window:
        """One block: up to where its profile is negligible for the whole."""
        pair, seen = self.pairs[which].dominating, self.scouted[which]
        grid = Survey((seen,), (length,)).grid(_FRACTIONS[-1])
        single = Composition([(connect(pair, grid.spacing, grid.points[0]), length)])
        top = single.chernoff_epsilon(_BLOCK_RARE * self.delta * length / self.steps)
        deviation = seen.deviation * math.sqrt(length)
        return self._frame(which, _FRACTIONS[-1], max(top, deviation), deviation, slope)

    def _frame(
        self, which: int, fraction: float, top: float, deviation: float, slope: float
    ) -> Window:
        d = self.survey.grid(fraction).spacing
        reach = self._reach(self.pairs[which])
        bottom = 2.2 * deviation + 16.0 * d
        down = min(reach, 2.0 * deviation + 16.0 * d)
        tilt = min(slope, 300.0 / max(top + down, bottom + reach))
        return Window(
            d, -math.ceil(bottom / d), math.ceil(top / d) + 4, math.ceil(reach / d),
            math.ceil(down / d), tilt,
        )  # fmt: skip

    def _reach(self, pair: AtomPairs) -> float:
        """An epsilon beyond which losses are too rare to matter."""
        if id(pair) in self._reaches:
            return self._reaches[id(pair)]
        looks = np.concatenate([[0.0], np.geomspace(1e-6, LARGEST_EPSILON, 1200)])
        seen = np.maximum(*pair.dominating.values(looks))
        small = np.flatnonzero(seen <= self.rare)
        self._reaches[id(pair)] = float(looks[small[0]] if small.size else looks[-1])
        return self._reaches[id(pair)]

    def _members(
        self, which: int, low: Attained, window: Window, most: int, near: float, deviation: float
    ) -> list[DiscreteLoss]:
        """The losses that stand for one atom's family."""
        return chosen_members(
            self.families[self.atoms[which]], self.pairs[which].dominating, self.scouted[which],
            low, window, near, deviation,
            points=self._points, more_cells=self._more_cells, most=most,
        )  # fmt: skip
