"""A batch in pieces of one shape, and the most that a step of a scheme may ask for."""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch
from torch.nn import functional

from mustdp.mechanisms.relation import Relation, most_copies
from mustdp.sampling.batch import Batch
from mustdp.sampling.epochs import Sampling
from mustdp.training.networks.clipping import Clipper, Piece
from mustdp.training.networks.places import TOGETHER
from mustdp.training.networks.records import Records
from mustdp.training.networks.sensitivity import Workload
from mustdp.training.networks.transfers import sent

#: Records that are worked on at once, at most: the rounding of a sum grows with their number.
_LARGEST = 1 << 13
#: How many times longer than in the trial a record may be.
_LONGER = 4


def rows_of_pieces(
    scheme: Sampling, relation: Relation, processes: int, fit: int, max_rows: int | None
) -> int:
    """How many rows every piece has, from public sizes alone.

    One piece is enough for nearly all batches, unless fewer rows fit; rows that are filled up cost
    as much as others.
    """
    most = min(fit, _LARGEST, max_rows or _LARGEST)
    distinct = scheme.expected_distinct / processes
    varies = 1.0 - scheme.expected_distinct / _most_distinct(scheme, relation)
    usual = max(1, math.ceil(distinct + 2.0 * math.sqrt(distinct * max(0.0, varies))))
    rows = -(-usual // -(-usual // most))
    filled = -(-rows // TOGETHER) * TOGETHER
    return filled if filled <= most else most // TOGETHER * TOGETHER or most


def _most_distinct(scheme: Sampling, relation: Relation) -> int:
    copies = most_copies(scheme, relation)
    return min(copies, scheme.n + 1) if scheme.fixed_size else copies


class Pieces:
    """Cuts batches into pieces of so many rows, the last of which are filled up."""

    def __init__(self, records: Records, device: torch.device, clipper: Clipper, rows: int) -> None:
        self._records, self._device, self._clipper = records, device, clipper
        self._rows = rows

    def of(self, batch: Batch) -> Iterator[Piece]:
        """Records on the device, each piece with the counts of its records; 0 where filled up."""
        rows = self._rows
        for start in range(0, batch.distinct, rows):
            part = slice(start, start + rows)
            counts = torch.tensor(batch.counts[part], dtype=torch.float64)
            counts = functional.pad(counts, (0, rows - len(counts)))
            yield self._records.take(batch.indices[part], rows), sent(counts, self._device)

    def workload(self, scheme: Sampling, relation: Relation, processes: int) -> Workload:
        """The most that one step of the scheme may ask for, from its description alone.

        A Poisson batch, or a bin of an allocation, may be as large as the data, of whose size the
        scheme has an estimate only under add/remove. Records may turn out longer than those that
        were tried, up to a point.
        """
        return Workload(
            copies=most_copies(scheme, relation),
            terms=_LONGER * self._clipper.places * self._rows,
            pieces=-(-_most_distinct(scheme, relation) // self._rows),
            parameters=sum(p.numel() for p in self._clipper.parameters),
            processes=processes,
        )
