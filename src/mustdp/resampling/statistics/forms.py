"""Variances and covariances can be released in two forms: as averages over pairs, or by moments."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass

from mustdp.numerics import checks
from mustdp.resampling.statistics.columns import OfColumns
from mustdp.resampling.statistics.public import Public
from mustdp.resampling.statistics.query import Query

#: How a variance, a covariance or a correlation is released.
FORMS = ("pairs", "moments")


@dataclass(frozen=True)
class InTwoForms(OfColumns):
    """A statistic in the form asked for; Poisson subsets always take moments."""

    form: str = "moments"
    columns: tuple[str | int, ...] | None = None

    def __post_init__(self) -> None:
        checks.choice("form", self.form, FORMS)
        super().__post_init__()

    def _on(self, public: Public) -> Query:
        if self.form == "moments" or public.poisson:
            return self._by_moments(public)
        public.refuse_below(2)
        return self._by_pairs(public)

    @abstractmethod
    def _by_moments(self, public: Public) -> Query:
        """The query that releases moments."""

    @abstractmethod
    def _by_pairs(self, public: Public) -> Query:
        """The query that releases averages over pairs of at least two entries."""
