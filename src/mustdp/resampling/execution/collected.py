"""The query vectors as they come in, in whatever order, each share once."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from mustdp.errors import NumericalFailure
from mustdp.numerics.arrays import FloatArray
from mustdp.resampling.execution.shares import Share

#: Called with the releases that are done and with all there are.
Progress = Callable[[int, int], object]


class Collected:
    """Room for all vectors in the order of ranks; a share that comes again changes nothing."""

    def __init__(self, shares: tuple[Share, ...], width: int, progress: Progress | None) -> None:
        self._missing = dict.fromkeys(shares)
        self._total = shares[-1].stop
        self._vectors = np.full((self._total, width), np.nan)
        self._done = 0
        self._progress = progress

    @property
    def missing(self) -> tuple[Share, ...]:
        """The shares that have not come yet, in the order of ranks."""
        return tuple(self._missing)

    def add(self, share: Share, vectors: FloatArray) -> None:
        """Take a share in and report the progress."""
        if share not in self._missing:
            return
        self._vectors[share.start : share.stop] = vectors
        del self._missing[share]
        self._done += share.stop - share.start
        if self._progress is not None:
            self._progress(self._done, self._total)

    def vectors(self) -> FloatArray:
        """All vectors; an error while any share is missing."""
        if self._missing:
            raise NumericalFailure(
                f"{len(self._missing)} shares of the releases were never computed"
            )
        return self._vectors
