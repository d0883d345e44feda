"""The noise of ``exact.py`` for many values at once: one compiled pass over words and sums.

It needs numba (the extra ``fast``) and gives the same integers from the same words, bit for bit.
Its quantiles are polynomials: for every binade of V, the tail that a word stands for, 64 cells with
a polynomial of degree six through values of ``ndtri``. Such a polynomial is off by at most
M (2^-6)^7 / 2^6 = M 2^-48, where M bounds |h| on a disc around the cell of half the distance to
V = 0 (Cauchy's estimate; M < 8 for the cells that are used). The margin of 2^-41 leaves room for
that, for the error of ``ndtri`` and for the rounding of V, of the evaluation and of the product
with the scale. What it does not decide, and what lies beyond the table, goes the way of
``exact.py`` with the word it has, in the same order.

That is why both give the same stream: a value draws more words only if ``exact.py`` leaves it
undecided, by a margin that is smaller than this one, and every such value is among those handed
over. Before the first value is drawn the table is compared with ``ndtri``, as in ``exact.py``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mustdp.noise.exact import CHUNK, GAUSSIAN, check_arithmetic, rounded, settle
from mustdp.numerics.arrays import FloatArray, IntArray
from mustdp.randomness.keys import NoiseSource

#: Cells of a binade are 2^_CELL_BITS; V is at least 2^-_BINADES, which sizes up to 3.6 have.
_CELL_BITS, _BINADES, _DEGREE = 6, 12, 6
#: How far a size may be off.
MARGIN = 2.0**-41
#: Fewer values than this are not worth compiling for.
FEWEST = 1 << 15


@cache
def is_available() -> bool:
    """Whether numba is there and works here, and the table is as good as the margin assumes."""
    if find_spec("numba") is None or not _is_good():
        return False
    words, sums, out = np.zeros(1, dtype=np.uint64), np.zeros(1), np.zeros(1, dtype=np.float32)
    doubtful = np.empty(1, dtype=np.int64)
    try:
        count = _kernel()(words, sums, out, 1.0, 1.0, _table(), 1.0, doubtful)
    except Exception:  # whatever keeps it from compiling: the noise is made without it
        return False
    return bool(count == 1)


def release(
    sums: Sequence[FloatArray | NDArray[np.float32]],
    step: float,
    ratio: float,
    source: NoiseSource,
    out: Sequence[NDArray[np.float32]],
    divisor: float = 1.0,
    scale: float = 1.0,
) -> None:
    """Round sums to multiples of ``step``, add the noise of ``exact_noise``, and write them out.

    ``ratio`` is the deviation of the noise over the step, a power of two. What is written is the
    noisy sum over the divisor, times the scale, as float32. ``out`` may be the sums themselves.
    """
    table, kernel, factor = _table(), _kernel(), step / divisor * scale
    doubtful = np.empty(CHUNK, dtype=np.int64)
    handed: list[tuple[int, NDArray[np.int64], NDArray[np.uint64]]] = []
    for number, (given, found) in enumerate(zip(sums, out, strict=True)):
        for start in range(0, len(given), CHUNK):
            part = slice(start, start + CHUNK)
            words = source.words(len(given[part]))
            how = step, factor, table, ratio
            count = kernel(words, given[part], found[part], *how, doubtful)
            if count:
                handed.append((number, start + doubtful[:count], words[doubtful[:count]]))
    if not handed:
        return
    words = np.concatenate([leading for _, _, leading in handed])
    noise, undecided = rounded(GAUSSIAN, words, ratio)
    for k in undecided:
        noise[k] = settle(GAUSSIAN, int(words[k]), ratio, lambda: int(source.words(1)[0]))
    begin = 0
    for number, places, leading in handed:
        own = noise[begin : begin + len(leading)]
        begin += len(leading)
        whole = np.rint(sums[number][places].astype(np.float64) / step).astype(np.int64) + own
        out[number][places] = whole.astype(np.float64) * factor


def fits(ratio: float) -> bool:
    """Whether a scale in lattice steps is one that the table serves."""
    return ratio * MARGIN <= 2.0**-9  # beyond, one value in 2^8 would be in doubt


@cache
def _table() -> FloatArray:
    """Centre and coefficients of every cell, from V = 2^-12 to 1."""
    cells = 1 << _CELL_BITS
    low = np.concatenate(
        [2.0**-e * (1.0 + np.arange(cells) / cells) for e in range(_BINADES, 0, -1)]
    )
    half = np.repeat([2.0 ** -(e + _CELL_BITS + 1) for e in range(_BINADES, 0, -1)], cells)
    nodes = np.cos((np.arange(_DEGREE + 1) + 0.5) * math.pi / (_DEGREE + 1))
    centre = low + half
    values = -GAUSSIAN.negative_sizes((centre[:, None] + half[:, None] * nodes) / 2.0)
    powers = np.linalg.solve(np.vander(nodes, increasing=True), values.T).T
    scaled = powers / half[:, None] ** np.arange(_DEGREE + 1)
    found = np.concatenate([centre[:, None], scaled], axis=1)
    found.setflags(write=False)
    return found


@cache
def _is_good() -> bool:
    check_arithmetic(GAUSSIAN)
    table = _table()
    centre = table[:, 0]
    half = np.repeat(
        [2.0 ** -(e + _CELL_BITS + 1) for e in range(_BINADES, 0, -1)], 1 << _CELL_BITS
    )
    for part in np.linspace(-1.0, 1.0, 41):
        moved = half * part
        found = np.polynomial.polynomial.polyval(moved, table[:, 1:].T, tensor=False)
        expected = -GAUSSIAN.negative_sizes((centre + moved) / 2.0)
        if not np.all(np.abs(found - expected) <= MARGIN / 4.0):
            return False
    return True


#: Cells are told apart by the exponent and the first bits of a double: 1023 is the exponent of 1.
_FIRST_CELL = (1023 - _BINADES) << _CELL_BITS
_CELLS = _BINADES << _CELL_BITS
#: A double has 52 bits behind its exponent.
_MANTISSA_BITS = 52 - _CELL_BITS


@cache
def _kernel() -> Any:
    """Compiled once, and kept where numba keeps what it has compiled."""
    numba: Any = import_module("numba")
    return numba.njit(_release, cache=True, nogil=True, fastmath={"contract"})


def _release(
    words: NDArray[np.uint64],
    sums: FloatArray,
    out: NDArray[np.float32],
    step: float,
    factor: float,
    table: FloatArray,
    ratio: float,
    doubtful: IntArray,
) -> int:
    """Write what the words decide; the number of the others, whose places go into ``doubtful``."""
    sure, inverse = 0.5 - ratio * MARGIN, 1.0 / step
    count = 0
    for i in range(len(words)):
        # As a signed number a word is a sign and, but for one unit, 63 bits of V.
        signed = np.int64(words[i])
        v = abs(np.float64(signed)) * 2.0**-63
        cell = (np.float64(v).view(np.int64) >> _MANTISSA_BITS) - _FIRST_CELL
        if cell < 0 or cell >= _CELLS:
            doubtful[count] = i
            count += 1
            continue
        d = v - table[cell, 0]
        h = table[cell, 7]
        h = h * d + table[cell, 6]
        h = h * d + table[cell, 5]
        h = h * d + table[cell, 4]
        h = h * d + table[cell, 3]
        h = h * d + table[cell, 2]
        h = h * d + table[cell, 1]
        point = h * ratio
        whole = np.rint(point)
        if not abs(point - whole) < sure:
            doubtful[count] = i
            count += 1
            continue
        number = np.int64(whole)
        total = np.int64(np.rint(sums[i] * inverse)) + (number if signed >= 0 else -number)
        out[i] = np.float32(np.float64(total) * factor)
    return count
