"""CSV and TSV files, with pyarrow and with the standard library alone."""

from __future__ import annotations

import gzip
import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mustdp.data import text as delimited
from mustdp.data import text as delimited_text
from mustdp.data import text as text_stream
from mustdp.data.columns import Reading
from mustdp.data.opening import open_records, open_source
from mustdp.errors import InvalidParameter

pytest.importorskip("pyarrow")
Write = Callable[..., Path]


def without_pyarrow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delimited_text, "installed", lambda module: None)


@pytest.fixture(params=["pyarrow", "standard library"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "standard library":
        without_pyarrow(monkeypatch)
    return str(request.param)


def outcome(path: Any, wanted: Any) -> Any:
    """All that a way of reading makes of a file: the numbers to the last bit, or the refusal."""
    try:
        blocks = list(open_records(path, wanted).blocks())
    except InvalidParameter as refusal:
        return str(refusal)
    values = b"".join(block.values.tobytes() for block in blocks)
    return values, b"".join(block.missing.tobytes() for block in blocks)


def alike(content: bytes, block: int, path: Path, *wanted: Any, reading: Any = None) -> Any:
    """Both ways give the same, be it numbers or a refusal, in blocks of any length."""
    path.write_bytes(content)
    chosen = wanted or ("x",)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(text_stream, "_BLOCK", block)
        fast = outcome(reading or path, chosen)
        without_pyarrow(patch)
        assert outcome(reading or path, chosen) == fast
    return fast


def everything(path: Any, columns: Any) -> list[list[float]]:
    source = open_source(path, columns)
    rows: list[list[float]] = source.take(np.arange(source.n)).tolist()
    return rows


def test_names_are_found_whatever_is_around_them(write_csv: Write, way: str) -> None:
    text = ' a ,"b, the second",  c\n1,2,3\n4,5,6\n'
    for name, changed, encoding in (
        ("plain.csv", text, "utf-8"),
        ("mark.csv", text, "utf-8-sig"),
        ("crlf.csv", text.replace("\n", "\r\n"), "utf-8-sig"),
        ("open.csv", text.removesuffix("\n"), "utf-8"),
        ("blank.csv", "\n\n" + text + "\n\n", "utf-8-sig"),
        ("packed.csv.gz", text, "utf-8-sig"),
        ("upper.CSV.GZ", text, "utf-8"),
        ("tab.tsv", ' a \t"b, the second"\t  c\n1\t2\t3\n4\t5\t6\n', "utf-8"),
        ("tab.tsv.gz", ' a \t"b, the second"\t  c\r\n1\t2\t3\r\n4\t5\t6', "utf-8"),
    ):
        path = write_csv(changed, name, encoding)
        assert everything(path, ["c", "b, the second", "a"]) == [[3, 2, 1], [6, 5, 4]], name
        assert everything(path, [2, 0]) == [[3, 1], [6, 4]], name


def test_forms_of_numbers(write_csv: Write, way: str) -> None:
    forms = {
        "1": 1.0, "+1.5": 1.5, " -2.5 ": -2.5, '"3"': 3.0, "1e3": 1e3, "1E-3": 1e-3, ".5": 0.5,
        "5.": 5.0, "-0": 0.0, "0.1": 0.1, "1e-400": 0.0, "4.9e-324": 5e-324,
        "1.7976931348623157e308": 1.7976931348623157e308, "9007199254740992": 2.0**53,
        "-9007199254740991": -(2.0**53 - 1), "123456789012345678.0": 123456789012345678.0,
        "2.2250738585072011e-308": 2.225073858507201e-308, "007": 7.0,
        "0.1000000000000000055511151231257827021181583404541015625": 0.1,
    }  # fmt: skip
    path = write_csv("text,x\n" + "".join(f"t,{form}\n" for form in forms))
    assert everything(path, "x") == [[number] for number in forms.values()]


@pytest.mark.parametrize(
    "form",
    ["1_000", "1_000_000_000_000_000_000", "1,5", "0x10", "1d5", "١", "1 2", "abc", "$5", "12%"],
)
def test_other_forms_are_refused(write_csv: Write, way: str, form: str) -> None:
    path = write_csv(f'x,y\n1,2\n"{form}",3\n')
    with pytest.raises(
        InvalidParameter,
        match=r"column 'x' of .* must hold numbers, got a text that is none in line 3",
    ):
        open_source(path, "x")
    assert everything(path, "y") == [[2.0], [3.0]]


def test_words_for_yes_and_no(write_csv: Write, way: str) -> None:
    path = write_csv("x,y\ntrue,1\n FALSE ,true\nTrue,0\n")
    assert everything(path, "x") == [[1.0], [0.0], [1.0]]
    with pytest.raises(InvalidParameter, match=r"'y' .* alone, got 1 such words"):
        open_source(path, "y")


def test_quotation_marks_and_lines_in_other_columns(write_csv: Write, way: str) -> None:
    text = 'name,x\n"a ""quoted"", one\nand a line",1\nplain,"2"\n"",3\nmid"dle,4\n"x\r\n\r\ny",5\n'
    assert everything(write_csv(text), "x") == [[1], [2], [3], [4], [5]]


def test_other_columns_need_not_be_utf8(write_csv: Write, way: str) -> None:
    assert everything(write_csv("name,x\n\udcfc,1\n\udcff\udcfe,2\n"), ["x"]) == [[1], [2]]


def test_blank_lines_are_skipped(write_csv: Write, way: str) -> None:
    assert everything(write_csv("x\n1\n\n2\r\n\r\n3\n\n"), "x") == [[1], [2], [3]]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('x,t\n"1"2,a\n', "line 2 of .* must be well-formed"),
        ('x,t\n1,"open\n2,b\n3,c\n', "line 4 of .* must be well-formed"),
        ('x,t\n1,a\n2,b\n3,"open\n', "line 4 of .* must be well-formed"),
        ("x,t\n1,a\n2,b,c\n", "line 3 of .* must have 2 fields .* got 3"),
        ("x,t\n1,a\n2\n", "line 3 of .* must have 2 fields .* got 1"),
        ("x,t\n1,a\r2,b\n\n", "line 2 of .* must be well-formed"),
        ("x,t\r1,a\r2,b\r", "line 1 of .* must be well-formed"),
        ("x,t\n", "must have at least one row of data"),
        ("x,t", "must have at least one row of data"),
        ("x,t\n\n\r\n", "must have at least one row of data"),
        ("\n\n", "must have a line of names"),
        ("x\0,t\n1,2\n", "must be text in UTF-8"),
    ],
)
def test_malformed_files_are_refused(write_csv: Write, way: str, text: str, message: str) -> None:
    with pytest.raises(InvalidParameter, match=message):
        open_source(write_csv(text), "x")


@pytest.mark.parametrize("word", ["", " ", "NA", "nan", "NaN", "null", "None", "N/A", "-nan"])
def test_missing_values_are_counted(write_csv: Write, way: str, word: str) -> None:
    path = write_csv(f"x,y\n1,1\n{word},2\n3,3\n{word},4\n")
    expected = "'x' of .* finite numbers only, got 2 missing, the first in line 3"
    with pytest.raises(InvalidParameter, match=expected):
        open_source(path, ["y", "x"])


@pytest.mark.parametrize("word", ["inf", "-Infinity", "1e400"])
def test_infinite_values_are_counted(write_csv: Write, way: str, word: str) -> None:
    with pytest.raises(InvalidParameter, match="got 1 missing, 2 infinite"):
        open_source(write_csv(f"x,y\n1,1\n{word},2\n,3\n{word},4\n"), "x")


@pytest.mark.parametrize("word", ["9007199254740993", "-9007199254740994", "1" * 40])
def test_integers_that_are_not_exact(write_csv: Write, way: str, word: str) -> None:
    path = write_csv(f"x,y\n1,1\n{word},2\n")
    with pytest.raises(InvalidParameter, match=r"2\*\*53"):
        open_source(path, "x")


def test_both_ways_read_thousands_of_rows_alike(
    write_csv: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file is longer than a block; each way is seen to do the reading itself."""
    rng = np.random.default_rng(11)
    bits = rng.integers(0, 2**64, 40_000, dtype=np.uint64).view(np.float64)
    numbers = np.where(np.abs(bits) < 2.0**53, bits, rng.standard_normal(40_000))
    lines = [f"row ü {k},{number!r},{k}" for k, number in enumerate(numbers.tolist())]
    path = write_csv("text,x,k\n" + "\n".join(lines), "long.csv.gz")
    monkeypatch.setattr(text_stream, "_BLOCK", 2**16)
    expected = np.column_stack([np.arange(40_000.0), numbers])
    slowly: list[int] = []
    original = delimited_text._by_standard_library

    def counted(rows: Any, conversions: Any) -> Any:
        slowly.append(len(rows))
        return original(rows, conversions)

    monkeypatch.setattr(delimited_text, "_by_standard_library", counted)
    fast = open_source(path, ["k", "x"]).take(np.arange(40_000))
    assert sum(slowly) < 3_000  # the first block, whose first rows were looked at
    slowly.clear()
    without_pyarrow(monkeypatch)
    slow = open_source(path, ["k", "x"]).take(np.arange(40_000))
    assert sum(slowly) == 40_000
    assert fast.tobytes() == slow.tobytes() == np.ascontiguousarray(expected).tobytes()


@given(
    rows=st.lists(
        st.tuples(
            st.floats(-1e15, 1e15),
            st.sampled_from(["", "a", "1", " ", '"', "\n", "\r", '"a"', ",", "\n\r1,"]),
        ),
        min_size=1,
        max_size=8,
    ),
    block=st.integers(1, 20),
)
def test_what_one_way_reads_the_other_reads_alike(
    rows: list[tuple[float, str]], block: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Raw text beside numbers, well-formed or not, in blocks of any length."""
    text = "x,t\n" + "".join(f"{number!r},{text}\n" for number, text in rows)
    alike(text.encode(), block, tmp_path_factory.getbasetemp() / "raw.csv")


def test_without_pyarrow_it_is_not_imported(write_csv: Write) -> None:
    path = write_csv("x,y\n1,2\n3,4\n")
    program = (
        "import sys; sys.modules['pyarrow'] = None; sys.modules['pandas'] = None\n"
        "from mustdp.data.opening import open_source\n"
        "print(open_source(sys.argv[1], ['y']).take([1, 0]).tolist())"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(path)], check=True, capture_output=True, text=True
    )
    assert done.stdout.strip() == "[[4.0], [2.0]]"


def test_damaged_packed_files(tmp_path: Path, way: str) -> None:
    content = gzip.compress(b"x,y\n" + b"1,2\n" * 100_000)
    for name, damaged in (
        ("short.csv.gz", content[: len(content) // 2]),
        ("other.csv.gz", b"x,y\n1,2\n"),
        ("changed.csv.gz", content[:-8] + b"\0" * 8),
    ):
        (tmp_path / name).write_bytes(damaged)
        with pytest.raises(InvalidParameter, match=f"{name} must be readable and undamaged"):
            open_source(tmp_path / name, "x")


def test_a_first_line_of_numbers_is_no_header(write_csv: Write) -> None:
    path = write_csv("1,2.5\n3,4\n")
    for columns in (0, "2.5", "x"):
        with pytest.raises(InvalidParameter, match=r"header=False if it is a record .* numbers"):
            open_source(path, columns)
    assert everything(Reading(path, header=False), "1") == [[2.5], [4.0]]
    assert everything(Reading(path, header=False), [0]) == [[1.0], [3.0]]
    path = write_csv("2020,2021\n3,4\n")
    assert everything(Reading(path, header=True), "2021") == [[4.0]]


def test_a_file_that_changed_is_refused_elsewhere(write_csv: Write) -> None:
    path = write_csv("x\n1\n2\n3\n")
    source = open_source(path, "x")
    sent = pickle.dumps(source)
    write_csv("x\n1\n2\n4\n")
    assert source.take([2]).tolist() == [[3.0]]
    with pytest.raises(InvalidParameter, match="must stay as it was"):
        pickle.loads(sent).take([2])
    path.unlink()
    with pytest.raises(InvalidParameter, match="must be readable wherever"):
        pickle.loads(sent).take([2])
    write_csv("x\n1\n2\n3\n")
    assert pickle.loads(sent).take([2]).tolist() == [[3.0]]


def test_a_worker_reads_the_file_once(write_csv: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    sent = pickle.dumps(open_source(write_csv("x\n5\n6\n7.5\n"), "x"))
    read: list[Any] = []
    original = delimited._read

    def watched(reading: Any, wanted: Any) -> Any:
        read.append(reading)
        return original(reading, wanted)

    monkeypatch.setattr(delimited, "_read", watched)
    for _ in range(3):
        assert pickle.loads(sent).take([2, 0]).tolist() == [[7.5], [5.0]]
    assert len(read) == 1
