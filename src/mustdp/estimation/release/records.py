"""Records in pieces: numbers clipped to their ranges, categories numbered, groups as slots.

NaN stands for a missing number that is dropped from every part that needs it. A missing category
or group is one of the others.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mustdp.data.columns import (
    STANDARD_INPUT,
    Category,
    Day,
    Missing,
    Number,
    Reading,
    Wanted,
    as_reading,
)
from mustdp.data.frames import as_frame
from mustdp.data.opening import Records, open_records
from mustdp.errors import InvalidParameter
from mustdp.estimation.release.parts import Piece
from mustdp.estimation.release.schema import PublicSchema
from mustdp.numerics.arrays import FloatArray

#: Rows that are worked on at a time.
_ROWS = 2**16

#: What helps against missing numbers of clusters: nothing that is said about missing values.
_IN_A_CLUSTER = "every record needs the number of a cluster, one of its own where it is alone"


@dataclass(frozen=True, eq=False)
class Table:
    """The columns of the schema that are used, and that of groups; ``places`` is where they are."""

    schema: PublicSchema
    records: Records
    places: Mapping[str, int]
    weights: str | None = None
    cluster: str | None = None

    def pieces(self) -> Iterator[Piece]:
        """The records, some at a time; all at once where they come in clusters."""
        if self.cluster is None:
            yield from self._parts()
            return
        blocks = list(self.records.blocks())
        if blocks:
            numbers = np.concatenate([one.values[:, self.places[self.cluster]] for one in blocks])
            yield clustered(list(self._parts()), numbers, self.schema)

    def _parts(self) -> Iterator[Piece]:
        for block in self.records.blocks():
            for start in range(0, len(block), _ROWS):
                rows = slice(start, start + _ROWS)
                given = np.where(block.missing[rows], np.nan, block.values[rows])
                slots = np.zeros(len(given), dtype=np.int64)
                if self.schema.by is not None:
                    slots = given[:, self.places[self.schema.by]].astype(np.int64)
                raw = self._raw(given)
                yield Piece(self._clipped(raw), slots, self._shares(given), raw)

    def _shares(self, given: FloatArray) -> FloatArray | None:
        """Weights over the largest one, cut to [0, 1]; none is a record that is dropped."""
        if self.weights is None or self.schema.largest_weight is None:
            return None
        own = np.nan_to_num(given[:, self.places[self.weights]], nan=0.0)
        return np.clip(own / self.schema.largest_weight, 0.0, 1.0)

    def _raw(self, given: FloatArray) -> FloatArray:
        """The columns of the schema; nothing in those that nobody asks for."""
        values = np.full((len(given), len(self.schema.columns)), np.nan)
        for k, column in enumerate(self.schema.columns):
            if column.name in self.places:
                values[:, k] = given[:, self.places[column.name]]
        return values

    def _clipped(self, raw: FloatArray) -> FloatArray:
        values = raw.copy()
        for k, column in enumerate(self.schema.columns):
            if column.range is not None:
                np.clip(raw[:, k], column.range.lower, column.range.upper, out=values[:, k])
        return values


def open_table(
    data: Any,
    schema: PublicSchema,
    used: Collection[int],
    missing: Missing | None,
    weights: str | None = None,
    cluster: str | None = None,
) -> Table:
    """The records of ``data`` with the ``used`` columns, as the schema describes them."""
    plain = _positions(data)
    wanted: dict[str, Wanted] = {}
    for k in sorted(used):
        column = schema.columns[k]
        name = plain.get(column.name, column.name)
        if column.categories:
            wanted[column.name] = Category(name, column.categories)
        elif column.origin is not None:
            wanted[column.name] = Day(name, column.origin, missing)
        else:
            wanted[column.name] = Number(name, missing)
    if schema.by is not None:
        groups = Category(plain.get(schema.by, schema.by), schema.groups[:-1])
        if wanted.setdefault(schema.by, groups) != groups:
            raise InvalidParameter.refusing(
                "by", "must be another column, or one with the groups as categories", schema.by
            )
    for role, own in (("weights", weights), ("cluster", cluster)):
        if own is not None:
            if own in wanted:
                raise InvalidParameter.refusing(role, "must be another column", own)
            # A missing weight is nothing; a record that is in no cluster has no privacy unit.
            name = plain.get(own, own)
            whole = Number(name, "refuse", remedy=_IN_A_CLUSTER)
            wanted[own] = Number(name, missing) if role == "weights" else whole
    if not wanted:  # nothing but the number of records is asked for
        first = next((column.name for column in schema.columns), None) or column_names(data)[0]
        wanted[first] = Category(plain.get(first, first), ("-",))
    places = {name: place for place, name in enumerate(wanted)}
    return Table(schema, open_records(data, list(wanted.values())), places, weights, cluster)


def clustered(parts: Sequence[Piece], numbers: FloatArray, schema: PublicSchema) -> Piece:
    """All records as one piece with their clusters; the first of each, where it is the unit."""
    values, slots = (np.concatenate([getattr(one, name) for one in parts])
                     for name in ("values", "slots"))  # fmt: skip
    raw = [one.values if one.raw is None else one.raw for one in parts]
    weights = [one.weights for one in parts if one.weights is not None]
    together = np.concatenate(weights) if weights else None
    _, clusters = np.unique(numbers, return_inverse=True)
    clusters = clusters.astype(np.int64).ravel()
    kept = np.arange(len(values))
    if schema.whole_clusters and schema.largest_cluster is not None:
        order = np.argsort(clusters, kind="stable")
        starts = np.flatnonzero(np.diff(clusters[order], prepend=-1))
        rank = np.arange(len(order)) - np.repeat(starts, np.diff(starts, append=len(order)))
        kept = np.sort(order[rank < schema.largest_cluster])
    return Piece(
        values[kept],
        slots[kept],
        None if together is None else together[kept],
        np.concatenate(raw)[kept],
        clusters=clusters[kept],
    )


def read_once(data: Any) -> bool:
    """Whether the records can be gone through only once."""
    given = as_reading(data).data
    return isinstance(given, str) and given == STANDARD_INPUT


def missing_of(data: Any, missing: Any) -> Any:
    """What becomes of missing values: as said here, else as the reading says."""
    return as_reading(data).missing if missing is None else missing


def column_names(data: Any) -> tuple[str, ...]:
    """The names of the columns of data in memory."""
    given = data.data if isinstance(data, Reading) else data
    if hasattr(given, "__dask_graph__"):
        given = getattr(given, "_meta", None)
    frame = as_frame(given)
    if frame is not None:
        return tuple(str(label) for label in frame.labels)
    raise InvalidParameter.refusing("columns", "must be given for a file", "none")


def _positions(data: Any) -> Mapping[str, int]:
    """Columns of an array without names, which are called by their positions."""
    given = data.data if isinstance(data, Reading) else data
    if isinstance(given, np.ndarray) and not given.dtype.names:
        return {str(k): k for k in range(1 if given.ndim == 1 else given.shape[1])}
    return {}
