"""Which losses stand for a family of pairs, and what adaptive strategies attain."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial

import numpy as np

from mustdp.accounting.families.recursion import STEEPEST, LossWindow, Recursion, answer
from mustdp.accounting.families.triples import Corner, PairFamily, TripleCell
from mustdp.accounting.pld.compose import OUTSIDE, Composition
from mustdp.accounting.pld.discrete import DiscreteLoss
from mustdp.accounting.pld.discretise import (
    DominatingPair,
    Scouted,
    connect,
    connect_values,
    few_points,
    just_below,
    lumps_of,
    merge,
)
from mustdp.accounting.pld.pairs import ConcretePair
from mustdp.accounting.pld.readoff import EpsilonAt, Question
from mustdp.numerics.arrays import FloatArray, IntArray

# Which cells of a family to keep apart: refine where a cell wins, join where none would.
#
# Every cover is valid, so nothing in this file has to be rigorous; it only steers. What one step
# with the profile h does to a function g is linear in the values of h, so a cell is judged at a
# few dozen *tests* (a function g that occurs on the way, and a point e) by a product with fixed
# weights. Its excess over the two attained ends of the family, in units of what one step gains,
# says how much it would loosen the bound. Cells that exceed are split; then cells are joined, by
# the pointwise maximum of their profiles, as long as the maximum of all excesses grows by no more
# than a tolerance.


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

    def profiles(self, cells: Sequence[TripleCell]) -> FloatArray:
        """Both directions of every cell, one row each."""
        corners = [self.family.corners(cell) for cell in cells]
        new = list(dict.fromkeys(c for both in corners for c in both if c not in self._known))
        if new:
            at = just_below(self.spacing, self.points)
            self._known.update(zip(new, self.family.profiles(new, at), strict=True))
        known = self._known
        return np.stack([np.concatenate([known[one], known[other]]) for one, other in corners])

    def refined(self, ends: Sequence[TripleCell], tests: Tests, most: int) -> FloatArray:
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
        self, ends: Sequence[TripleCell], tests: Tests, rows: FloatArray, most: int, slack: float
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


# Where to evaluate the profiles of a family: where chords between the points would cost most.
#
# With chords, a loss l between two points is split between them so that its mass under both data
# sets is kept. What one step makes of a function g grows by that, in proportion to the square of
# their distance and to p(l) (g'' - g')(e - l): nothing where g is 1 - e^e, which a chord meets
# exactly. As in quantisation (Panter & Dite 1951), a density of points in proportion to the cube
# root of that weight makes the sum least. Every choice is valid; this one only steers.


#: Points at which the weight is looked at: all near zero, then so many further and further apart.
_NEAR, _FURTHER = 64, 200
#: Share of the points that is spread evenly in the logarithm, whatever the weight.
_EVEN = 0.1


def placed_points(
    pair: DominatingPair,
    spacing: float,
    last: int,
    count: int,
    tests: Callable[[IntArray], Tests],
) -> IntArray:
    """About ``count`` grid indices from 0 to ``last`` for profiles like that of ``pair``.

    ``tests`` are those by which the profiles will be judged, at any points.
    """
    last = max(last, 4)
    far = np.rint(np.geomspace(1.0, last, _FURTHER)).astype(np.int64)
    looks = np.union1d(np.arange(min(last, _NEAR)), far)
    ahead, behind = pair.values(just_below(spacing, looks))
    found = connect_values(spacing, looks, ahead, behind)
    judged = tests(looks)
    both = np.concatenate([ahead, behind])[None, :]
    gain = np.maximum(judged.after(both)[0] - judged.start, 1e-300)
    counts = 1.0 / (gain * judged.allowed)
    up, down = (
        np.bincount(side, found.masses * (side > 0), last + 1)[looks]
        for side in (np.maximum(found.index, 0), np.maximum(-found.index, 0))
    )
    with np.errstate(over="ignore", under="ignore"):
        down = np.where(down > 0.0, down * np.exp(looks * spacing), 0.0)
    weight = _curved(counts, judged.ahead) * up + _curved(counts, judged.behind) * down
    # Masses and coefficients are those of whole cells.
    density = np.cbrt(np.nan_to_num(weight) / np.square(np.gradient(looks.astype(np.float64))))
    density[0], density[-1] = density[1], density[-2]
    wanted = np.append(0.0, np.cumsum(0.5 * (density[1:] + density[:-1]) * np.diff(looks)))
    even = np.log1p(looks.astype(np.float64) * _NEAR / last)
    share = even / even[-1]
    if 0.0 < wanted[-1] < np.inf:
        share = (1.0 - _EVEN) * wanted / wanted[-1] + _EVEN * share
    at = np.interp(np.linspace(0.0, 1.0, count), share, looks)
    return np.union1d([0, 1, last], np.rint(at).astype(np.int64))


def _curved(counts: FloatArray, coefficients: FloatArray) -> FloatArray:
    """How curved g is at every point, over all tests; rounding makes some of it negative."""
    return np.asarray(np.einsum("i,ij->j", counts, np.maximum(coefficients, 0.0)))


# What an adaptive data holder attains: aligned or reversed, chosen as releases come in.
#
# The recursion over concrete pairs, with losses merged downwards, is a value that a real strategy
# reaches: it looks at the loss so far and takes the better pair. Deciding only every so many steps
# is a strategy too, so many steps cost no more than a few hundred.


#: Decisions that are made at most and at least, and grid points that all of them work through.
_DECISIONS, _FEWEST_DECISIONS, _LONGEST = 400, 10, 2e7
_DROPPED = 1e-9

#: Pairs to choose from, the points they are merged on, and for how many steps.
Choice = tuple[Sequence[ConcretePair], IntArray, int]


@dataclass(frozen=True, eq=False)
class AttainedBound:
    """A value that is attained, by whom, and what g looked like on the way."""

    value: float
    attained_by: str
    snapshots: tuple[Snapshot, ...]
    marks: tuple[float, ...]
    slope: float = 1.0


def attained(
    choices: Sequence[Choice],
    spacing: float,
    question: Question,
    epsilon: float,
    deviation: float,
    marks: Sequence[float],
    rare: float = 0.0,
) -> AttainedBound:
    """The value of the strategy; ``epsilon`` is above where the answer lies.

    The largest losses, ``rare`` of mass in every step at most, are dropped: that lowers the value,
    by no more than all of that mass, and without them transforms are short.
    """
    steps = sum(count for *_, count in choices)
    spacing = _on_lumps(choices, spacing)
    losses: dict[tuple[int, int, int], list[DiscreteLoss]] = {}
    single = {
        _key(choice, 1): [
            merge(pair, spacing, choice[1], []).truncated(rare, keep=False) for pair in choice[0]
        ]
        for choice in choices
    }
    composition = Composition([(single[_key(choice, 1)][0], choice[2]) for choice in choices])
    tilt = composition.best_tilt(epsilon)
    plan: list[tuple[int, list[DiscreteLoss]]] = []
    # Rare losses that reach far make long transforms: fewer decisions then.
    length = (epsilon + 5.0 * deviation) / spacing + max(int(c[1][-1]) for c in choices)
    decisions = min(_DECISIONS, max(_FEWEST_DECISIONS, _LONGEST / length))
    for choice in reversed(choices):  # the last step is the first of the recursion
        count, stride = choice[2], max(1, math.ceil(steps / decisions))
        for length, times in ((stride, count // stride), (count % stride, 1)):
            if length and times:
                key = _key(choice, length)
                if key not in losses:
                    losses[key] = [_power(one, length, tilt) for one in single[_key(choice, 1)]]
                plan += [(length, losses[key])] * times
    window = _window(spacing, epsilon, deviation, [x for v in losses.values() for x in v], tilt)
    recursion = Recursion(window, "lower")
    kernels = {id(members): recursion.kernels(members) for members in losses.values()}
    done, snapshots, seen = 0, [], []
    wanted = sorted(marks)
    for length, members in plan:
        recursion.step(kernels[id(members)])
        done += length
        if wanted and done >= wanted[0] * steps:
            snapshots.append(Snapshot(spacing, window.first, recursion.values))
            seen.append(done / steps)
            wanted = [mark for mark in wanted if mark * steps > done]
    value = answer(recursion, question)
    slope = _slope(recursion, value if isinstance(question, EpsilonAt) else question.at)
    return AttainedBound(
        value, "adaptive: aligned and reversed", tuple(snapshots), tuple(seen), slope
    )


def _on_lumps(choices: Sequence[Choice], spacing: float) -> float:
    """A spacing, not above the one given, on which the largest lump of the first pair lies.

    Its mirror image, the lump of the reversed pair, then lies on the grid as well. A lump between
    two grid points would cost in first order of the spacing, in every step.
    """
    pairs, points, _ = max(choices, key=lambda choice: choice[2])
    found = lumps_of(pairs[0], spacing, points)
    if not found:
        return spacing
    place = abs(max(found, key=lambda lump: lump.mass).loss)
    if not place > 0.2 * spacing:
        return spacing
    # A hair inside, so that the cell of the lump can close.
    return place / (math.ceil(place / spacing) + 1e-6)


def _key(choice: Choice, length: int) -> tuple[int, int, int]:
    return id(choice[0][0]), id(choice[0][-1]), length


def _power(loss: DiscreteLoss, times: int, tilt: float) -> DiscreteLoss:
    """The loss of ``times`` steps with the same pair, every mass rounded down."""
    if times == 1:
        return loss
    tilted = Composition([(loss, times)]).tilt(tilt)
    # What wraps around the window may sit anywhere in it.
    masses = np.maximum(tilted.masses - tilted.error - 2.0 * OUTSIDE, 0.0)
    masses = masses * (1.0 - tilted.relative - 1e-12)
    masses = masses * np.exp(tilted.log_scale - tilt * tilted.losses)
    index = np.rint(tilted.losses / loss.spacing).astype(np.int64)
    kept = masses > 0.0
    return DiscreteLoss(loss.spacing, index[kept], masses[kept], lost=times * loss.lost)


def _window(
    spacing: float, epsilon: float, deviation: float, losses: Sequence[DiscreteLoss], tilt: float
) -> LossWindow:
    """Wide enough for the losses that matter under the tilt; what lies beyond is dropped."""
    up = down = 1
    for loss in losses:
        weight = loss.masses * np.exp(tilt * loss.losses)
        weight /= weight.sum()
        above = np.flatnonzero(np.cumsum(weight[::-1])[::-1] > _DROPPED)
        plain = np.flatnonzero(np.cumsum(loss.masses) > _DROPPED)
        up = max(up, int(loss.index[above[-1]]))
        down = max(down, -int(loss.index[plain[0]]))
    bottom = 3.0 * deviation + 16.0 * spacing
    top = epsilon + 2.0 * deviation
    steepest = 0.9 * STEEPEST / max(top + down * spacing, bottom + up * spacing)
    return LossWindow(
        spacing, -math.ceil(bottom / spacing), math.ceil(top / spacing) + 2, up, down,
        min(tilt, steepest),
    )  # fmt: skip


def _slope(recursion: Recursion, epsilon: float) -> float:
    """Minus the slope of log g at ``epsilon``: a good tilt for the other side."""
    window, g = recursion.window, recursion.values
    middle = min(max(round(epsilon / window.spacing) - window.first, 8), window.size - 9)
    low, high = g[middle - 8], g[middle + 8]
    if not (low > 0.0 and high > 0.0):
        return 1.0
    return max(0.1, math.log(low / high) / (16.0 * window.spacing))


# Which losses stand for a family of pairs in a composition: where to look, refine and join.
#
# Whatever is chosen here covers the whole family, so the bound holds; the choice decides how tight
# it is. Cells are judged where the composition passes: around the path from the answer, after all
# steps, to zero before the first.


#: Excess of a cell over the attained ends, in units of one step's gain, that is not worth refining.
_TOLERANCE = 0.002
#: How far from the path cells are judged, in its deviations there.
_ASIDE = np.linspace(-2.5, 2.5, 9)
#: Cells that are looked at in any case.
_FEWEST_CELLS = 48


def chosen_members(
    family: PairFamily | None,
    pair: DominatingPair,
    seen: Scouted,
    low: AttainedBound,
    window: LossWindow,
    near: float,
    deviation: float,
    *,
    points: int,
    more_cells: float,
    most: int,
) -> list[DiscreteLoss]:
    """The losses of one atom's family, refined and joined; of its single pair without one.

    ``low`` is what the steps attain and how, ``near`` the epsilon at the end of its path, and
    ``deviation`` that of all steps. Profiles are evaluated at ``points`` places, ``more_cells``
    are looked at beyond a few, and at most ``most`` losses are returned.
    """
    if family is None or not low.snapshots:
        places = few_points(window.spacing, seen.deviation, window.up, points)
        if family is None:
            return [connect(pair, window.spacing, places)]
        cover = Cover(family, window.spacing, places)
        return cover.losses(cover.profiles(family.cells()))
    judged, allowed = [], []
    for share in low.marks:
        width = deviation * math.sqrt(share * (1.0 - share) + 0.02)
        judged.append(near * share + _ASIDE * width)
        allowed.append(_TOLERANCE * np.exp(np.square(_ASIDE) / 4.0))
    tests_at = partial(make_tests, low.snapshots, judged, allowed, window.spacing)
    places = placed_points(pair, window.spacing, window.up, points, tests_at)
    cover, tests = Cover(family, window.spacing, places), tests_at(places)
    most_cells = int(_FEWEST_CELLS + more_cells / family.cell_cost)
    rows = cover.refined(family.ends(), tests, min(family.most_cells, most_cells))
    return cover.losses(cover.joined(family.ends(), tests, rows, most, 0.1))
