"""Open what records are in: a path or a table in memory, for random rows or for one pass over all
of them.
"""

from __future__ import annotations

import os
import zlib
from array import array
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from mustdp.data.columns import (
    ENGINE_MARK,
    STANDARD_INPUT,
    ArraySource,
    Category,
    Column,
    ColumnNames,
    ColumnRequest,
    Conversion,
    Day,
    Doubles,
    Frame,
    Number,
    Reading,
    Selected,
    Source,
    as_frame,
    as_list,
    as_reading,
    as_request,
    conversions_of,
    quoted,
    select,
)
from mustdp.data.parquet import ParquetFiles, ParquetSource, column_count
from mustdp.data.statistical import READERS, StatisticalFile
from mustdp.data.text import DelimitedText, TextFile
from mustdp.errors import InvalidParameter
from mustdp.numerics import checks
from mustdp.numerics.arrays import FloatArray, IntArray
from mustdp.numerics.checks import unquoted

if TYPE_CHECKING:
    from mustdp.data.engines import Engine

# Files that data are read from: what they must be before anything in them is looked at.


DELIMITED = (".csv", ".tsv", ".csv.gz", ".tsv.gz")
PARQUET = ".parquet"
AnyPath = str | os.PathLike[str]


def located(reading: Reading) -> Frame | TextFile | StatisticalFile | list[Path]:
    """The data as a frame, as a file at an absolute path, or as several Parquet files.

    What was said about lines and fields is refused where there are none.
    """
    frame = as_frame(reading.data)
    if frame is not None:
        reading.refuse_layout(frame.where)
        return frame
    found = _on_disk(reading)
    if isinstance(found, list):
        reading.refuse_layout(str(found[0]))
    elif isinstance(found, StatisticalFile):
        replace(reading, encoding=None).refuse_layout(str(found.path))
    return found


def _on_disk(reading: Reading) -> TextFile | StatisticalFile | list[Path]:
    data = reading.data
    if isinstance(data, list | tuple) and data:
        if all(isinstance(path, str | os.PathLike) for path in data):
            return parquet_files(data)
        raise InvalidParameter(
            "data must not be a plain list of values, got "
            f"{type(data).__name__} of {type(data[0]).__name__}: use numpy.asarray(data)"
        )
    if not isinstance(data, str | os.PathLike):
        raise InvalidParameter(
            "data must be a numpy array, a pandas or polars frame, an Arrow table, the path of a "
            ".csv, .tsv or .parquet file, or a folder or non-empty list of Parquet files, "
            f"got {type(data).__module__}.{type(data).__qualname__}"
        )
    if data == STANDARD_INPUT:
        return TextFile.of(reading)
    if os.path.isdir(data):
        return parquet_folder(Path(data).absolute())
    path = existing_file(data)
    if is_parquet(path):
        return [path]
    if path.suffix.lower() in READERS:
        return StatisticalFile(path, reading.encoding)
    if path.name.lower().endswith(DELIMITED) or reading.any_ending:
        return TextFile.of(replace(reading, data=path))
    endings = ", ".join([*DELIMITED, *READERS, PARQUET])
    raise InvalidParameter.refusing(
        "data",
        f"must be a file that ends in {endings}, or text with {{delimiter}}",
        repr(str(data)),
        mentions=("delimiter",),
    )


def existing_file(path: AnyPath) -> Path:
    """The absolute path of a file that exists, is not empty and may be read."""
    if not os.path.exists(path):
        raise InvalidParameter.refusing("data", "must be an existing file or folder", _shown(path))
    found = Path(path).absolute()
    if not found.is_file():
        raise InvalidParameter.refusing("data", "must be a regular file here", repr(str(path)))
    if not unquoted(lambda: _first_byte(found), f"{found} must be readable"):
        raise InvalidParameter(f"{found} must not be empty, got a file of 0 bytes")
    return found


def _first_byte(path: Path) -> bytes:
    with path.open("rb") as stream:
        return stream.read(1)


def _shown(path: AnyPath) -> str:
    """A path, if it looks like one of a file of data; it may be a value of the data by mistake."""
    text = os.fspath(path)
    if text.isprintable() and text.lower().endswith((*DELIMITED, *READERS, PARQUET)):
        return quoted(text, 200)
    return f"a text of {len(text)} characters that names none"


def is_parquet(path: Path) -> bool:
    """Whether the name says that this is a Parquet file."""
    return path.name.lower().endswith(PARQUET)


def parquet_files(paths: Sequence[AnyPath]) -> list[Path]:
    """Several Parquet files as one data set; a file that is listed twice is refused.

    The same record at two places would be two records to the accountant and one to its owner.
    """
    found = [existing_file(path) for path in paths]
    for path in found:
        if not is_parquet(path):
            raise InvalidParameter(f"a list of files must be of {PARQUET} files, got {str(path)!r}")
    seen: dict[tuple[int, int], Path] = {}
    for path in found:
        status = path.stat()
        first = seen.setdefault((status.st_dev, status.st_ino), path)
        if first is not path:
            raise InvalidParameter(f"files must be different, got {path} and {first}: one file")
    return found


def parquet_folder(folder: Path) -> list[Path]:
    """The Parquet files in ``folder`` and its subfolders, in the order of their names.

    Names that start with a dot or an underscore are left out, as other readers do.
    """
    relative = sorted(path.relative_to(folder) for path in folder.rglob("*"))
    shown = [
        folder / path
        for path in relative
        if not any(part.startswith((".", "_")) for part in path.parts)
    ]
    for path in shown:
        if path.is_symlink() and (path.is_dir() or (is_parquet(path) and not path.exists())):
            raise InvalidParameter(
                f"a folder must hold its files or links to files that are there, got {path}: a "
                f"link to {'a folder' if path.is_dir() else 'nothing'}"
            )
    found = [path for path in shown if is_parquet(path) and not path.is_dir()]
    if not found:
        raise InvalidParameter(f"a folder must have {PARQUET} files in it, got {str(folder)!r}")
    return parquet_files(found)


# Tables that stay in an engine: their code is loaded where there is one.

#: Modules of the engines' tables.
_ENGINES = ("duckdb", "_duckdb", "pyspark")


def engine_of(data: Any) -> Engine | None:
    """The engine that holds ``data``, or None where records are read here."""
    given = data.data if isinstance(data, Reading) else data
    module = type(given).__module__.partition(".")[0]
    if module not in _ENGINES and not (isinstance(given, str) and ENGINE_MARK in given):
        return None
    from mustdp.data.engines import open_engine

    return open_engine(data)


# All records once, in blocks of bounded size: what a release on the whole data reads.
#
#     >>> import numpy as np
#     >>> people = np.array([[30.0, 1.0], [np.nan, 2.0], [50.0, 7.0]])
#     >>> records = open_records(people, [Number(0, missing="drop"), Category(1, ("1", "2"))])
#     >>> records.columns
#     ('0', '1')
#     >>> for block in records.blocks():
#     ...     block.values.tolist(), block.missing[:, 0].tolist()
#     ([[30.0, 0.0], [0.0, 1.0], [50.0, 2.0]], [False, True, False])
#
# The same works for a CSV or Parquet file, a frame of pandas, polars or Arrow, and a dask
# DataFrame. Nothing is used before the last block is there: a value that is refused may stand at
# the end.


__all__ = ["Block", "Category", "Number", "Records", "open_records"]

#: Values of a frame that are converted at a time.
_BLOCK = 2**20


@dataclass(frozen=True, eq=False, repr=False)
class Block:
    """Some records, a row for each and a column for each description, all values finite.

    ``missing`` marks the values that were dropped, which are 0 in ``values``. Every record read is
    a row of some block: rows are used or marked, never left out.
    """

    values: FloatArray
    missing: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.values)


#: Where the columns are that are wanted, and what goes through the records.
Found = tuple[Sequence[Selected], Callable[[], Iterator[Block]]]


@dataclass(frozen=True, eq=False, repr=False)
class Records:
    """Records that can be read from the first to the last."""

    #: Names of the columns, in the order of the descriptions; unnamed ones by position.
    columns: tuple[str, ...]
    #: What is wanted of each.
    wanted: tuple[ColumnRequest, ...]
    #: All records in their order; from the beginning each time, except for standard input.
    blocks: Callable[[], Iterator[Block]]


def open_records(data: Any, columns: Sequence[Column | ColumnRequest]) -> Records:
    """The records of ``data``, with ``columns`` as they are described.

    ``data`` is what :func:`mustdp.private_bootstrap` takes, "-" for text on standard input, or a
    ``Reading`` of it, which says whether there is a header row, what separates fields, and what
    is missing. A bare name or position describes a number whose missing values are refused.
    """
    reading = as_reading(data)
    wanted = tuple(as_request(column) for column in columns)
    if not wanted:
        raise InvalidParameter("columns must be a non-empty list of them, got none")
    selected, blocks = _found(reading, wanted)
    return Records(tuple(column.name for column in selected), wanted, blocks)


def _found(reading: Reading, wanted: Sequence[ColumnRequest]) -> Found:
    if hasattr(reading.data, "__dask_graph__"):
        return _on_dask(reading, wanted)
    found = located(reading)
    if isinstance(found, Frame):
        return _in_frame(found, wanted, reading)
    if isinstance(found, TextFile):
        return _in_text(found, wanted, reading)
    if isinstance(found, StatisticalFile):
        return _in_statistical(found, wanted, reading)
    return _in_parquet(ParquetFiles.open(found, wanted), wanted, reading)


def _in_frame(frame: Frame, wanted: Sequence[ColumnRequest], reading: Reading) -> Found:
    selected = frame.selected(wanted)

    def blocks() -> Iterator[Block]:
        conversions = conversions_of(selected, wanted, reading, frame.where)
        positions = [column.at for column in selected]
        size = max(1, _BLOCK // len(wanted))
        for start in range(0, frame.rows, size):
            part = frame.part(start, min(start + size, frame.rows))
            yield converted_frame(part, positions, conversions, start)

    return selected, blocks


def _in_parquet(files: ParquetFiles, wanted: Sequence[ColumnRequest], reading: Reading) -> Found:
    def blocks() -> Iterator[Block]:
        for part in files.parts:
            conversions = conversions_of(files.chosen, wanted, reading, str(part.path))
            first = 0
            for frame in files.frames(part):
                yield converted_frame(frame, range(len(conversions)), conversions, first)
                first += frame.rows

    return files.chosen, blocks


def _in_statistical(
    file: StatisticalFile, wanted: Sequence[ColumnRequest], reading: Reading
) -> Found:
    where = file.where
    selected = select(file.labels(), [one.column for one in wanted], where, shown=True)

    def blocks() -> Iterator[Block]:
        conversions = conversions_of(selected, wanted, reading, where)
        days = [one.name for one, two in zip(selected, wanted, strict=True) if isinstance(two, Day)]
        first = 0
        for frame in file.frames([column.name for column in selected], days):
            frame.where = where
            for at, one in enumerate(wanted):
                frame.refuse_unsuited(selected[at]._replace(at=at), one)
            yield converted_frame(frame, range(len(wanted)), conversions, first)
            first += frame.rows

    return selected, blocks


def _in_text(file: TextFile, wanted: Sequence[ColumnRequest], reading: Reading) -> Found:
    state = file.state()

    def through(text: DelimitedText) -> Iterator[Block]:
        for piece in text.pieces(text.select(wanted), wanted, reading):
            yield side_by_side(piece)

    def blocks() -> Iterator[Block]:
        with file.opened() as stream:
            yield from through(DelimitedText(file, stream))
        if file.state() != state:
            raise InvalidParameter(f"{file.where} must stay as it was when it was opened")

    def blocks_once() -> Iterator[Block]:
        if not unread:
            raise InvalidParameter(
                "standard input can be read once: give the data as a file where they are needed "
                "several times"
            )
        yield from through(unread.pop())

    if file.path is None:
        unread = [DelimitedText(file, file.opened().__enter__())]
        return unread[0].select(wanted), blocks_once
    with file.opened() as stream:
        return DelimitedText(file, stream).select(wanted), blocks


def _on_dask(reading: Reading, wanted: Sequence[ColumnRequest]) -> Found:
    """Partitions of a dask DataFrame come here one after the other, each in parts."""
    data = reading.data
    meta = None if hasattr(data, "chunks") else as_frame(getattr(data, "_meta", None))
    if meta is None or not hasattr(data, "to_delayed"):
        raise InvalidParameter(
            "data on a Dask cluster must be a DataFrame or a Series (an array has "
            f"to_dask_dataframe()), got {type(data).__name__} of dask"
        )

    def blocks() -> Iterator[Block]:
        for number, partition in enumerate(data.to_delayed()):
            rows = unquoted(partition.compute, f"partition {number} must be there to be read")
            yield from open_records(replace(reading, data=rows), wanted).blocks()

    return meta.selected(wanted), blocks


def converted_frame(
    frame: Frame, positions: Sequence[int], conversions: Sequence[Conversion], first: int
) -> Block:
    """A part of a frame whose first row has the number ``first``."""
    return side_by_side(
        [
            frame.convert(at, conversion, first)
            for at, conversion in zip(positions, conversions, strict=True)
        ]
    )


def side_by_side(columns: Sequence[Doubles]) -> Block:
    """Columns as a block."""
    values = np.stack([column.values for column in columns], axis=1)
    missing = np.zeros(values.shape, dtype=np.bool_)
    for at, column in enumerate(columns):
        if column.missing is not None:
            missing[:, at] = column.missing
    return Block(values, missing)


# ``open_source``: one function for everything records can be in.


def open_source(data: Any, columns: ColumnNames = None, n: int | None = None) -> Source:
    """Check ``data`` and return the source of its records.

    ``data`` is an array of numpy (one or two dimensions, or with fields), a DataFrame or Series of
    pandas or polars, an Arrow table, the path of a .csv or .tsv file (or .gz of one) or of a
    .parquet file, or a folder or list of Parquet files that together are one data set, "-" for text
    on standard input, or a ``Reading`` of any of them. A Source is returned as it is.

    ``columns`` are names, or positions from 0. None means all numeric columns of data in
    memory; for files columns must be named. ``n``, if given, must be the number of records.

    Refused are columns that are missing, not numeric or named twice, and values that are missing,
    not finite, or integers beyond 2**53. Files that are read piece by piece are checked as far as
    their footers tell, and the rest whenever it is read.

    >>> import numpy as np
    >>> source = open_source(np.array([[1, 10], [2, 20], [3, 30]]), columns=[1])
    >>> source.n, source.take(np.array([2, 0])).tolist()
    (3, [[30.0], [10.0]])
    """
    if n is not None:
        checks.integer("n", n, 1)
    source = _opened(data, columns)
    if n is not None and n != source.n:
        raise InvalidParameter.refusing(
            "n", f"must be the number of records, {source.n}, or be left out", n
        )
    return source


def refuse_dropping(reading: Reading) -> None:
    """Refuse to draw subsets of the records that lack nothing: their number is not public."""
    if reading.missing == "drop":
        raise InvalidParameter.refusing(
            "missing",
            "must be refuse or a number here: the number of complete records is private, while the "
            "size and the cost of subsets depend on a public number of records (mustdp release, "
            "which takes all records, can drop)",
            "drop",
        )


def _opened(data: Any, columns: ColumnNames) -> Source:
    reading = as_reading(data)
    data = reading.data
    refuse_dropping(reading)
    if isinstance(data, Source):
        chosen = () if columns is None else select(data.columns, columns, "the source")
        if columns is not None and tuple(one.name for one in chosen) != data.columns:
            raise InvalidParameter(
                f"columns must be those of the source, all {len(data.columns)} in their order, "
                "got others"
            )
        return data
    found = located(reading)
    if isinstance(found, Frame):
        return _from_frame(found, columns, reading)
    if columns is None:
        where = found[0] if isinstance(found, list) else found.where
        allowed = f"must be named for a file; {where} has {_column_count(found)} of them"
        raise InvalidParameter.refusing("columns", allowed, None)
    wanted = tuple(Number(column) for column in as_list(columns))
    if isinstance(found, list):
        return ParquetSource.open(found, wanted, reading)
    values, names = _all_rows(reading, wanted)
    if reading.data == STANDARD_INPUT:
        return ArraySource(values, names)
    at_path = replace(reading, data=found.path)
    return FileSource(at_path, wanted, names, len(values), _checksum(values), values)


def _column_count(file: TextFile | StatisticalFile | list[Path]) -> int:
    if isinstance(file, list):
        return column_count(file[0])
    if isinstance(file, StatisticalFile):
        return len(file.labels())
    with file.opened() as stream:
        return len(DelimitedText(file, stream).labels)


@dataclass(eq=False, repr=False)
class FileSource(Source):
    """Selected columns of one file that is read once into memory.

    It travels as its path: another process reads it again when the first rows are taken, and
    refuses it if the values are not the same. What comes from standard input travels itself.
    """

    rows_in_memory: ClassVar[bool] = True

    reading: Reading
    wanted: tuple[Number, ...]
    columns: tuple[str, ...]
    n: int
    checksum: int
    values: FloatArray | None = None

    def _read(self, indices: IntArray) -> FloatArray:
        if self.values is None:
            self.values = _read_again(self.reading, self.wanted, self.checksum)
        return self.values.take(indices, axis=0)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.reading, self.wanted, self.columns, self.n, self.checksum)


def _all_rows(reading: Reading, wanted: tuple[Number, ...]) -> tuple[FloatArray, tuple[str, ...]]:
    """All records of a file, as many as fit into half of the memory, and the columns' names."""
    records = open_records(reading, wanted)
    where = "standard input" if reading.data == STANDARD_INPUT else reading.data
    numbers, most = array("d"), _most_bytes()
    for block in records.blocks():
        numbers.frombytes(block.values.reshape(-1).view(np.uint8).data)
        if len(numbers) * numbers.itemsize > most:
            raise InvalidParameter(
                f"{where} must have numbers that fit into {most / 2**30:.3g} GiB, half of "
                "this machine's memory, got more: write it as a Parquet file, of which only "
                "the drawn rows are kept"
            )
    if not numbers:
        raise InvalidParameter(f"{where} must have at least one row of data, got a header alone")
    values = np.frombuffer(numbers, dtype=np.float64).reshape(-1, len(wanted))
    return checks.frozen(values), records.columns


def _most_bytes() -> float:
    """Half of the memory, as far as the system tells."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2
    except (AttributeError, OSError, ValueError):
        return float("inf")


@lru_cache(maxsize=1)
def _read_again(reading: Reading, wanted: tuple[Number, ...], checksum: int) -> FloatArray:
    """The same once more; kept, because every task of a worker gets a source of its own."""
    path = Path(reading.data)
    if not path.is_file():
        raise InvalidParameter(f"{path} must be readable wherever its records are taken")
    values, _ = _all_rows(reading, wanted)
    if _checksum(values) != checksum:
        raise InvalidParameter(f"{path} must stay as it was when it was opened, got other values")
    return values


def _checksum(values: FloatArray) -> int:
    return zlib.crc32(values.reshape(-1).view(np.uint8).data)


def _from_frame(frame: Frame, columns: ColumnNames, reading: Reading) -> Source:
    selected = frame.select(columns)
    if not frame.rows:
        raise InvalidParameter(f"{frame.where} must have at least one row, got none")
    numbers = [frame.read(column, reading) for column in selected]
    names = tuple(column.name for column in selected)
    return ArraySource(_together(frame, selected, numbers), names)


def _together(
    frame: Frame, selected: Sequence[Selected], numbers: Sequence[FloatArray]
) -> FloatArray:
    """A row per record; the data themselves where they are what was read, all columns in order."""
    whole = frame.whole()
    in_order = [column.at for column in selected] == list(range(len(frame.labels)))
    # A column with values put in for missing ones is a copy.
    if whole is not None and in_order and all(np.may_share_memory(one, whole) for one in numbers):
        return whole
    if len(numbers) == 1:  # not copied
        return numbers[0][:, np.newaxis]
    return np.stack(numbers, axis=1)
