"""One atom of a plan: its dominating pair above, the concrete pairs it attains below."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache, partial

import numpy as np

from mustdp.accounting.epochs.pairs import epoch_sides, on_grids
from mustdp.accounting.epochs.replace_one import ReplacedProfile
from mustdp.accounting.plan import (
    Atom,
    Banded,
    InEpoch,
    Plan,
    Repeat,
    SelectBest,
    Sequence,
    Subsample,
    atoms,
)
from mustdp.accounting.pld.discretise import (
    ConcretePair,
    DominatingPair,
    Profile,
    attained_pairs,
    survey,
)
from mustdp.accounting.pld.readoff import UpperCurve
from mustdp.accounting.subsampling.one_step import (
    DEPTH,
    TAIL,
    OneSlopeProfile,
    ReusedDirection,
    ReusedProfile,
    SubsampledProfile,
    ThinnedProfiles,
    ThinnedSums,
    stage_profiles,
    staged_inside,
)
from mustdp.errors import NotCovered
from mustdp.limits import LARGEST_EPSILON
from mustdp.mechanisms.mechanism import (
    GroupProfile,
    GroupProfiles,
    Mechanism,
    Noise,
    Proof,
    TabulatedProfiles,
    dual,
)
from mustdp.mechanisms.relation import Relation, default_relation, moves
from mustdp.numerics import checks
from mustdp.numerics.arrays import ROUNDOFF, FloatArray
from mustdp.numerics.checks import frozen
from mustdp.numerics.convex import TangentTable, chord, hull_slopes, two_sided
from mustdp.sampling.epochs import RandomAllocation
from mustdp.sampling.schemes import (
    MultiplicityLaw,
    Multistage,
    Poisson,
    Scheme,
    TruncatedPoisson,
    stage_law,
)

# Group profiles of a plan that releases several times on the same subset.
#
# Compose inside, amplify outside: for every group size the releases on the subset are composed
# first, by the same machinery as a whole plan, and the composed profile is what the stage around
# it amplifies. Charging the releases as independent draws would be unsound.


#: The grid of the inner steps, as a share of the deviation of their losses, and the epsilons at
#: which their composition is tabulated: finer ones are closer, and slower.
_FRACTION = 0.05
_POINTS = 600
#: Deltas of the inner table are accurate down to this; below they are only upper bounds.
_SMALLEST = 1e-30


def group_profiles(plan: Plan, reach: float, moved: float = 2.0) -> GroupProfiles:
    """Certified group profiles of ``plan``, up to epsilon = ``reach``.

    One copy moves sums by ``moved``: 2 under replace_one, 1 where its place stays empty.
    """
    if isinstance(plan, Mechanism):
        return plan.profiles(plan.shift_for(moved))
    if isinstance(plan, Subsample):
        inner = group_profiles(plan.inner, reach, moved)
        if isinstance(plan.scheme, Poisson):
            in_a_ball = _noise_in_a_ball(plan.inner) if moved == 2.0 else None
            if in_a_ball is None:
                return ThinnedProfiles(plan.scheme, inner, reach)
            return ThinnedSums(plan.scheme, inner, *in_a_ball, reach)
        if not isinstance(plan.scheme, Multistage):
            raise NotCovered(f"{plan.scheme.name} sampling inside another stage is not covered")
        return stage_profiles(plan.scheme, inner, reach)
    if isinstance(plan, InEpoch | SelectBest | Banded):
        raise NotCovered("only mechanisms, schemes and sequences of them are covered on a subset")
    if isinstance(plan, Repeat) and plan.count == 1:
        return group_profiles(plan.inner, reach, moved)
    return ComposedProfiles(plan, reach, moved)


def _noise_in_a_ball(plan: Plan) -> tuple[Noise, float] | None:
    """The noise on a sum of contributions in a ball, and how far swapping one moves it."""
    if not isinstance(plan, Mechanism) or not plan.in_a_ball:
        return None
    shift = plan.shift_for(2.0)
    noise = plan.attained(shift)
    return (noise, shift) if isinstance(noise, Noise) and shift is not None else None


class ComposedProfiles(TabulatedProfiles):
    """Group profiles of a repeated plan or a sequence, tabulated and read off chords."""

    relative_error = 1e-12

    def __init__(self, plan: Repeat | Sequence, reach: float, moved: float = 2.0) -> None:
        super().__init__(reach)
        counted: dict[Atom, int] = atoms(plan)
        self._counts = list(counted.values())
        self._families = [group_profiles(atom, reach, moved) for atom in counted]
        self._reach = reach
        self._points: dict[int, tuple[FloatArray, FloatArray]] = {}

    def delta(self, groups: FloatArray, epsilon: FloatArray) -> FloatArray:
        """Chord values for eps >= 0, self-duality below."""
        columns = [
            dual(chord(*self._tabulated(int(g)), np.abs(epsilon[:, k])), epsilon[:, k])
            for k, g in enumerate(groups)
        ]
        return np.stack(columns, axis=1)

    def _table(self, group: int) -> TangentTable:
        epsilon, value = self._tabulated(group)
        return two_sided(epsilon, value, hull_slopes(epsilon, value))

    def _tabulated(self, group: int) -> tuple[FloatArray, FloatArray]:
        if group not in self._points:
            pairs = [DominatingPair.of(GroupProfile(family, group)) for family in self._families]
            grid = survey(pairs, self._counts).grid(_FRACTION)
            composed = UpperCurve(pairs, self._counts, grid)
            epsilon = np.concatenate([[0.0], np.geomspace(1e-5, 1.0, _POINTS)]) * self._reach
            value = np.minimum.accumulate(composed.curve(epsilon, _SMALLEST))
            self._points[group] = epsilon, value
        return self._points[group]


# Named pairs for plans that reuse a subset: what an observer sees who adds the releases up.
#
# The data holder's pair is the aligned (reversed, symmetric) one of ``subsampling/one_step.py`` in
# every release. With Gaussian noise of equal size in all R releases, their sum over sqrt(R) is one
# Gaussian release in which the record counts T times, T = the copies summed over the releases,
# with shift s / sqrt(R). Adding up is post-processing, so what this pair attains is attained by
# the plan. Where the releases differ, or the noise is not Gaussian, the observer looks at the
# first one alone.


#: Entries at the ends of a law of copies below this are dropped, and what was dropped is counted.
_SMALLEST_COPY = 1e-40
#: Laws of copies that are longer or wider are not worked out; lower bounds then say less.
_LARGEST_SUPPORT = 40_000
_LARGEST_RANGE = 20_000_000


@dataclass(frozen=True, eq=False)
class Observed:
    """One noisy release, equivalent to what the observer keeps of a plan."""

    mechanism: Mechanism
    releases: int
    law: MultiplicityLaw


class _TooWide(Exception):
    """The law of the copies has too many values to be useful."""


def observe(atom: Subsample, group: int = 1) -> Observed:
    """The sum of all releases on a subset if that is one release again, else the first of them."""
    leaves = set(mechanisms(atom))
    leaf = next(iter(leaves))
    if len(leaves) == 1 and leaf.proof is Proof.GAUSSIAN:
        try:
            law = _sum_law(atom, group)
        except _TooWide:
            pass
        else:
            kept = frozen(law.weights.copy())
            total = MultiplicityLaw(law.first, kept, law.cut, law.relative_error)
            return Observed(leaf, _releases(atom), total)
    return _first(atom, group)


def _first(atom: Subsample, group: int) -> Observed:
    """The first release: the stages on the way to it make one scheme."""
    scheme, inner, kept = atom.scheme, _first_atom(atom.inner), 1.0
    while isinstance(inner, Subsample):
        if isinstance(scheme, Multistage) and isinstance(inner.scheme, Multistage):
            scheme = Multistage(scheme.n, scheme.stages + inner.scheme.stages)
        elif isinstance(inner.scheme, Poisson):  # nothing but mechanisms is inside it
            kept = inner.scheme.rate
        inner = _first_atom(inner.inner)
    if not isinstance(inner, Mechanism):
        raise NotCovered("an epoch on a subset is not covered")
    if kept == 1.0:
        return Observed(inner, 1, scheme.law(group, _SMALLEST_COPY))
    thinned = Subsample(scheme, Subsample(Poisson(round(scheme.expected_size), kept), inner))
    try:
        law = _sum_law(thinned, group)
    except _TooWide:
        law = _CopyLaw(0, np.ones(1))  # of a record that is never drawn: nothing is attained
    total = MultiplicityLaw(law.first, frozen(law.weights.copy()), law.cut, law.relative_error)
    return Observed(inner, 1, total)


def _first_atom(plan: Plan) -> Atom:
    return next(iter(atoms(plan)))


def mechanisms(plan: Plan) -> list[Mechanism]:
    """All mechanisms that a plan releases from."""
    found: list[Mechanism] = []
    for atom in atoms(plan):
        found += [atom] if isinstance(atom, Mechanism) else mechanisms(atom.inner)
    return found


def _releases(plan: Plan) -> int:
    return sum(
        count * (_releases(atom.inner) if isinstance(atom, Subsample) else 1)
        for atom, count in atoms(plan).items()
    )


@lru_cache(maxsize=1024)
def _sum_law(plan: Plan, group: int) -> _CopyLaw:
    """Law of the copies of ``group`` entries summed over all releases of ``plan``."""
    total = _CopyLaw(0, np.ones(1))
    if group == 0:
        return total
    for atom, count in atoms(plan).items():
        if isinstance(atom, Subsample):
            law = atom.scheme.law(group, _SMALLEST_COPY)
            one = _mixture(
                [
                    (float(weight), _sum_law(atom.inner, int(size)))
                    for size, weight in zip(law.support, law.weights, strict=True)
                ],
                law,
            )
        else:
            one = _CopyLaw(group, np.ones(1))
        total = _sum(total, _power(one, count))
    return total


@dataclass(frozen=True, eq=False)
class _CopyLaw:
    """Probabilities of ``first, first + 1, …`` copies, with their errors as in a law."""

    first: int
    weights: FloatArray
    cut: float = 0.0
    relative_error: float = 0.0


def _mixture(parts: list[tuple[float, _CopyLaw]], outer: MultiplicityLaw) -> _CopyLaw:
    first = min(law.first for _, law in parts)
    last = max(law.first + law.weights.size for _, law in parts)
    if last - first > _LARGEST_RANGE:
        raise _TooWide
    mixed = np.zeros(last - first)
    for weight, law in parts:
        start = law.first - first
        mixed[start : start + law.weights.size] += weight * law.weights
    cut = outer.cut + sum(weight * law.cut for weight, law in parts)
    error = outer.relative_error + max(law.relative_error for _, law in parts)
    return _trimmed(_CopyLaw(first, mixed, cut, error + (len(parts) + 1) * ROUNDOFF))


def _sum(a: _CopyLaw, b: _CopyLaw) -> _CopyLaw:
    if min(a.weights.size, b.weights.size) > _LARGEST_SUPPORT:
        raise _TooWide
    error = a.relative_error + b.relative_error
    error += (min(a.weights.size, b.weights.size) + 1) * ROUNDOFF
    weights = np.convolve(a.weights, b.weights)
    return _trimmed(_CopyLaw(a.first + b.first, weights, a.cut + b.cut, error))


def _power(law: _CopyLaw, count: int) -> _CopyLaw:
    """The law of a sum of ``count`` independent copies, by repeated squaring."""
    result = _CopyLaw(0, np.ones(1))
    while True:
        if count & 1:
            result = _sum(result, law)
        count >>= 1
        if not count:
            return result
        law = _sum(law, law)


def _trimmed(law: _CopyLaw) -> _CopyLaw:
    """Drop negligible entries at both ends; what they held is cut."""
    kept = np.flatnonzero(law.weights > _SMALLEST_COPY)
    start, stop = (int(kept[0]), int(kept[-1]) + 1) if kept.size else (0, 1)
    dropped = float(law.weights[:start].sum() + law.weights[stop:].sum()) * 1.001
    weights = law.weights[start:stop]
    return _CopyLaw(law.first + start, weights, law.cut + dropped, law.relative_error)


# Renyi moments of a plan with nothing left out: bounds by joint convexity.
#
# For neighbours P, Q write M_a = E_Q (dP/dQ)^a = e^{(a-1) D_a}. M_a is jointly convex in (P, Q). A
# stage couples the two batches so that, given that J copies were drawn, they differ in J entries
# (docs/derivations/one-step.md); so M_a of a draw is at most E M_a(J copies). Both sides share the
# part of weight rho_0 in which none was drawn, so by Minkowski's inequality it is at most
#
#     rho_0^{1-a} (sum_j rho_j M_a(j copies against none)^{1/a})^a
#
# as well. M_a of steps is at most the product, and mechanisms state their own moments.
#
# This forgets the amplification of small losses, but bounds the large ones: how it completes what a
# dominating pair says about the small ones is in docs/derivations/composition.md.


#: The mass that a law may leave out here; it is counted with the most copies there are.
_TAIL = 1e-300
#: Relative rounding of a few products and logarithms, generously.
_LOG_ERROR = 1e-13


def log_moments(atom: Atom, orders: FloatArray, relation: Relation, group: int) -> FloatArray:
    """log M_a at orders a > 1 of one atom for ``group`` records that differ; inf if not known."""
    if isinstance(atom, SelectBest):
        from mustdp.accounting.selection import selected_moments  # accounts for one run first

        return selected_moments(atom, orders, relation, group)
    if isinstance(atom, Subsample):
        # With a cap, a record may take another one's place.
        capped = isinstance(atom.scheme, TruncatedPoisson)
        moved = 2.0 if capped else moves(atom.scheme, relation)
    else:
        moved = 2.0 if relation == Relation.REPLACE_ONE else 1.0
    return _of(atom, orders, np.array([float(group)]), moved)[:, 0]


def _of(plan: Plan, orders: FloatArray, copies: FloatArray, moved: float) -> FloatArray:
    """The same for each order (rows) and number of copies (columns)."""
    total = np.zeros((orders.size, copies.size))
    for atom, count in atoms(plan).items():
        if isinstance(atom, Subsample):
            columns = [_drawn(atom, orders, int(special), moved) for special in copies]
            total = total + count * np.stack(columns, axis=1)
            continue
        known = None
        if isinstance(atom, Mechanism):
            known = atom.log_moments(orders, copies, atom.shift_for(moved))
        if known is None:
            return np.full(total.shape, np.inf)
        total = total + count * known
    return total * (1.0 + _LOG_ERROR)


def _drawn(atom: Subsample, orders: FloatArray, special: int, moved: float) -> FloatArray:
    """log M_a of a subsampled mechanism: the smaller of the two bounds."""
    if special == 0:
        return np.zeros(orders.size)
    scheme = atom.scheme
    # With a cap n is only the most records there can be; of fewer each is kept more often.
    drawn = scheme.poisson if isinstance(scheme, TruncatedPoisson) else scheme
    law = drawn.law(special, _TAIL)
    copies = np.append(law.support, float(scheme.m if isinstance(scheme, Multistage) else special))
    error = law.relative_error + (law.support.size + 16.0) * ROUNDOFF
    with np.errstate(divide="ignore"):
        # The last weight is for what the law left out, with the most copies there are.
        weights = np.log(np.append(law.weights * (1.0 + error), law.cut))
    found = _log_sum(_of(atom.inner, orders, copies, moved), weights)
    # With a cap, how many others there are depends on whether the record is in the batch.
    if law.zero > 0.0 and not isinstance(scheme, TruncatedPoisson):
        empty = isinstance(scheme, Poisson) and moved == 2.0
        ball = empty and all(one.in_a_ball for one in mechanisms(atom.inner))
        apart = _of(atom.inner, orders, copies, 1.0 if ball else moved) / orders[:, None]
        shared = -(orders - 1.0) * np.log(law.zero * (1.0 - error))
        found = np.minimum(found, orders * _log_sum(apart, weights) + shared)
    return found


def _log_sum(logs: FloatArray, weights: FloatArray) -> FloatArray:
    """log of sum e^{weight + log} along each row, rounded up, at least 0."""
    terms = np.where(np.isneginf(weights), 0.0, logs) + weights
    top = terms.max(axis=1)
    known = np.isfinite(top)  # else some moment that occurs is not
    whole = np.full(top.size, np.inf)
    whole[known] = top[known] + np.log(np.exp(terms[known] - top[known, None]).sum(axis=1))
    return np.asarray(np.maximum(whole, 0.0) + 4.0 * ROUNDOFF * (8.0 + np.abs(top)))


# What one atom of a plan contributes: its dominating pair, and the concrete pairs it attains.


#: Mass of a law that may be cut. It is added to delta; no delta below SMALLEST_DELTA is asked for.
LAW_TAIL = 1e-40


@dataclass(frozen=True, eq=False)
class AtomPairs:
    """Both sides of one atom.

    ``dominating`` is worse than every pair of neighbours at once. ``families`` are pairs of output
    distributions that neighbours really have, by name. ``exact`` says that but for numerics the two
    would meet, also in compositions. Where either is found on grids, ``at`` makes both anew on
    grids this many times as fine, up to ``finest``.
    """

    shift: float | None
    dominating: DominatingPair
    families: Mapping[str, ConcretePair]
    exact: bool = False
    at: Callable[[float], AtomPairs] | None = None
    finest: float = math.inf

    @property
    def directions(self) -> dict[str, Profile]:
        """The upper profiles by direction: one if both orders of the neighbours share it."""
        ahead, behind = self.dominating.forward, self.dominating.backward
        return {"both": ahead} if self.dominating.self_dual else {"remove": ahead, "add": behind}


def atom_pairs(atom: Atom, relation: Relation, method: str, group: int = 1) -> AtomPairs:
    """The dominating pair and the attained pairs of one atom for ``group`` records that differ."""
    if isinstance(atom, Mechanism):
        return _plain(atom, relation, group)
    if isinstance(atom, InEpoch):
        return _epoch(atom, relation, method, group)
    if isinstance(atom, SelectBest):
        from mustdp.accounting.selection import selected_pairs  # accounts for one run first

        return selected_pairs(atom, relation, method, group)
    if isinstance(atom.inner, Mechanism):
        deep = isinstance(atom.scheme, Multistage) and len(atom.scheme.reduced) > 2
        # The tables of many stages are too large to be kept.
        make = _subsampled.__wrapped__ if deep else _subsampled
        return make(atom.scheme, atom.inner, relation, method, group)
    return _nested(atom, relation, method, group)


def _epoch(
    atom: InEpoch, relation: Relation, method: str, group: int, fine: float = 1.0
) -> AtomPairs:
    sides = epoch_sides(atom, relation, method, group, fine)
    at = partial(_epoch, atom, relation, method, group) if on_grids(atom, group) else None
    exact = group == 1 and isinstance(atom.epoch, RandomAllocation) and atom.epoch.times == 1
    profile = sides[1].forward
    finest = profile.finest if isinstance(profile, ReplacedProfile) else math.inf
    return AtomPairs(*sides, exact=exact, at=at, finest=finest)


def subsampled_pair(
    scheme: Scheme, mechanism: Mechanism, relation: Relation, group: int = 1
) -> DominatingPair:
    """What dominates a mechanism on one draw: the certificate, or its two directions."""
    if relation == Relation.REPLACE_ONE:
        return DominatingPair.of(SubsampledProfile(scheme, mechanism, relation, group=group))
    return DominatingPair(
        SubsampledProfile(scheme, mechanism, relation, "remove", group),
        SubsampledProfile(scheme, mechanism, relation, "add", group),
    )


def _plain(mechanism: Mechanism, relation: Relation, group: int) -> AtomPairs:
    """A release on all records: one copy moves the sum by 2 C, or by C under add_remove."""
    shift = mechanism.shift_for(2.0 if relation == Relation.REPLACE_ONE else 1.0)
    dominating = DominatingPair.of(GroupProfile(mechanism.profiles(shift), group))
    law = MultiplicityLaw(group, frozen(np.ones(1)), 0.0, 0.0)
    families = _families(mechanism, law, shift, 1, relation)
    # Additive noise in one dimension is as bad as in any.
    return AtomPairs(shift, dominating, families, exact=mechanism.proof is Proof.GAUSSIAN)


@lru_cache(maxsize=8)
def _subsampled(
    scheme: Scheme, mechanism: Mechanism, relation: Relation, method: str, group: int
) -> AtomPairs:
    """Kept for the next account of the same atom: other step counts look at the same points."""
    shift = mechanism.shift_for(moves(scheme, relation))
    law, poisson = scheme.law(group, LAW_TAIL), isinstance(scheme, Poisson)
    if method == "one-slope":
        if not isinstance(scheme, Poisson | Multistage):
            raise NotCovered(f"method 'one-slope' does not cover {scheme.name}")
        if poisson != (relation == Relation.ADD_REMOVE):
            raise NotCovered.refusing(
                "relation",
                f"must be {{{default_relation(scheme).value}}} for {scheme.name} with {{method}} "
                "one-slope, the paper's theorem",
                f"{{{relation.value}}}",
                mentions=(*Relation, "method"),
            )
        dominating = DominatingPair.of(OneSlopeProfile(law, mechanism.profiles(shift)))
    else:
        dominating = subsampled_pair(scheme, mechanism, relation, group)
    families = _families(mechanism, law, shift, 1, relation)
    if relation == Relation.ADD_REMOVE:
        families.pop("symmetric", None)
    elif scheme.leaves_empty and mechanism.in_a_ball:
        families = {name: pair for name, pair in families.items() if name == "symmetric"}
    return AtomPairs(shift, dominating, families)


def _nested(atom: Subsample, relation: Relation, method: str, group: int) -> AtomPairs:
    """A subset that several releases share: compose inside, amplify outside."""
    scheme = atom.scheme
    group = checks.integer("group", group, 1, scheme.n)
    if method != "certified":
        raise NotCovered(f"method {method!r} does not cover a subset that is reused")
    if isinstance(scheme, Poisson) and relation == Relation.ADD_REMOVE:
        return _reused_by_presence(atom, scheme, group)
    if relation != Relation.REPLACE_ONE:
        raise NotCovered.refusing(
            "relation",
            "must be {replace_one} for a subset of fixed size that is reused: for {add_remove} no "
            "theorem here bounds the composition inside",
            "{add_remove}",
            mentions=tuple(Relation),
        )
    if not isinstance(scheme, Poisson | Multistage):
        raise NotCovered(f"{scheme.name} sampling does not cover a subset that is reused")
    thinned = isinstance(scheme, Poisson) or _thins(atom.inner)
    if thinned and not all(mechanism.covers_left_out for mechanism in mechanisms(atom.inner)):
        raise NotCovered(
            "a custom profile does not say what leaving a record out does, which Poisson sampling "
            "under replace_one needs; use a fixed-size scheme"
        )
    inner = group_profiles(atom.inner, LARGEST_EPSILON + 2 * DEPTH)
    if isinstance(scheme, Multistage):
        law = stage_law(scheme.reduced[0], scheme.n, group, TAIL)
        inside = staged_inside(scheme, inner, LARGEST_EPSILON)
    else:
        law, inside = scheme.law(group), inner
    seen = observe(atom, group)
    shift = seen.mechanism.shift_for(2.0)
    families = _families(seen.mechanism, seen.law, shift, seen.releases, relation)
    if thinned:
        families = {name: pair for name, pair in families.items() if name == "symmetric"}
    return AtomPairs(shift, DominatingPair.of(ReusedProfile(law, inside)), families)


def _thins(plan: Plan) -> bool:
    """Whether some entries may be left out inside, so that batches have random sizes."""
    drawn = [atom for atom in atoms(plan) if isinstance(atom, Subsample)]
    return any(not one.scheme.fixed_size or _thins(one.inner) for one in drawn)


def _reused_by_presence(atom: Subsample, scheme: Poisson, group: int) -> AtomPairs:
    """Poisson sampling around several releases: with the records, or with their places empty."""
    inside = group_profiles(atom.inner, LARGEST_EPSILON + 2 * DEPTH, 1.0)
    law = scheme.law(group, TAIL)
    sides = (ReusedDirection(law, inside, remove) for remove in (True, False))
    seen = observe(atom, group)
    shift = seen.mechanism.shift_for(1.0)
    families = _families(seen.mechanism, seen.law, shift, seen.releases, Relation.ADD_REMOVE)
    families.pop("symmetric", None)
    return AtomPairs(shift, DominatingPair(*sides), families)


def _families(
    mechanism: Mechanism, law: MultiplicityLaw, shift: float | None, releases: int,
    relation: Relation,
) -> dict[str, ConcretePair]:  # fmt: skip
    """The attained families; several Gaussian releases are looked at through their sum."""
    outcomes = mechanism.attained(shift)
    if outcomes is None or law.positive.size == 0:
        return {}
    replaced = relation == Relation.REPLACE_ONE
    scaled = (shift or 0.0) / math.sqrt(releases)
    return attained_pairs(outcomes, law, scaled, replaced=replaced)
