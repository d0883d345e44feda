"""Every record alone, all at once: a forward pass under ``torch.func.vmap``, followed from outside.

Inside, the model sees one record; it cannot see another, whatever it does. The tensors behind it
hold all records, and torch's ordinary graph runs through them, so that errors of layers can be
asked for as in any other backward pass.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch._C import _functorch

from mustdp.errors import MustdpError
from mustdp.training.networks.records import Rows
from mustdp.training.networks.separate import Unsuitable, per_record

Loss = Callable[[Any, Tensor], Tensor]


def losses_alone(model: nn.Module, loss: Loss, rows: Rows, randomness: str = "different") -> Tensor:
    """The loss of every record, each computed as if there were no other."""

    def one(label: Tensor, *record: Tensor) -> Tensor:
        outputs = model(*(x[None] for x in record))
        return per_record(loss(outputs, label[None]), 1)[0]

    try:
        with quiet():
            found: Tensor = torch.func.vmap(one, randomness=randomness)(rows.target, *rows.inputs)
    except MustdpError:
        raise
    except Exception as problem:
        raise Unsuitable(
            f"torch.func cannot run the model one record at a time: {line_of(problem)}"
        ) from problem
    return found


@dataclass(frozen=True)
class Behind:
    """What a tensor inside holds for all records, and the dimension that counts them.

    Inside it has one row, that of the record which is alone there.
    """

    values: Tensor
    place: int

    def records_first(self, values: Tensor) -> Tensor:
        """``values``, of the same shape as those behind, with one row for each record."""
        return values.movedim(self.place, 0).squeeze(1)


def behind(value: Tensor) -> Behind | None:
    """Look behind a tensor; None if it does not have exactly one row for every record."""
    functorch: Any = _functorch
    if not functorch.is_batchedtensor(value) or len(value) != 1:
        return None
    values: Tensor = functorch.get_unwrapped(value)
    return None if functorch.is_batchedtensor(values) else Behind(values, _place(value))


def _place(value: Tensor) -> int:
    functorch: Any = _functorch
    place: int = functorch.maybe_get_bdim(value)
    return place


@contextmanager
def quiet() -> Iterator[None]:
    """Without torch's remarks on operations that it runs record by record itself."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "There is a performance drop")
        yield


def line_of(problem: Exception) -> str:
    """What torch says, in one line; of other errors, which may quote data, only the kind."""
    said = " ".join(str(problem).split())[:300]
    about = isinstance(problem, RuntimeError) and "vmap" in said
    return said if about else type(problem).__name__
