"""A record's contribution must not depend on its place in a piece, to the last bit.

A matrix product may treat the last rows of a block, or rows at odd addresses, with another kernel
that adds up in another order. Adding one record then moves all others by a place and changes their
last bits, and a record made for it (heavy cancellation, a target at the midpoint) turns its whole
clipped gradient round: the sum moves by many times C where C is charged.

So every piece has one shape, filled up with copies that count zero times, and before the first
step the same record is put at every place of a piece. What decides its contribution must come out
the same, bit by bit: at every place, among copies of itself and among others. Where it does not,
pieces are made smaller, in the end of one record each, which has one place only; a model that then
still gives the same record different results is refused. On a CPU, linear layers are given a
multiple of eight rows and columns, with which all rows were found to agree.

That places agree is tried, not proved: on a few records, on this machine, and again on the batches
1, 2, 4, 8, ... and whenever shapes or threads change.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves

from mustdp.errors import NotCovered
from mustdp.training.networks.alone import Loss
from mustdp.training.networks.clipping import Clipper, Piece
from mustdp.training.networks.records import Rows

#: Rows of a piece come in multiples of this where there are as many: no kernel that works on
#: several rows or numbers at once is left with a remainder.
TOGETHER = 32
_DIFFERENT = (
    "the results of a record depend on its place in the batch, or are not the same whenever it is "
    "computed, so that one record may change those of all others; "
)
#: What decides the contributions of the records of a piece, records first.
Results = list[Tensor]


class Places:
    """Finds the number of rows with which all places agree, and watches that it stays so."""

    def __init__(
        self, clipper: Clipper, model: nn.Module, masks: Callable[[], AbstractContextManager[None]]
    ) -> None:
        self._clipper, self._model, self._masks = clipper, model, masks
        self._tried: set[Any] = set()

    def settle(self, records: Rows, rows: int) -> int:
        """The largest number of rows, at most this, with which two records agree everywhere."""
        with torch.enable_grad(), _stirred(self._model):
            while not all(
                self._agree(_filled_with(records, 2), rows, loss)
                and self._turn_round(_filled_with(records, rows), loss)
                for loss in (_projected, None)
            ):
                if rows == 1:
                    raise NotCovered(
                        _DIFFERENT + "no part of the model may draw at random by itself, keep "
                        "a state or add up in an order that changes"
                    )
                rows = smaller(rows)
        self._tried = {_kind(records)}
        return rows

    def watched(self, pieces: Iterable[Piece], again: bool) -> Iterator[Piece]:
        """The pieces; those of a kind that was not tried yet are, and the first if ``again``."""
        for rows, counts in pieces:
            kind = _kind(rows)
            if again or kind not in self._tried:
                if not self._agree(_first_two(rows), len(rows.target)):
                    raise NotCovered(_DIFFERENT + "a smaller max_rows may help")
                self._tried.add(kind)
            again = False
            yield rows, counts

    def _agree(self, both: Rows, rows: int, loss: Loss | None = None) -> bool:
        """Whether each of two records gives the same at all places, alone and side by side."""
        places = torch.arange(rows, device=both.target.device)
        found = []
        for record in (0, 1):
            first: Results = []
            results = self._results(_at(both, torch.full_like(places, record)), loss)
            for values in results:
                if not _equal(values, values[:1].expand_as(values)):
                    return False
                first.append(values[0].clone())
            found.append(first)
            del results
        which = places % 2
        mixed = self._results(_at(both, which), loss)
        return all(
            _equal(values[which == record], first.expand_as(values[which == record]))
            for record in (0, 1)
            for values, first in zip(mixed, found[record], strict=True)
        )

    def _turn_round(self, rows: Rows, loss: Loss | None) -> bool:
        """Whether different records give the same in the opposite order."""
        opposite = torch.arange(len(rows.target) - 1, -1, -1, device=rows.target.device)
        found = [values.clone() for values in self._results(rows.copied(), loss)]
        turned = self._results(_at(rows, opposite), loss)
        return all(_equal(one, other.flip(0)) for one, other in zip(found, turned, strict=True))

    def _results(self, rows: Rows, loss: Loss | None) -> Results:
        with self._clipper.way.alike(loss), self._masks():
            return self._clipper.results(rows)


def _projected(outputs: Any, target: Tensor) -> Tensor:
    """A loss whose errors are the same for every record and none of them zero.

    Of the loss that is trained, records may be chosen so that it is flat, or hides small changes.
    """
    found = target.new_zeros(len(target), dtype=torch.get_default_dtype())
    for values in tree_leaves(outputs):
        if isinstance(values, Tensor) and values.ndim and values.is_floating_point():
            flat = values.reshape(len(found), -1)
            factors = torch.arange(flat.shape[1], device=flat.device).add(1.0).sin().to(flat.dtype)
            found = found + (flat * factors).sum(1)
    return found


def smaller(rows: int) -> int:
    """The next number of rows to be tried."""
    if rows > TOGETHER:
        return max(TOGETHER, rows // 2 // TOGETHER * TOGETHER)
    return 1 << ((rows - 1).bit_length() - 1)


def _kind(rows: Rows) -> Any:
    """What a choice of kernels may depend on, beside the values."""
    shapes = tuple((x.shape[1:], x.dtype) for x in (*rows.inputs, rows.target))
    return shapes, torch.get_num_threads(), torch.are_deterministic_algorithms_enabled()


def _at(records: Rows, which: Tensor) -> Rows:
    return Rows(
        tuple(x.index_select(0, which) for x in records.inputs),
        records.target.index_select(0, which),
    )


def _first_two(rows: Rows) -> Rows:
    """Two records of a piece, which may be the same one."""
    last = len(rows.target) - 1
    return _at(rows, torch.tensor([0, min(1, last)], device=rows.target.device))


def _filled_with(records: Rows, count: int) -> Rows:
    """So many records made of these: all but the first have numbers with all bits in use."""
    which = torch.arange(count, device=records.target.device) % len(records.target)
    found = _at(records, which)
    generator = torch.Generator().manual_seed(count)
    for values in (*found.inputs, found.target):
        if values.is_floating_point():
            factors = torch.rand(values.shape, generator=generator).add_(0.5)
            factors[0] = 1.0
            values *= factors.to(values)
    return found


def _equal(one: Tensor, other: Tensor) -> bool:
    same = one == other
    if one.is_floating_point():
        same |= one.isnan() & other.isnan()
    return bool(same.all())


@contextmanager
def _stirred(model: nn.Module) -> Iterator[None]:
    """The parameters moved a little inside: zeros and round numbers would hide what is rounded."""
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        kept = [(p, p.detach().clone()) for p in model.parameters() if p.is_floating_point()]
    try:
        with torch.no_grad():
            for p, _ in kept:
                size = float(p.square().mean().sqrt()) or max(1, p[:1].numel()) ** -0.5
                p.add_(torch.randn(p.shape, generator=generator).to(p), alpha=size / 4.0)
        yield
    finally:
        with torch.no_grad():
            for p, before in kept:
                p.copy_(before)
