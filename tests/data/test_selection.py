"""Columns are found by label, text or position, and as quickly as there are columns."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import pytest

from mustdp.data.columns import select
from mustdp.errors import InvalidParameter


class Label(str):
    """A label that counts how often it is compared."""

    compared: ClassVar[int] = 0
    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        Label.compared += 1
        return str.__eq__(self, other)


def test_many_columns_are_compared_a_few_times_each() -> None:
    count = 2000
    labels = [Label(f"column {k}") for k in range(count)]
    found = select(labels, [f"column {k}" for k in reversed(range(count))], "the table")
    assert [column.at for column in found] == list(reversed(range(count)))
    assert count <= Label.compared <= 4 * count


def test_labels_come_before_texts_and_texts_before_positions() -> None:
    labels = [True, 7, "1", 2.0, "x"]
    places: dict[Any, int] = {
        "1": 2,
        1: 1,
        7: 1,
        "7": 1,
        "True": 0,
        2: 3,
        "2.0": 3,
        0: 0,
        np.int64(4): 4,
    }
    for column, at in places.items():
        [found] = select(labels, [column], "the table")
        assert found.at == at, column
    [one] = select(labels, [np.array(7)], "the table")  # type: ignore[list-item]
    assert one.at == 1


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        (["a"], "columns must be named unambiguously, got 'a', the name of 2 columns of t"),
        (["b", 1], "columns must be different, got 1 twice"),
        ([3], "columns must be among the 3 columns of t, got 3"),
        (["c"], "columns must be among the 3 columns of t, got 'c'"),
    ],
)
def test_what_is_not_one_column_is_refused(columns: list[str | int], said: str) -> None:
    with pytest.raises(InvalidParameter) as refused:
        select(["a", "b", "a"], columns, "t")
    assert str(refused.value) == said
