"""Profiles known at many points: chords above, a concrete pair below, refined on demand."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from mustdp.numerics.arrays import ROUNDOFF, FloatArray, IntArray
from mustdp.numerics.checks import frozen
from mustdp.numerics.convex import lower_hull

# A profile known from both sides at many points: chords above it, a concrete pair below it.
#
# Profiles are convex in alpha. Above, values are read off chords of the upper bounds. Below, with
# lower bounds v and upper bounds u at points x_0 < x_1 < ..., the line through (x_j, u_j), j < k,
# and (x_k, v_k) stays below the profile from x_k on, and the one through (x_j, u_j), j > k + 1,
# and (x_{k+1}, v_{k+1}) up to x_{k+1}. Their maximum in every cell, and of that the lower convex
# hull, is a convex function below the profile with a bend at every vertex: the profile of a
# discrete pair that the true one dominates. A bend b at alpha is an outcome of chance b under Q
# and alpha b under P.


#: Lower bounds are taken down by this much, for the rounding of lines and of the hull.
_DOWN = 1e-10
#: How many points away the other end of a line may lie: far apart where bounds are, too.
_STENCIL = (1, 2, 4, 8, 12, 16)


@dataclass(frozen=True, eq=False)
class OutcomePair:
    """A discrete pair, outcomes by increasing loss: P from below, Q from above."""

    name: str
    p: FloatArray
    q: FloatArray
    lost: float = 0.0
    constant_ends: bool = False

    def outcomes(self, spacing: float, points: IntArray) -> tuple[FloatArray, FloatArray]:
        """Probabilities under P and Q; they are the same on every grid."""
        return self.p, self.q

    def attained(self, epsilon: float) -> float:
        """Sum of (p - e^epsilon q)_+, rounded down."""
        terms = self.p - np.exp(min(epsilon, 700.0)) * (1.0 + 1e-13) * self.q
        return max(0.0, float(terms[terms > 0.0].sum()) * (1.0 - 1e-12))


@dataclass(frozen=True, eq=False)
class OneSide:
    """Bounds of a profile at increasing alpha - 1 >= 0."""

    x: FloatArray
    lower: FloatArray
    upper: FloatArray

    @property
    def mirrored(self) -> tuple[FloatArray, FloatArray]:
        """The points on the other side of alpha = 1, nearest first, and h there from above."""
        alpha = 1.0 / (1.0 + self.x[1:])
        return alpha - 1.0, (1.0 - alpha) + alpha * self.upper[1:]

    def vertices(
        self, start: float, before: tuple[FloatArray, FloatArray]
    ) -> tuple[FloatArray, FloatArray]:
        """The lines of every cell: its ends and where they meet.

        ``start`` bounds h(1) from below, ``before`` is what is known left of it, from above.
        """
        stop = int(np.argmax(self.lower <= 0.0)) if np.any(self.lower <= 0.0) else self.x.size
        if stop < 3:
            return np.array([0.0, 1.0]), np.array([start, 0.0]) * (start <= 0.0)
        x, u = self.x[:stop], self.upper[:stop]
        v = np.minimum.accumulate(np.append(start, self.lower[1:stop])) * (1.0 - _DOWN)
        left = min(_STENCIL[-1], before[0].size)
        xs = np.concatenate([before[0][:left][::-1], x])
        us = np.concatenate([before[1][:left][::-1], u])
        # Slopes that hold right of each point, and left of it: the best of several points away.
        ahead, back = np.full(stop, -1.0), np.zeros(stop)
        for away in _STENCIL:
            have = np.arange(max(0, away - left), stop)
            other = have + left - away
            ahead[have] = np.maximum(ahead[have], (v[have] - us[other]) / (x[have] - xs[other]))
            if away < stop:
                slope = (u[away:] - v[:-away]) / (x[away:] - x[:-away])
                back[:-away] = np.minimum(back[:-away], slope)
        first, second = ahead[:-1], back[1:]
        with np.errstate(divide="ignore", invalid="ignore"):
            meet = (v[1:] - v[:-1] + first * x[:-1] - second * x[1:]) / (first - second)
        meet = np.clip(np.where(np.isfinite(meet), meet, x[:-1]), x[:-1], x[1:])
        height = np.maximum(v[:-1] + first * (meet - x[:-1]), v[1:] + second * (meet - x[1:]))
        end = x[-1] - v[-1] / ahead[-1] if ahead[-1] < 0.0 else 2.0 * x[-1] + 1.0
        places = np.append(np.stack([x[:-1], meet], axis=1).ravel(), [x[-1], end])
        heights = np.append(np.stack([v[:-1], height], axis=1).ravel(), [v[-1], 0.0])
        distinct = np.append(True, np.diff(places) > 0.0)
        # Of two vertices in one place the lower one counts.
        group = np.cumsum(distinct) - 1
        lowest = np.full(int(group[-1]) + 1, np.inf)
        np.minimum.at(lowest, group, heights)
        return places[distinct], lowest * (1.0 - _DOWN)


def outcome_pair(name: str, ahead: OneSide, behind: OneSide) -> OutcomePair:
    """The pair below both directions, H(P || Q) ahead and H(Q || P) behind."""
    start = max(float(ahead.lower[0]), float(behind.lower[0]), 0.0)  # total variation distance
    x, v = ahead.vertices(start, behind.mirrored)
    y, w = behind.vertices(start, ahead.mirrored)
    v[0] = w[0] = _joined(x, v, y, w)
    up, bend_up, doubt_up = _bends(x, v)
    down, bend_down, doubt_down = _bends(y, w)
    # Left of alpha = 1 the roles are exchanged: a bend is the probability under P.
    p = np.concatenate([(bend_down - doubt_down)[::-1], up * (bend_up - doubt_up)])
    q = np.concatenate([(down * (bend_down + doubt_down))[::-1], bend_up + doubt_up])
    p = np.maximum(p * (1.0 - 4.0 * ROUNDOFF), 0.0)
    q = q * (1.0 + 4.0 * ROUNDOFF)
    # Where the two sides still bend too much both are mixed with a pair that tells nothing.
    share = 1.0 / max(1.0, float(p.sum()), float(q.sum()))
    p, q = share * p, share * q
    rest_p = max(0.0, 1.0 - 1e-13 - float(p.sum()))
    rest_q = max(rest_p, 1.0 + 1e-13 - float(q.sum()))
    p, q = np.insert(p, down.size, rest_p), np.insert(q, down.size, rest_q)
    kept = p > 0.0
    return OutcomePair(name, frozen(p[kept]), frozen(q[kept]))


def _joined(x: FloatArray, v: FloatArray, y: FloatArray, w: FloatArray) -> float:
    """h(1) on the convex hull of both sides; only points near enough to matter are looked at."""
    right, left = v > 0.02 * v[0], w > 0.02 * w[0]
    left[0] = False
    alpha = 1.0 / (1.0 + y[left][::-1])
    at = np.concatenate([alpha - 1.0, x[right]])
    if not at.size:  # nothing is known from below
        return 0.0
    height = np.concatenate([(1.0 - alpha) + alpha * w[left][::-1], v[right]])
    hull = lower_hull(at, height)
    return float(np.interp(0.0, at[hull], height[hull])) * (1.0 - _DOWN)


def _bends(x: FloatArray, v: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Where alpha > 1 the hull of the vertices bends, how much, and what rounding may have done."""
    kept = lower_hull(x, v)
    x, v = x[kept], v[kept]
    gap = np.diff(x)
    bends = np.diff(np.append(np.diff(v) / gap, 0.0))
    sizes = (v[:-1] + v[1:]) / gap
    doubt = 8.0 * ROUNDOFF * (sizes + np.append(sizes[1:], 0.0))
    return 1.0 + x[1:], np.maximum(bends, 0.0), doubt


# A profile between points where it is known from above, found when and where it is asked for.
#
# h is convex in alpha, so that chords lie above it. Under replace_one and for whole epochs more is
# known. With delta = eps / (2 s), D of alpha at g is e^{eps/2} times D of 1 at g - delta, hence
#
#     h(e^eps) e^{-eps/2} = E F(g - delta) = e^{-M delta^2 / 2} E [F(g) e^{-delta sum g_i}]
#
# with F the positive part of the mean of D of 1: log h + M eps^2 / (8 s^2) - eps / 2 is convex in
# eps, and chords of that lie above it too. Where noise is plenty it is nearly straight.
#
# Cells are halved until a chord in them cannot be far off, at places that do not depend on what was
# asked: so neither do the answers.


#: How far off, relatively, chords may be where the profile is above each of these values, and else.
_FAR_OFF, _LAST = ((1e-4, 1e-3), (1e-7, 4e-3), (1e-11, 2e-2)), 0.1
#: Cells at the start, and how often one is halved.
_CELLS, _DEEPEST = 16, 12
#: How small a profile is not followed any more.
_SMALLEST = 1e-17
#: For the rounding of a few products, generously.
_UP = 1.0 + 1e-12

#: A point alpha - 1 and the bound there.
Node = tuple[float, float]


class Refined:
    """Upper bounds of a falling profile at any x = alpha - 1 in [0, end], off chords.

    ``bound`` is what is known at one x, ``scale`` about how widely x spreads, and ``bend`` the
    factor of eps^2 above, infinite where nothing is known.
    """

    def __init__(
        self,
        bound: Callable[[float], float],
        scale: float,
        end: float,
        bend: float,
        fine: float = 1.0,
    ) -> None:
        self._bound, self._bend, self._end = bound, bend, end
        # Cells that are halved once more have chords that are four times as close.
        self._closer = fine * fine
        self._scale = scale
        self._last = math.log1p(end / scale)
        self._known: dict[tuple[int, int], Node] = {}

    def __call__(self, x: FloatArray) -> FloatArray:
        """The bounds, rounded up."""
        found = np.empty(x.size)
        place = np.log1p(x / self._scale) * (_CELLS / self._last)
        first = np.clip(np.floor(place), 0, _CELLS - 1).astype(np.int64)
        for number in np.unique(first).tolist():
            here = np.flatnonzero(first == number)
            self._cell(number, 0, x, here, found, math.inf)
        return found

    def _cell(
        self, number: int, depth: int, x: FloatArray, here: IntArray, out: FloatArray, off: float
    ) -> None:
        """Fill in what is asked for in one cell, halved while it is about ``off`` off."""
        ends = self._node(number, depth), self._node(number + 1, depth)
        if depth == _DEEPEST or off * self._closer <= _allowed(*ends):
            out[here] = self._between(*ends, x[here])
            return
        middle, upper = self._node(2 * number + 1, depth + 1)
        # Chords of half a cell are off by a quarter of that.
        seen = float(self._between(*ends, np.array([middle]))[0]) / max(upper, 1e-300) - 1.0
        halves = max(abs(seen) / 4.0, off / 16.0 if math.isfinite(off) else 0.0)
        left = x[here] < middle
        for part, own in ((here[left], 2 * number), (here[~left], 2 * number + 1)):
            if part.size:
                self._cell(own, depth + 1, x, part, out, halves)

    def _between(self, left: Node, right: Node, x: FloatArray) -> FloatArray:
        """The smaller of both chords."""
        (a, upper_a), (b, upper_b) = left, right
        at = np.clip(x, a, b)
        found = np.interp(at, [a, b], [upper_a, upper_b])
        if math.isfinite(self._bend) and upper_b > 0.0:
            eps, start, stop = np.log1p(at), math.log1p(a), math.log1p(b)
            logs = np.interp(eps, [start, stop], [math.log(upper_a), math.log(upper_b)])
            logs = logs + self._bend * (eps - start) * (stop - eps)
            found = np.minimum(found, np.exp(np.minimum(logs, 1.0)))
        # A hair before the cell, where rounding may have put x: h falls by at most one per unit.
        return np.asarray(found * _UP + np.maximum(a - x, 0.0))

    def _node(self, number: int, depth: int) -> Node:
        """A point and the bound there."""
        while depth and number % 2 == 0:
            number, depth = number // 2, depth - 1
        if (number, depth) not in self._known:
            share = number / (_CELLS * 2.0**depth)
            x = self._end if share >= 1.0 else self._scale * math.expm1(self._last * share)
            self._known[number, depth] = x, self._bound(x)
        return self._known[number, depth]


def _allowed(left: Node, right: Node) -> float:
    """How far off a chord may be, by how large the profile is."""
    if not left[1] > _SMALLEST or not right[1] > 0.0:
        return math.inf
    return next((most for least, most in _FAR_OFF if left[1] > least), _LAST)


#: In how many looks the bracket of a root is made narrow.
_LOOKS = 40


def falling_root(value: Callable[[float], float], left: Node, right: Node, narrow: float) -> float:
    """The right end of a bracket in which a function falls through zero, by regula falsi.

    ``left`` and ``right`` are the ends of a wide one, with the values there; ``narrow`` is the
    width of the one that is looked for over its right end.
    """
    (low, above), (high, below) = left, right
    kept = 0
    for _ in range(_LOOKS):
        if high - low <= narrow * high:
            break
        share = min(max(above / (above - below), 0.02), 0.98) if below < above else 0.5
        middle = low + (high - low) * share
        found = value(middle)
        # The end that stays twice counts half, so that both ends move (Illinois).
        if found <= 0.0:
            high, below = middle, found
            above *= 0.5 if kept < 0 else 1.0
            kept = -1
        else:
            low, above = middle, found
            below *= 0.5 if kept > 0 else 1.0
            kept = 1
    return high
