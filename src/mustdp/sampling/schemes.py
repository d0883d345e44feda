"""Sampling schemes: frozen descriptions of a random draw that draw batches and are charged for
them.

What a draw is made of stands before the schemes: stages, the law of the multiplicity (how often a
group of records occurs in one draw), batches and how they are drawn.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import pairwise
from threading import RLock
from typing import TYPE_CHECKING, Any, ClassVar, Self, cast

import numpy as np
from numpy.typing import NDArray

from mustdp.errors import InvalidParameter, NumericalFailure
from mustdp.files.reading import digest
from mustdp.limits import LARGEST_SIZE
from mustdp.numerics import checks
from mustdp.numerics.arrays import ROUNDOFF, FloatArray, IntArray
from mustdp.numerics.checks import frozen
from mustdp.randomness.keys import BATCHES, GROUPS, BatchKey, Substreams, batch_key, generator
from mustdp.sampling.catalogue import BY_NAME, COMPARED, EPOCH_NAMES, KINDS, Kind, name_of

if TYPE_CHECKING:
    from mustdp.sampling.epochs import Sampling

# Stages of a draw, and the multiplicity law: how often a group of records occurs in one draw.
#
# A stage draws M entries out of N. If i of the N entries are special, the number j of special ones
# among the M drawn is hypergeometric(N, i, M) without replacement and binomial(M, i/N) with. The
# law of a multistage draw is the product of these kernels started at i = (number of special
# records).
#
# Laws are truncated where what is left out is below a stated mass, down to about 1e-300 per stage,
# where double precision ends. The mass that was cut is carried along in ``cut`` and never dropped:
# anyone who uses the law for a privacy bound adds it to delta. In exact terms, with e the relative
# error, an entry p and the true probability t satisfy ``p (1 - e) <= t``, and the sum of all ``t -
# p (1 + e)``, where positive, is at most ``cut``.


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


# One draw: distinct record indices and how often each was drawn.


@dataclass(frozen=True, eq=False, slots=True)
class Batch:
    """A multiset of records.

    The order of the indices carries no meaning, and batches that differ only in it are equal. An
    empty batch is a valid batch. The arrays are read-only copies of what was given.

    Parameters
    ----------
    indices : array_like of int
        The records drawn, each once, by their numbers from 0 on.
    counts : array_like of int
        How often each was drawn, at least once.

    Raises
    ------
    InvalidParameter
        The indices are not distinct, or the counts are not as many.

    Examples
    --------
    >>> Batch([7, 2], [1, 3]).rows()
    array([7, 2, 2, 2])
    """

    indices: IntArray
    counts: IntArray

    def __post_init__(self) -> None:
        indices = _integers("indices", self.indices, 0)
        counts = _integers("counts", self.counts, 1)
        if counts.size != indices.size:
            raise InvalidParameter(
                f"counts must hold one entry for each of the {indices.size} indices, "
                f"got {counts.size}"
            )
        if np.unique(indices).size != indices.size:
            raise InvalidParameter("indices must be distinct, got some more than once")
        object.__setattr__(self, "indices", frozen(indices))
        object.__setattr__(self, "counts", frozen(counts))

    @property
    def size(self) -> int:
        """Number of draws, copies counted: the sum of the counts."""
        return int(self.counts.sum())

    @property
    def distinct(self) -> int:
        """Number of distinct records."""
        return int(self.indices.size)

    def rows(self) -> IntArray:
        """The multiset written out: every index as often as it was drawn.

        Returns
        -------
        ndarray of int
            One entry for every draw, ``size`` of them.
        """
        return np.repeat(self.indices, self.counts)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Batch):
            return NotImplemented
        mine, theirs = np.argsort(self.indices), np.argsort(other.indices)
        return np.array_equal(self.indices[mine], other.indices[theirs]) and np.array_equal(
            self.counts[mine], other.counts[theirs]
        )

    __hash__ = None  # type: ignore[assignment]

    def __reduce__(self) -> tuple[Callable[..., Batch], tuple[Any, ...]]:
        # Arrays come out of a pickle writable; this way a batch stays frozen on its way.
        return drawn, (self.indices, self.counts)


def drawn(indices: IntArray, counts: IntArray) -> Batch:
    """Wrap fresh arrays that are known to be a batch: no copy, no check."""
    batch = object.__new__(Batch)
    object.__setattr__(batch, "indices", frozen(indices))
    object.__setattr__(batch, "counts", frozen(counts))
    return batch


def _integers(name: str, values: object, least: int) -> IntArray:
    allowed = f"{name} must be a one-dimensional list of integers >= {least}"
    try:
        array = np.asarray(values)
    except ValueError:
        raise InvalidParameter(f"{allowed}, got {values!r}") from None
    if array.ndim != 1 or not (array.dtype.kind in "iu" or array.size == 0):
        raise InvalidParameter(f"{allowed}, got {values!r}")
    if array.size and array.min() < least:
        raise InvalidParameter(f"{allowed}, got {int(array.min())} among them")
    if array.size and array.max() > np.iinfo(np.int64).max:
        raise InvalidParameter(f"{allowed} and below 2**63, got {int(array.max())} among them")
    return np.array(array, dtype=np.int64)


# How often each slot is hit: the counts behind every draw with replacement.
#
# Three ways to the same law, chosen by what they cost. Few hits on many slots are sorted; many
# hits on few slots are counted one by one; and where the hits outnumber the slots by far (a bag of
# little bootstraps draws n times on a few thousand slots) the total is split in halves over a
# binary tree of the slots, one binomial number per node, so that the cost follows the slots and
# not the hits. The counts of the halves given their total are binomial with the exact share of the
# left half, so no rounding builds up along the slots.


#: Slots beyond the number of hits up to which counting on a full array beats sorting.
_SPARE_SLOTS = 1_000
#: Hits per slot, and per level of the tree, from which splitting beats drawing one by one.
_HITS_PER_SLOT = 30
_HITS_PER_LEVEL = 2_500
#: Hits that are drawn in one go when they are counted one by one.
_PORTION = 1 << 20
#: Largest number of trials given to numpy's binomial sampler. Its rejection step rounds with an
#: absolute error near ``trials * 2**-53``: at 2**53 trials the variance comes out 6 % too small.
LARGEST_TRIALS = 1 << 32


def allocate(hits: int, slots: int, rng: np.random.Generator) -> tuple[IntArray, IntArray]:
    """Throw ``hits`` uniformly on ``slots``; return the slots that were hit and how often each."""
    if prefers_splitting(hits, slots):
        return occupied(split(hits, np.ones(slots, dtype=np.int64), rng))
    if slots > hits + _SPARE_SLOTS:
        places, edges = _runs(rng.integers(slots, size=hits))
        return places, edges[1:] - edges[:-1]
    return occupied(_counted(hits, slots, rng))


def gather(counts: IntArray, slots: int, rng: np.random.Generator) -> tuple[IntArray, IntArray]:
    """Throw groups of hits, each as one, uniformly on ``slots`` and add up what falls together.

    ``counts`` must be exchangeable, that is in an order that carries no information: then it does
    not matter which of the sorted places is given to which group, and no group has to be followed.
    Counts that come from :func:`allocate` or from here are exchangeable, because the slots are.
    """
    places = rng.integers(slots, size=counts.size)
    if slots <= counts.size + _SPARE_SLOTS:
        # Sums of counts stay below 2**53 and are exact as floats.
        return occupied(np.bincount(places, weights=counts).astype(np.int64))
    places, edges = _runs(places)
    return places, np.add.reduceat(counts, edges[:-1])


def occupied(counts: IntArray) -> tuple[IntArray, IntArray]:
    """Return the slots whose count is not zero, and their counts."""
    slots = counts.nonzero()[0]
    return slots, counts[slots]


def prefers_splitting(hits: int, slots: int) -> bool:
    """Whether hits are cheaper to split over the slots than to draw one by one."""
    return hits > _HITS_PER_SLOT * slots + _HITS_PER_LEVEL * slots.bit_length()


def split(total: int, weights: IntArray, rng: np.random.Generator) -> IntArray:
    """Multinomial counts of ``total`` draws on slots of the given integer weights."""
    depth = (weights.size - 1).bit_length()
    leaves = np.zeros(1 << depth, dtype=np.int64)
    leaves[: weights.size] = weights
    levels = [leaves]
    while levels[-1].size > 1:
        levels.append(levels[-1][0::2] + levels[-1][1::2])
    counts = np.array([total], dtype=np.int64)
    for parents, children in zip(levels[:0:-1], levels[-2::-1], strict=True):
        left = _binomial(counts, children[0::2] / np.maximum(parents, 1), rng)
        halves = np.empty(children.size, dtype=np.int64)
        halves[0::2], halves[1::2] = left, counts - left
        counts = halves
    return counts[: weights.size]


def _binomial(trials: IntArray, chance: NDArray[np.float64], rng: np.random.Generator) -> IntArray:
    """Binomial numbers; more than ``LARGEST_TRIALS`` trials are made in several goes."""
    goes, rest = np.divmod(trials, LARGEST_TRIALS)
    successes = rng.binomial(rest, chance)
    for place in goes.nonzero()[0]:
        successes[place] += rng.binomial(LARGEST_TRIALS, chance[place], size=goes[place]).sum()
    return successes


def _counted(hits: int, slots: int, rng: np.random.Generator) -> IntArray:
    portion = max(_PORTION, slots)
    if hits <= portion:
        return np.bincount(rng.integers(slots, size=hits)).astype(np.int64, copy=False)
    counts = np.zeros(slots, dtype=np.int64)
    for done in range(0, hits, portion):
        places = rng.integers(slots, size=min(portion, hits - done))
        counts += np.bincount(places, minlength=slots)
    return counts


def _runs(places: IntArray) -> tuple[IntArray, IntArray]:
    """Sort in place; return the distinct places, and where the run of each begins and all end."""
    places.sort()
    changes = np.empty(places.size + 1, dtype=np.bool_)
    changes[0] = changes[-1] = True
    np.not_equal(places[1:], places[:-1], out=changes[1:-1])
    edges = changes.nonzero()[0]
    return places[edges[:-1]], edges


# How batches are drawn: cost follows the batch, never n.
#
# A multistage draw is made from its last stage backwards. The m draws of the last stage fall on the
# slots of the stage before it; only the slots that were hit need to be filled, and each of them is
# filled by one draw of that stage. So an unused slot costs nothing, and a batch of m draws
# costs O(min(m, slots)) however large n and the stages in between are.


#: Most distinct entries that one draw may have to hold.
LARGEST_BATCH = 1 << 31


def draw_poisson(n: int, rate: float, rng: np.random.Generator) -> Batch:
    """Take every record independently with chance ``rate``.

    A binomial size and then that many records without replacement have the same law. For n beyond
    the reach of the binomial sampler, records are hit Poisson(-n log(1 - rate)) times in all, with
    replacement: the hits on one record are then independent of those on any other, and the chance
    of at least one is ``rate``.
    """
    if n * rate > LARGEST_BATCH:
        allowed = f"must be at most 2**31 / {{n}} = {LARGEST_BATCH / n:g} for a batch to be held"
        raise InvalidParameter.refusing("rate", allowed, repr(rate), mentions=("n",))
    if n <= LARGEST_TRIALS:
        indices = choose(n, int(rng.binomial(n, rate)), rng)
    else:
        indices, _ = allocate(int(rng.poisson(-n * math.log1p(-rate))), n, rng)
    return drawn(indices, np.ones(indices.size, dtype=np.int64))


def draw_stages(n: int, stages: Sequence[Stage], rng: np.random.Generator) -> Batch:
    """Draw reduced stages: at most one ``wor`` in front, any number of ``wr`` after it."""
    last = len(stages) - 1
    slots = stages[last - 1].size if last else n
    check_held(stages[last].size, slots)
    if stages[last].kind == "wor":
        indices = choose(n, stages[last].size, rng)
        return drawn(indices, np.ones(indices.size, dtype=np.int64))
    indices, counts = allocate(stages[last].size, slots, rng)
    for place in range(last - 1, -1, -1):
        if stages[place].kind == "wor":
            # The counts are exchangeable over the slots, so any order of the records will do.
            return drawn(choose(n, counts.size, rng), counts)
        indices, counts = gather(counts, stages[place - 1].size if place else n, rng)
    return drawn(indices, counts)


def choose(n: int, size: int, rng: np.random.Generator) -> IntArray:
    """Return ``size`` distinct numbers below ``n``, in an order that carries no meaning."""
    return rng.choice(n, size, replace=False, shuffle=False).astype(np.int64, copy=False)


def check_held(draws: int, slots: int) -> None:
    """Refuse, before any work, a draw with more distinct entries than can be held."""
    if min(draws, slots) > LARGEST_BATCH:
        raise InvalidParameter(
            f"the size of a draw must be at most 2**31 = {LARGEST_BATCH} to be held "
            f"(here from {slots} entries), got {draws}"
        )


# What every scheme can do: draw, know its law, describe itself.


class Scheme(ABC):
    """A random rule that turns ``n`` records into a multiset of draws.

    Attributes
    ----------
    n : int
        Number of records, at least 1.
    fixed_size : bool
        Whether every batch has the same size, so that another record takes a missing one's place.
    leaves_empty : bool
        Whether a record that is not there leaves its place empty.

    Examples
    --------
    >>> import mustdp as md
    >>> scheme = md.must_ow(1000, 50, 10)
    >>> scheme.draw().size, round(scheme.expected_distinct, 2)
    (10, 9.15)
    """

    n: int
    fixed_size: ClassVar[bool] = True
    leaves_empty: ClassVar[bool] = False
    #: The purpose of the random numbers of a stream (``randomness/keys.py``).
    _purpose: ClassVar[int] = BATCHES

    @property
    @abstractmethod
    def name(self) -> str:
        """The scheme's name on the command line."""

    @property
    @abstractmethod
    def eta(self) -> float:
        """Chance that one given record is drawn at least once."""

    @property
    @abstractmethod
    def expected_size(self) -> float:
        """Expected number of draws, copies counted (the fixed batch size where it is fixed)."""

    @abstractmethod
    def law(self, group: int = 1, tail: float = TAIL) -> MultiplicityLaw:
        """Law of the copies of given records in one draw, with the mass that was cut.

        Parameters
        ----------
        group : int, default=1
            How many given records are counted together, from 1 to n.
        tail : float, default=1e-300
            Mass that may be cut off, from 0 to below 1.

        Returns
        -------
        MultiplicityLaw
            Probabilities of the numbers of copies.
        """

    @abstractmethod
    def draw(self, rng: np.random.Generator | None = None) -> Batch:
        """Draw one batch.

        Parameters
        ----------
        rng : numpy.random.Generator, default=None
            Where randomness comes from; None means the operating system's entropy.

        Returns
        -------
        Batch
            The records drawn, and how often each.
        """

    @abstractmethod
    def describe(self) -> dict[str, Any]:
        """Plain description, for JSON; ``scheme_from_description`` reads it back.

        Returns
        -------
        dict
            Plain values, ready for JSON.
        """

    def resized(self, n: int) -> Self:
        """The same rule for another number of records.

        Parameters
        ----------
        n : int
            Number of records, at least 1.

        Returns
        -------
        Scheme
            The rule for ``n`` records.

        Raises
        ------
        InvalidParameter
            The rule depends on the number of records, as it does where batches have a fixed size.
        """
        raise InvalidParameter(f"a scheme of fixed size is one for n = {self.n} records, not {n}")

    @property
    def expected_distinct(self) -> float:
        """Expected number of distinct records in one draw: exactly ``n * eta``."""
        return self.n * self.eta

    def multiplicity(self, group: int = 1) -> FloatArray:
        """Probabilities ``p_0, p_1, …`` of the copies of given records in one draw.

        Parameters
        ----------
        group : int, default=1
            How many given records are counted together, from 1 to n.

        Returns
        -------
        ndarray
            The probabilities, read-only.
        """
        return self.law(group).dense()

    def batches(self, seed: int | BatchKey | None = None, count: int | None = None) -> BatchStream:
        """Stream of independent batches that a seed or a key decides.

        Parameters
        ----------
        seed : int or BatchKey, default=None
            Decides the batches; None means a secret key, fresh from the operating system.
        count : int, default=None
            Number of batches; None means without end.

        Returns
        -------
        BatchStream
            The batches, in their order.
        """
        stop = None if count is None else checks.integer("count", count, 0)
        return BatchStream(self, seed, stop=stop)

    def _numbered_draws(self, generators: Substreams) -> Callable[[int], Batch]:
        """What draws the batches of a stream by their numbers."""
        return lambda number: self.draw(generators.at(number))

    def _law_arguments(self, group: int, tail: float) -> tuple[int, float]:
        return (
            checks.integer("group", group, 1, self.n),
            checks.real("tail", tail, at_least=0, below=1),
        )


# Poisson sampling: a coin of its own for every record, so that batches have random sizes.


@dataclass(frozen=True)
class Poisson(Scheme):
    """Every record is taken independently with chance ``rate``.

    The parameters are those of :func:`poisson`, which makes it.

    Examples
    --------
    >>> import mustdp as md
    >>> md.types.Poisson(1000, 0.01).expected_size
    10.0
    """

    name: ClassVar[str] = "poisson"
    fixed_size: ClassVar[bool] = False
    leaves_empty: ClassVar[bool] = True

    n: int
    rate: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "n", checks.integer("n", self.n, 1))
        object.__setattr__(self, "rate", checks.real("rate", self.rate, at_least=0, at_most=1))

    @property
    def eta(self) -> float:
        """Chance that one given record is drawn."""
        return self.rate

    @property
    def expected_size(self) -> float:
        """Expected batch size ``n * rate``; the size itself is random."""
        return self.n * self.rate

    def law(self, group: int = 1, tail: float = TAIL) -> MultiplicityLaw:
        """Law of the number of records of the group that are taken."""
        group, tail = self._law_arguments(group, tail)
        if group == 1 and 0.0 < self.rate < 1.0:
            both = frozen(np.array([1.0 - self.rate, self.rate]))
            return MultiplicityLaw(0, both, 0.0, 2.0**-53)
        return as_law(binomial(group, *self.rate.as_integer_ratio(), tail))

    def draw(self, rng: np.random.Generator | None = None) -> Batch:
        """Draw the size, then that many records without replacement: the same law, at O(batch)."""
        return draw_poisson(self.n, self.rate, generator(rng))

    def resized(self, n: int) -> Self:
        """The same chance for each of ``n`` records."""
        return replace(self, n=n)

    def describe(self) -> dict[str, Any]:
        """Plain description, for JSON."""
        return {"scheme": self.name, "n": self.n, "rate": self.rate}


@dataclass(frozen=True)
class TruncatedPoisson(Scheme):
    """Poisson sampling with a cap: of a larger batch ``cap`` records are kept, uniformly at random.

    The parameters are those of :func:`truncated_poisson`, which makes it.

    Examples
    --------
    >>> import mustdp as md
    >>> scheme = md.types.TruncatedPoisson(1000, 0.01, 20)
    >>> scheme.draw().size <= 20, round(scheme.expected_size, 2)
    (True, 10.0)
    """

    name: ClassVar[str] = "truncated-poisson"
    fixed_size: ClassVar[bool] = False
    leaves_empty: ClassVar[bool] = True

    n: int
    rate: float
    cap: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "n", checks.integer("n", self.n, 1))
        object.__setattr__(self, "rate", checks.real("rate", self.rate, at_least=0, at_most=1))
        object.__setattr__(self, "cap", checks.integer("cap", self.cap, 1))

    @property
    def poisson(self) -> Poisson:
        """The same without the cap."""
        return Poisson(self.n, self.rate)

    @cached_property
    def eta(self) -> float:
        """Chance that one given record is drawn and kept."""
        return self.expected_size / self.n

    @cached_property
    def expected_size(self) -> float:
        """Expected batch size, capped."""
        sizes = self._drawn(self.n)
        return float(sizes.probabilities @ np.minimum(sizes.values, self.cap))

    def law(self, group: int = 1, tail: float = TAIL) -> MultiplicityLaw:
        """Law of the records of the group that are drawn and kept.

        A batch of a given size is a uniform subset, so the law is a mixture of hypergeometric ones.
        """
        group, tail = self._law_arguments(group, tail)
        if self.cap >= self.n:
            return self.poisson.law(group, tail)
        if group == 1:
            share, error = self.eta, self._drawn(self.n).relative_error + 1e-12
            return MultiplicityLaw(0, frozen(np.array([1.0 - share, share])), 0.0, error)
        sizes = self._drawn(self.n, tail / 2.0)
        capped = np.minimum(sizes.values, self.cap)
        chances = np.bincount(capped - capped[0], weights=sizes.probabilities)
        mixed, cut = np.zeros(group + 1), sizes.cut
        error = sizes.relative_error + (chances.size + 1) * ROUNDOFF
        for k, chance in enumerate(chances.tolist()):
            row = hypergeometric(self.n, group, int(capped[0]) + k, tail / 2.0)
            mixed[row.first : row.first + row.probabilities.size] += chance * row.probabilities
            cut, error = cut + chance * row.cut, max(error, row.relative_error)
        return MultiplicityLaw(0, frozen(mixed), cut, 2.0 * error)

    def overflow(self, group: int = 1) -> float:
        """Chance, rounded up, that the other records leave less than ``group`` places.

        Parameters
        ----------
        group : int, default=1
            How many records are at stake.

        Returns
        -------
        float
            That of a binomial number of the others above ``cap - group``.
        """
        others = self._drawn(self.n - group)
        above = others.probabilities[others.values > self.cap - group]
        error = others.relative_error + (above.size + 4) * ROUNDOFF
        return min(1.0, float(above.sum()) * (1.0 + error) + others.cut)

    def kept(self, records: int) -> float:
        """Chance, rounded up, that a record is drawn and kept, given that the others fill a batch.

        Parameters
        ----------
        records : int
            How many records there are, more than cap; of more, each is kept less often.

        Returns
        -------
        float
            The rate times the mean of cap over the number of all that would be drawn with it.
        """
        others = self._drawn(records - 1)
        crowded = others.values >= self.cap
        chances, sizes = others.probabilities[crowded], others.values[crowded]
        if not chances.size:
            return self.rate
        error = 2.0 * others.relative_error + (chances.size + 16) * ROUNDOFF
        mean = float(chances @ (self.cap / (sizes + 1.0))) / float(chances.sum())
        missed = others.cut / float(chances.sum())  # those may be of any size
        return min(self.rate, self.rate * (mean + missed) * (1.0 + error))

    def _drawn(self, records: int, tail: float = TAIL) -> Window:
        return binomial(records, *self.rate.as_integer_ratio(), tail)

    def draw(self, rng: np.random.Generator | None = None) -> Batch:
        """Draw by Poisson sampling, and keep a uniform subset of what is too large."""
        used = generator(rng)
        batch = draw_poisson(self.n, self.rate, used)
        if batch.size <= self.cap:
            return batch
        kept = np.sort(choose(batch.size, self.cap, used))
        return drawn(batch.indices[kept], batch.counts[kept])

    def resized(self, n: int) -> Self:
        """The same for fewer records; the cap is charged for up to ``n`` of them."""
        if not n <= self.n:
            raise InvalidParameter(
                "n must be at least the number of records with truncated-poisson: the chance of "
                "more than cap is charged for n of them"
            )
        return replace(self, n=n)

    def describe(self) -> dict[str, Any]:
        """Plain description, for JSON."""
        return {"scheme": self.name, "n": self.n, "rate": self.rate, "cap": self.cap}


# Draws in stages: each takes entries of what the one before has left, with or without replacement.
#
# [Z] = Zhao, Zhou & Liu, "MUltistage Sampling Technique (MUST)", arXiv 2312.13389: the schemes
# MUSTow, MUSTww, MUSTwo, MUSToo are the two-stage cases.


@dataclass(frozen=True)
class Multistage(Scheme):
    """Any number of stages, each with or without replacement; batches have a fixed size.

    The parameters are those of :func:`multistage`, which makes it.

    Examples
    --------
    >>> import mustdp as md
    >>> scheme = md.types.Multistage(1000, (("wor", 50), ("wr", 10)))
    >>> scheme == md.must_ow(1000, 50, 10), scheme.m
    (True, 10)
    """

    n: int
    stages: tuple[Stage, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "n", checks.integer("n", self.n, 1))
        if not isinstance(self.stages, tuple | list) or not self.stages:
            raise InvalidParameter(
                "stages must be a non-empty list of (kind, size) pairs such as ('wor', 118), "
                f"got {self.stages!r}"
            )
        stages = tuple(read_stage(given, k) for k, given in enumerate(self.stages, start=1))
        object.__setattr__(self, "stages", stages)
        check_stages(self.n, stages)

    @property
    def name(self) -> str:
        """``wor``, ``wr``, ``must-ow`` and so on; ``multistage`` from three stages on."""
        return name_of(tuple(stage.kind for stage in self.stages))

    @property
    def m(self) -> int:
        """Batch size: the number of draws of the last stage."""
        return self.stages[-1].size

    @property
    def expected_size(self) -> float:
        """The batch size, which is fixed."""
        return float(self.m)

    @cached_property
    def reduced(self) -> tuple[Stage, ...]:
        """The shortest list of stages with the same law; what is drawn and what is charged."""
        return reduce_stages(self.n, self.stages)

    @cached_property
    def eta(self) -> float:
        """Chance that one given record is drawn at least once."""
        first, *rest = self.reduced
        if not rest:
            if first.kind == "wor":
                return first.size / self.n
            return _at_least_once(first.size, 1, self.n)
        # Condition on the list before the last stage, which is always with replacement here.
        before = chain_law(self.n, self.reduced[:-1], 1)
        slots = self.reduced[-2].size
        return math.fsum(
            p * _at_least_once(self.m, int(i), slots)
            for i, p in zip(before.positive_values, before.positive, strict=True)
        )

    def law(self, group: int = 1, tail: float = TAIL) -> MultiplicityLaw:
        """Law of the copies of ``group`` given records: the chain of the stages' kernels."""
        return chain_law(self.n, self.reduced, *self._law_arguments(group, tail))

    def draw(self, rng: np.random.Generator | None = None) -> Batch:
        """Draw from the last stage backwards, so that only occupied slots are ever filled."""
        return draw_stages(self.n, self.reduced, generator(rng))

    def describe(self) -> dict[str, Any]:
        """Plain description, for JSON."""
        stages = [[stage.kind, stage.size] for stage in self.stages]
        return {"scheme": self.name, "n": self.n, "stages": stages}


def _at_least_once(draws: int, special: int, slots: int) -> float:
    """1 - (1 - special/slots)^draws without cancellation."""
    if special >= slots:
        return 1.0
    return -math.expm1(draws * math.log1p(-special / slots))


# Schemes: frozen descriptions of a random draw that can be drawn and be charged.
#
# Here they are made by name; ``poisson.py`` and ``multistage.py`` say what they are. [Z] = Zhao,
# Zhou & Liu, "MUltistage Sampling Technique (MUST)", arXiv 2312.13389.


def poisson(n: int, rate: float) -> Poisson:
    """Poisson sampling: each of ``n`` records independently, with probability ``rate``.

    Parameters
    ----------
    n : int
        Number of records, at least 1.
    rate : float
        Chance of every record to be in a batch, from 0 to 1.

    Returns
    -------
    Poisson
        What is drawn and charged.

    Examples
    --------
    >>> import mustdp as md
    >>> md.poisson(1000, 0.01).eta
    0.01
    """
    return Poisson(n, rate)


def truncated_poisson(n: int, rate: float, cap: int) -> TruncatedPoisson:
    """Poisson sampling with a cap: of a larger batch ``cap`` records are kept, uniformly at random.

    A record that is added to a batch that is full takes another one's place, which moves sums by 2C
    instead of C; the chance of that is charged. So n must be public and not below the number of
    records, under add_remove too.

    Parameters
    ----------
    n : int
        The most records there can be, at least 1; where a record is replaced, their number.
    rate : float
        Chance of every record to be drawn, from 0 to 1.
    cap : int
        The most records in a batch, at least 1.

    Returns
    -------
    TruncatedPoisson
        What is drawn and charged.

    References
    ----------
    Chua et al. 2024, arXiv 2411.04205; Ganesh 2025, arXiv 2508.15089. The bound that is used is
    proved in docs/derivations/one-step.md.

    Examples
    --------
    >>> import mustdp as md
    >>> noise = md.gaussian(noise_multiplier=1.0)
    >>> capped = md.subsample(md.truncated_poisson(10_000, 0.01, 150), noise)
    >>> print(f"{md.account(md.repeat(100, capped)).epsilon(1e-6).upper:.2f}")
    0.96
    """
    return TruncatedPoisson(n, rate, cap)


def wor(n: int, m: int) -> Multistage:
    """``m`` of ``n`` records without replacement.

    Parameters
    ----------
    n : int
        Number of records, at least 1.
    m : int
        Size of a batch, from 1 to n.

    Returns
    -------
    Multistage
        What is drawn and charged.

    Examples
    --------
    >>> import mustdp as md
    >>> batch = md.wor(1000, 10).draw()
    >>> batch.size, batch.distinct
    (10, 10)
    """
    return named("wor", n, m=m)


def wr(n: int, m: int) -> Multistage:
    """``m`` draws from ``n`` records with replacement.

    The parameters are those of :func:`wor`, but ``m``, copies counted, may exceed ``n``.

    Returns
    -------
    Multistage
        What is drawn and charged.

    Examples
    --------
    >>> import mustdp as md
    >>> md.wr(1000, 10).draw().size
    10
    """
    return named("wr", n, m=m)


def must_ow(n: int, b: int, m: int) -> Multistage:
    """``b`` of ``n`` without replacement, then ``m`` draws from those with replacement.

    Parameters
    ----------
    n : int
        Number of records, at least 1.
    b : int
        Size of the first of two stages, from 1 to n.
    m : int
        Size of a batch, copies counted, at least 1.

    Returns
    -------
    Multistage
        What is drawn and charged.

    Examples
    --------
    >>> import mustdp as md
    >>> md.must_ow(10000, 500, 200).describe()["stages"]
    [['wor', 500], ['wr', 200]]
    """
    return named("must-ow", n, b=b, m=m)


def must_ww(n: int, b: int, m: int) -> Multistage:
    """``b`` draws from ``n`` with replacement, then ``m`` draws from those with replacement.

    The parameters are those of :func:`must_ow`, but ``b`` may exceed ``n``.

    Returns
    -------
    Multistage
        What is drawn and charged.

    Examples
    --------
    >>> import mustdp as md
    >>> round(md.must_ww(1000, 50, 10).eta, 5)
    0.00911
    """
    return named("must-ww", n, b=b, m=m)


def must_wo(n: int, b: int, m: int) -> Multistage:
    """``b`` draws from ``n`` with replacement, then ``m`` of those without: the law of ``wr``.

    The parameters are those of :func:`must_ow`, but ``b`` may exceed ``n`` and ``m`` is at most
    ``b``.

    Returns
    -------
    Multistage
        What is drawn and charged.

    Examples
    --------
    >>> import mustdp as md
    >>> md.must_wo(1000, 50, 10).reduced == md.wr(1000, 10).reduced
    True
    """
    return named("must-wo", n, b=b, m=m)


def must_oo(n: int, b: int, m: int) -> Multistage:
    """``b`` of ``n`` without replacement, then ``m`` of those without: the law of ``wor``.

    The parameters are those of :func:`must_ow`, but ``m`` is at most ``b``.

    Returns
    -------
    Multistage
        What is drawn and charged.

    Examples
    --------
    >>> import mustdp as md
    >>> md.must_oo(1000, 50, 10).reduced == md.wor(1000, 10).reduced
    True
    """
    return named("must-oo", n, b=b, m=m)


def multistage(n: int, stages: Iterable[tuple[str, int]]) -> Multistage:
    """Any number of ``("wor", size)`` and ``("wr", size)`` stages, one after another.

    Parameters
    ----------
    n : int
        Number of records, at least 1.
    stages : iterable of (kind, size)
        The stages from first to last: each draws ``size`` entries of what the one before has left,
        without ("wor") or with ("wr") replacement.

    Returns
    -------
    Multistage
        What is drawn and charged.

    Raises
    ------
    InvalidParameter
        A stage draws more entries without replacement than there are.

    Examples
    --------
    >>> import mustdp as md
    >>> md.multistage(1000, [("wor", 100), ("wr", 50), ("wr", 10)]).name
    'multistage'
    """
    try:
        listed = tuple(stages)
    except TypeError:
        raise InvalidParameter(
            f"stages must be a list of pairs such as ('wor', 118), got {stages!r}"
        ) from None
    return Multistage(n, listed)  # type: ignore[arg-type]


def named(name: str, n: int, **sizes: int) -> Multistage:
    """The scheme of stages called ``name``, with the sizes of its stages by their names."""
    n = checks.integer("n", n, 1)
    kinds = BY_NAME[name].stages
    stages = [
        Stage(kind, checks.integer(argument, size, 1))
        for kind, (argument, size) in zip(kinds, sizes.items(), strict=True)
    ]
    check_stages(n, stages, list(sizes))
    return Multistage(n, tuple(stages))


def scheme_from_description(description: object) -> Scheme:
    """Rebuild a scheme from what :meth:`Scheme.describe` gave; anything else is refused."""
    scheme: Scheme | None = None
    if isinstance(description, dict):
        given = {key: value for key, value in description.items() if key != "scheme"}
        name = description.get("scheme")
        entry = BY_NAME.get(name) if isinstance(name, str) else None
        if set(given) == {"n", "stages"}:
            scheme = multistage(given["n"], given["stages"])
        elif entry is not None and not entry.stages and set(given) == set(entry.sizes):
            scheme = cast("Scheme", entry.build(**given))
    if scheme is None or scheme.name != description["scheme"]:  # type: ignore[index]
        raise InvalidParameter(
            f"description must be what Scheme.describe() gives, got {description!r}"
        )
    return scheme


# Schemes by name, for anyone who takes a name and sizes from a user.


def scheme_by_name(name: str, *, n: int, m: int, b: int | None = None) -> Scheme:
    """The scheme called ``name`` with batches of m (in expectation, for Poisson).

    Two-stage schemes need ``b``, the size of the first stage; the others refuse it.

    >>> scheme_by_name("must-ow", n=1000, b=500, m=400).name
    'must-ow'
    """
    one = BY_NAME[checks.choice("scheme", name, COMPARED)]
    if one.two_stages:
        if b is None:
            raise InvalidParameter(f"b must be given for {name}: the size of its first stage")
        return named(name, n, b=b, m=m)
    if b is not None:
        raise InvalidParameter(f"b must not be given for {name}, which has one stage; got {b!r}")
    if one.stages:
        return named(name, n, m=m)
    n = checks.integer("n", n, 1)
    return poisson(n, checks.integer("m", m, 1, n) / n)


# A stream of batches: decided by one key, restartable, and split over workers at will.
#
# Batch t depends on the key and on t alone (in epochs, batch t is number t % bins of epoch
# t // bins, and all batches of an epoch are drawn at once). So any batch can be had without the
# ones before it, a stream can go on where it stopped, and workers that share a stream draw, between
# them, exactly the batches that one worker alone would have drawn.
#
# A state or a key stands for the batches themselves: keep it as secret as they are. Equal batches
# need equal versions of numpy's samplers, which numpy may improve from one release to the next.


_FORMAT = "mustdp batch stream"
#: Of the stored position of a stream.
_VERSION = 1
_FIELDS = frozenset(
    {"format", "version", "seed", "position", "stride", "stop", "scheme", "checksum"}
)


class BatchStream(Iterator[Batch]):
    """Batches ``position, position + stride, …`` below ``stop`` of the stream of a key.

    Made by :meth:`Scheme.batches` or :meth:`Epoch.batches`, which start at batch 0 with stride 1.
    Threads may draw from one stream: every batch goes to one of them. Drawing moves only this
    object: a stream that was split, saved or copied and is then drawn from as well repeats batches.

    Parameters
    ----------
    scheme : Scheme or Epoch
        How batches are drawn.
    seed : int or BatchKey, default=None
        Decides the batches; None means a secret key, fresh from the operating system.
    position : int, default=0
        Number of the first batch.
    stride : int, default=1
        How many numbers further the next batch is.
    stop : int, default=None
        Only batches below this number are drawn; None means without end.

    Examples
    --------
    >>> import mustdp as md
    >>> stream = md.wor(1000, 10).batches(seed=1, count=5)
    >>> sum(1 for batch in stream)
    5
    >>> stream.remaining
    0
    """

    def __init__(
        self,
        scheme: Sampling,
        seed: int | BatchKey | None = None,
        *,
        position: int = 0,
        stride: int = 1,
        stop: int | None = None,
    ) -> None:
        if not hasattr(scheme, "_numbered_draws"):
            raise InvalidParameter(f"scheme must be a mustdp scheme, got {scheme!r}")
        self._scheme = scheme
        self._key = batch_key(seed)
        self._position = checks.integer("position", position, 0)
        self._stride = checks.integer("stride", stride, 1)
        self._stop = LARGEST_SIZE if stop is None else checks.integer("stop", stop, 0)
        self._generators = Substreams(self._key, scheme._purpose)
        self._number = scheme._numbered_draws(self._generators)
        # One generator serves all batches: two threads in it at once would mix them.
        self._lock = RLock()

    def __reduce__(self) -> tuple[Any, ...]:
        """A copy has a generator of its own; what was drawn stays here."""
        return _copied, (self._scheme, self._key, self._position, self._stride, self._stop)

    @property
    def scheme(self) -> Sampling:
        """The scheme that every batch is drawn by."""
        return self._scheme

    @property
    def key(self) -> BatchKey:
        """What decides the batches: as secret as they are."""
        return self._key

    @property
    def seed(self) -> int | None:
        """The seed; None where the key is fresh and secret."""
        return self._key.seed

    @property
    def position(self) -> int:
        """Number, in the unsplit stream, of the batch that comes next."""
        return self._position

    @property
    def remaining(self) -> int | None:
        """How many batches are still to come; None for a stream without end."""
        if self._stop == LARGEST_SIZE:
            return None
        return max(0, -(-(self._stop - self._position) // self._stride))

    def batch(self, number: int) -> Batch:
        """One batch of the unsplit stream; the position stays where it is.

        Parameters
        ----------
        number : int
            Which one, from 0 on.

        Returns
        -------
        Batch
            The same as drawing gives when it comes to this number.
        """
        number = checks.integer("number", number, 0, self._stop - 1)
        return self._draw(number)

    def _draw(self, number: int) -> Batch:
        with self._lock:
            return self._number(number)

    def __next__(self) -> Batch:
        following = self._following()
        if following is None:
            raise StopIteration
        return following[1]

    def _following(self) -> tuple[int, Batch] | None:
        """The next batch and its number, in one move; None at the end."""
        with self._lock:
            number = self._position
            if number >= self._stop:
                return None
            batch = self._draw(number)
            self._position = min(number + self._stride, LARGEST_SIZE)
            return number, batch

    def numbered(self) -> Iterator[tuple[int, Batch]]:
        """The remaining batches with their numbers in the unsplit stream.

        Yields
        ------
        (number, batch) : int, Batch
            In their order; the position moves along.
        """
        while (following := self._following()) is not None:
            yield following

    def shard(self, worker: int, of: int) -> BatchStream:
        """One worker's share of the remaining batches.

        Parameters
        ----------
        worker : int
            Which share, from 0 to ``of - 1``; it begins with number ``worker`` of the batches.
        of : int
            How many shares there are: every so-manieth batch is in this one.

        Returns
        -------
        BatchStream
            A stream of its own.
        """
        of = checks.integer("of", of, 1)
        worker = checks.integer("worker", worker, 0, of - 1)
        return BatchStream(
            self._scheme,
            self._key,
            position=min(self._position + worker * self._stride, LARGEST_SIZE),
            stride=min(self._stride * of, LARGEST_SIZE),
            stop=self._stop,
        )

    def split(self, workers: int) -> tuple[BatchStream, ...]:
        """Share the remaining batches out.

        Parameters
        ----------
        workers : int
            How many shares, from 1 to 1,000,000.

        Returns
        -------
        tuple of BatchStream
            One stream per worker, each batch in exactly one.
        """
        workers = checks.integer("workers", workers, 1, 1_000_000)
        return tuple(self.shard(worker, workers) for worker in range(workers))

    @property
    def state(self) -> dict[str, Any]:
        """All that is needed to go on from here, as plain values for JSON."""
        body = {
            "format": _FORMAT,
            "version": _VERSION,
            "seed": self._key.text,  # too wide for the numbers of most JSON readers
            "position": self._position,
            "stride": self._stride,
            "stop": None if self._stop == LARGEST_SIZE else self._stop,
            "scheme": self._scheme.describe(),
        }
        return {**body, "checksum": _checksum(body)}

    @classmethod
    def restore(cls, state: object, scheme: Sampling | None = None) -> BatchStream:
        """Go on from a :attr:`state`.

        Parameters
        ----------
        state : dict
            What :attr:`state` gave; as secret as the batches.
        scheme : Scheme or Epoch, default=None
            The scheme that the state must be of; None takes any.

        Returns
        -------
        BatchStream
            It goes on where that one was; a state that is damaged or of another scheme is refused.
        """
        if not isinstance(state, dict) or state.get("format") != _FORMAT:
            raise InvalidParameter(
                f"state must be what BatchStream.state gives, got another {type(state).__name__}"
            )
        version = state.get("version")
        if isinstance(version, bool) or version != _VERSION:
            raise InvalidParameter(f"version of the state must be {_VERSION}, got {version!r}")
        if set(state) != _FIELDS:
            odd = ", ".join(sorted(map(str, _FIELDS ^ set(state))))
            raise InvalidParameter(
                f"state must hold exactly {', '.join(sorted(_FIELDS))}, got a difference in {odd}"
            )
        body = {key: value for key, value in state.items() if key != "checksum"}
        if state["checksum"] != _checksum(body):
            raise InvalidParameter(
                "state must be undamaged: its checksum must be that of its contents, "
                f"got {state['checksum']!r}"
            )
        described = _described(state["scheme"])
        if scheme is not None and described != scheme:
            raise InvalidParameter(f"state must be that of {scheme!r}, got one of {described!r}")
        return cls(
            described,
            BatchKey(state["seed"]),
            position=state["position"],
            stride=state["stride"],
            stop=state["stop"],
        )


def _copied(scheme: Sampling, key: BatchKey, position: int, stride: int, stop: int) -> BatchStream:
    return BatchStream(scheme, key, position=position, stride=stride, stop=stop)


def _described(description: object) -> Sampling:
    from mustdp.sampling.epochs import epoch_from_description  # epochs are made of schemes

    if isinstance(description, dict) and description.get("scheme") in EPOCH_NAMES:
        return epoch_from_description(description)
    return scheme_from_description(description)


def _checksum(body: dict[str, Any]) -> str:
    return digest(body, "state")[:16]


class BatchesInTurn:
    """Batches of groups that take turns: batch t is drawn from group t modulo their number alone.

    Every record is in one group for good, picked at random and independently of all others, so that
    a record more, less or replaced leaves the groups of others as they are. ``scheme`` draws from
    any one group.
    """

    def __init__(self, scheme: Poisson, groups: int, key: BatchKey, stop: int) -> None:
        self._batches, self._groups = BatchStream(scheme, key, stop=stop), groups
        self._group_of = Substreams(key, GROUPS).at(0).integers(groups, size=scheme.n)

    @property
    def key(self) -> BatchKey:
        """What decides the batches: as secret as they are."""
        return self._batches.key

    def batch(self, number: int) -> Batch:
        """Batch ``number``: what is drawn from all records, of which those of the group stay."""
        found = self._batches.batch(number)
        stay = self._group_of[found.indices] == number % self._groups
        return drawn(found.indices[stay], found.counts[stay])
