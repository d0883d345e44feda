"""Prices of one term of random allocation, held against many digits over the whole range in use."""

from __future__ import annotations

import mpmath as mp
import numpy as np
import pytest

from mustdp.accounting.epochs.terms import Term
from tests.arrays import FloatArray

SHIFTS = (1e-5, 1e-4, 1e-3, 0.01, 0.05, 0.2, 0.5, 1.0, 2.0, 3.4, 5.0, 10.0, 20.0, 28.0, 40.0)
ALPHAS = (0.0, 1.0, 1.0 + 1e-6, 1.5, 1e3, 1e8)


def exact(shift: float, alpha: float, d: float) -> mp.mpf:
    """E(D - d)_+ from the mean on and E(d - D)_+ below, to more digits than are compared."""
    s, al, x = mp.mpf(shift), mp.mpf(alpha), mp.mpf(d)
    product = al * mp.exp(-s * s)
    root = mp.sqrt(x * x + 4 * product)
    a = (x + root) / 2 if x >= 0 else 2 * product / (root - x)
    g = (mp.log(a) + s * s / 2) / s
    if x >= 1 - al:
        return mp.ncdf(s - g) - al * mp.ncdf(-s - g) - x * mp.ncdf(-g)
    return x * mp.ncdf(g) - mp.ncdf(g - s) + al * mp.ncdf(g + s)


def points(shift: float, alpha: float) -> FloatArray:
    """Values of D from one end of the range to the other, and near its mean."""
    g = np.concatenate([np.linspace(-30, 36, 12), np.array([-0.01, 0.0, 0.01]) + shift / 2])
    with np.errstate(over="ignore"):
        down = alpha * np.exp(-shift * g - shift**2 / 2) if alpha > 0.0 else 0.0
        d = np.exp(shift * g - shift**2 / 2) - down
    return np.asarray(np.unique(d[np.isfinite(d) & (np.abs(d) < 1e250) & (d != 0.0)]))


def largest_error(shift: float, off: float = 0.0) -> float:
    """The largest relative error over all alphas where the price does not underflow."""
    worst = 0.0
    with mp.workdps(60):
        for alpha in ALPHAS:
            term, d = Term(shift, alpha), points(shift, alpha)
            for x, found in zip(d.tolist(), term.value(d).tolist(), strict=True):
                true = exact(shift, alpha, x)
                if true > 1e-280:
                    worst = max(worst, abs(float(mp.mpf(found * (1.0 + off)) / true - 1)))
    return worst


@pytest.mark.parametrize("shift", SHIFTS)
def test_prices_are_as_accurate_as_they_say(shift: float) -> None:
    # A quarter of what is promised: the points between those that were tried have room.
    assert largest_error(shift) <= 0.25 * Term(shift).error


def test_a_price_that_is_off_would_be_noticed() -> None:
    assert largest_error(1.0, 2e-11) > Term(1.0).error
