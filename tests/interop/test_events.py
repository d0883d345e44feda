"""Events of single mechanisms: closed forms, dp_accounting's own answers, and what is refused."""

from __future__ import annotations

import itertools
import json
import math
from typing import Any

import numpy as np
import pytest

import mustdp as md
from mustdp.interop.events import FIELDS, NEWER, event_from_json, from_dp_event


def event(name: str, *fields: object) -> list[object]:
    return ["dp_accounting.dp_event", name, *fields]


def upper(plan: Any, relation: str, delta: float = 1e-5) -> float:
    return float(md.account(plan, relation=relation).epsilon(delta=delta).upper)


@pytest.mark.parametrize(("chance", "buckets"), [(0.3, 2), (0.05, 10), (0.9, 1000)])
def test_randomized_response(chance: float, buckets: int) -> None:
    """The answer is the true one with chance 1 - p, which is the total variation distance."""
    plan = from_dp_event(event("RandomizedResponseDpEvent", chance, buckets), "replace_one")
    found = md.account(plan, relation="replace_one")
    assert found.delta(0.0).upper == pytest.approx(1 - chance, rel=1e-9)
    assert found.delta(0.0).upper >= (1 - chance) * (1 - 1e-14)
    largest = math.log1p(buckets * (1 - chance) / chance)
    assert found.delta(largest).upper == pytest.approx(0, abs=1e-12)
    assert found.delta(0.99 * largest).lower > 0


@pytest.mark.parametrize(("inverse", "bound"), [(0.1, 1), (1 / 3, 4), (2.7, 1)])
def test_the_sensitivity_of_discrete_noise_is_that_of_one_record(
    inverse: float, bound: int
) -> None:
    noise = event("DiscreteLaplaceDpEvent", inverse, bound)
    for relation, moves in (("add_remove", 1), ("replace_one", 2)):
        plan = from_dp_event(noise, relation)
        largest = md.account(plan, relation=relation).epsilon(delta=0).upper
        assert inverse * bound * moves <= largest <= inverse * bound * moves * (1 + 1e-14)
    assert from_dp_event(noise) == from_dp_event(noise, "replace_one")
    # In batches of a fixed size the place of a record that is left out is filled.
    batch = event("SampledWithoutReplacementDpEvent", 100, 10, noise)
    assert from_dp_event(batch, "add_remove") == from_dp_event(batch)
    thinned = event("PoissonSampledDpEvent", 0.1, noise)
    assert upper(from_dp_event(thinned, "add_remove"), "add_remove") < inverse * bound


def masses(inverse: float, moved: int, reach: int = 80) -> Any:
    k = np.arange(-reach, reach + 1)
    return np.tanh(inverse / 2) * np.exp(-inverse * np.abs(k - moved))


@pytest.mark.parametrize("inverse", [0.3, 1.0, 2.0])
@pytest.mark.parametrize("parts", [(1, 1), (1, 2), (2, 3)])
def test_a_number_that_moves_is_worse_than_a_vector(inverse: float, parts: Any) -> None:
    """What the events' readers rely on: the coordinates of a vector share the distance."""
    one, other = (
        np.multiply.outer(masses(inverse, a * parts[0]), masses(inverse, a * parts[1]))
        for a in (1, 0)
    )
    for epsilon in np.linspace(0, inverse * sum(parts), 30)[:-1]:
        vector = np.maximum(one - math.exp(epsilon) * other, 0).sum()
        number = np.maximum(
            masses(inverse, sum(parts)) - math.exp(epsilon) * masses(inverse, 0), 0
        ).sum()
        assert vector <= number * (1 + 1e-9)


def test_rho_adds_up() -> None:
    one = event("ZCDpEvent", 0.05, 0.0)
    several = [
        event("SelfComposedDpEvent", one, 10),
        event("ComposedDpEvent", [one] * 4 + [event("SelfComposedDpEvent", one, 6)]),
        event("SelfComposedDpEvent", event("ComposedDpEvent", [one] * 5), 2),
    ]
    whole = upper(md.zcdp(0.5), "add_remove")
    for many in several:
        found = upper(from_dp_event(many), "add_remove")
        assert whole <= found <= whole * (1 + 1e-9)
    # Gaussian noise with that rho is one such mechanism.
    attained = md.account(md.repeat(10, md.gaussian(shift=math.sqrt(0.1)))).epsilon(delta=1e-5)
    assert attained.lower < whole
    mixed = event("ComposedDpEvent", [one, event("GaussianDpEvent", 3.0), one])
    assert upper(from_dp_event(mixed), "add_remove") > upper(md.zcdp(0.1), "add_remove")


@pytest.mark.parametrize(
    ("newer", "plan"),
    [
        (event("EpsilonDeltaDpEvent", 0.7, 0.0), md.pure_dp(0.7)),
        (event("EpsilonDeltaDpEvent", 0.7, 1e-7), md.approximate_dp(0.7, 1e-7)),
        (event("ExponentialMechanismDpEvent", 0.7), md.exponential_mechanism(0.7)),
        (event("PermuteAndFlipDpEvent", 0.7), md.pure_dp(0.7)),
        (
            event("DiscreteGaussianDpEvent", 2.0, 1.0, 1),
            md.discrete_gaussian(sigma=2.0, sensitivity=2),
        ),
    ],
    ids=str,
)
def test_events_that_are_not_in_a_release_yet(newer: Any, plan: Any) -> None:
    assert newer[1] in NEWER
    assert from_dp_event(newer) == plan
    assert event_from_json(json.dumps(newer)).some_plan() == plan


def test_discrete_gaussian_vectors_are_charged_by_their_rho() -> None:
    """One integer is one case of it, and may cost no more."""
    vector: Any = from_dp_event(event("DiscreteGaussianDpEvent", 3.0, 2.0, None), "add_remove")
    number = from_dp_event(event("DiscreteGaussianDpEvent", 3.0, 2.0, 1), "add_remove")
    assert vector.describe() == {"mechanism": "zcdp", "rho": pytest.approx(2 / 9)}
    assert upper(number, "add_remove") < upper(vector, "add_remove")
    replaced: Any = from_dp_event(event("DiscreteGaussianDpEvent", 3.0, 2.0, 5), "replace_one")
    assert replaced.describe()["rho"] == pytest.approx(8 / 9)


RESPONSE = event("RandomizedResponseDpEvent", 0.3, 4)
STATED = event("EpsilonDeltaDpEvent", 0.5, 0.0)
MIXTURE = event("MixtureOfGaussiansDpEvent", 2.0, [0.0, 1.0], [0.9, 0.1])
TREE = event("SingleEpochTreeAggregationDpEvent", 2.0, 4)


@pytest.mark.parametrize(
    ("refused", "relation", "reason"),
    [
        (RESPONSE, "add_remove", "replace-one"),
        (event("ComposedDpEvent", [event("GaussianDpEvent", 1.0), RESPONSE]), "add_remove", "rep"),
        (event("PoissonSampledDpEvent", 0.5, RESPONSE), "replace_one", "all records"),
        (event("SampledWithReplacementDpEvent", 10, 5, STATED), "add_remove", "stated guarantee"),
        (
            event("PoissonSampledDpEvent", 0.5, event("DiscreteLaplaceDpEvent", 1.0, 1)),
            "replace_one",
            "Laplace",
        ),
        (event("PoissonSampledDpEvent", 0.5, STATED), "replace_one", "stated guarantee"),
        (event("ZCDpEvent", 0.1, -0.2), "add_remove", "xi"),
        (event("ZCDpEvent", 0.1, math.nan), "add_remove", "xi"),
        (event("ZCDpEvent", math.nan, 0.0), "add_remove", "rho"),
        (event("RandomizedResponseDpEvent", -0.1, 3), "replace_one", "noise_parameter"),
        (event("RandomizedResponseDpEvent", 0.1, 2.5), "replace_one", "num_buckets"),
        (event("DiscreteLaplaceDpEvent", math.nan, 1), "add_remove", "noise_parameter"),
        (event("DiscreteLaplaceDpEvent", 1.0, 0.5), "add_remove", "sensitivity"),
        (event("EpsilonDeltaDpEvent", -1.0, 0.0), "add_remove", "epsilon"),
        (event("EpsilonDeltaDpEvent", 1.0, 1.5), "add_remove", "delta"),
        (event("DiscreteGaussianDpEvent", 1.0, 1.0, 0), "add_remove", "dimension"),
        (event("MixtureOfGaussiansDpEvent", 1.0, [1.0], [1.0]), "replace_one", "add-remove"),
        (
            event("MixtureOfGaussiansDpEvent", 1.0, [0.0, 1.0, 2.0], [0.5, 0.3, 0.2]),
            "add_remove",
            "one other number",
        ),
        (event("MixtureOfGaussiansDpEvent", 1.0, [0.0, 1.0], [0.5, 0.4]), "add_remove", "add up"),
        (event("MixtureOfGaussiansDpEvent", 1.0, [math.nan], [1.0]), "add_remove", "sensitiv"),
        (event("MixtureOfGaussiansDpEvent", 1.0, [1.0], [0.5, 0.5]), "add_remove", "as many"),
        (event("MixtureOfGaussiansDpEvent", math.nan, [1.0], [1.0]), "add_remove", "standard"),
        (event("PoissonSampledDpEvent", 0.5, MIXTURE), "add_remove", "all records"),
        (event("PoissonSampledDpEvent", 0.5, TREE), "replace_one", "all records"),
        (event("SampledWithReplacementDpEvent", 10, 5, TREE), "replace_one", "all records"),
        (TREE, "add_remove", "replaced"),
        (event("SingleEpochTreeAggregationDpEvent", 1.0, 0), "replace_one", "step_counts"),
        (event("SingleEpochTreeAggregationDpEvent", 1.0, []), "replace_one", "step_counts"),
        (event("SingleEpochTreeAggregationDpEvent", math.nan, 4), "replace_one", "noise_mult"),
        (event("RepeatAndSelectDpEvent", STATED, 0.5, 1.0), "add_remove", "mean"),
        (event("RepeatAndSelectDpEvent", STATED, math.nan, 1.0), "add_remove", "mean"),
        (event("RepeatAndSelectDpEvent", STATED, 5.0, math.nan), "add_remove", "shape"),
        (event("RepeatAndSelectDpEvent", STATED, 5.0, -0.5), "add_remove", "shape"),
        (event("RepeatAndSelectDpEvent", STATED, 5.0, 1e6), "add_remove", "shape"),
        (
            event("PoissonSampledDpEvent", 0.1, event("RepeatAndSelectDpEvent", STATED, 5.0, 1.0)),
            "add_remove",
            "best of several",
        ),
        (
            event("RepeatAndSelectDpEvent", RESPONSE, 5.0, 1.0),
            "add_remove",
            "randomized response",
        ),
        (
            event("TruncatedSubsampledGaussianDpEvent", 100, math.nan, 20, 1.0),
            "add_remove",
            "sampling_probability",
        ),
        (event("TruncatedSubsampledGaussianDpEvent", 100, 0.1, 2.5, 1.0), "add_remove", "trunc"),
        (event("TruncatedSubsampledGaussianDpEvent", 100, 0.1, 20, -1.0), "add_remove", "noise"),
        (event("UnsupportedDpEvent"), "add_remove", "what is released"),
    ],
    ids=str,
)
def test_refused(refused: Any, relation: str, reason: str) -> None:
    with pytest.raises((md.NotCovered, md.InvalidParameter), match=reason):
        from_dp_event(refused, relation)


def test_stated_guarantees_are_those_of_the_batch() -> None:
    batch = event("SampledWithReplacementDpEvent", 10, 5, STATED)
    plan = md.subsample(md.wr(10, 5), md.pure_dp(0.5))
    assert from_dp_event(batch, "replace_one") == plan


@pytest.mark.parametrize(
    ("nothing", "private"),
    [
        (event("RandomizedResponseDpEvent", 0.0, 1), True),
        (event("RandomizedResponseDpEvent", 1.0, 7), True),
        (event("RandomizedResponseDpEvent", 0.0, 7), False),
        (event("ZCDpEvent", 0.0, 0.0), True),
        (event("EpsilonDeltaDpEvent", 0.0, 0.0), True),
        (event("EpsilonDeltaDpEvent", 0.0, 1.0), False),
        (event("DiscreteLaplaceDpEvent", 0.0, 1), False),
        (event("DiscreteLaplaceDpEvent", 1.0, 0), True),
        (event("DiscreteGaussianDpEvent", 0.0, 1.0, None), False),
        (event("SampledWithoutReplacementDpEvent", 1000, 0, event("GaussianDpEvent", 1.0)), True),
        (event("TruncatedSubsampledGaussianDpEvent", 100, 0.1, 0, 1.0), True),
        (event("TruncatedSubsampledGaussianDpEvent", 100, 0.1, 20, 0.0), False),
        (event("MixtureOfGaussiansDpEvent", 0.0, [0.0, 3.0], [1.0, 0.0]), True),
        (event("MixtureOfGaussiansDpEvent", 0.0, [1.0], [1.0]), False),
        (event("SingleEpochTreeAggregationDpEvent", 0.0, 4), False),
        (event("SingleEpochTreeAggregationDpEvent", 1.0, [0]), True),
        (event("RepeatAndSelectDpEvent", event("GaussianDpEvent", 0.0), 5.0, 1.0), False),
        (event("RepeatAndSelectDpEvent", event("NoOpDpEvent"), 5.0, 1.0), True),
    ],
    ids=str,
)
def test_events_at_their_ends(nothing: Any, private: bool) -> None:
    with pytest.raises(md.NotCovered, match="nothing" if private else "private"):
        from_dp_event(nothing)


@pytest.mark.parametrize(
    ("shape", "law"), [(0.0, "logarithmic"), (1.0, "geometric"), (math.inf, "poisson"), (0.5, 0.5)]
)
def test_the_best_of_several_runs(shape: float, law: str | float) -> None:
    noise = md.gaussian(noise_multiplier=4.0)
    told = event("RepeatAndSelectDpEvent", event("GaussianDpEvent", 4.0), 7.0, shape)
    expected = upper(md.select_best(noise, 7.0, law=law), "add_remove")
    assert upper(from_dp_event(told, "add_remove"), "add_remove") == expected
    # Hardly ever a second run, and none: what one run costs, and not less.
    rarely = event("RepeatAndSelectDpEvent", event("GaussianDpEvent", 4.0), 1.0 + 1e-9, shape)
    assert upper(from_dp_event(rarely), "add_remove") >= upper(noise, "add_remove") * (1 - 1e-9)
    if shape < math.inf:
        once = event("RepeatAndSelectDpEvent", event("GaussianDpEvent", 4.0), 1.0, shape)
        assert from_dp_event(once) == noise


def test_capped_batches() -> None:
    told = event("TruncatedSubsampledGaussianDpEvent", 500, 0.1, 60, 2.0)
    noise = md.gaussian(noise_multiplier=2.0)
    assert from_dp_event(told) == md.subsample(md.truncated_poisson(500, 0.1, 60), noise)


@pytest.mark.parametrize(("steps", "nodes"), [(1, 1), (2, 2), (3, 2), (4, 3), (7, 3), ([8, 3], 4)])
def test_nodes_of_trees(steps: Any, nodes: int) -> None:
    """Count the complete nodes of the tree that a leaf is in, over all leaves."""
    plan = from_dp_event(event("SingleEpochTreeAggregationDpEvent", 2.0, steps), "replace_one")
    assert plan == md.repeat(nodes, md.gaussian(noise_multiplier=2.0))
    many = max(steps) if isinstance(steps, list) else steps
    complete = [sum((leaf // 2**h + 1) * 2**h <= many for h in range(10)) for leaf in range(many)]
    assert max(complete) == nodes


def test_a_mixture_with_one_amount_is_poisson_sampling() -> None:
    told = event("MixtureOfGaussiansDpEvent", 6.0, [3.0, 0.0, 3.0, 7.0], [0.1, 0.7, 0.2, 0.0])
    plan: Any = from_dp_event(told, "add_remove")
    assert 0.3 <= plan.scheme.rate <= 0.3 * (1 + 1e-14)
    assert plan.inner == md.gaussian(noise_multiplier=2.0)
    # From the definition: N(0, 36) against .7 N(0, 36) + .3 N(3, 36).
    x = np.linspace(-80, 80, 400_001)
    none, moved = (np.exp(-((x - a) ** 2) / 72) / math.sqrt(72 * math.pi) for a in (0, 3))
    mixed = 0.7 * none + 0.3 * moved
    for epsilon in (0.05, 0.2, 0.4):
        both = ((mixed, none), (none, mixed))
        deltas = [np.maximum(p - math.exp(epsilon) * q, 0).sum() * 4e-4 for p, q in both]
        found = md.account(plan, relation="add_remove").delta(epsilon)
        assert found.lower * (1 - 1e-5) <= max(deltas) <= found.upper * (1 + 1e-5)
        assert found.upper == pytest.approx(max(deltas), rel=1e-3, abs=1e-9)


def test_a_constant_divergence() -> None:
    """Renyi divergences of a constant alone: pure privacy is one such mechanism."""
    plan = from_dp_event(event("ZCDpEvent", 0.0, 0.5), "add_remove")
    assert upper(md.pure_dp(0.5), "add_remove") <= upper(plan, "add_remove") < 0.52
    both = from_dp_event(event("ZCDpEvent", 0.1, 0.2), "add_remove")
    assert upper(both, "add_remove") > upper(md.zcdp(0.1), "add_remove")
    smallest = min(
        0.2 + 0.1 * a + math.log1p(-1 / a) - math.log(1e-5 * a) / (a - 1)
        for a in np.linspace(1.01, 60, 40_000)
    )
    assert upper(both, "add_remove") == pytest.approx(smallest, rel=1e-3)


# Beside dp_accounting itself.

dpa = pytest.importorskip("dp_accounting")
pld = pytest.importorskip("dp_accounting.pld")
events = pytest.importorskip("dp_accounting.dp_event")

from mustdp.interop.dp_accounting import MustdpAccountant, to_dp_event

RELATION = dpa.NeighboringRelation
BESIDE = [
    (events.RandomizedResponseDpEvent(0.2, 5), RELATION.REPLACE_ONE),
    (events.RandomizedResponseDpEvent(0.6, 3), RELATION.REPLACE_ONE),
    (events.DiscreteLaplaceDpEvent(0.4, 2), RELATION.ADD_OR_REMOVE_ONE),
    (events.DiscreteLaplaceDpEvent(0.4, 2), RELATION.REPLACE_SPECIAL),
    (dpa.LaplaceDpEvent(1.5), RELATION.REPLACE_SPECIAL),
]


def test_every_event_of_the_library_is_known_with_its_fields() -> None:
    import attr

    listed = {name for name in vars(events) if name.endswith("DpEvent") and name not in {"DpEvent"}}
    assert listed <= {*FIELDS, "UnsupportedDpEvent"}
    for name, fields in FIELDS.items():
        theirs = getattr(events, name, None)
        assert theirs is not None or name in NEWER
        if theirs is not None:
            assert tuple(field.name for field in attr.fields(theirs)) == fields


@pytest.mark.parametrize(("one", "relation"), BESIDE, ids=str)
def test_answers_agree_with_theirs(one: Any, relation: Any) -> None:
    """Several as a list: a self-composed randomized response loses its count there."""
    many = dpa.ComposedDpEvent([one] * 4)
    ours = MustdpAccountant(relation).compose(many)
    theirs = pld.PLDAccountant(relation, value_discretization_interval=1e-3).compose(many)
    for epsilon in (0.1, 0.5, 1.5):
        assert ours.get_delta(epsilon) == pytest.approx(theirs.get_delta(epsilon), rel=0.02)
    assert ours.bounds(1e-5).lower <= theirs.get_epsilon(1e-5) * (1 + 1e-9)
    assert MustdpAccountant(relation).compose(one, 4).get_epsilon(1e-5) == pytest.approx(
        ours.get_epsilon(1e-5), rel=1e-6
    )


@pytest.mark.parametrize(("chance", "buckets"), [(0.2, 5), (0.6, 3), (0.5, 2)])
def test_a_special_record_is_covered_by_any_other(chance: float, buckets: int) -> None:
    response = events.RandomizedResponseDpEvent(chance, buckets)
    ours = MustdpAccountant(RELATION.REPLACE_SPECIAL).compose(response)
    theirs = pld.PLDAccountant(RELATION.REPLACE_SPECIAL).compose(response)
    for epsilon in (0.0, 0.3, 1.0, 2.0):
        assert ours.get_delta(epsilon) >= theirs.get_delta(epsilon) * (1 - 1e-6)
    assert ours.bounds(1e-5).lower == 0  # what another record attains, the special one need not


@pytest.mark.parametrize("relation", list(RELATION))
def test_capped_batches_beside_theirs(relation: Any) -> None:
    """Both are upper bounds, and what is attained is below both."""
    one = events.TruncatedSubsampledGaussianDpEvent(200, 0.1, 30, 2.0)
    ours = MustdpAccountant(relation).compose(one, 5)
    theirs = pld.PLDAccountant(relation, value_discretization_interval=1e-3).compose(one, 5)
    found = ours.bounds(1e-5)
    assert found.lower <= theirs.get_epsilon(1e-5)
    if relation is RELATION.REPLACE_SPECIAL:  # the special record takes a place in the batch
        replaced = MustdpAccountant(RELATION.REPLACE_ONE).compose(one, 5)
        assert (found.lower, found.upper) == (0, replaced.get_epsilon(1e-5))
    else:
        assert found.upper <= theirs.get_epsilon(1e-5) * 1.01


def test_mixtures_trees_and_selections_beside_theirs() -> None:
    rdp = pytest.importorskip("dp_accounting.rdp")
    mixture = events.MixtureOfGaussiansDpEvent(2.0, [0.0, 1.0], [0.9, 0.1])
    for relation in (RELATION.ADD_OR_REMOVE_ONE, RELATION.REPLACE_SPECIAL):
        ours = MustdpAccountant(relation).compose(mixture, 10)
        poisson = dpa.PoissonSampledDpEvent(0.1, dpa.GaussianDpEvent(2.0))
        theirs = pld.PLDAccountant(relation, value_discretization_interval=1e-3)
        bound = theirs.compose(poisson, 10).get_epsilon(1e-5)
        assert ours.bounds(1e-5).lower <= bound
        assert ours.get_epsilon(1e-5) == pytest.approx(bound, rel=5e-3)
    tree = events.SingleEpochTreeAggregationDpEvent(5.0, [4, 7])
    special = MustdpAccountant(RELATION.REPLACE_SPECIAL).compose(tree, 2)
    gaussian = pld.PLDAccountant(RELATION.REPLACE_SPECIAL).compose(dpa.GaussianDpEvent(5.0), 6)
    assert special.get_epsilon(1e-5) == pytest.approx(gaussian.get_epsilon(1e-5), rel=1e-3)
    renyi = rdp.RdpAccountant(None, RELATION.REPLACE_SPECIAL).compose(tree, 2)
    assert special.bounds(1e-5).lower <= special.get_epsilon(1e-5) <= renyi.get_epsilon(1e-5)
    for shape in (0.0, 1.0, math.inf):
        best = events.RepeatAndSelectDpEvent(dpa.GaussianDpEvent(4.0), 10.0, shape)
        selected = MustdpAccountant().compose(best).get_epsilon(1e-5)
        assert selected <= rdp.RdpAccountant().compose(best).get_epsilon(1e-5) * 1.001
        assert selected > MustdpAccountant().compose(dpa.GaussianDpEvent(4.0)).get_epsilon(1e-5)


def test_trees_and_mixtures_beside_batches_of_a_fixed_size() -> None:
    """A special record is charged as any other there, which a mixture says nothing about."""
    batch = dpa.SampledWithoutReplacementDpEvent(100, 10, dpa.GaussianDpEvent(2.0))
    special = MustdpAccountant(RELATION.REPLACE_SPECIAL)
    mixture = events.MixtureOfGaussiansDpEvent(2.0, [0.0, 1.0], [0.9, 0.1])
    assert not special.supports(dpa.ComposedDpEvent([batch, mixture]))
    tree = events.SingleEpochTreeAggregationDpEvent(5.0, 4)
    both = special.compose(dpa.ComposedDpEvent([batch, tree])).get_epsilon(1e-5)
    replaced = MustdpAccountant(RELATION.REPLACE_ONE).compose(tree).get_epsilon(1e-5)
    assert both > replaced


def test_concentrated_events_beside_renyi() -> None:
    rdp = pytest.importorskip("dp_accounting.rdp")
    for many in (1, 20):
        ours = MustdpAccountant().compose(events.ZCDpEvent(0.02), many).get_epsilon(1e-6)
        theirs = rdp.RdpAccountant().compose(events.ZCDpEvent(0.02), many).get_epsilon(1e-6)
        assert ours <= theirs * 1.001  # its orders are few


@pytest.mark.parametrize(
    "plan",
    [
        md.discrete_laplace(scale=3.0, sensitivity=2),
        md.repeat(3, md.discrete_laplace(scale=0.7)),
        md.zcdp(0.1),
        md.select_best(md.gaussian(noise_multiplier=3.0), 5.0),
        md.select_best(md.gaussian(noise_multiplier=3.0), 5.0, law="poisson"),
        md.subsample(md.truncated_poisson(200, 0.1, 30), md.gaussian(noise_multiplier=2.0)),
        md.sequence(md.zcdp(0.1), md.gaussian(noise_multiplier=2.0)),
    ],
    ids=str,
)
def test_there_and_back(plan: Any) -> None:
    found = from_dp_event(to_dp_event(plan), "add_remove")
    again, before = upper(found, "add_remove"), upper(plan, "add_remove")
    assert before * (1 - 1e-12) <= again <= before * (1 + 1e-9)


@pytest.mark.parametrize(("epsilon", "categories"), [(0.3, 2), (2.0, 50)])
def test_answers_there_and_back(epsilon: float, categories: int) -> None:
    told = to_dp_event(md.randomized_response(epsilon, categories))
    plan: Any = from_dp_event(told, "replace_one")
    assert plan.describe()["categories"] == categories
    assert epsilon <= plan.describe()["mechanism_epsilon"] <= epsilon * (1 + 1e-12)


@pytest.mark.parametrize(
    "plan",
    [md.pure_dp(1.0), md.approximate_dp(1.0, 1e-6), md.exponential_mechanism(1.0)],
    ids=str,
)
def test_mechanisms_without_an_event_say_so(plan: Any) -> None:
    needed = {"pure-dp": 0, "approximate-dp": 0, "exponential-mechanism": 2}[plan.name]
    if hasattr(events, NEWER[needed]):
        assert from_dp_event(to_dp_event(plan)) == plan
    else:
        with pytest.raises(md.NotCovered, match="installed dp_accounting"):
            to_dp_event(plan)


def test_refusals_under_every_relation() -> None:
    accepted = {
        relation.name: [
            MustdpAccountant(relation).supports(one)
            for one in (
                events.RandomizedResponseDpEvent(0.2, 3),
                events.ZCDpEvent(0.1),
                events.DiscreteLaplaceDpEvent(1.0, 1),
                dpa.PoissonSampledDpEvent(0.1, events.ZCDpEvent(0.1)),
                dpa.SampledWithoutReplacementDpEvent(100, 10, events.ZCDpEvent(0.1)),
            )
        ]
        for relation in RELATION
    }
    assert accepted == {
        "ADD_OR_REMOVE_ONE": [False, True, True, True, False],
        "REPLACE_ONE": [True, True, True, False, True],
        "REPLACE_SPECIAL": [True, True, True, True, False],
    }


def test_orders_do_not_matter() -> None:
    parts = [events.ZCDpEvent(0.1), dpa.GaussianDpEvent(2.0), events.DiscreteLaplaceDpEvent(0.5, 1)]
    found = {
        MustdpAccountant().compose(dpa.ComposedDpEvent(list(order))).get_epsilon(1e-5)
        for order in itertools.permutations(parts)
    }
    assert max(found) - min(found) < 1e-9
