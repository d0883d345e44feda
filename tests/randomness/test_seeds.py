"""Seeds: what may be one, what warns, and what a run without one is decided by."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import mustdp as md
from mustdp.randomness.keys import (
    BATCHES,
    Substreams,
    batch_key,
    noise_generator,
    read_seed,
    release_key,
)


def test_without_a_seed_fresh_entropy_and_silence() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = {release_key(None).secret for _ in range(20)}
    assert len(found) == 20
    assert all(len(secret) == 32 for secret in found)


@pytest.mark.parametrize(
    "given", [0, np.int64(3), np.random.default_rng(1), np.random.RandomState(1)]
)
def test_any_seed_warns_loudly(given: Any) -> None:
    with pytest.warns(md.types.SeededRelease, match="experiments only"):
        seed = release_key(given).seed
    assert seed is not None
    assert 0 <= seed < 2**128


def test_generators_give_a_new_seed_each_time() -> None:
    rng = np.random.default_rng(1)
    assert read_seed(rng) != read_seed(rng)
    assert read_seed(7) == 7


@pytest.mark.parametrize("given", [-1, 2**128, 1.5, "one", True])
def test_seeds_that_make_no_sense(given: Any) -> None:
    with pytest.raises(md.InvalidParameter, match="random_state"):
        release_key(given)
    with pytest.raises(md.InvalidParameter, match="seed must be"):
        read_seed(given)


def test_the_noise_of_two_seeds_differs() -> None:
    first, again, other = (noise_generator(seed).normal(size=4) for seed in (1, 1, 2))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


def test_the_noise_of_a_secret_key_is_not_decided_by_it() -> None:
    key = release_key(None)
    assert not np.array_equal(noise_generator(key).random(4), noise_generator(key).random(4))


def test_noise_of_a_seed_is_not_what_the_seed_gives_elsewhere() -> None:
    """Data that were made with the same seed would otherwise hold the very same numbers."""
    for seed in (1, 7):
        noise = noise_generator(seed).normal(size=8)
        assert not np.array_equal(noise, np.random.default_rng(seed).normal(size=8))
        batches = Substreams(batch_key(seed), BATCHES).at(0)
        assert not np.array_equal(noise, batches.normal(size=8))
