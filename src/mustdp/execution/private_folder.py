"""The one folder for temporary copies of records: private to this user, and always removed.

joblib maps large arrays from files, and Dask spills to disk what does not fit into memory. Both do
it inside a folder of this process: mode 0700, its name 128 random bits, its open descriptor locked.
It is removed when the last run of the process ends, by SIGTERM and SIGHUP too. After SIGKILL the
next run of the same user removes it: a folder of that name whose lock no process holds is left
over. Its path stays the same for the life of a process, because the processes of joblib outlive a
run and remember it.
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
import signal
import stat
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Any

from mustdp.extras import installed
from mustdp.files.replacing import PLAINLY, leads_to

#: None on Windows, where folders have no such modes either and leftovers are left to the system.
_FCNTL = installed("fcntl")
_NAME = re.compile("mustdp-records-[0-9a-f]{32}")
#: Memory that looks like a folder, on Linux, and the free bytes from which on it is used.
_SHARED_MEMORY, _LEAST_FREE = Path("/dev/shm"), 2 * 10**9
#: A folder that was taken for a leftover in the moment before it was locked is made again so often.
_ATTEMPTS = 20
#: Signals that end a process and would leave the folder behind.
_SIGNALS = ("SIGTERM", "SIGHUP")


class _Here:
    """The folder of this process and how many runs use it."""

    def __init__(self) -> None:
        self.guard = threading.Lock()
        #: Of no place at first; kept from then on.
        self.path = Path()
        self.handle = -1
        self.runs = 0
        self.process = os.getpid()
        self.before: dict[int, Any] = {}


_here = _Here()


@contextmanager
def private_folder() -> Iterator[Path]:
    """The folder of this process; made by the first run that asks, removed by the last."""
    here = _ours()
    with here.guard:
        _watch(here)
        if here.runs == 0:
            remove_leftovers()
            _make(here)
        here.runs += 1
    try:
        yield here.path
    finally:
        with here.guard:
            here.runs -= 1
            if here.runs == 0:
                _remove(here)
                _watch_no_more(here)


def remove_leftovers() -> None:
    """Remove the folders of processes of this user that were killed."""
    if _FCNTL is None:
        return
    for place in _places():
        with suppress(OSError):
            for name in os.listdir(place):
                if _NAME.fullmatch(name):
                    _remove_leftover(place / name)


def _ours() -> _Here:
    """The state of this very process: a forked child has a folder of its own."""
    global _here
    if _here.process != os.getpid():
        _here = _Here()
    return _here


def _make(here: _Here) -> None:
    place = _places()[0]
    if not here.path.name or here.path.parent != place:
        here.path = place / f"mustdp-records-{secrets.token_hex(16)}"
    for _ in range(_ATTEMPTS):
        here.path.mkdir(mode=0o700)  # refused if anything is there
        if _FCNTL is None:
            return
        here.handle = os.open(here.path, os.O_RDONLY | PLAINLY)
        with suppress(
            OSError
        ):  # no locks on this file system: then no other process can take them either
            _FCNTL.flock(here.handle, _FCNTL.LOCK_EX | _FCNTL.LOCK_NB)
        if leads_to(here.path, here.handle):
            return
        os.close(here.handle)
    raise OSError("no private folder stayed in place: something removes new folders")


def _remove(here: _Here) -> None:
    shutil.rmtree(here.path, ignore_errors=True)
    if here.handle >= 0:
        os.close(here.handle)
        here.handle = -1


def _remove_leftover(folder: Path) -> None:
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | PLAINLY)
        try:
            found = os.fstat(handle)
            ours = found.st_uid == os.geteuid() and stat.S_IMODE(found.st_mode) & 0o077 == 0
            _FCNTL.flock(handle, _FCNTL.LOCK_EX | _FCNTL.LOCK_NB)  # type: ignore[union-attr]
            if ours and leads_to(folder, handle):
                shutil.rmtree(folder, ignore_errors=True)
        finally:
            os.close(handle)


def _places() -> list[Path]:
    """Where such folders can be, the place for new ones first."""
    places = [Path(tempfile.gettempdir())]
    with suppress(OSError, AttributeError):
        free = os.statvfs(_SHARED_MEMORY)
        roomy = free.f_bsize * free.f_bavail > _LEAST_FREE
        places.insert(0 if roomy and os.access(_SHARED_MEMORY, os.W_OK) else 1, _SHARED_MEMORY)
    if chosen := os.environ.get("JOBLIB_TEMP_FOLDER"):
        places.insert(0, Path(chosen).absolute())
    return places


def _watch(here: _Here) -> None:
    """Let SIGTERM and SIGHUP remove the folder first, unless the program handles them itself."""
    if threading.current_thread() is not threading.main_thread():
        return
    for name in _SIGNALS:
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) is signal.SIG_DFL:
            here.before[number] = signal.signal(number, _end)


def _watch_no_more(here: _Here) -> None:
    if threading.current_thread() is threading.main_thread():
        for number, handler in here.before.items():
            if signal.getsignal(number) is _end:
                signal.signal(number, handler)
        here.before.clear()


def _end(number: int, frame: FrameType | None) -> None:
    """Remove the folder and die of the signal, as this process would have without it."""
    here = _ours()
    if here.path.name:  # it may have been made already
        shutil.rmtree(here.path, ignore_errors=True)
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
