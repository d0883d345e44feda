"""ChaCha20 (RFC 8439) as integer operations on tensors: cryptographic bits where a model is.

One block is 64 bytes for a key, a counter and a nonce; blocks are independent of each other, so a
GPU computes all of them at once. Words are carried as signed 32-bit integers, whose sums wrap
around as the cipher wants it; a right shift of a negative one is masked.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from functools import cache
from typing import cast

import torch
from torch import Tensor

from mustdp.errors import InvalidParameter
from mustdp.training.networks.transfers import sent

KEY_BYTES, NONCE_BYTES = 32, 12
#: Signed 64-bit words in one block.
WORDS_PER_BLOCK = 8

_CONSTANTS = struct.unpack("<4i", b"expand 32-byte k")
_COLUMNS = ((0, 4, 8, 12), (1, 5, 9, 13), (2, 6, 10, 14), (3, 7, 11, 15))
_DIAGONALS = ((0, 5, 10, 15), (1, 6, 11, 12), (2, 7, 8, 13), (3, 4, 9, 14))


def random_words(key: bytes, nonce: bytes, count: int, device: torch.device) -> Tensor:
    """The first ``count`` 64-bit words of the stream that belongs to a key and a nonce."""
    if len(key) != KEY_BYTES or len(nonce) != NONCE_BYTES:
        raise InvalidParameter(
            f"key and nonce must be {KEY_BYTES} and {NONCE_BYTES} bytes long, got {len(key)} and "
            f"{len(nonce)}"
        )
    blocks = -(-count // WORDS_PER_BLOCK)
    if blocks >= 2**31:
        raise InvalidParameter(f"count must be below 2^34, got {count}")
    counters = torch.arange(blocks, dtype=torch.int32, device=device)
    secret = sent(torch.tensor(struct.unpack("<8i", key), dtype=torch.int32), device)
    once = sent(torch.tensor(struct.unpack("<3i", nonce), dtype=torch.int32), device)
    run = _compiled() if device.type == "cuda" else chacha_blocks
    return run(secret, counters, once).view(torch.int64).flatten()[:count]


def chacha_blocks(key: Tensor, counters: Tensor, nonce: Tensor) -> Tensor:
    """The blocks of all counters: (blocks, 16) words of 32 bits, lowest byte first."""
    first = [torch.full_like(counters, word) for word in _CONSTANTS]
    first += [key[k].expand_as(counters) for k in range(8)]
    first += [counters, *(nonce[k].expand_as(counters) for k in range(3))]
    state = list(first)
    for _ in range(10):
        for places in (*_COLUMNS, *_DIAGONALS):
            _quarter_round(state, *places)
    return torch.stack([a + b for a, b in zip(state, first, strict=True)], dim=1)


def _quarter_round(state: list[Tensor], a: int, b: int, c: int, d: int) -> None:
    for here, added, turned, bits in ((a, b, d, 16), (c, d, b, 12), (a, b, d, 8), (c, d, b, 7)):
        state[here] = state[here] + state[added]
        state[turned] = _rotated(state[turned] ^ state[here], bits)


def _rotated(words: Tensor, bits: int) -> Tensor:
    return (words << bits) | ((words >> (32 - bits)) & ((1 << bits) - 1))


@cache
def _compiled() -> Callable[[Tensor, Tensor, Tensor], Tensor]:
    """One kernel for all 80 quarter rounds, where the machine can make one."""
    compiled = torch.compile(chacha_blocks, dynamic=True)
    return cast("Callable[[Tensor, Tensor, Tensor], Tensor]", compiled)
