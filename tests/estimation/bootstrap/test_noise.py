"""The noise is settled before data are touched, and certified."""

from __future__ import annotations

import math

import pytest

import mustdp as md
from mustdp.errors import InvalidParameter
from mustdp.types import Design
from tests.seams import design_with_noise

NAN, INF = math.nan, math.inf


def test_a_total_is_met_by_the_plan_that_is_drawn() -> None:
    design = Design(md.must_ow(1000, 100, 50), 5, 4)
    privacy = design_with_noise(design, epsilon=2.0, delta=1e-4).spent()
    assert 1.9 < privacy.epsilon.upper <= 2.0
    noise = md.gaussian(noise_multiplier=privacy.noise_multiplier)
    assert privacy.plan == design.plan(noise)
    # The same noise on fresh first stages would cost less; charging that would be wrong.
    fresh = md.account(Design(design.scheme, 20).plan(noise)).epsilon(1e-4)
    assert fresh.upper < privacy.epsilon.lower
    assert privacy.as_dict()["epsilon"]["upper"] == privacy.epsilon.upper


def test_noise_in_bounds_out() -> None:
    design = Design(md.wor(1000, 50), 20)
    privacy = design_with_noise(design, noise_multiplier=3.0, delta=1e-4).spent()
    expected = md.account(design.plan(md.gaussian(noise_multiplier=3.0))).epsilon(1e-4)
    assert privacy.epsilon == expected
    assert privacy.relation == "replace_one"


@pytest.mark.parametrize("way", ["noise_multiplier", "epsilon"])
def test_delta_has_no_default_and_one_is_recommended(way: str) -> None:
    with pytest.raises(InvalidParameter, match=r"delta must be given.*n = 1000, 0\.0001 or less"):
        design_with_noise(Design(md.wor(1000, 50), 20), **{way: 1.0})


def test_what_cannot_be_certified_is_infinite_and_never_a_number() -> None:
    privacy = design_with_noise(
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
        ({"epsilon": 1.0, "relation": "both"}, "relation must"),
    ],
)
def test_bad_budgets(given: dict[str, float], named: str) -> None:
    with pytest.raises(InvalidParameter, match=named):
        design_with_noise(Design(md.wor(100, 10), 5), **{"delta": 1e-3, **given})
