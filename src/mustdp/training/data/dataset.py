"""A data set ready for training, and the files it is read from."""

from __future__ import annotations

import gzip
import hashlib
import os
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mustdp.errors import InvalidParameter
from mustdp.numerics.checks import frozen

# Files of a data set: found in a folder that the user names, read whole, and checked.


def read_published(folder: Path, name: str, sha256: str | None) -> bytes:
    """The content of ``name`` or ``name``.gz in ``folder``, unpacked, with its checksum checked."""
    plain, packed = folder / name, folder / f"{name}.gz"
    path = plain if plain.is_file() else packed
    try:
        content = path.read_bytes()
        if path is packed:
            content = gzip.decompress(content)
    except FileNotFoundError:
        raise InvalidParameter.refusing(
            "data", f"must be a folder with {name} or {name}.gz in it", repr(str(folder))
        ) from None
    except (OSError, EOFError, zlib.error) as problem:
        raise InvalidParameter(f"{path} must be readable and undamaged: {problem}") from None
    if sha256 is not None and hashlib.sha256(content).hexdigest() != sha256:
        raise InvalidParameter(
            f"{path} must be the file as published, got other contents: its SHA-256 differs"
        )
    return content


def find_folder(data: str | os.PathLike[str], subfolder: str, wanted: str) -> Path:
    """``data`` or ``data``/``subfolder``, whichever holds ``wanted`` (plain or .gz)."""
    top = Path(data)
    if not top.is_dir():
        raise InvalidParameter.refusing("data", "must be an existing folder", repr(str(data)))
    for folder in (top, top / subfolder):
        if (folder / wanted).is_file() or (folder / f"{wanted}.gz").is_file():
            return folder
    allowed = f"must be a folder with {wanted} in it or in its subfolder {subfolder}"
    raise InvalidParameter.refusing("data", allowed, repr(str(data)))


# A data set ready for training: rows, labels, and the split into training and test records.


#: Ranges that the pixels of images are brought to: [0, 1] and [-1, 1].
PIXELS = ("unit", "centred")


@dataclass(frozen=True, eq=False)
class DataSet:
    """Read-only arrays, split into training and test records.

    Parameters
    ----------
    name : str
        What the data set is called.
    X_train : ndarray
        Rows ``(records, features)`` of finite numbers, for training.
    y_train : ndarray of int
        Class numbers of these rows, from 0 on.
    X_test : ndarray
        Rows to test with.
    y_test : ndarray of int
        Class numbers of these rows.
    classes : tuple of str
        What the class numbers stand for.
    features : tuple of str
        Names of the columns.

    Examples
    --------
    >>> import mustdp as md
    >>> import numpy as np
    >>> X, y = np.zeros((4, 2)), np.array([0, 1, 1, 1])
    >>> data = md.types.DataSet("tiny", X, y, X, y, ("no", "yes"), ("x", "z"))
    >>> data.majority_baseline
    0.75
    """

    name: str
    X_train: NDArray[Any]
    y_train: NDArray[np.int64]
    X_test: NDArray[Any]
    y_test: NDArray[np.int64]
    classes: tuple[str, ...]
    features: tuple[str, ...]

    def __post_init__(self) -> None:
        for part in ("train", "test"):
            X, y = getattr(self, f"X_{part}"), getattr(self, f"y_{part}")
            if X.ndim != 2 or X.shape != (len(y), len(self.features)):
                raise InvalidParameter(
                    f"X_{part} of {self.name} must have the shape "
                    f"({len(y)}, {len(self.features)}), got {X.shape}"
                )
            if not np.isfinite(X).all():
                raise InvalidParameter(f"X_{part} of {self.name} must be finite, got NaN")
            if y.size and not (y.min() >= 0 and y.max() < len(self.classes)):
                raise InvalidParameter(
                    f"y_{part} of {self.name} must hold class numbers from 0 to "
                    f"{len(self.classes) - 1}, got {int(y.min())} to {int(y.max())}"
                )
            object.__setattr__(self, f"X_{part}", frozen(X))
            object.__setattr__(self, f"y_{part}", frozen(y))

    @property
    def majority_baseline(self) -> float:
        """Test accuracy of always answering the training records' most frequent class."""
        most_frequent = np.bincount(self.y_train, minlength=len(self.classes)).argmax()
        return float(np.mean(self.y_test == most_frequent))


def split_in_order(
    name: str,
    X: NDArray[Any],
    y: NDArray[np.int64],
    classes: tuple[str, ...],
    features: tuple[str, ...],
) -> DataSet:
    """The first three quarters of the rows for training, the rest for testing."""
    cut = len(X) * 3 // 4
    return DataSet(
        name, X[:cut].copy(), y[:cut].copy(), X[cut:].copy(), y[cut:].copy(), classes, features
    )


def scaled(images: NDArray[np.uint8], pixels: str) -> NDArray[np.float32]:
    """Pixels from 0 to 255 in the range that ``pixels`` names, in single precision."""
    found = images.astype(np.float32)
    found /= 255
    if pixels == "centred":
        found -= 0.5
        found /= 0.5
    return found
