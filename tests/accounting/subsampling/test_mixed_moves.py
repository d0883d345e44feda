"""Prices of moves of random size, held against many digits."""

from __future__ import annotations

import mpmath as mp
import numpy as np
import pytest

from mustdp.accounting.epochs.terms import MixedTerm, SwappedTerm, Term

SHIFTS = (1e-5, 1e-3, 0.05, 0.5, 1.0, 3.4, 10.0, 28.0)
WEIGHTS = ((1.0,), (1 - 1 / 234, 1 / 234), (0.999, 0.0009, 0.0001), (0.5, 0.5), (0.9, 0.0, 0.1))


def exact(term: MixedTerm, d: float) -> mp.mpf:
    """E(Z - d)_+ from the mean on and E(d - Z)_+ below, at the root found to 60 digits."""
    parts = [((c + 1) * mp.mpf(term.shift), mp.mpf(w)) for c, w in enumerate(term.weights) if w]
    g = mp.mpf(float(term.outcome(np.array([d]))[0]))
    for _ in range(6):
        value = sum(w * mp.exp(a * g - a * a / 2) for a, w in parts)
        g -= (value - mp.mpf(d)) / sum(a * w * mp.exp(a * g - a * a / 2) for a, w in parts)
    if d >= 1.0:
        return sum(w * mp.ncdf(a - g) for a, w in parts) - mp.mpf(d) * mp.ncdf(-g)
    return mp.mpf(d) * mp.ncdf(g) - sum(w * mp.ncdf(g - a) for a, w in parts)


def largest_error(shift: float, off: float = 0.0) -> float:
    worst, g = 0.0, np.concatenate([np.linspace(-30, 36, 12), np.array([-0.01, 0.01]) + shift / 2])
    with mp.workdps(60):
        for weights in WEIGHTS:
            term = MixedTerm(shift, weights)
            parts = [(c + 1, w) for c, w in enumerate(weights) if w]
            with np.errstate(over="ignore", under="ignore"):
                moved = [w * np.exp(c * shift * g - (c * shift) ** 2 / 2) for c, w in parts]
            d = np.sum(moved, axis=0)
            d = d[np.isfinite(d) & (d < 1e250) & (d > 1e-250)]
            for x, found in zip(d.tolist(), term.value(d).tolist(), strict=True):
                true = exact(term, x)
                if true > 1e-280:
                    worst = max(worst, abs(float(mp.mpf(found * (1.0 + off)) / true - 1)))
    return worst


@pytest.mark.parametrize("shift", SHIFTS)
def test_prices_are_as_accurate_as_they_say(shift: float) -> None:
    assert largest_error(shift) <= 0.25 * MixedTerm(shift, (1.0,)).error


def test_a_price_that_is_off_would_be_noticed() -> None:
    assert largest_error(1.0, 1e-10) > MixedTerm(1.0, (1.0,)).error


def test_one_copy_is_the_term_of_one_record() -> None:
    one, mixed, d = Term(0.7), MixedTerm(0.7, (1.0,)), np.array([0.1, 0.6, 1.0, 1.8, 30.0])
    assert mixed.value(d) == pytest.approx(one.value(d), rel=1e-12)
    assert mixed.deviation == pytest.approx(one.deviation)
    assert mixed.densest(d) == pytest.approx(one.densest(d))
    assert mixed.tails(d)[1] == pytest.approx(one.tails(d)[1])
    assert mixed.value(np.array([0.0, -1.0])).tolist() == [0.0, 0.0]


def test_the_density_is_bounded_between_points() -> None:
    term, d = MixedTerm(0.9, (0.7, 0.2, 0.1)), np.geomspace(0.01, 40.0, 80)
    below = term.tails(d)[0]
    assert np.all(np.diff(below) <= term.densest(d) * np.diff(d))
    assert np.all(np.diff(below) * 3.0 > 0.01 * term.densest(d) * np.diff(d))


def swapped_exact(term: SwappedTerm, d: float) -> mp.mpf:
    """E(D - d)_+ from the mean on and E(d - D)_+ below, at the root found to 60 digits."""
    parts = [((c + 1) * mp.mpf(term.shift), mp.mpf(w)) for c, w in enumerate(term.weights) if w]
    alpha = mp.mpf(term.alpha)
    g = mp.mpf(float(term.outcome(np.array([d]))[0]))
    for _ in range(6):
        value = speed = mp.mpf(0)
        for a, w in parts:
            right, left = (w * mp.exp(sign * a * g - a * a / 2) for sign in (1, -1))
            value += right - alpha * left
            speed += a * (right + alpha * left)
        g -= (value - mp.mpf(d)) / speed
    sign = 1 if d >= term.mean else -1
    means = [w * (mp.ncdf(sign * (a - g)) - alpha * mp.ncdf(sign * (-a - g))) for a, w in parts]
    return sign * (mp.fsum(means) - mp.mpf(d) * mp.ncdf(-sign * g))


def largest_swapped_error(shift: float, off: float = 0.0) -> float:
    worst, g = 0.0, np.concatenate([np.linspace(-30, 30, 9), [-0.01, 0.01]])
    with mp.workdps(80):
        for weights in WEIGHTS[1:]:
            for alpha in (1.0, 1.7, 1e4):
                term = SwappedTerm(shift, weights, alpha)
                d = np.append(term._at(g)[0], term.mean * (1.0 + 1e-9))
                d = d[np.isfinite(d) & (np.abs(d) < 1e250)]
                for x, found in zip(d.tolist(), term.value(d).tolist(), strict=True):
                    true = swapped_exact(term, x)
                    if true > 1e-280:
                        worst = max(worst, abs(float(mp.mpf(found * (1.0 + off)) / true - 1)))
    return worst


@pytest.mark.parametrize("shift", [1e-5, 1e-3, 0.05, 0.5, 1.0, 3.4])
def test_swapped_prices_are_as_accurate_as_they_say(shift: float) -> None:
    assert largest_swapped_error(shift) <= 0.25 * SwappedTerm(shift, (1.0,), 1.0).error


def test_a_swapped_price_that_is_off_would_be_noticed() -> None:
    assert largest_swapped_error(1.0, 1e-10) > SwappedTerm(1.0, (1.0,), 1.0).error


def test_one_swapped_copy_is_the_term_of_one_record() -> None:
    one, mixed = Term(0.7, 1.5), SwappedTerm(0.7, (1.0,), 1.5)
    d = np.array([-20.0, -0.5, -0.4, 0.0, 1.0, 30.0])
    assert mixed.value(d) == pytest.approx(one.value(d), rel=1e-12)
    assert mixed.deviation == pytest.approx(one.deviation)
    assert mixed.densest(d) == pytest.approx(one.densest(d))
    assert mixed.tails(d)[1] == pytest.approx(one.tails(d)[1])


def test_the_density_of_a_swapped_term_is_bounded_between_points() -> None:
    term, d = SwappedTerm(0.9, (0.7, 0.2, 0.1), 2.0), np.linspace(-40.0, 40.0, 301)
    below = term.tails(d)[0]
    assert np.all(np.diff(below) <= term.densest(d) * np.diff(d))
