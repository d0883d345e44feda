"""Calibrated noise: never over the target, and close to it."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import mustdp as md
from mustdp.calibration import calibrate_plan
from tests.seams import replace_search_in_calibrate, smallest_noise

SCHEME = md.wor(100, 10)
NOISE = md.gaussian(noise_multiplier=4.0)
CASES = [
    (md.poisson(1000, 0.01), 1.0, 1e-5, 1000, "gaussian", None),
    (md.poisson(1000, 0.05), 0.5, 1e-6, 50, "gaussian", "replace_one"),
    (md.wor(500, 20), 2.0, 1e-5, 100, "gaussian", None),
    (md.wor(500, 20), 2.0, 1e-5, 100, "gaussian", "add_remove"),
    (md.wr(500, 20), 8.0, 1e-9, 10, "gaussian", None),
    (md.wr(50, 50), 1.0, 1e-5, 1, "gaussian", None),
    pytest.param(
        *(md.must_ow(500, 100, 20), 0.3, 1e-5, 20, "gaussian", None), marks=pytest.mark.slow
    ),
    (md.wor(500, 20), 1.0, 1e-6, 30, "laplace", None),
]


@pytest.mark.parametrize(("scheme", "epsilon", "delta", "steps", "mechanism", "relation"), CASES)
def test_on_the_safe_side_and_close(
    scheme: md.types.Scheme,
    epsilon: float,
    delta: float,
    steps: int,
    mechanism: str,
    relation: str | None,
) -> None:
    found = md.calibrate(
        scheme, epsilon=epsilon, delta=delta, steps=steps, mechanism=mechanism, relation=relation
    )
    assert found.epsilon.lower <= found.epsilon.upper <= epsilon
    assert found.epsilon.upper >= epsilon * (1 - 4e-3)
    # What is promised is what the account of the very noise returned says.
    noise = getattr(md, mechanism)(noise_multiplier=found.noise_multiplier)
    account = md.account(md.repeat(steps, md.subsample(scheme, noise)), relation=relation)
    assert account.epsilon(delta).upper <= epsilon
    assert account.relation == found.relation
    # A little less noise would be over the target.
    less = getattr(md, mechanism)(noise_multiplier=found.noise_multiplier * (1 - 6e-3))
    weaker = md.account(md.repeat(steps, md.subsample(scheme, less)), relation=relation)
    assert weaker.epsilon(delta).upper > epsilon


def test_a_number_known_in_the_field() -> None:
    """Poisson, q = 0.01, k = 1000, epsilon = 1, delta = 1e-5: 1.41463 by dp-accounting 0.6.0."""
    found = md.calibrate(md.poisson(1000, 0.01), epsilon=1.0, delta=1e-5, steps=1000)
    assert 1.4140 <= found.noise_multiplier <= 1.41463 * (1 + 2e-3)


def test_gaussian_without_subsampling() -> None:
    """Against the closed form: mu = 2 sqrt(k)/z with delta(eps; mu) = delta."""
    found = calibrate_plan(
        lambda noise: md.repeat(16, noise), epsilon=1.0, delta=1e-5, relation="replace_one"
    )
    whole = md.gaussian(shift=2 * 4 / found.noise_multiplier)
    assert whole.delta(1.0)[0] <= 1e-5
    assert whole.delta(1.0 - 2e-3)[0] >= 1e-5


@pytest.mark.slow
def test_monotone_in_epsilon_and_in_steps() -> None:
    scheme = md.wor(500, 20)
    by_epsilon = [
        md.calibrate(scheme, epsilon=e, delta=1e-5, steps=50).noise_multiplier
        for e in (0.3, 1.0, 1.01, 3.0)
    ]
    assert by_epsilon == sorted(by_epsilon, reverse=True)
    by_steps = [
        md.calibrate(scheme, epsilon=1.0, delta=1e-5, steps=k).noise_multiplier
        for k in (1, 10, 11, 200)
    ]
    assert by_steps == sorted(by_steps)


def test_nested_plans() -> None:
    """A reused subset is calibrated as what it is, and needs more noise than fresh draws."""

    def reused(noise: md.types.Mechanism) -> md.types.Plan:
        inner = md.repeat(4, md.subsample(md.wr(20, 10), noise))
        return md.repeat(3, md.subsample(md.wor(200, 20), inner))

    found = calibrate_plan(reused, epsilon=2.0, delta=1e-5)
    assert found.epsilon.upper <= 2.0
    assert found.plan == reused(md.gaussian(noise_multiplier=found.noise_multiplier))
    fresh = md.calibrate(md.must_ow(200, 20, 10), epsilon=2.0, delta=1e-5, steps=12)
    assert found.noise_multiplier > fresh.noise_multiplier


def counted(spent: Callable[[float], float]) -> Callable[[float, float], float]:
    return lambda z, accuracy: spent(z) * (1.0 + accuracy)


@pytest.mark.parametrize("power", [0.5, 1.0, 3.0])
@pytest.mark.parametrize("target", [1e-3, 0.7, 60.0])
def test_the_search_ends_on_the_safe_side(power: float, target: float) -> None:
    spent = counted(lambda z: z**-power)
    z = smallest_noise(spent, target)
    assert spent(z, 1e-3) <= target
    assert spent(z, 1e-3) >= target * (1 - 1e-3) or z <= 1e-4


def test_a_jump_is_passed_on_the_safe_side() -> None:
    z = smallest_noise(lambda z, accuracy: 5.0 if z < 3.0 else 0.1, 1.0)
    assert 3.0 <= z <= 3.0 * (1 + 1e-8)


def test_targets_out_of_reach() -> None:
    with pytest.raises(md.NumericalFailure, match="no noise"):
        smallest_noise(lambda z, accuracy: math.inf, 1.0)
    assert smallest_noise(lambda z, accuracy: 0.0, 1.0) == 1e-4


@pytest.mark.parametrize(
    "change",
    [
        {"epsilon": 0.0}, {"epsilon": -1.0}, {"epsilon": float("nan")}, {"epsilon": 501.0},
        {"delta": 0.0}, {"delta": 1.0}, {"delta": float("nan")},
        {"steps": 0}, {"steps": 1.5}, {"steps": 10**9 + 1},
        {"mechanism": "cauchy"}, {"relation": "swap"},
    ],
)  # fmt: skip
def test_bad_targets(change: dict[str, object]) -> None:
    arguments = {"epsilon": 1.0, "delta": 1e-5, "steps": 10, **change}
    with pytest.raises(md.InvalidParameter, match=next(iter(change))):
        md.calibrate(md.wor(100, 10), **arguments)  # type: ignore[call-overload]


def test_too_little_noise_is_never_returned(monkeypatch: pytest.MonkeyPatch) -> None:
    """If the search were wrong, the account of its result would still object."""
    replace_search_in_calibrate(monkeypatch, lambda spent, target, **_: 0.7)
    with pytest.raises(md.NumericalFailure, match="its account says"):
        md.calibrate(SCHEME, epsilon=1.0, delta=1e-5, steps=20)


@pytest.mark.parametrize("search", ["noise", "steps"])
def test_a_bound_just_over_the_target_is_not_let_through(
    monkeypatch: pytest.MonkeyPatch, search: str
) -> None:
    """A search that believes in 1 % less than the truth ends a little over the target."""
    certified, both = md.types.Account.certified_epsilon, md.types.Account.epsilon
    settled: list[md.types.Account] = []

    def flattering(self: md.types.Account, delta: float, accuracy: float | None = None) -> float:
        return certified(self, delta, accuracy) * (1.0 if self in settled else 0.99)

    def honest(self: md.types.Account, delta: float) -> md.Bounds:
        settled.append(self)
        return both(self, delta)

    monkeypatch.setattr(md.types.Account, "certified_epsilon", flattering)
    monkeypatch.setattr(md.types.Account, "epsilon", honest)
    # Under add_remove, where no family says less than the search.
    target: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-5, "relation": "add_remove"}
    searches: dict[str, Callable[[], object]] = {
        "noise": lambda: md.calibrate(SCHEME, steps=200, **target),
        "steps": lambda: md.calibration.most_steps(SCHEME, mechanism=NOISE, **target),
    }
    with pytest.raises(md.NumericalFailure, match="its account says"):
        searches[search]()
    assert settled


def test_noise_that_cannot_be_certified_is_not_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("certified_epsilon", "tightest_epsilon", "epsilon"):
        answer = getattr(md.types.Account, name)

        def fails(self: md.types.Account, *given: float, answer: Any = answer) -> object:
            if self.shift is not None and self.shift > 2.0 / 9.0:
                raise md.NumericalFailure("too little noise")
            return answer(self, *given)

        monkeypatch.setattr(md.types.Account, name, fails)
    found = md.calibrate(SCHEME, epsilon=20.0, delta=1e-5, steps=5)
    assert 9.0 <= found.noise_multiplier <= 9.0 * (1 + 1e-6)


@pytest.mark.parametrize("kind", ["gaussian", "laplace"])
def test_the_kind_of_noise_by_name_or_by_example(kind: str) -> None:
    """Where only the kind matters, the size of an example changes nothing."""
    example = getattr(md, kind)(shift=17.0)
    by_name, by_example = (
        md.calibrate(md.wor(50, 5), epsilon=1.0, delta=1e-5, steps=1, mechanism=mechanism)
        for mechanism in (kind, example)
    )
    assert by_name == by_example
    rows, others = (
        md.compare(n=8, b=4, m=2, steps=1, delta=0.1, noise_multiplier=9.0, mechanism=mechanism)
        for mechanism in (kind, example)
    )
    assert rows == others


def test_a_profile_of_ones_own_has_no_multiplier_to_look_for() -> None:
    profile = md.custom(lambda epsilon: np.exp(-1.0 - epsilon))
    with pytest.raises(md.InvalidParameter, match="mechanism must be one of gaussian, laplace"):
        md.calibrate(md.wor(50, 5), epsilon=1.0, delta=1e-5, steps=1, mechanism=profile)


@pytest.mark.parametrize("jump", [0.011, 0.37, 0.9, 3.0, 17.0, 260.0])
def test_at_a_jump_what_is_returned_met_the_target(jump: float) -> None:
    tried: dict[float, float] = {}

    def spent(z: float, accuracy: float) -> float:
        tried[z] = 5.0 if z < jump else 0.1
        return tried[z]

    found = smallest_noise(spent, 1.0)
    assert tried[found] <= 1.0
    assert found == pytest.approx(jump, rel=1e-6)
