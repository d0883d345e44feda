"""Private folders, connections to a Dask cluster, and values that no log may show."""

from __future__ import annotations

import logging
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
from sys import getsizeof
from types import FrameType
from typing import Any, Generic, TypeVar

import numpy as np

from mustdp.errors import InvalidParameter
from mustdp.extras import installed, required
from mustdp.files.replacing import PLAINLY, leads_to

# The one folder for temporary copies of records: private to this user, and always removed.
#
# joblib maps large arrays from files, and Dask spills to disk what does not fit into memory. Both
# do it inside a folder of this process: mode 0700, its name 128 random bits, its open descriptor
# locked. It is removed when the last run of the process ends, by SIGTERM and SIGHUP too. After
# SIGKILL the next run of the same user removes it: a folder of that name whose lock no process
# holds is left over. Its path stays the same for the life of a process, because the processes of
# joblib outlive a run and remember it.

#: None on Windows, where folders have no such modes either and leftovers are left to the system.
_FCNTL = installed("fcntl")
_NAME = re.compile("mustdp-records-[0-9a-f]{32}")
#: Memory that looks like a folder, on Linux, and the free bytes from which on it is used.
_SHARED_MEMORY, _LEAST_FREE = Path("/dev/shm"), 2 * 10**9
#: A folder that was taken for a leftover in the moment before it was locked is made again so often.
_ATTEMPTS = 20
#: Signals that end a process and would leave the folder behind.
_SIGNALS = ("SIGTERM", "SIGHUP")


class _RunFolder:
    """The folder of this process and how many runs use it."""

    def __init__(self) -> None:
        self.guard = threading.Lock()
        #: Of no place at first; kept from then on.
        self.path = Path()
        self.handle = -1
        self.runs = 0
        self.process = os.getpid()
        self.before: dict[int, Any] = {}


_here = _RunFolder()


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


def _ours() -> _RunFolder:
    """The state of this very process: a forked child has a folder of its own."""
    global _here
    if _here.process != os.getpid():
        _here = _RunFolder()
    return _here


def _make(here: _RunFolder) -> None:
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


def _remove(here: _RunFolder) -> None:
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


def _watch(here: _RunFolder) -> None:
    """Let SIGTERM and SIGHUP remove the folder first, unless the program handles them itself."""
    if threading.current_thread() is not threading.main_thread():
        return
    for name in _SIGNALS:
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) is signal.SIG_DFL:
            here.before[number] = signal.signal(number, _end)


def _watch_no_more(here: _RunFolder) -> None:
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


# Values that must not be printed: seeds, records and exact results on their way through a cluster.
#
# Dask writes the arguments of a failing task into its log and shows them on its dashboard. A
# :class:`Concealed` shows itself there without its content. It hides nothing from a program.


T = TypeVar("T")


class Concealed(Generic[T]):
    """``content``, printed as ``<concealed>``; its size is that of the content.

    >>> Concealed(20250101)
    <concealed>
    """

    __slots__ = ("content",)

    def __init__(self, content: T) -> None:
        self.content = content

    def __repr__(self) -> str:
        return "<concealed>"

    def __sizeof__(self) -> int:
        # A scheduler that knows the size of a result can judge what moving it costs.
        return object.__sizeof__(self) + _size(self.content)


def _size(content: object) -> int:
    if isinstance(content, np.ndarray):
        return content.nbytes
    if isinstance(content, tuple):
        return sum(map(_size, content))
    return getsizeof(content)


# Which Dask cluster is meant, whether it may be trusted with records, and a client of it.
#
# Anyone who reaches a scheduler or a worker can run code there and read everything. So a cluster
# is used only over connections with certificates (TLS, where both sides prove who they are),
# unless the caller says ``insecure``. A cluster that is started here has a key of its own, made
# for it and kept in memory, answers nothing over HTTP, and spills to the private folder of this
# process.


#: Workers that may die under a task before Dask gives it up, on a cluster that is ours.
_ALLOWED_FAILURES = 10
_ADDRESS = re.compile(r"(tcp|tls|ws|wss|ucx|inproc)://\S+")
#: Protocols on which no other process can read or send messages.
_SECURE = ("tls", "wss", "inproc")
#: Neither the scheduler nor a worker serves any page.
_NO_PAGES: dict[str, list[str]] = {
    "distributed.scheduler.http.routes": [],
    "distributed.worker.http.routes": [],
}
#: Those of the libraries behind a client that have levels of their own.
_LOGGERS = ("distributed", "distributed.client", "tornado", "asyncio")
#: Seconds that closing a client may take; a scheduler that has gone never answers.
_FAREWELL = 2.0


def check_dask(dask: Any, insecure: bool = False) -> None:
    """Refuse what cannot name a cluster or may not be trusted; nothing is connected to."""
    distributed = required("distributed", "a Dask cluster")
    if not isinstance(insecure, bool):
        raise InvalidParameter.refusing("insecure", "must be True or False", repr(insecure))
    if isinstance(dask, distributed.Client):
        if dask.asynchronous:
            raise InvalidParameter("dask must be a client that is not asynchronous, got one")
        check_secure(dask, insecure)
    elif not (isinstance(dask, str) and (dask == "local" or _ADDRESS.fullmatch(dask))):
        raise InvalidParameter.refusing(
            "dask",
            "must be the address of a scheduler such as 'tls://10.0.0.1:8786', 'local' or a "
            "distributed.Client",
            repr(dask),
        )
    elif dask == "local":
        required("cryptography", "a Dask cluster on this machine")
    else:
        _check_address(dask, insecure)


def check_secure(client: Any, insecure: bool) -> None:
    """Refuse a client whose scheduler anyone could connect to, unless ``insecure`` accepts it."""
    scheduler = client.scheduler
    if scheduler is None:
        raise InvalidParameter("dask must be a client that is connected, got one that is closed")
    _check_address(scheduler.address, insecure)


def _check_address(address: str, insecure: bool) -> None:
    if not insecure and address.partition("://")[0] not in _SECURE:
        raise InvalidParameter.refusing(
            "dask",
            "must be a scheduler with certificates (tls://...), because on other connections "
            "anyone can read the records and run code; {insecure} accepts that",
            repr(address),
            mentions=("insecure",),
        )


@contextmanager
def connected(dask: Any, workers: int | None = None) -> Iterator[Any]:
    """A client of the cluster that ``dask`` names; what was started for it is stopped after it.

    ``dask`` is ``"local"`` (a cluster of ``workers`` processes on this machine, protected by its
    own key, without a dashboard), the address of a scheduler, for which Dask's configuration names
    the certificates, or a ``distributed.Client``, for instance one with the certificates that a
    protected cluster asks for.
    """
    distributed = required("distributed", "a Dask cluster")
    if isinstance(dask, distributed.Client):
        yield dask
        return
    with _quiet():
        if dask == "local":
            with (
                private_folder() as folder,
                _local_cluster(workers, str(folder)) as cluster,
                distributed.Client(cluster, set_as_default=False) as client,
            ):
                yield client
            return
        try:
            client = distributed.Client(dask, set_as_default=False)
        except (OSError, TypeError):  # TypeError: an address that asks for certificates, without
            raise InvalidParameter.refusing(
                "dask", "must be the address of a scheduler that answers", repr(dask)
            ) from None
        try:
            yield client
        finally:
            with suppress(Exception):
                client.close(timeout=_FAREWELL)


def _local_cluster(workers: int | None, folder: str) -> Any:
    distributed = required("distributed", "a Dask cluster")
    required("cryptography", "a Dask cluster on this machine")
    with required("dask", "a Dask cluster").config.set(_NO_PAGES):
        return distributed.LocalCluster(
            n_workers=workers,
            processes=True,
            threads_per_worker=1,
            protocol="tls://",
            security=distributed.Security.temporary(),
            local_directory=folder,
            silence_logs=logging.CRITICAL,
            dashboard_address="127.0.0.1:0",
            scheduler_kwargs={"allowed_failures": _ALLOWED_FAILURES, "dashboard": False},
        )


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep the libraries' tracebacks of lost connections off standard error; we say it in words."""
    loggers = [logging.getLogger(name) for name in _LOGGERS]
    before = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        for logger, level in zip(loggers, before, strict=True):
            logger.setLevel(level)
