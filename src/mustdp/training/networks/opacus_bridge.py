"""For people who train with Opacus: multisets from its data loader, and their true price.

    loader = multiset_loader(dataset, scheme)                       # instead of DataLoader(...)
    engine = PrivacyEngine(accountant=charged_to(loader))           # instead of PrivacyEngine()
    model, optimizer, loader = engine.make_private(..., data_loader=loader, poisson_sampling=False)

``poisson_sampling=False`` keeps Opacus from replacing the loader; without it the accountant refuses
the first step. A record that was drawn twice is in the batch twice, as Opacus knows no counts.
Opacus divides by ``int(n / len(loader))``, a constant near the batch size; where n is no multiple
of the batch size, ``optimizer.expected_batch_size`` sets it right.

What is charged is the mechanism in real numbers. Clipping, sums and noise are Opacus's own, in
floating point: nothing here speaks for their last bits (docs/security.md).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

from opacus.accountants import IAccountant
from opacus.accountants.registry import register_accountant
from torch.utils.data import DataLoader, Sampler, default_collate

from mustdp.accounting.account import account
from mustdp.accounting.bounds import Bounds
from mustdp.accounting.plan import repeat, sequence, subsample
from mustdp.errors import InvalidParameter, NotCovered
from mustdp.mechanisms.mechanism import gaussian
from mustdp.mechanisms.relation import Relation, resolve_relation
from mustdp.numerics import checks
from mustdp.randomness.keys import release_key
from mustdp.sampling.scheme import Scheme


class MultisetSampler(Sampler[list[int]]):  # type: ignore[misc, unused-ignore]
    """Batches for a ``DataLoader``: the numbers of the records drawn, copies repeated.

    An epoch is about n / m batches. The next epoch goes on where the last one ended; no batch comes
    twice. Where a loop ends early, batches drawn ahead of it are dropped, which is harmless.
    """

    def __init__(self, scheme: Scheme, *, seed: int | None = None) -> None:
        if not isinstance(scheme, Scheme):
            raise NotCovered(
                "Opacus drops batches that were loaded ahead, which leaves gaps in an epoch; use a "
                "scheme that draws batch by batch, such as poisson"
            )
        checks.real("expected size of the scheme", scheme.expected_size, above=0)
        self.scheme = scheme
        self._batches = scheme.batches(release_key(seed, name="seed"))

    @property
    def drawn(self) -> int:
        """How many batches have been drawn so far."""
        return self._batches.position

    def __len__(self) -> int:
        return max(1, round(self.scheme.n / self.scheme.expected_size))

    def __iter__(self) -> Iterator[list[int]]:
        for _ in range(len(self)):
            yield next(self._batches).rows().tolist()


def multiset_loader(
    dataset: Any, scheme: Scheme, *, seed: int | None = None, **options: Any
) -> DataLoader[Any]:
    """A ``DataLoader`` whose batches are draws of ``scheme``; ``options`` go to torch.

    Empty batches, which Poisson sampling has, come out as tensors without rows.
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


class MultisetAccountant(IAccountant):  # type: ignore[misc, unused-ignore]
    """Charges every step as one draw of a scheme with Gaussian noise on a sum.

    Made by :func:`charged_to`. ``get_epsilon`` is the upper bound under ``relation`` for noise in
    real numbers; that of Opacus is in floating point, which no certificate covers.
    """

    scheme: Scheme
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
        z = checks.real("noise_multiplier", noise_multiplier, above=0)
        last = self.history[-1] if self.history else None
        if last is not None and last[:2] == (z, sample_rate):
            self.history[-1] = (z, sample_rate, last[2] + 1)
        else:
            self.history.append((z, sample_rate, 1))

    def bounds(self, delta: float) -> Bounds:
        """Bounds of epsilon at ``delta`` for all steps so far."""
        parts = [
            repeat(steps, subsample(self.scheme, gaussian(noise_multiplier=z)))
            for z, _, steps in self.history
        ]
        if not parts:
            return Bounds(0.0, 0.0)
        return account(sequence(*parts), relation=self.relation).epsilon(delta)

    def get_epsilon(self, delta: float, **_: Any) -> float:
        """The upper bound of epsilon at ``delta``; Opacus's own options have no meaning here."""
        return self.bounds(delta).upper

    def __len__(self) -> int:
        return sum(int(steps) for _, _, steps in self.history)

    def get_optimizer_hook_fn(self, sample_rate: float) -> Callable[[Any], None]:
        """What Opacus calls at every step, before it updates the model."""

        def charge(optimizer: Any) -> None:
            if optimizer.accumulated_iterations != 1:
                raise NotCovered(
                    "a step on the gradients of several batches is not one draw of the scheme; "
                    "call optimizer.step() after each batch"
                )
            self._hooked += 1
            if self.sampler is not None and self._hooked > self.sampler.drawn:
                raise InvalidParameter(
                    "this step was not drawn by the loader that is charged; pass it to "
                    "make_private with poisson_sampling=False and use the loader it returns"
                )
            self.step(noise_multiplier=optimizer.noise_multiplier, sample_rate=sample_rate)

        return charge


def charged_to(loader: DataLoader[Any], *, relation: str | None = None) -> str:
    """Register an accountant for this loader with Opacus and return its name there."""
    sampler = loader.batch_sampler
    if not isinstance(sampler, MultisetSampler):
        raise InvalidParameter("loader must be one that multiset_loader made")
    scheme = sampler.scheme
    bound: Any = type(
        "MultisetAccountant",
        (MultisetAccountant,),
        {"scheme": scheme, "relation": resolve_relation(scheme, relation), "sampler": sampler},
    )
    name: str = bound.mechanism()
    register_accountant(name, bound, force=True)
    return name
