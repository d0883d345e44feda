"""The cipher on tensors against the published vectors of RFC 8439."""

from __future__ import annotations

import struct

import pytest

pytest.importorskip("torch")

import torch

from mustdp.errors import InvalidParameter, NumericalFailure
from mustdp.training.networks import noise
from mustdp.training.networks.noise import chacha_blocks, check_device, random_words

CPU = torch.device("cpu")


def block(key: bytes, counter: int, nonce: bytes) -> bytes:
    words = chacha_blocks(
        torch.tensor(struct.unpack("<8i", key), dtype=torch.int32),
        torch.tensor([counter], dtype=torch.int32),
        torch.tensor(struct.unpack("<3i", nonce), dtype=torch.int32),
    )
    return struct.pack("<16i", *words[0].tolist())


#: RFC 8439, section 2.3.2 and appendix A.1, test vectors 1, 2, 4 and 5.
VECTORS = [
    (
        bytes(range(32)), 1, bytes.fromhex("000000090000004a00000000"),
        "10f1e7e4d13b5915500fdd1fa32071c4c7d1f4c733c068030422aa9ac3d46c4e"
        "d2826446079faa0914c2d705d98b02a2b5129cd1de164eb9cbd083e8a2503c4e",
    ),
    (
        bytes(32), 0, bytes(12),
        "76b8e0ada0f13d90405d6ae55386bd28bdd219b8a08ded1aa836efcc8b770dc7"
        "da41597c5157488d7724e03fb8d84a376a43b8f41518a11cc387b669b2ee6586",
    ),
    (
        bytes(32), 1, bytes(12),
        "9f07e7be5551387a98ba977c732d080dcb0f29a048e3656912c6533e32ee7aed"
        "29b721769ce64e43d57133b074d839d531ed1f28510afb45ace10a1f4b794d6f",
    ),
    (
        bytes([0, 0xFF]) + bytes(30), 2, bytes(12),
        "72d54dfbf12ec44b362692df94137f328fea8da73990265ec1bbbea1ae9af0ca"
        "13b25aa26cb4a648cb9b9d1be65b2c0924a66c54d545ec1b7374f4872e99f096",
    ),
    (
        bytes(32), 0, bytes(11) + bytes([2]),
        "c2c64d378cd536374ae204b9ef933fcd1a8b2288b3dfa49672ab765b54ee27c7"
        "8a970e0e955c14f3a88e741b97c286f75f8fc299e8148362fa198a39531bed6d",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("key", "counter", "nonce", "expected"), VECTORS)
def test_the_published_blocks(key: bytes, counter: int, nonce: bytes, expected: str) -> None:
    assert block(key, counter, nonce).hex() == expected


def test_words_are_the_stream_in_order() -> None:
    key, nonce = bytes(range(32)), bytes(range(12))
    expected = b"".join(block(key, counter, nonce) for counter in range(3))
    found = random_words(key, nonce, 21, CPU)
    assert struct.pack("<21q", *found.tolist()) == expected[: 21 * 8]


def test_keys_of_another_length_are_refused() -> None:
    with pytest.raises(InvalidParameter, match="32 and 12 bytes"):
        random_words(bytes(16), bytes(12), 1, CPU)


def test_a_device_with_another_cipher_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def off_by_one_bit(key: bytes, nonce: bytes, count: int, device: torch.device) -> torch.Tensor:
        words = random_words(key, nonce, count, device)
        words[-1] ^= 1
        return words

    check_device.cache_clear()
    check_device(CPU)
    check_device.cache_clear()
    monkeypatch.setattr(noise, "random_words", off_by_one_bit)
    with pytest.raises(NumericalFailure, match="RFC 8439"):
        check_device(CPU)
    check_device.cache_clear()
