"""Data sets by name, for whoever takes a name from a user."""

from __future__ import annotations

import os

from mustdp.errors import InvalidParameter
from mustdp.numerics import checks
from mustdp.training.data.adult import load_adult
from mustdp.training.data.cifar10 import load_cifar10
from mustdp.training.data.dataset import DataSet
from mustdp.training.data.digits import load_digits
from mustdp.training.data.mnist import load_mnist
from mustdp.training.data.openml import cached_folder

NAMES = ("digits", "mnist", "adult", "cifar10")


def load_data(
    name: str, data: str | os.PathLike[str] | None = None, *, pixels: str = "unit"
) -> DataSet:
    """The data set called ``name``, from the folder ``data``, or from OpenML without it.

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
