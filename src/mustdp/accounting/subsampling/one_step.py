"""One application of a subsampled mechanism: certified upper bound and attained lower bound, and
upper profiles as objects that are called with epsilons.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from mustdp.accounting.pld.discretise import attained_pairs
from mustdp.accounting.subsampling import attained
from mustdp.accounting.subsampling.attained import symmetric_threshold
from mustdp.accounting.subsampling.one_slope import one_slope_bound
from mustdp.accounting.subsampling.stages import (
    JUMP,
    TAIL,
    ThinnedProfiles,
    certificate,
    common_tangent,
    evaluate,
    margin,
    rounded_down,
    staged_inside,
)
from mustdp.errors import NotCovered, NumericalFailure
from mustdp.limits import LARGEST_EPSILON
from mustdp.mechanisms.contract import PROFILE_ERROR, GroupProfiles, Mechanism
from mustdp.mechanisms.mechanism import Noise
from mustdp.mechanisms.relation import Relation, moves, resolve_relation, shift_of
from mustdp.numerics import checks
from mustdp.numerics.arrays import ROUNDOFF, FloatArray
from mustdp.numerics.checks import frozen
from mustdp.sampling.law import MultiplicityLaw, stage_law
from mustdp.sampling.schemes import Multistage, Poisson, Scheme, TruncatedPoisson

# Add/remove neighbours of a fixed-size scheme, one direction at a time.
#
# X has the records in question, X' has not; both draw batches of the same size. The batch law of X
# is sum_j rho_j P_j with P_0 the law for X', so one side has a single component and the
# constraints of the mixed-slope certificate shrink to one:
#
#     remove  h(alpha) = min sum rho_j delta_j(alpha_j)        with sum rho_j alpha_j <= alpha -
#     rho_0 add     h(alpha) = min alpha sum rho_j delta_j(beta_j)/beta_j
#                                                  with alpha (rho_0 + sum rho_j/beta_j) >= 1
#
# For one stage directly around the noise both are attained (Neyman-Pearson: among sets of equal
# probability under N(0), half-lines are best for every j at once). The same formulas, with the
# Poisson law, give Poisson sampling (Zhu, Dong & Wang 2022, arXiv 2106.08567v4, Theorem 11).


def remove_direction(
    law: MultiplicityLaw, profiles: GroupProfiles, epsilon: FloatArray
) -> FloatArray:
    """Upper bound of H(X || X') at e^epsilon, epsilon >= 0."""
    law = law.coarsened(profiles.most_groups, up=True)
    if law.positive.size == 0:
        return np.full(epsilon.size, law.cut)
    room = margin(law)
    capacity = (-np.expm1(-epsilon) * law.zero + law.eta) * (1.0 - room)
    logs = _tangents(law, profiles, epsilon + np.log(capacity))
    with np.errstate(over="ignore"):
        used = np.exp((logs - epsilon[:, None]) + np.log(law.positive)).sum(axis=1)
    # Use up the budget exactly, whether the search ended a hair off or the tangents stopped moving.
    missed = np.log(capacity / used)
    out = evaluate(law, profiles, rounded_down(logs + missed[:, None]))
    jumped = np.flatnonzero((np.abs(missed) > JUMP) & (out > 2.0 * law.cut))
    if jumped.size:
        level = rounded_down(epsilon[jumped] + np.log(capacity[jumped] / law.eta))
        equal = np.repeat(level[:, None], law.positive.size, axis=1)
        out[jumped] = np.minimum(out[jumped], evaluate(law, profiles, equal))
    return out


def add_direction(law: MultiplicityLaw, profiles: GroupProfiles, epsilon: FloatArray) -> FloatArray:
    """Upper bound of H(X' || X) at e^epsilon, epsilon >= 0; zero once e^epsilon rho_0 >= 1."""
    law = law.coarsened(profiles.most_groups, up=True)
    if law.positive.size == 0:
        return np.full(epsilon.size, law.cut)
    room = margin(law)
    with np.errstate(over="ignore"):
        grown = law.zero * np.expm1(epsilon)
        # (1 - alpha rho_0), padded for the rounding of the law and for the mass it left out.
        needed = (law.eta - grown) + room * (law.eta + grown) + law.cut
    out = np.zeros(epsilon.size)
    live = np.flatnonzero(needed > 0)
    if live.size:
        need = needed[live] * (1.0 + room)
        # From here on ``logs`` are log(1/beta_j).
        logs = _tangents(law, profiles, np.log(need) - epsilon[live])
        with np.errstate(over="ignore"):
            got = np.exp((logs + epsilon[live, None]) + np.log(law.positive)).sum(axis=1)
        missed = np.log(need / got)
        logs = -rounded_down(-logs - missed[:, None])
        # X' is one component of X: H(X' || X) <= 1 - alpha rho_0 whatever the mechanism.
        out[live] = np.minimum(_added(law, profiles, logs, epsilon[live]), need)
        jumped = live[(np.abs(missed) > JUMP) & (out[live] > 0)]
        if jumped.size:
            level = np.log(needed[jumped] * (1.0 + room) / law.eta) - epsilon[jumped]
            equal = np.repeat(-rounded_down(-level)[:, None], law.positive.size, axis=1)
            out[jumped] = np.minimum(out[jumped], _added(law, profiles, equal, epsilon[jumped]))
    return np.minimum(out, 1.0)


def _added(
    law: MultiplicityLaw, profiles: GroupProfiles, logs: FloatArray, epsilon: FloatArray
) -> FloatArray:
    """Sum alpha rho_j delta_j(beta_j) / beta_j for log(1/beta_j) = ``logs``, rounded up."""
    weights = np.exp((logs + epsilon[:, None]) + np.log(law.positive))
    total = (weights * profiles.delta(law.positive_values, -logs)).sum(axis=1)
    if not np.all(total >= 0):
        raise NumericalFailure(f"no bound found for epsilon={epsilon[:3]!r}")
    return np.asarray(total * (1.0 + profiles.relative_error + margin(law)))


def _tangents(law: MultiplicityLaw, profiles: GroupProfiles, budget: FloatArray) -> FloatArray:
    """Log alpha_j on one common tangent, about where sum rho_j alpha_j is e^budget."""
    rho, groups = law.positive, law.positive_values
    if rho.size == 1:
        return np.asarray(budget - np.log(rho[0]))[:, None]
    pooled = np.ones((budget.size, rho.size), dtype=np.bool_)
    t, _ = common_tangent(rho, groups, profiles, budget, pooled)
    return profiles.steering.tangent(groups, t)[0]


# Poisson sampling when records are replaced: exact for noise on a bounded sum, for groups too.
#
# J of the g records are taken, P(J = j) = rho_j, binomial; each of them moves the sum by at most
# half the shift s away from where it stands without them. (This is so for contributions in a ball,
# of which s is the diameter. A shift that was stated says nothing of the kind: a count of ones and
# zeros moves by s when a one is left out. It gets the general certificate.) For a set S let x_j be
# its probability with j of the records taken, w_i with i of their substitutes, x_0 = w_0. Any j of
# the ones and any i of the others move the sum apart by at most (i + j) s/2, so for all beta
#
#     x_j <= delta_{(i+j) s/2}(beta) + beta w_i.
#
# With cap_0 = (alpha - 1) rho_0 and cap_i = alpha rho_i, let any shares lambda_i sum to one and any
# u_j > 0 be given. With beta_ji = (cap_i / lambda_i) u_j / sum_k rho_k u_k the terms in w_i vanish
# from P(S) - alpha Q(S) = sum_j rho_j x_j - sum_i cap_i w_i (over j >= 1, i >= 0), and
#
#     h(alpha) <= sum_i lambda_i sum_{j>=1} rho_j delta_{(i+j) s/2}(beta_ji).
#
# The best choice is read off the threshold t of the pair sum_j rho_j N(j s/2) against sum_i rho_i
# N(-i s/2): u_j = f(t - j s/2), lambda_i in proportion to cap_i f(t + i s/2). All beta_ji are then
# the likelihood ratios at t, and the bound is attained by that pair. For g = 1 it is the
# dominating pair of Lebeda, Regehr, Kamath & Steinke 2024, arXiv 2405.20769v1.


#: Chances below this are too small to be divided by.
RAREST = 1e-280
#: Wider laws are coarsened upwards: cells of multiplicities stand for the largest of them.
MOST_TAKEN = 128
#: Entries of a table over epsilons and multiplicities that is worked on at once.
_LARGEST_CUBE = 2_000_000


def replaced_records(
    law: MultiplicityLaw, noise: Noise, shift: float, epsilon: FloatArray
) -> FloatArray:
    """Upper bound at e^epsilon, epsilon >= 0, for the law of the records under Poisson sampling."""
    if law.positive.size == 0:
        return np.full(epsilon.size, law.cut)
    law = law.coarsened(MOST_TAKEN, up=True)
    chunk = max(1, _LARGEST_CUBE // (law.positive.size * (law.positive.size + 1)))
    parts = [
        _replaced(law, noise, shift, epsilon[start : start + chunk])
        for start in range(0, epsilon.size, chunk)
    ]
    return np.concatenate([np.empty(0), *parts])


def _replaced(law: MultiplicityLaw, noise: Noise, shift: float, epsilon: FloatArray) -> FloatArray:
    half = shift / 2.0
    rho, taken = law.positive, law.positive_values
    t = symmetric_threshold(law, noise, shift, epsilon)[:, None]
    # Shares of the records taken: log of u_j / sum_k rho_k u_k.
    u = noise.log_ratio(taken * half, t)[0]
    u = u - _log_sum(u + np.log(rho))
    with np.errstate(divide="ignore"):
        # log of (alpha - 1) rho_0, which is -inf for alpha = 1 and for rho_0 = 0
        idle = epsilon + np.log(-np.expm1(-epsilon)) + np.log(law.zero)
    caps = np.column_stack([idle, epsilon[:, None] + np.log(rho)])
    others = np.append(0.0, taken)
    away = np.column_stack([np.zeros(epsilon.size), noise.log_ratio(taken * half, -t)[0]])
    shares = caps + away
    shares = shares - _log_sum(shares)
    used = np.isfinite(shares)
    level = np.where(used, caps - np.where(used, shares, 0.0), 0.0)
    betas = level[:, :, None] + u[:, None, :]
    # Rounding may have used up to a few units in the last place of every logarithm involved.
    size = 16.0 + 2.0 * others.size + epsilon[:, None, None] + np.abs(betas)
    size = size + np.abs(level)[:, :, None] + 2.0 * np.abs(u)[:, None, :]
    size = size + np.abs(np.where(used, shares, 0.0))[:, :, None] - np.log(rho)
    room = 8.0 * ROUNDOFF * size + 2.0 * law.relative_error
    distance = (others[:, None] + taken) * half
    values = np.maximum(noise.profile(distance, betas - room), noise.smallest)
    bound = np.einsum("ei,eij,j->e", np.exp(shares), values, rho)
    rounding = PROFILE_ERROR + 4.0 * law.relative_error + 8.0 * others.size * ROUNDOFF
    bound = bound * (1.0 + rounding)
    if not np.all(bound >= 0):
        raise NumericalFailure(f"no bound found for epsilon={epsilon[:3]!r} at shift {shift!r}")
    return np.asarray(np.minimum(bound + law.cut, 1.0))


class ThinnedSums(ThinnedProfiles):
    """Poisson sampling inside a stage, of a sum of contributions in a ball with noise on it.

    A batch of a stage differs in at most ``group`` entries, each of which is kept or not: records
    that are replaced under Poisson sampling.
    """

    def __init__(
        self, scheme: Poisson, inner: GroupProfiles, noise: Noise, shift: float, reach: float
    ) -> None:
        super().__init__(scheme, inner, reach)
        self._noise, self._shift = noise, shift

    def one(self, group: int, epsilon: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The smaller of both bounds; slopes only steer."""
        value, slope = super().one(group, epsilon)
        law = self._law(group)
        if law.eta >= RAREST:
            value = np.minimum(value, replaced_records(law, self._noise, self._shift, epsilon))
        return value, slope


def _log_sum(logs: FloatArray) -> FloatArray:
    """Log of the sum of exponentials along each row, as a column."""
    top = logs.max(axis=1, keepdims=True)
    return np.asarray(np.log(np.exp(logs - top).sum(axis=1, keepdims=True)) + top)


# One application of a subsampled mechanism: certified upper bound and attained lower bound.


Direction = Literal["both", "remove", "add"]

#: Largest epsilon of a one-step profile; beyond it e^epsilon is out of any practical range.
LARGEST_OF_ONE_STEP = 600.0


@dataclass(frozen=True, eq=False)
class OneStep:
    """Bounds of delta for one application, at each epsilon.

    Attributes
    ----------
    scheme : Scheme
        How batches are drawn.
    mechanism : Mechanism
        The noise.
    relation : Relation
        Which data sets are neighbours.
    shift : float or None
        How far one copy moves the output, over the scale of the noise; None for a custom mechanism.
    group : int
        How many records differ.
    epsilon : ndarray
        The epsilons.
    upper : ndarray
        Certified: holds for every pair of neighbouring data sets.
    lower : ndarray
        The largest of ``attained``.
    attained : mapping of str to ndarray
        Deltas of families of concrete pairs of data sets, by name.
    one_slope : ndarray or None
        The paper's theorem read as a bound; None where it does not apply.

    Examples
    --------
    >>> import mustdp as md
    >>> found = md.one_step(md.wor(1000, 10), md.gaussian(shift=0.5), epsilon=[0.1, 0.5])
    >>> bool((found.lower <= found.upper).all()), found.group
    (True, 1)
    """

    scheme: Scheme
    mechanism: Mechanism
    relation: Relation
    shift: float | None
    group: int
    epsilon: FloatArray
    upper: FloatArray
    lower: FloatArray
    attained: Mapping[str, FloatArray]
    one_slope: FloatArray | None


def one_step(
    scheme: Scheme,
    mechanism: Mechanism,
    epsilon: ArrayLike,
    *,
    relation: str | None = None,
    group: int = 1,
) -> OneStep:
    """Bound delta(epsilon) of ``mechanism`` applied once to one draw of ``scheme``.

    Further parameters are those of :func:`account`.

    Parameters
    ----------
    scheme : Scheme
        How batches are drawn.
    mechanism : Mechanism
        The noise, of a known size.
    epsilon : array_like
        The epsilons to ask about, from 0 to 600.

    Returns
    -------
    OneStep
        A lower and an upper delta at each epsilon.

    Raises
    ------
    InvalidParameter
        An argument is outside what is allowed.
    NotCovered
        No theorem of this package covers what was asked.

    Examples
    --------
    >>> from mustdp import gaussian, must_ow
    >>> step = one_step(must_ow(1000, 100, 100), gaussian(shift=0.5), epsilon=0.5)
    >>> print(f"{step.lower[0]:.5e} {step.upper[0]:.5e}")
    4.58172e-04 4.58172e-04
    """
    eps = checks.reals("epsilon", epsilon, at_least=0, at_most=LARGEST_OF_ONE_STEP)
    used = resolve_relation(scheme, relation)
    size = checks.integer("group", group, 1, scheme.n)
    shift = shift_of(mechanism, scheme, used)
    profiles = mechanism.profiles(shift)
    upper = upper_bound(scheme, mechanism, eps, relation=used, group=size)
    one_slope = _one_slope(scheme, profiles, used, size, eps)
    if one_slope is not None and not _is_exact(scheme, used):
        upper = np.minimum(upper, one_slope)
    families = attained_values(scheme, mechanism, eps, relation=used, group=size)
    lower = np.max(np.stack([np.zeros(eps.size), *families.values()]), axis=0)
    arrays = [eps, upper, lower, *families.values(), *([] if one_slope is None else [one_slope])]
    for array in arrays:
        checks.frozen(array)
    return OneStep(
        scheme, mechanism, used, shift, size, eps, upper, lower,
        MappingProxyType(families), one_slope,
    )  # fmt: skip


def upper_bound(
    scheme: Scheme,
    mechanism: Mechanism,
    epsilon: FloatArray,
    *,
    relation: str,
    direction: Direction = "both",
    group: int = 1,
    inside: GroupProfiles | None = None,
) -> FloatArray:
    """Certified upper bound at epsilon >= 0; under add_remove one direction can be asked for.

    ``inside`` is what :func:`staged_inside` made of the stages within the first, if it is known.
    """
    used = Relation.read(relation)
    if isinstance(scheme, TruncatedPoisson):
        return _truncated(scheme, mechanism, epsilon, used, direction, group)
    profiles = mechanism.profiles(shift_of(mechanism, scheme, used))
    if used == Relation.REPLACE_ONE:
        if isinstance(scheme, Poisson):
            return _poisson_replace(scheme, mechanism, profiles, epsilon, group)
        law, inner = _outermost(scheme, profiles, group, epsilon, inside)
        return certificate(law, inner, epsilon)[0]
    if isinstance(scheme, Poisson):
        law, inner = scheme.law(group), profiles
    else:
        first = scheme.reduced[0] if isinstance(scheme, Multistage) else None
        if first is not None and first.kind == "wor" and first.size > scheme.n - group:
            raise NotCovered.refusing(
                "relation",
                f"must be {{replace_one}} here: {{add_remove}} compares n = {scheme.n} records "
                f"with {scheme.n - group}, from which {first.size} cannot be drawn without "
                "replacement",
                "{add_remove}",
                mentions=("replace_one", "add_remove"),
            )
        law, inner = _outermost(scheme, profiles, group, epsilon, inside)
    parts = []
    if direction != "add":
        parts.append(remove_direction(law, inner, epsilon))
    if direction != "remove":
        parts.append(add_direction(law, inner, epsilon))
    return np.asarray(np.max(np.stack(parts), axis=0))


def attained_values(
    scheme: Scheme,
    mechanism: Mechanism,
    epsilon: FloatArray,
    *,
    relation: str,
    group: int = 1,
) -> dict[str, FloatArray]:
    """Lower bounds by family of concrete pairs; empty for a mechanism known only by its profile."""
    used = Relation.read(relation)
    shift = mechanism.shift_for(moves(scheme, used))
    noise = mechanism.attained(shift)
    if noise is None:
        return {}
    law = scheme.law(group)
    families: dict[str, FloatArray] = {}
    wholly = _moves_wholly(scheme, mechanism, used)
    if not isinstance(noise, Noise):
        replaced = used == Relation.REPLACE_ONE
        for name, pair in attained_pairs(noise, law, shift or 0.0, replaced=replaced).items():
            if wholly or name == "symmetric":
                families[name] = np.array([pair.attained(one) for one in epsilon.tolist()])
        return families
    shift = checks.real("shift", shift, above=0)
    if wholly:
        families["aligned"] = attained.aligned(law, noise, shift, epsilon)
        families["reversed"] = attained.reversed_pair(law, noise, shift, epsilon)
    if used == Relation.REPLACE_ONE:
        families["symmetric"] = attained.symmetric(law, noise, shift, epsilon)
    return families


def _outermost(
    scheme: Scheme,
    profiles: GroupProfiles,
    group: int,
    epsilon: FloatArray,
    inside: GroupProfiles | None,
) -> tuple[MultiplicityLaw, GroupProfiles]:
    """The first stage's law and the group profiles of all that happens inside it."""
    if not isinstance(scheme, Multistage):
        raise NotCovered(f"no certificate for a scheme of type {type(scheme).__name__}")
    if inside is None:
        inside = staged_inside(scheme, profiles, float(np.max(epsilon)))
    return stage_law(scheme.reduced[0], scheme.n, group, TAIL), inside


def _truncated(
    scheme: TruncatedPoisson,
    mechanism: Mechanism,
    epsilon: FloatArray,
    relation: Relation,
    direction: Direction,
    group: int,
) -> FloatArray:
    """Poisson sampling with a cap, given how many of the other records are drawn.

    While all fit, this is Poisson sampling. Else records that are drawn take the places of others,
    which counts as swapping them (docs/derivations/one-step.md).
    """
    if not mechanism.covers_left_out:
        raise NotCovered(
            f"a {mechanism.name} profile does not say both what swapping a record and what leaving "
            "it out does, which truncated Poisson sampling needs; use another scheme"
        )
    fits = upper_bound(
        scheme.poisson, mechanism, epsilon, relation=relation, direction=direction, group=group
    )
    swapped, found = mechanism.profiles(mechanism.shift_for(2.0)), fits
    for full, law in _crowds(scheme, relation, group):
        if relation == Relation.REPLACE_ONE:
            crowded = certificate(law, swapped, epsilon)[0]
        else:
            parts = []
            if direction != "add":
                parts.append(remove_direction(law, swapped, epsilon))
            if direction != "remove":
                parts.append(add_direction(law, swapped, epsilon))
            crowded = np.max(np.stack(parts), axis=0)
        mixed = fits + full * np.maximum(crowded - fits, 0.0)
        found = np.maximum(found, mixed * (1.0 + 4.0 * ROUNDOFF))
    return np.minimum(found, 1.0)


#: Crowded batches keep a record this much less often before that is looked at, and how closely.
_KEPT_LESS, _SIZES = 0.99, 24


def _crowds(
    scheme: TruncatedPoisson, relation: Relation, group: int
) -> Iterator[tuple[float, MultiplicityLaw]]:
    """Chances of a crowded batch, and what is kept of the records then; the worst of all counts.

    Under add_remove there may be fewer records than n: a batch is less often crowded then, and
    keeps a record more often. Numbers of records are taken in ranges.
    """
    full, law = scheme.overflow(group), scheme.poisson.law(group, TAIL)
    if full == 0.0:
        return
    if group > 1 or scheme.kept(scheme.n) > _KEPT_LESS * scheme.rate:
        yield full, law
        return
    if relation == Relation.REPLACE_ONE:
        yield full, Poisson(scheme.n, scheme.kept(scheme.n)).law(1, TAIL)
        return
    sizes = np.unique(np.rint(np.geomspace(scheme.cap, scheme.n, _SIZES)).astype(np.int64))
    for least, most in itertools.pairwise(sizes.tolist()):
        full = scheme.resized(most).overflow(1)
        if full > 0.0:
            yield full, Poisson(most, scheme.kept(least + 1)).law(1, TAIL)


def _poisson_replace(
    scheme: Poisson,
    mechanism: Mechanism,
    profiles: GroupProfiles,
    epsilon: FloatArray,
    group: int,
) -> FloatArray:
    """Poisson under replace_one: exact for records of a sum, the certificate otherwise."""
    if not mechanism.covers_left_out:
        raise NotCovered(
            f"a {mechanism.name} profile does not say what leaving a record out does, which "
            "Poisson sampling under replace_one needs; use add_remove or a fixed-size scheme"
        )
    # Small groups have a whole law; of larger ones what is cut off is added to delta.
    law = scheme.law(group) if group <= MOST_TAKEN else scheme.law(group, TAIL)
    if law.eta < RAREST:  # what is not taken tells nothing: the chance itself is the bound
        return np.full(epsilon.size, min(1.0, law.eta * (1.0 + 1e-9) + law.cut))
    shift = mechanism.shift_for(2.0)
    noise = mechanism.attained(shift)
    if not mechanism.in_a_ball or shift is None or not isinstance(noise, Noise):
        # Swapping a record and leaving it out may both move the result by the whole shift.
        return certificate(law, profiles, epsilon)[0]
    return replaced_records(law, noise, shift, epsilon)


def _moves_wholly(scheme: Scheme, mechanism: Mechanism, relation: Relation) -> bool:
    """Whether a record can move the result by the whole shift away from where others leave it.

    In a ball its place must be filled for that, or be empty and the shift that of one record.
    """
    filled = not scheme.leaves_empty or relation == Relation.ADD_REMOVE
    return filled or not mechanism.in_a_ball


def _is_exact(scheme: Scheme, relation: Relation) -> bool:
    return isinstance(scheme, Poisson) or relation == Relation.ADD_REMOVE


def _one_slope(
    scheme: Scheme, profiles: GroupProfiles, relation: Relation, group: int, epsilon: FloatArray
) -> FloatArray | None:
    """The paper's bound where it is valid: its own relation, for groups too."""
    if isinstance(scheme, TruncatedPoisson):
        return None
    if isinstance(scheme, Poisson) != (relation == Relation.ADD_REMOVE):
        return None
    return one_slope_bound(scheme.law(group), profiles, epsilon)


# Upper profiles of one atom, as frozen objects that are called with epsilons.
#
# Each turns what describes an atom into a certified profile at epsilon >= 0, rounded up. They are
# objects rather than functions inside functions so that they can be compared, sent and read.

#: Looks at a profile that are kept.
_KEPT = 12


@dataclass(frozen=True, eq=False)
class GroupProfile:
    """One member of a family of group profiles, its rounding error added."""

    profiles: GroupProfiles
    group: int = 1

    def __call__(self, epsilon: FloatArray) -> FloatArray:
        """The profile at many epsilons."""
        value = self.profiles.delta(np.array([float(self.group)]), epsilon[:, None])[:, 0]
        return np.minimum(value * (1.0 + self.profiles.relative_error), 1.0)


@dataclass(frozen=True, eq=False)
class SubsampledProfile:
    """A mechanism on one draw of a scheme, in one direction or in the worse of both."""

    scheme: Scheme
    mechanism: Mechanism
    relation: Relation
    direction: Direction = "both"
    group: int = 1

    def __call__(self, epsilon: FloatArray) -> FloatArray:
        """The profile at many epsilons; the last looks are kept."""
        key = epsilon.tobytes()
        seen = self._looks.get(key)
        if seen is None:
            if len(self._looks) >= _KEPT:
                self._looks.clear()
            seen = self._looks[key] = frozen(upper_bound(
                self.scheme, self.mechanism, epsilon, relation=self.relation,
                direction=self.direction, group=self.group, inside=self._inside,
            ))  # fmt: skip
        return seen

    @cached_property
    def _looks(self) -> dict[bytes, FloatArray]:
        return {}

    @cached_property
    def _inside(self) -> GroupProfiles | None:
        """The stages within the first, whose tables serve every look at this profile."""
        if not isinstance(self.scheme, Multistage) or len(self.scheme.reduced) < 2:
            return None
        profiles = self.mechanism.profiles(shift_of(self.mechanism, self.scheme, self.relation))
        return staged_inside(self.scheme, profiles, LARGEST_EPSILON)


@dataclass(frozen=True, eq=False)
class OneSlopeProfile:
    """The same by the paper's theorem, in which one slope serves every multiplicity."""

    law: MultiplicityLaw
    profiles: GroupProfiles

    def __call__(self, epsilon: FloatArray) -> FloatArray:
        """The profile at many epsilons."""
        return one_slope_bound(self.law, self.profiles, epsilon)


@dataclass(frozen=True, eq=False)
class ReusedProfile:
    """A subset that several releases share: the certificate around what was composed inside."""

    law: MultiplicityLaw
    inside: GroupProfiles

    def __call__(self, epsilon: FloatArray) -> FloatArray:
        """The profile at many epsilons."""
        return certificate(self.law, self.inside, epsilon)[0]


@dataclass(frozen=True, eq=False)
class ReusedDirection:
    """The same under add_remove, where the place of a record stays empty: one of two directions."""

    law: MultiplicityLaw
    inside: GroupProfiles
    remove: bool

    def __call__(self, epsilon: FloatArray) -> FloatArray:
        """The profile at many epsilons."""
        bound = remove_direction if self.remove else add_direction
        return bound(self.law, self.inside, epsilon)
