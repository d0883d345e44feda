"""One step with several copies: certified profiles for draws with replacement and MUSTow.

At t = e^eps >= 1 the step is bounded by the largest value, over z_0 <= z_1 <= …, of

    sum_j rho_j Phi(a_j - z_j)  -  sum_i c_i Phi(b_i - z_i)

(supplies rho_j at places a_j, demands c_i at places b_i; docs/derivations/family.md has them for
both schemes). A *flow* certifies an upper bound of it: send supply j to demands i <= j, theta_ji of
it against m_ji of the demand. With sum_i theta_ji >= rho_j and sum_j m_ji <= c_i,

    sum_j rho_j P_j - sum_i c_i Q_i  <=  sum_ji (theta_ji P_j - m_ji Q_i)_+,

and each term is theta_ji times the profile of the noise at distance a_j - b_i and at m_ji/theta_ji.
Any flow is valid. A good one has all pairs decided at one threshold z, equal inside a first block,
and each multiplicity by itself behind it, as in ``mixed_slope.py``. Where supply j meets two demands
whose places form a triangle with its own, the two terms are joined and the triple's mean takes
their place: (theta P - m Q - m' Q')_+ is at most the sum of the two parts, at any angle.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mustdp.amplification.cells import Cell, Corner, disc_cells, end_cell, triangle
from mustdp.amplification.triples import SHORTEST, triple_mean
from mustdp.errors import NumericalFailure
from mustdp.mechanisms.noise import GaussianNoise
from mustdp.numerics.arrays import ROUNDOFF, FloatArray, IntArray
from mustdp.numerics.roots import increasing_root
from mustdp.sampling.law import MultiplicityLaw

#: Laws with more positive multiplicities than this are left to the single pair.
MOST_COPIES = 40
_PROFILE_ERROR = 1e-11
_ROOM = 1e-12
#: Triangles with a larger cosine are as good as a line.
STRAIGHT = 1.0 - 1e-5
#: Triangles are looked at for this many copies; more are rare.
_BENT = 4
#: Thresholds are looked for this far beyond the places of the supplies.
_FAR = 16.0
_NOISE = GaussianNoise()


@dataclass(frozen=True)
class Bend:
    """Supply ``supply`` and the demands ``near`` and ``far`` form a triangle with this cosine."""

    supply: int
    near: int
    far: int
    cosine: float


@dataclass(frozen=True, eq=False)
class _Term:
    """theta P against m Q at a distance, at every t."""

    theta: FloatArray
    m: FloatArray
    distance: float

    def value(self) -> FloatArray:
        """E (theta P - m Q)_+ rounded up; nothing where nothing was sent."""
        out = np.zeros(self.theta.size)
        some = self.theta > 0.0
        with np.errstate(divide="ignore"):
            ratio = np.maximum(np.log(self.m[some]) - np.log(self.theta[some]), -700.0)
        value = np.maximum(_NOISE.profile(np.asarray(self.distance), ratio), _NOISE.smallest)
        out[some] = self.theta[some] * value * (1.0 + _PROFILE_ERROR)
        return out


def _cheapest(terms: dict[int, _Term], bends: Sequence[Bend]) -> FloatArray:
    """The terms one by one, or joined in triangles, whichever is less."""
    apart = np.sum([term.value() for term in terms.values()], axis=0)
    bends = [b for b in bends if b.near in terms and b.far in terms and b.cosine < STRAIGHT]
    if not bends:
        return np.asarray(apart)
    near = np.sum([terms[bend.near].theta for bend in bends], axis=0)
    joined = np.sum(
        [term.value() for i, term in terms.items()
         if i not in {bend.near for bend in bends} | {bend.far for bend in bends}],
        axis=0,
    ) + np.zeros(near.size)  # fmt: skip
    for bend in bends:
        first, second = terms[bend.near], terms[bend.far]
        with np.errstate(divide="ignore", invalid="ignore"):
            share = np.where(near > 0.0, first.theta / near, 1.0 / len(bends))
        up, down = share * (1.0 + _ROOM), share * (1.0 - _ROOM)
        theta = first.theta + up * second.theta
        mean = triple_mean(
            theta, first.m, down * second.m, first.distance, second.distance, bend.cosine
        )
        joined = joined + np.where(theta > 0.0, mean, 0.0)
    return np.minimum(apart, joined)


@dataclass(frozen=True, eq=False)
class Market:
    """Supplies and demands at every t: rows t, columns sorted by copies."""

    supply: FloatArray  # rho_j for j = 1, 2, …
    supply_at: FloatArray
    demand: FloatArray  # one row per t
    demand_at: FloatArray
    demand_copies: IntArray

    def certified(self, bends: Sequence[Bend] = ()) -> FloatArray:
        """The value of a good flow at every t, without what the law left out."""
        z, pooled = self._thresholds()
        ready, wanted = self._densities(z, pooled)
        total = np.zeros(z.shape[0])
        left = wanted.copy()
        for j in range(self.supply.size):
            flows: dict[int, FloatArray] = {}
            rest = ready[:, j].copy()
            own = np.flatnonzero(self.demand_copies == j + 1)
            for i in (*own, *np.flatnonzero(self.demand_copies <= j)):
                inside = pooled[:, j] if self.demand_copies[i] <= j else True
                flow = np.where(inside, np.minimum(rest, left[:, i]), 0.0)
                rest, left[:, i] = rest - flow, left[:, i] - flow
                flows[int(i)] = flow
            sent = np.sum(list(flows.values()), axis=0)
            # Supply that found no demand costs its whole mass; otherwise all of it is spread in
            # proportion over the demands that it met.
            total += np.where(sent > 0.0, 0.0, self.supply[j])
            with np.errstate(divide="ignore", invalid="ignore"):
                terms = {
                    i: _Term(
                        np.nan_to_num(self.supply[j] * (flow / sent) * (1.0 + _ROOM)),
                        np.nan_to_num(self.demand[:, i] * (flow / wanted[:, i]) * (1.0 - _ROOM)),
                        max(float(self.supply_at[j] - self.demand_at[i]), SHORTEST),
                    )
                    for i, flow in flows.items()
                }
            total += _cheapest(terms, [bend for bend in bends if bend.supply == j])
        if not np.all((total >= 0.0) & np.isfinite(total)):
            raise NumericalFailure("a flow between copies has a value that is not a number")
        return np.asarray(total)

    def _densities(self, z: FloatArray, pooled: NDArray[np.bool_]) -> tuple[FloatArray, FloatArray]:
        """Supplies and demands at their thresholds, in a common scale within each block."""
        with np.errstate(divide="ignore", under="ignore"):
            supply = np.log(self.supply) + _exponent(self.supply_at, z)
            column = np.maximum(self.demand_copies - 1, 0)
            demand = np.log(self.demand) + _exponent(self.demand_at, z[:, column])
            inside = np.where(pooled, supply, -np.inf).max(axis=1, keepdims=True)
            top = np.where(pooled, inside, supply)
            return np.exp(supply - top), np.exp(np.minimum(demand - top[:, column], 600.0))

    def _thresholds(self) -> tuple[FloatArray, NDArray[np.bool_]]:
        """The threshold of every multiplicity, and which ones belong to the first block."""
        rows, width = self.demand.shape[0], self.supply.size
        everywhere = np.arange(rows)
        alone = np.stack([self._root(j + 1, j, everywhere) for j in range(width)], axis=1)
        low = np.zeros(rows, dtype=np.int64)
        high = np.full(rows, width - 1, dtype=np.int64)
        while True:
            active = np.flatnonzero(low < high)
            if not active.size:
                break
            middle = (low[active] + high[active]) // 2
            ends = self._balance(middle, alone[active, middle + 1], active)[0] >= 0.0
            high[active] = np.where(ends, middle, high[active])
            low[active] = np.where(ends, low[active], middle + 1)
        block = np.empty(rows)
        for last in np.unique(high):
            at = np.flatnonzero(high == last)
            block[at] = self._root(0, int(last), at)
        pooled = np.arange(width) <= high[:, None]
        return np.where(pooled, block[:, None], alone), pooled

    def _root(self, fewest: int, last: int, rows: NDArray[np.intp]) -> FloatArray:
        """Where supply and demand from ``fewest`` copies to column ``last`` are in balance."""
        first = max(fewest - 1, 0)
        inside = (self.demand_copies >= fewest) & (self.demand_copies <= last + 1)
        part = Market(
            self.supply[first : last + 1],
            self.supply_at[first : last + 1],
            self.demand[np.ix_(rows, np.flatnonzero(inside))],
            self.demand_at[inside],
            self.demand_copies[inside],
        )

        def balance(z: FloatArray, at: NDArray[np.intp]) -> tuple[FloatArray, FloatArray]:
            return part._balance(np.full(at.size, last), z, at)

        # Further out nothing is left of either side.
        far = np.full(rows.size, _FAR + float(self.supply_at[last]))
        return increasing_root(balance, -far, far, 1e-11)

    def _balance(
        self, last: NDArray[np.int64], z: FloatArray, rows: NDArray[np.intp]
    ) -> tuple[FloatArray, FloatArray]:
        """Log supply minus log demand at z up to column ``last``, and its derivative."""
        with np.errstate(divide="ignore"):
            up = np.log(self.supply) + _exponent(self.supply_at, z[:, None])
            down = np.log(self.demand[rows]) + _exponent(self.demand_at, z[:, None])
        fits = np.arange(self.supply.size) <= last[:, None]
        high, fast = _log_sum(np.where(fits, up, -np.inf), self.supply_at)
        fits = self.demand_copies <= last[:, None] + 1
        low, slow = _log_sum(np.where(fits, down, -np.inf), self.demand_at)
        return high - low, fast - slow


def _exponent(place: FloatArray, z: FloatArray) -> FloatArray:
    """Log density at place - z over that at z."""
    return np.asarray(place * z - 0.5 * np.square(place))


def _log_sum(logs: FloatArray, speed: FloatArray) -> tuple[FloatArray, FloatArray]:
    top = logs.max(axis=1)
    finite = np.where(np.isfinite(top), top, 0.0)
    weights = np.exp(logs - finite[:, None])
    total = weights.sum(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        slope = np.nan_to_num((weights * speed).sum(axis=1) / total)
        return np.log(total) + finite, slope


@dataclass(frozen=True, eq=False)
class _Copies:
    """What the two families share: a law of copies, rounded to the safe side."""

    law: MultiplicityLaw
    shift: float
    parts: int = 4
    most_cells: int = 140

    @property
    def _slack(self) -> float:
        return 4.0 * self.law.relative_error + 64.0 * self.law.probabilities.size * ROUNDOFF

    def _market(
        self,
        supply: FloatArray,
        supply_at: FloatArray,
        demands: Sequence[tuple[int, float, FloatArray]],
        bends: Sequence[Bend],
    ) -> FloatArray:
        """Value of a market whose demands are (copies, place, amounts at every t), by copies."""
        market = Market(
            supply * (1.0 + self._slack),
            supply_at,
            np.stack([amount for *_, amount in demands], axis=1) * (1.0 - self._slack),
            np.array([place for _, place, _ in demands]),
            np.array([copies for copies, *_ in demands], dtype=np.int64),
        )
        return np.minimum(market.certified(bends) + self.law.cut, 1.0)


class ReplacementCopies(_Copies):
    """Draws with replacement: the first copy has its own triangle, later ones move by s."""

    def cells(self) -> tuple[Cell, ...]:
        """Boxes of (omega, f)."""
        return disc_cells(self.parts)

    def ends(self) -> tuple[Cell, Cell]:
        """Aligned and reversed."""
        return end_cell(1, 0.0), end_cell(1, 1.0)

    def corners(self, cell: Cell) -> tuple[Corner, Corner]:
        """(u, w) and (v, w)."""
        omega, share = cell.ranges
        t = triangle(self.shift, omega, share)
        return Corner((t.u, t.w), (t.cos_x,)), Corner((t.v, t.w), (t.cos_other,))

    def profile(self, corner: Corner, epsilon: FloatArray) -> FloatArray:
        """Component j of P at u + (j-1) s; of Q at 0 and at i (s-w) - (s-u)."""
        u, w = corner.lengths
        rho, copies, s = self.law.positive, self.law.positive_values, self.shift
        none, some = np.expm1(epsilon) * self.law.zero, np.exp(epsilon)
        demands = [(0, 0.0, none)]
        demands += [
            (int(i), float(i * (s - w) - (s - u)), some * p)
            for i, p in zip(copies, rho, strict=True)
        ]
        bends = [Bend(0, 0, 1, corner.cosines[0])]
        return self._market(rho, copies * s - (s - u), demands, bends)


@dataclass(frozen=True, eq=False)
class NestedCopies(_Copies):
    """MUSTow: a slot of stage I holds x, x' or y*; ``law`` counts the draws of one slot."""

    chance: float = 0.0

    def cells(self) -> tuple[Cell, ...]:
        """Boxes of (omega, f of y*, f of the record in the first other slot)."""
        return disc_cells(self.parts, shares=2)

    def ends(self) -> tuple[Cell, Cell]:
        """Aligned and reversed."""
        return end_cell(2, 0.0), end_cell(2, 1.0)

    def corners(self, cell: Cell) -> tuple[Corner, Corner]:
        """(U, u_1, w) and (V, v_1, w)."""
        omega, share, other = cell.ranges
        slot = triangle(self.shift, omega, share)
        first = triangle(self.shift, omega, other)
        return (
            Corner((slot.u, first.u, slot.w), (slot.cos_x, first.cos_x)),
            Corner((slot.v, first.v, slot.w), (slot.cos_other, first.cos_other)),
        )

    def profile(self, corner: Corner, epsilon: FloatArray) -> FloatArray:
        """Component j of P at j s; of Q at s - u_1 (none), i (s-U) and i (s-w)."""
        slot, first, w = corner.lengths
        beta, copies = self.law.positive, self.law.positive_values
        s, p = self.shift, self.chance
        excess, whole = np.expm1(epsilon), np.exp(epsilon)
        demands = [(0, s - first, excess * self.law.zero)]
        for i, b in zip(copies, beta, strict=True):
            demands.append((int(i), float(i * (s - slot)), excess * (b * (1.0 - p))))
            demands.append((int(i), float(i * (s - w)), whole * (b * p)))
        # Demand 2 i - 1 has i copies of y*, demand 2 i has i copies of x'.
        bends = [Bend(0, 0, 2, corner.cosines[1])]
        bends += [
            Bend(j, 2 * j + 1, 2 * j + 2, corner.cosines[0]) for j in range(min(_BENT, beta.size))
        ]
        return self._market(p * beta, copies * s, demands, bends)

