"""The multiplicity law: how often a group of records occurs in one draw.

A stage draws M entries out of N. If i of the N entries are special, the number j of special ones
among the M drawn is hypergeometric(N, i, M) without replacement and binomial(M, i/N) with. The law
of a multistage draw is the product of these kernels started at i = (number of special records).

Laws are truncated where what is left out is below a stated mass. The mass that was cut is carried
along in ``cut`` and never dropped: whoever uses the law for a privacy bound adds it to delta.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from mustdp.errors import NumericalFailure
from mustdp.numerics import windows
from mustdp.numerics.checks import frozen
from mustdp.numerics.windows import FloatArray, Window
from mustdp.sampling.stage import Stage

#: Mass that a law may leave out unless the caller asks for more or less.
TAIL = 1e-300
_ROUNDOFF = 2.0**-53
_LARGEST_KERNEL = 50_000_000


class MultiplicityLaw(Window):
    """The law of the multiplicity J: probabilities of ``first, first + 1, …`` and the cut mass."""

    @property
    def eta(self) -> float:
        """P(J >= 1), summed over j >= 1 so that small values keep their digits."""
        return float(self.positive.sum())

    @property
    def zero(self) -> float:
        """P(J = 0)."""
        return float(self.probabilities[0]) if self.first == 0 else 0.0

    @property
    def positive(self) -> FloatArray:
        """Probabilities of the multiplicities that are at least one."""
        return self.probabilities[1:] if self.first == 0 else self.probabilities

    @property
    def positive_values(self) -> FloatArray:
        """The multiplicities that are at least one, as floats."""
        return np.arange(max(self.first, 1), self.first + self.probabilities.size, dtype=np.float64)

    @property
    def mean(self) -> float:
        """Expected multiplicity, of the part that was kept."""
        return float(self.positive @ self.positive_values)

    def dense(self) -> FloatArray:
        """Probabilities from multiplicity 0 on: ``p_0, p_1, …`` as one read-only array."""
        return frozen(np.concatenate([np.zeros(self.first), self.probabilities]))


@lru_cache(maxsize=4096)
def stage_law(stage: Stage, population: int, special: int, tail: float = TAIL) -> MultiplicityLaw:
    """Law of the special entries after one stage that starts with ``special`` among them."""
    if stage.kind == "wor":
        window = windows.hypergeometric(population, special, stage.size, tail)
    else:
        window = windows.binomial(stage.size, special, population, tail)
    return as_law(window)


def as_law(window: Window) -> MultiplicityLaw:
    """Read a window of probabilities as a multiplicity law."""
    return MultiplicityLaw(window.first, window.probabilities, window.cut, window.relative_error)


def chain_law(
    population: int, stages: Sequence[Stage], special: int, tail: float = TAIL
) -> MultiplicityLaw:
    """Law after all ``stages``, started with ``special`` of ``population`` records."""
    law = stage_law(stages[0], population, special, tail)
    for before, stage in zip(stages, stages[1:], strict=False):
        law = _apply(law, stage, before.size, tail)
    return law


def _apply(law: MultiplicityLaw, stage: Stage, population: int, tail: float) -> MultiplicityLaw:
    rows = []
    for special, weight in zip(law.values.tolist(), law.probabilities.tolist(), strict=True):
        if weight > 0:
            # A row that is rarely reached may be cut earlier: its cut counts only weight times.
            own_tail = min(1e-3, max(tail, 1e-300) / weight) if tail > 0 else 0.0
            rows.append((weight, stage_law(stage, population, special, _rounded_down(own_tail))))
    first = min(row.first for _, row in rows)
    last = max(row.first + row.probabilities.size for _, row in rows)
    if (last - first) * len(rows) > _LARGEST_KERNEL:
        raise NumericalFailure(
            f"the law of stage {stage.kind}:{stage.size} mixes {len(rows)} rows of up to "
            f"{last - first} values; at most {_LARGEST_KERNEL} entries are supported"
        )
    mixed = np.zeros(last - first)
    cut, error = law.cut, 0.0
    for weight, row in rows:
        start = row.first - first
        mixed[start : start + row.probabilities.size] += weight * row.probabilities
        cut += weight * row.cut
        error = max(error, row.relative_error)
    error += law.relative_error + (len(rows) + 1) * _ROUNDOFF
    return MultiplicityLaw(first, frozen(mixed), cut, error)


def _rounded_down(tail: float) -> float:
    """Round to a power of 1000 so that equal rows meet in the cache."""
    if tail <= 0:
        return 0.0
    return float(10.0 ** (3 * np.floor(np.log10(tail) / 3)))
