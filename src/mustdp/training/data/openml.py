"""MNIST and Adult through scikit-learn's ``fetch_openml``, where there is a network.

What arrives is written, in the format of the original files, into a cache folder; from then on the
loaders read that folder and no network is needed. MNIST must have the checksums of the original
files. Of Adult the same numbers of rows are required as everywhere.
"""

from __future__ import annotations

import gzip
import hashlib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np

from mustdp.errors import InvalidParameter
from mustdp.extras import required
from mustdp.files.replacing import SHARED, replace_file
from mustdp.training.data import adult, mnist

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
