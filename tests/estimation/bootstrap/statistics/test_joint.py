"""Several queries in one release."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from mustdp.errors import InvalidParameter
from mustdp.estimation.queries import Averaged, JointQuery
from mustdp.estimation.schema import SubsetSchema
from mustdp.types import Covariance, Mean, Median, StandardDeviation, Variance

LOWER, UPPER, SIZE = [0.0, -1.0, 5.0], [10.0, 1.0, 6.0], 12

mean = Mean(squares=False).query(SubsetSchema(LOWER[:1], UPPER[:1], SIZE))
variance = Variance(form="pairs").query(SubsetSchema(LOWER[1:2], UPPER[1:2], SIZE))
median = Median(grid=3).query(SubsetSchema(LOWER[2:], UPPER[2:], SIZE))
covariance = Covariance(form="pairs").query(SubsetSchema(LOWER[::2], UPPER[::2], SIZE))
sd = StandardDeviation(form="pairs").query(SubsetSchema(LOWER[1:2], UPPER[1:2], SIZE))
parts = (mean, variance, median, covariance)
picks = ((0,), (1,), (2,), (0, 2))


def test_coordinates_estimates_and_flags_lie_side_by_side() -> None:
    rng = np.random.default_rng(10)
    values = rng.uniform(LOWER, UPPER, size=(9, 3))
    counts = np.array([1, 1, 1, 1, 1, 1, 1, 2, 3])
    together = JointQuery(parts, picks)
    alone = [
        part.evaluate(values[:, pick], counts) for part, pick in zip(parts, picks, strict=True)
    ]
    vector = together.evaluate(values, counts)
    assert np.array_equal(vector, np.concatenate(alone))
    assert together.width == vector.size == 6
    assert together.paired == (False, True, False, False, False, True)
    assert together.labels == ("mean", "variance", "median", "covariance")
    vectors = vector + rng.normal(scale=0.1, size=(4, 2, 6))
    found = together.estimate(vectors)
    assert found.shape == (4, 2, 4)
    assert np.array_equal(found[..., 2:3], median.estimate(vectors[..., 2:5]))
    assert pickle.loads(pickle.dumps(together)) == together


def test_reaches_are_divided_by_the_shares() -> None:
    equal = JointQuery((mean, variance), ((0,), (1,)))
    assert equal.shares == pytest.approx((0.5**0.5, 0.5**0.5))
    assert equal.blocks[0].radius == pytest.approx(mean.blocks[0].radius * 2**0.5)
    uneven = JointQuery((mean, variance), ((0,), (1,)), (3.0, 4.0))
    assert uneven.shares == pytest.approx((0.6, 0.8))
    assert uneven.blocks[1].radius == pytest.approx(variance.blocks[0].radius / 0.8)
    single = JointQuery((mean,), ((0,),), names=("age",))
    assert single.blocks[0].radius == mean.blocks[0].radius
    assert single.labels == ("age mean",)
    nested = JointQuery((equal, covariance), ((0, 1), (0, 2)))
    assert nested.blocks[0].radius == pytest.approx(2.0 * mean.blocks[0].radius)


def test_readings_of_the_parts_that_know_their_error() -> None:
    at = Averaged(np.array([5.0, 0.1, 0.2, 0.5, 0.8, 0.3]), np.full(6, 1e-4), 1e-3)
    found = JointQuery(parts, picks).known(at, 0.95)
    assert found[2] is not None
    assert found[2] == median.known(at.part(slice(2, 5)), 0.95)[0]
    assert [one is None for one in found] == [True, True, False, True]
    assert JointQuery((mean, sd), ((0,), (1,))).known(at.part(slice(0, 2)), 0.95) == (None, None)


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"queries": ()}, "queries"),
        ({"queries": (mean, 3)}, "queries"),
        ({"picks": ((0,),)}, "picks"),
        ({"picks": ((0,), ())}, "picks"),
        ({"picks": ((0,), (-1,))}, "picks"),
        ({"picks": ((0,), (0.5,))}, "picks"),
        ({"shares": (1.0,)}, "shares"),
        ({"shares": (1.0, 0.0)}, "shares"),
        ({"shares": (1.0, -1.0)}, "shares"),
        ({"shares": (1.0, np.nan)}, "shares"),
        ({"shares": (1.0, 1e-12)}, "shares"),
        ({"names": ("a",)}, "names"),
    ],
)
def test_refusals(change: dict[str, object], word: str) -> None:
    setting: dict[str, object] = {"queries": (mean, variance), "picks": ((0,), (1,))}
    with pytest.raises(InvalidParameter, match=word):
        JointQuery(**{**setting, **change})  # type: ignore[arg-type]
