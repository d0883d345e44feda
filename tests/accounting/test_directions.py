"""Adding or removing a record: every answer takes the larger of the two directions."""

from __future__ import annotations

from itertools import cycle

import numpy as np
import pytest
from scipy.integrate import trapezoid

import mustdp as md
from mustdp.accounting.pld.readoff import UpperCurve
from mustdp.accounting.subsampling.one_step import Direction, upper_bound
from tests.accounting.pld.mixture_pairs import ExactPair, family, two_steps
from tests.arrays import FloatArray

#: With Laplace noise adding a record is the worse direction at small epsilon, removing at large.
SCHEME, SHIFT = md.wor(10, 3), 0.5
CHANCES = [0.7, 0.3]
DIRECTIONS: tuple[Direction, ...] = ("remove", "add")
STEP = md.subsample(SCHEME, md.laplace(shift=SHIFT))


def pairs() -> list[ExactPair]:
    return [family(kind, CHANCES, SHIFT, "laplace") for kind in ("aligned", "reversed")]


def rough(epsilon: FloatArray) -> FloatArray:
    """A profile for which adding a record can be the worse direction, in one step too."""
    return 0.3 * np.maximum(0.0, 1.0 - np.exp(epsilon - 0.03)) + 1e-3 * np.exp(-epsilon)


def test_one_step_takes_the_larger_direction() -> None:
    cases: list[tuple[md.types.Scheme, md.types.Mechanism, Direction]] = [
        (md.wr(3, 12), md.custom(rough), "add"),
        (SCHEME, md.laplace(shift=SHIFT), "remove"),
    ]
    for scheme, mechanism, larger in cases:
        account = md.account(md.subsample(scheme, mechanism), relation="add_remove")
        for epsilon in (0.05, 0.1):
            at = np.array([epsilon])
            both = {
                way: float(
                    upper_bound(scheme, mechanism, at, relation="add_remove", direction=way)[0]
                )
                for way in DIRECTIONS
            }
            assert both[larger] == max(both.values()) > 1.02 * min(both.values())
            bounds = account.delta(epsilon)
            assert bounds.upper >= max(both.values())
            assert bounds.direction == larger
            # Asked the other way round, the smaller direction alone would answer with less.
            assert account.epsilon(max(both.values()) * (1 - 1e-9)).upper >= epsilon


def test_curves_take_the_larger_direction() -> None:
    account = md.account(md.repeat(2, STEP), relation="add_remove")
    epsilons = [0.05, 0.3]
    upper = account.curve(epsilons).upper
    values = [[two_steps(pair, pair, epsilon) for pair in pairs()] for epsilon in epsilons]
    assert np.argmax(values, axis=1).tolist() == [1, 0]
    assert np.all(upper >= np.max(values, axis=1) * (1 - 1e-6))


def test_renyi_orders_take_the_larger_direction() -> None:
    """Two steps have twice the divergence of one, by quadrature."""
    orders = np.array([1.5, 2.0, 8.0, 40.0])
    renyi = md.account(md.repeat(2, STEP), relation="add_remove").renyi(orders)
    x = np.linspace(-60.0, 60.0, 1_200_001)
    found = []
    for pair in pairs():
        p, q = pair.densities(x)
        moments = [trapezoid(p * np.exp((a - 1) * (np.log(p) - np.log(q))), x) for a in orders]
        found.append(2.0 * np.log(moments) / (orders - 1))
    assert np.all(np.abs(found[0] - found[1]) > 1e-3 * found[0])
    assert np.all(renyi.upper >= np.max(found, axis=0) * (1 - 1e-6))


@pytest.mark.parametrize("outside", [(1e-3, 1e-2), (1e-2, 1e-3)])
def test_renyi_leaves_out_what_the_worse_direction_does(
    monkeypatch: pytest.MonkeyPatch, outside: tuple[float, float]
) -> None:
    moments, left = UpperCurve.log_mgf, cycle(outside)

    def spoilt(self: UpperCurve, theta: FloatArray, rare: float) -> tuple[FloatArray, float]:
        return moments(self, theta, rare)[0], next(left)

    monkeypatch.setattr(UpperCurve, "log_mgf", spoilt)
    account = md.account(md.repeat(2, STEP), relation="add_remove")
    assert account.renyi([2.0]).outside == 1e-2
