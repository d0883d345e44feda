"""Noise for one Gaussian release: on the safe side of the exact root, and tight."""

from __future__ import annotations

from typing import Any

import mpmath as mp
import pytest

from mustdp import InvalidParameter, NotCovered, NumericalFailure
from mustdp.reproduction import analytic_sigma, classical_sigma


def exact_profile(epsilon: float, sigma: mp.mpf) -> mp.mpf:
    """Profile for sensitivity 1, literally, with working digits to spare."""
    with mp.workdps(120 + int(2 * mp.log10(1 + abs(epsilon) * sigma + 1 / sigma + sigma))):
        s, e = 1 / mp.mpf(sigma), mp.mpf(epsilon)
        upper = mp.erfc((e / s - s / 2) / mp.sqrt(2)) / 2
        return +(upper - mp.exp(e) * mp.erfc((e / s + s / 2) / mp.sqrt(2)) / 2)


POINTS = [
    (0.0, 0.5),
    (0.0, 1e-9),
    (0.0, 1e-300),
    (1e-300, 0.1),
    (1e-9, 1e-9),
    (1e-9, 1e-100),
    (0.05, 1e-5),
    (0.5, 1e-5),
    (1.0, 1e-12),
    (3.0, 1e-299),
    (10.0, 0.9),
    (600.0, 1e-5),
    (1e4, 1e-10),
]


@pytest.mark.parametrize(("epsilon", "delta"), POINTS)
def test_analytic_sigma_is_safe_and_within_1e_minus_10(epsilon: float, delta: float) -> None:
    sigma = mp.mpf(analytic_sigma(epsilon, delta, 1.0))
    assert exact_profile(epsilon, sigma) <= mp.mpf(delta)
    assert exact_profile(epsilon, sigma * (1 - mp.mpf("1e-10"))) > mp.mpf(delta)


@pytest.mark.parametrize("delta", [1 - 1e-15, 1 - 1e-9])
def test_analytic_sigma_stays_safe_where_delta_is_almost_one(delta: float) -> None:
    for epsilon in (0.0, 5.0, 1e6):
        sigma = mp.mpf(analytic_sigma(epsilon, delta, 1.0))
        assert exact_profile(epsilon, sigma) <= mp.mpf(delta)


def test_analytic_sigma_scales_with_the_sensitivity() -> None:
    one = analytic_sigma(0.7, 1e-6, 1.0)
    for sensitivity in (1e-6, 2.0, 1e9):
        scaled = analytic_sigma(0.7, 1e-6, sensitivity)
        assert scaled == pytest.approx(sensitivity * one, rel=1e-14)


def test_analytic_sigma_is_below_the_classical_one() -> None:
    for epsilon in (0.1, 0.5, 0.99):
        for delta in (1e-3, 1e-8):
            analytic = analytic_sigma(epsilon, delta, 1.0)
            assert analytic < classical_sigma(epsilon, delta, 1.0)


def test_the_classical_formula() -> None:
    exact = 2 * mp.sqrt(2 * mp.log(mp.mpf("1.25") / mp.mpf(1e-5))) / mp.mpf(0.3)
    assert classical_sigma(0.3, 1e-5, 2.0) == pytest.approx(float(exact), rel=1e-15)
    assert exact_profile(0.3, mp.mpf(classical_sigma(0.3, 1e-5, 1.0))) < 1e-5


@pytest.mark.parametrize("epsilon", [1.0, 1.5, 100.0])
def test_the_classical_formula_is_refused_beyond_its_proof(epsilon: float) -> None:
    with pytest.raises(NotCovered, match=rf"proved for epsilon < 1 only, got {epsilon}"):
        classical_sigma(epsilon, 1e-5, 1.0)
    assert classical_sigma(epsilon, 1e-5, 1.0, beyond_proof=True) > 0


BAD = [float("nan"), float("inf"), -float("inf"), -1.0, True, "1", None]


@pytest.mark.parametrize("function", [analytic_sigma, classical_sigma])
@pytest.mark.parametrize("value", BAD)
@pytest.mark.parametrize("argument", ["epsilon", "delta", "sensitivity"])
def test_bad_arguments_are_refused_by_name(function: Any, argument: str, value: Any) -> None:
    arguments = {"epsilon": 0.5, "delta": 1e-5, "sensitivity": 1.0, argument: value}
    with pytest.raises(InvalidParameter) as refusal:
        function(**arguments)
    assert f"{argument} must be a finite number" in str(refusal.value)
    assert repr(value) in str(refusal.value)


@pytest.mark.parametrize("function", [analytic_sigma, classical_sigma])
@pytest.mark.parametrize("delta", [0.0, 1.0, 1e-310])
def test_deltas_that_cannot_be_met_accurately_are_refused(function: Any, delta: float) -> None:
    with pytest.raises(InvalidParameter, match="delta must be a finite number"):
        function(0.5, delta, 1.0)


def test_a_sigma_out_of_range_is_a_failure_and_no_number() -> None:
    for function in (analytic_sigma, classical_sigma):
        with pytest.raises(NumericalFailure, match="out of the range"):
            function(1e-9, 1e-9, 1e308)
    with pytest.raises(NumericalFailure, match="out of the range"):
        analytic_sigma(600.0, 0.5, 1e-308)
    with pytest.raises(NumericalFailure, match="no shift reaches"):
        analytic_sigma(1e305, 0.5, 1.0)
