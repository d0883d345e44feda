"""Poisson sampling with a cap: bounds against every data set, and what forgetting the cap costs."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy import stats

import mustdp as md
from tests.arrays import FloatArray

X = np.linspace(-14.0, 14.0, 5601)
Z, RATE = 1.6, 0.5


def output(values: tuple[float, ...], cap: int) -> FloatArray:
    """The law of a noisy sum of what is drawn and kept, every draw added up."""
    total: FloatArray = np.zeros(X.size)
    for taken in itertools.product((False, True), repeat=len(values)):
        chance = math.prod(RATE if one else 1 - RATE for one in taken)
        batch = list(itertools.compress(values, taken))
        kept = list(itertools.combinations(batch, min(cap, len(batch))))
        for one in kept:
            density = np.exp(-0.5 * np.square((X - sum(one)) / Z))
            total = total + chance / len(kept) * density / density.sum()
    return total


def divergence(p: FloatArray, q: FloatArray, epsilon: float) -> float:
    return float(np.maximum(p - math.exp(epsilon) * q, 0.0).sum())


def worst(n: int, cap: int, relation: str, epsilon: float) -> float:
    ends, found = (-1.0, 0.0, 1.0), 0.0
    for rest in itertools.combinations_with_replacement(ends, n - 1):
        for one, other in itertools.product(ends, repeat=2):
            removed = relation == "add_remove"
            p = output((one, *rest), cap)
            q = output(rest if removed else (other, *rest), cap)
            found = max(found, divergence(p, q, epsilon), divergence(q, p, epsilon))
    return found


@pytest.mark.parametrize("relation", ["add_remove", "replace_one"])
@pytest.mark.parametrize("cap", [1, 2, 3])
def test_no_data_set_costs_more_than_is_certified(cap: int, relation: str) -> None:
    n = 3
    step = md.subsample(md.truncated_poisson(n, RATE, cap), md.gaussian(noise_multiplier=Z))
    account = md.account(step, relation=relation)
    for epsilon in (0.0, 0.3, 0.8):
        found, exact = account.delta(epsilon), worst(n, cap, relation, epsilon)
        assert found.lower <= exact * (1 + 1e-5)
        assert exact <= found.upper * (1 + 1e-5)


@pytest.mark.parametrize("records", [1, 2, 3])
def test_fewer_records_than_n_are_kept_more_often(records: int) -> None:
    """Under add-remove n is the most there can be, and the worst number of records counts."""
    step = md.subsample(md.truncated_poisson(12, RATE, 1), md.gaussian(noise_multiplier=Z))
    account = md.account(step)
    few = md.account(
        md.subsample(md.truncated_poisson(records, RATE, 1), md.gaussian(noise_multiplier=Z))
    )
    for epsilon in (0.0, 0.3, 0.8):
        found = account.delta(epsilon).upper
        assert worst(records, 1, "add_remove", epsilon) <= found * (1 + 1e-5)
        assert few.delta(epsilon).upper <= found * (1 + 1e-9)


@pytest.mark.parametrize(("n", "rate", "cap"), [(30, 0.5, 12), (30, 0.5, 3), (9, 0.9, 8)])
def test_the_chance_to_be_kept_in_a_crowded_batch(n: int, rate: float, cap: int) -> None:
    others = np.arange(n)
    chances = stats.binom.pmf(others, n - 1, rate) * (others >= cap)
    exact = rate * float((chances * cap / (others + 1)).sum() / chances.sum())
    scheme = md.types.TruncatedPoisson(n, rate, cap)
    assert exact * (1 - 1e-12) <= scheme.kept(n) <= exact * (1 + 1e-9)
    assert scheme.kept(cap + 1) == pytest.approx(rate * cap / (cap + 1))


def test_the_cap_must_be_charged() -> None:
    """A record that takes another one's place moves the sum twice as far."""
    poisson = md.subsample(md.poisson(3, RATE), md.gaussian(noise_multiplier=Z))
    without = md.account(poisson, relation="add_remove").delta(0.8).upper
    assert worst(3, 1, "add_remove", 0.8) > 1.05 * without


@pytest.mark.parametrize("relation", ["add_remove", "replace_one"])
@pytest.mark.parametrize("group", [1, 3])
def test_between_poisson_sampling_and_swapping_every_record(relation: str, group: int) -> None:
    noise, n, rate = md.gaussian(noise_multiplier=1.2), 5000, 0.02

    def upper(scheme: md.types.Scheme) -> float:
        plan = md.repeat(20, md.subsample(scheme, noise))
        return md.account(plan, relation=relation, group=group).epsilon(1e-5).upper

    plain, caps = upper(md.poisson(n, rate)), [5000, 160, 120, 100, 60]
    found = [upper(md.truncated_poisson(n, rate, cap)) for cap in caps]
    assert found[0] == pytest.approx(plain, rel=1e-9)
    assert found[:4] == sorted(found[:4])
    # A small cap keeps few records; how many there are is public where one is replaced.
    assert (found[4] < found[3]) == (relation == "replace_one" and group == 1)
    assert plain * 1.02 < found[3]
    assert found[1] == pytest.approx(plain, rel=1e-3)
    lower = md.account(
        md.repeat(20, md.subsample(md.truncated_poisson(n, rate, 60), noise)),
        relation=relation, group=group,
    ).epsilon(1e-5).lower  # fmt: skip
    # Fewer records are kept, so less is attained than by Poisson sampling.
    assert 0 < lower < plain


@pytest.mark.parametrize(
    ("n", "rate", "cap"), [(1000, 0.05, 60), (10**6, 1e-4, 140), (50, 0.9, 40)]
)
def test_the_chance_of_a_full_batch_is_that_of_a_binomial_number(
    n: int, rate: float, cap: int
) -> None:
    scheme = md.truncated_poisson(n, rate, cap)
    for group in (1, 4):
        exact = stats.binom.sf(cap - group, n - group, rate)
        assert exact * (1 - 1e-9) <= scheme.overflow(group) <= exact * (1 + 1e-9) + 1e-290
    kept = stats.binom.expect(lambda k: np.minimum(k, cap), (n, rate))
    assert scheme.expected_size == pytest.approx(kept, rel=1e-6)
    assert scheme.law(4).mean == pytest.approx(4 * scheme.eta, rel=1e-9)


def test_batches_never_exceed_the_cap_and_keep_every_record_alike() -> None:
    scheme, rng = md.truncated_poisson(40, 0.5, 15), np.random.default_rng(3)
    counts = np.zeros(40)
    for _ in range(4000):
        batch = scheme.draw(rng)
        assert batch.size <= 15
        counts[batch.indices] += 1
    expected = 4000 * scheme.eta
    # Batches have a nearly fixed size, so that counts vary a little less than independent ones.
    statistic = float(np.sum(np.square(counts - expected)) / (expected * (1 - scheme.eta)))
    assert stats.chi2.sf(statistic, 40) > 1e-4
    assert abs(counts.sum() / 4000 - scheme.expected_size) < 0.1
    first = counts.copy()
    first[:5] *= 1.3  # one of the first would be kept more often
    assert stats.chi2.sf(np.sum(np.square(first - expected)) / (expected * 0.63), 40) < 1e-4


def test_refusals() -> None:
    scheme = md.truncated_poisson(100, 0.1, 20)
    assert scheme.resized(80).n == 80
    with pytest.raises(md.InvalidParameter, match="n must be at least the number of records"):
        scheme.resized(101)
    with pytest.raises(md.NotCovered, match="truncated Poisson sampling needs"):
        md.account(md.subsample(scheme, md.pure_dp(0.5))).delta(0.1)
    with pytest.raises(md.NotCovered, match="one-slope"):
        md.account(md.subsample(scheme, md.gaussian(shift=1.0)), method="one-slope")
    with pytest.raises(md.NotCovered, match="paper"):
        md.amplify(scheme, md.gaussian(shift=1.0), epsilon=[0.1])
    with pytest.raises(md.NotCovered):
        md.subsample(md.wor(200, 100), md.subsample(scheme, md.gaussian(shift=1.0)))
    assert (
        md.one_step(scheme, md.gaussian(shift=1.0), 0.1, relation="replace_one").one_slope is None
    )


@pytest.mark.parametrize("relation", ["add_remove", "replace_one"])
def test_renyi_divergences_cover_what_is_attained(relation: str) -> None:
    """By brute force: a batch of one, where the record takes the place of all others."""
    step = md.subsample(md.truncated_poisson(3, RATE, 1), md.gaussian(noise_multiplier=Z))
    orders = np.array([1.5, 3.0, 8.0])
    found = md.account(step, relation=relation).renyi(orders).upper
    p = output((1.0, -1.0, -1.0), 1)
    q = output((-1.0, -1.0) if relation == "add_remove" else (-1.0, -1.0, -1.0), 1)
    for order, upper in zip(orders.tolist(), found.tolist(), strict=True):
        exact = math.log(float(np.sum(p**order * q ** (1 - order)))) / (order - 1)
        assert exact <= upper * (1 + 1e-6)


def test_renyi_divergences_cover_fewer_records_than_n() -> None:
    """Of ten records each is kept as often as it is drawn, though of a million hardly any is."""
    noise = md.gaussian(noise_multiplier=1.0)
    most = md.account(md.subsample(md.truncated_poisson(10**6, 0.5, 10), noise))
    few = md.account(md.subsample(md.poisson(10, 0.5), noise))
    orders = [1.5, 2.0, 4.0, 8.0]
    assert np.all(most.renyi(orders).upper >= few.renyi(orders).lower)
