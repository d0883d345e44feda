"""Averages of one bounded number per record: what the mean and a proportion have in common.

Every record has an *amount* a with ``|a - mid| <= half``; write y = a - mid.

**Multisets of fixed size m.** The total is the sum of y, released is ``mid + total / m``. Swapping
one entry changes one y, and two values of [-half, half] differ by at most 2 half. So the average
moves by at most ``2 half / m``, which is attained, and the reach is ``half / m`` (for a mean:
(upper - lower) / (2m)).

**Poisson subsets of expected size M.** The size is random and tells of the records, so sums are
divided by the public M. Released are ``S = sum of y / M`` and ``N = size / M``. One copy adds (y,
1)/M: at most half/M to S and exactly 1/M to N. With shares w (``sharing.py``) the reaches are
``half / (M w_S)`` and ``1 / (M w_N)``, and ``mid + S/N`` is the estimate: a ratio, so that the
chance variation of the size cancels. The noise in it has variance close to ``(z half / (M N))^2 *
(1/w_S^2 + r^2/w_N^2)`` with r = S / (N half) in [-1, 1], which is smallest at w_S^2 : w_N^2 = 1 :
|r|. Here it is 2 : 1, the best choice at |r| = 1/2 and never more than 1.5 times the best.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, field

import numpy as np

from mustdp.numerics.arrays import FloatArray
from mustdp.resampling.statistics.public import Public
from mustdp.resampling.statistics.query import Block, LinearQuery
from mustdp.resampling.statistics.sharing import block, enlarged

#: A noisy size below this share of the expected one is taken to be this share of it.
LEAST_SHARE = 0.25

_SUM_SHARE, _COUNT_SHARE = math.sqrt(2.0 / 3.0), math.sqrt(1.0 / 3.0)


class Amount(ABC):
    """One bounded number per record; frozen and picklable."""

    #: The middle of what the number can be, and half the length of it.
    mid: float
    half: float

    @abstractmethod
    def centred(self, values: FloatArray) -> FloatArray:
        """The number minus ``mid`` for every row of ``values``; at most ``half`` from zero."""


@dataclass(frozen=True)
class AverageQuery(LinearQuery):
    """The average amount; on Poisson subsets, the sum of the centred amounts and the size."""

    public: Public
    amount: Amount
    label: str
    blocks: tuple[Block, ...] = field(init=False)
    labels: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        size, half, mid = self.public.size, self.amount.half, self.amount.mid
        blocks: tuple[Block, ...] = (block(self.label, 1, half / size, size, mid),)
        if self.public.poisson:
            total = block(f"sum of {self.label}", 1, half / size, size)
            count = block("count", 1, 1.0 / size, size)
            blocks = (enlarged(total, _SUM_SHARE), enlarged(count, _COUNT_SHARE))
        object.__setattr__(self, "blocks", blocks)
        object.__setattr__(self, "labels", (self.label,))

    def contributions(self, values: FloatArray) -> FloatArray:
        """The centred amounts and, on Poisson subsets, ones."""
        centred = self.amount.centred(values)
        if not self.public.poisson:
            return centred[:, None]
        return np.stack([centred, np.ones(len(centred))], axis=1)

    @property
    def possible(self) -> tuple[tuple[float, float], ...]:
        """The range of the amount."""
        return ((self.amount.mid - self.amount.half, self.amount.mid + self.amount.half),)

    def estimate(self, vectors: FloatArray) -> FloatArray:
        """The average; not forced into its range, so that averages of it stay unbiased.

        On Poisson subsets mid + sum / size, a noisy size below ``LEAST_SHARE`` taken to be that.
        """
        if not self.public.poisson:
            return np.array(vectors, dtype=np.float64)
        size = np.maximum(vectors[..., 1:], LEAST_SHARE)
        return np.asarray(self.amount.mid + vectors[..., :1] / size)
