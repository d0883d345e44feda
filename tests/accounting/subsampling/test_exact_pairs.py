"""Attained values and exact bounds against mpmath, from ordinary to absurd parameters."""

from __future__ import annotations

import math
from typing import Any

import mpmath as mp
import numpy as np
import pytest
from scipy import optimize
from scipy.special import ndtr

from mustdp import gaussian, laplace, must_ow, one_step, poisson, wor, wr
from mustdp.accounting.subsampling import one_step as certificates
from mustdp.accounting.subsampling.one_step import (
    replaced_records,
    upper_bound,
)
from mustdp.mechanisms.mechanism import GaussianNoise, LaplaceNoise, Noise
from mustdp.types import MultiplicityLaw, Scheme
from tests.accounting.subsampling import exact_pairs
from tests.accounting.subsampling.exact_pairs import binomial, flip
from tests.arrays import FloatArray

NOISES: list[Noise] = [GaussianNoise(), LaplaceNoise()]
MAKERS = {"gaussian": gaussian, "laplace": laplace}
EPSILONS = [0.0, 1e-3, 0.3, 1.0, 5.0, 300.0, 600.0]
SHIFTS = [1e-9, 1e-4, 0.01, 0.5, 2.0, 17.0, 30.0, 1e6]
#: Below this, doubles lose digits, and only the order of the bounds is asked for.
TINY = 1e-290


def fixed_size() -> dict[str, tuple[Scheme, list[mp.mpf]]]:
    with mp.workdps(60):
        return {
            "wr": (wr(7, 4), binomial(4, mp.mpf(1) / 7)),
            "wor": (wor(9, 4), [mp.mpf(5) / 9, mp.mpf(4) / 9]),
            "all": (wr(1, 2), [mp.mpf(0), mp.mpf(0), mp.mpf(1)]),
        }


def flips() -> dict[str, tuple[Scheme, list[mp.mpf]]]:
    with mp.workdps(60):
        return {
            "poisson": (poisson(9, 0.3), flip(0.3)),
            "poisson-rare": (poisson(9, 1e-12), flip(1e-12)),
            "poisson-all": (poisson(9, 1.0), [mp.mpf(0), mp.mpf(1)]),
        }


def check_lower(found: float, exact: mp.mpf, accuracy: float | None = None) -> None:
    assert mp.mpf(found) <= exact or exact < TINY
    if accuracy is not None and exact > TINY:
        assert mp.mpf(found) >= exact * (1 - accuracy)


def check_upper(found: float, exact: mp.mpf, accuracy: float | None = None) -> None:
    assert mp.mpf(found) >= exact or exact < TINY
    if accuracy is not None and exact > TINY:
        assert mp.mpf(found) <= exact * (1 + accuracy)


def accuracy_for(shift: float, exact: mp.mpf) -> float | None:
    """Bounds close up to 1e-6 unless the shift is so small that its logarithms lack digits."""
    return 1e-6 if shift >= 1e-4 and exact > 1e-30 else None


@pytest.mark.parametrize("noise", list(MAKERS))
@pytest.mark.parametrize("shift", SHIFTS)
@pytest.mark.parametrize("name", ["wr", "wor", "poisson", "poisson-rare"])
def test_add_remove_is_exact_in_both_directions(name: str, shift: float, noise: str) -> None:
    """Upper and lower bound enclose the divergence, remove and add each on its own."""
    scheme, law = (fixed_size() | flips())[name]
    mechanism, epsilon = MAKERS[noise](shift=shift), np.array(EPSILONS)
    lower = one_step(scheme, mechanism, epsilon, relation="add_remove").attained
    remove = upper_bound(scheme, mechanism, epsilon, relation="add_remove", direction="remove")
    add = upper_bound(scheme, mechanism, epsilon, relation="add_remove", direction="add")
    for k, e in enumerate(EPSILONS):
        exact = exact_pairs.aligned(noise, law, shift, e)
        check_upper(remove[k], exact, accuracy_for(shift, exact))
        check_lower(lower["aligned"][k], exact, accuracy_for(shift, exact))
        exact = exact_pairs.reversed_pair(noise, law, shift, e)
        check_upper(add[k], exact, accuracy_for(shift, exact))
        check_lower(lower["reversed"][k], exact, accuracy_for(shift, exact))


@pytest.mark.parametrize("noise", list(MAKERS))
@pytest.mark.parametrize("shift", SHIFTS)
@pytest.mark.parametrize("name", ["poisson", "poisson-rare", "poisson-all"])
def test_poisson_under_replace_one_is_the_symmetric_pair(
    name: str, shift: float, noise: str
) -> None:
    scheme, law = flips()[name]
    shift = max(shift, 2e-9)
    in_a_ball = MAKERS[noise](noise_multiplier=2 / shift)
    step = one_step(scheme, in_a_ball, EPSILONS, relation="replace_one")
    shift = step.shift or 0.0
    assert list(step.attained) == ["symmetric"]
    assert step.one_slope is None
    for k, e in enumerate(EPSILONS):
        exact = exact_pairs.symmetric(noise, law, shift, e)
        check_upper(step.upper[k], exact, accuracy_for(shift, exact))
        # A rate of 1e-12 leaves the lower bound fewer digits, and none at a tiny shift.
        close = accuracy_for(shift, exact) and (shift >= 0.01 or name != "poisson-rare")
        check_lower(step.lower[k], exact, 1e-5 if close else None)


@pytest.mark.parametrize("noise", list(MAKERS))
@pytest.mark.parametrize("shift", [1e-6, 0.5, 5.0])
@pytest.mark.parametrize(("rate", "group"), [(0.3, 2), (0.01, 3), (1.0, 2), (1e-9, 5), (0.9, 7)])
def test_groups_under_poisson_and_replace_one_are_the_symmetric_pair(
    rate: float, group: int, shift: float, noise: str
) -> None:
    """sum_j p_j N(j s/2) against its mirror image, p binomial: attained, and never exceeded."""
    in_a_ball = MAKERS[noise](noise_multiplier=2 / shift)
    step = one_step(poisson(50, rate), in_a_ball, EPSILONS, relation="replace_one", group=group)
    with mp.workdps(60):
        law = exact_pairs.binomial(group, mp.mpf(rate))
    for k, e in enumerate(EPSILONS):
        exact = exact_pairs.symmetric(noise, law, step.shift or 0.0, e)
        check_upper(step.upper[k], exact, accuracy_for(shift, exact) if shift > 0.1 else None)
        check_lower(step.lower[k], exact)


def test_a_large_group_is_coarsened_upwards() -> None:
    """More multiplicities than are kept apart: the bound grows, and grows little."""
    law = [mp.binomial(300, j) * mp.mpf(0.5) ** 300 for j in range(301)]
    noise = gaussian(noise_multiplier=60.0)
    step = one_step(poisson(400, 0.5), noise, [0.5, 6.0], relation="replace_one", group=300)
    for k, e in enumerate((0.5, 6.0)):
        exact = exact_pairs.symmetric("gaussian", law, step.shift or 0.0, e)
        assert exact <= mp.mpf(float(step.upper[k])) <= 1.2 * exact


@pytest.mark.parametrize("noise", list(MAKERS))
@pytest.mark.parametrize("shift", [1e-9, 0.5, 5.0, 17.0, 30.0])
@pytest.mark.parametrize("name", ["wr", "wor", "all"])
def test_attained_values_under_replace_one_are_attained(
    name: str, shift: float, noise: str
) -> None:
    """At eps = 300 and 600 the symmetric pair once came out at up to five times its value."""
    scheme, law = fixed_size()[name]
    step = one_step(scheme, MAKERS[noise](shift=shift), EPSILONS, relation="replace_one")
    for k, e in enumerate(EPSILONS):
        exact = exact_pairs.symmetric(noise, law, shift, e)
        check_lower(step.attained["symmetric"][k], exact)
        if e <= 5.0 and shift >= 0.5 and exact > 1e-12:
            check_lower(step.attained["symmetric"][k], exact, 1e-9)
        check_upper(step.upper[k], exact)
        check_upper(step.upper[k], exact_pairs.aligned(noise, law, shift, e))


def test_the_closed_form_of_poisson_with_gaussian_noise() -> None:
    """(1-q) N(0) + q N(1/z) against N(0), by its formula, for z = 4 and q = 0.01."""
    q, z = 0.01, 4.0
    epsilon = [0.0, 0.01, 0.05, 0.2]
    step = one_step(poisson(100, q), gaussian(noise_multiplier=z), epsilon)
    assert step.shift == 0.25
    with mp.workdps(40):
        for k, e in enumerate(epsilon):
            rate, s = mp.mpf(q), 1 / mp.mpf(z)
            base = mp.log1p(mp.expm1(mp.mpf(e)) / rate)
            ncdf = mp.ncdf
            exact = rate * (ncdf(s / 2 - base / s) - mp.exp(base) * ncdf(-s / 2 - base / s))
            assert mp.mpf(float(step.upper[k])) >= exact
            assert step.upper[k] == pytest.approx(float(exact), rel=1e-9)


def test_poisson_with_replaced_records_has_twice_the_shift() -> None:
    noise = gaussian(noise_multiplier=2.0)
    assert one_step(poisson(9, 0.3), noise, 0.1, relation="replace_one").shift == 1.0
    assert one_step(poisson(9, 0.3), noise, 0.1, relation="add_remove").shift == 0.5


def test_laplace_noise_stays_pure_under_poisson_sampling() -> None:
    """Beyond the largest ratio delta is exactly zero, however large epsilon is."""
    for rate in (1e-12, 0.3, 1.0):
        for relation in ("add_remove", "replace_one"):
            step = one_step(poisson(9, rate), laplace(shift=0.5), [0.5001, 20.0, 600.0],
                            relation=relation)  # fmt: skip
            assert step.upper.tolist() == [0.0, 0.0, 0.0]


@pytest.mark.parametrize("rate", [5e-324, 1e-310, 1e-200, 1.0 - 2**-53])
@pytest.mark.parametrize("relation", ["add_remove", "replace_one"])
@pytest.mark.parametrize("group", [1, 3])
def test_rates_at_the_ends_of_double_precision(rate: float, relation: str, group: int) -> None:
    for mechanism in (gaussian(shift=0.5), laplace(shift=0.5)):
        step = one_step(poisson(9, rate), mechanism, EPSILONS, relation=relation, group=group)
        assert np.all(np.isfinite(step.upper))
        assert np.all((step.lower <= step.upper) & (step.upper <= 1.0))
        assert np.all(step.upper <= group * rate * (1 + 1e-9) + 1e-300)


def test_a_rate_of_zero_costs_nothing() -> None:
    for relation in ("add_remove", "replace_one"):
        step = one_step(poisson(9, 0.0), gaussian(shift=3.0), EPSILONS, relation=relation)
        assert step.upper.tolist() == step.lower.tolist() == [0.0] * len(EPSILONS)
    law = poisson(9, 0.0).law()
    assert replaced_records(law, GaussianNoise(), 1.0, np.zeros(2)).tolist() == [0.0, 0.0]


@pytest.mark.parametrize("noise", [GaussianNoise(), LaplaceNoise()])
def test_products_of_huge_ratios_and_tiny_tails_do_not_overflow(noise: Any) -> None:
    """A component of weight 1e-51 whose ratio is e^718 where the tail is e^-722."""
    law = wr(1000, 100).law()
    epsilon = np.linspace(560.0, 600.0, 9)
    for j in (10.0, 17.0, 18.0, 20.0, 25.0):
        for distance in np.linspace(36.0, 40.0, 9) if noise.name == "gaussian" else [720.0, 730.0]:
            for name in ("aligned", "reversed_pair", "symmetric"):
                family = getattr(certificates, name)
                assert np.all(family(law, noise, distance / j, epsilon) < 1e-10)


def test_laws_with_gaps_are_fine() -> None:
    """MUSTow with b = 1 draws a record m times or never."""
    for mechanism in (gaussian(shift=0.1), laplace(shift=0.1)):
        narrow = one_step(must_ow(5, 1, 7), mechanism, [0.0, 0.1, 0.5])
        wide = one_step(wor(5, 1), type(mechanism)(shift=0.7), [0.0, 0.1, 0.5])
        assert narrow.upper == pytest.approx(wide.upper, rel=1e-9)
        assert narrow.lower == pytest.approx(wide.lower, rel=1e-9)


@pytest.mark.parametrize("noise", NOISES, ids=lambda noise: noise.name)
def test_mass_that_a_poisson_law_left_out_is_added(noise: Noise) -> None:
    whole = [mp.mpf("0.7"), mp.mpf("0.3")]
    rough = MultiplicityLaw(0, np.array([0.7, 0.2]), 0.1, 1e-16)
    epsilon = np.array([0.0, 0.5, 2.0])
    for value, e in zip(
        replaced_records(rough, noise, 12.0, epsilon), epsilon.tolist(), strict=True
    ):
        assert mp.mpf(float(value)) >= exact_pairs.symmetric(noise.name, whole, 12.0, e)


@pytest.mark.parametrize("rate", [0.01, 0.3, 0.5, 0.9])
@pytest.mark.parametrize("shift", [1e-9, 1e-7, 1e-5])
def test_replaced_records_at_tiny_shifts(shift: float, rate: float) -> None:
    """Logarithms of order one lack the digits that a shift of 1e-9 needs; room is left for it."""
    law = MultiplicityLaw(0, np.array([1.0 - rate, rate]), 0.0, 2.0**-53)
    with mp.workdps(60):
        exact_law = exact_pairs.flip(rate)
    epsilon = rate * shift * np.array([0.01, 0.1, 0.3, 0.7, 1.0, 2.0])
    for noise in NOISES:
        values = replaced_records(law, noise, shift, epsilon)
        for value, e in zip(values.tolist(), epsilon.tolist(), strict=True):
            exact = exact_pairs.symmetric(noise.name, exact_law, shift, e)
            assert mp.mpf(value) >= exact


def test_lower_bounds_leave_room_for_the_error_of_the_profiles() -> None:
    class Generous(GaussianNoise):
        def profile(self, distance: FloatArray, epsilon: FloatArray) -> FloatArray:
            return super().profile(distance, epsilon) * (1.0 + 9e-12)

    law = MultiplicityLaw(0, np.array([0.6, 0.3, 0.1]), 0.0, 1e-16)
    exact_law = [mp.mpf("0.6"), mp.mpf("0.3"), mp.mpf("0.1")]
    epsilon = np.array([0.0, 0.2, 1.0])
    for name in ("aligned", "reversed_pair", "symmetric"):
        values = getattr(certificates, name)(law, Generous(), 1.0, epsilon)
        for value, e in zip(values.tolist(), epsilon.tolist(), strict=True):
            assert mp.mpf(value) <= getattr(exact_pairs, name)("gaussian", exact_law, 1.0, e)


def test_leaving_a_one_out_of_a_count_costs_the_whole_shift() -> None:
    """A count of ones and zeros: with the record a one that is taken moves it by s, a zero not.

    The pair (1-q) N(0) + q N(s) against N(0) is attained, and half the shift would not cover it.
    """
    rate, shift, epsilon = 0.1, 1.0, 0.5
    found = one_step(poisson(100, rate), gaussian(shift=shift), epsilon, relation="replace_one")
    t = optimize.brentq(
        lambda x: math.log(1 - rate + rate * math.exp(shift * x - shift**2 / 2)) - epsilon, -9, 9
    )
    with_one = (1 - rate) * ndtr(-t) + rate * ndtr(shift - t)
    attained = with_one - math.exp(epsilon) * ndtr(-t)
    assert attained == pytest.approx(2.0325e-3, rel=1e-4)
    assert found.upper[0] >= attained * (1 - 1e-9)
    assert found.lower[0] == pytest.approx(attained, rel=1e-6)
    # Contributions in a ball, as a noise multiplier states them, are charged as before.
    in_a_ball = gaussian(noise_multiplier=2.0)
    ball = one_step(poisson(100, rate), in_a_ball, epsilon, relation="replace_one")
    assert ball.upper[0] == pytest.approx(4.802e-6, rel=1e-3)
