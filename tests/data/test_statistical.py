"""Files of Stata, SPSS and SAS: the same numbers, and one line where they are damaged."""

from __future__ import annotations

import datetime
import io
import random
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mustdp.data import statistical
from mustdp.data.columns import Category, Day, Number
from mustdp.data.opening import open_records, open_source
from mustdp.errors import InvalidParameter
from mustdp.types import Reading

pyreadstat = pytest.importorskip("pyreadstat")
pandas = pytest.importorskip("pandas")

DAYS = [datetime.date(1970, 1, 3), None, datetime.date(1969, 12, 31)]
WRITERS: dict[str, Callable[..., None]] = {
    ".dta": pyreadstat.write_dta,
    ".sav": pyreadstat.write_sav,
    ".zsav": lambda frame, path: pyreadstat.write_sav(frame, path, compress=True),
    ".xpt": pyreadstat.write_xport,
    ".por": pyreadstat.write_por,
}
WANTED = (
    Number("INCOME", missing="drop"),
    Category("REGION", ("Süd", "north", "Sud")),
    Category("SEX", ("1", "2")),
    Day("BORN", missing=-1000),
)


def expected(ending: str) -> list[list[float]]:
    south = 2 if ending == ".por" else 0
    return [[1.5, 1, 0, 2], [0, south, 1, -1000], [3.5, 3, 2, -1]]


def written(folder: Path, ending: str = ".sav") -> Path:
    south = "Sud" if ending == ".por" else "Süd"  # text in files of that kind is ASCII
    frame = pandas.DataFrame(
        {
            "INCOME": [1.5, None, 3.5],
            "REGION": ["north", south, "HIV"],
            "SEX": [1.0, 2.0, 3.0],
            "BORN": DAYS,
        }
    )
    path = folder / f"people{ending}"
    WRITERS[ending](frame, path)
    return path


def rows_of(data: Any, *wanted: Any) -> list[list[float]]:
    return [row for block in open_records(data, wanted).blocks() for row in block.values.tolist()]


@pytest.mark.parametrize("ending", WRITERS)
def test_every_kind_gives_the_same(tmp_path: Path, ending: str) -> None:
    path = written(tmp_path, ending)
    assert rows_of(path, *WANTED) == expected(ending)
    source = open_source(Reading(path, missing=2.0), ["SEX", "INCOME"])
    assert source.columns == ("SEX", "INCOME")
    assert source.take([2, 1]).tolist() == [[3.0, 3.5], [2.0, 2.0]]


def test_chunks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A column may have no value in a chunk, of whatever type it is."""
    path = written(tmp_path)
    monkeypatch.setattr(statistical, "_ROWS", 1)

    request = {"path": str(path), "encoding": None, "columns": ["BORN", "INCOME"], "days": ["BORN"]}
    output = io.BytesIO()
    statistical.answer(request, output)
    ipc = pytest.importorskip("pyarrow.ipc")
    output.seek(0)
    types, days = [], []
    while length := int.from_bytes(output.read(8), "little"):
        with ipc.open_stream(output.read(length)) as chunk:
            table = chunk.read_all()
        types.append([str(kind) for kind in table.schema.types])
        days += table["BORN"].to_pylist()
    assert types == [["date32[day]", "double"]] * 3
    assert days == DAYS


def test_values_that_the_file_declares_as_missing(tmp_path: Path) -> None:
    path = tmp_path / "x.sav"
    frame = pandas.DataFrame({"x": [1.0, 9.0, 3.0]})
    pyreadstat.write_sav(frame, path, missing_ranges={"x": [9]})
    assert rows_of(path, Number("x", missing=0.0)) == [[1.0], [0.0], [3.0]]
    with pytest.raises(InvalidParameter, match=r"'x' of .*x.sav must hold finite .* got missing"):
        open_source(path, "x")


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (None, "columns must be named for a file; .* has 4 of them"),
        ("AGE", r"among the 4 columns of .* \(INCOME, REGION, SEX, BORN\), got 'AGE'"),
        ("REGION", "'REGION' of .*people.sav must be numeric .* got type string"),
        ("BORN", "'BORN' of .*people.sav must be numeric .* got type date32"),
    ],
)
def test_refusals(tmp_path: Path, columns: Any, message: str) -> None:
    with pytest.raises(InvalidParameter, match=message) as caught:
        open_source(written(tmp_path), columns)
    assert "HIV" not in str(caught.value)


def test_what_is_said_about_lines(tmp_path: Path) -> None:
    path = written(tmp_path)
    with pytest.raises(InvalidParameter, match="decimal must be left out for"):
        open_source(Reading(path, decimal=","), "SEX")
    assert open_source(Reading(path, encoding="utf-8"), "SEX").n == 3


def test_damaged_files_do_not_end_the_process(tmp_path: Path) -> None:
    """pyreadstat 1.3.7 ends its process within 3000 of such files; so this one is another."""
    whole = written(tmp_path).read_bytes()
    path = tmp_path / "x.sav"
    for content in (whole[:100], b"$FL2" * 50, random.Random(1).randbytes(500), whole[:-20]):
        path.write_bytes(content)
        with pytest.raises(InvalidParameter, match=r"x.sav must be a readable file of Stata, SPSS"):
            open_source(path, "SEX")


def test_a_process_that_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What came before is not used: the caller hears of the end alone."""
    path = written(tmp_path)
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with pytest.raises(InvalidParameter, match="could not be read to its end"):
        open_source(path, "SEX")
