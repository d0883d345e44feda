"""CIFAR-10 from files of its binary format."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from mustdp import InvalidParameter
from mustdp.training import load_data
from tests.seams import shorten_cifar10

FEW = 6
#: The names under which the data set is published, in the order of its records.
FILES = (*(f"data_batch_{number}.bin" for number in range(1, 6)), "test_batch.bin")


def write(folder: Path, *, largest: int = 10) -> None:
    """Small files of the same layout, each record recognisable by its label and colours."""
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(10)
    for number, name in enumerate(FILES):
        records = rng.integers(0, 256, (FEW, 3073), dtype=np.uint8)
        records[:, 0] = np.arange(FEW) % largest
        records[:, 1:1025], records[:, 1025] = 255, number
        (folder / name).write_bytes(records.tobytes())


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    shorten_cifar10(monkeypatch, FEW)


@pytest.mark.parametrize("subfolder", ["", "cifar-10-batches-bin"])
def test_all_records_in_their_order(tmp_path: Path, subfolder: str) -> None:
    write(tmp_path / subfolder)
    data = load_data("cifar10", tmp_path)
    assert (data.X_train.shape, data.X_test.shape) == ((5 * FEW, 3072), (FEW, 3072))
    images = data.X_train.reshape(-1, 3, 32, 32)
    assert (images[:, 0] == 1.0).all()
    assert (images[:, 1, 0, 0] * 255).round().tolist() == [k for k in range(5) for _ in range(FEW)]
    assert (data.X_test[:, 1024] * 255).round().tolist() == [5] * FEW
    assert data.y_test.tolist() == list(range(FEW))
    assert data.features[1024] == "green 0,0"
    assert data.classes[data.y_train[1]] == "automobile"


def test_centred(tmp_path: Path) -> None:
    write(tmp_path)
    data = load_data("cifar10", tmp_path, pixels="centred")
    assert (data.X_train.min(), data.X_train.max()) == (-1.0, 1.0)


def test_damaged_files(tmp_path: Path) -> None:
    write(tmp_path)
    path = tmp_path / "data_batch_3.bin"
    content = path.read_bytes()
    path.write_bytes(content[:-1])
    with pytest.raises(InvalidParameter, match=r"data_batch_3.bin must hold 6 records in 18438"):
        load_data("cifar10", tmp_path)
    path.write_bytes(b"\x0a" + content[1:])
    with pytest.raises(InvalidParameter, match="labels from 0 to 9"):
        load_data("cifar10", tmp_path)
    path.unlink()
    with pytest.raises(InvalidParameter, match=r"with data_batch_3\.bin or"):
        load_data("cifar10", tmp_path)


def test_it_is_not_fetched() -> None:
    with pytest.raises(InvalidParameter, match="data must be the folder of the binary files"):
        load_data("cifar10")
