"""The paper's symmetric pair: our enclosure of it."""

from __future__ import annotations

import dataclasses
import json
import math
from dataclasses import replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import mpmath
import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import ndtr

import mustdp as md
from mustdp.accounting.subsampling.one_step import symmetric
from mustdp.mechanisms.mechanism import GaussianNoise
from mustdp.reproduction import paper_account
from mustdp.reproduction.paper_account import symmetric_above

FloatArray = NDArray[np.float64]

PUBLISHED: dict[str, dict[str, Any]] = json.loads(
    (Path(__file__).parents[1] / "golden" / "fourier_published.json").read_text(encoding="utf-8")
)
NOISE = GaussianNoise()
OW = md.must_ow(n=10_000, b=118, m=200)
WW = md.must_ww(n=10_000, b=118, m=200)
WR = md.wr(n=10_000, m=200)
SMALL = (md.wor(20, 5), md.wr(20, 10), md.must_ow(20, 8, 10), md.must_ww(20, 8, 10))


def steps(scheme: md.types.Scheme, z: float, count: int) -> md.types.Plan:
    return md.repeat(count, md.subsample(scheme, md.gaussian(noise_multiplier=z)))


def holds(interval: md.reproduction.Attained, value: float) -> bool:
    return interval.attained_lower <= value <= interval.attained_upper


@pytest.mark.parametrize("name", ["poisson", "wor"])
def test_published_values_of_the_fourier_accountant(name: str) -> None:
    case = PUBLISHED["fourier_accountant"]
    rate = case["rate"]
    scheme = md.poisson(10_000, rate) if name == "poisson" else md.wor(10_000, round(1e4 * rate))
    plan = steps(scheme, case["sigma"], case["steps"])
    found = md.reproduction.PaperAccount(plan, delta_width=1e-5).delta(case["epsilon"])
    printed = float(case[name])
    assert found.attained_upper - found.attained_lower <= 1.1e-6
    assert found.attained_lower < printed + 0.5e-6
    assert found.attained_upper > printed - 0.5e-6


def test_the_papers_example() -> None:
    account = md.reproduction.PaperAccount(steps(OW, 4.0, 1000))
    assert (account.relation, account.shift, account.steps) == ("replace_one", 0.5, 1000)
    found = account.delta(1.0)
    assert 1.50e-4 <= found.attained_lower <= found.attained_upper <= 1.54e-4
    assert found.attained_upper / found.attained_lower <= 1.01
    back = account.epsilon(found.attained_upper)
    assert back.attained_lower <= 1.0
    assert back.attained_upper - back.attained_lower <= 1e-3 * back.attained_upper


@pytest.mark.parametrize(("scheme", "value"), [(WW, 1.543e-4), (WR, 1.097e-4)])
def test_schemes_for_which_the_paper_reports_numerical_errors(
    scheme: md.types.Scheme, value: float
) -> None:
    found = md.reproduction.PaperAccount(steps(scheme, 4.0, 1000)).delta(1.0)
    assert holds(found, value)
    assert found.attained_upper / found.attained_lower <= 1.01


@pytest.mark.parametrize("scheme", SMALL, ids=lambda scheme: str(scheme.name))
def test_one_step_is_the_attained_value_of_one_step(scheme: md.types.Scheme) -> None:
    account = md.reproduction.PaperAccount(steps(scheme, 1.0, 1))
    for epsilon in (0.0, 0.3, 1.0, 4.0):
        once = float(symmetric(scheme.law(), NOISE, 2.0, np.array([epsilon]))[0])
        assert holds(account.delta(epsilon), once)


@pytest.mark.parametrize("scheme", SMALL, ids=lambda scheme: str(scheme.name))
def test_the_rounded_up_profile_is_above_and_close(scheme: md.types.Scheme) -> None:
    with mpmath.workdps(60):
        p = [mpmath.mpf(float(x)) for x in scheme.multiplicity()]
        for epsilon in (0.0, 0.5, 3.0, 30.0):
            t = mpmath.findroot(partial(excess, p, epsilon), (0, 100), solver="anderson")
            tails = [(mpmath.ncdf(j - t), mpmath.ncdf(-j - t)) for j in range(len(p))]
            exact = sum(
                w * (a - mpmath.exp(epsilon) * b) for w, (a, b) in zip(p, tails, strict=True)
            )
            above = symmetric_above(scheme.law(), NOISE, 2.0, np.array([epsilon]))[0]
            assert exact <= above <= exact * (1 + 1e-9)


def excess(p: list[Any], epsilon: float, t: Any) -> Any:
    """Loss minus epsilon at the outcome t, for sigma = 1."""
    high = mpmath.fsum(w * mpmath.exp(j * t - j * j / 2) for j, w in enumerate(p))
    low = mpmath.fsum(w * mpmath.exp(-j * t - j * j / 2) for j, w in enumerate(p))
    return mpmath.log(high) - mpmath.log(low) - epsilon


def two_steps(p: FloatArray, q: FloatArray, sign: float, z: float, epsilon: float) -> float:
    """Delta of two steps of sum p_j N(j, z^2) against sum q_j N(sign j, z^2), by quadrature.

    Given the first outcome x, the second step must beat e^(epsilon - loss(x)): a one-step profile.
    """
    j, k = np.arange(p.size), sign * np.arange(q.size)

    def loss(x: float) -> float:
        high = np.log(p @ np.exp(j * x / z**2 - j**2 / (2 * z**2)))
        return float(high - np.log(q @ np.exp(k * x / z**2 - k**2 / (2 * z**2))))

    def profile(e: float) -> float:
        if e < loss(-40.0):
            return float(-np.expm1(e))
        t = brentq(lambda x: loss(x) - e, -40.0, 40.0, xtol=1e-12)
        return float(p @ ndtr((j - t) / z) - math.exp(e) * (q @ ndtr((k - t) / z)))

    x, width = np.linspace(-12.0, 24.0, 1201, retstep=True)
    density = np.exp(-((x[:, None] - j) ** 2) / (2 * z**2)) @ p / (z * math.sqrt(2 * math.pi))
    values = [profile(epsilon - loss(float(outcome))) for outcome in x]
    return float(width * (density @ np.array(values)))


@pytest.mark.parametrize("epsilon", [0.0, 1.0])
@pytest.mark.parametrize("scheme", [md.wor(20, 5), md.must_ow(20, 4, 4), md.poisson(20, 0.3)])
def test_two_steps_against_quadrature(scheme: md.types.Scheme, epsilon: float) -> None:
    p = scheme.multiplicity()
    if scheme.name == "poisson":
        expected = two_steps(p, np.ones(1), 1.0, 1.5, epsilon)
    else:
        expected = two_steps(p, p, -1.0, 1.5, epsilon)
    found = md.reproduction.PaperAccount(steps(scheme, 1.5, 2), delta_width=1e-4).delta(epsilon)
    assert found.attained_lower * (1 - 1e-7) <= expected <= found.attained_upper * (1 + 1e-7)


def test_a_record_that_is_always_drawn_is_the_gaussian_mechanism() -> None:
    scheme = md.poisson(50, 1.0)
    plan = md.sequence(steps(scheme, 10.0, 8), steps(scheme, 5.0, 3))
    account = md.reproduction.PaperAccount(plan)
    assert (account.relation, account.shift, account.steps) == ("add_remove", None, 11)
    whole = md.gaussian(shift=math.sqrt(8 / 10**2 + 3 / 5**2))
    for epsilon in (0.0, 0.5, 2.0):
        assert holds(account.delta(epsilon), float(whole.delta(epsilon)[0]))


def test_a_record_that_is_never_drawn_loses_nothing() -> None:
    account = md.reproduction.PaperAccount(steps(md.poisson(50, 0.0), 1.0, 10))
    assert account.delta(0.0) == md.reproduction.Attained(0.0, 0.0)
    assert account.epsilon(1e-6) == md.reproduction.Attained(0.0, 0.0)


def test_the_order_of_steps_does_not_matter() -> None:
    first, second = steps(OW, 4.0, 100), steps(WR, 3.0, 50)
    one, other = (
        md.reproduction.PaperAccount(md.sequence(first, second)),
        md.reproduction.PaperAccount(md.sequence(second, first)),
    )
    assert one.delta(0.3) == other.delta(0.3)
    split = md.reproduction.PaperAccount(
        md.sequence(steps(OW, 4.0, 40), second, steps(OW, 4.0, 60))
    )
    assert split.delta(0.3) == one.delta(0.3)


def test_delta_falls_with_epsilon_down_to_tiny_values() -> None:
    account = md.reproduction.PaperAccount(steps(OW, 4.0, 100))
    found = [account.delta(epsilon) for epsilon in (0.0, 0.5, 1.0, 2.0, 3.0)]
    assert all(b.attained_upper < a.attained_lower for a, b in pairwise(found))
    assert found[-1].attained_upper < 1e-11
    assert all(d.attained_upper / d.attained_lower <= 1.01 for d in found)


def test_a_law_with_gaps() -> None:
    found = md.reproduction.PaperAccount(steps(md.must_ow(1000, 2, 400), 100.0, 10)).delta(0.1)
    assert 0.0 < found.attained_lower <= found.attained_upper <= 1.01 * found.attained_lower


def test_results_say_what_they_are() -> None:
    found = md.reproduction.PaperAccount(steps(OW, 4.0, 10)).delta(0.1)
    assert "attained by one pair of data sets, not a guarantee" in repr(found)
    with pytest.raises(dataclasses.FrozenInstanceError):
        found.attained_upper = 0.0  # type: ignore[misc]


@pytest.mark.parametrize(
    "plan",
    [
        md.gaussian(noise_multiplier=1.0),
        md.subsample(WR, md.laplace(noise_multiplier=1.0)),
        md.subsample(
            md.wor(100, 10), md.repeat(2, md.subsample(md.wr(10, 5), md.gaussian(shift=1.0)))
        ),
        md.sequence(steps(WR, 1.0, 1), steps(md.poisson(100, 0.1), 1.0, 1)),
        md.sequence(steps(WR, 1.0, 1), md.gaussian(noise_multiplier=1.0)),
    ],
    ids=["plain", "laplace", "reused", "mixed", "partly plain"],
)
def test_what_the_paper_does_not_cover_is_refused(plan: md.types.Plan) -> None:
    with pytest.raises(md.NotCovered, match="the paper's composition"):
        md.reproduction.PaperAccount(plan)


@pytest.mark.parametrize("bad", [math.nan, -1e-9, math.inf, 501.0, "1", True])
def test_bad_epsilon_is_refused(bad: Any) -> None:
    with pytest.raises(md.InvalidParameter, match="epsilon"):
        md.reproduction.PaperAccount(steps(WR, 1.0, 1)).delta(bad)


@pytest.mark.parametrize("bad", [math.nan, 0.0, 1.0, 1e-26, "1e-5", None])
def test_bad_delta_is_refused(bad: Any) -> None:
    with pytest.raises(md.InvalidParameter, match="delta"):
        md.reproduction.PaperAccount(steps(WR, 1.0, 1)).epsilon(bad)


def test_accuracy_out_of_reach_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(md.InvalidParameter, match="delta_width"):
        md.reproduction.PaperAccount(steps(WR, 1.0, 1), delta_width=1e-9)
    monkeypatch.setattr(paper_account, "_FRACTIONS", replace(paper_account._FRACTIONS, finest=0.05))
    with pytest.raises(md.NumericalFailure, match="could not be narrowed"):
        md.reproduction.PaperAccount(steps(WR, 4.0, 1000), delta_width=1e-5).delta(1.0)
