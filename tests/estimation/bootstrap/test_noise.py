"""The noise is settled before data are touched, certified, and the paper's is labelled."""

from __future__ import annotations

import math

import pytest

import mustdp as md
from mustdp.errors import InvalidParameter
from mustdp.estimation.bootstrap import PAPER, paper_statement, settle_design
from mustdp.estimation.designs import Design

NAN, INF = math.nan, math.inf


def test_a_total_is_met_by_the_plan_that_is_drawn() -> None:
    design = Design(md.must_ow(1000, 100, 50), 5, 4)
    privacy = settle_design(design, epsilon=2.0, delta=1e-4).spent()
    assert 1.9 < privacy.epsilon.upper <= 2.0
    noise = md.gaussian(noise_multiplier=privacy.noise_multiplier)
    assert privacy.plan == design.plan(noise)
    # The same noise on fresh first stages would cost less; charging that would be wrong.
    fresh = md.account(Design(design.scheme, 20).plan(noise)).epsilon(1e-4)
    assert fresh.upper < privacy.epsilon.lower
    assert privacy.as_dict()["epsilon"]["upper"] == privacy.epsilon.upper


def test_noise_in_bounds_out() -> None:
    design = Design(md.wor(1000, 50), 20)
    privacy = settle_design(design, noise_multiplier=3.0, delta=1e-4).spent()
    expected = md.account(design.plan(md.gaussian(noise_multiplier=3.0))).epsilon(1e-4)
    assert privacy.epsilon == expected
    assert privacy.relation == "replace_one"


@pytest.mark.parametrize("way", ["noise_multiplier", "epsilon", "epsilon_prime"])
def test_delta_has_no_default_and_one_is_recommended(way: str) -> None:
    with pytest.raises(InvalidParameter, match=r"delta must be given.*n = 1000, 0\.0001 or less"):
        settle_design(Design(md.wor(1000, 50), 20), **{way: 1.0})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("scheme", "mean", "variance"),
    [  # Table 2 of the paper, as printed
        (md.wor(300, 30), 0.13, 1.02),
        (md.poisson(300, 0.1), 0.13, 1.02),
        (md.wr(300, 30), 0.12, 0.99),
        (md.must_ow(300, 10, 30), 0.06, 0.50),
        (md.must_ow(300, 50, 30), 0.11, 0.84),
        (md.must_ww(300, 100, 30), 0.11, 0.90),
    ],
    ids=lambda value: value.name if isinstance(value, md.types.Scheme) else str(value),
)
def test_the_papers_noise(scheme: md.types.Scheme, mean: float, variance: float) -> None:
    """sigma = z * reach: half of 8/30 for the mean on [-4, 4], half of 64/30 for the variance."""
    z = paper_statement(Design(scheme, 500), 0.1).multiplier(scheme, 1 / 300)
    assert z * 4 / 30 == pytest.approx(mean, abs=0.00501)
    assert z * 32 / 30 == pytest.approx(variance, abs=0.00501)


def test_the_papers_noise_is_no_guarantee_and_says_so() -> None:
    stated = {"queries": 2, "epsilon_prime": 0.1, "delta": 1 / 300}
    privacy = settle_design(Design(md.wor(300, 30), 500), **stated).spent()  # type: ignore[arg-type]
    assert privacy.source == PAPER
    assert "not a guarantee" in privacy.source
    assert privacy.epsilon.lower > 100  # 500 releases at epsilon' = 0.1 were promised 0.1 each
    design = Design(md.poisson(300, 0.1), 500)
    nothing = settle_design(design, **stated).spent()  # type: ignore[arg-type]
    assert nothing.plan is None
    assert math.isinf(nothing.epsilon.upper)
    assert not nothing.certified
    assert nothing.as_dict()["epsilon"] is None


def test_what_cannot_be_certified_is_infinite_and_never_a_number() -> None:
    privacy = settle_design(
        Design(md.wr(100, 100), 1000), noise_multiplier=1e-3, delta=1e-5
    ).spent()
    assert math.isinf(privacy.epsilon.upper)
    assert privacy.as_dict()["epsilon"]["upper"] is None


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({}, "exactly one of"),
        ({"epsilon": 1.0, "noise_multiplier": 1.0}, "epsilon and noise_multiplier"),
        ({"epsilon": 0.0}, "epsilon must"),
        ({"epsilon": -1.0}, "epsilon must"),
        ({"epsilon": NAN}, "epsilon must"),
        ({"epsilon": INF}, "epsilon must"),
        ({"epsilon": 1.0, "delta": 0.0}, "delta must"),
        ({"epsilon": 1.0, "delta": 1.0}, "delta must"),
        ({"epsilon": 1.0, "delta": NAN}, "delta must"),
        ({"noise_multiplier": 0.0}, "noise_multiplier must"),
        ({"noise_multiplier": NAN}, "noise_multiplier must"),
        ({"epsilon_prime": 0.0}, "epsilon_prime must"),
        ({"epsilon": 1.0, "relation": "both"}, "relation must"),
    ],
)
def test_bad_budgets(given: dict[str, float], named: str) -> None:
    with pytest.raises(InvalidParameter, match=named):
        settle_design(Design(md.wor(100, 10), 5), **{"delta": 1e-3, **given})  # type: ignore[arg-type]
