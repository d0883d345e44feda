"""Replacing a file: the old content or the new one, whatever happens and whoever interferes."""

from __future__ import annotations

import errno
import os
import re
import secrets
import shutil
import stat
import tempfile
from pathlib import Path

import pytest

import mustdp as md
from mustdp.files import replacing as parts
from mustdp.files.replacing import SHARED, replace_file
from tests.files.processes import KILLED, child, die, ended, stopping_at

OLD, NEW = b"old" * 50, b"new content" * 90
TOKEN = "0" * 32


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return tmp_path / "file.json"


def names(target: Path) -> list[str]:
    return sorted(os.listdir(target.parent))


def part_of(target: Path, token: str = TOKEN) -> Path:
    return target.with_name(f".{target.name}.{token}.part")


def rest_of(target: Path, token: str = TOKEN) -> Path:
    """What a killed process leaves."""
    part = part_of(target, token)
    part.write_bytes(b"half")
    part.chmod(0o600)
    return part


def test_the_file_is_there_for_its_owner_and_nothing_beside_it(target: Path) -> None:
    for pieces in ((OLD,), (b"new ", b"content"), ()):
        assert replace_file(target, *pieces) == target
        assert target.read_bytes() == b"".join(pieces)
        assert stat.S_IMODE(target.stat().st_mode) == 0o600
    assert names(target) == ["file.json"]


def test_a_shared_file_follows_the_umask(target: Path) -> None:
    before = os.umask(0o027)
    try:
        replace_file(str(target), OLD, mode=SHARED)
    finally:
        os.umask(before)
    assert stat.S_IMODE(target.stat().st_mode) == 0o640


def test_order_of_what_reaches_the_disk(target: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []
    flush, move = os.fsync, os.replace

    def fsync(handle: int) -> None:
        done.append("folder" if stat.S_ISDIR(os.fstat(handle).st_mode) else "file")
        flush(handle)

    def replace(one: Path, other: Path) -> None:
        assert one.read_bytes() == NEW
        assert one.parent == other.parent
        done.append("move")
        move(one, other)

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(os, "replace", replace)
    replace_file(target, NEW)
    assert done == ["file", "move", "folder"]


def test_content_that_is_taken_in_small_bites(
    target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = os.write
    monkeypatch.setattr(os, "write", lambda handle, rest: write(handle, rest[:7]))
    replace_file(target, NEW)
    assert target.read_bytes() == NEW


@pytest.mark.parametrize("kind", ["link", "dangling link", "link to a folder", "folder", "pipe"])
def test_what_is_no_file_is_not_replaced(target: Path, kind: str) -> None:
    victim = target.with_name("victim")
    victim.write_bytes(OLD)
    if kind == "folder":
        target.mkdir()
    elif kind == "pipe":
        os.mkfifo(target)
    else:
        to = {"link": victim, "dangling link": target.with_name("nowhere")}
        target.symlink_to(to.get(kind, target.parent))
    before = os.lstat(target)
    with pytest.raises(md.InvalidParameter, match=r"file\.json must be a file or not be there yet"):
        replace_file(target, NEW)
    assert os.path.samestat(before, os.lstat(target))
    assert victim.read_bytes() == OLD
    assert names(target) == ["file.json", "victim"]


@pytest.mark.parametrize("kind", ["file", "link", "dangling link", "folder"])
def test_a_part_that_somebody_else_has_made(
    target: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """Even somebody who can foresee the name of the part is refused, and it is left to them."""
    monkeypatch.setattr(secrets, "token_hex", lambda size: "0" * (2 * size))
    target.write_bytes(OLD)
    victim, part = target.with_name("victim"), part_of(target)
    victim.write_bytes(OLD)
    if kind == "file":
        part.write_bytes(b"theirs")
        part.chmod(0o666)
    elif kind == "folder":
        part.mkdir()
    else:
        part.symlink_to(victim if kind == "link" else target.with_name("nowhere"))
    before = os.lstat(part)
    with pytest.raises(md.InvalidParameter, match=r"must not be there yet.*somebody else"):
        replace_file(target, NEW)
    assert os.path.samestat(before, os.lstat(part))
    assert (target.read_bytes(), victim.read_bytes()) == (OLD, OLD)
    assert not target.with_name("nowhere").exists()


def test_names_of_parts_cannot_be_foreseen(target: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Path] = []
    monkeypatch.setattr(os, "replace", lambda one, _: seen.append(one))
    for _ in range(20):
        replace_file(target, NEW)
    assert len(set(seen)) == 20
    for part in seen:
        assert re.fullmatch(r"\.file\.json\.[0-9a-f]{32}\.part", part.name)


@pytest.mark.parametrize("name", ["write", "fsync", "replace"])
@pytest.mark.parametrize(
    "problem", [OSError(errno.ENOSPC, "No space left on device"), KeyboardInterrupt()]
)
def test_what_fails_leaves_nothing_behind(
    target: Path, monkeypatch: pytest.MonkeyPatch, name: str, problem: BaseException
) -> None:
    target.write_bytes(OLD)
    inner, calls = getattr(os, name), []

    def fail(*given: object) -> object:
        calls.append(given)
        if len(calls) == 2 or name != "write":
            raise problem
        return inner(*given)  # the disk is full after the first piece

    with monkeypatch.context() as patched:
        patched.setattr(os, name, fail)
        with pytest.raises(type(problem)):
            replace_file(target, NEW, NEW)
    assert calls
    assert target.read_bytes() == OLD
    assert names(target) == ["file.json"]


def test_interrupted_right_after_the_part_was_made(
    target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inner = os.open

    def interrupted(path: Path, flags: int, *given: int) -> int:
        handle = inner(path, flags, *given)
        os.close(handle)
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "open", interrupted)
    with pytest.raises(KeyboardInterrupt):
        replace_file(target, NEW)
    monkeypatch.undo()
    assert names(target) == []


def test_a_folder_that_cannot_be_flushed(target: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file system without such flushing is accepted, a failing disk is not."""
    flush = os.fsync

    def failing(number: int) -> None:
        def fsync(handle: int) -> None:
            if stat.S_ISDIR(os.fstat(handle).st_mode):
                raise OSError(number, os.strerror(number))
            flush(handle)

        monkeypatch.setattr(os, "fsync", fsync)

    failing(errno.EINVAL)
    replace_file(target, OLD)
    failing(errno.EIO)
    with pytest.raises(OSError, match="Input/output"):
        replace_file(target, NEW)
    assert target.read_bytes() == NEW
    assert names(target) == ["file.json"]


def test_a_folder_that_is_not_there_or_not_to_be_written(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        replace_file(tmp_path / "nowhere" / "file", NEW)
    (tmp_path / "file").write_bytes(OLD)
    with pytest.raises(NotADirectoryError):
        replace_file(tmp_path / "file" / "file", NEW)


def test_a_read_only_folder() -> None:
    """In a child that is not root, which may write everywhere."""
    folder = Path(tempfile.mkdtemp())
    target = folder / "file.json"
    target.write_bytes(OLD)
    folder.chmod(0o555)

    def work() -> None:
        if os.geteuid() == 0:
            os.seteuid(65534)
        try:
            replace_file(target, NEW)
        except PermissionError:
            os._exit(5)

    try:
        assert ended(child(work)) == 5
        assert target.read_bytes() == OLD
        assert names(target) == ["file.json"]
    finally:
        folder.chmod(0o700)
        shutil.rmtree(folder)


@pytest.mark.parametrize("at", [1, 2])
def test_a_guard_that_refuses_keeps_the_old_content(target: Path, at: int) -> None:
    target.write_bytes(OLD)
    asked: list[list[str]] = []

    def guard() -> None:
        asked.append(names(target))
        if len(asked) == at:
            raise md.InvalidParameter("not now")

    with pytest.raises(md.InvalidParameter, match="not now"):
        replace_file(target, NEW, guard=guard)
    assert target.read_bytes() == OLD
    assert names(target) == ["file.json"]
    assert [len(seen) for seen in asked] == [1, 2][:at]  # before the part, and beside it


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("first", [False, True])
def test_killed_at_every_call_to_the_system(target: Path, after: bool, first: bool) -> None:
    """The target is the old or the new content, and the next writer finds a clean folder."""
    seen: set[bytes | None] = set()
    for call in range(1, 100):
        if first:
            target.unlink(missing_ok=True)
        else:
            replace_file(target, OLD)

        def work(call: int = call) -> None:
            stopping_at(call, after, die, setattr)
            replace_file(target, NEW)

        status = ended(child(work))
        found = target.read_bytes() if target.exists() else None
        seen.add(found)
        assert found in (NEW, None if first else OLD)
        if status == 0:
            break
        assert status == KILLED
        assert len(names(target)) <= 2
        replace_file(target, NEW)
        assert names(target) == ["file.json"]
    assert status == 0
    assert call > 15  # the calls were really counted
    assert seen == {NEW, None if first else OLD}


@pytest.mark.parametrize("after", [False, True])
def test_interrupted_at_every_call_to_the_system(target: Path, after: bool) -> None:
    """Nothing is left beside the target, and that is the old or the new content."""
    target.write_bytes(OLD)

    def interrupt() -> None:
        raise KeyboardInterrupt

    for call in range(1, 100):
        with pytest.MonkeyPatch.context() as patched:
            made = stopping_at(call, after, interrupt, patched.setattr)
            interrupted = False
            try:
                replace_file(target, NEW)
            except KeyboardInterrupt:
                interrupted = True
        assert interrupted == (len(made) >= call)
        assert target.read_bytes() == (NEW if "replace" in made[: call - (not after)] else OLD)
        assert names(target) == ["file.json"]
        if not interrupted:
            break
        target.write_bytes(OLD)
    assert call > 15


def test_rests_of_killed_processes_are_removed(target: Path) -> None:
    for token in (TOKEN, "f" * 32):
        rest_of(target, token)
    replace_file(target, NEW)
    assert names(target) == ["file.json"]


def test_what_is_not_surely_a_rest_stays(target: Path) -> None:
    kept = {
        "of another file": rest_of(target.with_name("other.json")),
        "longer name": rest_of(target.with_name(f"x.{target.name}")),
        "no random digits": rest_of(target, "1"),
        "other digits": rest_of(target, "A" * 32),
        "earlier name": target.with_name(f"{target.name}.part"),
        "for others to write": rest_of(target, "1" * 32),
        "two names": rest_of(target, "2" * 32),
        "second name": target.with_name("second"),
        "link": part_of(target, "3" * 32),
        "folder": part_of(target, "4" * 32),
        "pipe": part_of(target, "5" * 32),
    }
    kept["earlier name"].write_bytes(b"theirs")
    kept["for others to write"].chmod(0o620)
    kept["second name"].hardlink_to(kept["two names"])
    kept["link"].symlink_to(kept["second name"])
    kept["folder"].mkdir()
    os.mkfifo(kept["pipe"])
    replace_file(target, NEW)
    assert names(target) == sorted(["file.json", *(path.name for path in kept.values())])


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_rests_of_somebody_else_stay(target: Path) -> None:
    rest = rest_of(target)
    os.chown(rest, 12345, -1)
    replace_file(target, NEW)
    assert rest.exists()


def test_a_part_that_is_being_written_stays(target: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    move = os.replace

    def meanwhile(one: Path, other: Path) -> None:
        monkeypatch.setattr(os, "replace", move)
        replace_file(target, OLD)
        assert one.exists()
        move(one, other)

    monkeypatch.setattr(os, "replace", meanwhile)
    replace_file(target, NEW)
    assert target.read_bytes() == NEW
    assert names(target) == ["file.json"]


def test_a_part_taken_for_a_rest_before_it_is_locked(
    target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[Path] = []
    create = parts.open_new

    def swept(path: Path, mode: int) -> int:
        handle = create(path, mode)
        made.append(path)
        if len(made) < 4:
            parts.sweep(target)
            assert not path.exists()
        return handle

    monkeypatch.setattr(parts, "open_new", swept)
    replace_file(target, NEW)
    assert len(made) == 4
    assert target.read_bytes() == NEW
    made[:] = []
    monkeypatch.setattr(parts, "_ATTEMPTS", 3)
    with pytest.raises(OSError, match="something removes new files"):
        replace_file(target, OLD)
    assert target.read_bytes() == NEW


def test_without_locks_files_are_replaced_and_rests_stay(
    target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on Windows: nobody could tell a rest from a part that is being written."""
    monkeypatch.setattr(parts, "_FCNTL", None)
    rest = rest_of(target)
    replace_file(target, NEW)
    assert target.read_bytes() == NEW
    assert names(target) == sorted([rest.name, "file.json"])


def test_a_file_system_without_locks(target: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import fcntl

    def unsupported(*_: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", unsupported)
    rest = rest_of(target)
    replace_file(target, NEW)
    assert target.read_bytes() == NEW
    assert names(target) == sorted([rest.name, "file.json"])


def test_many_writers_at_once(target: Path) -> None:
    """Without a lock the last one wins; nobody reads a mixture and no part is lost or left."""
    contents = [bytes([65 + writer]) * 5000 for writer in range(4)]

    def work(content: bytes) -> None:
        for _ in range(15):
            replace_file(target, content)
            if target.read_bytes() not in contents:
                raise RuntimeError("a mixture")

    writers = [child(lambda content=content: work(content)) for content in contents]  # type: ignore[misc]
    assert [ended(writer) for writer in writers] == [0] * 4
    assert target.read_bytes() in contents
    assert names(target) == ["file.json"]
