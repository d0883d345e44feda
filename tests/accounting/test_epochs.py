"""Epochs: random allocation from both sides, shuffling, and plans that hold them."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import mustdp as md
from tests.seams import describe, plan_from_description, steps_of

GOLDEN = json.loads((Path(__file__).parents[1] / "golden/epochs.json").read_text())


def allocated(sigma: float, bins: int, epochs: int = 1) -> md.types.Plan:
    one = md.subsample(md.random_allocation(10**6, bins), md.gaussian(noise_multiplier=sigma))
    return md.repeat(epochs, one)


def shuffled(sigma: float, steps: int, epochs: int = 1) -> md.types.Plan:
    one = md.subsample(md.shuffle(10 * steps, 10), md.gaussian(noise_multiplier=sigma))
    return md.repeat(epochs, one)


@pytest.mark.parametrize("row", GOLDEN["allocation_brackets"]["rows"][:4], ids=str)
def test_inside_the_bracket_of_another_accountant(row: dict[str, Any]) -> None:
    found = md.account(allocated(row["sigma"], row["bins"])).epsilon(row["delta"])
    low, high = row["epsilon"]
    assert low <= found.lower <= found.upper <= high
    assert found.upper - found.lower <= 1e-3 * found.upper
    assert found.relation == "add_remove"


@pytest.mark.parametrize("row", GOLDEN["allocation_published"]["rows"][:2], ids=str)
def test_published_values_of_many_epochs(row: dict[str, Any]) -> None:
    plan = allocated(row["sigma"], row["bins"], row["epochs"])
    found = md.account(plan).delta(0.0)
    # The published noise has 7 digits and meets 0.1000 to 4.
    assert found.lower <= 0.10005
    assert found.upper >= 0.09995
    assert found.upper - found.lower <= 4e-3 * found.upper


@pytest.mark.parametrize("row", GOLDEN["shuffle"]["rows"], ids=str)
def test_shuffling_is_known_from_both_sides(row: dict[str, Any]) -> None:
    plan = shuffled(row["sigma"], row["steps"])
    found = md.account(plan, relation="add_remove").epsilon(1e-6)
    assert found.lower == pytest.approx(row["lower"], abs=6e-4)
    # The reference is without amplification.
    assert row["lower"] < found.upper <= row["upper"] + 6e-4
    poisson = md.poisson(10**6, 1 / row["steps"])
    noise = md.gaussian(noise_multiplier=row["sigma"])
    promised = md.account(md.repeat(row["steps"], md.subsample(poisson, noise))).epsilon(1e-6)
    # What is quoted is itself an upper bound.
    assert 0.95 * row["poisson"] <= promised.upper <= 1.004 * row["poisson"]
    assert found.lower > promised.upper


def test_shuffling_attains_at_least_what_allocation_costs() -> None:
    found = md.account(shuffled(4.0, 100), relation="add_remove").epsilon(1e-6)
    exact = md.account(allocated(4.0, 100)).epsilon(1e-6)
    assert exact.lower <= found.lower
    ragged = md.subsample(md.shuffle(995, 10), md.gaussian(noise_multiplier=0.5))
    other = md.account(ragged, relation="add_remove").epsilon(1e-6)
    assert 0.99 * other.upper < other.lower <= other.upper


@pytest.mark.parametrize(("sigma", "bins", "epochs"), [(1.0, 234, 10), (0.8, 2, 1), (0.5, 40, 1)])
def test_swapped_records_are_known_to_a_thousandth(sigma: float, bins: int, epochs: int) -> None:
    found = md.account(allocated(sigma, bins, epochs), relation="replace_one").epsilon(1e-5)
    assert 0.0 < found.upper - found.lower <= 1e-3 * found.upper


@pytest.mark.slow
def test_little_noise_shows_in_the_largest_batch() -> None:
    found = md.account(allocated(0.3, 300), relation="replace_one").epsilon(1e-6)
    exact = md.account(allocated(0.3, 300)).epsilon(1e-6)
    # Swapping a record is no less visible than leaving it out.
    assert exact.lower * 0.999 <= found.lower <= found.upper


def test_three_bins_of_swapped_records() -> None:
    found = md.account(allocated(1.0 / 1.2, 3), relation="replace_one").delta(0.4)
    assert 0.4209 < found.lower < 0.4213 < found.upper < 0.4217
    assert found.upper - found.lower <= 2e-3 * found.upper


@pytest.mark.parametrize("relation", ["add_remove", "replace_one"])
def test_one_bin_is_the_plain_mechanism(relation: str) -> None:
    noise = md.gaussian(noise_multiplier=2.0)
    plain = md.account(noise, relation=relation).epsilon(1e-6)
    for epoch in (md.random_allocation(50, 1), md.shuffle(50, 50)):
        found = md.account(md.subsample(epoch, noise), relation=relation).epsilon(1e-6)
        assert found == plain


def upper(plan: md.types.Plan) -> float:
    return md.account(plan).epsilon(1e-6).upper


@pytest.mark.parametrize(
    ("plan_of", "values"),
    [
        (lambda sigma: allocated(sigma, 40), (0.5, 0.8, 1.3, 4.0)),
        (lambda bins: allocated(1.0, bins), (2, 7, 40, 300)),
    ],
)
def test_more_noise_and_more_bins_cost_less(
    plan_of: Callable[[Any], md.types.Plan], values: tuple[Any, ...]
) -> None:
    costs = [upper(plan_of(value)) for value in values]
    assert costs == sorted(costs, reverse=True)


def test_more_epochs_cost_more_and_less_than_without_amplification() -> None:
    costs = [upper(allocated(1.5, 40, epochs)) for epochs in (1, 2, 5)]
    assert costs == sorted(costs)
    assert costs[-1] < upper(md.repeat(5, md.gaussian(noise_multiplier=1.5)))


def test_steps_of_an_epoch_run_on_into_the_next_one() -> None:
    epoch, noise = md.random_allocation(1000, 10), md.gaussian(noise_multiplier=2.0)
    costs = [upper(steps_of(epoch, steps, noise)) for steps in (3, 10, 13, 20)]
    assert costs == sorted(costs)
    assert steps_of(epoch, 20, noise) == md.repeat(2, md.subsample(epoch, noise))


def test_epochs_beside_other_steps_and_in_json() -> None:
    noise = md.gaussian(noise_multiplier=2.0)
    other = md.repeat(20, md.subsample(md.poisson(1000, 0.02), noise))
    plan = md.sequence(md.subsample(md.random_allocation(1000, 50), noise), other)
    assert plan_from_description(json.loads(json.dumps(describe(plan)))) == plan
    both = md.account(plan).epsilon(1e-5)
    alone = md.account(other).epsilon(1e-5)
    assert both.relation == "add_remove"
    assert alone.upper < both.lower <= both.upper <= 1.002 * both.lower
    ledger = md.Ledger(relation="add_remove")
    ledger.step(plan)
    assert ledger.epsilon(1e-5).upper == pytest.approx(both.upper)


def test_shuffled_epochs_compose_from_both_sides() -> None:
    one, five = (md.account(shuffled(2.0, 100, k)).epsilon(1e-6) for k in (1, 5))
    assert one.lower < five.lower < five.upper
    plain = md.account(md.repeat(5, md.gaussian(noise_multiplier=2.0))).epsilon(1e-6)
    assert five.upper < 0.7 * plain.upper
    # With little noise nothing is gained.
    little = md.repeat(5, md.gaussian(noise_multiplier=0.5))
    plain = md.account(little, relation="replace_one").epsilon(1e-6)
    assert md.account(shuffled(0.5, 100, 5)).epsilon(1e-6).upper == pytest.approx(
        plain.upper, rel=1e-3
    )


def test_what_is_not_proved_is_refused() -> None:
    epoch, noise = md.random_allocation(100, 5), md.gaussian(noise_multiplier=1.0)
    with pytest.raises(md.NotCovered, match="Gaussian"):
        md.subsample(epoch, md.laplace(noise_multiplier=1.0))
    with pytest.raises(md.NotCovered, match="subset"):
        md.subsample(md.wor(1000, 100), md.subsample(epoch, noise))
    with pytest.raises(md.NotCovered, match="noise multiplier"):
        md.account(md.subsample(epoch, md.gaussian(shift=1.0)), relation="replace_one")
    with pytest.raises(md.NotCovered, match="method"):
        md.account(md.subsample(epoch, noise), method="one-slope")
    for bins in (0, 2.5, math.nan):
        with pytest.raises(md.InvalidParameter, match="bins"):
            md.random_allocation(100, bins)  # type: ignore[arg-type]


def test_calibrated_epochs_meet_their_target() -> None:
    epoch = md.random_allocation(10_000, 40)
    found = md.calibrate(epoch, epsilon=1.0, delta=1e-5, epochs=3)
    assert 0.998 <= found.epsilon.upper <= 1.0
    assert found.steps == 120
    assert found.plan == md.repeat(3, md.subsample(epoch, found.mechanism))
    with pytest.raises(md.InvalidParameter, match="epochs"):
        md.calibrate(md.wor(100, 10), epsilon=1.0, delta=1e-5, epochs=3)


@pytest.mark.parametrize(
    ("epoch", "relation"),
    [
        (md.shuffle(60, 10), "add_remove"),
        (md.shuffle(60, 10), "replace_one"),
        pytest.param(md.random_allocation(60, 6), "replace_one", marks=pytest.mark.slow),
    ],
)
def test_people_with_many_records_have_no_amplification(
    epoch: md.types.Epoch, relation: str
) -> None:
    plan = md.repeat(2, md.subsample(epoch, md.gaussian(noise_multiplier=2.0)))
    one = md.account(plan, relation=relation).epsilon(1e-5)
    five = md.account(plan, relation=relation, group=5).epsilon(1e-5)
    shift = 5.0 * (0.5 if relation == "add_remove" else 1.0)
    whole = md.account(md.repeat(2, md.gaussian(shift=shift)), relation="replace_one").epsilon(1e-5)
    assert five.upper == pytest.approx(whole.upper, rel=2e-3)
    assert five.upper > one.upper
    assert one.lower * 0.99 <= five.lower <= five.upper


def test_steps_of_an_epoch_that_ends_early_are_refused() -> None:
    noise = md.gaussian(noise_multiplier=2.0)
    with pytest.raises(md.InvalidParameter, match="scheme must be a whole epoch"):
        steps_of(md.random_allocation(60, 6).first(2), 12, noise)


def test_what_is_no_plan_is_refused() -> None:
    with pytest.raises(md.InvalidParameter, match="plan must be a mechanism, subsample"):
        md.account(md.wor(10, 2))  # type: ignore[call-overload]
