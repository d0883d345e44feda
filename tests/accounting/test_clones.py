"""Shuffled epochs with less noise: clones, by integration, exact laws and attained values."""

from __future__ import annotations

import itertools
import math
from functools import partial

import numpy as np
import pytest
from scipy import stats
from scipy.integrate import trapezoid

import mustdp as md
from mustdp.accounting.epochs.clones import Clones, Ladder, Rung, fewer
from mustdp.accounting.epochs.replace_one import ReplacedProfile
from mustdp.accounting.epochs.shuffling import _swapped_ratio


def _clones(radius: float, bins: int) -> Clones:
    return Clones(
        radius,
        bins,
        lambda k: ReplacedProfile(radius, k, k),
        partial(_swapped_ratio, radius),
    )


def _plain(radius: float, epsilon: float) -> float:
    return float(md.gaussian(shift=2 * radius).delta([epsilon])[0])


@pytest.mark.parametrize(("p", "away"), [(0.05, 0.5), (0.3, 0.5), (0.05, 1.0), (0.6, 0.25)])
def test_a_release_is_below_a_mixture_with_an_empty_place(p: float, away: float) -> None:
    """The densities of the proof, integrated: masses, order, and the distance that is charged.

    Another record in the place moves the release less, or the other way.
    """
    ladder = Ladder.of(np.array([-math.log(p)]), 10**6, away)
    raised = float(ladder.cost[0]) / 1e6
    assert ladder.log_growth[0] == pytest.approx(1e6 * math.log1p(raised), rel=1e-6)
    x = np.linspace(-12.0, 12.0 + away, 400_001)
    empty = stats.norm.pdf(x)
    for move in (away, -away, 0.4 * away, 0.0):
        other = stats.norm.pdf(x - move)
        eta = trapezoid(np.maximum(p * empty - other, 0.0), x)
        assert eta <= raised * (1.0 + 1e-6) + 1e-12
        if abs(move) == away:
            assert raised == pytest.approx(eta, rel=1e-6)
        rest = np.maximum(other - p * empty, 0.0) + (raised - eta) * other
        mixed = (p * empty + rest) / (1.0 + raised)
        assert trapezoid(mixed, x) == pytest.approx(1.0, abs=1e-8)
        # Below it, up to the factor that is charged, which could be no smaller for the farthest.
        assert np.all(other <= (1.0 + raised) * mixed * (1.0 + 1e-12))
        if abs(move) == away:
            assert np.max(other / mixed) == pytest.approx(1.0 + raised, rel=1e-3 * raised + 1e-9)
        assert trapezoid(np.maximum(mixed - other, 0.0), x) <= raised * (1.0 + 1e-6)


@pytest.mark.parametrize(("count", "p"), [(999, 0.05), (50, 0.4), (10**5, 1e-3), (7, 0.9)])
def test_chances_of_few_clones_are_bounded(count: int, p: float) -> None:
    k = np.arange(0, int(count * p) + 2)
    exact, found = stats.binom(count, p).cdf(k - 1), fewer(count, np.array(p), k)
    assert np.all(found >= exact)
    assert found[0] == 0.0
    assert fewer(count, np.array(p), np.array(math.ceil(count * p) + 1)) == 1.0
    rare = (exact > 1e-250) & (exact < 0.1) & (k > 1)
    assert np.all(found[rare] <= 3.0 * exact[rare])


def test_levels_bound_the_mean_over_the_number_of_clones() -> None:
    radius, bins, epsilon = 0.5, 60, 0.4
    x, plain = math.expm1(0.4), _plain(0.5, 0.4)
    clones = _clones(radius, bins)
    rung = clones.chosen(x, plain)
    assert rung is not None
    assert len(rung.levels) > 1
    row = int(np.flatnonzero(clones.ladder.cost == rung.cost)[0])
    eta = rung.cost / (bins - 1)
    p = math.exp(-(0.2 + 0.02 * row)) / (1.0 + eta)
    law = stats.binom(bins - 1, p).pmf(np.arange(bins))
    at = np.array([epsilon])
    exact = law[0] * plain + sum(
        chance * float(ReplacedProfile(radius, k + 1, k + 1)(at)[0])
        for k, chance in enumerate(law)
        if k and chance > 1e-14
    )
    free = Rung(0.0, 0.0, rung.levels)
    assert exact <= clones.value(free, x, plain) <= 2.0 * exact


def test_without_its_cost_the_bound_would_be_too_small() -> None:
    """If most others were clones for nothing, less would be certified than is attained.

    At a noise multiplier of 2, 1000 batches attain epsilon = 0.1716 at this delta.
    """
    delta, x = 1e-6, math.expm1(0.1716)
    clones = _clones(0.5, 1000)
    first = clones.ladder.rung(0, [10, 14])
    free = Rung(0.0, 0.0, first.levels)
    assert clones.value(free, x, 1.0) < 0.5 * delta < delta < clones.bound(x, 1.0)


@pytest.mark.parametrize("epsilon", [0.0, 0.01, 0.3])
def test_growth_is_charged(epsilon: float) -> None:
    """Of alpha and of chances, on either side of where alpha falls below one."""
    clones, plain, x = _clones(0.5, 200), _plain(0.5, epsilon), math.expm1(epsilon)
    rung = clones.chosen(x, plain)
    assert rung is not None
    growth, levels = 0.05, rung.levels[:1]
    (k, rarer), g = levels[0], math.exp(growth)
    nearer = ReplacedProfile(0.5, k + 1, k + 1)(np.array([max(epsilon - growth, 0.0)]))
    # Compared with more than no amplification, so that it is added up to its end.
    most = 1.0 + plain
    wanted = g * float(nearer[0]) + max(g - 1.0 - x, 0.0) + rarer * (most + g - 1.0)
    found = clones.value(Rung(0.0, growth, levels), x, most)
    assert wanted <= found <= wanted * (1.0 + 1e-6)


@pytest.mark.parametrize(
    ("radius", "bins", "epsilon"), [(0.33, 234, 0.1), (0.5, 200, 0.2), (1.0, 60, 0.5)]
)
def test_what_is_chosen_is_close_to_the_best(radius: float, bins: int, epsilon: float) -> None:
    """Against all p with seven levels each, evaluated."""
    clones, x, plain = _clones(radius, bins), math.expm1(epsilon), _plain(radius, epsilon)
    found = clones.bound(x, plain)
    rungs = [clones.ladder.rung(row, list(range(1, 15, 2))) for row in range(0, 400, 8)]
    best = min(clones.value(rung, x, plain) for rung in rungs)
    assert found <= best * 1.02
    # Whatever was asked before, it is the same to within the accuracy of accounts.
    fresh = _clones(radius, bins)
    for other in (0.0, 2.0 * x):
        fresh.bound(other, plain)
    assert fresh.bound(x, plain) == pytest.approx(found, rel=5e-3)


@pytest.mark.parametrize("relation", ["replace_one", "add_remove"])
def test_finely_spaced_noises_are_in_order(relation: str) -> None:
    """What is chosen changes with the noise, and what it gives hardly does."""
    found = []
    for z in 2.6 + 0.004 * np.arange(8):
        plan = md.subsample(md.shuffle(60_000, 60), md.gaussian(noise_multiplier=float(z)))
        account = md.account(plan, relation=relation)
        found.append(math.log(account.delta(0.29).upper))
    assert np.all(np.diff(found) < 0.0)
    assert np.max(np.abs(np.diff(found, 2))) < 0.03


@pytest.mark.parametrize(
    ("z", "relation", "most"),
    [
        (1.0, "replace_one", 10.7),
        (1.5, "replace_one", 1.62),
        (2.0, "replace_one", 0.593),
        (2.0, "add_remove", 0.303),
        (3.0, "replace_one", 0.223),
    ],
)
def test_one_epoch_of_a_thousand_batches(z: float, relation: str, most: float) -> None:
    plan = md.subsample(md.shuffle(60_000, 60), md.gaussian(noise_multiplier=z))
    found = md.account(plan, relation=relation).epsilon(1e-6)
    assert found.lower < found.upper <= most


@pytest.mark.parametrize("z", [0.8, 2.0])
@pytest.mark.parametrize("order", [1.0, -1.0])
def test_all_orders_of_a_small_epoch_added_up(order: float, z: float) -> None:
    """Six batches of one record each, whose others are as far away as they can be, or at random.

    The densities of all orders are added up exactly; 4000 draws for each data set.
    """
    rng = np.random.default_rng(7)
    s, batches = 1.0 / z, 6
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
