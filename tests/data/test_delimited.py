"""CSV and TSV files; the standard library reads them for comparison."""

from __future__ import annotations

import csv
import gzip
import pickle
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mustdp.data import opening
from mustdp.data import text as text_files
from mustdp.data.columns import Category, Conversion, Day, as_request, select
from mustdp.data.opening import open_records, open_source
from mustdp.errors import InvalidParameter
from mustdp.types import Reading

pytest.importorskip("pyarrow")
Write = Callable[..., Path]


def outcome(data: Any, wanted: Any) -> Any:
    """All that is read of a file: the numbers to the last bit, or the refusal."""
    try:
        blocks = list(open_records(data, wanted).blocks())
    except InvalidParameter as refusal:
        return str(refusal)
    values = b"".join(block.values.tobytes() for block in blocks)
    return values, b"".join(block.missing.tobytes() for block in blocks)


def by_standard_library(content: bytes, reading: Reading, wanted: Any) -> Any:
    """The same by ``csv`` and value by value, None where that refuses the file."""
    text = content.removeprefix(b"\xef\xbb\xbf").decode("utf-8", "surrogateescape")
    lines = [line + "\n" for line in text.removesuffix("\n").split("\n")]
    try:
        parsed = csv.reader(lines, delimiter=reading.delimiter or ",", strict=True)
        rows = [row for row in parsed if row]
    except csv.Error:
        return None
    if not rows or any(len(row) != len(rows[0]) for row in rows):
        return None
    names = [name.strip() for name in rows[0]]
    if reading.header is False:
        names = [str(at) for at in range(len(names))]
    else:
        del rows[0]
    found = []
    try:
        for one in map(as_request, wanted):
            (place,) = select(names, one.column, "the file")
            conversion = Conversion(one, reading, "")
            found.append(conversion.texts([row[place.at] for row in rows], lambda k: ""))
    except InvalidParameter:
        return None
    values = np.stack([column.values for column in found], axis=1)
    missing = np.zeros(values.shape, dtype=bool)
    for k, column in enumerate(found):
        missing[:, k] = False if column.missing is None else column.missing
    return values.tobytes(), missing.tobytes()


def alike(content: bytes, block: int, path: Path, *wanted: Any, reading: Any = None) -> Any:
    """What is read is what the standard library reads, in blocks of any length."""
    path.write_bytes(content)
    chosen, reading = wanted or ("x",), reading or Reading(path)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(text_files, "_BLOCK", block)
        found = outcome(reading, chosen)
    if not isinstance(found, str):
        assert found == by_standard_library(content, reading, chosen)
    elif not re.search("not look like names|zero bytes in its", found) and b"\r\r" not in content:
        # Names that look like a record, and odd line ends, are refused here alone.
        assert by_standard_library(content, reading, chosen) is None, found
    return found


def everything(path: Any, columns: Any) -> list[list[float]]:
    source = open_source(path, columns)
    rows: list[list[float]] = source.take(np.arange(source.n)).tolist()
    return rows


def test_names_are_found_whatever_is_around_them(write_csv: Write) -> None:
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


def test_forms_of_numbers(write_csv: Write) -> None:
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
def test_other_forms_are_refused(write_csv: Write, form: str) -> None:
    path = write_csv(f'x,y\n1,2\n"{form}",3\n')
    with pytest.raises(
        InvalidParameter,
        match=r"column 'x' of .* must hold numbers, got a text that is not one in line 3",
    ):
        open_source(path, "x")
    assert everything(path, "y") == [[2.0], [3.0]]


def test_words_for_yes_and_no(write_csv: Write) -> None:
    path = write_csv("x,y\ntrue,1\n FALSE ,true\nTrue,0\n")
    assert everything(path, "x") == [[1.0], [0.0], [1.0]]
    with pytest.raises(InvalidParameter, match=r"'y' .* alone, got 1 such words"):
        open_source(path, "y")


def test_quotation_marks_and_lines_in_other_columns(write_csv: Write) -> None:
    text = 'name,x\n"a ""quoted"", one\nand a line",1\nplain,"2"\n"",3\nmid"dle,4\n"x\r\n\r\ny",5\n'
    assert everything(write_csv(text), "x") == [[1], [2], [3], [4], [5]]


def test_other_columns_need_not_be_utf8(write_csv: Write) -> None:
    assert everything(write_csv("name,x\n\udcfc,1\n\udcff\udcfe,2\n"), ["x"]) == [[1], [2]]


def test_blank_lines_are_skipped(write_csv: Write) -> None:
    assert everything(write_csv("x\n1\n\n2\r\n\r\n3\n\n"), "x") == [[1], [2], [3]]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('x,t\n"1"2,a\n', "line 2 of .* must begin a well-formed"),
        ('x,t\n1,"open\n2,b\n3,c\n', "line 2 of .* must begin a well-formed"),
        ('x,t\n1,a\n2,b\n3,"open\n', "line 4 of .* must begin a well-formed"),
        ("x,t\n1,a\n2,b,c\n", "line 3 of .* must have 2 fields .* got 3"),
        ("x,t\n1,a\n2\n", "line 3 of .* must have 2 fields .* got 1"),
        ("x,t\n1,a\r2,b\n\n", "line 2 of .* must begin a well-formed"),
        ("x,t\r1,a\r2,b\r", "line 1 of .* must begin a well-formed"),
        ("x,t\n", "must have at least one row of data"),
        ("x,t", "must have at least one row of data"),
        ("x,t\n\n\r\n", "must have at least one row of data"),
        ("\n\n", "must have a line of names"),
        ("x\0,t\n1,2\n", "encoding must be given for .* got zero bytes"),
    ],
)
def test_malformed_files_are_refused(write_csv: Write, text: str, message: str) -> None:
    with pytest.raises(InvalidParameter, match=message):
        open_source(write_csv(text), "x")


@pytest.mark.parametrize("word", ["", " ", "NA", "nan", "NaN", "null", "None", "N/A", "-nan"])
def test_missing_values_are_counted(write_csv: Write, word: str) -> None:
    path = write_csv(f"x,y\n1,1\n{word},2\n3,3\n{word},4\n")
    expected = "'x' of .* finite numbers only, got missing values, the first in line 3"
    with pytest.raises(InvalidParameter, match=expected):
        open_source(path, ["y", "x"])


@pytest.mark.parametrize("word", ["inf", "-Infinity", "1e400"])
def test_infinite_values_are_counted(write_csv: Write, word: str) -> None:
    with pytest.raises(InvalidParameter, match="got missing, infinite"):
        open_source(write_csv(f"x,y\n1,1\n{word},2\n,3\n{word},4\n"), "x")


@pytest.mark.parametrize("word", ["9007199254740993", "-9007199254740994", "1" * 40])
def test_integers_that_are_not_exact(write_csv: Write, word: str) -> None:
    path = write_csv(f"x,y\n1,1\n{word},2\n")
    with pytest.raises(InvalidParameter, match=r"2\*\*53"):
        open_source(path, "x")


def test_thousands_of_rows_to_the_last_bit(
    write_csv: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file is longer than a block, and no value of it is converted one by one."""
    rng = np.random.default_rng(11)
    bits = rng.integers(0, 2**64, 40_000, dtype=np.uint64).view(np.float64)
    numbers = np.where(np.abs(bits) < 2.0**53, bits, rng.standard_normal(40_000))
    lines = [f'"row ü, {k}",{number!r},{k}' for k, number in enumerate(numbers.tolist())]
    path = write_csv("text,x,k\n" + "\n".join(lines), "long.csv.gz")
    monkeypatch.setattr(text_files, "_BLOCK", 2**16)
    monkeypatch.setattr(Conversion, "texts", None)
    found = open_source(path, ["k", "x"]).take(np.arange(40_000))
    expected = np.column_stack([np.arange(40_000.0), numbers])
    assert found.tobytes() == np.ascontiguousarray(expected).tobytes()


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
def test_any_text_is_read_as_the_standard_library_does(
    rows: list[tuple[float, str]], block: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Raw text beside numbers, well-formed or not, in blocks of any length."""
    text = "x,t\n" + "".join(f"{number!r},{text}\n" for number, text in rows)
    alike(text.encode(), block, tmp_path_factory.getbasetemp() / "raw.csv")


def test_damaged_packed_files(tmp_path: Path) -> None:
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
    original = opening._all_rows

    def watched(reading: Any, wanted: Any) -> Any:
        read.append(reading)
        return original(reading, wanted)

    monkeypatch.setattr(opening, "_all_rows", watched)
    for _ in range(3):
        assert pickle.loads(sent).take([2, 0]).tolist() == [[7.5], [5.0]]
    assert len(read) == 1


@pytest.mark.parametrize(
    "encoding", ["utf-16", "utf-16-be", "utf-32", "latin-1", "cp1252", "utf-7"]
)
def test_encodings(write_csv: Write, encoding: str, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_csv("größe,t\n1.5,Süd\n-2,Öst\n", encoding=encoding)
    for block in (1, 5, 2**22):
        monkeypatch.setattr(text_files, "_BLOCK", block)
        reading = Reading(path, encoding=encoding)
        assert everything(reading, "größe") == [[1.5], [-2.0]]
        (codes,) = zip(*rows_of(reading, Category("t", ("Öst", "Süd"))), strict=True)
        assert codes == (1.0, 0.0)


def rows_of(data: Any, *wanted: Any) -> list[list[float]]:
    return [row for block in open_records(data, wanted).blocks() for row in block.values.tolist()]


def test_another_encoding_than_the_stated_one(write_csv: Write) -> None:
    path = write_csv("x,t\n1,Süd\n", encoding="latin-1")
    with pytest.raises(InvalidParameter, match=r"must be text in the encoding utf-8, got Unicode"):
        open_source(Reading(path, encoding="utf-8"), "x")
    with pytest.raises(InvalidParameter, match=r"encoding must be given for .* zero bytes"):
        open_source(write_csv("x,t\n1,2\n", "wide.csv", "utf-16-le"), "x")


@pytest.mark.parametrize(
    ("decimal", "thousands", "forms"),
    [
        (",", None, {"1,5": 1.5, "-0,25": -0.25, ",5": 0.5, "5,": 5.0, "2,5E2": 250.0}),
        (",", ".", {"1.234,5": 1234.5, "12.345.678": 12345678.0, "1,5": 1.5, "+1.000": 1000.0}),
        (".", ",", {"1,234.5": 1234.5, "1,000,000": 1e6, "999": 999.0, "-1,000": -1000.0}),
        (".", "'", {"1'234.5": 1234.5}),
        (",", "\u202f", {"1\u202f234,5": 1234.5}),
        (".", " ", {" 1 234 ": 1234.0}),
    ],
)  # fmt: skip
def test_decimal_and_thousands_marks(
    write_csv: Write, decimal: str, thousands: str | None, forms: dict[str, float]
) -> None:
    path = write_csv("t;x\n" + "".join(f"a;{form}\n" for form in forms))
    reading = Reading(path, delimiter=";", decimal=decimal, thousands=thousands)
    assert everything(reading, "x") == [[number] for number in forms.values()]


@pytest.mark.parametrize(
    ("decimal", "thousands", "form"),
    [
        (",", None, "1.5"), (",", None, "1.234"), (",", ".", "12.34"), (",", ".", "1234.567"),
        (",", ".", "1.234.56"), (",", ".", "1,234.5"), (".", ",", "1,5"), (".", ",", "12,34"),
        (".", ",", ",123"), (".", ",", "1.234,567"), (".", " ", "1 23"), (".", "'", "1''234"),
        (",", ".", "1.234,5,6"), (",", ".", "."), (",", ".", ","),
    ],
)  # fmt: skip
def test_numbers_that_are_written_otherwise(
    write_csv: Write, decimal: str, thousands: str | None, form: str
) -> None:
    """Each would be another number without the marks: refused, not guessed."""
    path = write_csv(f"t;x\na;1\nb;{form}\n")
    with pytest.raises(
        InvalidParameter, match="must hold numbers, got a text that is not one in l"
    ):
        open_source(Reading(path, delimiter=";", decimal=decimal, thousands=thousands), "x")


def test_large_integers_and_marks_with_thousands(write_csv: Write) -> None:
    path = write_csv("x\n9.007.199.254.740.993\n")
    with pytest.raises(InvalidParameter, match=r"2\*\*53"):
        open_source(Reading(path, decimal=",", thousands="."), "x")
    path = write_csv("t;x\na;-9,5\nb;NA\nc;1,5\n")
    reading = Reading(path, delimiter=";", decimal=",", marks=("-9,5",), missing=0)
    assert everything(reading, "x") == [[0.0], [0.0], [1.5]]


def test_formats_of_dates(write_csv: Write) -> None:
    path = write_csv("d\n02.01.1970\n31.12.1969\n")
    assert rows_of(Reading(path, dates="%d.%m.%Y"), Day("d")) == [[1.0], [-1.0]]
    frame = pytest.importorskip("pandas").DataFrame({"d": ["01/02/1970"]})
    assert rows_of(Reading(frame, dates="%m/%d/%Y"), Day("d")) == [[1.0]]
    with pytest.raises(
        InvalidParameter, match=r"must hold dates .* got one that is not one in line 2"
    ):
        rows_of(path, Day("d"))
    with pytest.raises(
        InvalidParameter, match=r"must hold dates .* got one that is not one in line 3"
    ):
        rows_of(Reading(path, dates="%m.%d.%Y"), Day("d"))
