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

    supply: int
    demand: int
    theta: FloatArray
    m: FloatArray
    distance: float


def _values(terms: Sequence[_Term]) -> FloatArray:
    """E (theta P - m Q)_+ of every term (rows) at every t, rounded up; 0 where nothing is sent."""
    theta = np.stack([term.theta for term in terms])
    m = np.stack([term.m for term in terms])
    distance = np.array([term.distance for term in terms])
    rows, columns = np.nonzero(theta > 0.0)
    with np.errstate(divide="ignore"):
        ratio = np.log(m[rows, columns]) - np.log(theta[rows, columns])
    value = _NOISE.profile(distance[rows], np.maximum(ratio, -700.0))
    out = np.zeros(theta.shape)
    out[rows, columns] = theta[rows, columns] * np.maximum(value, _NOISE.smallest)
    return np.asarray(out * (1.0 + _PROFILE_ERROR))


def _bent(terms: dict[tuple[int, int], _Term], bends: Sequence[Bend]) -> FloatArray:
    """The terms of one supply that form triangles, joined."""
    far = terms[bends[0].supply, bends[0].far]
    nears = [terms[bend.supply, bend.near] for bend in bends]
    whole = np.sum([near.theta for near in nears], axis=0)
    total = np.zeros(far.theta.size)
    for bend, near in zip(bends, nears, strict=True):
        even = np.full(whole.size, 1.0 / len(bends))
        share = np.divide(near.theta, whole, out=even, where=whole > 0.0)
        theta = near.theta + share * (1.0 + _ROOM) * far.theta
        taken = share * (1.0 - _ROOM) * far.m
        mean = triple_mean(theta, near.m, taken, near.distance, far.distance, bend.cosine)
        total += np.where(theta > 0.0, mean, 0.0)
    return total


@dataclass(frozen=True, eq=False)
class Market:
    """Supplies and demands at every t: rows t, columns sorted by copies."""

    supply: FloatArray  # rho_j for j = 1, 2, …
    supply_at: FloatArray
    demand: FloatArray  # one row per t
    demand_at: FloatArray
    demand_copies: IntArray
    #: How far the rounding of the places may have brought a supply and a demand together.
    blur: float = 0.0

    def certified(self, bends: Sequence[Bend] = ()) -> FloatArray:
        """The value of a good flow at every t, without what the law left out."""
        z, pooled = self._thresholds()
        ready, wanted = self._densities(z, pooled)
        left = wanted.copy()
        total = np.zeros(z.shape[0])
        terms: dict[tuple[int, int], _Term] = {}
        for j in range(self.supply.size):
            rest = ready[:, j].copy()
            flows: dict[int, FloatArray] = {}
            own = np.flatnonzero(self.demand_copies == j + 1)
            for i in (*own, *np.flatnonzero(self.demand_copies <= j)):
                flow = np.minimum(rest, left[:, i])
                if self.demand_copies[i] <= j:
                    flow = np.where(pooled[:, j], flow, 0.0)
                if flow.any():
                    rest, left[:, i] = rest - flow, left[:, i] - flow
                    flows[int(i)] = flow
            sent = np.sum(list(flows.values()), axis=0) if flows else np.zeros(z.shape[0])
            # Supply that found no demand costs its whole mass; otherwise all of it is spread in
            # proportion over the demands that it met.
            total += np.where(sent > 0.0, 0.0, self.supply[j])
            for i, flow in flows.items():
                theta = np.divide(flow, sent, out=np.zeros(flow.size), where=flow > 0.0)
                used = np.divide(flow, wanted[:, i], out=np.zeros(flow.size), where=flow > 0.0)
                gap = max(float(self.supply_at[j] - self.demand_at[i]) + self.blur, SHORTEST)
                terms[j, i] = _Term(
                    j, i,
                    theta * (self.supply[j] * (1.0 + _ROOM)),
                    used * self.demand[:, i] * (1.0 - _ROOM),
                    gap,
                )  # fmt: skip
        total += self._sum(terms, bends)
        if not np.all((total >= 0.0) & np.isfinite(total)):
            raise NumericalFailure("a flow between copies has a value that is not a number")
        return np.asarray(total)

    def _sum(self, terms: dict[tuple[int, int], _Term], bends: Sequence[Bend]) -> FloatArray:
        """All terms one by one, or joined in triangles where that is less."""
        values = dict(zip(terms, _values(list(terms.values())), strict=True))
        total = np.zeros(self.demand.shape[0])
        for j in {bend.supply for bend in bends}:
            here = [
                bend
                for bend in bends
                if bend.supply == j
                and bend.cosine < STRAIGHT
                and (j, bend.near) in terms
                and (j, bend.far) in terms
            ]
            if here:
                parts = [values.pop((j, i)) for i in (here[0].far, *(b.near for b in here))]
                total += np.minimum(_bent(terms, here), np.sum(parts, axis=0))
        for value in values.values():
            total += value
        return np.asarray(total * (1.0 + 4.0 * len(terms) * ROUNDOFF))

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

        far = _FAR + self.supply_at[high]  # further out nothing is left of either side
        block = increasing_root(balance, -far, far, 1e-11)
        pooled = np.arange(width) <= high[:, None]
        return np.where(pooled, block[:, None], alone), pooled

    def _alone(self) -> FloatArray:
        """Where each supply is in balance with the demands of its own number of copies."""
        width = self.supply.size
        own = [np.flatnonzero(self.demand_copies == j + 1) for j in range(width)]
        amounts = np.concatenate([self.demand[:, at] for at in own])
        places = np.repeat(np.stack([self.demand_at[at] for at in own]), self.demand.shape[0], 0)
        supply = np.repeat(np.log(self.supply), self.demand.shape[0])
        place = np.repeat(self.supply_at, self.demand.shape[0])
        with np.errstate(divide="ignore"):
            logs = np.log(amounts)

        def balance(z: FloatArray, at: NDArray[np.intp]) -> tuple[FloatArray, FloatArray]:
            low, slow = _log_sum(logs[at] + _exponent(places[at], z[:, None]), places[at])
            return supply[at] + _exponent(place[at], z) - low, place[at] - slow

        far = _FAR + place
        found = increasing_root(balance, -far, far, 1e-11)
        return found.reshape(width, -1).T

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
