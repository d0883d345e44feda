"""One step with several copies: certified profiles for draws with replacement and MUSTow.

At t = e^eps >= 1 the step is bounded by the largest value, over z_0 <= z_1 <= …, of

    sum_j rho_j Phi(a_j - z_j)  -  sum_i c_i Phi(b_i - z_i)

(supplies rho_j at places a_j, demands c_i at places b_i; docs/derivations/family.md has them for
both schemes). A *flow* certifies an upper bound of it: send supply j to demands i <= j, theta_ji of
it against m_ji of the demand. With sum_i theta_ji >= rho_j and sum_j m_ji <= c_i,

    sum_j rho_j P_j - sum_i c_i Q_i  <=  sum_ji (theta_ji P_j - m_ji Q_i)_+,

and each term is theta_ji times the profile of the noise at distance a_j - b_i and at m_ji/theta_ji.
Any flow is valid. A good one has all pairs decided at one threshold z, equal inside a first block,
and each multiplicity by itself behind it, as in ``mixed_slope.py``. Where supply j meets two
demands whose places form a triangle with its own, the two terms are joined and the triple's mean
takes their place: (theta P - m Q - m' Q')_+ is at most the sum of the two parts, at any angle.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from mustdp.amplification.triples import SHORTEST, triple_mean
from mustdp.errors import NumericalFailure
from mustdp.mechanisms.noise import GaussianNoise
from mustdp.numerics.arrays import ROUNDOFF, FloatArray, IntArray
from mustdp.numerics.roots import increasing_root

_PROFILE_ERROR = 1e-11
_ROOM = 1e-12
#: Triangles with a larger cosine are as good as a line.
STRAIGHT = 1.0 - 1e-5
#: Distance of the nodes of a triangle's mean, which is only a part of a value.
_STEP = 0.12
#: Terms that make up less than this share of a value are not joined: little could be gained.
_WORTH = 5e-3
#: Thresholds are found this closely; they only steer, and a value hardly changes near the best one.
_CLOSE = 1e-5
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
class _Sent:
    """What one supply sends: theta P_j against m Q_i, one row per t and one column per demand."""

    theta: FloatArray
    m: FloatArray
    distance: FloatArray
    value: FloatArray


def _values(theta: FloatArray, m: FloatArray, distance: FloatArray) -> FloatArray:
    """E (theta P - m Q)_+ entry by entry, rounded up; 0 where nothing is sent."""
    some = theta > 0.0
    sent = theta[some]
    with np.errstate(divide="ignore"):
        ratio = np.log(m[some]) - np.log(sent)
    value = _NOISE.profile(distance[some], np.maximum(ratio, -700.0))
    out = np.zeros(theta.shape)
    out[some] = sent * np.maximum(value, _NOISE.smallest)
    return np.asarray(out * (1.0 + _PROFILE_ERROR))


def _bent(sent: _Sent, rows: IntArray, bends: Sequence[Bend]) -> FloatArray:
    """The terms of one supply that form triangles, joined, at some rows of the same places."""
    far = bends[0].far
    nears = [sent.theta[rows, bend.near] for bend in bends]
    whole = np.sum(nears, axis=0)
    total = np.zeros(whole.size)
    for bend, near in zip(bends, nears, strict=True):
        even = np.full(whole.size, 1.0 / len(bends))
        share = np.divide(near, whole, out=even, where=whole > 0.0)
        theta = near + share * (1.0 + _ROOM) * sent.theta[rows, far]
        taken = share * (1.0 - _ROOM) * sent.m[rows, far]
        mean = triple_mean(
            theta, sent.m[rows, bend.near], taken, float(sent.distance[rows[0], bend.near]),
            float(sent.distance[rows[0], far]), bend.cosine, _STEP,
        )  # fmt: skip
        total += np.where(theta > 0.0, mean, 0.0)
    return total


@dataclass(frozen=True, eq=False)
class Market:
    """Supplies and demands, one row per t and set of places, columns sorted by copies.

    Many sets of places are worked on at once; the rows of one of them lie together.
    """

    supply: FloatArray  # rho_j for j = 1, 2, …
    supply_at: FloatArray
    demand: FloatArray
    demand_at: FloatArray
    demand_copies: IntArray
    #: How far the rounding of the places may have brought a supply and a demand together.
    blur: float = 0.0

    def certified(self, bends: Sequence[tuple[slice, Sequence[Bend]]] = ()) -> FloatArray:
        """The value of a good flow in every row, without what the law left out.

        ``bends`` are the triangles of rows that share their places.
        """
        z, pooled = self._thresholds()
        ready, wanted = self._densities(z, pooled)
        left = wanted.copy()
        total = np.zeros(z.shape[0])
        turning = {bend.supply for _, triangles in bends for bend in triangles}
        turned: dict[int, _Sent] = {}
        for j in range(self.supply.size):
            flow = self._flow(ready[:, j], left, pooled[:, j], j)
            columns = flow.shape[1]
            whole = flow.sum(axis=1)
            # Supply that found no demand costs its whole mass; otherwise all of it is spread in
            # proportion over the demands that it met.
            total += np.where(whole > 0.0, 0.0, self.supply[j])
            some = flow > 0.0
            theta = np.divide(flow, whole[:, None], out=np.zeros(flow.shape), where=some)
            used = np.divide(flow, wanted[:, :columns], out=np.zeros(flow.shape), where=some)
            theta *= self.supply[j] * (1.0 + _ROOM)
            used *= self.demand[:, :columns] * (1.0 - _ROOM)
            gap = self.supply_at[:, j, None] - self.demand_at[:, :columns] + self.blur
            gap = np.maximum(gap, SHORTEST)
            sent = _Sent(theta, used, gap, _values(theta, used, gap))
            total += sent.value.sum(axis=1)
            if j in turning:
                turned[j] = sent
        total = self._joined(total, turned, bends)
        total *= 1.0 + 4.0 * self.supply.size * (1 + self.demand_copies.size) * ROUNDOFF
        if not np.all((total >= 0.0) & np.isfinite(total)):
            raise NumericalFailure("a flow between copies has a value that is not a number")
        return np.asarray(total)

    def _flow(
        self, ready: FloatArray, left: FloatArray, pooled: NDArray[np.bool_], j: int
    ) -> FloatArray:
        """Send one supply to its own demands, then to those of fewer copies; lowers ``left``."""
        fewer, end = np.searchsorted(self.demand_copies, (j + 1, j + 2))
        parts = (slice(fewer, end), slice(0, fewer))
        flow = np.zeros((ready.size, int(end)))
        rest = ready
        for at in parts:
            open_ = left[:, at]
            if at is parts[1]:
                open_ = np.where(pooled[:, None], open_, 0.0)
            filled = np.minimum(np.cumsum(open_, axis=1), rest[:, None])
            # Differences of sums are rounded; no demand may be met twice, so what is left decides.
            flow[:, at] = np.minimum(np.diff(filled, axis=1, prepend=0.0), open_)
            left[:, at] -= flow[:, at]
            if filled.shape[1]:
                rest = rest - filled[:, -1]
        return flow

    def _joined(
        self, total: FloatArray, sent: dict[int, _Sent],
        bends: Sequence[tuple[slice, Sequence[Bend]]],
    ) -> FloatArray:  # fmt: skip
        """The totals with terms joined in triangles where that is less.

        Both are certificates, so it is tried only where those terms make up a part worth having.
        """
        spared = np.zeros(total.size)
        for rows, triangles in bends:
            for j in {bend.supply for bend in triangles}:
                own = sent[j]
                here = [
                    bend
                    for bend in triangles
                    if bend.supply == j
                    and bend.cosine < STRAIGHT
                    and own.theta[rows, bend.near].any()
                    and own.theta[rows, bend.far].any()
                ]
                if not here:
                    continue
                parts = own.value[rows, here[0].far] + sum(own.value[rows, b.near] for b in here)
                worth = rows.start + np.flatnonzero(parts > _WORTH * total[rows])
                if worth.size:
                    gain = parts[worth - rows.start] - _bent(own, worth, here)
                    spared[worth] += np.maximum(gain, 0.0)
        # The difference of two roundings that are small against the total they are taken off.
        spared *= 1.0 - 1e-12
        return np.asarray(total - spared + 1e-12 * total)

    def _densities(self, z: FloatArray, pooled: NDArray[np.bool_]) -> tuple[FloatArray, FloatArray]:
        """Supplies and demands at their thresholds, in a common scale within each block."""
        with np.errstate(under="ignore"):
            supply = np.log(self.supply) + _exponent(self.supply_at, z)
            column = np.maximum(self.demand_copies - 1, 0)
            demand = self._log_demand + _exponent(self.demand_at, z[:, column])
            inside = np.where(pooled, supply, -np.inf).max(axis=1, keepdims=True)
            top = np.where(pooled, inside, supply)
            return np.exp(supply - top), np.exp(np.minimum(demand - top[:, column], 600.0))

    @cached_property
    def _log_demand(self) -> FloatArray:
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(self.demand))

    def _thresholds(self) -> tuple[FloatArray, NDArray[np.bool_]]:
        """The threshold of every multiplicity, and which ones belong to the first block."""
        rows, width = self.demand.shape[0], self.supply.size
        alone = self._alone()
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

        def balance(z: FloatArray, at: NDArray[np.intp]) -> tuple[FloatArray, FloatArray]:
            return self._balance(high[at], z, at)

        # Further out nothing is left of either side.
        far = _FAR + self.supply_at[np.arange(rows), high]
        block = increasing_root(balance, -far, far, _CLOSE)
        pooled = np.arange(width) <= high[:, None]
        return np.where(pooled, block[:, None], alone), pooled

    def _alone(self) -> FloatArray:
        """Where each supply is in balance with the demands of its own number of copies."""
        width = self.supply.size
        own = [np.flatnonzero(self.demand_copies == j + 1) for j in range(width)]
        logs = np.concatenate([self._log_demand[:, at] for at in own])
        places = np.concatenate([self.demand_at[:, at] for at in own])
        supply = np.repeat(np.log(self.supply), self.demand.shape[0])
        place = self.supply_at.T.ravel()

        def balance(z: FloatArray, at: NDArray[np.intp]) -> tuple[FloatArray, FloatArray]:
            low, slow = _log_sum(logs[at] + _exponent(places[at], z[:, None]), places[at])
            return supply[at] + _exponent(place[at], z) - low, place[at] - slow

        far = _FAR + place
        found = increasing_root(balance, -far, far, _CLOSE)
        return found.reshape(width, -1).T

    def _balance(
        self, last: NDArray[np.int64], z: FloatArray, rows: NDArray[np.intp]
    ) -> tuple[FloatArray, FloatArray]:
        """Log supply minus log demand at z up to column ``last``, and its derivative."""
        supply_at, demand_at = self.supply_at[rows], self.demand_at[rows]
        up = np.log(self.supply) + _exponent(supply_at, z[:, None])
        down = self._log_demand[rows] + _exponent(demand_at, z[:, None])
        fits = np.arange(self.supply.size) <= last[:, None]
        high, fast = _log_sum(np.where(fits, up, -np.inf), supply_at)
        fits = self.demand_copies <= last[:, None] + 1
        low, slow = _log_sum(np.where(fits, down, -np.inf), demand_at)
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
