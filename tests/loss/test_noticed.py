"""Small safety terms of composing and reading off: each is made large enough to be seen."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

import mpmath as mp
import numpy as np
import pytest

from mustdp.amplification import attained
from mustdp.loss.compose import OUTSIDE, Composition, Tilted
from mustdp.loss.curve import ComposedLoss, UpperCurve
from mustdp.loss.discrete import DiscreteLoss
from mustdp.loss.dots import DominatingPair, FloatArray, connect_values, just_below
from mustdp.loss.pairs import family_pair
from mustdp.loss.points import Grid
from mustdp.loss.readoff import ReadOff
from mustdp.mechanisms.noise import GaussianNoise
from mustdp.sampling.law import MultiplicityLaw, stage_law
from mustdp.sampling.stage import Stage
from tests.loss.exact_sums import ExactSum, short

EPSILONS = (0.0, 0.3, 0.9, 1.7)


def some_loss() -> DiscreteLoss:
    index = np.array([-6, -2, 0, 1, 3, 8])
    masses = short(np.array([0.15, 0.2, 0.3, 0.2, 0.1, 0.05]))
    return DiscreteLoss(0.1, index, masses)


@pytest.mark.parametrize("size", [1e-3, 1e-6, 1e-9])
def test_masses_may_be_off_by_their_stated_error(
    monkeypatch: pytest.MonkeyPatch, size: float
) -> None:
    """Transforms that err by as much as they admit, in the worst direction, do no harm."""
    loss = some_loss()
    exact, tilt = ExactSum([(loss, 9)]), Composition.tilt
    for side, sign in (("upper", -1.0), ("lower", 1.0)):

        def off(self: Composition, theta: float, sign: float = sign) -> Tilted:
            true = tilt(self, theta)
            return replace(true, masses=true.masses + sign * size, error=true.error + size)

        def scaled(self: Composition, theta: float, sign: float = sign) -> Tilted:
            true = tilt(self, theta)
            masses = true.masses * (1.0 + sign * size)
            return replace(true, masses=masses, relative=true.relative + 1.01 * size)

        for wrong in (off, scaled):
            monkeypatch.setattr(Composition, "tilt", wrong)
            reader = ReadOff(Composition([(loss, 9)]), "upper" if side == "upper" else "lower")
            for epsilon in EPSILONS:
                if side == "upper":
                    assert reader.delta(epsilon) >= exact.delta(epsilon)
                else:
                    assert reader.delta(epsilon) <= exact.delta(epsilon)


def test_losses_far_from_zero_keep_few_digits() -> None:
    """At losses of five million a spacing of 0.1 leaves nine digits between two dots."""
    far = 10**7
    loss = DiscreteLoss(0.1, np.array([far, far + 3, far + 7]), np.array([0.5, 0.25, 0.25]))
    composition, exact = Composition([(loss, 5)]), ExactSum([(loss, 5)])
    rng = np.random.default_rng(6)
    for epsilon in (5e6 + rng.uniform(-0.1, 3.3, 60)).tolist():
        true = exact.delta(epsilon)
        assert ReadOff(composition, "lower").delta(epsilon) <= true
        assert true <= ReadOff(composition, "upper").delta(epsilon)


def test_curves_count_the_mass_at_infinity() -> None:
    loss = DiscreteLoss(0.1, np.array([-3, 4]), np.array([0.55, 0.44]), infinite=0.01)
    composition = Composition([(loss, 5)])
    epsilons = np.array([0.0, 1.0, 1.9, 2.5, 30.0])
    high = ReadOff(composition, "upper").curve(epsilons)
    assert np.all(high >= composition.infinite)
    assert high[-2:].tolist() == [composition.infinite] * 2
    assert ReadOff(composition, "lower").curve(epsilons)[-1] == 0.0


def test_the_largest_sum_is_rounded_up() -> None:
    rng = np.random.default_rng(9)
    for _ in range(200):
        spacing, index = float(rng.random()), int(rng.integers(1, 10**6))
        count, offset = int(rng.integers(1, 1000)), float(rng.random())
        loss = DiscreteLoss(spacing, np.array([index]), np.ones(1), offset=offset)
        exact = count * (index * Fraction(spacing) + Fraction(offset))
        assert Fraction(Composition([(loss, count)]).largest) >= exact


def test_the_mass_at_infinity_is_rounded_up() -> None:
    rng = np.random.default_rng(10)
    for _ in range(200):
        chance, count = float(rng.random() ** 8), int(rng.integers(2, 30))
        loss = DiscreteLoss(0.1, np.array([0]), np.array([1.0 - chance]), infinite=chance)
        exact = 1 - (1 - Fraction(chance)) ** count
        assert Fraction(Composition([(loss, count)]).infinite) >= exact


def test_what_is_moved_to_infinity_is_rounded_up() -> None:
    rng = np.random.default_rng(11)
    for _ in range(100):
        masses = rng.random(50)
        masses /= masses.sum()
        moved = DiscreteLoss(0.1, np.arange(50), masses).truncated(0.5, keep=True)
        exact = sum(Fraction(float(mass)) for mass in masses[moved.index.size :])
        assert exact > 0
        assert Fraction(moved.infinite) >= exact


def test_grid_points_are_rounded_down() -> None:
    """A decreasing bound taken at or below the exact grid point covers it."""
    rng = np.random.default_rng(12)
    points = np.unique(rng.integers(0, 10**6, 500))
    for _ in range(20):
        spacing = float(10 ** rng.uniform(-9, 1))
        for point, where in zip(points.tolist(), just_below(spacing, points), strict=True):
            assert Fraction(float(where)) <= point * Fraction(spacing)


def test_a_curve_asks_its_pairs_at_or_below_the_grid() -> None:
    asked: list[FloatArray] = []

    def profile(epsilon: FloatArray) -> FloatArray:
        asked.append(epsilon)
        return np.exp(-1.0 - epsilon)

    points, spacing = np.arange(0, 60), 0.07
    pair = DominatingPair(profile, lambda e: profile(e))
    UpperCurve([pair], [3], Grid(spacing, (points,)))
    assert len(asked) == 2
    for epsilon in asked:
        for point, where in zip(points.tolist(), epsilon, strict=True):
            assert Fraction(float(where)) <= point * Fraction(spacing)


def test_cells_count_the_error_of_the_law() -> None:
    """With entries off by a hundredth, P may be that much smaller and Q that much larger."""
    law = MultiplicityLaw(0, np.array([0.6, 0.4]), 0.0, 1e-2)
    sure = MultiplicityLaw(0, np.array([0.6, 0.4]), 0.0, 0.0)
    x = np.linspace(-3.0, 4.0, 15)
    for name in ("aligned", "reversed", "symmetric"):
        rough = family_pair(name, law, GaussianNoise(), 1.0).cells(x)
        exact = family_pair(name, sure, GaussianNoise(), 1.0).cells(x)
        assert np.all(rough[0] <= exact[0] * (1.0 - 9e-3))
        assert np.all(rough[1] >= exact[1] * (1.0 + 9e-3))


def test_cells_are_below_p_and_above_q_in_the_last_digit() -> None:
    law = MultiplicityLaw(0, np.array([0.6, 0.4]), 0.0, 0.0)
    pair = family_pair("aligned", law, GaussianNoise(), 1.0)
    x = np.linspace(-5.0, 6.0, 45)
    up, down = pair.cells(x)
    with mp.workdps(40):
        ends = [mp.ninf, *(mp.mpf(float(e)) for e in x), mp.inf]
        p0, p1 = mp.mpf(0.6), mp.mpf(0.4)
        for k in range(up.size):
            still = mp.ncdf(ends[k + 1]) - mp.ncdf(ends[k])
            moved = mp.ncdf(ends[k + 1] - 1) - mp.ncdf(ends[k] - 1)
            assert mp.mpf(float(up[k])) <= p0 * still + p1 * moved
            assert mp.mpf(float(down[k])) >= still


def test_moments_say_how_much_they_leave_out() -> None:
    masses = np.array([0.6, 0.3, 0.06, 0.03, 0.01])
    loss = DiscreteLoss(0.1, np.array([-2, 1, 5, 9, 30]), masses)
    outside = ComposedLoss([(loss, 3)], "upper").log_mgf(np.array([1.0]), 0.15)[1]
    assert outside >= 1 - 0.96**3  # the two largest losses, at most 5 % in each step
    assert outside == pytest.approx(1 - 0.96**3, rel=1e-9)


def test_mass_that_wrapped_around_is_doubted_on_the_upper_side(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The largest sum lies outside a window that is too short, and comes back in far below."""
    loss = DiscreteLoss(0.1, np.array([-1, 10]), np.array([0.75, 0.25]))
    exact = ExactSum([(loss, 2)])
    monkeypatch.setattr(Composition, "_window", lambda self, theta: (-0.3, 1.3))
    monkeypatch.setattr("mustdp.loss.readoff.OUTSIDE", 1.0)  # nothing is known of the outside
    reader = ReadOff(Composition([(loss, 2)]), "upper")
    for epsilon in (0.5, 0.95, 1.2):
        assert reader.delta(epsilon) >= exact.delta(epsilon)


@pytest.mark.parametrize("spacing", [1e-2, 1e-6, 1e-9])
@pytest.mark.parametrize("last", [1, 9])
def test_rounding_takes_nothing_off_below_zero(spacing: float, last: int) -> None:
    """Taken as exact numbers, the masses sum to at least one and reproduce the dual values."""
    points = np.arange(0, last + 1)
    for shift in np.linspace(0.3, 12.0, 20).tolist():
        values = GaussianNoise().profile(
            np.array(shift * spacing), points.astype(np.float64) * spacing
        )
        loss = connect_values(spacing, points, values, values)
        with mp.workdps(50):
            d = mp.mpf(spacing)
            masses = [mp.mpf(float(mass)) for mass in loss.masses]
            assert mp.fsum(masses) + mp.mpf(loss.infinite) >= 1
            for place in points[1:5].tolist():
                alpha = mp.exp(-place * d)
                dual = 1 - alpha + alpha * mp.mpf(float(values[place]))
                above = [
                    mass * -mp.expm1((-place - int(i)) * d)
                    for i, mass in zip(loss.index, masses, strict=True)
                    if i > -place
                ]
                assert mp.fsum(above) + mp.mpf(loss.infinite) >= dual


def test_wide_laws_are_coarsened_on_the_safe_side() -> None:
    """About a thousand copies: neighbouring multiplicities share the smaller of them."""
    law, noise, shift = stage_law(Stage("wr", 1_000_000), 1000, 1, 1e-36), GaussianNoise(), 0.003
    x = np.linspace(-1.0, 5.0, 601)
    for name, function in (
        ("aligned", attained.aligned),
        ("reversed", attained.reversed_pair),
        ("symmetric", attained.symmetric),
    ):
        pair = family_pair(name, law, noise, shift)
        assert pair.p.weights.size < law.support.size or name == "reversed"
        p, q = (np.cumsum(cells[::-1])[::-1][1:] for cells in pair.cells(x))
        for epsilon in (0.0, 0.5, 2.0):
            whole = float(function(law, noise, shift, np.array([epsilon]))[0])
            found = float(np.max(p - math.exp(epsilon) * q))
            assert 0.9 * whole < found <= whole * (1 + 1e-7)


def test_doubt_grows_away_from_the_reference_of_a_table() -> None:
    """Tilted mass outside the window weighs e^(theta distance) more below the reference."""
    reader = ReadOff(Composition([(some_loss(), 9)]), "upper")
    table = reader._table(2.0, 1.5)
    assert (table.theta, table.reference) == (2.0, 1.5)
    for epsilon in (0.0, 0.7, 1.5, 2.5):
        weight = math.exp(2.0 * (1.5 - epsilon))
        assert table.doubt(epsilon) >= 2.0 * OUTSIDE * weight * (1 - 1e-12)
