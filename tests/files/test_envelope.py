"""The envelope: what was sealed comes back, and nothing else is taken for it."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import pytest

import mustdp as md
from mustdp.files.reading import Envelope, canonical

ENVELOPE = Envelope("some format", 3, "thing")
BODY: dict[str, Any] = {"name": "ε", "values": [1, 2.5e-7, None, True], "inner": {"a": {}}}
TEXT = ENVELOPE.seal_text(BODY)
BYTES = b"\x00body\nof bytes\xff" * 3
SEALED = b"".join(ENVELOPE.seal_bytes(BYTES))


def sealed(**changed: Any) -> str:
    """A text with other contents and a right checksum."""
    whole = {**json.loads(TEXT), **changed}
    whole.pop("checksum")
    text = json.dumps(whole, sort_keys=True, separators=(",", ":"))
    return json.dumps({**whole, "checksum": hashlib.sha256(text.encode()).hexdigest()})


def test_what_was_sealed_comes_back() -> None:
    for indent in (None, 0, 1, 4):
        text = ENVELOPE.seal_text(BODY, indent=indent)
        for content in (text, text.encode(), text + "\n"):
            assert ENVELOPE.open_text(content, "it") == BODY
    assert ENVELOPE.open_text(sealed(), "it") == BODY
    for body in (b"", b"x", BYTES, bytes(10**6)):
        head, same = ENVELOPE.seal_bytes(body)
        assert same is body
        assert len(head) == ENVELOPE.head
        assert ENVELOPE.open_bytes(head + body, "it") == body


def test_the_forms_are_as_described() -> None:
    assert list(json.loads(TEXT)) == ["format", "version", "name", "values", "inner", "checksum"]
    assert TEXT.count("\n") > 5
    line, checksum, rest = SEALED.split(b"\n", 2)
    assert (line, rest) == (b"some format 3", BYTES)
    assert checksum.decode() == hashlib.sha256(BYTES).hexdigest()


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("[]", "it is no thing: its format must be 'some format'"),
        ("{}", "no thing"),
        (sealed(format="other"), "no thing"),
        (sealed(format=["some format"]), "no thing"),
        (sealed(version=2), "must be a thing of version 3, got version 2"),
        (sealed(version=3.0), "got version 3.0"),
        (sealed(version="3"), "got version '3'"),
        (sealed(version=None), "got version None"),
        (TEXT.replace("ε", "e").replace("\\u03b5", "e"), "damaged"),
        (json.dumps({**json.loads(TEXT), "checksum": None}), "damaged"),
        (json.dumps({**json.loads(TEXT), "more": 1}), "damaged"),
        (json.dumps({k: v for k, v in json.loads(TEXT).items() if k != "checksum"}), "damaged"),
        (TEXT.replace('"version": 3', '"version": 3, "version": 3'), "twice"),
    ],
)
def test_texts_that_are_something_else(content: str, reason: str) -> None:
    with pytest.raises(md.InvalidParameter, match=reason):
        ENVELOPE.open_text(content, "it")


def test_versions_that_equal_one_without_being_it() -> None:
    first = Envelope("some format", 1, "thing")
    with pytest.raises(md.InvalidParameter, match="got version True"):
        first.open_text(sealed(version=True), "it")


def test_a_text_cut_off_anywhere_is_refused() -> None:
    content = TEXT.encode()
    for length in range(len(content)):
        with pytest.raises(md.InvalidParameter):
            ENVELOPE.open_text(content[:length], "it")


def test_a_flipped_bit_of_a_text_changes_no_value() -> None:
    """Nearly all are refused; the rest only spell the same values in another way (1e5, 1E5)."""
    content, accepted = TEXT.encode(), 0
    for place in range(len(content)):
        for bit in range(8):
            flipped = bytearray(content)
            flipped[place] ^= 1 << bit
            try:
                found = ENVELOPE.open_text(bytes(flipped), "it")
            except md.InvalidParameter:
                continue
            assert canonical(found, "it") == canonical(BODY, "it")
            accepted += 1
    assert accepted <= 8


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "it is no thing: its format must be 'some format'"),
        (b"some format", "no thing"),
        (b"other format 3\n" + SEALED[14:], "no thing"),
        (SEALED.replace(b"format 3", b"format 4"), "thing of version 3, got version 4"),
        (SEALED.replace(b"format 3", b"format x"), "no thing"),
        (SEALED.replace(b"format 3\n", b"format 33"), "no thing"),
        (SEALED + b"\n", "damaged"),
        (b"\n" + SEALED, "no thing"),
        (SEALED[:14] + SEALED[14:78].upper() + SEALED[78:], "damaged"),
        (SEALED[:78] + b" " + SEALED[79:], "damaged"),
        (SEALED[: ENVELOPE.head], "damaged"),
    ],
)
def test_bytes_that_are_something_else(content: bytes, reason: str) -> None:
    with pytest.raises(md.InvalidParameter, match=reason):
        ENVELOPE.open_bytes(content, "it")


def test_bytes_cut_off_or_flipped_anywhere_are_refused() -> None:
    for place in range(len(SEALED)):
        with pytest.raises(md.InvalidParameter):
            ENVELOPE.open_bytes(SEALED[:place], "it")
        for bit in range(8):
            flipped = bytearray(SEALED)
            flipped[place] ^= 1 << bit
            with pytest.raises(md.InvalidParameter):
                ENVELOPE.open_bytes(bytes(flipped), "it")


def test_sizes_are_limited_for_reading_and_for_writing() -> None:
    fits = Envelope("some format", 3, "thing", len(TEXT))
    assert fits.open_text(fits.seal_text(BODY), "it") == BODY
    tight = Envelope("some format", 3, "thing", len(TEXT) - 1)
    with pytest.raises(md.InvalidParameter, match="a thing must be at most"):
        tight.seal_text(BODY)
    with pytest.raises(md.InvalidParameter, match="it must be at most"):
        tight.open_text(TEXT, "it")
    small = Envelope("some format", 3, "thing", len(SEALED) - 1)
    with pytest.raises(md.InvalidParameter, match="a thing must be at most"):
        small.seal_bytes(BYTES)
    with pytest.raises(md.InvalidParameter, match="it must be at most"):
        small.open_bytes(SEALED, "it")


@pytest.mark.parametrize("name", ["format", "version", "checksum"])
def test_names_of_the_envelope_are_not_for_the_body(name: str) -> None:
    with pytest.raises(md.InvalidParameter, match="must leave checksum, format, version free"):
        ENVELOPE.seal_text({name: 1})


def test_what_cannot_be_read_back_is_not_sealed() -> None:
    for value in (float("nan"), {1: 2}, {1, 2}):
        with pytest.raises(md.InvalidParameter, match="a thing must be plain JSON"):
            ENVELOPE.seal_text({"value": value})
