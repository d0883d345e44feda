"""What so many right guesses in one run say about its privacy.

The game: m bits are thrown independently and fairly, each decides what one record of the data is, a
mechanism runs once, and somebody guesses some of the bits from what it released. Guessing too well
contradicts a claim about the mechanism.

*Claim (epsilon, delta).* Steinke, Nasr & Jagielski 2023, arXiv 2305.08846v1, Theorem 5.2: among r
guesses, v or more are right with chance at most

    P(B >= v) + 2 m delta max over i of P(v > B >= v - i) / i,      B = Bin(r, 1/(1 + e^-epsilon)).

*Claim f-DP.* Mahloujifar, Melis & Chaudhuri 2024, arXiv 2410.22235v1, Theorem 3.2 and Algorithm 3,
for two possible values: suppose that v or more of r guesses are right with chance tau. Then the
chances r_i of "at least i right, and this one right" and h_i of "..., and this one wrong" obey

    h_v = tau (r - v)/m,  r_v = tau v/m,   h_i >= max(h_{i+1}, f(1 - r_{i+1})),
    r_i >= r_{i+1} + i/(r - i) (h_i - h_{i+1}),

down to i = 0, where r_0 + h_0 is the chance r/m that a given bit is guessed at all. If more comes
out, tau cannot be that large. f is symmetric: the trade-off curve covers both orders of neighbours.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.special import ndtr, ndtri
from scipy.stats import binom

from mustdp.errors import InvalidParameter
from mustdp.numerics import checks
from mustdp.numerics.arrays import FloatArray

#: Missed-detection rate at a false-positive rate: the trade-off curve f.
Curve = Callable[[float], float]

_LARGEST_MU = 1e3


def chance_under_epsilon(
    canaries: int, guesses: int, right: int, epsilon: float, delta: float
) -> float:
    """The most likely that ``right`` or more right guesses can be under (epsilon, delta)-DP."""
    check_counts(canaries, guesses, right)
    law = binom(guesses, 1.0 / (1.0 + np.exp(-epsilon)))
    steps = np.arange(1, right + 1)
    fewer = np.cumsum(law.pmf(right - steps)) / steps
    worst = float(fewer.max()) if right else 0.0
    return min(1.0, float(law.sf(right - 1)) + 2.0 * canaries * delta * worst)


def chance_under_curve(canaries: int, guesses: int, right: int, missed: Curve) -> float:
    """The same under f-DP with the trade-off curve ``missed``, from above to three digits."""
    check_counts(canaries, guesses, right)
    if not _contradicted(canaries, guesses, right, missed, 1.0):
        return 1.0
    low, high = 0.0, 1.0
    while high - low > 1e-3 * high and high > 1e-12:
        middle = 0.5 * (low + high)
        if _contradicted(canaries, guesses, right, missed, middle):
            high = middle
        else:
            low = middle
    return high


def least_epsilon(canaries: int, guesses: int, right: int, delta: float, doubt: float) -> float:
    """The largest epsilon that so many right guesses contradict, with ``doubt`` of being wrong."""

    def contradicted(epsilon: float) -> bool:
        return chance_under_epsilon(canaries, guesses, right, epsilon, delta) <= doubt

    return _largest(contradicted, 500.0)


def least_mu(canaries: int, guesses: int, right: int, doubt: float) -> float:
    """The largest mu of Gaussian DP that is contradicted."""

    def contradicted(mu: float) -> bool:
        return _contradicted(canaries, guesses, right, gaussian_curve(mu), doubt)

    return _largest(contradicted, _LARGEST_MU)


def gaussian_curve(mu: float) -> Curve:
    """The trade-off curve of a Gaussian shift by mu."""
    return lambda rate: float(ndtr(-ndtri(rate) - mu))


def curve_of(epsilon: FloatArray, delta: FloatArray) -> Curve:
    """The trade-off curve that deltas at epsilons >= 0 guarantee: the highest of their lines."""
    alpha, kept = np.exp(epsilon), 1.0 - delta

    def missed(rate: float) -> float:
        lines = np.maximum(kept - alpha * rate, (kept - rate) / alpha)
        return float(np.clip(lines.max(), 0.0, 1.0))

    return missed


def _contradicted(canaries: int, guesses: int, right: int, missed: Curve, tau: float) -> bool:
    """Whether ``right`` or more right guesses cannot have the chance ``tau``."""
    hit = tau * right / canaries
    miss = tau * (guesses - right) / canaries
    most = guesses / canaries
    for i in range(right - 1, -1, -1):
        more = max(miss, missed(1.0 - hit))
        hit += i / (guesses - i) * (more - miss)
        miss = more
        if hit + miss > most:
            return True
    return False


def _largest(contradicted: Callable[[float], bool], most: float) -> float:
    if not contradicted(0.0):
        return 0.0
    low, high = 0.0, 1.0
    while high < most and contradicted(high):
        low, high = high, 2.0 * high
    while high - low > 1e-4 * high:
        middle = 0.5 * (low + high)
        low, high = (middle, high) if contradicted(middle) else (low, middle)
    return low


def check_counts(canaries: int, guesses: int, right: int) -> None:
    """Refuse numbers of guesses that cannot be."""
    checks.integer("canaries", canaries, 1)
    checks.integer("guesses", guesses, 1, canaries)
    if not 0 <= checks.integer("right", right, 0) <= guesses:
        raise InvalidParameter.refusing("right", f"must be at most {guesses} guesses", right)
