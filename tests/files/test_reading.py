"""Reading a whole file: plain files only, and not more than was stated."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import mustdp as md
from mustdp.files.reading import read_file, read_start


def test_whole_files_and_their_beginnings(tmp_path: Path) -> None:
    path = tmp_path / "file"
    for content in (b"", b"x", b"0123456789" * 20000):
        path.write_bytes(content)
        assert read_file(path) == read_file(str(path), len(content)) == content
        for size in (0, 1, 7, len(content), len(content) + 1):
            assert read_start(path, size) == content[:size]


def test_more_than_stated_is_refused_unread(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"12345")
    with pytest.raises(md.InvalidParameter, match=r"file must be at most 4 bytes long, got more"):
        read_file(path, 4)
    os.truncate(path, 2**40)  # a terabyte without contents: reading it would not end well
    with pytest.raises(md.InvalidParameter, match="at most 1000 bytes"):
        read_file(path, 1000)
    assert read_start(path, 6) == b"12345\0"


def test_links_folders_and_pipes_are_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"secret")
    (tmp_path / "link").symlink_to(tmp_path / "file")
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    os.mkfifo(tmp_path / "pipe")
    for name in ("link", "dangling", "loop"):
        with pytest.raises(md.InvalidParameter, match=f"{name} must be a file, got a link"):
            read_file(tmp_path / name)
    with pytest.raises(
        md.InvalidParameter, match="pipe must be a file, got a device, pipe or socket"
    ):
        read_file(tmp_path / "pipe")
    with pytest.raises(md.InvalidParameter, match="must be a file, got a folder"):
        read_start(tmp_path, 5)
    with pytest.raises(md.InvalidParameter, match="must be a file, got a device"):
        read_start("/dev/zero", 5)
    with pytest.raises(FileNotFoundError):
        read_file(tmp_path / "nowhere")
