"""Where the records that differ are in an epoch: how many of them each batch holds, by chance.

Given the pattern, its batches are distinct and uniform among those that are released. One record in
t of M bins, of which the first k are released, is in J of these, J hypergeometric. Several records
with one bin each coincide by chance: the sizes of the groups in one bin are a partition of those
that are in the first k bins at all.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from mustdp.errors import NotCovered
from mustdp.numerics.arrays import FloatArray
from mustdp.sampling.epochs import RandomAllocation

#: Relative error of a chance.
ERROR = 1e-12
#: The most records whose coincidences are added up one by one.
MOST_RECORDS = 4
#: The most patterns of one record that are all kept apart; else they are told apart by the chance
#: that lies beyond them.
MOST = 12
_BEYOND = np.array([0.95, 0.8, 0.5, 0.2, 0.05, 1e-2, 1e-3, 1e-5, 1e-8, 1e-12, 1e-18])


@dataclass(frozen=True)
class Pattern:
    """How many of the records each occupied batch holds, most first, and the chance of that."""

    chance: float
    copies: tuple[int, ...]

    @property
    def square(self) -> int:
        """The squared length of the move of all batches together, in shifts of one copy."""
        return sum(c * c for c in self.copies)


def patterns(epoch: RandomAllocation, group: int) -> tuple[Pattern, ...]:
    """The patterns of ``group`` records; chances add up to one, each known to within ``ERROR``.

    Of one record more than ``MOST`` are taken together, as that with the least batches: fewer that
    are moved tell less, so that such patterns are for what is attained alone.
    """
    if group == 1:
        return _one_record(epoch)
    if epoch.times > 1 or group > MOST_RECORDS:
        raise NotCovered(
            f"coincidences of {group} records in {epoch.times} bins each are not added up"
        )
    return _several_records(epoch, group)


def _one_record(epoch: RandomAllocation) -> tuple[Pattern, ...]:
    first, chances = _hypergeometric(epoch.bins, epoch.times, epoch.steps)
    counts = first + np.arange(chances.size)
    if chances.size <= MOST:
        chosen = zip(counts.tolist(), chances.tolist(), strict=True)
        return tuple(Pattern(chance, (1,) * number) for number, chance in chosen)
    beyond = np.cumsum(chances)
    cells = np.searchsorted(-_BEYOND, -beyond)
    found = []
    for cell in np.unique(cells):
        here = cells == cell
        found.append(Pattern(float(chances[here].sum()), (1,) * int(counts[here][0])))
    return tuple(found)


def _hypergeometric(bins: int, times: int, steps: int) -> tuple[int, FloatArray]:
    """Chances of J = first, first + 1, ... from their ratios, outwards from the largest."""
    first, last = max(0, times - (bins - steps)), min(times, steps)
    mode = min(max((times + 1) * (steps + 1) // (bins + 2), first), last)
    j = np.arange(first, last, dtype=np.float64)
    # P(J = j + 1) / P(J = j)
    ratios = (times - j) * (steps - j) / ((j + 1.0) * (bins - steps - times + j + 1.0))
    up = np.cumprod(ratios[mode - first :])
    down = np.cumprod(1.0 / ratios[: mode - first][::-1])[::-1]
    sizes = np.concatenate([down, [1.0], up])
    return first, sizes / sizes.sum()


def _several_records(epoch: RandomAllocation, group: int) -> tuple[Pattern, ...]:
    bins, steps = epoch.bins, epoch.steps
    found = []
    for inside in range(group + 1):
        share = math.comb(group, inside) * (bins - steps) ** (group - inside)
        for sizes in _partitions(inside, inside):
            if len(sizes) > steps:
                continue
            ways = math.factorial(inside)
            for size, times in Counter(sizes).items():
                ways //= math.factorial(size) ** times * math.factorial(times)
            number = share * ways * math.perm(steps, len(sizes))
            if number:
                found.append(Pattern(number / bins**group, sizes))
    return tuple(found)


def _partitions(total: int, largest: int) -> Iterator[tuple[int, ...]]:
    """The ways to write ``total`` as a sum, largest part first."""
    if total == 0:
        yield ()
    for part in range(min(total, largest), 0, -1):
        for rest in _partitions(total - part, part):
            yield (part, *rest)
