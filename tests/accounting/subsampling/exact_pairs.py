"""Hockey-stick divergences of concrete pairs by mpmath, to as many digits as asked for.

A pair is two mixtures of the noise law, moved to different centres, whose likelihood ratio does not
decrease; its best set is a half-line, found by bisection. Nothing of mustdp is used.
"""

from __future__ import annotations

import mpmath as mp

Mixture = list[tuple[mp.mpf, mp.mpf]]  # (weight, centre)
NONE = mp.mpf(0)


def tail(noise: str, t: mp.mpf) -> mp.mpf:
    if noise == "gaussian":
        return mp.erfc(t / mp.sqrt(2)) / 2
    return mp.exp(-t) / 2 if t > 0 else 1 - mp.exp(t) / 2


def _log_density(noise: str, mixture: Mixture, x: mp.mpf) -> mp.mpf:
    logs = [
        mp.log(weight) - ((x - centre) ** 2 / 2 if noise == "gaussian" else abs(x - centre))
        for weight, centre in mixture
    ]
    top = max(logs)
    return top + mp.log(mp.fsum(mp.exp(log - top) for log in logs))


def half_line(noise: str, first: Mixture, second: Mixture, epsilon: float) -> mp.mpf:
    """sup_t P(x > t) - e^epsilon Q(x > t), about 30 digits of it, or zero.

    An error of t enters squared: 1e-25 is enough.
    """
    with mp.workdps(60):
        goal = mp.mpf(epsilon)

        def excess(x: mp.mpf) -> mp.mpf:
            return _log_density(noise, first, x) - _log_density(noise, second, x) - goal

        centres = [centre for _, centre in first + second]
        low, high = min(centres), max(centres)
        if noise == "gaussian":
            reach = mp.mpf(1)
            while excess(high) < 0:
                high, reach = high + reach, 2 * reach
                if reach > mp.mpf(10) ** 30:  # the ratio is bounded, and never gets there
                    return NONE
            reach = mp.mpf(1)
            while excess(low) > 0:
                low, reach = low - reach, 2 * reach
        elif excess(high) <= 0:
            return NONE
        while high - low > mp.mpf(10) ** -25 * (1 + abs(high)):
            middle = (low + high) / 2
            low, high = (middle, high) if excess(middle) < 0 else (low, middle)
        hit = mp.fsum(weight * tail(noise, high - centre) for weight, centre in first)
        miss = mp.fsum(weight * tail(noise, high - centre) for weight, centre in second)
        return max(NONE, hit - mp.exp(goal) * miss)


def moved(law: list[mp.mpf], shift: mp.mpf) -> Mixture:
    """sum_j p_j N(j shift)."""
    return [(weight, j * shift) for j, weight in enumerate(law) if weight > 0]


def aligned(noise: str, law: list[mp.mpf], shift: float, epsilon: float) -> mp.mpf:
    still = [(mp.mpf(1), NONE)]
    return half_line(noise, moved(law, mp.mpf(shift)), still, epsilon)


def reversed_pair(noise: str, law: list[mp.mpf], shift: float, epsilon: float) -> mp.mpf:
    """Mirrored, so that the likelihood ratio grows to the right."""
    still = [(mp.mpf(1), NONE)]
    return half_line(noise, still, moved(law, -mp.mpf(shift)), epsilon)


def symmetric(noise: str, law: list[mp.mpf], shift: float, epsilon: float) -> mp.mpf:
    half = mp.mpf(shift) / 2
    return half_line(noise, moved(law, half), moved(law, -half), epsilon)


def binomial(size: int, chance: mp.mpf) -> list[mp.mpf]:
    return [mp.binomial(size, j) * chance**j * (1 - chance) ** (size - j) for j in range(size + 1)]


def flip(rate: float) -> list[mp.mpf]:
    """Taken or not, with the chance that this double exactly is."""
    return [1 - mp.mpf(rate), mp.mpf(rate)]
