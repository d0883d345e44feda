"""The paper's amplification: eps', delta', the inverse, the kinds, and what equals what."""

from __future__ import annotations

import json
from typing import Any

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mustdp import (
    InvalidParameter,
    amplify,
    custom,
    gaussian,
    laplace,
    must_oo,
    must_ow,
    must_wo,
    must_ww,
    one_step,
    poisson,
    wor,
    wr,
)
from mustdp.accounting.subsampling.one_slope import amplified_delta, kind_of, one_slope_bound
from mustdp.mechanisms.mechanism import GaussianNoise, NoiseProfiles
from mustdp.reproduction import amplified_epsilon, base_epsilon
from mustdp.sampling.schemes import stage_law
from mustdp.types import MultiplicityLaw, Stage

etas = st.one_of(st.floats(1e-12, 1.0), st.sampled_from([1.0, 0.5, 1e-300]))
epsilons = st.one_of(st.floats(0.0, 5.0), st.floats(0.0, 1e4), st.sampled_from([0.0, 1e-12, 1.0]))


@given(epsilons, etas)
def test_amplified_epsilon_matches_mpmath(epsilon: float, eta: float) -> None:
    with mp.workdps(60):
        exact = mp.log1p(mp.mpf(eta) * mp.expm1(mp.mpf(epsilon)))
    found = float(amplified_epsilon(epsilon, eta)[0])
    assert found == pytest.approx(float(exact), rel=1e-13, abs=1e-13 * max(1.0, epsilon))


@given(epsilons, etas)
def test_base_epsilon_matches_mpmath_and_inverts(epsilon: float, eta: float) -> None:
    with mp.workdps(400):
        exact = mp.log1p(mp.expm1(mp.mpf(epsilon)) / mp.mpf(eta))
    base = base_epsilon(epsilon, eta)
    assert float(base[0]) == pytest.approx(float(exact), rel=1e-13, abs=1e-300)
    assert base[0] >= epsilon
    back = float(amplified_epsilon(base, eta)[0])
    assert back == pytest.approx(epsilon, rel=1e-11, abs=1e-12 * max(1.0, base[0]))


def test_the_ends() -> None:
    assert amplified_epsilon([0.0, 0.7, 1e5], 1.0).tolist() == pytest.approx([0.0, 0.7, 1e5])
    assert base_epsilon([0.0, 0.7, 1e5], 1.0).tolist() == pytest.approx([0.0, 0.7, 1e5])
    assert amplified_epsilon([0.0, 1.0, 1e5], 0.0).tolist() == [0.0, 0.0, 0.0]
    # A rate below the smallest normal number: the quotient overflows, its logarithm does not.
    assert base_epsilon(1.0, 1e-310)[0] == pytest.approx(np.log(np.expm1(1.0)) + 713.799, rel=1e-5)


@pytest.mark.parametrize("value", [-1.0, float("nan"), float("inf"), "1", [], True, None])
def test_bad_epsilons_are_refused(value: Any) -> None:
    for function in (amplified_epsilon, base_epsilon):
        with pytest.raises(InvalidParameter, match="epsilon"):
            function(value, 0.5)
    with pytest.raises(InvalidParameter, match="epsilon"):
        amplify(wor(10, 5), gaussian(shift=1.0), value)


@pytest.mark.parametrize("eta", [-0.1, 1.1, float("nan"), "1", True, None])
def test_bad_etas_are_refused(eta: Any) -> None:
    with pytest.raises(InvalidParameter, match="eta must be a finite number"):
        amplified_epsilon(1.0, eta)
    with pytest.raises(InvalidParameter, match="eta must be a finite number"):
        base_epsilon(1.0, eta)
    with pytest.raises(InvalidParameter, match="eta must be a finite number > 0"):
        base_epsilon(1.0, 0.0)


def test_the_four_kinds() -> None:
    assert kind_of(1.0, 0.1, 0.5, 0.05) == "strong"
    assert kind_of(1.0, 0.1, 0.5, 0.2) == "weak-1"
    assert kind_of(1.0, 0.1, 1.5, 0.05) == "weak-2"
    assert kind_of(1.0, 0.1, 1.5, 0.2) == "dilution"
    assert kind_of(1.0, 0.1, 1.0, 0.1) == "strong"


def exact_rows(n: int, b: int, m: int, shift: float, epsilon: float) -> tuple[mp.mpf, mp.mpf]:
    """eps' and delta' of MUSTow with Laplace noise, from the formulas."""
    with mp.workdps(50):
        law = [
            mp.mpf(b) / n * mp.binomial(m, j) * mp.mpf(b - 1) ** (m - j) / mp.mpf(b) ** m
            for j in range(1, m + 1)
        ]
        prime = mp.log1p(mp.fsum(law) * mp.expm1(epsilon))
        deltas = [
            max(mp.mpf(0), -mp.expm1((mp.mpf(epsilon) - j * mp.mpf(shift)) / 2))
            for j in range(1, m + 1)
        ]
        return prime, mp.fsum(p * d for p, d in zip(law, deltas, strict=True))


def test_rows_follow_the_theorem() -> None:
    result = amplify(must_ow(1000, 500, 400), laplace(shift=0.25), [0.05, 0.5, 2.0])
    assert len(result) == 3
    assert result.relation == "replace_one"
    assert result.shift == 0.25
    for row, epsilon in zip(result, [0.05, 0.5, 2.0], strict=True):
        prime, delta = exact_rows(1000, 500, 400, 0.25, epsilon)
        assert row.epsilon == epsilon
        assert row.delta == laplace(shift=0.25).delta(epsilon)[0]
        assert row.epsilon_prime == pytest.approx(float(prime), rel=1e-12)
        assert row.delta_prime == pytest.approx(float(delta), rel=1e-11)
        assert row.eta == result.eta
        assert row.ratio == pytest.approx(row.epsilon_prime / epsilon, rel=1e-14)
        assert row.difference == pytest.approx(row.delta_prime - row.delta, abs=1e-16)
        assert row.kind == kind_of(epsilon, row.delta, row.epsilon_prime, row.delta_prime)
        assert row["kind"] == row.as_dict()["kind"]
    assert result.column("epsilon").tolist() == [0.05, 0.5, 2.0]
    assert result[:2] == result.rows[:2]
    json.dumps([row.as_dict() for row in result])


def test_at_zero_the_ratio_is_its_limit_eta() -> None:
    row = amplify(wor(10, 3), gaussian(shift=1.0), 0.0)[0]
    assert row.epsilon_prime == 0.0
    assert row.ratio == 0.3


def test_amplify_uses_the_relation_and_shift_of_the_field() -> None:
    noise = gaussian(noise_multiplier=2.0)
    assert amplify(poisson(10, 0.3), noise, 1.0).relation == "add_remove"
    assert amplify(poisson(10, 0.3), noise, 1.0).shift == 0.5
    assert amplify(wor(10, 3), noise, 1.0).shift == 1.0
    assert amplify(wor(10, 3), custom(lambda e: np.exp(-e) / 2), 1.0).shift is None


@settings(deadline=None, max_examples=40)
@given(n=st.integers(2, 400), data=st.data())
def test_etas_are_ordered_and_equal_schemes_agree_exactly(n: int, data: Any) -> None:
    b = data.draw(st.integers(1, n))
    m = data.draw(st.integers(1, b))
    eta_ow, eta_wr, eta_wor = must_ow(n, b, m).eta, wr(n, m).eta, wor(n, m).eta
    assert eta_ow <= eta_wr * (1 + 1e-14)
    assert eta_wr <= eta_wor * (1 + 1e-14)
    assert must_wo(n, b, m).eta == eta_wr
    assert must_oo(n, b, m).eta == eta_wor
    assert must_ow(n, n, m).eta == eta_wr
    if m > 1 and b < n:
        assert eta_ow < eta_wr < eta_wor


@pytest.mark.parametrize("mechanism", [gaussian(shift=0.6), laplace(noise_multiplier=3.0)])
@pytest.mark.parametrize(
    ("left", "right"),
    [
        (must_wo(30, 20, 10), wr(30, 10)),
        (must_oo(30, 20, 10), wor(30, 10)),
        (must_ow(30, 30, 10), wr(30, 10)),
        (must_ow(30, 10, 1), must_ow(30, 10, 1)),
    ],
)
def test_schemes_with_equal_laws_give_equal_numbers(left: Any, right: Any, mechanism: Any) -> None:
    """Exactly equal, not approximately: they are the same draw."""
    epsilon = [0.0, 0.1, 1.0, 30.0]
    for mine, other in zip(
        amplify(left, mechanism, epsilon), amplify(right, mechanism, epsilon), strict=True
    ):
        assert mine == other
    for relation in ("replace_one", "add_remove"):
        first, second = (one_step(s, mechanism, epsilon, relation=relation) for s in (left, right))
        assert first.upper.tolist() == second.upper.tolist()
        assert first.lower.tolist() == second.lower.tolist()


def test_the_bound_is_no_smaller_than_its_own_exact_value() -> None:
    """Rounded up: never below the formula evaluated with 50 digits."""
    epsilon = np.array([0.01, 0.2, 1.0, 3.0])
    for n, m, shift in ((5, 3, 0.4), (50, 20, 0.05), (3, 6, 2.0)):
        law = wr(n, m).law()
        found = one_slope_bound(law, laplace(shift=shift).profiles(shift), epsilon)
        with mp.workdps(50):
            exact_law = [
                mp.binomial(m, j) * mp.mpf(n - 1) ** (m - j) / mp.mpf(n) ** m for j in range(m + 1)
            ]
            for value, prime in zip(found, epsilon, strict=True):
                base = mp.log1p(mp.expm1(mp.mpf(float(prime))) / (1 - exact_law[0]))
                exact = mp.fsum(
                    p * max(mp.mpf(0), -mp.expm1((base - j * mp.mpf(shift)) / 2))
                    for j, p in enumerate(exact_law)
                    if j
                )
                assert mp.mpf(float(value)) >= exact
                assert float(value) == pytest.approx(float(exact), rel=1e-9, abs=1e-11)


def test_the_mass_a_law_left_out_is_added() -> None:
    law = stage_law(Stage("wr", 50), 5, 1, 1e-3)
    assert 1e-6 < law.cut < 1e-3
    profiles = laplace(shift=1e-6).profiles(1e-6)
    epsilon = np.array([5.0])
    assert amplified_delta(law, profiles, epsilon)[0] == law.cut
    assert one_slope_bound(law, profiles, epsilon)[0] >= law.cut


def test_a_record_that_is_never_drawn_costs_nothing() -> None:
    for mechanism in (gaussian(shift=1.0), laplace(shift=1.0)):
        row = amplify(poisson(5, 0.0), mechanism, 0.5)[0]
        assert (row.epsilon_prime, row.delta_prime, row.kind) == (0.0, 0.0, "strong")


def test_mustww_is_weaker_than_wr_but_its_delta_counts_more_copies() -> None:
    ww, plain = must_ww(100, 50, 50), wr(100, 50)
    assert ww.eta < plain.eta
    noise = gaussian(shift=0.5)
    assert amplify(ww, noise, 1.0)[0].epsilon_prime < amplify(plain, noise, 1.0)[0].epsilon_prime
    assert amplify(ww, noise, 3.0)[0].delta_prime > amplify(plain, noise, 3.0)[0].delta_prime


def test_the_papers_bound_leaves_room_for_the_error_of_the_law() -> None:
    """A law whose chance of a draw is a thousandth too small still covers the true one."""
    true = MultiplicityLaw(0, np.array([0.5, 0.5]), 0.0, 0.0)
    rough = MultiplicityLaw(0, np.array([0.5, 0.5 / 1.001]), 0.0, 1e-3)
    family, epsilon = NoiseProfiles(GaussianNoise(), 1.0), np.array([0.0, 0.3, 1.0])
    assert np.all(one_slope_bound(rough, family, epsilon) >= one_slope_bound(true, family, epsilon))
