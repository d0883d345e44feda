"""Linear regression of the last column on the others, by its noisy normal equations."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from mustdp.numerics.arrays import FloatArray
from mustdp.releasing.statistics.curved import At, Curved, covariances
from mustdp.releasing.uncertainty import CLEARLY, FEW, Judged, Reading, everything, symmetric

#: Smallest eigenvalue of the scaled, centred moments that is divided by.
_FLOOR = 1e-4
SINGULAR = "the noise leaves open whether the regressors vary apart: any coefficient is possible"


@dataclass(frozen=True)
class Regression(Curved):
    """Intercept and slopes; errors are those of White (1980), with no law for the residuals."""

    @property
    def name(self) -> str:
        """In results."""
        return "regression"

    @property
    def cells(self) -> tuple[str, ...]:
        """The terms: the intercept and the columns' names."""
        return ("intercept", *(self.ground.columns[k].name for k in self.columns[:-1]))

    def describe(self, cell: str) -> str:
        """Which coefficient."""
        others = ", ".join(self.said(k) for k in self.columns[:-1])
        term = cell if cell == "intercept" else f"slope of {cell}"
        return f"{term} in the regression of {self.said(self.columns[-1])} on {others}"

    def theta(self, means: FloatArray) -> FloatArray:
        """Intercept and slopes ``(..., 1 + p)`` in the columns' own units."""
        spread = covariances(self.part, means)
        values, directions = np.linalg.eigh(spread[..., :-1, :-1])
        along = np.swapaxes(directions, -1, -2) @ spread[..., :-1, -1:]
        along /= np.maximum(values, _FLOOR)[..., None]
        scaled = (directions @ along)[..., 0]
        mids, halves = self.part.mids, self.part.halves
        slopes = scaled * (halves[-1] / halves[:-1])
        centres = mids + halves * means[..., : self.part.count]
        intercept = centres[..., -1] - (slopes * centres[..., :-1]).sum(axis=-1)
        return np.concatenate([intercept[..., None], slopes], axis=-1)

    def reading(self, cell: int, at: At, value: float, judge: Judged, level: float) -> Reading:
        """Nothing is known where the smallest eigenvalue is below three of its errors."""
        anything = (-math.inf, math.inf)
        if not at.sure:
            return everything(anything, FEW)
        if not self._apart(at):
            return everything(anything, SINGULAR)
        return symmetric(value, judge, level)

    def _apart(self, at: At) -> bool:
        values, directions = np.linalg.eigh(covariances(self.part, at.means)[:-1, :-1])
        least, along = float(values[0]), directions[:, 0]
        d, (rows, columns) = self.part.count, self.part.pairs
        full = np.append(along, 0.0)
        slope = np.concatenate(
            [-2.0 * full * (full @ at.means[:d]), full**2, 2.0 * full[rows] * full[columns]]
        )
        error = math.sqrt(max(float(slope @ at.noise @ slope), 0.0))
        return least > max(CLEARLY * error, _FLOOR)
