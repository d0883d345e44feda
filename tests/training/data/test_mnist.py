"""MNIST files: read, scaled, checked."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest

from mustdp import InvalidParameter
from tests.seams import load_mnist, write_idx
from tests.training.data.places import SHARED, needs_mnist

RNG = np.random.default_rng(0)


def write(folder: Path, *, packed: bool = True, label: int = 9) -> Path:
    """Four small files with the right names."""
    folder.mkdir(parents=True, exist_ok=True)
    for part, n in (("train", 6), ("t10k", 3)):
        images = RNG.integers(0, 256, (n, 28, 28)).astype(np.uint8)
        images[0, 0, :2] = 0, 255
        labels = np.full(n, label, dtype=np.uint8)
        for kind, array in (("images-idx3", images), ("labels-idx1", labels)):
            content, path = write_idx(array), folder / f"{part}-{kind}-ubyte"
            if packed:
                path.with_name(f"{path.name}.gz").write_bytes(gzip.compress(content))
            else:
                path.write_bytes(content)
    return folder


@pytest.mark.parametrize("packed", [True, False])
@pytest.mark.parametrize("subfolder", ["", "mnist"])
def test_any_files_of_the_format(tmp_path: Path, packed: bool, subfolder: str) -> None:
    write(tmp_path / subfolder, packed=packed)
    data = load_mnist(tmp_path, verify=False)
    assert data.X_train.shape == (6, 784)
    assert data.X_test.shape == (3, 784)
    assert data.X_train.dtype == np.float32
    assert data.X_train[0, :2].tolist() == [0.0, 1.0]
    assert (data.y_train == 9).all()
    centred = load_mnist(tmp_path, pixels="centred", verify=False)
    assert centred.X_train[0, :2].tolist() == [-1.0, 1.0]
    with pytest.raises(ValueError, match="read-only"):
        data.X_train[0, 0] = 1.0


def test_other_contents_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidParameter, match=r"train-images.*as published.*SHA-256"):
        load_mnist(write(tmp_path))


def test_a_label_out_of_range(tmp_path: Path) -> None:
    with pytest.raises(InvalidParameter, match="from 0 to 9, got 10"):
        load_mnist(write(tmp_path, label=10), verify=False)


def test_files_that_do_not_fit_together(tmp_path: Path) -> None:
    write(tmp_path, packed=False)
    labels = write_idx(np.zeros(5, dtype=np.uint8))
    (tmp_path / "train-labels-idx1-ubyte").write_bytes(labels)
    with pytest.raises(InvalidParameter, match=r"one label each.*\(6, 28, 28\) and \(5,\)"):
        load_mnist(tmp_path, verify=False)


@pytest.mark.parametrize("damage", ["cut", "garbage", "flip"])
def test_damaged_files(tmp_path: Path, damage: str) -> None:
    path = write(tmp_path) / "train-images-idx3-ubyte.gz"
    content = path.read_bytes()
    middle = len(content) // 2
    path.write_bytes(
        {
            "cut": content[:middle],
            "garbage": b"this is not gzip",
            "flip": content[:middle] + bytes([content[middle] ^ 255]) + content[middle + 1 :],
        }[damage]
    )
    with pytest.raises(InvalidParameter, match=r"train-images-idx3-ubyte.gz must be readable"):
        load_mnist(tmp_path, verify=False)


def test_missing_files_and_folders(tmp_path: Path) -> None:
    with pytest.raises(InvalidParameter, match="data must be an existing folder"):
        load_mnist(tmp_path / "nowhere")
    with pytest.raises(InvalidParameter, match="train-images-idx3-ubyte"):
        load_mnist(tmp_path)
    (write(tmp_path) / "t10k-labels-idx1-ubyte.gz").unlink()
    with pytest.raises(InvalidParameter, match="t10k-labels-idx1-ubyte"):
        load_mnist(tmp_path, verify=False)
    with pytest.raises(InvalidParameter, match="pixels must be"):
        load_mnist(tmp_path, pixels="bright")


@needs_mnist
def test_the_published_files() -> None:
    data = load_mnist(SHARED)
    assert (data.X_train.shape, data.X_test.shape) == ((60_000, 784), (10_000, 784))
    # Counts of the digits as the publishers state them, first and last.
    assert np.bincount(data.y_train).tolist()[::9] == [5923, 5949]
    assert data.majority_baseline == 0.1135
    assert data.y_train[:5].tolist() == [5, 0, 4, 1, 9]
