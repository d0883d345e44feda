"""Bounds have names."""

from __future__ import annotations

from dataclasses import dataclass

from mustdp.mechanisms.relation import Relation
from mustdp.numerics.arrays import FloatArray


@dataclass(frozen=True)
class Bounds:
    """A number known from both sides.

    ``upper`` is certified: it holds for every pair of neighbouring data sets. ``lower`` is attained
    by the pair of data sets named in ``attained_by``. ``direction`` says which order of neighbours
    decided the upper bound under add_remove. ``numerical_gap`` estimates how much of the distance
    between the two is due to discretisation: each bound is that close to what finer grids give.
    ``relation`` says which data sets are neighbours; None where nothing was accounted for.
    ``coarse`` says that the default accuracy could not be reached: both bounds hold, and
    ``numerical_gap`` is how far off they may be.

    >>> import mustdp as md
    >>> bounds = md.account(md.gaussian(noise_multiplier=2.0)).epsilon(delta=1e-5)
    >>> bounds.lower <= bounds.upper
    True
    >>> bounds.relation.option
    'replace-one'
    """

    lower: float
    upper: float
    attained_by: str = ""
    direction: str = "both"
    numerical_gap: float = 0.0
    relation: Relation | None = None
    coarse: bool = False


@dataclass(frozen=True, eq=False)
class Curve:
    """Bounds of delta at many epsilons.

    >>> import mustdp as md
    >>> curve = md.account(md.gaussian(noise_multiplier=2.0)).curve([0.5, 1.0])
    >>> print(curve.upper.round(4))
    [0.2384 0.1269]
    """

    epsilon: FloatArray
    lower: FloatArray
    upper: FloatArray
