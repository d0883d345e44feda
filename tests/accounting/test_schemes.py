"""Every scheme under both relations: published numbers, and where the two bounds meet."""

from __future__ import annotations

import pytest

import mustdp as md


def test_the_papers_example() -> None:
    """n = 10^4, b = 118, m = 200, sigma = 4, 1000 steps, epsilon = 1.

    The symmetric pair alone has 1.5e-4; the aligned pair attains 0.0380 to 0.0382.
    """
    scheme = md.must_ow(10_000, 118, 200)
    account = md.account(md.repeat(1000, md.subsample(scheme, md.gaussian(noise_multiplier=4.0))))
    bounds = account.delta(1.0)
    assert bounds.attained_by == "aligned"
    assert 0.0378 <= bounds.lower <= 0.0382
    assert 0.0378 <= bounds.upper <= 0.0645


@pytest.mark.parametrize(
    "scheme",
    [md.wor(500, 20), md.wr(500, 20), md.wr(20, 20), md.must_wo(500, 50, 20)],
    ids=["wor", "wr", "bootstrap", "must-wo"],
)  # fmt: skip
@pytest.mark.parametrize("steps", [3, 200])
def test_fixed_size_bounds_meet_under_add_remove(scheme: md.types.Scheme, steps: int) -> None:
    plan = md.repeat(steps, md.subsample(scheme, md.gaussian(noise_multiplier=6.0)))
    account = md.account(plan, relation="add_remove")
    for delta in (1e-4, 1e-9):
        bounds = account.epsilon(delta)
        assert bounds.upper - bounds.lower <= 1e-3 * max(bounds.upper, 1e-3)
        assert bounds.direction == "remove"
        assert bounds.attained_by == "aligned"


@pytest.mark.parametrize("relation", ["add_remove", "replace_one"])
@pytest.mark.parametrize(("rate", "steps"), [(0.01, 500), (0.4, 20), (1e-3, 3000)])
def test_poisson_bounds_meet(rate: float, steps: int, relation: str) -> None:
    plan = md.repeat(steps, md.subsample(md.poisson(1000, rate), md.gaussian(noise_multiplier=1.5)))
    account = md.account(plan, relation=relation)
    for delta in (1e-4, 1e-9):
        bounds = account.epsilon(delta)
        assert bounds.upper - bounds.lower <= 1e-3 * max(bounds.upper, 1e-3)


@pytest.mark.parametrize("scheme", [md.must_ow(300, 60, 30), md.must_ww(300, 60, 30)])
def test_multistage_under_add_remove(scheme: md.types.Scheme) -> None:
    """Certified by one direction at a time, and never above what replacing a record costs."""
    plan = md.repeat(30, md.subsample(scheme, md.gaussian(noise_multiplier=5.0)))
    removed = md.account(plan, relation="add_remove").epsilon(1e-6)
    replaced = md.account(plan, relation="replace_one").epsilon(1e-6)
    assert 0 < removed.lower <= removed.upper <= replaced.upper * (1 + 1e-3)
    assert removed.upper <= 1.2 * removed.lower
    assert removed.lower == pytest.approx(replaced.lower, rel=2e-3)  # the same aligned pair


def test_equal_laws_cost_the_same() -> None:
    noise = md.gaussian(noise_multiplier=4.0)

    def cost(scheme: md.types.Scheme) -> float:
        return md.account(md.repeat(20, md.subsample(scheme, noise))).epsilon(1e-6).upper

    assert cost(md.must_wo(200, 50, 20)) == cost(md.wr(200, 20))
    assert cost(md.must_oo(200, 50, 20)) == cost(md.wor(200, 20))
    assert cost(md.must_ow(200, 200, 20)) == cost(md.wr(200, 20))


def test_one_slope_composes_to_more() -> None:
    plan = md.repeat(50, md.subsample(md.must_ow(500, 50, 20), md.gaussian(noise_multiplier=5.0)))
    certified = md.account(plan).epsilon(1e-5)
    paper = md.account(plan, method="one-slope").epsilon(1e-5)
    assert certified.upper < paper.upper
    assert paper.lower <= certified.upper
    poisson = md.repeat(50, md.subsample(md.poisson(500, 0.04), md.gaussian(noise_multiplier=2.0)))
    exact = md.account(poisson).epsilon(1e-5)
    assert md.account(poisson, method="one-slope").epsilon(1e-5).upper >= exact.lower


def test_heavy_tails_do_not_confuse_the_lower_bound() -> None:
    """Many copies with little noise: losses of hundreds, and tilts that move windows far."""
    plan = md.subsample(md.must_ow(1000, 100, 100), md.gaussian(noise_multiplier=1.0))
    for steps, relation in ((2, "replace_one"), (100, "add_remove")):
        account = md.account(md.repeat(steps, plan), relation=relation, accuracy=0.02)
        for delta in (1e-3, 1e-7):
            bounds = account.epsilon(delta)
            assert account.delta(bounds.lower).upper >= delta * (1 - 1e-9)
            assert bounds.lower <= bounds.upper <= 1.1 * bounds.lower
