"""Exactly rounded noise, and the self-test of the machine's arithmetic that it rests on."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from mustdp.errors import NumericalFailure
from mustdp.noise.laws import ARITHMETIC, Law
from mustdp.numerics import checks
from mustdp.numerics.arrays import FloatArray, IntArray
from mustdp.randomness.noise_bits import NoiseSource

# Whether the arithmetic of this machine is as good as the margin assumes: asked once per process.
#
# The margin of ``laws.py`` rests on how well ``ndtri`` and ``log`` were measured to work. Another
# build of scipy or numpy could do worse, and noise would then have another law in silence. So
# before the first value is drawn they are tried here on points over all magnitudes and at the
# places where ``ndtri`` changes its formula, against enclosures between integers.


#: An eighth of the margin; the tests see to it that less is used.
_ALLOWED = Fraction(ARITHMETIC) / 8
_BITS = 160


def _points() -> FloatArray:
    near = [edge * (1.0 + k * 2.0**-50) for edge in (math.exp(-2), math.exp(-32)) for k in (-3, 3)]
    return np.array([*np.geomspace(2.0**-63, 0.49, 40), *np.linspace(0.136, 0.4999, 20), *near])


@lru_cache(maxsize=2)
def check_arithmetic(law: Law) -> None:
    """Raise where a size is farther from the truth than an eighth of the margin."""
    arguments = _points()
    sizes = -law.negative_sizes(arguments)
    for argument, size in zip(arguments.tolist(), sizes.tolist(), strict=True):
        share = Fraction(argument) * Fraction(2.0**-63) / Fraction(law.unit)
        allowed = _ALLOWED * max(Fraction(1), Fraction(size)) if math.isfinite(size) else None
        if allowed is None or not _encloses(law, Fraction(size), allowed, share):
            raise NumericalFailure(
                f"the inverse of the {law.name} tail is wrong by more than the margin of the noise "
                f"allows at {argument!r}; nothing was drawn"
            )


def _encloses(law: Law, size: Fraction, allowed: Fraction, share: Fraction) -> bool:
    """Whether T(size + allowed) <= share <= T(size - allowed)."""
    scaled = share * 2**_BITS
    beyond = law.tail(size + allowed, _BITS)[1]
    before = law.tail(max(Fraction(0), size - allowed), _BITS)[0]
    return beyond <= scaled and (size <= allowed or scaled <= before)


# Exactly rounded noise: K = round(scale * g / gamma) with the law it has in real numbers.
#
# A uniform number V with unlimited bits decides the size of g. Its first 63 bits are pushed
# through the inverse tail in double precision, all values at once. Where everything that begins
# with these bits rounds to the same integer, whatever the arithmetic may have lost, that integer
# is K. Else more bits are drawn and the comparison with the boundary is made between integers
# (``tails.py``). So the law of K is exact: no tail is cut and no value is a little too likely. The
# margin is derived in ``docs/derivations/noise.md``.
#
# ``ratio`` is scale / gamma throughout: exact, as gamma is a power of two.


BoolArray = NDArray[np.bool_]
WordArray = NDArray[np.uint64]

#: Finest and coarsest noise in lattice steps. Above, too many values would need more bits.
LARGEST_RATIO = 2.0**32
SMALLEST_RATIO = 2.0**-10

#: Values worked on at once: what they need stays in the cache.
CHUNK = 16_384

#: Words that are drawn for one value at most; that more are needed has a chance below 2^-900.
_MOST_WORDS = 16
#: Below this V a last bit is too wide to be judged by a derivative.
_NARROW = 2.0**-40
_SIGN = np.uint64(1 << 63)


def exact_noise(law: Law, ratio: float, count: int, source: NoiseSource) -> IntArray:
    """``count`` independent exact values of K.

    The source gives one word for each of them and after that, in order, what the undecided need.

    >>> from mustdp.noise.laws import GAUSSIAN
    >>> exact_noise(GAUSSIAN, 1000.0, 4, NoiseSource(1)).dtype
    dtype('int64')
    """
    ratio = check_ratio(ratio)
    count = checks.integer("count", count, 0)
    found = np.empty(count, dtype=np.int64)
    rounding = _Rounding(law, ratio, min(count, CHUNK))
    places, doubtful = [], []
    for start in range(0, count, CHUNK):
        part = found[start : start + CHUNK]
        words = source.words(len(part))
        some = rounding(words, part)
        places.append(start + some)
        doubtful.append(words[some])
    if places:
        at, leading = np.concatenate(places), np.concatenate(doubtful)
        found[at], decided = _one_by_one(law, leading, ratio)
        for k in np.flatnonzero(~decided):
            found[at[k]] = settle(law, int(leading[k]), ratio, lambda: int(source.words(1)[0]))
    return found


def rounded(law: Law, words: WordArray, ratio: float) -> tuple[IntArray, IntArray]:
    """The integers that the first words decide, and the places where they do not (0 there).

    Bits in, integers out: what another implementation of the same noise can be compared with.
    """
    ratio = check_ratio(ratio)
    words = np.ascontiguousarray(words, dtype=np.uint64)
    found = np.empty(words.size, dtype=np.int64)
    places = _Rounding(law, ratio, words.size)(words, found)
    found[places], decided = _one_by_one(law, words[places], ratio)
    return found, places[~decided]


def settle(law: Law, word: int, ratio: float, more: Callable[[], int]) -> int:
    """The integer of a value that begins with ``word`` and goes on with what ``more`` draws."""
    signed = word - (1 << 64) if word >> 63 else word
    leading, bits = (signed if signed >= 0 else -signed - 1), 63
    for _ in range(_MOST_WORDS - 1):
        leading, bits = leading << 64 | more(), bits + 64
        size = _size(law, leading, bits, ratio) if leading else None
        if size is not None:
            return size if signed >= 0 else -size
    raise NumericalFailure(
        f"{bits} random bits did not decide a value of the noise: the generator is broken"
    )


def check_ratio(ratio: float) -> float:
    """A scale in lattice steps that exact noise can be drawn for."""
    return checks.real("scale / step", ratio, at_least=SMALLEST_RATIO, at_most=LARGEST_RATIO)


class _Rounding:
    """Rounds chunks of words with one margin for all; its arrays are used again and again."""

    def __init__(self, law: Law, ratio: float, most: int) -> None:
        check_arithmetic(law)
        self._law, self._ratio = law, ratio
        widest = float(law.uncertainty(np.array([law.surely_within]))[0])
        self._surely_rounded = 0.5 - ratio * widest
        self._surely_within = math.floor(ratio * law.surely_within) - 1
        self._sizes, self._whole = np.empty((2, most))
        self._doubtful, self._far = np.empty((2, most), dtype=np.bool_)

    def __call__(self, words: WordArray, out: IntArray) -> IntArray:
        """Write integers into ``out`` and return the places that are to be looked at closely."""
        count = len(words)
        sizes, whole = self._sizes[:count], self._whole[:count]
        doubtful, far = self._doubtful[:count], self._far[:count]
        # As a signed number a word is a sign and, but for one unit, 63 bits.
        np.copyto(sizes, words.view(np.int64))
        np.abs(sizes, out=sizes)
        np.multiply(sizes, self._law.unit, out=sizes)
        with np.errstate(divide="ignore", invalid="ignore"):
            self._law.negative_sizes(sizes, out=sizes)
            np.multiply(sizes, -self._ratio, out=sizes)
            np.rint(sizes, out=whole)
            np.subtract(sizes, whole, out=sizes)
        np.abs(sizes, out=sizes)
        np.greater_equal(sizes, self._surely_rounded, out=doubtful)
        np.greater_equal(whole, self._surely_within, out=far)
        np.logical_or(doubtful, far, out=doubtful)
        places = np.flatnonzero(doubtful)
        whole[places] = 0.0  # may be infinite
        # The sign bit of the word becomes that of the integer; copysign takes twice as long.
        sign, bits = sizes.view(np.uint64), whole.view(np.uint64)
        np.bitwise_and(words, _SIGN, out=sign)
        np.bitwise_or(bits, sign, out=bits)
        np.copyto(out, whole, casting="unsafe")
        return places


def _one_by_one(law: Law, words: WordArray, ratio: float) -> tuple[IntArray, BoolArray]:
    """Integers, 0 where they are undecided, and whether each value's own margin decides it."""
    signed = words.view(np.int64).astype(np.float64)
    leading = np.abs(signed)
    near = leading >= _NARROW * 2.0**63
    sizes = -law.negative_sizes(np.where(near, leading, 2.0**62) * law.unit)
    points = sizes * ratio
    whole = np.rint(points)
    decided = near & (0.5 - np.abs(points - whole) > ratio * law.uncertainty(sizes))
    return np.where(decided, np.copysign(whole, signed), 0.0).astype(np.int64), decided


def _size(law: Law, leading: int, bits: int, ratio: float) -> int | None:
    """The rounded size for V in [leading, leading + 1] * 2^-bits, not 0; None if undecided."""
    uniform = math.ldexp(float(leading), 63 - bits)
    size = round(ratio * -float(law.negative_sizes(uniform * law.unit)))
    while True:
        reached = _reached(law, leading, bits, ratio, size)
        beyond = _reached(law, leading, bits, ratio, size + 1) if reached else False
        if reached is None or beyond is None:
            return None
        if reached and not beyond:
            return size
        size += 1 if beyond else -1


def _reached(law: Law, leading: int, bits: int, ratio: float, size: int) -> bool | None:
    """Whether the rounded size is at least ``size``: whether V lies below the tail there."""
    if size <= 0:
        return True
    boundary = Fraction(2 * size - 1) / (2 * Fraction(ratio))
    if boundary > law.farthest:
        return False  # the tail is below 2^-1023 there, and V, of so many bits at most, is not
    low, high = law.tail(boundary, bits + 16)
    if leading + 1 << 16 <= low:
        return True
    return False if leading << 16 >= high else None
