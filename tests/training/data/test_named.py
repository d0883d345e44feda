"""Data sets by name, the embedded one, and what makes a data set."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest

from mustdp import InvalidParameter
from mustdp.training import load_data
from mustdp.types import DataSet, MissingExtra


def test_digits() -> None:
    pytest.importorskip("sklearn")
    data = load_data("digits")
    assert (data.X_train.shape, data.X_test.shape) == ((1347, 64), (450, 64))
    assert (data.X_train.min(), data.X_train.max()) == (0.0, 1.0)
    assert len(data.classes) == 10


def test_without_scikit_learn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    with pytest.raises(MissingExtra, match=r'scikit-learn.*pip install "\.\[train\]"'):
        load_data("digits")


def test_names_that_make_no_sense() -> None:
    with pytest.raises(InvalidParameter, match=r"dataset must be one of .*'iris'"):
        load_data("iris")
    with pytest.raises(InvalidParameter, match="data must not be given for digits"):
        load_data("digits", "somewhere")


def dataset(**changed: Any) -> DataSet:
    given: dict[str, Any] = {
        "name": "tiny",
        "X_train": np.zeros((3, 2)),
        "y_train": np.array([1, 1, 0]),
        "X_test": np.zeros((2, 2)),
        "y_test": np.array([1, 0]),
        "classes": ("no", "yes"),
        "features": ("a", "b"),
    }
    return DataSet(**{**given, **changed})


def test_the_majority_is_that_of_the_training_records() -> None:
    assert dataset().majority_baseline == 0.5
    assert dataset(y_test=np.array([1, 1])).majority_baseline == 1.0


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"X_train": np.zeros((4, 2))}, r"X_train of tiny must have the shape \(3, 2\)"),
        ({"X_test": np.zeros(2)}, r"X_test of tiny must have the shape \(2, 2\)"),
        ({"X_test": np.full((2, 2), np.nan)}, "X_test of tiny must be finite"),
        ({"y_train": np.array([0, 1, 2])}, "class numbers from 0 to 1, got 0 to 2"),
    ],
)
def test_data_that_makes_no_sense(changed: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidParameter, match=message):
        dataset(**changed)
