"""Shuffled epochs with less noise: a record hides among others that might as well be absent.

The M records that share a position within their batch are in random order. With a chance p, each of
the others releases what an empty place would, once densities are raised by eta = p G_s(1/p) in all.
Then the record is allocated at random to one of K + 1 batches, K ~ Bin(M - 1, p/(1 + eta)), and

    H_alpha <= g E R_{K+1}(alpha/g) + alpha (M - 1) eta,      g = (1 + eta)^{M-1},

R_k the divergence of a random allocation to k batches (docs/derivations/shuffling.md, Theorem 3).
Any p proves a bound, and so do any levels down to which K is rounded. Both are chosen by what
saddle points say about R_k; what is chosen is then evaluated.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.special import erfcx

from mustdp.accounting.pld.discretise import Profile
from mustdp.mechanisms.mechanism import GaussianNoise
from mustdp.numerics.arrays import ROUNDOFF, FloatArray, IntArray

#: p = e^-h for these h.
_FIRST, _STEP, _RUNGS = 0.2, 0.02, 400
#: How rare it is to have fewer clones than each level that is considered, highest level first.
_RARE = np.array(
    [0.6, 0.35, 0.15, 0.05, 1e-2, 2e-3, 3e-4, 3e-5, 3e-6, 1e-7, 3e-9, 1e-10, 1e-12, 1e-14, 1e-17]
)
#: Levels that are evaluated at most, and how much smaller the bound has to be for one more.
_MOST_LEVELS, _WORTH = 5, 0.005
#: Where an estimate is above no amplification by more than this factor nothing is evaluated.
_HOPELESS = 1.2
#: Outcomes of one batch that an estimate looks at, and tilts over one over the deviation.
_OUTCOMES, _TILTS = np.linspace(-5.0, 5.0, 121), np.geomspace(0.02, 60.0, 24)
#: How often it is chosen anew where estimates were off, as logarithms, by more than this.
_ROUNDS, _FAR_OFF = 4, 0.2
#: Relative rounding of a few exponentials and sums, generously.
_UP = 1.0 + 1e-9

#: D of one batch for alpha = 1 + x, by standard normal outcomes: R_k = E(mean of k D's)_+.
Ratio = Callable[[float, FloatArray], FloatArray]


@dataclass(frozen=True)
class Rung:
    """One p: what leaving it out costs, and numbers of clones with the chance of fewer."""

    #: (M - 1) eta and log g, rounded up.
    cost: float
    log_growth: float
    #: Falling numbers k, each with a bound of P(K < k).
    levels: tuple[tuple[int, float], ...]


@dataclass(frozen=True, eq=False)
class Ladder:
    """All p at once (rows), with the levels that are considered (columns)."""

    cost: FloatArray
    log_growth: FloatArray
    levels: IntArray
    rarer: FloatArray

    @classmethod
    def of(cls, h: FloatArray, others: int, radius: float) -> Ladder:
        """For p = e^-h, rounded down."""
        p = np.exp(-h) * (1.0 - 1e-12)
        gained = GaussianNoise().profile(np.array(radius), h)
        eta = p * gained * _UP
        # A coin shows an empty place with this chance.
        chance = p / (1.0 + eta) * (1.0 - 1e-12)
        growth = others * np.log1p(eta) * _UP
        levels = _least(others, chance[:, None], _RARE)
        return cls(others * eta * _UP, growth, levels, fewer(others, chance[:, None], levels))

    def rung(self, row: int, columns: list[int]) -> Rung:
        """One p with some of its levels."""
        chosen = [(int(self.levels[row, c]), float(self.rarer[row, c])) for c in columns]
        return Rung(float(self.cost[row]), float(self.log_growth[row]), tuple(chosen))


def fewer(count: int, p: FloatArray, k: IntArray) -> FloatArray:
    """Bounds of P(K < k), K ~ Bin(count, p), from above; one where k is no small number.

    Chernoff's bound; and the largest term, by Stirling's formula, with those below it by their
    ratios, which fall.

    >>> bool(0.0 < fewer(1000, np.array([0.05]), np.array([20]))[0] < 1e-6)
    True
    """
    last = k - 1.0
    share = np.clip(last / count, 0.0, 1.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        left = np.where(share > 0.0, share * np.log(share / p), 0.0)
        right = (1.0 - share) * np.log1p((p - share) / (1.0 - p))
        # Both are known to a few roundings, and nearly cancel close to the mean.
        doubt = 16.0 * ROUNDOFF * (share + p + np.abs(left) + np.abs(right))
        chernoff = np.exp(-count * np.maximum(left + right - doubt, 0.0))
        largest = np.sqrt(count / (2.0 * math.pi * last * (count - last)))
        ratio = last * (1.0 - p) / ((count - last + 1.0) * p)
        terms = np.where((last >= 1.0) & (ratio < 1.0), largest / (1.0 - ratio), 1.0)
    found = np.minimum(chernoff * np.minimum(terms, 1.0) * _UP, 1.0)
    return np.where(k < 1, 0.0, np.where(share >= p, 1.0, found))


def _least(count: int, p: FloatArray, rare: FloatArray) -> IntArray:
    """The largest k of which P(K < k) is at most so rare, by bisection; none is zero."""
    low = np.zeros(np.broadcast(p, rare).shape, dtype=np.int64)
    high = low + np.ceil(count * p).astype(np.int64) + 1
    while np.any(high - low > 1):
        middle = (low + high) // 2
        enough = fewer(count, p, middle) <= rare
        low, high = np.where(enough, middle, low), np.where(enough, high, middle)
    return low


class Clones:
    """The bound of one order of the neighbours at single alphas.

    ``radius`` is how far a record can be from an empty place; ``allocated`` gives the profile of a
    random allocation to that many batches, and ``ratio`` what it is the mean of.
    """

    def __init__(
        self, radius: float, bins: int, allocated: Callable[[int], Profile], ratio: Ratio
    ) -> None:
        self._radius, self._bins = radius, bins
        self._allocated, self._ratio = allocated, ratio
        self._profiles: dict[int, Profile] = {}
        self._known: dict[tuple[int, float, float], float] = {}
        #: How far, as logarithms, estimates were off lately, by the logarithm of k.
        self._off: tuple[FloatArray, FloatArray] = (np.zeros(1), np.zeros(1))

    @cached_property
    def ladder(self) -> Ladder:
        """Fewer and fewer clones, at less and less cost."""
        h = _FIRST + _STEP * np.arange(_RUNGS, dtype=np.float64)
        return Ladder.of(h, self._bins - 1, self._radius)

    def bound(self, x: float, plain: float) -> float:
        """At alpha = 1 + x, where one batch by itself has ``plain``; rounded up.

        What is evaluated says how far off estimates are, here and at an alpha near by.
        """
        found = plain
        for _ in range(_ROUNDS):
            rung = self.chosen(x, plain)
            if rung is None:
                break
            found = min(found, self.value(rung, x, plain))
            if not self._learned(rung, x):
                break
        return found

    def _learned(self, rung: Rung, x: float) -> bool:
        """Whether estimates turned out to be so far off that another choice may be better."""
        growth = rung.log_growth
        batches = np.array([k + 1 for k, _ in rung.levels if (k + 1, x, growth) in self._known])
        if not batches.size:
            return False
        about = np.log(self.estimates(x, batches, np.array(rung.log_growth)))
        known = [self._at(k, x, rung.log_growth) for k in batches.tolist()]
        before = self._corrections(batches)
        found = np.log(np.maximum(known, 1e-300)) - about
        self._off = (np.log(batches)[::-1], found[::-1])
        return bool(np.max(np.abs(found - before)) > _FAR_OFF)

    def _corrections(self, batches: IntArray) -> FloatArray:
        return np.interp(np.log(batches), *self._off)

    def chosen(self, x: float, plain: float) -> Rung | None:
        """The p and the levels that look best; none where nothing looks better than ``plain``."""
        ladder, alpha = self.ladder, 1.0 + x
        growth = np.exp(np.minimum(ladder.log_growth, 50.0))[:, None]
        rest = ladder.rarer * (plain + growth - 1.0)
        batches = ladder.levels + 1
        about = self.estimates(x, batches, np.log(growth)) * np.exp(self._corrections(batches))
        seen = growth * np.minimum(about, plain)
        fixed = ladder.cost * alpha + np.maximum(growth[:, 0] - alpha, 0.0)
        # The cost of a level once it is there, with one more level each round.
        after, rounds = rest, []
        while True:
            rounds.append(seen + after)
            if len(rounds) == _MOST_LEVELS:
                break
            further = ladder.rarer[:, :, None] * seen[:, None, :] + after[:, None, :]
            later = np.triu(np.ones(further.shape[1:], dtype=bool), 1)
            after = np.minimum(after, np.where(later, further, np.inf).min(axis=2))
        totals = [float((fixed[:, None] + one).min()) for one in rounds]
        if not totals[-1] <= _HOPELESS * plain:
            return None
        most = next(n for n, total in enumerate(totals) if total <= totals[-1] * (1.0 + _WORTH))
        best = int(np.argmin(fixed[:, None] + rounds[most]))
        row, column = divmod(best, ladder.levels.shape[1])
        return ladder.rung(row, _path(ladder.rarer[row], seen[row], rest[row], column, most))

    def estimates(self, x: float, batches: IntArray, log_growth: FloatArray) -> FloatArray:
        """About R_k(alpha/g) for many k and g, by the saddle point of one batch at alpha."""
        weights = np.exp(-0.5 * np.square(_OUTCOMES))
        weights /= weights.sum()
        tilt, least, spread = _saddle_point(self._ratio(x, _OUTCOMES), weights)
        steep = tilt * spread * np.sqrt(batches)
        tail = 1.0 / math.sqrt(2.0 * math.pi) - 0.5 * steep * erfcx(steep / math.sqrt(2.0))
        far = 1.0 / (math.sqrt(2.0 * math.pi) * np.square(np.maximum(steep, 1.0)))
        # A smaller alpha moves every D up.
        logs = batches * (least + tilt * (1.0 + x) * log_growth)
        size = np.exp(np.clip(logs, -600.0, 50.0)) * spread / np.sqrt(batches)
        return np.asarray(size * np.where(steep > 30.0, far, tail))

    def value(self, rung: Rung, x: float, plain: float) -> float:
        """The bound with one p and some levels."""
        alpha, chance = 1.0 + x, 1.0
        if alpha * rung.cost >= plain:  # and g may overflow
            return plain
        growth = math.exp(rung.log_growth) * (1.0 + 1e-14)
        total = alpha * rung.cost + max(growth - alpha, 0.0)
        for k, rarer in rung.levels:
            if total >= plain:
                return plain
            total += chance * growth * self._at(k + 1, x, rung.log_growth)
            chance = rarer
        # With fewer clones than that there is no amplification.
        return min(plain, (total + chance * (plain + (growth - 1.0))) * _UP)

    def _at(self, batches: int, x: float, log_growth: float) -> float:
        """R_k at alpha/g or at one."""
        asked = batches, x, log_growth
        if asked not in self._known:
            if batches not in self._profiles:
                self._profiles[batches] = self._allocated(batches)
            # Profiles fall in epsilon: rounded down.
            epsilon = math.log1p(x) * (1.0 - 1e-14) - log_growth * (1.0 + 1e-9)
            at: FloatArray = np.array([max(epsilon, 0.0)])
            self._known[asked] = float(self._profiles[batches](at)[0])
        return self._known[asked]


def _saddle_point(values: FloatArray, weights: FloatArray) -> tuple[float, float, float]:
    """The tilt at which E e^{tilt D} is least, its logarithm there, and the tilted deviation."""
    mean = float(weights @ values)
    deviation = math.sqrt(float(weights @ np.square(values - mean)))
    tilts = _TILTS / deviation
    for _ in range(2):
        exponents = np.outer(tilts, values)
        top = exponents.max(axis=1, keepdims=True)
        logs = top[:, 0] + np.log(np.exp(exponents - top) @ weights)
        best = int(np.argmin(logs))
        tilt, least = float(tilts[best]), float(logs[best])
        tilts = np.geomspace(tilts[max(best - 1, 0)], tilts[min(best + 1, tilts.size - 1)], 12)
    tilted = weights * np.exp(np.clip(tilt * values - least, -700.0, 50.0))
    centre = float(tilted @ values)
    return tilt, least, math.sqrt(max(float(tilted @ np.square(values - centre)), 1e-300))


def _path(
    rarer: FloatArray, seen: FloatArray, rest: FloatArray, first: int, more: int
) -> list[int]:
    """The columns of the best levels of one p, from the first of them on."""
    after = [rest]
    for _ in range(more):
        further = [
            min(
                [
                    after[-1][i],
                    *(rarer[i] * seen[j] + after[-1][j] for j in range(i + 1, rest.size)),
                ]
            )
            for i in range(rest.size)
        ]
        after.append(np.array(further))
    found, here = [first], first
    for left in range(more, 0, -1):
        last, best = after[left - 1], None
        for j in range(here + 1, rest.size):
            value = rarer[here] * seen[j] + last[j]
            if value < last[here] and (best is None or value < best[0]):
                best = value, j
        if best is None:
            continue
        here = best[1]
        found.append(here)
    return found
