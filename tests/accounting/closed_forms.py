"""Gaussian noise: k steps of shift s are one step of shift s sqrt(k), with 60 digits."""

from __future__ import annotations

from functools import cache

import mpmath as mp


def exact_delta(mu: float, epsilon: float) -> mp.mpf:
    """Phi(mu/2 - eps/mu) - e^eps Phi(-mu/2 - eps/mu)."""
    with mp.workdps(60):
        m, e = mp.mpf(mu), mp.mpf(epsilon)
        above = mp.erfc((e / m - m / 2) / mp.sqrt(2)) / 2
        below = mp.erfc((e / m + m / 2) / mp.sqrt(2)) / 2
        return above - mp.exp(e) * below


@cache
def exact_epsilon(mu: float, delta: float) -> float:
    """The smallest epsilon >= 0 that meets ``delta``, to 13 digits."""
    low, high = 0.0, 60.0 * mu + mu * mu
    if exact_delta(mu, 0.0) <= delta:
        return 0.0
    while high - low > 1e-13 * high:
        middle = 0.5 * (low + high)
        low, high = (middle, high) if exact_delta(mu, middle) > delta else (low, middle)
    return high
