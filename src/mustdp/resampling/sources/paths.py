"""Files that data are read from: what they must be before anything in them is looked at."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from mustdp.errors import InvalidParameter
from mustdp.resampling.sources.frames import Frame, as_frame
from mustdp.resampling.sources.reading import STANDARD_INPUT, Reading
from mustdp.resampling.sources.selection import quoted
from mustdp.resampling.unquoted import unquoted

DELIMITED = (".csv", ".tsv", ".csv.gz", ".tsv.gz")
PARQUET = ".parquet"
AnyPath = str | os.PathLike[str]


def located(reading: Reading) -> Frame | Reading | list[Path]:
    """The data as a frame, as a text file at an absolute path, or as Parquet files.

    What was said about lines and fields is refused where there are none.
    """
    frame = as_frame(reading.data)
    if frame is not None:
        reading.refuse_layout(frame.where)
        return frame
    found = _on_disk(reading)
    if isinstance(found, list):
        reading.refuse_layout(str(found[0]))
    return found


def _on_disk(reading: Reading) -> Reading | list[Path]:
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
        return reading
    if os.path.isdir(data):
        return parquet_folder(Path(data).absolute())
    path = existing_file(data)
    if is_parquet(path):
        return [path]
    if path.name.lower().endswith(DELIMITED) or reading.any_ending:
        return replace(reading, data=path)
    endings = ", ".join([*DELIMITED, PARQUET])
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
    if text.isprintable() and text.lower().endswith((*DELIMITED, PARQUET)):
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
