"""Statistics by name, for anyone who takes one from a user."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from mustdp.errors import InvalidParameter
from mustdp.estimation.bootstrap.averages import SIGNS, Proportion
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

_PLAIN: dict[str, Callable[..., Statistic]] = {
    "mean": Mean,
    "variance": Variance,
    "sd": StandardDeviation,
    "median": Median,
    "covariance": Covariance,
    "correlation": Correlation,
    "regression": LinearRegression,
}
#: Those that can be released in two ways: variance:pairs is the sample variance itself.
_FORMED = ("variance", "sd", "covariance", "correlation")
#: What can be asked for, as it is written.
NAMES = (*_PLAIN, "quantile:P", "proportion:CONDITION", "variance:pairs")


def read_statistic(text: str | Statistic) -> Statistic:
    """The statistic called ``text``; a statistic is returned as it is.

    >>> read_statistic("quantile:0.9").name
    'quantile'
    >>> read_statistic("proportion:>=50,<60")
    Proportion(above=None, below=60.0, at_least=50.0, at_most=None, equal=None, columns=None)
    """
    if isinstance(text, Statistic):
        return text
    if isinstance(text, str):
        name, colon, rest = text.strip().partition(":")
        if name in _PLAIN and not colon:
            return _PLAIN[name]()
        if name in _FORMED and colon:
            return _PLAIN[name](form=rest)
        if name == "quantile" and colon:
            return Quantile(_number(text, rest))
        if name == "proportion" and colon:
            return _proportion(text, rest)
    raise InvalidParameter.refusing(
        "statistic",
        f"must be one of {', '.join(NAMES)} (such as quantile:0.9, proportion:>50, "
        "proportion:>=50,<60 or proportion:=1)",
        repr(text),
    )


def _proportion(text: str, conditions: str) -> Proportion:
    limits: dict[str, float] = {}
    for condition in conditions.split(","):
        found = re.fullmatch(r"\s*(>=|<=|>|<|=)(.*)", condition)
        if found is None:
            raise InvalidParameter.refusing(
                "statistic",
                "must state a proportion by conditions such as >50, >=50,<60 or =1",
                repr(text),
            )
        if found[1] in limits:
            raise InvalidParameter.refusing(
                "statistic", f"must state {found[1]} at most once in a proportion", repr(text)
            )
        limits[found[1]] = _number(text, found[2])
    given: dict[str, Any] = {name: limits.get(sign) for name, sign in SIGNS.items()}
    return Proportion(**given)


def _number(text: str, digits: str) -> float:
    try:
        return float(digits)
    except ValueError:
        raise InvalidParameter.refusing(
            "statistic", f"must have a number in place of {digits!r}", repr(text)
        ) from None
