"""The bridge to dp_accounting, held against the real library and its own contract tests."""

from __future__ import annotations

import doctest
import json
import math
import runpy
from collections.abc import Collection
from pathlib import Path
from typing import Any

import pytest

import mustdp as md
from mustdp.interop.events import event_from_json, from_dp_event

dpa = pytest.importorskip("dp_accounting")
pld = pytest.importorskip("dp_accounting.pld")
contract = pytest.importorskip("dp_accounting.privacy_accountant_test")

from mustdp.interop.dp_accounting import MustdpAccountant, to_dp_event

RELATION = dpa.NeighboringRelation
GAUSSIAN = dpa.GaussianDpEvent(2.0)


class TestContract(contract.PrivacyAccountantTest):  # type: ignore[misc, name-defined]
    """What dp_accounting asks of every accountant, by its own tests."""

    __unittest_skip__ = False

    def _make_test_accountants(self) -> Collection[Any]:
        return [MustdpAccountant(relation) for relation in RELATION]


def test_the_contract_is_run() -> None:
    """The library marks its base class as skipped; ours must not inherit that."""
    import unittest

    suite = unittest.defaultTestLoader.loadTestsFromTestCase(TestContract)
    result = suite.run(unittest.TestResult())
    assert result.testsRun >= 12
    assert not result.skipped
    assert result.wasSuccessful(), (result.failures, result.errors)


@pytest.mark.parametrize("relation", list(RELATION))
@pytest.mark.parametrize(
    ("event", "count"),
    [
        (GAUSSIAN, 7),
        (dpa.PoissonSampledDpEvent(0.02, GAUSSIAN), 200),
        (dpa.ComposedDpEvent([GAUSSIAN, dpa.PoissonSampledDpEvent(0.1, GAUSSIAN)]), 3),
    ],
    ids=str,
)
def test_answers_agree_with_theirs(event: Any, count: int, relation: Any) -> None:
    """Theirs is an upper bound, and ours is no larger than the accuracy of both explains."""
    ours = MustdpAccountant(relation).compose(event, count)
    theirs = pld.PLDAccountant(relation, value_discretization_interval=1e-3).compose(event, count)
    for epsilon in (0.5, 1.0, 2.0):
        assert ours.get_delta(epsilon) <= theirs.get_delta(epsilon) * 1.01 + 1e-15
    bounds = ours.bounds(1e-5)
    assert bounds.lower <= theirs.get_epsilon(1e-5)
    assert ours.get_epsilon(1e-5) == bounds.upper == pytest.approx(bounds.lower, rel=0.02)


def test_what_a_noise_multiplier_is_relative_to() -> None:
    """Replacing a record moves a sum by 2C: neither their convention nor ours is a factor 2 off."""
    replaced = MustdpAccountant(RELATION.REPLACE_ONE).compose(GAUSSIAN)
    theirs = pld.PLDAccountant(RELATION.REPLACE_ONE).compose(GAUSSIAN)
    moved = md.account(md.gaussian(shift=1.0)).epsilon(delta=1e-5)
    assert replaced.bounds(1e-5) == moved
    assert theirs.get_epsilon(1e-5) == pytest.approx(moved.upper, rel=1e-3)
    left_out = MustdpAccountant(RELATION.REPLACE_SPECIAL).compose(GAUSSIAN)
    assert left_out.get_epsilon(1e-5) < replaced.get_epsilon(1e-5)


@pytest.mark.parametrize(
    "sampled", [dpa.SampledWithReplacementDpEvent, dpa.SampledWithoutReplacementDpEvent]
)
def test_fixed_size_batches_are_accepted(sampled: Any) -> None:
    event = dpa.SelfComposedDpEvent(sampled(10_000, 200, dpa.GaussianDpEvent(3.0)), 50)
    found = MustdpAccountant(RELATION.REPLACE_ONE).compose(event)
    draw = md.wr if sampled is dpa.SampledWithReplacementDpEvent else md.wor
    plan = md.repeat(50, md.subsample(draw(10_000, 200), md.gaussian(noise_multiplier=3.0)))
    assert found.bounds(1e-5) == md.account(plan, relation="replace_one").epsilon(delta=1e-5)
    # A record that contributes nothing is one that could take the place of any other.
    special = MustdpAccountant(RELATION.REPLACE_SPECIAL).compose(event)
    assert special.get_epsilon(1e-5) == found.get_epsilon(1e-5)


def test_steps_one_by_one_are_steps_at_once() -> None:
    event = dpa.PoissonSampledDpEvent(0.01, GAUSSIAN)
    single = MustdpAccountant()
    for _ in range(5):
        single.compose(event)
    assert single.get_epsilon(1e-6) == MustdpAccountant().compose(event, 5).get_epsilon(1e-6)
    assert single.ledger == dpa.SelfComposedDpEvent(event, 5)


def test_answers_follow_what_is_composed() -> None:
    found = MustdpAccountant().compose(GAUSSIAN)
    first = found.get_epsilon(1e-5)
    assert found.compose(GAUSSIAN).get_epsilon(1e-5) > first


def test_calibration() -> None:
    def event(noise: float) -> Any:
        batch = dpa.SampledWithoutReplacementDpEvent(10_000, 100, dpa.GaussianDpEvent(noise))
        return dpa.SelfComposedDpEvent(batch, 20)

    found = dpa.calibrate_dp_mechanism(
        lambda: MustdpAccountant(RELATION.REPLACE_ONE, composition="pair"),
        event, 1.0, 1e-5, dpa.LowerEndpointAndGuess(0.5, 2.0), tol=1e-2,
    )  # fmt: skip
    ours = md.calibrate(md.wor(10_000, 100), epsilon=1.0, delta=1e-5, steps=20, composition="pair")
    assert ours.noise_multiplier * 0.999 <= found <= ours.noise_multiplier + 2e-2


@pytest.mark.parametrize(
    ("event", "relation", "reason"),
    [
        (
            dpa.PoissonSampledDpEvent(0.1, dpa.LaplaceDpEvent(1.0)),
            "REPLACE_ONE",
            "Laplace noise must",
        ),
        (
            dpa.SampledWithReplacementDpEvent(10, 5, dpa.LaplaceDpEvent(1.0)),
            "REPLACE_SPECIAL",
            "add-remove",
        ),
        (dpa.SingleEpochTreeAggregationDpEvent(1.0, 4), "ADD_OR_REMOVE_ONE", "replaced"),
        (dpa.SampledWithoutReplacementDpEvent(10, 20, GAUSSIAN), "REPLACE_ONE", "m must be"),
        (dpa.GaussianDpEvent(math.nan), "REPLACE_ONE", "noise_multiplier"),
        (dpa.GaussianDpEvent(-1.0), "REPLACE_ONE", "noise_multiplier"),
        (dpa.SelfComposedDpEvent(GAUSSIAN, -1), "REPLACE_ONE", "count"),
        (dpa.SelfComposedDpEvent(dpa.NonPrivateDpEvent(), 0), "REPLACE_ONE", "count"),
        (dpa.PoissonSampledDpEvent(1.5, GAUSSIAN), "REPLACE_ONE", "rate"),
    ],
)
def test_what_is_not_covered_is_refused(event: Any, relation: str, reason: str) -> None:
    found = MustdpAccountant(RELATION[relation])
    assert not found.supports(event)
    with pytest.raises(dpa.UnsupportedEventError, match=reason):
        found.compose(event)
    assert found.get_epsilon(1e-5) == 0


def test_no_noise_is_not_private() -> None:
    for event in (
        dpa.GaussianDpEvent(0.0),
        dpa.PoissonSampledDpEvent(0.1, dpa.GaussianDpEvent(0.0)),
        dpa.SampledWithReplacementDpEvent(10, 5, dpa.NonPrivateDpEvent()),
    ):
        found = MustdpAccountant().compose(event)
        assert found.get_epsilon(0.5) == math.inf
        assert found.get_delta(3.0) == 1


def test_a_rate_of_zero_costs_nothing_and_next_to_no_noise_everything() -> None:
    assert MustdpAccountant().compose(dpa.PoissonSampledDpEvent(0.0, GAUSSIAN)).get_epsilon(0) == 0
    tiny = MustdpAccountant().compose(dpa.GaussianDpEvent(1e-6))
    assert tiny.get_epsilon(1e-5) == math.inf
    assert MustdpAccountant().compose(GAUSSIAN).get_epsilon(0) == math.inf
    assert MustdpAccountant().compose(GAUSSIAN).get_epsilon(1e-40) == math.inf


@pytest.mark.parametrize("delta", [-0.1, 1.1, math.nan])
def test_bad_deltas(delta: float) -> None:
    with pytest.raises(md.InvalidParameter, match="target_delta"):
        MustdpAccountant().get_epsilon(delta)


def test_bad_epsilons() -> None:
    for epsilon in (-1.0, math.nan):
        with pytest.raises(md.InvalidParameter, match="target_epsilon"):
            MustdpAccountant().get_delta(epsilon)


PLANS = [
    md.gaussian(noise_multiplier=2.0),
    md.repeat(3, md.laplace(noise_multiplier=2.0)),
    md.repeat(5, md.subsample(md.must_ow(1000, 100, 20), md.gaussian(noise_multiplier=2.0))),
    md.sequence(
        md.subsample(md.poisson(1, 0.1), md.gaussian(noise_multiplier=2.0)),
        md.subsample(md.wor(100, 10), md.repeat(2, md.gaussian(noise_multiplier=2.0))),
    ),
]


@pytest.mark.parametrize("plan", PLANS, ids=str)
def test_there_and_back(plan: md.types.Plan) -> None:
    """As an event, as a named tuple, and as JSON of that tuple."""
    event = to_dp_event(plan)
    read = [from_dp_event(event), from_dp_event(event.to_named_tuple())]
    read.append(event_from_json(json.dumps(event.to_named_tuple())).some_plan())
    for other in read:
        assert to_dp_event(other) == event
        assert md.account(other, composition="pair").epsilon(delta=1e-5) == md.account(
            plan, composition="pair"
        ).epsilon(delta=1e-5)


@pytest.mark.parametrize(
    "plan",
    [
        md.gaussian(shift=1.0),
        md.select_best(md.gaussian(noise_multiplier=1.0), 5.0, law=-0.5),
        md.subsample(md.truncated_poisson(99, 0.1, 20), md.laplace(noise_multiplier=1.0)),
        md.subsample(md.random_allocation(100, 5), md.gaussian(noise_multiplier=1.0)),
    ],
    ids=str,
)
def test_plans_that_have_no_event(plan: md.types.Plan) -> None:
    with pytest.raises(md.NotCovered, match="dp_accounting"):
        to_dp_event(plan)


@pytest.mark.parametrize(
    "event",
    [
        [],
        ["dp_accounting.dp_event"],
        ["m", "GaussianDpEvent"],
        ["m", "GaussianDpEvent", 1.0, 2.0],
        ["m", "ComposedDpEvent", 3],
        {"class_name": "GaussianDpEvent", "sigma": 2.0},
        {"module_name": "m"},
        7,
        ["m", "GaussianDpEvent", "much"],
    ],
    ids=str,
)
def test_bad_events(event: object) -> None:
    with pytest.raises((md.InvalidParameter, md.NotCovered)):
        from_dp_event(event)


def test_deep_events_end_in_one_line() -> None:
    event: object = ["m", "GaussianDpEvent", 1.0]
    for _ in range(80):
        event = ["m", "SelfComposedDpEvent", event, 1]
    with pytest.raises(md.NotCovered, match="deep"):
        from_dp_event(event)


PAGE = Path(__file__).parents[2] / "docs" / "interop.md"


def test_the_table_of_what_is_accepted() -> None:
    tables = runpy.run_path(str(PAGE.with_name("accountants.py")))
    text = PAGE.read_text(encoding="utf-8")
    for name in ("events accepted", "events refused"):
        assert text == tables["written"](text, name, tables["TABLES"][name][1]())


def test_the_page() -> None:
    pytest.importorskip("opacus")
    done = doctest.testfile(str(PAGE), module_relative=False)
    assert done.attempted >= 8
    assert done.failed == 0
