"""Every triple is dominated by the corner of some cell, in both directions."""

from __future__ import annotations

import cmath
import math
from dataclasses import dataclass, replace

import numpy as np
import pytest

from mustdp.accounting.families import triples as cells_module
from mustdp.accounting.families.triples import (
    Corner,
    DiscTriples,
    DistantTriples,
    LineTriples,
    PairFamily,
    TripleCell,
    triangle,
)
from mustdp.mechanisms.mechanism import GaussianNoise
from tests.accounting.subsampling.three_points import Outcomes, outcomes
from tests.arrays import FloatArray

EPSILON = np.array([0.0, 0.05, 0.2, 0.3, 1.5])


def is_covered(family: PairFamily, seen: Outcomes, epsilon: FloatArray = EPSILON) -> bool:
    ahead, behind = seen.divergence(epsilon), seen.swapped.divergence(epsilon)
    for cell in family.cells():
        first, second = family.corners(cell)
        above = family.profile(first, epsilon) >= ahead * (1.0 - 1e-4) - 1e-12
        below = family.profile(second, epsilon) >= behind * (1.0 - 1e-4) - 1e-12
        if np.all(above) and np.all(below):
            return True
    return False


def random_points(seed: int, shift: float) -> tuple[complex, complex, complex]:
    rng = np.random.default_rng(seed)
    radius, angle = 0.5 * shift * np.sqrt(rng.random(3)), 2.0 * np.pi * rng.random(3)
    if seed % 2:  # on the circle, where triples are worst
        radius[:] = 0.5 * shift
    x, other, common = (cmath.rect(float(r), float(a)) for r, a in zip(radius, angle, strict=True))
    return x, other, common


@pytest.mark.parametrize("seed", range(12))
def test_points_in_a_disc(seed: int) -> None:
    family = DiscTriples(0.2, 1.5)
    assert is_covered(family, outcomes(0.2, *random_points(seed, 1.5)))


def within_a_distance(seed: int, shift: float) -> Outcomes:
    """Three points of which the farthest two are ``shift`` apart."""
    x, other, common = random_points(seed, shift)
    scale = shift / max(abs(x - other), abs(x - common), abs(other - common))
    return outcomes(0.2, scale * x, scale * other, scale * common)


@pytest.mark.parametrize("seed", range(16))
@pytest.mark.parametrize("parts", [4, 7])
def test_points_within_a_distance(seed: int, parts: int) -> None:
    # Corners of an equilateral triangle do not fit into the disc.
    assert is_covered(DistantTriples(0.2, 1.5, parts=parts), within_a_distance(seed, 1.5))


def test_cells_that_are_split_cover_what_they_did() -> None:
    @dataclass(frozen=True)
    class Split(DistantTriples):
        def cells(self) -> tuple[TripleCell, ...]:
            halves = [half for cell in super().cells() for half in cell.split()]
            return tuple(quarter for half in halves for quarter in half.split())

    for seed in range(8):
        assert is_covered(Split(0.2, 1.5), within_a_distance(seed, 1.5))


def test_a_third_side_that_is_too_long_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    # The angle at x falls with the side opposite to it: its least length counts.
    proper = DistantTriples._corner
    seen = [within_a_distance(seed, 1.5) for seed in range(8)]

    def wrong(self: DistantTriples, near: float, far: float, opposite: float) -> Corner:
        return proper(self, near, far, min(1.0, opposite + 0.5))

    monkeypatch.setattr(DistantTriples, "_corner", wrong)
    assert not all(is_covered(DistantTriples(0.2, 1.5, parts=7), one) for one in seen)


def test_an_equilateral_triangle_needs_the_wider_family() -> None:
    turn = cmath.rect(1.0, math.pi / 3.0)
    seen = outcomes(0.2, 0j, 1.5 + 0j, 1.5 * turn)
    assert is_covered(DistantTriples(0.2, 1.5), seen)
    assert not is_covered(DiscTriples(0.2, 1.5, parts=12), seen)


@pytest.mark.parametrize("seed", range(12))
def test_points_on_a_line(seed: int) -> None:
    rng = np.random.default_rng(seed)
    x, other, common = (complex(value) for value in 1.5 * rng.random(3))
    assert is_covered(LineTriples(GaussianNoise(), 0.2, 1.5), outcomes(0.2, x, other, common))


@pytest.mark.parametrize("middle", [0.3, 1.5, 2.9])
def test_a_point_between_the_others_on_a_line_is_covered(middle: float) -> None:
    family, far = LineTriples(GaussianNoise(), 0.2, 3.0), np.array([0.0, 0.3, 3.0, 5.0, 7.0])
    for x, other in ((middle, 3.0), (3.0, middle)):
        assert is_covered(family, outcomes(0.2, complex(x), complex(other), 0j), far)


def test_corners_on_the_wrong_side_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(*given: object, **more: object) -> object:
        shift, omega, share = given
        assert isinstance(omega, tuple)
        assert isinstance(share, tuple)
        low = ((omega[0],) * 2, (share[1],) * 2)  # a point of the cell, not its upper corner
        return triangle(shift, *low, **more)  # type: ignore[arg-type]

    seen = [outcomes(0.2, *random_points(seed, 1.5)) for seed in (1, 3, 5, 7, 9, 11)]
    monkeypatch.setattr(cells_module, "triangle", wrong)
    assert not all(is_covered(DiscTriples(0.2, 1.5), one) for one in seen)


def test_cells_tile_and_children_are_dominated() -> None:
    family = DiscTriples(0.1, 1.2)
    cells = family.cells()
    area = sum(math.prod(high - low for low, high in cell.ranges) for cell in cells)
    assert area == pytest.approx(0.5 * math.pi)
    for cell in cells[::7]:
        corner = family.corners(cell)
        for child in cell.split():
            for mine, theirs in zip(corner, family.corners(child), strict=True):
                assert all(a >= b for a, b in zip(mine.lengths, theirs.lengths, strict=True))
                assert mine.cosines >= theirs.cosines


def test_finer_starts_cover_as_well() -> None:
    family = replace(DiscTriples(0.2, 1.5), parts=9)
    assert is_covered(family, outcomes(0.2, *random_points(3, 1.5)))
