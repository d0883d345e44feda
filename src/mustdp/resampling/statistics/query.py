"""What a statistic asks of one subset, and how far one copy of a record can move the answer.

A *query* turns a weighted multiset of records into a *total*, to which noise is added, and a total
into the vector that is released:

    vector = total / divisor + shift,      divisor and shift public.

Where it can be, the total is a sum of *contributions*, one row of numbers for each copy of a
record, measured from the middle of what they can be (:class:`LinearQuery`). Division and shift come
after the noise, so that nothing public is rounded together with what is secret. Everything after
that (``estimate``) only reads the noisy vector and costs no privacy.

The vector is cut into *blocks*, each with a bound on what one copy contributes:

- on multisets of a fixed size, swapping one copy moves a block by at most ``2 * reach`` (L2 norm);
- on Poisson subsets, one copy more or less moves a block by at most ``reach``, and swapping one by
  at most ``2 * reach``.

So a block with noise of standard deviation ``z * reach`` has noise multiplier z in the sense of the
accountant, whatever the scheme. On the total, both are ``divisor`` times as large. The bounds are
proved in the docstring of every statistic.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from mustdp.numerics.arrays import FloatArray, IntArray
from mustdp.resampling.statistics.public import Public
from mustdp.resampling.statistics.reading import Reading, Spread, symmetric

#: Numbers of contributions that are held at a time: as many as are fast to get at.
_AT_ONCE = 2**17
#: How often every row is in each of two halves of a multiset.
Halves = tuple[IntArray, IntArray] | None


@dataclass(frozen=True)
class Block:
    """Neighbouring coordinates that share one noise scale, and how they are read off the total."""

    label: str
    width: int
    reach: float
    divisor: float = field(default=1.0, repr=False)
    shift: float = field(default=0.0, repr=False)

    @property
    def reach_of_total(self) -> float:
        """The reach in units of the total, rounded up: no rounding on the way makes it too small.

        A reach is made of a few roots, products and quotients, each right to 2^-53 of itself.
        """
        return self.reach * self.divisor * (1.0 + 2.0**-48)


@dataclass(frozen=True, eq=False)
class Averaged:
    """The average of all released vectors, and what is public about its error.

    ``noise`` are the variances of its noise. The variance of a record's influence, times
    ``factor``, is what sampling and resampling add.
    """

    vector: FloatArray
    noise: FloatArray
    factor: float

    def part(self, own: slice) -> Averaged:
        """The same for some coordinates."""
        return Averaged(self.vector[own], self.noise[own], self.factor)


class Query(ABC):
    """A statistic bound to what is public about the subsets; picklable."""

    #: The blocks in the order of the coordinates.
    blocks: tuple[Block, ...]
    #: Names of the estimates, in the order of ``estimate``.
    labels: tuple[str, ...]

    @cached_property
    def width(self) -> int:
        """Number of coordinates released for one subset."""
        return sum(block.width for block in self.blocks)

    @property
    def reader(self) -> Query:
        """Who reads what was released; mostly the query itself."""
        return self

    @property
    def paired(self) -> tuple[bool, ...]:
        """For each coordinate, whether it is an average over pairs of *different positions*.

        Two positions of a multiset may hold the same record; such pairs count as zero, so that an
        average over pairs (a sample variance, a covariance) comes out too small by the chance of
        that. The design knows the chance and divides it out.
        """
        return (False,) * self.width

    @cached_property
    def divisors(self) -> FloatArray:
        """What every coordinate of the total is divided by, after the noise."""
        return np.concatenate([np.full(block.width, block.divisor) for block in self.blocks])

    @cached_property
    def shifts(self) -> FloatArray:
        """What is added to every coordinate then."""
        return np.concatenate([np.full(block.width, block.shift) for block in self.blocks])

    @abstractmethod
    def total(self, values: FloatArray, counts: IntArray, halves: Halves = None) -> FloatArray:
        """What noise is added to: ``values`` (distinct, columns), already clipped, and counts.

        A query that is ``halved`` needs the counts of two random halves of the multiset, too.
        """

    @property
    def halved(self) -> bool:
        """Whether the total is made from two random halves of the subset as well."""
        return False

    def restored(self, totals: FloatArray) -> FloatArray:
        """The released vectors ``(..., width)`` behind totals, noisy or not."""
        return np.asarray(totals / self.divisors + self.shifts)

    def evaluate(self, values: FloatArray, counts: IntArray) -> FloatArray:
        """The vector of one subset without noise."""
        return self.restored(self.total(values, counts))

    @abstractmethod
    def estimate(self, vectors: FloatArray) -> FloatArray:
        """Turn released vectors ``(..., width)`` into estimates ``(..., len(labels))``."""

    @property
    def possible(self) -> tuple[tuple[float, float], ...]:
        """What each estimate can be; intervals are cut to it."""
        return ((-np.inf, np.inf),) * len(self.labels)

    def smooth(self, vectors: FloatArray) -> FloatArray:
        """What is differentiated: the estimates, or what they are read off, without any clipping.

        Defined near released vectors; NaN where there is nothing to differentiate.
        """
        return self.estimate(vectors)

    def divided_by(self, vectors: FloatArray) -> FloatArray:
        """Variances ``(..., any number)`` that the estimates divide by."""
        return np.empty((*vectors.shape[:-1], 0))

    def behind(self, place: int) -> tuple[Query, slice, int]:
        """The query that an estimate belongs to, its coordinates, and the estimate's place."""
        return self, slice(0, self.width), place

    def largest(self, vector: FloatArray) -> float:
        """The largest influence of a record on what is differentiated; 0 where none is known."""
        return 0.0

    def read(self, place: int, value: float, spread: Spread, level: float) -> Reading:
        """One estimate from its ``smooth`` value and the spread of that."""
        return symmetric(value, spread, level, self.possible[place])

    def known(self, at: Averaged, level: float) -> tuple[Reading | None, ...]:
        """Estimates whose sampling error follows from what was released, without replicates."""
        return (None,) * len(self.labels)

    def cautions(self, at: Averaged, grouped: FloatArray) -> tuple[str, ...]:
        """What a reader has to know, given the average and the groups' means of the vectors."""
        return ()


class LinearQuery(Query):
    """A query whose total is the sum of what every copy of a record contributes, added exactly."""

    public: Public

    @property
    def within_reach(self) -> bool:
        """Whether the reaches bound every contribution itself, not only the distance of two.

        If so, with c_b the part of a contribution that belongs to block b, ``sum_b (|c_b| /
        reach_of_total_b)^2 <= 1``, and contributions may be shortened towards zero, in every
        coordinate as one likes, without a second thought. If not, rounding them to multiples of g
        can move two of them farther apart, by g in every coordinate, and a reach on the total has
        to grow by ``g * sqrt(width) / 2``.
        """
        return True

    @abstractmethod
    def contributions(self, values: FloatArray) -> FloatArray:
        """What one copy of each row of ``values`` adds to the total: ``(rows, width)``, centred.

        A row of the result depends on its record and on what is public, on nothing else.
        """

    def total(self, values: FloatArray, counts: IntArray, halves: Halves = None) -> FloatArray:
        """The sum over all copies; a multiset of another size than the public one is refused."""
        self.public.check_size(counts)
        at_once = max(1, _AT_ONCE // self.width)
        found: FloatArray = counts[:at_once] @ self.contributions(values[:at_once])
        for start in range(at_once, len(values), at_once):
            rows = slice(start, start + at_once)
            found += counts[rows] @ self.contributions(values[rows])
        return found

    def steps(self, values: FloatArray, counts: IntArray, per_step: FloatArray) -> FloatArray:
        """The sum of the contributions, each cut towards zero to whole steps; an exact integer.

        ``per_step`` are powers of two, one for each coordinate: multiplying by them rounds nothing.
        """
        self.public.check_size(counts)
        at_once = max(1, _AT_ONCE // self.width)
        found = np.zeros(self.width)
        for start in range(0, len(values), at_once):
            rows = slice(start, start + at_once)
            whole = self.contributions(values[rows]) * per_step
            found += counts[rows] @ np.trunc(whole, out=whole)
        return found
