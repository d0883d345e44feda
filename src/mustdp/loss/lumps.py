"""Lumps: losses that hold much of the mass at one place, and grids on which they lie.

A lump between two grid points can only be merged downwards, which costs in first order of the
spacing. With rare draws most outcomes have almost the same loss, log(1 - q) say; with Laplace noise
all outcomes beyond the components have one loss on either side. So the grid is moved until the
larger lump lies on it, and its spacing is reduced a little until the other one does too.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mustdp.numerics.arrays import FloatArray

#: Share of the mass, within half a spacing, that makes a lump: where the loss is constant at an end
#: the lump is a single loss, elsewhere only a grid too wide for the bulk makes one.
_SHARE_AT_ENDS, _SHARE = 0.05, 0.3
#: How far inside the losses between two lumps their grid points lie, in units of the spacing: cells
#: close by taking a little of what comes next, and rounding must not put that out of reach.
_INSIDE = 1e-6


@dataclass(frozen=True)
class Lump:
    """A place with much mass; ``low`` if most other mass lies above it."""

    loss: float
    mass: float
    low: bool


def find_lumps(
    p: FloatArray, q: FloatArray, spacing: float, *, constant_ends: bool = False
) -> list[Lump]:
    """The one or two largest lumps, by increasing loss, of atoms in order of their loss."""
    if p.size == 0:
        return []
    narrow = np.floor((np.log(p) - np.log(q)) * (4.0 / spacing))
    bins, where = np.unique(narrow, return_inverse=True)
    mass = np.bincount(where, weights=p)
    # A lump may lie on the border of two bins: look at neighbours together.
    joined = mass + np.append(np.where(np.diff(bins) == 1.0, mass[1:], 0.0), 0.0)
    found: list[tuple[float, float, float]] = []
    free = np.ones(bins.size, dtype=np.bool_)
    while len(found) < 2 and free.any():
        best = int(np.argmax(np.where(free, joined, -1.0)))
        if joined[best] < (_SHARE_AT_ENDS if constant_ends else _SHARE) * float(p.sum()):
            break
        inside = (narrow >= bins[best]) & (narrow <= bins[best] + 1.0)
        loss = math.log(float(p[inside].sum()) / float(q[inside].sum()))
        found.append((loss, float(joined[best]), float(p[narrow < bins[best]].sum())))
        free &= np.abs(bins - bins[best]) > 5.0
    if len(found) == 2:
        return [
            Lump(x, m, low) for (x, m, _), low in zip(sorted(found), (True, False), strict=True)
        ]
    return [Lump(x, m, below + 0.5 * m < 0.5 * float(p.sum())) for x, m, below in found]


def offset_for(lumps: Sequence[Lump], spacing: float) -> float:
    """How far to move the grid so that the largest lump lies on it, if there is one."""
    if not lumps:
        return 0.0
    largest = max(lumps, key=lambda lump: lump.mass)
    place = largest.loss + (_INSIDE if largest.low else -_INSIDE) * spacing
    # An even place, so that it is still there if every second point is left out.
    return place - 2.0 * spacing * round(place / (2.0 * spacing))


def spacing_for(lumps: Sequence[Lump], spacing: float) -> float:
    """A spacing, not above the one given and close to it, on which both of two lumps lie."""
    if len(lumps) < 2 or lumps[1].loss - lumps[0].loss < 4.0 * spacing:
        return spacing
    apart = lumps[1].loss - lumps[0].loss
    return apart / (2 * math.ceil(apart / (2.0 * spacing)) + 2.0 * _INSIDE)
