"""Stages of a draw, and the multiplicity law: how often a group of records occurs in one draw.

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
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from mustdp.errors import InvalidParameter, NumericalFailure
from mustdp.numerics import checks
from mustdp.numerics.arrays import ROUNDOFF, FloatArray
from mustdp.numerics.checks import frozen
from mustdp.sampling.catalogue import KINDS, Kind


@dataclass(frozen=True, slots=True)
class Stage:
    """Draw ``size`` entries without (``wor``) or with (``wr``) replacement.

    Parameters
    ----------
    kind : {"wor", "wr"}
        Whether entries are drawn without or with replacement.
    size : int
        How many entries are drawn, at least 1.

    Examples
    --------
    >>> import mustdp as md
    >>> md.types.Stage("wor", 50)
    Stage(kind='wor', size=50)
    """

    kind: Kind
    size: int

    def __post_init__(self) -> None:
        checks.choice("stage kind", self.kind, KINDS)
        object.__setattr__(self, "size", checks.integer("stage size", self.size, 1))

    def __str__(self) -> str:
        return f"{self.kind}:{self.size}"


def read_stage(given: object, number: int) -> Stage:
    """Read a ``(kind, size)`` pair; messages name it as stage ``number``."""
    if isinstance(given, Stage):
        return given
    if not (isinstance(given, tuple | list) and len(given) == 2):
        raise InvalidParameter(
            f"stage {number} must be a (kind, size) pair such as ('wor', 118), got {given!r}"
        )
    kind, size = given
    checks.choice(f"kind of stage {number}", kind, KINDS)
    return Stage(kind, checks.integer(f"size of stage {number}", size, 1))


def reduce_stages(population: int, stages: Sequence[Stage]) -> tuple[Stage, ...]:
    """Return the shortest list of stages whose multiset has exactly the same law.

    Entries taken without replacement from an exchangeable list are again such a list: a ``wor``
    stage after any other only shortens it. A ``wor`` stage that takes everything changes nothing.
    What is left is at most one ``wor`` stage, in front, and any number of ``wr`` stages.

    >>> reduce_stages(9, [Stage("wr", 6), Stage("wor", 4)])
    (Stage(kind='wr', size=4),)
    """
    reduced: list[Stage] = []
    for stage in stages:
        if stage.kind == "wor" and reduced:
            reduced[-1] = Stage(reduced[-1].kind, stage.size)
        else:
            reduced.append(stage)
    if len(reduced) > 1 and reduced[0] == Stage("wor", population):
        del reduced[0]
    return tuple(reduced)


def check_stages(
    population: int, stages: Sequence[Stage], names: Sequence[str] | None = None
) -> None:
    """Refuse a ``wor`` stage that asks for more entries than there are."""
    if names is None:
        names = [f"size of stage {number}" for number in range(1, len(stages) + 1)]
    available, source = population, "n"
    for stage, name in zip(stages, names, strict=True):
        if stage.kind == "wor" and stage.size > available:
            raise InvalidParameter.refusing(
                name,
                f"must be at most {{{source}}} = {available} when drawn without replacement",
                stage.size,
                mentions=(source,),
            )
        available, source = stage.size, name


# Binomial and hypergeometric probabilities on a window that holds all but a stated mass.
#
# Both laws are unimodal with rational ratios of neighbours, so they are built outwards from the
# mode as running products of those ratios and normalised by their sum. No gamma function is
# involved: each step costs at most five roundings, so an entry d steps from the mode is off by at
# most 5 d u (u = unit roundoff) and the sum by 5 u times the mean of d, which is at most one more
# than the standard deviation. ``8 u (length + deviation + 4)`` covers both, and the summation, for
# any size of the population.
#
# How far to go is decided by Bernstein's inequality, which holds for the binomial and, by Hoeffding
# (1963, J. Amer. Statist. Assoc. 58, Theorem 4), for the hypergeometric law too. The sum that
# normalises is always taken over all but 1e-20 of the mass, also where the caller allows more to be
# cut, so that a generous ``tail`` costs mass at the ends and no accuracy in what is kept.

#: Widest window that is built; wider laws are refused rather than approximated.
WIDEST = 2_000_000
#: No window is cut finer than this: double precision ends soon below.
FINEST_TAIL = 1e-300
#: The normalising sum misses at most this much, whatever the caller lets go.
_NORMALISED = 1e-20


@dataclass(frozen=True, eq=False)
class Window:
    """Probabilities of ``first, first + 1, …`` and the mass that is missing.

    Every entry is within ``relative_error`` of the mass it stands for, and ``cut`` bounds all the
    mass that the entries do not stand for.
    """

    first: int
    probabilities: FloatArray
    cut: float
    relative_error: float

    @property
    def values(self) -> NDArray[np.int64]:
        """The integers the probabilities belong to."""
        return np.arange(self.first, self.first + self.probabilities.size, dtype=np.int64)


def binomial(size: int, numerator: int, denominator: int, tail: float) -> Window:
    """Law of the number of successes in ``size`` trials of chance numerator/denominator."""
    if numerator == 0:
        return _point(0)
    if numerator == denominator:
        return _point(size)
    odds = numerator / (denominator - numerator)

    def ratio(k: FloatArray) -> FloatArray:
        return (size - k) / (k + 1.0) * odds

    mode = min(((size + 1) * numerator) // denominator, size)
    return _grow(ratio, 0, mode, size, _variance(size, numerator, denominator), tail)


def hypergeometric(population: int, special: int, drawn: int, tail: float) -> Window:
    """Law of the special entries among ``drawn`` taken without replacement from ``population``."""
    low, high = max(0, drawn - (population - special)), min(special, drawn)
    if low == high:
        return _point(low)
    ordinary = population - special

    def ratio(k: FloatArray) -> FloatArray:
        return ((special - k) / (k + 1.0)) * ((drawn - k) / (ordinary - drawn + k + 1.0))

    mode = min(max(((drawn + 1) * (special + 1)) // (population + 2), low), high)
    # The law stays the same when the roles of `special` and `drawn` are swapped.
    variance = min(_variance(drawn, special, population), _variance(special, drawn, population))
    return _grow(ratio, low, mode, high, variance, tail)


def _variance(size: int, numerator: int, denominator: int) -> float:
    """Variance of the binomial law."""
    return size * (numerator / denominator) * ((denominator - numerator) / denominator)


def _point(value: int) -> Window:
    return Window(value, frozen(np.ones(1)), 0.0, 0.0)


def _grow(
    ratio: Callable[[FloatArray], FloatArray],
    low: int,
    mode: int,
    high: int,
    variance: float,
    tail: float,
) -> Window:
    """Multiply ratios outwards from the mode, normalise, and cut both ends to ``tail``."""
    side = max(tail, FINEST_TAIL) / 4.0  # half of the tail is Bernstein's, half is cut below
    far = min(side, _NORMALISED)
    distance = _reach(variance, far)
    first, last = max(low, mode - distance), min(high, mode + distance)
    if last - first + 1 > WIDEST:
        raise NumericalFailure(
            f"the multiplicity law has {last - first + 1} values that matter "
            f"(around {mode}); at most {WIDEST} are supported"
        )
    beyond = far * ((first > low) + (last < high))
    up = np.cumprod(ratio(np.arange(mode, last, dtype=np.float64)))
    down = np.cumprod(1.0 / ratio(np.arange(mode - 1, first - 1, -1, dtype=np.float64)))
    weights = np.concatenate([down[::-1], [1.0], up])
    total = float(weights.sum())
    below, above = np.cumsum(weights), np.cumsum(weights[::-1])
    start = int(np.searchsorted(below, side * total, side="right"))
    stop = weights.size - int(np.searchsorted(above, side * total, side="right"))
    removed = (below[start - 1] if start else 0.0) + (
        above[weights.size - stop - 1] if stop < weights.size else 0.0
    )
    # A part in a thousand covers the rounding of the sums, FINEST_TAIL what underflowed in them.
    cut = beyond + 1.001 * float(removed) / total
    if stop - start < weights.size:
        cut += FINEST_TAIL / 4.0
    probabilities = weights[start:stop] / total
    error = 8.0 * (probabilities.size + math.sqrt(variance) + 4.0) * ROUNDOFF
    return Window(first + start, frozen(probabilities), cut, error)


def _reach(variance: float, mass: float) -> int:
    """Distance from the mode beyond which either side holds at most ``mass``.

    Bernstein: P(X - mean >= d) <= exp(-d^2 / (2 (variance + d/3))), both sides; the mode is within
    one of the mean.
    """
    nats = -math.log(mass)
    return math.ceil(nats / 3 + math.sqrt(nats * nats / 9 + 2 * variance * nats)) + 2


# The law of a draw.

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
        return hypergeometric(population, special, stage.size, tail)
    return binomial(stage.size, special, population, tail)


def _apply(law: MultiplicityLaw, stage: Stage, population: int, tail: float) -> MultiplicityLaw:
    """Mix the rows of the stage's kernel with the weights of ``law``."""
    mixture, cut, error, work = _MixedLaw(stage), law.cut + _UNDERFLOW, 0.0, 0
    share = max(tail, FINEST_TAIL) / law.probabilities.size
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
        if high - low > WIDEST:
            raise NumericalFailure(
                f"the law of stage {self._stage} spreads over {high - low} values or more; "
                f"at most {WIDEST} are supported"
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
