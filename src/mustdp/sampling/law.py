"""The multiplicity law: how often a group of records occurs in one draw.

A stage draws M entries out of N. If i of the N entries are special, the number j of special ones
among the M drawn is hypergeometric(N, i, M) without replacement and binomial(M, i/N) with. The law
of a multistage draw is the product of these kernels started at i = (number of special records).

Laws are truncated where what is left out is below a stated mass, down to about 1e-300 per stage,
where double precision ends. The mass that was cut is carried along in ``cut`` and never dropped:
anyone who uses the law for a privacy bound adds it to delta. In exact terms, with e the relative
error, an entry p and the true probability t satisfy ``p (1 - e) <= t``, and the sum of all
``t - p (1 + e)``, where positive, is at most ``cut``.
"""

from __future__ import annotations

import math
from functools import cached_property, lru_cache
from itertools import pairwise

import numpy as np

from mustdp.errors import NumericalFailure
from mustdp.numerics import windows
from mustdp.numerics.arrays import ROUNDOFF, FloatArray
from mustdp.numerics.checks import frozen
from mustdp.numerics.windows import Window
from mustdp.sampling.stage import Stage

#: Mass that a law may leave out unless the caller asks for more or less.
TAIL = 1e-300
#: Entries of one stage's kernel that are worked through at most; a row counts for 500 or more.
_LARGEST_KERNEL = 100_000_000
_ROW = 500
#: However rarely a row of a kernel is reached, all but this much of it is kept.
_COARSEST_ROW = 1e-3
#: Products of weights and rows below this have lost digits; they join the cut.
_UNDERFLOW = 1e-306


class MultiplicityLaw(Window):
    """The law of the multiplicity J: probabilities of ``first, first + 1, …`` and the cut mass.

    Parameters
    ----------
    first : int
        The smallest multiplicity that has a probability here.
    probabilities : ndarray
        Probabilities of ``first, first + 1, …``.
    cut : float
        All the mass that the probabilities do not stand for; anyone who bounds a delta adds it.
    relative_error : float
        How far every probability may be off, as a share of it.

    Examples
    --------
    >>> import mustdp as md
    >>> law = md.wr(1000, 10).law()
    >>> print(f"{law.zero:.4f} {law.mean:.2f}")
    0.9900 0.01
    """

    @property
    def eta(self) -> float:
        """P(J >= 1), summed over j >= 1 so that small values keep their digits."""
        return float(self.positive.sum())

    @property
    def zero(self) -> float:
        """P(J = 0)."""
        return float(self.probabilities[0]) if self.first == 0 else 0.0

    @cached_property
    def support(self) -> FloatArray:
        """The multiplicities that occur, as floats; a first stage of one record skips many."""
        return frozen(self.values[self.probabilities > 0].astype(np.float64))

    @cached_property
    def weights(self) -> FloatArray:
        """Probabilities of the multiplicities that occur, none of them zero."""
        return frozen(self.probabilities[self.probabilities > 0])

    @property
    def positive(self) -> FloatArray:
        """Probabilities of the multiplicities that occur and are at least one."""
        return self.weights[self.support > 0]

    @property
    def positive_values(self) -> FloatArray:
        """The multiplicities that occur and are at least one, as floats."""
        return self.support[self.support > 0]

    @property
    def mean(self) -> float:
        """Expected multiplicity, of the part that was kept."""
        return float(self.positive @ self.positive_values)

    def coarsened(self, most: int, *, up: bool) -> MultiplicityLaw:
        """The law with fewer positive multiplicities: neighbours share one of their values.

        Rounding up serves upper bounds, because profiles grow with the group; rounding down serves
        lower bounds. Zero stays by itself.

        Parameters
        ----------
        most : int
            How many positive multiplicities are left at most.
        up : bool
            Whether neighbours share the largest of their values, or the smallest.

        Returns
        -------
        MultiplicityLaw
            The law itself where it has no more than ``most``.
        """
        values = self.positive_values
        if values.size <= most:
            return self
        width = math.ceil((values[-1] - values[0] + 1) / most)
        cell = ((values - values[0]) // width).astype(np.int64)
        sums = np.bincount(cell, weights=self.positive)
        ends = values[0] + (np.arange(sums.size) + (1.0 if up else 0.0)) * width - (1 if up else 0)
        spread = np.zeros(int(ends[-1]) - self.first + 1)
        spread[ends.astype(np.int64) - self.first] = sums
        if self.first == 0:
            spread[0] = self.probabilities[0]
        error = self.relative_error + width * ROUNDOFF
        return MultiplicityLaw(self.first, frozen(spread), self.cut, error)

    def dense(self) -> FloatArray:
        """Probabilities from multiplicity 0 on.

        Returns
        -------
        ndarray
            ``p_0, p_1, …``, read-only.
        """
        return frozen(np.concatenate([np.zeros(self.first), self.probabilities]))


@lru_cache(maxsize=1024)
def stage_law(stage: Stage, population: int, special: int, tail: float = TAIL) -> MultiplicityLaw:
    """Law of the special entries after one stage that starts with ``special`` among them."""
    return as_law(_kernel_row(stage, population, special, tail))


@lru_cache(maxsize=64)
def chain_law(
    population: int, stages: tuple[Stage, ...], special: int, tail: float = TAIL
) -> MultiplicityLaw:
    """Law after all ``stages``, started with ``special`` of ``population`` records."""
    share = tail / len(stages)
    law = stage_law(stages[0], population, special, share)
    for before, stage in pairwise(stages):
        law = _apply(law, stage, before.size, share)
    return law


def as_law(window: Window) -> MultiplicityLaw:
    """Read a window of probabilities as a multiplicity law."""
    return MultiplicityLaw(window.first, window.probabilities, window.cut, window.relative_error)


def _kernel_row(stage: Stage, population: int, special: int, tail: float) -> Window:
    if stage.kind == "wor":
        return windows.hypergeometric(population, special, stage.size, tail)
    return windows.binomial(stage.size, special, population, tail)


def _apply(law: MultiplicityLaw, stage: Stage, population: int, tail: float) -> MultiplicityLaw:
    """Mix the rows of the stage's kernel with the weights of ``law``."""
    mixture, cut, error, work = _MixedLaw(stage), law.cut + _UNDERFLOW, 0.0, 0
    share = max(tail, windows.FINEST_TAIL) / law.probabilities.size
    for special, weight in zip(law.values.tolist(), law.probabilities.tolist(), strict=True):
        if weight == 0.0:
            continue
        # A row that is rarely reached may be cut earlier: its cut counts only weight times.
        own_tail = min(_COARSEST_ROW, share / weight)
        row = _kernel_row(stage, population, special, own_tail)
        work += _ROW + row.probabilities.size
        if work > _LARGEST_KERNEL:
            raise NumericalFailure(
                f"the law of stage {stage} mixes {law.probabilities.size} rows of about "
                f"{row.probabilities.size} values; at most {_LARGEST_KERNEL} values are supported"
            )
        mixture.add(weight, row)
        cut += weight * row.cut
        error = max(error, row.relative_error)
    first, probabilities, dropped = mixture.trimmed()
    error += law.relative_error + (law.probabilities.size + 1) * ROUNDOFF
    return MultiplicityLaw(first, frozen(probabilities), cut + dropped, error)


class _MixedLaw:
    """A sum of weighted windows, on an array that grows as they arrive."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._first = 0
        self._values = np.zeros(0)

    def add(self, weight: float, row: Window) -> None:
        """Add ``weight`` times ``row``."""
        if not self._values.size:
            self._first = row.first
        start, stop = row.first, row.first + row.probabilities.size
        end = self._first + self._values.size
        if start < self._first or stop > end:
            self._grow(min(start, self._first), max(stop, end))
        self._values[start - self._first : stop - self._first] += weight * row.probabilities

    def _grow(self, low: int, high: int) -> None:
        if high - low > windows.WIDEST:
            raise NumericalFailure(
                f"the law of stage {self._stage} spreads over {high - low} values or more; "
                f"at most {windows.WIDEST} are supported"
            )
        spare = (high - low) // 2
        low, high = max(0, low - spare), high + spare
        wider = np.zeros(high - low)
        wider[self._first - low : self._first - low + self._values.size] = self._values
        self._first, self._values = low, wider

    def trimmed(self) -> tuple[int, FloatArray, float]:
        """First value, probabilities, and the mass of entries too small to be accurate."""
        small = self._values < _UNDERFLOW
        dropped = float(self._values[small].sum())
        kept = np.flatnonzero(~small)
        values = np.where(small, 0.0, self._values)[kept[0] : kept[-1] + 1]
        return self._first + int(kept[0]), values, dropped
