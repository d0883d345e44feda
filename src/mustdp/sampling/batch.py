"""One draw: distinct record indices and how often each was drawn."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from mustdp.errors import InvalidParameter
from mustdp.numerics.arrays import IntArray
from mustdp.numerics.checks import frozen


@dataclass(frozen=True, eq=False, slots=True)
class Batch:
    """A multiset of records.

    The order of the indices carries no meaning, and batches that differ only in it are equal. An
    empty batch is a valid batch. The arrays are read-only copies of what was given.

    Parameters
    ----------
    indices : array_like of int
        The records drawn, each once, by their numbers from 0 on.
    counts : array_like of int
        How often each was drawn, at least once.

    Raises
    ------
    InvalidParameter
        The indices are not distinct, or the counts are not as many.

    Examples
    --------
    >>> Batch([7, 2], [1, 3]).rows()
    array([7, 2, 2, 2])
    """

    indices: IntArray
    counts: IntArray

    def __post_init__(self) -> None:
        indices = _integers("indices", self.indices, 0)
        counts = _integers("counts", self.counts, 1)
        if counts.size != indices.size:
            raise InvalidParameter(
                f"counts must hold one entry for each of the {indices.size} indices, "
                f"got {counts.size}"
            )
        if np.unique(indices).size != indices.size:
            raise InvalidParameter("indices must be distinct, got some more than once")
        object.__setattr__(self, "indices", frozen(indices))
        object.__setattr__(self, "counts", frozen(counts))

    @property
    def size(self) -> int:
        """Number of draws, copies counted: the sum of the counts."""
        return int(self.counts.sum())

    @property
    def distinct(self) -> int:
        """Number of distinct records."""
        return int(self.indices.size)

    def rows(self) -> IntArray:
        """The multiset written out: every index as often as it was drawn.

        Returns
        -------
        ndarray of int
            One entry for every draw, ``size`` of them.
        """
        return np.repeat(self.indices, self.counts)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Batch):
            return NotImplemented
        mine, theirs = np.argsort(self.indices), np.argsort(other.indices)
        return np.array_equal(self.indices[mine], other.indices[theirs]) and np.array_equal(
            self.counts[mine], other.counts[theirs]
        )

    __hash__ = None  # type: ignore[assignment]

    def __reduce__(self) -> tuple[Callable[..., Batch], tuple[Any, ...]]:
        # Arrays come out of a pickle writable; this way a batch stays frozen on its way.
        return drawn, (self.indices, self.counts)


def drawn(indices: IntArray, counts: IntArray) -> Batch:
    """Wrap fresh arrays that are known to be a batch: no copy, no check."""
    batch = object.__new__(Batch)
    object.__setattr__(batch, "indices", frozen(indices))
    object.__setattr__(batch, "counts", frozen(counts))
    return batch


def _integers(name: str, values: object, least: int) -> IntArray:
    allowed = f"{name} must be a one-dimensional list of integers >= {least}"
    try:
        array = np.asarray(values)
    except ValueError:
        raise InvalidParameter(f"{allowed}, got {values!r}") from None
    if array.ndim != 1 or not (array.dtype.kind in "iu" or array.size == 0):
        raise InvalidParameter(f"{allowed}, got {values!r}")
    if array.size and array.min() < least:
        raise InvalidParameter(f"{allowed}, got {int(array.min())} among them")
    if array.size and array.max() > np.iinfo(np.int64).max:
        raise InvalidParameter(f"{allowed} and below 2**63, got {int(array.max())} among them")
    return np.array(array, dtype=np.int64)
