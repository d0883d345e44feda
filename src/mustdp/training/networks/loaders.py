"""Records by number, from tensors, datasets or a ``DataLoader``."""

from __future__ import annotations

import copy
import hashlib
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    DistributedSampler,
    IterableDataset,
    RandomSampler,
    SequentialSampler,
    TensorDataset,
    default_collate,
)

from mustdp.calibration.budget import Budget, calibrated_budget
from mustdp.errors import InvalidParameter, NotCovered
from mustdp.mechanisms.relation import Relation, resolve_relation
from mustdp.numerics import checks
from mustdp.sampling.epochs import RandomAllocation, random_allocation
from mustdp.training.networks.devices import sent

# A user's ``DataLoader``, and the budget that is settled for it in one call.
#
# Of a loader its dataset, batch size, workers and collate function are taken; batches are drawn
# here. Shuffled batches have no amplification that could be proved, so that a shuffling loader
# becomes random allocation: the same number of batches in an epoch, every record in one of them,
# uniformly and independently of all others. It takes the same work, and its price is known
# exactly.
#
# A collate function of one's own is called for every record alone, so that it cannot mix records.


_INSTEAD = (
    "; give DataLoader(dataset, batch_size=..., shuffle=True), or the dataset itself with "
    "budget=calibrated_budget(scheme, ...), whose scheme then draws the batches"
)


class LoaderRedrawn(UserWarning):
    """The batches of a loader are drawn by random allocation in place of its own order.

    Examples
    --------
    >>> import mustdp as md
    >>> issubclass(md.types.LoaderRedrawn, Warning)
    True
    """


@dataclass(frozen=True)
class Terms:
    """What a run may spend, where that is stated in the call that makes its trainer."""

    epochs: int | None
    epsilon: float | None
    noise_multiplier: float | None
    delta: float | None
    relation: str | None
    n: int | None

    @property
    def given(self) -> tuple[str, ...]:
        """The names of those that are stated."""
        return tuple(name for name, value in vars(self).items() if value is not None)


def budget_of(data: Any, budget: Any, terms: Terms) -> Budget:
    """The budget that was given, or the one that the terms and a loader come to."""
    if budget is not None:
        if not isinstance(budget, Budget):
            raise InvalidParameter(
                f"budget must be what calibrated_budget(...) gives, got {budget!r}"
            )
        if terms.given:
            raise InvalidParameter(
                f"{' and '.join(terms.given)} must be left out beside a budget, which has settled "
                "all of it"
            )
        if isinstance(data, DataLoader):
            check_loader(data)
        return budget
    if not isinstance(data, DataLoader):
        raise InvalidParameter(
            "budget must be what calibrated_budget(...) gives, got None; epochs, epsilon and delta "
            "take its place where data is a DataLoader"
        )
    check_loader(data)
    if terms.epochs is None:
        raise InvalidParameter("epochs must be given where there is no budget, got None")
    public = _length(data) if terms.n is None else terms.n
    epoch = allocation_for(data, public)
    relation = resolve_relation(epoch, terms.relation)
    _say(epoch, relation, taken=terms.n is None)
    return calibrated_budget(
        epoch,
        epochs=terms.epochs,
        epsilon=terms.epsilon,
        noise_multiplier=terms.noise_multiplier,
        delta=terms.delta,
        relation=relation,
    )


def check_loader(loader: DataLoader[Any]) -> None:
    """Refuse a loader whose batches are not those of shuffled epochs."""
    if isinstance(loader.dataset, IterableDataset) or not hasattr(loader.dataset, "__len__"):
        raise NotCovered(
            "the dataset of a loader must have a length and dataset[i]: of a stream it is not "
            "known which records a batch was drawn from"
        )
    if loader.batch_size is None or type(loader.batch_sampler) is not BatchSampler:
        raise NotCovered(f"a batch_sampler of one's own is not charged for{_INSTEAD}")
    sampler = loader.sampler
    if isinstance(sampler, SequentialSampler):
        raise NotCovered(
            "a loader that does not shuffle gives every record a place that is known, and nothing "
            f"is gained by sampling{_INSTEAD}"
        )
    if isinstance(sampler, DistributedSampler):
        raise NotCovered(
            "a DistributedSampler must be left out: every process is given all of the dataset, and "
            f"takes its part of every batch{_INSTEAD}"
        )
    if (
        type(sampler) is not RandomSampler
        or sampler.replacement
        or sampler.num_samples != _length(loader)
    ):
        named = type(sampler).__name__
        raise NotCovered(f"a sampler of one's own ({named}) is not charged for{_INSTEAD}")


def allocation_for(loader: DataLoader[Any], n: int) -> RandomAllocation:
    """As many bins as the loader has batches for ``n`` records; no record is left out of them."""
    n = checks.integer("n", n, 1)
    size = int(loader.batch_size or 1)
    return random_allocation(n, max(1, n // size if loader.drop_last else -(-n // size)))


def _length(loader: DataLoader[Any]) -> int:
    return len(loader.dataset)  # type: ignore[arg-type]


def _say(epoch: RandomAllocation, relation: Relation, *, taken: bool) -> None:
    public = (
        "; the number of records is taken as public, n= states an estimate in its place"
        if taken and relation == Relation.ADD_REMOVE
        else ""
    )
    warnings.warn(
        "the batches of the loader are drawn by random allocation in place of its shuffling: in "
        f"every epoch each record is in one of {epoch.bins} batches, uniformly and independently, "
        f"and their sizes vary around {epoch.expected_size:.4g}{public}",
        LoaderRedrawn,
        stacklevel=4,
    )


class Fetched:
    """Records of a loader's dataset by number, with its collate function and its workers."""

    def __init__(self, loader: DataLoader[Any]) -> None:
        self.dataset = loader.dataset
        #: None for torch's own, which puts records side by side as they are.
        self.collate = None if loader.collate_fn is default_collate else loader.collate_fn
        together = default_collate if self.collate is None else _Alone(self.collate)
        self._next = _NextBatches()
        self._workers = max(1, loader.num_workers)
        # With a generator of its own: torch's global one is left as it was.
        generator = torch.Generator()
        generator.seed()
        self._loader: DataLoader[Any] = DataLoader(
            self.dataset,
            batch_sampler=self._next,
            collate_fn=together,
            num_workers=loader.num_workers,
            timeout=loader.timeout,
            worker_init_fn=loader.worker_init_fn,
            multiprocessing_context=loader.multiprocessing_context,
            persistent_workers=loader.num_workers > 0,
            generator=generator,
        )

    def __len__(self) -> int:
        return len(self.dataset)  # type: ignore[arg-type]

    def __getitem__(self, number: int) -> Any:
        return self.dataset[number]

    def collated(self, indices: NDArray[np.int64]) -> Any:
        """Some records side by side, fetched by all workers at once."""
        parts = np.array_split(indices, min(self._workers, len(indices)))
        self._next.parts = tuple(part.tolist() for part in parts)
        return beside(list(self._loader))


class _NextBatches:
    """The numbers of the records that each worker is to fetch next: a sampler of batches."""

    parts: tuple[list[int], ...] = ()

    def __iter__(self) -> Iterator[list[int]]:
        return iter(self.parts)

    def __len__(self) -> int:
        return len(self.parts)


@dataclass(frozen=True)
class _Alone:
    """A collate function that is called for every record by itself."""

    collate: Any

    def __call__(self, records: list[Any]) -> Any:
        return beside([self.collate([_own(record)]) for record in records])


def _own(value: Any) -> Any:
    """A copy for code that is not ours: what it writes to it is not the dataset."""
    if isinstance(value, Tensor):
        return value.detach().clone()
    return copy.deepcopy(value)


def beside(parts: Sequence[Any]) -> Any:
    """Join what was collated in parts; what cannot be joined is handed on and refused later."""
    first = parts[0]
    if len(parts) == 1 or not isinstance(first, tuple | list):
        return first
    try:
        return [torch.cat(values) for values in zip(*parts, strict=True)]
    except (TypeError, ValueError, RuntimeError):
        shapes = {tuple(v.shape[1:]) for part in parts for v in part if isinstance(v, Tensor)}
        raise InvalidParameter(
            "collate_fn must turn every record into tensors of the same shapes, as it is called "
            f"for each alone (pad to a fixed length); got {len(shapes)} different ones"
        ) from None


# Records by number: tensors, or any dataset that has a length and answers ``data[i]``.


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

        It is compared and never shown. A dataset may draw anew at every access, so that of
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
