"""Where to evaluate profiles: densely near zero loss, in proportion further out.

All losses of one composition live on one grid. Its spacing is a fraction of the root mean square
deviation of the single losses: connecting the dots then inflates the deviation of the sum by that
fraction squared over 12, whatever the number of steps, and the length of the composed loss grows
like the square root of that number.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from mustdp.errors import NumericalFailure
from mustdp.limits import LARGEST_EPSILON
from mustdp.loss.dots import DominatingPair, connect
from mustdp.numerics.arrays import IntArray

#: Losses beyond the point where the profile falls below this are counted as infinite.
NEGLIGIBLE = 1e-30
_MOST_POINTS = 100_000
_SCOUT = 1e-6
#: A profile that falls from this to nothing between two looks ends sharply.
_SHARP = 1e-12
#: Spacing over reach: no less than the first, and no less than the second times the fraction.
_FINEST, _FINEST_AT = 1e-6, 2e-5
#: Far out, the growth of distances between points, over the fraction.
_FURTHER = 0.15
#: Few points: their distance near zero over the deviation.
_DENSE = 0.15


@dataclass(frozen=True, eq=False)
class Scouted:
    """What a first look at a pair told: how far its losses reach, how widely they spread.

    ``sharp`` says that the losses end at ``reach`` at once, as those of Laplace noise do.
    """

    reach: float
    deviation: float
    sharp: bool = False


@dataclass(frozen=True, eq=False)
class Grid:
    """One spacing, and for every pair the grid indices (from 0 on) at which it is evaluated.

    ``finest`` says that no finer grid spans the losses in the memory that is allowed.
    """

    spacing: float
    points: tuple[IntArray, ...]
    finest: bool = False


@dataclass(frozen=True, eq=False)
class Survey:
    """Pairs that were scouted, with how often each occurs: grids of any fineness fit them."""

    scouted: tuple[Scouted, ...]
    counts: tuple[int, ...]

    def grid(self, fraction: float) -> Grid:
        """A grid whose spacing is this fraction of the deviation of one step."""
        return lay_grid(self.scouted, self.counts, fraction)


def survey(pairs: Iterable[DominatingPair], counts: Iterable[int]) -> Survey:
    """Scout every pair once."""
    return Survey(tuple(scout(pair) for pair in pairs), tuple(counts))


def scout(pair: DominatingPair) -> Scouted:
    """Take a first look at a pair with a few hundred evaluations."""
    looks = np.concatenate([[0.0], np.geomspace(1e-7, LARGEST_EPSILON, 120)])
    seen = np.maximum(*pair.values(looks))
    small = np.flatnonzero(seen <= NEGLIGIBLE)
    reach = float(looks[small[0]]) if small.size else LARGEST_EPSILON
    sharp = bool(small.size and small[0] and seen[small[0] - 1] > _SHARP)
    if sharp:
        reach = _end(pair, float(looks[small[0] - 1]), reach)
    spacing = max(reach, 1e-6) * _SCOUT
    rough = connect(pair, spacing, _points(spacing, 0.0, max(reach, 1e-6), 0.06))
    return Scouted(reach, math.sqrt(rough.variance), sharp)


def _end(pair: DominatingPair, low: float, high: float) -> float:
    """A close upper bound of where a profile becomes negligible, between ``low`` and ``high``."""
    for _ in range(5):  # each round narrows the bracket 24 times
        looks = np.linspace(low, high, 25)
        small = np.flatnonzero(np.maximum(*pair.values(looks))[:-1] <= NEGLIGIBLE)
        last = int(small[0]) if small.size else 24
        low, high = float(looks[max(last - 1, 0)]), float(looks[last])
    return high


def lay_grid(scouted: Sequence[Scouted], counts: Sequence[int], fraction: float) -> Grid:
    """Choose spacing and points; ``fraction`` is the spacing over the deviation of one step."""
    total = math.fsum(k * s.deviation**2 for s, k in zip(scouted, counts, strict=True))
    # Of one pair the spacing is the same for every count, to the last digit: looks are kept.
    typical = scouted[0].deviation if len(scouted) == 1 else math.sqrt(total / sum(counts))
    reach = max(s.reach for s in scouted)
    # Rare losses may reach far beyond the deviation of a step; the grid has to span them.
    spacing = max(fraction * typical, reach * max(_FINEST, _FINEST_AT * fraction), 1e-13)
    finest = spacing > fraction * typical
    ends = [(k * s.deviation, s.reach) for s, k in zip(scouted, counts, strict=True) if s.sharp]
    if ends and max(ends)[1] > 4.0 * spacing:
        # A dot where the losses end, so that no chord reaches past it; an even number of cells.
        end = max(ends)[1]
        spacing = end / (2 * math.ceil(end / (2.0 * spacing))) * (1.0 + 1e-12)
    ratio = _FURTHER * fraction
    points = tuple(_points(spacing, 4.0 * s.deviation, s.reach, ratio) for s in scouted)
    return Grid(spacing, points, finest)


def few_points(spacing: float, deviation: float, last: int, far: int = 70) -> IntArray:
    """Grid indices from 0 to ``last``, ``far`` of them far apart: for the profiles of a family."""
    near = min(last, max(8, math.ceil(4.0 * deviation / spacing)))
    # Rounded down: a bound must not jump where rounding falls on the other side.
    step = max(1, math.floor(_DENSE * deviation / spacing))
    beyond = np.rint(np.geomspace(near, max(last, near + 1), far)).astype(np.int64)
    return np.unique(np.concatenate([np.arange(0, near, step), beyond]))


def _points(spacing: float, dense: float, reach: float, ratio: float) -> IntArray:
    """Grid indices from 0 to ``reach``: every one up to ``dense``, then growing by ``ratio``."""
    last = max(4, math.ceil(reach / spacing))
    near = min(last, max(4, math.ceil(dense / spacing)))
    if near > _MOST_POINTS:
        raise NumericalFailure(
            f"a grid of spacing {spacing:.3g} up to {dense:.3g} needs {near} evaluations; "
            f"at most {_MOST_POINTS} are made"
        )
    start = np.arange(near + 1, dtype=np.int64)
    if near == last:
        return start
    count = max(2, math.ceil(math.log(last / near) / math.log1p(ratio)) + 1)
    far = np.rint(np.geomspace(near, last, count)).astype(np.int64)
    return np.unique(np.concatenate([start, far]))
