"""The family of MUSTww: one step is the certificate, and every member lies below some cell."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

import mustdp as md
from mustdp.accounting.families.composition import family_of
from mustdp.accounting.families.triples import ReplacedTwice
from mustdp.accounting.plan import atoms
from mustdp.types import Relation
from tests.accounting.subsampling.mixing import below_a_mixture, rows_of
from tests.arrays import FloatArray

EPSILONS = np.array([0.0, 0.02, 0.1, 0.25, 0.5, 0.9, 1.5, 2.5])
GRID = np.arange(-8.0, 8.0, 0.05)


def family(n: int, b: int, m: int, z: float) -> ReplacedTwice:
    (atom,) = atoms(md.subsample(md.must_ww(n, b, m), md.gaussian(noise_multiplier=z)))
    found = family_of(atom, Relation.REPLACE_ONE)
    assert isinstance(found, ReplacedTwice)
    return found


@pytest.mark.parametrize(("sizes", "z"), [((200, 30, 20), 2.0), ((1000, 100, 100), 4.0)])
def test_one_step_is_the_certificate(sizes: tuple[int, int, int], z: float) -> None:
    own = family(*sizes, z)
    single = md.one_step(md.must_ww(*sizes), md.gaussian(noise_multiplier=z), EPSILONS)
    aligned, reversed_ = own.ends()
    for cell in (aligned, reversed_):
        best = np.maximum(*(own.profile(corner, EPSILONS) for corner in own.corners(cell)))
        assert best == pytest.approx(single.upper, rel=1e-3)
        assert np.all(best >= single.lower * (1.0 - 1e-5))
    # A data set is bad at one side only: that is what a family is for.
    ahead, behind = (own.profile(corner, EPSILONS) for corner in own.corners(aligned))
    assert np.any(np.minimum(ahead, behind)[1:5] < 0.9 * np.maximum(ahead, behind)[1:5])


def density(places: list[tuple[complex, float]]) -> FloatArray:
    total = np.zeros((GRID.size, GRID.size))
    for place, weight in places:
        far = np.square(GRID - place.real)[:, None] + np.square(GRID - place.imag)
        total += weight * np.exp(-0.5 * far)
    return np.asarray(total.ravel() * (GRID[1] - GRID[0]) ** 2 / (2.0 * math.pi))


def output(end: complex, common: list[complex], n: int, m: int) -> FloatArray:
    """MUSTww with slots that hold ``common`` records, the first I of them ``end`` instead."""
    b = len(common)
    places = []
    for special in range(b + 1):
        weight = math.comb(b, special) * (1 / n) ** special * (1 - 1 / n) ** (b - special)
        slots = [end] * special + common[special:]
        drawn = itertools.product(slots, repeat=m)
        places += [(sum(one), weight / b**m) for one in drawn]
    return density(places)


def divergences(p: FloatArray, q: FloatArray) -> FloatArray:
    return np.array([np.maximum(p - math.exp(e) * q, 0.0).sum() for e in EPSILONS])


def members(shift: float, count: int, seed: int) -> list[tuple[complex, complex, list[complex]]]:
    """Records in a disc of diameter ``shift``: ends, corners of triangles, and random ones."""
    r = 0.5 * shift
    found = [
        (r + 0j, -r + 0j, [-r + 0j, -r + 0j, -r + 0j]),
        (r + 0j, -r + 0j, [r + 0j, r + 0j, r + 0j]),
        (r + 0j, -r + 0j, [-r + 0j, r + 0j, 0j]),
        (r + 0j, -r + 0j, [1j * r, -r + 0j, r + 0j]),
    ]
    rng = np.random.default_rng(seed)
    for _ in range(count):
        points = r * np.sqrt(rng.uniform(size=5)) * np.exp(2j * np.pi * rng.uniform(size=5))
        x, other, *common = (complex(point) for point in points)
        found.append((x, other, common))
    return found


def above(own: ReplacedTwice, x: complex, other: complex, common: list[complex], n: int) -> bool:
    """Whether a mixture of cells dominates this pair of data sets in both orders."""
    p, q = output(x, common, n, 2), output(other, common, n, 2)
    seen = np.concatenate([divergences(p, q), divergences(q, p)])
    return below_a_mixture(rows_of(own, EPSILONS, list(own.cells())), seen)


@pytest.mark.parametrize("shift", [0.7, 1.6])
def test_every_pair_is_dominated_by_some_cell(shift: float) -> None:
    own = family(7, 3, 2, 2.0 / shift)
    for x, other, common in members(shift, 8, seed=4):
        assert above(own, x, other, common, 7)


class _Careless(ReplacedTwice):
    """Forgets what happens when several slots hold the record."""

    def _split(self, epsilon: FloatArray) -> tuple[FloatArray, FloatArray]:
        absent, rest = super()._split(epsilon)
        return absent, np.zeros(rest.size)


def test_a_forgotten_part_is_noticed() -> None:
    own = family(7, 3, 2, 2.0 / 1.6)
    wrong = _Careless(own.law, own.shift, chance=own.chance, first=own.first, inside=own.inside)
    assert not all(
        above(wrong, x, other, common, 7) for x, other, common in members(1.6, 0, seed=4)
    )


def test_many_steps_lie_between_what_is_attained_and_one_pair() -> None:
    plan = md.repeat(40, md.subsample(md.must_ww(2000, 200, 100), md.gaussian(noise_multiplier=4)))
    one = md.account(plan, composition="pair").epsilon(1e-5)
    account = md.account(plan, composition="family")
    found = account.epsilon(1e-5)
    assert account.composition == "exact-family"
    assert one.lower * (1.0 - 4e-3) <= found.lower <= found.upper
    assert found.upper < one.lower + 0.8 * (one.upper - one.lower)
