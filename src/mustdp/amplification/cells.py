"""Cells of triples: finitely many pairs that dominate every neighbouring pair of one step.

Three points x, x' and y (what the two data sets put in one place, and a common record) lie in a
disc. Right or acute triangles dominate the obtuse ones, and larger triangles the smaller ones, so
with a, b >= 0, a + b = omega <= pi/2 (a = pi/2 - A, b = pi/2 - B for the angles A at x and B at x')

    u = |x - y| = s cos b,   v = |x' - y| = s cos a,   w = |x - x'| = s sin(a + b),

is enough if all points lie in a ball of diameter s (bounded contributions to a sum). If only their
mutual distances are bounded by s, all three lengths are divided by the longest, over s. A cell is a
range of omega and of f = b/omega; at its corner u, v, w and the cosines are largest, so the pair of
the corner dominates every pair of the cell: for t >= 1 it knows u, w, cos A, for t < 1 v, w, cos B.

On a line the three points are ordered. With y between x and x' the cells are intervals of u/s; with
x (or x') between the others, y and x' pull apart: the cosine there is -1, and 0 is above it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise, product
from typing import Protocol

import numpy as np

from mustdp.amplification.triples import apart_profile, line_profile, triple_profile
from mustdp.mechanisms.noise import GaussianNoise, Noise
from mustdp.numerics.arrays import ROUNDOFF, FloatArray

_RIGHT = 0.5 * math.pi
_GAUSSIAN = GaussianNoise()
#: Lengths and cosines are raised by this, relatively, to cover the rounding of sines.
_UP = 1.0 + 16.0 * ROUNDOFF


@dataclass(frozen=True)
class Cell:
    """A box of parameters; ``kind`` tells apart boxes that mean different things."""

    ranges: tuple[tuple[float, float], ...]
    kind: str = ""

    def split(self) -> tuple[Cell, Cell]:
        """Halve the longest side."""
        axis = max(range(len(self.ranges)), key=lambda i: self.ranges[i][1] - self.ranges[i][0])
        low, high = self.ranges[axis]
        middle = 0.5 * (low + high)
        before, after = self.ranges[:axis], self.ranges[axis + 1 :]
        return (
            Cell((*before, (low, middle), *after), self.kind),
            Cell((*before, (middle, high), *after), self.kind),
        )


@dataclass(frozen=True)
class Corner:
    """What a profile at t >= 1 knows of a cell: lengths in noise units, and cosines at x."""

    lengths: tuple[float, ...]
    cosines: tuple[float, ...] = (1.0,)


class PairFamily(Protocol):
    """All one-step pairs of neighbouring data sets, covered by cells."""

    @property
    def most_cells(self) -> int:
        """How far a cover is worth refining, given what one cell costs."""

    @property
    def cell_cost(self) -> float:
        """What one cell costs, that of three points being 1."""

    def cells(self) -> tuple[Cell, ...]:
        """A first cover."""

    def ends(self) -> tuple[Cell, Cell]:
        """The two pairs, aligned and reversed, that are attained: cells without extent."""

    def corners(self, cell: Cell) -> tuple[Corner, Corner]:
        """What dominates the cell: for H(P || Q) at t >= 1, and for H(Q || P) at t >= 1."""

    def profile(self, corner: Corner, epsilon: FloatArray) -> FloatArray:
        """Certified upper bound of H at e^epsilon, epsilon >= 0."""

    def profiles(self, corners: Sequence[Corner], epsilon: FloatArray) -> FloatArray:
        """The same for many corners, a row each."""


@dataclass(frozen=True)
class Triangle:
    """The largest lengths and cosines of a range of triangles."""

    u: float
    v: float
    w: float
    cos_x: float
    cos_other: float


def triangle(
    shift: float, omega: tuple[float, float], share: tuple[float, float], *, ball: bool = True,
    one_of_two: bool = False,
) -> Triangle:  # fmt: skip
    """Upper ends of u, v, w, cos A and cos B for omega and f = b/omega in the given ranges.

    Two triangles over the same x and x' share w = s sin omega, so none may grow it: one that is
    obtuse at x then has its lengths below those of f = 1, but any cosine at x' (and the other way
    round for f = 0). With ``one_of_two`` cells at these ends cover such triangles as well.
    """
    a1, a2 = (1.0 - share[1]) * omega[0], min((1.0 - share[0]) * omega[1], _RIGHT)
    b1, b2 = share[0] * omega[0], min(share[1] * omega[1], _RIGHT)
    longest = 1.0
    if not ball:  # at least this, everywhere in the cell
        longest = max(math.cos(a2), math.cos(b2), math.sin(omega[0])) / _UP

    def length(part: float) -> float:
        return shift * _raised(part / longest)

    return Triangle(
        length(math.cos(b1)),
        length(math.cos(a1)),
        length(math.sin(min(omega[1], _RIGHT))),
        1.0 if one_of_two and share[0] <= 0.0 else _raised(math.sin(a2)),
        1.0 if one_of_two and share[1] >= 1.0 else _raised(math.sin(b2)),
    )


def _raised(part: float) -> float:
    """A fraction rounded up to 36 bits, so that mirror images share their profiles."""
    return min(1.0, math.ceil(part * _UP * 2.0**36 + 2.0**-10) / 2.0**36)


def disc_cells(parts: int, *, shares: int = 1) -> tuple[Cell, ...]:
    """``parts`` ranges of omega and of each share, finer where pairs tend to win."""
    steps = np.linspace(0.0, 1.0, parts + 1)
    omega = _ranges(_RIGHT * np.sin(_RIGHT * steps))
    share = _ranges(0.5 - 0.5 * np.cos(np.pi * steps))
    return tuple(Cell(box) for box in product(omega, *([share] * shares)))


def end_cell(shares: int, share: float) -> Cell:
    """The cell of a single right-angled triangle in which two of the points coincide."""
    return Cell(((_RIGHT, _RIGHT), *([(share, share)] * shares)))


def _ranges(ends: FloatArray) -> list[tuple[float, float]]:
    values = [0.0, *ends[1:-1].tolist(), float(ends[-1])]
    return list(pairwise(values))


@dataclass(frozen=True)
class DiscTriples:
    """Draws without replacement and Gaussian noise in any dimension.

    ``ball`` says that contributions lie in a ball of diameter ``shift``, as in a sum; otherwise
    only any two of them are within ``shift`` of each other.
    """

    chance: float
    shift: float
    ball: bool = True
    parts: int = 6
    most_cells: int = 240
    cell_cost: float = 1.0

    def cells(self) -> tuple[Cell, ...]:
        """Boxes of (omega, f)."""
        return disc_cells(self.parts)

    def ends(self) -> tuple[Cell, Cell]:
        """y in the place of x', or of x."""
        return end_cell(1, 0.0), end_cell(1, 1.0)

    def corners(self, cell: Cell) -> tuple[Corner, Corner]:
        """(u, w, cos A) and (v, w, cos B)."""
        omega, share = cell.ranges
        t = triangle(self.shift, omega, share, ball=self.ball)
        return Corner((t.u, t.w), (t.cos_x,)), Corner((t.v, t.w), (t.cos_other,))

    def profile(self, corner: Corner, epsilon: FloatArray) -> FloatArray:
        """The triple, or the line through the same lengths where that is smaller."""
        u, w = corner.lengths
        on_line = line_profile(_GAUSSIAN, self.chance, u, w, epsilon)
        return np.minimum(on_line, triple_profile(self.chance, u, w, corner.cosines[0], epsilon))

    def profiles(self, corners: Sequence[Corner], epsilon: FloatArray) -> FloatArray:
        """One by one."""
        return np.array([self.profile(corner, epsilon) for corner in corners])


@dataclass(frozen=True)
class LineTriples:
    """Draws without replacement and a release of one number."""

    noise: Noise
    chance: float
    shift: float
    parts: int = 12
    most_cells: int = 90
    cell_cost: float = 1.0

    def cells(self) -> tuple[Cell, ...]:
        """Intervals of u/s with y in between, then of w/s with x, and with x', in between."""
        steps = np.linspace(0.0, 1.0, self.parts + 1)
        ends = _ranges(0.5 - 0.5 * np.cos(np.pi * steps))
        kinds = ("y between", "x between", "x' between")
        return tuple(Cell((part,), kind) for kind in kinds for part in ends)

    def ends(self) -> tuple[Cell, Cell]:
        """y in the place of x', or of x."""
        return Cell(((1.0, 1.0),), "y between"), Cell(((0.0, 0.0),), "y between")

    def corners(self, cell: Cell) -> tuple[Corner, Corner]:
        """Lengths at the safe end of the interval; the cosine is 0 where two points pull apart."""
        ((low, high),) = cell.ranges
        s = self.shift
        long, rest = s * min(1.0, high * _UP), s * min(1.0, (1.0 - low) * _UP)
        if cell.kind == "y between":
            return Corner((long, s)), Corner((rest, s))
        apart, along = Corner((rest, long), (0.0,)), Corner((s, long))
        return (apart, along) if cell.kind == "x between" else (along, apart)

    def profile(self, corner: Corner, epsilon: FloatArray) -> FloatArray:
        """The line; where two points pull apart, the right angle (Gauss) or the exact value."""
        u, w = corner.lengths
        value = line_profile(self.noise, self.chance, u, w, epsilon)
        if corner.cosines[0] == 1.0:
            return value
        if self.noise.name == "laplace":
            return np.minimum(value, apart_profile(self.chance, u, w, epsilon))
        return np.minimum(value, triple_profile(self.chance, u, w, 0.0, epsilon))

    def profiles(self, corners: Sequence[Corner], epsilon: FloatArray) -> FloatArray:
        """One by one."""
        return np.array([self.profile(corner, epsilon) for corner in corners])
