"""The exponential mechanism, and any other mechanism of bounded range.

Dong, Durfee & Rogers 2020, arXiv 1909.13830: a mechanism has range E if on neighbouring data sets
the losses L = log(dP/dQ) of any two outputs differ by at most E. The exponential mechanism with
epsilon = E has range E, and a range of E implies pure differential privacy with epsilon = E.

*The profile of one release.* Losses lie in some interval [t - E, t]; as E_Q e^L = 1, t is between 0
and E. At alpha = e^eps the divergence E_Q max(0, e^L - alpha) is the mean of a convex function of
e^L, whose own mean is 1. So it is largest if L is at one of the ends of the interval, t or t - E:
then P(L = t) = (1 - e^{t-E})/(1 - e^{-E}), and for t - E <= eps <= t

    delta_t(eps) = P(L = t) (1 - e^{eps-t}) = (1 - e^{t-E}) (1 - e^{eps-t}) / (1 - e^{-E}).

The product of the brackets is 1 + e^{eps-E} - (e^{t-E} + e^{eps-t}). The two terms of the last sum
have a constant product, so the sum is least where they are equal, at t = (eps + E)/2, and

    delta(eps) = (1 - e^{(eps-E)/2})^2 / (1 - e^{-E}) for |eps| <= E,

0 above, 1 - e^eps below. In the other order of the neighbours t becomes E - t, so that the profile
is its own dual. As the largest of convex functions of alpha it is convex, and the profile of some
pair, which dominates every mechanism of range E, in adaptive compositions too (Zhu, Dong & Wang
2022, arXiv 2106.08567v4, Proposition 8 and Theorem 10).

*Groups.* Losses along a path of j neighbours add up, and so do their ranges: j records have range
j E.

*What is attained.* Every eps has its own t, and one pair of data sets has one t: the profile is
attained at each eps, not at all of them at once. Listed is t = E/2, the worst at eps = 0, where the
bounds of one release meet; at eps >= E/2 that pair has no divergence left. In compositions a single
t is not the worst either, but with many steps t = E/2 is close to the worst of them; the upper
bound composes the profile, which is safe and not tight.

*Permute-and-flip* (McKenna & Sheldon 2020, arXiv 2010.12603) goes through the candidates in random
order and releases one of utility u with chance e^{epsilon (u - max)/(2D)}. It has no bounded range;
that it is epsilon differentially private is their Theorem 1, and all that the upper bound uses. It
is the largest utility after exponential noise (Ding et al. 2021, arXiv 2105.07260), so of two
candidates one is released with the chance that Laplace noise on the difference leaves it ahead:
listed is the pair in which one record turns a difference of -D into D.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

import numpy as np
from scipy.special import expit

from mustdp.mechanisms.mechanism import (
    DiscreteOutcomes,
    GroupProfiles,
    Mechanism,
    TabulatedProfiles,
    dual,
)
from mustdp.mechanisms.registry import MECHANISM_EPSILON, register
from mustdp.mechanisms.stated import StatedGuarantee
from mustdp.numerics import checks
from mustdp.numerics.arrays import FloatArray, IntArray
from mustdp.numerics.convex import TangentTable, two_sided

#: The largest loss that is tabulated.
_REACH = 690.0
#: Relative rounding of the range of a group, generously.
_ROUNDING = 1e-14
#: Scores end here, where chances are far from underflow.
_LARGEST_SCORE = 500.0


@dataclass(frozen=True)
class TwoCandidates(DiscreteOutcomes):
    """The exponential mechanism with two candidates, one of which gains from every copy."""

    epsilon: float

    relative_error = 1e-12  # of exponentials of scores
    attains_profile = False
    placements: ClassVar[Mapping[str, tuple[int, int]]] = {"aligned": (1, 0), "reversed": (0, 1)}

    def masses(self, places: IntArray) -> FloatArray:
        """Of either candidate: one copy turns log odds of -epsilon/2 into epsilon/2."""
        score = self.epsilon * (places.astype(np.float64) - 0.5)
        score = np.clip(score, -_LARGEST_SCORE, _LARGEST_SCORE)
        return np.stack([expit(score), expit(-score)], axis=1)


class TwoFlipped(TwoCandidates):
    """Permute-and-flip with two candidates, one of which gains from every copy."""

    def masses(self, places: IntArray) -> FloatArray:
        """Of either candidate: the less useful one has half of what its coin shows."""
        score = self.epsilon * (places.astype(np.float64) - 0.5)
        rare = 0.5 * np.exp(-np.minimum(np.abs(score), _LARGEST_SCORE))
        first = np.where(score > 0.0, 1.0 - rare, rare)
        return np.stack([first, np.where(score > 0.0, rare, 1.0 - rare)], axis=1)


class BoundedRangeProfiles(TabulatedProfiles):
    """Group profiles: the largest divergence of all pairs with the range of the group."""

    relative_error = 1e-13

    def __init__(self, epsilon: float) -> None:
        self._epsilon = epsilon
        super().__init__(_REACH)

    def delta(self, groups: FloatArray, epsilon: FloatArray) -> FloatArray:
        """By the formula above, with the range rounded up."""
        j, e = np.broadcast_arrays(groups, np.asarray(epsilon, dtype=np.float64))
        whole = j * self._epsilon * (1.0 + _ROUNDING)
        gained = -np.expm1(np.minimum(np.abs(e) - whole, 0.0) / 2.0)
        return dual(np.minimum(np.square(gained) / -np.expm1(-whole), 1.0), e)

    def _table(self, group: int) -> TangentTable:
        whole = group * self._epsilon
        end = min(whole, _REACH)
        # The slope falls to 0 towards the end, and its logit moves fast there.
        shares = np.concatenate([np.linspace(0.0, 1.0, 120), 1.0 - np.geomspace(1e-9, 8e-3, 40)])
        beyond = np.append(1.001, np.geomspace(1.01, max(1.02, _REACH / end), 40))
        epsilon = np.unique(end * np.concatenate([shares, beyond]))
        value = self.delta(np.array([float(group)]), epsilon[:, None])[:, 0]
        left = np.maximum(whole - epsilon, 0.0)
        slope = np.exp(-(whole + epsilon) / 2.0) * np.expm1(-left / 2.0) / np.expm1(-whole)
        return two_sided(epsilon, value, slope)


@dataclass(frozen=True)
class ExponentialMechanism(Mechanism):
    """Any mechanism of this range (see :func:`exponential_mechanism`)."""

    mechanism_epsilon: float

    name: ClassVar[str] = "exponential-mechanism"

    def __post_init__(self) -> None:
        limits = {"at_least": 1e-9, "at_most": 100.0}
        checked = checks.real("epsilon", self.mechanism_epsilon, **limits)
        object.__setattr__(self, "mechanism_epsilon", checked)

    def shift_for(self, moves: float) -> None:
        """A choice has no shift."""
        return

    def profiles(self, shift: float | None) -> GroupProfiles:
        """Those of the worst pairs of this range, one for every epsilon."""
        return BoundedRangeProfiles(self.mechanism_epsilon)

    def attained(self, shift: float | None) -> DiscreteOutcomes:
        """The pair that is worst at epsilon = 0."""
        return TwoCandidates(self.mechanism_epsilon)

    def describe(self) -> dict[str, Any]:
        """Plain description, for JSON."""
        return {"mechanism": self.name, **asdict(self)}


@dataclass(frozen=True)
class PermuteAndFlip(StatedGuarantee):
    """Permute-and-flip (see :func:`permute_and_flip`)."""

    name: ClassVar[str] = "permute-and-flip"

    def attained(self, shift: float | None) -> DiscreteOutcomes:
        """Two candidates of which the other is better with and without the record."""
        return TwoFlipped(self.mechanism_epsilon)


@register(
    summary="one candidate by its utility; any mechanism of bounded range (Dong et al. 2020)",
    arguments=(MECHANISM_EPSILON,),
    examples=({"mechanism_epsilon": 2.0}, {"mechanism_epsilon": 1.0}, {"mechanism_epsilon": 0.2}),
)
def exponential_mechanism(epsilon: float) -> Mechanism:
    """One candidate, drawn by the exponential mechanism, or any mechanism of range ``epsilon``.

    A candidate of utility u is drawn with a chance proportional to e^{epsilon u / (2 D)}, where D
    bounds what one record changes in any utility. For utilities that one record changes by 0 to D,
    all in the same direction, it may be e^{epsilon u / D}. The largest utility after Gumbel noise
    has the same law (report-noisy-max with Gumbel noise). Other ways to choose, such as Laplace
    noise, are not covered: they need :func:`pure_dp`; :func:`permute_and_flip` has its own.

    D must hold for batches that differ in one entry: swapped for schemes of a fixed batch size,
    left out for Poisson sampling under add_remove.

    Parameters
    ----------
    epsilon : float
        The epsilon of one choice, from 1e-9 to 100: the range of its privacy losses.

    Returns
    -------
    Mechanism
        A plan of one release, to be subsampled and repeated.

    Notes
    -----
    Losses of one choice lie between t - epsilon and t, for some t from 0 to epsilon, and the worst
    choices have two outputs with just these losses. The upper bound of one release is the largest
    divergence over all t, (1 - e^{(x - epsilon)/2})^2 / (1 - e^{-epsilon}) at x from -epsilon to
    epsilon, where t = (x + epsilon)/2. Lower bounds are those of t = epsilon/2, which is the worst
    at x = 0; the two do not meet elsewhere, nor in compositions.

    References
    ----------
    Dong, Durfee & Rogers 2020, arXiv 1909.13830.

    Examples
    --------
    >>> import mustdp as md
    >>> chosen = md.repeat(100, md.exponential_mechanism(0.1))
    >>> print(f"{md.account(chosen).epsilon(delta=1e-5).upper:.2f}")
    2.32
    >>> print(f"{md.account(md.repeat(100, md.pure_dp(0.1))).epsilon(delta=1e-5).upper:.2f}")
    4.31
    """
    return ExponentialMechanism(epsilon)


@register(
    summary="one candidate by permute-and-flip (McKenna & Sheldon 2020)",
    arguments=(MECHANISM_EPSILON,),
    examples=({"mechanism_epsilon": 1.0}, {"mechanism_epsilon": 0.2}),
)
def permute_and_flip(epsilon: float) -> Mechanism:
    """One candidate, drawn by permute-and-flip, or report-noisy-max with exponential noise.

    Candidates are looked at in random order, and one of utility u is released with chance
    e^{epsilon (u - max)/(2 D)}, where D bounds what one record changes in any utility, for batches
    that differ in one entry (as for :func:`exponential_mechanism`). It is never less useful than
    the exponential mechanism of the same epsilon, and composes worse: it has no bounded range.

    Parameters
    ----------
    epsilon : float
        The epsilon of one choice, from 1e-9 to 100.

    Returns
    -------
    Mechanism
        A plan of one release, to be subsampled and repeated.

    Notes
    -----
    The upper bound is that of any mechanism with this epsilon; the lower one is attained by two
    candidates, whose divergence at x is 1 - e^{(x - epsilon)/2} for the worst of them. The two do
    not meet.

    References
    ----------
    McKenna & Sheldon 2020, arXiv 2010.12603, Theorem 1; Ding et al. 2021, arXiv 2105.07260.

    Examples
    --------
    >>> import mustdp as md
    >>> chosen = md.account(md.repeat(100, md.permute_and_flip(0.1))).epsilon(delta=1e-5)
    >>> print(f"{chosen.lower:.2f} {chosen.upper:.2f}")
    4.19 4.31
    """
    return PermuteAndFlip(epsilon)
