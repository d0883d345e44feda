"""Plans: what they come down to, and that order and spelling do not matter."""

from __future__ import annotations

import json

import numpy as np
import pytest

import mustdp as md
from tests.seams import atoms, describe, plan_from_description

NOISE = md.gaussian(noise_multiplier=3.0)
MOST_STEPS = 10**9
STEP = md.subsample(md.wor(200, 20), NOISE)
OTHER = md.subsample(md.wr(200, 10), md.laplace(noise_multiplier=5.0))


def test_counting() -> None:
    plan = md.sequence(STEP, md.repeat(3, md.sequence(OTHER, md.repeat(2, STEP))))
    assert atoms(plan) == {STEP: 7, OTHER: 3}
    assert md.account(plan).steps == 10


def test_two_draws_in_a_row_are_one_scheme() -> None:
    nested = md.subsample(md.wor(200, 50), md.subsample(md.wr(50, 20), NOISE))
    assert atoms(nested) == {md.subsample(md.must_ow(200, 50, 20), NOISE): 1}
    once = md.subsample(md.wor(200, 50), md.repeat(1, md.subsample(md.wr(50, 20), NOISE)))
    assert atoms(once) == atoms(nested)


def test_drawing_everything_changes_nothing() -> None:
    assert atoms(md.subsample(md.wor(30, 30), md.repeat(4, NOISE))) == {NOISE: 4}


@pytest.mark.parametrize("scheme", [md.wor(200, 20), md.wr(200, 20), md.must_ww(200, 50, 20)])
def test_one_step_is_the_certificate(scheme: md.types.Scheme) -> None:
    account = md.account(md.subsample(scheme, NOISE))
    epsilons = [0.0, 0.1, 0.5, 1.5]
    certificate = md.one_step(scheme, NOISE, epsilons)
    for epsilon, upper, lower in zip(epsilons, certificate.upper, certificate.lower, strict=True):
        bounds = account.delta(epsilon)
        assert bounds.upper == pytest.approx(upper, rel=1e-5)  # the steering of stages differs
        assert bounds.lower == pytest.approx(lower, rel=1e-6)


@pytest.mark.parametrize("relation", ["add_remove", "replace_one"])
def test_one_poisson_step_is_exact(relation: str) -> None:
    scheme = md.poisson(100, 0.1)
    account = md.account(md.subsample(scheme, NOISE), relation=relation)
    step = md.one_step(scheme, NOISE, [0.05, 0.2], relation=relation)
    for k, epsilon in enumerate((0.05, 0.2)):
        bounds = account.delta(epsilon)
        assert bounds.upper == pytest.approx(step.upper[k], rel=1e-9)
        assert bounds.lower == pytest.approx(bounds.upper, rel=1e-6)


def test_epsilon_of_one_step_inverts_delta() -> None:
    account = md.account(STEP)
    for delta in (1e-2, 1e-5, 1e-12):
        epsilon = account.epsilon(delta)
        assert account.delta(epsilon.upper).upper <= delta * (1 + 1e-9)
        assert account.delta(epsilon.upper * (1 - 1e-6)).upper > delta
        assert account.delta(epsilon.lower).lower >= delta * (1 - 1e-9)


def test_order_of_a_sequence_does_not_matter() -> None:
    one = md.account(md.sequence(md.repeat(5, STEP), md.repeat(9, OTHER)))
    two = md.account(md.sequence(OTHER, md.repeat(5, STEP), md.repeat(8, OTHER)))
    for delta in (1e-3, 1e-8):
        assert one.epsilon(delta).upper == pytest.approx(two.epsilon(delta).upper, rel=1e-9)
        assert one.epsilon(delta).lower == pytest.approx(two.epsilon(delta).lower, rel=1e-9)


def test_a_step_that_tells_nothing_costs_nothing() -> None:
    idle = md.subsample(md.poisson(100, 0.0), NOISE)
    busy = md.repeat(4, md.subsample(md.poisson(100, 0.2), NOISE))
    alone, both = md.account(busy), md.account(md.sequence(busy, md.repeat(3, idle)))
    assert md.account(md.repeat(5, idle)).delta(0.0).upper == 0.0
    assert both.epsilon(1e-6).upper == pytest.approx(alone.epsilon(1e-6).upper, rel=1e-3)


def test_the_default_relation_follows_the_draws() -> None:
    poisson = md.subsample(md.poisson(100, 0.1), NOISE)
    assert md.account(md.repeat(2, poisson)).relation == "add_remove"
    assert md.account(md.sequence(poisson, STEP)).relation == "replace_one"
    assert md.account(NOISE).relation == "replace_one"


def test_the_shift_of_each_relation() -> None:
    """Two C in units of the noise where a record's place is filled, one C where it stays empty."""
    poisson = md.subsample(md.poisson(100, 0.1), NOISE)
    assert md.account(STEP, relation="replace_one").shift == 2 / 3.0
    assert md.account(STEP, relation="add_remove").shift == 2 / 3.0
    assert md.account(poisson, relation="replace_one").shift == 2 / 3.0
    assert md.account(poisson, relation="add_remove").shift == 1 / 3.0
    assert md.account(NOISE, relation="replace_one").shift == 2 / 3.0
    assert md.account(NOISE, relation="add_remove").shift == 1 / 3.0
    mixed = md.sequence(STEP, md.subsample(md.wor(200, 20), md.gaussian(shift=0.1)))
    assert md.account(mixed).shift is None


def test_descriptions_round_trip() -> None:
    plans: list[md.types.Plan] = [
        NOISE,
        md.laplace(shift=np.nextafter(0.3, 1.0)),
        STEP,
        md.repeat(7, md.sequence(STEP, OTHER)),
        md.subsample(md.wor(100, 50), md.repeat(3, md.subsample(md.must_ww(50, 20, 10), NOISE))),
        md.subsample(md.poisson(10, 1 / 3), NOISE),
    ]
    for plan in plans:
        text = json.dumps(describe(plan))
        assert plan_from_description(json.loads(text)) == plan


@pytest.mark.parametrize(
    "description",
    [
        None,
        [],
        {},
        {"mechanism": "cauchy", "shift": 1.0},
        {"mechanism": "gaussian", "shift": 1.0, "extra": 1},
        {"mechanism": "gaussian"},
        {"mechanism": "gaussian", "shift": float("nan")},
        {"repeat": 0, "inner": {"mechanism": "gaussian", "shift": 1.0}},
        {"repeat": 2.0, "inner": {"mechanism": "gaussian", "shift": 1.0}},
        {"repeat": 2},
        {"sequence": {}},
        {"sequence": []},
        {"subsample": {"scheme": "wor", "n": 10}, "inner": {"mechanism": "gaussian", "shift": 1.0}},
        {"subsample": {"scheme": "wor", "n": 10, "stages": [["wor", 20]]}, "inner": {}},
    ],
)
def test_bad_descriptions_are_refused(description: object) -> None:
    with pytest.raises(md.InvalidParameter):
        plan_from_description(description)


@pytest.mark.parametrize("count", [0, -1, 1.5, True, MOST_STEPS + 1, float("nan"), "3", None])
def test_counts(count: object) -> None:
    with pytest.raises(md.InvalidParameter):
        md.repeat(count, STEP)  # type: ignore[arg-type]


def test_more_steps_in_all_than_are_counted() -> None:
    with pytest.raises(md.InvalidParameter, match="steps"):
        md.account(md.repeat(MOST_STEPS, md.repeat(2, STEP)))


def test_a_custom_mechanism_cannot_be_written_down() -> None:
    custom = md.custom(lambda e: np.exp(-np.asarray(e)) * 0.1)
    with pytest.raises(md.NotCovered):
        describe(custom)
