"""From a plan to certified bounds with one dominating pair per step: grid, both sides, read off,
refine; and the largest loss, where there is one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, partial
from typing import Generic, TypeVar

import numpy as np

from mustdp.accounting.atoms import AtomPairs, atom_pairs, log_moments
from mustdp.accounting.bounds import Bounds
from mustdp.accounting.plan import Atom, Plan, SelectBest, Subsample, atoms
from mustdp.accounting.pld.discretise import Grid, ScoutedPairs, survey
from mustdp.accounting.pld.readoff import (
    DeltaAt,
    EpsilonAt,
    LowerCurve,
    LowerParts,
    Moments,
    Question,
    UpperCurve,
)
from mustdp.errors import Contradiction, NumericalFailure
from mustdp.limits import LARGEST_EPSILON, SMALLEST_DELTA
from mustdp.mechanisms.mechanism import AdditiveNoise, Mechanism, Proof, has_proof
from mustdp.mechanisms.relation import Relation
from mustdp.numerics.arrays import ROUNDOFF, FloatArray
from mustdp.numerics.checks import frozen
from mustdp.sampling.schemes import MultiplicityLaw, Multistage, Poisson, Scheme, Stage, stage_law

# Pure privacy: the largest loss there is, where a mechanism bounds it, as Laplace noise does.
#
# Directly on all records g copies cost g s, whatever comes out. A stage that hands over J copies to
# what costs f(J) inside costs log E e^{f(J)}: at alpha_j = e^{f(j)} every delta_j of the
# certificate is zero, and its constraint holds from that alpha on. Poisson sampling of replaced
# records from a ball costs log E e^{sJ/2} - log E e^{-sJ/2}. All are attained, by results far out
# (docs/derivations/composition.md), so a plan's largest loss is the sum over its steps.

#: More different numbers of copies than this are not worked through one by one.
_MOST_COPIES = 20_000
#: e^709 is the largest power that is finite.
_LARGEST_EXPONENT = 700.0
#: Relative rounding of a few logarithms and products, generously.
_LOG_ERROR = 1e-14
_NONE = MultiplicityLaw(0, frozen(np.ones(1)), 0.0, 0.0)
#: Stages, each with the number of entries that it draws from.
_Kernels = tuple[tuple[Stage, int], ...]


@dataclass(frozen=True)
class Pure:
    """Both sides of the largest loss, who attains it, and a lower bound of the chance of it."""

    lower: float
    upper: float
    attained_by: str
    chance: float = 0.0

    def attained(self, epsilon: float) -> float:
        """Delta at ``epsilon`` of the results with the largest loss alone, rounded down."""
        return self.chance * max(0.0, -math.expm1(epsilon - self.lower) * (1.0 - 1e-14))


def pure_epsilon(counted: Mapping[Atom, int], relation: Relation, group: int) -> Pure | None:
    """The largest loss of a plan between data sets that differ in ``group`` records, if finite."""
    plain, lower, upper, steps = Fraction(0), 0.0, 0.0, 0
    names = sorted({_attained_by(atom, relation) for atom in counted})
    for atom, count in counted.items():
        each = _largest(atom, 2 if relation == Relation.REPLACE_ONE else 1)
        if each is not None:
            plain += count * group * each
            steps += count
            continue
        try:
            ends = _of_atom(atom, relation, group)
        except NumericalFailure:
            return None
        if ends is None:
            return None
        lower += count * ends[0] * (1.0 - 4.0 * ROUNDOFF)
        upper += count * ends[1] * (1.0 + 4.0 * ROUNDOFF)
    if not lower and not upper:
        return Pure(_down(plain), _up(plain), "aligned", 0.5**steps)
    margin = 1e-15 * (len(counted) + 4)
    low, high = (lower + _down(plain)) * (1.0 - margin), (upper + _up(plain)) * (1.0 + margin)
    return Pure(low, high, " and ".join(names))


def _attained_by(atom: Atom, relation: Relation) -> str:
    """The pair with the largest loss: in a ball, a record's empty place is in the middle of it."""
    if relation == Relation.REPLACE_ONE and isinstance(atom, Subsample):
        noise = atom.inner if isinstance(atom.scheme, Poisson) else None
        if isinstance(noise, Mechanism) and noise.in_a_ball:
            return "symmetric"
    return "aligned"


def _of_atom(atom: Atom, relation: Relation, group: int) -> tuple[float, float] | None:
    """Both ends of the largest loss of one atom on a draw; None where it has no bound."""
    if isinstance(atom, SelectBest):
        from mustdp.accounting.selection import log_growth  # accounts for one run first

        one = pure_epsilon(atoms(atom.inner), relation, group)
        return None if one is None else (one.lower, one.upper + log_growth(atom, relation, group))
    if not isinstance(atom, Subsample):
        return None
    scheme, inner = atom.scheme, atom.inner
    if isinstance(scheme, Poisson):
        each = _largest(inner, 2 if relation == Relation.REPLACE_ONE else 1)
        if each is None or not isinstance(inner, Mechanism):
            return None
        halved = relation == Relation.REPLACE_ONE and inner.in_a_ball
        return _poisson(scheme.rate, each, group, halved=halved)
    low, high = (_inside(atom, np.array([float(group)]), up) for up in (False, True))
    return None if low is None or high is None else (float(low[0]), float(high[0]))


def _poisson(rate: float, each: Fraction, group: int, *, halved: bool) -> tuple[float, float]:
    """J binomial: log E e^{sJ}, or log E e^{sJ/2} - log E e^{-sJ/2} where records are replaced."""
    low, high = _ends(each)
    if halved:
        low, high = (_mixed(rate, s / 2.0) - _mixed(rate, -s / 2.0) for s in (low, high))
    else:
        low, high = (_mixed(rate, s) for s in (low, high))
    return group * low * (1.0 - _LOG_ERROR), group * high * (1.0 + _LOG_ERROR)


def _mixed(rate: float, loss: float) -> float:
    """log(1 - rate + rate e^loss), accurate for small rates and without overflow."""
    if loss <= _LARGEST_EXPONENT:
        return math.log1p(rate * math.expm1(loss))
    if not 0.0 < rate < 1.0:
        return loss * rate
    return float(np.logaddexp(math.log1p(-rate), math.log(rate) + loss))


def _inside(plan: Plan, copies: FloatArray, up: bool) -> FloatArray | None:
    """The largest loss for each number of copies, rounded up or down; None without a bound."""
    total = np.zeros(copies.size)
    for atom, count in atoms(plan).items():
        each = _largest(atom, 2)
        if each is not None:
            part: FloatArray | None = copies * _ends(each)[up]
        elif isinstance(atom, Subsample) and isinstance(atom.scheme, Multistage):
            sizes = [stage.size for stage in atom.scheme.reduced]
            kernels = tuple(zip(atom.scheme.reduced, [atom.scheme.n, *sizes], strict=False))
            part = _through(kernels, atom.inner, copies, up)
        else:
            return None
        if part is None:
            return None
        total = total + count * part
    return total * (1.0 + (_LOG_ERROR if up else -_LOG_ERROR))


def _through(kernels: _Kernels, inner: Plan, copies: FloatArray, up: bool) -> FloatArray | None:
    """The same for a plan behind stages: each takes the log of a mean of exponentials."""
    if not kernels:
        return _inside(inner, copies, up)
    (stage, population), *rest = kernels
    if (
        not rest
        and stage.kind == "wr"
        and all(_largest(one, 2) is not None for one in atoms(inner))
    ):
        # Every copy costs the same again, so every draw does: (1 - i/N + (i/N) e^s)^M.
        each = _inside(inner, np.ones(1), up)
        if each is not None:
            draws = [_mixed(i / population, float(each[0])) for i in copies.tolist()]
            return stage.size * np.array(draws)
    if copies.size > _MOST_COPIES:
        raise NumericalFailure(f"{copies.size} numbers of copies are too many to go through")
    means = []
    for special in copies.astype(np.int64).tolist():
        law = stage_law(stage, population, special) if special else _NONE
        most = min(special, stage.size) if stage.kind == "wor" else stage.size
        losses = _through(tuple(rest), inner, np.append(law.support, float(most)), up)
        if losses is None:
            return None
        means.append(_log_mean(law, losses[:-1], float(losses[-1]), up))
    return np.array(means)


def _log_mean(law: MultiplicityLaw, losses: FloatArray, largest: float, up: bool) -> float:
    """log E e^loss, rounded; the mass that the law left out may have the largest loss."""
    error = law.relative_error + (law.support.size + 16.0) * ROUNDOFF
    top = float(losses.max())
    mean = float(law.weights @ np.exp(losses - top))
    doubt = 8.0 * ROUNDOFF * (1.0 + top)
    if not up:
        return max(0.0, top + math.log(mean * (1.0 - error)) - doubt)
    value = top + math.log(mean * (1.0 + error)) + doubt
    cut = math.log(law.cut) + largest if law.cut > 0.0 else -math.inf
    return float(np.logaddexp(value, cut)) + doubt


def _largest(plan: Plan, moved: int) -> Fraction | None:
    """The largest loss of one copy without any rounding; None where no mechanism states one."""
    return plan.largest_loss(moved) if isinstance(plan, Mechanism) else None


def _ends(value: Fraction) -> tuple[float, float]:
    return _down(value), _up(value)


def _up(value: Fraction) -> float:
    near = float(value)
    return near if Fraction(near) >= value else math.nextafter(near, math.inf)


def _down(value: Fraction) -> float:
    near = float(value)
    return near if Fraction(near) <= value else math.nextafter(near, -math.inf)


# The one loop that refines: look at an answer on finer and finer grids until it is good enough.
#
# The discretisation error falls with the square of the spacing, so an error that is four times too
# large needs half the spacing.


Answer = TypeVar("Answer")


@dataclass(frozen=True)
class Fractions:
    """The spacings that are tried, as fractions of the deviation of one step.

    ``boldness`` rounds the halvings that seem needed: below 1 a step too short costs a second look,
    above 1 a step too far costs a longer one. With ``last_look`` the finest spacing is tried before
    giving up even if it seems not to be fine enough.
    """

    first: float
    finest: float
    boldness: float
    last_look: bool = False

    def after(self, fraction: float, excess: float) -> float | None:
        """The next spacing if the error was ``excess`` times too large; None if there is none."""
        needed = 0.5 * math.log2(excess) if math.isfinite(excess) else 0.0
        finer = fraction / 2.0 ** max(1, math.floor(needed + self.boldness))
        if self.last_look and fraction > self.finest:
            finer = max(finer, self.finest)
        return finer if finer >= self.finest else None


@dataclass(frozen=True)
class GridAnswer(Generic[Answer]):
    """An answer on one grid, and by which factor its error is larger than allowed.

    ``finest`` says that no finer grid would help, ``shortfall`` what to say then.
    """

    answer: Answer
    good_enough: bool
    excess: float = 0.0
    finest: bool = False
    shortfall: str = ""


def refine(look_at: Callable[[float], GridAnswer[Answer]], fractions: Fractions) -> Answer:
    """Look at finer and finer spacings until the answer is good enough, or say that none is."""
    fraction: float | None = fractions.first
    while fraction is not None:
        look = look_at(fraction)
        if look.good_enough:
            return look.answer
        fraction = None if look.finest else fractions.after(fraction, look.excess)
    raise NumericalFailure(look.shortfall)


# Both sides of many atoms together: every composition that is looked at for a bound.
#
# Above, a composition per direction: under add_remove the record may be on either side, and the
# worse side counts. Below, a composition per choice of pairs that neighbouring data sets really
# have; the best of them counts.


#: The families of attained pairs, and what each is called in the other order of the neighbours.
_OTHER_ORDER = {
    "aligned": "reversed",
    "reversed": "aligned",
    "symmetric": "symmetric",
    "aligned, largest": "reversed, largest",
    "reversed, largest": "aligned, largest",
    "symmetric, largest": "symmetric, largest",
    "symmetric, noisier": "symmetric, noisier",
    "crowded": "crowded, reversed",
    "crowded, reversed": "crowded",
}


class UpperSide:
    """The dominating pairs of all atoms, composed: certified, the larger of both directions."""

    def __init__(self, pairs: Sequence[AtomPairs], counts: Sequence[int], grid: Grid) -> None:
        ahead = [pair.dominating for pair in pairs]
        if all(pair.self_dual for pair in ahead):
            directions = {"both": ahead}
        else:
            directions = {"remove": ahead, "add": [pair.swapped for pair in ahead]}
        self._curves = {
            direction: UpperCurve(chosen, counts, grid) for direction, chosen in directions.items()
        }

    @cached_property
    def coarser(self) -> UpperSide:
        """The same at twice the spacing, from the same evaluations."""
        other = copy(self)
        other._curves = {name: curve.coarser for name, curve in self._curves.items()}
        return other

    def worst(self, question: Question) -> tuple[float, str]:
        """The certified answer, and the direction that decided it."""
        answers = [(curve.value(question), direction) for direction, curve in self._curves.items()]
        return max(answers, key=lambda answer: answer[0])

    def gap(self, question: Question, direction: str) -> float:
        """How much of the answer of one direction is due to the discretisation."""
        return self._curves[direction].gap(question)

    def curve(self, epsilon: FloatArray, smallest: float) -> FloatArray:
        """Certified deltas at many epsilons, accurate down to ``smallest``."""
        curves = [curve.curve(epsilon, smallest) for curve in self._curves.values()]
        return np.asarray(np.max(curves, axis=0))

    def log_mgf(self, theta: FloatArray, rare: float) -> tuple[FloatArray, float]:
        """Log moments of the finite losses, and the mass that was left out of them."""
        found = [curve.log_mgf(theta, rare) for curve in self._curves.values()]
        return np.asarray(np.max([moments for moments, _ in found], axis=0)), max(
            outside for _, outside in found
        )

    def whole_log_mgf(self, theta: FloatArray, crude: Sequence[Moments]) -> FloatArray:
        """Log moments of all losses, none left out."""
        found = [curve.whole_log_mgf(theta, crude) for curve in self._curves.values()]
        return np.asarray(np.max(found, axis=0))


def lower_side(
    pairs: Sequence[AtomPairs], counts: Sequence[int], grid: Grid, relation: Relation,
    *, mixed: bool = True,
) -> LowerCurve:  # fmt: skip
    """The attained pairs of all atoms, composed: pure families, and mixtures of orders.

    Under replace_one an adaptive data holder may take a different order in every step; under
    add_remove the record is on one side throughout. Anyone who knows what an adaptive data holder
    attains with aligned and reversed needs neither reversed alone nor mixtures (not ``mixed``).
    """
    names = [name for name in _OTHER_ORDER if all(name in pair.families for pair in pairs)]
    if not mixed:
        names = [name for name in names if "reversed" not in name]
    choices = [(name, _mixture(pairs, counts, name, name)) for name in names]
    if mixed and relation == Relation.REPLACE_ONE and "aligned" in names and max(counts) > 1:
        choices += [
            (f"half aligned, half {name}", _mixture(pairs, counts, "aligned", name))
            for name in names
            if name != "aligned"
        ]
    return LowerCurve(choices, grid)


def in_both_orders(
    lower: LowerCurve, epsilon: FloatArray, smallest: float
) -> list[tuple[FloatArray, FloatArray]]:
    """Lower bounds of the deltas of each named pair, in the order named and in the other."""
    found = lower.curves(epsilon, smallest, tuple(_OTHER_ORDER))
    return [(found[name], found[back]) for name, back in _OTHER_ORDER.items() if name in found]


def _mixture(
    pairs: Sequence[AtomPairs], counts: Sequence[int], first: str, second: str
) -> LowerParts:
    """The first family in half of all steps of each atom, the second in the others."""
    parts = []
    for which, (pair, count) in enumerate(zip(pairs, counts, strict=True)):
        if first == second:
            parts.append((pair.families[first], count, which))
        else:
            parts.append((pair.families[first], count - count // 2, which))
            parts.append((pair.families[second], count // 2, which))
    return parts


# What is worked out between a plan and its bounds: each thing once, kept for the next question.


#: From this many on, steps of one scheme whose noise differs are joined where it hardly does.
_MANY_KINDS = 512
#: How much the noise of joined steps differs at most, relatively, unless there are still many.
_ALIKE = 2e-3


@dataclass(frozen=True)
class Kind:
    """Steps that are accounted for alike: all as ``atom`` above, as ``most_noise`` below.

    Less noise never costs less, since the rest of the noise may be added afterwards, and so for
    every pair of neighbours: the atom with the least noise bounds all from above, and what
    neighbours attain with the most noise they attain with less.
    """

    atom: Atom
    count: int
    #: The atom with the most noise, where they differ.
    most_noise: Atom | None = None

    def pairs(self, relation: Relation, method: str, group: int) -> AtomPairs:
        """The dominating pair of the one, what is attained with the other."""
        found = atom_pairs(self.atom, relation, method, group)
        if self.most_noise is None:
            return found
        return _both_sides(found, atom_pairs(self.most_noise, relation, method, group))


def _both_sides(above: AtomPairs, below: AtomPairs) -> AtomPairs:
    at = above.at
    finer = None if at is None else lambda fine: _both_sides(at(fine), below)
    return replace(above, shift=None, families=below.families, exact=False, at=finer)


def joined_kinds(counted: Mapping[Atom, int]) -> list[Kind]:
    """The atoms with their counts; very many with Gaussian noise on one scheme are joined."""
    if len(counted) < _MANY_KINDS:  # in their order, which families of pairs go by
        return [Kind(*one) for one in counted.items()]
    kinds: list[Kind] = []
    by_scheme: dict[Scheme, list[tuple[float, Subsample, int]]] = {}
    for atom, count in counted.items():
        noise = atom.inner if isinstance(atom, Subsample) else None
        if (
            isinstance(atom, Subsample)
            and isinstance(noise, AdditiveNoise)
            and has_proof(noise, Proof.GAUSSIAN)
            and noise.noise_multiplier is not None
        ):
            by_scheme.setdefault(atom.scheme, []).append((noise.noise_multiplier, atom, count))
        else:
            kinds.append(Kind(atom, count))
    for steps in by_scheme.values():
        if len(steps) < _MANY_KINDS:
            kinds += [Kind(atom, count) for _, atom, count in steps]
            continue
        steps.sort(key=lambda step: step[0])
        spread = math.log(steps[-1][0] / steps[0][0])
        width = max(_ALIKE, spread / _MANY_KINDS)
        group: list[tuple[float, Subsample, int]] = []
        for step in [*steps, None]:
            if group and (step is None or math.log(step[0] / group[0][0]) > width):
                most = None if len(group) == 1 else group[-1][1]
                kinds.append(Kind(group[0][1], sum(count for *_, count in group), most))
                group = []
            if step is not None:
                group.append(step)
    return kinds


class Computation:
    """A plan under one relation: its atoms, their pairs, and both sides on every grid so far.

    An atom has one dominating pair. A family of pairs, the worst chosen anew in every step, stands
    beside this and makes the bounds tighter afterwards (``families/composition.py``).
    """

    def __init__(
        self, plan: Plan, relation: Relation, method: str, group: int = 1, *, accurate: bool = False
    ) -> None:
        self.relation = relation
        counted = atoms(plan)
        kinds = [Kind(*one) for one in counted.items()] if accurate else joined_kinds(counted)
        self.counts: tuple[int, ...] = tuple(kind.count for kind in kinds)
        self.pairs: tuple[AtomPairs, ...] = tuple(
            kind.pairs(relation, method, group) for kind in kinds
        )
        self._kinds, self._description = kinds, (counted, group, method)
        self._grids: dict[float, Grid] = {}
        self._uppers: dict[Grid, UpperSide] = {}
        self._lowers: dict[tuple[Grid, bool], LowerCurve] = {}
        self._anew: dict[float, Computation] = {}

    @property
    def exact(self) -> bool:
        """Whether both sides would meet but for numerics."""
        return all(pair.exact for pair in self.pairs)

    @property
    def on_grids(self) -> bool:
        """Whether some atoms are found on grids of their own."""
        return any(pair.at is not None for pair in self.pairs)

    @property
    def finest(self) -> float:
        """How fine those grids may be asked for."""
        return min(pair.finest for pair in self.pairs)

    def at(self, fine: float) -> Computation:
        """The same with atoms whose own grids are ``fine`` times as fine."""
        if fine not in self._anew:
            other = copy(self)
            for name in ("pure", "gaussian", "moments", "beyond", "survey"):
                other.__dict__.pop(name, None)
            other.pairs = tuple(pair if pair.at is None else pair.at(fine) for pair in self.pairs)
            other._grids, other._uppers, other._lowers, other._anew = {}, {}, {}, {}
            self._anew[fine] = other
        return self._anew[fine]

    @property
    def steps(self) -> int:
        """How many atoms are released, each counted as often as it occurs."""
        return sum(self.counts)

    @cached_property
    def pure(self) -> Pure | None:
        """The largest loss, where it is known to be finite."""
        counted, group, method = self._description
        return pure_epsilon(counted, self.relation, group) if method == "certified" else None

    @cached_property
    def gaussian(self) -> float | None:
        """The one shift, rounded up, that Gaussian noise on all records comes to; else None."""
        counted, group, _ = self._description
        if not all(has_proof(atom, Proof.GAUSSIAN) for atom in counted):
            return None
        shifts = (float(pair.shift or 0.0) for pair in self.pairs)
        squares = (count * s * s for count, s in zip(self.counts, shifts, strict=True))
        return group * math.sqrt(math.fsum(squares)) * (1.0 + 1e-14)

    @cached_property
    def moments(self) -> tuple[Moments, ...]:
        """Crude bounds of the Renyi moments of every atom, nothing left out."""
        group = self._description[1]
        return tuple(
            partial(log_moments, kind.atom, relation=self.relation, group=group)
            for kind in self._kinds
        )

    @cached_property
    def beyond(self) -> float:
        """Chance that some loss is above the largest that is resolved."""
        top = np.array([LARGEST_EPSILON])
        spared = 0.0
        for pair, count in zip(self.pairs, self.counts, strict=True):
            worst = max(float(side[0]) for side in pair.dominating.values(top))
            spared += count * math.log1p(-min(worst, 1.0 - 1e-16))
        return -math.expm1(spared)

    @cached_property
    def survey(self) -> ScoutedPairs:
        """The first look at every dominating pair."""
        return survey((pair.dominating for pair in self.pairs), self.counts)

    def grid(self, fraction: float) -> Grid:
        """One grid for all atoms; ``fraction`` is its spacing over the deviation of one step."""
        if fraction not in self._grids:
            self._grids[fraction] = self.survey.grid(fraction)
        return self._grids[fraction]

    def upper(self, grid: Grid) -> UpperSide:
        """The upper side on this grid."""
        if grid not in self._uppers:
            self._uppers[grid] = UpperSide(self.pairs, self.counts, grid)
        return self._uppers[grid]

    def lower(self, grid: Grid, *, mixed: bool = True) -> LowerCurve:
        """The lower side on this grid; without mixtures of orders if not ``mixed``."""
        if (grid, mixed) not in self._lowers:
            self._lowers[grid, mixed] = lower_side(
                self.pairs, self.counts, grid, self.relation, mixed=mixed
            )
        return self._lowers[grid, mixed]


# From a plan to certified bounds: the whole algorithm on one page.


#: They decide the time alone: spacings are refined until they are fine enough.
FRACTIONS = Fractions(first=0.05, finest=0.05 / 64, boldness=0.9)
#: Accuracies from here on begin with a coarser spacing, which is as certified.
_ROUGH = 0.01
#: How far from the largest loss, as a share of it, chords to it begin.
_CHORD_SHARE = 0.2
#: Tables of atoms that are tried, by how fine they are, and how much closer bounds have to come.
_FINER, _WORTHWHILE = (2.0, 4.0, 8.0), 0.8
#: Spacings that serve where the first one is too fine for the longest transform.
_COARSER = (0.2, 0.8)


def certify(
    work: Computation,
    question: Question,
    accuracy: float,
    *,
    both_sides: bool = True,
    mixed: bool = True,
    strict: bool = True,
) -> Bounds:
    """Answer a question about a plan from both sides, or only from above.

    The plan was described by the caller; ``work`` counted its atoms and holds, under the relation
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
    room = question.tolerance(found.upper, accuracy)

    def again(fine: float) -> Bounds:
        other = work.at(fine)
        return _bounds(other, question, accuracy, both_sides=True, mixed=mixed, strict=False)

    if not _apart(found, question, accuracy):
        return replace(found, numerical_gap=found.upper - found.lower)
    if work.exact:
        levels = [fine for fine in _FINER if fine <= work.finest]
        if work.steps > 1 and not strict:
            # Whole tables take long: once, and only if that is likely to be enough.
            levels = levels[:1] if found.upper - found.lower <= 4.0 * room else []
        found = _tabulated_finer(found, question, accuracy, again, levels)
    else:
        rough = again(0.5)
        # Twice as wide, errors are four times as large.
        moved = max(0.0, rough.upper - found.upper) + max(0.0, found.lower - rough.lower)
        gap = min(max(found.numerical_gap, moved / 3.0), found.upper - found.lower)
        met = gap <= question.tolerance(found.upper, accuracy) / 2
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
        if not distance < _WORTHWHILE * before:
            break
    return replace(found, numerical_gap=found.upper - found.lower, coarse=True)


def _apart(found: Bounds, question: Question, accuracy: float) -> bool:
    """Whether more than the accuracy is between two bounds; tiny deltas are as good as none."""
    room = question.tolerance(found.upper, accuracy)
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
    work: Computation,
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
    if pure is not None and isinstance(question, DeltaAt) and question.at >= pure.upper:
        return Bounds(0.0, 0.0, "none", "both", 0.0, relation)  # no loss is that large
    if work.steps == 1:  # nothing to compose: the profiles themselves are the answer
        return _uncomposed(work.pairs[0], question, relation, pure, both_sides=both_sides)
    if isinstance(question, EpsilonAt) and work.beyond >= question.at:
        return Bounds(0.0, math.inf, "none", "both", math.inf, relation)

    seen: list[Bounds] = []

    def look_at(fraction: float) -> GridAnswer[Bounds]:
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
                lower, name = max((lower, name), (pure.attained(question.at), "aligned"))
        lower = consistent(lower, upper)
        room = question.tolerance(upper, accuracy)
        if math.isinf(upper) or upper - lower <= room:
            seen.append(Bounds(lower, upper, name, direction, upper - lower, relation))
            return GridAnswer(seen[-1], good_enough=True)
        # How much of the distance is due to the grid?
        gap = above.gap(question, direction)
        if below is not None:
            gap = max(gap, below.gap(question, name))
        gap = min(gap, upper - lower)  # a finer grid moves neither bound past the other
        excess = gap / (room / 2) if room > 0 else math.inf
        seen.append(Bounds(lower, upper, name, direction, gap, relation))
        return GridAnswer(
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
        room = question.tolerance(best.upper, accuracy)
        met = best.upper - best.lower <= room or best.numerical_gap <= room / 2
        return replace(best, coarse=not met)


def _within(pure: Pure, above: UpperSide, question: Question, upper: float) -> float:
    """An upper bound that knows where the losses end.

    Delta is convex in e^epsilon and zero at the largest loss, so it lies below the chord from any
    smaller epsilon to there; grids that end a little beyond do not know.
    """
    if not isinstance(question, DeltaAt):
        return min(upper, pure.upper)
    left, furthest = pure.upper - question.at, _CHORD_SHARE * pure.upper
    away = 4.0 * left
    while away <= furthest:
        start = pure.upper - away
        value, _ = above.worst(DeltaAt(start))
        share = math.expm1(-left) / math.expm1(-away) * (1.0 + 1e-13)
        upper = min(upper, value * share * (1.0 + 4e-16 * pure.upper / left))
        away *= 4.0
    return upper


def _looked(look_at: Callable[[float], GridAnswer[Bounds]]) -> bool:
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
