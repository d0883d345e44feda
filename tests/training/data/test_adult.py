"""Adult with the paper's coding."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from mustdp import InvalidParameter
from mustdp.training.data import (
    ADULT_FEATURES,
    ADULT_ROWS,
    code_adult,
    load_adult,
    parse_adult,
)
from tests.training.data.places import SHARED, needs_adult

LINE = (
    "25, Private, 226802, 11th, 7, Never-married, Machine-op-inspct, Own-child, Black, Male, 0, 0, "
    "40, United-States, <=50K"
)
#: Rows 0, 1, 5, 6 and 100 of the coded data that the paper's authors publish, before the division
#: by the maximum: adult_processed2.csv in github.com/zhao-xingyuan/Hsubsampling, commit 8f40977.
PUBLISHED = {
    0: [25, 1, 226802, 7, 0, 0, 1, 0, 0, 40, 0, 0, 1],
    1: [38, 1, 89814, 9, 1, 1, 1, 0, 0, 50, 0, 0, 1],
    5: [63, 0, 104626, 15, 1, 1, 1, 3103, 0, 32, 0, 1, 0],
    6: [24, 1, 369667, 10, 0, 1, 0, 0, 0, 40, 0, 0, 0],
    100: [44, 1, 180019, 9, 1, 1, 0, 0, 0, 40, 1, 0, 0],  # Married-spouse-absent is married
}
#: Largest value of each column, over all rows.
LARGEST = [90, 1, 1490400, 16, 1, 1, 1, 99999, 4356, 99, 1, 1, 1]


@needs_adult
def test_the_papers_coding() -> None:
    data = load_adult(SHARED)
    assert data.X_train.shape == (30_969, 13)
    assert data.X_test.shape == (10_323, 13)
    # The authors' code prints these tables of the labels.
    assert np.bincount(data.y_train).tolist() == [23_203, 7_766]
    assert np.bincount(data.y_test).tolist() == [7_641, 2_682]
    assert data.majority_baseline == 7_641 / 10_323
    assert (data.X_train.min(), data.X_train.max()) == (0.0, 1.0)
    for row, values in PUBLISHED.items():
        np.testing.assert_allclose(data.X_train[row] * LARGEST, values, rtol=1e-12)
    assert len(data.features) == len(ADULT_FEATURES) == 13


def lines(name: str, line: str = LINE) -> bytes:
    return "\n".join([line] * ADULT_ROWS[name]).encode()


def test_blanks_comments_and_full_stops() -> None:
    content = b"|1x3 Cross validator\n" + lines("adult.test", LINE + ".") + b"\n\n"
    rows = parse_adult(content, "adult.test")
    assert len(rows) == ADULT_ROWS["adult.test"]
    assert rows[0][:2] == ["25", "Private"]
    assert rows[0][-1] == "<=50K"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (lines("adult.test")[: -len(LINE)], "adult.test must have 16281 rows, got 16280"),
        (lines("adult.test", "1, 2, 3"), "line 1 of adult.test must have 15 fields, got 3"),
        (lines("adult.test", LINE.replace("<=", "<")), "must end in <=50K or >50K, got '<50K'"),
    ],
)
def test_damaged_rows(content: bytes, message: str) -> None:
    with pytest.raises(InvalidParameter, match=message):
        parse_adult(content, "adult.test")


def test_other_data_is_not_taken_for_adult() -> None:
    row = LINE.split(", ")
    with pytest.raises(InvalidParameter, match=r"41292 complete rows.*got 3"):
        code_adult([row] * 3)
    with pytest.raises(InvalidParameter, match="cannot be read"):
        code_adult([["young", *row[1:]]] * 41_292)


def test_missing_and_changed_files(tmp_path: Path) -> None:
    with pytest.raises(InvalidParameter, match=r"adult.data in it or in its subfolder adult"):
        load_adult(tmp_path)
    (tmp_path / "adult.data").write_bytes(lines("adult.data"))
    with pytest.raises(InvalidParameter, match=r"adult.test or adult.test.gz"):
        load_adult(tmp_path)
    (tmp_path / "adult.test").write_bytes(lines("adult.test"))
    with pytest.raises(InvalidParameter, match="as published"):
        load_adult(tmp_path)
