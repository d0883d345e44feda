"""The same records through every kind of data give the same values, in any order."""

from __future__ import annotations

import csv
import gzip
import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.seams import open_source, read_parquet_in_small_batches

pandas = pytest.importorskip("pandas")
polars = pytest.importorskip("polars")
pyarrow = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")

NAMES = ["x", "k", "flag", "z"]
Columns = dict[str, NDArray[Any]]


def structured(columns: Columns, texts: list[str], folder: Path) -> Any:
    array = np.empty(
        len(texts), dtype=[("text", "U5"), *((name, columns[name].dtype) for name in NAMES)]
    )
    for name in NAMES:
        array[name] = columns[name]
    return array


def pandas_frame(columns: Columns, texts: list[str], folder: Path) -> Any:
    return pandas.DataFrame({"text": texts, **columns})


def pandas_nullable(columns: Columns, texts: list[str], folder: Path) -> Any:
    return pandas_frame(columns, texts, folder).convert_dtypes()


def pandas_on_arrow(columns: Columns, texts: list[str], folder: Path) -> Any:
    return pandas_frame(columns, texts, folder).convert_dtypes(dtype_backend="pyarrow")


def polars_frame(columns: Columns, texts: list[str], folder: Path) -> Any:
    return polars.DataFrame({"text": texts, **columns})


def arrow_table(columns: Columns, texts: list[str], folder: Path) -> Any:
    table = pyarrow.table({"text": texts, **columns})
    return pyarrow.concat_tables([table.slice(0, 300), table.slice(300, 1), table.slice(301)])


def arrow_batch(columns: Columns, texts: list[str], folder: Path) -> Any:
    return pyarrow.RecordBatch.from_pydict(
        {"text": pyarrow.array(texts), **{k: pyarrow.array(v) for k, v in columns.items()}}
    )


def parquet_file(columns: Columns, texts: list[str], folder: Path) -> Any:
    parquet.write_table(
        arrow_table(columns, texts, folder), folder / "one.parquet", row_group_size=170
    )
    return folder / "one.parquet"


def parquet_folder(columns: Columns, texts: list[str], folder: Path) -> Any:
    """Three files in folders, row groups of uneven sizes, an empty one, and other files beside."""
    table = arrow_table(columns, texts, folder)
    data = folder / "data"
    (data / "part=2").mkdir(parents=True)
    (data / "_temporary").mkdir()
    with parquet.ParquetWriter(data / "a.parquet", table.schema) as writer:
        for start, stop in ((0, 1), (1, 250), (250, 251)):
            writer.write_table(table.slice(start, stop - start))
    parquet.write_table(table.slice(0, 0), data / "b.parquet")
    parquet.write_table(table.slice(251), data / "part=2" / "c.PARQUET", row_group_size=333)
    parquet.write_table(table, data / "_temporary" / "left.parquet")
    parquet.write_table(table, data / ".hidden.parquet")
    (data / "_SUCCESS").write_bytes(b"")
    return str(data)


def parquet_list(columns: Columns, texts: list[str], folder: Path) -> Any:
    """The same name in both files, at another position and of another type."""
    table = arrow_table(columns, texts, folder)
    other = table.slice(400).select(["z", "flag", "k", "x"])
    other = other.set_column(2, "k", other["k"].cast(pyarrow.int32()))
    parquet.write_table(table.slice(0, 400), folder / "2.parquet", row_group_size=7)
    parquet.write_table(other, folder / "1.parquet", write_statistics=False)
    return [folder / "2.parquet", str(folder / "1.parquet")]


def csv_file(columns: Columns, texts: list[str], folder: Path) -> Any:
    path = folder / "data.csv"
    with path.open("w", encoding="utf-8", newline="") as stream:
        write_rows(csv.writer(stream), columns, texts)
    return path


def tsv_packed(columns: Columns, texts: list[str], folder: Path) -> Any:
    path = folder / "data.TSV.gz"
    with gzip.open(path, "wt", encoding="utf-8-sig", newline="") as stream:
        write_rows(csv.writer(stream, delimiter="\t", lineterminator="\n"), columns, texts)
    return str(path)


def csv_plain(columns: Columns, texts: list[str], folder: Path) -> Any:
    """One row a line, so that pyarrow reads it to the end; flags as numbers."""
    path = folder / "plain.csv"
    with path.open("w", encoding="utf-8", newline="") as stream:
        numbers = {**columns, "flag": columns["flag"].astype(int)}
        write_rows(csv.writer(stream), numbers, [text.replace("\n", " ") for text in texts])
    return path


def write_rows(writer: Any, columns: Columns, texts: list[str]) -> None:
    writer.writerow([" text", *(f" {name} " for name in NAMES)])
    values = [columns[name].tolist() for name in NAMES]
    for text, *row in zip(texts, *values, strict=True):
        writer.writerow([text, *row])


KINDS: list[Callable[[Columns, list[str], Path], Any]] = [
    structured,
    pandas_frame,
    pandas_nullable,
    pandas_on_arrow,
    polars_frame,
    arrow_table,
    arrow_batch,
    parquet_file,
    parquet_folder,
    parquet_list,
    csv_file,
    csv_plain,
    tsv_packed,
]


@pytest.fixture(params=KINDS, ids=lambda kind: kind.__name__)
def data(request: pytest.FixtureRequest, columns: Columns, texts: list[str], tmp_path: Path) -> Any:
    return request.param(columns, texts, tmp_path)


def check(source: Any, expected: NDArray[np.float64]) -> None:
    rng = np.random.default_rng(3)
    n = len(expected)
    assert source.n == n
    for size in (n, 100, 1, 0):
        indices = rng.permutation(n)[:size].astype(np.int64)
        before = indices.copy()
        taken = source.take(indices)
        assert taken.dtype == np.float64
        np.testing.assert_array_equal(taken, expected[indices], strict=True)
        np.testing.assert_array_equal(indices, before)


def test_values_in_any_order(data: Any, expected: NDArray[np.float64]) -> None:
    source = open_source(data, NAMES, n=len(expected))
    assert source.columns == tuple(NAMES)
    check(source, expected)


def test_columns_in_any_order(data: Any, expected: NDArray[np.float64]) -> None:
    source = open_source(data, ("z", "x"))
    assert source.columns == ("z", "x")
    check(source, expected[:, [3, 0]])
    check(open_source(data, "k"), expected[:, [1]])


def test_a_copy_from_a_pickle_works(data: Any, expected: NDArray[np.float64]) -> None:
    source = open_source(data, NAMES)
    copy = pickle.loads(pickle.dumps(source))
    assert (copy.n, copy.columns) == (source.n, source.columns)
    assert copy.rows_in_memory == source.rows_in_memory
    check(copy, expected)
    check(pickle.loads(pickle.dumps(copy)), expected)


def test_files_travel_as_paths(data: Any) -> None:
    source = open_source(data, NAMES)
    source.take([0, 1])
    is_file = isinstance(data, str | Path | list)
    assert (len(pickle.dumps(source)) < 5_000) == is_file
    named_parquet = is_file and not str(data).lower().endswith((".csv", ".gz"))
    assert source.rows_in_memory == (not named_parquet)


def test_another_process_reads_the_same(
    columns: Columns, texts: list[str], expected: NDArray[np.float64], tmp_path: Path
) -> None:
    for kind in (parquet_file, csv_file):
        source = open_source(kind(columns, texts, tmp_path), NAMES)
        (tmp_path / "source").write_bytes(pickle.dumps(source))
        program = (
            "import pickle, sys; source = pickle.load(open(sys.argv[1], 'rb'));"
            "print(source.take([5, 2]).tolist())"
        )
        done = subprocess.run(
            [sys.executable, "-c", program, str(tmp_path / "source")],
            check=True,
            capture_output=True,
            text=True,
            cwd="/",
        )
        assert done.stdout.strip() == str(expected[[5, 2]].tolist())


@pytest.mark.parametrize("unnamed", [True, False])
def test_single_columns(columns: Columns, unnamed: bool) -> None:
    x = columns["x"]
    name = None if unnamed else "x"
    alone = [
        x,
        pandas.Series(x, name=name),
        polars.Series(name or "", x),
        pyarrow.chunked_array([x[:10], x[10:]]),
        pyarrow.array(x),
    ]
    for data in alone:
        source = open_source(data)
        expected_name = "x" if name and hasattr(data, "name") else "0"
        assert source.columns == (expected_name,)
        check(source, x[:, None])
        check(open_source(data, 0), x[:, None])


def test_arrays_by_position(expected: NDArray[np.float64]) -> None:
    source = open_source(expected)
    assert source.columns == ("0", "1", "2", "3")
    check(source, expected)
    check(open_source(expected, [2, 0]), expected[:, [2, 0]])
    check(open_source(expected, "1"), expected[:, [1]])
    check(open_source(np.asfortranarray(expected)), expected)
    check(open_source(expected[::-1]), expected[::-1])
    check(open_source(expected[:, ::2], (1,)), expected[:, [2]])


def test_all_numeric_columns_where_none_are_named(
    columns: Columns, texts: list[str], expected: NDArray[np.float64], tmp_path: Path
) -> None:
    kinds = (structured, pandas_frame, pandas_nullable, pandas_on_arrow, polars_frame, arrow_table)
    for kind in kinds:
        source = open_source(kind(columns, texts, tmp_path))
        assert source.columns == tuple(NAMES)
        check(source, expected)


def test_labels_come_before_positions() -> None:
    frame = pandas.DataFrame({1: [10.0, 11.0], 0: [20.0, 21.0], "a": [30.0, 31.0]})
    assert open_source(frame, 0).take([0]).tolist() == [[20.0]]
    assert open_source(frame, [1, 2]).take([1]).tolist() == [[11.0, 31.0]]
    assert open_source(frame, "1").columns == ("1",)


def test_arrays_are_seen_not_copied_and_never_written(expected: NDArray[np.float64]) -> None:
    mine = expected.copy()
    source = open_source(mine)
    assert mine.flags.writeable
    values = source.values
    assert np.shares_memory(values, mine)
    assert not values.flags.writeable
    source.take([0])[0, 0] = 5.0
    np.testing.assert_array_equal(mine, expected)


def test_a_source_is_its_own_source(expected: NDArray[np.float64]) -> None:
    source = open_source(expected, [1, 2])
    assert open_source(source, n=len(expected)) is source
    assert open_source(source, ["1", "2"]) is source


def test_decimals_are_rounded_to_the_nearest_double(tmp_path: Path) -> None:
    texts = ["0.10", "-12345678.90", "3.00"]
    decimals = pyarrow.array(texts).cast(pyarrow.decimal128(12, 2))
    table = pyarrow.table({"price": decimals})
    parquet.write_table(table, tmp_path / "d.parquet")
    for data in (table, polars.from_arrow(table), tmp_path / "d.parquet"):
        taken = open_source(data, "price").take([0, 1, 2])
        assert taken[:, 0].tolist() == [float(text) for text in texts]


def test_dots_in_names_are_part_of_the_name(tmp_path: Path) -> None:
    table = pyarrow.table({"a": [1.0, 2.0], "a.b": [3.0, 4.0], "c": [{"d": 5.0}, {"d": 6.0}]})
    parquet.write_table(table, tmp_path / "dots.parquet")
    source = open_source(tmp_path / "dots.parquet", ["a.b", "a"])
    assert source.take([1, 0]).tolist() == [[4.0, 2.0], [3.0, 1.0]]


def test_large_row_groups_are_read_in_batches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = np.arange(20_000.0)
    parquet.write_table(pyarrow.table({"x": x}), tmp_path / "x.parquet", row_group_size=13_000)
    read_parquet_in_small_batches(monkeypatch)
    sizes = []
    iter_batches = parquet.ParquetFile.iter_batches

    def watched(self: Any, **options: Any) -> Any:
        for batch in iter_batches(self, **options):
            sizes.append(batch.num_rows)
            yield batch

    monkeypatch.setattr(parquet.ParquetFile, "iter_batches", watched)
    source = open_source(tmp_path / "x.parquet", "x")
    check(source, x[:, None])
    assert max(sizes) == 1024
    sizes.clear()
    assert source.take([13_005, 13_000]).tolist() == [[13_005.0], [13_000.0]]
    assert sizes == [1024]


def test_nothing_is_imported_that_is_not_needed(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("x\n1\n2\n")
    program = (
        "import sys, numpy as np; from mustdp.data.opening import open_source;"
        "open_source(np.ones(3));"
        "print([name for name in ('pandas', 'polars', 'pyarrow', 'dask') if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True
    )
    assert done.stdout.strip() == "[]"
