"""Fixed-size batches under replace_one: composition with a family of pairs instead of one.

One dominating pair per step has to be as bad as the aligned pair at alpha >= 1 and as bad as the
reversed one below; no data set is both. Here the worst member of a family is chosen in every step
and at every alpha (``loss/recursion.py``), which is still a proof and almost exact. The lower bound
is attained by a data holder who chooses between aligned and reversed as releases come in.

Segments are given in the order of execution and worked through backwards: adaptivity lets the
adversary choose inside each step's own family, so the value belongs to that order.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mustdp.accounting.atom_pairs import AtomPairs, atom_pairs
from mustdp.accounting.families import family_of
from mustdp.accounting.plan import Atom
from mustdp.errors import InvalidParameter, NumericalFailure
from mustdp.limits import LARGEST_EPSILON
from mustdp.loss.blocks import composed_blocks
from mustdp.loss.compose import Composition
from mustdp.loss.cover import Cover, Tests, make_tests
from mustdp.loss.curve import UpperCurve
from mustdp.loss.discrete import DiscreteLoss
from mustdp.loss.dots import connect
from mustdp.loss.points import Survey, survey
from mustdp.loss.questions import DeltaAt, EpsilonAt, Question
from mustdp.loss.recursion import Kernels, Recursion, Window, answer
from mustdp.loss.strategy import Attained, attained
from mustdp.mechanisms.relation import Relation
from mustdp.numerics.arrays import FloatArray, IntArray

#: Work: grid points times members times steps; about a hundred million a second on one core.
DEFAULT_WORK = 6e8
#: Share of delta that losses counted as infinite may take.
_RARE = 1e-4
_OLD_FRACTION, _LOWER_FRACTION = 0.1, 0.06
#: Excess of a cell over the attained ends, in units of one step's gain, that is not worth refining.
_TOLERANCE = 0.002
_FRACTIONS = (0.1, 0.15, 0.2, 0.3)
_MOST_MEMBERS, _FEWEST_MEMBERS = 64, 16
#: Cells that are looked at in any case, and how much work buys one more.
_FEWEST_CELLS, _WORK_PER_CELL = 48, 2e6
#: Where along the way cells are judged, as shares of all steps, and how far from the path.
_MARKS = (1 / 64, 1 / 16, 1 / 8, 0.25, 0.4, 0.6, 0.8, 0.97)
#: Dots of a profile: their distance near zero over the deviation, and how many lie beyond.
_DENSE, _SPARSE = 0.15, 90
_ASIDE = np.linspace(-2.5, 2.5, 9)

#: Shorter blocks gain nothing over the single pair.
_SHORTEST_BLOCK = 8
#: Share of delta that the profiles of blocks may leave out.
_BLOCK_RARE = 1e-4
#: At this delta the path through one block is looked at.
_BLOCK_DELTA = 1e-3

Segment = tuple[Atom, int]


@dataclass(frozen=True)
class FamilyBounds:
    """Bounds of one question, how the lower one is attained, and how the upper one was composed.

    ``block`` is the number of steps whose worst case was found adaptively; blocks are composed as
    dominating pairs. It equals the number of steps where nothing was given away.
    """

    lower: float
    upper: float
    attained_by: str
    composition: str
    block: int
    members: int


def family_bounds(
    segments: Sequence[Segment],
    relation: Relation,
    question: Question,
    *,
    dimension: int | None = None,
    work: float = DEFAULT_WORK,
) -> FamilyBounds | None:
    """Bounds of epsilon at delta, or of delta at epsilon; None where no atom has a family.

    ``segments`` are (atom, count) in the order of execution.
    """
    if not segments or any(count < 1 for _, count in segments):
        raise InvalidParameter("segments must hold at least one step each")
    plan = _Plan(tuple(segments), relation, question, dimension)
    if plan.steps < 2 or all(family is None for family in plan.families.values()):
        return None
    return plan.answer(work)


class _Plan:
    """One question about a sequence of segments."""

    def __init__(
        self, segments: tuple[Segment, ...], relation: Relation, question: Question,
        dimension: int | None,
    ) -> None:  # fmt: skip
        self.segments, self.question = segments, question
        self.steps = sum(count for _, count in segments)
        self.atoms: tuple[Atom, ...] = tuple(dict.fromkeys(atom for atom, _ in segments))
        self.counts = [sum(c for a, c in segments if a == atom) for atom in self.atoms]
        self.pairs: list[AtomPairs] = [atom_pairs(a, relation, "certified") for a in self.atoms]
        self.survey = survey((pair.dominating for pair in self.pairs), self.counts)
        self.scouted = self.survey.scouted
        self.deviation = math.sqrt(
            math.fsum(k * s.deviation**2 for k, s in zip(self.counts, self.scouted, strict=True))
        )
        single = UpperCurve(
            [pair.dominating for pair in self.pairs],
            self.counts,
            self.survey.grid(_OLD_FRACTION),
        )
        self.old = single.value(question)
        asks_epsilon = isinstance(question, EpsilonAt)
        self.delta = question.at if asks_epsilon else self.old
        self.epsilon = self.old if asks_epsilon else question.at
        self._reaches: dict[int, float] = {}
        self._cells = _FEWEST_CELLS
        self.rare = _RARE * self.delta / self.steps
        tail = max(1e-30, 0.01 * self.rare)
        self.families = {
            atom: family_of(atom, relation, dimension=dimension, tail=tail) for atom in self.atoms
        }

    def answer(self, work: float) -> FamilyBounds:
        """Both bounds within the stated work."""
        if not (0.0 < self.delta < 1.0 and self.epsilon < LARGEST_EPSILON):
            return FamilyBounds(0.0, self.old, "none", "single pair", 1, 1)
        self._cells = int(_FEWEST_CELLS + work / _WORK_PER_CELL)
        low = self._lower()
        upper, composition, block, members = self._upper(low, work)
        if not upper < self.old:
            upper, composition, block, members = self.old, "single pair", 1, 1
        if not low.value <= upper * (1.0 + 1e-9):
            raise NumericalFailure(
                f"the bounds contradict each other: {low.value!r} is attained, but {upper!r} was "
                "found as the upper bound"
            )
        return FamilyBounds(
            min(low.value, upper), upper, low.attained_by, composition, block, members
        )

    def _lower(self, length: int | None = None) -> Attained:
        """What is attained; for one block of ``length`` steps, at a delta of its own."""
        families = [pair.families for pair in self.pairs]
        names = ("aligned", "reversed")
        if any(name not in family for family in families for name in names):
            return Attained(0.0, "none", (), ())
        grid = self.survey.grid(_LOWER_FRACTION)
        question, epsilon, deviation = self.question, self.epsilon, self.deviation
        if length is not None:
            deviation *= math.sqrt(length / self.steps)
            question, epsilon = EpsilonAt(_BLOCK_DELTA), 5.0 * deviation
        choices = []
        for atom, count in self.segments:
            i = self.atoms.index(atom)
            pairs = [families[i][name] for name in names]
            choices.append((pairs, grid.points[i], count if length is None else length))
        return attained(choices, grid.spacing, question, epsilon, deviation, _MARKS)

    def _upper(self, low: Attained, work: float) -> tuple[float, str, int, int]:
        """The bound, how it was composed, the steps of a block, and the members of the family."""
        for fraction in _FRACTIONS:
            window = self._window(low, fraction)
            members = work / (window.transform * self.steps)
            if members >= _MOST_MEMBERS / 2:
                break
        most = int(min(_MOST_MEMBERS, max(_FEWEST_MEMBERS, members)))
        if members < _FEWEST_MEMBERS / 1.5:
            if len(self.segments) > 1:  # only a single kind of step is cut into blocks
                return math.inf, "", 1, most
            return self._in_blocks(low, work)
        covers = [
            self._members(atom, low, window, points, most)
            for atom, points in zip(self.atoms, self._points(window), strict=True)
        ]
        recursion = Recursion(window, "upper")
        kernels = [recursion.kernels(cover) for cover in covers]
        for atom, count in reversed(self.segments):
            self._run(recursion, kernels[self.atoms.index(atom)], count)
        widest = max(len(cover) for cover in covers)
        return answer(recursion, self.question), "family", self.steps, widest

    def _run(self, recursion: Recursion, kernels: Kernels, count: int) -> None:
        for _ in range(count):
            recursion.step(kernels)

    def _in_blocks(self, low: Attained, work: float) -> tuple[float, str, int, int]:
        """Blocks of equal length, and the shorter last one, as dominating pairs."""
        atom = self.atoms[0]
        length = math.ceil(self.steps / 2)
        while True:
            window = self._block_window(length, low.slope)
            needed = window.transform * length * _FEWEST_MEMBERS
            if needed <= work:
                break
            # The window shrinks with the block, so this ends a little early rather than late.
            length = math.ceil(self.steps / math.ceil(self.steps / length * min(needed / work, 2)))
            if length < _SHORTEST_BLOCK:
                return math.inf, "", 1, 1
        inner = self._lower(length)
        points = self._points(window)[0]
        cover = self._members(atom, inner, window, points, _FEWEST_MEMBERS, length)
        recursion = Recursion(window, "upper")
        kernels = recursion.kernels(cover)
        whole, rest = divmod(self.steps, length)
        parts: list[tuple[FloatArray, int]] = []
        for step in range(1, length + 1):
            recursion.step(kernels)
            if step in (rest, length):
                parts.append((recursion.values[-window.first :], 1 if step == rest else whole))
        value = composed_blocks(window.spacing, parts, self.question)
        return value, "family in blocks", length, len(cover)

    def _window(self, low: Attained, fraction: float) -> Window:
        """All steps: around the path from the answer down to zero."""
        asks_epsilon = isinstance(self.question, EpsilonAt)
        near = low.value if asks_epsilon and low.value > 0 else self.epsilon
        return self._frame(fraction, near + 1.5 * self.deviation, self.deviation, low.slope)

    def _block_window(self, length: int, slope: float) -> Window:
        """One block: up to where its profile is negligible for the whole."""
        deviation = self.deviation * math.sqrt(length / self.steps)
        pair, seen = self.pairs[0].dominating, self.scouted[0]
        grid = Survey((seen,), (length,)).grid(_FRACTIONS[-1])
        single = Composition([(connect(pair, grid.spacing, grid.points[0]), length)])
        top = single.chernoff_epsilon(_BLOCK_RARE * self.delta * length / self.steps)
        return self._frame(_FRACTIONS[-1], top, deviation, slope)

    def _frame(self, fraction: float, top: float, deviation: float, slope: float) -> Window:
        d = self.survey.grid(fraction).spacing
        reach = max(self._reach(pair) for pair in self.pairs)
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

    def _points(self, window: Window) -> list[IntArray]:
        """Grid indices at which each atom's profiles are evaluated: sparse, chords are safe."""
        points = []
        for seen in self.scouted:
            near = min(window.up, max(8, math.ceil(4.0 * seen.deviation / window.spacing)))
            step = max(1, round(_DENSE * seen.deviation / window.spacing))
            far = np.rint(np.geomspace(near, max(window.up, near + 1), _SPARSE)).astype(np.int64)
            points.append(np.unique(np.concatenate([np.arange(0, near, step), far])))
        return points

    def _members(
        self, atom: Atom, low: Attained, window: Window, points: IntArray, most: int,
        length: int | None = None,
    ) -> list[DiscreteLoss]:  # fmt: skip
        """The losses of one atom's family, refined and joined; of its single pair without one."""
        family = self.families[atom]
        if family is None:
            pair = self.pairs[self.atoms.index(atom)].dominating
            return [connect(pair, window.spacing, points)]
        cover = Cover(family, window.spacing, points)
        if not low.snapshots:
            return cover.losses(cover.profiles(family.cells()))
        tests = self._tests(low, window, points, length)
        rows = cover.refined(family.ends(), tests, min(family.most_cells, self._cells))
        return cover.losses(cover.joined(family.ends(), tests, rows, most, 0.1))

    def _tests(self, low: Attained, window: Window, points: IntArray, length: int | None) -> Tests:
        """Tests around the path from the answer, after all steps, to zero before the first."""
        near, deviation = low.value, self.deviation
        if length is not None:
            deviation *= math.sqrt(length / self.steps)
        elif isinstance(self.question, DeltaAt):
            near = self.epsilon
        places, allowed = [], []
        for share in low.marks:
            width = deviation * math.sqrt(share * (1.0 - share) + 0.02)
            places.append(near * share + _ASIDE * width)
            allowed.append(_TOLERANCE * np.exp(np.square(_ASIDE) / 4.0))
        return make_tests(low.snapshots, places, allowed, window.spacing, points)
