"""Subsets that are reused: compose inside, amplify outside."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

import numpy as np
import pytest
from numpy.typing import NDArray

import mustdp as md
from mustdp.accounting import atoms as copies
from mustdp.accounting.atoms import group_profiles, observe
from mustdp.accounting.plan import Subsample
from mustdp.mechanisms.mechanism import NoiseProfiles
from tests.accounting.closed_forms import exact_delta

FloatArray = NDArray[np.float64]
GRID = np.linspace(-7.0, 9.0, 801)


def nested(n: int, b: int, m: int, reuse: int, noise: md.types.Mechanism) -> md.types.Plan:
    return md.subsample(md.wor(n, b), md.repeat(reuse, md.subsample(md.wr(b, m), noise)))


def density(contributions: tuple[float, ...], b: int, m: int, z: float) -> FloatArray:
    """Density on the square of two releases from one subset of b of the records.

    Each release adds up m draws with replacement from the subset and has noise of deviation z.
    """
    x = GRID * z
    total = np.zeros((x.size, x.size))
    subsets = list(itertools.combinations(contributions, b))
    for subset in subsets:
        sums = [sum(draw) for draw in itertools.product(subset, repeat=m)]
        one = np.mean([np.exp(-0.5 * np.square((x - s) / z)) for s in sums], axis=0)
        total += np.outer(one, one) / (2 * np.pi * z * z)
    return total / len(subsets)


def divergence(p: FloatArray, q: FloatArray, epsilon: float, z: float) -> float:
    cell = (float(GRID[1] - GRID[0]) * z) ** 2
    return float(np.maximum(p - math.exp(epsilon) * q, 0.0).sum()) * cell


Z = 1.5
EPSILONS = (0.1, 0.5, 1.0, 2.0)


def test_three_records_two_drawn_released_twice() -> None:
    """Exact densities of every pattern of contributions on a coarse grid are below the bound."""
    account = md.account(nested(3, 2, 1, 2, md.gaussian(noise_multiplier=Z)))
    bounds = {epsilon: account.delta(epsilon) for epsilon in EPSILONS}
    largest = dict.fromkeys(EPSILONS, 0.0)
    for others in itertools.combinations_with_replacement((-1.0, 0.0, 1.0), 2):
        shapes = {v: density((v, *others), 2, 1, Z) for v in (-1.0, 0.0, 1.0)}
        for v, w in itertools.permutations(shapes, 2):
            for epsilon in EPSILONS:
                value = divergence(shapes[v], shapes[w], epsilon, Z)
                largest[epsilon] = max(largest[epsilon], value)
    for epsilon, value in largest.items():
        assert value <= bounds[epsilon].upper * (1 + 1e-4)
        assert bounds[epsilon].lower <= value * (1 + 1e-4)
        assert bounds[epsilon].lower > 0.1 * value


def test_aligned_contributions_with_repeated_draws() -> None:
    """m = 2 draws from the subset: a record may count up to four times in the two releases."""
    account = md.account(nested(3, 2, 2, 2, md.gaussian(noise_multiplier=2.5)))
    p, q = (density((v, -1.0, -1.0), 2, 2, 2.5) for v in (1.0, -1.0))
    for epsilon in EPSILONS:
        bounds = account.delta(epsilon)
        for value in (divergence(p, q, epsilon, 2.5), divergence(q, p, epsilon, 2.5)):
            assert value <= bounds.upper * (1 + 1e-4)
        assert bounds.lower <= divergence(p, q, epsilon, 2.5) * (1 + 1e-4)


def test_reuse_is_not_two_independent_draws() -> None:
    """Charging two independent draws would promise less than the aligned pair attains."""
    z, epsilon = 1.5, 1.5
    reused = md.account(nested(8, 1, 1, 2, md.gaussian(noise_multiplier=z)))
    independent = md.account(
        md.repeat(2, md.subsample(md.must_ow(8, 1, 1), md.gaussian(noise_multiplier=z)))
    )
    x = GRID * z
    still = np.exp(-0.5 * np.square((x + 1) / z))
    moved = np.exp(-0.5 * np.square((x - 1) / z))
    p = (7 * np.outer(still, still) + np.outer(moved, moved)) / 8 / (2 * np.pi * z * z)
    q = np.outer(still, still) / (2 * np.pi * z * z)
    attained = divergence(p, q, epsilon, z)
    assert attained > 1.2 * independent.delta(epsilon).upper
    assert attained <= reused.delta(epsilon).upper * (1 + 1e-4)
    assert reused.delta(epsilon).lower <= attained * (1 + 1e-4)
    assert reused.delta(epsilon).lower > independent.delta(epsilon).upper


def test_one_release_per_subset_is_the_two_stage_scheme() -> None:
    noise = md.gaussian(noise_multiplier=3.0)
    plan = md.repeat(6, nested(100, 20, 10, 1, noise))
    flat = md.repeat(6, md.subsample(md.must_ow(100, 20, 10), noise))
    assert md.account(plan).epsilon(1e-6) == md.account(flat).epsilon(1e-6)
    assert md.account(plan).delta(0.5) == md.account(flat).delta(0.5)


def test_a_subset_of_everybody_is_plain_composition() -> None:
    noise = md.gaussian(noise_multiplier=3.0)
    plan = md.repeat(2, nested(20, 20, 10, 3, noise))
    flat = md.repeat(6, md.subsample(md.wr(20, 10), noise))
    assert md.account(plan).epsilon(1e-6) == md.account(flat).epsilon(1e-6)


@pytest.mark.parametrize("reuse", [2, 5])
def test_more_reuse_costs_more(reuse: int) -> None:
    noise = md.gaussian(noise_multiplier=4.0)
    less = md.account(md.repeat(3, nested(200, 20, 10, reuse, noise))).epsilon(1e-6)
    more = md.account(md.repeat(3, nested(200, 20, 10, reuse + 1, noise))).epsilon(1e-6)
    independent = md.account(
        md.repeat(3 * reuse, md.subsample(md.must_ow(200, 20, 10), noise))
    ).epsilon(1e-6)
    assert less.lower <= less.upper < more.upper
    assert less.lower <= more.lower
    # Reusing a subset correlates the draws: it costs at least what fresh draws certainly cost.
    assert less.upper >= independent.lower


def test_full_subset_released_several_times() -> None:
    """No inner draw: r releases on b of n records are WOR around one release of shift s sqrt(r)."""
    noise = md.gaussian(noise_multiplier=4.0)
    reused = md.account(md.subsample(md.wor(50, 5), md.repeat(4, noise)))
    once = md.account(md.subsample(md.wor(50, 5), md.gaussian(noise_multiplier=2.0)))
    for epsilon in (0.1, 0.5, 1.5):
        one, other = reused.delta(epsilon), once.delta(epsilon)
        assert one.upper == pytest.approx(other.upper, rel=0.02)
        assert one.upper >= other.upper * (1 - 1e-9)
        assert one.lower == pytest.approx(other.lower, rel=1e-6)


def test_different_releases_on_one_subset() -> None:
    """A sequence inside a subset; the lower bound looks at the first release alone."""
    inner = md.sequence(md.gaussian(noise_multiplier=4.0), md.laplace(noise_multiplier=6.0))
    account = md.account(md.subsample(md.wor(50, 5), inner))
    alone = md.account(md.subsample(md.wor(50, 5), md.gaussian(noise_multiplier=4.0)))
    bounds, single = account.delta(0.3), alone.delta(0.3)
    assert bounds.upper > single.upper
    assert single.lower * (1 - 1e-9) <= bounds.lower <= bounds.upper


def test_three_levels() -> None:
    plan = md.subsample(
        md.wor(60, 30),
        md.repeat(
            2,
            md.subsample(
                md.wr(30, 12), md.repeat(2, md.subsample(md.wor(12, 6), md.gaussian(shift=0.4)))
            ),
        ),
    )
    bounds = md.account(plan).epsilon(1e-5)
    flat = md.account(
        md.subsample(
            md.multistage(60, [("wor", 30), ("wr", 12), ("wor", 6)]), md.gaussian(shift=0.4)
        )
    ).epsilon(1e-5)
    everything = md.account(md.repeat(4, md.gaussian(shift=0.4 * 6)), relation="replace_one")
    assert flat.upper < bounds.upper < everything.epsilon(1e-5).upper
    assert 0 < bounds.lower <= bounds.upper


def test_poisson_around_repeated_releases() -> None:
    """A Poisson draw used twice, under replace_one: between one and two times the noise."""
    plan = md.subsample(md.poisson(100, 0.1), md.repeat(2, md.gaussian(noise_multiplier=3.0)))
    account = md.account(plan, relation="replace_one")
    stronger = md.account(
        md.subsample(md.poisson(100, 0.1), md.gaussian(noise_multiplier=3.0 / math.sqrt(2))),
        relation="replace_one",
    )
    for epsilon in (0.2, 0.6):
        bounds = account.delta(epsilon)
        assert bounds.lower <= stronger.delta(epsilon).upper  # exact for one release
        assert bounds.upper >= stronger.delta(epsilon).lower
        assert bounds.lower == pytest.approx(stronger.delta(epsilon).lower, rel=1e-6)


@pytest.fixture
def coarse_copies(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Laws of copies that are cut where what is left is below a thousandth."""
    copies._sum_law.cache_clear()
    monkeypatch.setattr(copies, "_SMALLEST", 1e-3)
    yield
    copies._sum_law.cache_clear()


NESTED: list[Subsample] = [
    md.subsample(md.wor(50, 20), md.repeat(3, md.gaussian(shift=0.1))),
    md.subsample(md.wr(50, 60), md.repeat(2, md.gaussian(shift=0.1))),
    md.subsample(md.wor(50, 20), md.repeat(3, md.subsample(md.wr(20, 30), md.gaussian(shift=1)))),
    md.subsample(md.wr(50, 20), md.repeat(7, md.subsample(md.wr(20, 30), md.gaussian(shift=1)))),
]


@pytest.mark.parametrize("plan", NESTED)
def test_copies_left_out_are_counted(plan: Subsample, coarse_copies: None) -> None:
    law = observe(plan).law
    missing = 1.0 - float(law.probabilities.sum())
    assert law.cut >= missing * (1.0 - 1e-9) - 1e-12
    assert law.cut <= 50 * missing + 1e-12


@pytest.mark.parametrize("plan", NESTED[2:])
def test_the_error_of_a_law_of_copies_grows(plan: Subsample) -> None:
    inner = md.wr(20, 30).law(1, copies._SMALLEST).relative_error
    reuse = {NESTED[2]: 3, NESTED[3]: 7}[plan]
    assert observe(plan).law.relative_error >= reuse * inner > 0


@pytest.mark.parametrize("scheme", [md.wor(50, 5), md.must_ow(50, 10, 20), md.must_ww(50, 10, 20)])
@pytest.mark.parametrize("shifts", [(0.1, 0.1), (0.1, 0.6), (0.6, 0.1)])
def test_all_releases_and_all_stages_of_a_reused_draw_count(
    scheme: md.types.Scheme, shifts: tuple[float, float]
) -> None:
    """Gaussian releases on one draw are one release, the squares of whose shifts add up."""
    inner = md.sequence(*(md.gaussian(shift=shift) for shift in shifts))
    reused = md.account(md.subsample(scheme, inner))
    once = md.account(md.subsample(scheme, md.gaussian(shift=math.hypot(*shifts))))
    for epsilon in (0.1, 0.5):
        assert reused.delta(epsilon).upper >= once.delta(epsilon).lower
        assert reused.delta(epsilon).upper == pytest.approx(once.delta(epsilon).upper, rel=0.1)


def test_losses_too_large_to_resolve_count_inside_a_subset_too() -> None:
    """With hardly any noise a reused draw tells who was drawn: delta is the chance of a draw."""
    plan = md.subsample(md.wor(1000, 10), md.repeat(2, md.gaussian(noise_multiplier=0.02)))
    for epsilon in (0.0, 1.0, 50.0):
        assert 0.01 * (1 - 1e-9) <= md.account(plan).delta(epsilon).upper <= 0.01 * (1 + 1e-6)


def test_composed_group_profiles_hold_on_both_sides_of_zero() -> None:
    """Slopes below one are asked for as well; there self-duality gives the profile."""
    profiles = group_profiles(md.repeat(2, md.gaussian(shift=0.5)), 60.0)
    groups, epsilon = np.array([1.0, 2.0, 3.0]), np.array([-9.0, -3.0, -1.0, -0.2, 0.0, 0.4, 2.0])
    values = profiles.delta(groups, np.repeat(epsilon[:, None], groups.size, axis=1))
    for column, group in enumerate(groups.tolist()):
        for value, e in zip(values[:, column].tolist(), epsilon.tolist(), strict=True):
            exact = exact_delta(group * 0.5 * math.sqrt(2.0), e)
            assert exact <= value * (1 + profiles.relative_error)
            assert value <= float(exact) * 1.02 + 1e-9


def test_the_error_of_the_profiles_is_in_the_account(monkeypatch: pytest.MonkeyPatch) -> None:
    """Profiles that may be a tenth too small make accounts at least that much larger."""
    noise = md.gaussian(shift=0.8)
    plans: list[md.types.Plan] = [noise, md.subsample(md.wor(20, 5), md.repeat(2, noise))]
    sure = [md.account(plan, relation="replace_one").delta(0.2).upper for plan in plans]
    monkeypatch.setattr(NoiseProfiles, "relative_error", 0.1)
    rough = [md.account(plan, relation="replace_one").delta(0.2).upper for plan in plans]
    for before, after in zip(sure, rough, strict=True):
        assert after >= 1.099 * before
