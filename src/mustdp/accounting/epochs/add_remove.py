"""Profiles of one epoch of random allocation under add_remove, from both sides.

With the terms of ``epochs/terms.py``, M bins of which the first k are released, and
T = sum over those k of D_i - E D_i, y = M |alpha - 1| up to the factor in the backward direction,

    H(P || Q) = E(T - y)_+ / M                    y = M (e^eps - 1),   D = X
    H(Q || P) = e^eps E(-T - y)_+ / M             y = M (1 - e^-eps),  D = X

Never more than k/M times the Gaussian profile, by convexity, and backwards never more than the
product of one expectation per term: these take over where they are smaller or negligible. Values
are found block by block of y, when they are asked for.
"""

from __future__ import annotations

import math
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from mustdp.accounting.epochs.sums import (
    EVEN_CELLS,
    FARTHEST,
    FINENESS,
    Aim,
    IndependentSum,
    Variable,
)
from mustdp.accounting.epochs.tables import OneSide, OutcomePair, outcome_pair
from mustdp.accounting.epochs.terms import Term
from mustdp.accounting.pld.readoff import first_below
from mustdp.errors import NumericalFailure
from mustdp.mechanisms.mechanism import GaussianNoise
from mustdp.numerics.arrays import ROUNDOFF, FloatArray, IntArray

#: Where the Gaussian bound is below the first nothing better is looked for. Where the profile is
#: below the second it is held at that until the Gaussian bound is smaller.
_NEGLIGIBLE, _SMALLEST = 1e-31, 1e-20
#: Below this the grid may be coarse; where most of the mass is it has to be fine.
_SMALL, _COARSE, _FINE = 1e-15, 3.0, 0.6
#: How far blocks reach, and how far apart, in nats, the points in a block are.
_RATIO, _NATS = 1.8, 0.1
#: Points of a block.
_FEWEST, _MOST = 64, 400
#: Blocks in a row of which nothing is known from below before no further ones are looked at.
_MOST_MISSED = 2
#: How many times the scale of the sum one large term may decide, and how close, relatively, closed
#: forms have to be to serve.
_LARGE, _CLOSED = 8.0, 3e-4
#: For the rounding of a few products, generously.
_UP = 1.0 + 1e-13


class GaussianBound:
    """k/M times the profile of the Gaussian mechanism."""

    def __init__(self, shift: float, share: float) -> None:
        self._shift, self._share = np.array(shift), share

    def __call__(self, epsilon: FloatArray) -> FloatArray:
        """The bound at many epsilons, rounded up."""
        size = self._share * GaussianNoise().profile(self._shift, epsilon) * (1.0 + 1e-11)
        return np.minimum(np.maximum(size, 1e-300), 1.0)

    @cached_property
    def end(self) -> float:
        """An epsilon from which on the bound is negligible."""
        return first_below(self, _NEGLIGIBLE)


class AllocationProfile:
    """One direction under add_remove: the profile from above, and its bounds at many points."""

    def __init__(
        self,
        shift: float,
        bins: float,
        steps: int,
        *,
        backward: bool,
        term: Variable | None = None,
        fine: float = 1.0,
    ) -> None:
        """``shift`` is the largest, where a ``term`` says that the move is of random size.

        Grids are ``fine`` times as fine as usual.
        """
        self._bins, self._backward, self._fine = bins, backward, fine
        self._plain = GaussianBound(shift, steps / bins)
        self._sum = IndependentSum(
            term or Term(shift), steps, mirrored=backward, even=math.ceil(fine * EVEN_CELLS)
        )
        end = float(self._y(np.array([self._plain.end]))[0])
        end = min(end, steps * (1.0 - 1e-9) if backward else FARTHEST)
        self._edges = [0.0, min(self._sum.scale, 0.5 * end)]
        while self._edges[-1] * _RATIO < end:
            self._edges.append(self._edges[-1] * _RATIO)
        self._edges.append(end)
        self._blocks: dict[int, _Block] = {}

    def __call__(self, epsilon: FloatArray) -> FloatArray:
        """The profile at many epsilons, rounded up."""
        out = self._plain(epsilon)
        y = self._y(epsilon) * (1.0 - 8.0 * ROUNDOFF)
        if self._backward:
            out = np.minimum(out, self._all_small(epsilon))
            out[y >= self._sum.count] = 0.0
        which = np.searchsorted(self._edges, y, side="right") - 1
        for number in np.unique(which[out > _NEGLIGIBLE]):
            here = which == number
            block, beyond = self._reached(int(number))
            at = np.full(int(here.sum()), block.y[-1]) if beyond else y[here]
            found = np.interp(at, block.y, block.upper) * (_UP / self._bins)
            if self._backward:
                found = found * np.exp(epsilon[here])
            out[here] = np.minimum(out[here], found)
        return out

    def _all_small(self, epsilon: FloatArray) -> FloatArray:
        """H(Q || P) from above as a product, because (1 - a - b)_+ <= (1 - a)_+ (1 - b)_+."""
        count, term = self._sum.count, self._sum.variable
        # What batches that are not released leave of one, rounded up.
        left = np.ones(epsilon.shape)
        if count < self._bins:
            left = -np.expm1(epsilon + math.log1p(-count / self._bins))
        left = np.minimum(left * _UP + 1e-13, 1.0)
        end = self._bins * left * np.exp(-epsilon) * _UP
        small = (end < term.mean) & (end > 1e-280)
        end = np.where(small, end, 0.5 * term.mean)
        each = (term.value(end) * (1.0 + term.error) + 1e-300) / end * _UP
        found = left * np.exp(count * np.log(np.minimum(each, 1.0))) * (1.0 + 1e-12)
        return np.where(small, found, 1.0)

    def _reached(self, number: int) -> tuple[_Block, bool]:
        """A block, or the last one before it where the profile is not negligible yet."""
        for earlier in range(number + 1):
            if earlier >= len(self._edges) - 1:
                return self._block(earlier - 1), True
            if earlier < number and self._last(earlier) < _SMALLEST * self._bins:
                return self._block(earlier), True
        return self._block(number), False

    def _last(self, number: int) -> float:
        """The upper bound at the end of a block."""
        if self._closed[number]:
            return float(self._large[1][number + 1])
        return float(self._block(number).upper[-1])

    @cached_property
    def _large(self) -> tuple[FloatArray, FloatArray]:
        """Bounds in closed form where blocks meet."""
        edges = np.array(self._edges)
        low, high = np.zeros(edges.size), np.full(edges.size, np.inf)
        far = edges > _LARGE * self._sum.scale
        low[far], high[far] = self._sum.one_large(edges[far])
        return low, high

    @cached_property
    def _closed(self) -> NDArray[np.bool_]:
        """Whether closed forms serve from one end of a block to the other."""
        low, high = self._large
        close = high <= low * (1.0 + _CLOSED)
        return np.asarray(close[:-1] & close[1:])

    @cached_property
    def side(self) -> OneSide:
        """Bounds at all points where the profile is not negligible."""
        ys, lower, upper, missed = [], [], [], 0
        for number in range(len(self._edges) - 1):
            block = self._block(number)
            cut = slice(0, None) if number == len(self._edges) - 2 else slice(0, -1)
            ys.append(block.y[cut])
            lower.append(block.lower[cut])
            upper.append(block.upper[cut])
            if not block.upper[-1] > _SMALLEST * self._bins:
                break
            # One block may be out of reach and the next one not.
            missed = 0 if block.lower[-1] > _SMALLEST * self._bins else missed + 1
            if missed > _MOST_MISSED:
                break
        y, low, high = (np.concatenate(parts) / self._bins for parts in (ys, lower, upper))
        if not self._backward:
            return _useful(y, low * (1.0 - 1e-12), high * _UP)
        beta = 1.0 / (1.0 - y)
        return _useful(beta - 1.0, low * beta * (1.0 - 1e-12), high * beta * _UP)

    def _y(self, epsilon: FloatArray) -> FloatArray:
        if self._backward:
            return np.asarray(-self._bins * np.expm1(-epsilon))
        return np.asarray(self._bins * np.expm1(np.minimum(epsilon, 600.0)))

    def _block(self, number: int) -> _Block:
        if number not in self._blocks:
            ends = self._edges[number], self._edges[number + 1]
            closed = bool(self._closed[number])
            self._blocks[number] = _Block(
                self._sum, *ends, _SMALL * self._bins, closed=closed, fine=self._fine
            )
        return self._blocks[number]


class _Block:
    """Bounds of E(T - y)_+ for y between two ends, each side when it is asked for.

    Where one large term decides both are in closed form.
    """

    def __init__(
        self,
        total: IndependentSum,
        start: float,
        stop: float,
        small: float,
        *,
        closed: bool,
        fine: float = 1.0,
    ) -> None:
        self._sum, self._small, self._ends = total, small, (start, stop)
        self._closed, self._fine = closed, fine
        nodes: float = _FEWEST
        if not closed and self._aim is not None:
            nodes = min(self._aim.tilt * (stop - start) / _NATS, _MOST)
        self.y = np.linspace(start, stop, math.ceil(fine * min(max(nodes, _FEWEST), _MOST)))

    @cached_property
    def _aim(self) -> Aim | None:
        """How to ask; None where the sum spreads too far for any grid."""
        try:
            return self._sum.aim(*self._ends)
        except NumericalFailure:
            return None

    def _fineness(self, aim: Aim) -> float:
        start = self._ends[0]
        fine = _FINE if start < self._sum.scale * 4.0 else 1.0
        return FINENESS / self._fine * (_COARSE if aim.price < self._small else fine)

    @cached_property
    def _large(self) -> tuple[FloatArray, FloatArray]:
        return self._sum.one_large(self.y)

    @cached_property
    def upper(self) -> FloatArray:
        if self._closed:
            return self._large[1]
        if self._aim is None:
            return np.full(self.y.size, np.inf)
        return self._sum.upper(self.y, self._aim, self._fineness(self._aim))

    @cached_property
    def lower(self) -> FloatArray:
        if self._closed:
            return self._large[0]
        if self._aim is None:
            return np.zeros(self.y.size)
        return self._sum.lower(self.y, self._aim, self._fineness(self._aim))


def _useful(x: FloatArray, lower: FloatArray, upper: FloatArray) -> OneSide:
    """Bounds at points where a lower one is known; no profile exceeds one, and all decrease.

    A point known worse from below than one further out would only pull the hull down.
    """
    best = np.maximum.accumulate(lower[::-1])[::-1]
    later = np.append(best[1:], 0.0)
    known = lower > later
    # What is left of the last one has to end somewhere, and total variation is where it begins.
    known |= best <= 0.0
    known[0] = True
    return OneSide(x[known], best[known], np.minimum(upper, 1.0)[known])


class TabulatedPair:
    """The pair below two tabulated directions, made when it is asked for."""

    lost = 0.0
    constant_ends = False

    def __init__(
        self,
        name: str,
        ahead: AllocationProfile,
        behind: AllocationProfile,
    ) -> None:
        self.name, self._ahead, self._behind = name, ahead, behind

    @cached_property
    def _pair(self) -> OutcomePair:
        return outcome_pair(self.name, self._ahead.side, self._behind.side)

    def outcomes(self, spacing: float, points: IntArray) -> tuple[FloatArray, FloatArray]:
        """Probabilities under P and Q."""
        return self._pair.outcomes(spacing, points)

    def attained(self, epsilon: float) -> float:
        """What the best test attains, rounded down."""
        return self._pair.attained(epsilon)
