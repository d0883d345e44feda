"""Statistics by name."""

from __future__ import annotations

from typing import Any

import pytest

from mustdp.errors import InvalidParameter
from mustdp.types import (
    Correlation,
    Covariance,
    LinearRegression,
    Mean,
    Median,
    Proportion,
    Quantile,
    StandardDeviation,
    Variance,
)
from tests.seams import read_statistic


@pytest.mark.parametrize(
    ("text", "statistic"),
    [
        ("mean", Mean()),
        (" mean ", Mean()),
        ("variance", Variance()),
        ("variance:pairs", Variance(form="pairs")),
        ("sd", StandardDeviation()),
        ("median", Median()),
        ("quantile:0.9", Quantile(0.9)),
        ("proportion:>50", Proportion(above=50.0)),
        ("proportion:>=50,<60", Proportion(at_least=50.0, below=60.0)),
        ("proportion:<=-1.5e1", Proportion(at_most=-15.0)),
        ("proportion:=1", Proportion(equal=1.0)),
        ("covariance", Covariance()),
        ("correlation", Correlation()),
        ("regression", LinearRegression()),
    ],
)
def test_names(text: str, statistic: Any) -> None:
    found = read_statistic(text)
    assert found == statistic
    assert type(found) is type(statistic)
    assert found.name == text.strip().partition(":")[0]


def test_a_statistic_stays_what_it_is() -> None:
    statistic = Quantile(0.3, grid=5)
    assert read_statistic(statistic) is statistic


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("midrange", "statistic must be one of clipping, contingency, correlation"),
        ("", "statistic must be one of"),
        ("Mean", "statistic must be one of"),
        ("mean:3", "statistic must be one of"),
        ("quantile", "statistic must be one of"),
        ("proportion", "statistic must be one of"),
        (None, "statistic must be one of"),
        (3, "statistic must be one of"),
        ("quantile:", "statistic must have a number"),
        ("quantile:x", "statistic must have a number"),
        ("quantile:1.5", "statistic must"),
        ("quantile:nan", "statistic must"),
        ("proportion:50", "statistic must state a proportion"),
        ("proportion:", "statistic must state a proportion"),
        ("proportion:>x", "statistic must have a number"),
        ("proportion:>1,>2", "statistic must state a proportion .* each once"),
        ("proportion:>1,>=2", "proportion must be given"),
        ("proportion:>nan", "statistic must"),
        ("proportion:>2,<1", "limits"),
    ],
)
def test_what_is_not_a_statistic(text: str, words: str) -> None:
    with pytest.raises(InvalidParameter, match=words):
        read_statistic(text)
