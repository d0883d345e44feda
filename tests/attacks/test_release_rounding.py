"""Rounding to a lattice moves neighbours apart: values made for it, against the noise drawn.

Two data sets whose exact totals are as far apart as the sensitivity allows can be farther apart
once both are rounded, by up to a step for each coordinate. With strong noise steps are coarse, and
noise that was not enlarged for it would be too small by a visible amount.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import mustdp as md
from mustdp.estimation.queries import JointSums, Piece
from mustdp.estimation.schema import Column, PublicSchema, Range
from mustdp.estimation.statistics.quantiles import QuantileCurve
from mustdp.noise.exact import LatticeNoise, release
from mustdp.randomness.keys import NoiseSource

N = 8


class Overheard:
    """Sums in steps and noise of one bootstrap, with the same subsets each time."""

    sums: NDArray[np.int64]
    noise: tuple[LatticeNoise, ...]

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, statistic: Any, data: NDArray[np.float64], z: float
    ) -> None:
        def releasing(
            sums: NDArray[np.int64], noise: Any, source: NoiseSource
        ) -> NDArray[np.float64]:
            self.sums, self.noise = sums, tuple(noise)
            return release(sums, noise, source)

        monkeypatch.setattr("mustdp.estimation.queries.release", releasing)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            md.private_bootstrap(
                data, statistic, lower=0, upper=1, design=md.wor(N + 1, N), replicates=4,
                noise_multiplier=z, delta=1e-3, seed=1,
            )  # fmt: skip

    @property
    def step(self) -> float:
        return self.noise[0].lattice.step


def moved(one: Overheard, other: Overheard) -> float:
    """How far apart two replicates are, in units of the noise's standard deviations."""
    return steps_moved(one, other) / one.noise[0].ratio


def steps_moved(one: Overheard, other: Overheard) -> int:
    return int(np.abs(one.sums - other.sums).max())


def neighbours() -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    first = np.full((N + 1, 1), 0.25)
    second = first.copy()
    second[0] = 1.0
    return first, second


@pytest.mark.parametrize("z", [1.0, 2.0**12, 2.0**20])
def test_a_users_total_that_rounds_away_from_its_neighbours(
    monkeypatch: pytest.MonkeyPatch, z: float
) -> None:
    """Both totals lie just beyond a half step, on different sides of an interval of K steps."""
    data, others = neighbours()
    # The step follows from public numbers alone, and is the same for sensitivities below 2.
    known = md.types.UserStatistic(lambda values, counts: 0.5, 1.0, average=True)
    step = Overheard(monkeypatch, known, data, z).step
    whole = math.floor(1.2 / step)
    beyond = min(0.01, 2.0**-40 / step) * step
    low, high = 0.5 * step - beyond, (whole + 0.5) * step + beyond

    def attack(values: NDArray[np.float64], counts: NDArray[np.int64]) -> float:
        return high if values.max() > 0.5 else low

    statistic = md.types.UserStatistic(attack, (high - low) * (1.0 + 2.0**-50), average=True)
    ends = [Overheard(monkeypatch, statistic, one, z) for one in (data, others)]
    assert ends[0].step == step
    assert steps_moved(*ends) == whole + 1
    # Swapping one record may move the release by twice the reach, two noise deviations over z.
    assert moved(*ends) <= 2.0 / z


def test_a_users_total_in_single_precision(monkeypatch: pytest.MonkeyPatch) -> None:
    """A function that rounds as 32-bit numbers do moves by a little more than it states."""
    rng = np.random.default_rng(1)

    def attack(values: NDArray[np.float64], counts: NDArray[np.int64]) -> float:
        return float(np.float32(1.0) - np.float32(values[:, 0] @ counts) / np.float32(N))

    statistic = md.types.UserStatistic(attack, 1.0 / N, average=True)
    beyond = 0
    for _ in range(10):
        data = rng.uniform(0.0, 1.0, (N + 1, 1))
        ends = []
        for value in (0.0, 1.0):
            data[0] = value
            ends.append(Overheard(monkeypatch, statistic, data, 1.0))
        assert moved(*ends) <= 2.0
        # By more than rounding to steps does.
        beyond += (steps_moved(*ends) - 1) * ends[0].step > 1.0 / N
    assert beyond > 0


COLUMN = (Column("x", Range(0.0, 10.0)),)


def farthest(stack: JointSums, records: int) -> float:
    """The farthest that swapping ``records`` of them together moves the sums, in real units."""
    (part,) = stack.parts
    assert isinstance(part, QuantileCurve)
    cells = [*(0.5 + k for k in range(part.size)), part.size + 0.5]
    vectors = []
    for value in cells:
        clusters = np.zeros(records, dtype=np.int64)
        piece = Piece(np.full((records, 1), value), clusters, clusters=clusters)
        vectors.append(stack.totals([piece])[0].ravel() * stack.noise.lattice.step)
    return max(float(np.linalg.norm(one - other)) for one in vectors for other in vectors)


def allowed(stack: JointSums, *, margin: bool) -> float:
    """How far the noise allows one unit to move the sums; without its margin, that is one."""
    if not margin:
        return 1.0
    return stack.noise.scale * 2.0 / stack.noise_multiplier


def curves(schema: PublicSchema) -> list[JointSums]:
    """Distribution functions on grids of 1 to 6 points, with noise from weak to strong."""
    return [
        JointSums(
            schema,
            (QuantileCurve(schema, (0,), tuple(float(k + 1) for k in range(points))),),
            2.0**z,
        )
        for points in range(1, 7)
        for z in range(1, 26)
    ]


def test_a_distribution_function_whose_columns_round_apart() -> None:
    """Columns of the square root share coordinates, so cutting towards zero can separate them."""
    beyond = 0
    for stack in curves(PublicSchema(COLUMN, md.types.Relation.REPLACE_ONE, 50)):
        found = farthest(stack, 1)
        assert found <= allowed(stack, margin=True)
        beyond += found > allowed(stack, margin=False) * (1.0 + 2.0**-35)
    assert beyond > 0  # the attack works on noise without a margin


def test_a_whole_cluster_whose_records_round_apart() -> None:
    """All records of a cluster are cut, each on its own, and all the same way."""
    most = 64
    schema = replace(
        PublicSchema(COLUMN, md.types.Relation.REPLACE_ONE),
        largest_cluster=most,
        whole_clusters=True,
    )
    beyond = 0
    for stack in curves(schema):
        found = farthest(stack, most)
        assert found <= allowed(stack, margin=True)
        one_record = math.sqrt(2.0 * stack.parts[0].width) * stack.noise.lattice.step
        beyond += found > 1.0 + one_record
    assert beyond > 0  # a margin for one record is not enough
