"""Noise for one Gaussian release: the classical formula and the exact inverse of the profile.

Classical: Dwork & Roth, "The Algorithmic Foundations of Differential Privacy" (2014), Theorem A.1,
proved for eps < 1 only. Exact: Balle & Wang, arXiv 1805.06530v2, Theorem 8, whose profile
delta(eps) = Phi(s/2 - eps/s) - e^eps Phi(-s/2 - eps/s), s = sensitivity / sigma, is inverted here.
"""

from __future__ import annotations

import math

import numpy as np

from mustdp.errors import NotCovered, NumericalFailure
from mustdp.mechanisms.noise import GaussianNoise
from mustdp.numerics import checks

#: Below this delta the profile is no longer known to full accuracy.
_SMALLEST_DELTA = 1e-300


def classical_sigma(
    epsilon: float, delta: float, sensitivity: float, *, beyond_proof: bool = False
) -> float:
    """Classical formula ``sensitivity * sqrt(2 ln(1.25/delta)) / epsilon``.

    Parameters
    ----------
    epsilon : float
        The epsilon of one release; the proof covers epsilons above 0 and below 1.
    delta : float
        The delta of one release, from 1e-300 to below 1.
    sensitivity : float
        How far a neighbouring data set moves the output at most, in the 2-norm.
    beyond_proof : bool, default=False
        Whether to evaluate the formula where its proof does not hold, for reproducing published
        tables; the result is then no guarantee.

    Returns
    -------
    float
        Standard deviation of the noise.

    Raises
    ------
    NotCovered
        Epsilon is 1 or more, and ``beyond_proof`` was not asked for.

    Examples
    --------
    >>> round(classical_sigma(0.5, 1e-5, 1.0), 6)
    9.689611
    """
    epsilon = checks.real("epsilon", epsilon, above=0)
    delta = checks.real("delta", delta, at_least=_SMALLEST_DELTA, below=1)
    sensitivity = checks.real("sensitivity", sensitivity, above=0)
    if not epsilon < 1 and not beyond_proof:
        raise NotCovered(
            f"the classical formula is proved for epsilon < 1 only, got {epsilon!r}; "
            "use analytic_sigma"
        )
    return _in_range(sensitivity * math.sqrt(2.0 * math.log(1.25 / delta)) / epsilon)


def analytic_sigma(epsilon: float, delta: float, sensitivity: float) -> float:
    """Smallest sigma whose exact profile meets (epsilon, delta), rounded to the safe side.

    Parameters
    ----------
    epsilon : float
        The epsilon of one release, at least 0.
    delta : float
        The delta of one release, from 1e-300 to below 1.
    sensitivity : float
        How far a neighbouring data set moves the output at most, in the 2-norm.

    Returns
    -------
    float
        Standard deviation of the noise.

    Raises
    ------
    NumericalFailure
        No number that can be trusted was found.

    Examples
    --------
    >>> round(analytic_sigma(0.5, 1e-5, 1.0), 6)
    7.031827
    """
    epsilon = checks.real("epsilon", epsilon, at_least=0)
    delta = checks.real("delta", delta, at_least=_SMALLEST_DELTA, below=1)
    sensitivity = checks.real("sensitivity", sensitivity, above=0)
    noise = GaussianNoise()

    def exceeds(shift: float) -> bool:
        # The profile is known to 2e-12: asking for a little more keeps its rounding on our side.
        value = float(noise.profile(np.asarray(shift), np.asarray(epsilon)))
        return not value * (1.0 + 4e-12) <= delta

    low, high = 1e-302, 1.0
    while not exceeds(high):
        low, high = high, 2.0 * high
        if high > 1e150:
            raise NumericalFailure(f"no shift reaches delta={delta!r} at epsilon={epsilon!r}")
    while high / low > 2.0:
        middle = math.sqrt(low) * math.sqrt(high)
        low, high = (low, middle) if exceeds(middle) else (middle, high)
    while True:
        middle = low + (high - low) / 2.0
        if middle in (low, high):
            break
        low, high = (low, middle) if exceeds(middle) else (middle, high)
    return _in_range(sensitivity / low * (1.0 + 4e-16))


def _in_range(sigma: float) -> float:
    if not np.finfo(np.float64).tiny <= sigma < math.inf:
        raise NumericalFailure(f"sigma = {sigma!r} is out of the range of double precision")
    return sigma
