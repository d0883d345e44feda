"""The bridge to jax-privacy, with its own calibration, plans and strategies."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import mustdp as md
from tests.interop.conftest import page_code

pytest.importorskip("jax")
accounting: Any = pytest.importorskip("jax_privacy.accounting")
selection: Any = pytest.importorskip("jax_privacy.batch_selection")
dpa: Any = pytest.importorskip("dp_accounting")

from mustdp.interop.dp_accounting import MustdpAccountant
from mustdp.interop.jax_privacy import SchemeBatches, TrainingAccountant, plan_of
from mustdp.types import SeededRelease

RELATION = dpa.NeighboringRelation
FIXED = accounting.SamplingMethod.FIXED_BATCH_SIZE


def run(**more: Any) -> Any:
    given = {"noise_multipliers": 2.0, "num_samples": 10_000, "delta": 1e-5, "batch_size": 100}
    return accounting.DpParams(**(given | more))


def theirs() -> Any:
    return accounting.DpsgdTrainingAccountant(accounting.PldAccountantConfig())


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"noise_multipliers": [(0, 2.0), (40, 3.0)]},
        {"cycle_length": 4},
        {"truncated_batch_size": 140},
    ],
    ids=str,
)
def test_poisson_batches_agree_with_theirs(more: dict[str, Any]) -> None:
    bounds = TrainingAccountant().bounds(100, run(**more))
    other = theirs().compute_epsilon(100, run(**more))
    assert bounds.lower <= other * (1 + 1e-9)
    assert TrainingAccountant().compute_epsilon(100, run(**more)) == bounds.upper
    assert bounds.upper == pytest.approx(other, rel=0.01)


def test_batches_that_grow() -> None:
    """Their own answer is in single precision here, and takes half a minute."""
    growing = run(batch_size_scale_schedule={30: 2, 60: 2})
    peer = dpa.pld.PLDAccountant()
    for count, rate in ((30, 0.01), (30, 0.02), (40, 0.04)):
        peer.compose(dpa.PoissonSampledDpEvent(rate, dpa.GaussianDpEvent(2.0)), count)
    found = TrainingAccountant().bounds(100, growing)
    assert found.lower <= peer.get_epsilon(1e-5) * (1 + 1e-9)
    assert found.upper == pytest.approx(peer.get_epsilon(1e-5), rel=1e-3)


def test_fixed_batches_are_charged_as_what_they_are() -> None:
    """Their rule is below what a pair of data sets attains (60000, 2000, z = 3.117, 300 steps)."""
    fixed = run(noise_multipliers=3.117, num_samples=60_000, batch_size=2000, sampling_method=FIXED)
    found = TrainingAccountant(composition="pair").bounds(300, fixed)
    plan = md.repeat(300, md.subsample(md.wor(60_000, 2000), md.gaussian(noise_multiplier=3.117)))
    assert found == md.account(plan, relation="replace_one", composition="pair").epsilon(1e-5)
    attained = md.account(plan, relation="replace_one", composition="family").epsilon(1e-5).lower
    assert theirs().compute_epsilon(300, fixed) < attained <= found.upper


def test_users() -> None:
    two = TrainingAccountant(composition="pair").bounds(50, run(examples_per_user=2))
    plan = md.repeat(50, md.subsample(md.poisson(10_000, 0.01), md.gaussian(noise_multiplier=2.0)))
    assert two == md.account(plan, relation="add_remove", group=2).epsilon(1e-5)
    peer = accounting.DpsgdTrainingUserLevelAccountant(accounting.PldAccountantConfig())
    assert two.lower <= peer.compute_epsilon(50, run(examples_per_user=2)) * (1 + 1e-6)


def test_calibration_by_jax_privacy() -> None:
    found = accounting.calibrate_noise_multiplier(
        target_epsilon=1.0,
        accountant=TrainingAccountant(composition="pair"),
        batch_sizes=100,
        num_updates=50,
        num_samples=10_000,
        target_delta=1e-5,
        initial_min_noise=0.5,
    )
    ours = md.calibrate(md.poisson(10_000, 0.01), epsilon=1.0, delta=1e-5, steps=50)
    assert ours.noise_multiplier * 0.999 <= found <= ours.noise_multiplier + 0.03
    steps = accounting.calibrate_num_updates(
        target_epsilon=1.0,
        accountant=TrainingAccountant(composition="pair"),
        noise_multipliers=2.0,
        batch_sizes=500,
        num_samples=10_000,
        target_delta=1e-5,
    )
    left = TrainingAccountant(composition="pair").compute_epsilon(steps, run(batch_size=500))
    assert left <= 1.0


def test_an_execution_plan_with_our_accountant() -> None:
    plans = pytest.importorskip("jax_privacy.experimental.execution_plan")
    config = plans.BandMFExecutionPlanConfig(
        iterations=20,
        strategy=np.array([1.0]),
        epsilon=1.0,
        delta=1e-5,
        sampling_prob=0.1,
        accountant=MustdpAccountant(RELATION.REPLACE_SPECIAL, composition="pair"),
    )
    event = config.plan.dp_event
    spent = MustdpAccountant(RELATION.REPLACE_SPECIAL).compose(event).get_epsilon(1e-5)
    assert 0.99 < spent <= 1.0
    plan = plan_of(config.plan.batch_selection_strategy, 500, event.event.event.noise_multiplier)
    assert md.account(plan).epsilon(1e-5).upper == pytest.approx(spent)


def test_an_accountant_fn_is_a_class() -> None:
    """What later versions call AccountantFn: from a relation to a fresh accountant."""
    for relation in RELATION:
        made: Any = MustdpAccountant(relation)
        assert isinstance(made, dpa.PrivacyAccountant)
        assert made.neighboring_relation is relation


NOISE = md.gaussian(noise_multiplier=3.0)


@pytest.mark.parametrize(
    ("strategy", "plan"),
    [
        (
            selection.CyclicPoissonSampling(sampling_prob=0.1, iterations=12),
            md.repeat(12, md.subsample(md.poisson(60, 0.1), NOISE)),
        ),
        (
            selection.CyclicPoissonSampling(
                sampling_prob=0.3,
                iterations=13,
                cycle_length=4,
                partition_type=selection.PartitionType.INDEPENDENT,
            ),
            md.banded(md.repeat(4, md.subsample(md.poisson(60, 0.3), NOISE)), 4),
        ),
        (
            selection.CyclicPoissonSampling(
                sampling_prob=0.1, iterations=12, truncated_batch_size=9
            ),
            md.repeat(12, md.subsample(md.truncated_poisson(60, 0.1, 9), NOISE)),
        ),
        (
            selection.FixedBatchSampling(batch_size=7, iterations=5),
            md.repeat(5, md.subsample(md.wor(60, 7), NOISE)),
        ),
        (
            selection.FixedBatchSampling(batch_size=7, iterations=5, replace=True),
            md.repeat(5, md.subsample(md.wr(60, 7), NOISE)),
        ),
        (
            selection.BallsInBinsSampling(iterations=6, cycle_length=6),
            md.subsample(md.random_allocation(60, 6), NOISE),
        ),
        (
            selection.BallsInBinsSampling(iterations=4, cycle_length=6),
            md.subsample(md.random_allocation(60, 6).first(4), NOISE),
        ),
        (
            SchemeBatches(md.must_ow(60, 20, 9), 8),
            md.repeat(8, md.subsample(md.must_ow(60, 20, 9), NOISE)),
        ),
    ],
    ids=["poisson", "cycle", "capped", "wor", "wr", "bins", "some bins", "ours"],
)
def test_strategies_are_plans(strategy: Any, plan: Any) -> None:
    assert plan_of(strategy, 60, 3.0) == plan
    drawn = list(strategy.batch_iterator(60))
    assert len(drawn) == strategy.iterations
    assert all(0 <= index < 60 for batch in drawn for index in batch)


@pytest.mark.parametrize(
    ("strategy", "reason"),
    [
        (
            selection.CyclicPoissonSampling(
                sampling_prob=0.1, iterations=12, truncated_batch_size=5, cycle_length=2
            ),
            "truncate",
        ),
        (
            selection.CyclicPoissonSampling(sampling_prob=0.1, iterations=12, cycle_length=3),
            "INDEPENDENT",
        ),
        (selection.BallsInBinsSampling(iterations=12, cycle_length=6), "same bin"),
        (selection.BMinSepSampling(sampling_prob=0.1, iterations=12, min_sep=3), "not covered"),
    ],
    ids=str,
)
def test_strategies_that_are_refused(strategy: Any, reason: str) -> None:
    with pytest.raises(md.NotCovered, match=reason):
        plan_of(strategy, 60, 3.0)


def test_batches_of_a_scheme() -> None:
    strategy = SchemeBatches(md.random_allocation(60, 4), iterations=8)
    batches = list(strategy.batch_iterator(60))
    for epoch in (batches[:4], batches[4:]):
        assert sorted(index for batch in epoch for index in batch) == list(range(60))
    other = list(strategy.batch_iterator(60))
    assert any(a.tolist() != b.tolist() for a, b in zip(batches, other, strict=True))
    with pytest.warns(SeededRelease):
        one = [batch.tolist() for batch in strategy.batch_iterator(60, rng=3)]
    with pytest.warns(SeededRelease):
        assert one == [batch.tolist() for batch in strategy.batch_iterator(60, rng=3)]


def test_users_of_a_scheme() -> None:
    """Users are drawn by the scheme, and their examples go into the batch together."""
    strategy = selection.UserSelectionStrategy(SchemeBatches(md.wor(3, 2), 2))
    with pytest.raises(md.InvalidParameter, match="rng"):  # it hands over a generator
        next(strategy.batch_iterator(np.array([0, 0, 1, 2])))


@pytest.mark.parametrize(
    ("steps", "more", "told"),
    [
        (10, {"truncated_batch_size": 50, "cycle_length": 2}, "truncated"),
        (10, {"truncated_batch_size": 50, "sampling_method": FIXED}, "truncated"),
        (10, {"cycle_length": 2, "sampling_method": FIXED}, "cycle_length"),
        (10, {"cycle_length": 2, "noise_multipliers": [(0, 1.0), (5, 2.0)]}, "cycle_length"),
        (10, {"cycle_length": 20_000}, "cycle_length"),
        (10, {"cycle_length": 2, "examples_per_user": 2}, "group"),
        (10, {"noise_multipliers": math.nan}, "noise_multiplier"),
        (10, {"noise_multipliers": [(1, 2.0)]}, "step 0"),
        (10, {"batch_size": 20_000}, "rate"),
        (10, {"batch_size": 20_000, "sampling_method": FIXED}, "m must"),
        (-3, {}, "num_updates"),
    ],
    ids=str,
)
def test_bad_runs(steps: int, more: dict[str, Any], told: str) -> None:
    with pytest.raises((md.InvalidParameter, md.NotCovered), match=told):
        TrainingAccountant().compute_epsilon(steps, run(**more))


def test_bad_schemes() -> None:
    with pytest.raises(md.InvalidParameter, match="iterations"):
        SchemeBatches(md.wor(60, 5), 0)
    strategy = SchemeBatches(md.wor(60, 5), 2)
    with pytest.raises(md.InvalidParameter, match="n = 60"):
        next(strategy.batch_iterator(61))
    with pytest.raises(md.InvalidParameter, match="rng"):
        next(strategy.batch_iterator(60, rng=np.random.default_rng(0)))
    with pytest.raises(md.InvalidParameter, match="num_examples"):
        plan_of(strategy, 61, 3.0)


def test_the_lines_of_the_page(capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, Any] = {}
    exec(compile(page_code("jax-privacy"), "interop.md", "exec"), names)
    assert "certified (replace-one)" in capsys.readouterr().out
    assert len(names["indices"]) == 100
