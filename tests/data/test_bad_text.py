"""Any bytes as a text file: numbers as the standard library reads them, or one clear line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from mustdp.data import text as text_files
from mustdp.data.columns import Category, Day, Number
from mustdp.types import Reading
from tests.data.test_delimited import alike, outcome

pytest.importorskip("pyarrow")

#: What must not come out: a text, a number that is not exact, a date, bytes that are not UTF-8.
SECRETS = ["HIV", "91234567890123457", "1973-05-19", "caf\xe9", "73519.25"]
FIELDS = st.sampled_from(
    [
        *SECRETS, "1", "-2.5", " 3 ", "+4", "1e3", "1e999", "inf", "nan", "NA", "na", " ?", "", " ",
        "true", "FALSE", "2020-02-30", "2020-02-29T10:00", "20200229", "north", " north ", "North",
        "\ufeff", "\ufeff5", "1_000", "٣", "0x10", "a\0b", "\x1c7", "\x0b8", "\u00a09", "-9",
        "-9.0", "9" * 400, "NaN", "N/A", "<NA>", "#N/A", "None", "null", "-nan",
    ]
)  # fmt: skip
QUOTED = st.sampled_from(['"{}"', '"{}', '{}"', '"{}""', '"a\n{}"', '"a\r\n{}"', '"{},"', '{}"x"'])
ENDS = st.sampled_from(["\n", "\n", "\n", "\r\n", "\r", "\n\n", "\r\n\r\n", "\n\r\n", ""])
WANTED = (
    Number("x", missing="drop"),
    Category("t", ("north", "1", "?")),
    Day("d", missing=0),
)


@st.composite
def fields(draw: Any) -> str:
    field = draw(FIELDS)
    return str(draw(QUOTED).format(field) if draw(st.integers(0, 9)) == 0 else field)


@st.composite
def lines(draw: Any) -> str:
    width = draw(st.sampled_from([3, 3, 3, 3, 3, 3, 3, 2, 4]))
    return ",".join(draw(fields()) for _ in range(width)) + str(draw(ENDS))


def encoded(text: str, encoding: str) -> bytes:
    return text.encode(encoding, "replace" if encoding == "latin-1" else "strict")


def check(found: Any) -> None:
    """A refusal is one line, and none of the secrets is in it."""
    if isinstance(found, str):
        assert "\n" not in found
        for secret in SECRETS:
            assert secret not in found.replace("\\xe9", "\xe9"), found


@settings(max_examples=120, deadline=None)
@given(
    text=st.lists(lines(), max_size=6).map("".join),
    encoding=st.sampled_from(["utf-8", "utf-8", "utf-8-sig", "latin-1", "utf-16"]),
    block=st.integers(1, 40),
    wanted=st.sampled_from([WANTED, WANTED[:1], WANTED[1:2], WANTED[2:], (Number("x"),)]),
)
@example(text="1,north,2020-02-29\n\ufeff2,a,20200101\n", encoding="utf-8", block=5, wanted=WANTED)
@example(text="1,north,2020-02-29\n\ufeff2,a,20200101\n", encoding="utf-8", block=19, wanted=WANTED)
@example(text="true,a,NA\n,b,NA\n", encoding="utf-8", block=8, wanted=WANTED)
def test_any_text_below_a_line_of_names(
    text: str, encoding: str, block: int, wanted: Any, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.getbasetemp() / "below.csv"
    check(alike(encoded("x,t,d\n" + text, encoding), block, path, *wanted))


@settings(max_examples=80, deadline=None)
@given(
    first=lines(),
    text=st.lists(lines(), max_size=4).map("".join),
    header=st.sampled_from([None, False, True]),
    block=st.integers(1, 40),
    column=st.sampled_from([0, "0", "x", 5, "HI"]),
)
def test_any_text_as_the_first_line(
    first: str, text: str, header: bool | None, block: int, column: Any,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:  # fmt: skip
    """A name may be quoted where nothing looks like a record; so one thing here always does."""
    path = tmp_path_factory.getbasetemp() / "first.csv"
    content = ("73519.25," + first + text).encode()
    path.write_bytes(content)
    wanted = Number(column, missing="drop")
    found = alike(content, block, path, wanted, reading=Reading(path, header=header))
    if column != "HI":
        check(found)


@settings(max_examples=150, deadline=None)
@given(content=st.binary(max_size=200), block=st.integers(1, 60), header=st.booleans())
def test_any_bytes(
    content: bytes, block: int, header: bool, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.getbasetemp() / "bytes.csv"
    found = alike(content, block, path, Number(0, 0.0), reading=Reading(path, header=header))
    assert not isinstance(found, str) or "\n" not in found


@settings(max_examples=100, deadline=None)
@given(rows=st.lists(st.tuples(FIELDS, FIELDS), min_size=1, max_size=6), by=st.sampled_from(";\t|"))
def test_every_row_is_used_or_marked(
    rows: list[tuple[str, str]], by: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Rows read are rows used and rows missing: nothing is lost on the way."""
    path = tmp_path_factory.getbasetemp() / "rows.txt"
    text = "".join(f"{one}{by}{other}\n" for one, other in [("t", "x"), *rows])
    reading = Reading(path, delimiter=by)
    found = alike(text.encode(), 7, path, Number("x", "drop"), Category("t", ("north",)),
                  reading=reading)  # fmt: skip
    if isinstance(found, str):
        check(found)
        return
    values, missing = (
        np.frombuffer(part, kind) for part, kind in zip(found, ("f8", "?"), strict=True)
    )
    assert len(values) == len(missing) == 2 * len(rows)
    marked = {"nan", "na", "?", "", "n/a", "<na>", "#n/a", "none", "null", "-nan"}
    expected = [other.strip().lower() in marked for _, other in rows]
    assert missing.reshape(-1, 2)[:, 0].tolist() == expected
    codes = [0.0 if one.strip(" ") == "north" else 1.0 for one, _ in rows]
    assert values.reshape(-1, 2)[:, 1].tolist() == codes


@pytest.mark.parametrize("mark", ["", '"'])
def test_long_fields(tmp_path: Path, mark: str) -> None:
    """Fields are as long as records may be; the standard library reads 131072 characters."""
    path = tmp_path / "x.csv"
    path.write_text(f"x,t\n1,b\n2,{mark}{'a' * 500_000}{mark}\n3,b\n")
    for block in (2**22, 1000):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(text_files, "_BLOCK", block)
            values, _ = outcome(path, [Number("x"), Category("t", ("b",))])
        assert np.frombuffer(values).tolist() == [1, 0, 2, 1, 3, 0]


def test_a_mark_of_the_byte_order_inside_of_a_file(tmp_path: Path) -> None:
    """pyarrow drops it in front of a block."""
    text = "x,t\n\ufeff1,a\n\ufeff2,b\n"
    for block in (1, 4, 5, 11, 2**22):
        found = alike(text.encode(), block, tmp_path / "x.csv")
        assert "column 'x'" in found
        assert found.endswith("a text that is not one in line 2")


def test_pieces_do_not_change_what_is_refused(tmp_path: Path) -> None:
    found = alike(b"x\n" + b"1\n" * 50 + b"true\n", 10, tmp_path / "x.csv")
    assert "true and false alone, got 1 such words" in found
