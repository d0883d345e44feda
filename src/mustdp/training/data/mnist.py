"""MNIST from its four original idx files: 60,000 training and 10,000 test images of 28 x 28.

Y. LeCun, C. Cortes & C. Burges. The SHA-256 sums are of the unpacked files whose .gz have the
published MD5 sums f68b3c2d..., d53e105e..., 9fb629c4... and ec29112d..., so files that were
unpacked, or packed again, are recognised too.

Their idx format, described at the end of the page that publishes the files: two zero bytes, type,
number of axes, sizes, bytes. Only unsigned bytes (type 8) occur here.
"""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mustdp.errors import InvalidParameter
from mustdp.numerics import checks
from mustdp.training.data.dataset import PIXELS, DataSet, find_folder, read_published, scaled

SHA256 = {
    "train-images-idx3-ubyte": "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
    "train-labels-idx1-ubyte": "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
    "t10k-images-idx3-ubyte": "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
    "t10k-labels-idx1-ubyte": "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
}
_PIXELS = 28 * 28
_UNSIGNED_BYTES = 8


def load_mnist(
    data: str | os.PathLike[str], *, pixels: str = "unit", verify: bool = True
) -> DataSet:
    """MNIST from the folder ``data`` (or its subfolder ``mnist``), in single precision.

    ``pixels="unit"`` scales to [0, 1], ``"centred"`` to [-1, 1] as the MUST paper does. With
    ``verify=False`` other files of the same format and names are accepted.
    """
    checks.choice("pixels", pixels, PIXELS)
    folder = find_folder(data, "mnist", "train-images-idx3-ubyte")
    parts = {name: _part(folder, name, verify) for name in ("train", "t10k")}
    (X_train, y_train), (X_test, y_test) = parts["train"], parts["t10k"]
    return DataSet(
        name="mnist",
        X_train=scaled(X_train, pixels),
        y_train=y_train.astype(np.int64),
        X_test=scaled(X_test, pixels),
        y_test=y_test.astype(np.int64),
        classes=tuple(map(str, range(10))),
        features=tuple(f"pixel {row},{column}" for row in range(28) for column in range(28)),
    )


def _part(folder: Path, name: str, verify: bool) -> tuple[NDArray[Any], NDArray[Any]]:
    images, labels = (
        read_idx(read_published(folder, file, SHA256[file] if verify else None), file)
        for file in (f"{name}-images-idx3-ubyte", f"{name}-labels-idx1-ubyte")
    )
    if images.ndim != 3 or images.shape[1:] != (28, 28) or labels.shape != images.shape[:1]:
        raise InvalidParameter(
            f"the {name} files in {folder} must hold images of 28 x 28 and one label each, "
            f"got the shapes {images.shape} and {labels.shape}"
        )
    return images.reshape(len(images), _PIXELS), labels


def read_idx(content: bytes, name: str) -> NDArray[np.uint8]:
    """The array that ``content`` holds; ``name`` is for messages.

    >>> read_idx(write_idx(np.array([[1, 2]], dtype=np.uint8)), "example")
    array([[1, 2]], dtype=uint8)
    """
    if len(content) < 4 or content[:3] != bytes([0, 0, _UNSIGNED_BYTES]):
        raise InvalidParameter(
            f"{name} must be an idx file of unsigned bytes, starting with 0 0 8, "
            f"got {list(content[:3])}"
        )
    start = 4 + 4 * content[3]
    sizes = [int.from_bytes(content[at : at + 4], "big") for at in range(4, start, 4)]
    if len(content) < start or len(content) - start != math.prod(sizes):
        raise InvalidParameter(
            f"{name} must hold {math.prod(sizes)} bytes of data after its header, "
            f"got {max(0, len(content) - start)}: it is cut off or damaged"
        )
    try:
        return np.frombuffer(content, np.uint8, offset=start).reshape(sizes)
    except ValueError:
        raise InvalidParameter(
            f"{name} must hold an array of a size that exists, got {len(sizes)} axes, "
            f"the largest of {max(sizes)}"
        ) from None


def write_idx(array: NDArray[np.uint8]) -> bytes:
    """``array`` as the content of an idx file."""
    sizes = b"".join(size.to_bytes(4, "big") for size in array.shape)
    return bytes([0, 0, _UNSIGNED_BYTES, array.ndim]) + sizes + array.tobytes()
