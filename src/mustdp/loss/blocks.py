"""A block of steps as one loss: the worst case of the block, found adaptively, made discrete.

g after m steps is the profile of an m-step mechanism. Under replace_one it serves both orders, so
it may be made discrete like any profile and composed by powers of a transform. What is given away
is only that one pair per block has to cover both orders.
"""

from __future__ import annotations

import numpy as np

from mustdp.loss.discrete import DiscreteLoss
from mustdp.loss.dots import connect_values
from mustdp.numerics.arrays import FloatArray

_EVERY = 4000


def block_loss(spacing: float, values: FloatArray) -> DiscreteLoss:
    """The loss of a block from upper bounds of its profile at 0, spacing, 2 spacing, …"""
    points = np.arange(values.size, dtype=np.int64)
    if points.size > _EVERY:  # chords may be longer where there is little to see
        far = np.rint(np.geomspace(_EVERY // 2, values.size - 1, _EVERY // 2)).astype(np.int64)
        points = np.unique(np.concatenate([points[: _EVERY // 2], far]))
    h = np.minimum.accumulate(values)[points]
    return connect_values(spacing, points, h, h)
