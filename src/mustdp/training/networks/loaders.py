"""Records by number, from tensors, datasets or a ``DataLoader``."""

from __future__ import annotations

import copy
import hashlib
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
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
from mustdp.sampling.epochs import Epoch, RandomAllocation, Shuffle, random_allocation, shuffle
from mustdp.training.networks.devices import sent

# A user's ``DataLoader``, and the budget that is settled for it in one call.
#
# Of a loader its dataset, batch size, workers and collate function are taken; batches are drawn
# here. A shuffling loader becomes random allocation: the same number of batches in an epoch, every
# record in one of them, uniformly and independently of all others. It takes the same work, and its
# price is known exactly. On request batches stay those of a shuffled order, which is drawn here as
# well, by a cipher and uniform among all orders, and charged as such.
#
# A custom collate function is called for every record alone, so that it cannot mix records.


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


def loader_budget(
    loader: DataLoader[Any],
    *,
    epochs: int,
    delta: float | None = None,
    epsilon: float | None = None,
    noise_multiplier: float | None = None,
    relation: str | None = None,
    n: int | None = None,
    keep_shuffling: bool = False,
) -> Budget:
    """The budget of a number of epochs over a shuffling ``DataLoader``.

    Batches are drawn by random allocation, as many in an epoch as the loader has, and a warning
    says so (LoaderRedrawn). Exactly one of ``epsilon`` and ``noise_multiplier`` is given.

    Parameters
    ----------
    loader : torch.utils.data.DataLoader
        A loader that shuffles; only its sizes are looked at.
    epochs : int
        How many times the run goes through the data.
    delta : float
        The delta at which epsilon is stated, well below 1/n; it has no default.
    epsilon : float, default=None
        What the certified epsilon of the whole run must not exceed; the noise is calibrated for it.
    noise_multiplier : float, default=None
        Scale of the noise over C, the bound on the norm of what one record contributes to a sum.
    relation : {"replace_one", "add_remove"}, default=None
        Which data sets are neighbours; None means add_remove, or replace_one where the order of
        the loader is kept.
    n : int, default=None
        A public estimate of the number of records; None takes their number as public.
    keep_shuffling : bool, default=False
        Whether batches stay those of a random order cut into the loader's batch size, charged under
        replace_one with the amplification that is proved for them, in place of random allocation.
        The order is drawn by the trainer, not by the loader.

    Returns
    -------
    Budget
        What is run and charged.

    Raises
    ------
    InvalidParameter
        An argument is outside what is allowed.
    NotCovered
        The loader does not shuffle, or draws its batches in another way.

    Examples
    --------
    >>> import mustdp as md
    >>> from torch.utils.data import DataLoader
    >>> loader = DataLoader(list(range(100)), batch_size=10, shuffle=True)
    >>> kept = md.training.loader_budget(
    ...     loader, epochs=2, noise_multiplier=8.0, delta=1e-5, keep_shuffling=True
    ... )
    >>> kept.steps
    20
    """
    if not isinstance(loader, DataLoader):
        raise InvalidParameter(f"loader must be a DataLoader, got {type(loader).__name__}")
    check_loader(loader)
    epoch: Epoch
    if checks.choice("keep_shuffling", keep_shuffling, (True, False)):
        if n is not None:
            raise InvalidParameter(
                "n must be left out where keep_shuffling is true: under replace_one the number of "
                f"records is public, got {n!r}"
            )
        epoch = shuffle_for(loader)
    else:
        epoch = allocation_for(loader, _length(loader) if n is None else n)
        _say(epoch, resolve_relation(epoch, relation), taken=n is None)
    return calibrated_budget(
        epoch,
        epochs=epochs,
        epsilon=epsilon,
        noise_multiplier=noise_multiplier,
        delta=delta,
        relation=relation,
    )


def check_budget(budget: Any, data: Any) -> Budget:
    """A budget, and data whose batches its scheme may draw."""
    if not isinstance(budget, Budget):
        raise InvalidParameter(
            "budget must be what calibrated_budget(...) or loader_budget(...) gives, got "
            f"{type(budget).__name__}"
        )
    if isinstance(data, DataLoader):
        check_loader(data)
    return budget


def check_loader(loader: DataLoader[Any]) -> None:
    """Refuse a loader whose batches are not those of shuffled epochs."""
    if isinstance(loader.dataset, IterableDataset) or not hasattr(loader.dataset, "__len__"):
        raise NotCovered(
            "the dataset of a loader must have a length and dataset[i]: of a stream it is not "
            "known which records a batch was drawn from"
        )
    if loader.batch_size is None or type(loader.batch_sampler) is not BatchSampler:
        raise NotCovered(f"a custom batch_sampler is not charged for{_INSTEAD}")
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
        raise NotCovered(f"a custom sampler ({named}) is not charged for{_INSTEAD}")


def allocation_for(loader: DataLoader[Any], n: int) -> RandomAllocation:
    """As many bins as the loader has batches for ``n`` records; no record is left out of them."""
    n = checks.integer("n", n, 1)
    size = int(loader.batch_size or 1)
    return random_allocation(n, max(1, n // size if loader.drop_last else -(-n // size)))


def shuffle_for(loader: DataLoader[Any]) -> Shuffle:
    """The loader's own epochs: a random order of its records, cut into its batches."""
    n, size = _length(loader), int(loader.batch_size or 1)
    if loader.drop_last and n % size:
        raise NotCovered(
            "keep_shuffling does not cover drop_last=True where the batch size does not divide the "
            "number of records: leave drop_last out, and the last batch is smaller"
        )
    return shuffle(n, min(size, n))


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
        stacklevel=3,
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
    if len(parts) == 1 or not isinstance(first, tuple | list | Mapping):
        return first
    try:
        if isinstance(first, Mapping):
            return {name: torch.cat([part[name] for part in parts]) for name in first}
        return [torch.cat(values) for values in zip(*parts, strict=True)]
    except (TypeError, ValueError, RuntimeError, KeyError):
        shapes = {
            tuple(v.shape[1:]) for part in parts for v in _values(part) if isinstance(v, Tensor)
        }
        raise InvalidParameter(
            "collate_fn must turn every record into tensors of the same shapes, as it is called "
            f"for each alone (pad to a fixed length); got {len(shapes)} different ones"
        ) from None


def _values(part: Any) -> Sequence[Any]:
    return list(part.values()) if isinstance(part, Mapping) else part


# Records by number: tensors, or any dataset that has a length and answers ``data[i]``.


#: Records of which several processes compare whether they are the same.
_COMPARED = 64


@dataclass(frozen=True)
class Rows:
    """Some records on the device; with ``names``, one for each tensor, they are dictionaries.

    With ``weights`` every row has several slots: tensors begin with rows and slots.
    """

    inputs: tuple[Tensor, ...]
    target: Tensor
    names: tuple[str, ...] = ()
    weights: Tensor | None = None

    @property
    def slots(self) -> int:
        """Rows that pass through the model for each of these."""
        return 1 if self.weights is None else self.weights.shape[1]

    def joined(self) -> Rows:
        """All slots one after another."""
        if self.weights is None:
            return self
        return replace(self, weights=None).changed(lambda x: x.flatten(0, 1))

    def changed(self, change: Callable[[Tensor], Tensor]) -> Rows:
        """The same records with something done to every tensor of them."""
        return replace(
            self,
            inputs=tuple(change(x) for x in self.inputs),
            target=change(self.target),
            weights=None if self.weights is None else change(self.weights),
        )

    def copied(self) -> Rows:
        """The same for code that may write to it, where the records are needed again."""
        return self.changed(Tensor.clone)

    def batch(self, values: Sequence[Tensor]) -> dict[str, Tensor]:
        """These values, inputs first and the target last, by their names."""
        return dict(zip(self.names, values, strict=True))


class TrainingRecords:
    """The records of a run: inputs first, the target last, or dictionaries of tensors.

    Of a dictionary, "labels" or else the last entry stands where the target does.
    """

    def __init__(self, data: Any, device: torch.device) -> None:
        self._device = device
        if isinstance(data, DataLoader):
            data = _behind(data)
        #: What the entries of a record are called, where it is a dictionary.
        self.names: tuple[str, ...] = ()
        if isinstance(data, Mapping) and all(isinstance(x, _ARRAYS) for x in data.values()):
            self.names = _target_last(data)
            data = tuple(data[name] for name in self.names)
        self._tensors = _tensors(data)
        self._data = data
        if self._tensors is None and not (
            hasattr(data, "__len__") and hasattr(data, "__getitem__")
        ):
            raise InvalidParameter(
                "data must be a tuple of tensors (inputs, ..., target), a dictionary of tensors, a "
                "dataset with a length and data[i], or a DataLoader of one, got "
                f"{type(data).__name__}"
            )
        if self._tensors is not None:
            _check_tensors(self._tensors)
        elif len(data):
            self.names = _names_of(data)
        self.n = len(data) if self._tensors is None else len(self._tensors[0])

    @property
    def target(self) -> Tensor | None:
        """All targets, where they are at hand."""
        return None if self._tensors is None or self.names else self._tensors[-1]

    def take(self, indices: NDArray[np.int64], filled: int = 0) -> Rows:
        """Some records, by number; the first is repeated until there are ``filled`` of them."""
        missing = max(0, filled - len(indices))
        if self._tensors is None:
            collated = _collated(self._data, indices, self.names)
            found = (sent(value, self._device) for value in collated)
            *inputs, target = (_filled(value, missing) for value in found)
            return Rows(tuple(inputs), target, self.names)
        rows = _filled(torch.tensor(indices), missing)
        *inputs, target = (self._selected(t, rows) for t in self._tensors)
        return Rows(tuple(inputs), target, self.names)

    def numbers(self, indices: NDArray[np.int64]) -> NDArray[np.int64]:
        """The records that were drawn, by their numbers."""
        return indices

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
    if isinstance(data, tuple | list) and all(isinstance(x, _ARRAYS) for x in data):
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


_ARRAYS = (Tensor, np.ndarray)


def _target_last(record: Mapping[str, Any]) -> tuple[str, ...]:
    names = [str(name) for name in record]
    last = "labels" if "labels" in names else names[-1] if names else ""
    return (*(name for name in names if name != last), last)


def _names_of(data: Any) -> tuple[str, ...]:
    """What the entries of the first record are called, if it is a dictionary once collated."""
    first = np.zeros(1, dtype=np.int64)
    found = data.collated(first) if isinstance(data, Fetched) else data[0]
    return _target_last(found) if isinstance(found, Mapping) else ()


def _collated(data: Any, indices: NDArray[np.int64], names: Sequence[str]) -> Sequence[Tensor]:
    own = isinstance(data, Fetched)
    found = data.collated(indices) if own else default_collate([data[int(i)] for i in indices])
    if names and isinstance(found, Mapping):
        if set(map(str, found)) != set(names):
            raise InvalidParameter("every record of data must have the same entries, got others")
        found = [found[name] for name in names]
    if own and isinstance(found, tuple | list):  # it may be the dataset's own storage
        found = [x.clone() if isinstance(x, Tensor) else x for x in found]
    if not (
        isinstance(found, tuple | list)
        and len(found) >= 2
        and all(isinstance(value, Tensor) for value in found)
    ):
        raise InvalidParameter(
            "a record of data must be a tuple (inputs, ..., target) or a dictionary of tensors or "
            f"numbers, got {_kind_of(found if own else data[int(indices[0])])}"
        )
    return found


def _kind_of(record: Any) -> str:
    """What a record is, without its values."""
    kind = type(record).__name__
    if not isinstance(record, Mapping):
        return kind
    lists = [name for name, value in record.items() if isinstance(value, list | str)]
    if not lists:
        return kind
    return (
        f"{kind} with a {type(record[lists[0]]).__name__} under {lists[0]!r}: tokenise texts, and "
        "make tensors of one length, as dataset.with_format('torch') of Hugging Face datasets or a "
        "collate function does"
    )
