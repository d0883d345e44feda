"""Points where chords cost most: any are valid, and the chosen ones are better than even ones."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

import mustdp as md
from mustdp.accounting.atoms import atom_pairs
from mustdp.accounting.families.recursion import Snapshot, make_tests, placed_points
from mustdp.accounting.plan import atoms
from mustdp.accounting.pld.discretise import DominatingPair, connect_values, just_below
from mustdp.types import Relation
from tests.arrays import IntArray

D, LAST = 0.001, 6000
GRID = np.arange(-1600, 6400)
#: What g looks like on the way to epsilon = 2: falling steeply, 1 - e^e at its left.
G = Snapshot(D, -1600, np.exp(-3.0 * np.maximum(GRID * D, 0.0)) * -np.expm1(-1.0 - GRID * D - 1.6))
PLACES = [np.linspace(0.5, 1.5, 9)]
TESTS = partial(make_tests, [G], PLACES, [np.ones(9)], D)


@pytest.fixture(
    params=[md.must_ow(60000, 3000, 2000), md.wor(1000, 30), md.wr(1000, 30)],
    ids=lambda scheme: scheme.name,
)
def pair(request: pytest.FixtureRequest) -> DominatingPair:
    step = md.subsample(request.param, md.gaussian(noise_multiplier=4.0))
    ((atom, _),) = atoms(step).items()
    return atom_pairs(atom, Relation.REPLACE_ONE, "certified").dominating


@pytest.mark.parametrize("last", [1, 4, 37, LAST])
@pytest.mark.parametrize("count", [2, 10, 72])
def test_from_zero_to_the_last(pair: DominatingPair, last: int, count: int) -> None:
    points = placed_points(pair, D, last, count, TESTS)
    assert points[0] == 0
    assert points[-1] == max(last, 4)
    assert np.all(np.diff(points) > 0)
    assert points.size <= count + 3


def test_fewer_points_cost_less_than_even_ones(pair: DominatingPair) -> None:
    def spent(points: IntArray) -> float:
        values = pair.values(just_below(D, points))
        row = np.concatenate(values)[None, :]
        return float((TESTS(points).after(row) - TESTS(points).start).sum())

    exact = spent(np.arange(LAST + 1))
    placed = placed_points(pair, D, LAST, 48, TESTS)
    even = np.union1d([0], np.rint(np.geomspace(1, LAST, 72)).astype(np.int64))
    assert placed.size <= 51 < even.size
    assert exact < spent(placed) <= spent(even)


def test_the_loss_through_them_dominates(pair: DominatingPair) -> None:
    points = placed_points(pair, D, LAST, 30, TESTS)
    loss = connect_values(D, points, *pair.values(just_below(D, points)))
    for epsilon in np.linspace(0.0, 5.0, 60):
        above = loss.losses > epsilon
        delta = loss.infinite + float(loss.masses[above] @ -np.expm1(epsilon - loss.losses[above]))
        assert delta >= pair.values(np.array([epsilon]))[0][0] * (1.0 - 1e-12)


def test_a_weight_of_nothing_is_no_obstacle(pair: DominatingPair) -> None:
    flat = Snapshot(D, -1600, np.zeros(GRID.size))
    tests = partial(make_tests, [flat], PLACES, [np.ones(9)], D)
    points = placed_points(pair, D, LAST, 40, tests)
    assert points[0] == 0
    assert points[-1] == LAST
    assert 20 < points.size <= 43
