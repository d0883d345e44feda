"""Noise that changes from step to step, and coordinates with sensitivities of their own."""

from __future__ import annotations

import math
import time

import numpy as np
import pytest
from scipy.signal import fftconvolve

import mustdp as md
from tests.arrays import FloatArray


def test_thousands_of_gaussian_releases_are_one_exactly() -> None:
    """Gaussian losses add up: mu is the root of the sum of squares."""
    sizes = np.geomspace(30.0, 300.0, 3000).tolist()
    start = time.perf_counter()
    account = md.account(md.sequence(*(md.gaussian(noise_multiplier=z) for z in sizes)))
    found = account.epsilon(1e-6)
    exact = md.account(md.gaussian(shift=2 * math.sqrt(sum(z**-2 for z in sizes)))).epsilon(1e-6)
    assert exact.lower * (1 - 1e-12) <= found.upper <= exact.upper * (1 + 1e-9)
    assert found.lower == pytest.approx(exact.lower, rel=1e-6)
    assert (account.steps, account.shift) == (3000, None)
    # Without joining it took minutes; a generous limit for a loaded machine.
    assert time.perf_counter() - start < 30


def test_a_schedule_of_subsampled_steps_lies_between_constant_ones() -> None:
    scheme, sizes = md.poisson(60_000, 0.01), np.linspace(1.0, 1.5, 20).tolist()
    found = md.account(
        md.sequence(*(md.subsample(scheme, md.gaussian(noise_multiplier=z)) for z in sizes))
    ).epsilon(1e-5)
    least, most = (
        md.account(
            md.repeat(20, md.subsample(scheme, md.gaussian(noise_multiplier=z)))
        ).epsilon(1e-5)
        for z in (1.5, 1.0)
    )  # fmt: skip
    assert least.lower < found.lower <= found.upper < most.upper
    assert found.upper <= found.lower * 1.01


@pytest.mark.parametrize("kind", ["gaussian", "laplace"])
def test_coordinates_with_different_sensitivities_add_up(kind: str) -> None:
    """One record moves every coordinate by its own sensitivity: a sum of independent losses."""
    sensitivities, size = (1, 2, 5, 9), 12.0
    k = np.arange(-600, 601).astype(np.float64)
    spacing, total = 2e-5, np.ones(1)
    offset = 0
    for moved in sensitivities:
        away, back = (
            np.abs(x) / size if kind == "laplace" else 0.5 * np.square(x / size)
            for x in (k, k - moved)
        )
        p = np.exp(-back)
        p /= p.sum()
        index = np.rint((away - back) / spacing).astype(np.int64)
        low = int(index.min())
        total = np.maximum(fftconvolve(total, np.bincount(index - low, weights=p)), 0.0)
        offset += low
    losses: FloatArray = np.asarray((np.arange(total.size) + offset) * spacing, dtype=np.float64)

    def make(moved: int) -> md.types.Mechanism:
        if kind == "laplace":
            return md.discrete_laplace(scale=size, sensitivity=moved)
        return md.discrete_gaussian(sigma=size, sensitivity=moved)

    account = md.account(md.sequence(*map(make, sensitivities)))
    for epsilon in (0.1, 0.5, 0.9):
        exact = float(total @ np.maximum(-np.expm1(epsilon - losses), 0.0))
        found = account.delta(epsilon)
        assert found.lower <= exact * (1 + 1e-3) + 1e-9
        assert exact <= found.upper * (1 + 1e-3) + 1e-9
        assert found.upper <= exact * 1.01 + 1e-6


def different(count: int, z: float = 3.0) -> md.types.Plan:
    """Gaussian releases that hardly differ and come to one of noise multiplier ``z``."""
    sizes = z * math.sqrt(count) * (1.0 + 1e-6 * np.arange(count))
    return md.sequence(*(md.gaussian(noise_multiplier=float(one)) for one in sizes))


@pytest.mark.parametrize("count", [3, 8])
def test_releases_on_one_subset_have_no_family(count: int) -> None:
    """A family is proved for one release; a contribution here may depend on an earlier output."""
    wor = md.wor(1000, 50)
    plan = md.repeat(100, md.subsample(wor, different(count)))
    account = md.account(plan, composition="family")
    single = md.repeat(100, md.subsample(wor, md.gaussian(noise_multiplier=3.0)))
    found, pair = account.epsilon(1e-5), md.account(single, composition="pair").epsilon(1e-5)
    assert account.composition == "one pair"
    assert found.upper == pytest.approx(pair.upper, rel=2e-3)
    assert found.lower == pytest.approx(pair.lower, rel=5e-3)  # their weighted sum is looked at
    # It would be smaller with the family of a single release.
    assert md.account(single, composition="family").epsilon(1e-5).upper < 0.97 * pair.upper
