"""The statistics of the bootstrap, as objects, in the words of a release."""

from __future__ import annotations

from mustdp.errors import InvalidParameter
from mustdp.estimation.bootstrap.averages import Proportion
from mustdp.estimation.bootstrap.moments import (
    Correlation,
    Covariance,
    LinearRegression,
    Mean,
    StandardDeviation,
    Variance,
)
from mustdp.estimation.bootstrap.quantile import Median, Quantile
from mustdp.estimation.bootstrap.query import Statistic

_NAMED = (Mean, Variance, StandardDeviation, Covariance, Correlation, LinearRegression)
_SIGNS = {"above": ">", "at_least": ">=", "below": "<", "at_most": "<=", "equal": "="}


def spelled(statistic: str | Statistic) -> str:
    """The name of a statistic, with its columns; a name is returned as it is.

    >>> spelled(Proportion(at_least=50.0, below=60.0, columns=("age",)))
    'proportion:>=50.0,<60.0@age'
    """
    if not isinstance(statistic, Statistic):
        return statistic
    if isinstance(statistic, _NAMED):
        said = statistic.name
    elif isinstance(statistic, Quantile) and statistic.grid is None:
        said = "median" if isinstance(statistic, Median) else f"quantile:{statistic.p!r}"
    elif isinstance(statistic, Proportion):
        limits = ((sign, getattr(statistic, name)) for name, sign in _SIGNS.items())
        given = ",".join(f"{sign}{limit!r}" for sign, limit in limits if limit is not None)
        said = f"proportion:{given}"
    else:
        raise InvalidParameter(
            f"statistics must be such that a formula for their errors is known here, got "
            f"{type(statistic).__name__}: private_bootstrap takes it, or a quantile without a grid"
        )
    columns = statistic.columns
    return said if columns is None else f"{said}@{','.join(map(str, columns))}"
