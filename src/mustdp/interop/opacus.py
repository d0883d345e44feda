"""For people who train with Opacus: its runs with our accountant, and our batches with its engine.

A run as it is, with Poisson sampling and certified bounds:

    register()
    engine = PrivacyEngine(accountant="mustdp")

A run that is over: ``account_history([(noise_multiplier, sample_rate, steps), ...])``.

Batches of any scheme instead of Poisson sampling:

    loader = multiset_loader(dataset, scheme)                       # instead of DataLoader(...)
    engine = PrivacyEngine(accountant=charged_to(loader))           # instead of PrivacyEngine()
    model, optimizer, loader = engine.make_private(..., data_loader=loader, poisson_sampling=False)

``poisson_sampling=False`` keeps Opacus from replacing the loader; without it the accountant refuses
the first step. A record that was drawn twice is in the batch twice, as Opacus knows no counts.
Opacus divides by ``int(n / len(loader))``, a constant near the batch size; where n is no multiple
of the batch size, ``optimizer.expected_batch_size`` sets it right.

With ``md.random_allocation(n, bins)`` a pass over the loader is one epoch, charged as a whole. A
pass that was left early must be the last one: the batches that follow would be those of another
epoch, which no count of steps could tell.

What is charged is the mechanism in real numbers. Clipping, sums and noise are Opacus's own, in
floating point: nothing here speaks for their last bits (docs/security.md).
"""

from __future__ import annotations

import json
import math
import os
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from typing import Any, NoReturn

from opacus.accountants import IAccountant
from opacus.accountants.registry import register_accountant
from torch.utils.data import DataLoader, Sampler, default_collate

from mustdp.accounting.account import account
from mustdp.accounting.bounds import Bounds
from mustdp.accounting.plan import Plan, repeat, sequence, steps_of, subsample
from mustdp.calibration.budget import check_runs
from mustdp.errors import InvalidParameter, NotCovered, NumericalFailure
from mustdp.limits import MOST_STEPS
from mustdp.mechanisms.mechanism import gaussian
from mustdp.mechanisms.relation import Relation, resolve_relation
from mustdp.numerics import checks
from mustdp.randomness.keys import release_key
from mustdp.sampling.epochs import Epoch, Sampling, shuffle
from mustdp.sampling.schemes import BatchStream, poisson

__all__ = [
    "RunHistory",
    "account_history",
    "charged_to",
    "multiset_loader",
    "register",
]

#: Steps of several threads are charged one after the other.
_charging = threading.Lock()


class MultisetSampler(Sampler[list[int]]):  # type: ignore[misc, unused-ignore]
    """Batches for a ``DataLoader``: the numbers of the records drawn, copies repeated.

    A pass is about n / m batches, or one epoch. The next one goes on where the last one ended, or
    begins the next epoch; no batch comes twice. Where a loop ends early, batches drawn ahead of it
    are dropped, which is harmless.
    """

    def __init__(self, scheme: Sampling, *, seed: int | None = None) -> None:
        checks.real("expected size of the scheme", scheme.expected_size, above=0)
        self.scheme = scheme
        self._batches = BatchStream(scheme, release_key(seed, name="seed"))
        self._next, self._process, self._counting = 0, os.getpid(), threading.Lock()
        #: How many batches have been drawn so far, how many of them a step was made of, and how
        #: many passes were begun.
        self.drawn = self.used = self.passes = 0

    def __len__(self) -> int:
        if isinstance(self.scheme, Epoch):
            return self.scheme.bins
        return max(1, round(self.scheme.n / self.scheme.expected_size))

    def __iter__(self) -> Iterator[list[int]]:
        with self._counting:
            self.passes += 1
            if isinstance(self.scheme, Epoch):
                self._next = -(-self._next // len(self)) * len(self)
        for _ in range(len(self)):
            yield self._one_more()

    def _one_more(self) -> list[int]:
        """The next batch, which no other pass, thread or process is given."""
        if os.getpid() != self._process:
            raise InvalidParameter(
                "batches must be drawn in the process that made the loader: in two, the same ones "
                "would be drawn"
            )
        with self._counting:
            number, self._next = self._next, self._next + 1
            self.drawn += 1
            found: list[int] = self._batches.batch(number).rows().tolist()
            return found

    def use(self) -> bool:
        """Whether there is a batch that no step was made of yet; there is one fewer then."""
        with self._counting:
            self.used += 1
            return self.used <= self.drawn

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        raise InvalidParameter(
            "the sampler of a loader must not be copied or pickled: the copy would draw the same "
            "batches again; multiset_loader makes another"
        )


def multiset_loader(
    dataset: Any, scheme: Sampling, *, seed: int | None = None, **options: Any
) -> DataLoader[Any]:
    """A ``DataLoader`` whose batches are draws of a scheme.

    Empty batches, which Poisson sampling and random allocation have, are tensors without rows.

    Parameters
    ----------
    dataset : Dataset
        The records, with a length and ``dataset[i]``.
    scheme : Scheme or Epoch
        How batches are drawn.
    seed : int, default=None
        Repeats the batches, for experiments; None takes fresh entropy.
    **options
        What else torch's ``DataLoader`` takes.

    Returns
    -------
    torch.utils.data.DataLoader
        To be given to Opacus with ``poisson_sampling=False``.

    Raises
    ------
    InvalidParameter
        The dataset has not the records that the scheme draws from.

    Examples
    --------
    >>> import mustdp as md
    >>> import torch
    >>> from mustdp.interop import opacus
    >>> data = torch.utils.data.TensorDataset(torch.randn(50, 2))
    >>> [batch] = next(iter(opacus.multiset_loader(data, md.must_ow(50, 10, 5))))
    >>> tuple(batch.shape)
    (5, 2)
    """
    if len(dataset) != scheme.n:
        raise InvalidParameter(
            f"dataset must have the n = {scheme.n} records the scheme draws from, got "
            f"{len(dataset)}"
        )
    collate = _EmptyToo(dataset, options.pop("collate_fn", None) or default_collate)
    sampler = MultisetSampler(scheme, seed=seed)
    return DataLoader(dataset, batch_sampler=sampler, collate_fn=collate, **options)


class _EmptyToo:
    """A collate function that also takes an empty list."""

    def __init__(self, dataset: Any, collate: Callable[[list[Any]], Any]) -> None:
        self._dataset, self._collate = dataset, collate

    def __call__(self, records: list[Any]) -> Any:
        if records:
            return self._collate(records)
        return _without_rows(self._collate([self._dataset[0]]))


def _without_rows(values: Any) -> Any:
    if isinstance(values, dict):
        return {name: _without_rows(value) for name, value in values.items()}
    if isinstance(values, tuple | list):
        return type(values)(_without_rows(value) for value in values)
    return values[:0]


class _HistoryAccountant(IAccountant):  # type: ignore[misc, unused-ignore]
    """Keeps the history as Opacus does: noise multiplier, sample rate and number of steps."""

    def __init__(self) -> None:
        super().__init__()

    def step(self, *, noise_multiplier: float, sample_rate: float) -> None:
        """Add one step to the history."""
        z = checks.real("noise_multiplier", noise_multiplier, at_least=0)
        last = self.history[-1] if self.history else None
        if last is not None and last[:2] == (z, sample_rate):
            self.history[-1] = (z, sample_rate, last[2] + 1)
        else:
            self.history.append((z, sample_rate, 1))

    def __len__(self) -> int:
        return sum(int(steps) for _, _, steps in self.history)


class OpacusAccountant(_HistoryAccountant):
    """Opacus's steps with Poisson sampling under add-remove, charged by mustdp.

    Registered by :func:`register` under the name ``mustdp``. ``get_epsilon`` is the certified
    upper bound; it is infinite where no noise was added.
    """

    @classmethod
    def mechanism(cls) -> str:
        """Name in Opacus's registry."""
        return "mustdp"

    def get_epsilon(self, delta: float, **_: Any) -> float:
        """The upper bound of epsilon at ``delta``; options of other accountants have no meaning."""
        if not self.history:
            return 0.0
        if any(z == 0 for z, _, _ in self.history):
            return math.inf
        try:
            return account_history(self.history, relation="add_remove").poisson(delta).upper
        except NumericalFailure:  # next to no noise: no bound that could be stated as a number
            return math.inf


def register() -> str:
    """Let Opacus use our accountant: ``PrivacyEngine(accountant="mustdp")``.

    ``make_private_with_epsilon`` and ``get_noise_multiplier(accountant="mustdp")`` work as well.

    Returns
    -------
    str
        The accountant's name, "mustdp".

    Examples
    --------
    >>> from mustdp.interop import opacus
    >>> opacus.register()
    'mustdp'
    >>> from opacus.accountants import create_accountant
    >>> accountant = create_accountant("mustdp")
    >>> accountant.step(noise_multiplier=1.1, sample_rate=0.01)
    >>> len(accountant)
    1
    """
    register_accountant("mustdp", OpacusAccountant, force=True)
    return "mustdp"


@dataclass(frozen=True)
class RunHistory:
    """A finished run of Opacus, and what it is worth; made by :func:`account_history`.

    Attributes
    ----------
    steps : tuple of (float, float, int)
        Noise multiplier, sample rate and number of steps, as Opacus keeps them.
    relation : str
        Which data sets are neighbours.
    """

    steps: tuple[tuple[float, float, int], ...]
    relation: str

    def poisson(self, delta: float) -> Bounds:
        """What the run costs if every batch was drawn by Poisson sampling, as Opacus draws.

        Parameters
        ----------
        delta : float
            The delta of the guarantee.

        Returns
        -------
        Bounds
            Bounds of epsilon.
        """
        # The cost depends on the rate alone; the history does not say how many records there are.
        parts = [
            repeat(count, subsample(poisson(1, rate), gaussian(noise_multiplier=z)))
            for z, rate, count in self.steps
        ]
        return account(sequence(*parts), relation=self.relation).epsilon(delta)

    def shuffled(self, delta: float) -> Bounds | None:
        """What the run costs if the loader shuffled instead (``poisson_sampling=False``).

        Parameters
        ----------
        delta : float
            The delta of the guarantee.

        Returns
        -------
        Bounds or None
            Bounds of epsilon; None where a sample rate is not one over a number of batches, or
            changes within an epoch.
        """
        # A record is in one batch of an epoch, whatever the noise of its steps: an epoch must not
        # be taken apart where the noise changes. More noise than the least can be added to what
        # was released, so the least is charged.
        parts: list[Plan] = []
        runs = [(rate, list(same)) for rate, same in groupby(self.steps, itemgetter(1))]
        for place, (rate, same) in enumerate(runs, 1):
            batches, count = round(1 / rate), sum(steps for _, _, steps in same)
            whole = place == len(runs) or count % batches == 0
            if not (abs(batches * rate - 1) < 1e-6 and whole):
                return None
            least = gaussian(noise_multiplier=min(z for z, _, _ in same))
            parts.append(steps_of(shuffle(batches, 1), count, least))
        return account(sequence(*parts), relation=self.relation).epsilon(delta)


def account_history(
    history: Iterable[tuple[float, float, int]], *, relation: str = "add_remove"
) -> RunHistory:
    """Account for a run of Opacus that is over.

    Parameters
    ----------
    history : iterable of (noise_multiplier, sample_rate, steps)
        ``accountant.history`` of any of Opacus's accountants.
    relation : {"add_remove", "replace_one"}, default="add_remove"
        Which data sets are neighbours; Opacus's own accountants speak of add_remove.

    Returns
    -------
    History
        Its ``poisson(delta)`` is what Opacus's sampling costs, its ``shuffled(delta)`` what the
        same run would have cost, had its loader shuffled.

    Raises
    ------
    InvalidParameter
        An entry is not what Opacus writes.

    Examples
    --------
    >>> from mustdp.interop import opacus
    >>> run = opacus.account_history([(1.1, 0.01, 200)])
    >>> print(run.poisson(1e-5))
    0.720 attained, 0.721 certified (add-remove)
    >>> run.shuffled(1e-5).lower > run.poisson(1e-5).upper
    True
    """
    entries = []
    for entry in history:
        if not isinstance(entry, tuple | list) or len(entry) != 3:
            raise InvalidParameter(
                "history must have entries (noise_multiplier, sample_rate, steps), "
                f"got one of type {type(entry).__name__}"
            )
        z, rate, count = entry
        gaussian(noise_multiplier=z)
        entries.append(
            (
                float(z),
                checks.real("sample_rate", rate, above=0, at_most=1),
                checks.integer("steps", count, 1, MOST_STEPS),
            )
        )
    if not entries:
        raise InvalidParameter("history must have at least one entry, got none")
    return RunHistory(
        tuple(entries), checks.choice("relation", relation, ("add_remove", "replace_one"))
    )


class MultisetAccountant(_HistoryAccountant):
    """Charges every step as one draw of a scheme, or every epoch begun, with noise on sums.

    Made by :func:`charged_to`. ``get_epsilon`` is the upper bound under ``relation`` for noise in
    real numbers; that of Opacus is in floating point, which no certificate covers.
    """

    scheme: Sampling
    relation: Relation
    sampler: MultisetSampler | None = None

    def __init__(self) -> None:
        super().__init__()
        self._hooked = 0

    @classmethod
    def mechanism(cls) -> str:
        """Name in Opacus's registry: the scheme and the relation, in full."""
        return f"mustdp {json.dumps(cls.scheme.describe())} {cls.relation}"

    def step(self, *, noise_multiplier: float, sample_rate: float) -> None:
        """Charge one step; the scheme says what was sampled, so ``sample_rate`` is only noted."""
        checks.real("noise_multiplier", noise_multiplier, above=0)
        super().step(noise_multiplier=noise_multiplier, sample_rate=sample_rate)

    def bounds(self, delta: float) -> Bounds:
        """Bounds of epsilon at ``delta`` for all steps so far."""
        if not self.history:
            return Bounds(0.0, 0.0)
        if isinstance(self.scheme, Epoch):
            # More noise than the least can be added to what was released, so the least is charged.
            least = gaussian(noise_multiplier=min(z for z, _, _ in self.history))
            parts = [repeat(-(-len(self) // self.scheme.bins), subsample(self.scheme, least))]
        else:
            parts = [
                repeat(steps, subsample(self.scheme, gaussian(noise_multiplier=z)))
                for z, _, steps in self.history
            ]
        return account(sequence(*parts), relation=self.relation).epsilon(delta)

    def get_epsilon(self, delta: float, **_: Any) -> float:
        """The upper bound of epsilon at ``delta``; Opacus's own options have no meaning here."""
        return self.bounds(delta).upper

    def get_optimizer_hook_fn(self, sample_rate: float) -> Callable[[Any], None]:
        """What Opacus calls at every step, before it updates the model."""

        def charge(optimizer: Any) -> None:
            if optimizer.accumulated_iterations != 1:
                raise NotCovered(
                    "a step on the gradients of several batches is not one draw of the scheme; "
                    "call optimizer.step() after each batch"
                )
            self._hooked += 1
            if self.sampler is not None and not self.sampler.use():
                raise InvalidParameter(
                    "this step was not drawn by the loader that is charged; pass it to "
                    "make_private with poisson_sampling=False and use the loader it returns"
                )
            if isinstance(self.scheme, Epoch):
                self._check_epoch(self.scheme.bins)
            self.step(noise_multiplier=optimizer.noise_multiplier, sample_rate=sample_rate)

        def alone(optimizer: Any) -> None:
            with _charging:
                charge(optimizer)

        return alone

    def _check_epoch(self, bins: int) -> None:
        """Refuse a step that belongs to another epoch than the number of steps says."""
        if self._hooked == 1 and len(self) % bins:
            raise NotCovered(
                "the steps of the accountant end within an epoch, and a new loader begins another; "
                "go on from the end of an epoch"
            )
        if self.sampler is not None and (self._hooked - 1) // bins != self.sampler.passes - 1:
            raise NotCovered(
                "a pass over the loader was left before its end, and another begun: epochs are "
                "charged as a whole, make all of their batches"
            )


def charged_to(loader: DataLoader[Any], *, relation: str | None = None) -> str:
    """Register an accountant for a loader with Opacus.

    Parameters
    ----------
    loader : DataLoader
        What :func:`multiset_loader` gave.
    relation : {"replace_one", "add_remove"}, default=None
        Which data sets are neighbours; None means add_remove where every draw is by Poisson
        sampling or random allocation, and replace_one otherwise.

    Returns
    -------
    str
        The accountant's name, for ``PrivacyEngine(accountant=...)``.

    Examples
    --------
    >>> import mustdp as md
    >>> import torch
    >>> from mustdp.interop import opacus
    >>> data = torch.utils.data.TensorDataset(torch.randn(50, 2))
    >>> name = opacus.charged_to(opacus.multiset_loader(data, md.must_ow(50, 10, 5)))
    >>> name.startswith("mustdp")
    True
    """
    sampler = loader.batch_sampler
    if not isinstance(sampler, MultisetSampler):
        raise InvalidParameter("loader must be one that multiset_loader made")
    scheme = sampler.scheme
    used = resolve_relation(scheme, relation)
    check_runs(scheme, used)
    bound: Any = type(
        "MultisetAccountant",
        (MultisetAccountant,),
        {"scheme": scheme, "relation": used, "sampler": sampler},
    )
    name: str = bound.mechanism()
    register_accountant(name, bound, force=True)
    return name
