"""What is released: lattice points with the right noise, and nothing that gives a record away."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from mustdp.errors import InvalidParameter, NumericalFailure
from mustdp.noise.exact import (
    GAUSSIAN,
    LARGEST_INTEGER,
    Lattice,
    LatticeNoise,
    LawName,
    exact_noise,
    noise_for,
    release,
)
from mustdp.randomness.keys import NoiseSource

SIGMA = 3.3


def test_a_release_is_the_sum_plus_the_noise() -> None:
    noise = noise_for(SIGMA, reach=1.0, records=1000)
    sums = np.arange(-6, 6, dtype=np.int64).reshape(4, 3) * 10**6
    found = release(sums, noise, NoiseSource(1))
    drawn = exact_noise(GAUSSIAN, noise.ratio, 12, NoiseSource(1)).reshape(4, 3)
    assert found.dtype == np.float64
    assert np.array_equal(found, (sums + drawn) * noise.lattice.step)
    assert sums[0, 0] == -6 * 10**6  # left as they were


@given(
    power=st.floats(-250, 250),
    spread=st.floats(-5, 25),
    law=st.sampled_from(["gaussian", "laplace"]),
    seed=st.integers(0, 2**32),
)
@settings(max_examples=150, deadline=None)
def test_nothing_is_off_the_lattice_at_any_magnitude(
    power: float, spread: float, law: LawName, seed: int
) -> None:
    scale = 2.0**power
    reach = scale * 2.0**spread
    noise = noise_for(scale, reach=reach, records=7, law=law)
    values = np.random.default_rng(seed).uniform(-reach, reach, (7, 5))
    sums = noise.lattice.truncated(values).sum(axis=0)
    found = release(sums, noise, NoiseSource(seed))
    steps = found / noise.lattice.step
    assert np.all(np.isfinite(found))
    assert np.array_equal(steps, np.rint(steps))
    assert np.all(np.abs(steps) < LARGEST_INTEGER)
    # Adding the noise lost nothing: taking it away again leaves the sums.
    drawn = noise.draw(5, NoiseSource(seed))
    assert np.array_equal(steps.astype(np.int64) - drawn, sums)


def test_columns_have_noise_of_their_own() -> None:
    wide, narrow = noise_for(100.0, reach=1.0), noise_for(0.01, reach=1.0)
    found = release(np.zeros((4000, 3), dtype=np.int64), [wide, narrow, wide], NoiseSource(2))
    assert np.allclose(found.std(axis=0), [100, 0.01, 100], rtol=0.05)
    assert np.abs(np.corrcoef(found.T) - np.eye(3)).max() < 0.07
    for column, noise in zip(found.T, (wide, narrow, wide), strict=True):
        steps = column / noise.lattice.step
        assert np.array_equal(steps, np.rint(steps))


def test_a_shift_of_the_sum_shifts_the_release_and_nothing_else() -> None:
    """round(X + sigma g) = X + round(sigma g): neighbours differ by a lattice distance alone."""
    noise = noise_for(SIGMA, reach=1.0, records=1000)
    moved = int(noise.lattice.truncated([0.7])[0])
    one = release(np.zeros(500, dtype=np.int64), noise, NoiseSource(3))
    other = release(np.full(500, moved), noise, NoiseSource(3))
    assert np.array_equal(other - one, np.full(500, moved * noise.lattice.step))


def could_be_noise(values: NDArray[np.float64], scale: float) -> NDArray[np.bool_]:
    """The attack: is there a double whose product with the scale is the released value?"""
    around = values / scale
    candidates = [around]
    for direction in (-np.inf, np.inf):
        step = around
        for _ in range(3):
            step = np.nextafter(step, direction)
            candidates.append(step)
    found: NDArray[np.bool_] = np.any([c * scale == values for c in candidates], axis=0)
    return found


def test_the_attack_on_floating_point_noise_learns_nothing() -> None:
    """It tells record from no record on plain doubles and is blind on released values."""
    many, record = 20_000, 0.7
    plain = np.random.default_rng(4).standard_normal(many) * SIGMA
    absent, present = could_be_noise(plain, SIGMA), could_be_noise(plain + record, SIGMA)
    assert absent.all()
    assert present.mean() < 0.95
    noise = noise_for(SIGMA, reach=1.0, records=1000)
    source, rates = NoiseSource(5), []
    for steps in (0, int(noise.lattice.truncated([record])[0])):
        found = release(np.full(many, steps), noise, source)
        rates.append(could_be_noise(found, SIGMA).mean())
    # Five deviations of the difference of two frequencies.
    assert abs(rates[0] - rates[1]) < 5 * (0.5 / many) ** 0.5


def test_the_granularity_attack_learns_nothing() -> None:
    """Doubles near 0 are finer than those near 2^52; here every value has the lattice's grain."""
    noise = noise_for(1.0, reach=2.0**20, records=4)
    for steps in (0, int(noise.lattice.truncated([2.0**20 - 1.0])[0])):
        found = release(np.full(2000, steps), noise, NoiseSource(6))
        grain = (found / noise.lattice.step).astype(np.int64)
        assert abs(np.mean(grain & 1) - 0.5) < 0.06


@pytest.mark.parametrize(
    ("sums", "noise", "message"),
    [
        (np.zeros(3), None, "sums must be integers of 64 bits"),
        (np.zeros(3, dtype=np.int32), None, "sums must be integers of 64 bits"),
        (np.zeros(3, dtype=np.int64), [1, 2], "one for each of the 3 columns, got 2"),
    ],
)
def test_sums_of_another_kind(sums: Any, noise: Any, message: str) -> None:
    one = noise_for(1.0, reach=1.0)
    chosen = one if noise is None else [one for _ in noise]
    with pytest.raises(InvalidParameter, match=message):
        release(sums, chosen, NoiseSource(1))


def test_a_generator_is_no_source() -> None:
    with pytest.raises(InvalidParameter, match="source must be a NoiseSource"):
        release(np.zeros(1, dtype=np.int64), noise_for(1.0, reach=1.0), np.random.default_rng(1))  # type: ignore[arg-type]


@pytest.mark.parametrize("beyond", [2**52, -(2**52), 2**63 - 1, -(2**63)])
def test_sums_beyond_their_bounds_stop_the_release(beyond: int) -> None:
    with pytest.raises(NumericalFailure, match="nothing was released") as stopped:
        release(np.array([0, beyond]), noise_for(1.0, reach=1.0), NoiseSource(1))
    assert str(beyond) not in str(stopped.value)


def test_noise_that_is_too_fine_or_too_coarse_for_a_lattice() -> None:
    for scale in (2.0**40, 2.0**-20):
        with pytest.raises(InvalidParameter, match="scale / step"):
            LatticeNoise(scale, Lattice(0))


def test_an_empty_release() -> None:
    assert release(
        np.zeros((0, 3), dtype=np.int64), noise_for(1.0, reach=1.0), NoiseSource(1)
    ).shape == (0, 3)
