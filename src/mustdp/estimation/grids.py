"""Grids of quantiles chosen by public sizes of groups, before any data are read.

The noise of a distribution function on K grid points grows with the logarithm of K, and an interval
is never finer than the grid: small groups need few points, large ones many. For every size of a
group and some numbers of even points, releases of made-up records are simulated, with what is
public: the range, the budget and the size. Values are normal with a sixth of the range as their
standard deviation, around places from a quarter to three quarters of it; the widths of all
intervals are averaged on the logarithmic scale. Every group gets the grid with the narrowest
interval; groupings that are made to agree share one. Wrong sizes, or values that are otherwise
distributed, make intervals wider, never invalid.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache

import numpy as np
from scipy.special import ndtr

from mustdp.errors import InvalidParameter
from mustdp.estimation.queries import JointSums
from mustdp.estimation.schema import Column, PublicSchema
from mustdp.estimation.statistics.quantiles import (
    BY_SIZES,
    Quantile,
    QuantileCurve,
    ReleasedQuantile,
    grid_for,
    simulated_interval,
)
from mustdp.estimation.statistics.statistic import Statistic
from mustdp.numerics.arrays import FloatArray

#: Numbers of even points that are tried, besides the default grid.
_POINTS = (1, 2, 3, 4, 5, 6, 8, 10, 12, 15, 18, 22, 27, 32, 48, 64, 128)
#: Where values may lie, and how widely, in parts of the range.
_PLACES, _SPREAD = tuple(0.25 + 0.5 * (k + 0.5) / 45 for k in range(45)), 1.0 / 6.0
#: Sizes are rounded to steps of 10 %.
_STEP = math.log(1.1)


def with_grids(
    schema: PublicSchema,
    asked: Sequence[Statistic],
    noise_multiplier: float,
    level: float,
    find: Sequence[str] = (),
) -> PublicSchema:
    """The schema with grids of the columns whose quantiles leave them to the sizes of groups.

    ``noise_multiplier`` is that of the part of the budget that such a column has, ``find`` names
    the columns whose ranges are not known yet.
    """
    names = [column.name for column in schema.columns]
    wanted: dict[int, list[float]] = {}
    for one in asked:
        if isinstance(one, Quantile) and one.by_sizes:
            for k in one.positions(names):
                wanted.setdefault(k, []).append(one.p)
    if not wanted:
        return schema
    grouping = schema.grouping
    sought = {*find} & {names[k] for k in wanted}
    if grouping is None or not grouping.expected or schema.shares or sought:
        raise InvalidParameter.refusing(
            "statistic",
            "must have another grid without sizes of groups, with strata, and where the range is "
            "to be found",
            repr(BY_SIZES),
        )
    columns = list(schema.columns)
    for k, shares in wanted.items():
        grids = _narrowest(schema, k, shares, noise_multiplier, level)
        columns[k] = replace(columns[k], grids=grids)
    return replace(schema, columns=tuple(columns))


def _candidates(column: Column) -> list[tuple[float, ...]]:
    """Grids that are tried, from coarse to fine."""
    own, found = column.numeric, []
    for count in _POINTS:
        points = own.lower + own.width * np.arange(1, count + 1) / (count + 1)
        # Two digits of the distance between them are enough, and easier to read.
        digits = 1 - math.floor(math.log10(own.width / (count + 1)))
        points = np.unique(np.round(points, 0 if column.whole else digits))
        points = points[(points >= own.lower) & (points < own.upper)]
        found.append(tuple(points.tolist()))
    default = grid_for(own, column.whole)
    shorter = [one for one in dict.fromkeys(found) if 0 < len(one) < len(default)]
    return [*shorter, default]


def _narrowest(
    schema: PublicSchema, k: int, shares: Sequence[float], noise_multiplier: float, level: float
) -> tuple[tuple[float, ...], ...]:
    """A grid for every slot, or one for all where groupings are made to agree."""
    column, grouping = schema.columns[k], schema.grouping
    if grouping is None:
        raise InvalidParameter("grids must be chosen for groups")
    tried, shares = _candidates(column), tuple(shares)
    curve = QuantileCurve(schema, (k,), tried[-1])
    joint = JointSums(schema, (curve,), noise_multiplier)
    (released,) = joint.read(np.zeros((schema.slots, curve.width)))
    noise = released.variances / curve.radius**2
    sizes = grouping.expected_sizes
    known: dict[tuple[int, float], FloatArray] = {}
    widths = np.empty((schema.slots, len(tried)))
    for slot, (size, own) in enumerate(zip(sizes.tolist(), noise.tolist(), strict=True)):
        step = round(math.log(max(size, 1.0)) / _STEP)
        if (step, own) not in known:
            known[step, own] = np.array([
                _width(schema, k, grid, shares, math.exp(step * _STEP), own, level)
                for grid in tried
            ])  # fmt: skip
        widths[slot] = known[step, own]
    if grouping.consistent:
        return (tried[int(np.argmin(widths.sum(axis=0)))],)
    return tuple(tried[place] for place in np.argmin(widths, axis=1).tolist())


@lru_cache(maxsize=4096)
def _width(
    schema: PublicSchema,
    k: int,
    grid: tuple[float, ...],
    shares: tuple[float, ...],
    size: float,
    noise: float,
    level: float,
) -> float:
    """The average logarithm of simulated widths, in parts of the range."""
    own, rng = schema.columns[k].numeric, np.random.default_rng(0)  # of what is made up
    at, found = (np.array(grid) - own.lower) / own.width, []
    for p in shares:
        request = ReleasedQuantile(schema, (k,), p, grid, "quantile")
        for place in _PLACES:
            cells = np.diff(ndtr((at - place) / _SPREAD), prepend=0.0, append=1.0)
            interval = simulated_interval(request, cells, round(size), noise, level, rng)
            low, high = interval.ends
            found.append(math.log(max((high - low) / own.width, 1e-12)))
    return float(np.mean(found))


def grids_in_words(schema: PublicSchema) -> tuple[str, ...]:
    """What was chosen, for the notes of a result."""
    return tuple(
        f"grids of quantiles of {column.name}: {min(map(len, column.grids))} to "
        f"{max(map(len, column.grids))} points, chosen by public sizes of groups"
        for column in schema.columns
        if column.grids
    )
