"""Renyi curves and zero-concentrated privacy: what adds up before it is turned into a profile."""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mustdp as md

DELTA = 1e-6


def converted(rho: float, delta: float = DELTA) -> float:
    """Epsilon of rho-zCDP in 30 digits: Canonne, Kamath & Steinke 2020, Proposition 12."""
    mpmath.mp.dps = 30

    def epsilon(t: mpmath.mpf) -> mpmath.mpf:
        a = 1 + mpmath.exp(t)
        return a * rho + mpmath.log1p(-1 / a) - mpmath.log(delta * a) / (a - 1)

    best = min(np.linspace(-4, 12, 800).tolist(), key=lambda t: float(epsilon(mpmath.mpf(t))))
    return float(min(epsilon(mpmath.mpf(best) + k * mpmath.mpf("1e-3")) for k in range(-20, 21)))


@pytest.mark.parametrize(
    ("rho", "count"), [(1e-4, 1), (0.01, 3), (0.5, 1), (20.0, 3), (1e-4, 1000), (0.1, 1000)]
)
def test_rhos_of_repeated_releases_add_up_first(rho: float, count: int) -> None:
    found = md.account(md.repeat(count, md.zcdp(rho))).epsilon(DELTA)
    exact = converted(count * rho)
    assert found.lower == 0.0
    assert exact * (1 - 1e-9) <= found.upper <= exact * 1.001 + 1e-9


def test_published_deployments_are_matched() -> None:
    """Parameters and deltas of the OpenDP registry of deployments."""
    wikimedia = md.account(md.sequence(md.zcdp(0.005), md.repeat(2, md.zcdp(0.005))))
    assert wikimedia.epsilon(1e-7).upper == pytest.approx(converted(0.015, 1e-7), rel=1e-3)
    census = md.account(md.sequence(md.zcdp(2.0), md.zcdp(0.56))).epsilon(1e-10).upper
    assert census == pytest.approx(converted(2.56, 1e-10), rel=1e-3)


def test_rhos_add_up_across_what_is_released_in_between() -> None:
    between = md.gaussian(noise_multiplier=50.0)
    apart = md.account(md.sequence(md.zcdp(0.05), between, md.zcdp(0.05)))
    direct = md.account(md.sequence(md.zcdp(0.1), between))
    found = apart.epsilon(DELTA).upper
    assert found == pytest.approx(direct.epsilon(DELTA).upper, rel=1e-9)
    assert converted(0.1) < found < converted(0.1 + 1 / 50**2 * 2 + 0.01)
    assert apart.steps == 3


@pytest.mark.parametrize("seed", range(6))
def test_choosing_along_the_way_gains_nothing_over_the_sum(seed: int) -> None:
    """Coins with two outcomes, the last chosen after the one in between was seen, added up."""
    rng = np.random.default_rng(seed)
    rho, told = 0.08, 0.62
    between = md.randomized_response(math.log(told / (1 - told)))
    account = md.account(md.sequence(md.zcdp(rho), between, md.zcdp(rho)))

    def coin() -> tuple[float, float]:
        """Chances of heads on neighbours, as far apart as rho allows in both orders."""
        p = float(rng.uniform(0.02, 0.98))
        low, high = p, 0.999999
        for _ in range(60):
            q = (low + high) / 2
            low, high = (q, high) if concentrated(p, q) <= rho else (low, q)
        return (p, low) if rng.integers(2) else (low, p)

    orders = 1 + np.geomspace(1e-3, 1e3, 300)

    def concentrated(p: float, q: float) -> float:
        sides = []
        for a, b in ((p, q), (q, p)):
            logs = np.logaddexp(
                orders * math.log(a) + (1 - orders) * math.log(b),
                orders * math.log1p(-a) + (1 - orders) * math.log1p(-b),
            )
            sides.append(float(np.max(logs / (orders - 1) / orders)))
        return max(sides)

    first, later = coin(), {(a, b): coin() for a in (0, 1) for b in (0, 1)}
    for epsilon in (0.1, 0.5, 1.0, 1.5):
        delta = 0.0
        for a, b, c in np.ndindex(2, 2, 2):
            sides = []
            for side in (0, 1):
                chance = first[side] if a else 1 - first[side]
                chance *= told if b == side else 1 - told
                last = later[a, b][side]
                sides.append(chance * (last if c else 1 - last))
            delta += max(0.0, sides[0] - math.exp(epsilon) * sides[1])
        assert delta <= account.delta(epsilon).upper


def test_a_dense_curve_is_as_good_as_the_rho_it_comes_from() -> None:
    orders = (1 + np.geomspace(1e-3, 1e3, 200)).tolist()
    curve = md.renyi(orders, [0.02 * a for a in orders])
    plans: list[tuple[md.types.Plan, float]] = [
        (curve, 0.02),
        (md.repeat(7, curve), 0.14),
        (md.sequence(curve, md.zcdp(0.1)), 0.12),
        (md.sequence(md.zcdp(0.1), curve), 0.12),
    ]
    for plan, rho in plans:
        found = md.account(plan).epsilon(DELTA).upper
        assert converted(rho) * (1 - 1e-9) <= found <= converted(rho) * 1.003


def test_curves_with_different_orders_are_joined_along_chords() -> None:
    first, second = md.renyi([2.0, 10.0], [0.1, 0.5]), md.renyi([4.0, 20.0], [0.2, 1.0])
    joined = md.account(md.sequence(first, second)).epsilon(DELTA).upper
    # At order 10 the second has at most (3 * 0.2 + (9 - 3) / (19 - 3) * (19 - 0.6)) / 9.
    chord = (0.6 + 6 / 16 * (19.0 - 0.6)) / 9
    at_ten = 0.5 + chord + math.log1p(-0.1) - math.log(DELTA * 10) / 9
    # At order 4 the first has at most (0.1 + (3 - 1) / (9 - 1) * (4.5 - 0.1)) / 3.
    at_four = 0.2 + (0.1 + 2 / 8 * 4.4) / 3 + math.log1p(-0.25) - math.log(DELTA * 4) / 3
    assert joined <= min(at_ten, at_four) * (1 + 1e-6)
    separate = md.account(md.repeat(2, first)).epsilon(DELTA).upper
    assert separate == pytest.approx(1.0 + math.log1p(-0.1) - math.log(DELTA * 10) / 9, rel=1e-3)


@settings(max_examples=25, deadline=None)
@given(st.floats(0.02, 2.0), st.integers(1, 3))
def test_curves_of_gaussian_noise_cover_it_in_groups_and_batches(rho: float, group: int) -> None:
    shift, orders = math.sqrt(2 * rho), [1.25, 1.5, 2.0, 3.0, 6.0, 12.0, 40.0]
    noise, curve = md.gaussian(shift=shift), md.renyi(orders, [a * rho for a in orders])
    for epsilon in (0.1, 1.0, 3.0):
        truth = md.account(noise, group=group).delta(epsilon).lower
        assert md.account(curve, group=group).delta(epsilon).upper >= truth * (1 - 1e-9)
    drawn = md.wr(20, 5)
    truth = md.account(md.subsample(drawn, noise)).delta(0.3).lower
    assert md.account(md.subsample(drawn, curve)).delta(0.3).upper >= truth * (1 - 1e-9)


def test_joined_inside_a_subset_too() -> None:
    inner = md.repeat(10, md.zcdp(0.01))
    once = md.subsample(md.wor(100, 10), md.zcdp(0.1))
    both = [
        md.account(one).epsilon(1e-4).upper for one in (md.subsample(md.wor(100, 10), inner), once)
    ]
    assert both[0] == pytest.approx(both[1], rel=1e-6)


@pytest.mark.parametrize(
    ("orders", "epsilons", "named"),
    [
        ([], [], "orders"),
        ([2.0, 2.0], [0.1, 0.1], "orders"),
        ([4.0, 2.0], [0.1, 0.1], "orders"),
        ([1.0], [0.1], "orders"),
        ([2.0], [0.1, 0.2], "epsilons"),
        ([2.0], [-0.1], "epsilons"),
        ([2.0], [math.nan], "epsilons"),
        (2.0, 0.1, "orders"),
    ],
)
def test_bad_curves_are_refused(orders: object, epsilons: object, named: str) -> None:
    with pytest.raises(md.InvalidParameter, match=named):
        md.renyi(orders, epsilons)  # type: ignore[arg-type]
