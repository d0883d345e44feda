"""Mechanisms of which only Renyi divergences are known: upper bounds alone.

A curve states that the Renyi divergence of order a between neighbours is at most eps_a. Mironov
2017, arXiv 1702.07476v3: curves of mechanisms that are run one after the other add up. Bun &
Steinke 2016, arXiv 1605.02065: with zero-concentrated privacy eps_a = a rho at every a, and groups
of j records have j^2 rho. Canonne, Kamath & Steinke 2020, arXiv 2004.00010v5, Proposition 12: for
every a > 1,

    delta(eps) <= e^{(a-1)(eps_a - eps)} / (a-1) (1 - 1/a)^a.

Between two orders (a-1) eps_a may be read off the chord: (a-1) D_a is convex in a and 0 at a = 1.
A group of j records of a curve has delta_j(eps) <= delta(eps/j) (e^eps - 1)/(e^{eps/j} - 1) (Vadhan
2017, Lemma 2.2).

Adding up first and turning the sum into a profile once is much tighter than composing profiles, so
all such parts of a plan are joined, whatever is released in between
(docs/derivations/composition.md). No output distribution is known, so
nothing is attained and the lower bound is 0.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

import numpy as np

from mustdp.errors import InvalidParameter
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
SMALLEST_RHO, LARGEST_RHO = 1e-12, 1e4
LARGEST_ORDER, LARGEST_DIVERGENCE, MOST_ORDERS = 1e6, 1e6, 1000


class CurveProfiles(TabulatedProfiles):
    """Group profiles: the smallest of the bounds at these orders (minus 1)."""

    relative_error = 1e-9  # of exponents of up to some thousands

    def __init__(self, orders: FloatArray, divergences: FloatArray, *, quadratic: bool) -> None:
        self._orders, self._divergences, self._quadratic = orders, divergences, quadratic
        super().__init__(_REACH)

    def delta(self, groups: FloatArray, epsilon: FloatArray) -> FloatArray:
        """The smallest bound over the orders, at most the whole."""
        j, e = np.broadcast_arrays(groups, np.asarray(epsilon, dtype=np.float64))
        size = np.minimum(np.abs(e), 1e4)
        at, factor = (size, np.square(j)) if self._quadratic else (size / j, np.ones(e.shape))
        best: FloatArray = np.zeros(e.shape)
        for order, divergence in zip(self._orders, self._divergences, strict=True):
            a = order + 1.0
            log = order * (divergence * factor - at) - np.log(order) + a * np.log1p(-1.0 / a)
            best = np.minimum(best, log)
        if not self._quadratic:
            # log of (e^{j x} - 1)/(e^x - 1), which is log j at x = 0.
            x = np.maximum(at, 1e-12)
            best = best + (size - at) + np.log(np.expm1(-j * x) / np.expm1(-x)) + 1e-9 * (j > 1)
        # A loss beyond the table is not negligible because its exponential is.
        return dual(np.clip(np.exp(np.clip(best, -690.0, 0.0)), 1e-299, 1.0), e)

    def _table(self, group: int) -> TangentTable:
        value = self.delta(np.array([float(group)]), _GRID[:, None])[:, 0]
        value = np.minimum.accumulate(value)
        return two_sided(_GRID, value, hull_slopes(_GRID, value))


class DivergenceGuarantee(Mechanism):
    """What the two have in common."""

    name: ClassVar[str]

    def shift_for(self, moves: float) -> None:
        """A guarantee has no shift."""
        return

    @abstractmethod
    def divergences(self, orders: FloatArray) -> FloatArray:
        """Bounds of the divergences at orders minus 1; infinite where nothing is known."""


@dataclass(frozen=True)
class ZCDP(DivergenceGuarantee):
    """Any mechanism with this rho (see :func:`zcdp`)."""

    rho: float

    name: ClassVar[str] = "zcdp"

    def __post_init__(self) -> None:
        rho = checks.real("rho", self.rho, at_least=SMALLEST_RHO, at_most=LARGEST_RHO)
        object.__setattr__(self, "rho", rho)

    def divergences(self, orders: FloatArray) -> FloatArray:
        """a rho."""
        return np.asarray((orders + 1.0) * self.rho)

    def profiles(self, shift: float | None) -> GroupProfiles:
        """Upper bounds of every profile that there can be."""
        return CurveProfiles(_ORDERS, self.divergences(_ORDERS), quadratic=True)

    def log_moments(
        self, orders: FloatArray, copies: FloatArray, shift: float | None
    ) -> FloatArray:
        """At most ``a (a-1) j^2 rho``, by definition."""
        a = orders[:, None]
        return np.asarray(a * (a - 1.0) * np.square(copies) * self.rho)

    def repeated(self, count: int) -> Mechanism | None:
        """A multiple of rho."""
        total = _up(count * self.rho)
        return ZCDP(total) if total <= LARGEST_RHO else None

    def joined(self, other: Mechanism) -> Mechanism | None:
        """The sum of both."""
        if isinstance(other, ZCDP):
            total = _up(self.rho + other.rho)
            return ZCDP(total) if total <= LARGEST_RHO else None
        return other.joined(self) if isinstance(other, RenyiCurve) else None

    def describe(self) -> dict[str, Any]:
        """Plain description, for JSON."""
        return {"mechanism": self.name, **asdict(self)}


@dataclass(frozen=True)
class RenyiCurve(DivergenceGuarantee):
    """Any mechanism with these Renyi divergences (see :func:`renyi`)."""

    renyi_orders: tuple[float, ...]
    renyi_epsilons: tuple[float, ...]

    name: ClassVar[str] = "renyi"

    def __post_init__(self) -> None:
        orders = _numbers("orders", self.renyi_orders, 1.0, LARGEST_ORDER)
        epsilons = _numbers("epsilons", self.renyi_epsilons, 0.0, LARGEST_DIVERGENCE)
        if not all(a > 1.0 for a in orders) or list(orders) != sorted(set(orders)):
            raise InvalidParameter.refusing("orders", "must be above 1 and increase", list(orders))
        if len(epsilons) != len(orders):
            allowed = f"must be as many as the {len(orders)} orders"
            raise InvalidParameter.refusing("epsilons", allowed, len(epsilons))
        object.__setattr__(self, "renyi_orders", orders)
        object.__setattr__(self, "renyi_epsilons", epsilons)

    def divergences(self, orders: FloatArray) -> FloatArray:
        """Read off chords of (a-1) eps_a."""
        known = np.append(0.0, np.array(self.renyi_orders) - 1.0)
        logs = np.append(0.0, known[1:] * np.array(self.renyi_epsilons))
        between = np.interp(orders, known, logs) / orders
        return np.where(orders > known[-1], np.inf, between * (1.0 + 1e-14))

    def profiles(self, shift: float | None) -> GroupProfiles:
        """Upper bounds of every profile that there can be."""
        last = self.renyi_orders[-1] - 1.0
        tried = np.append(_ORDERS[last > _ORDERS], np.array(self.renyi_orders) - 1.0)
        tried = np.unique(tried)
        return CurveProfiles(tried, self.divergences(tried), quadratic=False)

    def log_moments(
        self, orders: FloatArray, copies: FloatArray, shift: float | None
    ) -> FloatArray:
        """Of one copy, by definition."""
        one = (orders - 1.0) * self.divergences(orders - 1.0)
        columns = [np.where(j == 1.0, one, np.inf if j else 0.0) for j in copies.tolist()]
        return np.stack(columns, axis=1)

    def repeated(self, count: int) -> Mechanism | None:
        """A multiple of the curve."""
        return _curve(self.renyi_orders, [count * one for one in self.renyi_epsilons])

    def joined(self, other: Mechanism) -> Mechanism | None:
        """The sum of both, at every order that one of them states and both know."""
        if not isinstance(other, DivergenceGuarantee):
            return None
        stated = set(self.renyi_orders)
        if isinstance(other, RenyiCurve):
            last = min(self.renyi_orders[-1], other.renyi_orders[-1])
            stated = {a for a in stated.union(other.renyi_orders) if a <= last}
        orders = np.array(sorted(stated)) - 1.0
        total = self.divergences(orders) + other.divergences(orders)
        return _curve(tuple(sorted(stated)), total.tolist())

    def describe(self) -> dict[str, Any]:
        """Plain description, for JSON."""
        return {
            "mechanism": self.name,
            **{name: list(values) for name, values in asdict(self).items()},
        }


def _curve(orders: tuple[float, ...], epsilons: list[float]) -> RenyiCurve | None:
    """A curve, rounded up; None where it is out of range or too long."""
    if len(orders) > MOST_ORDERS or not max(epsilons) < 0.99 * LARGEST_DIVERGENCE:
        return None
    return RenyiCurve(orders, tuple(_up(one) for one in epsilons))


def _up(value: float) -> float:
    return math.nextafter(value * (1.0 + 1e-15), math.inf) if value > 0.0 else value


def _numbers(name: str, given: object, least: float, most: float) -> tuple[float, ...]:
    given = given.tolist() if isinstance(given, np.ndarray) else given
    if not isinstance(given, tuple | list) or not 1 <= len(given) <= MOST_ORDERS:
        allowed = f"must be a list of 1 to {MOST_ORDERS} numbers"
        raise InvalidParameter.refusing(name, allowed, repr(given)[:60])
    return tuple(checks.real(name, one, at_least=least, at_most=most) for one in given)


def zcdp(rho: float) -> Mechanism:
    """Any mechanism of which nothing is known but rho zero-concentrated differential privacy.

    Only upper bounds are known: lower bounds are 0. The guarantee must hold for batches that differ
    in one entry: swapped for schemes of a fixed batch size, left out for Poisson sampling under
    add_remove. The rhos of all releases are added up first.

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
    >>> found = md.account(md.repeat(10, md.zcdp(0.001))).epsilon(delta=1e-5)
    >>> print(f"{found.lower:.2f} {found.upper:.2f}")
    0.00 0.55
    """
    return ZCDP(rho)


def renyi(orders: Sequence[float], epsilons: Sequence[float]) -> Mechanism:
    """Any mechanism of which nothing is known but bounds of its Renyi divergences.

    Only upper bounds are known: lower bounds are 0. The guarantee must hold for batches that differ
    in one entry: swapped for schemes of a fixed batch size, left out for Poisson sampling under
    add_remove. The curves of all releases are added up first.

    Parameters
    ----------
    orders : sequence of float
        Orders above 1 and at most 1e6, increasing.
    epsilons : sequence of float
        The divergence at each of them, at most 1e6.

    Returns
    -------
    Mechanism
        A plan of one release, to be subsampled and repeated.

    References
    ----------
    Mironov 2017, arXiv 1702.07476v3.

    Examples
    --------
    >>> import mustdp as md
    >>> curve = md.renyi([2, 4, 8, 16, 32, 64], [0.01, 0.02, 0.04, 0.08, 0.16, 0.32])
    >>> print(f"{md.account(md.repeat(2, curve)).epsilon(delta=1e-5).upper:.2f}")
    0.55
    """
    return RenyiCurve(orders, epsilons)  # type: ignore[arg-type]
