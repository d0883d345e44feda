"""The paper's composition of the symmetric pair, by differences of cdfs and with a narrow interval.

[Z] = Zhao, Zhou & Liu, arXiv 2312.13389, composes one pair of data sets: the differing record
contributes +C in one and -C in the other, all others contribute 0, so that with z = sigma / C

    fixed size   sum_l p_l N(l, z^2)     against  sum_l p_l N(-l, z^2)     (replace_one)
    Poisson      (1-q) N(0) + q N(1)     against  N(0)                     (add_remove, remove)

What this pair attains is a lower bound of the privacy loss, not a guarantee: other pairs of data
sets attain far more (the aligned pair 0.038 where this one attains 1.5e-4 in the paper's example).

The value of the pair itself is enclosed here from both sides. From below its outcomes are merged
onto the grid (``pld/discretise.py``), from above the dots of its hockey-stick profile are
connected (``pld/discretise.py``); the grid is refined until both meet. How the authors compute the
same number, from sampled densities, is kept in ``composition.py``.

``account(plan, method="paper")`` and ``mustdp account --method paper`` lead here.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from threading import RLock
from typing import cast

import numpy as np

from mustdp.accounting.account import ACCURACY, relation_of
from mustdp.accounting.atoms import LAW_TAIL, subsampled_pair
from mustdp.accounting.certify import Fractions, GridAnswer, refine
from mustdp.accounting.plan import Atom, Plan, Subsample, atoms
from mustdp.accounting.pld.discretise import (
    DominatingPair,
    Mixture,
    MixturePair,
    ScoutedPairs,
    family_pair,
    merge,
    survey,
)
from mustdp.accounting.pld.readoff import ComposedLoss, DeltaAt, EpsilonAt, Question, UpperCurve
from mustdp.accounting.subsampling.one_step import symmetric_threshold
from mustdp.errors import NotCovered, NumericalFailure
from mustdp.limits import SMALLEST_DELTA
from mustdp.mechanisms.mechanism import PROFILE_ERROR, Mechanism, Noise, Proof, has_proof
from mustdp.mechanisms.relation import Relation, default_relation, shift_of
from mustdp.numerics import checks
from mustdp.numerics.arrays import ROUNDOFF, FloatArray
from mustdp.sampling.schemes import MultiplicityLaw, Scheme, TruncatedPoisson

# The profile of the symmetric pair, rounded up.


#: Entries that are worked on at once.
_BLOCK = 1_000_000


@dataclass(frozen=True, eq=False)
class SymmetricProfile:
    """The profile of the symmetric pair as a function of many epsilons, worked off in blocks."""

    law: MultiplicityLaw
    noise: Noise
    shift: float

    def __call__(self, epsilon: FloatArray) -> FloatArray:
        """The profile at many epsilons."""
        rows = max(1, _BLOCK // self.law.probabilities.size)
        blocks = [epsilon[start : start + rows] for start in range(0, epsilon.size, rows)]
        parts = [symmetric_above(self.law, self.noise, self.shift, block) for block in blocks]
        return np.concatenate(parts)


def symmetric_above(
    law: MultiplicityLaw, noise: Noise, shift: float, epsilon: FloatArray
) -> FloatArray:
    """H(sum_j p_j N(j s/2) || sum_j p_j N(-j s/2)) at e^epsilon, epsilon >= 0, rounded up.

    With d_j = j s/2 and u_j, v_j the log ratios of N(d_j) and N(-d_j) against N(0) at t, the half-
    line above t is best for alpha(t) = sum p_j e^{u_j} / sum p_j e^{v_j}, and there

        h(alpha) = sum_j p_j delta_{d_j}(u_j) + alpha sum_j p_j e^{v_j} delta_{d_j}(-v_j),

    a sum of positive terms. Profiles decrease, so any t with alpha(t) <= e^epsilon bounds h from
    above. An error e of the law on both sides costs another factor (1 - e)/(1 + e) of alpha.
    """
    occurs = law.probabilities > 0
    p = law.probabilities[occurs]
    distance = law.values[occurs].astype(np.float64) * (shift / 2.0)
    mixture = Mixture(p, distance)
    t = symmetric_threshold(law, noise, shift, epsilon)
    _, found, slope = loss_at(noise, mixture, mixture, t)
    nats = 64.0 + epsilon + distance.max() * (np.abs(t) + distance.max())
    rounding = ROUNDOFF * (8.0 * nats + 4.0 * p.size)
    aim = epsilon - 4.0 * law.relative_error - 4.0 * rounding
    t = t - np.maximum(found - aim, 0.0) / slope
    below = loss_at(noise, mixture, mixture, t)[1] + rounding
    if not np.all(below <= epsilon - 3.0 * law.relative_error):
        worst = int(np.argmax(below - epsilon))
        raise NumericalFailure(
            f"the profile of the symmetric pair could not be rounded up at epsilon = "
            f"{epsilon[worst]!r} (threshold {t[worst]!r}, loss {below[worst]!r})"
        )
    p, d = p[distance > 0], distance[distance > 0]
    up, down = noise.log_ratio(d, t[:, None])[0], noise.log_ratio(d, -t[:, None])[0]
    room = rounding[:, None]
    first = np.maximum(noise.profile(d, up - room), noise.smallest)
    second = np.maximum(noise.profile(d, -down - room), noise.smallest)
    value = first @ p + (np.exp(below[:, None] + down + room) * second) @ p
    value = value * (1.0 + PROFILE_ERROR + 2.0 * law.relative_error) + law.cut
    return np.asarray(np.minimum(value, 1.0))


def loss_at(
    noise: Noise, p: Mixture, q: Mixture, x: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Of ``p`` to the right against ``q`` to the left: log dP/dN(0), log dP/dQ and its slope."""
    high, rise = _log_sum(noise, p, x)
    low, fall = _log_sum(noise, q, -x)
    return high, high - low, rise + fall


def _log_sum(noise: Noise, mixture: Mixture, x: FloatArray) -> tuple[FloatArray, FloatArray]:
    logs, speed = noise.log_ratio(mixture.distances, x[:, None])
    logs = logs + np.log(mixture.weights)
    top = logs.max(axis=1)
    weights = np.exp(logs - top[:, None])
    total = weights.sum(axis=1)
    return top + np.log(total), (weights * speed).sum(axis=1) / total


LABEL = "attained by one pair of data sets, not a guarantee"

#: They decide the time alone, as in ``accounting/certify.py``.
_FRACTIONS = Fractions(first=0.075, finest=0.075 / 64, boldness=1.1, last_look=True)


@dataclass(frozen=True, repr=False)
class Attained:
    """An interval around a value attained by one pair of data sets: not a guarantee.

    The pair's own delta (or epsilon) lies in it. Neither end bounds what another pair of
    neighbouring data sets can lose, and neither must be quoted as privacy.

    Attributes
    ----------
    attained_lower : float
        The lower end.
    attained_upper : float
        The upper end.

    Examples
    --------
    >>> import mustdp as md
    >>> step = md.subsample(md.must_ow(1000, 50, 10), md.gaussian(noise_multiplier=2.0))
    >>> found = md.account(step, method="paper").delta(1.0)
    >>> found.attained_lower <= found.attained_upper
    True
    """

    attained_lower: float
    attained_upper: float

    def __repr__(self) -> str:
        ends = f"attained_lower={self.attained_lower!r}, attained_upper={self.attained_upper!r}"
        return f"Attained({ends}; {LABEL})"


@dataclass(frozen=True)
class _NarrowDelta(DeltaAt):
    """Delta of a pair: both ends of the interval are known, so its own width is what counts."""

    def tolerance(self, answer: float, accuracy: float) -> float:
        """So that the upper end is at most ``1 + accuracy`` times the lower."""
        return max(answer - answer / (1.0 + accuracy), SMALLEST_DELTA)


class PaperAccount:
    """The symmetric pair (Poisson: the remove pair) of a plan of subsampled Gaussian releases.

    May be shared between threads, which wait for each other, and pickled.

    Parameters
    ----------
    plan : Plan
        What is released.
    delta_width : float, default=0.01
        Relative width of the intervals of delta, from 1e-5 to 1.
    epsilon_width : float, default=1e-3
        Relative width of the intervals of epsilon, from 1e-5 to 1.

    Attributes
    ----------
    relation : Relation
        Which data sets are neighbours.
    steps : int
        Number of releases on a draw of their own.
    method : str
        "paper".

    Raises
    ------
    NotCovered
        The plan is not one of subsampled Gaussian releases, or mixes Poisson sampling with schemes
        of fixed size.

    Examples
    --------
    >>> import mustdp as md
    >>> step = md.subsample(md.must_ow(1000, 50, 10), md.gaussian(noise_multiplier=2.0))
    >>> paper = md.account(step, method="paper")
    >>> paper.method, paper.delta(0.5).attained_upper < 0.01
    ('paper', True)
    """

    method = "paper"

    def __init__(
        self, plan: Plan, *, delta_width: float = 0.01, epsilon_width: float = 1e-3
    ) -> None:
        self.plan = plan
        self._delta_width = checks.real("delta_width", delta_width, at_least=1e-5, at_most=1)
        self._epsilon_width = checks.real("epsilon_width", epsilon_width, at_least=1e-5, at_most=1)
        counted = atoms(plan)
        released = [_subsampled_gaussian(atom) for atom in counted]
        relations = {default_relation(scheme) for scheme, _ in released}
        if len(relations) > 1:
            raise NotCovered(
                "the paper's composition does not mix Poisson sampling with schemes of fixed size: "
                "their neighbouring data sets differ"
            )
        self.relation: Relation = relations.pop()
        self.steps = sum(counted.values())
        self._shifts = [shift_of(noise, scheme, self.relation) for scheme, noise in released]
        # A record that is never drawn leaves no trace.
        drawn = [k for k, (scheme, _) in enumerate(released) if scheme.eta > 0]
        self._counts = [list(counted.values())[k] for k in drawn]
        self._pairs = [_pair(*released[k]) for k in drawn]
        self._composed: dict[float, tuple[ComposedLoss, UpperCurve]] = {}
        self._lock = RLock()

    def __reduce__(self) -> tuple[Callable[..., PaperAccount], tuple[Plan, float, float]]:
        """What is sent elsewhere is the description; it is worked out again there."""
        return _described, (self.plan, self._delta_width, self._epsilon_width)

    @property
    def shift(self) -> float | None:
        """The shift of one copy; None if atoms differ in it."""
        return self._shifts[0] if len(set(self._shifts)) == 1 else None

    def delta(self, epsilon: float) -> Attained:
        """The pair's delta at an epsilon: attained, not a guarantee.

        Parameters
        ----------
        epsilon : float
            The epsilon to ask about, from 0 to 500.

        Returns
        -------
        Attained
            Both ends of an interval around it.
        """
        return self._enclose(_NarrowDelta(epsilon), self._delta_width)

    def epsilon(self, delta: float) -> Attained:
        """The pair's epsilon at a delta: attained, not a guarantee.

        Parameters
        ----------
        delta : float
            The delta to ask about, from 1e-25 to below 1.

        Returns
        -------
        Attained
            Both ends of an interval around it.
        """
        return self._enclose(EpsilonAt(delta), self._epsilon_width)

    def _enclose(self, question: Question, width: float) -> Attained:
        """Refine the grid until upper and lower value are close enough."""
        if not self._pairs:
            return Attained(0.0, 0.0)

        def look_at(fraction: float) -> GridAnswer[Attained]:
            below, above = self._sides(fraction)
            upper = above.value(question)
            lower = min(question.of_composed(below), upper)
            room = question.tolerance(upper, width) if math.isfinite(upper) else 0.0
            return GridAnswer(
                Attained(lower, upper),
                good_enough=upper - lower <= room,
                excess=(upper - lower) / room if room > 0 else 4.0,
                shortfall=f"{question.name} of the pair is between {lower!r} and {upper!r} at "
                f"{question.at!r}; the interval could not be narrowed to {room:.3g}",
            )

        with self._lock:
            return refine(look_at, _FRACTIONS)

    def _sides(self, fraction: float) -> tuple[ComposedLoss, UpperCurve]:
        """Lower and upper side at one spacing."""
        if fraction not in self._composed:
            grid = self._survey.grid(fraction)
            below = []
            for (concrete, _), points in zip(self._pairs, grid.points, strict=True):
                # A law may have gaps, whose weights are zero.
                with np.errstate(divide="ignore"):
                    below.append(merge(concrete, grid.spacing, points))
            above = UpperCurve([pair for _, pair in self._pairs], self._counts, grid)
            attained = ComposedLoss(list(zip(below, self._counts, strict=True)), "lower")
            self._composed[fraction] = attained, above
        return self._composed[fraction]

    @cached_property
    def _survey(self) -> ScoutedPairs:
        return survey((pair for _, pair in self._pairs), self._counts)


def paper_account(
    plan: Plan, *, relation: str | None, accuracy: float | None, group: int
) -> PaperAccount:
    """The answer to ``account(plan, method="paper")``; what the paper has not is refused."""
    used = relation_of(atoms(plan), relation)
    for atom in atoms(plan):
        if isinstance(atom, Subsample) and isinstance(atom.scheme, TruncatedPoisson):
            raise NotCovered("the paper's composition has no Poisson sampling with a cap")
    if group > 1:
        raise NotCovered.refusing(
            "group", "must be 1 with {method} paper", group, mentions=("method",)
        )
    found = PaperAccount(plan, epsilon_width=ACCURACY if accuracy is None else accuracy)
    if relation is not None and used != found.relation:
        raise NotCovered.refusing(
            "relation",
            f"must be {{{found.relation.value}}} for this plan with {{method}} paper",
            f"{{{used.value}}}",
            mentions=(*Relation, "method"),
        )
    return found


def _described(plan: Plan, delta_width: float, epsilon_width: float) -> PaperAccount:
    return PaperAccount(plan, delta_width=delta_width, epsilon_width=epsilon_width)


def _subsampled_gaussian(atom: Atom) -> tuple[Scheme, Mechanism]:
    """What one atom consists of, if the paper's composition covers it."""
    if isinstance(atom, Subsample):
        inner = atom.inner
        if has_proof(inner, Proof.GAUSSIAN):
            return atom.scheme, cast("Mechanism", inner)
    raise NotCovered(
        "the paper's composition covers subsampled Gaussian noise only, "
        "subsample(scheme, gaussian(...)) repeated or in sequence"
    )


def _pair(scheme: Scheme, mechanism: Mechanism) -> tuple[MixturePair, DominatingPair]:
    """The pair as it is, and its profile in both orders rounded up."""
    relation = default_relation(scheme)
    law, noise = scheme.law(1, LAW_TAIL), cast("Noise", mechanism.attained(None))
    shift = checks.real("shift", shift_of(mechanism, scheme, relation), above=0)
    if relation == Relation.ADD_REMOVE:
        concrete = family_pair("aligned", law, noise, shift)
        return concrete, subsampled_pair(scheme, mechanism, relation)
    concrete = family_pair("symmetric", law, noise, shift)  # its own mirror image, so self-dual
    return concrete, DominatingPair.of(SymmetricProfile(law, noise, shift))
