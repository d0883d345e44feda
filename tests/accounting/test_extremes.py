"""Numbers at the ends of their ranges: nothing becomes too small without a word."""

from __future__ import annotations

import math

import pytest

import mustdp as md
from tests.accounting.closed_forms import exact_delta, exact_epsilon


def gaussian(z: float) -> md.types.Mechanism:
    return md.gaussian(noise_multiplier=z)


def test_every_record_drawn_is_no_subsampling() -> None:
    plan = md.repeat(10, md.subsample(md.poisson(10, 1.0), gaussian(5.0)))
    for relation, shift in (("add_remove", 0.2), ("replace_one", 0.4)):
        account = md.account(plan, relation=relation)
        for delta in (1e-5, 1e-20):
            truth = exact_epsilon(shift * math.sqrt(10), delta)
            bounds = account.epsilon(delta)
            assert bounds.lower <= truth <= bounds.upper <= truth * (1 + 1e-3)


def test_no_record_ever_drawn() -> None:
    account = md.account(md.repeat(10, md.subsample(md.poisson(10, 0.0), gaussian(0.5))))
    assert account.delta(0.0) == md.Bounds(
        0.0, 0.0, "none", "remove", 0.0, md.types.Relation.ADD_REMOVE
    )
    assert account.epsilon(1e-20).upper == 0.0


@pytest.mark.parametrize("shift", [1e-9, 1e-6])
def test_tiny_shifts(shift: float) -> None:
    account = md.account(md.repeat(2, md.gaussian(shift=shift)), relation="replace_one")
    mu = shift * math.sqrt(2)
    for epsilon in (0.0, mu, 3 * mu):
        true = float(exact_delta(mu, epsilon))
        bounds = account.delta(epsilon)
        assert bounds.lower <= true <= bounds.upper
        assert bounds.upper - bounds.lower <= 0.02 * true
    truth = exact_epsilon(mu, 1e-20)
    assert account.epsilon(1e-20).lower <= truth <= account.epsilon(1e-20).upper


def test_tiny_rates() -> None:
    """A hundred draws at a rate of 1e-8: at most a hundred times the chance of a difference."""
    plan = md.repeat(100, md.subsample(md.poisson(10**9, 1e-8), gaussian(1.0)))
    once = 1e-8 * (2 * 0.8413447460685429 - 1)  # q (2 Phi(1) - 1), for a shift of 2
    bounds = md.account(plan, relation="replace_one").delta(0.0)
    assert once <= bounds.lower <= bounds.upper <= 100 * once
    assert bounds.upper <= 1.01 * bounds.lower


@pytest.mark.parametrize("relation", ["add_remove", "replace_one"])
@pytest.mark.parametrize("z", [pytest.param(0.05, marks=pytest.mark.slow), 0.01])
def test_hardly_any_noise_reveals_who_was_drawn(z: float, relation: str) -> None:
    """Delta tends to the chance that the record is ever drawn; losses of thousands are infinite.

    Refusing to answer is fine here; understating delta is not.
    """
    account = md.account(
        md.repeat(10, md.subsample(md.wor(1000, 10), gaussian(z))), relation=relation
    )
    seen, answered = 1 - 0.99**10, 0
    for epsilon in (0.0, 1.0, 100.0):
        try:
            bounds = account.delta(epsilon)
        except md.NumericalFailure:
            continue
        assert bounds.lower <= seen * (1 + 1e-9)
        assert bounds.upper >= seen * (1 - 1e-6)
        if bounds.coarse:
            continue
        assert bounds.upper <= seen * (1 + 0.01)
        answered += 1
    assert answered or z < 0.05
    assert account.epsilon(1e-5).upper > 1000 or z == 0.05
    assert account.epsilon(1e-5).upper > 500


def test_strong_noise() -> None:
    plan = md.repeat(1000, md.subsample(md.wor(1000, 10), gaussian(1e6)))
    bounds = md.account(plan).delta(0.0)
    assert 0 < bounds.lower <= bounds.upper < 1e-6
    assert bounds.upper <= 1.01 * bounds.lower


@pytest.mark.parametrize("relation", ["add_remove", "replace_one"])
def test_one_record_copied_many_times(relation: str) -> None:
    """b = 1: with chance 1/n all m draws are the same record, as one draw of m times the shift."""
    steps = 100
    copied = md.repeat(steps, md.subsample(md.must_ow(1000, 1, 200), md.gaussian(shift=0.01)))
    single = md.repeat(steps, md.subsample(md.wor(1000, 1), md.gaussian(shift=2.0)))
    one, other = (
        md.account(plan, relation=relation, composition="pair") for plan in (copied, single)
    )
    for delta in (1e-3, 1e-7):
        assert one.epsilon(delta).lower <= other.epsilon(delta).upper
        assert other.epsilon(delta).lower <= one.epsilon(delta).upper
        assert one.epsilon(delta).upper == pytest.approx(other.epsilon(delta).upper, rel=3e-3)


def test_many_copies() -> None:
    """WR(10, 1000): about 100 copies each time, hence nearly Gaussian with 100 times the shift."""
    account = md.account(md.repeat(10, md.subsample(md.wr(10, 1000), gaussian(500.0))))
    bounds = account.epsilon(1e-5)
    assert bounds.upper - bounds.lower <= 0.01 * bounds.upper
    assert bounds.upper == pytest.approx(exact_epsilon(0.4 * math.sqrt(10), 1e-5), rel=0.02)


def test_rare_subsets_with_many_copies() -> None:
    account = md.account(md.repeat(100, md.subsample(md.must_ow(10_000, 2, 200), gaussian(20.0))))
    drawn = 1 - (1 - 2e-4) ** 100
    at_zero = account.delta(0.0)
    assert at_zero.lower <= drawn * (1 + 1e-6)
    assert at_zero.upper >= 0.9 * drawn
    assert account.epsilon(1e-5).upper > 100.0


def test_very_different_steps_together() -> None:
    """One coarse release and many fine ones: squares of Gaussian shifts add up."""
    plan = md.sequence(md.gaussian(shift=2.0), md.repeat(1000, md.gaussian(shift=0.01)))
    mu = math.sqrt(4.0 + 0.1)
    account = md.account(plan, relation="replace_one")
    for delta in (1e-5, 1e-15):
        truth = exact_epsilon(mu, delta)
        bounds = account.epsilon(delta)
        assert bounds.lower <= truth <= bounds.upper <= truth * (1 + 1e-3)
    tiny = md.sequence(md.repeat(3, md.gaussian(shift=1e-6)), md.gaussian(shift=5.0))
    truth = exact_epsilon(5.0, 1e-5)
    bounds = md.account(tiny, relation="replace_one").epsilon(1e-5)
    assert bounds.lower <= truth * (1 + 1e-9) <= bounds.upper * (1 + 2e-9)


def test_beyond_what_a_transform_can_hold() -> None:
    """Where no bound can be certified there is no answer, and the reason is given."""
    plan = md.repeat(10**9, md.subsample(md.poisson(10**9, 1e-8), gaussian(1.0)))
    with pytest.raises(md.NumericalFailure, match="transform"):
        md.account(plan, accuracy=1e-3).delta(1.0)


@pytest.mark.slow
def test_ten_million_steps() -> None:
    account = md.account(md.repeat(10**7, md.gaussian(shift=3e-4)), relation="replace_one")
    mu = 3e-4 * math.sqrt(10**7)
    for delta in (1e-5, 1e-20):
        truth = exact_epsilon(mu, delta)
        bounds = account.epsilon(delta)
        assert bounds.lower <= truth <= bounds.upper <= truth * (1 + 1e-3)
