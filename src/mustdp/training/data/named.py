"""Data sets by name, for whoever takes a name from a user."""

from __future__ import annotations

import os

import numpy as np

from mustdp.errors import InvalidParameter
from mustdp.extras import required
from mustdp.numerics import checks
from mustdp.training.data.adult import load_adult
from mustdp.training.data.cifar10 import load_cifar10
from mustdp.training.data.dataset import DataSet, split_in_order
from mustdp.training.data.mnist import load_mnist
from mustdp.training.data.openml import cached_folder

NAMES = ("digits", "mnist", "adult", "cifar10")


def load_data(
    name: str, data: str | os.PathLike[str] | None = None, *, pixels: str = "unit"
) -> DataSet:
    """A data set by name.

    Parameters
    ----------
    name : {"digits", "mnist", "adult", "cifar10"}
        Which one; the digits come with scikit-learn and need no files.
    data : str or path, default=None
        The folder with its files; None loads them from OpenML (not cifar10) and keeps them.
    pixels : {"unit", "centred"}, default="unit"
        Range of the pixels of mnist and cifar10: [0, 1] or [-1, 1].

    Returns
    -------
    DataSet
        Training and test records.

    Examples
    --------
    >>> import mustdp as md
    >>> md.load_data("adult", "data").X_train.shape  # doctest: +SKIP
    (30969, 13)
    """
    checks.choice("dataset", name, NAMES)
    if name == "digits":
        if data is not None:
            raise InvalidParameter.refusing(
                "data", "must not be given for digits, which need no files", repr(str(data))
            )
        return load_digits()
    if name == "mnist":
        return load_mnist(cached_folder("mnist") if data is None else data, pixels=pixels)
    if name == "cifar10":
        if data is None:
            raise InvalidParameter.refusing(
                "data", "must be the folder of the binary files for cifar10", "nothing"
            )
        return load_cifar10(data, pixels=pixels)
    if data is None:
        return load_adult(cached_folder("adult"), verify=False)
    return load_adult(data)


def load_digits() -> DataSet:
    """The 8 x 8 handwritten digits that come with scikit-learn, 1,797 of them: an example.

    Pixels are scaled to [0, 1]; the first 1,347 are for training, the last 450 to test.
    The order is that of the source, in which writers follow one another, so that most test digits
    are by writers who are not in the training records.
    """
    bunch = required("sklearn.datasets", "the digits").load_digits()
    return split_in_order(
        "digits",
        np.asarray(bunch.data, dtype=np.float64) / 16.0,
        np.asarray(bunch.target, dtype=np.int64),
        tuple(map(str, range(10))),
        tuple(f"pixel {row},{column}" for row in range(8) for column in range(8)),
    )
