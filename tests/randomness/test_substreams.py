"""Keys and the generators they give: fresh, found by number, carried to workers, never shown."""

from __future__ import annotations

import json
import pickle
from typing import Any

import numpy as np
import pytest

import mustdp as md
from mustdp.estimation.designs import Level
from mustdp.randomness.keys import (
    BATCHES,
    NESTED,
    BatchKey,
    Substreams,
    _derived,
    aes_counter,
    batch_key,
    generator,
)

SECRET = BatchKey("0123456789abcdef" * 4)
KEYS = [SECRET, batch_key(5)]


def words(key: BatchKey, purpose: int, path: tuple[int, ...], number: int) -> list[int]:
    found: list[int] = (
        Substreams(key, purpose, path).at(number).integers(2**64, size=300, dtype=np.uint64)
    ).tolist()
    return found


@pytest.mark.parametrize("key", KEYS)
def test_purpose_path_and_number_all_matter(key: BatchKey) -> None:
    cases: list[Any] = [
        (BATCHES, (), 0), (BATCHES, (), 1), (BATCHES, (), 2**52), (NESTED, (), 0),
        (NESTED, (0,), 0), (NESTED, (0, 0), 0), (NESTED, (0, 1), 0), (NESTED, (1, 0), 0),
    ]  # fmt: skip
    found = [word for case in cases for word in words(key, *case)]
    assert len(set(found)) == len(found)
    assert words(key, *cases[-1]) == words(key, *cases[-1])


@pytest.mark.parametrize("key", KEYS)
def test_a_number_is_the_same_whatever_came_before(key: BatchKey) -> None:
    streams = Substreams(key, BATCHES)
    first = streams.at(7).random(3).tolist()
    streams.at(8).integers(10, size=1, dtype=np.uint32)  # leaves half a word behind
    assert streams.at(7).random(3).tolist() == first
    assert pickle.loads(pickle.dumps(streams)).at(7).random(3).tolist() == first


def test_a_secret_key_keeps_its_streams() -> None:
    """Checkpoints hold keys: what a key means must not change. Words: OpenSSL, HMAC and AES."""
    assert Substreams(SECRET, BATCHES).at(1).bit_generator.random_raw(2).tolist() == FIRST_WORDS


@pytest.mark.parametrize("number", [0, 1, 9, 2**53])
def test_a_number_is_the_upper_half_of_the_counter(number: int) -> None:
    streams = Substreams(SECRET, NESTED, (4, 2))
    streams.at(3).random(5)
    cipher = aes_counter(_derived(SECRET.secret, NESTED, (4, 2)), number << 64)
    assert np.array_equal(streams.at(number).bit_generator.random_raw(50), cipher.random_raw(50))


FIRST_WORDS = [16271173084491588669, 14305128003425588544]


@pytest.mark.parametrize("key", KEYS)
def test_streams_of_either_kind_are_saved_sent_and_restored(key: BatchKey) -> None:
    scheme = md.must_ow(1000, 50, 20)
    stream = scheme.batches(key, count=12)
    straight = list(scheme.batches(key, count=12))
    assert next(stream) == straight[0]
    assert list(pickle.loads(pickle.dumps(stream))) == straight[1:]
    restored = md.types.BatchStream.restore(json.loads(json.dumps(stream.state)), scheme)
    assert restored.key == key
    assert list(restored) == straight[1:]
    shares = [dict(part.numbered()) for part in scheme.batches(key, count=12).split(3)]
    assert {t: batch for share in shares for t, batch in share.items()} == dict(enumerate(straight))


@pytest.mark.parametrize("key", KEYS)
def test_trees_of_either_kind_are_shared_out(key: BatchKey) -> None:
    design = md.types.NestedDesign(1000, (Level(2, "wor", 50), Level(3, "wr", 40)))
    whole = dict(design.draws(key))
    parts = [dict(design.draws(key, worker=k, workers=4)) for k in range(4)]
    assert {path: batch for part in parts for path, batch in part.items()} == whole
    assert design.subset((1, 2), key) == whole[1, 2]


def test_keys_are_not_shown() -> None:
    for key in KEYS:
        stream = md.wor(10, 3).batches(key)
        for thing in (key, stream, stream._generators, [key]):
            assert key.text not in repr(thing)
            assert "0123456789abcdef" not in str(thing)


@pytest.mark.parametrize("text", ["", "0" * 63, "g" * 64, "0" * 33, 5, None])
def test_texts_that_are_no_keys(text: Any) -> None:
    with pytest.raises(md.InvalidParameter, match="hexadecimal"):
        BatchKey(text)


def test_a_seed_is_no_secret() -> None:
    with pytest.raises(md.InvalidParameter, match="secret"):
        _ = batch_key(5).secret
    assert batch_key(5).seed == 5
    assert SECRET.seed is None
    assert batch_key(SECRET) is SECRET


def test_unseeded_draws_come_from_the_cipher() -> None:
    assert type(generator(None).bit_generator).__name__ == "AESCounter"
    assert not np.array_equal(generator(None).random(4), generator(None).random(4))
    assert type(md.wr(5, 2).batches()._generators.at(0).bit_generator).__name__ == "AESCounter"


def test_generator_refuses_seeds_and_legacy_state() -> None:
    rng = np.random.default_rng(1)
    assert generator(rng) is rng
    with pytest.raises(md.InvalidParameter, match=r"rng must be a numpy\.random\.Generator"):
        generator(1)  # type: ignore[arg-type]
