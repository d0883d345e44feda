"""What is asked for, before the ranges of the columns and the subsets' size are known."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from mustdp.errors import InvalidParameter
from mustdp.resampling.statistics.public import Public, Shape
from mustdp.resampling.statistics.query import Query


class Statistic(ABC):
    """What is asked for, before the ranges of the columns and the subsets' size are known.

    Attributes
    ----------
    name : str
        Name on the command line.
    columns : tuple or None
        Columns it reads, by name or position; None for all that are given.
    fewest : int
        How many columns it takes at least.
    most : int or None
        How many columns it takes at most; None for no limit.
    """

    name: str
    columns: tuple[str | int, ...] | None
    fewest = 1
    most: int | None = 1

    def __post_init__(self) -> None:
        if self.columns is None:
            return
        given = self.columns
        named = (given,) if isinstance(given, str | int) else tuple(given)
        for column in named:
            if isinstance(column, bool) or not isinstance(column, str | int):
                raise InvalidParameter(
                    f"columns must be names or positions of columns, got {column!r}"
                )
        if len(set(named)) != len(named):
            raise InvalidParameter(f"columns must differ from each other, got {named!r}")
        self.check_columns(len(named))
        object.__setattr__(self, "columns", named)

    def check_columns(self, count: int) -> None:
        """Refuse a number of columns that the statistic cannot take.

        Parameters
        ----------
        count : int
            The number of columns.
        """
        if count >= self.fewest and (self.most is None or count <= self.most):
            return
        if self.most == self.fewest:
            allowed = f"{self.fewest} column{'s' if self.fewest > 1 else ''}"
        else:
            allowed = f"at least {self.fewest} columns" + (
                f" and at most {self.most}" if self.most is not None else ""
            )
        raise InvalidParameter.refusing("columns", f"of {self.name} must be {allowed}", count)

    def query(self, public: Public) -> Query:
        """What is asked of subsets about which something is known.

        Parameters
        ----------
        public : Public
            The ranges of the columns and the size of the subsets.

        Returns
        -------
        Query
            The statistic with a bound on how far one record moves it, ready to be released.
        """
        self.check_columns(len(public.ranges))
        return self._on(public)

    def labelled(self, query: Query, names: Sequence[str]) -> Query:
        """The query with the columns' names in its labels, where it has something to tell apart.

        Parameters
        ----------
        query : Query
            One of this statistic.
        names : sequence of str
            The columns' names.

        Returns
        -------
        Query
            The same with other labels.
        """
        return query

    def described(self, label: str, columns: Sequence[str]) -> str:
        """What an estimate is one of, in words.

        Parameters
        ----------
        label : str
            The label of the estimate.
        columns : sequence of str
            The columns, with their ranges.

        Returns
        -------
        str
            For tables and reports.
        """
        return f"{label} of {' and '.join(columns)}"

    def shape(self, poisson: bool) -> Shape:
        """What is known of the query before the columns are.

        Parameters
        ----------
        poisson : bool
            Whether it is asked of Poisson subsets, or of those of a fixed size.

        Returns
        -------
        Shape
            Whether contributions lie in a ball, and whether it is one number.
        """
        return Shape(in_a_ball=poisson)  # there, one copy more or less moves it by the reach

    @abstractmethod
    def _on(self, public: Public) -> Query:
        """The query, on a number of columns that has been accepted."""
