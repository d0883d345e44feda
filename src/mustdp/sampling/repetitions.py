"""How often a run is repeated before the best one is released: laws that are drawn and charged.

Papernot & Steinke 2022, arXiv 2110.03620v2: a fixed number of runs of which the best is released
costs almost as much as releasing all of them, a random number much less. Definition 1 there is the
truncated negative binomial law with parameters eta > -1 and 0 < gamma < 1,

    P(K = k) proportional to (1 - gamma)^k Gamma(k + eta) / k!,  k = 1, 2, ...

which is the geometric law for eta = 1 and the logarithmic one for eta = 0. What matters for privacy
is the derivative of the generating function f(x) = E x^K:

    f'(x) = E[K] (gamma / (1 - (1 - gamma) x))^(eta + 1),    E[K] e^{-mean (1 - x)} for Poisson.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Context, Decimal, localcontext
from functools import cached_property
from typing import Any

import numpy as np

from mustdp.errors import InvalidParameter, NumericalFailure
from mustdp.numerics import checks
from mustdp.numerics.arrays import FloatArray
from mustdp.randomness.keys import generator

#: The laws that have a name, and their eta; the Poisson law has none.
ETAS = {"logarithmic": 0.0, "geometric": 1.0}
LAWS = (*ETAS, "poisson")
#: At least one run is made, except under the Poisson law, so means are above 1; the upper ends are
#: generous.
SMALLEST_MEAN, LARGEST_MEAN, LARGEST_ETA = 1.001, 1e6, 100.0
#: Nearer to 0 than this, digits of chances would cancel.
_SMALLEST_ETA = 1e-12
#: Relative rounding of the mean and of logarithms, generously.
_ROUNDING = 1e-11
#: Random bits behind one number of runs, and the digits that chances are added up with.
_BYTES, _DIGITS = 32, 90


@dataclass(frozen=True)
class Repetitions:
    """A random number of runs.

    Parameters
    ----------
    mean : float
        Mean number of runs, from 1.001 to 1e6 (for the Poisson law, from 0.001).
    law : str or float, default="logarithmic"
        "logarithmic", "geometric" or "poisson"; or the eta of a truncated negative binomial law,
        above -1 and at most 100.

    Examples
    --------
    >>> import mustdp as md
    >>> runs = md.select_best(md.gaussian(shift=1.0), 10, law="geometric").repetitions
    >>> round(runs.gamma, 6), runs.draw() >= 1
    (0.1, True)
    """

    mean: float
    law: str | float = "logarithmic"

    def __post_init__(self) -> None:
        if isinstance(self.law, str):
            checks.choice("law", self.law, LAWS)
        else:
            limits = {"above": -1.0, "at_most": LARGEST_ETA}
            eta = checks.real("law", self.law, **limits)
            if 0.0 < abs(eta) < _SMALLEST_ETA:  # digits of its chances would cancel
                raise InvalidParameter.refusing("law", f"must be 0 or beyond {_SMALLEST_ETA}", eta)
            object.__setattr__(self, "law", eta)
        least = 0.001 if self.law == "poisson" else SMALLEST_MEAN
        mean = checks.real("repetitions", self.mean, at_least=least, at_most=LARGEST_MEAN)
        object.__setattr__(self, "mean", mean)

    @property
    def eta(self) -> float | None:
        """That of the truncated negative binomial law; None for the Poisson law."""
        return ETAS.get(self.law) if isinstance(self.law, str) else self.law

    @cached_property
    def gamma(self) -> float:
        """The parameter that gives the law its mean; every law but Poisson's has one."""
        low, high = -60.0, -1e-6  # of log gamma; the mean falls as gamma grows
        if not self._mean(low) >= self.mean >= self._mean(high):
            raise InvalidParameter(f"repetitions must fit the law {self.law!r}, got {self.mean!r}")
        for _ in range(200):
            middle = (low + high) / 2.0
            low, high = (middle, high) if self._mean(middle) > self.mean else (low, middle)
        return math.exp(low)

    def _mean(self, log_gamma: float) -> float:
        eta = self.eta
        if eta is None:
            return self.mean
        odds = math.expm1(-log_gamma)  # (1 - gamma) / gamma
        return odds / -log_gamma if eta == 0.0 else eta * odds / -math.expm1(eta * log_gamma)

    @cached_property
    def largest_weight(self) -> float:
        """f'(1): the mean number of runs, rounded up."""
        mean = self.mean if self.eta is None else self._mean(math.log(self.gamma))
        return max(mean, self.mean) * (1.0 + _ROUNDING)

    def some_run(self) -> float:
        """A lower bound of the chance that there is a run at all."""
        return -math.expm1(-self.mean) * (1.0 - _ROUNDING) if self.eta is None else 1.0

    def generating(self, x: float) -> float:
        """f(x) = E x^K for x from 0 to 1, rounded down."""
        eta = self.eta
        if eta is None:
            value = math.exp(-self.mean * (1.0 - x))
        else:
            log_gamma = math.log(self.gamma)
            part = math.log1p(math.expm1(log_gamma) * x)  # log(1 - (1 - gamma) x)
            if eta == 0.0:
                value = part / log_gamma
            else:
                value = math.expm1(-eta * part) / math.expm1(-eta * log_gamma)
        return max(0.0, value * (1.0 - 1e3 * _ROUNDING))

    def log_growth(self, profile: Callable[[FloatArray], FloatArray]) -> float:
        """Log of the largest f'(q)/f'(q') for chances q, q' of one event on neighbours, rounded up.

        ``profile`` bounds delta at epsilons >= 0, in either order of the neighbours
        (docs/derivations/selection.md).
        """
        eta = self.eta
        if eta is None:
            return self.mean * float(profile(np.zeros(1))[0]) * (1.0 + _ROUNDING)
        odds = self.gamma / -math.expm1(math.log(self.gamma)) * (1.0 - _ROUNDING)
        # The r with profile(log r) = (r - 1) odds: below it the left side is larger.
        low, high = 0.0, math.log1p(1.0 / odds) * (1.0 + _ROUNDING)
        for _ in range(12):
            looks = np.linspace(low, high, 34)
            above = np.flatnonzero(profile(looks) > np.expm1(looks) * odds)
            last = int(above[-1]) + 1 if above.size else 1
            if last >= looks.size:
                break
            low, high = float(looks[last - 1]), float(looks[last])
        if not 0.0 <= high < math.inf:
            raise NumericalFailure(f"no bound of the growth was found, got {high!r}")
        return (1.0 + eta) * high * (1.0 + _ROUNDING) + _ROUNDING

    def draw(self, rng: np.random.Generator | None = None) -> int:
        """Draw the number of runs; it must stay as secret as the runs that are not released.

        Parameters
        ----------
        rng : numpy.random.Generator, default=None
            Where randomness comes from; None means the operating system's entropy.

        Returns
        -------
        int
            How often to run; under the Poisson law it may be 0, and nothing is released.
        """
        with localcontext(Context(prec=_DIGITS)):
            number = Decimal(int.from_bytes(generator(rng).bytes(_BYTES), "big"))
            left = (number + Decimal("0.5")) / Decimal(2) ** (8 * _BYTES)
            for k, chance in self._chances():
                left -= chance
                if left < 0 or not chance:
                    return k
        raise NumericalFailure("the chances of all numbers of runs add up to less than one")

    def _chances(self) -> Iterator[tuple[int, Decimal]]:
        """Every number of runs with its chance, to 80 digits and more."""
        eta = self.eta
        if eta is None:
            k, chance = 0, (-Decimal(self.mean)).exp()
            factor, shift = Decimal(self.mean), None
        else:
            gamma = Decimal(self.gamma)
            factor, shift = 1 - gamma, Decimal(eta)
            if eta == 0.0:
                chance = factor / -gamma.ln()
            else:
                chance = shift * factor / ((-shift * gamma.ln()).exp() - 1)
            k = 1
        while True:
            yield k, chance
            chance *= factor / (k + 1) if shift is None else factor * (k + shift) / (k + 1)
            k += 1

    def describe(self) -> dict[str, Any]:
        """Plain description, for JSON.

        Returns
        -------
        dict
            Plain values, ready for JSON.
        """
        return {"law": self.law, "mean": self.mean}
