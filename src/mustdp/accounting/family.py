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

from mustdp.accounting.pairs import AtomPairs, atom_pairs
from mustdp.accounting.plan import Atom, Subsample
from mustdp.amplification.cells import DiscTriples, LineTriples, PairFamily
from mustdp.amplification.flows import MOST_COPIES, NestedCopies, ReplacementCopies
from mustdp.errors import InvalidParameter, NumericalFailure
from mustdp.limits import LARGEST_EPSILON
from mustdp.loss.blocks import composed_blocks
from mustdp.loss.cover import Cover, Snapshot, make_tests
from mustdp.loss.curve import Question, UpperCurve
from mustdp.loss.discrete import DiscreteLoss
from mustdp.loss.dots import connect
from mustdp.loss.points import Grid, Scouted, lay_grid, scout
from mustdp.loss.recursion import Kernels, Recursion, Window, delta_at, epsilon_at
from mustdp.loss.strategy import Attained, attained
from mustdp.mechanisms.mechanism import AdditiveNoise, Gaussian
from mustdp.mechanisms.relation import Relation
from mustdp.numerics.arrays import FloatArray, IntArray
from mustdp.sampling.law import stage_law
from mustdp.sampling.scheme import Multistage

#: Work: grid points times members times steps; about a hundred million a second on one core.
DEFAULT_WORK = 6e8
#: Share of delta that losses counted as infinite may take.
_RARE = 1e-3
_OLD_FRACTION, _LOWER_FRACTION = 0.1, 0.06
#: Excess of a cell over the attained ends, in units of one step's gain, that is not worth refining.
_TOLERANCE = 0.002
_FRACTIONS = (0.1, 0.15, 0.2, 0.3)
_MOST_MEMBERS, _FEWEST_MEMBERS = 64, 16
#: Where along the way cells are judged, as shares of all steps, and how far from the path.
_MARKS = (1 / 64, 1 / 16, 1 / 8, 0.25, 0.4, 0.6, 0.8, 0.97)
#: Dots of a profile: their distance near zero over the deviation, and how many lie beyond.
_DENSE, _SPARSE = 0.15, 90
_ASIDE = np.linspace(-2.5, 2.5, 9)

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


def family_of(
    atom: Atom, relation: Relation, *, dimension: int | None = None, tail: float = 1e-20
) -> PairFamily | None:
    """The family of pairs of one atom, or None where only the single pair is proved."""
    if relation != Relation.REPLACE_ONE or not isinstance(atom, Subsample):
        return None
    scheme, mechanism = atom.scheme, atom.inner
    if not isinstance(scheme, Multistage) or not isinstance(mechanism, AdditiveNoise):
        return None
    stages, shift = scheme.reduced, mechanism.shift_for(2.0)
    gaussian = isinstance(mechanism, Gaussian)
    # A stated shift says how far one copy moves the result, not that contributions add up.
    adds_up = mechanism.shift is None
    first = stages[0]
    if len(stages) == 1 and first.kind == "wor":
        chance = first.size / scheme.n
        if not gaussian or dimension == 1:
            return LineTriples(mechanism.noise, chance, shift)
        return DiscTriples(chance, shift, ball=adds_up)
    if not gaussian or not adds_up or any(stage.kind != "wr" for stage in stages[1:]):
        return None
    population = scheme.n if len(stages) == 1 else first.size
    law = stage_law(stages[-1], population, 1, tail)
    if len(stages) > 2 or law.zero <= 0.0 or law.positive.size > MOST_COPIES:
        return None
    if law.positive_values.size != law.positive_values[-1]:  # multiplicities with gaps
        return None
    if first.kind == "wr":
        return ReplacementCopies(law, shift) if len(stages) == 1 else None
    return NestedCopies(law, shift, chance=first.size / scheme.n)


def family_bounds(
    segments: Sequence[Segment],
    relation: Relation,
    question: Question,
    at: float,
    *,
    dimension: int | None = None,
    work: float = DEFAULT_WORK,
) -> FamilyBounds | None:
    """Bounds of epsilon at delta, or of delta at epsilon; None where no atom has a family.

    ``segments`` are (atom, count) in the order of execution.
    """
    if not segments or any(count < 1 for _, count in segments):
        raise InvalidParameter("segments must hold at least one step each")
    plan = _Plan(tuple(segments), relation, question, at, dimension)
    if plan.steps < 2 or all(family is None for family in plan.families.values()):
        return None
    return plan.answer(work)


class _Plan:
    """One question about a sequence of segments."""

    def __init__(
        self, segments: tuple[Segment, ...], relation: Relation, question: Question, at: float,
        dimension: int | None,
    ) -> None:  # fmt: skip
        self.segments, self.question, self.at = segments, question, at
        self.steps = sum(count for _, count in segments)
        self.atoms: tuple[Atom, ...] = tuple(dict.fromkeys(atom for atom, _ in segments))
        self.counts = [sum(c for a, c in segments if a == atom) for atom in self.atoms]
        self.pairs: list[AtomPairs] = [atom_pairs(a, relation, "certified") for a in self.atoms]
        self.scouted: list[Scouted] = [scout(pair.dominating) for pair in self.pairs]
        self.deviation = math.sqrt(
            math.fsum(k * s.deviation**2 for k, s in zip(self.counts, self.scouted, strict=True))
        )
        single = UpperCurve(
            [pair.dominating for pair in self.pairs],
            self.counts,
            lay_grid(self.scouted, self.counts, _OLD_FRACTION),
        )
        self.old = single.value(question, at)
        self.delta = at if question == "epsilon" else self.old
        self.epsilon = self.old if question == "epsilon" else at
        self.rare = _RARE * self.delta / self.steps
        tail = max(1e-30, 0.01 * self.rare)
        self.families = {
            atom: family_of(atom, relation, dimension=dimension, tail=tail) for atom in self.atoms
        }

    def answer(self, work: float) -> FamilyBounds:
        """Both bounds within the stated work."""
        if not (0.0 < self.delta < 1.0 and self.epsilon < LARGEST_EPSILON):
            return FamilyBounds(0.0, self.old, "none", "single pair", 1, 1)
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

    def _lower(self) -> Attained:
        families = [pair.families for pair in self.pairs]
        names = ("aligned", "reversed")
        if any(name not in family for family in families for name in names):
            return Attained(0.0, "none", (), ())
        grid = lay_grid(self.scouted, self.counts, _LOWER_FRACTION)
        return attained(
            [
                ([families[self.atoms.index(atom)][name] for name in names],
                 grid.points[self.atoms.index(atom)], count)
                for atom, count in self.segments
            ],
            grid.spacing, self.question, self.at, self.epsilon, self.deviation, _MARKS,
        )  # fmt: skip

    def _upper(self, low: Attained, work: float) -> tuple[float, str, int, int]:
        for fraction in _FRACTIONS:
            window = self._window(low, fraction)
            members = work / (window.transform * self.steps)
            if members >= _MOST_MEMBERS / 2:
                break
        most = int(min(_MOST_MEMBERS, max(_FEWEST_MEMBERS, members)))
        grid = self._points(window)
        covers = [
            self._members(atom, low, window, grid[i], most) for i, atom in enumerate(self.atoms)
        ]
        widest = max(len(cover) for cover in covers)
        blocks = math.ceil(self.steps * window.transform * widest / (1.5 * work))
        if blocks > 1 and len(self.segments) > 1:
            return math.inf, "", 1, widest  # only a single kind of step is cut into blocks
        if blocks > 1:
            return (*self._in_blocks(covers[0], window, blocks), widest)
        recursion = Recursion(window, "upper")
        kernels = [recursion.kernels(cover) for cover in covers]
        for atom, count in reversed(self.segments):
            self._run(recursion, kernels[self.atoms.index(atom)], count)
        return self._read(recursion), "family", self.steps, widest

    def _run(self, recursion: Recursion, kernels: Kernels, count: int) -> None:
        for _ in range(count):
            recursion.step(kernels)

    def _read(self, recursion: Recursion) -> float:
        read = epsilon_at if self.question == "epsilon" else delta_at
        return read(recursion, self.at)

    def _in_blocks(
        self, cover: list[DiscreteLoss], window: Window, blocks: int
    ) -> tuple[float, str, int]:
        """Blocks of equal length, the shorter last one included, as dominating pairs."""
        length = math.ceil(self.steps / blocks)
        recursion = Recursion(window, "upper")
        kernels = recursion.kernels(cover)
        whole, rest = divmod(self.steps, length)
        parts: list[tuple[FloatArray, int]] = []
        for step in range(1, length + 1):
            recursion.step(kernels)
            if step in (rest, length):
                parts.append((recursion.values[-window.first :], 1 if step == rest else whole))
        value = composed_blocks(window.spacing, parts, self.question, self.at)
        return value, "family in blocks", length

    def _window(self, low: Attained, fraction: float) -> Window:
        grid = lay_grid(self.scouted, self.counts, fraction)
        d = grid.spacing
        near = low.value if self.question == "epsilon" and low.value > 0 else self.epsilon
        reach = max(self._reach(pair) for pair in self.pairs)
        bottom = min(0.75 * near + 0.5, 2.5 * self.deviation + 0.5)
        top = near + 3.0 * self.deviation + 4.0 * d
        down = min(reach, max(1.0, 0.5 * self.deviation))
        span = top + down
        tilt = min(low.slope, 300.0 / span)
        return Window(
            d, -math.ceil(bottom / d), math.ceil(top / d), math.ceil(reach / d),
            math.ceil(down / d), tilt,
        )  # fmt: skip

    def _reach(self, pair: AtomPairs) -> float:
        """An epsilon beyond which losses are too rare to matter."""
        looks = np.concatenate([[0.0], np.geomspace(1e-6, LARGEST_EPSILON, 1200)])
        seen = np.maximum(*pair.dominating.values(looks))
        small = np.flatnonzero(seen <= self.rare)
        return float(looks[small[0]] if small.size else looks[-1])

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
        self, atom: Atom, low: Attained, window: Window, points: IntArray, most: int
    ) -> list[DiscreteLoss]:
        """The losses of one atom's family, refined and joined; of its single pair without one."""
        family = self.families[atom]
        if family is None:
            pair = self.pairs[self.atoms.index(atom)].dominating
            return [connect(pair, window.spacing, points)]
        cover = Cover(family, window.spacing, points)
        cells = family.cells()
        if not low.snapshots:
            return cover.losses(cover.profiles(cells))
        tests = self._tests(low, window, points)
        rows = cover.refined(family.ends(), tests, min(4 * most, family.most_cells))
        return cover.losses(cover.joined(family.ends(), tests, rows, most, 0.1))

    def _tests(self, low: Attained, window: Window, points: IntArray):  # type: ignore[no-untyped-def]
        near = low.value if self.question == "epsilon" else self.epsilon
        places, allowed = [], []
        for share in low.marks:
            width = self.deviation * math.sqrt(share * (1.0 - share) + 0.02)
            places.append(near * share + _ASIDE * width)
            allowed.append(_TOLERANCE * np.exp(np.square(_ASIDE) / 4.0))
        return make_tests(low.snapshots, places, allowed, window.spacing, points)
