"""Blocks of steps: the worst case of a block, found adaptively, composed as a dominating pair.

g after m steps is the profile of an m-step mechanism. Under replace_one it serves both orders, so
it may be made discrete like any profile and composed by powers of a transform. What is given away
is only that one pair per block has to cover both orders.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mustdp.loss.curve import ComposedLoss
from mustdp.loss.dots import connect_values
from mustdp.loss.questions import Question
from mustdp.numerics.arrays import FloatArray

_EVERY = 4000


def composed_blocks(
    spacing: float, parts: Sequence[tuple[FloatArray, int]], question: Question
) -> float:
    """The upper bound from profiles at 0, spacing, 2 spacing, … with their counts."""
    losses = []
    for values, count in parts:
        points = np.arange(values.size, dtype=np.int64)
        if points.size > _EVERY:  # chords may be longer where there is little to see
            far = np.rint(np.geomspace(_EVERY // 2, values.size - 1, _EVERY // 2)).astype(np.int64)
            points = np.unique(np.concatenate([points[: _EVERY // 2], far]))
        h = np.minimum.accumulate(values)[points]
        losses.append((connect_values(spacing, points, h, h), count))
    return question.of_composed(ComposedLoss(losses, "upper"))
