"""Any mechanism that is rho zero-concentrated differentially private: an upper bound alone.

Bun & Steinke 2016, arXiv 1605.02065: all Renyi divergences of order a are at most a rho, and groups
of j records have j^2 rho. Canonne, Kamath & Steinke 2020, arXiv 2004.00010: for every a > 1,

    delta(eps) <= e^{(a-1)(a rho - eps)} / (a-1) (1 - 1/a)^a.

No output distribution is known, so nothing is attained and the lower bound is 0.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, ClassVar

import numpy as np

from mustdp.mechanisms.contract import GroupProfiles, Mechanism, TabulatedProfiles
from mustdp.mechanisms.laws import dual
from mustdp.numerics import checks
from mustdp.numerics.arrays import FloatArray
from mustdp.numerics.checks import frozen
from mustdp.numerics.convex import TangentTable, hull_slopes, two_sided

#: Orders minus 1 at which the bound is tried; any of them is valid.
_ORDERS = frozen(np.geomspace(1e-4, 1e6, 400))
_REACH = 690.0
_GRID = frozen(np.concatenate([[0.0], np.geomspace(1e-6, _REACH, 600)]))


class ConcentratedProfiles(TabulatedProfiles):
    """Group profiles: the smallest of the bounds."""

    relative_error = 1e-9  # of exponents of up to some thousands

    def __init__(self, rho: float) -> None:
        self._rho = rho
        super().__init__(_REACH)

    def delta(self, groups: FloatArray, epsilon: FloatArray) -> FloatArray:
        """The smallest bound over the orders, at most the whole."""
        j, e = np.broadcast_arrays(groups, np.asarray(epsilon, dtype=np.float64))
        rho, size = self._rho * np.square(j), np.minimum(np.abs(e), 1e4)
        best: FloatArray = np.zeros(e.shape)
        for order in _ORDERS:
            a = order + 1.0
            log = order * (a * rho - size) - np.log(order) + a * np.log1p(-1.0 / a)
            best = np.minimum(best, log)
        # A loss beyond the table is not negligible because its exponential is.
        return dual(np.maximum(np.exp(np.maximum(best, -690.0)), 1e-299), e)

    def _table(self, group: int) -> TangentTable:
        value = self.delta(np.array([float(group)]), _GRID[:, None])[:, 0]
        return two_sided(_GRID, value, hull_slopes(_GRID, value))


@dataclass(frozen=True)
class ZCDP(Mechanism):
    """Any mechanism with this rho (see :func:`zcdp`)."""

    rho: float

    name: ClassVar[str] = "zcdp"

    def __post_init__(self) -> None:
        rho = checks.real("rho", self.rho, at_least=1e-12, at_most=1e4)
        object.__setattr__(self, "rho", rho)

    def shift_for(self, moves: float) -> None:
        """A guarantee has no shift."""
        return

    def profiles(self, shift: float | None) -> GroupProfiles:
        """Upper bounds of every profile that there can be."""
        return ConcentratedProfiles(self.rho)

    def log_moments(
        self, orders: FloatArray, copies: FloatArray, shift: float | None
    ) -> FloatArray:
        """At most ``a (a-1) j^2 rho``, by definition."""
        a = orders[:, None]
        return np.asarray(a * (a - 1.0) * np.square(copies) * self.rho)

    def describe(self) -> dict[str, Any]:
        """Plain description, for JSON."""
        return {"mechanism": self.name, **asdict(self)}


def zcdp(rho: float) -> Mechanism:
    """Any mechanism of which nothing is known but rho zero-concentrated differential privacy.

    Only upper bounds are known: lower bounds are 0. The guarantee must hold for batches that differ
    in one entry: swapped for schemes of a fixed batch size, left out for Poisson sampling under
    add_remove.

    Parameters
    ----------
    rho : float
        The rho of one release, from 1e-12 to 1e4.

    Returns
    -------
    Mechanism
        A plan of one release, to be subsampled and repeated.

    Examples
    --------
    >>> import mustdp as md
    >>> found = md.account(md.zcdp(0.01)).epsilon(delta=1e-5)
    >>> print(f"{found.lower:.2f} {found.upper:.2f}")
    0.00 0.55
    """
    return ZCDP(rho)
