"""Shuffled epochs: the certified amplification, its margins, and simulations over all orders."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import mpmath as mp
import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.integrate import trapezoid
from scipy.stats import norm

import mustdp as md
from mustdp.accounting.epochs import shuffling
from mustdp.accounting.epochs.shuffling import (
    Absent,
    Choice,
    GriddedTerm,
    LikelihoodDifference,
    Marks,
    Present,
    Sharp,
    Swapped,
    Transforms,
    WeightLattice,
    WorstTerm,
    beside,
    equal_weights,
    gaussian_profile,
    mark_bound,
)

Floats = NDArray[np.float64]


def shuffled(sigma: float, bins: int, epochs: int = 1) -> md.types.Plan:
    one = md.subsample(md.shuffle(20 * bins, 20), md.gaussian(noise_multiplier=sigma))
    return md.repeat(epochs, one)


# Values of a prototype with plain quadrature, delta = 1e-6, replace_one, and what random allocation
# with twice the shift attains; certified values are a little above the first.
TABLE = [
    (8.0, 1000, 0.0266, 0.0316),
    (16.0, 100, 0.0430, 0.047),
    (4.0, 1000, 0.0592, 0.111),
    (8.0, 30, 0.1748, 0.238),
    (8.0, 100, 0.0917, 0.115),
]


@pytest.mark.parametrize(("sigma", "bins", "attained", "sharp"), TABLE)
def test_amplified_as_the_prototype_says(
    sigma: float, bins: int, attained: float, sharp: float
) -> None:
    found = md.account(shuffled(sigma, bins)).epsilon(1e-6)
    assert found.lower == pytest.approx(attained, rel=3e-3)
    assert found.lower <= found.upper
    assert 0.985 * sharp <= found.upper <= 1.035 * sharp


def densities(a: float, x: Floats) -> Floats:
    return np.asarray(np.exp(a * x - a * a / 2))


CONTRASTS: dict[str, tuple[Callable[[float], LikelihoodDifference], str]] = {
    "swapped": (lambda s: Swapped(gaussian_profile(2 * s)), "replaced"),
    "present": (Present, "left out"),
    "absent": (Absent, "the other order"),
}


@pytest.mark.parametrize("name", CONTRASTS)
@pytest.mark.parametrize("s", [0.125, 0.6])
def test_prices_hold_for_all_triples_and_are_attained(name: str, s: float) -> None:
    contrast = CONTRASTS[name][0](s)
    g = np.linspace(-12.0, 12.0, 40_001)
    weights = norm.pdf(g) * (g[1] - g[0])
    ends = (-s, 0.0, s)
    for x in (0.0, 0.2):
        term = WorstTerm(contrast, x)
        best: dict[float, float] = {}
        for b, other, c in itertools.product(ends, ends, ends):
            if name != "swapped" and other != 0.0:
                continue  # the neighbour leaves the place empty
            first, second = densities(b - c, g), densities(other - c, g)
            if name == "absent":
                first, second = second, first
            d = first - (1 + x) * second
            for at in (-1.2 - x, -0.3 - x, -0.05 - x, -x, -0.5 * x, 0.0, 0.05, 0.4, 1.5):
                sign = 1.0 if at >= -x else -1.0
                price = float(weights @ np.maximum(sign * (d - at), 0.0))
                bound = float(term.value(np.array([at]))[0])
                assert price <= bound * (1 + 1e-6) + 1e-12
                best[at] = max(best.get(at, 0.0), price / bound)
        # Calls from zero on and puts below the mean are attained: nothing smaller would hold.
        outside = [share for at, share in best.items() if at >= 0.0 or at <= -x]
        assert min(outside) > 0.999 if x == 0.0 or name == "swapped" else min(outside) > 0.9


def test_the_grid_lies_above_the_prices_with_what_it_cuts_off() -> None:
    term = WorstTerm(Swapped(gaussian_profile(0.25)), 0.05)
    whole = GriddedTerm.of(term)
    cut = int(np.argmax(whole.calls <= 1e-3 * whole.calls[0]))
    law = whole.cut(cut)
    at = np.linspace(term.mean, float(law.points[-1]), 1001)
    calls = np.maximum(law.points - at[:, None], 0.0) @ law.masses
    exact = term.value(at)
    doubt = np.maximum(law.points - at[:, None], 0.0) @ law.doubt + 1e-15
    assert np.all(calls + float(law.calls[-1]) + doubt >= exact)
    assert np.any(calls + doubt < exact)  # without the cut
    assert np.all(calls <= exact + 4e-4 * float(exact.max()))
    assert abs(float(law.masses.sum()) - 1.0) <= float(law.doubt.sum())


def test_masses_are_off_by_no_more_than_they_say() -> None:
    term = WorstTerm(Swapped(gaussian_profile(0.25)), 0.05)
    law = GriddedTerm.of(term)
    mp.mp.dps = 40
    shift, alpha = mp.mpf(0.25), 1 + mp.mpf(0.05)

    def call(d: mp.mpf) -> mp.mpf:
        point = alpha + d
        log = mp.log(point)
        return mp.ncdf(shift / 2 - log / shift) - point * mp.ncdf(-shift / 2 - log / shift)

    start = int(np.searchsorted(law.points, 0.0))
    wrong = []
    for i in range(start + 1, start + 120, 10):
        left, here, right = (mp.mpf(float(law.points[k])) for k in (i - 1, i, i + 1))
        slopes = (
            (call(here) - call(left)) / (here - left),
            (call(right) - call(here)) / (right - here),
        )
        off = abs(float(slopes[1] - slopes[0] - mp.mpf(float(law.masses[i]))))
        assert off <= law.doubt[i]
        wrong.append(off)
    assert max(wrong) > 0.0  # there is something to cover


def envelope(radius: float, kappa: float, cells: int) -> float:
    """The supremum in B on a dense mesh, from below."""
    profile = md.gaussian(shift=1.0).noise.profile
    c = np.linspace(-radius, radius, 2 * cells + 1)
    best = 0.0
    for beta in np.linspace(0.0, radius, cells + 1):
        distance = np.sqrt(np.maximum(radius**2 - 2 * c * beta + beta**2, 1e-20))
        height = profile(distance, np.array(math.log(kappa) - 0.5 * (radius**2 - beta**2)))
        left, right = c <= beta, c >= beta
        span = np.maximum(c[right][None] - c[left][:, None], 1e-300)
        share = np.clip((beta - c[left][:, None]) / span, 0.0, 1.0)
        mixed = (1 - share) * height[left][:, None] + share * height[right][None]
        best = max(best, float(mixed.max()))
    return best


@pytest.mark.parametrize("radius", [0.1, 0.5, 2.0])
def test_marks_are_bounded_on_coarse_cells_too(
    radius: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    kappa = np.exp(radius * np.array([-2.0, -0.4, 0.0, 0.4, 1.5, 4.0]))
    exact = np.array([envelope(radius, float(k), 60) for k in kappa])
    assert np.all(mark_bound(radius, kappa) >= exact)
    assert radius > 1.0 or np.all(mark_bound(radius, kappa) <= 1.2 * exact)
    # Few cells of either kind, or of both: each has to be above by itself.
    for cells in ((4, 6), (400, 4), (400, 7), (3, 400), (1, 400)):
        monkeypatch.setattr(shuffling, "_CELLS_BETA", cells[0])
        monkeypatch.setattr(shuffling, "_CELLS_C", cells[1])
        assert np.all(mark_bound(radius, kappa) >= exact)


def test_marks_of_all_kinds_are_covered() -> None:
    s, g = 0.5, np.linspace(-14.0, 14.0, 20_001)
    kappa = np.exp(np.array([-0.5, 0.0, 0.3, 1.0]))
    bound = Marks(gaussian_profile(2 * s), s).bound(kappa)
    rng = np.random.default_rng(5)
    kinds = [np.array([-s, *[s] * k]) for k in (1, 4, 30)] + [rng.uniform(-s, s, 8)]
    for marks in kinds:
        each = np.array([norm.pdf(g - a) for a in marks])
        mix = each.mean(axis=0)
        told = [float(np.maximum(each - k * mix, 0.0).sum(axis=1).mean()) for k in kappa]
        assert np.all(np.array(told) * (g[1] - g[0]) <= bound)


@pytest.fixture(scope="module")
def gaussian_eight() -> tuple[LikelihoodDifference, Marks, GriddedTerm]:
    profile = gaussian_profile(0.25)
    contrast = Swapped(profile)
    return contrast, Marks(profile, 0.125), GriddedTerm.of(WorstTerm(contrast, 0.0))


def by_quadrature(sharp: Sharp, lattice: WeightLattice, choice: Choice, bins: float) -> float:
    """The integral of the sharp form on dense meshes, nothing added for safety."""
    law = sharp._law.cut(choice.cut)
    t, q, phi = lattice.t[choice.cap :], choice.p / (choice.p - 1.0), choice.phi
    price, one = lattice.price[choice.cap :], int(np.argmax(lattice.number[choice.cap :] == 0))
    eta = np.append(np.linspace(0.0, 5.0, 400), np.geomspace(5.05, 1e4, 300)) * phi
    values = []
    for each in eta:
        z = (phi + 1j * each) / t
        size = np.abs(np.exp(np.outer(z, law.points)) @ law.masses)
        f = np.power(size, q * bins * t)
        slopes = np.diff(f) / np.diff(t)
        bends = np.append(np.maximum(np.diff(slopes), 0.0), max(-slopes[-1], 0.0))
        values.append(f[one] + bends @ price[1:])
    powers = np.power(values, 1.0 / q) / (phi**2 + np.square(eta))
    whole = float(trapezoid(powers, eta)) / (math.pi * bins)
    moment = float(sharp._home_moment(np.array([choice.p * phi]), choice.home)[0])
    return whole * math.exp(moment / choice.p)


@pytest.mark.parametrize(
    "coarse",
    [
        {},
        {"_STRIDE": 30},  # cells of eta: its remainder
        {"_FIRST_ETA": 1.5},  # the first of them
        {"_FAR_POINTS": 3},  # what is beyond the mesh
        {"_LAST_ETA": 0.8, "_FAR_WIDTH": 3.0},  # cells of the mesh
    ],
    ids=str,
)
def test_coarse_meshes_stay_above_the_integral(
    coarse: dict[str, float],
    gaussian_eight: tuple[LikelihoodDifference, Marks, GriddedTerm],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    contrast, marks, home = gaussian_eight
    bins, lattice = 100.0, WeightLattice(marks)
    sharp = Sharp(WorstTerm(contrast, math.expm1(0.1)), home, lattice, bins)
    search = sharp.bound()[1]
    assert search is not None
    choice = search.choice
    exact = by_quadrature(sharp, lattice, choice, bins)
    added = sum(sharp._added(choice.cut, choice.home, choice.cap))
    default = sharp.evaluate(choice)
    for name, value in coarse.items():
        monkeypatch.setattr(shuffling, name, value)
    found = sharp.evaluate(choice)
    assert found >= exact + added
    if "_FAR_POINTS" in coarse:
        assert found > 1.01 * default  # nothing is known of what it leaves out
    if not coarse:
        assert found <= 1.1 * (exact + added)


def test_coarse_lattices_of_t_stay_above_the_integral(
    gaussian_eight: tuple[LikelihoodDifference, Marks, GriddedTerm],
) -> None:
    contrast, marks, home = gaussian_eight
    bins, fine = 100.0, WeightLattice(marks)
    term = WorstTerm(contrast, math.expm1(0.1))
    choice = Sharp(term, home, fine, bins).bound()[1]
    assert choice is not None
    for step in (0.1, 0.2):
        lattice = WeightLattice(marks, step)
        cap = int(np.argmin(np.abs(lattice.t - 0.4)))
        chosen = Choice(choice.choice.cut, choice.choice.home, cap, choice.choice.phi, 4.0)
        sharp = Sharp(term, home, lattice, bins)
        near = int(np.argmin(np.abs(fine.t - lattice.t[cap])))
        same = Choice(chosen.cut, chosen.home, near, chosen.phi, chosen.p)
        exact = by_quadrature(Sharp(term, home, fine, bins), fine, same, bins)
        assert sharp.evaluate(chosen) - sum(sharp._added(chosen.cut, chosen.home, cap)) >= exact


def two_points(off: float = 0.0) -> GriddedTerm:
    """A law of -1 and 1, whose transforms turn between zero and one."""
    masses, doubt = np.array([0.5 + off, 0.5 - off]), np.full(2, abs(off))
    return GriddedTerm(np.array([-1.0, 1.0]), masses, doubt, np.array([1.0, 0.0]), 1.0)


def share(phi: float, eta: float, t: float) -> float:
    """(N/N_0)^2 of a fair two-point law."""
    z = (phi + 1j * eta) / t
    return float(abs(np.cosh(z)) / math.cosh(phi / t)) ** 2


@pytest.mark.parametrize("phi", [0.05, 0.8])
@pytest.mark.parametrize("off", [0.0, 1e-3])
def test_transforms_stay_above_within_cells_of_t_and_eta(phi: float, off: float) -> None:
    t = np.array([1.0, 1.3, 3.0])
    known = Transforms.of(two_points(off), phi, t, 10.0)
    assert known is not None
    knots = np.array([0.0, 0.9, 2.2, 0.75 * math.pi, 1.5 * math.pi])
    width = np.diff(knots)
    rooms = np.maximum(np.append(width, 0.0), np.append(0.0, width))
    bounds = []
    for eta, room in zip(knots.tolist(), rooms.tolist(), strict=True):
        sizes = known.sizes(eta / t)[np.arange(3), np.arange(3)]
        bounds.append(known.shares(sizes, eta, room))
    table = np.array(bounds)
    for cell in range(2):
        for at in np.linspace(t[cell], t[cell + 1], 21).tolist():
            for eta in np.linspace(0.0, float(knots[-1]), 60).tolist():
                line = float(np.interp(eta, knots, table[:, cell]))
                assert share(phi, eta, at) <= line * (1 + 1e-12)


def test_transforms_stay_above_between_two_zeros() -> None:
    phi, eta, t = 0.05, 1.5 * math.pi, np.array([1.0, 3.0])
    known = Transforms.of(two_points(), phi, t, 10.0)
    assert known is not None
    sizes = known.sizes(eta / t)[np.arange(2), np.arange(2)]
    assert max(sizes) < 0.1
    bound = float(known.shares(sizes, eta, 0.0)[0])
    assert max(share(phi, eta, at) for at in np.linspace(1.0, 3.0, 41).tolist()) <= bound


def test_transforms_stay_above_what_masses_are_off_by() -> None:
    phi, eta, t = 0.05, 0.5 * math.pi, np.array([1.0, 1.0 + 1e-9])
    known = Transforms.of(two_points(1e-3), phi, t, 10.0)
    assert known is not None
    sizes = known.sizes(eta / t)[np.arange(2), np.arange(2)]
    assert float(known.shares(sizes, eta, 0.0)[0]) >= share(phi, eta, 1.0)
    assert float(sizes[0] / known.level[0]) ** 2 < share(phi, eta, 1.0)


def test_transforms_stay_above_on_a_mesh_of_high_frequencies() -> None:
    t, phi = np.array([0.5, 0.7, 1.0]), 0.3
    known = Transforms.of(two_points(), phi, t, 100.0)
    assert known is not None
    # Every transform is about zero at these frequencies.
    mesh = math.pi * (np.arange(40, dtype=np.float64) + 0.5)
    square, end = known.far_shares(mesh, 3.0)
    assert end > 10.0
    for cell in range(2):
        for at in np.linspace(t[cell], t[cell + 1], 9).tolist():
            for eta in np.linspace(3.0, end, 400).tolist():
                assert share(phi, eta, at) <= float(square[cell]) * (1 + 1e-12)


def test_lines_between_points_are_above_both_cells() -> None:
    cells = -np.random.default_rng(2).uniform(0.0, 3.0, (5, 8))
    lines = beside(cells)
    assert np.all(lines[:, :-1] >= cells)
    assert np.all(lines[:, 1:] >= cells)


def test_expectations_are_above_those_of_a_law_with_these_prices() -> None:
    lattice = object.__new__(WeightLattice)
    number = np.arange(-3, 4)
    t = np.exp(0.3 * number)
    places, chances = np.array([0.5, 1.0, 3.5]), np.array([0.5, 0.4, 0.1])  # mean one
    puts = np.maximum(t[:, None] - places, 0.0) @ chances
    calls = np.maximum(places - t[:, None], 0.0) @ chances
    # Prices are bounds from above.
    lattice.number, lattice.t, lattice.price = number, t, 1.5 * np.where(number <= 0, puts, calls)
    rng = np.random.default_rng(3)
    for _ in range(200):
        heights = rng.uniform(0.0, 1.0, t.size)
        heights[-1] = min(heights[-1], heights[-2])  # it falls in the end
        exact = float(chances @ np.interp(places, t, heights))
        assert float(lattice.expected(heights, 0)) >= exact * (1 - 1e-12)
    # Convex heights and exact prices: level beyond the last point, and nothing else is added.
    lattice.price = np.where(number <= 0, puts, calls)
    heights = np.exp(-t)
    exact = float(chances @ np.interp(places, t, heights))
    assert float(lattice.expected(heights, 0)) == pytest.approx(exact, rel=1e-9)


def test_cuts_are_added(gaussian_eight: tuple[LikelihoodDifference, Marks, GriddedTerm]) -> None:
    contrast, marks, home = gaussian_eight
    lattice, x = WeightLattice(marks), math.expm1(0.1)
    term = WorstTerm(contrast, x)
    sharp = Sharp(term, home, lattice, 100.0)
    cut, at_home, cap = 380, 350, 110
    added = sharp._added(cut, at_home, cap)
    b, nu = float(sharp._law.points[cut]), float(home.points[at_home])
    unit = 2 * float(term.value(np.zeros(1))[0]) + x
    exact = (
        float(term.value(np.array([b]))[0]),
        (1 + x) / 100.0 * float(WorstTerm(contrast, 0.0).value(np.array([nu]))[0]),
        unit * envelope(0.125, 1.0 / float(lattice.t[cap]), 60),
    )
    for have, least in zip(added, exact, strict=True):
        assert least <= have <= 2.0 * least
    # Where next to nothing else is left.
    far = Sharp(WorstTerm(contrast, math.expm1(0.4)), home, lattice, 100.0)
    whole = far.evaluate(Choice(cut, at_home, cap, 0.7, 4.0))
    assert 0.5 * whole < sum(far._added(cut, at_home, cap)) <= whole


def test_the_first_batch_pays_beyond_its_cut(
    gaussian_eight: tuple[LikelihoodDifference, Marks, GriddedTerm],
) -> None:
    contrast, marks, _ = gaussian_eight
    home = GriddedTerm.of(WorstTerm(contrast, 0.0)).cut(300)
    sharp = Sharp(WorstTerm(contrast, 0.0), home, WeightLattice(marks), 100.0)
    c, cut = 8.0, 290
    found = math.exp(float(sharp._home_moment(np.array([c]), cut)[0]))
    nu = float(home.points[cut])
    # The mean of a convex function, as an integral of prices.
    d = np.linspace(-3.0, nu, 40_001)
    term = WorstTerm(contrast, 0.0)
    prices = term.value(d)
    exact = 1.0 + float(trapezoid(c * c * np.exp(c * d) * prices, d))
    assert exact <= found <= 1.01 * exact


def test_powers_below_one_are_refused(
    gaussian_eight: tuple[LikelihoodDifference, Marks, GriddedTerm],
) -> None:
    contrast, marks, home = gaussian_eight
    sharp = Sharp(WorstTerm(contrast, 0.1), home, WeightLattice(marks), 4.0)
    assert sharp.evaluate(Choice(300, 300, 0, 1.0, 4.0)) == math.inf


@pytest.mark.parametrize("more", [-0.2, 0.0, 0.1])
def test_equal_weights_by_quadrature(more: float) -> None:
    term = WorstTerm(Swapped(gaussian_profile(0.5)), 0.05)

    def call(d: Floats) -> Floats:
        return term.value(d) + np.where(d < term.mean, term.mean - d, 0.0)

    for cut in (1e-9, 1e-2):  # what is cut off is added
        assert equal_weights(term, 1, more, cut) >= float(call(np.array([-more]))[0])
    # Conditional means of cells make a smaller law.
    edges = np.unique(np.append(np.linspace(-8.0, 8.0, 4001), 0.0))
    calls = call(edges)
    tails = -np.gradient(calls, edges)
    chances = np.maximum(-np.diff(tails), 0.0)
    middles = 0.5 * (edges[1:] + edges[:-1])
    exact = float(chances @ call(-more - middles))
    found = equal_weights(term, 2, more, 1e-9)
    assert exact * (1 - 2e-3) <= found <= exact * 1.02


def permanents(matrices: Floats) -> Floats:
    """Permanents of many matrices, by Ryser's formula in the order of a Gray code."""
    size = matrices.shape[1]
    total, rows = np.zeros(matrices.shape[0]), np.zeros(matrices.shape[:2])
    chosen = np.zeros(size, dtype=np.bool_)
    for step in range(1, 2**size):
        column = (step & -step).bit_length() - 1
        rows += (-1.0 if chosen[column] else 1.0) * matrices[:, :, column]
        chosen[column] = not chosen[column]
        total += (-1.0) ** (size - int(chosen.sum())) * rows.prod(axis=1)
    return total


Strategy = Callable[[int, Floats], tuple[Floats, Floats]]


def simulated(strategy: Strategy, bins: int, alpha: float, seed: int) -> tuple[float, float]:
    """H_alpha of an epoch of batches of one record and its standard error: P and Q are averages of
    the densities of all orders.
    """
    rng, samples = np.random.default_rng(seed), 20_000
    orders = rng.permuted(np.tile(np.arange(bins), (samples, 1)), axis=1)
    past = np.zeros((samples, 0))
    p = np.zeros((samples, bins, bins))
    q = np.zeros((samples, bins, bins))
    for i in range(bins):
        given, replaced = strategy(i, past)
        out = given[np.arange(samples), orders[:, i]] + rng.standard_normal(samples)
        p[:, i] = norm.pdf(out[:, None] - given)
        q[:, i] = p[:, i]
        q[:, i, 0] = norm.pdf(out - replaced)
        past = np.append(past, out[:, None], axis=1)
    gains = np.maximum(1.0 - alpha * permanents(q) / permanents(p), 0.0)
    return float(gains.mean()), float(gains.std()) / math.sqrt(samples)


def all_equal(s: float, bins: int) -> Strategy:
    def strategy(i: int, past: Floats) -> tuple[Floats, Floats]:
        given = np.full((past.shape[0], bins), -s)
        given[:, 0] = s
        return given, np.full(past.shape[0], -s)

    return strategy


def adaptive(s: float, bins: int) -> Strategy:
    """Directions turn with what was released; in the first batch half of the others are like x."""

    def strategy(i: int, past: Floats) -> tuple[Floats, Floats]:
        sign = np.where(past.sum(axis=1) > 0.0, 1.0, -1.0)
        given = -np.ones((past.shape[0], bins))
        given[:, 0] = 1.0
        if i == 0:
            given[:, : bins // 2] = 1.0
        return given * s * sign[:, None], -s * sign

    return strategy


@pytest.mark.parametrize("make", [all_equal, adaptive])
def test_simulations_of_all_orders_stay_below(make: Callable[[float, int], Strategy]) -> None:
    s, bins = 0.125, 6
    account = md.account(md.subsample(md.shuffle(bins, 1), md.gaussian(noise_multiplier=1 / s)))
    for epsilon in (0.0, 0.1):
        bound = account.delta(epsilon)
        mean, error = simulated(make(s, bins), bins, math.exp(epsilon), seed=7)
        assert mean - 4 * error <= bound.upper
        # The simulation would notice a bound of half that, and shuffling is amplified.
        if epsilon == 0.0:
            assert mean - 4 * error > 0.5 * bound.upper
        assert bound.upper < float(md.gaussian(shift=2 * s).delta([epsilon])[0])
        if make is all_equal:
            assert mean + 4 * error >= bound.lower


def upper(plan: md.types.Plan, relation: str = "replace_one", delta: float = 1e-6) -> float:
    return md.account(plan, relation=relation).epsilon(delta).upper


def test_more_noise_batches_and_delta_cost_less() -> None:
    assert upper(shuffled(6.0, 100)) > upper(shuffled(8.0, 100)) > upper(shuffled(8.0, 150))
    assert upper(shuffled(8.0, 100), delta=1e-5) < upper(shuffled(8.0, 100))


def test_epochs_compose_and_stay_below_no_amplification() -> None:
    one, three = (md.account(shuffled(8.0, 100, k)).epsilon(1e-5) for k in (1, 3))
    assert one.upper < three.upper < 3 * one.upper
    assert one.lower <= one.upper
    assert three.lower <= three.upper < 1.35 * three.lower
    plain = upper(md.repeat(3, md.gaussian(noise_multiplier=8.0)), delta=1e-5)
    assert three.upper < 0.25 * plain


def test_leaving_a_record_out_costs_less_than_replacing_it() -> None:
    out = md.account(shuffled(8.0, 100), relation="add_remove").epsilon(1e-6)
    assert out.lower <= out.upper <= 0.062  # .055 and .054 by a prototype
    assert out.upper < upper(shuffled(8.0, 100))
    exact = md.account(
        md.subsample(md.random_allocation(2000, 100), md.gaussian(noise_multiplier=8.0))
    ).epsilon(1e-6)
    assert exact.lower <= out.upper


def test_a_smaller_last_batch_counts_as_none() -> None:
    noise = md.gaussian(noise_multiplier=8.0)
    ragged = upper(md.subsample(md.shuffle(1010, 20), noise))
    assert ragged == pytest.approx(upper(md.subsample(md.shuffle(1000, 20), noise)), rel=1e-9)


def test_ending_early_is_covered_by_the_whole_epoch() -> None:
    noise, epoch = md.gaussian(noise_multiplier=8.0), md.shuffle(2000, 20)
    whole = upper(md.subsample(epoch, noise))
    assert upper(md.subsample(epoch.first(60), noise)) <= whole * (1 + 1e-6)
    # One batch of a hundred: its chance times no amplification.
    one = md.account(md.subsample(epoch.first(1), noise), relation="replace_one")
    share = 0.01 * float(md.gaussian(shift=0.25).delta([0.5])[0])
    assert one.delta(0.5).upper <= share * (1 + 1e-9)


def test_laplace_noise_is_amplified_under_replace_one() -> None:
    noise = md.laplace(noise_multiplier=8.0)
    plan = md.subsample(md.shuffle(2000, 20), noise)
    found = md.account(plan).epsilon(1e-6)
    assert 0.0 <= found.lower <= found.upper < 0.5 * upper(noise)
    with pytest.raises(md.NotCovered, match="replace_one"):
        md.account(plan, relation="add_remove").epsilon(1e-6)
    with pytest.raises(md.NotCovered, match="Gaussian noise"):
        md.subsample(md.random_allocation(2000, 100), noise)


def test_a_stated_shift_has_a_wider_ball() -> None:
    epoch = md.shuffle(2000, 20)
    stated = upper(md.subsample(epoch, md.gaussian(shift=0.25)))
    assert upper(md.subsample(epoch, md.gaussian(noise_multiplier=8.0))) < stated < 1.061
