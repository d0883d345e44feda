"""Seeds: where randomness comes from, and the warning."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

from mustdp.errors import InvalidParameter
from mustdp.sampling.seeding import SeededRelease, noise_generator, read_seed, release_seed


def test_without_a_seed_fresh_entropy_and_silence() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = {release_seed(None) for _ in range(20)}
    assert len(found) == 20
    assert max(found) > 2**100


@pytest.mark.parametrize(
    "given", [0, np.int64(3), np.random.default_rng(1), np.random.RandomState(1)]
)
def test_any_seed_warns_loudly(given: Any) -> None:
    with pytest.warns(SeededRelease, match="experiments only"):
        seed = release_seed(given)
    assert 0 <= seed < 2**128


def test_generators_give_a_new_seed_each_time() -> None:
    rng = np.random.default_rng(1)
    assert read_seed(rng) != read_seed(rng)
    assert read_seed(7) == 7


@pytest.mark.parametrize("given", [-1, 2**128, 1.5, "one", True])
def test_seeds_that_make_no_sense(given: Any) -> None:
    with pytest.raises(InvalidParameter, match="random_state"):
        release_seed(given)


def test_the_noise_of_two_seeds_differs() -> None:
    first, again, other = (noise_generator(seed).normal(size=4) for seed in (1, 1, 2))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)
