"""The same records, described in the same way, become the same numbers wherever they are."""

from __future__ import annotations

import csv
import datetime
import gzip
import io
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mustdp.data import opening as records
from mustdp.data import text
from mustdp.data.columns import Category, Day, Number
from mustdp.data.opening import open_records, open_source
from mustdp.errors import InvalidParameter
from mustdp.types import Reading

pandas = pytest.importorskip("pandas")
polars = pytest.importorskip("polars")
pyarrow = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")

DAYS = [datetime.date(1970, 1, 3), None, datetime.date(1969, 12, 31), datetime.date(2000, 2, 29)]
TABLE: dict[str, list[Any]] = {
    "income": [1.5, None, 3.5, -9.0],
    "region": ["north", "Süd", None, "west"],
    "children": [0, 2, None, 1],
    "born": DAYS,
}
WANTED = (
    Number("income", missing="drop"),
    Category("region", ("Süd", "north")),
    Category("children", ("0", "1")),
    Day("born", "1970-01-01", missing=-1000),
)
EXPECTED = [
    [1.5, 1, 0, 2],
    [0, 0, 2, -1000],
    [3.5, 2, 2, -1],
    [-9, 2, 1, 11016],
]


def arrow() -> Any:
    return pyarrow.table({name: pyarrow.array(values) for name, values in TABLE.items()})


def to_csv(folder: Path, name: str = "t.csv", **options: Any) -> Path:
    written = io.StringIO()
    writer = csv.writer(written, lineterminator="\n", **options)
    writer.writerow(TABLE)
    for row in zip(*TABLE.values(), strict=True):
        writer.writerow(["NA" if value is None else value for value in row])
    content = written.getvalue().encode()
    (folder / name).write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    return folder / name


def to_parquet(folder: Path, table: Any) -> Path:
    parquet.write_table(table, folder / "t.parquet", row_group_size=3)
    return folder / "t.parquet"


def objects() -> Any:
    frame = np.empty(4, dtype=[("income", float), ("region", object), ("children", object),
                               ("born", "datetime64[s]")])  # fmt: skip
    frame["income"] = [np.nan if value is None else value for value in TABLE["income"]]
    frame["region"], frame["children"] = TABLE["region"], TABLE["children"]
    frame["born"] = np.array(DAYS, dtype="datetime64[D]")
    return frame


def dask_frame() -> Any:
    dask = pytest.importorskip("dask.dataframe")
    return dask.from_pandas(arrow().to_pandas(), npartitions=2)


FORMS: dict[str, Callable[[Path], Any]] = {
    "csv": to_csv,
    "quoted csv": lambda folder: to_csv(folder, quoting=csv.QUOTE_ALL),
    "semicolons": lambda folder: Reading(to_csv(folder, "t.data", delimiter=";"), delimiter=";"),
    "packed": lambda folder: to_csv(folder, "t.csv.gz"),
    "tabs": lambda folder: to_csv(folder, "t.tsv", delimiter="\t"),
    "parquet": lambda folder: to_parquet(folder, arrow()),
    "parquet of texts": lambda folder: to_parquet(
        folder, arrow().set_column(3, "born", pyarrow.array([str(d) if d else None for d in DAYS]))
    ),
    "parquet of codes": lambda folder: to_parquet(
        folder, arrow().set_column(1, "region", arrow()["region"].dictionary_encode())
    ),
    "arrow": lambda folder: arrow(),
    "arrow batch": lambda folder: arrow().to_batches()[0],
    "pandas": lambda folder: arrow().to_pandas(),
    "pandas on Arrow": lambda folder: arrow().to_pandas(types_mapper=pandas.ArrowDtype),
    "pandas times": lambda folder: arrow().to_pandas().assign(born=pandas.to_datetime(DAYS)),
    "pandas zones": lambda folder: arrow().to_pandas().assign(
        born=pandas.to_datetime(DAYS).tz_localize("Asia/Tokyo")
    ),
    "pandas categories": lambda folder: arrow().to_pandas().astype({"region": "category"}),
    "polars": lambda folder: polars.from_arrow(arrow()),
    "polars times": lambda folder: polars.from_arrow(arrow()).with_columns(
        polars.col("born").cast(polars.Datetime), polars.col("region").cast(polars.Categorical)
    ),
    "numpy": lambda folder: objects(),
    "dask": lambda folder: dask_frame(),
}  # fmt: skip


def gathered(data: Any, *wanted: Any) -> tuple[list[list[float]], list[list[bool]]]:
    blocks = list(open_records(data, wanted).blocks())
    values = [row for block in blocks for row in block.values.tolist()]
    return values, [row for block in blocks for row in block.missing.tolist()]


@pytest.fixture(params=FORMS)
def data(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    return FORMS[request.param](tmp_path)


def test_every_kind_gives_the_same(data: Any) -> None:
    values, missing = gathered(data, *WANTED)
    assert values == EXPECTED
    assert [row[0] for row in missing] == [False, True, False, False]
    assert not any(flag for row in missing for flag in row[1:])


def test_every_row_is_there_in_small_blocks(data: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records, "_BLOCK", 1)
    monkeypatch.setattr(text, "_BLOCK", 7)
    found = open_records(data, WANTED)
    assert found.columns == ("income", "region", "children", "born")
    for _ in range(2):
        assert [row for block in found.blocks() for row in block.values.tolist()] == EXPECTED


def test_missing_values_are_refused_unless_something_is_said(data: Any) -> None:
    for column in (Number("income"), Day("born"), "income"):
        with pytest.raises(InvalidParameter, match=r"only, got (missing|NaN)") as why:
            gathered(data, column)
        assert "rows" not in str(why.value)  # their number may be private


def test_what_a_reading_says_holds_for_all_columns(data: Any) -> None:
    reading = data if isinstance(data, Reading) else Reading(data)
    reading = Reading(reading.data, delimiter=reading.delimiter, missing="drop", marks=("-9",))
    values, missing = gathered(reading, Number("income"), Day("born"))
    assert [row[0] for row in values] == [1.5, 0, 3.5, 0]
    assert [row[0] for row in missing] == [False, True, False, True]
    assert [row[1] for row in missing] == [False, True, False, False]


def test_a_public_value_in_place_of_missing_ones(data: Any) -> None:
    if hasattr(data, "__dask_graph__"):
        pytest.skip("partitions stay on their cluster")
    reading = data if isinstance(data, Reading) else Reading(data)
    filled = Reading(reading.data, delimiter=reading.delimiter, missing=2)
    source = open_source(filled, "income")
    assert source.take(np.arange(source.n))[:, 0].tolist() == [1.5, 2.0, 3.5, -9.0]
    with pytest.raises(InvalidParameter, match=r"missing must be refuse or a number here: .* drop"):
        open_source(Reading(reading.data, delimiter=reading.delimiter, missing="drop"), "income")


def test_an_array_is_not_written_to() -> None:
    mine = np.array([[1.0, np.nan], [2.0, 3.0]])
    source = open_source(Reading(mine, missing=0))
    assert source.take([0, 1]).tolist() == [[1.0, 0.0], [2.0, 3.0]]
    assert np.isnan(mine[0, 1])


def test_standard_input_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("t.csv", "t.csv.gz"):
        content = to_csv(tmp_path, name).read_bytes()
        for _ in range(2):
            stream = io.TextIOWrapper(io.BufferedReader(io.BytesIO(content)))
            monkeypatch.setattr(sys, "stdin", stream)
            found = open_records("-", WANTED)
            assert [row for block in found.blocks() for row in block.values.tolist()] == EXPECTED
            with pytest.raises(InvalidParameter, match="standard input can be read once"):
                list(found.blocks())
    stream = io.TextIOWrapper(io.BufferedReader(io.BytesIO(b"1;2\n3;4\n")))
    monkeypatch.setattr(sys, "stdin", stream)
    source = open_source(Reading("-", header=False, delimiter=";"), "1")
    assert source.take([1, 0]).tolist() == [[4.0], [2.0]]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: Number("x", missing="omit"), "missing must be refuse, drop or a finite number"),  # type: ignore[arg-type]
        (lambda: Number("x", missing=float("nan")), "missing must be a finite number, got nan"),
        (lambda: Category("x", ()), "values must be a non-empty list of texts"),
        (lambda: Category("x", ("a", " a")), "values must be different, got 'a' twice"),
        (lambda: Category("x", ("a", " ")), "values must be a non-empty list of texts"),
        (lambda: Day("x", "31.1.2020"), "origin must be a date such as 2026-01-31"),
        (lambda: Reading("x", delimiter=",,"), "delimiter must be one character"),
        (lambda: Reading("x", delimiter="1"), "delimiter must be one character"),
        (lambda: Reading("x", delimiter='"'), "delimiter must be one character"),
        (lambda: Reading("x", header=2), "header must be True, False or None"),  # type: ignore[arg-type]
        (lambda: Reading("x", encoding="utf-9"), "encoding must be an encoding of text"),
        (lambda: Reading("x", encoding="rot13"), "encoding must be an encoding of text"),
        (lambda: Reading("x", encoding="\0"), "encoding must be an encoding of text"),
        (lambda: Reading("x", decimal=";"), "decimal must be a point or a comma, got ';'"),
        (lambda: Reading("x", thousands="."), "thousands must be a point, .* not the decimal mark"),
        (lambda: Reading("x", thousands="0"), "thousands must be a point, a comma"),
        (lambda: Reading("x", dates="%d.%m.%y"), "dates must be a format .* a year of four digits"),
        (lambda: Reading("x", dates="%Y-%m"), "dates must be a format with day, month and a year"),
        (lambda: Reading("x", dates=3), "dates must be a format"),  # type: ignore[arg-type]
        (lambda: Reading(Reading("x")), "a Reading of a Reading"),
        (lambda: open_records(np.ones(3), []), "columns must be a non-empty list"),
    ],
)
def test_descriptions_are_checked(call: Callable[[], Any], message: str) -> None:
    with pytest.raises(InvalidParameter, match=message):
        call()


def test_types_that_do_not_suit(tmp_path: Path) -> None:
    table = pyarrow.table({"x": [1.0], "t": ["a"], "list": [[1.0]]})
    for data in (table, to_parquet(tmp_path, table), polars.from_arrow(table)):
        for wanted, words in (
            (Number("t"), "must be numeric"),
            (Day("x"), "must be of dates"),
            (Category("list", ("a",)), "must be of text, whole numbers"),
            (Day("t"), r"must hold dates \(ISO 8601\), got one that is not one in row 0"),
        ):
            with pytest.raises(InvalidParameter, match=words):
                gathered(data, wanted)


def test_texts_that_are_not_utf8_are_refused_where_they_are_read(tmp_path: Path) -> None:
    """They would all be counted as other, without a word."""
    (tmp_path / "t.csv").write_bytes("x,region\n1,north\n2,Süd\n".encode("latin-1"))
    assert gathered(tmp_path / "t.csv", "x")[0] == [[1.0], [2.0]]
    with pytest.raises(InvalidParameter, match=r"text in UTF-8, got one that is not one in line 3"):
        gathered(tmp_path / "t.csv", Category("region", ("Süd",)))


def test_dask_arrays_are_refused_with_the_way_on() -> None:
    array = pytest.importorskip("dask.array").ones((4, 2), chunks=2)
    with pytest.raises(InvalidParameter, match=r"to_dask_dataframe\(\)\), got Array of dask"):
        open_records(array, [0])
    assert gathered(array.to_dask_dataframe(columns=["x", "y"]), "y")[0] == [[1.0]] * 4


def test_a_file_that_changes_between_two_passes(tmp_path: Path) -> None:
    path = to_csv(tmp_path)
    found = open_records(path, WANTED)
    assert sum(map(len, found.blocks())) == 4
    path.write_bytes(path.read_bytes() + b"1,a,0,2000-01-01\n")
    with pytest.raises(InvalidParameter, match=r"t.csv must stay as it was when it was opened"):
        list(found.blocks())


def test_no_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(InvalidParameter, match="standard input must be readable, got Attribute"):
        open_records("-", WANTED)


@pytest.mark.parametrize(
    "said",
    [
        {"header": False},
        {"delimiter": ";"},
        {"encoding": "cp1252"},
        {"decimal": ","},
        {"thousands": ","},
    ],
)
def test_what_is_said_about_lines_where_there_are_none(tmp_path: Path, said: Any) -> None:
    for data in (arrow(), np.ones(3), to_parquet(tmp_path, arrow())):
        for opened in (open_records, open_source):
            with pytest.raises(
                InvalidParameter, match=r"(header|del|enc|dec|thou)[a-z]* must be left out"
            ):
                opened(Reading(data, **said), [0])
