"""No refusal quotes a record: not in its message, not in the errors behind it, not in a traceback.

Every way in which data can be refused gets a marker in place of what somebody would rather not read
in a log, and the marker must not come out.
"""

from __future__ import annotations

import decimal
import gzip
import pickle
import re
import subprocess
import sys
import traceback
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mustdp as md
from mustdp.errors import InvalidParameter
from mustdp.numerics.checks import unquoted
from mustdp.types import Reading
from tests.seams import open_source, replace_floats

pandas = pytest.importorskip("pandas")
polars = pytest.importorskip("polars")
pyarrow = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")

TEXT = "HIV positive"
#: A number that is refused because it is not exact in double precision.
NUMBER = 91234567890123457
MARKS = ("HIV", "positive", str(NUMBER)[:8])


def told(problem: BaseException) -> str:
    """All that can be read of an error: its message, its parts and whatever it carries along."""
    found, waiting, seen = "", [problem], set()
    while waiting:
        one = waiting.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        found += "\n".join([str(one), repr(one), repr(one.args), repr(vars(one)), ""])
        waiting += [other for other in (one.__cause__, one.__context__) if other is not None]
    return found + "".join(traceback.format_exception(problem))


def quiet(call: Callable[[], Any]) -> str:
    """The message of the refusal, after a look for the marks in all that it tells."""
    with pytest.raises(InvalidParameter) as caught:
        call()
    everything = told(caught.value)
    # The traceback shows lines of this file, which are not what the marks are looked for in.
    everything = "\n".join(line for line in everything.splitlines() if "refused here" not in line)
    for mark in MARKS:
        assert mark not in everything, everything
    return str(caught.value)


def looked_through(source: Any) -> None:
    source.take(np.arange(source.n))


def opened(data: Any, columns: Any = None) -> Callable[[], Any]:
    """Open the data and read every row."""
    return lambda: looked_through(open_source(data, columns))  # refused here


#: Text of a file, the columns asked for, and what the refusal says.
FILES: dict[str, tuple[str, Any, str]] = {
    "text": (f"x,y\n1,2\n{TEXT},3\n", "x", "got a text that is not one in line 3"),
    "quoted text": (f'x,y\n1,2\n"{TEXT}",3\n', "x", "a text that is not one in line 3"),
    "quoted line ends": (f'x,y\n1,2\n"{TEXT}\nnow",3\n', "x", "a text that is not one in line 3"),
    "text after a number": (f"x,y\n1,2\n1_0{TEXT},3\n", "x", "a text that is not one"),
    "number with underscores": (f"x,y\n1,2\n{NUMBER}_0,3\n", "x", "a text that is not one"),
    "digits of another script": (f"x,y\n1,2\n\u0661{TEXT},3\n", "x", "a text that is not one"),
    "integer": (f"x,y\n1,2\n{NUMBER},3\n", "x", "got one outside of it"),
    "infinite": (f"x,y\n1,{TEXT}\n1e999,3\n", "x", "got infinite"),
    "missing": (f"x,y\n1,{TEXT}\n,{TEXT}\n", "x", "got missing"),
    "words and numbers": (f"x,y\n1,{TEXT}\ntrue,3\n", "x", "got 1 such words"),
    "too many fields": (f"x,y\n1,2\n1,{TEXT},3\n", "x", "must have 2 fields .* got 3"),
    "too few fields": (f"x,y\n1,2\n{TEXT}\n", "x", "must have 2 fields .* got 1"),
    "misplaced quotes": (f'x,y\n1,2\n"{TEXT}"{TEXT},3\n', "x", "line 3 .* well-formed"),
    "open quotes": (f'x,y\n1,2\n"{TEXT},3\n', "x", "line 3 .* well-formed"),
    "bare carriage return": (f"x,y\n1,2\n{TEXT}\r5,3\n", "x", "well-formed|none|fields"),
    "a long text": (f"x,y\n{TEXT * 20_000},1\n", "x", "a text that is not one in line 2"),
    "a name too long": (f"x,{TEXT * 20_000}\n1,2\n", "x", "first line .* 131072 characters"),
    "no names, asked by name": (f"{TEXT},{NUMBER}\n1,2\n", "x", "the 2 columns of .* got 'x'"),
    "no names, asked by number": (f"{TEXT},{NUMBER}\n1,2\n", 5, "the 2 columns of .* got 5"),
    "no names, all asked for": (f"{TEXT},{NUMBER}\n1,2\n", None, "has 2 of them, got None"),
    "no names, a text below": (f"{TEXT},{TEXT}\n1,a\n", 1, r"column 1 \(the first is 0\) of .*"),
    "no names, the same twice": (f"{TEXT},{TEXT}\n1,2\n", [1, 1], "different, got 1 twice"),
    "no names, numbers": (f"{NUMBER},2\n1,2\n", 3, "the 2 columns of .* got 3"),
    "no names, no records": (f"{TEXT},{NUMBER}\n", 0, "got a header alone"),
    "zero bytes": (f"{TEXT}\0,x\n1,2\n", "x", "got zero bytes in its first line"),
}  # fmt: skip


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("case", FILES)
def test_files_of_text(case: str, packed: bool, tmp_path: Path) -> None:
    """A first line that looks like a record is refused; said to be names, it is still not shown."""
    text, columns, words = FILES[case]
    path = tmp_path / ("data.csv.gz" if packed else "data.csv")
    path.write_bytes(gzip.compress(text.encode()) if packed else text.encode())
    message = quiet(opened(Reading(path, header=True), columns))
    assert re.search(words, message), message
    if case.startswith("no names"):
        words = "first line does not look like names: header=False .* got (numbers|a name twice)"
    message = quiet(opened(path, columns))
    assert re.search(words, message), message


def test_bytes_that_are_no_text(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Decoders quote what they cannot decode, and pyarrow does so for rows of other lengths."""
    path = tmp_path / "data.csv"
    path.write_bytes(f"x,y\n1,{TEXT}\n2,".encode() + b"\xff\n")
    message = quiet(opened(Reading(path, encoding="utf-8"), "x"))
    assert message == f"{path} must be text in the encoding utf-8, got UnicodeDecodeError"
    path.write_bytes(f"x,y\n1,{TEXT}\n2,{TEXT},".encode() + b"\xff\n")
    assert "line 3 of" in quiet(opened(path, "x"))
    assert capfd.readouterr() == ("", "")


def test_damaged_packed_files(tmp_path: Path) -> None:
    """gzip shows the first two bytes of what is not packed, and checksums of what is."""
    path = tmp_path / "data.csv.gz"
    packed = gzip.compress(b"x,t\n" + f"1,{TEXT}\n".encode() * 1000)
    for content in (TEXT.encode(), packed[:-8] + b"\1" * 8, packed[: len(packed) // 2]):
        path.write_bytes(content)
        message = quiet(opened(path, "x"))
        assert message.startswith(f"{path} must be readable and undamaged, got ")
        assert "0x" not in message
        assert "b'" not in message


def test_a_file_that_another_process_finds_changed(tmp_path: Path) -> None:
    path = tmp_path / "data.csv"
    path.write_text("x\n1\n2\n")
    sent = pickle.dumps(open_source(path, "x"))
    path.write_text(f"x\n1\n{TEXT}\n")
    quiet(lambda: pickle.loads(sent).take([0]))


def written(table: Any, path: Path, **options: Any) -> Path:
    parquet.write_table(
        table if hasattr(table, "schema") else pyarrow.table(table), path, **options
    )
    return path


def decimals() -> Any:
    return pyarrow.array([decimal.Decimal(NUMBER)], pyarrow.decimal128(20, 0))


TABLES: dict[str, Callable[[], dict[str, Any]]] = {
    "text": lambda: {"x": [TEXT]},
    "bytes": lambda: {"x": [TEXT.encode()]},
    "codes": lambda: {"x": pyarrow.array([TEXT]).dictionary_encode()},
    "structures": lambda: {"x": pyarrow.array([{TEXT: TEXT}])},
    "lists": lambda: {"x": [[TEXT]]},
    "integers": lambda: {"x": [NUMBER]},
    "negative integers": lambda: {"x": [-NUMBER]},
    "decimals": lambda: {"x": decimals()},
    "infinite": lambda: {"x": [float("inf"), float(NUMBER)]},
    "infinite below": lambda: {"x": [float("-inf"), float(NUMBER)]},
    "NaN": lambda: {"x": [float("nan"), float(NUMBER)]},
    "missing": lambda: {"x": [None, float(NUMBER)]},
}


@pytest.mark.parametrize("case", TABLES)
def test_arrow_and_what_is_made_of_it(case: str, tmp_path: Path) -> None:
    table = pyarrow.table(TABLES[case]())
    nullable = table.to_pandas(types_mapper=pandas.ArrowDtype)
    frames: list[Any] = [table, table.to_batches()[0], table.column(0), nullable, nullable["x"]]
    frames += [polars.from_arrow(table), polars.from_arrow(table)["x"]]
    frames += [table.to_pandas(), table.to_pandas()["x"]]
    for frame in frames:
        for columns in ("x", 0, None):
            if columns == "x" and frame is frames[2]:
                continue
            quiet(opened(frame, columns))
    for statistics in (True, False):
        path = written(table, tmp_path / "x.parquet", write_statistics=statistics)
        for columns in ("x", 0):
            quiet(opened(path, columns))


@pytest.mark.parametrize(
    "data",
    [
        np.array([TEXT]),
        np.array([TEXT.encode()]),
        np.array([TEXT, 1.0], dtype=object),
        np.array([[TEXT, 1.0]], dtype=object),
        np.array([(TEXT, TEXT)], dtype=[("x", "U20"), ("y", object)]),
        np.array([NUMBER]),
        np.array([NUMBER, -NUMBER], dtype=np.int64).reshape(1, 2),
        np.array([float(NUMBER), np.nan]),
        np.array([float(NUMBER), np.inf]),
        np.ma.masked_equal([float(NUMBER), 1.0], 1.0),
        np.ma.array([TEXT], mask=[True]),
        np.full((1, 1, 1), NUMBER),
        pandas.DataFrame({"x": pandas.Categorical([TEXT])}),
        pandas.DataFrame({"x": pandas.Categorical([NUMBER])}),
        pandas.DataFrame({"x": pandas.arrays.SparseArray([TEXT, TEXT], fill_value=TEXT)}),
        pandas.DataFrame({"x": [TEXT, 1.0]}),
        pandas.DataFrame({"x": [decimal.Decimal(NUMBER)]}),
        pandas.DataFrame({"x": pandas.array([NUMBER, None], dtype="Int64")}),
        pandas.DataFrame({"x": pandas.array([TEXT, None], dtype="string")}),
        polars.DataFrame({"x": polars.Series([TEXT], dtype=polars.Enum([TEXT]))}),
        polars.DataFrame({"x": polars.Series([TEXT], dtype=polars.Categorical)}),
        polars.DataFrame({"x": polars.Series([TEXT], dtype=polars.Object)}),
        polars.DataFrame({"x": [TEXT]}).lazy(),
        [TEXT],
        [TEXT, 1.0],
        [1.0, TEXT],
        (TEXT,),
        [[TEXT]],
        [NUMBER],
        [],
        {"x": [TEXT]},
        {TEXT},
        iter([TEXT]),
        TEXT,
        f"x,y\n{TEXT},1\n",
        TEXT.encode(),
        NUMBER,
        float(NUMBER),
        decimal.Decimal(NUMBER),
    ],
    ids=lambda data: type(data).__name__,
)
def test_what_is_in_memory(data: Any) -> None:
    for columns in (None, 0):
        quiet(opened(data, columns))


def test_frames_whose_labels_are_a_record() -> None:
    """As ``read_csv`` makes them of a file without a line of names."""
    for labels in ([TEXT, NUMBER], [TEXT, str(NUMBER)], [(TEXT, 1), (TEXT, 2)]):
        frame = pandas.DataFrame([[1.0, np.nan], [2.0, 3.0]], columns=labels)
        for columns in (None, 1, [0, 0], "x", 7):
            quiet(opened(frame, columns))
        texts = pandas.DataFrame([["a", "b"]], columns=labels)
        for columns in (None, 0):
            quiet(opened(texts, columns))
    table = pyarrow.table({TEXT: [1.0], str(NUMBER): pyarrow.array([None], pyarrow.float64())})
    for data in (table, polars.from_arrow(table)):
        for columns in (None, 1, [0, 0], "x", 7):
            quiet(opened(data, columns))


def test_parquet_files_whose_labels_are_a_record(tmp_path: Path) -> None:
    first = written({TEXT: [1.0], str(NUMBER): [2.0]}, tmp_path / "1.parquet")
    other = written({"x": [1.0]}, tmp_path / "2.parquet")
    for data, columns in (
        (first, None),
        (first, "x"),
        (first, 7),
        (first, [0, 0]),
        ([first, other], 0),
        ([first, other], 1),
    ):
        quiet(opened(data, columns))
    twice = pyarrow.Table.from_arrays([pyarrow.array([1.0])] * 2, names=[TEXT, TEXT])
    quiet(opened(written(twice, tmp_path / "3.parquet"), 0))


def test_columns_that_are_data_by_mistake() -> None:
    data = np.ones((3, 2))
    for columns in ([float(NUMBER)], pandas.Series([TEXT.encode()]), {TEXT: 1}, {TEXT}, [[TEXT]]):
        quiet(opened(data, columns))
    source = open_source(pandas.DataFrame({TEXT: [1.0], "y": [2.0]}))
    quiet(opened(source, "y"))


def test_damaged_parquet_files(tmp_path: Path) -> None:
    path = written({"x": np.arange(5000.0), "t": [TEXT] * 5000}, tmp_path / "x.parquet")
    whole = path.read_bytes()
    for damaged in (TEXT.encode() * 9, whole[:-20], whole[: len(whole) // 2]):
        path.write_bytes(damaged)
        message = quiet(opened(path, "x"))
        assert "must be a readable Parquet file, got " in message


def test_libraries_that_quote_what_they_cannot_read(monkeypatch: pytest.MonkeyPatch) -> None:
    def loud(*arguments: Any, **options: Any) -> Any:
        raise ValueError(f"could not convert {TEXT}")  # refused here

    replace_floats(monkeypatch, loud)
    message = quiet(opened(np.ones(3)))
    assert message.endswith("of the array must be readable as numbers, got ValueError")


def test_a_users_function_that_quotes_records() -> None:
    def failing(values: Any, counts: Any) -> Any:
        raise RuntimeError(f"{TEXT} {values}")  # refused here

    def wordy(values: Any, counts: Any) -> Any:
        return TEXT  # refused here

    data = np.full(50, 91234567.0)
    for function in (failing, wordy):
        released = partial(
            md.private_bootstrap, data, md.types.UserStatistic(function, sensitivity=lambda m: 1.0),
            lower=0.0, upper=1e9, design=md.wor(50, 10), replicates=4,
            noise_multiplier=1.0, delta=1e-3,
        )  # fmt: skip
        assert "function must" in quiet(released)


def test_an_error_of_our_own_passes_and_others_leave_no_trace() -> None:
    def ours() -> None:
        raise InvalidParameter("said on purpose")

    with pytest.raises(InvalidParameter, match=r"^said on purpose$"):
        unquoted(ours, "it must work")
    with pytest.raises(InvalidParameter, match=r"^it must work, got No such file") as caught:
        unquoted(lambda: Path(f"/{TEXT}").stat(), "it must work")
    assert caught.value.__context__ is None


def test_sources_do_not_print_their_records() -> None:
    source = open_source(np.array([91234567.5]))
    assert type(source).__name__ == "ArraySource"
    assert "91234567" not in repr(source)


@pytest.mark.parametrize("case", ["text", "quoted text", "integer", "no names, asked by name"])
def test_the_command_line(case: str, tmp_path: Path) -> None:
    text, column, _ = FILES[case]
    path = tmp_path / "data.csv"
    path.write_text(text)
    done = subprocess.run(
        [
            sys.executable, "-m", "mustdp.cli.main", "bootstrap", str(path),
            "--column", str(column), "--lower", "0", "--upper", "9",
            "--design", "subsampling", "-m", "1",
            "--replicates", "3", "--epsilon", "1", "--delta", "1e-6",
        ],
        capture_output=True,
        text=True,
    )  # fmt: skip
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith("mustdp: ")
    assert done.stderr.count("\n") == 1
    for mark in MARKS:
        assert mark not in done.stderr


def test_the_marks_are_found_where_they_are() -> None:
    """The test tests: an error that quotes, or that carries one that does, is noticed."""

    def carrying() -> None:
        try:
            float(TEXT)
        except ValueError:
            raise InvalidParameter("nothing to see") from None

    with pytest.raises(AssertionError):
        quiet(carrying)
