"""Brute force: what one record does to a stack of parts, over records, groups and missing values.

The stack is scaled so that one record moves it by at most one. What is returned is the farthest
that was found, in the lattice steps that are really released.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np

from mustdp.estimation.queries import JointSums, Piece
from mustdp.numerics.arrays import FloatArray
from mustdp.types import Relation


def movements(
    stack: JointSums, values: Sequence[Sequence[float]], weights: Sequence[float] = (1.0,)
) -> float:
    """The farthest that one record moves the sums of ``stack``; records from ``values``."""
    found: list[FloatArray] = []
    for record, slot, weight in itertools.product(values, range(stack.schema.slots), weights):
        piece = Piece(
            np.array([record], dtype=np.float64),
            np.array([slot]),
            np.array([weight]) if stack.schema.weighted else None,
        )
        found.append(stack.totals([piece])[0].ravel() * stack.noise.lattice.step)
    vectors = np.array(found)
    if stack.schema.relation == Relation.ADD_REMOVE:
        return float(np.sqrt((vectors**2).sum(axis=1).max()))
    squares = (vectors**2).sum(axis=1)
    apart = squares[:, None] + squares[None, :] - 2.0 * vectors @ vectors.T
    return float(np.sqrt(max(apart.max(), 0.0)))


def allowed(stack: JointSums) -> float:
    """How far the noise of the stack lets one record move it: noise over noise multiplier."""
    half = 0.5 if stack.schema.relation == Relation.REPLACE_ONE else 1.0
    return stack.noise.scale * math.sqrt(stack.share) / (half * stack.noise_multiplier)
