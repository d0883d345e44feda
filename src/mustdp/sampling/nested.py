"""Nested designs: subsets that are drawn once and used again by several subsets drawn from them.

[Z] = Zhao, Zhou & Liu, "MUltistage Sampling Technique (MUST)", arXiv 2312.13389, Figures 1 and 2:
s subsets of the records at stage I, and from each of these r subsets at stage II (r = 1 is s
independent two-stage draws; r > 1 is the bag of little bootstraps). Here for any number of stages.

Releases that share a stage-I subset are not independent draws and must not be charged as such; a
design states how often each stage is repeated, so that it can be charged as what it is.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from mustdp.errors import InvalidParameter
from mustdp.numerics import checks
from mustdp.randomness.keys import NESTED, BatchKey, Substreams, batch_key
from mustdp.sampling.batch import Batch, drawn
from mustdp.sampling.catalogue import KINDS, Kind
from mustdp.sampling.draws import (
    check_held,
    choose,
    draw_stages,
    occupied,
    prefers_splitting,
    split,
    throw,
)
from mustdp.sampling.law import Stage, check_stages
from mustdp.sampling.schemes import Multistage

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
        hit, counts = throw(stage.size, slots, rng)
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
