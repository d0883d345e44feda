"""Several rows for one contribution: views of a record, records of a user.

The protected unit is what the scheme draws: a record, or with ``units`` a user. Its contribution is
made of a fixed number of *slots*, rows that pass through the model and whose gradients are added
up, each times a weight, before anything is clipped. For K views of a record every weight is 1/K.
The records of a user fill at most ``most`` slots, and slots without a record have weight 0. The
number of slots is public and the same for all: shapes, rounding bounds and places in a piece do not
depend on anybody's data.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mustdp.errors import InvalidParameter, MustdpError
from mustdp.numerics import checks
from mustdp.training.networks.devices import sent
from mustdp.training.networks.loaders import Rows, TrainingRecords


@dataclass(frozen=True, eq=False)
class Units:
    """Who each record belongs to, where users and not records are protected.

    Attributes
    ----------
    ids : array_like
        One for each record: records with the same one belong together.
    most : int, default=8
        How many records of a user count in one step; of more, that many are drawn anew each time.
        It is public: choose it without looking at the data.
    combine : {"mean", "sum"}, default="mean"
        Whether the gradients of a user's records are averaged or added up before they are clipped.

    Examples
    --------
    >>> import mustdp as md
    >>> md.types.Units(ids=["ann", "bob", "ann"], most=2).combine
    'mean'
    """

    ids: Any
    most: int = 8
    combine: str = "mean"

    def __post_init__(self) -> None:
        checks.integer("most", self.most, 1, 4096)
        checks.choice("combine", self.combine, ("mean", "sum"))


class UnitRecords:
    """The records of every user, by the user's number."""

    def __init__(self, records: TrainingRecords, units: Units) -> None:
        ids = np.asarray(units.ids)
        if ids.shape != (records.n,):
            raise InvalidParameter(
                "units must have one id for each record, in one dimension, got another number"
            )
        _, owners, counts = np.unique(ids, return_inverse=True, return_counts=True)
        self._records, self._units = records, units
        self._owned = np.split(np.argsort(owners, kind="stable"), np.cumsum(counts)[:-1])
        self._owners = owners
        self.n, self.slots = len(counts), units.most

    def take(self, indices: NDArray[np.int64], filled: int = 0) -> Rows:
        """The slots of some users; the first user is repeated until there are ``filled``."""
        numbers = np.empty((len(indices), self.slots), dtype=np.int64)
        weights = torch.zeros(len(indices), self.slots)
        for row, user in enumerate(indices):
            owned = self._owned[int(user)]
            if len(owned) > self.slots:  # by torch's generator, which the step has seeded
                owned = owned[torch.randperm(len(owned))[: self.slots].numpy()]
            numbers[row], numbers[row, : len(owned)] = owned[0], owned
            weights[row, : len(owned)] = 1.0 if self._units.combine == "sum" else 1.0 / len(owned)
        missing = max(0, filled - len(indices))
        numbers = np.concatenate([numbers, np.repeat(numbers[:1], missing, 0)])
        weights = torch.cat([weights, weights[:1].expand(missing, -1)])
        found = self._records.take(numbers.ravel())
        split = found.changed(lambda x: torch.unflatten(x, 0, (-1, self.slots)))
        return replace(split, weights=sent(weights, found.target.device))

    def numbers(self, indices: NDArray[np.int64]) -> NDArray[np.int64]:
        """A record of each of some users."""
        return np.array([self._owned[int(user)][0] for user in indices], dtype=np.int64)

    def fingerprint(self) -> str:
        """As that of the records, with who owns them."""
        owners = hashlib.sha256(self._owners.tobytes()).hexdigest()
        return f"{self._records.fingerprint()} {owners}"


class Slots:
    """The rows that pass through the model for each unit: its records times their views."""

    def __init__(self, views: Views | None = None, records: int = 1) -> None:
        self._views = views
        self.number = records * (1 if views is None else views.number)

    def filled(self, rows: Rows) -> Rows:
        """The slots of units that were fetched."""
        return rows if self._views is None else self._views.of(rows)

    def plain(self, rows: Rows) -> Rows:
        """Slots of the same shape for single records: each is repeated in them."""
        if self.number == 1 or rows.weights is not None:
            return rows
        weights = torch.full((len(rows.target), self.number), 1.0 / self.number)
        found = rows.changed(lambda x: x[:, None].repeat(1, self.number, *([1] * (x.ndim - 1))))
        return replace(found, weights=weights.to(rows.target.device))


#: From the inputs of one record to those of a view of it.
Augment = Callable[..., Any]
#: Copies of a record that are augmented side by side, to see whether places differ.
_COPIES = 67


class Views:
    """Augmented views of every record, each made from that record alone.

    ``augment`` is called under ``torch.func.vmap`` where it can be and copies of a record come out
    the same at every place; otherwise it is called for one record after another. It is refused
    where records that are not numbers spoil the views of those that come after them. What remembers
    others in a way that hides from this is not found.
    """

    def __init__(self, augment: Augment | None, views: int, records: TrainingRecords) -> None:
        self.number = checks.integer("views", views, 1, 4096)
        if augment is None and self.number > 1:
            raise InvalidParameter(
                f"augment must be given where views is above 1, got views={self.number}"
            )
        if augment is not None and not callable(augment):
            raise InvalidParameter(f"augment must be callable, got {type(augment).__name__}")
        self._augment, self._mapped = augment, False
        if augment is not None:
            copies = records.take(np.zeros(_COPIES, dtype=np.int64))
            self._mapped = self._maps(copies)
            if self._remembers(copies):
                raise InvalidParameter.refusing(
                    "augment", "must look at one record alone", "one that remembers others"
                )

    def once(self, rows: Rows) -> Rows:
        """One view of each of some records."""
        return rows if self._augment is None else self._augmented(rows, "different")

    def of(self, rows: Rows) -> Rows:
        """All views of each of some records, or of the records of each of some units."""
        if self._augment is None:
            return rows
        weights = rows.weights
        if weights is None:
            weights = torch.ones(len(rows.target), 1, device=rows.target.device)
        found = self.once(rows.joined().changed(lambda x: x.repeat_interleave(self.number, 0)))
        slots = weights.shape[1] * self.number
        found = found.changed(lambda x: torch.unflatten(x, 0, (-1, slots)))
        return replace(found, weights=(weights / self.number).repeat_interleave(self.number, 1))

    def _augmented(self, rows: Rows, randomness: str) -> Rows:
        if self._mapped:
            mapped = torch.func.vmap(self._one(rows), randomness=randomness)
            return replace(rows, inputs=tuple(mapped(*rows.inputs)))
        one = self._one(rows)
        found = [one(*(x.clone() for x in record)) for record in zip(*rows.inputs, strict=True)]
        try:
            return replace(rows, inputs=tuple(torch.stack(x) for x in zip(*found, strict=True)))
        except (RuntimeError, ValueError):
            raise InvalidParameter(
                "augment must return tensors of the same shapes for every record"
            ) from None

    def _one(self, rows: Rows) -> Callable[..., tuple[Tensor, ...]]:
        """``augment`` on the inputs of one record, in their order."""
        names, augment = rows.names[:-1], self._augment

        def one(*inputs: Tensor) -> tuple[Tensor, ...]:
            if augment is None:
                return inputs
            if names:
                given = augment(dict(zip(names, inputs, strict=True)))
                found: Sequence[Any] = [given[name] for name in names]
            else:
                given = augment(*inputs)
                found = given if isinstance(given, tuple | list) else (given,)
            if len(found) != len(inputs) or not all(isinstance(x, Tensor) for x in found):
                raise InvalidParameter(
                    f"augment must return as many tensors as it is given, {len(inputs)}, got "
                    f"{len(found)} values"
                )
            return tuple(found)

        return one

    def _remembers(self, copies: Rows) -> bool:
        """Whether a record of no numbers is seen in the views of others after it."""
        spoiled = copies.changed(
            lambda x: torch.full_like(x, torch.nan) if x.is_floating_point() else x
        )
        try:
            before = self._augmented(copies, "different")
        except RuntimeError:  # it may have met what it remembers from inside vmap
            before = self._augmented(copies, "different")
        try:
            self._augmented(spoiled, "different")
        except Exception:  # it does not take such numbers: nothing is known
            return False
        after = self._augmented(copies, "different")
        return any(
            bool(y.isnan().any()) and not bool(x.isnan().any())
            for x, y in zip(before.inputs, after.inputs, strict=True)
            if y.is_floating_point()
        )

    def _maps(self, copies: Rows) -> bool:
        self._mapped = True
        try:
            self._augmented(copies, "different")
            found = self._augmented(copies, "same")
        except MustdpError:
            raise
        except Exception:  # whatever vmap does not take is called record by record
            return False
        return all(torch.equal(x, x[:1].expand_as(x)) for x in found.inputs)
