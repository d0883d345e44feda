"""What the filter admits is private, whatever the analyst does; and its costs are upper bounds."""

from __future__ import annotations

import math
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray

import mustdp as md
from mustdp.ledger.filter import Cost, Filter, divergences, filter_for
from tests.ledger.adversary import Mechanism, fixed_delta, moments, worst_delta

ORDERS = (1.5, 2.0, 3.0, 6.0, 12.0)


def response(epsilon: float) -> Mechanism:
    """Randomised response."""
    yes = math.exp(epsilon) / (1.0 + math.exp(epsilon))
    return (yes, 1.0 - yes), (1.0 - yes, yes)


#: One that gives the record away with a small chance, one that is skewed, two plain ones.
LEAKY: Mechanism = ((0.004, 0.546, 0.45), (0.0, 0.45, 0.55))
SKEWED: Mechanism = ((0.02, 0.98), (0.003, 0.997))
FAMILIES = [
    (response(0.7), response(0.25)),
    (SKEWED, response(0.3)),
    (LEAKY, response(0.5)),
    (SKEWED, LEAKY, response(0.4)),
]


def cost_of(mechanism: Mechanism, orders: tuple[float, ...]) -> Cost:
    found, outside = moments(mechanism, orders)
    sums = tuple(math.ceil(math.ldexp(each, 60)) for each in found)
    return Cost(sums, math.ceil(math.ldexp(outside, 200)))


def used(limit: Filter, costs: list[Cost], counts: tuple[int, ...]) -> Cost:
    total = limit.nothing
    for cost, count in zip(costs, counts, strict=True):
        total += cost.times(count)
    return total


@pytest.mark.parametrize("family", FAMILIES, ids=["plain", "skewed", "leaky", "three"])
@pytest.mark.parametrize(("epsilon", "delta"), [(1.0, 0.05), (1.5, 0.2), (2.0, 0.3)])
def test_no_adaptive_analyst_passes_the_limit(
    family: tuple[Mechanism, ...], epsilon: float, delta: float
) -> None:
    limit = filter_for(epsilon, delta)
    costs = [cost_of(mechanism, limit.orders) for mechanism in family]

    def rule(counts: tuple[int, ...]) -> bool:
        most = 12 - 2 * len(family)
        return sum(counts) <= most and limit.fits(used(limit, costs, counts))

    assert worst_delta(family, rule, epsilon) <= delta


def test_judging_what_happened_as_if_fixed_in_advance_is_not_private() -> None:
    """The mistake that the filter is there for: the same analyst gets past that rule."""
    family, epsilon, delta = (response(0.9), response(0.3), response(0.1)), 1.0, 0.02

    def naive(counts: tuple[int, ...]) -> bool:
        return sum(counts) <= 6 and fixed_delta(family, counts, epsilon) <= delta

    assert worst_delta(family, naive, epsilon) > 1.4 * delta
    limit = filter_for(epsilon, delta)
    costs = [cost_of(mechanism, limit.orders) for mechanism in family]

    def filtered(counts: tuple[int, ...]) -> bool:
        return sum(counts) <= 6 and limit.fits(used(limit, costs, counts))

    assert worst_delta(family, filtered, epsilon) <= delta


def test_the_budget_of_every_order_alone_is_used_up() -> None:
    """At its order the filter is not far from what can be attained: it is no empty promise."""
    family, epsilon, delta = (response(0.25),), 1.0, 0.1
    limit = filter_for(epsilon, delta)
    cost = cost_of(family[0], limit.orders)
    most = limit.most(limit.nothing, cost)
    assert most >= 4
    assert limit.fits(cost.times(most))
    assert not limit.fits(cost.times(most + 1))
    assert limit.spent(cost.times(most)) <= epsilon < limit.spent(cost.times(most + 1))


def test_shares_of_delta_add_up_to_it() -> None:
    for epsilon, delta in ((0.01, 1e-12), (1.0, 1e-6), (50.0, 0.3)):
        limit = filter_for(epsilon, delta)
        assert math.fsum(limit.shares) == 1.0
        assert all(order > 1.0 for order in limit.orders)
        assert list(limit.orders) == sorted(set(limit.orders))
        spent = math.fsum(
            (1.0 / a) * (1.0 - 1.0 / a) ** (a - 1.0) * math.exp((a - 1.0) * (budget - epsilon))
            for a, budget in zip(
                limit.orders, (math.ldexp(b, -60) for b in limit._budgets()[:-1]), strict=True
            )
        )
        assert spent + math.ldexp(limit._rare, -200) <= delta
        assert spent + math.ldexp(limit._rare, -200) >= 0.99 * delta


@pytest.mark.parametrize(
    ("orders", "shares"),
    [
        ((2.0,), (1.1,)),
        ((2.0, 3.0), (0.6, 0.6)),
        ((1.0,), (1.0,)),
        ((2.0,), (0.0,)),
        ((2.0,), (math.nan,)),
        ((math.nan,), (1.0,)),
        ((2.0, 3.0), (1.0,)),
    ],
)
def test_a_filter_that_would_promise_too_much_is_none(
    orders: tuple[float, ...], shares: tuple[float, ...]
) -> None:
    with pytest.raises(md.InvalidParameter, match="a filter must have"):
        Filter(1.0, 1e-6, orders, shares)
    for epsilon, delta in ((0.0, 1e-6), (math.nan, 1e-6), (1.0, 0.0), (1.0, math.nan)):
        with pytest.raises(md.InvalidParameter, match="a filter must have"):
            Filter(epsilon, delta, (2.0,), (1.0,))


def test_rare_events_stay_within_their_share() -> None:
    limit = filter_for(1.0, 1e-6)
    numbers = range(1, 20_000)
    for steps in (1, 7, 1000):
        total = math.fsum(steps * 4.0 ** -limit.level(number, steps) for number in numbers)
        assert total <= 1.0
    assert limit.level(1, 1) < limit.level(100, 1) < limit.level(100, 1000)


@pytest.mark.parametrize("shift", [0.02, 0.5, 2.0])
@pytest.mark.parametrize("outside", [1e-6, 1e-10, 1e-16])
def test_gaussian_divergences(shift: float, outside: float) -> None:
    found = divergences(md.gaussian(shift=shift), "replace_one", ORDERS, outside)
    exact = [0.5 * order * shift**2 for order in ORDERS]
    assert all(ours <= 1.002 * true for ours, true in zip(found.by_order[:-1], exact, strict=True))
    assert found.by_order[0] >= (1.0 if outside < 1e-6 else 0.99) * exact[0]
    assert found.outside == pytest.approx(outside, rel=0.05)
    assert found.by_order[-1] == pytest.approx(
        md.account(md.gaussian(shift=shift)).epsilon(outside).upper, rel=0.01
    )


@pytest.mark.parametrize("shift", [0.05, 1.0, 3.0])
def test_laplace_divergences(shift: float) -> None:
    found = divergences(md.laplace(shift=shift), "replace_one", ORDERS, 1e-14)
    for order, ours in zip(ORDERS, found.by_order, strict=False):
        up, down = order / (2 * order - 1), (order - 1) / (2 * order - 1)
        rest = down * math.exp(-order * shift)
        exact = math.log(up * math.exp((order - 1) * shift) + rest) / (order - 1)
        assert exact * (1 - 1e-9) <= ours <= 1.01 * exact
    assert found.by_order[-1] == pytest.approx(shift, rel=1e-9)


def exact_cut_moment(
    p: NDArray[np.float64], q: NDArray[np.float64], order: float, top: float
) -> float:
    """The divergence of min(P, e^top Q) by a sum over a fine grid of the two densities."""
    ratio = np.minimum(p / q, math.exp(top))
    return math.log(float(np.sum(q * ratio**order))) / (order - 1)


@pytest.mark.parametrize("rate", [0.02, 0.3])
def test_divergences_of_a_poisson_draw_cover_both_directions(rate: float) -> None:
    """Against densities added up directly: the mixture against the noise alone, and the reverse."""
    plan = md.subsample(md.poisson(1000, rate), md.gaussian(noise_multiplier=1.0))
    found = divergences(plan, "add_remove", ORDERS, 1e-9)
    x = np.linspace(-12.0, 13.0, 400_001)
    density = np.exp(-0.5 * x**2) / math.sqrt(2 * math.pi) * (x[1] - x[0])
    mixture = density * ((1 - rate) + rate * np.exp(x - 0.5))
    top = found.by_order[-1]
    for order, ours in zip(ORDERS, found.by_order, strict=False):
        ahead = exact_cut_moment(mixture, density, order, top)
        behind = exact_cut_moment(density, mixture, order, top)
        # What is cut off may be cut in other ways; at low orders it does not matter.
        if order <= 3.0:
            assert max(ahead, behind) * (1 - 1e-6) <= ours <= 1.03 * max(ahead, behind)
        assert ours <= top


def test_infinite_losses_cost_everything() -> None:
    found = divergences(md.gaussian(shift=1e3), "replace_one", ORDERS, 1e-10)
    assert all(math.isinf(each) for each in found.by_order)
    limit = filter_for(400.0, 1e-6)
    cost = limit.cost({md.gaussian(shift=1e3): 1}, "replace_one", 1)
    assert not limit.fits(cost)
    assert limit.spent(cost) == math.inf
    assert limit.most(limit.nothing, cost) == 0


@pytest.mark.parametrize(("small", "large"), [(0.05, 0.2), (0.1, 0.15)])
def test_monte_carlo_with_gaussian_noise(small: float, large: float) -> None:
    """An analyst who takes the louder release while the loss is low: delta estimated from P."""
    epsilon, delta, runs = 1.0, 0.05, 50_000
    limit = filter_for(epsilon, delta)
    rng = np.random.default_rng(2008)
    costs = {
        s: [limit.cost({md.gaussian(shift=s): 1}, "replace_one", level) for level in range(1, 12)]
        for s in (small, large)
    }
    loss = np.zeros(runs)
    sums = np.zeros((runs, len(limit.orders)))
    budgets = np.array([math.ldexp(float(b), -60) for b in limit._budgets()[:-1]])
    going, steps = np.ones(runs, dtype=bool), 0
    while going.any() and steps < 60:
        steps += 1
        level = limit.level(steps, 1)
        for s in (large, small):
            wants = going & ((loss < 0.5 * epsilon) == (s == large))
            cost = costs[s][level - 1]
            after = sums + np.array([math.ldexp(float(c or 0), -60) for c in cost.sums[:-1]])
            admitted = wants & np.any(after <= budgets, axis=1)
            loss[admitted] += rng.normal(0.5 * s * s, s, int(admitted.sum()))
            sums[admitted] = after[admitted]
            going &= ~wants | admitted
        going &= loss < 1.5 * epsilon  # nothing more to gain
    gain = np.maximum(0.0, 1.0 - np.exp(epsilon - loss))
    estimate, error = float(gain.mean()), float(gain.std() / math.sqrt(runs))
    assert steps > 3
    assert estimate + 4 * error <= delta
    assert estimate > 0.1 * delta  # the analyst does get something


@pytest.mark.parametrize("shift", [3e-5, 1e-3, 0.3])
def test_costs_are_rounded_up_and_budgets_down(shift: float) -> None:
    """As whole numbers of 2^-60 and 2^-200, against exact fractions."""
    plan = md.gaussian(shift=shift)
    limit = filter_for(0.7, 1e-6)
    level = limit.level(1, 1)
    outside = limit.delta / 8 * 4.0**-level
    found = divergences(plan, "replace_one", limit.orders, outside)
    cost = limit.cost({plan: 3}, "replace_one", level)
    exact = [Fraction(each) * 2**60 for each in found.by_order]
    rare = Fraction(found.outside) * 2**200
    if shift < 1e-2:
        assert any(each.denominator > 1 for each in exact)  # or nothing would have to be rounded
    for whole, each in zip(cost.sums, exact, strict=True):
        assert whole is not None
        assert 3 * each <= whole < 3 * (each + 1)
    assert 3 * rare <= cost.outside < 3 * (rare + 1)
    for epsilon, delta in ((0.7, 1e-6), (1e-3, 1e-9), (3.0, 1e-4)):
        other = filter_for(epsilon, delta)
        conversions = (*other._conversions(), 0.0)
        for budget, conversion in zip(other._budgets(), conversions, strict=True):
            assert budget <= Fraction(epsilon - conversion) * 2**60
        assert other._rare <= Fraction(delta / 8) * 2**200


def test_the_conversion_is_rounded_up() -> None:
    """Against the formula in a hundred digits."""
    with localcontext() as context:
        context.prec = 60
        for epsilon, delta in ((0.7, 1e-6), (4.0, 1e-12), (20.0, 0.01)):
            limit = filter_for(epsilon, delta)
            for a, share, ours in zip(
                limit.orders, limit.shares, limit._conversions(), strict=True
            ):
                order = Decimal(a)
                part = Decimal(share) * Decimal(delta) * Decimal(7) / Decimal(8)
                true = (1 - 1 / order).ln() - (part.ln() + order.ln()) / (order - 1)
                assert true <= Decimal(ours) <= true + (1 + abs(true)) * Decimal("1e-11")


@pytest.mark.parametrize(("epsilon", "delta"), [(2.0, 1e-6), (200.0, 0.3)])
def test_every_order_counts_and_the_very_budget_fits(epsilon: float, delta: float) -> None:
    limit = filter_for(epsilon, delta)
    budgets = limit._budgets()
    assert epsilon < 200.0 or min(budgets) > 0  # or not every order would be looked at
    beyond: list[int | None] = [budget + 1 for budget in budgets]
    assert not limit.fits(Cost(tuple(beyond), 0))
    for which, budget in enumerate(budgets):
        if budget < 0:
            continue
        sums = list(beyond)
        sums[which] = budget
        assert limit.fits(Cost(tuple(sums), limit._rare))
        assert not limit.fits(Cost(tuple(sums), limit._rare + 1))
        assert limit.spent(Cost(tuple(sums), 0)) <= limit.epsilon * (1 + 1e-12)
        sums[which] = None
        assert not limit.fits(Cost(tuple(sums), 0))


def test_fewer_records_than_n_spend_as_much_with_a_cap() -> None:
    """Ten of at most a million records are kept as often as they are drawn."""
    noise = md.gaussian(noise_multiplier=1.0)
    orders = (1.5, 2.0, 3.0)
    capped, few = (
        divergences(md.subsample(scheme, noise), "add_remove", orders, 1e-8).by_order
        for scheme in (md.truncated_poisson(10**6, 0.5, 10), md.poisson(10, 0.5))
    )
    assert all(most >= least for most, least in zip(capped, few, strict=True))
