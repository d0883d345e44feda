"""Bounds have names."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

from mustdp.mechanisms.relation import Relation
from mustdp.numerics.arrays import FloatArray
from mustdp.numerics.formatting import formatted, readable

#: How steps are composed where no family of pairs is.
ONE_PAIR = "one pair"
#: Certified deltas at epsilons >= 0, for both orders of the neighbours.
DeltaProfile = Callable[[FloatArray], FloatArray]


@dataclass(frozen=True)
class Bounds:
    """A lower and an upper bound of epsilon or delta.

    Attributes
    ----------
    lower : float
        Attained by the pair of data sets named in ``attained_by``.
    upper : float
        Certified: it holds for every pair of neighbouring data sets.
    attained_by : str
        The pair of data sets that attains the lower bound.
    direction : str
        Which order of neighbours decided the upper bound under add_remove.
    numerical_gap : float
        How much of the distance between the two is due to discretisation, estimated: each bound is
        that close to what finer grids give.
    relation : Relation or None
        Which data sets are neighbours; None where nothing was accounted for.
    coarse : bool
        That the default accuracy could not be reached, or that nothing is known: both bounds hold,
        and ``numerical_gap`` is how far off they may be.
    composition : str
        How the upper bound was composed: with "one pair" per step, with the "exact-family", or with
        the family inside "blocks" of steps.

    Examples
    --------
    >>> import mustdp as md
    >>> bounds = md.account(md.gaussian(noise_multiplier=2.0)).epsilon(delta=1e-5)
    >>> bounds.lower <= bounds.upper
    True
    >>> bounds.relation.option
    'replace-one'

    Formats of numbers serve both, and round each to its safe side:

    >>> print(f"epsilon: {bounds:.2f}")
    epsilon: 4.37 to 4.38
    >>> print(bounds)
    4.37 attained, 4.38 certified (replace-one)
    """

    lower: float
    upper: float
    attained_by: str = ""
    direction: str = "both"
    numerical_gap: float = 0.0
    relation: Relation | None = None
    coarse: bool = False
    composition: str = ONE_PAIR

    def __str__(self) -> str:
        attained = readable(self.lower, "down") if math.isfinite(self.lower) else "any number"
        certified = readable(self.upper, "up") if math.isfinite(self.upper) else "nothing"
        known = f"{attained} attained, {certified} certified"
        notes = [] if self.relation is None else [self.relation.option]
        notes += ["coarse"] if self.coarse else []
        return f"{known} ({', '.join(notes)})" if notes else known

    def __format__(self, spec: str) -> str:
        if not spec:
            return str(self)
        lower, upper = formatted(self.lower, spec, "down"), formatted(self.upper, spec, "up")
        return f"{lower} to {upper}"


@dataclass(frozen=True, eq=False)
class Curve:
    """Bounds of delta at many epsilons.

    Attributes
    ----------
    epsilon : ndarray
        The epsilons.
    lower : ndarray
        A delta that some pair of data sets attains, at each.
    upper : ndarray
        The certified delta at each.

    Examples
    --------
    >>> import mustdp as md
    >>> curve = md.account(md.gaussian(noise_multiplier=2.0)).curve([0.5, 1.0])
    >>> print(curve.upper.round(4))
    [0.2384 0.1269]
    """

    epsilon: FloatArray
    lower: FloatArray
    upper: FloatArray


@dataclass(frozen=True)
class FamilyBounds:
    """Bounds of one question, how the lower one is attained, and how the upper one was composed.

    ``block`` is the number of steps whose worst case was found adaptively; blocks are composed as
    dominating pairs. It equals the number of steps where nothing was given away. ``profile`` bounds
    delta at every epsilon, closely around the answer.
    """

    lower: float
    upper: float
    attained_by: str
    composition: str
    block: int
    members: int
    profile: DeltaProfile | None = field(default=None, compare=False, repr=False)
