"""Fixed-size batches under replace_one: bounds composed with a family of pairs instead of one."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from mustdp.accounting.atoms import atom_pairs
from mustdp.accounting.bounds import ONE_PAIR, Bounds, DeltaProfile, FamilyBounds
from mustdp.accounting.certify import Computation, consistent
from mustdp.accounting.families.recursion import (
    AttainedBound,
    LossWindow,
    Recursion,
    answer,
    attained,
    block_loss,
    chosen_members,
    delta_at,
    epsilon_at,
    profile_of,
)
from mustdp.accounting.families.triples import (
    MOST_COPIES,
    DiscTriples,
    DistantTriples,
    DistinctCopies,
    LineTriples,
    NestedCopies,
    PairFamily,
    ReplacedTwice,
    ReplacementCopies,
)
from mustdp.accounting.plan import Atom, Plan, Subsample, atoms
from mustdp.accounting.pld.discretise import DiscreteLoss, ScoutedPairs, connect, survey
from mustdp.accounting.pld.readoff import (
    ComposedLoss,
    Composition,
    DeltaAt,
    EpsilonAt,
    Part,
    Question,
    UpperCurve,
)
from mustdp.accounting.subsampling.one_step import staged_inside
from mustdp.errors import Contradiction, InvalidParameter, NumericalFailure
from mustdp.limits import LARGEST_EPSILON
from mustdp.mechanisms.mechanism import GroupProfiles, Mechanism, Noise, Proof
from mustdp.mechanisms.relation import Relation
from mustdp.numerics.arrays import FloatArray
from mustdp.sampling.schemes import MultiplicityLaw, Multistage, Stage, stage_law

# Which family of pairs is proved for an atom of a plan.


#: Copies that move the result further than this are left to the single pair: nothing is hidden.
_FARTHEST = 30.0
#: Slots of a first stage with replacement that hold the record on average; more than one is common.
_MOST_SLOTS = 0.5


def family_of(
    atom: Atom,
    relation: Relation,
    *,
    dimension: int | None = None,
    tail: float = 1e-20,
    group: int = 1,
) -> PairFamily | None:
    """The family of pairs of one atom, or None where only the single pair is proved."""
    if relation != Relation.REPLACE_ONE or not isinstance(atom, Subsample):
        return None
    scheme, mechanism = atom.scheme, atom.inner
    if not isinstance(scheme, Multistage) or not isinstance(mechanism, Mechanism):
        return None
    stages, shift = scheme.reduced, mechanism.shift_for(2.0)
    noise = mechanism.attained(shift)
    if mechanism.proof is None or shift is None or not isinstance(noise, Noise):
        return None
    if shift > _FARTHEST:
        return None
    gaussian = mechanism.proof is Proof.GAUSSIAN
    # A stated shift says how far one copy moves the result, not that contributions add up.
    adds_up = mechanism.in_a_ball
    first = stages[0]
    if group > 1:
        if not gaussian or not adds_up or len(stages) > 1:
            return None
        return _several_records(first, scheme.n, shift, group, tail)
    if len(stages) == 1 and first.kind == "wor":
        chance = first.size / scheme.n
        if not gaussian or dimension == 1:
            return LineTriples(noise, chance, shift)
        return DiscTriples(chance, shift) if adds_up else DistantTriples(chance, shift)
    if not gaussian or not adds_up or any(stage.kind != "wr" for stage in stages[1:]):
        return None
    population = scheme.n if len(stages) == 1 else first.size
    law = stage_law(stages[-1], population, 1, tail)
    if len(stages) > 2 or not _is_short(law):
        return None
    if first.kind == "wr" and len(stages) == 2:
        return _replaced_twice(scheme, mechanism.profiles(shift), shift, law, tail)
    if first.kind == "wr":
        return ReplacementCopies(law, shift)
    return NestedCopies(law, shift, chance=first.size / scheme.n)


def _is_short(law: MultiplicityLaw) -> bool:
    """Whether a law begins at zero copies, has no gaps, and ends soon."""
    if law.zero <= 0.0 or not 0 < law.positive.size <= MOST_COPIES:
        return False
    return bool(law.positive_values.size == law.positive_values[-1])


def _several_records(
    stage: Stage, n: int, shift: float, group: int, tail: float
) -> DistinctCopies | None:
    """Records of one person; all places must be able to hold records of others instead."""
    if n - group < (stage.size if stage.kind == "wor" else 1):
        return None
    law = stage_law(stage, n, group, tail)
    return DistinctCopies(law, shift) if _is_short(law) else None


def _replaced_twice(
    scheme: Multistage, profiles: GroupProfiles, shift: float, law: MultiplicityLaw, tail: float
) -> ReplacedTwice | None:
    """MUSTww; None where several slots of the first stage hold the record as a rule."""
    first = stage_law(scheme.reduced[0], scheme.n, 1, tail)
    if first.first != 0 or first.probabilities.size < 3 or first.mean > _MOST_SLOTS:
        return None
    inside = staged_inside(scheme, profiles, LARGEST_EPSILON)
    chance = float(first.probabilities[1])
    return ReplacedTwice(law, shift, chance=chance, first=first, inside=inside)


# Fixed-size batches under replace_one: composition with a family of pairs instead of one.
#
# One dominating pair per step is as bad as the aligned pair at alpha >= 1 and as the reversed one
# below; no data set is both. Here the worst member of a family is chosen in every step and at
# every alpha (``families/recursion.py``): still a proof, almost exact. The lower bound is attained
# by a data holder who chooses between aligned and reversed as releases come in.
#
# Steps of one kind are worked through backwards, one by one; of several kinds each by itself, and
# the results are composed as one dominating pair per kind, in any order
# (docs/derivations/family.md).


#: Work: grid points times members times steps; three hundred million a second on one core.
DEFAULT_WORK = 6e8
#: Share of delta that losses counted as infinite may take, here and in the profiles of blocks.
_RARE, _BLOCK_RARE = 1e-4, 1e-4
#: How much losses far below zero may be raised in the mean, over the variance of a step.
_RAISED = 2e-4
#: Grids as shares of the deviation of the losses: of one pair per step, of the lower bound, and of
#: families, the first of them that the work allows.
_PAIR_FRACTION, _LOWER_FRACTION = 0.1, 0.06
_FRACTIONS = (0.1, 0.15, 0.2, 0.3)
#: Members of a family: more hardly help; with fewer, blocks of steps are closer.
_MOST_MEMBERS, _FEWEST_MEMBERS = 64, 12
#: How much work buys one cell more of a family that is refined, and the most that are bought.
_WORK_PER_CELL, _MORE_CELLS = 2e6, 300.0
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
#: In place of a lower bound that is not known.
_UNKNOWN = AttainedBound(0.0, "none", (), ())


def family_bounds(
    counted: Sequence[Counted],
    relation: Relation,
    question: Question,
    *,
    dimension: int | None = None,
    work: float = DEFAULT_WORK,
    known: tuple[Computation, float] | None = None,
    watch: Watch = lambda _: None,
    group: int = 1,
) -> FamilyBounds | None:
    """Bounds of epsilon at delta, or of delta at epsilon; None where no atom has a family.

    ``counted`` are atoms, each once, with how often they occur, in whatever order. ``known`` is
    what one pair per step worked out, and its upper bound. ``watch`` sees the upper side after
    every step, unless steps are taken in blocks.
    """
    if not counted or any(count < 1 for _, count in counted):
        raise InvalidParameter("every atom must occur at least once")
    plan = _Plan(tuple(counted), relation, question, dimension, known, group)
    if plan.steps < 2 or all(family is None for family in plan.families.values()):
        return None
    return plan.answer(work, watch)


class _Plan:
    """One question about atoms and their counts."""

    def __init__(
        self, counted: tuple[Counted, ...], relation: Relation, question: Question,
        dimension: int | None, known: tuple[Computation, float] | None, group: int = 1,
    ) -> None:  # fmt: skip
        self.question = question
        self.atoms: tuple[Atom, ...] = tuple(atom for atom, _ in counted)
        self.counts = [count for _, count in counted]
        self.steps = sum(self.counts)
        if known is None:
            self.pairs = tuple(
                atom_pairs(atom, relation, "certified", group) for atom in self.atoms
            )
            dominating = [pair.dominating for pair in self.pairs]
            self.survey = survey(dominating, self.counts)
            single = UpperCurve(dominating, self.counts, self.survey.grid(_PAIR_FRACTION))
            self.old = single.value(question)
        else:
            done, self.old = known
            self.pairs, self.survey = done.pairs, done.survey
        self.first_looks = self.survey.first_looks
        self.deviation = math.sqrt(
            math.fsum(
                k * s.deviation**2 for k, s in zip(self.counts, self.first_looks, strict=True)
            )
        )
        asks_epsilon = isinstance(question, EpsilonAt)
        self.delta = question.at if asks_epsilon else self.old
        self.epsilon = self.old if asks_epsilon else question.at
        self._reaches: dict[int, tuple[float, float]] = {}
        self._profile: DeltaProfile | None = None
        self.rare = _RARE * self.delta / self.steps
        tail = max(1e-30, 0.01 * self.rare)
        self.families = {
            atom: family_of(atom, relation, dimension=dimension, tail=tail, group=group)
            for atom in self.atoms
        }

    def answer(self, work: float, watch: Watch) -> FamilyBounds:
        """Both bounds within the stated work."""
        if not (0.0 < self.delta < 1.0 and self.epsilon < LARGEST_EPSILON):
            return FamilyBounds(0.0, self.old, "none", "single pair", 1, 1)
        self._more_cells = min(work / _WORK_PER_CELL, _MORE_CELLS)
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
    ) -> AttainedBound:
        """What ``length`` steps of one atom attain; ``epsilon`` lies above the answer."""
        families = self.pairs[which].families
        if "aligned" not in families or "reversed" not in families:
            return _UNKNOWN
        grid = self.survey.grid(_LOWER_FRACTION)
        pairs = [families["aligned"], families["reversed"]]
        choices = [(pairs, grid.points[which], length)]
        return attained(choices, grid.spacing, question, epsilon, deviation, _MARKS, self.rare)

    def _upper(self, low: AttainedBound, work: float, watch: Watch) -> tuple[float, str, int, int]:
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
        deviation = self.first_looks[which].deviation * math.sqrt(length)
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

    def _window(self, low: AttainedBound, fraction: float) -> LossWindow:
        """All steps: around the path from the answer down to zero."""
        asked = isinstance(self.question, EpsilonAt) and low.value > 0
        near = low.value if asked else self.epsilon
        return self._frame(0, fraction, near + 1.5 * self.deviation, self.deviation, low.slope)

    def _block_window(self, which: int, length: int, slope: float) -> LossWindow:
        """One block: up to where its profile is negligible for the whole."""
        pair, seen = self.pairs[which].dominating, self.first_looks[which]
        grid = ScoutedPairs((seen,), (length,)).grid(_FRACTIONS[-1])
        single = Composition([(connect(pair, grid.spacing, grid.points[0]), length)])
        top = single.chernoff_epsilon(_BLOCK_RARE * self.delta * length / self.steps)
        deviation = seen.deviation * math.sqrt(length)
        return self._frame(which, _FRACTIONS[-1], max(top, deviation), deviation, slope)

    def _frame(
        self, which: int, fraction: float, top: float, deviation: float, slope: float
    ) -> LossWindow:
        d = self.survey.grid(fraction).spacing
        reach, down = self._reach(which)
        bottom = 2.2 * deviation + 16.0 * d
        down = min(down, 2.0 * deviation) + 16.0 * d
        tilt = min(slope, 300.0 / max(top + down, bottom + reach))
        return LossWindow(
            d, -math.ceil(bottom / d), math.ceil(top / d) + 4, math.ceil(reach / d),
            math.ceil(down / d), tilt,
        )  # fmt: skip

    def _reach(self, which: int) -> tuple[float, float]:
        """Where losses of an atom end: above, too rare to matter; below, raised to that at no cost.

        With h the profile, what is below -D is raised by e^-D h(D) at most in the mean.
        """
        if which not in self._reaches:
            looks = np.concatenate([[0.0], np.geomspace(1e-6, LARGEST_EPSILON, 1200)])
            seen = np.maximum(*self.pairs[which].dominating.values(looks))
            raised = _RAISED * self.first_looks[which].deviation ** 2
            self._reaches[which] = (
                _first(looks, seen <= self.rare),
                _first(looks, np.exp(-looks) * seen <= raised),
            )
        return self._reaches[which]

    def _members(
        self,
        which: int,
        low: AttainedBound,
        window: LossWindow,
        most: int,
        near: float,
        deviation: float,
    ) -> list[DiscreteLoss]:
        """The losses that stand for one atom's family."""
        return chosen_members(
            self.families[self.atoms[which]], self.pairs[which].dominating, self.first_looks[which],
            low, window, near, deviation,
            points=self._points, more_cells=self._more_cells, most=most,
        )  # fmt: skip


def _first(looks: FloatArray, small: NDArray[np.bool_]) -> float:
    """The first look that is small, or the last of all."""
    found = np.flatnonzero(small)
    return float(looks[found[0]] if found.size else looks[-1])


# What a family of pairs says on the way: at other numbers of steps, and at many epsilons.
#
# The recursion of ``families/recursion.py`` goes through all numbers of steps on its way to the
# last, and holds an upper bound of delta at every epsilon of its window after each. Its cells were
# chosen for the last step, so what is read off before is a little looser than an account of its
# own, and as certified.


@dataclass(frozen=True, eq=False)
class StepProfile:
    """Certified epsilons by number of steps, and deltas at the epsilons that were asked about."""

    epsilon: Mapping[int, float]
    delta: FloatArray


def family_along(
    atom: Atom,
    steps: int,
    relation: Relation,
    *,
    delta: float,
    counts: Collection[int],
    epsilon: FloatArray,
    dimension: int | None,
    work: float,
    group: int = 1,
) -> StepProfile | None:
    """Epsilons at ``delta`` after each of ``counts`` steps, deltas at ``epsilon`` after ``steps``.

    None where the family is not worked through step by step, or fails.
    """
    found: dict[int, float] = {}
    profile: list[FloatArray] = []

    def watch(recursion: Recursion) -> None:
        if recursion.steps in counts:
            found[recursion.steps] = epsilon_at(recursion, delta)
        if recursion.steps == steps:
            profile.append(np.array([delta_at(recursion, float(e)) for e in epsilon]))

    last = max(steps, *counts)
    try:
        family_bounds(
            [(atom, last)],
            relation,
            EpsilonAt(delta),
            dimension=dimension,
            work=work,
            watch=watch,
            group=group,
        )
    except Contradiction:
        raise
    except NumericalFailure:  # one pair per step stands by itself
        return None
    return StepProfile(found, profile[0]) if profile else None


# Bounds of a plan made tighter by a family of pairs, where some of its steps have one.
#
# The bounds of one pair per step and those of the family are both proved for the
# same plan, so the smaller upper and the larger lower one hold as well. Their crossing would
# refute one of the proofs or its arithmetic: then nothing is answered.


#: What a plan may be composed with, and the work that its family may take: "auto" answers in up to
#: three seconds, "quick" mostly in less than one, "family" in up to twenty.
_WORK = {"auto": DEFAULT_WORK, "quick": 6e7, "pair": 0.0, "family": 3e9}
COMPOSITIONS = tuple(_WORK)
_NAMES = {"family": "exact-family", "family in blocks": "blocks"}
#: Share of the work for what is only drawn: it is looser by a few thousandths at most.
_SHARE_ALONG = 0.5
#: More than any question leaves out of a law: anyone who has no family then never has one.
_COARSEST_TAIL = 1e-6
#: Plans of more kinds of steps than this are left to one pair: each kind would take its time.
_MOST_KINDS = 8
#: Where a profile is looked at closely: rates from a tenth to a thousandth are decided there.
_LOOKS: tuple[Question, ...] = (DeltaAt(0.0), EpsilonAt(1e-3))


class FamilyComposition:
    """What the family says about one plan, each question worked out once."""

    def __init__(
        self, plan: Plan, pair: Computation, composition: str, dimension: int | None, group: int
    ) -> None:
        self._pair, self._relation = pair, pair.relation
        self._dimension, self._group = dimension, group
        self._work = _WORK[composition]
        # What is only drawn, or asked about at several places, takes less.
        self._view_work = self._work
        if composition != "family":
            self._view_work = min(self._work, _WORK["quick"])
        every = composition != "quick"
        self._counted = _with_family(plan, pair.relation, group, every=every) if self._work else ()
        self._found: dict[tuple[Question, float], FamilyBounds | None] = {}

    def tighten(self, bounds: Bounds, question: Question) -> tuple[Bounds, str]:
        """The tighter bounds, and how the upper one was composed."""
        found = self._ask(question, self._work, bounds.upper)
        if found is None:
            return bounds, ONE_PAIR
        lower, name = max(
            (bounds.lower, bounds.attained_by),
            (found.lower, found.attained_by),
            key=lambda attained: attained[0],
        )
        upper, composed = min(
            (bounds.upper, ONE_PAIR),
            (found.upper, _NAMES.get(found.composition, ONE_PAIR)),
            key=lambda certified: certified[0],
        )
        lower = consistent(lower, upper)
        if (lower, upper) == (bounds.lower, bounds.upper):
            return bounds, ONE_PAIR
        # Finer grids move neither bound past the other.
        tighter = replace(
            bounds, lower=lower, upper=upper, attained_by=name, numerical_gap=upper - lower
        )
        return tighter, composed

    def profile(self, epsilon: FloatArray) -> FloatArray:
        """Certified deltas at many epsilons, for both orders: the least of a few looks, or 1.

        Each look bounds the worst delta of adaptive composition at every epsilon, closely at one.
        """
        found = np.ones(epsilon.size)
        for question in _LOOKS:
            seen = self._ask(question, self._view_work)
            if seen is not None and seen.profile is not None:
                found = np.minimum(found, seen.profile(epsilon))
        return found

    @property
    def applies(self) -> bool:
        """Whether some steps have a family."""
        return bool(self._counted)

    @property
    def adaptive(self) -> bool:
        """Whether what is attained by choosing between orders as releases come in is found."""
        return len(self._counted) == 1

    def along(
        self, delta: float, counts: Collection[int], epsilon: FloatArray
    ) -> StepProfile | None:
        """What one pass of the family says at other counts of steps and at many epsilons."""
        if not self.adaptive:  # none, or several kinds of steps
            return None
        ((atom, steps),) = self._counted
        return family_along(
            atom, steps, self._relation, delta=delta, counts=counts, epsilon=epsilon,
            dimension=self._dimension, work=_SHARE_ALONG * self._view_work, group=self._group,
        )  # fmt: skip

    def _ask(
        self, question: Question, work: float, upper: float | None = None
    ) -> FamilyBounds | None:
        if not self._counted or not work:
            return None
        key = question, work
        if key not in self._found:
            try:
                self._found[key] = family_bounds(
                    self._counted, self._relation, question,
                    dimension=self._dimension, work=work, group=self._group,
                    known=None if upper is None else (self._pair, upper),
                )  # fmt: skip
            except Contradiction:
                raise
            except NumericalFailure:  # the bounds of one pair stand by themselves
                self._found[key] = None
        return self._found[key]


def _with_family(plan: Plan, relation: Relation, group: int, *, every: bool) -> tuple[Counted, ...]:
    """The atoms of a plan with their counts; none if one pair per step is all there is.

    Unless ``every`` family counts, one that costs much and gains little is no reason to begin.
    """
    counted = tuple(atoms(plan).items())
    families = (
        family_of(atom, relation, tail=_COARSEST_TAIL, group=group)
        for atom, count in counted
        if count > 1
    )
    repeated = any(
        found is not None and (every or not isinstance(found, ReplacedTwice)) for found in families
    )
    return counted if repeated and len(counted) <= _MOST_KINDS else ()
