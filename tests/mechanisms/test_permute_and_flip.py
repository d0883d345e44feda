"""Permute-and-flip against its own algorithm, every order and coin added up."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

import mustdp as md
from tests.arrays import FloatArray


def chosen(utilities: tuple[float, ...], epsilon: float) -> FloatArray:
    """The law of what is released, for utilities that one record changes by at most 1."""
    size, best = len(utilities), max(utilities)
    found = np.zeros(size)
    orders = list(itertools.permutations(range(size)))
    for order in orders:
        left = 1.0 / len(orders)
        for k in order:
            taken = left * math.exp(epsilon * (utilities[k] - best) / 2)
            found[k] += taken
            left -= taken
    return found


def divergence(p: FloatArray, q: FloatArray, at: float) -> float:
    return float(np.maximum(p - math.exp(at) * q, 0.0).sum())


@pytest.mark.parametrize("epsilon", [0.3, 1.5])
def test_no_utilities_cost_more_than_is_certified(epsilon: float) -> None:
    account = md.account(md.permute_and_flip(epsilon))
    asked = [share * epsilon for share in (0.0, 0.4, 0.9)]
    certified = [account.delta(at) for at in asked]
    worst = [0.0] * len(asked)
    for before in itertools.product((0.0, 0.7, 2.0), repeat=3):
        for moved in itertools.product((-1.0, 0.0, 1.0), repeat=3):
            after = tuple(u + d for u, d in zip(before, moved, strict=True))
            p, q = chosen(before, epsilon), chosen(after, epsilon)
            worst = [max(w, divergence(p, q, at)) for w, at in zip(worst, asked, strict=True)]
    for at, exact, bounds in zip(asked, worst, certified, strict=True):
        assert exact <= bounds.upper * (1 + 1e-9)
        # Two candidates attain what Laplace noise does, at every epsilon by another pair.
        two = max(
            divergence(chosen((0.0, gap), epsilon), chosen((1.0, gap - 1.0), epsilon), at)
            for gap in np.linspace(0.0, 2.0, 400)
        )  # fmt: skip
        assert two == pytest.approx(-math.expm1((at - epsilon) / 2), rel=1e-3)


def test_the_pair_below_is_that_of_the_algorithm() -> None:
    epsilon = 0.8
    p, q = chosen((1.0, 0.0), epsilon), chosen((0.0, 1.0), epsilon)
    for at in (0.0, 0.1, 0.3):
        found = md.account(md.permute_and_flip(epsilon)).delta(at)
        assert found.lower == pytest.approx(divergence(p, q, at), rel=1e-9)


def test_bounded_range_would_be_wrong_for_it() -> None:
    epsilon = 1.0
    p, q = chosen((1.0, 0.0), epsilon), chosen((0.0, 1.0), epsilon)
    ranged = md.account(md.exponential_mechanism(epsilon)).delta(0.0).upper
    assert divergence(p, q, 0.0) > 1.2 * ranged
