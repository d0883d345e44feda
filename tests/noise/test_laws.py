"""What double precision is assumed to lose, measured: at most an eighth of it is ever used.

The size that belongs to V is found in three roundings: V itself (at most 1.26 units of
2^-53 in the size, as tail / density is at most 1.2533), the inverse, and the product with the scale
(one unit relative). What is left to the inverse is checked on points that crowd where ``ndtri``
changes its formula: exp(-2) and exp(-32) (cephes: z = sqrt(-2 log y) below 8). A machine whose
arithmetic is worse than assumed draws no noise.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import mpmath as mp
import numpy as np
import pytest
from numpy.typing import NDArray

from mustdp.errors import NumericalFailure
from mustdp.noise.exact import ARITHMETIC, GAUSSIAN, Law, check_arithmetic, exact_noise, law_called
from mustdp.randomness.keys import NoiseSource
from tests.noise.exact_tails import LAWS, tail

UNIT = 2.0**-53
ROUNDINGS = 1.26 + 1.0


def error(law: Law, argument: float) -> float:
    """Error of the size found for a tail of ``argument``, in units of 2^-53 max(1, size)."""
    size = -float(law.negative_sizes(argument))
    share = argument * 2 if law is GAUSSIAN else argument
    with mp.workdps(50):
        wrong = tail(law, size) - mp.mpf(share)
        slope = 2 * mp.npdf(mp.mpf(size)) if law is GAUSSIAN else mp.exp(-mp.mpf(size))
        # One step of Newton's method: what follows is of second order.
        return float(abs(wrong / slope)) / (UNIT * max(1.0, size))


def crowded(rng: np.random.Generator, many: int) -> NDArray[np.float64]:
    """Arguments over all magnitudes, dense where formulas change."""
    near = [
        center * (1 + rng.integers(-400, 400, many // 4) * 2.0**-52)
        for center in (math.exp(-2), math.exp(-32), 0.5, 0.25, 0.125)
    ]
    spread = [
        rng.uniform(math.exp(-2), 0.5, many),
        0.5 - 2.0 ** -rng.uniform(1, 53, many // 2),
        rng.uniform(0.1, 0.16, many),
        2.0 ** -rng.uniform(1, 64, many),
        2.0 ** -np.arange(1.0, 65.0),
    ]
    found = np.concatenate([*near, *spread])
    return found[(found > 0) & (found <= 0.5)]


def worst(law: Law, many: int, seed: int) -> float:
    arguments = crowded(np.random.default_rng(seed), many)
    if law is not GAUSSIAN:
        arguments = np.concatenate([arguments, 1 - arguments])
    return max(error(law, float(argument)) for argument in arguments)


@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.name)
def test_the_arithmetic_uses_an_eighth_of_its_margin_at_most(law: Law) -> None:
    used = worst(law, 400, seed=1) + ROUNDINGS
    assert 8 * used * UNIT <= ARITHMETIC
    assert used > ROUNDINGS + 0.4  # the measurement sees something


@pytest.mark.slow
@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.name)
def test_the_same_on_many_more_points(law: Law) -> None:
    assert 8 * (worst(law, 20_000, seed=2) + ROUNDINGS) * UNIT <= ARITHMETIC


@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.name)
def test_arrays_and_single_numbers_agree_within_the_margin(law: Law) -> None:
    """Vector instructions may round otherwise; they must not be worse."""
    arguments = np.random.default_rng(3).random(4099) * 0.5
    together = -law.negative_sizes(arguments)
    single = np.array([-float(law.negative_sizes(x)) for x in arguments.tolist()])
    assert np.all(np.abs(together - single) <= ARITHMETIC / 8 * np.maximum(1, single))


@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.name)
def test_the_last_bit_is_given_room_enough(law: Law) -> None:
    """Between V and V + 2^-63 the size moves by at most the width that is allowed for."""
    for exponent in range(1, 41):
        share = mp.mpf(2) ** -exponent
        size = -float(law.negative_sizes(float(share) * law.unit * 2.0**63))
        with mp.workdps(60):
            slope = 2 * mp.npdf(size) if law is GAUSSIAN else mp.exp(-mp.mpf(size))
            moved = mp.mpf(2) ** -63 / slope
        allowed = float(law.width_of_last_bit(np.array([size]))[0])
        assert 1.99 * float(moved) <= allowed <= 2.01 * float(moved)


@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.name)
def test_nothing_is_farther_than_stated(law: Law) -> None:
    """A value takes 1023 bits at most, so that V is at least 2^-1023."""
    assert tail(law, law.farthest) < mp.mpf(2) ** -1023


def test_laws_have_names() -> None:
    assert [law_called(law.name) for law in LAWS] == LAWS


@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.name)
def test_this_machine_is_trusted(law: Law) -> None:
    check_arithmetic(law)


@pytest.mark.parametrize("wrong", [ARITHMETIC / 4, -ARITHMETIC / 4])
@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.name)
def test_a_quarter_of_the_margin_is_too_much(law: Law, wrong: float) -> None:
    def worse(values: Any, out: Any = None) -> Any:
        sizes = law.negative_sizes(values)
        return np.multiply(sizes, 1 + wrong, out=out)

    broken = replace(law, negative_sizes=worse)
    with pytest.raises(NumericalFailure, match="nothing was drawn"):
        exact_noise(broken, 100.0, 5, NoiseSource(1))


@pytest.mark.parametrize("value", [np.nan, -np.inf, 0.0])
@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.name)
def test_answers_that_are_no_sizes(law: Law, value: float) -> None:
    broken = replace(law, negative_sizes=lambda values, out=None: np.full(np.shape(values), value))
    with pytest.raises(NumericalFailure, match="nothing was drawn"):
        check_arithmetic(broken)
