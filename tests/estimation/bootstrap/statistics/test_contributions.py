"""Totals are sums of what single records contribute; vectors are made of them after the noise."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mustdp.estimation.queries import JointQuery, LinearQuery, Query
from mustdp.estimation.schema import SubsetSchema
from mustdp.numerics.arrays import FloatArray
from mustdp.reproduction.bootstrap import OfActualSize
from mustdp.types import LinearRegression, Mean, UserStatistic, Variance
from tests.estimation.bootstrap.statistics.swaps import CASES, LOWER, UPPER, joint

#: Averages over pairs of entries are no sums over entries.
PAIRS = ("variance", "sd", "covariance", "correlation")
LINEAR = [
    (name, poisson) for name in CASES for poisson in (False, True) if poisson or name not in PAIRS
]


def query_of(name: str, size: float, poisson: bool) -> LinearQuery:
    query = CASES[name].query(size, poisson)
    assert isinstance(query, LinearQuery)
    return query


def records(columns: int, rows: int, rng: np.random.Generator) -> FloatArray:
    """Many records, a third of their values at the ends of the ranges."""
    low, high = np.array(LOWER[:columns]), np.array(UPPER[:columns])
    inner = rng.uniform(size=(rows, columns))
    ends = rng.choice([0.0, 1.0], size=(rows, columns))
    found: FloatArray = low + np.where(rng.random(inner.shape) < 0.33, ends, inner) * (high - low)
    return found


def in_reaches(query: Query, moves: FloatArray) -> FloatArray:
    """Sum over the blocks of (length of the part / radius of the total)^2 for every row."""
    radii = np.concatenate([np.full(one.width, one.radius_of_total) for one in query.blocks])
    return np.asarray(((moves / radii) ** 2).sum(axis=1))


def test_which_queries_are_linear() -> None:
    for name, case in CASES.items():
        for poisson in (False, True):
            linear = isinstance(case.query(5, poisson), LinearQuery)
            assert linear == ((name, poisson) in LINEAR)
    public = SubsetSchema([0.0], [1.0], 5)
    user = UserStatistic(lambda values, counts: 0.0, 1.0, average=True).query(public)
    actual = OfActualSize(Mean(), SubsetSchema([0.0], [1.0], 5.0, poisson=True))
    assert not isinstance(user, LinearQuery)
    assert not isinstance(actual, LinearQuery)
    assert not joint(5).linear
    assert JointQuery((Mean().query(public), Mean().query(public)), ((0,), (0,))).linear


@pytest.mark.parametrize(("name", "poisson"), LINEAR)
def test_a_total_is_the_sum_over_copies(name: str, poisson: bool) -> None:
    rng = np.random.default_rng(30)
    columns = CASES[name].columns
    values, counts = records(columns, 60, rng), rng.integers(1, 5, 60)
    query = query_of(name, int(counts.sum()), poisson)
    contributions = query.contributions(values)
    assert contributions.shape == (60, query.width)
    written_out = np.repeat(contributions, counts, axis=0)
    assert query.total(values, counts) == pytest.approx(written_out.sum(axis=0), abs=1e-10)
    alone = np.vstack([query.contributions(values[k : k + 1]) for k in range(60)])
    assert np.array_equal(alone, contributions)
    vector = query.evaluate(values, counts)
    assert np.array_equal(vector, query.restored(query.total(values, counts)))
    assert vector == pytest.approx(
        contributions.T @ counts / query.divisors + query.shifts, abs=1e-12
    )


@pytest.mark.parametrize(("name", "poisson"), LINEAR)
def test_no_two_contributions_are_farther_apart_than_twice_the_reach(
    name: str, poisson: bool
) -> None:
    rng = np.random.default_rng(31)
    query = query_of(name, 50, poisson)
    first, second = (
        query.contributions(records(CASES[name].columns, 20_000, rng)) for _ in range(2)
    )
    assert in_reaches(query, first - second).max() <= 4.0 * (1.0 + 1e-9)
    longest = float(in_reaches(query, first).max())
    if query.in_a_ball:
        assert 0.9 < longest <= 1.0 + 1e-9
    else:  # the flag is not there for nothing
        assert longest > 1.2


@pytest.mark.parametrize("size", [3, 7, 49, 1_000_003])
@pytest.mark.parametrize(("name", "poisson"), LINEAR)
def test_reaches_of_totals_hold_in_exact_arithmetic(name: str, poisson: bool, size: int) -> None:
    """At the corners, where they are attained: a radius that is one digit too small is noticed."""
    query = query_of(name, size, poisson)
    rows = query.contributions(CASES[name].points(2))
    moves = [one - other for one in rows for other in rows]
    scale = [one.radius_of_total for one in query.blocks for _ in range(one.width)]
    squares = [Fraction(1) / Fraction(radius) ** 2 for radius in scale]

    def length(move: FloatArray) -> Fraction:
        return sum(
            (Fraction(x) ** 2 * unit for x, unit in zip(move.tolist(), squares, strict=True)),
            Fraction(0),
        )

    assert max(map(length, moves)) <= 4
    if query.in_a_ball:
        assert max(map(length, rows)) <= 1


def test_contributions_of_many_columns() -> None:
    """From five columns on, even the products alone are longer than their radius."""
    rng = np.random.default_rng(32)
    query = LinearRegression().query(SubsetSchema([-1.0] * 6, [1.0] * 6, 50))
    assert isinstance(query, LinearQuery)
    first, second = (
        query.contributions(rng.choice([-1.0, 0.3, 1.0], size=(20_000, 6))) for _ in range(2)
    )
    assert in_reaches(query, first - second).max() <= 4.0 * (1.0 + 1e-9)
    assert not query.in_a_ball


@pytest.mark.parametrize(("name", "poisson"), LINEAR)
@settings(max_examples=30)
@given(data=st.data())
def test_shortening_towards_zero_costs_what_is_stated(
    name: str, poisson: bool, data: st.DataObject
) -> None:
    """On any lattice: nothing where contributions are within the radius, else half a step."""
    query = query_of(name, 50, poisson)
    step = data.draw(st.sampled_from([2.0**-3, 2.0**-8, 2.0**-20]), label="step")
    record = st.tuples(*(st.floats(LOWER[i], UPPER[i]) for i in range(CASES[name].columns)))
    rows = np.array(data.draw(st.lists(record, min_size=2, max_size=2)))
    truncated = np.trunc(query.contributions(rows) / step) * step
    moved, start = 0.0, 0
    for one in query.blocks:
        part = (truncated[0] - truncated[1])[start : start + one.width]
        grown = 0.0 if query.in_a_ball else 0.5 * step * np.sqrt(one.width)
        moved += float(part @ part) / (2.0 * (one.radius_of_total + grown)) ** 2
        start += one.width
    assert moved <= 1.0 + 1e-9


def test_what_is_public_is_added_after_the_noise() -> None:
    """A midpoint as large as 2^52 leaves the digits of the total alone."""
    low = 2.0**52
    query = Mean(squares=False).query(SubsetSchema([low], [low + 4.0], 3))
    values, counts = np.array([[low], [low + 1.0], [low + 4.0]]), np.ones(3, dtype=np.int64)
    assert query.total(values, counts).tolist() == [-1.0]
    assert query.restored(np.array([0.3])).tolist() == [low + 2.0]
    assert float(query.divisors[0]) == 3.0


def test_vectors_of_other_queries_are_their_totals() -> None:
    values, counts = np.array([[0.0], [0.5], [1.0]]), np.ones(3, dtype=np.int64)
    query = Variance(form="pairs").query(SubsetSchema([0.0], [1.0], 3))
    assert query.total(values, counts) == pytest.approx([0.25])
    assert np.array_equal(query.total(values, counts), query.evaluate(values, counts))


def test_a_joint_release_is_restored_part_by_part() -> None:
    rng = np.random.default_rng(33)
    values, counts = records(3, 12, rng), np.ones(12, dtype=np.int64)
    together = joint(12)
    alone = [query.evaluate(own, counts) for query, own in together.apart(values)]
    assert together.evaluate(values, counts) == pytest.approx(np.concatenate(alone), rel=1e-15)
    assert together.divisors.tolist() == [12.0, 1.0, 1.0, 1.0, 1.0]
