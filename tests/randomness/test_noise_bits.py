"""The source of noise: fresh, bound to its process, and silent about its key."""

from __future__ import annotations

import copy
import os
import pickle
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import mustdp as md
from mustdp.randomness import keys
from mustdp.randomness.keys import NoiseSource


def test_secret_sources_share_nothing() -> None:
    found = np.concatenate([NoiseSource().words(100) for _ in range(20)])
    assert len(np.unique(found)) == found.size


def test_a_source_goes_on() -> None:
    source, again = NoiseSource(3), NoiseSource(3)
    parts = np.concatenate([source.words(count) for count in (1, 0, 7, 64)])
    assert np.array_equal(parts, again.words(72))
    assert len(np.unique(parts)) == 72


def test_seeds_and_paths_name_streams_and_are_marked() -> None:
    sources = [NoiseSource(3), NoiseSource(4), NoiseSource(3, path=(0,)), NoiseSource(3, path=(4,))]
    assert all(source.seeded for source in sources)
    assert not NoiseSource().seeded
    with pytest.raises(AttributeError):
        sources[0].seeded = False  # type: ignore[misc]
    assert len({int(source.words(1)[0]) for source in sources}) == 4
    with pytest.raises(md.InvalidParameter, match="path"):
        NoiseSource(path=(1,))
    with pytest.raises(md.InvalidParameter, match="seed must be"):
        NoiseSource(-1)


@pytest.mark.parametrize("take", [pickle.dumps, copy.copy, copy.deepcopy])
@pytest.mark.parametrize("seed", [None, 3])
def test_a_source_is_never_copied(take: Callable[[Any], Any], seed: int | None) -> None:
    with pytest.raises(TypeError, match="never copied"):
        take(NoiseSource(seed))


def test_a_source_shows_nothing() -> None:
    assert repr(NoiseSource()) == "<noise source>"
    assert not hasattr(NoiseSource(), "__dict__")


def in_child(source: NoiseSource) -> bytes:
    """What a forked child finds when it goes on with the source."""
    read, write = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # other threads are none of its concern
        child = os.fork()
    if child == 0:
        os.write(write, source.words(8).tobytes())
        os._exit(0)
    os.close(write)
    found = os.read(read, 64)
    os.close(read)
    os.waitpid(child, 0)
    return found


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_forked_child_has_noise_of_its_own() -> None:
    source = NoiseSource()
    source.words(5)
    first, second = in_child(source), in_child(source)
    own = source.words(8).tobytes()
    assert len(first) == len(second) == 64
    assert len({first, second, own}) == 3
    assert in_child(NoiseSource(3)) == NoiseSource(3).words(8).tobytes()


def test_a_child_with_the_number_of_its_grandparent_is_noticed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    source = NoiseSource()
    bits = source._bits
    monkeypatch.setattr(keys, "_forks", keys._forks + 1)
    source.words(1)
    assert source._bits is not bits
