"""Composition by tilted transforms against exact integer arithmetic."""

from __future__ import annotations

import math
from fractions import Fraction

import mpmath as mp
import numpy as np
import pytest

from mustdp import NumericalFailure
from mustdp.accounting.pld import readoff
from mustdp.accounting.pld.discretise import DiscreteLoss
from mustdp.accounting.pld.readoff import OUTSIDE, Composition, ReadOff
from tests.accounting.pld.exact_sums import ExactSum, short


def random_loss(rng: np.random.Generator, spacing: float, size: int = 30) -> DiscreteLoss:
    index = np.unique(rng.integers(-size, 2 * size, size))
    masses = rng.random(index.size) ** rng.choice([1, 6, 20])
    return DiscreteLoss(spacing, index, short(masses / masses.sum()))


@pytest.mark.parametrize("trial", range(8))
def test_rounding_stays_below_its_bound(trial: int) -> None:
    rng = np.random.default_rng(trial)
    spacing = 10 ** rng.uniform(-5, 0)
    parts = [(random_loss(rng, spacing), int(rng.integers(1, 16))) for _ in range(1 + trial % 2)]
    composition, exact = Composition(parts), ExactSum(parts)
    top = composition.mean + 5 * composition.deviation
    for theta in (0.0, composition.best_tilt(top), 30.0 / composition.deviation):
        tilted = composition.tilt(theta)
        first = round(float(tilted.losses[0]) / spacing)
        truth = exact.wrapped(theta, first, tilted.masses.size)
        for got, true in zip(tilted.masses.tolist(), truth, strict=True):
            assert abs(got - true) <= tilted.error + tilted.relative * true
        assert tilted.error < 1e-11  # small enough to be of use
        assert tilted.relative < 1e-9


def test_rounding_of_large_exponents_is_covered() -> None:
    """Losses of a million under a tilt of ten: exponents of 1e7 keep nine digits of a mass."""
    far = 10**7
    index = np.array([far, far + 3, far + 7])
    loss = DiscreteLoss(0.1, index, np.array([0.5, 0.25, 0.25]))
    parts = [(loss, 5)]
    tilted = Composition(parts).tilt(10.0)
    first = round(float(tilted.losses[0]) / 0.1)
    truth = ExactSum(parts).wrapped(10.0, first, tilted.masses.size)
    off = [abs(got - true) for got, true in zip(tilted.masses.tolist(), truth, strict=True)]
    assert max(off) > tilted.error  # the transform's own error would not explain it
    for distance, true in zip(off, truth, strict=True):
        assert distance <= tilted.error + tilted.relative * true
    assert tilted.relative < 1e-6


def test_the_window_holds_all_but_a_known_mass() -> None:
    rng = np.random.default_rng(3)
    for _ in range(6):
        loss = random_loss(rng, 0.1)
        composition, exact = Composition([(loss, 20)]), ExactSum([(loss, 20)])
        for theta in (0.0, 1.0, 4.0):
            low, high = composition._window(theta)
            masses = list(zip(exact.places, exact.tilted(theta), strict=True))
            assert mp.fsum(mass for place, mass in masses if place * 0.1 < low) <= OUTSIDE
            assert mp.fsum(mass for place, mass in masses if place * 0.1 > high) <= OUTSIDE


def test_a_window_too_small_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The comparison with exact sums would catch a wrap-around that is not accounted for."""
    loss = random_loss(np.random.default_rng(8), 0.05)
    exact = ExactSum([(loss, 12)])
    epsilons = np.linspace(0.0, 0.8 * 12 * float(loss.losses[-1]), 15)

    def brackets() -> list[bool]:
        composition = Composition([(loss, 12)])
        upper, lower = ReadOff(composition, "upper"), ReadOff(composition, "lower")
        return [lower.delta(e) <= exact.delta(e) <= upper.delta(e) for e in epsilons.tolist()]

    assert all(brackets())
    window = Composition._window

    def shrunk(self: Composition, theta: float) -> tuple[float, float]:
        low, high = window(self, theta)
        return low + 0.35 * (high - low), high - 0.35 * (high - low)

    monkeypatch.setattr(Composition, "_window", shrunk)
    assert not all(brackets())


def test_aliasing_doubt_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    """With half the tilted mass allowed outside, only the doubt keeps the bounds apart."""
    loss = random_loss(np.random.default_rng(21), 0.05)
    exact = ExactSum([(loss, 15)])
    for outside in (0.3, 1e-2, 1e-4):
        monkeypatch.setattr(readoff, "OUTSIDE", outside)
        monkeypatch.setattr("mustdp.accounting.pld.readoff.OUTSIDE", outside)
        composition = Composition([(loss, 15)])
        for epsilon in np.linspace(0.0, 0.6 * composition.largest, 12).tolist():
            true = exact.delta(epsilon)
            assert ReadOff(composition, "lower").delta(epsilon) <= true
            assert true <= ReadOff(composition, "upper").delta(epsilon)


def test_infinite_mass_adds_up() -> None:
    finite = DiscreteLoss(1.0, np.array([-1, 1]), np.array([0.4, 0.59]), infinite=0.01)
    composition = Composition([(finite, 3), (finite, 2)])
    assert composition.infinite >= 1 - 0.99**5
    assert composition.infinite == pytest.approx(1 - 0.99**5, rel=1e-12)
    # Masses that sum to more than one multiply what others leave at infinity.
    heavy = DiscreteLoss(1.0, np.array([0]), np.array([1.5]))
    both = Composition([(finite, 1), (heavy, 4)])
    assert both.infinite >= 0.01 * 1.5**4
    certain = DiscreteLoss(1.0, np.array([0]), np.array([1e-9]), infinite=1.0)
    assert Composition([(certain, 5)]).infinite >= 1.0


def test_beyond_the_largest_sum_only_infinity_is_left() -> None:
    loss = DiscreteLoss(0.1, np.array([-1, 7]), np.array([0.3, 0.699]), infinite=0.001)
    composition = Composition([(loss, 10)])
    assert composition.largest >= 10 * 0.1 * 7
    assert composition.largest == pytest.approx(7.0)
    upper, lower = ReadOff(composition, "upper"), ReadOff(composition, "lower")
    for epsilon in (7.0 + 1e-9, 8.0, 400.0):
        assert upper.delta(epsilon) == composition.infinite
        assert lower.delta(epsilon) == 0.0
    just = ExactSum([(loss, 10)]).delta(7.0 - 1e-6)
    assert lower.delta(7.0 - 1e-6) <= just <= upper.delta(7.0 - 1e-6)


@pytest.mark.parametrize("rare", [1e-3, 1e-6, 1e-12])
def test_deviation_far_below_the_spacing(rare: float) -> None:
    """Almost all mass at one place: the ladder of tilts must still reach the rare losses."""
    index = np.array([-1, 0, 1])
    loss = DiscreteLoss(0.1, index, np.array([rare, 1 - 2 * rare, rare]))
    parts = [(loss, 40)]
    composition, exact = Composition(parts), ExactSum(parts)
    upper, lower = ReadOff(composition, "upper"), ReadOff(composition, "lower")
    for epsilon in (0.0, 0.05, 0.1, 0.25, 0.5):
        true = exact.delta(epsilon)
        assert lower.delta(epsilon) <= true <= upper.delta(epsilon)
        if true > 1e-30:
            assert upper.delta(epsilon) <= 1.5 * true


def test_very_different_scales_together() -> None:
    wide = DiscreteLoss(1e-3, np.array([-900, 0, 2000]), np.array([0.2, 0.5, 0.3]))
    narrow = DiscreteLoss(1e-3, np.array([-1, 0, 1]), np.array([0.01, 0.98, 0.01]))
    parts = [(wide, 2), (narrow, 30)]
    composition, exact = Composition(parts), ExactSum(parts)
    for epsilon in (0.0, 0.5, 1.999, 2.0, 3.99, 4.01):
        true = exact.delta(epsilon)
        low = ReadOff(composition, "lower").delta(epsilon)
        high = ReadOff(composition, "upper").delta(epsilon)
        assert low <= true <= high
        if true > 1e-12:
            assert high - low < 1e-3 * true


def test_zero_coefficients_of_the_transform() -> None:
    """Mass 1/2 at two neighbours has a vanishing coefficient at the highest frequency."""
    half = DiscreteLoss(0.2, np.array([0, 1]), np.array([0.5, 0.5]))
    third = DiscreteLoss(0.2, np.array([-1, 4]), np.array([0.6, 0.4]))
    for parts in ([(half, 1)], [(half, 1), (third, 3)], [(half, 7), (third, 2)]):
        composition, exact = Composition(parts), ExactSum(parts)
        for epsilon in (0.0, 0.1, 0.7, 1.3):
            assert ReadOff(composition, "lower").delta(epsilon) <= exact.delta(epsilon)
            assert exact.delta(epsilon) <= ReadOff(composition, "upper").delta(epsilon)


def test_offsets_move_the_sum() -> None:
    plain = DiscreteLoss(0.1, np.array([0, 3]), np.array([0.7, 0.3]))
    moved = DiscreteLoss(0.1, np.array([0, 3]), np.array([0.7, 0.3]), offset=0.037)
    exact = ExactSum([(plain, 9)])
    composition = Composition([(moved, 9)])
    for epsilon in (0.4, 1.0, 2.0):
        true = exact.delta(epsilon - 9 * 0.037)
        assert ReadOff(composition, "lower").delta(epsilon) <= true * (1 + mp.mpf(10) ** -14)
        assert true <= ReadOff(composition, "upper").delta(epsilon) * (1 + mp.mpf(10) ** -14)


def test_transforms_too_long_are_refused() -> None:
    loss = DiscreteLoss(1e-9, np.array([-(10**9), 10**9]), np.array([0.5, 0.5]))
    with pytest.raises(NumericalFailure, match="transform"):
        Composition([(loss, 4)]).tilt(0.0)


def test_rounding_too_large_is_refused() -> None:
    loss = DiscreteLoss(1.0, np.array([-1, 400]), np.array([0.5, 0.5]))
    with pytest.raises(NumericalFailure, match="rounding"):
        Composition([(loss, 10**7)]).tilt(3e4)


def test_the_best_tilt_minimises_chernoffs_bound() -> None:
    loss = random_loss(np.random.default_rng(4), 0.02)
    composition = Composition([(loss, 25)])
    for epsilon in (0.0, composition.mean + 3 * composition.deviation, 0.9 * composition.largest):
        theta = composition.best_tilt(epsilon)
        grid = np.linspace(0.0, 3 * theta + 1e-3, 400)
        exponents = composition.log_mgf(grid) - grid * epsilon
        here = float(composition.log_mgf(np.array([theta]))[0]) - theta * epsilon
        assert here <= exponents.min() + 0.05


def test_chernoffs_epsilon_is_an_upper_bound() -> None:
    loss = random_loss(np.random.default_rng(14), 0.05)
    composition, exact = Composition([(loss, 10)]), ExactSum([(loss, 10)])
    for delta in (1e-2, 1e-6, 1e-15):
        assert exact.delta(composition.chernoff_epsilon(delta)) <= delta
        assert math.isfinite(composition.chernoff_epsilon(delta))


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


@pytest.mark.parametrize("count", [1, 2, 3, 100, 300, 1023, 50_000])
def test_powers_are_as_close_as_their_proof_says(count: int) -> None:
    rng = np.random.default_rng(count)
    modulus = np.exp(-rng.random(60) * 300.0 / count)
    values = modulus * np.exp(2j * np.pi * rng.random(60))
    found = readoff._power(values, count)
    with mp.workdps(60):
        exact = [mp.mpc(complex(one)) ** count for one in values]
        off = [
            float(abs(mp.mpc(complex(one)) - true) / abs(true))
            for one, true in zip(found, exact, strict=True)
        ]
    assert max(off) <= 3.0 * count * 2.0**-53
    assert count < 100 or max(off) > 0.01 * count**0.5 * 2.0**-53  # rounding is to be seen
