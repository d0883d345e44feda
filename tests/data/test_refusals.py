"""Everything that is refused, and that the refusal names what is wrong."""

from __future__ import annotations

import datetime
import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mustdp.errors import InvalidParameter
from mustdp.types import Reading
from tests.seams import open_source

pandas = pytest.importorskip("pandas")
polars = pytest.importorskip("polars")
pyarrow = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")

Table = dict[str, Any]


def refused(message: str, data: Any, columns: Any = None, n: Any = None) -> None:
    with pytest.raises(InvalidParameter, match=message):
        open_source(data, columns, n)


def write(table: Any, path: Path, **options: Any) -> Path:
    parquet.write_table(pyarrow.table(table), path, **options)
    return path


#: Every way a small table with named columns can come.
FORMS: dict[str, Callable[[Table, Path], Any]] = {
    "pandas": lambda table, folder: pandas.DataFrame(table),
    "pandas nullable": lambda table, folder: pandas.DataFrame(table).convert_dtypes(),
    "pandas on Arrow": lambda table, folder: pandas.DataFrame(table).convert_dtypes(
        dtype_backend="pyarrow"
    ),
    "polars": lambda table, folder: polars.DataFrame(table),
    "arrow": lambda table, folder: pyarrow.table(table),
    "parquet": lambda table, folder: write(table, folder / "t.parquet"),
    "csv": lambda table, folder: to_csv(table, folder / "t.csv"),
}


def to_csv(table: Table, path: Path) -> Path:
    pandas.DataFrame(table).to_csv(path, index=False)
    return path


@pytest.fixture(params=FORMS)
def form(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[Table], Any]:
    return lambda table: FORMS[request.param](table, tmp_path)


def test_columns(form: Callable[[Table], Any]) -> None:
    data = form({"x": [1.0, 2.0], "y": [3.0, 4.0], "long" * 20: [0.5, 1.5]})
    assert open_source(data, ["x"]).n == 2
    refused(r"among the 3 columns of [^']*, got 'w'$", data, ["x", "w"])
    refused("got 'long.*…'$", data, "long" * 19)
    refused("got 'X'$", data, "X")
    refused("got 3$", data, 3)
    refused("got -1$", data, -1)
    refused("columns must be different, got 'x' twice", data, ["x", "y", "x"])
    refused("columns must be different, got 1 twice", data, ["y", 1])
    refused("non-empty list of them, got none", data, [])
    for wrong in (True, 1.0, b"x", {"x": 1}, {"x"}, ["x", None], [["x"]]):
        refused("columns must be a name, a position or a non-empty list", data, wrong)


def test_number_of_records(form: Callable[[Table], Any]) -> None:
    data = form({"x": [1.0, 2.0, 3.0]})
    assert open_source(data, "x", n=3).n == 3
    refused("n must be the number of records, 3, or be left out, got 4", data, "x", 4)
    for wrong in (0, -3, 3.0, True, "3", float("nan")):
        refused("n must be an integer from 1", data, "x", wrong)


def test_columns_are_listed_where_they_can_only_be_names(form: Callable[[Table], Any]) -> None:
    """Where the line of names is missing, they would be the first record."""
    data = form({f"c{k}": [float(k)] for k in range(25)})
    refused(r"among the 25 columns of [^']* \(c0, c1, .*, c19, …\), got 'x'$", data, "x")
    for first in ("7.5", "1990-01-31", "NA", "true", " "):
        data = form({"north": [1.0, 2.0], first: [3.0, 4.0]})
        refused("(among the 2 columns of [^'()]*|does not look like names:.*), got", data, "x")
    data = form({"north": ["a", "b"], "rich": ["c", "d"]})
    refused(r"among the 2 columns of [^'()]*, got 'x'$", data, "x")


@pytest.mark.parametrize(
    "values",
    [["a", "b"], [datetime.date(2020, 1, 1)] * 2, [datetime.datetime(2020, 1, 1)] * 2],
    ids=["text", "date", "time"],
)
def test_other_types(form: Callable[[Table], Any], values: list[Any]) -> None:
    data = form({"x": [1.0, 2.0], "other": values})
    assert open_source(data, "x").n == 2
    refused("column 'other' of .* must (be numeric .* got type|hold numbers, got)", data, "other")


def test_missing_values(form: Callable[[Table], Any]) -> None:
    data = form({"x": [1.5, None, 3.5, None, 5.5], "y": [1.0] * 5})
    assert open_source(data, "y").n == 5
    refused("column 'x' of .* finite numbers only, got (missing|NaN)", data, ["y", "x"])


def test_missing_integers_and_booleans() -> None:
    for values in ([1, None, 3], [True, None, False]):
        for data in (
            pyarrow.table({"x": values}),
            polars.DataFrame({"x": values}),
            pandas.DataFrame({"x": pandas.array(values)}),
            pyarrow.table({"x": values}).to_pandas(types_mapper=pandas.ArrowDtype),
        ):
            refused("'x' of .* got missing", data, "x")
            refused("column 0 .* of .* got missing", data)


@pytest.mark.filterwarnings("ignore:invalid value encountered in cast")  # pandas 2 makes them so
def test_infinite_values(form: Callable[[Table], Any]) -> None:
    data = form({"x": [1.5, float("-inf"), 3.5], "y": [1.0] * 3})
    assert open_source(data, "y").n == 3
    refused("'x' of .* must hold finite numbers only, got infinite", data, "x")


def test_integers_beyond_double_precision(form: Callable[[Table], Any]) -> None:
    limit = 2**53
    data = form({"x": [limit, -limit], "y": [limit + 1, 0], "z": [0, -limit - 1]})
    assert open_source(data, "x").take([1, 0]).tolist() == [[-(2.0**53)], [2.0**53]]
    for name in ("y", "z"):
        refused(f"'{name}' of .* exact in double precision, got one outside of it$", data, name)


def test_no_rows() -> None:
    for data in (
        np.empty(0),
        np.empty((0, 2)),
        pandas.DataFrame({"0": []}, dtype=float),
        polars.DataFrame({"0": []}, schema={"0": polars.Float64}),
        pyarrow.table({"0": pyarrow.array([], pyarrow.float64())}),
    ):
        refused("must have at least one row, got none", data, "0")


def test_no_numeric_columns() -> None:
    refused("must have a numeric column, got type \\w+ only$", pandas.DataFrame({"t": ["a"]}))
    refused("must have a numeric column, got type String only$", polars.DataFrame({"t": ["a"]}))
    refused("must have a numeric column, got no columns", pandas.DataFrame(index=[1, 2]))
    refused("must have a numeric column, got no columns", np.empty((3, 0)))


def test_arrays() -> None:
    refused(r"one or two dimensions .* got shape \(2, 2, 2\)", np.ones((2, 2, 2)))
    refused(r"one or two dimensions .* got shape \(\)", np.array(1.0))
    refused("got type complex128", np.ones(2, dtype=complex), 0)
    refused("got type object", np.array([1.0, None]), 0)
    refused("got type str_$", np.array(["1", "2"]), 0)
    refused("got type datetime64", np.array(["2020-01-01"], dtype="M8[D]"), 0)
    refused("got type timedelta64", np.array([1], dtype="m8[s]"), 0)
    refused(
        "column 0 .* of the array .* got NaN, infinite",
        np.array([1, np.nan, *[np.inf] * 2]),
    )
    refused("column 1 .* of the array .* got NaN", np.array([[1.0, 2.0], [3.0, np.nan]]))
    refused("exact in double precision", np.array([2**64 - 1], dtype=np.uint64))
    refused("got missing", np.ma.masked_equal([1.0, 2.0, 3.0], 2.0))
    assert open_source(np.ma.array([1.0, 2.0], mask=False)).n == 2
    huge = np.array([np.longdouble("1e400") if np.finfo(np.longdouble).max > 1e308 else np.inf])
    refused("got infinite", huge)
    fields = np.zeros(2, dtype=[("x", float), ("pair", float, (2,)), ("t", "U2")])
    refused("'pair' of the array .* of shape", fields, "pair")
    refused("among the 3 columns of the array", fields, "y")
    refused("of one, if it has fields", np.zeros((2, 2), dtype=[("x", float)]))


def test_types_of_frames() -> None:
    frame = pandas.DataFrame(
        {
            "category": pandas.Categorical([1, 2]),
            "yes": pandas.Categorical([True, False]),
            "object": np.array([1, 2.5], dtype=object),
            "complex": [1j, 2.0],
            "period": pandas.to_timedelta([1, 2], unit="s"),
        }
    )
    for name in frame.columns:
        refused(f"'{name}' of the DataFrame must be numeric", frame, name)
    table = pyarrow.table(
        {
            "list": [[1.0], [2.0]],
            "null": pyarrow.nulls(2),
            "codes": pyarrow.array(["a", "b"]).dictionary_encode(),
            "struct": [{"a": 1.0}, {"a": 2.0}],
        }
    )
    for name in table.column_names:
        refused(f"'{name}' of the Table must be numeric .* got type", table, name)
    refused("'list' of the DataFrame must be numeric", polars.DataFrame({"list": [[1.0]]}), "list")


def test_ambiguous_names(tmp_path: Path) -> None:
    arrays = [pyarrow.array([1.0]), pyarrow.array([2.0])]
    table = pyarrow.Table.from_arrays(arrays, names=["x", "x"])
    frame = pandas.DataFrame([[1.0, 2.0]], columns=["x", "x"])
    (tmp_path / "t.csv").write_text("x,x\n1,2\n")
    refused("does not look like names: .* got a name twice in it", tmp_path / "t.csv", "x")
    for data in (table, frame, Reading(tmp_path / "t.csv", header=True)):
        refused("unambiguously, got 'x', the name of 2 columns", data, "x")
        assert open_source(data, 1).take([0]).tolist() == [[2.0]]
    parquet.write_table(table, tmp_path / "t.parquet")
    refused("unambiguously, got 'x'", tmp_path / "t.parquet", "x")
    refused(r"got column 1 .*t.parquet has its name 2 times", tmp_path / "t.parquet", 1)


def test_lazy_frames_and_other_things() -> None:
    refused("LazyFrame: collect", polars.DataFrame({"x": [1.0]}).lazy(), "x")
    refused("use numpy.asarray", [1.0, 2.0])
    refused("use numpy.asarray", ["a.parquet", 2])
    for wrong in (None, 5, {"x": [1.0]}, b"x.csv", [], (), iter([1.0]), object()):
        refused("data must be a numpy array, .* got ", wrong, "x")


def test_paths(tmp_path: Path) -> None:
    refused("existing file or folder, got '.*none.csv'", tmp_path / "none.csv", "x")
    refused("existing file or folder, got 's3://", "s3://bucket/x.parquet", "x")
    refused("existing file or folder", "x,y\n1,2\n" * 1000, "x")
    refused("existing file or folder", "x\0.csv", "x")
    refused("existing file or folder", "", "x")
    (tmp_path / "x.csv").write_bytes(b"")
    refused("x.csv must not be empty, got a file of 0 bytes", tmp_path / "x.csv", "x")
    (tmp_path / "x.parquet").write_bytes(b"")
    refused("x.parquet must not be empty", tmp_path / "x.parquet", "x")
    for name in ("x.xlsx", "x", "x.gz", "x.csv.zip", "csv", "x.json"):
        (tmp_path / name).write_bytes(b"x\n1\n")
        refused(r"ends in \.csv, .*\.parquet, or text with delimiter, got", tmp_path / name, "x")
    (tmp_path / "folder").mkdir()
    refused(r"a folder must have \.parquet files in it", tmp_path / "folder", "x")
    (tmp_path / "folder" / "sub.parquet").mkdir()
    refused(r"a folder must have \.parquet files in it", tmp_path / "folder", "x")


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root reads everything")
def test_files_that_may_not_be_read(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text("x\n1\n")
    path.chmod(0)
    refused("x.csv must be readable", path, "x")


def test_files_need_named_columns(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("x,y\n1,2\n")
    write({"x": [1.0], "y": [2.0]}, tmp_path / "t.parquet")
    for name in ("t.csv", "t.parquet"):
        refused("columns must be named for a file; .* has 2 of them, got None", tmp_path / name)


def test_damaged_parquet_files(tmp_path: Path) -> None:
    path = write({"x": np.arange(5000.0)}, tmp_path / "x.parquet", use_dictionary=False)
    whole = path.read_bytes()
    for damaged in (b"PAR1", b"x,y\n1,2\n", whole[:-20], whole[: len(whole) // 2]):
        path.write_bytes(damaged)
        refused("x.parquet must be a readable Parquet file", path, "x")


def test_parquet_data_sets(tmp_path: Path) -> None:
    one = write({"x": [1.0], "y": [1.0]}, tmp_path / "1.parquet")
    two = write({"x": ["text"], "z": [1.0]}, tmp_path / "2.parquet")
    none = write({"x": np.empty(0)}, tmp_path / "3.parquet")
    (tmp_path / "t.csv").write_text("x\n1\n")
    refused("'x' of .*2.parquet must be numeric .* got type string", [one, two], "x")
    refused("got column 'y' while .*2.parquet has no column of its name", [one, two], "y")
    refused("got column 1 .* while .*2.parquet has no column of its name", [one, two], 1)
    refused("must have at least one row, got none", none, "x")
    refused("must have at least one row, got none", [none], "x")
    refused("a list of files must be of .parquet files, got", [one, tmp_path / "t.csv"], "x")
    refused("existing file or folder", [one, tmp_path / "4.parquet"], "x")
    refused("must be a regular file", [one, tmp_path], "x")


def test_the_same_file_twice(tmp_path: Path) -> None:
    """Its records would each be two records to the accountant."""
    path = write({"x": [1.0, 2.0]}, tmp_path / "1.parquet")
    (tmp_path / "link.parquet").symlink_to(path)
    (tmp_path / "hard.parquet").hardlink_to(path)
    for other in ("1.parquet", "link.parquet", "hard.parquet"):
        refused("files must be different, got .* one file", [path, tmp_path / other], "x")
    refused("files must be different", tmp_path, "x")


@pytest.mark.parametrize("bad", [np.nan, np.inf, None, 2**53 + 1])
@pytest.mark.parametrize("statistics", [True, False])
def test_parquet_values_are_checked_when_opened(tmp_path: Path, bad: Any, statistics: bool) -> None:
    """Before anything is charged for them, whatever the footer says of them."""
    whole = isinstance(bad, int)
    values = [bad if k == 15 else (k if whole else float(k)) for k in range(20)]
    path = tmp_path / "x.parquet"
    write({"x": values}, path, write_statistics=statistics, row_group_size=10)
    refused(r"'x' of .*x.parquet must hold (finite|integers)", path, "x")


def test_parquet_values_are_checked_when_read(tmp_path: Path) -> None:
    """Pages without checksums can change below an unchanged footer; drawn or not, they count."""
    path = tmp_path / "x.parquet"
    write({"x": np.arange(20.0)}, path, row_group_size=10, use_dictionary=False,
          compression="none")  # fmt: skip
    source = open_source(path, "x")
    content = path.read_bytes()
    assert content.count(np.float64(15).tobytes()) == 1
    path.write_bytes(content.replace(np.float64(15).tobytes(), np.float64(np.nan).tobytes()))
    assert source.take([9, 3]).tolist() == [[9.0], [3.0]]
    for drawn in ([15], [3, 12]):
        with pytest.raises(InvalidParameter, match=r"'x' of .*x.parquet \(rows 0 to 9 of .* 1\)"):
            source.take(drawn)


def test_decimals_beyond_double_precision(tmp_path: Path) -> None:
    wide = pyarrow.array(["9007199254740993.0"]).cast(pyarrow.decimal128(20, 1))
    table = pyarrow.table({"x": wide})
    refused("exact in double precision", table, "x")
    refused("exact in double precision", polars.from_arrow(table), "x")
    refused("exact in double precision", write(table, tmp_path / "x.parquet"), "x")


def test_a_parquet_file_that_changed(tmp_path: Path) -> None:
    path = write({"x": [1.0, 2.0]}, tmp_path / "x.parquet")
    source = open_source(path, "x")
    sent = pickle.dumps(source)
    write({"x": [1.0, 2.5]}, path)
    for stale in (source, pickle.loads(sent)):
        with pytest.raises(InvalidParameter, match=r"x.parquet must stay as it was"):
            stale.take([0])
    path.unlink()
    with pytest.raises(InvalidParameter, match="must be readable wherever"):
        source.take([0])
    write({"x": [1.0, 2.0]}, path)
    assert source.take([1]).tolist() == [[2.0]]


def test_indices() -> None:
    source = open_source(np.arange(5.0))
    for wrong in ([-1], [5], [0, 7]):
        with pytest.raises(InvalidParameter, match="indices must be from 0 to 4"):
            source.take(wrong)
    for wrong_kind in ([[0]], [0.5], [True], 1):
        with pytest.raises(InvalidParameter, match="one-dimensional array of integers"):
            source.take(wrong_kind)
    assert source.take(np.array([4], dtype=np.uint8)).tolist() == [[4.0]]


def test_columns_of_a_source() -> None:
    source = open_source(np.ones((3, 2)))
    refused("columns must be those of the source", source, ["1", "0"])
    refused("columns must be those of the source", source, "1")
    refused("n must be the number of records, 3", source, None, 4)
