"""Files of Stata, SPSS and SAS, read by pyreadstat in a process of its own.

Damaged files can end a process that reads them with pyreadstat. So another process reads them and
sends chunks of Arrow data through a pipe; where it fails, the file is refused in one line. Nothing
is written to disk on the way.

Values are codes, not their labels. Values that the file declares as missing are missing.
"""

from __future__ import annotations

import datetime
import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mustdp.data.columns import TableFrame
from mustdp.errors import InvalidParameter
from mustdp.extras import required
from mustdp.numerics.checks import unquoted

#: The functions of pyreadstat that read what names end in.
READERS = {
    ".dta": "read_dta",
    ".sav": "read_sav",
    ".zsav": "read_sav",
    ".por": "read_por",
    ".sas7bdat": "read_sas7bdat",
    ".xpt": "read_xport",
}
#: Rows of a chunk. Compressed files are read from the start for each, so that few are better.
_ROWS = 2**19


@dataclass(frozen=True)
class StatisticalFile:
    """A file of Stata, SPSS or SAS at an absolute path."""

    path: Path
    encoding: str | None = None

    def labels(self) -> list[str]:
        """The names of its columns."""
        with self._asked(columns=None) as (output, finish):
            said = output.read()
            finish()
        names: list[str] = unquoted(lambda: json.loads(said), self._refusal)
        if not names or len(set(names)) < len(names):
            raise InvalidParameter(f"{self.path} must have columns of different names, got others")
        return names

    def frames(self, names: Sequence[str], days: Sequence[str]) -> Iterator[TableFrame]:
        """The columns with these ``names``, some rows at a time; ``days`` are columns of dates."""
        from pyarrow import ipc

        def received(output: Any) -> TableFrame | None:
            length = int.from_bytes(output.read(8), "little")
            if not length:
                return None
            with ipc.open_stream(output.read(length)) as stream:
                return TableFrame.of_arrow(stream.read_all())

        state = self._state()
        with self._asked(columns=list(names), days=list(days)) as (output, finish):
            while (frame := unquoted(lambda: received(output), self._refusal)) is not None:
                yield frame
            finish()
        if self._state() != state:
            raise InvalidParameter(f"{self.path} must stay as it was when it was opened")

    def _state(self) -> tuple[int, int]:
        """Something that is not the same after the file was written to."""
        status = unquoted(self.path.stat, f"{self.path} must be readable")
        return status.st_size, status.st_mtime_ns

    @property
    def where(self) -> str:
        """What messages call it."""
        return str(self.path)

    @property
    def _refusal(self) -> str:
        return f"{self.path} must be a readable file of Stata, SPSS or SAS"

    @contextmanager
    def _asked(self, **request: Any) -> Iterator[tuple[Any, Callable[[], None]]]:
        """What the other process says, and a function that waits for it and refuses failures."""
        required("pyreadstat", "files of Stata, SPSS and SAS")
        given = {"path": str(self.path), "encoding": self.encoding, **request}
        process = subprocess.Popen(
            [sys.executable, "-m", "mustdp.data.statistical"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,  # messages of libraries may quote values
        )

        def finish() -> None:
            if process.wait() != 0:
                raise InvalidParameter(
                    f"{self._refusal}, got one that could not be read to its end"
                )

        try:
            if process.stdin is not None:
                with suppress(BrokenPipeError), process.stdin as stream:
                    stream.write(json.dumps(given).encode())
            yield process.stdout, finish
        finally:
            if process.poll() is None:
                process.kill()
            if process.stdout is not None:
                process.stdout.close()
            process.wait()


def answer(request: dict[str, Any], output: Any) -> None:
    """Read what is asked for and write it; runs in the other process."""
    import pyarrow
    import pyreadstat
    from pyarrow import ipc

    path, columns = request["path"], request["columns"]
    read = getattr(pyreadstat, READERS[Path(path).suffix.lower()])
    options = {"output_format": "dict"}
    if request["encoding"] is not None:
        options["encoding"] = request["encoding"]
    if columns is None:
        _, found = read(path, metadataonly=True, **options)
        output.write(json.dumps(found.column_names).encode())
        return
    start = 0
    while True:
        data, found = read(path, usecols=columns, row_offset=start, row_limit=_ROWS, **options)
        kinds = found.readstat_variable_types
        arrays = [typed(data[name], kinds[name], name in request["days"]) for name in columns]
        batch = pyarrow.RecordBatch.from_arrays(arrays, columns)
        if batch.num_rows:
            chunk = pyarrow.BufferOutputStream()
            with ipc.new_stream(chunk, batch.schema) as stream:
                stream.write_batch(batch)
            content = chunk.getvalue()
            output.write(content.size.to_bytes(8, "little"))
            output.write(content)
        if batch.num_rows < _ROWS:
            return
        start += batch.num_rows


def typed(values: list[Any], kind: str, days: bool) -> Any:
    """Values of a column as an Arrow array: texts, dates or points in time, or doubles."""
    import pyarrow

    if kind == "string":
        return pyarrow.array(values, pyarrow.string())
    dated = any(isinstance(value, datetime.date | datetime.time) for value in values)
    if dated:
        return pyarrow.array(values)
    nothing = all(value is None for value in values)
    return pyarrow.array(values, pyarrow.date32() if days and nothing else pyarrow.float64())


if __name__ == "__main__":
    answer(json.load(sys.stdin), sys.stdout.buffer)
