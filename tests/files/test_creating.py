"""A new file appears complete and replaces nothing."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

import mustdp as md
from mustdp.files.replacing import create_file, drop_second_names


def test_a_file_appears_with_its_content(tmp_path: Path) -> None:
    target = tmp_path / "new"

    def fill(part: Path) -> None:
        assert not target.exists()
        part.write_bytes(b"content")

    assert create_file(target, fill)
    assert target.read_bytes() == b"content"
    assert target.stat().st_mode & 0o777 == 0o600
    assert os.listdir(tmp_path) == ["new"]
    assert not create_file(target, lambda part: pytest.fail("there is one"))


def test_whoever_comes_first_is_left_alone(tmp_path: Path) -> None:
    target = tmp_path / "new"

    def fill(part: Path) -> None:
        target.write_bytes(b"first")

    assert not create_file(target, fill)
    assert target.read_bytes() == b"first"
    assert os.listdir(tmp_path) == ["new"]


def test_nothing_is_left_if_filling_fails(tmp_path: Path) -> None:
    def fill(part: Path) -> None:
        part.write_bytes(b"half")
        raise OSError("full")

    with pytest.raises(OSError, match="full"):
        create_file(tmp_path / "new", fill)
    assert os.listdir(tmp_path) == []


def test_links_are_refused(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "target")
    with pytest.raises(md.InvalidParameter, match="link"):
        create_file(tmp_path / "link", lambda part: None)


def test_second_names_go_and_nothing_else(tmp_path: Path) -> None:
    target, second = tmp_path / "new", tmp_path / f".new.{'0' * 32}.part"
    target.write_bytes(b"content")
    other = tmp_path / f".new.{'1' * 32}.part"
    other.write_bytes(b"somebody is writing")
    os.link(target, second)
    drop_second_names(target)
    assert sorted(os.listdir(tmp_path)) == [other.name, "new"]
    drop_second_names(tmp_path / "none")


def test_order_of_what_reaches_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The content before the name, and the name before the call returns."""
    target = tmp_path / "new"
    done: list[str] = []
    flush, link = os.fsync, os.link

    def fsync(handle: int) -> None:
        found = os.fstat(handle)
        folder = stat.S_ISDIR(found.st_mode)
        assert target.exists() == folder
        assert folder or found.st_size == len(b"content")
        done.append("folder" if folder else "file")
        flush(handle)

    def linked(one: Path, other: Path, **given: bool) -> None:
        done.append("link")
        link(one, other, **given)

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(os, "link", linked)

    def fill(part: Path) -> None:
        part.write_bytes(b"content")

    assert create_file(target, fill)
    assert done == ["file", "link", "folder"]
