"""The lock: one process at a time, and a lock that was taken away is noticed."""

from __future__ import annotations

import fcntl
import os
import signal
import time
from pathlib import Path

import pytest

import mustdp as md
from mustdp.files import replacing as room
from mustdp.files.replacing import Lock, held, replace_file
from tests.files.processes import child, ended


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "file.lock"


def free(path: Path) -> bool:
    try:
        Lock(path, "file").release()
    except md.InvalidParameter:
        return False
    return True


def test_one_at_a_time(path: Path) -> None:
    with held(path, "file") as lock:
        lock.check()
        assert path.stat().st_mode & 0o777 == 0o600
        with pytest.raises(md.InvalidParameter, match=r"file is in use by another run.*file\.lock"):
            Lock(path, "file")
        assert ended(child(lambda: os._exit(free(path)))) == 0
    assert free(path)
    assert path.exists()  # for ever: whoever waits has it open
    with pytest.raises(md.InvalidParameter, match="must be locked by this process"):
        lock.check()
    lock.release()


def test_it_ends_with_its_process(path: Path) -> None:
    """However that ends: there is no stale lock."""

    def hold() -> None:
        Lock(path, "file")
        os.kill(os.getpid(), signal.SIGKILL)

    assert ended(child(hold)) == -signal.SIGKILL
    assert path.exists()
    assert free(path)


def test_a_failure_while_it_is_held(path: Path) -> None:
    with pytest.raises(KeyboardInterrupt), held(path, "file"):
        raise KeyboardInterrupt
    assert free(path)


@pytest.mark.parametrize("how", ["removed", "replaced", "moved", "link", "folder"])
def test_a_lock_that_is_taken_away_is_noticed(tmp_path: Path, path: Path, how: str) -> None:
    target = tmp_path / "file"
    with held(path, "file") as lock:
        replace_file(target, b"ours", guard=lock.check)
        if how == "moved":
            path.rename(tmp_path / "elsewhere")
        else:
            path.unlink()
        if how == "replaced":
            path.touch()
        elif how == "link":
            path.symlink_to(target)
        elif how == "folder":
            path.mkdir()
        with pytest.raises(md.InvalidParameter, match="was removed or replaced"):
            lock.check()
        with pytest.raises(md.InvalidParameter, match="was removed or replaced"):
            replace_file(target, b"too late", guard=lock.check)
    assert target.read_bytes() == b"ours"
    left = {"removed": {"file"}, "moved": {"file", "elsewhere"}}
    assert set(os.listdir(tmp_path)) == left.get(how, {"file", "file.lock"})


def test_two_holders_after_the_lock_was_removed_do_not_both_write(
    tmp_path: Path, path: Path
) -> None:
    target = tmp_path / "file"
    with held(path, "file") as one:
        path.unlink()
        with held(path, "file") as two:
            replace_file(target, b"two", guard=two.check)
            with pytest.raises(md.InvalidParameter, match="another run may be writing"):
                replace_file(target, b"one", guard=one.check)
        with pytest.raises(md.InvalidParameter):
            one.check()
    assert target.read_bytes() == b"two"
    assert free(path)


def test_a_lock_removed_in_the_middle_of_a_write(tmp_path: Path, path: Path) -> None:
    target = tmp_path / "file"
    flush = os.fsync

    def removing(handle: int) -> None:
        flush(handle)
        path.unlink(missing_ok=True)

    with held(path, "file") as lock, pytest.MonkeyPatch.context() as patched:
        patched.setattr(os, "fsync", removing)
        with pytest.raises(md.InvalidParameter, match="was removed or replaced"):
            replace_file(target, b"too late", guard=lock.check)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("kind", ["link", "dangling link", "folder", "pipe"])
def test_what_is_no_file_is_no_lock(tmp_path: Path, path: Path, kind: str) -> None:
    victim = tmp_path / "victim"
    victim.touch()
    if kind == "folder":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to(victim if kind == "link" else tmp_path / "nowhere")
    with pytest.raises(md.InvalidParameter, match=r"file\.lock must be a file"):
        Lock(path, "file")
    assert sorted(os.listdir(tmp_path)) == ["file.lock", "victim"]


def test_a_forked_child_neither_holds_nor_releases_it(path: Path) -> None:
    with held(path, "file") as lock:

        def meddle() -> None:
            try:
                lock.check()
            except md.InvalidParameter:
                lock.release()
                os._exit(5)

        assert ended(child(meddle)) == 5
        lock.check()
        assert not free(path)
        lingering = child(lambda: time.sleep(60))
    try:
        assert free(path)  # although the child still has the descriptor
    finally:
        os.kill(lingering, signal.SIGKILL)
        ended(lingering)


def test_removed_between_being_opened_and_being_locked(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flock, calls = fcntl.flock, []

    def removing(handle: int, what: int) -> None:
        calls.append(what)
        if len(calls) < 4:
            path.unlink()
        flock(handle, what)

    monkeypatch.setattr(fcntl, "flock", removing)
    with held(path, "file") as lock:
        lock.check()
        assert len(calls) == 4
    calls[:] = []
    monkeypatch.setattr(room, "_ATTEMPTS", 3)
    with pytest.raises(OSError, match="removed again and again"):
        Lock(path, "file")


def test_without_flock_a_lock_is_refused(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "_FCNTL", None)
    monkeypatch.setattr("sys.platform", "win32")
    with pytest.raises(
        md.InvalidParameter, match=r"file must be on a system with file locks .*win32"
    ):
        Lock(path, "file")
    assert not path.exists()


def test_writers_that_wait_for_each_other_lose_nothing(tmp_path: Path, path: Path) -> None:
    target = tmp_path / "count"
    target.write_text("0")

    def add() -> None:
        for _ in range(20):
            with held(path, "count", wait=True) as lock:
                count = int(target.read_text()) + 1
                replace_file(target, str(count).encode(), guard=lock.check)

    writers = [child(add) for _ in range(4)]
    assert [ended(writer) for writer in writers] == [0] * 4
    assert target.read_text() == "80"
    assert sorted(os.listdir(tmp_path)) == ["count", "file.lock"]
