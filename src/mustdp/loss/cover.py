"""Which cells of a family to keep apart: refine where a cell wins, join where none would.

Every cover is valid, so nothing in this file has to be rigorous; it only steers. What one step
with the profile h does to a function g is linear in the values of h, so a cell is judged at a few
dozen *tests* (a function g that occurs on the way, and a point e) by a product with fixed weights.
Its excess over the two attained ends of the family, in units of what one step gains, says how much
it would loosen the bound. Cells that exceed are split; then cells are joined, by the pointwise
maximum of their profiles, as long as the maximum of all excesses grows by no more than a tolerance.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from mustdp.amplification.cells import Cell, Corner, PairFamily
from mustdp.loss.discrete import DiscreteLoss
from mustdp.loss.dots import connect_values, just_below
from mustdp.numerics.arrays import FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class Snapshot:
    """A function g that occurs on the way: values at ``first, first + 1, …`` times ``spacing``."""

    spacing: float
    first: int
    values: FloatArray

    def at(self, epsilon: FloatArray) -> FloatArray:
        """Read off in between and beyond."""
        e = (self.first + np.arange(self.values.size)) * self.spacing
        inside = np.interp(epsilon, e, self.values)
        return np.where(epsilon < e[0], -np.expm1(np.minimum(epsilon, 0.0)), inside)


@dataclass(frozen=True, eq=False)
class Tests:
    """Weights of the profile's values in both directions, the gains, and how much excess counts."""

    ahead: FloatArray
    behind: FloatArray
    start: FloatArray
    allowed: FloatArray

    def after(self, profiles: FloatArray) -> FloatArray:
        """g after one step with each of the profiles (rows: both directions in one)."""
        # Small products many times over: threads of a linear algebra library would only wait.
        return np.asarray(self.start + np.einsum("ij,jk->ik", profiles, self._weights))

    @cached_property
    def _weights(self) -> FloatArray:
        return np.ascontiguousarray(np.concatenate([self.ahead, self.behind], axis=1).T)


def make_tests(
    snapshots: Sequence[Snapshot],
    places: Sequence[FloatArray],
    allowances: Sequence[FloatArray],
    spacing: float,
    points: IntArray,
) -> Tests:
    """Tests at the given places of every snapshot."""
    loss = points.astype(np.float64) * spacing
    gap = np.diff(loss)
    rise, fall = 1.0 / np.expm1(gap), 1.0 / -np.expm1(-gap)
    blocks = []
    for g, e in zip(snapshots, places, strict=True):
        up = g.at(e[:, None] - loss)
        down = g.at(e[:, None] + loss) * np.exp(-loss)
        ahead = _second_differences(up, rise, fall)
        behind = _second_differences(down, rise, fall)
        ahead[:, -1] += 1.0  # losses beyond the last point are infinite
        behind[:, 0] -= down[:, 0]  # the centre keeps the total mass
        blocks.append((ahead, behind, g.at(e)))
    ahead, behind, start = (np.concatenate(column) for column in zip(*blocks, strict=True))
    return Tests(ahead, behind, start, np.concatenate(list(allowances)))


def _second_differences(g: FloatArray, rise: FloatArray, fall: FloatArray) -> FloatArray:
    """Coefficients of h_0 … h_n in the sum of masses times g at all points."""
    out = np.zeros(g.shape)
    out[:, :-1] += g[:, 1:] * fall - g[:, :-1] * rise
    out[:, 1:] += g[:, :-1] * rise - g[:, 1:] * fall
    return out


@dataclass(eq=False)
class Cover:
    """Cells of a family with their profiles at the points of a grid."""

    family: PairFamily
    spacing: float
    points: IntArray
    _known: dict[Corner, FloatArray] = field(default_factory=dict)

    def profiles(self, cells: Sequence[Cell]) -> FloatArray:
        """Both directions of every cell, one row each."""
        corners = [self.family.corners(cell) for cell in cells]
        new = list(dict.fromkeys(c for both in corners for c in both if c not in self._known))
        if new:
            at = just_below(self.spacing, self.points)
            self._known.update(zip(new, self.family.profiles(new, at), strict=True))
        known = self._known
        return np.stack([np.concatenate([known[one], known[other]]) for one, other in corners])

    def refined(self, ends: Sequence[Cell], tests: Tests, most: int) -> FloatArray:
        """Profiles of a cover whose cells were split while they exceed, up to ``most`` cells."""
        base = tests.after(self.profiles(ends)).max(axis=0)
        gain = np.maximum(base - tests.start, 1e-300)
        cells = list(self.family.cells())
        rows = self.profiles(cells)
        excess = (tests.after(rows) - base) / gain
        while len(cells) < most:
            harm = np.max(excess / tests.allowed, axis=1)
            worst = np.argsort(-harm)
            chosen = [int(i) for i in worst[: max(1, len(cells) // 8)] if harm[i] > 1.0]
            if not chosen:
                break
            children = [child for i in chosen for child in cells[i].split()]
            kept = np.setdiff1d(np.arange(len(cells)), chosen)
            new = self.profiles(children)
            cells = [cells[i] for i in kept] + children
            rows = np.concatenate([rows[kept], new])
            excess = np.concatenate([excess[kept], (tests.after(new) - base) / gain])
        return rows

    def joined(
        self, ends: Sequence[Cell], tests: Tests, rows: FloatArray, most: int, slack: float
    ) -> FloatArray:
        """Join the two groups that cost least, until ``most`` are left and joining costs too much.

        What a group costs is its largest excess over what the separate cells exceed, in units of
        what is allowed; ``slack`` of that may be spent however few groups there are.
        """
        base = tests.after(self.profiles(ends)).max(axis=0)
        gain = np.maximum(base - tests.start, 1e-300)
        excess = (tests.after(rows) - base) / gain
        limit = np.maximum(excess.max(axis=0), 0.0)
        groups = [rows[i] for i in range(rows.shape[0])]
        cost = np.full((len(groups), len(groups)), np.inf)

        def costs(i: int, others: FloatArray) -> FloatArray:
            merged = np.maximum(others, groups[i])
            over = (tests.after(merged) - base) / gain - limit
            return np.asarray(np.max(over / tests.allowed, axis=1))

        for i in range(1, len(groups)):
            cost[i, :i] = costs(i, rows[:i])
        alive = np.ones(len(groups), dtype=np.bool_)
        while int(alive.sum()) > 1:
            i, j = divmod(int(np.argmin(cost)), len(groups))
            if not (cost[i, j] <= slack or int(alive.sum()) > most):
                break
            groups[i] = np.maximum(groups[i], groups[j])
            alive[j] = False
            cost[j, :] = cost[:, j] = np.inf
            others = np.flatnonzero(alive & (np.arange(len(groups)) != i))
            if not others.size:
                break
            fresh = costs(i, np.stack([groups[o] for o in others]))
            low, high = others < i, others > i
            cost[i, others[low]] = fresh[low]
            cost[others[high], i] = fresh[high]
        return np.stack([groups[i] for i in np.flatnonzero(alive)])

    def losses(self, profiles: FloatArray) -> list[DiscreteLoss]:
        """The discrete losses through the dots of every row."""
        n = self.points.size
        return [connect_values(self.spacing, self.points, row[:n], row[n:]) for row in profiles]
