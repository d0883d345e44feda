"""Other views of an account: trade-off curve, Renyi divergences, Gaussian DP, zero-concentrated
DP.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np

from mustdp.accounting.bounds import DeltaProfile
from mustdp.accounting.certify import (
    FRACTIONS,
    Computation,
    GridAnswer,
    UpperSide,
    in_both_orders,
    refine,
)
from mustdp.accounting.pld.readoff import LowerCurve, every_second
from mustdp.errors import Contradiction, NumericalFailure
from mustdp.mechanisms.mechanism import GaussianNoise
from mustdp.numerics.arrays import FloatArray
from mustdp.numerics.formatting import as_stated, readable

# Other views of an account: trade-off curve, Renyi orders, Gaussian DP, zero-concentrated DP.
#
# All of them are read off the same dominating pair (upper side) and the same named pairs (lower
# side). Each result says whether it is a bound or an approximation, and of what.


#: Views that need a whole curve look at deltas down to this.
NEGLIGIBLE_DELTA = 1e-20
#: Share of a rate of errors that does not matter.
_NOTHING = 1e-6


def smallest_counted(rates: FloatArray) -> float:
    """A delta that moves none of these rates, nor what is left to one, by a share that matters."""
    least = float(np.min(np.minimum(rates, 1.0 - rates), initial=0.5))
    return max(NEGLIGIBLE_DELTA, _NOTHING * least)


@dataclass(frozen=True, eq=False)
class Tradeoff:
    """Missed-detection rates of an attacker at given false-positive rates.

    Attributes
    ----------
    false_positive : ndarray
        The false-positive rates.
    lower : ndarray
        Certified: no attacker on any pair of neighbours misses less often.
    upper : ndarray
        Reached: an attacker on the named pair misses at most this often.
    gap : float
        How much of either rate is due to grids, estimated.
    coarse : bool
        That ``gap`` is more than the account's accuracy.

    Examples
    --------
    >>> import mustdp as md
    >>> curve = md.account(md.gaussian(noise_multiplier=2.0)).tradeoff([0.01, 0.1])
    >>> print(curve.lower.round(3))
    [0.908 0.611]
    """

    false_positive: FloatArray
    lower: FloatArray
    upper: FloatArray
    gap: float = 0.0
    coarse: bool = False


@dataclass(frozen=True, eq=False)
class Renyi:
    """Renyi divergences by order.

    Sampling with replacement has astronomically large divergences from the draw that holds nothing
    but copies of one record, and hardly any without it: ``approximate`` is what is left outside
    such events, as in approximate concentrated DP.

    Attributes
    ----------
    orders : ndarray
        The orders, above 1.
    lower : ndarray
        Reached by a named pair of data sets.
    upper : ndarray
        Bounds the divergence of every pair of neighbours, nothing left out; infinite if it is not
        known to be finite.
    outside : float
        Probability of the losses that are so rare that they were counted as infinite.
    approximate : ndarray
        Bounds the divergence outside an event of probability ``outside``.
    gap : float
        Which share of a divergence is due to the grid, estimated.
    coarse : bool
        That ``gap`` is more than the account's accuracy.

    Examples
    --------
    >>> import mustdp as md
    >>> renyi = md.account(md.gaussian(noise_multiplier=2.0)).renyi([2.0, 4.0])
    >>> print(renyi.upper.round(3))
    [1. 2.]
    """

    orders: FloatArray
    lower: FloatArray
    upper: FloatArray
    outside: float
    approximate: FloatArray
    gap: float = 0.0
    coarse: bool = False

    def epsilon(self, delta: float) -> float:
        """Upper bound of epsilon by Canonne, Kamath & Steinke 2020 (arXiv 2004.00010v3), Prop. 12.

        Looser than :meth:`Account.epsilon`. From ``approximate``: ``outside`` is taken off delta.

        Parameters
        ----------
        delta : float
            The delta to ask about.

        Returns
        -------
        float
            Infinite where delta is no more than ``outside``.
        """
        left = delta - self.outside
        if not left > 0:
            return float("inf")
        a = self.orders
        spent = self.approximate + np.log1p(-1.0 / a) - (np.log(left) + np.log(a)) / (a - 1.0)
        return float(max(0.0, np.min(spent)))


@dataclass(frozen=True)
class Summary:
    """One number for a whole curve, with what it is.

    Attributes
    ----------
    value : float
        The number.
    meaning : str
        Whether it is a bound or an approximation, and of what.
    gap : float
        How much of it is due to grids, estimated.
    coarse : bool
        That ``gap`` is more than the account's accuracy.

    Examples
    --------
    >>> import mustdp as md
    >>> mu = md.account(md.gaussian(noise_multiplier=2.0)).gaussian_dp()
    >>> round(mu.value, 3)
    1.0
    """

    value: float
    meaning: str
    gap: float = 0.0
    coarse: bool = False


def tradeoff(
    false_positive: FloatArray,
    epsilon: FloatArray,
    upper: FloatArray,
    attained: Sequence[tuple[FloatArray, FloatArray]],
) -> Tradeoff:
    """The trade-off curve from delta bounds at a grid of epsilon >= 0, the first of them 0.

    A pair (P, Q) with profiles h, h' of (P, Q) and (Q, P) has the missed-detection rate

        sup over alpha >= 1 of max(1 - h(alpha) - alpha fpr, (1 - h'(alpha) - fpr)/alpha).

    For a lower bound of it any alphas will do. For an upper bound all of them count: between two
    grid points h is at least what it is at the second. ``attained`` holds lower bounds of h and h'
    for each concrete pair; anyone who guesses misses 1 - fpr.
    """
    fpr = false_positive[:, None]
    alpha = np.exp(epsilon)

    def missed(ahead: FloatArray, behind: FloatArray) -> FloatArray:
        first = 1.0 - ahead - alpha * fpr
        second = (1.0 - behind - fpr) / alpha
        return np.asarray(np.clip(np.maximum(first, second).max(axis=1), 0.0, 1.0))

    reached = [missed(np.append(a[1:], 0.0), np.append(b[1:], 0.0)) for a, b in attained]
    guessed = 1.0 - false_positive
    return Tradeoff(false_positive, missed(upper, upper), np.min([guessed, *reached], axis=0))


def gaussian_dp(epsilon: FloatArray, upper: FloatArray) -> Summary:
    """The smallest mu whose Gaussian profile lies above the upper bound.

    Between grid points the account is at most its chord in alpha, and the Gaussian profile at least
    its tangent in the middle: both are lines, so they are compared at the ends.
    """
    noise = GaussianNoise()
    seen = np.append(True, upper[:-1] >= NEGLIGIBLE_DELTA)  # up to the first below
    eps, values = epsilon[seen], upper[seen]
    middle = 0.5 * (eps[:-1] + eps[1:])
    to_left, to_right = -np.expm1(eps[:-1] - middle), np.expm1(eps[1:] - middle)

    def covers(mu: float) -> bool:
        size = np.array(mu)
        height = noise.profile(size, middle)
        slope = np.exp(middle + noise.log_tail(noise.threshold(size, middle)))
        left, right = height + slope * to_left, height - slope * to_right
        return bool(np.all(left >= values[:-1]) and np.all(right >= values[1:]))

    low, high = 1e-9, 1.0
    while not covers(high):
        high *= 2.0
        if high > 1e6:
            return Summary(float("inf"), "no mu up to 1e6 covers the account")
    while high - low > 1e-6 * high:
        middle_mu = 0.5 * (low + high)
        low, high = (low, middle_mu) if covers(middle_mu) else (middle_mu, high)
    return Summary(
        high,
        f"upper bound: the account is mu-GDP for epsilon up to {readable(eps[-1], 'down', 4)}, "
        f"where delta is {readable(values[-1], 'up')}",
    )


def zero_concentrated(renyi: Renyi) -> Summary:
    """The smallest rho with D_a <= rho a for all orders between the smallest and the largest given.

    (a - 1) D_a is convex in a, hence below its chords; rho a (a - 1) is above its tangent in the
    middle between two orders a distance 2 h apart, which at the ends is h^2 rho lower.
    """
    a = renyi.orders
    gap = 0.5 * np.diff(a)
    widest = np.maximum(np.append(gap, 0.0), np.append(0.0, gap))
    room = a * (a - 1.0) - np.square(widest)
    if not np.all(room > 0):
        return Summary(float("inf"), "the orders are too far apart to say anything between them")
    rho = float(np.max((a - 1.0) * renyi.approximate / room))
    return Summary(
        rho,
        f"upper bound: rho of zCDP for orders from {as_stated(a.min())} to {as_stated(a.max())}, "
        f"outside an event of probability {readable(renyi.outside, 'up')}",
        renyi.gap * rho,
        renyi.coarse,
    )


# Views of an account at its accuracy: looked at on finer grids until those hardly matter.
#
# What a grid adds to a view is measured by leaving out every second point of it. What is out of
# reach of an accuracy that was asked for is refused; otherwise the last look is the answer, marked
# as coarse: each look is a bound by itself.


#: Epsilons at which a curve is looked at, at the first spacing.
_EPSILONS = 1500
#: Renyi divergences below this need not be more accurate than this one.
_SMALL_DIVERGENCE = 1e-9

View = TypeVar("View", Tradeoff, Renyi, Summary)


@dataclass(frozen=True)
class Viewer:
    """Looks at the computation of one account; ``strict`` if its accuracy was asked for."""

    work: Computation
    accuracy: float
    strict: bool
    #: Certified deltas by other means, such as a family of pairs.
    also: DeltaProfile

    def tradeoff(self, rates: FloatArray, end: float, smallest: float) -> Tradeoff:
        """Missed-detection rates, each as accurate as the account.

        Losses up to ``end`` count, and deltas down to ``smallest``.
        """

        def look(upper_side: UpperSide, lower_side: LowerCurve, eps: FloatArray) -> Tradeoff:
            upper = np.minimum(upper_side.curve(eps, smallest), self.also(eps))
            return tradeoff(rates, eps, upper, in_both_orders(lower_side, eps, smallest))

        def apart(fine: Tradeoff, rough: Tradeoff) -> float:
            # What is reached is off in first order of the distance of the epsilons.
            below = float(np.max(fine.lower - rough.lower)) / 3.0
            return max(below, float(np.max(rough.upper - fine.upper)))

        return self._refined(look, apart, end)

    def gaussian_dp(self, end: float) -> Summary:
        """The smallest mu, its relative accuracy that of the account."""

        def look(upper_side: UpperSide, _: LowerCurve, eps: FloatArray) -> Summary:
            return gaussian_dp(eps, upper_side.curve(eps, NEGLIGIBLE_DELTA))

        def apart(fine: Summary, rough: Summary) -> float:
            if math.isinf(fine.value):
                return 0.0
            return (rough.value - fine.value) / 3.0 / fine.value

        found = self._refined(look, apart, end)
        return replace(found, gap=found.gap * found.value if found.gap else 0.0)

    def renyi(self, orders: FloatArray) -> Renyi:
        """Divergences, their relative accuracy that of the account."""
        theta = orders - 1.0

        def look(upper_side: UpperSide, lower_side: LowerCurve, _: FloatArray) -> Renyi:
            upper = upper_side.whole_log_mgf(theta, self.work.moments)
            approximate, outside = upper_side.log_mgf(theta, NEGLIGIBLE_DELTA)
            lower = lower_side.log_mgf(theta, NEGLIGIBLE_DELTA)
            if not np.all(lower <= upper * (1.0 + 1e-9) + 1e-12):
                raise Contradiction("the bounds of the Renyi divergences contradict each other")
            lower, approximate = np.minimum(lower, upper), np.minimum(approximate, upper)
            return Renyi(orders, lower / theta, upper / theta, outside, approximate / theta)

        def apart(fine: Renyi, rough: Renyi) -> float:
            # What is left out at the top moves with the grid; the whole divergence does not.
            known = np.isfinite(fine.upper) & np.isfinite(rough.upper)
            low = np.where(known, fine.upper, fine.approximate)
            high = np.where(known, rough.upper, rough.approximate)
            return float(np.max((high - low) / np.maximum(low, _SMALL_DIVERGENCE))) / 3.0

        return self._refined(look, apart, None)

    def _refined(
        self,
        look: Callable[[UpperSide, LowerCurve, FloatArray], View],
        apart: Callable[[View, View], float],
        end: float | None,
    ) -> View:
        """The first look whose grid adds no more than the accuracy; epsilons go up to ``end``."""
        seen: list[View] = []

        def look_at(fraction: float) -> GridAnswer[View]:
            grid = self.work.grid(fraction)
            upper, lower = self.work.upper(grid), self.work.lower(grid)
            eps = np.zeros(1)
            if end is not None:
                count = round(_EPSILONS * FRACTIONS.first / fraction)
                eps = np.concatenate([eps, np.geomspace(1e-4, 1.0, count) * end])
            found = look(upper, lower, eps)
            rough = look(upper.coarser, lower.coarser, eps[every_second(eps)])
            gap = max(0.0, apart(found, rough))
            seen.append(replace(found, gap=gap))
            return GridAnswer(
                seen[-1],
                good_enough=gap <= self.accuracy,
                excess=gap / self.accuracy,
                finest=grid.finest,
                shortfall=f"grids still add {gap:.3g}, more than accuracy={self.accuracy:g} allows",
            )

        try:
            return refine(look_at, FRACTIONS)
        except Contradiction:
            raise
        except NumericalFailure:
            if self.strict or not seen:
                raise
            return replace(seen[-1], coarse=True)
