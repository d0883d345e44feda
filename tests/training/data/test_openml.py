"""Downloads through scikit-learn: with a stub in place of the network."""

from __future__ import annotations

import hashlib
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

pytest.importorskip("sklearn")

import sklearn.datasets

from mustdp import InvalidParameter
from mustdp.training.data import (
    ADULT_FIELDS,
    MNIST_FILES,
    cached_folder,
    load_adult,
    load_data,
    load_mnist,
    parse_adult,
    write_idx,
)
from tests.training.data.places import SHARED, needs_adult

ASKED: dict[str, Any] = {"as_frame": False, "parser": "liac-arff"}


def no_network(*_: Any, **__: Any) -> Any:
    raise OSError("network is unreachable")


@pytest.fixture
def small_mnist(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A stub that gives 7 training and 3 test images, and checksums to match."""
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (10, 784)).astype(np.uint8)
    labels = np.arange(10, dtype=np.uint8)
    monkeypatch.setattr("mustdp.training.data._MNIST_TRAINING", 7)
    for part, rows in (("train", slice(7)), ("t10k", slice(7, 10))):
        for kind, array in (
            ("images-idx3", images[rows].reshape(-1, 28, 28)),
            ("labels-idx1", labels[rows]),
        ):
            digest = hashlib.sha256(write_idx(array)).hexdigest()
            monkeypatch.setitem(MNIST_FILES, f"{part}-{kind}-ubyte", digest)

    def fetch(name: str, *, version: int, **given: Any) -> Any:
        assert (name, version, given) == ("mnist_784", 1, ASKED)
        return SimpleNamespace(
            data=images.astype(np.float64), target=np.array(list("0123456789"), dtype=object)
        )

    return fetch


def test_mnist_is_fetched_once_and_kept(tmp_path: Path, small_mnist: Any) -> None:
    folder = cached_folder("mnist", tmp_path, small_mnist)
    assert folder == tmp_path / "mnist"
    again = cached_folder("mnist", tmp_path, no_network)
    data = load_mnist(again)
    assert data.y_train.tolist() == list(range(7))
    assert data.y_test.tolist() == [7, 8, 9]
    assert not list(folder.glob("*.part"))


def test_other_images_are_refused_and_not_kept(tmp_path: Path, small_mnist: Any) -> None:
    def changed(name: str, **given: Any) -> Any:
        bunch = small_mnist(name, **given)
        bunch.data[8, 8] += 1.0 if bunch.data[8, 8] < 255 else -1.0
        return bunch

    with pytest.raises(InvalidParameter, match="t10k-images-idx3-ubyte from OpenML must equal"):
        cached_folder("mnist", tmp_path, changed)
    assert not (tmp_path / "mnist").exists()


def adult_bunch(order: tuple[str, str] = ("adult.test", "adult.data")) -> Any:
    """What OpenML gives: category numbers, missing values as NaN, the test file first."""
    rows = []
    for name in order:
        rows += parse_adult((SHARED / "adult" / name).read_bytes(), name)
    columns, categories = [], {}
    for place, field in enumerate(ADULT_FIELDS[:-1]):
        values = [row[place] for row in rows]
        if all(value.isdigit() for value in values):
            columns.append([float(value) for value in values])
            continue
        known = sorted(set(values) - {"?"})
        categories[field] = known
        columns.append([np.nan if v == "?" else float(known.index(v)) for v in values])
    return SimpleNamespace(
        data=np.array(columns).T,
        target=np.array([row[-1] for row in rows], dtype=object),
        feature_names=list(ADULT_FIELDS[:-1]),
        categories=categories,
    )


@needs_adult
def test_adult_from_openml_is_adult_from_the_files(tmp_path: Path) -> None:
    folder = cached_folder("adult", tmp_path, lambda *_, **__: adult_bunch())
    fetched, original = load_adult(folder, verify=False), load_adult(SHARED)
    assert np.array_equal(fetched.X_train, original.X_train)
    assert np.array_equal(fetched.y_test, original.y_test)


@needs_adult
def test_adult_in_another_order_or_form_is_refused(tmp_path: Path) -> None:
    turned = adult_bunch(("adult.data", "adult.test"))
    with pytest.raises(InvalidParameter, match="test file first"):
        cached_folder("adult", tmp_path, lambda *_, **__: turned)
    turned.feature_names = turned.feature_names[::-1]
    with pytest.raises(InvalidParameter, match="must have the fields age, workclass"):
        cached_folder("adult", tmp_path, lambda *_, **__: turned)


@pytest.mark.parametrize("name", ["mnist", "adult"])
def test_without_a_network_the_folder_is_asked_for(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sklearn.datasets, "fetch_openml", no_network)
    monkeypatch.setenv("SCIKIT_LEARN_DATA", str(tmp_path))
    with pytest.raises(InvalidParameter, match=r"data must be the folder.*network is unreachable"):
        load_data(name)
    assert not (tmp_path / "mustdp").exists()
