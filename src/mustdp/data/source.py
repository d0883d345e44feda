"""A source of records: how many there are, which columns are read, and some of the rows on demand.

Every kind of data is one subclass. Sources are checked when they are made and do not change
afterwards; they can be pickled and sent to other processes. Sources on files travel as paths.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from mustdp.errors import InvalidParameter
from mustdp.numerics.arrays import FloatArray, IntArray
from mustdp.numerics.checks import frozen


class Source(ABC):
    """Records as rows of finite double-precision numbers, read where they are needed."""

    #: Number of records, at least 1.
    n: int
    #: Names of the selected columns, in the order of ``take``; unnamed ones by position.
    columns: tuple[str, ...]
    #: Whether ``take`` is a matter of memory alone, or reads a file every time.
    rows_in_memory: ClassVar[bool]

    def take(self, indices: ArrayLike) -> FloatArray:
        """The rows with these numbers, in this order.

        A source that reads files every time reads each file once per call, so that the rows of
        several subsets are cheaper in one call.

        Parameters
        ----------
        indices : array_like of int
            Numbers of records, from 0 to n - 1.

        Returns
        -------
        ndarray
            ``(len(indices), columns)``.
        """
        return self._read(self._checked(indices))

    @abstractmethod
    def _read(self, indices: IntArray) -> FloatArray:
        """The rows of ``indices``, which have been checked."""

    def _checked(self, indices: ArrayLike) -> IntArray:
        given = np.asarray(indices)
        if given.ndim != 1 or (given.dtype.kind not in "iu" and given.size):
            raise InvalidParameter(
                f"indices must be a one-dimensional array of integers, "
                f"got {given.ndim} dimensions of {given.dtype}"
            )
        if given.size and not (given.min() >= 0 and given.max() < self.n):
            raise InvalidParameter(f"indices must be from 0 to {self.n - 1}, got others")
        return given.astype(np.int64, copy=False)


@dataclass(frozen=True, eq=False, repr=False)
class ArraySource(Source):
    """Rows of an array ``(n, columns)`` that has been checked; seen read-only, not copied."""

    rows_in_memory: ClassVar[bool] = True

    values: FloatArray
    columns: tuple[str, ...]
    n: int = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "values", frozen(self.values.view()))
        object.__setattr__(self, "n", len(self.values))

    def _read(self, indices: IntArray) -> FloatArray:
        return self.values.take(indices, axis=0)
