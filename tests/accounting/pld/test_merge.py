"""Merged outcomes: the discrete loss is dominated by the concrete pair."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.typing import NDArray

from mustdp.accounting.pld.discretise import (
    DiscreteLoss,
    family_pair,
    find_point_masses,
    merge,
    offset_for,
    point_masses_of,
    spacing_for,
)
from mustdp.accounting.pld.readoff import ComposedLoss, Composition, ReadOff
from mustdp.mechanisms.mechanism import GaussianNoise, LaplaceNoise, Noise
from mustdp.types import MultiplicityLaw
from tests.accounting.pld.mixture_pairs import family

NOISES: dict[str, Noise] = {"gaussian": GaussianNoise(), "laplace": LaplaceNoise()}
FAMILIES = ("aligned", "reversed", "symmetric")
LAWS = {
    "always": [0.0, 1.0],
    "often": [0.4, 0.35, 0.2, 0.05],
    "rare": [0.99, 0.009, 0.001],
    "very rare": [1 - 1e-7, 1e-7],
}


def law_of(chances: list[float], cut: float = 0.0) -> MultiplicityLaw:
    return MultiplicityLaw(0, np.array(chances), cut, 1e-15)


def profile_of(loss: DiscreteLoss, epsilon: float) -> float:
    gains = -np.expm1(np.minimum(epsilon - loss.losses, 0.0))
    return math.fsum(loss.masses * gains)


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("law", LAWS)
def test_never_above_the_pair(noise: str, name: str, law: str) -> None:
    shift = 0.8
    exact = family(name, LAWS[law], shift, noise)
    pair = family_pair(name, law_of(LAWS[law]), NOISES[noise], shift)
    for spacing, points in (
        (0.03, np.arange(0, 300)),
        (0.2, np.array([0, 1, 2, 5, 11, 40])),
        (0.0017, np.unique(np.rint(np.geomspace(1, 4000, 200)).astype(np.int64))),
    ):
        start = np.concatenate([[0], points]) if points[0] else points
        loss = merge(pair, spacing, start)
        assert loss.infinite == 0.0
        assert np.all(loss.masses >= 0.0)
        assert loss.total <= 1.0
        assert loss.total >= 1.0 - 1e-9
        for epsilon in np.concatenate([np.linspace(-2.0, 3.0, 13), [-0.01, 0.005, 5.0]]).tolist():
            assert profile_of(loss, epsilon) <= exact.profile(epsilon)


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("name", FAMILIES)
def test_what_is_lost_is_of_second_order(noise: str, name: str) -> None:
    """Four times fewer points cost some sixteen times as much."""
    chances, shift, epsilon = LAWS["often"], 1.0, 0.3
    exact = float(family(name, chances, shift, noise).profile(epsilon))
    pair = family_pair(name, law_of(chances), NOISES[noise], shift)
    costs = [
        max(exact - profile_of(merge(pair, d, np.arange(int(8 / d))), epsilon), 0.0)
        for d in (0.08, 0.02, 0.005)
    ]
    assert costs[0] < 0.01 * exact
    assert costs[2] < costs[0] / 20 + 1e-12


def test_mass_left_out_of_the_law_belongs_to_q() -> None:
    """A law that leaves 5 % out says nothing about where they are: every completion is covered.

    On P's side what is missing can only add; on Q's side it must be charged.
    """
    chances, cut, shift = [0.8, 0.15], 0.05, 1.0
    law = law_of(chances, cut)
    noise = GaussianNoise()
    assert family_pair("aligned", law, noise, shift).lost == 0.0
    for name in FAMILIES:
        loss = merge(family_pair(name, law, noise, shift), 0.05, np.arange(200))
        if name != "aligned":
            assert loss.lost >= cut
        for place in (0, 1, 4):
            completed = [*chances, 0.0, 0.0, 0.0]
            completed[place] += cut
            exact = family(name, completed, shift, "gaussian")
            lower = ReadOff(Composition([(loss, 1)]), "lower")
            for epsilon in (0.0, 0.1, 0.5, 1.5):
                assert lower.delta(epsilon) <= exact.profile(epsilon)


def test_nothing_resolved_attains_nothing() -> None:
    """Components so far out that everything underflows still give a valid, empty bound."""
    pair = family_pair("aligned", law_of([0.5, 0.5]), GaussianNoise(), 1e5)
    loss = merge(pair, 0.1, np.arange(100))
    assert np.all(np.isfinite(loss.masses))
    assert loss.total <= 1.0
    assert ComposedLoss([(loss, 3)], "lower").delta(0.0) <= 1.0 - 0.5**3


def test_lumps_are_found_and_put_on_the_grid() -> None:
    points: NDArray[np.int64] = np.arange(0, 200)
    pair = family_pair("aligned", law_of([0.9, 0.1]), LaplaceNoise(), 0.5)
    low, high = math.log(0.9 + 0.1 * math.exp(-0.5)), math.log(0.9 + 0.1 * math.exp(0.5))
    point_masses = point_masses_of(pair, 0.004, points)
    assert len(point_masses) == 2
    assert point_masses[0].loss == pytest.approx(low, abs=1e-3)
    assert point_masses[1].loss == pytest.approx(high, abs=1e-3)
    spacing = spacing_for(point_masses, 0.004)
    assert 0.003 < spacing <= 0.004
    offset = offset_for(point_masses, spacing)
    for point_mass in point_masses:
        place = (point_mass.loss - offset) / spacing
        assert abs(place - round(place)) < 1e-5
    # A smooth loss has no point mass, and the grid stays where it is.
    smooth = family_pair("aligned", law_of([0.0, 1.0]), GaussianNoise(), 0.5)
    assert point_masses_of(smooth, 0.03, points) == []
    assert offset_for([], 0.03) == 0.0
    assert spacing_for([], 0.03) == 0.03
    assert find_point_masses(np.empty(0), np.empty(0), 0.1) == []


def test_lumps_cost_nothing_in_first_order() -> None:
    """Laplace atoms between grid points would be rounded down by up to a whole spacing."""
    chances, shift, steps = [0.9, 0.1], 0.5, 50
    pair = family_pair("aligned", law_of(chances), LaplaceNoise(), shift)
    answers = []
    for wanted in (0.004, 0.0005):
        points = np.arange(0, int(0.2 / wanted))
        point_masses = point_masses_of(pair, wanted, points)
        loss = merge(pair, spacing_for(point_masses, wanted), points, point_masses)
        answers.append(ComposedLoss([(loss, steps)], "lower").epsilon(1e-5))
    assert answers[0] == pytest.approx(answers[1], rel=1e-3)
