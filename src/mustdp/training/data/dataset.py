"""A data set ready for training: rows, labels, and the split into training and test records."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mustdp.errors import InvalidParameter
from mustdp.numerics.checks import frozen

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
    >>> data = md.DataSet("tiny", X, y, X, y, ("no", "yes"), ("x", "z"))
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
