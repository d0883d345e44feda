"""Attacks: from what every step released about each canary to a score that follows its bit.

Row t of ``seen`` has what step t released in the direction of every canary, in units of the bound C
on one contribution; canary j adds its value c_j times how often it was drawn. Three attackers look
at it:

- *total*: adds up. Best where every record is drawn in every step.
- *likelihood*: weighs both values of the bit by the law of the draw and the noise that was stated.
- *pattern*: compares steps with each other, where noise that is used twice cancels.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from mustdp.numerics.arrays import FloatArray
from mustdp.sampling.law import MultiplicityLaw


def scores(
    seen: FloatArray, law: MultiplicityLaw, noise: float, values: tuple[float, float]
) -> dict[str, FloatArray]:
    """Scores of all attackers; large ones speak for the second of the two ``values``."""
    first, second = values
    likelihood = _log_likelihood(seen, law, noise, second) - _log_likelihood(
        seen, law, noise, first
    )
    centred = seen - np.median(seen, axis=0)
    odd = np.cbrt((centred**3).sum(axis=0))
    spread = (centred**2).sum(axis=0)
    pattern = odd if first == -second else spread
    return {"total": seen.sum(axis=0), "likelihood": likelihood, "pattern": pattern}


def _log_likelihood(
    seen: FloatArray, law: MultiplicityLaw, noise: float, value: float
) -> FloatArray:
    """Log-likelihood of each canary's column if it contributes ``value`` per copy."""
    copies, weights = [0.0], [law.zero]
    copies += [float(copy) for copy in law.positive_values]
    weights += [float(weight) for weight in law.positive]
    likely = [k for k in np.argsort(weights)[::-1][:64] if weights[k] > 0]
    terms = [np.log(weights[k]) - 0.5 * ((seen - copies[k] * value) / noise) ** 2 for k in likely]
    found: FloatArray = logsumexp(np.stack(terms), axis=0).sum(axis=0)
    return found


def guesses(score: FloatArray, count: int) -> tuple[NDArray[np.intp], FloatArray]:
    """Which bits to guess, those of the most extreme scores, and the guesses (-1 or 1)."""
    centred = score - np.median(score)
    chosen = np.argsort(-np.abs(centred), kind="stable")[:count]
    return chosen, np.where(centred[chosen] > 0, 1.0, -1.0)
