"""Several copies: flows against the isotonic maximum, the old certificate and brute force."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from scipy.special import ndtr

import mustdp as md
from mustdp.accounting.families.triples import Corner, NestedCopies, PairFamily, ReplacementCopies
from mustdp.accounting.subsampling.one_step import upper_bound
from mustdp.sampling.schemes import stage_law
from mustdp.types import Relation
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


@pytest.mark.parametrize("lengths", [(0.5, 0.6, 0.9), (0.9, 0.2, 0.8), (0.8, 0.9, 0.4)])
def test_flows_of_must_ow_attain_the_isotonic_maximum(
    lengths: tuple[float, float, float],
) -> None:
    s, (slot, first, w) = 0.9, lengths
    family = nested(OW, s)
    beta, p = family.law.positive, family.chance
    exact = []
    for t in np.exp(EPSILON):
        terms = [[(-(t - 1.0) * family.law.zero, s - first)]]
        for j, b in enumerate(beta, start=1):
            common = (-(t - 1.0) * (1.0 - p) * b, j * (s - slot))
            terms.append([(p * b, j * s), common, (-t * p * b, j * (s - w))])
        exact.append(isotonic(terms))
    bound = family.profile(Corner(lengths, (1.0, 1.0)), EPSILON)
    assert np.all(bound >= np.array(exact) * (1.0 - 1e-9))
    assert np.all(bound <= np.array(exact) * (1.0 + 1e-3) + 1e-15)


@pytest.mark.parametrize("scheme", [WR, OW])
def test_the_largest_corner_is_the_one_step_certificate(scheme: md.types.Scheme) -> None:
    z = 2.5
    family: PairFamily = with_replacement(scheme, 2 / z)
    corner = Corner((2 / z, 2 / z))
    if scheme is OW:
        family, corner = nested(scheme, 2 / z), Corner((2 / z,) * 3, (1.0, 1.0))
    old = upper_bound(
        scheme, md.gaussian(noise_multiplier=z), EPSILON, relation=Relation.REPLACE_ONE
    )
    assert family.profile(corner, EPSILON) == pytest.approx(old, rel=1e-6)


@pytest.mark.parametrize("which", [0, 1])
def test_bent_triples_are_never_above_straight_ones(which: int) -> None:
    family: PairFamily = (with_replacement(WR, 0.9), nested(OW, 0.9))[which]
    lengths = ((0.6, 0.8), (0.6, 0.7, 0.8))[which]
    straight = family.profile(Corner(lengths, (1.0, 1.0)), EPSILON)
    last = straight
    for cosine in (0.9, 0.5, 0.1):
        bent = family.profile(Corner(lengths, (cosine, cosine)), EPSILON)
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


def reached(corner: Corner, which: int, x: FloatArray, other: FloatArray, y: FloatArray) -> bool:
    """Whether lengths and inner product at x are below those of a corner's triangle."""
    u, w, inner = np.linalg.norm(y - x), np.linalg.norm(other - x), float((y - x) @ (other - x))
    long, wide = corner.lengths[which], corner.lengths[-1]
    return bool(u <= long and w <= wide and inner <= long * wide * corner.cosines[which] + 1e-12)


def test_a_cell_covers_two_triangles_over_the_same_points() -> None:
    # One of them may be obtuse, and only the other could give w the room to grow.
    family, rng = replace(nested(OW, 2.0), parts=16), np.random.default_rng(5)
    corners = [family.corners(cell) for cell in family.cells()]
    places = [rng.standard_normal((4, 3)) for _ in range(20)]
    places = [each / np.linalg.norm(each, axis=1, keepdims=True) for each in places]
    for m in (0.3, 0.5, 0.7, 0.95):
        d = math.sqrt(1.0 - m * m)
        places.append(np.array([[0.0, 1.0, 0], [d, m, 0], [-d, m, 0], [0, -1.0, 0]]))
    for x, other, slot, first in places:
        assert any(
            all(reached(ahead, k, x, other, y) for k, y in enumerate((slot, first)))
            and all(reached(behind, k, other, x, y) for k, y in enumerate((slot, first)))
            for ahead, behind in corners
        )


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


def test_mass_that_the_law_left_out_counts_in_full() -> None:
    family = with_replacement(WR, 0.9)
    less = replace(family, law=replace(family.law, cut=family.law.cut + 1e-3))
    corner = Corner((0.5, 0.9))
    gained = less.profile(corner, EPSILON) - family.profile(corner, EPSILON)
    assert np.all(gained >= 1e-3 * (1.0 - 1e-9))
