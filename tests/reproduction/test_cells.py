"""Verdicts: what judge() accepts, and the wrong values close by that it rejects."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import mustdp as md
from mustdp.reproduction.cells import (
    DRAWINGS,
    Bound,
    Item,
    PaperCell,
    PaperTable,
    Picture,
    half_unit,
    judge,
    new,
    number,
    published,
)
from mustdp.reproduction.report import entry


@given(st.floats(-1e9, 1e9, allow_subnormal=False), st.integers(1, 6))
def test_rounded_bounds_still_hold(value: float, digits: int) -> None:
    low, high = (float(number(value, digits, toward)) for toward in ("down", "up"))
    assert low <= value <= high
    assert high - low <= 1.001 * abs(value) * 10.0 ** (1 - digits)


@pytest.mark.parametrize(
    ("bound", "shown"), [("upper", "0.1235"), ("lower", "0.1234"), ("plain", "0.1234")]
)
@pytest.mark.parametrize("column", ["epsilon certified", "the pair attains", "any other words"])
def test_what_a_cell_is_decides_its_rounding_and_no_title(
    column: str, bound: Bound, shown: str
) -> None:
    assert entry(new("row", column, 0.12341, bound=bound)).text == shown
    assert entry(judge("row", column, 0.2, 0.12341, half_unit=0.1, bound=bound)).text == (
        f"{shown} (0.2)"
    )


def test_what_is_no_number_is_not_shown() -> None:
    with pytest.raises(md.NumericalFailure):
        number(math.nan)


def verdict(paper: float | None, ours: float, **more: Any) -> str:
    return judge("row", "column", paper, ours, **{"half_unit": 0.0, **more}).verdict


@pytest.mark.parametrize(
    ("printed", "inside", "outside"),
    [
        ("0.194", (0.1935, 0.19449, 0.1945), (0.1934, 0.1946)),
        ("6.50e-35", (6.495e-35, 6.505e-35), (6.494e-35, 6.506e-35)),
        ("29", (28.5, 29.49), (28.49, 29.51)),
        ("0", (0.0,), (1e-300, -1e-300)),
    ],
)
def test_the_printed_digit_decides(
    printed: str, inside: tuple[float, ...], outside: tuple[float, ...]
) -> None:
    unit = half_unit(printed)
    assert {verdict(float(printed), value, half_unit=unit) for value in inside} == {"matches"}
    assert {verdict(float(printed), value, half_unit=unit) for value in outside} == {"differs"}


def test_three_combined_standard_errors_count_on_top() -> None:
    given = {"half_unit": 0.5, "error": 3.0, "paper_error": 4.0}
    assert verdict(100.0, 115.49, **given) == "matches"
    assert verdict(100.0, 115.51, **given) == "differs"
    assert verdict(100.0, 109.49, half_unit=0.5, error=3.0) == "matches"
    assert verdict(100.0, 109.51, half_unit=0.5, error=3.0) == "differs"


def test_a_reason_explains_and_cannot_make_a_match() -> None:
    cell = judge("row", "column", 1.0, 2.0, half_unit=0.1, reason="the paper counts twice")
    assert (cell.verdict, cell.reason) == ("differs, explained", "the paper counts twice")
    cell = judge("row", "column", 1.0, 1.05, half_unit=0.1, reason="the paper counts twice")
    assert (cell.verdict, cell.reason) == ("matches", "")


def test_without_a_printed_number_a_cell_is_new() -> None:
    assert verdict(None, 1.0) == "new"


@pytest.mark.parametrize(
    "change",
    [
        {"ours": math.nan},
        {"ours": math.inf},
        {"paper": math.nan},
        {"half_unit": math.nan},
        {"half_unit": -1.0},
        {"error": math.nan},
        {"error": -1.0},
        {"paper_error": math.nan},
        {"paper_error": -1.0},
    ],
)
def test_what_is_not_a_number_is_not_judged(change: dict[str, float]) -> None:
    given: dict[str, Any] = {"paper": 1.0, "ours": 1.0, "half_unit": 0.1, **change}
    with pytest.raises(md.InvalidParameter):
        judge("row", "column", given.pop("paper"), given.pop("ours"), **given)


def test_unknown_words_are_refused() -> None:
    with pytest.raises(md.InvalidParameter, match="verdict"):
        PaperCell("row", "column", 1.0, 1.0, None, "fine")  # type: ignore[arg-type]
    with pytest.raises(md.InvalidParameter, match="bound"):
        new("row", "column", 1.0, bound="certified")  # type: ignore[arg-type]
    with pytest.raises(md.InvalidParameter, match="kind"):
        PaperTable("name", "title", (), "ours")  # type: ignore[arg-type]
    with pytest.raises(md.InvalidParameter, match="needs"):
        Item("name", "title", lambda settings, progress: None, ("cifar",))  # type: ignore[arg-type,return-value]


GOOD = {"ratio": [0.5], "difference": [0.1], "caption": "one point"}


def test_a_picture_is_one_of_the_drawings_and_its_data() -> None:
    picture = Picture("figure-3", "A", "four_kinds", GOOD, "alt")
    assert picture.data["ratio"] == [0.5]
    assert picture.figure().axes
    assert "four_kinds" in DRAWINGS


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"drawing": "print"}, "drawing must be one of"),
        ({"drawing": "mustdp.reproduction.figures:four_kinds"}, "drawing must be one of"),
        ({"drawing": ["four_kinds"]}, "drawing must be one of"),
        ({"data": {**GOOD, "theme": "dark"}}, "data must be"),
        ({"data": {**GOOD, "path": "somewhere"}}, "data must be"),
        ({"data": {"ratio": [0.5]}}, "data must be"),
        ({"data": [0.5]}, "data must be"),
        ({"name": "../outside"}, "picture's name"),
        ({"name": "/etc/outside"}, "picture's name"),
        ({"name": "a\n"}, "picture's name"),
        ({"name": ""}, "picture's name"),
        ({"name": 3}, "picture's name"),
    ],
)
def test_other_pictures_are_refused(change: dict[str, Any], named: str) -> None:
    given: dict[str, Any] = {
        "name": "a", "title": "A", "drawing": "four_kinds", "data": GOOD, "alt": "alt",
    }  # fmt: skip
    with pytest.raises(md.InvalidParameter, match=named):
        Picture(**(given | change))


def test_published_numbers_are_named() -> None:
    with pytest.raises(md.InvalidParameter, match="part"):
        published("8")
