"""Which columns a statistic reads, and how many it can take."""

from __future__ import annotations

from mustdp.errors import InvalidParameter
from mustdp.resampling.statistics.query import Statistic


class OfColumns(Statistic):
    """A statistic of ``fewest`` to ``most`` columns (None: no limit); sets its columns in order."""

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
        """Refuse a number of columns that the statistic cannot take."""
        if count >= self.fewest and (self.most is None or count <= self.most):
            return
        if self.most == self.fewest:
            allowed = f"{self.fewest} column{'s' if self.fewest > 1 else ''}"
        else:
            allowed = f"at least {self.fewest} columns" + (
                f" and at most {self.most}" if self.most is not None else ""
            )
        raise InvalidParameter.refusing("columns", f"of {self.name} must be {allowed}", count)
