"""A discrete loss: moments, and taking its largest losses out."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from mustdp.accounting.pld.discretise import DiscreteLoss

INDEX = np.array([-2, 0, 1, 5])
MASSES = np.array([0.2, 0.5, 0.2, 0.1])


def make(infinite: float = 0.0) -> DiscreteLoss:
    return DiscreteLoss(0.5, INDEX.copy(), MASSES.copy(), infinite, lost=0.25)


def test_moments() -> None:
    loss = make()
    assert loss.mean == pytest.approx(0.2 * -1 + 0.2 * 0.5 + 0.1 * 2.5)
    assert loss.variance == pytest.approx(float(MASSES @ (loss.losses - loss.mean) ** 2))
    theta = np.array([-3.0, 0.0, 2.0])
    direct = [np.log(np.sum(MASSES * np.exp(t * loss.losses))) for t in theta]
    assert loss.log_mgf(theta) == pytest.approx(direct, abs=1e-14)


def test_arrays_cannot_be_changed() -> None:
    loss = make()
    with pytest.raises(ValueError, match="read-only"):
        loss.masses[0] = 1.0
    with pytest.raises(ValueError, match="read-only"):
        loss.index[0] = 1


@pytest.mark.parametrize(
    ("mass", "left"), [(0.0, 4), (0.05, 4), (0.1, 3), (0.29, 3), (0.31, 2), (0.9, 1), (2.0, 1)]
)
def test_largest_losses_are_taken_out_up_to_a_mass(mass: float, left: int) -> None:
    kept = make(0.01).truncated(mass, keep=True)
    assert kept.index.tolist() == INDEX[:left].tolist()
    assert kept.infinite >= 0.01 + MASSES[left:].sum()  # never less than what was taken out
    assert kept.infinite == pytest.approx(0.01 + MASSES[left:].sum(), rel=1e-9)
    dropped = make(0.01).truncated(mass, keep=False)
    assert dropped.index.tolist() == INDEX[:left].tolist()
    assert dropped.infinite <= 0.01
    assert kept.lost == dropped.lost == 0.25
    assert kept.total * (1 + 1e-15) >= make(0.01).total >= dropped.total


def test_a_single_loss_stays_finite() -> None:
    one = DiscreteLoss(1.0, np.array([3]), np.array([1e-9]))
    for keep in (True, False):
        assert one.truncated(1.0, keep=keep).index.tolist() == [3]


def test_no_more_than_the_stated_mass_moves() -> None:
    rng = np.random.default_rng(5)
    masses = rng.random(400) ** 8
    masses /= masses.sum()
    loss = DiscreteLoss(0.1, np.arange(400), masses)
    for mass in (1e-3, 1e-6, 1e-12):
        moved = loss.truncated(mass, keep=True)
        assert moved.infinite <= mass * (1 + 1e-11)
        assert moved.infinite >= masses[moved.index.size :].sum()


def test_what_is_moved_to_infinity_is_rounded_up() -> None:
    rng = np.random.default_rng(11)
    for _ in range(100):
        masses = rng.random(50)
        masses /= masses.sum()
        moved = DiscreteLoss(0.1, np.arange(50), masses).truncated(0.5, keep=True)
        exact = sum(Fraction(float(mass)) for mass in masses[moved.index.size :])
        assert exact > 0
        assert Fraction(moved.infinite) >= exact
