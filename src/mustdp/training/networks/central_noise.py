"""Exact noise on a CPU, several times faster: the centre of the normal law by torch's ``erfinv``.

It is the noise of ``mustdp.noise.exact``, word for word: a word is a sign and the first 63 bits of
V, and the size h has P(|g| > h) = V. Here h = sqrt(2) erfinv(1 - V) in double precision, which is
good for h <= 3.5. What lies beyond, and what the margin does not decide, goes the usual way with
the same words. The margin is derived in docs/derivations/clipping.md ("Noise").
"""

from __future__ import annotations

import math
from functools import cache

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mustdp.noise.exact import exact_noise, rounded, settle
from mustdp.noise.laws import ARITHMETIC, GAUSSIAN
from mustdp.noise.trust import check_arithmetic
from mustdp.numerics.arrays import IntArray
from mustdp.randomness.noise_bits import NoiseSource

#: Sizes up to here are found by ``erfinv``; one value in two thousand is larger.
WITHIN = 3.5
#: What 1 - V can be off by: 2^-54 as it is rounded and 2^-63 for the bits that follow.
_ROUNDED = 2.0**-53
#: Values worked on at once: what they need stays in the cache.
_CHUNK = 16_384
_TURNED = np.uint64((1 << 63) - 1)


def central_noise(ratio: float, count: int, source: NoiseSource) -> Tensor:
    """``count`` independent exact values, those of ``exact_noise`` for the same words."""
    if not erfinv_is_good():
        return torch.from_numpy(exact_noise(GAUSSIAN, ratio, count, source))
    found = np.empty(count, dtype=np.int64)
    rounding = _Rounding(ratio, min(count, _CHUNK))
    places, doubtful = [], []
    for start in range(0, count, _CHUNK):
        part = found[start : start + _CHUNK]
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
    return ARITHMETIC * max(1.0, size) + 2.0 * _ROUNDED / density


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
        np.bitwise_xor(words, _TURNED, out=bits)
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
    is made without it. ``ndtri`` is compared with enclosures (``mustdp.noise.trust``).
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
