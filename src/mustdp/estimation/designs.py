"""Resampling designs: which subsets are drawn, how often, and which of them share a first stage.

A design is ``subsets`` independent draws of a scheme, or, with ``reuse`` above one, ``subsets``
first stages from each of which ``reuse`` second stages are drawn. One object draws the subsets and
states the plan that is charged for them, so the two cannot differ. It also knows how much a mean
varies from one of its subsets to the next, which is what inference has to undo.

Write c_i for the copies of record i in a subset of m entries. The c_i are exchangeable with a
fixed sum, so for any values x_1 .. x_n with sample variance S^2 (divisor n - 1)

    Var( sum_i c_i x_i / m ) = S^2 n Var(c_1) / m^2,

and the variance of c_1 is that of the multiplicity law. For Poisson subsets the same holds for
ratio estimates, to first order. Where the first stage (b entries, copies k_i) is kept, this splits
into a part between first stages, S^2 n Var(k_1) / b^2, and a part within, the formula above for m
draws from b entries, times the expected sample variance of those entries. Two positions of a
subset hold the same record with chance n E[c_1 (c_1 - 1)] / (m (m - 1)); an average over pairs of
positions, such as a sample variance, is too small by that factor.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from mustdp.accounting.plan import Plan, repeat, subsample
from mustdp.errors import InvalidParameter, NotCovered
from mustdp.mechanisms.mechanism import Mechanism
from mustdp.numerics import checks
from mustdp.randomness.keys import NESTED, BatchKey, Substreams, batch_key
from mustdp.sampling.catalogue import KINDS, Kind
from mustdp.sampling.schemes import (
    Batch,
    BatchStream,
    Multistage,
    Poisson,
    Scheme,
    Stage,
    allocate,
    check_held,
    check_stages,
    choose,
    draw_stages,
    drawn,
    must_ow,
    must_ww,
    occupied,
    prefers_splitting,
    split,
)

# Nested designs: subsets that are drawn once and used again by several subsets drawn from them.
#
# [Z] = Zhao, Zhou & Liu, "MUltistage Sampling Technique (MUST)", arXiv 2312.13389, Figures 1 and
# 2: s subsets of the records at stage I, and from each of these r subsets at stage II (r = 1 is s
# independent two-stage draws; r > 1 is the bag of little bootstraps). Here for any number of
# stages.
#
# Releases that share a stage-I subset are not independent draws and must not be charged as such;
# a design states how often each stage is repeated, so that it can be charged as what it is.

Path = tuple[int, ...]

#: Paths are numbered by 32-bit words in the derivation of their generators.
_MOST_REPEATS = 2**32


class Level(NamedTuple):
    """From every subset of the level above, ``repeats`` subsets of ``size`` entries."""

    repeats: int
    kind: Kind
    size: int


@dataclass(frozen=True)
class NestedDesign:
    """Subsets of subsets: from the records down to the subsets that something is released about.

    Parameters
    ----------
    n : int
        Number of records, at least 1.
    levels : sequence of (repeats, kind, size)
        From every subset of the level above, ``repeats`` subsets of ``size`` entries, drawn without
        ("wor") or with ("wr") replacement.

    Examples
    --------
    >>> design = NestedDesign(1000, ((2, "wor", 50), (3, "wr", 40)))
    >>> design.releases
    6
    >>> [path for path, batch in design.draws(seed=1)]
    [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2)]
    """

    n: int
    levels: tuple[Level, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "n", checks.integer("n", self.n, 1))
        if not isinstance(self.levels, tuple | list) or not self.levels:
            raise InvalidParameter(
                "levels must be a non-empty list of (repeats, kind, size) such as "
                f"((20, 'wor', 118), (50, 'wr', 200)), got {self.levels!r}"
            )
        levels = tuple(_read_level(given, k) for k, given in enumerate(self.levels, start=1))
        object.__setattr__(self, "levels", levels)
        check_stages(self.n, self._stages, [f"size of level {k + 1}" for k in range(self.depth)])

    @property
    def depth(self) -> int:
        """Number of levels."""
        return len(self.levels)

    @property
    def releases(self) -> int:
        """Number of subsets on the last level, one result each: the product of the repeats."""
        return math.prod(level.repeats for level in self.levels)

    @property
    def scheme(self) -> Multistage:
        """The scheme of one path alone, without the reuse."""
        return Multistage(self.n, self._stages)

    def describe(self) -> dict[str, Any]:
        """Plain description, for JSON: each level with its subsets and their expected content.

        Returns
        -------
        dict
            Plain values, ready for JSON.
        """
        levels, subsets = [], 1
        for k, level in enumerate(self.levels):
            subsets *= level.repeats
            scheme = Multistage(self.n, self._stages[: k + 1])
            levels.append(
                {
                    **level._asdict(),
                    "subsets": subsets,
                    "expected_distinct": scheme.expected_distinct,
                }
            )
        return {"design": "nested", "n": self.n, "levels": levels, "releases": self.releases}

    def paths(self, worker: int = 0, workers: int = 1) -> Iterator[Path]:
        """Paths of a worker's share of the releases, a run of neighbours in path order.

        Parameters
        ----------
        worker : int, default=0
            Which share, from 0 to ``workers - 1``.
        workers : int, default=1
            How many shares there are.

        Returns
        -------
        iterator of tuple of int
            One path for every release, with a number for each level.
        """
        workers = checks.integer("workers", workers, 1)
        worker = checks.integer("worker", worker, 0, workers - 1)
        ranks = range(self.releases * worker // workers, self.releases * (worker + 1) // workers)
        return map(self._path, ranks)

    def draws(
        self, seed: int | BatchKey | None = None, *, worker: int = 0, workers: int = 1
    ) -> Iterator[tuple[Path, Batch]]:
        """Draw the subset of every release, or of one worker's share of them.

        The batch of a path depends on the seed and the path alone, whatever the share.

        Parameters
        ----------
        seed : int or BatchKey, default=None
            Decides the batches; None means a secret key, fresh from the operating system. Workers
            that share the releases need the same one.
        worker : int, default=0
            Which share, from 0 to ``workers - 1``.
        workers : int, default=1
            How many shares there are.

        Yields
        ------
        (path, batch) : tuple of int, Batch
            In path order.
        """
        return self._walk(batch_key(seed), self.paths(worker, workers))

    def between(self, seed: int | BatchKey, start: int, stop: int) -> Iterator[tuple[int, Batch]]:
        """Draw the subsets of some releases, counted in path order.

        The same batches as :meth:`draws` gives for this seed.

        Parameters
        ----------
        seed : int or BatchKey
            Decides the batches.
        start : int
            The first release, from 0 on.
        stop : int
            The one behind the last, at most ``releases``.

        Yields
        ------
        (rank, batch) : int, Batch
            For the ranks ``start`` to ``stop - 1``.
        """
        start = checks.integer("start", start, 0, self.releases)
        stop = checks.integer("stop", stop, start, self.releases)
        ranks = range(start, stop)
        walk = self._walk(batch_key(seed), map(self._path, ranks))
        return ((rank, batch) for rank, (_, batch) in zip(ranks, walk, strict=True))

    def subset(self, path: Sequence[int], seed: int | BatchKey) -> Batch:
        """Draw the subset at a path.

        Parameters
        ----------
        path : sequence of int
            A number for each level; fewer name a subset of an inner level.
        seed : int or BatchKey
            The seed or key that :meth:`draws` was given.

        Returns
        -------
        Batch
            The same as :meth:`draws` gives.
        """
        if not isinstance(path, tuple | list) or not 1 <= len(path) <= self.depth:
            raise InvalidParameter(f"path must hold 1 to {self.depth} numbers, got {path!r}")
        checked = tuple(
            checks.integer(f"number {k} of path", number, 0, level.repeats - 1)
            for k, (number, level) in enumerate(zip(path, self.levels, strict=False), start=1)
        )
        if seed is None:
            raise InvalidParameter(
                "seed must be an integer or key that draws() was given, got None"
            )
        return next(self._walk(batch_key(seed), iter([checked])))[1]

    @cached_property
    def _stages(self) -> tuple[Stage, ...]:
        return tuple(Stage(level.kind, level.size) for level in self.levels)

    def _path(self, rank: int) -> Path:
        numbers = []
        for level in reversed(self.levels):
            rank, number = divmod(rank, level.repeats)
            numbers.append(number)
        return tuple(reversed(numbers))

    def _walk(self, key: BatchKey, paths: Iterator[Path]) -> Iterator[tuple[Path, Batch]]:
        """Draw along the paths; a subset is drawn once as long as paths keep passing through it."""
        previous: Path = ()
        subsets: list[Batch] = []
        generators: list[Substreams] = []
        for path in paths:
            shared = 0
            while shared < len(previous) and previous[shared] == path[shared]:
                shared += 1
            del subsets[shared:], generators[shared + 1 :]
            for k in range(shared, len(path)):
                if k == len(generators):
                    generators.append(Substreams(key, NESTED, path[:k]))
                rng, stage = generators[k].at(path[k]), self._stages[k]
                subsets.append(
                    _draw_from(subsets[-1], stage, rng) if k else draw_stages(self.n, [stage], rng)
                )
            previous = path
            yield path, subsets[-1]


def _draw_from(parent: Batch, stage: Stage, rng: np.random.Generator) -> Batch:
    """Draw one stage from the entries of ``parent``, copies counted as entries of their own."""
    entries, slots = parent.size, parent.distinct
    check_held(stage.size, entries if stage.kind == "wor" else slots)
    if stage.kind == "wr" and entries == slots:
        hit, counts = allocate(stage.size, slots, rng)
    elif stage.kind == "wr" and prefers_splitting(stage.size, slots):
        hit, counts = occupied(split(stage.size, parent.counts, rng))
    else:
        if stage.kind == "wr":
            places = rng.integers(entries, size=stage.size)
        else:
            places = choose(entries, stage.size, rng)
        if entries > slots:
            places = np.searchsorted(np.cumsum(parent.counts), places, side="right")
        hit, counts = occupied(np.bincount(places).astype(np.int64, copy=False))
    return drawn(parent.indices[hit], counts)


def _read_level(given: object, number: int) -> Level:
    if not (isinstance(given, tuple | list) and len(given) == 3):
        raise InvalidParameter(
            f"level {number} must be (repeats, kind, size) such as (20, 'wor', 118), got {given!r}"
        )
    repeats, kind, size = given
    return Level(
        checks.integer(f"repeats of level {number}", repeats, 1, _MOST_REPEATS),
        checks.choice(f"kind of level {number}", kind, KINDS),
        checks.integer(f"size of level {number}", size, 1),
    )


#: More replicates than this are refused: they would have to be held in memory.
MOST_REPLICATES = 10**8
#: With fewer records expected in a subset, nothing that is divided by their number means anything.
_SMALLEST_SUBSET = 1e-9


@dataclass(frozen=True)
class Design:
    """Independent draws of a scheme, or several second stages from each of several first ones.

    Parameters
    ----------
    scheme : Scheme
        How batches are drawn.
    subsets : int
        Number of independent draws, or of first stages.
    reuse : int, default=1
        Number of second stages that are drawn from each first one; above 1 for a scheme of two
        stages.

    Raises
    ------
    InvalidParameter
        ``reuse`` is above 1 for a scheme that has not two stages, or too much is asked for.

    Examples
    --------
    >>> import mustdp as md
    >>> design = Design(md.must_ow(n=1000, b=50, m=40), subsets=2, reuse=3)
    >>> [(rank, batch.size) for rank, batch in design.draws(1, 0, design.releases)]
    [(0, 40), (1, 40), (2, 40), (3, 40), (4, 40), (5, 40)]
    """

    scheme: Scheme
    subsets: int
    reuse: int = 1

    def __post_init__(self) -> None:
        if not isinstance(self.scheme, Scheme):
            raise InvalidParameter(f"scheme must be a sampling scheme, got {self.scheme!r}")
        if not isinstance(self.scheme, Multistage | Poisson):
            raise NotCovered(f"{self.scheme.name} is not covered by bootstraps: use poisson")
        if not self.scheme.expected_size > _SMALLEST_SUBSET:
            allowed = f"must draw something: more than {_SMALLEST_SUBSET:g} records on average"
            raise InvalidParameter.refusing("scheme", allowed, repr(self.scheme))
        subsets = checks.integer("subsets", self.subsets, 1, MOST_REPLICATES)
        reuse = checks.integer("reuse", self.reuse, 1, MOST_REPLICATES // subsets)
        if reuse > 1 and len(self._stages) != 2:
            raise InvalidParameter.refusing(
                "reuse",
                "draws several second stages from one first stage and so needs a scheme of "
                "two stages",
                f"{reuse} with {self.scheme!r}",
            )
        object.__setattr__(self, "subsets", subsets)
        object.__setattr__(self, "reuse", reuse)

    @property
    def n(self) -> int:
        """Number of records."""
        return self.scheme.n

    @property
    def size(self) -> float:
        """Entries of one released subset, copies counted (expected ones for Poisson)."""
        return self.scheme.expected_size

    @property
    def poisson(self) -> bool:
        """Whether the size of a subset is random."""
        return isinstance(self.scheme, Poisson)

    @property
    def groups(self) -> int:
        """Number of independent first stages; the releases of one are neighbours in rank."""
        return self.subsets

    @property
    def releases(self) -> int:
        """Number of subsets that something is released about."""
        return self.subsets * self.reuse

    def plan(self, mechanism: Mechanism) -> Plan:
        """What the releases come down to.

        Parameters
        ----------
        mechanism : Mechanism
            The noise that each of them goes through.

        Returns
        -------
        Plan
            What is charged.
        """
        if self.reuse == 1:
            return repeat(self.subsets, subsample(self.scheme, mechanism))
        inner = subsample(self._second, mechanism)
        return repeat(self.subsets, subsample(self._first, repeat(self.reuse, inner)))

    def draws(self, seed: int | BatchKey, start: int, stop: int) -> Iterator[tuple[int, Batch]]:
        """Draw the subsets of some releases.

        A batch depends on the seed and its rank alone.

        Parameters
        ----------
        seed : int or BatchKey
            Decides the batches.
        start, stop : int
            The first release, from 0 on, and the one behind the last.

        Yields
        ------
        (rank, batch) : int, Batch
            For the ranks ``start`` to ``stop - 1``.
        """
        start = checks.integer("start", start, 0, self.releases)
        stop = checks.integer("stop", stop, start, self.releases)
        if self.reuse == 1:
            return BatchStream(self.scheme, seed, position=start, stop=stop).numbered()
        return self._nested.between(seed, start, stop)

    @cached_property
    def between(self) -> float:
        """Variance of a mean from one first stage to the next, in units of S^2."""
        return _spread(self.scheme if self.reuse == 1 else self._first)

    @cached_property
    def within(self) -> float:
        """Variance of a mean among second stages of one first stage, in units of S^2."""
        if self.reuse == 1:
            return 0.0
        return _spread(self._second) * (1.0 - repeated_pairs(self._first))

    @cached_property
    def repeated_pairs(self) -> float:
        """Chance that two positions of a released subset hold the same record."""
        return repeated_pairs(self.scheme)

    def describe(self) -> dict[str, Any]:
        """Plain description, for JSON.

        Returns
        -------
        dict
            Plain values, ready for JSON.
        """
        return {**self.scheme.describe(), "subsets": self.subsets, "reuse": self.reuse}

    @property
    def _stages(self) -> tuple[Stage, ...]:
        return self.scheme.stages if isinstance(self.scheme, Multistage) else ()

    @cached_property
    def _first(self) -> Multistage:
        return Multistage(self.n, self._stages[:1])

    @cached_property
    def _second(self) -> Multistage:
        return Multistage(self._stages[0].size, self._stages[1:])

    @cached_property
    def _nested(self) -> NestedDesign:
        first, second = self._stages
        levels = (
            Level(self.subsets, first.kind, first.size),
            Level(self.reuse, second.kind, second.size),
        )
        return NestedDesign(self.n, levels)


def double_bootstrap(n: int, *, b: int, m: int, subsets: int, reuse: int) -> Design:
    """Draw b of n with replacement, and from each such sample ``reuse`` times m of its b entries.

    The classical double bootstrap is b = m = n.

    Parameters
    ----------
    n : int
        Number of records, at least 1.
    b : int
        Size of the first of two stages, at least 1.
    m : int
        Size of a released subset, copies counted.
    subsets : int
        Number of first stages.
    reuse : int
        Number of second stages that are drawn from each first one.

    Returns
    -------
    Design
        What is drawn and charged.

    Examples
    --------
    >>> double_bootstrap(1000, b=200, m=100, subsets=20, reuse=5).releases
    100
    """
    return Design(must_ww(n, b, m), subsets, reuse)


def bag_of_little_bootstraps(
    n: int, *, b: int, subsets: int, reuse: int, m: int | None = None
) -> Design:
    """Draw b of n without replacement, and from each such subset ``reuse`` times n of its entries.

    Kleiner, Talwalkar, Sarkar & Jordan (2014), "A scalable bootstrap for massive data", with s
    ``subsets`` and r ``reuse``. The n draws are counts on b records, so that a replicate costs b.

    Parameters
    ----------
    n : int
        Number of records, at least 1.
    b : int
        Size of the first of two stages, from 1 to n.
    subsets : int
        Number of first stages.
    reuse : int
        Number of second stages that are drawn from each first one.
    m : int, default=None
        Size of a released subset, copies counted; None means n.

    Returns
    -------
    Design
        What is drawn and charged.

    Examples
    --------
    >>> bag_of_little_bootstraps(1000, b=200, subsets=20, reuse=5).releases
    100
    """
    return Design(must_ow(n, b, n if m is None else m), subsets, reuse)


def repeated_pairs(scheme: Scheme) -> float:
    """Chance that two different positions of a draw hold the same record; 0 for Poisson."""
    m = scheme.expected_size
    if isinstance(scheme, Poisson) or m < 2:
        return 0.0
    law = scheme.law()
    pairs = float(law.positive @ (law.positive_values * (law.positive_values - 1.0)))
    return min(1.0, scheme.n * pairs / (m * (m - 1.0)))


def _spread(scheme: Scheme) -> float:
    """Variance of a mean over draws of the scheme, in units of S^2: n Var(c) / m^2."""
    law, m, n = scheme.law(), scheme.expected_size, scheme.n
    mean = m / n
    varied = float(law.positive @ (law.positive_values - mean) ** 2) + law.zero * mean**2
    return n * varied / m**2
