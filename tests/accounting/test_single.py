"""One step: both ends of a bracket on their safe side, mass left out of a law charged for."""

from __future__ import annotations

import math

import numpy as np
import pytest

import mustdp as md
from mustdp.accounting.pld.discretise import family_pair
from mustdp.mechanisms.mechanism import GaussianNoise
from mustdp.types import MultiplicityLaw
from tests.accounting.closed_forms import exact_delta
from tests.accounting.pld.mixture_pairs import family
from tests.arrays import FloatArray


def test_one_attained_step_is_charged_for_mass_left_out() -> None:
    """Every completion of a law that leaves 5 % out attains at least the lower bound."""
    law = MultiplicityLaw(0, np.array([0.8, 0.15]), 0.05, 1e-15)
    for name in ("aligned", "reversed", "symmetric"):
        pair = family_pair(name, law, GaussianNoise(), 1.0)
        for place in (0, 1, 4):
            completed = [0.8, 0.15, 0.0, 0.0, 0.0]
            completed[place] += 0.05
            exact = family(name, completed, 1.0, "gaussian")
            for epsilon in (0.0, 0.05, 0.2, 0.5):
                assert pair.attained(epsilon) <= exact.profile(epsilon)


@pytest.mark.parametrize("shift", [0.3, 1.0, 4.0])
def test_epsilons_of_one_step_are_the_safe_ends_of_their_brackets(shift: float) -> None:
    account = md.account(md.gaussian(shift=shift))
    for delta in np.geomspace(1e-24, 1e-2, 12).tolist():
        bounds = account.epsilon(delta)
        assert exact_delta(shift, bounds.upper) <= delta <= exact_delta(shift, bounds.lower)


def test_the_epsilon_of_a_profile_with_a_jump_lies_behind_it() -> None:
    """Between the ends of the last bracket delta may fall from 1e-3 to nothing."""

    def jump(epsilon: FloatArray) -> FloatArray:
        return np.where(epsilon < 0.7, 1e-3, 0.0)

    answer = md.account(md.custom(jump)).epsilon(1e-6).upper
    assert 0.7 <= answer <= 0.7 * (1 + 1e-9)
    # Where delta is not met at the largest loss, no epsilon is given at all.
    assert md.account(md.gaussian(shift=50.0)).epsilon(1e-5).upper == math.inf
