"""People with several records: data sets that differ in up to g of them."""

from __future__ import annotations

import math
import pickle

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mustdp as md
from tests.accounting.closed_forms import exact_epsilon
from tests.accounting.pld.mixture_pairs import family, two_steps

RELATIONS = ("replace_one", "add_remove")
SCHEMES = (
    md.poisson(20, 0.2), md.wor(20, 4), md.wr(20, 4), md.must_ow(20, 8, 4), md.must_ww(20, 8, 4),
)  # fmt: skip


def bounds(plan: md.types.Plan, relation: str, group: int, epsilon: float = 0.7) -> md.Bounds:
    return md.account(plan, relation=relation, group=group).delta(epsilon)


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("scheme", SCHEMES, ids=lambda scheme: scheme.name)
def test_one_record_is_the_plain_account(scheme: md.types.Scheme, relation: str) -> None:
    plan = md.repeat(3, md.subsample(scheme, md.gaussian(noise_multiplier=2.0)))
    plain = md.account(plan, relation=relation)
    assert plain.group == 1
    assert bounds(plan, relation, 1) == plain.delta(0.7)


@pytest.mark.parametrize("relation", RELATIONS)
def test_gaussian_noise_on_all_records(relation: str) -> None:
    """g records move the sum g times as far: k steps of shift s are one of g s sqrt(k)."""
    moves = 2.0 if relation == "replace_one" else 1.0
    plan = md.repeat(30, md.gaussian(noise_multiplier=10.0))
    for group in (1, 2, 5):
        mu = group * moves / 10.0 * math.sqrt(30)
        found = md.account(plan, relation=relation, group=group).epsilon(1e-6)
        truth = exact_epsilon(mu, 1e-6)
        assert found.lower <= truth <= found.upper <= truth * (1 + 2e-3)


@pytest.mark.parametrize("mechanism", ["gaussian", "laplace"])
@pytest.mark.parametrize("scheme", SCHEMES, ids=lambda scheme: scheme.name)
def test_two_steps_by_quadrature(scheme: md.types.Scheme, mechanism: str) -> None:
    """Pairs of data sets with two records at one end, their substitutes at the other."""
    z, group = 2.0, 2
    noise = getattr(md, mechanism)(noise_multiplier=z)
    account = md.account(
        md.repeat(2, md.subsample(scheme, noise)), relation="replace_one", group=group
    )
    chances = scheme.multiplicity(group).tolist()
    ball = scheme.name == "poisson"
    kinds = ("symmetric",) if ball else ("aligned", "reversed", "symmetric")
    pairs = [family(kind, chances, 2 / z, mechanism) for kind in kinds]
    for epsilon in (0.05, 0.5, 1.2):
        found = account.delta(epsilon)
        attained = max(two_steps(a, b, epsilon) for a in pairs for b in pairs)
        assert attained <= found.upper * (1 + 1e-6)
        assert 0.97 * attained - 1e-9 <= found.lower <= attained * (1 + 1e-6)
        if ball:
            assert found.upper <= 1.01 * attained


@pytest.mark.parametrize("scheme", SCHEMES[:3], ids=lambda scheme: scheme.name)
def test_two_steps_with_and_without_the_records(scheme: md.types.Scheme) -> None:
    """Under add_remove both bounds meet at the aligned pair or its reverse."""
    z, group = 2.0, 3
    moves = 1.0 if scheme.name == "poisson" else 2.0
    noise = md.gaussian(noise_multiplier=z)
    account = md.account(
        md.repeat(2, md.subsample(scheme, noise)), relation="add_remove", group=group
    )
    chances = scheme.multiplicity(group).tolist()
    pairs = [family(kind, chances, moves / z, "gaussian") for kind in ("aligned", "reversed")]
    for epsilon in (0.05, 0.5, 1.2):
        found = account.delta(epsilon)
        attained = max(two_steps(pair, pair, epsilon) for pair in pairs)
        assert found.lower * (1 - 1e-6) <= attained <= found.upper * (1 + 1e-6)
        assert found.upper <= 1.01 * found.lower


@settings(max_examples=10, deadline=None)
@given(
    scheme=st.sampled_from(SCHEMES[:4]),
    relation=st.sampled_from(RELATIONS),
    z=st.floats(0.8, 8.0),
    steps=st.integers(1, 6),
    group=st.integers(1, 6),
    laplace=st.booleans(),
)
def test_more_records_never_have_less_to_fear(
    scheme: md.types.Scheme, relation: str, z: float, steps: int, group: int, laplace: bool
) -> None:
    noise = md.laplace(noise_multiplier=z) if laplace else md.gaussian(noise_multiplier=z)
    plan = md.repeat(steps, md.subsample(scheme, noise))
    fewer, more = (bounds(plan, relation, g) for g in (group, group + 1))
    assert fewer.lower <= fewer.upper
    assert fewer.upper <= more.upper * (1 + 5e-3) + 1e-12
    assert fewer.lower <= more.upper * (1 + 1e-9) + 1e-300


def test_a_group_is_at_most_as_bad_as_walking_from_record_to_record() -> None:
    """delta_g(eps) <= (e^eps - 1)/(e^{eps/g} - 1) delta(eps/g), the bound for any mechanism."""
    plan = md.repeat(4, md.subsample(md.wor(20, 4), md.gaussian(noise_multiplier=2.0)))
    for group in (2, 3):
        walked = md.account(plan).delta(1.5 / group).upper
        walked *= math.expm1(1.5) / math.expm1(1.5 / group)
        assert bounds(plan, "replace_one", group, 1.5).upper <= walked


def test_a_subset_that_is_reused() -> None:
    """b of n once, then r releases on all of it: composed inside, the group's law outside."""
    noise = md.gaussian(noise_multiplier=6.0)
    plan = md.subsample(md.wor(20, 5), md.repeat(4, noise))
    once = md.subsample(md.wor(20, 5), md.gaussian(noise_multiplier=3.0))
    for group in (1, 2, 3):
        nested = md.account(plan, group=group).delta(0.7)
        merged = md.account(once, group=group).delta(0.7)  # four releases are one of half the noise
        assert nested.upper == pytest.approx(merged.upper, rel=5e-3)
        assert nested.lower == pytest.approx(merged.lower, rel=5e-3)
        assert nested.upper >= merged.lower


def test_what_is_refused() -> None:
    step = md.subsample(md.wor(20, 18), md.gaussian(noise_multiplier=2.0))
    for wrong in (0, -1, 1.5, True, "2", None, 21):
        with pytest.raises(md.InvalidParameter, match="group"):
            md.account(step, group=wrong).delta(1.0)  # type: ignore[arg-type]
    with pytest.raises(md.NotCovered, match="17"):  # 18 of 17 records
        md.account(step, relation="add_remove", group=3).delta(1.0)
    with pytest.raises(md.NotCovered, match="group"):
        md.account(step, method="paper", group=2)


def test_the_group_travels() -> None:
    plan = md.repeat(5, md.subsample(md.wor(20, 4), md.gaussian(noise_multiplier=2.0)))
    account = md.account(plan, group=3, composition="family")
    there = pickle.loads(pickle.dumps(account))
    assert there.group == 3
    found = account.delta(1.0)
    assert account.composition == "exact-family"
    assert there.delta(1.0) == found
    pair = md.account(plan, group=3, composition="pair").delta(1.0)
    assert pair.lower <= found.lower <= found.upper < pair.upper


def test_the_papers_theorem_holds_for_groups_too() -> None:
    plan = md.repeat(5, md.subsample(md.wr(20, 4), md.gaussian(noise_multiplier=2.0)))
    ours, theirs = (
        md.account(plan, group=2, method=method).delta(1.0) for method in ("certified", "one-slope")
    )
    assert ours.upper <= theirs.upper
    assert theirs.upper > md.account(plan, method="one-slope").delta(1.0).upper
