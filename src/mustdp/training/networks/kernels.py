"""Kernels of Triton for what a step computes on a GPU beside the model: random bits and squares.

Loaded where there is a GPU and Triton only. Floating-point arguments of a kernel are float32 there,
so that none is passed: constants are powers of two, and factors are made of whole numbers.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

#: What one program of a kernel works on: blocks of the cipher, and numbers of a sum.
_BLOCKS = 128
_NUMBERS = 1024


@triton.jit  # type: ignore[misc, untyped-decorator, unused-ignore]
def _quarter(a, b, c, d):  # type: ignore[no-untyped-def]
    a = a + b
    d = d ^ a
    d = (d << 16) | (d >> 16)
    c = c + d
    b = b ^ c
    b = (b << 12) | (b >> 20)
    a = a + b
    d = d ^ a
    d = (d << 8) | (d >> 24)
    c = c + d
    b = b ^ c
    b = (b << 7) | (b >> 25)
    return a, b, c, d


@triton.jit  # type: ignore[misc, untyped-decorator, unused-ignore]
def _chacha(given, words, blocks, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
    counter = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    zero = tl.zeros((BLOCK,), tl.uint32)
    k0 = zero + tl.load(given + 0).to(tl.uint32, bitcast=True)
    k1 = zero + tl.load(given + 1).to(tl.uint32, bitcast=True)
    k2 = zero + tl.load(given + 2).to(tl.uint32, bitcast=True)
    k3 = zero + tl.load(given + 3).to(tl.uint32, bitcast=True)
    k4 = zero + tl.load(given + 4).to(tl.uint32, bitcast=True)
    k5 = zero + tl.load(given + 5).to(tl.uint32, bitcast=True)
    k6 = zero + tl.load(given + 6).to(tl.uint32, bitcast=True)
    k7 = zero + tl.load(given + 7).to(tl.uint32, bitcast=True)
    n0 = zero + tl.load(given + 8).to(tl.uint32, bitcast=True)
    n1 = zero + tl.load(given + 9).to(tl.uint32, bitcast=True)
    n2 = zero + tl.load(given + 10).to(tl.uint32, bitcast=True)
    c0 = tl.full((BLOCK,), 0x61707865, tl.uint32)
    c1 = tl.full((BLOCK,), 0x3320646E, tl.uint32)
    c2 = tl.full((BLOCK,), 0x79622D32, tl.uint32)
    c3 = tl.full((BLOCK,), 0x6B206574, tl.uint32)
    at = counter.to(tl.uint32)
    x0, x1, x2, x3, x4, x5, x6, x7 = c0, c1, c2, c3, k0, k1, k2, k3
    x8, x9, x10, x11, x12, x13, x14, x15 = k4, k5, k6, k7, at, n0, n1, n2
    for _ in range(10):
        x0, x4, x8, x12 = _quarter(x0, x4, x8, x12)
        x1, x5, x9, x13 = _quarter(x1, x5, x9, x13)
        x2, x6, x10, x14 = _quarter(x2, x6, x10, x14)
        x3, x7, x11, x15 = _quarter(x3, x7, x11, x15)
        x0, x5, x10, x15 = _quarter(x0, x5, x10, x15)
        x1, x6, x11, x12 = _quarter(x1, x6, x11, x12)
        x2, x7, x8, x13 = _quarter(x2, x7, x8, x13)
        x3, x4, x9, x14 = _quarter(x3, x4, x9, x14)
    out, inside = words + counter.to(tl.int64) * 16, counter < blocks
    tl.store(out + 0, (x0 + c0).to(tl.int32, bitcast=True), mask=inside)
    tl.store(out + 1, (x1 + c1).to(tl.int32, bitcast=True), mask=inside)
    tl.store(out + 2, (x2 + c2).to(tl.int32, bitcast=True), mask=inside)
    tl.store(out + 3, (x3 + c3).to(tl.int32, bitcast=True), mask=inside)
    tl.store(out + 4, (x4 + k0).to(tl.int32, bitcast=True), mask=inside)
    tl.store(out + 5, (x5 + k1).to(tl.int32, bitcast=True), mask=inside)
    tl.store(out + 6, (x6 + k2).to(tl.int32, bitcast=True), mask=inside)
    tl.store(out + 7, (x7 + k3).to(tl.int32, bitcast=True), mask=inside)
    tl.store(out + 8, (x8 + k4).to(tl.int32, bitcast=True), mask=inside)
    tl.store(out + 9, (x9 + k5).to(tl.int32, bitcast=True), mask=inside)
    tl.store(out + 10, (x10 + k6).to(tl.int32, bitcast=True), mask=inside)
    tl.store(out + 11, (x11 + k7).to(tl.int32, bitcast=True), mask=inside)
    tl.store(out + 12, (x12 + at).to(tl.int32, bitcast=True), mask=inside)
    tl.store(out + 13, (x13 + n0).to(tl.int32, bitcast=True), mask=inside)
    tl.store(out + 14, (x14 + n1).to(tl.int32, bitcast=True), mask=inside)
    tl.store(out + 15, (x15 + n2).to(tl.int32, bitcast=True), mask=inside)


def chacha_words(key_and_nonce: Tensor, blocks: int) -> Tensor:
    """The blocks of the counters from 0 on: (blocks, 16) words of 32 bits, lowest byte first.

    One pass; 2^31 blocks at most, as counters have 32 bits.
    """
    words = torch.empty(blocks, 16, dtype=torch.int32, device=key_and_nonce.device)
    _chacha[(triton.cdiv(blocks, _BLOCKS),)](key_and_nonce, words, blocks, BLOCK=_BLOCKS)
    return words


@triton.jit  # type: ignore[misc, untyped-decorator, unused-ignore]
def _squares(rows, found, length, counted, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
    row = tl.program_id(0).to(tl.int64)
    total = tl.zeros((BLOCK,), tl.float64)
    for start in range(0, length, BLOCK):
        place = start + tl.arange(0, BLOCK)
        x = tl.load(rows + row * length + place, mask=place < length, other=0.0).to(tl.float64)
        total += x * x
    zero, tiny = tl.full((), 0.0, tl.float64), tl.full((), 2.0**-126, tl.float64)
    up = (zero + counted) * tl.full((), 2.0**-52, tl.float64) + 1.0
    tl.store(found + row, tl.sum(total, 0) * up + (zero + length) * tiny * tiny)


def row_squares(rows: Tensor, counted: int) -> Tensor:
    """Sums of squares along the last dimension, in double precision, times 1 + counted 2^-52.

    Also added is what numbers that are flushed to zero, as below 2^-126, would come to at most.
    """
    length = rows.shape[-1]
    found = torch.empty(rows.shape[:-1], dtype=torch.float64, device=rows.device)
    block = min(_NUMBERS, triton.next_power_of_2(length))
    if found.numel():
        _squares[(found.numel(),)](
            rows, found, length, counted, BLOCK=block, num_warps=max(1, min(4, block // 128))
        )
    return found


@triton.jit  # type: ignore[misc, untyped-decorator, unused-ignore]
def _sizes(  # type: ignore[no-untyped-def]
    inner, outer, a, d, biases, squares, absolute, places, operations,
    BIAS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    record = tl.program_id(0).to(tl.int64)
    zero, unit = tl.full((), 0.0, tl.float64), tl.full((), 2.0**-52, tl.float64)
    lengths = tl.zeros((BLOCK,), tl.float64)
    for start in range(0, places, BLOCK):
        place = start + tl.arange(0, BLOCK)
        at, inside = record * places + place, place < places
        both = tl.load(a + at, mask=inside, other=0.0) * tl.load(d + at, mask=inside, other=0.0)
        lengths += tl.sqrt(both)
    value, pairs = tl.zeros((BLOCK,), tl.float64), places * places
    for start in range(0, pairs, BLOCK):
        pair = start + tl.arange(0, BLOCK)
        at, inside = record * pairs + pair, pair < pairs
        value += tl.load(inner + at, mask=inside, other=0.0) * tl.load(
            outer + at, mask=inside, other=0.0
        )
    length = tl.sum(lengths, 0)
    most = length * length * ((zero + (2 * (places + 1) + 8 + 16)) * unit + 1.0)
    # gamma(operations): 2^-53 (1 + 2^-11) is 2049 units of 2^-64.
    slack = (zero + operations + 16) * 2049.0 * tl.full((), 2.0**-64, tl.float64)
    found = tl.maximum(tl.sum(value, 0), zero, propagate_nan=tl.PropagateNan.ALL)
    found = (found + slack * most) * (20.0 * unit + 1.0)
    found = tl.minimum(found, most, propagate_nan=tl.PropagateNan.ALL)
    if BIAS:
        bias, up = tl.load(biases + record), 18.0 * unit + 1.0
        found = (found + bias) * up
        most = (most + bias) * up
    tl.store(squares + record, found)
    tl.store(absolute + record, most)


def product_sizes(
    inner: Tensor, outer: Tensor, a: Tensor, d: Tensor, biases: Tensor | None, operations: int,
    squares: Tensor, absolute: Tensor,
) -> None:  # fmt: skip
    """Bounds for ``sum_t d_t a_t'`` from Gram matrices and the squares of all a_t and d_t.

    As ``Products`` computes them, with the same factors; ``operations`` are those behind the value
    of the Gram form. Bounds are written to ``squares`` and ``absolute``, one for each record.
    """
    places = inner.shape[-1]
    bias = squares if biases is None else biases
    block = min(_NUMBERS, triton.next_power_of_2(places * places))
    _sizes[(len(squares),)](
        inner, outer, a, d, bias, squares, absolute, places, operations,
        BIAS=biases is not None, BLOCK=block, num_warps=max(1, min(4, block // 128)),
    )  # fmt: skip
