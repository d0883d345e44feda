"""The guess that a search begins with: close, quick, and of no consequence for what is found."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

import mustdp as md
from tests.seams import rough_epsilon, smallest_noise

NOISE = md.gaussian(noise_multiplier=2.0)


@pytest.mark.parametrize(
    ("plan", "relation"),
    [
        (md.repeat(100, md.subsample(md.poisson(1000, 0.02), NOISE)), None),
        (md.repeat(100, md.subsample(md.poisson(1000, 0.02), NOISE)), "replace_one"),
        (md.repeat(100, md.subsample(md.wor(1000, 20), NOISE)), None),
        # Copies of a record: losses that are rare and far beyond the deviation of the others.
        (md.repeat(635, md.subsample(md.must_ow(32561, 384, 256), NOISE)), None),
        (md.repeat(16, md.gaussian(noise_multiplier=8.0)), None),
        (md.sequence(NOISE, md.repeat(20, md.subsample(md.wr(500, 10), NOISE))), None),
        (md.subsample(md.wor(100, 10), md.laplace(noise_multiplier=1.0)), None),
    ],
)
def test_close_to_what_is_attained(plan: md.types.Plan, relation: str | None) -> None:
    attained = md.account(plan, relation=relation, composition="pair").epsilon(1e-5).lower
    assert rough_epsilon(plan, 1e-5, relation, 1) == pytest.approx(attained, rel=0.03)


@pytest.mark.parametrize("relation", ["add_remove", "replace_one"])
@pytest.mark.parametrize(
    ("epoch", "noise", "times"),
    [
        (md.random_allocation(60000, 234), 0.7, 1),
        (md.random_allocation(60000, 234), 0.4, 1),
        (md.random_allocation(60000, 234), 1.0, 10),
        (md.random_allocation(600, 20).first(5), 1.0, 1),
        (md.random_allocation(600, 3), 3.0, 2),
    ],
)
def test_an_epoch_is_guessed_with_its_rare_losses(
    epoch: md.types.RandomAllocation, noise: float, times: int, relation: str
) -> None:
    plan = md.repeat(times, md.subsample(epoch, md.gaussian(noise_multiplier=noise)))
    certified = md.account(plan, relation=relation).certified_epsilon(1e-5, 0.02)
    assert rough_epsilon(plan, 1e-5, relation, 1) == pytest.approx(certified, rel=0.2)


@pytest.mark.parametrize("noise", [1e-4, 1e-2, 1.0, 100.0, 1e8])
@pytest.mark.parametrize("relation", ["add_remove", "replace_one"])
def test_a_guess_is_a_number_or_none(noise: float, relation: str) -> None:
    mechanism = md.gaussian(noise_multiplier=noise)
    for plan in (
        md.subsample(md.must_ow(1000, 30, 20), mechanism),
        md.repeat(10, md.subsample(md.random_allocation(1000, 50), mechanism)),
    ):
        found = rough_epsilon(plan, 1e-5, relation, 1)
        assert found is None or 0.0 < found < math.inf


def test_no_guess_where_none_can_be_made() -> None:
    step = md.subsample(md.wor(1000, 20), NOISE)
    assert rough_epsilon(step, 1e-20, None, 1) is None
    reused = md.subsample(md.wor(100, 10), md.repeat(3, md.subsample(md.wr(10, 5), NOISE)))
    assert rough_epsilon(reused, 1e-5, None, 1) is None


@pytest.mark.parametrize(
    "guess",
    [
        None,
        lambda z: None,
        lambda z: 7.0,
        lambda z: 30.0 * z**-0.2,
        lambda z: z,  # the wrong way round
        lambda z: 2.0 / z if z > 1.0 else None,
    ],
)
def test_a_bad_guess_only_costs_time(guess: Callable[[float], float | None] | None) -> None:
    asked: list[float] = []

    def spent(z: float, accuracy: float) -> float:
        asked.append(z)
        return float((3.0 / z**1.4 + 0.1 / z) * (1.0 + accuracy / 10.0))

    z = smallest_noise(spent, 0.6, guess)
    assert 0.6 * (1 - 2.5e-3) <= spent(z, 1e-3) <= 0.6
    assert len(asked) < 40


def test_a_good_guess_saves_accounts() -> None:
    asked: list[float] = []

    def spent(z: float, accuracy: float) -> float:
        asked.append(z)
        return float(3.1 / z**1.4 * (1.0 + 0.01 / z))

    z = smallest_noise(spent, 0.6, lambda z: 3.0 / z**1.4)
    assert spent(z, 1e-3) <= 0.6
    assert len(asked) <= 5


def test_a_family_is_asked_a_few_times(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[float] = []
    tightest = md.types.Account.tightest_epsilon

    def listens(self: md.types.Account, delta: float) -> float:
        asked.append(self.shift or math.nan)
        return tightest(self, delta)

    monkeypatch.setattr(md.types.Account, "tightest_epsilon", listens)
    found = md.calibrate(md.wor(1000, 20), epsilon=1.0, delta=1e-5, steps=50)
    assert 0.996 <= found.epsilon.upper <= 1.0
    assert 1 <= len(set(asked)) <= 4
    assert md.account(found.plan).epsilon(1e-5) == found.epsilon


#: Certified epsilon by noise multiplier: ten shuffled epochs of 60,000 in batches of 256 at 1e-5.
SHUFFLED = {
    0.1: 2200.0,
    1.0: 46.6,
    1.47: 18.98,
    1.65: 12.0,
    2.0: 6.42,
    2.52: 3.84,
    2.64: 2.94,
    2.89: 1.355,
    3.32: 0.861,
    3.99: 0.571,
    4.9: 0.403,
    8.27: 0.195,
    16.2: 0.0863,
    160.0: 0.0075,
}


@pytest.mark.parametrize("noise", [3.32, 8.27, 16.2])
def test_a_shuffled_epoch_is_guessed_up_to_a_factor(noise: float) -> None:
    mechanism = md.gaussian(noise_multiplier=noise)
    found = rough_epsilon(
        md.repeat(10, md.subsample(md.shuffle(60000, 256), mechanism)), 1e-5, None, 1
    )
    assert found is not None
    assert 0.5 * SHUFFLED[noise] < found < 1.3 * SHUFFLED[noise]


@pytest.mark.parametrize("target", [0.2, 1.0, 3.0, 12.0])
def test_a_steep_place_is_found_in_few_accounts(target: float) -> None:
    asked: list[float] = []

    def spent(z: float, accuracy: float) -> float:
        asked.append(z)
        known = [math.log(value) for value in SHUFFLED.values()]
        return math.exp(float(np.interp(math.log(z), [math.log(at) for at in SHUFFLED], known)))

    z = smallest_noise(spent, target, lambda z: 0.6 / z, loose=True)
    assert spent(z, 1e-3) <= target <= spent(0.999 * z, 1e-3) / 0.98
    assert len(asked) <= 14
