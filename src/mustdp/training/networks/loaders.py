"""A ``DataLoader`` as people have it, and the budget that is settled for it in one call.

Of a loader its dataset, batch size, workers and collate function are taken; batches are drawn here.
Shuffled batches have no amplification that could be proved, so that a shuffling loader becomes
random allocation: the same number of batches in an epoch, every record in one of them, uniformly
and independently of all others. It takes the same work, and its price is known exactly.

A collate function of one's own is called for every record alone, so that it cannot mix records.
"""

from __future__ import annotations

import copy
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
    default_collate,
)

from mustdp.errors import InvalidParameter, NotCovered
from mustdp.mechanisms.relation import Relation, resolve_relation
from mustdp.numerics import checks
from mustdp.sampling.epochs import RandomAllocation, random_allocation
from mustdp.training.budget import Budget, settle

_INSTEAD = (
    "; give DataLoader(dataset, batch_size=..., shuffle=True), or the dataset itself with "
    "budget=settle(scheme, ...), whose scheme then draws the batches"
)


class LoaderRedrawn(UserWarning):
    """The batches of a loader are drawn by random allocation in place of its own order.

    Examples
    --------
    >>> import mustdp as md
    >>> issubclass(md.LoaderRedrawn, Warning)
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
            raise InvalidParameter(f"budget must be what settle(...) gives, got {budget!r}")
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
            "budget must be what settle(...) gives, got None; epochs, epsilon and delta take its "
            "place where data is a DataLoader"
        )
    check_loader(data)
    if terms.epochs is None:
        raise InvalidParameter("epochs must be given where there is no budget, got None")
    public = _length(data) if terms.n is None else terms.n
    epoch = allocation_for(data, public)
    relation = resolve_relation(epoch, terms.relation)
    _say(epoch, relation, taken=terms.n is None)
    return settle(
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
            "the dataset of a loader must have a length and dataset[i]: of a stream nobody knows "
            "which records a batch was drawn from"
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
        self._asked = _Asked()
        self._workers = max(1, loader.num_workers)
        # With a generator of its own: torch's global one is left as it was.
        generator = torch.Generator()
        generator.seed()
        self._loader: DataLoader[Any] = DataLoader(
            self.dataset,
            batch_sampler=self._asked,
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
        self._asked.parts = tuple(part.tolist() for part in parts)
        return beside(list(self._loader))


class _Asked:
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
