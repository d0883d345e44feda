"""Cells of a family that are joined stay covered, whatever the grouping."""

from __future__ import annotations

import numpy as np
import pytest

import mustdp as md
from mustdp.accounting.families.composition import family_of
from mustdp.accounting.families.recursion import Cover, Snapshot, make_tests
from mustdp.accounting.families.recursion import Tests as StepTests
from mustdp.accounting.plan import atoms
from mustdp.types import Relation
from tests.arrays import FloatArray

D = 0.004
GRID = np.arange(-400, 1600)
G = Snapshot(D, -400, np.exp(-3.0 * np.maximum(GRID * D, 0.0)) * -np.expm1(-1.0 - GRID * D - 1.6))
PLACES = np.linspace(-0.5, 1.5, 9)
POINTS = np.unique(np.rint(np.geomspace(1, 1500, 60))).astype(np.int64)
POINTS = np.append(0, POINTS)


def refined(
    scheme: md.types.Scheme, noise: md.types.Mechanism
) -> tuple[Cover, StepTests, FloatArray]:
    ((atom, _),) = atoms(md.subsample(scheme, noise)).items()
    family = family_of(atom, Relation.REPLACE_ONE)
    assert family is not None
    cover, tests = (
        Cover(family, D, POINTS),
        make_tests([G], [PLACES], [np.full(9, 2e-3)], D, POINTS),
    )
    return cover, tests, cover.refined(tests, 60)[0]


@pytest.mark.parametrize("most", [1, 2, 5, 12, 500])
@pytest.mark.parametrize(
    ("scheme", "noise"),
    [
        (md.wor(1000, 30), md.gaussian(noise_multiplier=2.0)),
        (md.wor(1000, 30), md.gaussian(shift=1.0)),
        (md.must_ow(1000, 100, 50), md.gaussian(noise_multiplier=4.0)),
    ],
    ids=["disc", "distances", "must-ow"],
)
def test_every_cell_is_below_some_member(
    scheme: md.types.Scheme, noise: md.types.Mechanism, most: int
) -> None:
    cover, tests, rows = refined(scheme, noise)
    base = tests.after(cover.profiles(cover.family.ends())).max(axis=0)
    joined = cover.joined(tests, rows, base, np.full(9, 1 / 9), most, 0.0)
    assert joined.shape[0] <= most
    for row in rows:
        assert np.any(np.all(joined >= row, axis=1))
