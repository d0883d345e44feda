"""The noise of a training step: exactly rounded Gaussian integers, made where the sums are."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Iterator, Sequence
from functools import cache, lru_cache
from typing import cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from mustdp.calibration.budget import STRATEGY_UNIT
from mustdp.errors import InvalidParameter, NumericalFailure
from mustdp.noise import fused
from mustdp.noise.exact import (
    ARITHMETIC,
    GAUSSIAN,
    check_arithmetic,
    check_ratio,
    exact_noise,
    rounded,
    settle,
)
from mustdp.numerics.arrays import IntArray
from mustdp.randomness.keys import BatchKey, NoiseSource
from mustdp.training.networks.devices import fetched, kernels_for, sent

# ChaCha20 (RFC 8439) as integer operations on tensors: cryptographic bits where a model is.
#
# One block is 64 bytes for a key, a counter and a nonce; blocks are independent of each other, so a
# GPU computes all of them at once. Words are carried as signed 32-bit integers, whose sums wrap
# around as the cipher needs it; a right shift of a negative one is masked.


#: Of ChaCha20 (RFC 8439, section 2.3).
KEY_BYTES, NONCE_BYTES = 32, 12
#: Signed 64-bit words in one block.
WORDS_PER_BLOCK = 8

_CONSTANTS = struct.unpack("<4i", b"expand 32-byte k")
#: Words of the state that a quarter round takes: columns, then diagonals (RFC 8439, section 2.3).
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
    both = sent(torch.tensor(struct.unpack("<11i", key + nonce), dtype=torch.int32), device)
    kernels = kernels_for(device)
    if kernels is not None:
        found: Tensor = kernels.chacha_words(both, blocks)
    else:
        counters = torch.arange(blocks, dtype=torch.int32, device=device)
        run = _compiled_chacha() if device.type == "cuda" else chacha_blocks
        found = run(both[:8], counters, both[8:])
    return found.view(torch.int64).flatten()[:count]


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
def _compiled_chacha() -> Callable[[Tensor, Tensor, Tensor], Tensor]:
    """One kernel for all 80 quarter rounds, where the machine can make one."""
    compiled = torch.compile(chacha_blocks, dynamic=True)
    return cast("Callable[[Tensor, Tensor, Tensor], Tensor]", compiled)


# Exact noise on a CPU, several times faster: the centre of the normal law by torch's ``erfinv``.
#
# It is the noise of ``mustdp.noise.exact``, word for word: a word is a sign and the first 63 bits
# of V, and the size h has P(|g| > h) = V. Here h = sqrt(2) erfinv(1 - V) in double precision,
# which is good for h <= 3.5. What lies beyond, and what the margin does not decide, goes the usual
# way with the same words. The margin is derived in docs/derivations/clipping.md ("Noise").


#: Sizes up to here are found by ``erfinv``; one value in two thousand is larger.
WITHIN = 3.5
#: What 1 - V can be off by: 2^-54 as it is rounded and 2^-63 for the bits that follow.
_COMPLEMENT_ERROR = 2.0**-53
#: Values worked on at once: what they need stays in the cache.
_CPU_CHUNK = 16_384
_LOWEST_63_BITS = np.uint64((1 << 63) - 1)


def central_noise(ratio: float, count: int, source: NoiseSource) -> Tensor:
    """``count`` independent exact values, those of ``exact_noise`` for the same words."""
    if not erfinv_is_good():
        return torch.from_numpy(exact_noise(GAUSSIAN, ratio, count, source))
    found = np.empty(count, dtype=np.int64)
    rounding = _Rounding(ratio, min(count, _CPU_CHUNK))
    places, doubtful = [], []
    for start in range(0, count, _CPU_CHUNK):
        part = found[start : start + _CPU_CHUNK]
        words = source.words(len(part))
        some = rounding(words, part)
        places.append(start + some)
        doubtful.append(words[some])
    if places:
        at, leading = np.concatenate(places), np.concatenate(doubtful)
        found[at], undecided = rounded(GAUSSIAN, leading, ratio)
        for k in undecided:
            word = int(leading[k])
            found[at[k]] = settle(GAUSSIAN, word, ratio, lambda: int(source.words(1)[0]))
    return torch.from_numpy(found)


def margin(size: float) -> float:
    """How far the true size, for any V that begins with the same bits, can be away.

    The first term is for ``erfinv`` and the products, the second for 1 - V: the density at the
    size turns what that is off by into a distance.
    """
    density = math.sqrt(2.0 / math.pi) * math.exp(-0.5 * size * size)
    return ARITHMETIC * max(1.0, size) + 2.0 * _COMPLEMENT_ERROR / density


class _Rounding:
    """Rounds chunks of words with one margin for all; its arrays are used again and again."""

    def __init__(self, ratio: float, most: int) -> None:
        self._ratio = ratio
        self._surely_rounded = 0.5 - ratio * margin(WITHIN)
        self._surely_within = math.floor(ratio * WITHIN) - 1
        self._bits = np.empty(most, dtype=np.uint64)
        self._points = torch.empty(most, dtype=torch.float64)
        self._whole = np.empty(most)
        self._sure, self._near = np.empty((2, most), dtype=np.bool_)

    def __call__(self, words: NDArray[np.uint64], out: IntArray) -> IntArray:
        """Write integers into ``out`` and return the places that are to be looked at closely."""
        count = len(words)
        bits, whole = self._bits[:count], self._whole[:count]
        sure, near = self._sure[:count], self._near[:count]
        # With its 63 bits turned over a word stands for 1 - V, and its sign is still the sign.
        np.bitwise_xor(words, _LOWEST_63_BITS, out=bits)
        points = self._points[:count].copy_(torch.from_numpy(bits.view(np.int64)))
        sizes = points.mul_(2.0**-63).erfinv_().mul_(self._ratio * math.sqrt(2.0)).numpy()
        np.rint(sizes, out=whole)
        with np.errstate(invalid="ignore"):
            np.subtract(sizes, whole, out=sizes)
        np.abs(sizes, out=sizes)
        np.less(sizes, self._surely_rounded, out=sure)
        np.abs(whole, out=sizes)
        np.less(sizes, self._surely_within, out=near)
        np.logical_and(sure, near, out=sure)
        places = np.flatnonzero(np.logical_not(sure, out=sure))
        whole[places] = 0.0  # may be infinite
        np.copyto(out, whole, casting="unsafe")
        return places


@cache
def erfinv_is_good() -> bool:
    """Whether torch's ``erfinv`` is as good as the margin assumes, compared with scipy's ``ndtri``.

    On numbers t for which 1 - t is exact, over all magnitudes and signs. Where it is not, the noise
    is made without it. ``ndtri`` is compared with enclosures (``mustdp.noise.exact``).
    """
    check_arithmetic(GAUSSIAN)
    largest = math.erf(WITHIN / math.sqrt(2.0)) + 1e-5
    points = [np.linspace(0.0, largest, 20_001), 1.0 - np.geomspace(1.0 - largest, 1.0, 20_001)]
    points += [np.geomspace(2.0**-40, 0.5, 5_001), np.linspace(0.0, 1.0, 257)[:-1]]
    t = np.minimum(np.rint(np.concatenate(points) * 2.0**53) * 2.0**-53, largest)
    expected = -GAUSSIAN.negative_sizes((1.0 - t) / 2.0)
    allowed = ARITHMETIC / 4.0 * np.maximum(1.0, expected)
    for sign in (1.0, -1.0):
        found = torch.erfinv(torch.from_numpy(sign * t)).numpy() * (sign * math.sqrt(2.0))
        if not np.all(np.abs(found - expected) <= allowed):
            return False
    return True


# The noise of a step. On a CPU it is that of ``mustdp.noise`` (:func:`central_noise`). On a GPU the
# same rounding is done there, on words of ChaCha20 under a fresh key for every step: the first 64
# bits of each value are pushed through the inverse tail in double precision, with the margin of
# ``mustdp.noise.exact``. The few values that the margin does not decide go to the CPU, where they
# are settled with as many further bits as they need.


#: Values that a GPU works on at once.
_GPU_CHUNK = 1 << 26
#: Values for which a call of compiled code costs more than the passes it saves.
_FEW_ON_GPU = 1 << 21
#: Values in doubt that are fetched without asking how many there are: twice as many as can be
#: expected, and some more.
_FETCHED_FURTHER = 1 << 10
Candidates = Callable[[Tensor, float, float, float], tuple[Tensor, Tensor]]


class StepNoise:
    """Independent noise for every step, of standard deviation ``ratio`` in units of the lattice.

    Secret and never the same again unless the run's key is a seed. It stays in its process.
    """

    def __init__(self, key: BatchKey, ratio: float) -> None:
        self._ratio = check_ratio(ratio)
        self._seed = key.seed
        self._source = NoiseSource() if key.seed is None else None
        self._begun: tuple[int, list[Begun]] | None = None

    def begin(self, step: int, count: int, device: torch.device) -> None:
        """Start on the noise of a step, so that a GPU has it ready when the sums are."""
        if device.type != "cpu":
            self._begun = step, list(self._start(step, count, device))

    def add(self, step: int, sums: Tensor) -> None:
        """Add the noise of a step to integer sums, in place."""
        flat = sums.view(-1)
        if sums.device.type == "cpu":
            flat += central_noise(self._ratio, len(flat), self._of(step))
            return
        begun, self._begun = self._begun, None  # used once
        if begun is None or begun[0] != step or sum(map(len, begun[1])) != len(flat):
            begun = step, list(self._start(step, len(flat), sums.device))
        for part in torch.split(flat, _GPU_CHUNK):
            part += begun[1].pop(0).finished()

    def fuses(self, count: int, parameters: Sequence[nn.Parameter]) -> bool:
        """Whether :meth:`release` takes the place of the passes after one another."""
        usual = all(p.dtype == torch.float32 and p.device.type == "cpu" for p in parameters)
        many = count >= fused.FEWEST and fused.fits(self._ratio)
        return usual and many and fused.is_available()

    def release(
        self, step: int, sums: Sequence[Tensor], lattice: float, size: float,
        parameters: Sequence[nn.Parameter], scale: float,
    ) -> list[float]:  # fmt: skip
        """Round, add the noise of a step and hand over, as :func:`as_gradients`, in one pass."""
        flat = [values.contiguous().view(-1).numpy() for values in sums]
        # Single-precision sums are overwritten: what is in doubt is read before it is.
        found = [v if v.dtype == np.float32 else np.empty(len(v), np.float32) for v in flat]
        further = flat[len(parameters) :]
        source = self._of(step)
        shown = found[: len(parameters)]
        fused.release(flat[: len(parameters)], lattice, self._ratio, source, shown, size, scale)
        for parameter, values in zip(parameters, shown, strict=True):
            parameter.grad = torch.from_numpy(values).view_as(parameter)
        numbers: list[float] = []
        for values in further:
            whole = np.rint(values / lattice).astype(np.int64)
            noise = exact_noise(GAUSSIAN, self._ratio, len(whole), source)
            numbers += ((whole + noise) * lattice).tolist()
        return numbers

    def _start(self, step: int, count: int, device: torch.device) -> Iterator[Begun]:
        source = self._of(step)
        for start in range(0, count, _GPU_CHUNK):
            yield begin(self._ratio, min(_GPU_CHUNK, count - start), device, source)

    def _of(self, step: int) -> NoiseSource:
        return self._source or NoiseSource(self._seed, path=(step,))


def device_noise(ratio: float, count: int, device: torch.device, source: NoiseSource) -> Tensor:
    """``count`` independent exact values on a device, under a key that the source gives."""
    return begin(ratio, count, device, source).finished()


def begin(ratio: float, count: int, device: torch.device, source: NoiseSource) -> Begun:
    """Start on them, so that a GPU has them ready when they are needed."""
    check_device(device)
    key = source.words(4).tobytes()

    def words() -> Tensor:
        return random_words(key, bytes(NONCE_BYTES), count, device)

    return Begun(words, ratio, source)


class Begun:
    """The integers that begin with these words; what they leave open, the source decides.

    The values in doubt are on their way to the CPU as soon as a GPU has found them; only
    :meth:`finished` waits for them. ``again`` makes the words, which are not kept: where more
    values are in doubt than were sent, it makes the same ones once more.
    """

    def __init__(self, again: Callable[[], Tensor], ratio: float, source: NoiseSource) -> None:
        law, words = GAUSSIAN, again()
        widest = float(law.uncertainty(np.array([law.surely_within]))[0])
        within = float(math.floor(ratio * law.surely_within) - 1)
        many = words.is_cuda and len(words) > _FEW_ON_GPU
        run = _compiled_candidates() if many else _candidates
        self._again, self._ratio, self._source = again, ratio, source
        self._found, self._doubtful = run(words, ratio, 0.5 - ratio * widest, within)
        likely = len(words) * (2.0 * ratio * widest + math.erfc(law.surely_within * math.sqrt(0.5)))
        few = min(_FETCHED_FURTHER + math.ceil(2.0 * likely), len(words))
        self._places = torch.nonzero_static(self._doubtful, size=few, fill_value=0).flatten()
        self._number = fetched(self._doubtful.sum())
        self._leading = fetched(words[self._places])
        self._copied: torch.cuda.Event | None = None
        if words.is_cuda:
            self._copied = torch.cuda.current_stream(words.device).record_event()

    def __len__(self) -> int:
        """How many values there are."""
        return len(self._found)

    def finished(self) -> Tensor:
        """All of them, decided."""
        if self._copied is not None:
            self._copied.synchronize()
        number = int(self._number)
        if not number:
            return self._found
        places, leading = self._places[:number], self._leading[:number].numpy().view(np.uint64)
        if number > len(self._places):
            places = self._doubtful.nonzero().flatten()
            leading = self._again()[places].cpu().numpy().view(np.uint64)
        values, undecided = rounded(GAUSSIAN, leading, self._ratio)
        for k in undecided:
            values[k] = settle(
                GAUSSIAN, int(leading[k]), self._ratio, lambda: int(self._source.words(1)[0])
            )
        self._found[places] = sent(torch.from_numpy(values), self._found.device)
        return self._found


def _candidates(
    words: Tensor, ratio: float, surely_rounded: float, surely_within: float
) -> tuple[Tensor, Tensor]:
    """Rounded values, and which of them are to be looked at closely (0 there)."""
    signed = words.double()
    points = -ratio * torch.special.ndtri(signed.abs() * GAUSSIAN.unit)
    whole = points.round()
    doubtful = ((points - whole).abs() >= surely_rounded) | (whole >= surely_within)
    doubtful |= ~points.isfinite()
    whole = torch.where(doubtful, 0.0, torch.copysign(whole, signed))
    return whole.long(), doubtful


@cache
def _compiled_candidates() -> Candidates:
    return cast("Candidates", torch.compile(_candidates, dynamic=True))


#: RFC 8439, section 2.3.2: key, nonce and the block of counter 1.
_VECTOR_KEY = bytes(range(32))
_VECTOR_NONCE = bytes.fromhex("000000090000004a00000000")
_VECTOR_BLOCK = (
    "10f1e7e4d13b5915500fdd1fa32071c4c7d1f4c733c068030422aa9ac3d46c4e"
    "d2826446079faa0914c2d705d98b02a2b5129cd1de164eb9cbd083e8a2503c4e"
)


@lru_cache(maxsize=8)
def check_device(device: torch.device) -> None:
    """Refuse a device whose cipher or inverse normal tail is not what the noise assumes.

    The cipher is compared with RFC 8439, section 2.3.2. scipy's tail is compared with enclosures
    (``mustdp.noise.exact``); a device's tail is compared with scipy's.
    """
    check_arithmetic(GAUSSIAN)
    words = random_words(_VECTOR_KEY, _VECTOR_NONCE, 2 * WORDS_PER_BLOCK, device)
    block = words[WORDS_PER_BLOCK:].cpu().numpy().astype("<i8").tobytes()
    if block.hex() != _VECTOR_BLOCK:
        raise NumericalFailure(
            f"the cipher on {device} does not give the published block of RFC 8439; nothing was "
            "drawn"
        )
    edges = [math.exp(-2.0) * (1.0 + k * 2.0**-50) for k in range(-64, 65)]
    points = np.array([*np.geomspace(2.0**-64, 0.4999, 20_000), *edges])
    expected = GAUSSIAN.negative_sizes(points)
    found = torch.special.ndtri(torch.from_numpy(points).to(device)).cpu().numpy()
    allowed = ARITHMETIC / 8.0 * np.maximum(1.0, np.abs(expected))
    if not np.all(np.abs(found - expected) <= allowed):
        raise NumericalFailure(
            f"the inverse of the normal tail on {device} is wrong by more than the margin of the "
            "noise allows; nothing was drawn"
        )


# Between sums and what is released: integers on a lattice, which add up exactly in any order.
#
# A sum is rounded to the lattice of multiples of a power of two. Noise that is rounded exactly to
# the same lattice is added (:class:`StepNoise`), so that what is released is a rounding of the sum
# plus Gaussian noise in real numbers, whatever the sum was (docs/derivations/clipping.md and
# noise.md). Everything after that is post-processing.


def on_lattice(sums: Sequence[Tensor], step: float) -> Tensor:
    """All entries in one row, in units of ``step``, a power of two, rounded to the nearest."""
    flat = torch.cat([values.flatten().double() for values in sums])
    return flat.mul_(1.0 / step).round_().to(torch.int64)


def as_gradients(
    sums: Tensor, step: float, size: float, parameters: Sequence[nn.Parameter], scale: float = 1.0
) -> list[float]:
    """Hand what was released, divided by a public size, to the optimiser; numbers after it."""
    count = sum(parameter.numel() for parameter in parameters)
    further: list[float] = sums[count:].double().mul_(step).tolist()
    found = sums[:count].double().mul_(step / size * scale)
    if all(parameter.dtype == parameters[0].dtype for parameter in parameters):
        found = found.to(parameters[0].dtype)  # faster than one after the other
    pieces = torch.split(found, [parameter.numel() for parameter in parameters])
    for parameter, piece in zip(parameters, pieces, strict=True):
        parameter.grad = piece.view_as(parameter).to(parameter.dtype)
    return further


class Bands:
    """Correlates the noise of steps by a banded Toeplitz strategy C, on integers.

    Row t of C times the sums, plus noise of its own, is what is released of step t: integers times
    integer factors, without any rounding. Solving for the sums is post-processing, and leaves the
    gradients with correlated noise. Sums before their noise stay in memory for as many steps as
    there are bands; they are never written.
    """

    def __init__(self, strategy: Sequence[float]) -> None:
        self._factors = [round(factor / STRATEGY_UNIT) for factor in strategy]
        self._sums: dict[int, Tensor] = {}
        self._estimates: dict[int, Tensor] = {}

    def check(self, largest: float) -> None:
        """Refuse sums of up to ``largest`` in size, noise included, that may not fit integers."""
        if not largest * sum(map(abs, self._factors)) < 2.0**62:
            raise InvalidParameter(
                "batches are too large for banded noise of this scale: its sums do not fit into "
                "integers of 64 bits; smaller batches or more noise help"
            )

    def row(self, step: int, sums: Tensor) -> Tensor:
        """Row ``step`` of the strategy times the sums, in units of ``STRATEGY_UNIT`` each."""
        self._sums[step] = sums
        self._forget(self._sums, step)
        found = sums * self._factors[0]
        for back, factor in self._earlier(step):
            found += self._sums[step - back] * factor
        return found

    def estimate(self, step: int, released: Tensor) -> Tensor:
        """The sum of this step, with correlated noise, from what was released of it and before."""
        found = released.double()
        if any(step - back not in self._estimates for back, _ in self._earlier(step)):
            raise InvalidParameter(
                "a run with banded noise cannot go on after a step that was broken off while it "
                "was released"
            )
        for back, factor in self._earlier(step):
            found -= self._estimates[step - back] * factor
        found /= self._factors[0]
        self._estimates[step] = found
        self._forget(self._estimates, step)
        return found.clone()

    def _earlier(self, step: int) -> list[tuple[int, int]]:
        return [*enumerate(self._factors)][1 : step + 1]

    def _forget(self, kept: dict[int, Tensor], step: int) -> None:
        # One more than is needed: a step that broke off is made again.
        for old in [number for number in kept if number < step - len(self._factors)]:
            del kept[old]


def refuse_not_finite(records: int, step: int) -> None:
    """End a step in which the gradients of ``records`` records are not numbers."""
    if not records == 0:
        raise NumericalFailure(
            f"step {step}: the gradients of some records are not finite; the data holds NaN or "
            "infinity, or the model has diverged (a smaller learning rate helps). Nothing of this "
            "step was released"
        )
