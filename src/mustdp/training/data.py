"""Data sets of the examples and experiments: from a folder, from OpenML, or embedded.

In order: a data set and its files; MNIST, CIFAR-10 and Adult; downloads; data sets by name.
"""

from __future__ import annotations

import gzip
import hashlib
import math
import os
import zlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mustdp.errors import InvalidParameter
from mustdp.extras import required
from mustdp.files.replacing import SHARED, replace_file
from mustdp.numerics import checks
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


# MNIST from its four original idx files: 60,000 training and 10,000 test images of 28 x 28.
#
# Y. LeCun, C. Cortes & C. Burges. The SHA-256 sums are of the unpacked files whose .gz have the
# published MD5 sums f68b3c2d..., d53e105e..., 9fb629c4... and ec29112d..., so files that were
# unpacked, or packed again, are recognised too.
#
# Their idx format, described at the end of the page that publishes the files: two zero bytes,
# type, number of axes, sizes, bytes. Only unsigned bytes (type 8) occur here.

MNIST_FILES = {
    "train-images-idx3-ubyte": "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
    "train-labels-idx1-ubyte": "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
    "t10k-images-idx3-ubyte": "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
    "t10k-labels-idx1-ubyte": "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
}
#: What the headers of the files must say: 28 rows and columns, of type 0x08, unsigned bytes.
_MNIST_PIXELS = 28 * 28
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
        read_idx(read_published(folder, file, MNIST_FILES[file] if verify else None), file)
        for file in (f"{name}-images-idx3-ubyte", f"{name}-labels-idx1-ubyte")
    )
    if images.ndim != 3 or images.shape[1:] != (28, 28) or labels.shape != images.shape[:1]:
        raise InvalidParameter(
            f"the {name} files in {folder} must hold images of 28 x 28 and one label each, "
            f"got the shapes {images.shape} and {labels.shape}"
        )
    return images.reshape(len(images), _MNIST_PIXELS), labels


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


# CIFAR-10 from its six binary files: 50,000 training and 10,000 test images of 32 x 32 in colour.
#
# A. Krizhevsky, "Learning Multiple Layers of Features from Tiny Images" (2009). Every record is
# one byte for the label and 3072 for the image: all red values row by row, then green, then blue.

#: Of the binary version at https://www.cs.toronto.edu/~kriz/cifar.html.
CIFAR10_TRAINING = tuple(f"data_batch_{number}.bin" for number in range(1, 6))
CIFAR10_TEST = "test_batch.bin"
CIFAR10_FOLDER = "cifar-10-batches-bin"
CIFAR10_CLASSES = (
    "airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck",
)  # fmt: skip
#: Of each file: records of a label and three planes of 32 by 32 bytes.
CIFAR10_RECORDS = 10_000
_CIFAR10_PIXELS = 3 * 32 * 32


def load_cifar10(data: str | os.PathLike[str], *, pixels: str = "unit") -> DataSet:
    """CIFAR-10 from the folder ``data`` or its subfolder ``cifar-10-batches-bin``.

    Rows hold colour by colour, so that ``X.reshape(-1, 3, 32, 32)`` are the images.
    ``pixels="unit"`` scales to [0, 1], ``"centred"`` to [-1, 1].
    """
    checks.choice("pixels", pixels, PIXELS)
    folder = find_folder(data, CIFAR10_FOLDER, CIFAR10_TRAINING[0])
    parts = [_read_cifar10(folder, name) for name in (*CIFAR10_TRAINING, CIFAR10_TEST)]
    train = np.concatenate(parts[:-1])
    places = [(row, column) for row in range(32) for column in range(32)]
    return DataSet(
        name="cifar10",
        X_train=scaled(train[:, 1:], pixels),
        y_train=train[:, 0].astype(np.int64),
        X_test=scaled(parts[-1][:, 1:], pixels),
        y_test=parts[-1][:, 0].astype(np.int64),
        classes=CIFAR10_CLASSES,
        features=tuple(f"{c} {row},{col}" for c in ("red", "green", "blue") for row, col in places),
    )


def _read_cifar10(folder: Path, name: str) -> NDArray[np.uint8]:
    content = read_published(folder, name, None)
    expected = CIFAR10_RECORDS * (1 + _CIFAR10_PIXELS)
    if len(content) != expected:
        raise InvalidParameter(
            f"{folder / name} must hold {CIFAR10_RECORDS} records in {expected} bytes, "
            f"got {len(content)}"
        )
    records = np.frombuffer(content, dtype=np.uint8).reshape(CIFAR10_RECORDS, 1 + _CIFAR10_PIXELS)
    if not records[:, 0].max() < len(CIFAR10_CLASSES):
        raise InvalidParameter(f"{folder / name} must hold labels from 0 to 9, got a larger one")
    return records


# UCI Adult with the coding of the MUST paper: does a person earn more than 50,000 dollars a year?
#
# B. Becker & R. Kohavi (1996), "Adult", UCI Machine Learning Repository, CC BY 4.0. Coding after
# Zhao, Zhou & Liu, arXiv 2312.13389, experiment 3: rows with a missing value ('?') are dropped
# and native country United-States is kept, which leaves 41,292 rows, the test file's first. The
# first three quarters of them are for training. There are 13 columns, each divided by its maximum
# over all rows. That maximum looks at the records: taking it as public is part of the paper's
# setting.

#: Of the files whose published MD5 sums are 35238206... and 5d7c39d7...
ADULT_FILES = {
    "adult.test": "a2a9044bc167a35b2361efbabec64e89d69ce82d9790d2980119aac5fd7e9c05",
    "adult.data": "5b00264637dbfec36bdeaab5676b0b309ff9eb788d63554ca0a249491c86603d",
}
ADULT_ROWS = {"adult.test": 16_281, "adult.data": 32_561}
#: Of both files: rows from the United States without a missing field.
COMPLETE_ROWS = 41_292

#: The fields of a line, in order.
ADULT_FIELDS = (
    "age", "workclass", "fnlwgt", "education", "education-num", "marital-status", "occupation",
    "relationship", "race", "sex", "capital-gain", "capital-loss", "hours-per-week",
    "native-country", "class",
)  # fmt: skip
ADULT_CLASSES = ("<=50K", ">50K")
_OFFICE_JOBS = {"Adm-clerical", "Armed-Forces", "Protective-serv", "Sales", "Tech-support"}
_PROFESSIONAL = {"Exec-managerial", "Prof-specialty"}
_WORKER = {"Craft-repair", "Farming-fishing", "Machine-op-inspct", "Transport-moving"}
ADULT_FEATURES = (
    "age", "private employer", "fnlwgt", "education number", "married", "white", "male",
    "capital gain", "capital loss", "hours per week", "office", "professional", "worker",
)  # fmt: skip


def load_adult(data: str | os.PathLike[str], *, verify: bool = True) -> DataSet:
    """Adult from ``adult.data`` and ``adult.test`` in the folder ``data`` or its ``adult``."""
    folder = find_folder(data, "adult", "adult.data")
    rows = []
    for name in ("adult.test", "adult.data"):
        content = read_published(folder, name, ADULT_FILES[name] if verify else None)
        rows += parse_adult(content, name)
    return code_adult(rows)


def parse_adult(content: bytes, name: str) -> list[list[str]]:
    """The rows of one file, blanks removed, and the full stop behind the test file's labels too."""
    rows = []
    for number, line in enumerate(content.decode("latin-1").splitlines(), start=1):
        if not line.strip() or line.startswith("|"):
            continue
        row = [field.strip() for field in line.split(",")]
        if len(row) != len(ADULT_FIELDS):
            raise InvalidParameter(
                f"line {number} of {name} must have {len(ADULT_FIELDS)} fields, got {len(row)}"
            )
        row[-1] = row[-1].removesuffix(".")
        if row[-1] not in ADULT_CLASSES:
            raise InvalidParameter(
                f"line {number} of {name} must end in <=50K or >50K, got {row[-1]!r}"
            )
        rows.append(row)
    if len(rows) != ADULT_ROWS[name]:
        raise InvalidParameter(f"{name} must have {ADULT_ROWS[name]} rows, got {len(rows)}")
    return rows


def code_adult(rows: Sequence[Sequence[str]]) -> DataSet:
    """The paper's coding of all rows, test file first."""
    kept = [row for row in rows if "?" not in row and row[13] == "United-States"]
    if len(kept) != COMPLETE_ROWS:
        raise InvalidParameter(
            f"Adult must have {COMPLETE_ROWS} complete rows from the United States, got {len(kept)}"
        )
    try:
        X = np.array([_adult_features(row) for row in kept], dtype=np.float64)
    except ValueError as problem:
        raise InvalidParameter(f"a number in the Adult files cannot be read: {problem}") from None
    X /= X.max(axis=0)
    y = np.array([ADULT_CLASSES.index(row[14]) for row in kept], dtype=np.int64)
    return split_in_order("adult", X, y, ADULT_CLASSES, ADULT_FEATURES)


def _adult_features(row: Sequence[str]) -> list[float]:
    occupation = row[6]
    return [
        float(row[0]),
        row[1] == "Private",
        float(row[2]),
        float(row[4]),
        row[5].startswith("Married"),
        row[8] == "White",
        row[9] == "Male",
        float(row[10]),
        float(row[11]),
        float(row[12]),
        occupation in _OFFICE_JOBS,
        occupation in _PROFESSIONAL,
        occupation in _WORKER,
    ]


# Data sets by name, from files or through scikit-learn's ``fetch_openml``.

# MNIST and Adult through scikit-learn's ``fetch_openml``, where there is a network.
#
# What arrives is written, in the format of the original files, into a cache folder; from then on
# the loaders read that folder and no network is needed. MNIST must have the checksums of the
# original files. Of Adult the same numbers of rows are required as everywhere.


Fetch = Callable[..., Any]
#: Training images, which come first in what is downloaded.
_MNIST_TRAINING = 60_000
_FIRST_OF_ADULT_TEST = "25, Private, 226802, "


def cached_folder(name: str, cache: Path | None = None, fetch: Fetch | None = None) -> Path:
    """The folder with the files of ``name`` ("mnist" or "adult"); fetched if they are not there."""
    files, write = {
        "mnist": ([f"{file}.gz" for file in MNIST_FILES], _write_mnist),
        "adult": (list(ADULT_FILES), _write_adult),
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
    parts = {"train": slice(0, _MNIST_TRAINING), "t10k": slice(_MNIST_TRAINING, None)}
    for part, rows in parts.items():
        for kind, array in (("images-idx3", images[rows]), ("labels-idx1", labels[rows])):
            file, content = f"{part}-{kind}-ubyte", write_idx(array)
            if hashlib.sha256(content).hexdigest() != MNIST_FILES[file]:
                raise InvalidParameter(
                    f"{file} from OpenML must equal the original, got other contents"
                )
            yield f"{file}.gz", gzip.compress(content, mtime=0)


def _write_adult(fetch: Fetch) -> Iterable[tuple[str, bytes]]:
    bunch = _fetched(fetch, "adult", 2)
    if tuple(bunch.feature_names) != ADULT_FIELDS[:-1]:
        raise InvalidParameter(
            f"Adult from OpenML must have the fields {', '.join(ADULT_FIELDS[:-1])}, "
            f"got {', '.join(map(str, bunch.feature_names))}"
        )
    columns = [
        _column(bunch.data[:, place], bunch.categories.get(name))
        for place, name in enumerate(bunch.feature_names)
    ]
    lines = [", ".join(row) for row in zip(*columns, map(str, bunch.target), strict=True)]
    if not lines[0].startswith(_FIRST_OF_ADULT_TEST):
        raise InvalidParameter(
            f"Adult from OpenML must list the test file first ({_FIRST_OF_ADULT_TEST}...), "
            f"got {lines[0]!r}"
        )
    cut = ADULT_ROWS["adult.test"]
    for file, part in (("adult.test", lines[:cut]), ("adult.data", lines[cut:])):
        content = ("\n".join(part) + "\n").encode("latin-1")
        parse_adult(content, file)
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
