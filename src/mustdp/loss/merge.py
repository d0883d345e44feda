"""From a concrete pair to a discrete loss that it dominates: merge outcomes onto the grid.

Merging outcomes is post-processing, so the merged pair is dominated. Outcomes are first merged into
many fine atoms, then the atoms are swept by increasing loss: each coarse cell takes atoms, the last
one split, until P(cell)/Q(cell) is exactly e^loss for a loss of the grid. Splitting an atom changes
nothing, merging only lowers, and no loss needs to be rounded: what is lost is of second order in
the spacing, as it is for the upper bound. Seen as a function of alpha, the broken line with kinks
at grid points touches the profile from below. Only differences of cdfs are used, no densities.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mustdp.loss.discrete import DiscreteLoss
from mustdp.loss.lumps import Lump, find_lumps, offset_for
from mustdp.loss.pairs import ConcretePair
from mustdp.numerics.arrays import FloatArray, IntArray

_SMALLEST = 1e-290


def merge(
    pair: ConcretePair, spacing: float, points: IntArray, lumps: Sequence[Lump] | None = None
) -> DiscreteLoss:
    """A discrete loss that ``pair`` dominates, near ``points * spacing`` and their negatives.

    ``lumps`` are looked for unless they are given; the grid is moved to the largest.
    """
    p, q = _sorted(pair, spacing, points)
    if p.size == 0:  # nothing resolved: a loss below zero, which attains nothing, is always valid
        return DiscreteLoss(spacing, np.array([-1]), np.ones(1), lost=pair.lost)
    loss = np.log(p) - np.log(q)
    if lumps is None:
        lumps = find_lumps(p, q, spacing, constant_ends=pair.constant_ends)
    offset = offset_for(lumps, spacing)
    # The guide reaches past every atom, so that each cell of a sweep can close.
    low, high = (
        math.floor((loss[0] - offset) / spacing),
        math.ceil((loss[-1] - offset) / spacing),
    )
    on_lumps = [round((lump.loss - offset) / spacing) for lump in lumps]
    guide = np.unique(np.concatenate([-points, points, [low - 1, high + 1, *on_lumps]]))
    place = offset + guide.astype(np.float64) * spacing
    # Sweep upwards from the bottom and downwards from the top. What is left where they meet is
    # filled up or rounded, so they meet where there is least mass, above low lumps and below high
    # ones.
    cell = np.searchsorted(place, loss)
    weight = np.bincount(cell, weights=p, minlength=guide.size + 1)
    for lump in lumps:
        at = int(np.searchsorted(place, lump.loss))
        weight[: at + 2 if lump.low else 0] = math.inf
        weight[weight.size if lump.low else max(at - 1, 0) :] = math.inf
    inner = np.arange(cell[0] + 1, cell[-1])
    meet = int(inner[np.argmin(weight[inner])]) if inner.size else int(cell[-1])
    split = int(np.searchsorted(cell, meet))
    levels = np.exp(place)
    up = _sweep(p[:split].tolist(), q[:split].tolist(), levels.tolist())
    down = _sweep(q[split:][::-1].tolist(), p[split:][::-1].tolist(), (1.0 / levels[::-1]).tolist())
    where_to = up.cell + [guide.size - 1 - i for i in down.cell]
    masses, against = up.first + down.second, up.second + down.first
    left_p, left_q = up.left_first + down.left_second, up.left_second + down.left_first
    if left_p > 0.0 and _fill_up(left_p, left_q, levels, where_to, masses, against):
        left_p = 0.0
    index = [int(guide[i]) for i in where_to]
    if left_p > 0.0:
        index.append(math.floor((math.log(left_p / left_q) - offset) / spacing - 1e-9))
        masses.append(left_p)
    distinct, where = np.unique(np.array(index, dtype=np.int64), return_inverse=True)
    weights = np.bincount(where, weights=np.array(masses)).astype(np.float64)
    return DiscreteLoss(spacing, distinct, weights, lost=pair.lost, offset=offset)


def lumps_of(pair: ConcretePair, spacing: float, points: IntArray) -> list[Lump]:
    """The lumps of a pair, seen at this spacing."""
    p, q = _sorted(pair, spacing, points)
    return find_lumps(p, q, spacing, constant_ends=pair.constant_ends)


def _sorted(pair: ConcretePair, spacing: float, points: IntArray) -> tuple[FloatArray, FloatArray]:
    """Masses under P and Q of fine cells of outcomes, by increasing loss."""
    p, q = pair.outcomes(spacing, points)
    kept = p > _SMALLEST
    # Where Q underflows it is taken larger than it is, which lowers the loss. Any order of merging
    # is post-processing, so the atoms may be sorted.
    p, q = p[kept], np.maximum(q[kept], _SMALLEST)
    order = np.argsort(np.log(p) - np.log(q), kind="stable")
    return p[order], q[order]


def _fill_up(
    left_p: float,
    left_q: float,
    levels: FloatArray,
    cell: list[int],
    first: list[float],
    second: list[float],
) -> bool:
    """Fill what is left up to the next level with a share of the next cell above that level."""
    level = int(np.searchsorted(levels, left_p / left_q))
    above = [i for i, at in enumerate(cell) if at > level]
    if level >= levels.size or not above:
        return False
    donor = min(above, key=lambda i: cell[i])
    gain = first[donor] - float(levels[level]) * second[donor]
    missing = float(levels[level]) * left_q - left_p
    if not 0.0 <= missing <= gain:
        return False
    share = missing / gain if gain > 0.0 else 0.0
    cell.append(level)
    first.append(left_p + share * first[donor])
    second.append(left_q + share * second[donor])
    first[donor] -= share * first[donor]
    second[donor] -= share * second[donor]
    return True


@dataclass(frozen=True)
class _Swept:
    """Cells of exact grid loss with their two masses, and what did not fill a cell."""

    cell: list[int]
    first: list[float]
    second: list[float]
    left_first: float
    left_second: float


def _sweep(a: list[float], b: list[float], levels: list[float]) -> _Swept:
    """Fill cells with a/b equal to one of the levels from atoms in increasing order of a/b."""
    cell: list[int] = []
    first: list[float] = []
    second: list[float] = []
    place, last = 0, len(levels) - 1
    level = levels[0]
    have_a = have_b = 0.0
    for atom_a, atom_b in zip(a, b, strict=True):
        while atom_a > 0.0 and atom_b > 0.0:
            if have_b == 0.0:
                # A new cell: the first level above the atom's ratio, so that it can close.
                while place < last and level * atom_b <= atom_a:
                    place += 1
                    level = levels[place]
                if level * atom_b <= atom_a:  # beyond all levels: left out
                    break
            if (have_a + atom_a) - level * (have_b + atom_b) < 0.0:
                have_a += atom_a
                have_b += atom_b
                break
            # The cell closes inside this atom; the rest of the atom starts the next cell.
            gain = atom_a - level * atom_b
            if have_b == 0.0 or gain <= 0.0:  # nothing to fill up, or filled to the last digit
                share = 0.0
            else:
                share = min(1.0, max(0.0, (level * have_b - have_a) / gain))
            cell.append(place)
            first.append(have_a + share * atom_a)
            second.append(have_b + share * atom_b)
            atom_a -= share * atom_a
            atom_b -= share * atom_b
            have_a = have_b = 0.0
    return _Swept(cell, first, second, have_a, have_b)
