"""No pair of tiny data sets exceeds the certified bound, and some pair reaches the lower one.

All schemes, both relations, both noise laws, groups of one and two; see ``enumerated.py``.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from mustdp import gaussian, laplace, multistage, one_step, poisson
from mustdp.types import Scheme
from tests.accounting.subsampling.enumerated import (
    FloatArray,
    Stages,
    Worst,
    poisson_batches,
    staged_batches,
    sum_laws,
)
from tests.seams import upper_bound

EPSILONS = np.array([0.0, 0.05, 0.2, 0.5, 1.0, 2.0])
MAKERS = {"gaussian": gaussian, "laplace": laplace}

STAGED: dict[str, tuple[int, Stages]] = {
    "wor": (4, [("wor", 2)]),
    "wor-all": (3, [("wor", 3)]),
    "wor-most": (4, [("wor", 3)]),
    "wr": (4, [("wr", 3)]),
    "wr-tiny": (2, [("wr", 4)]),
    "must-ow": (4, [("wor", 2), ("wr", 3)]),
    "must-ow-most": (3, [("wor", 2), ("wr", 4)]),
    "must-ww": (3, [("wr", 3), ("wr", 3)]),
    "must-ww-narrow": (4, [("wr", 2), ("wr", 3)]),
    "must-wo": (3, [("wr", 4), ("wor", 2)]),
    "must-oo": (4, [("wor", 3), ("wor", 2)]),
    "three-wr": (3, [("wr", 2), ("wr", 3), ("wr", 2)]),
    "three-mixed": (4, [("wor", 3), ("wr", 2), ("wr", 3)]),
    "three-shortened": (3, [("wr", 3), ("wor", 2), ("wr", 3)]),
}
RATES = {"poisson": (3, 0.3), "poisson-rare": (3, 0.02), "poisson-all": (2, 1.0)}


def scheme_of(name: str) -> Scheme:
    if name in RATES:
        return poisson(*RATES[name])
    n, stages = STAGED[name]
    return multistage(n, stages)


@cache
def laws(name: str, relation: str, group: int) -> tuple[tuple[FloatArray, FloatArray], ...]:
    n = scheme_of(name).n
    if name in RATES:
        batches = poisson_batches(n, RATES[name][1])
        smaller = poisson_batches(n - group, RATES[name][1])
    else:
        batches = staged_batches(n, STAGED[name][1])
        smaller = staged_batches(n - group, STAGED[name][1])
    return tuple(sum_laws(batches, None if relation == "replace_one" else smaller, n, group))


def possible(name: str, relation: str, group: int) -> bool:
    """Whether the smaller data set can be drawn from at all."""
    if name in RATES or relation == "replace_one":
        return True
    n, stages = STAGED[name]
    return n - group >= (stages[0][1] if stages[0][0] == "wor" else 1)


CASES = [
    (name, relation, group)
    for name in [*STAGED, *RATES]
    for relation in ("replace_one", "add_remove")
    for group in (1, 2)
    if possible(name, relation, group) and group < scheme_of(name).n
]


@pytest.mark.parametrize(("name", "relation", "group"), CASES)
@pytest.mark.parametrize("noise", list(MAKERS))
@pytest.mark.parametrize("z", [0.7, 3.0])
def test_no_pair_exceeds_the_upper_bound_and_some_pair_reaches_the_lower(
    name: str, relation: str, group: int, noise: str, z: float
) -> None:
    mechanism = MAKERS[noise](noise_multiplier=z)
    step = one_step(scheme_of(name), mechanism, EPSILONS, relation=relation, group=group)
    worst = Worst(laws(name, relation, group), noise, z)
    found = np.array([worst.at(epsilon) for epsilon in EPSILONS])
    assert np.all(found <= step.upper + 1e-13)
    assert np.all(step.lower <= found + 1e-9)
    for family, values in step.attained.items():
        assert np.all(values <= found + 1e-9), family


@pytest.mark.parametrize("name", ["wor", "wr", "must-wo", "must-oo", "poisson", "poisson-rare"])
@pytest.mark.parametrize("noise", list(MAKERS))
def test_under_add_remove_the_bound_is_reached_by_the_grid(name: str, noise: str) -> None:
    """For one stage around the noise, and for Poisson sampling, the worst pair is on the grid."""
    mechanism = MAKERS[noise](noise_multiplier=0.7)
    step = one_step(scheme_of(name), mechanism, EPSILONS, relation="add_remove")
    worst = Worst(laws(name, "add_remove", 1), noise, 0.7)
    found = np.array([worst.at(epsilon) for epsilon in EPSILONS])
    assert np.allclose(found, step.upper, rtol=1e-9, atol=1e-13)


@pytest.mark.parametrize("group", [1, 2])
@pytest.mark.parametrize("noise", list(MAKERS))
def test_poisson_under_replace_one_is_reached_by_the_grid(noise: str, group: int) -> None:
    mechanism = MAKERS[noise](noise_multiplier=0.7)
    step = one_step(poisson(3, 0.3), mechanism, EPSILONS, relation="replace_one", group=group)
    worst = Worst(laws("poisson", "replace_one", group), noise, 0.7)
    found = np.array([worst.at(epsilon) for epsilon in EPSILONS])
    assert np.allclose(found, step.upper, rtol=1e-9, atol=1e-13)


@pytest.mark.parametrize("name", ["wr", "must-ow", "must-ww", "poisson"])
def test_each_direction_of_add_remove_bounds_its_own_order(name: str) -> None:
    scheme, mechanism = scheme_of(name), gaussian(noise_multiplier=1.0)
    worst = Worst(laws(name, "add_remove", 1), "gaussian", 1.0)
    by_order = np.stack([worst.all(epsilon).max(axis=1) for epsilon in EPSILONS], axis=1)
    remove = upper_bound(scheme, mechanism, EPSILONS, relation="add_remove", direction="remove")
    add = upper_bound(scheme, mechanism, EPSILONS, relation="add_remove", direction="add")
    assert np.all(by_order[0] <= remove + 1e-13)
    assert np.all(by_order[1] <= add + 1e-13)
    if name in ("wr", "poisson"):
        assert np.allclose(by_order, [remove, add], rtol=1e-9, atol=1e-13)


def planar(values: FloatArray, z: float, spacing: float = 0.06) -> FloatArray:
    """Density of the noisy sum of plane vectors on a square grid, for WR with two draws."""
    axis = np.arange(-8.0, 8.0, spacing)
    density = np.zeros((axis.size, axis.size))
    for first in values:
        for second in values:
            x, y = (first + second) / z
            density += np.outer(np.exp(-0.5 * (axis - x) ** 2), np.exp(-0.5 * (axis - y) ** 2))
    return np.asarray(density * (spacing**2 / (2.0 * np.pi * len(values) ** 2)))


def test_vectors_in_the_plane_do_not_exceed_the_bound_either() -> None:
    """Gaussian noise in two dimensions, by quadrature; the bound never asks for the dimension."""
    z = 1.1
    bound = one_step(multistage(3, [("wr", 2)]), gaussian(noise_multiplier=z), EPSILONS).upper
    rng = np.random.default_rng(20240607)
    angles = [rng.uniform(0.0, 2.0 * np.pi, 4) for _ in range(12)]
    # Three records on the circle and a substitute; the last case is the aligned pair.
    angles.append(np.array([np.pi, np.pi, 0.0, np.pi]))
    largest = np.zeros(EPSILONS.size)
    for chosen in angles:
        points = np.stack([np.cos(chosen), np.sin(chosen)], axis=1)
        p, q = planar(points[:3], z), planar(points[[0, 1, 3]], z)
        for first, second in ((p, q), (q, p)):
            for k, epsilon in enumerate(EPSILONS):
                gap = np.maximum(first - np.exp(epsilon) * second, 0.0).sum()
                largest[k] = max(largest[k], gap)
    assert np.all(largest <= bound * (1.0 + 1e-3))
    assert np.all(largest >= 0.9 * bound)
