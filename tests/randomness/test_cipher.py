"""The cipher against the vectors that its standards print.

FIPS 197 (2001), appendices B and C.1, and SP 800-38A (2001), sections F.1.1 (single blocks) and
F.5.1 (counter mode). The counter of SP 800-38A grows at its other end, so that every block of it is
asked for by its own counter here.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from randomgen.aes import AESCounter

import mustdp as md
from mustdp.randomness import keys
from mustdp.randomness.keys import NoiseSource, aes_counter

KEY_38A = "2b7e151628aed2a6abf7158809cf4f3c"
SINGLE = [
    ("000102030405060708090a0b0c0d0e0f", "00112233445566778899aabbccddeeff",
     "69c4e0d86a7b0430d8cdb78070b4c55a"),
    (KEY_38A, "3243f6a8885a308d313198a2e0370734", "3925841d02dc09fbdc118597196a0b32"),
    (KEY_38A, "6bc1bee22e409f96e93d7e117393172a", "3ad77bb40d7a3660a89ecaf32466ef97"),
    (KEY_38A, "ae2d8a571e03ac9c9eb76fac45af8e51", "f5d3d58503b9699de785895a96fdbaaf"),
    (KEY_38A, "30c81c46a35ce411e5fbc1191a0a52ef", "43b1cd7f598ece23881b00e3ed030688"),
    (KEY_38A, "f69f2445df4f9b17ad2b417be66c3710", "7b0c785e27e8ad3f8223207104725dd4"),
]  # fmt: skip
COUNTERS = [
    ("f0f1f2f3f4f5f6f7f8f9fafbfcfdfeff", "6bc1bee22e409f96e93d7e117393172a",
     "874d6191b620e3261bef6864990db6ce"),
    ("f0f1f2f3f4f5f6f7f8f9fafbfcfdff00", "ae2d8a571e03ac9c9eb76fac45af8e51",
     "9806f66b7970fdff8617187bb9fffdff"),
    ("f0f1f2f3f4f5f6f7f8f9fafbfcfdff01", "30c81c46a35ce411e5fbc1191a0a52ef",
     "5ae4df3edbd5d35e5b4f09020db03eab"),
    ("f0f1f2f3f4f5f6f7f8f9fafbfcfdff02", "f69f2445df4f9b17ad2b417be66c3710",
     "1e031dda2fbe03d1792170a0f3009cee"),
]  # fmt: skip


def block(key: str, counter: str) -> bytes:
    """The first block of the stream."""
    start = int.from_bytes(bytes.fromhex(counter), "little")
    words = aes_counter(bytes.fromhex(key), start).random_raw(2)
    return np.asarray(words).astype("<u8").tobytes()


@pytest.mark.parametrize(("key", "plain", "cipher"), SINGLE)
def test_single_blocks(key: str, plain: str, cipher: str) -> None:
    assert block(key, plain).hex() == cipher


@pytest.mark.parametrize(("counter", "plain", "cipher"), COUNTERS)
def test_counter_mode(counter: str, plain: str, cipher: str) -> None:
    pairs = zip(block(KEY_38A, counter), bytes.fromhex(plain), strict=True)
    assert bytes(a ^ b for a, b in pairs).hex() == cipher


@pytest.mark.parametrize("start", [0, 5, 2**64 - 7, 2**64 - 4, 2**64 - 1, 3 << 64])
def test_the_stream_is_the_counter_counted_up(start: int) -> None:
    key = bytes(range(16))
    together = aes_counter(key, start).random_raw(60).reshape(-1, 2)
    single = [aes_counter(key, start + t).random_raw(2) for t in range(30)]
    assert np.array_equal(together, np.array(single))


def test_keys_of_another_length_are_refused() -> None:
    with pytest.raises(md.InvalidParameter, match="key must be 16 bytes long, got 15"):
        aes_counter(bytes(15))


@pytest.fixture
def _untried() -> Iterator[None]:
    """As in a fresh process: nothing has been tried yet; and nothing is kept afterwards."""
    tried = keys.check_cipher, keys._check_numbering
    for one in tried:
        one.cache_clear()
    yield
    for one in tried:
        one.cache_clear()


class Broken:
    """Bits that are right but for what a subclass breaks."""

    def __init__(self, key: int, counter: int) -> None:
        self.bits: Any = AESCounter(key=key, counter=counter)

    def random_raw(self, count: int) -> Any:
        return self.bits.random_raw(count)

    @property
    def state(self) -> Any:
        return self.bits.state

    @state.setter
    def state(self, state: Any) -> None:
        self.bits.state = state


class Constant(Broken):
    """A generator that gives the same words always."""

    def random_raw(self, count: int) -> Any:
        return np.zeros(count, dtype=np.uint64)


class KeyIgnored(Broken):
    """As if the key schedule had failed."""

    def __init__(self, key: int, counter: int) -> None:
        super().__init__(0, counter)


class Repeated(Broken):
    """Single blocks are right, and the stream repeats its first four."""

    def random_raw(self, count: int) -> Any:
        return np.resize(self.bits.random_raw(min(count, 8)), count)


class BytesTurned(Broken):
    """As on a machine that writes the highest byte first."""

    def random_raw(self, count: int) -> Any:
        return self.bits.random_raw(count).byteswap()


@pytest.mark.usefixtures("_untried")
@pytest.mark.parametrize("broken", [Constant, KeyIgnored, Repeated, BytesTurned])
def test_another_cipher_draws_nothing(
    broken: type[Broken], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keys, "AESCounter", broken)
    with pytest.raises(md.NumericalFailure, match="nothing was drawn"):
        NoiseSource()
    with pytest.raises(md.NumericalFailure, match="nothing was drawn"):
        next(iter(md.types.BatchStream(md.wor(10, 2))))
    with pytest.raises(md.NumericalFailure, match="nothing was drawn"):
        md.private_release(np.ones(10), lower=0, upper=2, noise_multiplier=1.0, delta=1e-3)


@pytest.mark.usefixtures("_untried")
def test_a_state_that_is_laid_out_otherwise_draws_no_batches(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With the number written to another place, every batch would be the same."""

    def elsewhere(bits: Any) -> tuple[Any, Any]:
        state = bits.state
        return state, state["s"]["counter"][1::2].copy()

    monkeypatch.setattr(keys, "_numbered", elsewhere)
    with pytest.raises(md.NumericalFailure, match="nothing was drawn"):
        next(iter(md.types.BatchStream(md.wor(10, 2))))


@pytest.mark.usefixtures("_untried")
def test_the_cipher_is_tried_once() -> None:
    for _ in range(3):
        NoiseSource()
        next(iter(md.types.BatchStream(md.wor(10, 2))))
    for tried in (keys.check_cipher, keys._check_numbering):
        assert tried.cache_info().misses == 1
        assert tried.cache_info().hits > 0
