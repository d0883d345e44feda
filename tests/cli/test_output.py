"""Where results go and how numbers look."""

from __future__ import annotations

import io
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mustdp import NumericalFailure
from mustdp.cli.output import Answer, as_json, as_text, show
from mustdp.numerics.formatting import readable


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


ANSWER = Answer(
    {"a": 1},
    as_json=False,
    heading="Heading",
    columns=("name", "value"),
    rows=(("x", "1"), ("long", "22")),
    note="Note [not markup].",
    remark="remark",
)


def test_plain_text_is_aligned() -> None:
    assert as_text(ANSWER).splitlines() == [
        "Heading",
        "name  value",
        "   x      1",
        "long     22",
        "Note [not markup].",
    ]


def test_a_terminal_gets_a_table() -> None:
    out, err = Terminal(), io.StringIO()
    show(ANSWER, out, err)
    assert "─" in out.getvalue()
    assert "Note [not markup]." in out.getvalue()
    assert err.getvalue() == "mustdp: remark\n"


def test_a_terminal_is_not_flooded() -> None:
    out = Terminal()
    show(Answer({}, as_json=False, columns=("i",), rows=(("7",),) * 1000), out, io.StringIO())
    assert out.getvalue().count("7") == 40
    assert "960 more rows" in out.getvalue()


@pytest.mark.parametrize("width", [20, 40, 80, 200])
def test_no_terminal_is_too_narrow_for_a_bound(width: int, monkeypatch: Any) -> None:
    """Where the table does not fit, its rows are taken apart; no number is ever cut."""
    monkeypatch.setenv("COLUMNS", str(width))
    names = ("noise multiplier", "delta", "epsilon, lower", "epsilon, upper")
    cells = ("3.3257", "1e-05", "1.700", "1.999")
    out = Terminal()
    show(Answer({}, as_json=False, columns=names, rows=(cells,)), out, io.StringIO())
    for cell in cells:
        assert cell in out.getvalue()
    assert "…" not in out.getvalue()
    assert ("epsilon, upper: 1.999" in out.getvalue()) == (width < 80)


@pytest.mark.parametrize("width", range(30, 60))
def test_a_table_is_whole_or_taken_apart(width: int, monkeypatch: Any) -> None:
    """Whatever the width: words of a heading do not count as a place to break at."""
    monkeypatch.setenv("COLUMNS", str(width))
    out = Terminal()
    names, cells = ("delta", "epsilon, lower", "epsilon, upper"), ("1e-05", "0.722", "0.724")
    show(Answer({}, as_json=False, columns=names, rows=(cells,)), out, io.StringIO())
    assert "…" not in out.getvalue()
    assert all(word in out.getvalue() for word in (*names, *cells))


def test_json_is_pure_even_on_a_terminal() -> None:
    out = Terminal()
    show(Answer({"a": [1, 0.5]}, as_json=True, heading="no"), out, io.StringIO())
    assert out.getvalue() == '{"a": [1, 0.5]}\n'


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_number_that_is_none_is_a_failure(value: float) -> None:
    with pytest.raises(NumericalFailure):
        as_json({"delta": value})
    with pytest.raises(NumericalFailure):
        readable(value, "up")


@given(st.floats(min_value=-1e12, max_value=1e12, allow_subnormal=False))
def test_readable_numbers_are_close_and_bounds_on_their_side(value: float) -> None:
    low, near, high = (float(readable(value, t)) for t in ("down", "nearest", "up"))
    assert low <= value <= high
    assert low <= near <= high
    assert near == pytest.approx(value, rel=0.0051, abs=0)


@pytest.mark.parametrize(
    ("value", "text"),
    [(1.26593235e-73, "1.27e-73"), (0.2308, "0.231"), (2, "2"), (275.5, "276"), (12345.6, "12346"),
     (0.9996, "1.00"), (9.18e-5, "9.18e-5"), (-0.0561, "-0.0561"), (0.0, "0")],
)  # fmt: skip
def test_readable_examples(value: float, text: str) -> None:
    assert readable(value, "nearest") == text
