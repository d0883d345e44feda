"""Delta and epsilon read off compositions, against exact sums; both sides."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from mustdp.accounting.pld.discretise import DiscreteLoss
from mustdp.accounting.pld.readoff import (
    OUTSIDE,
    ComposedLoss,
    Composition,
    ReadOff,
    Side,
    Tilted,
    _gains,
)
from tests.accounting.pld.exact_sums import ExactSum, short

EPSILONS = (0.0, 0.3, 0.9, 1.7)


def pair_loss(rng: np.random.Generator, spacing: float) -> DiscreteLoss:
    """A loss that some pair has: Q = e^-loss P sums to at most one."""
    index = np.unique(rng.integers(-25, 40, 25))
    masses = rng.random(index.size) ** rng.choice([1, 5, 12])
    masses /= max(masses.sum(), float(masses @ np.exp(-index * spacing)))
    return DiscreteLoss(spacing, index, short(masses))


@pytest.mark.parametrize("trial", range(10))
def test_delta_and_epsilon_are_enclosed(trial: int) -> None:
    rng = np.random.default_rng(100 + trial)
    loss = pair_loss(rng, 10 ** rng.uniform(-3, 0.3))
    steps = int(rng.integers(1, 30))
    composition, exact = Composition([(loss, steps)]), ExactSum([(loss, steps)])
    upper, lower = ReadOff(composition, "upper"), ReadOff(composition, "lower")
    for epsilon in (rng.random(5) * max(0.0, composition.largest)).tolist():
        true = exact.delta(epsilon)
        assert lower.delta(epsilon) <= true <= upper.delta(epsilon)
        if true > 1e-25:
            assert upper.delta(epsilon) - lower.delta(epsilon) < 1e-3 * true
    for delta in (0.3, 1e-3, 1e-9, 1e-20):
        low, high = lower.epsilon(delta), upper.epsilon(delta)
        assert exact.encloses(low, high, delta)
        assert high - low <= 1e-5 * (1e-3 + high)
        assert upper.delta(high) <= delta  # the answers certify themselves
        assert low == 0.0 or lower.delta(low) > delta


def test_curves_agree_with_single_values() -> None:
    loss = pair_loss(np.random.default_rng(7), 0.1)
    composition, exact = Composition([(loss, 12)]), ExactSum([(loss, 12)])
    epsilons = np.linspace(0.0, 1.1 * composition.largest, 40)
    high = ReadOff(composition, "upper").curve(epsilons)
    low = ReadOff(composition, "lower").curve(epsilons)
    for epsilon, below, above in zip(epsilons.tolist(), low, high, strict=True):
        assert below <= exact.delta(epsilon) <= above


@pytest.mark.parametrize("trial", range(6))
def test_curves_enclose_exact_sums_in_any_order(trial: int) -> None:
    rng = np.random.default_rng(300 + trial)
    loss = pair_loss(rng, 10 ** rng.uniform(-3, 0.3))
    steps = int(rng.integers(1, 30))
    composition, exact = Composition([(loss, steps)]), ExactSum([(loss, steps)])
    epsilons = rng.random(40) * max(0.0, composition.largest)
    true = np.array([min(1.0, float(exact.delta(one))) for one in epsilons.tolist()])
    high = ReadOff(composition, "upper").curve(epsilons)
    low = ReadOff(composition, "lower").curve(epsilons)
    assert np.all((low <= true) & (true <= high))
    assert np.all((high - low)[true > 1e-25] < 1e-3 * true[true > 1e-25])


@pytest.mark.parametrize("side", ["upper", "lower"])
def test_many_values_of_a_table_are_its_single_ones(side: Side) -> None:
    rng = np.random.default_rng(5)
    loss = replace(pair_loss(rng, 0.02), infinite=1e-7, lost=1e-9)
    reader = ReadOff(Composition([(loss, 20)]), side)
    seen: set[float] = set()
    for theta in (0.0, 1.0, 40.0):
        table = reader._table(theta, 1.0)
        epsilons = table.first + (table.last - table.first) * rng.random(50)
        single = [reader._delta(table, one) for one in epsilons.tolist()]
        assert reader._deltas(table, epsilons) == pytest.approx(single, rel=1e-11, abs=1e-300)
        seen.update(single)
    assert len(seen) > 40


def test_curves_far_out() -> None:
    """Where a tilt from the short ladder misses the epsilon, the curve takes the best one."""
    index = np.array([-1, 0, 1, 60])
    loss = DiscreteLoss(0.1, index, np.array([0.3, 0.4, 0.3 - 1e-20, 1e-20]))
    composition = Composition([(loss, 12)])
    epsilons = np.linspace(0.0, composition.largest, 100)
    curve = ReadOff(composition, "upper").curve(epsilons)
    assert np.all(np.diff(curve) <= 1e-12 * curve[:-1])
    assert curve[-2] < 1e-200


def test_far_outliers_do_not_mislead_the_lower_side() -> None:
    """A rare huge loss moves the tilted window far to the right of the epsilon in question."""
    index = np.array([-1, 0, 2, 900])
    masses = np.array([0.3, 0.5, 0.2 - 1e-6, 1e-6])
    for steps in (2, 8):
        loss = DiscreteLoss(0.1, index, short(masses))
        composition, exact = Composition([(loss, steps)]), ExactSum([(loss, steps)])
        upper, lower = ReadOff(composition, "upper"), ReadOff(composition, "lower")
        for delta in (1e-2, 1e-4, 3e-6, 1e-6, 3e-7, 1e-10):
            assert exact.encloses(lower.epsilon(delta), upper.epsilon(delta), delta)


def test_everything_above_the_window() -> None:
    """With all losses far above zero the window starts above epsilon = 0."""
    loss = DiscreteLoss(0.5, np.array([9, 10, 11]), np.array([0.3, 0.4, 0.3]))
    composition, exact = Composition([(loss, 40)]), ExactSum([(loss, 40)])
    for epsilon in (0.0, 1.0, 100.0, 180.0):
        high = ReadOff(composition, "upper").delta(epsilon)
        low = ReadOff(composition, "lower").delta(epsilon)
        assert low <= min(exact.delta(epsilon), 1.0) <= high
        assert high - low < 1e-3
    low, high = (
        ReadOff(composition, "lower").epsilon(0.5),
        ReadOff(composition, "upper").epsilon(0.5),
    )
    assert exact.encloses(low, high, 0.5)


def test_mass_at_infinity_counts_on_the_upper_side_only() -> None:
    loss = DiscreteLoss(0.1, np.array([-3, 4]), np.array([0.55, 0.44]), infinite=0.01)
    composition = Composition([(loss, 5)])
    finite = ExactSum([(loss, 5)])
    assert composition.infinite > 0.04
    upper, lower = ReadOff(composition, "upper"), ReadOff(composition, "lower")
    for epsilon in (0.0, 1.0, 1.9, 3.0):
        assert upper.delta(epsilon) >= finite.delta(epsilon) + composition.infinite
        assert lower.delta(epsilon) <= finite.delta(epsilon)
    assert upper.epsilon(0.04) == math.inf
    assert math.isfinite(upper.epsilon(0.06))


def test_mass_lost_by_q_counts_e_to_the_epsilon_times() -> None:
    index, masses = np.array([-3, 4]), np.array([0.5, 0.5])
    kept = DiscreteLoss(0.1, index.copy(), masses.copy())
    missing = DiscreteLoss(0.1, index, masses, lost=1e-3)
    for epsilon in (0.0, 0.5, 1.2):
        without = ReadOff(Composition([(kept, 5)]), "lower").delta(epsilon)
        charged = ReadOff(Composition([(missing, 5)]), "lower").delta(epsilon)
        assert charged == pytest.approx(max(0.0, without - 5e-3 * math.exp(epsilon)), abs=1e-9)


@pytest.mark.parametrize("spacing", [0.01, 0.4, 3.0, 40.0])
def test_running_sums_in_blocks(spacing: float) -> None:
    rng = np.random.default_rng(2)
    losses = np.arange(-50.0, 1500.0) * spacing
    weights = rng.random(losses.size) * np.exp(-rng.random(losses.size) * 50)
    gains = _gains(np.asarray(losses, dtype=np.float64), weights)
    for i in rng.integers(0, losses.size - 1, 40):
        direct = math.fsum(np.exp(losses[i] - losses[i + 1 :]) * weights[i + 1 :])
        assert gains[i] == pytest.approx(direct, rel=1e-11, abs=1e-300)


def test_rare_losses_are_judged_by_the_delta_in_question() -> None:
    """Losses taken out before composing cost at most a small share of delta."""
    index = np.arange(-20, 200)
    masses = np.exp(-0.5 * np.abs(index.astype(float)))
    masses /= max(masses.sum(), float(masses @ np.exp(-index * 0.1)))
    loss = DiscreteLoss(0.1, index, short(masses))
    exact = ExactSum([(loss, 15)])
    upper = ComposedLoss([(loss, 15)], "upper")
    lower = ComposedLoss([(loss, 15)], "lower")
    for epsilon in (0.0, 2.0, 6.0, 12.0, 20.0):
        true = exact.delta(epsilon)
        assert lower.delta(epsilon) <= true <= upper.delta(epsilon)
        assert upper.delta(epsilon) - lower.delta(epsilon) < 5e-3 * true
    for delta in (0.1, 1e-6, 1e-18):
        assert exact.encloses(lower.epsilon(delta), upper.epsilon(delta), delta)


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


def test_mass_that_wrapped_around_is_doubted_on_the_upper_side(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The largest sum lies outside a window that is too short, and comes back in far below."""
    loss = DiscreteLoss(0.1, np.array([-1, 10]), np.array([0.75, 0.25]))
    exact = ExactSum([(loss, 2)])
    monkeypatch.setattr(Composition, "_window", lambda self, theta: (-0.3, 1.3))
    monkeypatch.setattr(
        "mustdp.accounting.pld.readoff.OUTSIDE", 1.0
    )  # nothing is known of the outside
    reader = ReadOff(Composition([(loss, 2)]), "upper")
    for epsilon in (0.5, 0.95, 1.2):
        assert reader.delta(epsilon) >= exact.delta(epsilon)


def test_doubt_grows_away_from_the_reference_of_a_table() -> None:
    """Tilted mass outside the window weighs e^(theta distance) more below the reference."""
    reader = ReadOff(Composition([(some_loss(), 9)]), "upper")
    table = reader._table(2.0, 1.5)
    assert (table.theta, table.reference) == (2.0, 1.5)
    for epsilon in (0.0, 0.7, 1.5, 2.5):
        weight = math.exp(2.0 * (1.5 - epsilon))
        assert table.doubt(epsilon) >= 2.0 * OUTSIDE * weight * (1 - 1e-12)
