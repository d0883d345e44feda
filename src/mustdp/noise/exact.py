"""Exact noise: sums of contributions on a lattice plus exactly rounded noise, which is released.

In order: the laws at unit scale, exact rounding of their quantiles, the lattice, and the release.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from math import isqrt
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from mustdp.errors import InvalidParameter, NumericalFailure
from mustdp.numerics import checks
from mustdp.numerics.arrays import FloatArray, IntArray
from mustdp.randomness.keys import NoiseSource

# The normal and the exponential law at unit scale: fast inversion with an error bound, and tails
# to any precision.


# Tails of the normal and the exponential law between two integers, to any number of bits.
#
# All numbers are integers in units of 2^-bits, carried as a pair (at most, at least) that is
# rounded outwards at every step, so that the true value lies between the two whatever was rounded.
# The sums have positive terms only: nothing cancels before the last subtraction.
#
#     exp(y)          = sum over i of y^i / i!
#     Phi(h) - 1/2    = phi(h) * (h + h^3/3 + h^5/(3*5) + ...)      (Marsaglia 2004, JSS 11:4)


#: Bits carried beyond those asked for. A sum loses less than one unit per term and step.
_GUARD = 48

Enclosure = tuple[int, int]


def exponential_tail(h: Fraction, bits: int) -> Enclosure:
    """exp(-h) for h >= 0, in units of 2^-bits: between the two integers."""
    work = bits + _GUARD
    low, high = _exponential(_fixed(h, work), work)
    one = 1 << 2 * work
    return one // high >> _GUARD, -(-_divided_up(one, low) >> _GUARD)


def normal_tail(h: Fraction, bits: int) -> Enclosure:
    """P(|g| > h) for standard normal g and h >= 0, in units of 2^-bits."""
    work = bits + _GUARD
    low, high = _fixed(h, work)
    square = low * low >> work, (high * high >> work) + 1
    odd = _series((low, high), square, work, first=3, step=2)
    growth = _exponential((square[0] >> 1, (square[1] >> 1) + 1), work)
    root = _root_of_two_pi(work)
    # P(|g| <= h) = 2 * odd / (growth * root)
    inside_low = (odd[0] << 2 * work + 1) // (growth[1] * root[1])
    inside_high = _divided_up(odd[1] << 2 * work + 1, growth[0] * root[0])
    one = 1 << work
    return max(0, one - inside_high >> _GUARD), -(-(one - inside_low) >> _GUARD)


def _fixed(value: Fraction, work: int) -> Enclosure:
    low = (value.numerator << work) // value.denominator
    return low, low + 1


def _divided_up(numerator: int, denominator: int) -> int:
    return -(-numerator // denominator)


def _exponential(y: Enclosure, work: int) -> Enclosure:
    one = 1 << work
    return _series((one, one), y, work, first=1, step=1)


def _series(term: Enclosure, factor: Enclosure, work: int, *, first: int, step: int) -> Enclosure:
    """Sum of terms, each the one before times ``factor`` / (first, first + step, ...)."""
    (low, high), divisor = term, first
    total_low, total_high = low, high
    # From factor / divisor <= 1/2 on, all that follows is at most the last term.
    while low or 2 * factor[1] > divisor << work:
        low = (low * factor[0] >> work) // divisor
        high = _divided_up((high * factor[1] >> work) + 1, divisor)
        total_low += low
        total_high += high
        divisor += step
    return total_low, total_high + high


@lru_cache(maxsize=32)
def _root_of_two_pi(work: int) -> Enclosure:
    low, high = _pi(work)
    return isqrt(low << work + 1), isqrt(high << work + 1) + 1


def _pi(work: int) -> Enclosure:
    """Machin's formula; the guard is far above what the rounding of its few terms adds up to."""
    inner = work + _GUARD
    value = 16 * _arc_tangent_of_inverse(5, inner) - 4 * _arc_tangent_of_inverse(239, inner)
    return (value >> _GUARD) - 1, (value >> _GUARD) + 1


def _arc_tangent_of_inverse(x: int, work: int) -> int:
    """atan(1/x), wrong by less than one unit per term."""
    power = (1 << work) // x
    total, divisor, sign = power, 1, 1
    while power:
        power //= x * x
        divisor += 2
        sign = -sign
        total += sign * (power // divisor)
    return total


# The two laws of noise at unit scale: how fast arithmetic inverts them, and how wrong it may be.
#
# Noise is a sign and a size, and the size is the point h whose tail P(size > h) is a uniform number
# V. ``docs/derivations/noise.md`` has the errors that are assumed here; the tests measure them.


LawName = Literal["gaussian", "laplace"]

#: The sizes found in double precision are right up to this times max(1, size). It covers what
#: ``ndtri`` and ``log`` lose, the rounding of V, and the product with the scale; the tests see to
#: it that at most an eighth of it is ever used.
ARITHMETIC = 2.0**-46


@dataclass(frozen=True, eq=False)
class Law:
    """A symmetric law at unit scale.

    ``unit``: what 63 random bits are multiplied by before :meth:`sizes`. ``surely_within``: up to
    here one margin serves all sizes. ``farthest``: no size is ever beyond it.
    """

    name: LawName
    unit: float
    surely_within: float
    farthest: float
    negative_sizes: Callable[..., FloatArray]
    width_of_last_bit: Callable[[FloatArray], FloatArray]
    tail: Callable[[Fraction, int], Enclosure]

    def uncertainty(self, sizes: FloatArray) -> FloatArray:
        """How far the true size, for any V that begins with the same 63 bits, can be away.

        Good for V above 2^-40, where one unit in the last bit hardly changes the density.
        """
        found: FloatArray = ARITHMETIC * np.maximum(1.0, sizes) + self.width_of_last_bit(sizes)
        return found


def _normal_width(sizes: FloatArray) -> FloatArray:
    # dh = dV / (2 phi(h)) with dV = 2^-63, and twice that to be safe.
    found: FloatArray = (2.0**-63 * np.sqrt(2.0 * np.pi)) * np.exp(0.5 * sizes * sizes)
    return found


def _exponential_width(sizes: FloatArray) -> FloatArray:
    # dh = dV / exp(-h), and twice that to be safe.
    found: FloatArray = 2.0**-62 * np.exp(sizes)
    return found


#: h = -ndtri(V / 2): the lower tail, where ndtri keeps its relative accuracy.
GAUSSIAN = Law("gaussian", 2.0**-64, 4.4, 38.0, ndtri, _normal_width, normal_tail)
#: h = -log(V).
LAPLACE = Law("laplace", 2.0**-63, 11.2, 710.0, np.log, _exponential_width, exponential_tail)


def law_called(name: LawName) -> Law:
    """The law of that name."""
    checks.choice("law", name, ("gaussian", "laplace"))
    return GAUSSIAN if name == "gaussian" else LAPLACE


# Exactly rounded noise, and the self-test of the machine's arithmetic that it rests on.


# Whether the arithmetic of this machine is as good as the margin assumes: asked once per process.
#
# The margin of the laws above rests on how well ``ndtri`` and ``log`` were measured to work.
# Another build of scipy or numpy could do worse, and noise would then have another law in silence.
# So before the first value is drawn they are tried here on points over all magnitudes and at the
# places where ``ndtri`` changes its formula, against enclosures between integers.


#: An eighth of the margin; the tests see to it that less is used.
_ALLOWED = Fraction(ARITHMETIC) / 8
#: Binary places of the enclosures that double precision is compared with: three times its own.
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
SMALLEST_RATIO, LARGEST_RATIO = 2.0**-10, 2.0**32

#: Values worked on at once: what they need stays in the cache.
CHUNK = 16_384

#: Words that are drawn for one value at most; that more are needed has a chance below 2^-900.
_MOST_WORDS = 16
#: Below this V a last bit is too wide to be judged by a derivative.
_NARROW = 2.0**-40
#: The first bit of a word.
_SIGN = np.uint64(1 << 63)


def exact_noise(law: Law, ratio: float, count: int, source: NoiseSource) -> IntArray:
    """``count`` independent exact values of K.

    The source gives one word for each of them and after that, in order, what the undecided need.

    >>> from mustdp.noise.exact import GAUSSIAN
    >>> exact_noise(GAUSSIAN, 1000.0, 4, NoiseSource(1)).dtype
    dtype('int64')
    """
    ratio = check_ratio(ratio)
    count = checks.integer("count", count, 0)
    found = np.empty(count, dtype=np.int64)
    rounding = _QuantileRounding(law, ratio, min(count, CHUNK))
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
    places = _QuantileRounding(law, ratio, words.size)(words, found)
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


class _QuantileRounding:
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


# The lattice gamma Z that contributions are brought to before they are added up.
#
# gamma = 2^exponent is public: it follows from the noise and from stated bounds, never from the
# data. A contribution is brought to it by truncating every coordinate towards zero, which lengthens
# no vector; from there on everything is integers, and sums are exact in any order. Integers stay
# below 2^52, so that they are exact as doubles too: a matrix product in double precision adds them
# up without an error.


#: Sums, and sums with their noise, stay below this many steps.
LARGEST_INTEGER = 2**52

#: A step is at most this part of the noise, so that nothing visible is lost.
COARSEST = 20
#: Where there is room it is this part: n truncations shift a sum by at most n steps. Still finer
#: steps leave more values of the noise undecided in double precision, and are taken on demand.
FINE, FINEST = 26, 32

#: Exponents of a step: the smallest is a normal number, and 2^63 of the largest are finite.
_SMALLEST_EXPONENT, _LARGEST_EXPONENT = -1000, 900


@dataclass(frozen=True)
class Lattice:
    """All multiples of ``step`` = 2^exponent.

    >>> Lattice(-2).truncated([0.8, -0.8, 0.2]).tolist()
    [3, -3, 0]
    """

    exponent: int

    def __post_init__(self) -> None:
        exponent = checks.integer("exponent", self.exponent, _SMALLEST_EXPONENT, _LARGEST_EXPONENT)
        object.__setattr__(self, "exponent", exponent)

    @property
    def step(self) -> float:
        """The distance of neighbours, gamma."""
        return math.ldexp(1.0, self.exponent)

    def truncated(self, values: Any) -> IntArray:
        """Every value brought to the lattice towards zero, in steps."""
        return self._in_steps(values, np.trunc)

    def rounded(self, values: Any) -> IntArray:
        """Every value brought to the nearest point, in steps: it moves by half a step at most."""
        return self._in_steps(values, np.rint)

    def points(self, steps: IntArray) -> FloatArray:
        """The points themselves; exact below 2^53 steps."""
        found: FloatArray = steps.astype(np.float64)
        found *= self.step
        return found

    def _in_steps(self, values: Any, whole: Any) -> IntArray:
        given = np.asarray(values)
        if given.dtype.kind not in "fiu" or given.dtype.itemsize > 8:
            raise InvalidParameter(
                f"values must be numbers of at most double precision, got {given.dtype}"
            )
        if given.dtype.kind in "iu" and np.any(np.abs(given.astype(np.float64)) >= 2.0**53):
            raise InvalidParameter("values must be exact in double precision, got larger integers")
        # A power of two changes no digit. What underflows is far below a step, what overflows is
        # refused with the rest.
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            steps = np.multiply(given, math.ldexp(1.0, -self.exponent), dtype=np.float64)
            steps = whole(steps)
            inside = bool(np.all(np.abs(steps) < LARGEST_INTEGER))
        if not inside:
            raise InvalidParameter(
                f"values must be finite and below 2^52 steps of {self.step:g}, got others"
            )
        found: IntArray = steps.astype(np.int64)
        return found


def lattice_for(
    scale: float,
    *,
    reach: float,
    records: int = 1,
    law: LawName = "gaussian",
    wanted: float = math.inf,
) -> Lattice:
    """The lattice for sums of ``records`` values in [-reach, reach] with noise of that scale.

    ``records`` counts copies and is a bound that holds for every data set. The finest step between
    2^-26 and 2^-20 of the scale for which no sum and no noise can leave the exact integers; where
    there is none the bounds are refused, before any work. A step above ``wanted`` is made finer
    still, down to 2^-32 of the scale.
    """
    scale = checks.real("scale", scale, at_least=2.0**-970, at_most=2.0**900)
    reach = checks.real("reach", reach, at_least=0)
    records = checks.integer("records", records, 1)
    most = records * Fraction(reach) + Fraction(law_called(law).farthest) * Fraction(scale)
    power = math.frexp(scale)[1] - 1  # 2^power <= scale
    first = power - FINE
    while math.ldexp(1.0, first) > wanted and first > power - FINEST:
        first -= 1
    for exponent in range(first, power - COARSEST + 1):
        if most / Fraction(2) ** exponent < LARGEST_INTEGER:
            return Lattice(exponent)
    raise InvalidParameter(
        f"records * reach / scale must be below 2^{52 - COARSEST - 1}, so that sums are exact in "
        f"steps far below the noise, got {records} * {reach:g} / {scale:g}"
    )


# What is released: exact sums of lattice contributions plus exactly rounded noise.
#
# For X on the lattice, round(X + scale g) = X + round(scale g). So what :func:`release` returns is
# a function of the release in real numbers that was accounted for, and every certificate holds for
# it as it stands (``docs/derivations/noise.md``). Public constants, such as a midpoint that was
# subtracted before, are added afterwards.


@dataclass(frozen=True)
class LatticeNoise:
    """Noise of a scale (sigma, or Laplace's b) on a lattice."""

    scale: float
    lattice: Lattice
    law: LawName = "gaussian"

    def __post_init__(self) -> None:
        object.__setattr__(self, "scale", checks.real("scale", self.scale, above=0))
        law_called(self.law)
        check_ratio(self.ratio)

    @property
    def ratio(self) -> float:
        """The scale in steps; exact, as a step is a power of two."""
        return self.scale / self.lattice.step

    @property
    def farthest(self) -> int:
        """The most steps that noise is ever away from zero."""
        return int(self._law.farthest * self.ratio) + 1

    @property
    def _law(self) -> Law:
        return law_called(self.law)

    def draw(self, count: int, source: NoiseSource) -> IntArray:
        """``count`` independent values in steps."""
        return exact_noise(self._law, self.ratio, count, source)


def noise_for(
    scale: float, *, reach: float, records: int = 1, law: LawName = "gaussian"
) -> LatticeNoise:
    """Noise of that scale on the lattice that :func:`lattice_for` finds for it.

    >>> noise = noise_for(2.0, reach=1.0, records=1000)
    >>> sums = noise.lattice.truncated([0.25, -0.5]) * 3
    >>> release(sums, noise, NoiseSource(1)).shape
    (2,)
    """
    return LatticeNoise(scale, lattice_for(scale, reach=reach, records=records, law=law), law)


def release(
    sums: IntArray, noise: LatticeNoise | Sequence[LatticeNoise], source: NoiseSource
) -> FloatArray:
    """Sums in steps plus fresh noise, as exact points of the lattice.

    One noise for all entries, or one for each entry of the last axis.
    """
    steps = np.array(sums)
    if steps.dtype != np.int64:
        raise InvalidParameter(f"sums must be integers of 64 bits, got {steps.dtype}")
    if not isinstance(source, NoiseSource):
        raise InvalidParameter(f"source must be a NoiseSource, got {type(source).__name__}")
    if isinstance(noise, LatticeNoise):
        return _released(steps, noise, source)
    each = tuple(noise)
    columns = steps.shape[-1] if steps.ndim else 0
    if len(each) != columns:
        raise InvalidParameter(
            f"noise must be one for all or one for each of the {columns} columns, got {len(each)}"
        )
    found = np.empty(steps.shape)
    for one in dict.fromkeys(each):
        mine = [k for k, other in enumerate(each) if other == one]
        found[..., mine] = _released(steps[..., mine], one, source)
    return found


def _released(steps: IntArray, noise: LatticeNoise, source: NoiseSource) -> FloatArray:
    if steps.size == 0:
        return np.empty(steps.shape)
    most = LARGEST_INTEGER - noise.farthest
    if not (int(steps.min()) >= -most and int(steps.max()) <= most):
        raise NumericalFailure("a sum is larger than its stated bounds allow; nothing was released")
    steps = steps + noise.draw(steps.size, source).reshape(steps.shape)
    return noise.lattice.points(steps)


# Exact samples of discrete Laplace and discrete Gaussian noise, in integer arithmetic alone.
#
# Canonne, Kamath & Steinke 2020, arXiv 2004.00010v5: Algorithm 1 tosses a coin of chance
# e^-gamma, Algorithm 2 draws discrete Laplace noise of a rational scale, Algorithm 3 discrete
# Gaussian noise of a rational variance by rejection from it. A float is a rational number, so no
# law is approximated.

#: Words that are fetched at once, and rejections after which the generator must be broken.
_FETCHED, _MOST_TRIALS = 256, 10_000


class _Coins:
    """Exact coins and uniform integers from the words of a source."""

    def __init__(self, source: NoiseSource) -> None:
        self._source = source
        self._pool, self._bits = 0, 0

    def bits(self, count: int) -> int:
        """``count`` random bits as an integer."""
        while self._bits < count:
            fresh = int.from_bytes(self._source.words(_FETCHED).tobytes(), "little")
            self._pool |= fresh << self._bits
            self._bits += 64 * _FETCHED
        found = self._pool & ((1 << count) - 1)
        self._pool >>= count
        self._bits -= count
        return found

    def below(self, top: int) -> int:
        """Uniform on 0, …, top - 1, by rejection."""
        width = (top - 1).bit_length()
        for _ in range(_MOST_TRIALS):
            found = self.bits(width)
            if found < top:
                return found
        raise NumericalFailure("no uniform integer was found: the generator is broken")

    def toss(self, chance: Fraction) -> bool:
        """Heads with this rational chance."""
        return self.below(chance.denominator) < chance.numerator

    def decays(self, gamma: Fraction) -> bool:
        """Heads with chance e^-gamma, gamma >= 0."""
        whole = gamma.numerator // gamma.denominator
        if not all(self._decays_once(Fraction(1)) for _ in range(whole)):
            return False
        return self._decays_once(gamma - whole)

    def _decays_once(self, gamma: Fraction) -> bool:
        k = 1
        while self.toss(gamma / k):
            k += 1
        return k % 2 == 1


def discrete_laplace_noise(scale: float | Fraction, count: int, source: NoiseSource) -> IntArray:
    """``count`` values K with P(K = k) proportional to e^{-|k|/scale}.

    >>> discrete_laplace_noise(2.5, 3, NoiseSource(1)).dtype
    dtype('int64')
    """
    exact, coins = Fraction(scale), _Coins(source)
    count = checks.integer("count", count, 0)
    return np.array([_laplace(exact, coins) for _ in range(count)], dtype=np.int64)


def discrete_gaussian_noise(sigma: float | Fraction, count: int, source: NoiseSource) -> IntArray:
    """``count`` values K with P(K = k) proportional to e^{-k^2 / (2 sigma^2)}.

    >>> discrete_gaussian_noise(2.5, 3, NoiseSource(1)).dtype
    dtype('int64')
    """
    exact, coins = Fraction(sigma), _Coins(source)
    count = checks.integer("count", count, 0)
    return np.array([_gaussian(exact, coins) for _ in range(count)], dtype=np.int64)


def _laplace(scale: Fraction, coins: _Coins) -> int:
    t, s = scale.numerator, scale.denominator
    for _ in range(_MOST_TRIALS):
        u = coins.below(t)
        if not coins.decays(Fraction(u, t)):
            continue
        v = 0
        while coins.decays(Fraction(1)):
            v += 1
        size, negative = (u + t * v) // s, coins.bits(1)
        if size or not negative:
            return -size if negative else size
    raise NumericalFailure("no discrete Laplace value was accepted: the generator is broken")


def _gaussian(sigma: Fraction, coins: _Coins) -> int:
    t, square = sigma.numerator // sigma.denominator + 1, sigma * sigma
    for _ in range(_MOST_TRIALS):
        found = _laplace(Fraction(t), coins)
        if coins.decays((abs(found) - square / t) ** 2 / (2 * square)):
            return found
    raise NumericalFailure("no discrete Gaussian value was accepted: the generator is broken")
