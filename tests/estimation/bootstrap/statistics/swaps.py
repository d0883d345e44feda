"""Brute force: what swapping or adding one entry does to a query, in units of its radii."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from mustdp.estimation.queries import JointQuery, Query
from mustdp.estimation.schema import SubsetSchema
from mustdp.estimation.statistics.statistic import Statistic
from mustdp.types import (
    Correlation,
    Covariance,
    LinearRegression,
    Mean,
    Median,
    Proportion,
    Quantile,
    StandardDeviation,
    Variance,
)

FloatArray = NDArray[np.float64]

LOWER, UPPER = (-3.0, 10.0, 0.0), (5.0, 10.5, 200.0)


@dataclass(frozen=True)
class Case:
    """A statistic on the first ``columns`` ranges above, and whether its joint radius is exact."""

    statistic: Statistic
    columns: int = 1
    exact: bool = True

    def query(self, size: float, poisson: bool = False) -> Query:
        lower, upper = LOWER[: self.columns], UPPER[: self.columns]
        return self.statistic.query(SubsetSchema(lower, upper, size, poisson=poisson))

    def points(self, levels: int) -> FloatArray:
        """Records on a grid of so many levels in every column, corners included."""
        axes = [np.linspace(LOWER[i], UPPER[i], levels) for i in range(self.columns)]
        return np.array(list(itertools.product(*axes)))


CASES = {
    "mean": Case(Mean(squares=False)),
    "mean with squares": Case(Mean()),
    "proportion": Case(Proportion(above=0.0, at_most=2.0)),
    "variance": Case(Variance(form="pairs")),
    "variance by moments": Case(Variance(form="moments")),
    "sd": Case(StandardDeviation(form="pairs")),
    "median": Case(Median(grid=7)),
    "quantile": Case(Quantile(0.9, grid=(-2.0, 0.0, 4.5))),
    "covariance": Case(Covariance(form="pairs"), 2),
    "covariance by moments": Case(Covariance(form="moments"), 2, exact=False),
    "correlation": Case(Correlation(form="pairs"), 2),
    "correlation by moments": Case(Correlation(form="moments"), 2, exact=False),
    "regression on one": Case(LinearRegression(), 2, exact=False),
    "regression on two": Case(LinearRegression(), 3),
}


def joint(size: int, weights: Sequence[float] | None = None) -> JointQuery:
    """Mean and variance of the first column, correlation of the first and the third."""
    queries = (
        Mean(squares=False).query(SubsetSchema(LOWER[:1], UPPER[:1], size)),
        Variance(form="pairs").query(SubsetSchema(LOWER[:1], UPPER[:1], size)),
        Correlation(form="pairs").query(SubsetSchema(LOWER[::2], UPPER[::2], size)),
    )
    given = None if weights is None else tuple(weights)
    return JointQuery(queries, ((0,), (0,), (0, 2)), given)


def moved(query: Query, change: FloatArray, *, copies: int) -> float:
    """Sum of (change / (copies * radius))^2 over blocks; copies is 2 for a swap, 1 for one more.

    The contract of a release with noise multiplier z is that this is at most 1.
    """
    total, start = 0.0, 0
    for block in query.blocks:
        part = change[start : start + block.width]
        total += float(part @ part) / (copies * block.radius) ** 2
        start += block.width
    return total


def worst_swap(query: Query, points: FloatArray, size: int) -> float:
    """The largest ``moved`` over all multisets of points and all swaps of one entry."""
    vectors = {}
    ones = np.ones(size, dtype=np.int64)
    for rows in itertools.combinations_with_replacement(range(len(points)), size):
        vectors[rows] = query.evaluate(points[list(rows)], ones)
    worst = 0.0
    for others in itertools.combinations_with_replacement(range(len(points)), size - 1):
        ends = [vectors[tuple(sorted((*others, i)))] for i in range(len(points))]
        for one, other in itertools.combinations(ends, 2):
            worst = max(worst, moved(query, one - other, copies=2))
    return worst


def worst_addition(query: Query, points: FloatArray) -> float:
    """The largest ``moved`` over all points added to a Poisson subset."""
    few = points[:2]
    before = query.evaluate(few, np.ones(2, dtype=np.int64))
    ones = np.ones(3, dtype=np.int64)
    return max(
        moved(query, query.evaluate(np.vstack([few, one]), ones) - before, copies=1)
        for one in points
    )


def with_reaches_times(query: Query, factor: float) -> Query:
    """The same query, claiming other radii."""
    other = copy.copy(query)
    blocks = tuple(replace(block, radius=factor * block.radius) for block in query.blocks)
    object.__setattr__(other, "blocks", blocks)
    return other
