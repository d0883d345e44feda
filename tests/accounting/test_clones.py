"""Shuffled epochs with less noise: clones, by integration, exact laws and attained values."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy import stats
from scipy.integrate import trapezoid

import mustdp as md
from mustdp.accounting.epochs.clones import Clones, Rung, fewer
from mustdp.accounting.epochs.replace_one import ReplacedProfile


@pytest.mark.parametrize(("p", "away"), [(0.05, 0.5), (0.3, 0.5), (0.05, 1.0), (0.6, 0.25)])
def test_a_release_is_a_mixture_with_an_empty_place(p: float, away: float) -> None:
    """The densities of the proof, integrated: masses of one, and the distance that is charged."""
    x = np.linspace(-12.0, 12.0 + away, 200_001)
    with_record, empty = stats.norm.pdf(x - away), stats.norm.pdf(x)
    left = trapezoid(np.maximum(p * empty - with_record, 0.0), x)
    rest = np.maximum(with_record - p * empty, 0.0) / (1.0 - p + left)
    mixed = p * empty + (1.0 - p) * rest
    assert trapezoid(rest, x) == pytest.approx(1.0, abs=1e-8)
    assert trapezoid(np.abs(mixed - with_record), x) / 2.0 == pytest.approx(left, abs=1e-9)
    rung = Rung.of(-math.log(p), 10**6, away)
    assert rung is not None
    assert rung.cost / 1e6 == pytest.approx(left, rel=1e-7)


@pytest.mark.parametrize(("count", "p"), [(999, 0.05), (50, 0.4), (10**5, 1e-3)])
def test_chances_of_few_clones_are_bounded(count: int, p: float) -> None:
    for k in range(0, int(count * p) + 2, max(1, int(count * p) // 12)):
        assert fewer(count, p, k) >= stats.binom(count, p).cdf(k - 1)
    assert fewer(count, p, 0) == 0.0
    assert fewer(count, p, math.ceil(count * p) + 1) == 1.0


def test_levels_bound_the_mean_over_the_number_of_clones() -> None:
    radius, bins, x = 0.5, 60, math.expm1(0.4)
    h = 0.8
    clones = Clones(radius, bins, lambda k: ReplacedProfile(radius, k, k))
    rung = Rung.of(h, bins - 1, radius)
    assert rung is not None
    plain = float(md.gaussian(shift=2 * radius).delta([0.4])[0])
    law = stats.binom(bins - 1, math.exp(-h)).pmf(np.arange(bins))
    epsilon = np.array([0.4])
    exact = law[0] * plain + sum(
        chance * float(ReplacedProfile(radius, k + 1, k + 1)(epsilon)[0])
        for k, chance in enumerate(law)
        if k and chance > 1e-14
    )
    assert exact <= clones.value(Rung(0.0, rung.levels), x, plain) <= 3.0 * exact


def test_without_its_cost_the_bound_would_be_too_small() -> None:
    """If most others were clones for nothing, less would be certified than is attained.

    At a noise multiplier of 2, 1000 batches attain epsilon = 0.1716 at this delta.
    """
    radius, bins, delta = 0.5, 1000, 1e-6
    x = math.expm1(0.1716)
    clones = Clones(radius, bins, lambda k: ReplacedProfile(radius, k, k))
    rung = clones.rungs[0]
    free = Rung(0.0, rung.levels)
    assert clones.value(free, x, 1.0) < 0.5 * delta < delta < clones.bound(x, 1.0)


def test_what_is_left_out_early_could_not_have_been_smaller() -> None:
    """A p is given up only where its whole bound is above the one to beat; the best p stands."""
    radius, bins, x, plain = 0.5, 200, 0.2, 0.3
    clones = Clones(radius, bins, lambda k: ReplacedProfile(radius, k, k))
    some = clones.rungs[::8]
    whole = [clones.value(rung, x, plain) for rung in some]
    for rung, value in zip(some, whole, strict=True):
        assert clones.value(rung, x, plain, value * 1.0001) == value
        assert clones.value(rung, x, plain, 0.5 * value) >= 0.5 * value
    fresh = Clones(radius, bins, clones._allocated)
    assert fresh.bound(x, plain) <= whole[0]
    assert fresh.bound(x, plain) == pytest.approx(
        min(clones.value(rung, x, plain) for rung in clones.rungs), rel=0.02
    )


@pytest.mark.parametrize(
    ("z", "relation", "most"),
    [(2.0, "replace_one", 0.66), (2.0, "add_remove", 0.34), (3.0, "replace_one", 0.25)],
)
def test_one_epoch_of_a_thousand_batches(z: float, relation: str, most: float) -> None:
    plan = md.subsample(md.shuffle(60_000, 60), md.gaussian(noise_multiplier=z))
    found = md.account(plan, relation=relation).epsilon(1e-6)
    assert found.lower < found.upper <= most


@pytest.mark.parametrize("order", [1.0, -1.0])
def test_all_orders_of_a_small_epoch_added_up(order: float) -> None:
    """Six batches of one record each, whose others are as far away as they can be, or at random.

    The densities of all orders are added up exactly; 4000 draws for each data set.
    """
    rng = np.random.default_rng(7)
    z, batches = 2.0, 6
    s = 1.0 / z
    plan = md.subsample(md.shuffle(batches, 1), md.gaussian(noise_multiplier=z))
    account = md.account(plan, relation="replace_one")
    places = np.array(list(itertools.permutations(range(batches))))
    for others in (np.full(5, -s), np.zeros(5), rng.choice([-s, s], 5)):
        with_x, without = np.append(others, s * order), np.append(others, -s * order)
        drawn = rng.normal(size=(4000, batches)) + with_x[places[rng.integers(720, size=4000)]]

        def density(values: np.ndarray[tuple[int], np.dtype[np.float64]]) -> object:
            at = values[places]
            return np.exp(drawn @ at.T - 0.5 * (at**2).sum(axis=1)).mean(axis=1)  # noqa: B023

        ratio = np.asarray(density(without)) / np.asarray(density(with_x))
        for epsilon in (0.0, 0.3, 0.8):
            gain = np.maximum(1.0 - math.exp(epsilon) * ratio, 0.0)
            error = float(gain.std()) / math.sqrt(gain.size)
            assert float(gain.mean()) - 4.0 * error <= account.delta(epsilon).upper
