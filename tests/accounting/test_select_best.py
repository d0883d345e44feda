"""The best of a random number of runs: bounds against exact laws, drawing, JSON, commands."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from scipy.special import gammaln

import mustdp as md
from tests.arrays import FloatArray
from tests.cli.running import answer, check_refused, runner
from tests.sampling.chi_square import p_value_of_numbers
from tests.seams import describe, plan_from_description

LAWS: list[tuple[float, str | float]] = [
    (1.3, "logarithmic"), (20.0, "logarithmic"), (3.0, "geometric"), (40.0, "geometric"),
    (0.5, "poisson"), (6.0, "poisson"), (15.0, -0.6), (5.0, 2.5),
]  # fmt: skip
RUN = md.repeat(50, md.subsample(md.poisson(1000, 0.02), md.gaussian(noise_multiplier=1.5)))
QUICK = md.repeat(5, md.gaussian(noise_multiplier=6.0))


def runs_of(mean: float, law: str | float = "logarithmic") -> Any:
    """The law of the number of runs, which is drawn from."""
    return md.select_best(md.gaussian(shift=1.0), mean, law=law).repetitions


def exact_generating(runs: Any) -> Callable[[float], float]:
    """E x^K, from the definition of the law, in 40 digits."""
    mpmath.mp.dps = 40
    if runs.law == "poisson":
        return lambda x: float(mpmath.exp(-runs.mean * (1 - mpmath.mpf(x))))
    gamma = mpmath.mpf(runs.gamma)
    eta = float({"logarithmic": 0.0, "geometric": 1.0}.get(str(runs.law), runs.law))

    def generating(x: float) -> float:
        base = 1 - (1 - gamma) * mpmath.mpf(x)
        if eta == 0.0:
            return float(mpmath.log(base) / mpmath.log(gamma))
        return float((base**-eta - 1) / (gamma**-eta - 1))

    return generating


def best_of(runs: Any, masses: list[float], order: tuple[int, ...]) -> FloatArray:
    """The exact law of the best run, by outcome; the last entry is that there is none."""
    generating = exact_generating(runs)
    found, below = np.zeros(len(masses) + 1), 0.0
    found[-1] = generating(0.0)
    for k in order:
        found[k] = generating(min(1.0, below + masses[k])) - generating(below)
        below += masses[k]
    return found


def divergence(p: FloatArray, q: FloatArray, epsilon: float) -> float:
    return float(np.maximum(p - math.exp(epsilon) * q, 0.0).sum())


@pytest.mark.parametrize(("mean", "law"), LAWS)
@pytest.mark.parametrize("epsilon", [0.2, 1.5])
def test_no_order_of_answers_of_randomized_response_costs_more(
    mean: float, law: str | float, epsilon: float
) -> None:
    truth, other = math.exp(epsilon) / (math.exp(epsilon) + 2), 1 / (math.exp(epsilon) + 2)
    p, q = [truth, other, other], [other, truth, other]
    plan = md.select_best(md.randomized_response(epsilon, 3), mean, law=law)
    account = md.account(plan)
    asked = [0.0, 0.5 * epsilon, epsilon, 1.4 * epsilon, 2.0 * epsilon]
    certified = [account.delta(e).upper for e in asked]
    for order in itertools.permutations(range(3)):
        first, second = (best_of(plan.repetitions, masses, order) for masses in (p, q))
        for e, upper in zip(asked, certified, strict=True):
            assert divergence(first, second, e) <= upper + 1e-13
            assert divergence(second, first, e) <= upper + 1e-13


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.floats(-6.0, 0.0), min_size=3, max_size=5),
    st.integers(0, 10_000),
    st.sampled_from(LAWS),
)
def test_the_theorem_holds_for_random_laws_of_outputs(
    logs: list[float], seed: int, law: tuple[float, str | float]
) -> None:
    rng = np.random.default_rng(seed)
    p = np.exp(np.array(logs))
    q = p * np.exp(rng.normal(0.0, 1.0, p.size))
    p, q, runs = p / p.sum(), q / q.sum(), runs_of(*law)

    def profile(epsilon: FloatArray) -> FloatArray:
        both = [max(divergence(p, q, e), divergence(q, p, e)) for e in epsilon.tolist()]
        return np.array(both)

    growth = runs.log_growth(profile)
    for _ in range(6):
        order = tuple(rng.permutation(p.size).tolist())
        first, second = (best_of(runs, masses.tolist(), order) for masses in (p, q))
        for e in (growth, growth + 0.3, growth + 1.0):
            bound = runs.largest_weight * float(profile(np.array([e - growth]))[0])
            assert divergence(first, second, e) <= bound * (1 + 1e-9) + 1e-12
        same = 1.0 - float(profile(np.zeros(1))[0])
        assert divergence(first, second, 0.0) <= 1.0 - runs.generating(same) + 1e-12


def test_without_the_growth_the_bound_would_be_wrong() -> None:
    runs, e = runs_of(20.0, "geometric"), 1.0
    worst, best = math.exp(e) / (1 + math.exp(e)), 1 / (1 + math.exp(e))
    first = best_of(runs, [worst, best], (0, 1))
    second = best_of(runs, [best, worst], (0, 1))
    # Beyond the epsilon of one run the bound without growth says 0.
    assert divergence(first, second, 1.05 * e) > 0.01
    upper = md.account(md.select_best(md.pure_dp(e), 20.0, law="geometric")).delta(1.05 * e).upper
    assert divergence(first, second, 1.05 * e) <= upper


@pytest.mark.parametrize(("law", "eta"), [("logarithmic", 0), ("geometric", 1)])
@pytest.mark.parametrize("epsilon", [0.1, 1.0])
def test_pure_privacy_grows_by_no_more_than_the_corollary(
    law: str, eta: int, epsilon: float
) -> None:
    found = md.account(md.select_best(md.laplace(shift=epsilon), 30.0, law=law)).epsilon(0)
    assert epsilon * 0.999 <= found.lower <= epsilon
    assert found.upper <= (2 + eta) * epsilon
    gamma = runs_of(30.0, law).gamma
    c = gamma / (1 - gamma)
    # Laplace: 1 - sqrt(r) e^(-eps/2) = (r - 1) c.
    root = mpmath.findroot(
        lambda r: 1 - mpmath.sqrt(r) * mpmath.exp(-epsilon / 2) - (r - 1) * c,
        (1.0, math.exp(epsilon)), solver="anderson",
    )  # fmt: skip
    exact = epsilon + (1 + eta) * float(mpmath.log(root))
    assert exact <= found.upper <= exact * (1 + 1e-6)


@pytest.mark.parametrize(("law", "eta"), [("logarithmic", 0), ("geometric", 1), (-0.5, -0.5)])
def test_growth_is_at_most_that_of_the_published_theorem(law: str | float, eta: float) -> None:
    """Papernot & Steinke 2022, Theorem 2, with the best order for Gaussian noise."""
    rho, runs = 0.1, runs_of(50.0, law)
    published = min(
        (1 + eta) * ((1 - 1 / b) * b * rho + math.log(1 / runs.gamma) / b)
        for b in np.geomspace(1.01, 1e4, 2000)
    )
    found = md.account(md.select_best(md.gaussian(shift=math.sqrt(2 * rho)), 50.0, law=law))
    orders = np.array([2.0, 8.0, 32.0])
    theorem = orders * rho + published + math.log(50.0) / (orders - 1)
    assert np.all(found.renyi(orders).upper <= theorem * (1 + 1e-6))
    converted = min(
        a * rho + published + math.log(50.0) / (a - 1)
        + math.log1p(-1 / a) - math.log(1e-6 * a) / (a - 1)
        for a in np.geomspace(1.01, 1e3, 2000)
    )  # fmt: skip
    assert found.epsilon(1e-6).upper <= converted


@pytest.mark.parametrize(("mean", "shift"), [(100.0, 0.01), (1000.0, 1.0), (8.0, 0.3)])
def test_the_poisson_law_costs_at_most_what_the_published_theorem_says(
    mean: float, shift: float
) -> None:
    """Papernot & Steinke 2022, Theorem 6, with the exact profile of Gaussian noise."""
    run = md.gaussian(shift=shift)
    found = md.account(md.select_best(run, mean, law="poisson"))
    orders = 1.0 + np.geomspace(0.01, 1e4, 400)
    inside = run.delta(-np.log1p(-1.0 / orders))
    theorem = orders * shift**2 / 2 + mean * inside + math.log(mean) / (orders - 1)
    some = np.array([2.0, 8.0, 32.0])
    published = np.interp(some, orders, theorem)
    assert np.all(found.renyi(some).upper <= published * (1 + 1e-2))
    converted = theorem + np.log1p(-1 / orders) - np.log(1e-6 * orders) / (orders - 1)
    assert found.epsilon(1e-6).upper <= 1.02 * converted.min()


@pytest.mark.parametrize(("mean", "shift"), [(60.0, 0.05), (5.0, 0.6), (0.3, 1.0)])
def test_no_order_of_gaussian_outputs_costs_more(mean: float, shift: float) -> None:
    """Outputs in cells, in orders that begin with the likely and with the unlikely ones."""
    plan = md.select_best(md.gaussian(shift=shift), mean, law="poisson")
    account, cuts = md.account(plan), np.linspace(-5.0, 5.0 + shift, 60)
    p, q = (
        np.diff(stats.norm.cdf(np.concatenate([[-np.inf], cuts - moved, [np.inf]]))).tolist()
        for moved in (shift, 0.0)
    )
    places, closest = list(range(61)), 0.0
    orders = [
        places,
        places[::-1],
        sorted(places, key=lambda k: abs(k - 30)),
        [*places[40:], *places[:40]],
    ]
    for order in orders:
        first, second = (best_of(plan.repetitions, masses, tuple(order)) for masses in (p, q))
        for e in (0.0, 0.1, 0.7, 2.0):
            worst = max(divergence(first, second, e), divergence(second, first, e))
            assert worst <= account.delta(e).upper * (1 + 1e-9) + 1e-13
            closest = max(closest, worst / account.delta(e).upper)
    assert closest > 0.05  # the bound is not idle


def test_few_runs_cost_what_one_costs_and_more_cost_more() -> None:
    alone = md.account(RUN).epsilon(1e-5)
    means = [1.001, 10.0, 100.0]
    found = [md.account(md.select_best(RUN, mean)).epsilon(1e-5) for mean in means]
    assert all(one.lower == pytest.approx(alone.lower, rel=2e-3) for one in found)
    uppers = [one.upper for one in found]
    assert uppers == sorted(uppers)
    assert alone.lower <= uppers[0] <= alone.upper * 1.01
    assert found[0].attained_by == "one run"


@pytest.mark.parametrize(("mean", "law"), LAWS)
def test_drawn_numbers_of_runs_have_the_law_that_is_charged(mean: float, law: str | float) -> None:
    runs, rng = runs_of(mean, law), np.random.default_rng(5)
    drawn = np.array([runs.draw(rng) for _ in range(4000)])
    first = 0 if law == "poisson" else 1
    k = np.arange(first, 200_000)
    if law == "poisson":
        logs = k * math.log(mean) - gammaln(k + 1)
    else:
        eta = runs.eta
        assert eta == {"logarithmic": 0.0, "geometric": 1.0}.get(str(law), law)
        logs = k * math.log1p(-runs.gamma) + gammaln(k + eta) - gammaln(k + 1)
    chances = np.exp(logs - logs.max())
    chances /= chances.sum()
    assert float(chances @ k) == pytest.approx(mean, rel=1e-9)
    assert float(chances @ k) <= runs.largest_weight * (1 + 1e-12)
    assert p_value_of_numbers(drawn, first, chances) > 1e-4
    # A law with one run more than stated would not pass.
    assert p_value_of_numbers(drawn + 1, first, chances) < 1e-4


def test_plans_are_written_composed_calibrated_and_charged(tmp_path: Path) -> None:
    plan = md.sequence(
        md.select_best(QUICK, 4.0, law="geometric"), md.gaussian(noise_multiplier=9.0)
    )
    text = json.dumps(describe(plan))
    assert plan_from_description(json.loads(text)) == plan
    both, alone = (md.account(one).epsilon(1e-5).upper for one in (plan, plan.parts[0]))
    assert alone < both < alone + md.account(plan.parts[1]).epsilon(5e-6).upper + 0.1
    found = md.calibration.calibrate_plan(
        lambda noise: md.select_best(md.repeat(10, noise), 5.0), epsilon=2.0, delta=1e-5
    )
    assert 1.9 < found.epsilon.upper <= 2.0
    path = tmp_path / "runs.ledger"
    with md.Ledger.open(path, epsilon=8.0, delta=1e-5) as ledger:
        ledger.charge(md.select_best(QUICK, 4.0))
        with pytest.raises(md.BudgetExceeded):
            ledger.charge(md.repeat(50, md.select_best(QUICK, 4.0)))
    with md.Ledger.open(path) as ledger:
        assert [entry.plan for entry in ledger.entries()] == [md.select_best(QUICK, 4.0)]


def test_runs_that_hardly_ever_happen_do_not_make_others_cheaper() -> None:
    """No run at all is an outcome, too: Renyi divergences of what else is released stay."""
    other, orders = md.gaussian(noise_multiplier=1.0), [2.0, 8.0]
    rare = md.select_best(md.gaussian(noise_multiplier=5.0), 0.001, law="poisson")
    found = md.account(md.sequence(other, rare), relation="add_remove").renyi(orders)
    assert np.all(found.upper >= np.array(orders) / 2.0)


@pytest.mark.parametrize("relation", ["replace_one", "add_remove"])
def test_both_relations_and_groups(relation: str) -> None:
    plan = md.select_best(RUN, 10.0)
    one = md.account(plan, relation=relation).epsilon(1e-5)
    two = md.account(plan, relation=relation, group=2).epsilon(1e-5)
    assert 0 < one.lower < one.upper < two.upper


@pytest.mark.parametrize(
    "arguments", [(1.0,), (math.nan,), (0.0,), (math.inf,), ("many",), (True,)]
)
def test_bad_numbers_of_runs_are_refused(arguments: tuple[float]) -> None:
    with pytest.raises(md.InvalidParameter, match="repetitions"):
        md.select_best(RUN, *arguments)


def test_bad_laws_and_subsets_are_refused() -> None:
    for law in ("fixed", -1.0, math.nan, 101.0, 1e-95):
        with pytest.raises(md.InvalidParameter, match="law"):
            md.select_best(RUN, 5.0, law=law)
    with pytest.raises(md.NotCovered, match="best of several runs on a subset"):
        md.subsample(md.wor(100, 10), md.select_best(md.gaussian(shift=0.1), 5.0))


def test_the_command_answers_as_python_does(capsys: pytest.CaptureFixture[str]) -> None:
    run = runner(capsys)
    line = "account --scheme poisson -n 1000 --rate 0.02 --noise-multiplier 1.5 --steps 50"
    given_ = answer(run, f"{line} --delta 1e-5 --select-best 10 --select-law geometric")
    found = md.account(md.select_best(RUN, 10.0, law="geometric")).epsilon(1e-5)
    assert given_["epsilon"] == {"lower": found.lower, "upper": found.upper}
    assert given_["select_best"] == {"mean": 10.0, "law": "geometric"}
    for wrong in ("--select-best 1", "--select-law geometric", "--select-best 5 --method paper"):
        check_refused(run(*f"{line} --delta 1e-5 {wrong}".split()), "--select-best")
