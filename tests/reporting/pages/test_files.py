"""Files written in one move: the old content or the new one, and nothing beside it."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from tests.seams import page


def test_what_was_written_is_there_and_nothing_else(tmp_path: Path) -> None:
    target = tmp_path / "page.html"
    for title in ("first ε", "second"):
        assert page(title).write(target) == target
    assert target.read_text(encoding="utf-8") == page("second").html()
    assert os.listdir(tmp_path) == ["page.html"]
    mask = os.umask(0)
    os.umask(mask)
    assert stat.S_IMODE(target.stat().st_mode) == 0o666 & ~mask


@pytest.mark.parametrize("name", ["fsync", "replace"])
@pytest.mark.parametrize("problem", [OSError("full"), KeyboardInterrupt()])
def test_a_failure_leaves_the_old_content(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, problem: BaseException
) -> None:
    target = tmp_path / "page.html"
    target.write_text("old")

    def fail(*_: object) -> None:
        raise problem

    monkeypatch.setattr(os, name, fail)
    with pytest.raises(type(problem)):
        page("New").write(target)
    monkeypatch.undo()
    assert target.read_text() == "old"
    assert os.listdir(tmp_path) == ["page.html"]


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        page("New").write(tmp_path / "nowhere" / "page.html")
    assert os.listdir(tmp_path) == []
