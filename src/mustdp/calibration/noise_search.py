"""The smallest noise whose certified epsilon meets a target: which one is tried next.

What is spent falls with the noise z about as a guess does, up to a factor that changes slowly: with
its logarithm taken as linear in log z, two or three certified values are enough. A bracket is kept
all the while, and halved where that does not converge: jumps and bad guesses only cost time.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from mustdp.errors import NumericalFailure

#: The epsilon reached by a noise lies between this fraction of the target and the target: the first
#: one tried if the guess is close, and others; families' bounds depend a little on the cells that
#: were chosen. The last is aimed at.
_CLOSE, _NEAR, _AIM = 1.0 - 1e-3, 1.0 - 2e-3, 1.0 - 8e-4
#: Accuracy of the account while far away, and while closing in.
_COARSE, _FINE = 0.02, 1e-3
#: Moves of log z from which on a coarse account will do, and the longest one.
_FAR, _LONGEST = 0.3, math.log(16.0)
_LARGEST = 1e8
#: The smallest noise multiplier that is tried: a target that it meets needs no noise to speak of.
SMALLEST = 1e-4
_ROUNDS = 120

Guess = Callable[[float], float | None]


def smallest_noise(
    spent: Callable[[float, float], float],
    target: float,
    guess: Guess | None = None,
    *,
    close: bool = False,
    drift: float = 0.0,
) -> float:
    """Close in on the noise whose certified epsilon just meets ``target``.

    ``spent(z, accuracy)`` must not increase with the noise z. It is asked coarsely while z moves
    far; only a value that met the target is returned. ``guess(z)`` is about what is spent, and
    ``close`` says that it is good to a few thousandths; ``drift`` is how its factor changes with z
    as long as a single value is known, as a slope of logarithms.
    """
    expected = _Expected(guess, drift)
    low, high, met = 0.0, math.inf, math.nan  # too little noise, enough noise
    z = _within(expected.where(target, 1.0))
    moved = 0.0 if close and expected.guessed else math.inf
    for step in range(_ROUNDS):
        least = (_NEAR if step or not close else _CLOSE) * target
        value = spent(z, _COARSE if moved > _FAR else _FINE)
        if moved > _FAR and least <= value <= target:
            value = spent(z, _FINE)
            moved = 0.0
        if value <= target:
            high = z
            if moved <= _FAR:
                met = z
            if (moved <= _FAR and value >= least) or z <= SMALLEST:
                return z
        elif moved <= _FAR or value > (1.0 + 2.0 * _COARSE) * target:
            low = z
            if z >= _LARGEST:
                raise NumericalFailure(
                    f"no noise multiplier up to {_LARGEST:g} reaches epsilon={target!r}"
                )
        if high / max(low, SMALLEST / 2.0) - 1.0 < 1e-9:
            break
        if 0.0 < value < math.inf:
            expected.learn(z, value, coarse=moved > _FAR)
            following = expected.where(_AIM * target, z)
        else:
            following = 4.0 * z if value > 0.0 else z / 4.0
        inside = low < following < high
        if low > 0.0 and high < math.inf and (not inside or step % 4 == 3):
            following = math.sqrt(low * high)
        elif not inside:  # a slope of the wrong sign: move on all the same
            following = 2.0 * z if value > target else z / 2.0
        following = _within(following)
        moved = abs(math.log(following / z))
        z = following
    return met if not math.isnan(met) else high


def _within(z: float) -> float:
    return min(max(z, SMALLEST), _LARGEST)


class _Expected:
    """What is expected to be spent: the guess times a power of z that fits the last two values."""

    def __init__(self, guess: Guess | None, drift: float) -> None:
        self._guess, self._drift, self._coarse = guess, drift, False
        self._seen: list[tuple[float, float]] = []  # log z, log of what was spent over the guess

    @property
    def guessed(self) -> bool:
        """Whether there is a guess."""
        return self._guess is not None

    def learn(self, z: float, value: float, *, coarse: bool) -> None:
        """A certified value. Coarse ones say nothing of how the factor changes close by."""
        found = math.log(z), math.log(value) - self._rough(z)
        self._seen = [found] if coarse or self._coarse else [*self._seen, found][-2:]
        self._coarse = coarse

    def where(self, value: float, near: float) -> float:
        """The z at which so much is expected to be spent, looked for around ``near``."""
        wanted, x = math.log(value), math.log(near)
        here, slope = self._log(x), -1.0
        for _ in range(12):
            move = (wanted - here) / slope
            move = min(max(move, -_LONGEST), _LONGEST)
            if abs(move) < 1e-5:
                break
            there = self._log(x + move)
            slope = min((there - here) / move, -0.05)
            x, here = x + move, there
        return math.exp(min(max(x, math.log(SMALLEST)), math.log(_LARGEST)))

    def _log(self, x: float) -> float:
        """Log of what is expected at log z = x."""
        rough = self._rough(math.exp(x))
        if not self._seen:
            return rough
        place, factor = self._seen[-1]
        slope = self._drift
        if len(self._seen) == 2 and self._seen[0][0] != place:
            slope = (factor - self._seen[0][1]) / (place - self._seen[0][0])
        return rough + factor + slope * (x - place)

    def _rough(self, z: float) -> float:
        """Log of the guess; 1/z where there is none."""
        found = None if self._guess is None else self._guess(z)
        if found is None:
            self._guess = None
            return -math.log(z)
        return math.log(found)
