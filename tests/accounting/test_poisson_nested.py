"""Poisson sampling around several releases, and inside another stage."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

import mustdp as md
from tests.arrays import FloatArray

RATE, SCALE = 0.4, 1.3
INTEGERS = np.arange(-60, 64)


def noisy(total: int) -> FloatArray:
    """Discrete Laplace noise on an integer, from its definition."""
    masses = np.exp(-np.abs(INTEGERS - total) / SCALE)
    return np.asarray(masses / masses.sum())


def divergence(p: FloatArray, q: FloatArray, epsilon: float) -> float:
    return float(np.maximum(p - math.exp(epsilon) * q, 0.0).sum())


@pytest.mark.parametrize("releases", [2, 9])
@pytest.mark.parametrize("rate", [0.01, 0.3, 1.0])
def test_gaussian_releases_on_one_poisson_draw_are_one_release(releases: int, rate: float) -> None:
    """Releases on the same records add up to one with less noise: an exact answer."""
    z = 3.0
    plan = md.subsample(md.poisson(100, rate), md.repeat(releases, md.gaussian(noise_multiplier=z)))
    alone = md.gaussian(noise_multiplier=z / math.sqrt(releases))
    exact = md.account(md.subsample(md.poisson(100, rate), alone))
    found = md.account(plan)
    assert found.relation == "add_remove"
    for epsilon in (0.05, 0.5):
        bounds, truth = found.delta(epsilon), exact.delta(epsilon)
        assert truth.lower * (1 - 1e-6) <= bounds.upper <= truth.upper * 1.02 + 1e-12
        assert bounds.lower == pytest.approx(truth.lower, rel=1e-3)


def test_a_sequence_on_one_poisson_draw_against_all_data_sets() -> None:
    """Two different releases of a count on one draw, every pair of neighbours added up."""
    plan = md.subsample(
        md.poisson(2, RATE),
        md.sequence(md.discrete_laplace(scale=SCALE), md.randomized_response(0.7)),
    )
    account, told = md.account(plan), math.exp(0.7) / (1 + math.exp(0.7))

    def output(values: tuple[int, ...]) -> FloatArray:
        total: FloatArray = np.zeros((2, INTEGERS.size))
        for kept in itertools.product((0, 1), repeat=len(values)):
            chance = math.prod(RATE if one else 1 - RATE for one in kept)
            count = sum(itertools.compress(values, kept))
            truth = int(count > 0)
            answer = np.array([told if truth == side else 1 - told for side in (0, 1)])
            total = total + chance * np.outer(answer, noisy(count))
        return total

    for epsilon in (0.0, 0.2, 0.6):
        pairs = [(output((1, *rest)), output(rest)) for rest in itertools.product((0, 1), repeat=1)]
        worst = max(max(divergence(p, q, epsilon), divergence(q, p, epsilon)) for p, q in pairs)
        assert worst <= account.delta(epsilon).upper * (1 + 1e-9)
        assert account.delta(epsilon).lower <= worst * (1 + 1e-9)
        assert account.delta(epsilon).upper <= 1.35 * worst


@pytest.mark.parametrize("kind", ["wor", "wr"])
def test_thinning_inside_a_stage_against_all_data_sets(kind: str) -> None:
    """A count of entries of a first stage that a coin keeps, every pair of neighbours added up."""
    n, size = 3, 2
    stage = md.wor(n, size) if kind == "wor" else md.wr(n, size)
    plan = md.subsample(
        stage, md.subsample(md.poisson(size, RATE), md.discrete_laplace(scale=SCALE))
    )
    account = md.account(plan)
    assert account.relation == "replace_one"
    lists = list(
        itertools.permutations(range(n), size)
        if kind == "wor"
        else itertools.product(range(n), repeat=size)
    )

    def output(values: tuple[int, ...]) -> FloatArray:
        total: FloatArray = np.zeros(INTEGERS.size)
        for drawn in lists:
            for kept in itertools.product((0, 1), repeat=size):
                chance = math.prod(RATE if one else 1 - RATE for one in kept) / len(lists)
                entries = itertools.compress((values[k] for k in drawn), kept)
                total = total + chance * noisy(sum(entries))
        return total

    for epsilon in (0.0, 0.15, 0.4):
        worst = 0.0
        for rest in itertools.product((0, 1), repeat=n - 1):
            p, q = output((1, *rest)), output((0, *rest))
            worst = max(worst, divergence(p, q, epsilon), divergence(q, p, epsilon))
        found = account.delta(epsilon)
        assert found.lower <= worst * (1 + 1e-9)
        assert worst <= found.upper * (1 + 1e-9) + 1e-15
        assert found.upper <= 1.3 * worst + 1e-3


@pytest.mark.parametrize("relation", ["replace_one"])
def test_thinned_draws_with_replacement_have_the_law_of_more_records(relation: str) -> None:
    """wr(20, 8) thinned by half has the copies of wr(40, 8): its attained pairs, and its bound."""
    noise = md.gaussian(noise_multiplier=2.0)
    thinned = md.subsample(md.wr(20, 8), md.subsample(md.poisson(8, 0.5), noise))
    flat = md.account(md.subsample(md.wr(40, 8), noise), relation=relation, composition="pair")
    found = md.account(thinned, relation=relation)
    stated = md.subsample(md.poisson(8, 0.5), md.gaussian(shift=1.0))
    general = md.account(md.subsample(md.wr(20, 8), stated), relation=relation)
    for epsilon in (0.1, 0.4, 0.8):
        assert general.delta(epsilon).upper == pytest.approx(flat.delta(epsilon).upper, rel=0.05)
        assert found.delta(epsilon).upper < general.delta(epsilon).upper  # places stay empty
        assert 0 < found.delta(epsilon).lower <= flat.delta(epsilon).upper
        # A coin that is forgotten would cost about twice as much.
        full = md.account(md.subsample(md.wr(20, 8), noise)).delta(epsilon).lower
        assert found.delta(epsilon).upper < 0.9 * full


def test_thinned_subsets_that_are_reused_cost_more_than_fresh_ones() -> None:
    step = md.subsample(md.poisson(30, 0.5), md.gaussian(noise_multiplier=4.0))
    reused = md.account(md.subsample(md.wor(300, 30), md.repeat(10, step))).epsilon(1e-4)
    fresh = md.account(md.repeat(10, md.subsample(md.wor(300, 30), step))).epsilon(1e-4)
    assert fresh.upper < reused.upper
    assert 0 < reused.lower <= reused.upper


@pytest.mark.parametrize("count", [1, 4])
def test_gaussian_releases_on_one_poisson_draw_with_a_record_replaced(count: int) -> None:
    """As one release with less noise, which is exact; before, without what lies in a ball."""
    draw, z = md.poisson(100, 0.2), 2.0
    plan = md.subsample(draw, md.repeat(count, md.gaussian(noise_multiplier=z)))
    alone = md.subsample(draw, md.gaussian(noise_multiplier=z / math.sqrt(count)))
    found, one = (md.account(each, relation="replace_one") for each in (plan, alone))
    for epsilon in (0.05, 0.5, 1.5):
        bounds, truth = found.delta(epsilon), one.delta(epsilon)
        assert truth.lower * (1 - 1e-9) <= bounds.upper <= truth.upper * (1 + 1e-9)
        assert bounds.lower == pytest.approx(truth.lower, rel=1e-9)


def test_releases_that_depend_on_earlier_outputs_are_covered() -> None:
    """Every strategy for the second release that looks at the first one's sign and size."""
    rate, z, generator = 0.4, 1.0, np.random.default_rng(3)
    points = np.linspace(-9.0, 9.0, 721)
    spacing, noise = points[1] - points[0], np.exp(-0.5 * points**2) / math.sqrt(2 * math.pi)

    def moved(by: FloatArray) -> FloatArray:
        """Densities of the second output for each first one."""
        return np.asarray(np.exp(-0.5 * (points[None, :] - by[:, None]) ** 2) / 2.5066282746310002)

    def drawn(first: float, second: FloatArray) -> FloatArray:
        ahead = np.exp(-0.5 * (points - first) ** 2) / math.sqrt(2 * math.pi)
        taken = ahead[:, None] * moved(second)
        empty = noise[:, None] * noise[None, :]
        return np.asarray((rate * taken + (1 - rate) * empty) * spacing**2)

    plan = md.subsample(md.poisson(10, rate), md.repeat(2, md.gaussian(noise_multiplier=z)))
    account = md.account(plan, relation="replace_one")
    closest = 0.0
    for trial in range(40):
        cells = np.digitize(points, np.sort(generator.normal(size=3)))
        a, b = (
            generator.choice([-1.0, 0.0, 1.0], size=(2, 4))
            if trial
            else np.ones((2, 4)) * [[1], [-1]]
        )
        ahead, behind = generator.choice([-1.0, 0.0, 1.0], size=2) if trial else (1.0, -1.0)
        p, q = drawn(ahead / z, a[cells] / z), drawn(behind / z, b[cells] / z)
        for epsilon in (0.0, 0.3, 1.0):
            worst = max(divergence(p, q, epsilon), divergence(q, p, epsilon))
            upper = account.delta(epsilon).upper
            assert worst <= upper * (1 + 1e-4)  # a sum over cells
            closest = max(closest, worst / upper)
    assert closest > 0.999  # opposite ends, whatever came out


def test_thinned_batches_know_that_contributions_lie_in_a_ball() -> None:
    """One batch of all records, thinned, is Poisson sampling: exact there, and closer elsewhere."""
    noise = md.gaussian(noise_multiplier=1.0)
    whole = md.subsample(md.wr(1, 1), md.subsample(md.poisson(1, 0.5), noise))
    poisson = md.subsample(md.poisson(1, 0.5), noise)
    for epsilon in (0.1, 1.0):
        found = md.account(whole, relation="replace_one").delta(epsilon).upper
        exact = md.account(poisson, relation="replace_one").delta(epsilon)
        assert exact.lower <= found <= exact.upper * (1 + 1e-6)
    ball = md.subsample(md.wor(300, 30), md.subsample(md.poisson(30, 0.5), noise))
    stated = md.subsample(
        md.wor(300, 30), md.subsample(md.poisson(30, 0.5), md.gaussian(shift=2.0))
    )
    closer, other = (md.account(one, relation="replace_one").delta(0.2) for one in (ball, stated))
    assert closer.lower <= closer.upper < 0.8 * other.upper
