"""The mixed-slope certificate: feasible in exact arithmetic, optimal, and never short of mass."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mpmath as mp
import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import ndtr

from mustdp import NumericalFailure, gaussian, laplace, wr
from mustdp.accounting.subsampling import one_step as certificates
from mustdp.accounting.subsampling.one_step import (
    MOST_GROUPS,
    add_direction,
    certificate,
    evaluate,
    feasible,
    margin,
    remove_direction,
)
from mustdp.mechanisms.mechanism import GaussianNoise, LaplaceNoise, NoiseProfiles
from mustdp.sampling.schemes import stage_law
from mustdp.types import MultiplicityLaw, Stage
from tests.accounting.subsampling import exact_pairs
from tests.accounting.subsampling.recording import Recording
from tests.arrays import FloatArray

TAIL = 1e-36
EPSILONS = np.array([0.0, 1e-9, 0.01, 0.5, 3.0, 40.0, 300.0, 600.0])
#: name: stage, population, special entries
STAGES: dict[str, tuple[Stage, int, int]] = {
    "wr": (Stage("wr", 10), 100, 1),
    "wr-two": (Stage("wr", 2), 2, 1),
    "wr-all": (Stage("wr", 3), 2, 2),
    "wr-group": (Stage("wr", 10), 20, 3),
    "wr-long": (Stage("wr", 2000), 1000, 1),
    "wr-never-zero": (Stage("wr", 10_000), 2, 1),
    "wor": (Stage("wor", 3), 10, 1),
    "wor-group": (Stage("wor", 5), 12, 4),
    "wor-all": (Stage("wor", 5), 5, 2),
    "wor-rare": (Stage("wor", 1), 2**53, 1),
}
PROFILES = [NoiseProfiles(GaussianNoise(), s) for s in (1e-6, 0.3, 2.0, 30.0)]
PROFILES += [NoiseProfiles(LaplaceNoise(), s) for s in (1e-3, 1.0, 500.0)]
profile_ids = [f"{family.noise.name}-{family.shift:g}" for family in PROFILES]


def exact_chance(stage: Stage, population: int, special: int, j: int) -> mp.mpf:
    """P(J = j) after one stage, with the current working precision."""
    if stage.kind == "wr":
        p = mp.mpf(special) / population
        return mp.binomial(stage.size, j) * p**j * (1 - p) ** (stage.size - j)
    ways = mp.binomial(special, j) * mp.binomial(population - special, stage.size - j)
    return ways / mp.binomial(population, stage.size)


def exact_cells(name: str) -> tuple[mp.mpf, list[mp.mpf], FloatArray]:
    """P(J = 0), and for every cell of multiplicities that share a slope its mass and its top."""
    stage, population, special = STAGES[name]
    law = stage_law(stage, population, special, TAIL)
    tops = law.coarsened(MOST_GROUPS, up=True).positive_values
    masses = [mp.mpf(0)] * tops.size
    for j in law.positive_values:
        masses[int(np.searchsorted(tops, j))] += exact_chance(stage, population, special, int(j))
    return exact_chance(stage, population, special, 0), masses, tops


@pytest.mark.parametrize("name", list(STAGES))
@pytest.mark.parametrize("profiles", PROFILES, ids=profile_ids)
def test_the_slopes_used_satisfy_the_constraint_exactly(name: str, profiles: NoiseProfiles) -> None:
    """(*) holds with the exact law and 60 digits for the very numbers that were evaluated."""
    law = stage_law(*STAGES[name], TAIL)
    with mp.workdps(60):
        zero, masses, tops = exact_cells(name)
        if law.zero == 0:  # left out of the window: its mass may not be counted on
            zero = mp.mpf(0)
        for epsilon in EPSILONS:
            recording = Recording(profiles)
            value = certificate(law, recording, np.array([epsilon]))[0][0]
            alpha = mp.exp(mp.mpf(float(epsilon)))
            (row,) = recording.rows
            used, capacity = mp.mpf(0), (alpha - 1) * zero
            for mass, log_alpha in zip(masses, row, strict=True):
                used += mass * mp.exp(mp.mpf(float(log_alpha)))
                capacity += alpha * mass
                assert used <= capacity
            # The value is the sum with the exact law, rounded up.
            deltas = profiles.delta(tops, row[None, :])[0]
            exact = mp.fsum(m * mp.mpf(float(d)) for m, d in zip(masses, deltas, strict=True))
            assert mp.mpf(float(value)) >= min(mp.mpf(1), exact) or exact < 1e-300


@pytest.mark.parametrize("name", list(STAGES))
@pytest.mark.parametrize("profiles", PROFILES, ids=profile_ids)
def test_both_directions_meet_their_budget_exactly(name: str, profiles: NoiseProfiles) -> None:
    law = stage_law(*STAGES[name], TAIL)
    with mp.workdps(60):
        zero, masses, _ = exact_cells(name)
        for epsilon in EPSILONS:
            alpha = mp.exp(mp.mpf(float(epsilon)))
            removing, adding = Recording(profiles), Recording(profiles)
            remove_direction(law, removing, np.array([epsilon]))
            assert removing.rows
            for row in removing.rows:
                used = [m * mp.exp(mp.mpf(float(e))) for m, e in zip(masses, row, strict=True)]
                assert mp.fsum(used) <= alpha - zero
            bound = add_direction(law, adding, np.array([epsilon]))
            if not adding.rows:
                assert alpha * zero >= 1
                assert bound[0] == 0.0
            for row in adding.rows:
                got = [m * mp.exp(-mp.mpf(float(e))) for m, e in zip(masses, row, strict=True)]
                assert alpha * (zero + mp.fsum(got)) >= 1


def dual_optimum(law: MultiplicityLaw, shift: float, epsilon: float) -> float:
    """Largest value of the closed form found by a general-purpose optimiser.

    sum_j rho_j F(j s - z_j) - c_j F(-z_j) over non-decreasing z. By weak duality every z gives a
    number that no feasible choice of slopes undercuts.
    """
    rho, j = law.positive, law.positive_values
    alpha = np.exp(epsilon)
    cost = alpha * rho
    cost[0] += (alpha - 1.0) * law.zero

    def negative(steps: FloatArray) -> tuple[float, FloatArray]:
        z = np.cumsum(steps)
        value = rho @ ndtr(j * shift - z) - cost @ ndtr(-z)
        density = [np.exp(-0.5 * x * x) / np.sqrt(2.0 * np.pi) for x in (j * shift - z, z)]
        gradient = -rho * density[0] + cost * density[1]
        return -value, -np.cumsum(gradient[::-1])[::-1]

    best = 0.0
    for start in (0.3, 2.0):
        first = np.concatenate([[start], np.full(j.size - 1, 0.3)])
        bounds = [(None, None)] + [(0.0, None)] * (j.size - 1)
        options: Any = {"maxiter": 2000, "ftol": 1e-16, "gtol": 1e-14}
        found = minimize(negative, first, jac=True, bounds=bounds, options=options)
        best = max(best, -float(found.fun))
    return best


@pytest.mark.parametrize("epsilon", [0.0, 0.25, 1.0])
@pytest.mark.parametrize("shift", [0.5, 2.0])
@pytest.mark.parametrize("name", ["wr-two", "wr", "wr-group", "wor", "wor-group"])
def test_the_certificate_is_the_optimum(name: str, shift: float, epsilon: float) -> None:
    """Independent route: the dual problem, by scipy.optimize."""
    law = stage_law(*STAGES[name], 1e-12)
    family = NoiseProfiles(GaussianNoise(), shift)
    found = float(certificate(law, family, np.array([epsilon]))[0][0])
    optimum = dual_optimum(law, shift, epsilon)
    assert found >= optimum
    assert found <= optimum * (1.0 + 1e-6) + 1e-11


def test_pooling_matters() -> None:
    """With equal slopes for all, WR(3, 3) at s = 2, eps = 0.25 would break the first constraint."""
    law = wr(3, 3).law()
    recording = Recording(NoiseProfiles(GaussianNoise(), 2.0))
    certificate(law, recording, np.array([0.25]))
    assert len({round(float(t), 6) for t in _thresholds(recording)}) > 1


def _thresholds(recording: Recording) -> FloatArray:
    (row,) = recording.rows
    return np.asarray(recording.steering.parameter(np.arange(1.0, row.size + 1.0), row[None, :])[0])


def test_infeasible_slopes_are_lowered_until_they_fit() -> None:
    """Slopes too large by a millionth, or by any amount, never reach the evaluation."""
    law = stage_law(Stage("wr", 6), 5, 1, TAIL)
    epsilon = np.array([0.3])
    capacity = -np.expm1(-epsilon)[:, None] * law.zero + np.cumsum(law.positive)
    exact = np.full((1, law.positive.size), epsilon[0] + np.log(capacity[0, -1] / law.eta))
    for excess in (1e-6, 0.1, 5.0, 700.0):
        logs = feasible(law, exact + excess, epsilon, capacity)
        used = np.cumsum(np.exp(logs - epsilon[:, None]) * law.positive, axis=1)
        assert np.all(used <= capacity)


def test_a_first_slope_that_only_fits_the_whole_budget_is_lowered() -> None:
    """(*) is asked for every k: what later multiplicities leave over is not the first one's."""
    law = stage_law(Stage("wr", 6), 5, 1, TAIL)
    epsilon = np.array([0.3])
    capacity = -np.expm1(-epsilon)[:, None] * law.zero + np.cumsum(law.positive)
    greedy = np.full((1, law.positive.size), -50.0)
    greedy[0, 0] = epsilon[0] + np.log(0.999 * capacity[0, -1] / law.positive[0])
    used = np.exp(greedy - epsilon[:, None]) * law.positive
    assert used.sum() < capacity[0, -1]
    assert used[0, 0] > capacity[0, 0]
    lowered = np.exp(feasible(law, greedy, epsilon, capacity) - epsilon[:, None]) * law.positive
    assert np.all(np.cumsum(lowered, axis=1) <= capacity)


def test_slopes_that_are_no_numbers_fail() -> None:
    law = stage_law(Stage("wr", 6), 5, 1, TAIL)
    epsilon = np.array([0.3])
    capacity = -np.expm1(-epsilon)[:, None] * law.zero + np.cumsum(law.positive)
    logs = np.zeros((1, law.positive.size))
    logs[0, 2] = np.nan
    with pytest.raises(NumericalFailure, match="could not be met"):
        feasible(law, logs, epsilon, capacity)


def test_profiles_that_are_no_numbers_fail() -> None:
    class Broken(Recording):
        def delta(self, groups: FloatArray, epsilon: FloatArray) -> FloatArray:
            return np.full(epsilon.shape, np.nan)

    broken = Broken(NoiseProfiles(GaussianNoise(), 1.0))
    law = stage_law(Stage("wr", 6), 5, 1, TAIL)
    functions: list[Callable[..., Any]] = [certificate, remove_direction, add_direction]
    for function in functions:
        with pytest.raises(NumericalFailure):
            function(law, broken, np.array([0.1, 0.3]))


@pytest.mark.parametrize("tail", [1e-2, 1e-4, 1e-8])
@pytest.mark.parametrize(("stage", "population"), [(Stage("wr", 60), 4), (Stage("wr", 9), 30)])
def test_mass_left_out_of_a_law_is_added_to_delta(
    stage: Stage, population: int, tail: float
) -> None:
    """However much is cut, no bound falls below what the whole law attains."""
    rough, whole = stage_law(stage, population, 1, tail), wr(population, stage.size).law()
    assert rough.cut > tail / 1e4
    epsilon = np.array([0.0, 0.2, 1.0, 4.0, 12.0])
    for family in (NoiseProfiles(GaussianNoise(), 0.4), NoiseProfiles(LaplaceNoise(), 0.4)):
        remove = certificates.aligned(whole, family.noise, family.shift, epsilon)
        add = certificates.reversed_pair(whole, family.noise, family.shift, epsilon)
        symmetric = certificates.symmetric(whole, family.noise, family.shift, epsilon)
        bound = certificate(rough, family, epsilon)[0]
        assert np.all(bound >= np.max([remove, add, symmetric], axis=0))
        assert np.all(bound >= rough.cut)
        assert np.all(remove_direction(rough, family, epsilon) >= remove)
        assert np.all(add_direction(rough, family, epsilon) >= add)


@pytest.mark.parametrize("tail", [3e-2, 1e-3, 1e-9])
def test_lower_bounds_from_a_cut_law_stay_below_the_whole_one(tail: float) -> None:
    with mp.workdps(40):
        law = exact_pairs.binomial(12, mp.mpf(1) / 2)
    rough = stage_law(Stage("wr", 12), 2, 1, tail)
    assert (rough.first > 0) == (tail > 1e-4)
    epsilon = np.array([0.0, 0.5, 2.0])
    for noise in (GaussianNoise(), LaplaceNoise()):
        for name in ("aligned", "reversed_pair", "symmetric"):
            values = getattr(certificates, name)(rough, noise, 0.15, epsilon)
            for value, e in zip(values, epsilon, strict=True):
                exact = getattr(exact_pairs, name)(noise.name, law, 0.15, float(e))
                assert mp.mpf(float(value)) <= exact
                if tail < 1e-8 and exact > 1e-3:
                    assert value >= float(exact) * (1 - 1e-3)


def test_an_empty_request_has_an_empty_answer() -> None:
    law = stage_law(Stage("wr", 6), 5, 1, TAIL)
    value, slope = certificate(law, gaussian(shift=1.0).profiles(1.0), np.empty(0))
    assert value.shape == slope.shape == (0,)


def test_a_record_that_is_never_drawn_costs_the_mass_left_out() -> None:
    law = MultiplicityLaw(0, np.ones(1), 1e-40, 0.0)
    family = laplace(shift=1.0).profiles(1.0)
    epsilon = np.array([0.0, 1.0])
    assert certificate(law, family, epsilon)[0].tolist() == [1e-40, 1e-40]
    assert remove_direction(law, family, epsilon).tolist() == [1e-40, 1e-40]
    assert add_direction(law, family, epsilon).tolist() == [1e-40, 1e-40]


def test_the_margin_grows_with_the_error_of_the_law() -> None:
    p = np.array([0.5, 0.3, 0.2])
    small, large = (MultiplicityLaw(0, p, 0.0, error) for error in (1e-16, 1e-9))
    assert margin(small) >= 4e-16
    assert margin(large) >= 4.0 * 1e-9


def test_evaluate_counts_a_ruled_out_slope_as_one() -> None:
    law = MultiplicityLaw(0, np.array([0.5, 0.3, 0.2]), 0.0, 0.0)
    family = laplace(shift=1.0).profiles(1.0)
    found = evaluate(law, family, np.array([[-np.inf, 50.0]]))
    assert found[0] == pytest.approx(0.3, rel=1e-10)


def test_the_slope_returned_is_that_of_the_bound() -> None:
    """It steers the stages around: minus the derivative of the bound in alpha."""
    epsilon = np.array([0.2, 0.7, 1.5])
    for stage in (Stage("wr", 6), Stage("wor", 3)):
        law = stage_law(stage, 10, 1, TAIL)
        family = NoiseProfiles(GaussianNoise(), 0.8)
        slope = certificate(law, family, epsilon)[1]
        step = 1e-4
        up, down = (certificate(law, family, epsilon + h)[0] for h in (step, -step))
        assert slope == pytest.approx((down - up) / (2 * step) / np.exp(epsilon), rel=1e-4)


def test_long_requests_are_worked_through_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    law = stage_law(Stage("wr", 30), 40, 1, TAIL)
    family = NoiseProfiles(GaussianNoise(), 0.5)
    epsilon = np.linspace(0.0, 3.0, 50)
    whole = certificate(law, family, epsilon)[0]
    monkeypatch.setattr(
        "mustdp.accounting.subsampling.one_step._LARGEST_MATRIX", 7 * law.positive.size
    )
    assert certificate(law, family, epsilon)[0] == pytest.approx(whole, rel=1e-12)


@pytest.mark.parametrize("noise", [GaussianNoise(), LaplaceNoise()])
def test_lower_bounds_do_not_count_on_a_zero_that_was_left_out(noise: GaussianNoise) -> None:
    """Half-line values of a law whose zero is in the cut stay below those of the whole law."""
    whole = [mp.mpf("0.3"), mp.mpf("0.7")]
    rough = MultiplicityLaw(1, np.array([0.7]), 0.3, 1e-16)
    epsilon = np.array([0.0, 0.1, 0.5, 1.0, 2.0])
    for name in ("aligned", "reversed_pair", "symmetric"):
        values = getattr(certificates, name)(rough, noise, 2.0, epsilon)
        for value, e in zip(values, epsilon, strict=True):
            exact = getattr(exact_pairs, name)(noise.name, whole, 2.0, float(e))
            assert mp.mpf(float(value)) <= exact
