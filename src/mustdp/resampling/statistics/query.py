"""What a statistic asks of one subset, and how far one copy of a record can move the answer.

A *query* turns a weighted multiset of records into a vector. That vector is what is released, with
noise; everything after it (``estimate``) only reads the noisy vector and costs no privacy. The
vector is cut into *blocks*, each with a bound on what one copy contributes:

- on multisets of a fixed size, swapping one copy moves a block by at most ``2 * reach`` (L2 norm);
- on Poisson subsets, one copy more or less moves a block by at most ``reach``, and swapping one by
  at most ``2 * reach``.

So a block with noise of standard deviation ``z * reach`` has noise multiplier z in the sense of the
accountant, whatever the scheme. The bounds are proved in the docstring of every statistic.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

from mustdp.numerics.arrays import FloatArray, IntArray


@dataclass(frozen=True)
class Block:
    """Neighbouring coordinates of a query that share one noise scale."""

    label: str
    width: int
    reach: float


class Query(ABC):
    """A statistic bound to its columns' ranges and to the size of the subsets; picklable."""

    #: The blocks in the order of the coordinates.
    blocks: tuple[Block, ...]
    #: Names of the estimates, in the order of ``estimate``.
    labels: tuple[str, ...]

    @property
    def width(self) -> int:
        """Number of coordinates released for one subset."""
        return sum(block.width for block in self.blocks)

    @property
    def paired(self) -> tuple[bool, ...]:
        """For each coordinate, whether it is an average over pairs of *different positions*.

        Two positions of a multiset may hold the same record; such pairs count as zero, so that an
        average over pairs (a sample variance, a covariance) comes out too small by the chance of
        that. The design knows the chance and divides it out.
        """
        return (False,) * self.width

    @abstractmethod
    def evaluate(self, values: FloatArray, counts: IntArray) -> FloatArray:
        """The vector of one subset: ``values`` (distinct, columns), already clipped, and counts."""

    @abstractmethod
    def estimate(self, vectors: FloatArray) -> FloatArray:
        """Turn released vectors ``(..., width)`` into estimates ``(..., len(labels))``."""

    def interval(
        self, average: FloatArray, covariance: FloatArray, quantile: float
    ) -> FloatArray | None:
        """A normal interval ``(len(labels), 2)`` where the delta method would not do, else None.

        ``covariance`` is that of ``average``; ``quantile`` is the normal quantile of the level.
        """
        return None

    def cautions(self, average: FloatArray, widths: FloatArray) -> tuple[str, ...]:
        """What a reader has to know, given the average and the widths of the intervals."""
        return ()


class Statistic(ABC):
    """What is asked for, before the ranges of the columns and the subsets' size are known."""

    #: Name on the command line.
    name: str
    #: Columns it reads, by name or position; None for all that are given.
    columns: tuple[str | int, ...] | None

    @abstractmethod
    def check_columns(self, count: int) -> None:
        """Refuse a number of columns that the statistic cannot take."""

    @abstractmethod
    def query(
        self,
        lower: Sequence[float],
        upper: Sequence[float],
        size: float,
        *,
        poisson: bool = False,
    ) -> Query:
        """The query on columns within ``[lower, upper]`` for multisets of ``size`` entries.

        With ``poisson``, ``size`` is the expected size and sums are divided by it, since the size
        itself is random and not public.
        """
