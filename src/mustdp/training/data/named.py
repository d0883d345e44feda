"""Data sets by name, from files or through scikit-learn's ``fetch_openml``."""

from __future__ import annotations

import gzip
import hashlib
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np

from mustdp.errors import InvalidParameter
from mustdp.extras import required
from mustdp.files.replacing import SHARED, replace_file
from mustdp.numerics import checks
from mustdp.training.data import adult, mnist
from mustdp.training.data.adult import load_adult
from mustdp.training.data.cifar10 import load_cifar10
from mustdp.training.data.dataset import DataSet, split_in_order
from mustdp.training.data.mnist import load_mnist

# MNIST and Adult through scikit-learn's ``fetch_openml``, where there is a network.
#
# What arrives is written, in the format of the original files, into a cache folder; from then on
# the loaders read that folder and no network is needed. MNIST must have the checksums of the
# original files. Of Adult the same numbers of rows are required as everywhere.


Fetch = Callable[..., Any]
_TRAINING = 60_000
_FIRST_OF_TEST = "25, Private, 226802, "


def cached_folder(name: str, cache: Path | None = None, fetch: Fetch | None = None) -> Path:
    """The folder with the files of ``name`` ("mnist" or "adult"); fetched if they are not there."""
    files, write = {
        "mnist": ([f"{file}.gz" for file in mnist.SHA256], _write_mnist),
        "adult": (list(adult.SHA256), _write_adult),
    }[name]
    datasets = required("sklearn.datasets", f"the download of {name}")
    folder = (cache or Path(datasets.get_data_home()) / "mustdp") / name
    if not all((folder / file).is_file() for file in files):
        contents = dict(write(fetch or datasets.fetch_openml))
        folder.mkdir(parents=True, exist_ok=True)
        for file in files:
            replace_file(folder / file, contents[file], mode=SHARED)
    return folder


def _write_mnist(fetch: Fetch) -> Iterable[tuple[str, bytes]]:
    bunch = _fetched(fetch, "mnist_784", 1)
    images = np.asarray(bunch.data, dtype=np.float64).astype(np.uint8).reshape(-1, 28, 28)
    labels = np.asarray(bunch.target).astype(np.uint8)
    parts = {"train": slice(0, _TRAINING), "t10k": slice(_TRAINING, None)}
    for part, rows in parts.items():
        for kind, array in (("images-idx3", images[rows]), ("labels-idx1", labels[rows])):
            file, content = f"{part}-{kind}-ubyte", mnist.write_idx(array)
            if hashlib.sha256(content).hexdigest() != mnist.SHA256[file]:
                raise InvalidParameter(
                    f"{file} from OpenML must equal the original, got other contents"
                )
            yield f"{file}.gz", gzip.compress(content, mtime=0)


def _write_adult(fetch: Fetch) -> Iterable[tuple[str, bytes]]:
    bunch = _fetched(fetch, "adult", 2)
    if tuple(bunch.feature_names) != adult.FIELDS[:-1]:
        raise InvalidParameter(
            f"Adult from OpenML must have the fields {', '.join(adult.FIELDS[:-1])}, "
            f"got {', '.join(map(str, bunch.feature_names))}"
        )
    columns = [
        _column(bunch.data[:, place], bunch.categories.get(name))
        for place, name in enumerate(bunch.feature_names)
    ]
    lines = [", ".join(row) for row in zip(*columns, map(str, bunch.target), strict=True)]
    if not lines[0].startswith(_FIRST_OF_TEST):
        raise InvalidParameter(
            f"Adult from OpenML must list the test file first ({_FIRST_OF_TEST}...), "
            f"got {lines[0]!r}"
        )
    cut = adult.ROWS["adult.test"]
    for file, part in (("adult.test", lines[:cut]), ("adult.data", lines[cut:])):
        content = ("\n".join(part) + "\n").encode("latin-1")
        adult.parse(content, file)
        yield file, content


def _column(values: Any, categories: Any) -> list[str]:
    """One column as text: category numbers become names, missing values '?'."""
    if categories is None:
        return [str(int(value)) for value in values]
    return ["?" if np.isnan(value) else str(categories[int(value)]) for value in values]


def _fetched(fetch: Fetch, name: str, version: int) -> Any:
    try:
        return fetch(name, version=version, as_frame=False, parser="liac-arff")
    except Exception as problem:
        raise InvalidParameter.refusing(
            "data",
            f"must be the folder that holds the files: {name} could not be downloaded from "
            f"OpenML ({type(problem).__name__}: {problem})",
            "none",
        ) from None


# Data sets by name.


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
    >>> md.training.load_data("adult", "data").X_train.shape  # doctest: +SKIP
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
