"""What a comparison of schemes gives: a row for each, and a table of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import isfinite

from mustdp.accounting.bounds import Bounds
from mustdp.mechanisms.relation import Relation
from mustdp.numerics.decimals import as_stated, chance_drawn, noise_needed, readable
from mustdp.numerics.tables import Shown
from mustdp.sampling.epochs import Sampling
from mustdp.sampling.scheme import Scheme


@dataclass(frozen=True)
class EpochRow:
    """What one scheme, or one kind of epoch, needs and gives."""

    scheme: Sampling
    noise_multiplier: float
    epsilon: Bounds

    @property
    def eta(self) -> float:
        """Chance that one given record is drawn."""
        return self.scheme.eta

    @property
    def expected_distinct(self) -> float:
        """Expected number of distinct records a step touches."""
        return self.scheme.expected_distinct


@dataclass(frozen=True)
class ComparisonRow(EpochRow):
    """What one scheme needs and gives.

    Attributes
    ----------
    scheme : Scheme
        How batches are drawn.
    noise_multiplier : float
        Scale of the noise over C, the bound on the norm of what one record contributes to a sum.
    epsilon : Bounds
        Bounds of epsilon at delta; the upper one is certified.

    Examples
    --------
    >>> import mustdp as md
    >>> row = md.ComparisonRow(md.must_ow(1000, 50, 10), 2.0, md.Bounds(0.72, 0.73))
    >>> row.scheme.name, row.scheme.m, round(row.expected_distinct, 2)
    ('must-ow', 10, 9.15)
    """

    scheme: Scheme


@dataclass(frozen=True)
class Comparison:
    """Rows for all schemes that fit the sizes, under one relation, and for epochs if wanted.

    Attributes
    ----------
    relation : Relation
        Which data sets are neighbours.
    steps : int
        Number of steps that every row is for.
    delta : float
        The delta at which epsilon is stated.
    rows : tuple of ComparisonRow
        One row for every scheme.
    epochs : tuple of EpochRow
        One row for random allocation and one for shuffling; none where they were not wanted.

    Examples
    --------
    >>> import mustdp as md
    >>> row = md.ComparisonRow(md.wor(1000, 10), 2.0, md.Bounds(0.72, 0.73))
    >>> found = md.Comparison(md.Relation.REPLACE_ONE, steps=100, delta=1e-5, rows=(row,))
    >>> print(found)
    all schemes; steps: 100, delta 1e-05, relation replace-one
    scheme     eta  distinct  noise  epsilon, attained  certified
       wor  0.0100        10      2              0.719      0.730
    """

    relation: Relation
    steps: int
    delta: float
    rows: tuple[ComparisonRow, ...]
    epochs: tuple[EpochRow, ...] = ()

    def __iter__(self) -> Iterator[ComparisonRow]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def __str__(self) -> str:
        return self._shown().text()

    def _repr_html_(self) -> str:
        return self._shown().html()

    def _shown(self) -> Shown:
        heading = f"all schemes; steps: {self.steps}, delta {as_stated(self.delta)}, relation "
        return Shown(
            heading + self.relation.option,
            ("scheme", "eta", "distinct", "noise", "epsilon, attained", "certified"),
            tuple(
                (
                    row.scheme.name,
                    chance_drawn(row.eta),
                    readable(row.expected_distinct, "nearest"),
                    noise_needed(row.noise_multiplier, 4),
                    readable(row.epsilon.lower, "down"),
                    readable(row.epsilon.upper, "up") if isfinite(row.epsilon.upper) else "none",
                )
                for row in (*self.rows, *self.epochs)
            ),
        )
