"""The file of a run: one run at a time, no links, and files of earlier versions."""

from __future__ import annotations

import hashlib
import io
import os
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import mustdp as md
from mustdp.errors import InvalidParameter
from tests.seams import checkpoint_file
from tests.training.networks import runs

STATE = {"weights": torch.arange(4.0), "steps": 3}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "run.pt"


def written(path: Path) -> Any:
    file = checkpoint_file(path)
    file.write(STATE)
    return file


def names(path: Path) -> list[str]:
    return sorted(os.listdir(path.parent))


def test_a_file_of_another_version_is_refused_by_its_version(path: Path) -> None:
    buffer = io.BytesIO()
    torch.save(STATE, buffer)
    body = buffer.getvalue()
    checksum = hashlib.sha256(body).hexdigest().encode()
    path.write_bytes(b"mustdp training checkpoint 1\n" + checksum + b"\n" + body)
    with pytest.raises(InvalidParameter, match="of version 2, got version 1"):
        checkpoint_file(path).read()
    path.unlink()
    written(path)
    later = path.read_bytes().replace(b"checkpoint 2\n", b"checkpoint 3\n")
    path.write_bytes(later)
    with pytest.raises(InvalidParameter, match="of version 2, got version 3"):
        checkpoint_file(path).read()


def test_written_outside_of_held_the_same_rules_hold(path: Path) -> None:
    file = written(path)
    file.write({**STATE, "steps": 4})
    assert checkpoint_file(path).read()["steps"] == 4
    with pytest.raises(InvalidParameter, match="written by another run"):
        checkpoint_file(path).write(STATE)
    with file.held(), pytest.raises(InvalidParameter, match="in use by another run"):
        checkpoint_file(path).write(STATE)
    assert names(path) == ["run.pt", "run.pt.lock"]


@pytest.mark.parametrize("replaced", [False, True])
def test_a_lock_that_is_taken_away_ends_the_run(path: Path, replaced: bool) -> None:
    """The step that would have followed is not shown, and the file is as it was."""
    shown: list[int] = []
    lock = path.with_name("run.pt.lock")

    def meddle(event: Any) -> None:
        shown.append(event.steps)
        if event.steps == 2:
            lock.unlink()
            if replaced:
                lock.touch()

    run = runs.trainer(checkpoint=path, callbacks=[meddle])
    with pytest.raises(InvalidParameter, match="was removed or replaced"):
        run.train()
    assert shown == [1, 2]
    ledger = md.Ledger.from_json(checkpoint_file(path).read()["ledger"])
    assert run.steps == ledger.steps == 2


def test_two_trainers_do_not_end_on_one_file(path: Path) -> None:
    """The lock is deleted in the middle and another run starts: only that one goes on."""
    other_ended: list[int] = []

    def meddle(event: Any) -> None:
        if event.steps == 2 and not other_ended:
            path.with_name("run.pt.lock").unlink()
            other_ended.append(runs.trainer(checkpoint=path).train().steps)

    run = runs.trainer(checkpoint=path, callbacks=[meddle])
    with pytest.raises(InvalidParameter, match=r"was written by another run|removed or replaced"):
        run.train()
    assert other_ended == [6]
    assert md.Ledger.from_json(checkpoint_file(path).read()["ledger"]).steps == 6


def test_a_lock_deleted_while_the_file_is_moved(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both checks before the move have passed, and another run begins: neither shows a step."""
    shown: list[tuple[str, int]] = []
    others: list[Any] = []
    move = os.replace

    def meddling(source: Any, target: Any) -> None:
        if Path(target) == path and len(shown) == 1 and not others:
            path.with_name("run.pt.lock").unlink()
            others.append(runs.trainer(checkpoint=path, callbacks=[note("other")]))
        move(source, target)

    def note(name: str) -> Any:
        return lambda event: shown.append((name, event.steps))

    run = runs.trainer(checkpoint=path, callbacks=[note("first")])
    monkeypatch.setattr(os, "replace", meddling)
    with pytest.raises(InvalidParameter, match="was removed or replaced"):
        run.train()
    with pytest.raises(InvalidParameter, match="was written by another run"):
        others[0].train()
    assert shown == [("first", 1)]


def test_another_file_put_in_place_meanwhile(path: Path) -> None:
    first = written(path)
    older = path.read_bytes()
    with first.held():
        first.write({**STATE, "steps": 4})
        path.write_bytes(older)
        with pytest.raises(InvalidParameter, match="written by another run"):
            first.write({**STATE, "steps": 5})
        path.unlink()
        with pytest.raises(InvalidParameter, match="or removed"):
            first.write({**STATE, "steps": 5})
    assert names(path) == ["run.pt.lock"]


@pytest.mark.parametrize("kind", ["link", "dangling link", "folder"])
def test_what_is_no_file_is_no_checkpoint(path: Path, kind: str) -> None:
    target = path.with_name("target.pt")
    if kind == "link":
        written(target)
        path.with_name("target.pt.lock").unlink()
    if kind == "folder":
        path.mkdir()
    else:
        path.symlink_to(target)
    before = names(path)
    assert checkpoint_file(path).exists()
    with pytest.raises(InvalidParameter, match=r"run\.pt"):
        runs.trainer(checkpoint=path)
    with pytest.raises(InvalidParameter):
        checkpoint_file(path).write(STATE)
    assert set(names(path)) - {"run.pt.lock"} == set(before)


def test_parts_made_beforehand_and_rests(path: Path) -> None:
    victim = path.with_name("victim")
    victim.write_bytes(b"theirs")
    path.with_name("run.pt.part").symlink_to(victim)
    rest = path.with_name(f".run.pt.{'a' * 32}.part")
    rest.write_bytes(b"half")
    rest.chmod(0o600)
    written(path)
    assert victim.read_bytes() == b"theirs"
    assert names(path) == ["run.pt", "run.pt.lock", "run.pt.part", "victim"]
