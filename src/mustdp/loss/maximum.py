"""The largest of many noisy numbers, one of which was moved: what shuffling certainly gives away.

Chua, Ghazi, Kamath, Kumar, Manurangsi, Sinha & Zhang 2024, "How private are DP-SGD
implementations?", arXiv 2403.17673v2, Section 4: in a shuffled epoch the differing record is in one
of T batches; looking at the largest of the T outputs alone gives

    P(max <= x) = Phi(x - a) Phi(x)^(T-1),      Q(max <= x) = Phi(x - b) Phi(x)^(T-1),

whichever batch it is in: a pair of distributions of one number, attained and composable. With a
chance ``rest`` the record is in none of the T batches.
"""

from __future__ import annotations

import numpy as np
from scipy.special import log_ndtr

from mustdp.loss.convex_tables import OutcomePair
from mustdp.numerics.arrays import FloatArray
from mustdp.numerics.checks import frozen

_CELLS = 12_000
_FAR = 38.0
#: Moves beyond this are seen as if noise had been added until they are this far: no less private.
_FARTHEST = 80.0
_ERROR = 1e-10


def maximum_pair(
    name: str, steps: int, a: float, b: float, rest: float = 0.0, moved: int = 1
) -> OutcomePair:
    """The pair of the maximum of ``steps`` numbers, ``moved`` of them by ``a`` or by ``b``."""
    nearer = min(1.0, _FARTHEST / max(abs(a), abs(b), 1.0))
    a, b = a * nearer, b * nearer
    low, high = min(a, b, 0.0) - _FAR, max(a, b, 0.0) + _FAR
    x = np.linspace(low, high, _CELLS)
    p = _cells(x, steps, a, rest, moved) * (1.0 - _ERROR)
    q = _cells(x, steps, b, rest, moved) * (1.0 + _ERROR)
    # Where Q underflows it is taken larger than it is, which lowers the loss.
    kept = p > 1e-290
    p, q = p[kept], np.maximum(q[kept], 1e-300)
    order = np.argsort(np.log(p) - np.log(q), kind="stable")
    return OutcomePair(name, frozen(p[order]), frozen(q[order]))


def _cells(x: FloatArray, steps: int, move: float, rest: float, moved: int) -> FloatArray:
    """Probabilities of the cells between -inf, x_0, x_1, ..., inf."""
    others = (steps - moved) * log_ndtr(x)
    found = (1.0 - rest) * _between(moved * log_ndtr(x - move) + others)
    return found + rest * _between(steps * log_ndtr(x)) if rest > 0.0 else found


def _between(log_cdf: FloatArray) -> FloatArray:
    """Differences of a cdf given by its logarithm, exact in both tails."""
    ends = np.concatenate([[-np.inf], log_cdf, [0.0]])
    with np.errstate(invalid="ignore"):
        falls = np.where(np.isneginf(ends[1:]), 0.0, ends[:-1] - ends[1:])
    return np.asarray(np.exp(ends[1:]) * -np.expm1(np.minimum(falls, 0.0)))
