"""The exponential mechanism against all pairs of bounded range, by brute force."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

import mustdp as md
from mustdp.mechanisms.exponential_mechanism import BoundedRangeProfiles, TwoCandidates
from tests.arrays import FloatArray
from tests.mechanisms.conformance import Pair

RANGES = (0.01, 0.3, 1.0, 3.0, 20.0)


def two_points(reach: float, t: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Chances under P and Q of the output with loss t, where the other one has t - reach.

    They solve p = e^t q and 1 - p = e^{t - reach} (1 - q).
    """
    q = np.expm1(reach - t) / np.expm1(reach)
    return np.exp(t) * q, q


def worst(reach: float, epsilon: float) -> float:
    """The largest divergence of two-point pairs, over a fine grid of t."""
    p, q = two_points(reach, np.linspace(0.0, reach, 20_001))
    alpha = math.exp(epsilon)
    sizes = np.maximum(p - alpha * q, 0.0) + np.maximum(1.0 - p - alpha * (1.0 - q), 0.0)
    return float(sizes.max())


def upper(reach: float, group: int, epsilon: float) -> float:
    groups, at = np.array([float(group)]), np.array([[epsilon]])
    return float(BoundedRangeProfiles(reach).delta(groups, at)[0, 0])


def test_two_points_have_the_losses_that_they_are_named_by() -> None:
    t = np.linspace(0.1, 1.9, 7)
    p, q = two_points(2.0, t)
    assert np.allclose(np.log(p / q), t)
    assert np.allclose(np.log((1 - p) / (1 - q)), t - 2.0)


@pytest.mark.parametrize("group", [1, 2, 7])
@pytest.mark.parametrize("reach", RANGES)
def test_the_profile_is_the_largest_over_all_t(reach: float, group: int) -> None:
    whole = reach * group
    for share in (-1.3, -1.0, -0.8, -0.2, 0.0, 0.1, 0.5, 0.9, 0.99, 1.0, 1.3):
        exact, stated = worst(whole, share * whole), upper(reach, group, share * whole)
        assert stated >= exact * (1.0 - 1e-12) - 1e-15
        assert stated <= exact * (1.0 + 1e-5) + 1e-14
        if -1.0 < share < 1.0:
            smaller = upper(reach * (1.0 - 1e-3), group, share * whole)
            assert smaller < exact, "a smaller range is found out"


def test_no_choice_among_several_candidates_exceeds_the_profile() -> None:
    rng = np.random.default_rng(20)
    found = 0.0
    for _ in range(3000):
        reach = float(rng.uniform(0.1, 4.0))
        candidates = int(rng.integers(2, 7))
        utility = rng.normal(scale=3.0, size=candidates)
        change = rng.choice([-1.0, 0.0, 1.0, rng.uniform(-1.0, 1.0)], size=candidates)
        p, q = (np.exp(reach * (utility + moved) / 2.0) for moved in (change, 0.0))
        pair = Pair(p / p.sum(), q / q.sum())
        for epsilon in rng.uniform(-reach, reach, size=4).tolist():
            exact, stated = pair.delta(epsilon), upper(reach, 1, epsilon)
            assert exact <= stated * (1.0 + 1e-12) + 1e-15
            found = max(found, exact / stated if epsilon > 0.0 else 0.0)
    assert found > 0.99, "and some come close"


def test_the_range_of_a_group_is_rounded_up() -> None:
    """Where j E is rounded down, divergence is left at the rounded range."""
    checked = 0
    for j in range(2, 200):
        whole = j * 0.1
        left = j * Fraction(0.1) - Fraction(whole)
        if left > 0:
            exact = float(left / 2) ** 2 / -math.expm1(-whole)
            assert upper(0.1, j, whole) >= exact > 0.0
            checked += 1
    assert checked > 10


@pytest.mark.parametrize(("reach", "steps"), [(1.0, 2), (0.5, 10), (0.1, 100)])
def test_compositions_cover_every_t(reach: float, steps: int) -> None:
    account = md.account(md.repeat(steps, md.exponential_mechanism(reach)))
    ones = np.arange(steps + 1)
    p, q = two_points(reach, np.linspace(0.0, reach, 201)[1:-1])
    up, down = (stats.binom.pmf(ones, steps, one[:, None]) for one in (p, q))
    for epsilon in np.array([0.0, 0.3, 1.0]) * reach * math.sqrt(steps):
        bounds = account.delta(float(epsilon))
        by_t = np.maximum(up - math.exp(epsilon) * down, 0.0).sum(axis=1)
        assert bounds.upper >= by_t.max()
        assert bounds.lower == pytest.approx(by_t[by_t.size // 2], rel=1e-4)
        plain = md.account(md.repeat(steps, md.pure_dp(reach))).delta(float(epsilon))
        assert bounds.upper < plain.upper


def test_one_release_is_attained_at_zero_and_has_its_epsilon() -> None:
    account = md.account(md.exponential_mechanism(1.0))
    found = account.delta(0.0)
    assert found.lower == pytest.approx(math.tanh(0.25), rel=1e-10)
    assert found.upper == pytest.approx(math.tanh(0.25), rel=1e-10)
    assert account.delta(1.0).upper < 1e-20
    assert 0.99 < account.epsilon(1e-5).upper <= 1.0


@pytest.mark.parametrize("reach", [1e-9, 0.4, 100.0])
def test_neighbouring_places_have_the_range(reach: float) -> None:
    masses = TwoCandidates(reach).masses(np.arange(-30, 31))
    assert np.allclose(masses.sum(axis=1), 1.0)
    odds = np.log(masses[:, 0] / masses[:, 1])
    assert np.all(np.diff(odds) <= reach * (1.0 + 1e-6) + 1e-12)
    assert odds[31] - odds[30] == pytest.approx(reach, rel=1e-6)


@pytest.mark.parametrize("epsilon", [1e-9, 1e-3, 5.0, 100.0])
@pytest.mark.parametrize("scheme", [md.wor(1000, 10), md.wr(30, 60), md.must_ow(500, 50, 200)])
def test_extremes_stay_in_order(scheme: md.types.Scheme, epsilon: float) -> None:
    step = md.subsample(scheme, md.exponential_mechanism(epsilon))
    other = md.subsample(scheme, md.pure_dp(epsilon))
    for at in (0.0, epsilon / 2.0):
        found, plain = md.account(step).delta(at), md.account(other).delta(at)
        assert 0.0 <= found.lower <= found.upper <= plain.upper * (1.0 + 1e-9) + 1e-15


def test_tables_steer_by_the_slope_of_the_profile() -> None:
    profiles = BoundedRangeProfiles(1.0)
    group, epsilon = np.array([2.0]), np.array([[-1.2], [0.3], [1.0], [1.9]])
    alpha, width = np.exp(epsilon), 1e-5
    either = [profiles.delta(group, np.log(alpha + side * width)) for side in (-1.0, 1.0)]
    slope = (either[0] - either[1]) / (2.0 * width)
    assert np.allclose(profiles.slope_at(group, epsilon), slope, rtol=0.02)
