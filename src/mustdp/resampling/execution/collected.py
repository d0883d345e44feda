"""The totals as they come in, in whatever order, each portion once."""

from __future__ import annotations

import numpy as np

from mustdp.errors import NumericalFailure
from mustdp.numerics.arrays import FloatArray
from mustdp.progress import Progress
from mustdp.resampling.execution.portions import Portion


class Collected:
    """Room for all totals in the order of ranks; a portion that comes again changes nothing."""

    def __init__(
        self, portions: tuple[Portion, ...], width: int, progress: Progress | None
    ) -> None:
        self._missing = dict.fromkeys(portions)
        self._releases = portions[-1].stop
        self._totals = np.full((self._releases, width), np.nan)
        self._done = 0
        self._progress = progress

    @property
    def missing(self) -> tuple[Portion, ...]:
        """The portions that have not come yet, in the order of ranks."""
        return tuple(self._missing)

    def add(self, portion: Portion, totals: FloatArray) -> None:
        """Take a portion in and report the progress."""
        if portion not in self._missing:
            return
        self._totals[portion.start : portion.stop] = totals
        del self._missing[portion]
        self._done += portion.stop - portion.start
        if self._progress is not None:
            self._progress("releases", self._done, self._releases)

    def totals(self) -> FloatArray:
        """All totals; an error while any portion is missing."""
        if self._missing:
            raise NumericalFailure(
                f"{len(self._missing)} portions of the releases were never computed"
            )
        return self._totals
