"""Discrete noise: samples have the law that is charged, and are made of integers alone."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

import mustdp as md
from mustdp.noise.exact import _Coins
from mustdp.randomness.keys import NoiseSource
from tests.sampling.chi_square import p_value, p_value_of_numbers

DRAWS, LEVEL = 6000, 1e-5


def masses(kind: str, size: float) -> tuple[int, np.ndarray]:
    reach = math.ceil(60 * size) + 5
    k = np.arange(-reach, reach + 1)
    logs = -np.abs(k) / size if kind == "laplace" else -0.5 * np.square(k / size)
    chances = np.exp(logs)
    return -reach, chances / chances.sum()


@pytest.mark.parametrize("size", [0.3, 0.7, 1.0, 3.2, 17.0])
@pytest.mark.parametrize("kind", ["laplace", "gaussian"])
def test_samples_have_their_law_and_not_one_close_by(kind: str, size: float) -> None:
    mechanism = (
        md.discrete_laplace(scale=size) if kind == "laplace" else md.discrete_gaussian(sigma=size)
    )
    drawn = mechanism.noise(DRAWS, seed=4)
    assert drawn.dtype == np.int64
    assert p_value_of_numbers(drawn, *masses(kind, size)) > LEVEL
    assert p_value_of_numbers(drawn, *masses(kind, 1.15 * size)) < LEVEL
    assert p_value_of_numbers(drawn + math.ceil(0.2 * size), *masses(kind, size)) < LEVEL


@pytest.mark.parametrize("gamma", [Fraction(0), Fraction(1, 3), Fraction(1), Fraction(5, 2)])
def test_coins_decay(gamma: Fraction) -> None:
    coins = _Coins(NoiseSource(9))
    heads = sum(coins.decays(gamma) for _ in range(20_000)) / 20_000
    expected = math.exp(-gamma)
    assert abs(heads - expected) <= 4.5 * math.sqrt(expected * (1 - expected) / 20_000)


def test_every_uniform_integer_has_the_same_chance() -> None:
    coins = _Coins(NoiseSource(2))
    drawn = [coins.below(5) for _ in range(10_000)]
    assert p_value(drawn, dict.fromkeys(range(5), 0.2)) > LEVEL
    assert coins.below(1) == 0


def test_secret_noise_differs_and_seeded_noise_repeats() -> None:
    mechanism = md.discrete_gaussian(sigma=1000.0)
    assert not np.array_equal(mechanism.noise(20), mechanism.noise(20))
    assert np.array_equal(mechanism.noise(20, seed=1), mechanism.noise(20, seed=1))
    with pytest.raises(md.InvalidParameter, match="count"):
        mechanism.noise(-1)
