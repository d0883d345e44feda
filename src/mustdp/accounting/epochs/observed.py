"""An epoch seen through one sum or its largest term: what the best tests attain."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from scipy.special import log_ndtr, ndtr

from mustdp.accounting.epochs.sums import OUTSIDE, Summed
from mustdp.accounting.epochs.tables import OutcomePair
from mustdp.accounting.pld.discretise import DiscreteLoss
from mustdp.accounting.pld.readoff import Composition, Part
from mustdp.errors import NumericalFailure
from mustdp.numerics.arrays import ROUNDOFF, FloatArray, IntArray
from mustdp.numerics.checks import frozen

# An epoch seen through one sum: what its best tests attain, and the discrete pair of these tests.
#
# Every batch is put into a cell of its outcomes, cells have whole numbers, and an observer sees
# the sum of the numbers alone. Whatever the cells are, that is a function of the releases, so its
# tests are tests of the epoch: no grid can make them attain too much. The two laws are
# convolutions of the chances of cells, found under a tilt with all errors bounded
# (``readoff.py``).
#
# A test with chance p under P, from below, and q under Q, from above, is a point (q, p). Points of
# any number of observers are put together: the upper concave hull is the power of randomised tests,
# and its edges are the outcomes of a discrete pair that the epoch dominates.


#: How far around the aim thresholds lie, and how far apart, in units of one over the tilt.
_AROUND, _APART = 3.0, 0.025
#: Ends of cells further out are left out; cells must be known to at least this precision.
_FURTHEST, _FEW_DIGITS = 30.0, 1e-7
#: Larger exponents would be of use only for tests at impossibly small deltas.
_STEEPEST, _LARGEST_UNIT = 50.0, 600.0
#: Chances of tests are taken down and up by this much more, for the rounding of the hull.
_MARGIN = 1e-12

#: Laws of a sum and their weights: the law of a batch and how often it occurs, for each.
Mixed = Sequence[tuple[float, Sequence[Part]]]


@dataclass(frozen=True, eq=False)
class OutcomeCells:
    """Cells of a standard normal outcome: their numbers, increasing, and the ends between them."""

    spacing: float
    index: IntArray
    ends: FloatArray

    @classmethod
    def trimmed(
        cls, spacing: float, index: IntArray, ends: FloatArray, shift: float
    ) -> OutcomeCells:
        """Without ends that are so far out that chances beyond them, moved or not, underflow."""
        kept = np.abs(ends) + abs(shift) < _FURTHEST
        kept &= np.append(True, np.diff(ends) > 0.0)
        first = int(np.argmax(kept))
        # A cell keeps its number with its upper end, and the last one has none.
        chosen = np.append(kept, False)
        last = int(np.flatnonzero(kept)[-1]) + 1 if kept.any() else first
        chosen[last] = True
        return cls(spacing, index[chosen], ends[kept])

    def law(self, shift: float) -> tuple[DiscreteLoss, float]:
        """Chances of all cells for an outcome moved by ``shift``, and their relative error."""
        at = self.ends - shift
        head, tail = np.append(ndtr(at), 1.0), np.append(1.0, ndtr(-at))
        low, high = np.append(0.0, head[:-1]), np.append(tail[1:], 0.0)
        right = np.append(at, np.inf) > 0.0
        chance = np.where(right, tail - high, head - low)
        size = np.where(right, tail + high, head + low)
        squares = np.square(np.append(0.0, at))
        squares = np.maximum(squares, np.append(squares[1:], 0.0))
        error = float(np.max(ROUNDOFF * (16.0 + 2.0 * squares) * size / chance))
        if not error < _FEW_DIGITS:
            raise NumericalFailure(f"chances of cells are known to {error:.2g} only")
        return DiscreteLoss(self.spacing, self.index, chance), 2.0 * error


@dataclass(frozen=True, eq=False)
class Rejections:
    """Rejections by their chances: ``p`` from below under P, ``q`` from above under Q."""

    p: FloatArray
    q: FloatArray

    def with_those_of(self, other: Rejections) -> Rejections:
        """These and those of another observer."""
        return Rejections(np.append(self.p, other.p), np.append(self.q, other.q))


def rejecting_above(
    with_p: Mixed,
    with_q: Mixed,
    error: float,
    tilt: float,
    aim: float,
    tilt_p: float | None = None,
) -> Rejections:
    """Rejections that reject when the sum is at least a threshold near ``aim``.

    ``error`` bounds the relative error of any chance of the sum due to those of cells. Where the
    two laws are far apart, the one that is rejected gladly has a gentler tilt of its own.
    """
    d = with_p[0][1][0][0].spacing
    start = math.floor((aim - _AROUND / tilt) / d)
    thresholds = start + np.arange(0, math.ceil(2.0 * _AROUND / (tilt * d)) + 2)
    apart = max(1, math.floor(_APART / (tilt * d)))
    at = thresholds[::apart].astype(np.int64)
    gentle = tilt if tilt_p is None else tilt_p
    p = sum(weight * beyond(parts, gentle, aim, at, -1.0) for weight, parts in with_p)
    q = sum(weight * beyond(parts, tilt, aim, at, +1.0) for weight, parts in with_q)
    p = np.asarray(p) * (1.0 - error - _MARGIN)
    q = np.asarray(q) * (1.0 + error + _MARGIN)
    sensible = (p > q) & (q < 1.0)
    return Rejections(p[sensible], q[sensible])


def beyond(parts: Sequence[Part], tilt: float, aim: float, at: IntArray, sign: float) -> FloatArray:
    """The chance that a sum of parts is at least each of the thresholds, rounded by ``sign``."""
    tilted = Summed([part for part in parts if part[1] > 0]).tilt(tilt)
    d = float(tilted.losses[1] - tilted.losses[0])
    first = round(float(tilted.losses[0]) / parts[0][0].spacing)
    weights = np.exp(np.minimum(-tilt * (tilted.losses - aim), _STEEPEST))
    masses = weights * np.maximum(tilted.masses + sign * tilted.error, 0.0)
    beyond = np.append(np.cumsum(masses[::-1])[::-1], 0.0)
    found = beyond[np.clip(at - first, 0, masses.size)]
    # What lies outside the window, or came back into it, weighs no more than at the threshold.
    doubt = 2.0 * OUTSIDE * np.exp(np.minimum(-tilt * (at * d - aim), _STEEPEST))
    rounding = 2.0 * tilted.relative + ROUNDOFF * (8.0 * masses.size + 1e4)
    log_unit = tilted.log_scale - tilt * aim
    if log_unit > _LARGEST_UNIT:  # nothing is known to any digit
        return np.full(at.size, 0.0 if sign < 0.0 else np.inf)
    unit = math.exp(log_unit)
    return np.asarray(np.maximum((found + sign * doubt) * (1.0 + sign * rounding) * unit, 0.0))


def rejecting_pair(
    name: str, ahead: Sequence[Rejections], behind: Sequence[Rejections]
) -> OutcomePair:
    """The pair of all these tests; ``behind`` are tests with P and Q exchanged.

    A test of the exchanged pair that accepts instead has 1 - q under P and 1 - p under Q.
    """
    p, q = (np.concatenate([getattr(one, side) for one in ahead]) for side in "pq")
    other, own = (np.concatenate([getattr(one, side) for one in behind]) for side in "pq")
    points = _Points(
        np.concatenate([[0.0], q, 1.0 - other, [1.0]]),
        np.concatenate([[1.0], 1.0 - q, other, [0.0]]),
        np.concatenate([[0.0], p, 1.0 - own, [1.0]]),
        np.concatenate([[1.0], 1.0 - p, own, [0.0]]),
    )
    edges_q, edges_p = points.edges()
    # Outcomes by increasing loss: the edges from the far end.
    p, q = edges_p[::-1] * (1.0 - _MARGIN), edges_q[::-1] * (1.0 + _MARGIN)
    return OutcomePair(name, frozen(p), frozen(q))


class _Points:
    """Points (q, p) with what they lack to (1, 1): neither end loses digits."""

    def __init__(self, q: FloatArray, no_q: FloatArray, p: FloatArray, no_p: FloatArray) -> None:
        order = np.lexsort((p, -no_q, q))
        self._q, self._p = (q[order], no_q[order]), (p[order], no_p[order])

    def edges(self) -> tuple[FloatArray, FloatArray]:
        """Steps in q and p between the vertices of the upper concave hull."""
        qs, no_qs = (side.tolist() for side in self._q)
        ps, no_ps = (side.tolist() for side in self._p)

        def along(a: int, b: int) -> tuple[float, float]:
            across = qs[b] - qs[a] if qs[b] < 0.5 else no_qs[a] - no_qs[b]
            up = ps[b] - ps[a] if ps[b] < 0.5 else no_ps[a] - no_ps[b]
            return across, up

        kept: list[int] = []
        for new in range(len(qs)):
            while len(kept) >= 2:
                (dq, dp), (eq, ep) = along(kept[-2], kept[-1]), along(kept[-1], new)
                if dp * eq > ep * dq:
                    break
                kept.pop()
            kept.append(new)
        steps = [along(a, b) for a, b in pairwise(kept)]
        found = np.array([step for step in steps if step[0] > 0.0]).reshape(-1, 2)
        return found[:, 0], found[:, 1]


# An epoch seen through one sum that few large numbers decide.
#
# As in ``observed.py`` every batch is put into a cell, and an observer sees the sum of the cells'
# numbers. Cells up to a bound are small and added up by transforms under a gentle tilt; large ones
# may have any number. With r the chances of cells in a batch without the record, x in that with it,
# and S the sum of small numbers of the other batches, a test "the sum is at least t" has the chance
#
#     none large              P(x + S_{k-1} >= t), all small
#     that with the record    sum_c x(c) P(S_{k-1} >= t - c)
#     one of the others       (k - 1) sum_c r(c) P(x + S_{k-2} >= t - c), x small
#
# and at most the chance of two large ones more, which is left out from below and added from above.


#: Thresholds around the aim, in units of how far the others are below it.
_AROUND_OBSERVED_LARGE, _THRESHOLDS = 0.6, 41
#: How far below the aim, in units of one over the tilt, chances are looked up.
_LOWEST, _LOWER = 40.0, 12.0
#: Chernoff's bound of no large cell that is added as it is, relatively.
_ENOUGH = 1e-6
#: For the rounding of sums over all cells, generously.
_UP, _DOWN = 1.0 + 1e-9, 1.0 - 1e-9


@dataclass(frozen=True, eq=False)
class FewLarge:
    """Laws of a batch without the record, cells up to ``bound`` being small."""

    absent: DiscreteLoss
    count: int
    bound: float
    size: float
    tilt: float
    aim: float
    fine: float = 1.0

    def rejections(
        self, one: DiscreteLoss, other: DiscreteLoss, inside: float, error: float
    ) -> Rejections:
        """Tests that reject when the sum is at least a threshold near the aim.

        ``one`` is the law of the batch with the record under P, ``other`` under Q; the record is in
        one of the batches with the chance ``inside``; ``error`` is that of chances due to cells.
        """
        count = math.ceil(self.fine * _THRESHOLDS)
        around = self.aim + self.size * np.linspace(
            -_AROUND_OBSERVED_LARGE, _AROUND_OBSERVED_LARGE, count
        )
        at = np.unique(np.rint(around / self.absent.spacing).astype(np.int64))
        p, q = inside * self._chances(one, at, -1.0), inside * self._chances(other, at, +1.0)
        if inside < 1.0:
            p = p + (1.0 - inside) * self._chances(self.absent, at, -1.0)
            q = q + (1.0 - inside) * self._chances(self.absent, at, +1.0)
        p, q = p * (_DOWN - error), q * (_UP + error)
        sensible = (p > q) & (q < 1.0)
        return Rejections(p[sensible], q[sensible])

    def _chances(self, law: DiscreteLoss, at: IntArray, sign: float) -> FloatArray:
        """P(sum >= t) with one batch of another law, from below or from above."""
        k = self.count
        small, large, chance = self._split(law)
        rest, places, masses = self._split(self.absent)
        own = self._looked_up([(rest, k - 1)] if k > 1 else [], at, large, sign) @ chance
        if k == 1:
            return own + self._looked_up([(small, 1)], at, np.zeros(1, dtype=np.int64), sign)[:, 0]
        others = [(small, 1), (rest, k - 2)] if k > 2 else [(small, 1)]
        found = own + (k - 1) * self._looked_up(others, at, places, sign) @ masses
        found = found + self._none([(small, 1), (rest, k - 1)], at, sign, found)
        if sign > 0:
            both = (k - 1) * float(masses.sum()) * float(chance.sum())
            both += 0.5 * ((k - 1) * float(masses.sum())) ** 2
            found = np.minimum((found + both) * _UP, 1.0)
        return np.asarray(found)

    def _none(
        self, parts: Sequence[Part], at: IntArray, sign: float, found: FloatArray
    ) -> FloatArray:
        """No large cell: Chernoff's bound where that is little, else by a transform."""
        total, t = Composition(parts), at * self.absent.spacing
        steep = np.geomspace(0.5, 400.0, 25)[:, None] / self.bound
        logs = np.min(total.log_mgf(steep[:, 0])[:, None] - steep * t, axis=0)
        rough = np.exp(np.minimum(logs, 700.0)) * _UP
        if np.all(rough <= _ENOUGH * found):
            return rough if sign > 0 else np.zeros(at.size)
        tilt = min(
            max(total.best_tilt(self.aim), self.tilt),
            _LOWEST / (_AROUND_OBSERVED_LARGE * self.size),
        )
        exact = beyond(parts, tilt, self.aim, at, sign)
        return np.minimum(exact, rough) if sign > 0 else exact

    def _looked_up(
        self, parts: Sequence[Part], at: IntArray, places: IntArray, sign: float
    ) -> FloatArray:
        """P(sum of small numbers >= t - c) for all thresholds and places."""
        wanted = at[:, None] - places[None, :]
        if not parts:
            return (wanted <= 0).astype(np.float64)
        # Doubts grow to the left. From below, a higher threshold has a smaller chance.
        lowest = _LOWEST if sign > 0 else _LOWER
        low = math.floor((self.aim - lowest / self.tilt) / self.absent.spacing)
        found = beyond(parts, self.tilt, self.aim, np.maximum(wanted, low).ravel(), sign)
        found = np.minimum(found, _UP).reshape(wanted.shape)
        return np.where(wanted < low, 1.0, found) if sign > 0 else found

    def _split(self, law: DiscreteLoss) -> tuple[DiscreteLoss, IntArray, FloatArray]:
        here = law.index * law.spacing <= self.bound
        small = replace(law, index=law.index[here], masses=law.masses[here])
        return small, law.index[~here], law.masses[~here]


# The largest of many noisy numbers, one of which was moved: what shuffling certainly gives away.
#
# Chua, Ghazi, Kamath, Kumar, Manurangsi, Sinha & Zhang 2024, "How private are DP-SGD
# implementations?", arXiv 2403.17673v2, Section 4: in a shuffled epoch the differing record is in
# one of T batches; looking at the largest of the T outputs alone gives
#
#     P(max <= x) = Phi(x - a) Phi(x)^(T-1),      Q(max <= x) = Phi(x - b) Phi(x)^(T-1),
#
# whichever batch it is in: a pair of distributions of one number, attained and composable. With a
# chance ``rest`` the record is in none of the T batches.


#: Cells of one batch's release, and how many deviations beyond the means they reach: further out a
#: normal tail is below 1e-315.
_CELLS = 12_000
_FARTHEST_CELL = 38.0
#: Moves that are further apart are seen as if noise had been added until they are this far, which
#: hides no less; losses up to the largest epsilon are told apart, and their sums stay composable.
_FARTHEST = 45.0
#: Relative rounding of the chance of a cell, generously.
_ERROR = 1e-10


def maximum_pair(
    name: str, steps: int, a: float, b: float, rest: float = 0.0, moved: int = 1
) -> OutcomePair:
    """The pair of the maximum of ``steps`` numbers, ``moved`` of them by ``a`` or by ``b``."""
    nearer = min(1.0, _FARTHEST / max(abs(a - b), 1.0))
    a, b = a * nearer, b * nearer
    low, high = min(a, b, 0.0) - _FARTHEST_CELL, max(a, b, 0.0) + _FARTHEST_CELL
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
