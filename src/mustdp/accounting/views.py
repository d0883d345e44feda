"""Other views of an account: trade-off curve, Renyi orders, Gaussian DP, zero-concentrated DP.

All of them are read off the same dominating pair (upper side) and the same named pairs (lower
side). Each result says whether it is a bound or an approximation, and of what.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mustdp.mechanisms.noise import GaussianNoise

FloatArray = NDArray[np.float64]

#: Views that need a whole curve look at deltas down to this.
SMALLEST_DELTA = 1e-20


@dataclass(frozen=True, eq=False)
class Tradeoff:
    """Missed-detection rates of an attacker at given false-positive rates.

    ``lower`` is certified: no attacker on any pair of neighbours misses less often. ``upper`` is
    reached: an attacker on the named pair misses at most this often.
    """

    false_positive: FloatArray
    lower: FloatArray
    upper: FloatArray


@dataclass(frozen=True, eq=False)
class Renyi:
    """Renyi divergences by order.

    ``upper`` bounds the divergence of every pair of neighbours outside an event of probability
    ``outside`` (losses so rare that they were counted as infinite). ``lower`` is reached by a named
    pair outside such an event; without it, sampling with replacement has astronomically large
    divergences from the draw that holds nothing but copies of one record. Epsilons converted from
    these (:meth:`epsilon`) are looser than the account's own.
    """

    orders: FloatArray
    lower: FloatArray
    upper: FloatArray
    outside: float

    def epsilon(self, delta: float) -> float:
        """Upper bound of epsilon by Canonne, Kamath & Steinke 2020 (arXiv 2004.00010v3), Prop. 12.

        Looser than :meth:`Account.epsilon`; ``outside`` is taken off delta first.
        """
        left = delta - self.outside
        if not left > 0:
            return float("inf")
        a = self.orders
        spent = self.upper + np.log1p(-1.0 / a) - (np.log(left) + np.log(a)) / (a - 1.0)
        return float(max(0.0, np.min(spent)))


@dataclass(frozen=True)
class Summary:
    """One number for a whole curve, with what it is."""

    value: float
    meaning: str


def tradeoff(
    false_positive: FloatArray, epsilon: FloatArray, lower: FloatArray, upper: FloatArray
) -> Tradeoff:
    """The trade-off curve from delta bounds at a grid of epsilon >= 0.

    A pair with profile delta has missed-detection rate at least 1 - delta(eps) - e^eps fpr and at
    least e^-eps (1 - delta(eps) - fpr), for every eps, and the supremum over eps is attained.
    """
    fpr = false_positive[:, None]
    alpha = np.exp(epsilon)

    def missed(delta: FloatArray) -> FloatArray:
        first = 1.0 - delta - alpha * fpr
        second = (1.0 - delta - fpr) / alpha
        return np.asarray(np.clip(np.maximum(first, second).max(axis=1), 0.0, 1.0))

    return Tradeoff(false_positive, missed(upper), missed(lower))


def gaussian_dp(epsilon: FloatArray, upper: FloatArray) -> Summary:
    """The smallest mu whose Gaussian profile lies above the upper bound."""
    noise = GaussianNoise()
    seen = upper >= SMALLEST_DELTA
    eps, values = epsilon[seen], upper[seen]

    def covers(mu: float) -> bool:
        return bool(np.all(noise.profile(np.array(mu), eps) >= values))

    low, high = 1e-9, 1.0
    while not covers(high):
        high *= 2.0
        if high > 1e6:
            return Summary(float("inf"), "no mu up to 1e6 covers the account")
    while high - low > 1e-6 * high:
        middle = 0.5 * (low + high)
        low, high = (low, middle) if covers(middle) else (middle, high)
    return Summary(
        high,
        f"upper bound of mu-GDP on a grid of {int(seen.sum())} epsilons, for deltas down to "
        f"{SMALLEST_DELTA:g}",
    )


def zero_concentrated(renyi: Renyi) -> Summary:
    """The smallest rho with D_a <= rho a at the orders given: an approximation between them."""
    rho = float(np.max(renyi.upper / renyi.orders))
    return Summary(
        rho,
        f"rho of zCDP over {renyi.orders.size} orders from {renyi.orders.min():g} to "
        f"{renyi.orders.max():g}, outside an event of probability {renyi.outside:.3g}",
    )
