"""The recursion against closed forms, brute force over two members, and its own window."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from mustdp import NumericalFailure
from mustdp.accounting.families.recursion import LossWindow, Recursion, delta_at, epsilon_at
from mustdp.accounting.families.triples import line_profile
from mustdp.accounting.pld.discretise import (
    DiscreteLoss,
    connect_values,
    family_pair,
    just_below,
    merge,
)
from mustdp.mechanisms.mechanism import GaussianNoise
from mustdp.types import MultiplicityLaw
from tests.arrays import FloatArray

NOISE = GaussianNoise()
ONE = MultiplicityLaw(1, np.ones(1), 0.0, 0.0)
Q, S = 0.2, 1.1
LAW = MultiplicityLaw(0, np.array([1.0 - Q, Q]), 0.0, 1e-16)
D = 0.01
POINTS = np.arange(0, 500, dtype=np.int64)
WINDOW = LossWindow(D, -250, 500, 499, 300, 2.0)


def gauss(shift: float) -> tuple[DiscreteLoss, DiscreteLoss]:
    h = NOISE.profile(np.asarray(shift), just_below(D, POINTS))
    pair = family_pair("aligned", ONE, NOISE, shift)
    return connect_values(D, POINTS, h, h), merge(pair, D, POINTS, [])


def run(window: LossWindow, side: str, members: list[DiscreteLoss], steps: int) -> Recursion:
    recursion = Recursion(window, side)  # type: ignore[arg-type]
    kernels = recursion.kernels(members)
    for _ in range(steps):
        recursion.step(kernels)
    return recursion


@pytest.mark.parametrize("steps", [1, 2, 9])
@pytest.mark.parametrize("tilt", [0.0, 1.0, 6.0])
def test_a_family_of_one_composes_gaussians(steps: int, tilt: float) -> None:
    up, down = gauss(0.3)
    window = replace(WINDOW, tilt=tilt)
    upper, lower = run(window, "upper", [up], steps), run(window, "lower", [down], steps)
    for epsilon in (0.0, 0.4, 1.0, 1.7):
        exact = float(NOISE.profile(np.asarray(0.3 * math.sqrt(steps)), np.asarray(epsilon)))
        assert exact <= delta_at(upper, epsilon) <= 1.01 * exact + 1e-7
        assert 0.97 * exact - 1e-7 <= delta_at(lower, epsilon) <= exact
    for delta in (1e-2, 1e-4):
        low, high = epsilon_at(lower, delta), epsilon_at(upper, delta)
        for epsilon, sign in ((low, 1.0), (high, -1.0)):
            value = float(NOISE.profile(np.asarray(0.3 * math.sqrt(steps)), np.asarray(epsilon)))
            assert epsilon == 0.0 or sign * (value - delta) >= 0.0
        assert high - low <= 2.5 * D


def test_small_deltas_need_the_tilt_and_keep_their_digits() -> None:
    up, down = gauss(0.3)
    window = LossWindow(D, -250, 1200, 499, 300, 8.0)
    exact = float(NOISE.profile(np.asarray(0.3 * 4.0), np.asarray(9.0)))
    assert exact < 1e-11
    assert exact <= delta_at(run(window, "upper", [up], 16), 9.0) <= 1.05 * exact
    assert 0.9 * exact <= delta_at(run(window, "lower", [down], 16), 9.0) <= exact
    blunt = run(replace(window, tilt=0.0), "upper", [up], 16)
    assert delta_at(blunt, 9.0) >= exact


def test_one_step_is_the_profile() -> None:
    up, _ = gauss(0.7)
    h = NOISE.profile(np.asarray(0.7), POINTS[:300].astype(np.float64) * D)
    values = run(WINDOW, "upper", [up], 1).values[-WINDOW.first :][:300]
    assert np.all(values >= h)
    assert values == pytest.approx(h, rel=1e-6, abs=1e-9)


def test_a_narrow_window_is_looser_never_wrong() -> None:
    up, down = gauss(0.3)
    wide = run(WINDOW, "upper", [up], 9)
    for narrow in (
        replace(WINDOW, first=-20),
        replace(WINDOW, last=160),
        replace(WINDOW, up=40),
        replace(WINDOW, down=10),
    ):
        assert delta_at(run(narrow, "upper", [up], 9), 1.2) >= delta_at(wide, 1.2) * (1 - 1e-9)
        exact = float(NOISE.profile(np.asarray(0.9), np.asarray(1.2)))
        assert delta_at(run(narrow, "lower", [down], 9), 1.2) <= exact


def loss_of(x: FloatArray) -> FloatArray:
    return np.asarray(np.log(1.0 - Q + Q * np.exp(S * x - 0.5 * S * S)))


def brute_force(epsilon: float, steps: int, average: bool = False) -> float:
    """Aligned or reversed, chosen anew in every step, by quadrature over outcomes."""
    e = np.linspace(-5.0, 5.0, 2001)
    x = np.linspace(-9.0, 10.0, 4001)
    still = np.exp(-0.5 * x * x) / math.sqrt(2.0 * math.pi) * (x[1] - x[0])
    moved = still * np.exp(loss_of(x))
    g = np.maximum(-np.expm1(e), 0.0)
    for _ in range(steps):
        choices = []
        for masses, losses in ((moved, loss_of(x)), (still, -loss_of(x))):
            inside = np.interp(e[:, None] - losses[None, ::4], e, g, left=1.0, right=0.0)
            choices.append(inside @ (4.0 * masses[::4]))
        g = 0.5 * (choices[0] + choices[1]) if average else np.maximum(*choices)
    return float(np.interp(epsilon, e, g))


@pytest.mark.parametrize("steps", [2, 3])
def test_two_members_against_brute_force(steps: int) -> None:
    at = just_below(D, POINTS)
    forward = line_profile(NOISE, Q, S, S, at)
    backward = line_profile(NOISE, Q, 0.0, S, at)
    aligned = connect_values(D, POINTS, forward, backward)
    reverse = connect_values(D, POINTS, backward, forward)
    upper = run(WINDOW, "upper", [aligned, reverse], steps)
    pairs = [merge(family_pair(n, LAW, NOISE, S), D, POINTS, []) for n in ("aligned", "reversed")]
    lower = run(WINDOW, "lower", pairs, steps)
    for epsilon in (0.0, 0.3, 0.8):
        exact = brute_force(epsilon, steps)
        assert exact * (1 - 2e-4) <= delta_at(upper, epsilon) <= exact * 1.01
        assert exact * 0.97 <= delta_at(lower, epsilon) <= exact * (1 + 2e-4)
        # A mean over the members in place of the worst one lies below what is attained.
        assert brute_force(epsilon, steps, average=True) < delta_at(lower, epsilon)


def test_more_members_never_give_less() -> None:
    at = just_below(D, POINTS)
    forward, backward = (line_profile(NOISE, Q, u, S, at) for u in (S, 0.4))
    one = connect_values(D, POINTS, forward, backward)
    two = connect_values(D, POINTS, backward, forward)
    alone, both = run(WINDOW, "upper", [one], 4), run(WINDOW, "upper", [one, two], 4)
    assert np.all(both.values >= alone.values * (1.0 - 1e-9))
    assert np.any(both.values > alone.values * 1.001)


def test_other_grids_and_steep_tilts_are_refused() -> None:
    up, _ = gauss(0.3)
    with pytest.raises(NumericalFailure, match="another grid"):
        Recursion(WINDOW, "upper").kernels([replace(up, spacing=0.02)])
    with pytest.raises(NumericalFailure, match="too steep"):
        Recursion(replace(WINDOW, tilt=100.0), "upper")
