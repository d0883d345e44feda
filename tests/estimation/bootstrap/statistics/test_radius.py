"""The stated radii against brute force: never exceeded, and not larger than they must be."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mustdp.estimation.schema import SubsetSchema
from mustdp.estimation.statistics.moments import moment_blocks
from tests.estimation.bootstrap.statistics.swaps import (
    CASES,
    LOWER,
    UPPER,
    joint,
    moved,
    with_reaches_times,
    worst_addition,
    worst_swap,
)

#: Levels per column and size of the multisets that can be listed in full.
LISTED = {1: (5, 4), 2: (3, 3), 3: (3, 2)}


@pytest.mark.parametrize("name", CASES)
def test_no_swap_moves_farther_than_stated_and_some_moves_as_far(name: str) -> None:
    case = CASES[name]
    levels, size = LISTED[case.columns]
    worst = worst_swap(case.query(size), case.points(levels), size)
    assert worst <= 1.0 + 1e-9
    assert worst >= (0.99**2 if case.exact else 0.85)


@pytest.mark.parametrize("name", CASES)
def test_no_copy_adds_more_than_stated_to_a_poisson_subset(name: str) -> None:
    case = CASES[name]
    query = case.query(6.5, poisson=True)
    worst = worst_addition(query, case.points(5))
    assert 0.99**2 <= worst <= 1.0 + 1e-9


@pytest.mark.parametrize("name", CASES)
def test_a_reach_that_is_halved_is_noticed(name: str) -> None:
    case = CASES[name]
    levels, size = LISTED[case.columns]
    halved = with_reaches_times(case.query(size), 0.5)
    assert worst_swap(halved, case.points(levels), size) > 3.0
    poisson = with_reaches_times(case.query(6.5, poisson=True), 0.5)
    assert worst_addition(poisson, case.points(levels)) > 3.0


@pytest.mark.parametrize("weights", [None, (1.0, 1.0, 1.0), (3.0, 1.0, 0.2)])
def test_several_statistics_in_one_release_move_jointly_as_stated(
    weights: tuple[float, ...] | None,
) -> None:
    corners = CASES["regression on two"].points(2)
    worst = worst_swap(joint(3, weights), corners, 3)
    assert 0.99**2 <= worst <= 1.0 + 1e-9


def test_giving_every_block_its_own_reach_would_not_do() -> None:
    corners = CASES["regression on two"].points(2)
    alone = with_reaches_times(joint(3), 1.0 / np.sqrt(3.0))
    assert worst_swap(alone, corners, 3) > 2.9


@pytest.mark.parametrize("name", [*CASES, "joint"])
@settings(max_examples=60)
@given(data=st.data())
def test_random_multisets_and_copies(name: str, data: st.DataObject) -> None:
    size = data.draw(st.integers(2, 7), label="size")
    columns = 3 if name == "joint" else CASES[name].columns
    query = joint(size) if name == "joint" else CASES[name].query(size)
    record = st.tuples(
        *(
            st.one_of(st.sampled_from([LOWER[i], UPPER[i]]), st.floats(LOWER[i], UPPER[i]))
            for i in range(columns)
        )
    )
    rows = np.array(data.draw(st.lists(record, min_size=size + 1, max_size=size + 1)))
    copies = data.draw(st.integers(1, size), label="copies")
    counts = np.array([copies] + [1] * (size - copies), dtype=np.int64)
    others = rows[2 : 2 + size - copies]
    before = query.evaluate(np.vstack([rows[:1], others]), counts)
    after = query.evaluate(np.vstack([rows[1:2], others]), counts)
    assert moved(query, after - before, copies=2) <= copies**2 * (1.0 + 1e-7) + 1e-12


@pytest.mark.parametrize("name", CASES)
@settings(max_examples=40)
@given(data=st.data())
def test_random_additions_and_swaps_on_poisson_subsets(name: str, data: st.DataObject) -> None:
    case = CASES[name]
    query = case.query(data.draw(st.floats(0.5, 9.0), label="size"), poisson=True)
    record = st.tuples(*(st.floats(LOWER[i], UPPER[i]) for i in range(case.columns)))
    rows = np.array(data.draw(st.lists(record, min_size=2, max_size=6)))
    ones = np.ones(len(rows), dtype=np.int64)
    without = query.evaluate(rows[2:], ones[2:])
    first, second = (query.evaluate(np.vstack([rows[2:], rows[i]]), ones[1:]) for i in (0, 1))
    assert moved(query, first - without, copies=1) <= 1.0 + 1e-9
    assert moved(query, second - first, copies=2) <= 1.0 + 1e-9


def unit(columns: int) -> SubsetSchema:
    return SubsetSchema([-1.0] * columns, [1.0] * columns, 1)


@pytest.mark.parametrize("columns", [1, 2, 3, 4, 6])
def test_the_inequality_behind_moments_on_many_pairs(columns: int) -> None:
    rng = np.random.default_rng(20)
    ends = rng.choice([-1.0, 0.0, 1.0], size=(2, 100_000, columns))
    inner = rng.uniform(-1.0, 1.0, size=(2, 100_000, columns))
    u, v = np.where(rng.random((2, 100_000, 1)) < 0.5, ends, inner)
    rows, others = np.triu_indices(columns, 1)
    parts = {
        "means": u - v,
        "squares": u**2 - v**2,
        "products": u[:, rows] * u[:, others] - v[:, rows] * v[:, others],
    }
    total = sum(
        np.sum(parts[block.label] ** 2, axis=1) / (2.0 * block.radius) ** 2
        for block in moment_blocks(unit(columns), columns)
    )
    assert np.max(total) <= 1.0 + 1e-12
    assert np.max(total) >= 0.85


def test_the_balance_of_one_column_holds_on_a_fine_grid_and_no_better_one_does() -> None:
    u = np.linspace(-1.0, 1.0, 2001)
    first, second = (u[:, None] - u) ** 2, (u[:, None] ** 2 - u**2) ** 2
    assert np.max(first + 11.0 / 4.0 * second) <= 4.0 + 1e-12
    assert np.max(first + 2.8 * second) > 4.0
    mean, square = moment_blocks(unit(1), 1)
    assert mean.radius == 1.0
    assert (mean.radius / square.radius) ** 2 == pytest.approx(11.0 / 4.0)


def test_stated_reaches_in_plain_numbers() -> None:
    width = UPPER[0] - LOWER[0]
    assert CASES["mean"].query(30).blocks[0].radius == pytest.approx(width / 60)
    assert CASES["variance"].query(30).blocks[0].radius == pytest.approx(width**2 / 60)
    assert CASES["proportion"].query(30).blocks[0].radius == pytest.approx(1 / 60)
    assert CASES["covariance"].query(30).blocks[0].radius == pytest.approx(width * 0.5 / 60)
    assert CASES["median"].query(30).blocks[0].radius == pytest.approx(np.sqrt(7) / 60)
