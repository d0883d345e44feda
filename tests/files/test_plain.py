"""Plain JSON: read strictly, written in one way."""

from __future__ import annotations

import hashlib
import json
import sys
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mustdp as md
from mustdp.files.reading import canonical, digest, read_json
from mustdp.limits import DEEPEST_JSON

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
)  # fmt: skip


@settings(max_examples=60)
@given(VALUES)
def test_what_was_written_is_read(value: Any) -> None:
    text = canonical(value, "it")
    for content in (text, text.encode("ascii"), json.dumps(value, ensure_ascii=False, indent=2)):
        if isinstance(content, str) and any(0xD800 <= ord(c) < 0xE000 for c in content):
            continue
        found = read_json(content, "it")
        assert found == value
        assert canonical(found, "it") == text
    assert digest(value, "it") == hashlib.sha256(text.encode()).hexdigest()


def test_one_text_for_one_value() -> None:
    assert canonical({"b": (1, -0.0), "a": "ε"}, "it") == '{"a":"\\u03b5","b":[1,-0.0]}'
    assert canonical({"a": "ε", "b": [1, -0.0]}, "it") == canonical({"b": (1, -0.0), "a": "ε"}, "")
    assert len({canonical(value, "it") for value in (1, 1.0, True, "1", [1], 0, -0.0, 0.0)}) == 8


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("", "valid JSON"),
        ("{", "valid JSON"),
        ("1 2", "valid JSON"),
        ("\ufeff1", "valid JSON"),
        ("NaN", "NaN is no number"),
        ("[-Infinity]", "-Infinity is no number"),
        ("1e999", "finite"),
        ('{"a": 1, "a": 1}', "a name occurs twice"),
        ('[{"b": {"a": 1, "\\u0061": 2}}]', "a name occurs twice"),
        ("9" * 5000, "valid JSON"),
        (b"\xff\xfe", "UTF-8, got other bytes at 0"),
        (b'"a\xe9"', "UTF-8, got other bytes at 2"),
        ('"a"'.encode("utf-16"), "UTF-8"),
        (b"\xed\xa0\x80", "UTF-8"),
        (None, "text, got NoneType"),
        (["x"], "text, got list"),
    ],
)
def test_what_is_not_json_is_refused(content: Any, reason: str) -> None:
    with pytest.raises(md.InvalidParameter, match=f"it must be.*{reason}"):
        read_json(content, "it")


def nested(depth: int, opening: str, closing: str, inner: str = "1") -> str:
    return opening * depth + inner + closing * depth


@pytest.mark.parametrize(("opening", "closing"), [("[", "]"), ('{"a":', "}"), ('[{"a":', "}]")])
@pytest.mark.parametrize("depth", [DEEPEST_JSON, 5 * sys.getrecursionlimit(), 10**6])
def test_deep_nesting_is_refused_not_recursed_into(depth: int, opening: str, closing: str) -> None:
    most = (DEEPEST_JSON - 1) // (opening.count("[") + opening.count("{"))
    read_json(nested(most, opening, closing), "it")
    for text in (nested(depth, opening, closing), opening * depth):
        with pytest.raises(md.InvalidParameter, match=r"nested at most 100 deep|valid JSON"):
            read_json(text, "it")


def test_brackets_in_text_are_not_nesting() -> None:
    assert read_json(json.dumps("[" * 10**5), "it") == "[" * 10**5
    assert read_json("[" + "[]," * 10**4 + "[]]", "it") == [[]] * (10**4 + 1)


def test_long_texts_are_refused() -> None:
    assert read_json("[1]", "it", 3) == [1]
    for content in ("[1 ]", b"[1 ]"):
        with pytest.raises(md.InvalidParameter, match="it must be at most 3 bytes long"):
            read_json(content, "it", 3)


def circular() -> list[Any]:
    found: list[Any] = []
    found.append(found)
    return found


@pytest.mark.parametrize(
    "value",
    [float("nan"), [float("inf")], {1: 2}, {"a": {None: 1}}, {1, 2}, b"x", 1j, object, circular(),
     10**5000, json.loads(nested(DEEPEST_JSON, "[", "]"))],
    ids=lambda value: type(value).__name__,
)  # fmt: skip
def test_what_could_not_be_read_back_is_not_written(value: object) -> None:
    with pytest.raises(md.InvalidParameter, match="it must be"):
        canonical(value, "it")
