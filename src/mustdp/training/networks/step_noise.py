"""The noise of a training step: exactly rounded Gaussian integers, made where the sums are.

On a CPU they are those of ``mustdp.noise`` (``central_noise.py``). On a GPU the same rounding is
done there, on words of ChaCha20 under a fresh key for every step: the first 64 bits of each value
are pushed through the inverse tail in double precision, with the margin of ``mustdp.noise.laws``.
The few values that the margin does not decide go to the CPU, where they are settled with as many
further bits as they need.
"""

from __future__ import annotations

import math
from collections.abc import Callable
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

#: Values that a GPU works on at once.
_TOGETHER = 1 << 24
Candidates = Callable[[Tensor, float, float, float], tuple[Tensor, Tensor]]


class StepNoise:
    """Independent noise for every step, of standard deviation ``ratio`` in units of the lattice.

    Secret and never the same again unless the run's key is a seed. It stays in its process.
    """

    def __init__(self, key: BatchKey, ratio: float) -> None:
        self._ratio = check_ratio(ratio)
        self._seed = key.seed
        self._source = NoiseSource() if key.seed is None else None

    def add(self, step: int, sums: Tensor) -> None:
        """Add the noise of a step to integer sums, in place."""
        source = self._source or NoiseSource(self._seed, path=(step,))
        flat = sums.view(-1)
        if sums.device.type == "cpu":
            flat += central_noise(self._ratio, len(flat), source)
            return
        for part in torch.split(flat, _TOGETHER):
            part += device_noise(self._ratio, len(part), sums.device, source)


def device_noise(ratio: float, count: int, device: torch.device, source: NoiseSource) -> Tensor:
    """``count`` independent exact values on a device, under a key that the source gives."""
    check_device(device)
    words = random_words(source.words(4).tobytes(), bytes(NONCE_BYTES), count, device)
    return from_words(words, ratio, source)


def from_words(words: Tensor, ratio: float, source: NoiseSource) -> Tensor:
    """The integers that begin with these words; what they leave open, the source decides."""
    law = GAUSSIAN
    widest = float(law.uncertainty(np.array([law.surely_within]))[0])
    within = float(math.floor(ratio * law.surely_within) - 1)
    run = _compiled() if words.is_cuda else _candidates
    found, doubtful = run(words, ratio, 0.5 - ratio * widest, within)
    places = doubtful.nonzero().flatten()
    if len(places):
        leading = words[places].cpu().numpy().view(np.uint64)
        values, undecided = rounded(law, leading, ratio)
        for k in undecided:
            values[k] = settle(law, int(leading[k]), ratio, lambda: int(source.words(1)[0]))
        found[places] = torch.from_numpy(values).to(words.device)
    return found


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
