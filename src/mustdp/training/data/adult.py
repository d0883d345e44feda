"""UCI Adult with the coding of the MUST paper: does a person earn more than 50,000 dollars a year?

B. Becker & R. Kohavi (1996), "Adult", UCI Machine Learning Repository, CC BY 4.0. Coding after
Zhao, Zhou & Liu, arXiv 2312.13389, experiment 3: rows with a missing value ('?') are dropped and
native country United-States is kept, which leaves 41,292 rows, the test file's first. The first
three quarters of them are for training. There are 13 columns, each divided by its maximum over all
rows. That maximum looks at the records: taking it as public is part of the paper's setting.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

import numpy as np

from mustdp.errors import InvalidParameter
from mustdp.training.data.dataset import DataSet, find_folder, read_published, split_in_order

#: Of the files whose published MD5 sums are 35238206... and 5d7c39d7...
SHA256 = {
    "adult.test": "a2a9044bc167a35b2361efbabec64e89d69ce82d9790d2980119aac5fd7e9c05",
    "adult.data": "5b00264637dbfec36bdeaab5676b0b309ff9eb788d63554ca0a249491c86603d",
}
ROWS = {"adult.test": 16_281, "adult.data": 32_561}
COMPLETE_ROWS = 41_292

#: The fields of a line, in order.
FIELDS = (
    "age", "workclass", "fnlwgt", "education", "education-num", "marital-status", "occupation",
    "relationship", "race", "sex", "capital-gain", "capital-loss", "hours-per-week",
    "native-country", "class",
)  # fmt: skip
CLASSES = ("<=50K", ">50K")
_OFFICE = {"Adm-clerical", "Armed-Forces", "Protective-serv", "Sales", "Tech-support"}
_PROFESSIONAL = {"Exec-managerial", "Prof-specialty"}
_WORKER = {"Craft-repair", "Farming-fishing", "Machine-op-inspct", "Transport-moving"}
FEATURES = (
    "age", "private employer", "fnlwgt", "education number", "married", "white", "male",
    "capital gain", "capital loss", "hours per week", "office", "professional", "worker",
)  # fmt: skip


def load_adult(data: str | os.PathLike[str], *, verify: bool = True) -> DataSet:
    """Adult from ``adult.data`` and ``adult.test`` in the folder ``data`` or its ``adult``."""
    folder = find_folder(data, "adult", "adult.data")
    rows = []
    for name in ("adult.test", "adult.data"):
        content = read_published(folder, name, SHA256[name] if verify else None)
        rows += parse(content, name)
    return code(rows)


def parse(content: bytes, name: str) -> list[list[str]]:
    """The rows of one file, blanks removed, and the full stop behind the test file's labels too."""
    rows = []
    for number, line in enumerate(content.decode("latin-1").splitlines(), start=1):
        if not line.strip() or line.startswith("|"):
            continue
        row = [field.strip() for field in line.split(",")]
        if len(row) != len(FIELDS):
            raise InvalidParameter(
                f"line {number} of {name} must have {len(FIELDS)} fields, got {len(row)}"
            )
        row[-1] = row[-1].removesuffix(".")
        if row[-1] not in CLASSES:
            raise InvalidParameter(
                f"line {number} of {name} must end in <=50K or >50K, got {row[-1]!r}"
            )
        rows.append(row)
    if len(rows) != ROWS[name]:
        raise InvalidParameter(f"{name} must have {ROWS[name]} rows, got {len(rows)}")
    return rows


def code(rows: Sequence[Sequence[str]]) -> DataSet:
    """The paper's coding of all rows, test file first."""
    kept = [row for row in rows if "?" not in row and row[13] == "United-States"]
    if len(kept) != COMPLETE_ROWS:
        raise InvalidParameter(
            f"Adult must have {COMPLETE_ROWS} complete rows from the United States, got {len(kept)}"
        )
    try:
        X = np.array([_features(row) for row in kept], dtype=np.float64)
    except ValueError as problem:
        raise InvalidParameter(f"a number in the Adult files cannot be read: {problem}") from None
    X /= X.max(axis=0)
    y = np.array([CLASSES.index(row[14]) for row in kept], dtype=np.int64)
    return split_in_order("adult", X, y, CLASSES, FEATURES)


def _features(row: Sequence[str]) -> list[float]:
    occupation = row[6]
    return [
        float(row[0]),
        row[1] == "Private",
        float(row[2]),
        float(row[4]),
        row[5].startswith("Married"),
        row[8] == "White",
        row[9] == "Male",
        float(row[10]),
        float(row[11]),
        float(row[12]),
        occupation in _OFFICE,
        occupation in _PROFESSIONAL,
        occupation in _WORKER,
    ]
