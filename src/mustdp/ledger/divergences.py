"""Renyi divergences of a plan outside a rare event, read off its certified curve of deltas.

The curve bounds h(t) = H_t(P, Q), in both orders of every pair of neighbours. Cut at c = e^top and
taken as constant above, its chords are the profile of a dominating pair with the mass h(c) at
infinity. What is left of P without that mass, G, has E_Q (dG/dQ)^a equal to

    1 + a (a-1) [ int_1^c t^(a-2) h(t) dt + int_0^1 t^(a-1) h(1/t) dt ] - a c^(a-1) h(c).

(docs/derivations/ledger.md). Every chord lies above the curve, so each moment is bounded from
above; dG/dQ <= c bounds all of them, and is the order at infinity.

The account's own divergences keep the two orders of neighbours apart, but leave out far less: they
are the better ones at low orders, if neighbours differ in one direction only. Where both hold, the
smaller one does, outside both events.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from mustdp.accounting.account import account
from mustdp.accounting.plan import Plan
from mustdp.limits import LARGEST_EPSILON, SMALLEST_DELTA
from mustdp.numerics.arrays import FloatArray

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
