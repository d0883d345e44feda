"""Records by number: tensors, or any dataset that has a length and answers ``data[i]``."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import DataLoader, TensorDataset, default_collate

from mustdp.errors import InvalidParameter
from mustdp.training.networks.loaders import Fetched
from mustdp.training.networks.transfers import sent

#: Records of which several processes compare whether they are the same.
_COMPARED = 64


@dataclass(frozen=True)
class Rows:
    """Some records on the device."""

    inputs: tuple[Tensor, ...]
    target: Tensor

    def copied(self) -> Rows:
        """The same for code that may write to it, where the records are needed again."""
        return Rows(tuple(x.clone() for x in self.inputs), self.target.clone())


class Records:
    """The records of a run: inputs first, the target last."""

    def __init__(self, data: Any, device: torch.device) -> None:
        self._device = device
        if isinstance(data, DataLoader):
            data = _behind(data)
        self._tensors = _tensors(data)
        self._data = data
        if self._tensors is None and not (
            hasattr(data, "__len__") and hasattr(data, "__getitem__")
        ):
            raise InvalidParameter(
                "data must be a tuple of tensors (inputs, ..., target), a dataset with a length "
                f"and data[i], or a DataLoader of one, got {type(data).__name__}"
            )
        if self._tensors is not None:
            _check_tensors(self._tensors)
        self.n = len(data) if self._tensors is None else len(self._tensors[0])

    @property
    def target(self) -> Tensor | None:
        """All targets, where they are at hand."""
        return None if self._tensors is None else self._tensors[-1]

    def take(self, indices: NDArray[np.int64], filled: int = 0) -> Rows:
        """Some records, by number; the first is repeated until there are ``filled`` of them."""
        missing = max(0, filled - len(indices))
        if self._tensors is None:
            found = (sent(value, self._device) for value in _collated(self._data, indices))
            *inputs, target = (_filled(value, missing) for value in found)
            return Rows(tuple(inputs), target)
        rows = _filled(torch.tensor(indices), missing)
        *inputs, target = (self._selected(t, rows) for t in self._tensors)
        return Rows(tuple(inputs), target)

    def fingerprint(self) -> str:
        """A hash of a few records, for processes that must number the same ones alike.

        It is compared and never shown. A dataset may draw anew whenever it is asked, so that of
        it only the length can be compared.
        """
        found = hashlib.sha256(str(self.n).encode())
        rows = torch.tensor(np.unique(np.linspace(0, self.n - 1, _COMPARED).astype(np.int64)))
        for tensor in self._tensors or ():
            some = tensor.index_select(0, rows.to(tensor.device)).cpu().contiguous()
            found.update(f"{some.dtype} {tuple(some.shape)}".encode())
            found.update(some.view(torch.uint8).numpy().tobytes())
        return found.hexdigest()

    def _selected(self, values: Tensor, rows: Tensor) -> Tensor:
        return sent(values.index_select(0, sent(rows, values.device)), self._device)


def _filled(values: Tensor, missing: int) -> Tensor:
    if not missing:
        return values
    return torch.cat([values, values[:1].expand(missing, *values.shape[1:])])


def _behind(loader: DataLoader[Any]) -> Any:
    """The tensors of a loader where it only puts them side by side, or what fetches its records."""
    if isinstance(loader.dataset, TensorDataset) and loader.collate_fn is default_collate:
        return loader.dataset
    return Fetched(loader)


def _tensors(data: Any) -> tuple[Tensor, ...] | None:
    if isinstance(data, TensorDataset):
        return tuple(data.tensors)
    if isinstance(data, tuple | list) and all(isinstance(x, Tensor | np.ndarray) for x in data):
        return tuple(torch.as_tensor(x) for x in data)
    return None


def _check_tensors(tensors: Sequence[Tensor]) -> None:
    if len(tensors) < 2 or any(t.ndim == 0 for t in tensors):
        raise InvalidParameter(
            "data must hold at least two tensors, inputs and target, one row per record"
        )
    lengths = [len(t) for t in tensors]
    if len(set(lengths)) != 1 or not lengths[0]:
        raise InvalidParameter(f"all tensors of data must have the same length > 0, got {lengths}")
    for place, tensor in enumerate(tensors):
        if tensor.is_floating_point() and not bool(torch.isfinite(tensor).all()):
            raise InvalidParameter(f"data must be finite, tensor {place} has NaN or infinity")


def _collated(data: Any, indices: NDArray[np.int64]) -> Sequence[Tensor]:
    own = isinstance(data, Fetched)
    found = data.collated(indices) if own else default_collate([data[int(i)] for i in indices])
    if own and isinstance(found, tuple | list):  # it may be the dataset's own storage
        found = [x.clone() if isinstance(x, Tensor) else x for x in found]
    if not (
        isinstance(found, tuple | list)
        and len(found) >= 2
        and all(isinstance(value, Tensor) for value in found)
    ):
        raise InvalidParameter(
            "a record of data must be a tuple (inputs, ..., target) of tensors or numbers, "
            f"got {type(found if own else data[int(indices[0])]).__name__}"
        )
    return found
