"""Mechanisms of which only a guarantee is known: a privacy profile, (epsilon, delta), or Renyi.

*(epsilon, delta) and epsilon differential privacy.* Kairouz, Oh & Viswanath 2015, arXiv 1311.0776:
among all mechanisms with a guarantee, one with four outcomes is worst, at every alpha and in
compositions. With k = e^epsilon its masses are

    delta, (1-delta) k/(1+k), (1-delta)/(1+k), 0    with the record, and the same in reverse without

so that h(alpha) = delta + (1-delta) max(0, (k - alpha)/(1+k)) for alpha >= 1. It is attained: by
that mechanism, run on whether the record occurs at all. A group of j records has the guarantee
(j epsilon, delta (e^{j epsilon} - 1)/(e^epsilon - 1)) (Vadhan 2017, Lemma 2.2).
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from mustdp.errors import InvalidParameter
from mustdp.mechanisms.mechanism import (
    DiscreteOutcomes,
    GroupProfiles,
    Mechanism,
    TabulatedProfiles,
    dual,
)
from mustdp.mechanisms.registry import MECHANISM_EPSILON, Argument, register
from mustdp.numerics import checks
from mustdp.numerics.arrays import FloatArray, IntArray
from mustdp.numerics.checks import frozen
from mustdp.numerics.convex import TangentTable, hull_slopes, two_sided

# Any other mechanism, known only through its privacy profile.
#
# Groups are covered by the black-box bound delta_j(eps) <= (e^eps - 1)/(e^{eps/j} - 1)
# delta(eps/j) (Vadhan, "The Complexity of Differential Privacy", 2017, Lemma 2.2): the factor is
# the geometric sum 1 + e^{eps/j} + … + e^{(j-1) eps/j}, from walking through j neighbours one at
# a time.

Profile = Callable[[FloatArray], ArrayLike]

#: The largest loss that is tabulated; exp of it is finite.
_LARGEST_LOSS = 690.0
_GRID = frozen(np.concatenate([[0.0], np.geomspace(1e-6, 400.0, 600)]))


@dataclass(frozen=True)
class Custom(Mechanism):
    """A mechanism described by its profile, in both orders of the data sets.

    The profile must hold for batches that differ in one entry: *swapped* for schemes of a fixed
    batch size, whatever the relation, and *left out* for Poisson sampling (under add_remove, the
    only relation in which Poisson sampling takes a custom mechanism). A value of zero is taken at
    its word: a function that underflows to zero should return a small number instead.

    Parameters
    ----------
    profile : callable
        From an array of epsilons >= 0 to as many deltas, which do not increase.
    label : str, default="custom"
        What the mechanism is called.

    Raises
    ------
    InvalidParameter
        The function returns what cannot be a profile.

    Examples
    --------
    >>> import mustdp as md
    >>> import numpy as np
    >>> coin = md.types.Custom(lambda eps: np.maximum(0.0, 0.75 - 0.25 * np.exp(eps)), "coin")
    >>> coin.label, round(md.account(coin).delta(0.5).upper, 3)
    ('coin', 0.338)
    """

    profile: Profile
    label: str = "custom"

    def __post_init__(self) -> None:
        if not callable(self.profile):
            raise InvalidParameter(
                f"profile must be a function from epsilon to delta, got {self.profile!r}"
            )
        self.evaluate(_GRID)

    @property
    def name(self) -> str:
        """The label it was given."""
        return self.label

    def shift_for(self, moves: float) -> None:
        """A custom mechanism has no shift."""
        return

    def profiles(self, shift: float | None) -> GroupProfiles:
        """Group profiles by the black-box bound."""
        return CustomProfiles(self)

    def describe(self) -> dict[str, Any]:
        """Plain description, for JSON; the function itself is not part of it."""
        return {"mechanism": self.name}

    def evaluate(self, epsilon: FloatArray) -> FloatArray:
        """Call the user's function and refuse what cannot be a profile.

        Parameters
        ----------
        epsilon : ndarray
            Epsilons, at least 0.

        Returns
        -------
        ndarray
            As many deltas.
        """
        flat = np.ravel(epsilon)
        try:
            # Copies, both ways: the function may write to what it is given, which may be a table
            # of this module, and may return one buffer every time.
            values = np.array(self.profile(flat.copy()), dtype=np.float64)
        except (TypeError, ValueError) as problem:
            raise InvalidParameter(
                f"profile must accept an array of epsilons and return as many deltas: {problem}"
            ) from None
        if values.shape != flat.shape:
            raise InvalidParameter(
                f"profile must return one delta per epsilon: shape {flat.shape} expected, "
                f"got {values.shape}"
            )
        if not np.all((values >= 0) & (values <= 1)):
            bad = values[~((values >= 0) & (values <= 1))][0]
            raise InvalidParameter(f"profile must return deltas in [0, 1], got {bad!r}")
        order = np.argsort(flat, kind="stable")
        if np.any(np.diff(values[order]) > 1e-12):
            raise InvalidParameter("profile must not increase with epsilon")
        return values.reshape(np.shape(epsilon))


class CustomProfiles(TabulatedProfiles):
    """Group profiles of a custom mechanism; tangents come from the hull of a table."""

    relative_error = 1e-12

    def __init__(self, mechanism: Custom) -> None:
        self._mechanism = mechanism
        super().__init__(_LARGEST_LOSS)

    def delta(self, groups: FloatArray, epsilon: FloatArray) -> FloatArray:
        """The black-box bound at every entry."""
        j, e = np.broadcast_arrays(groups, epsilon)
        size = np.abs(e)
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            step = size / j
            factor = np.exp(size - step) * (np.expm1(-size) / np.expm1(-step))
            factor = np.where(size > 0, factor, j)
        finite = np.where(np.isfinite(step), step, 0.0)
        base = self._mechanism.evaluate(finite)
        bound = np.minimum(1.0, np.where(base > 0, factor, 0.0) * base)
        return dual(np.where(np.isfinite(step), bound, 1.0), e)

    def _table(self, group: int) -> TangentTable:
        epsilon = np.unique(np.minimum(_GRID * group, _LARGEST_LOSS))
        value = self.delta(np.array(float(group)), epsilon)
        return two_sided(epsilon, value, hull_slopes(epsilon, value))


def custom(profile: Profile, label: str = "custom") -> Custom:
    """Describe a mechanism by its profile (see :class:`Custom`).

    Parameters
    ----------
    profile : callable
        From an array of epsilons >= 0 to as many deltas, which do not increase.
    label : str, default="custom"
        What the mechanism is called.

    Returns
    -------
    Custom
        A plan of one release, to be subsampled and repeated.

    Examples
    --------
    >>> import mustdp as md
    >>> import numpy as np
    >>> coin = md.custom(lambda eps: np.maximum(0.0, 0.75 - 0.25 * np.exp(eps)))
    >>> round(md.account(coin).delta(0.5).upper, 3)
    0.338
    """
    return Custom(profile, label)


#: Largest epsilon of a stated guarantee.
LARGEST = 100.0
#: Relative rounding of a few exponentials, generously.
_ROUNDING = 1e-14


@dataclass(frozen=True)
class StatedOutcomes(DiscreteOutcomes):
    """The four outcomes, for data sets with the record (places above 0) and without it."""

    epsilon: float
    delta: float

    relative_error = 1e-14
    placements: ClassVar[Mapping[str, tuple[int, int]]] = {"aligned": (1, 0), "reversed": (0, 1)}

    def masses(self, places: IntArray) -> FloatArray:
        """The masses above."""
        likely = (1.0 - self.delta) / (1.0 + np.exp(-self.epsilon))
        rare = (1.0 - self.delta) * np.exp(-self.epsilon) / (1.0 + np.exp(-self.epsilon))
        there = np.array([self.delta, likely, rare, 0.0])
        return np.where(places[:, None] > 0, there, there[::-1])


class StatedProfiles(TabulatedProfiles):
    """Group profiles of a stated guarantee."""

    relative_error = 1e-13

    def __init__(self, epsilon: float, delta: float) -> None:
        self._epsilon, self._delta = epsilon, delta
        super().__init__(_LARGEST_LOSS)

    def delta(self, groups: FloatArray, epsilon: FloatArray) -> FloatArray:
        """By the formula above, with the guarantee of each group."""
        j, e = np.broadcast_arrays(groups, np.asarray(epsilon, dtype=np.float64))
        whole = j * self._epsilon * (1.0 + _ROUNDING)
        failing: FloatArray = np.zeros(j.shape)
        if self._delta > 0.0:
            with np.errstate(over="ignore"):
                grown = np.expm1(whole) / np.expm1(self._epsilon) * (1.0 + 4.0 * _ROUNDING)
            failing = np.minimum(self._delta * np.maximum(grown, 1.0), 1.0)
        rest = -np.expm1(np.minimum(np.abs(e) - whole, 0.0)) / (1.0 + np.exp(-whole))
        return dual(np.minimum(failing + (1.0 - failing) * rest, 1.0), e)

    def _table(self, group: int) -> TangentTable:
        end = min(group * self._epsilon, _LARGEST_LOSS)
        beyond = np.append(1.001, np.geomspace(1.01, max(1.02, _LARGEST_LOSS / end), 40))
        epsilon = np.unique(end * np.concatenate([np.linspace(0.0, 1.0, 60), beyond]))
        value = self.delta(np.array([float(group)]), epsilon[:, None])[:, 0]
        return two_sided(epsilon, value, hull_slopes(epsilon, value))


@dataclass(frozen=True)
class StatedGuarantee(Mechanism):
    """What the two have in common."""

    mechanism_epsilon: float

    name: ClassVar[str]

    def shift_for(self, moves: float) -> None:
        """A guarantee has no shift."""
        return

    @property
    def _failing(self) -> float:
        return 0.0

    def profiles(self, shift: float | None) -> GroupProfiles:
        """Those of the worst mechanism with this guarantee."""
        return StatedProfiles(self.mechanism_epsilon, self._failing)

    def attained(self, shift: float | None) -> DiscreteOutcomes:
        """The worst mechanism itself."""
        return StatedOutcomes(self.mechanism_epsilon, self._failing)

    def describe(self) -> dict[str, Any]:
        """Plain description, for JSON."""
        return {"mechanism": self.name, **asdict(self)}

    def __post_init__(self) -> None:
        limits = {"at_least": 1e-9, "at_most": LARGEST}
        checked = checks.real("epsilon", self.mechanism_epsilon, **limits)
        object.__setattr__(self, "mechanism_epsilon", checked)


@dataclass(frozen=True)
class PureDP(StatedGuarantee):
    """Any mechanism that is epsilon differentially private."""

    name: ClassVar[str] = "pure-dp"


@dataclass(frozen=True)
class ApproximateDP(StatedGuarantee):
    """Any mechanism that is (epsilon, delta) differentially private."""

    mechanism_delta: float

    name: ClassVar[str] = "approximate-dp"

    def __post_init__(self) -> None:
        super().__post_init__()
        delta = checks.real("delta", self.mechanism_delta, at_least=1e-30, at_most=0.5)
        object.__setattr__(self, "mechanism_delta", delta)

    @property
    def _failing(self) -> float:
        return self.mechanism_delta


@register(
    summary="any mechanism with this epsilon (Kairouz et al. 2015)",
    arguments=(MECHANISM_EPSILON,),
    examples=({"mechanism_epsilon": 1.0}, {"mechanism_epsilon": 0.2}),
)
def pure_dp(epsilon: float) -> Mechanism:
    """Any epsilon-differentially private mechanism.

    The guarantee must hold for batches that differ in one entry: swapped for schemes of a fixed
    batch size, left out for Poisson sampling under add_remove.

    Parameters
    ----------
    epsilon : float
        The epsilon of one release, from 1e-9 to 100.

    Returns
    -------
    Mechanism
        A plan of one release, to be subsampled and repeated.

    Examples
    --------
    >>> import mustdp as md
    >>> print(f"{md.account(md.repeat(10, md.pure_dp(0.1))).epsilon(delta=1e-5).upper:.2f}")
    0.99
    """
    return PureDP(epsilon)


@register(
    summary="any mechanism with this epsilon and delta (Kairouz et al. 2015)",
    arguments=(
        MECHANISM_EPSILON,
        Argument(
            "mechanism_delta",
            "D",
            "The delta of every release on its own.",
            1e-30,
            0.5,
            parameter="delta",
        ),
    ),
    examples=(
        {"mechanism_epsilon": 0.8, "mechanism_delta": 1e-6},
        {"mechanism_epsilon": 0.3, "mechanism_delta": 2e-4},
    ),
)
def approximate_dp(epsilon: float, delta: float) -> Mechanism:
    """Any (epsilon, delta)-differentially private mechanism.

    The guarantee must hold for batches that differ in one entry: swapped for schemes of a fixed
    batch size, left out for Poisson sampling under add_remove.

    Parameters
    ----------
    epsilon : float
        The epsilon of one release, from 1e-9 to 100.
    delta : float
        The delta of one release, from 1e-30 to 0.5.

    Returns
    -------
    Mechanism
        A plan of one release, to be subsampled and repeated.

    Examples
    --------
    >>> import mustdp as md
    >>> print(f"{md.account(md.approximate_dp(1.0, 1e-6)).epsilon(delta=1e-5).upper:.3f}")
    1.000
    """
    return ApproximateDP(epsilon, delta)


# Mechanisms of which only Renyi divergences are known: upper bounds alone.
#
# A curve states that the Renyi divergence of order a between neighbours is at most eps_a. Mironov
# 2017, arXiv 1702.07476v3: curves of mechanisms that are run one after the other add up. Bun &
# Steinke 2016, arXiv 1605.02065: with zero-concentrated privacy eps_a = a rho at every a, and
# groups of j records have j^2 rho. Canonne, Kamath & Steinke 2020, arXiv 2004.00010v5,
# Proposition 12: for every a > 1,
#
#     delta(eps) <= e^{(a-1)(eps_a - eps)} / (a-1) (1 - 1/a)^a.
#
# Between two orders (a-1) eps_a may be read off the chord: (a-1) D_a is convex in a and 0 at a =
# 1. A group of j records of a curve has delta_j(eps) <= delta(eps/j) (e^eps - 1)/(e^{eps/j} - 1)
# (Vadhan 2017, Lemma 2.2).
#
# Adding up first and turning the sum into a profile once is much tighter than composing profiles,
# so all such parts of a plan are joined, whatever is released in between
# (docs/derivations/composition.md). No output distribution is known, so nothing is attained and
# the lower bound is 0.

#: Orders minus 1 at which the bound is tried; any of them is valid.
_ORDERS = frozen(np.geomspace(1e-4, 1e6, 400))
_LOSSES = frozen(np.concatenate([[0.0], np.geomspace(1e-6, _LARGEST_LOSS, 600)]))
#: Ranges of what can be stated: outside them nothing is hidden, or digits are lost.
SMALLEST_RHO, LARGEST_RHO = 1e-12, 1e4
LARGEST_ORDER, LARGEST_DIVERGENCE, MOST_ORDERS = 1e6, 1e6, 1000


class CurveProfiles(TabulatedProfiles):
    """Group profiles: the smallest of the bounds at these orders (minus 1)."""

    relative_error = 1e-9  # of exponents of up to some thousands

    def __init__(self, orders: FloatArray, divergences: FloatArray, *, quadratic: bool) -> None:
        self._orders, self._divergences, self._quadratic = orders, divergences, quadratic
        super().__init__(_LARGEST_LOSS)

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
        value = self.delta(np.array([float(group)]), _LOSSES[:, None])[:, 0]
        value = np.minimum.accumulate(value)
        return two_sided(_LOSSES, value, hull_slopes(_LOSSES, value))


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


@register(
    summary="any mechanism with this rho of zero-concentrated privacy; upper bounds alone",
    arguments=(Argument("rho", "RHO", "The rho of every release on its own.", 1e-12, 1e4),),
    examples=({"rho": 0.5}, {"rho": 0.01}),
)
def zcdp(rho: float) -> Mechanism:
    """Any mechanism with rho zero-concentrated differential privacy.

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


@register(
    summary="any mechanism with these Renyi divergences; upper bounds alone (Mironov 2017)",
    arguments=(
        Argument(
            "renyi_orders",
            "A,...",
            "Increasing orders above 1 at which --renyi-epsilons are stated.",
            1.0,
            1e6,
            several=True,
            parameter="orders",
        ),
        Argument(
            "renyi_epsilons",
            "E,...",
            "The Renyi divergence of every release on its own, at each of the --renyi-orders.",
            0.0,
            1e6,
            several=True,
            parameter="epsilons",
        ),
    ),
    examples=(
        {"renyi_orders": (2.0, 4.0, 8.0, 32.0), "renyi_epsilons": (0.4, 0.8, 1.6, 6.4)},
        {"renyi_orders": (1.5, 6.0, 60.0), "renyi_epsilons": (0.03, 0.1, 0.7)},
    ),
)
def renyi(orders: Sequence[float], epsilons: Sequence[float]) -> Mechanism:
    """Any mechanism, by bounds on its Renyi divergences.

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
