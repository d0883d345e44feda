"""Several queries in one release: their coordinates side by side, one budget for all."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, pairwise

import numpy as np

from mustdp.errors import InvalidParameter
from mustdp.numerics import checks
from mustdp.numerics.arrays import FloatArray, IntArray
from mustdp.resampling.statistics.query import Averaged, Block, Halves, LinearQuery, Query
from mustdp.resampling.statistics.reading import Reading
from mustdp.resampling.statistics.sharing import enlarged, shares


@dataclass(frozen=True)
class Joint(Query):
    """Queries that are answered together on every subset.

    ``picks[i]`` are the columns of the value matrix that query i reads, in its own order.
    ``shares`` are proportional to w_i, normalised to ``sum w_i^2 = 1``; equal ones for None.
    ``names``, if given, are put before the labels of each query.

    *Reach.* Every query satisfies (*) of ``sharing.py`` by itself: with c_b what swapping one
    copy does to block b, ``sum over its blocks of (c_b / (2 reach_b))^2 <= 1``. All reaches of
    query i are divided by w_i, which multiplies its sum by w_i^2. Over all queries the sum is at
    most ``sum_i w_i^2 = 1``: noise ``z * reach`` on every block gives noise multiplier z for the
    whole vector. The same holds for one copy more or less on Poisson subsets, without the 2.

    All queries must be bound to the same subsets: their size, and fixed or Poisson.
    """

    queries: tuple[Query, ...]
    picks: tuple[tuple[int, ...], ...]
    shares: tuple[float, ...] | None = None
    names: tuple[str, ...] | None = None
    blocks: tuple[Block, ...] = field(init=False)
    labels: tuple[str, ...] = field(init=False)
    _readers: tuple[Query, ...] = field(init=False, repr=False, compare=False)
    _columns: tuple[slice | list[int], ...] = field(init=False, repr=False, compare=False)
    _parts: tuple[slice, ...] = field(init=False, repr=False, compare=False)
    _paired: tuple[bool, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        queries = tuple(self.queries)
        if not queries or not all(isinstance(query, Query) for query in queries):
            raise InvalidParameter(f"queries must be a non-empty list of queries, got {queries!r}")
        picks = _positions(self.picks, len(queries))
        found = shares("shares", self.shares, len(queries))
        names = None if self.names is None else tuple(self.names)
        if names is not None and len(names) != len(queries):
            raise InvalidParameter(f"names must have {len(queries)} entries, got {len(names)}")
        before = [""] * len(queries) if names is None else [f"{name} " for name in names]
        readers = tuple(query.reader for query in queries)
        setting = {
            "queries": queries,
            "picks": picks,
            "shares": found,
            "names": names,
            "blocks": tuple(
                enlarged(replace(one, label=first + one.label), share)
                for query, share, first in zip(queries, found, before, strict=True)
                for one in query.blocks
            ),
            "labels": tuple(
                first + label
                for query, first in zip(queries, before, strict=True)
                for label in query.labels
            ),
            "_readers": readers,
            "_columns": tuple(_selection(pick) for pick in picks),
            "_parts": _runs(query.width for query in queries),
            "_paired": tuple(flag for query in readers for flag in query.paired),
        }
        for name, value in setting.items():
            object.__setattr__(self, name, value)

    @property
    def paired(self) -> tuple[bool, ...]:
        """The flags of the queries, side by side."""
        return self._paired

    @property
    def linear(self) -> bool:
        """Whether the totals of all queries are sums over copies of records."""
        return all(isinstance(query, LinearQuery) for query in self.queries)

    def apart(self, values: FloatArray) -> Iterator[tuple[Query, FloatArray]]:
        """Every query with the columns that it reads."""
        for query, columns in zip(self.queries, self._columns, strict=True):
            yield query, values[:, columns]

    def total(self, values: FloatArray, counts: IntArray, halves: Halves = None) -> FloatArray:
        """The totals of the queries, side by side."""
        return np.concatenate(
            [query.total(own, counts, halves) for query, own in self.apart(values)]
        )

    @property
    def halved(self) -> bool:
        """Whether any query is."""
        return any(query.halved for query in self.queries)

    def estimate(self, vectors: FloatArray) -> FloatArray:
        """The estimates of the queries, side by side."""
        return np.concatenate([query.estimate(own) for query, own in self._cut(vectors)], axis=-1)

    def smooth(self, vectors: FloatArray) -> FloatArray:
        """Of the queries, side by side."""
        return np.concatenate([query.smooth(own) for query, own in self._cut(vectors)], axis=-1)

    def _cut(self, vectors: FloatArray) -> Iterator[tuple[Query, FloatArray]]:
        """Every query with its own coordinates of released vectors."""
        for query, part in zip(self._readers, self._parts, strict=True):
            yield query, vectors[..., part]

    def behind(self, place: int) -> tuple[Query, slice, int]:
        """The query that an estimate belongs to, its coordinates, and the estimate's place."""
        estimates = _runs(len(query.labels) for query in self.queries)
        for query, part, own in zip(self._readers, self._parts, estimates, strict=True):
            if place < own.stop:
                found, inside, at = query.behind(place - own.start)
                return found, slice(part.start + inside.start, part.start + inside.stop), at
        raise InvalidParameter(f"place must be below {len(self.labels)}, got {place!r}")

    def known(self, at: Averaged, level: float) -> tuple[Reading | None, ...]:
        """Of the queries, side by side."""
        return tuple(
            reading
            for query, part in zip(self._readers, self._parts, strict=True)
            for reading in query.known(at.part(part), level)
        )

    def cautions(self, at: Averaged, grouped: FloatArray) -> tuple[str, ...]:
        """The cautions of all queries, named where the queries are."""
        names = self.names or ("",) * len(self.queries)
        return tuple(
            f"{name} {caution}".strip()
            for query, part, name in zip(self.queries, self._parts, names, strict=True)
            for caution in query.cautions(at.part(part), grouped[:, part])
        )


def _runs(lengths: Iterable[int]) -> tuple[slice, ...]:
    """Places of these numbers, one run after the other."""
    return tuple(slice(*ends) for ends in pairwise(accumulate(lengths, initial=0)))


def _positions(picks: Sequence[Sequence[int]], count: int) -> tuple[tuple[int, ...], ...]:
    found = tuple(tuple(checks.integer("picks", one, 0) for one in pick) for pick in picks)
    if len(found) != count or not all(found):
        raise InvalidParameter(
            f"picks must have one non-empty list of columns for each of the {count} queries, "
            f"got {picks!r}"
        )
    return found


def _selection(pick: tuple[int, ...]) -> slice | list[int]:
    """A slice where the columns are neighbours in order (no copy), else the list of them."""
    if pick == tuple(range(pick[0], pick[0] + len(pick))):
        return slice(pick[0], pick[0] + len(pick))
    return list(pick)
