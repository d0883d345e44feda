"""What one pass of a family says on the way: never below what is attained."""

from __future__ import annotations

import numpy as np
import pytest

import mustdp as md
from mustdp.accounting.families.composition import StepProfile
from mustdp.accounting.families.recursion import attained
from tests.accounting.test_family import REPLACE, atom_of

SCHEME, Z, STEPS, DELTA = md.wor(1000, 20), 2.0, 60, 1e-5
COUNTS = {5, 30, STEPS, 90}
EPSILON = np.linspace(0.1, 3.0, 15)


def accounted(steps: int, composition: str = "auto") -> md.types.Account:
    plan = md.repeat(steps, md.subsample(SCHEME, md.gaussian(noise_multiplier=Z)))
    return md.account(plan, composition=composition)


@pytest.fixture(scope="module")
def passed() -> StepProfile:
    found = accounted(STEPS).along(DELTA, COUNTS, EPSILON)
    assert found is not None
    return found


def test_other_numbers_of_steps(passed: StepProfile) -> None:
    assert set(passed.epsilon) == COUNTS
    for count in COUNTS:
        own = accounted(count).epsilon(DELTA)
        assert own.lower <= passed.epsilon[count] <= own.upper * 1.03
        # One step more or less would be seen.
        shorter = accounted(max(count - max(3, count // 5), 1), "pair").epsilon(DELTA).lower
        assert shorter < passed.epsilon[count]
    pair = accounted(STEPS, "pair").epsilon(DELTA)
    assert passed.epsilon[STEPS] < 0.97 * pair.upper


def test_the_profile(passed: StepProfile) -> None:
    curve = accounted(STEPS, "pair").curve(EPSILON)
    assert np.all(passed.delta >= curve.lower)
    assert np.all(np.diff(passed.delta) <= 0.0)
    seen = curve.upper > 1e-6  # further out lies the end of the window
    assert np.all(passed.delta[seen] <= curve.upper[seen] * 1.02)
    assert np.any(passed.delta < 0.8 * curve.upper)


def test_nothing_without_a_family() -> None:
    assert accounted(STEPS, "pair").along(DELTA, COUNTS, EPSILON) is None
    step = md.subsample(md.poisson(1000, 0.02), md.gaussian(noise_multiplier=Z))
    assert md.account(md.repeat(STEPS, step)).along(DELTA, COUNTS, EPSILON) is None


def test_dropped_losses_lower_what_is_attained() -> None:
    """By no more than their mass in all steps together."""
    from mustdp.accounting.atoms import atom_pairs
    from mustdp.accounting.pld.readoff import DeltaAt

    pairs = atom_pairs(atom_of(SCHEME, md.gaussian(noise_multiplier=Z)), REPLACE, "certified")
    chosen = [pairs.families["aligned"], pairs.families["reversed"]]
    choices = [(chosen, np.arange(0, 1500, dtype=np.int64), 20)]

    def value(rare: float) -> float:
        return attained(choices, 2e-3, DeltaAt(0.5), 1.5, 0.3, (), rare).value

    whole, few, many = value(0.0), value(1e-9), value(1e-4)
    assert whole - 20 * 1e-9 <= few <= whole * (1.0 + 1e-9)
    assert many < 0.999 * whole
