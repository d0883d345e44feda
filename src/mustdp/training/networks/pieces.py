"""A batch in pieces, and the most that a step of a scheme may ask for."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from mustdp.mechanisms.relation import Relation, most_copies
from mustdp.sampling.batch import Batch
from mustdp.sampling.epochs import Sampling
from mustdp.training.networks.clipping import Clipper, Piece
from mustdp.training.networks.records import FILLED, Records, rounded_up
from mustdp.training.networks.sensitivity import Workload
from mustdp.training.networks.transfers import sent

#: Records that are worked on at once, at most: the rounding of a sum grows with their number.
_LARGEST = 1 << 13
#: How many times longer than in the trial a record may be.
_LONGER = 4


class Pieces:
    """Cuts batches into pieces of so many distinct records at most."""

    def __init__(
        self, records: Records, device: torch.device, clipper: Clipper, max_rows: int | None
    ) -> None:
        self._records, self._device, self._clipper = records, device, clipper
        self._rows = min(clipper.way.most_rows, _LARGEST, max_rows or _LARGEST)

    def of(self, batch: Batch) -> Iterator[Piece]:
        """Records on the device, each piece with the counts of its records."""
        rows = self._rows
        for start in range(0, batch.distinct, rows):
            part = slice(start, start + rows)
            indices, counts = batch.indices[part], batch.counts[part]
            if self._device.type == "cuda":
                indices, counts = rounded_up(indices, counts, rows)
            weights = torch.tensor(counts, dtype=torch.float64)
            yield self._records.take(indices), sent(weights, self._device)

    def workload(self, scheme: Sampling, relation: Relation, processes: int) -> Workload:
        """The most that one step of the scheme may ask for, from its description alone.

        A Poisson batch, or a bin of an allocation, may be as large as the data, of whose size the
        scheme has an estimate only under add/remove. Records may turn out longer than those that
        were tried, up to a point.
        """
        copies = most_copies(scheme, relation)
        distinct = min(copies, scheme.n + 1) if scheme.fixed_size else copies
        together = min(self._rows, distinct + FILLED - 1)
        return Workload(
            copies=copies,
            terms=_LONGER * self._clipper.places * together,
            pieces=-(-distinct // self._rows),
            parameters=sum(p.numel() for p in self._clipper.parameters),
            processes=processes,
        )
