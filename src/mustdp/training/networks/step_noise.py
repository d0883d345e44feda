"""The noise of a training step: exactly rounded Gaussian integers, made where the sums are.

On a CPU they are those of ``mustdp.noise`` (``central_noise.py``). On a GPU the same rounding is
done there, on words of ChaCha20 under a fresh key for every step: the first 64 bits of each value
are pushed through the inverse tail in double precision, with the margin of ``mustdp.noise.laws``.
The few values that the margin does not decide go to the CPU, where they are settled with as many
further bits as they need.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import cache, lru_cache
from typing import cast

import numpy as np
import torch
from torch import Tensor

from mustdp.errors import NumericalFailure
from mustdp.noise.exact import check_ratio, rounded, settle
from mustdp.noise.laws import ARITHMETIC, GAUSSIAN
from mustdp.noise.trust import check_arithmetic
from mustdp.randomness.keys import BatchKey
from mustdp.randomness.noise_bits import NoiseSource
from mustdp.training.networks.central_noise import central_noise
from mustdp.training.networks.chacha import NONCE_BYTES, random_words
from mustdp.training.networks.transfers import fetched, sent

#: Values that a GPU works on at once.
_TOGETHER = 1 << 24
#: Values in doubt that are fetched without asking how many there are; about 5 in a million are.
_FEW = 1 << 10
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
        for part, noise in zip(torch.split(flat, _TOGETHER), begun[1], strict=True):
            part += noise.finished()

    def _start(self, step: int, count: int, device: torch.device) -> Iterator[Begun]:
        source = self._of(step)
        for start in range(0, count, _TOGETHER):
            yield begin(self._ratio, min(_TOGETHER, count - start), device, source)

    def _of(self, step: int) -> NoiseSource:
        return self._source or NoiseSource(self._seed, path=(step,))


def device_noise(ratio: float, count: int, device: torch.device, source: NoiseSource) -> Tensor:
    """``count`` independent exact values on a device, under a key that the source gives."""
    return begin(ratio, count, device, source).finished()


def begin(ratio: float, count: int, device: torch.device, source: NoiseSource) -> Begun:
    """Start on them."""
    check_device(device)
    words = random_words(source.words(4).tobytes(), bytes(NONCE_BYTES), count, device)
    return Begun(words, ratio, source)


class Begun:
    """The integers that begin with these words; what they leave open, the source decides.

    The values in doubt are on their way to the CPU as soon as a GPU has found them, which nobody
    waits for before :meth:`finished`.
    """

    def __init__(self, words: Tensor, ratio: float, source: NoiseSource) -> None:
        law = GAUSSIAN
        widest = float(law.uncertainty(np.array([law.surely_within]))[0])
        within = float(math.floor(ratio * law.surely_within) - 1)
        run = _compiled() if words.is_cuda else _candidates
        self._words, self._ratio, self._source = words, ratio, source
        self._found, self._doubtful = run(words, ratio, 0.5 - ratio * widest, within)
        few = min(_FEW, len(words))
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
            leading = self._words[places].cpu().numpy().view(np.uint64)
        values, undecided = rounded(GAUSSIAN, leading, self._ratio)
        for k in undecided:
            values[k] = settle(
                GAUSSIAN, int(leading[k]), self._ratio, lambda: int(self._source.words(1)[0])
            )
        self._found[places] = sent(torch.from_numpy(values), self._words.device)
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
def _compiled() -> Candidates:
    return cast("Candidates", torch.compile(_candidates, dynamic=True))


@lru_cache(maxsize=8)
def check_device(device: torch.device) -> None:
    """Refuse a device whose inverse normal tail is worse than the margin of the noise assumes.

    scipy's is compared with enclosures (``mustdp.noise.trust``); a device's is compared with it.
    """
    check_arithmetic(GAUSSIAN)
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
