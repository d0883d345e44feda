"""Laws of the composition with families: one step is the certificate, and everything is ordered."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mustdp as md
from mustdp.accounting.families.composition import family_bounds
from mustdp.accounting.families.recursion import Cover, LossWindow, Recursion
from mustdp.accounting.families.triples import (
    DiscTriples,
    LineTriples,
    NestedCopies,
    PairFamily,
    ReplacementCopies,
)
from mustdp.accounting.plan import atoms
from mustdp.accounting.pld.readoff import DeltaAt
from mustdp.accounting.subsampling.one_step import upper_bound
from mustdp.mechanisms.mechanism import GaussianNoise
from mustdp.sampling.schemes import stage_law
from mustdp.types import Relation
from tests.arrays import FloatArray

REPLACE = Relation.REPLACE_ONE
D = 0.02
POINTS = np.arange(0, 250, dtype=np.int64)
WINDOW = LossWindow(D, -100, 249, 249, 150, 1.0)


def after(family: PairFamily, steps: int) -> FloatArray:
    """g at epsilon >= 0 after so many steps with every cell of the first cover."""
    cover = Cover(family, D, POINTS)
    recursion = Recursion(WINDOW, "upper")
    kernels = recursion.kernels(cover.losses(cover.profiles(family.cells())))
    for _ in range(steps):
        recursion.step(kernels)
    return recursion.values[-WINDOW.first :]


@pytest.mark.parametrize("name", ["wor", "wr", "must-ow"])
def test_one_step_is_the_one_step_certificate(name: str) -> None:
    z, tail = 2.5, 1e-20
    scheme: md.types.Scheme = {
        "wor": md.wor(50, 10), "wr": md.wr(50, 10), "must-ow": md.must_ow(50, 10, 5)
    }[name]  # fmt: skip
    families: dict[str, PairFamily] = {
        "wor": DiscTriples(0.2, 2 / z),
        "wr": ReplacementCopies(stage_law(md.wr(50, 10).reduced[0], 50, 1, tail), 2 / z),
        "must-ow": NestedCopies(
            stage_law(md.wr(10, 5).reduced[0], 10, 1, tail), 2 / z, parts=2, chance=0.2
        ),
    }
    at = np.arange(0, 60, 6)
    epsilon = np.asarray(at * D, dtype=np.float64)
    certificate = upper_bound(scheme, md.gaussian(noise_multiplier=z), epsilon, relation=REPLACE)
    found = after(families[name], 1)[at]
    assert np.all(found >= certificate * (1.0 - 1e-6))
    assert found == pytest.approx(certificate, rel=2e-3, abs=1e-7)
    account = md.account(md.subsample(scheme, md.gaussian(noise_multiplier=z)))
    assert account.delta(0.24).upper == pytest.approx(certificate[2], rel=1e-9)
    assert account.composition == "one pair"


@pytest.mark.parametrize(
    "family", [DiscTriples(0.2, 0.8, parts=3), LineTriples(GaussianNoise(), 0.2, 0.8, parts=4)]
)
def test_smaller_cells_never_give_more(family: DiscTriples | LineTriples) -> None:
    coarse, fine = after(family, 4), after(replace(family, parts=2 * family.parts), 4)
    # Cells of twice as many parts lie inside the others, in every parameter.
    assert np.all(fine <= coarse * (1.0 + 1e-3) + 1e-9)
    assert np.any(fine < coarse * (1.0 - 1e-3))


@settings(max_examples=6, deadline=None)
@given(
    kind=st.sampled_from(["wor", "wr", "must-ow"]),
    size=st.integers(5, 40),
    z=st.floats(1.5, 6.0),
    steps=st.integers(2, 30),
    epsilon=st.floats(0.0, 1.5),
)
def test_between_what_is_attained_and_one_pair(
    kind: str, size: int, z: float, steps: int, epsilon: float
) -> None:
    scheme: md.types.Scheme = {
        "wor": md.wor(200, size), "wr": md.wr(200, size), "must-ow": md.must_ow(200, 60, size)
    }[kind]  # fmt: skip
    plan = md.repeat(steps, md.subsample(scheme, md.gaussian(noise_multiplier=z)))
    old = md.account(plan, composition="pair").delta(epsilon)
    found = family_bounds(tuple(atoms(plan).items()), REPLACE, DeltaAt(epsilon), work=1e7)
    assert found is not None
    assert found.lower <= found.upper * (1.0 + 1e-9)
    assert found.upper <= old.upper * 1.05
    assert old.lower <= found.upper * (1.0 + 1e-9)
    assert found.lower <= old.upper * (1.0 + 1e-9)
