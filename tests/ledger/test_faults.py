"""Killed, cut off, full, read-only, many at once: what was released was charged, and just once.

A release is a line that is written after the charge has returned.
"""

from __future__ import annotations

import errno
import os
import random
import resource
import shutil
import signal
import subprocess
import threading
import time
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import pytest

import mustdp as md
from tests.files.processes import child, ended
from tests.seams import set_ledger_clock

QUIET = md.laplace(shift=1e-4)


def make(path: Path, epsilon: float = 50.0) -> None:
    with md.Ledger.open(path, epsilon=epsilon, delta=1e-6) as ledger:
        for times in (1, 10, 100):
            ledger.check(QUIET, times=times)  # what children will need is known before they start


def release_for_ever(path: Path, lines: int, name: int) -> None:
    with md.Ledger.open(path) as ledger:
        attempt = 0
        while True:
            attempt += 1
            label = f"{name}:{attempt}"
            entry = ledger.charge(QUIET, label=label)
            os.write(lines, f"{entry.number} {label}\n".encode())


def test_killed_at_any_moment(tmp_path: Path) -> None:
    path, seen = tmp_path / "office.ledger", tmp_path / "released"
    make(path)
    lines = os.open(seen, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    rng, name = random.Random(12), 0
    running: list[int] = []
    begun, pace = time.monotonic(), 0.06
    while time.monotonic() < begun + 6.0 or (pace < 20.0 and seen.read_bytes().count(b"\n") <= 5):
        while len(running) < 5:
            name += 1
            running.append(child(partial(release_for_ever, path, lines, name)))
        time.sleep(rng.uniform(0.0, pace))
        if time.monotonic() >= begun + 6.0:
            pace *= 1.5  # on a busy machine nobody gets as far as releasing before it is killed
        victim = running.pop(rng.randrange(len(running)))
        os.kill(victim, signal.SIGKILL)
        assert ended(victim) == -signal.SIGKILL
    for victim in running:
        os.kill(victim, signal.SIGKILL)
        ended(victim)
    os.close(lines)
    released = [line.split(" ") for line in seen.read_text().splitlines()]
    with md.Ledger.open(path) as ledger:
        entries = {entry.number: entry.label for entry in ledger.entries()}
        assert ledger.verify().entries == len(entries)
        ledger.charge(QUIET)
    assert len(released) > 5
    assert len({number for number, _ in released}) == len(released)
    for number, label in released:
        assert entries[int(number)] == label
    assert len(set(entries.values())) == len(entries)  # no attempt is charged twice
    assert len(released) <= len(entries) <= len(released) + name
    assert sorted(os.listdir(tmp_path)) == ["office.ledger", "office.ledger-journal", "released"]


def spend_all(path: Path, lines: int) -> None:
    with md.Ledger.open(path) as ledger:
        while True:
            try:
                entry = ledger.charge(md.laplace(shift=0.125))
            except md.BudgetExceeded:
                return
            os.write(lines, f"{entry.number}\n".encode())


def test_many_processes_and_threads_spend_exactly_the_limit(tmp_path: Path) -> None:
    path, seen = tmp_path / "office.ledger", tmp_path / "released"
    make(path, epsilon=4.0)
    shutil.copy(path, tmp_path / "alone")
    spend_all(tmp_path / "alone", os.open(os.devnull, os.O_WRONLY))
    with md.Ledger.open(tmp_path / "alone") as alone:
        most = len(alone.entries())
    assert most >= 32  # 4 / 0.125, or more by the filter
    lines = os.open(seen, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    children = [child(lambda: spend_all(path, lines)) for _ in range(5)]
    threads = [threading.Thread(target=spend_all, args=(path, lines)) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [ended(number) for number in children] == [0] * 5
    os.close(lines)
    with md.Ledger.open(path) as ledger:
        assert [entry.number for entry in ledger.entries()] == list(range(1, most + 1))
        assert ledger.verify().entries == most
        assert ledger.spent() <= 4.0
    assert sorted(map(int, seen.read_text().split())) == list(range(1, most + 1))


def test_one_ledger_object_for_many_threads(tmp_path: Path) -> None:
    path = tmp_path / "office.ledger"
    make(path)
    with md.Ledger.open(path) as ledger:

        def charge() -> None:
            for _ in range(10):
                ledger.charge(QUIET)

        threads = [threading.Thread(target=charge) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert ledger.verify().entries == 60


def test_a_forked_child_makes_its_own_connection(tmp_path: Path) -> None:
    path = tmp_path / "office.ledger"
    make(path)
    with md.Ledger.open(path) as ledger:
        ledger.charge(QUIET, label="parent")

        def work() -> None:
            ledger.charge(QUIET, label="child")
            ledger.close()

        assert ended(child(work)) == 0
        ledger.charge(QUIET, label="parent")
        assert [entry.label for entry in ledger.entries()] == ["parent", "child", "parent"]
        ledger.verify()


def test_a_fork_waits_for_the_charges_of_other_threads(tmp_path: Path) -> None:
    path = tmp_path / "office.ledger"
    make(path)
    with md.Ledger.open(path) as ledger:

        def charge() -> None:
            for _ in range(30):
                ledger.charge(QUIET)

        def work() -> None:
            ledger.charge(QUIET, label="child")

        thread = threading.Thread(target=charge)
        thread.start()
        children = [child(work) for _ in range(6)]
        assert [ended(number) for number in children] == [0] * 6
        thread.join()
        assert ledger.verify().entries == 36

        with ledger._store.writing():
            assert ended(child(work)) == 1  # forked by the thread that is charging
        assert ledger.verify().entries == 36


def test_many_make_the_same_ledger_at_once(tmp_path: Path) -> None:
    path = tmp_path / "office.ledger"

    def work() -> None:
        with md.Ledger.open(path, epsilon=50.0, delta=1e-6) as ledger:
            ledger.charge(QUIET)

    children = [child(work) for _ in range(6)]
    assert [ended(number) for number in children] == [0] * 6
    with md.Ledger.open(path) as ledger:
        assert ledger.verify().entries == 6
    assert sorted(os.listdir(tmp_path)) == ["office.ledger", "office.ledger-journal"]


def test_killed_while_it_is_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After the file is in place, but before its first name is gone."""
    path = tmp_path / "office.ledger"

    def work() -> None:
        with monkeypatch.context() as patch:
            patch.setattr("os.unlink", lambda name: os._exit(77))
            md.Ledger.open(path, epsilon=50.0, delta=1e-6)

    assert ended(child(work)) == 77
    assert len(os.listdir(tmp_path)) == 2
    with md.Ledger.open(path, epsilon=50.0, delta=1e-6) as ledger:
        ledger.charge(QUIET)
    assert sorted(os.listdir(tmp_path)) == ["office.ledger", "office.ledger-journal"]


def test_cut_off_at_every_byte_of_the_last_page(tmp_path: Path) -> None:
    path, torn = tmp_path / "office.ledger", tmp_path / "torn"
    make(path)
    with md.Ledger.open(path) as ledger:
        for number in range(30):
            ledger.charge(QUIET, label="x" * number)
    shutil.copy(path, torn)
    whole = path.stat().st_size
    for length in range(whole - 1, whole - 4097, -1):
        os.truncate(torn, length)
        with pytest.raises(md.InvalidParameter, match=r"damaged|no ledger"):
            md.Ledger.open(torn)
    with md.Ledger.open(path) as ledger:
        assert ledger.verify().entries == 30


def test_wrong_bytes_never_make_it_cheaper(tmp_path: Path) -> None:
    path, torn = tmp_path / "office.ledger", tmp_path / "torn"
    make(path)
    with md.Ledger.open(path) as ledger:
        for _ in range(8):
            ledger.charge(QUIET)
        spent, entries = ledger.spent(), ledger.entries()
    content, rng = path.read_bytes(), random.Random(5)
    refused = 0
    for place in rng.sample(range(100, len(content)), 400):
        changed = bytearray(content)
        changed[place] ^= 1 << rng.randrange(8)
        torn.write_bytes(changed)
        try:
            with md.Ledger.open(torn) as ledger:
                ledger.verify()
                assert (ledger.spent(), ledger.entries()) == (spent, entries)
        except md.InvalidParameter:
            refused += 1
    assert refused > 20


def test_the_clock_may_go_backwards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "office.ledger"
    make(path)
    with md.Ledger.open(path) as ledger:
        ledger.charge(QUIET)
        long_ago = datetime(1999, 1, 1, tzinfo=UTC).isoformat()
        set_ledger_clock(monkeypatch, long_ago)
        ledger.charge(QUIET)
        monkeypatch.undo()
        ledger.charge(QUIET)
        assert [entry.when.year > 2000 for entry in ledger.entries()] == [True, False, True]
        assert [entry.number for entry in ledger.entries()] == [1, 2, 3]
        ledger.verify()


def fill_up(path: Path) -> None:
    """Charge until nothing more can be written; then the ledger is as it was."""
    with md.Ledger.open(path) as ledger:
        number = 0
        try:
            while number < 5000:
                number = ledger.charge(QUIET, label="x" * 200).number
        except OSError as problem:
            if problem.errno not in (errno.ENOSPC, errno.EIO):
                raise
            found = ledger.verify().entries
            if found != number or number == 0:
                raise AssertionError(f"{found} entries after {number}") from None
            return
        raise AssertionError("the disk did not fill up")


def test_a_file_that_may_not_grow(tmp_path: Path) -> None:
    path = tmp_path / "office.ledger"
    make(path)

    def work() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        size = path.stat().st_size + 3 * 4096
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
        fill_up(path)

    assert ended(child(work)) == 0
    with md.Ledger.open(path) as ledger:
        number = ledger.verify().entries
        assert number > 0
        assert ledger.charge(QUIET).number == number + 1


def test_a_full_disk(tmp_path: Path) -> None:
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=128k", "tmpfs", str(tmp_path)],
        capture_output=True,
        check=False,
    )
    if mounted.returncode != 0:
        pytest.skip("a small file system cannot be mounted here")
    try:
        path = tmp_path / "office.ledger"
        make(path)
        fill_up(path)
        with md.Ledger.open(path) as ledger:
            assert ledger.verify().entries > 0
    finally:
        subprocess.run(["umount", str(tmp_path)], check=True)


def test_a_folder_that_may_only_be_read(tmp_path: Path) -> None:
    path = tmp_path / "office.ledger"
    make(path)
    with md.Ledger.open(path) as ledger:
        ledger.charge(QUIET)
    (tmp_path / "office.ledger-journal").unlink()
    path.chmod(0o444)
    tmp_path.chmod(0o555)

    def work() -> None:
        if os.geteuid() == 0:
            for folder in tmp_path.parents:  # private ones of the test runner
                if folder.stat().st_uid == 0 and "pytest" in folder.as_posix():
                    folder.chmod(0o755)
            os.setuid(65534)
        with md.Ledger.open(path, who="nobody") as ledger:
            if len(ledger.entries()) != 1 or ledger.verify().entries != 1:
                os._exit(3)
            try:
                ledger.charge(QUIET)
            except PermissionError:
                os._exit(0)
        os._exit(4)

    try:
        assert ended(child(work)) == 0
    finally:
        tmp_path.chmod(0o755)
