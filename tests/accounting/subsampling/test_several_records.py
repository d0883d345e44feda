"""Several records of one person: cells cover pairs of data sets by brute force in the plane."""

from __future__ import annotations

import cmath
import itertools

import numpy as np
import pytest

import mustdp as md
from mustdp.accounting.families.composition import family_of
from mustdp.accounting.families.triples import Copies, DistinctCopies, ReplacementCopies
from mustdp.accounting.plan import atoms
from mustdp.types import Relation
from tests.accounting.subsampling.three_points import Outcomes
from tests.arrays import FloatArray

EPSILON = np.array([0.0, 0.05, 0.2, 0.5, 1.5])
NOISE = md.gaussian(noise_multiplier=4.0 / 3.0)
SHIFT = 1.5
SCHEMES = (md.wor(20, 8), md.wr(20, 8), md.wor(9, 3))


def family_for(scheme: md.types.Scheme, group: int) -> DistinctCopies:
    ((atom, _),) = atoms(md.subsample(scheme, NOISE)).items()
    found = family_of(atom, Relation.REPLACE_ONE, group=group)
    assert isinstance(found, DistinctCopies)
    return found


def mixture(weights: FloatArray, places: list[complex], step: float = 0.06) -> FloatArray:
    """A mixture of standard normals in the plane, as masses on one grid."""
    axis = np.arange(-10.0, 10.0, step)
    total = np.zeros((axis.size, axis.size))
    for weight, place in zip(weights, places, strict=True):
        turned = place * cmath.exp(0.7j)  # kinks along the axes would be summed badly
        squares = np.square(axis - turned.real)[:, None] + np.square(axis - turned.imag)
        total += weight * np.exp(-0.5 * squares) * step * step / (2.0 * np.pi)
    return total.ravel()


def pair_of(
    chances: FloatArray, x: list[complex], other: list[complex], common: list[complex]
) -> Outcomes:
    """J records of the person stand in the first J places, common ones in the rest."""
    sides = []
    for own in (x, other):
        moves = itertools.accumulate((a - y for a, y in zip(own, common, strict=True)), initial=0j)
        sides.append(mixture(chances, list(moves)))
    return Outcomes(*sides)


def is_covered(family: Copies, seen: Outcomes) -> bool:
    ahead, behind = seen.divergence(EPSILON), seen.swapped.divergence(EPSILON)
    for cell in family.cells():
        first, second = family.corners(cell)
        above = family.profile(first, EPSILON) >= ahead * (1.0 - 1e-4) - 1e-9
        below = family.profile(second, EPSILON) >= behind * (1.0 - 1e-4) - 1e-9
        if np.all(above) and np.all(below):
            return True
    return False


def points(rng: np.random.Generator, count: int, *, at_the_edge: bool) -> list[complex]:
    radius = 0.5 * SHIFT * (np.ones(count) if at_the_edge else np.sqrt(rng.random(count)))
    angle = 2.0 * np.pi * rng.random(count)
    return [cmath.rect(float(r), float(a)) for r, a in zip(radius, angle, strict=True)]


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("scheme", SCHEMES, ids=str)
def test_different_records_in_the_places_are_covered(scheme: md.types.Scheme, seed: int) -> None:
    rng = np.random.default_rng(seed)
    family = family_for(scheme, 2)
    chances = family.law.dense()[:3]
    places = [points(rng, chances.size - 1, at_the_edge=seed % 2 == 0) for _ in range(3)]
    assert is_covered(family, pair_of(chances, *places))


def test_only_the_first_place_keeps_its_triangle() -> None:
    """Two records of which only the second is replaced: a family that gives both places the
    triangle of the first, as draws of a single record allow, does not cover it.
    """
    family = family_for(md.wor(20, 12), 2)
    edge = 0.5 * SHIFT
    chances = family.law.dense()
    seen = pair_of(chances, [-edge + 0j, edge + 0j], [-edge + 0j, -edge + 0j], [-edge + 0j] * 2)
    wrong = ReplacementCopies(family.law, SHIFT, parts=12)
    same = [cell for cell in wrong.cells() if cell.ranges[0][0] == 0.0]  # x where x' is
    corners = [wrong.corners(cell) for cell in same]
    ahead = seen.divergence(EPSILON)
    assert is_covered(family, seen)
    assert not any(np.all(wrong.profile(one, EPSILON) >= ahead * 0.999) for one, _ in corners)
    right = DistinctCopies(family.law, SHIFT, parts=12)
    assert any(
        np.all(right.profile(right.corners(cell)[0], EPSILON) >= ahead * 0.999) for cell in same
    )


def test_which_plans_have_a_family() -> None:
    for scheme, group in ((md.must_ow(100, 20, 10), 2), (md.wor(20, 19), 2)):
        ((atom, _),) = atoms(md.subsample(scheme, NOISE)).items()
        assert family_of(atom, Relation.REPLACE_ONE, group=group) is None
    ((atom, _),) = atoms(md.subsample(md.wor(100, 10), md.gaussian(shift=1.0))).items()
    assert family_of(atom, Relation.REPLACE_ONE, group=2) is None


@pytest.mark.parametrize("scheme", [md.wor(600, 20), md.wr(600, 20)], ids=lambda one: one.name)
def test_many_steps_come_close_to_what_is_attained(scheme: md.types.Scheme) -> None:
    plan = md.repeat(100, md.subsample(scheme, md.gaussian(noise_multiplier=3.0)))
    pair = md.account(plan, group=2, composition="pair").epsilon(1e-5)
    found = md.account(plan, group=2, composition="family").epsilon(1e-5)
    assert pair.lower <= found.lower <= found.upper < 0.95 * pair.upper
    assert found.upper <= 1.02 * found.lower
