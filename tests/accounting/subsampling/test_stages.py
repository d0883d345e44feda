"""Stages around stages: closed forms for two, chords for three, tightness at every scale."""

from __future__ import annotations

import numpy as np
import pytest

from mustdp import gaussian, laplace, multistage, must_ow, must_ww, one_step
from mustdp.accounting.subsampling.one_step import (
    TAIL,
    ChordProfiles,
    StagedProfiles,
    certificate,
    stage_profiles,
    staged_inside,
    upper_bound,
)
from mustdp.mechanisms.mechanism import GaussianNoise, NoiseProfiles
from mustdp.sampling.schemes import stage_law
from mustdp.types import Stage

EPSILONS = np.array([0.0, 0.05, 0.3, 1.0, 4.0])


def test_mustow_is_the_closed_form_around_wr() -> None:
    """h(alpha) = (b/n) h_WR(b,m)(1 + (alpha - 1) n/b) under replace_one, and remove alike."""
    n, b, m = 40, 10, 6
    mechanism = gaussian(shift=0.7)
    inside = np.log1p(np.expm1(EPSILONS) * n / b)
    inner = certificate(stage_law(Stage("wr", m), b, 1, TAIL), mechanism.profiles(0.7), inside)[0]
    found = upper_bound(must_ow(n, b, m), mechanism, EPSILONS, relation="replace_one")
    assert found == pytest.approx(b / n * inner, rel=1e-9)
    remove = upper_bound(
        must_ow(n, b, m), mechanism, EPSILONS, relation="add_remove", direction="remove"
    )
    assert remove == pytest.approx(b / n * inner, rel=1e-9)


def test_mustow_add_direction_is_its_closed_form() -> None:
    """(1 - alpha(1-q)) h_WR(alpha q / (1 - alpha(1-q))), zero once alpha (1-q) >= 1."""
    n, b, m = 12, 10, 6
    q = b / n
    mechanism = gaussian(shift=0.7)
    left = 1.0 - np.exp(EPSILONS) * (1.0 - q)
    found = upper_bound(
        must_ow(n, b, m), mechanism, EPSILONS, relation="add_remove", direction="add"
    )
    for value, epsilon, rest in zip(found, EPSILONS, left, strict=True):
        if rest <= 0:
            assert value == 0.0
            continue
        inside = np.array([epsilon + np.log(q / rest)])
        inner = certificate(stage_law(Stage("wr", m), b, 1, TAIL), mechanism.profiles(0.7), inside)[
            0
        ]
        assert value == pytest.approx(rest * inner[0], rel=1e-9)


@pytest.mark.parametrize("relation", ["replace_one", "add_remove"])
@pytest.mark.parametrize("shift", [1e-6, 1e-3, 0.02, 0.1])
@pytest.mark.parametrize("stages", [[("wr", 10), ("wr", 20)], [("wr", 4), ("wr", 3), ("wr", 4)]])
def test_small_shifts_are_resolved(
    stages: list[tuple[str, int]], shift: float, relation: str
) -> None:
    """The tables inside must follow the scale of the profile: bound and attained value meet."""
    scheme = multistage(8 if len(stages) == 3 else 50, stages)
    spread = shift * np.sqrt(scheme.law().positive @ scheme.law().positive_values ** 2)
    epsilon = spread * np.array([0.5, 1.0, 2.0, 3.0])
    step = one_step(scheme, gaussian(shift=shift), epsilon, relation=relation)
    bound = upper_bound(scheme, step.mechanism, epsilon, relation=step.relation)
    assert np.all(step.lower > 1e-26)
    assert np.all(bound <= step.lower * 1.01)


@pytest.mark.parametrize("shift", [2.0, 10.0, 30.0])
def test_large_epsilons_are_resolved(shift: float) -> None:
    """Slopes far below e^-100 still steer: at eps = 300 the bound is close to attained."""
    epsilon = np.array([20.0, 100.0, 300.0])
    step = one_step(must_ww(50, 10, 20), gaussian(shift=shift), epsilon)
    bound = upper_bound(step.scheme, step.mechanism, epsilon, relation="replace_one")
    assert np.all(bound <= step.lower * 1.02)


def test_chords_are_never_below_what_they_tabulate() -> None:
    inner = NoiseProfiles(gaussian(shift=0.6).noise, 0.6)
    staged = StagedProfiles(Stage("wr", 4), 5, inner, 100.0)
    chords = ChordProfiles(staged)
    groups = np.array([1.0, 2.0, 5.0])
    epsilon = np.linspace(-3.0, 60.0, 400)[:, None] * np.ones(3)
    exact, above = staged.delta(groups, epsilon), chords.delta(groups, epsilon)
    assert np.all(above >= exact * (1.0 - 1e-13))
    near = exact > 1e-12
    assert np.all(above[near] <= exact[near] * (1 + 1e-2))


def test_a_whole_group_of_entries_leaves_nothing_to_amplify() -> None:
    """If all entries a stage draws from are special, all that it draws is."""
    mechanism = laplace(shift=0.3)
    staged = StagedProfiles(Stage("wr", 4), 5, mechanism.profiles(0.3), 100.0)
    epsilon = np.array([[0.0], [0.5], [1.2]])
    found = staged.delta(np.array([5.0]), epsilon)
    assert found == pytest.approx(mechanism.profiles(0.3).delta(np.array([4.0]), epsilon), rel=1e-9)
    for large in (100.0, 600.0):
        assert staged.delta(np.array([5.0]), np.array([[large]]))[0, 0] == 0.0


def test_stage_profiles_wrap_every_stage() -> None:
    scheme = multistage(9, [("wor", 5), ("wr", 4)])
    mechanism = gaussian(shift=0.5)
    whole = stage_profiles(scheme, mechanism.profiles(0.5), 10.0)
    found = whole.delta(np.ones(1), EPSILONS[:, None])[:, 0]
    expected = upper_bound(scheme, mechanism, EPSILONS, relation="replace_one")
    assert found == pytest.approx(expected, rel=1e-9)


def test_one_stage_has_nothing_inside() -> None:
    inner = gaussian(shift=0.5).profiles(0.5)
    assert staged_inside(multistage(9, [("wr", 4)]), inner, 10.0) is inner


def test_profiles_of_stages_are_self_dual_and_grow_with_the_group() -> None:
    staged = StagedProfiles(Stage("wr", 4), 6, gaussian(shift=0.8).profiles(0.8), 100.0)
    groups = np.arange(1.0, 7.0)
    epsilon = np.array([0.1, 0.8])[:, None] * np.ones(6)
    above, below = staged.delta(groups, epsilon), staged.delta(groups, -epsilon)
    alpha = np.exp(-epsilon)
    assert below == pytest.approx(1.0 - alpha + alpha * above, rel=1e-12)
    assert np.all(np.diff(above, axis=1) >= 0)


def test_slopes_and_tables_agree() -> None:
    staged = StagedProfiles(Stage("wr", 4), 6, gaussian(shift=0.8).profiles(0.8), 100.0)
    epsilon = np.array([[0.4], [1.1]])
    direct = staged.slope_at(np.ones(1), epsilon)
    table = staged.slope(staged.parameter(np.ones(1), epsilon))
    assert direct == pytest.approx(table, rel=0.05)
    t = staged.parameter(np.ones(1), epsilon)[:, 0]
    assert staged.tangent(np.ones(1), t)[0] == pytest.approx(epsilon, rel=0.05)


def test_chords_lie_above_their_family_on_both_sides_of_zero() -> None:
    """Inner stages are asked at slopes below one as well, where self-duality gives the profile."""
    staged = StagedProfiles(Stage("wr", 5), 10, NoiseProfiles(GaussianNoise(), 0.7), 50.0)
    groups, epsilon = np.array([1.0, 2.0, 4.0]), np.array([-8.0, -2.0, -0.3, 0.0, 0.3, 2.0])
    where = np.repeat(epsilon[:, None], groups.size, axis=1)
    chords, values = ChordProfiles(staged).delta(groups, where), staged.delta(groups, where)
    assert np.all(chords >= values * (1.0 - 1e-12))
    assert np.all(chords <= values * 1.01)
