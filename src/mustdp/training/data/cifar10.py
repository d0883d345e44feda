"""CIFAR-10 from its six binary files: 50,000 training and 10,000 test images of 32 x 32 in colour.

A. Krizhevsky, "Learning Multiple Layers of Features from Tiny Images" (2009). Every record is one
byte for the label and 3072 for the image: all red values row by row, then green, then blue.
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from mustdp.errors import InvalidParameter
from mustdp.numerics import checks
from mustdp.training.data.dataset import PIXELS, DataSet, find_folder, read_published, scaled

TRAINING = tuple(f"data_batch_{number}.bin" for number in range(1, 6))
TEST = "test_batch.bin"
FOLDER = "cifar-10-batches-bin"
CLASSES = (
    "airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck",
)  # fmt: skip
RECORDS = 10_000
_PIXELS = 3 * 32 * 32


def load_cifar10(data: str | os.PathLike[str], *, pixels: str = "unit") -> DataSet:
    """CIFAR-10 from the folder ``data`` or its subfolder ``cifar-10-batches-bin``.

    Rows hold colour by colour, so that ``X.reshape(-1, 3, 32, 32)`` are the images.
    ``pixels="unit"`` scales to [0, 1], ``"centred"`` to [-1, 1].
    """
    checks.choice("pixels", pixels, PIXELS)
    folder = find_folder(data, FOLDER, TRAINING[0])
    parts = [_read(folder, name) for name in (*TRAINING, TEST)]
    train = np.concatenate(parts[:-1])
    places = [(row, column) for row in range(32) for column in range(32)]
    return DataSet(
        name="cifar10",
        X_train=scaled(train[:, 1:], pixels),
        y_train=train[:, 0].astype(np.int64),
        X_test=scaled(parts[-1][:, 1:], pixels),
        y_test=parts[-1][:, 0].astype(np.int64),
        classes=CLASSES,
        features=tuple(f"{c} {row},{col}" for c in ("red", "green", "blue") for row, col in places),
    )


def _read(folder: Path, name: str) -> NDArray[np.uint8]:
    content = read_published(folder, name, None)
    expected = RECORDS * (1 + _PIXELS)
    if len(content) != expected:
        raise InvalidParameter(
            f"{folder / name} must hold {RECORDS} records in {expected} bytes, got {len(content)}"
        )
    records = np.frombuffer(content, dtype=np.uint8).reshape(RECORDS, 1 + _PIXELS)
    if not records[:, 0].max() < len(CLASSES):
        raise InvalidParameter(f"{folder / name} must hold labels from 0 to 9, got a larger one")
    return records
