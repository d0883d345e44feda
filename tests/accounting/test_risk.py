"""What an attacker can achieve: against closed forms, attacks on paper, and its own bounds."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.special import ndtr, ndtri

import mustdp as md
from mustdp import InvalidParameter
from mustdp.types import Risk
from tests.arrays import FloatArray
from tests.seams import closest_tprs, percent, percent_stated

RATES = [0.0, 1e-6, 1e-3, 0.01, 0.1, 0.5, 0.99, 1.0]
CASES = [(0.1, 100), (0.5, 2), (2.0, 1), (0.02, 900)]


def gaussian_risk(shift: float, steps: int, fpr: list[float]) -> Risk:
    plan = md.repeat(steps, md.gaussian(shift=shift))
    return md.account(plan, relation="replace_one").risk(fpr)


@pytest.mark.parametrize(("shift", "steps"), CASES)
def test_gaussian_noise(shift: float, steps: int) -> None:
    """Power Phi(mu - Phi^-1(1 - fpr)) and advantage 2 Phi(mu/2) - 1, bracketed and closely."""
    mu = shift * math.sqrt(steps)
    found = gaussian_risk(shift, steps, RATES)
    exact = ndtr(mu - ndtri(1.0 - np.array(RATES)))
    for one, truth in zip(found.tpr, exact, strict=True):
        assert one.lower <= truth + 1e-12
        assert truth <= one.upper
        assert one.upper - one.lower <= 0.01
    advantage = 2.0 * ndtr(mu / 2.0) - 1.0
    assert found.advantage.lower <= advantage + 1e-12
    assert advantage <= found.advantage.upper <= advantage * 1.01
    assert found.accuracy.lower <= (1 + advantage) / 2 <= found.accuracy.upper


@pytest.mark.parametrize("relation", ["replace_one", "add_remove"])
def test_no_real_attack_beats_the_certificate(relation: str) -> None:
    """One draw without replacement, the aligned pair, every threshold from both sides."""
    shift, rate = 3.0, 0.25
    plan = md.subsample(md.wor(4, 1), md.gaussian(shift=shift))
    found = md.account(plan, relation=relation).risk([0.01, 0.1])
    t = np.linspace(-6.0, 9.0, 4001)
    without, holding = ndtr(-t), (1 - rate) * ndtr(-t) + rate * ndtr(shift - t)
    for fpr, one in zip(found.fpr, found.tpr, strict=True):
        ahead = float(np.interp(fpr, without[::-1], holding[::-1]))
        behind = float(np.interp(fpr, 1 - holding, 1 - without))
        assert one.upper >= max(ahead, behind) - 1e-6
        assert one.lower >= max(ahead, behind) - 0.02
    gain = float(np.max(holding - without))
    assert found.advantage.upper >= gain >= found.advantage.lower - 1e-6


@pytest.mark.parametrize("scheme", [md.poisson(200, 0.1), md.wor(200, 20), md.must_ow(60, 20, 8)])
def test_bounds_keep_their_order(scheme: md.types.Scheme) -> None:
    plan = md.repeat(10, md.subsample(scheme, md.gaussian(noise_multiplier=3.0)))
    account = md.account(plan)
    found = account.risk(RATES)
    last = 0.0
    for fpr, one in zip(found.fpr, found.tpr, strict=True):
        assert fpr <= one.lower <= one.upper <= 1.0
        assert one.upper <= fpr + found.advantage.upper + 1e-12
        assert one.upper >= last - 1e-12
        last = one.upper
        for epsilon in (0.0, 0.5, 2.0):
            delta = account.delta(epsilon)
            assert one.upper <= delta.upper + math.exp(epsilon) * fpr + 2e-3
        # An attacker who accuses wherever a test for this delta does finds as much.
        assert one.lower <= min(1.0, account.delta(0.0).upper + fpr) + 1e-12
    assert found.advantage == account.delta(0.0)
    assert found.relation == account.relation


def test_a_certificate_that_is_too_small_would_be_seen() -> None:
    """The bound falls with the profile it is read off: nine tenths of it is caught."""
    mu, fpr = 1.3, 0.01
    exact = float(ndtr(mu - ndtri(1.0 - fpr)))
    noise = md.gaussian(shift=mu)

    def profile(share: float) -> float:
        def values(epsilon: FloatArray) -> FloatArray:
            return share * noise.delta(epsilon)

        return float(closest_tprs([fpr], values)[0])

    assert exact <= profile(1.0) <= exact * 1.001
    assert profile(0.9) < exact


def test_suspicion_is_bayes_rule() -> None:
    found = gaussian_risk(0.5, 2, [0.0, 0.01, 1.0])
    for prior in (0.0, 0.01, 0.5, 1.0):
        never, some, always = found.becomes(prior)
        tpr = found.tpr[1].upper
        assert some.upper == pytest.approx(
            prior * tpr / (prior * tpr + (1 - prior) * 0.01), abs=1e-12
        )
        assert some.lower <= some.upper
        # Accusing everybody teaches nothing; an accusation that is never false proves all.
        assert always.upper == pytest.approx(prior, abs=1e-12)
        assert never.upper == (1.0 if prior > 0 else pytest.approx(0.0, abs=1e-12))


def test_words_carry_the_certified_numbers_rounded_up() -> None:
    found = gaussian_risk(0.1, 100, [0.001, 0.01, 0.1])
    first, second = found.sentences()
    assert percent(found.accuracy.upper, "up") in first
    assert "50 %" in first
    assert percent(found.tpr[1].upper, "up") in second
    for prior in (0.5, 0.01):
        assert (
            f"{percent_stated(prior)} to at most {percent(found.becomes(prior)[1].upper, 'up')}"
            in (second)
        )
    assert str(found).startswith(first)
    assert "which of two given records" in first
    poisson = md.account(md.subsample(md.poisson(100, 0.1), md.gaussian(noise_multiplier=1.0)))
    assert "whether one given record" in poisson.risk().sentences()[0]


def test_everything_is_revealed_without_noise() -> None:
    found = md.account(md.gaussian(shift=80.0), relation="replace_one").risk()
    assert found.advantage.upper == pytest.approx(1.0)
    assert all(one.upper <= 1.0 for one in found.tpr)
    assert "at most 100 %" in found.sentences()[0]


@pytest.mark.parametrize("fpr", [[-0.1], [1.1], [float("nan")], [], ["a"]])
def test_rates_that_are_none(fpr: list[float]) -> None:
    with pytest.raises(InvalidParameter, match="fpr"):
        md.account(md.gaussian(shift=1.0), relation="replace_one").risk(fpr)
