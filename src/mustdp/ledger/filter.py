"""Renyi filters: what plans that are chosen adaptively may spend."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from mustdp.accounting.account import account
from mustdp.accounting.plan import Atom, Plan
from mustdp.errors import InvalidParameter
from mustdp.limits import LARGEST_EPSILON, SMALLEST_DELTA
from mustdp.numerics.arrays import FloatArray

# Renyi divergences of a plan outside a rare event, read off its certified curve of deltas.
#
# The curve bounds h(t) = H_t(P, Q), in both orders of every pair of neighbours. Cut at c = e^top
# and taken as constant above, its chords are the profile of a dominating pair with the mass h(c)
# at infinity. What is left of P without that mass, G, has E_Q (dG/dQ)^a equal to
#
#     1 + a (a-1) [ int_1^c t^(a-2) h(t) dt + int_0^1 t^(a-1) h(1/t) dt ] - a c^(a-1) h(c).
#
# (docs/derivations/ledger.md). Every chord lies above the curve, so each moment is bounded from
# above; dG/dQ <= c bounds all of them, and is the order at infinity.
#
# The account's own divergences keep the two orders of neighbours apart, but leave out far less:
# they are the better ones at low orders, if neighbours differ in one direction only. Where both
# hold, the smaller one does, outside both events.


#: Where the curve is evaluated, as shares of the cut: small losses in proportion, others evenly.
_NEAR, _FAR = np.geomspace(1e-4, 1.0 / 128, 48), np.linspace(1.0 / 128, 1.0, 255)
#: Rounding in double precision of a moment near 1, and of the weights of a cell, on the safe side.
_ROUNDING = 1e-12
_WEIGHT_ROUNDING = 1e-9
#: The two integrals that a weight is the difference of agree up to the width of the cell.
_DIFFERENCE_ROUNDING = 1e-15


@dataclass(frozen=True)
class Divergences:
    """Bounds of the divergences by order, the last at infinity, and the mass they leave out."""

    by_order: tuple[float, ...]
    outside: float


@lru_cache(maxsize=4096)
def divergences(
    plan: Plan, relation: str, orders: tuple[float, ...], outside: float
) -> Divergences:
    """Divergences of one run of ``plan``, about ``outside`` of its mass left out at the top.

    Where the losses have no finite bound the divergences are infinite.
    """
    asked = account(plan, relation=relation)
    top = asked.certified_epsilon(max(outside, SMALLEST_DELTA))
    if not top < LARGEST_EPSILON:
        return Divergences((math.inf,) * (len(orders) + 1), 0.0)
    if not top > 0:
        return Divergences((0.0,) * (len(orders) + 1), outside)
    epsilon = np.concatenate([[0.0], _NEAR[:-1] * top, _FAR * top])
    deltas = np.minimum.accumulate(asked.curve(epsilon).upper)
    other = asked.renyi(orders)
    found = [
        min(top, _divergence(order, epsilon, deltas), value + _ROUNDING / (order - 1.0))
        for order, value in zip(orders, other.approximate.tolist(), strict=True)
    ]
    return Divergences((*found, top), float(deltas[-1]) + other.outside)


def _divergence(order: float, epsilon: FloatArray, deltas: FloatArray) -> float:
    """The divergence of one order above 1; deltas do not increase."""
    theta = order - 1.0
    width = np.diff(epsilon)
    left, right = deltas[:-1], deltas[1:]
    if theta * epsilon[-1] > 600.0 or order * float(width.max()) > 600.0:
        return math.inf
    # The cell [t, r t] has int u^(a-2) (chord) du, with u = t' / t from 1 to r, twice: as it is,
    # and mirrored, int_{1/(r t)}^{1/t} v^(a-1) h(1/v) dv = int u^(-a-1) (chord) du.
    ahead = np.exp(theta * epsilon[:-1]) * _cell(theta, width, left, right)
    behind = np.exp(-order * epsilon[:-1]) * _cell(-order, width, left, right)
    inside = order * theta * float(np.sum(ahead + behind))
    excess = inside - order * math.exp(theta * float(epsilon[-1])) * float(deltas[-1])
    slack = _ROUNDING * (1.0 + inside)
    return max(0.0, math.log1p(max(excess + slack, 0.0))) / theta


def _cell(power: float, width: FloatArray, left: FloatArray, right: FloatArray) -> FloatArray:
    """The integral of u^(power-1) times the chord from ``left`` to ``right``, u from 1 to e^width.

    A little weight is moved from the right end to the left, where the chord is higher: more than
    rounding can have moved the other way.
    """
    whole = np.expm1(power * width) / power
    above = np.expm1((power + 1.0) * width) / (power + 1.0) if power != -1.0 else width
    surely = 1.0 - _WEIGHT_ROUNDING - _DIFFERENCE_ROUNDING / width
    far = np.clip((above - whole) / np.expm1(width) * surely, 0.0, whole)
    return np.asarray((whole - far) * left + far * right)


# What plans that are chosen along the way may spend: Renyi filters.
#
# Feldman & Zrnic 2021 (arXiv 2008.11193) for one order fixed in advance; Whitehouse, Ramdas,
# Rogers & Wu 2023 (arXiv 2203.05481) for divergences outside rare events. Several orders, each
# with its own share of delta, and the proof of what is used here: docs/derivations/ledger.md.
#
# Orders and shares are fixed when the ledger is made. Divergences are added up exactly, as whole
# numbers of 2^-60, each rounded up: sums depend on no order of events and can be checked to the
# bit.


#: Binary places of stored divergences, and of stored probabilities, which are far smaller.
_BITS, _RARE_BITS = 60, 200
#: Orders as multiples of the best for Gaussian noise (minus 1), with their shares of delta.
_SHARES = (
    (0.25, 1 / 32),
    (0.5, 1 / 16),
    (0.7, 1 / 8),
    (1.0, 1 / 2),
    (1.4, 1 / 8),
    (2.0, 1 / 16),
    (4.0, 1 / 32),
    (16.0, 1 / 16),
)
#: Share of delta for the rare events that divergences leave out.
_EVENTS = 1 / 8
#: Levels of rarity are so far apart; each that occurs has to be accounted for once.
_COARSE, _DEEPEST = 4.0, 40


@dataclass(frozen=True)
class Cost:
    """What a filter adds up: divergences by order (the last at infinity), and rare events.

    None means an infinite sum.
    """

    sums: tuple[int | None, ...]
    outside: int

    def __add__(self, other: Cost) -> Cost:
        sums = zip(self.sums, other.sums, strict=True)
        added = tuple(None if a is None or b is None else a + b for a, b in sums)
        return Cost(added, self.outside + other.outside)

    def times(self, count: int) -> Cost:
        """A multiple of it."""
        sums = tuple(None if each is None else count * each for each in self.sums)
        return Cost(sums, count * self.outside)


@dataclass(frozen=True)
class Filter:
    """The filter of one limit; ``orders`` and ``shares`` belong together."""

    epsilon: float
    delta: float
    orders: tuple[float, ...]
    shares: tuple[float, ...]

    def __post_init__(self) -> None:
        numbers = (self.epsilon, *self.orders, *self.shares)
        good = len(self.orders) == len(self.shares) and all(map(math.isfinite, numbers))
        good = good and self.epsilon > 0 and 0 < self.delta < 1 and all(a > 1 for a in self.orders)
        if not (good and all(s > 0 for s in self.shares) and math.fsum(self.shares) <= 1):
            raise InvalidParameter(
                "a filter must have a positive epsilon, a delta in (0, 1), orders above 1 and "
                f"positive shares that add up to at most 1, got {numbers!r} and {self.delta!r}"
            )

    @property
    def nothing(self) -> Cost:
        """The cost of nothing."""
        return Cost((0,) * (len(self.orders) + 1), 0)

    def level(self, number: int, steps: int) -> int:
        """How rare the events are that charge ``number`` may leave out in each of its steps.

        All of them together stay within their share of delta: the sum over all numbers k of
        1/(4 k (1 + log2 k)^2) is at most (1 + log 2)/4, which leaves room for curves that are a
        little too high. And each is known before the charge.
        """
        wanted = 4.0 * number * (1.0 + math.log2(number)) ** 2 * steps
        return min(_DEEPEST, math.ceil(math.log2(wanted) / math.log2(_COARSE)))

    def cost(self, counted: Mapping[Atom, int], relation: str, level: int) -> Cost:
        """What atoms cost, with the number of each."""
        total = self.nothing
        outside = self.delta * _EVENTS * _COARSE**-level
        for atom, count in counted.items():
            found = divergences(atom, relation, self.orders, outside)
            one = Cost(
                tuple(_whole(each, _BITS) for each in found.by_order),
                _whole(found.outside, _RARE_BITS) or 0,
            )
            total += one.times(count)
        return total

    def fits(self, used: Cost) -> bool:
        """Whether at least one order is within the budget it was given in advance."""
        if used.outside > self._rare:
            return False
        sums = zip(used.sums, self._budgets(), strict=True)
        return any(spent is not None and spent <= budget for spent, budget in sums)

    def spent(self, used: Cost) -> float:
        """The smallest limit that would have admitted all this; infinite if no finite one would."""
        if all(each == 0 for each in used.sums):
            return 0.0
        if used.outside > self._rare:
            return math.inf
        each = zip(used.sums, (*self._conversions(), 0.0), strict=True)
        found = [math.ldexp(float(s), -_BITS) * (1 + 1e-15) + c for s, c in each if s is not None]
        return max(0.0, min(found, default=math.inf))

    def most(self, used: Cost, one: Cost) -> int:
        """How many more of ``one`` fit."""
        best = 0
        rare = (self._rare - used.outside) // one.outside if one.outside else None
        for spent, cost, budget in zip(used.sums, one.sums, self._budgets(), strict=True):
            if spent is not None and cost and spent <= budget:
                count = (budget - spent) // cost
                best = max(best, count if rare is None else min(count, rare))
        return max(0, best)

    def gaussian_shift(self, used: Cost) -> float:
        """The shift of the largest single Gaussian release that fits; its order-a cost is a s^2/2.

        One per mille is left for the rounding of its divergences.
        """
        best = 0.0
        orders = zip(self.orders, used.sums[:-1], self._budgets()[:-1], strict=True)
        for order, spent, budget in orders:
            if spent is not None and spent < budget:
                room = math.ldexp(float(budget - spent), -_BITS)
                best = max(best, math.sqrt(2.0 * room / order))
        return best * 0.999

    def _conversions(self) -> tuple[float, ...]:
        """What is added to a divergence to make it an epsilon, order by order."""
        pairs = zip(self.orders, self.shares, strict=True)
        return tuple(_conversion(a, share * self.delta * (1 - _EVENTS)) for a, share in pairs)

    def _budgets(self) -> tuple[int, ...]:
        """The largest sum of divergences, order by order, the last at infinity."""
        limits = [self.epsilon - conversion for conversion in self._conversions()]
        return tuple(math.floor(math.ldexp(limit, _BITS)) for limit in (*limits, self.epsilon))

    @property
    def _rare(self) -> int:
        return math.floor(math.ldexp(self.delta * _EVENTS, _RARE_BITS))


def filter_for(epsilon: float, delta: float) -> Filter:
    """The filter of a new ledger: orders around the one that admits most Gaussian noise.

    >>> filter_for(4.0, 1e-6).orders
    (2.63, 4.27, 5.57, 7.53, 10.1, 14.1, 27.1, 106.0)
    """
    share = dict(_SHARES)[1.0] * delta * (1 - _EVENTS)
    candidates = [1.0 + 10.0 ** (k / 200) for k in range(-400, 1000)]
    best = max(candidates, key=lambda a: (epsilon - _conversion(a, share)) / a) - 1.0
    orders = tuple(float(f"{1.0 + factor * best:.3g}") for factor, _ in _SHARES)
    orders = tuple(max(order, 1.01 + 0.01 * k) for k, order in enumerate(orders))
    return Filter(epsilon, delta, orders, tuple(share for _, share in _SHARES))


def _conversion(order: float, delta: float) -> float:
    """Canonne, Kamath & Steinke 2020 (arXiv 2004.00010v3), Proposition 12, rounded up."""
    exact = math.log1p(-1.0 / order) - (math.log(delta) + math.log(order)) / (order - 1.0)
    return exact + _ROUNDING * (1.0 + abs(exact))


def _whole(value: float, bits: int) -> int | None:
    """A number as a multiple of 2^-bits, rounded up; None if it is infinite."""
    return math.ceil(math.ldexp(value, bits)) if math.isfinite(value) else None
