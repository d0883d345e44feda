"""Several copies: flows against the isotonic maximum, the old certificate and brute force."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import replace

import mpmath
import numpy as np
import pytest
from scipy.special import ndtr

import mustdp as md
from mustdp.accounting.families.triples import (
    Corner,
    NestedCopies,
    PairFamily,
    ReplacementCopies,
    TripleCell,
    _CommonFlow,
    _slopes,
    _values,
    convex_above,
)
from mustdp.accounting.subsampling.one_step import upper_bound
from mustdp.sampling.schemes import stage_law
from mustdp.types import Relation
from tests.accounting.subsampling.mixing import below_a_mixture, rows_of
from tests.arrays import FloatArray

EPSILON = np.array([0.0, 0.05, 0.2, 0.6, 1.2])
TAIL = 1e-20
WR, OW = md.wr(300, 60), md.must_ow(300, 20, 30)


def with_replacement(scheme: md.types.Scheme, shift: float) -> ReplacementCopies:
    law = stage_law(scheme.reduced[0], scheme.n, 1, TAIL)  # type: ignore[attr-defined]
    return ReplacementCopies(law, shift, parts=4)


def nested(scheme: md.types.Scheme, shift: float) -> NestedCopies:
    first, second = scheme.reduced  # type: ignore[attr-defined]
    law = stage_law(second, first.size, 1, TAIL)
    return NestedCopies(law, shift, parts=4, chance=first.size / scheme.n)


def isotonic(terms: Sequence[Sequence[tuple[float, float]]]) -> float:
    """Maximum over z_0 <= z_1 <= … of sums of weight times Phi(place - z_j), on a grid."""
    z = np.linspace(-8.0, 32.0, 40_001)
    best = np.zeros(z.size)
    for group in terms:
        best = np.maximum.accumulate(best + sum(c * ndtr(a - z) for c, a in group))
    return float(best[-1])


@pytest.mark.parametrize("lengths", [(0.5, 0.9), (0.2, 0.8), (0.9, 0.4)])
def test_flows_of_wr_attain_the_isotonic_maximum(lengths: tuple[float, float]) -> None:
    s, (u, w) = 0.9, lengths
    family = with_replacement(WR, s)
    rho, zero = family.law.positive, family.law.zero
    exact = []
    for t in np.exp(EPSILON):
        terms = [[(-(t - 1.0) * zero, 0.0)]]
        for j, p in enumerate(rho, start=1):
            terms.append([(p, j * s - (s - u)), (-t * p, j * (s - w) - (s - u))])
        exact.append(isotonic(terms))
    bound = family.profile(Corner((u, w)), EPSILON)
    assert np.all(bound >= np.array(exact) * (1.0 - 1e-9))
    assert np.all(bound <= np.array(exact) * (1.0 + 1e-3) + 1e-15)


@pytest.mark.parametrize("lengths", [(0.9, 0.9), (0.5, 0.9), (0.2, 0.8), (0.9, 0.4), (0.0, 0.9)])
def test_one_flow_of_must_ow_is_above_the_isotonic_maximum_of_every_triangle(
    lengths: tuple[float, float],
) -> None:
    s, (u, w) = 0.9, lengths
    family = nested(OW, s)
    beta, p = family.law.positive, family.chance
    exact = []
    for t in np.exp(EPSILON):
        terms = [[(-(t - 1.0) * family.law.zero, 0.0)]]
        for j, b in enumerate(beta, start=1):
            common = (-(t - 1.0) * (1.0 - p) * b, 0.0)
            terms.append([(p * b, j * u), common, (-t * p * b, j * (u - w))])
        exact.append(isotonic(terms))
    bound = family.profile(Corner((u, w)), EPSILON)
    assert np.all(bound >= np.array(exact) * (1.0 - 1e-9))
    if u == w == s:  # where the flow comes from
        assert np.all(bound <= np.array(exact) * (1.0 + 1e-3) + 1e-15)


def put(theta: float, m: float, distance: float) -> float:
    """E (theta P - m Q)_+ for normal laws at this distance, with 30 digits."""
    with mpmath.workdps(30):
        d = mpmath.mpf(distance)
        at = d / 2 - mpmath.log(mpmath.mpf(m) / theta) / d
        return float(theta * mpmath.ncdf(at) - m * mpmath.ncdf(at - d))


@pytest.mark.parametrize("strike", [0.3, 0.9, 1.0, 1.2, 3.0, 12.0])
def test_several_distances_cost_at_most_the_mean_of_one_that_takes_all_places(
    strike: float,
) -> None:
    # (theta P - m Q)_+ grows with the distance, first convex, then concave: there its own values
    # would not do, and the tangent at the farthest point takes their place.
    s, copies, failed = 0.9, 3, False
    flow = _CommonFlow(
        np.zeros(1), np.zeros(1, dtype=np.int64), np.ones(1), np.full(1, strike),
        np.full(1, copies), np.zeros(1), np.ones(1, dtype=np.bool_), np.full(1, copies * s),
        _values(np.ones(1), np.full(1, strike), np.full(1, copies * s)),
        _slopes(np.ones(1), np.full(1, strike), np.full(1, copies * s)) * (1.0 - 1e-9), (),
    )  # fmt: skip
    rng = np.random.default_rng(3)
    for _ in range(60):
        own = s * rng.choice([
            rng.random(copies), rng.uniform(0.83, 1.0, copies), rng.integers(0, 2, copies)
        ])  # fmt: skip
        together = put(1.0, strike, max(own.sum(), 1e-6))
        mean = np.mean([flow.total(u, 0.0, 1.0, 0.0)[0] for u in own])
        assert together <= mean * (1.0 + 1e-9)
        without = np.mean([put(1.0, strike, max(copies * u, 1e-6)) for u in own])
        failed |= bool(together > without * (1.0 + 1e-6))
    # Convex up to the square root of 2 |log m/theta|: then nothing needs to be raised.
    assert failed == (2.0 * abs(math.log(strike)) < (copies * s) ** 2)


def test_values_are_made_convex_from_above() -> None:
    epsilon = np.linspace(0.0, 2.0, 30)
    alpha = np.exp(epsilon)
    values = np.exp(-3.0 * epsilon) * (1.0 + 0.2 * np.sin(9.0 * epsilon)) + 1e-9
    found = convex_above(epsilon, values)
    assert np.all(found >= values)
    slopes = np.diff(found) / np.diff(alpha)
    assert np.all(np.diff(slopes) >= -1e-12)
    assert np.all(slopes <= 1e-12)
    assert found[-1] == pytest.approx(values[-1], rel=1e-9)
    convex = np.exp(-epsilon)
    assert convex_above(epsilon, convex) == pytest.approx(convex, rel=1e-11)
    values[-1] = values[-4]  # where they rise, the last one included, none may be lowered
    assert np.all(convex_above(epsilon, values) >= values)


@pytest.mark.parametrize("scheme", [WR, OW])
def test_the_largest_corner_is_the_one_step_certificate(scheme: md.types.Scheme) -> None:
    z = 2.5
    family: PairFamily = with_replacement(scheme, 2 / z)
    corner = Corner((2 / z, 2 / z))
    if scheme is OW:
        family = nested(scheme, 2 / z)
    old = upper_bound(
        scheme, md.gaussian(noise_multiplier=z), EPSILON, relation=Relation.REPLACE_ONE
    )
    assert family.profile(corner, EPSILON) == pytest.approx(old, rel=1e-6)


@pytest.mark.parametrize("which", [0, 1])
def test_bent_triples_are_never_above_straight_ones(which: int) -> None:
    family: PairFamily = (with_replacement(WR, 0.9), nested(OW, 0.9))[which]
    lengths = (0.6, 0.8)
    straight = family.profile(Corner(lengths, (1.0,)), EPSILON)
    last = straight
    for cosine in (0.9, 0.5, 0.1):
        bent = family.profile(Corner(lengths, (cosine,)), EPSILON)
        assert np.all(bent <= last * (1.0 + 1e-2))
        assert np.all(bent <= straight * (1.0 + 1e-9))
        last = bent
    assert np.any(last < 0.9 * straight)


@pytest.mark.parametrize("which", [0, 1])
def test_corners_worked_on_together_are_those_by_themselves(which: int) -> None:
    family = (with_replacement(WR, 0.9), nested(OW, 0.9))[which]
    corners = [corner for cell in family.cells()[::3] for corner in family.corners(cell)]
    at_once = family.profiles(corners, EPSILON)
    alone = np.array([family.profile(corner, EPSILON) for corner in corners])
    assert at_once == pytest.approx(alone, rel=1e-9, abs=1e-15)
    assert np.ptp(alone[:, 2]) > 0.01  # they differ, so a mix-up of rows would be seen


def plane(points: Sequence[complex], weights: Sequence[float]) -> FloatArray:
    """A mixture of normal laws in the plane, as masses on a grid of outcomes."""
    grid = np.arange(-9.5, 9.5, 0.06)
    total = np.zeros((grid.size, grid.size))
    for point, weight in zip(points, weights, strict=True):
        turned = point * np.exp(0.7j)
        across, along = np.square(grid - turned.real), np.square(grid - turned.imag)
        total += weight * np.exp(-0.5 * (across[:, None] + along))
    return total.ravel() * 0.06**2 / (2.0 * math.pi)


def dominated(family: PairFamily, p: FloatArray, q: FloatArray) -> bool:
    def divergence(first: FloatArray, second: FloatArray) -> FloatArray:
        return np.array([np.maximum(first - t * second, 0.0).sum() for t in np.exp(EPSILON)])

    ahead, behind = divergence(p, q) * (1.0 - 2e-4), divergence(q, p) * (1.0 - 2e-4)
    return any(
        np.all(family.profile(first, EPSILON) >= ahead - 1e-12)
        and np.all(family.profile(second, EPSILON) >= behind - 1e-12)
        for first, second in map(family.corners, family.cells())
    )


@pytest.mark.parametrize("seed", range(4))
def test_real_draws_are_dominated_by_a_cell(seed: int) -> None:
    # All common records alike: the batch is J copies of x (or x') and the rest of y.
    rng = np.random.default_rng(seed)
    s = 1.2
    radius = 0.5 * s * (1.0 if seed % 2 else np.sqrt(rng.random(3)))
    x, other, y = radius * np.exp(2j * np.pi * rng.random(3))
    cases: list[tuple[PairFamily, list[float]]] = [
        (with_replacement(md.wr(5, 2), s), [16 / 25, 8 / 25, 1 / 25]),
        (nested(md.must_ow(6, 3, 2), s), [0.5 + 2 / 9, 2 / 9, 1 / 18]),
    ]
    for family, weights in cases:
        p = plane([j * (x - y) for j in range(3)], weights)
        q = plane([j * (other - y) for j in range(3)], weights)
        assert dominated(family, p, q)
        assert not dominated(family, plane([j * 1.3 * s for j in range(3)], weights), q)


def drawn(end: complex, common: Sequence[complex], b: int, m: int) -> FloatArray:
    """MUSTow of b of ``end`` and the common records, then m of b: all outcomes of both stages."""
    places: dict[complex, int] = {}
    for slots in itertools.combinations([end, *common], b):
        for one in itertools.product(slots, repeat=m):
            total = complex(np.round(sum(one), 12))
            places[total] = places.get(total, 0) + 1
    weights = np.array(list(places.values()), dtype=np.float64)
    return plane(list(places), weights / weights.sum())


SIZES = (6, 3, 2)


def spread_out(shift: float, seed: int) -> tuple[complex, complex, list[complex]]:
    """x and x' at the ends of a disc, and common records that are not alike."""
    rng, r = np.random.default_rng(seed), 0.5 * shift
    known: list[list[complex]] = [
        [-r, r, r, -r, r], [-r, -r, r, 1j * r, 0j], [r, r, r, r, -r], [-r, -r, -r, -r, r]
    ]  # fmt: skip
    if seed < len(known):
        return complex(r), complex(-r), [complex(one) for one in known[seed]]
    places = r * np.exp(2j * np.pi * rng.random(7))
    return complex(places[0]), complex(places[1]), [complex(one) for one in places[2:]]


def mixed_cells(family: NestedCopies, shift: float, seed: int) -> bool:
    _, b, m = SIZES
    x, other, common = spread_out(shift, seed)
    p, q = drawn(x, common, b, m), drawn(other, common, b, m)
    seen = [np.maximum(one - t * two, 0.0).sum()
            for one, two in ((p, q), (q, p)) for t in np.exp(EPSILON)]  # fmt: skip
    return below_a_mixture(rows_of(family, EPSILON, list(family.cells())), np.array(seen))


@pytest.mark.parametrize("shift", [0.8, 2.5])
@pytest.mark.parametrize("seed", range(7))
def test_records_that_are_not_alike_lie_below_a_mixture_of_cells(shift: float, seed: int) -> None:
    assert mixed_cells(replace(nested(md.must_ow(*SIZES), shift), parts=12), shift, seed)


class _Aligned(NestedCopies):
    """Every common record taken to be where x' is."""

    def cells(self) -> tuple[TripleCell, ...]:
        return (self.ends()[0],)


def test_cells_that_are_left_out_are_noticed() -> None:
    right = nested(md.must_ow(*SIZES), 2.5)
    wrong = _Aligned(right.law, right.shift, chance=right.chance)
    assert not all(mixed_cells(wrong, 2.5, seed) for seed in range(4))


def test_mass_that_the_law_left_out_counts_in_full() -> None:
    family = with_replacement(WR, 0.9)
    less = replace(family, law=replace(family.law, cut=family.law.cut + 1e-3))
    corner = Corner((0.5, 0.9))
    gained = less.profile(corner, EPSILON) - family.profile(corner, EPSILON)
    assert np.all(gained >= 1e-3 * (1.0 - 1e-9))
