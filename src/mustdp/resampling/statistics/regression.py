"""Linear regression by noisy sufficient statistics.

The columns x_1, ..., x_p and y, scaled to [-1, 1] by their public ranges, are d = p + 1 columns
whose means, squares (of the x) and products are released. ``moments.py`` proves the joint reach
through |ww' - tt'|_F with w = (1, u), and that the squares can be released at a finer scale for
free. The square of y is not needed and not released. The least-squares coefficients

    slopes = C_xx^{-1} c_xy,      intercept = mean(y) - slopes . mean(x)

are computed from what was released, then brought back to the columns' own units.

**Floor.** Noise can make the centred moment matrix C_xx singular or indefinite. Its eigenvalues,
which are variances in units of the half ranges squared, are raised to ``LEAST_EIGENVALUE`` =
1e-4: the variance of a direction with a standard deviation of one per cent of the half range.
Where that happens (``LinearRegressionQuery.floored`` tells) the coefficients say little, and are
shrunk rather than wild. The floor is fixed in advance and does not look at records.

Coefficients are not linear in the release: read them off the average of the releases, not off each.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from mustdp.numerics.arrays import FloatArray
from mustdp.resampling.statistics.moments import MomentQuery
from mustdp.resampling.statistics.public import Public
from mustdp.resampling.statistics.query import Averaged, Query
from mustdp.resampling.statistics.statistic import Statistic

#: Smallest eigenvalue of the scaled, centred moment matrix that is divided by.
LEAST_EIGENVALUE = 1e-4


@dataclass(frozen=True)
class LinearRegressionQuery(MomentQuery):
    """Moments of the regressors and, as the last column, the response."""

    def estimate(self, vectors: FloatArray) -> FloatArray:
        """Intercept and slopes ``(..., 1 + p)`` in the columns' own units."""
        means, _ = self.moments(vectors)
        spread = self.covariances(vectors)
        values, directions = np.linalg.eigh(spread[..., :-1, :-1])
        along = np.swapaxes(directions, -1, -2) @ spread[..., :-1, -1:]
        along /= np.maximum(values, LEAST_EIGENVALUE)[..., None]
        scaled = (directions @ along)[..., 0]
        mids = np.array([one.mid for one in self.public.ranges])
        halves = np.array([one.half for one in self.public.ranges])
        slopes = scaled * (halves[-1] / halves[:-1])
        centres = mids + halves * means
        intercept = centres[..., -1] - (slopes * centres[..., :-1]).sum(axis=-1)
        return np.concatenate([intercept[..., None], slopes], axis=-1)

    def floored(self, vectors: FloatArray) -> NDArray[np.bool_]:
        """Whether the moment matrix of a released vector had an eigenvalue raised to the floor."""
        smallest = np.linalg.eigvalsh(self.covariances(vectors)[..., :-1, :-1])[..., 0]
        return np.asarray(smallest < LEAST_EIGENVALUE)

    def cautions(self, at: Averaged, grouped: FloatArray) -> tuple[str, ...]:
        """A word where the floor was needed: then the coefficients are shrunk and say little."""
        if not self.floored(at.vector):
            return ()
        return (
            "regression: the regressors' noisy moments were not those of any data, or nearly "
            "without variation, and were raised to a floor; the coefficients say little",
        )


@dataclass(frozen=True)
class LinearRegression(Statistic):
    """Intercept and slopes of the last column on the others; reach in ``moments.py``.

    Parameters
    ----------
    columns : str, int or sequence, default=None
        The columns it reads, by name or position; None means all that are given. The last is the
        response; there are two or more.

    Examples
    --------
    >>> query = LinearRegression().query(Public([0.0, 0.0], [10.0, 2.0], 20))
    >>> query.labels, [block.label for block in query.blocks]
    (('intercept', 'slope 1'), ['means', 'squares', 'products'])
    """

    columns: tuple[str | int, ...] | None = None
    name = "regression"
    fewest = 2
    most = None

    def labelled(self, query: Query, names: Sequence[str]) -> Query:
        """Slopes by the names of their columns."""
        if not isinstance(query, LinearRegressionQuery):
            return query
        slopes = (f"slope of {name}" for name in names[:-1])
        return replace(query, labels=("intercept", *slopes))

    def described(self, label: str, columns: Sequence[str]) -> str:
        """A term, and what is regressed on what."""
        return f"{label} in the regression of {columns[-1]} on {', '.join(columns[:-1])}"

    def _on(self, public: Public) -> Query:
        regressors = range(len(public.ranges) - 1)
        labels = ("intercept", *(f"slope {i + 1}" for i in regressors))
        return LinearRegressionQuery(public, tuple(regressors), labels)
