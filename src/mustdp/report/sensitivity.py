"""How much the sizes matter: the certified epsilon of MUSTow at other b and m, same noise."""

from __future__ import annotations

import math
from dataclasses import dataclass

from mustdp.accounting.account import account
from mustdp.accounting.plan import repeat, subsample
from mustdp.errors import NotCovered, NumericalFailure
from mustdp.limits import LARGEST_SIZE
from mustdp.mechanisms.mechanism import gaussian
from mustdp.mechanisms.relation import Relation
from mustdp.sampling.scheme import Scheme, must_ow

#: Factors from a quarter to four times, with one in the middle.
_FACTORS = tuple(4.0 ** (step / 3.0) for step in range(-3, 4))
#: Relative accuracy, enough for a picture; the values are certified all the same.
_ACCURACY = 0.02


@dataclass(frozen=True)
class Sensitivity:
    """``epsilon[i][j]`` is certified for b[j] and m[i]; NaN where nothing could be certified."""

    b: tuple[int, ...]
    m: tuple[int, ...]
    epsilon: tuple[tuple[float, ...], ...]
    noise_multiplier: float

    def at(self, b: int, m: int) -> float:
        """The certified epsilon at a point of the grid."""
        return self.epsilon[self.m.index(m)][self.b.index(b)]

    @property
    def holes(self) -> int:
        """How many points have no certified value."""
        return sum(math.isnan(value) for row in self.epsilon for value in row)


def grid_of(n: int, b: int, m: int) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    """First stages and batches around (b, m); None if one of them cannot be varied."""
    first = tuple(sorted({min(n, max(1, round(b * factor))) for factor in _FACTORS}))
    batch = tuple(sorted({min(LARGEST_SIZE, max(1, round(m * factor))) for factor in _FACTORS}))
    return (first, batch) if len(first) > 1 and len(batch) > 1 else None


def epsilons_at(
    n: int,
    first: tuple[int, ...],
    m: int,
    noise_multiplier: float,
    steps: int,
    delta: float,
    relation: Relation,
    group: int,
) -> tuple[float, ...]:
    """Certified epsilons of MUSTow with batches of m, at every first stage; NaN for none."""
    return tuple(
        _epsilon(must_ow(n, b, m), noise_multiplier, steps, delta, relation, group) for b in first
    )


def _epsilon(
    scheme: Scheme,
    noise_multiplier: float,
    steps: int,
    delta: float,
    relation: Relation,
    group: int,
) -> float:
    plan = repeat(steps, subsample(scheme, gaussian(noise_multiplier=noise_multiplier)))
    try:
        found = account(plan, relation=relation, group=group).certified_epsilon(delta, _ACCURACY)
    except (NumericalFailure, NotCovered):
        return math.nan
    return found if math.isfinite(found) else math.nan
