"""Portions on this machine: in this process, or in several through joblib.

Large arrays reach the processes through a memory-mapped file of joblib's in this process's private
folder. A process that dies takes its unfinished portions with it; these are computed again, by
fresh processes a few times and then here. If this process dies, the others end with it.
"""

from __future__ import annotations

import ctypes
import math
import os
import signal
import sys
import threading
import time
import warnings
from concurrent.futures import BrokenExecutor
from typing import Any

from mustdp.extras import installed, required
from mustdp.numerics.arrays import FloatArray
from mustdp.processes import processors
from mustdp.resampling.execution.portions import Collected, Job, Portion
from mustdp.resampling.execution.private_folder import private_folder
from mustdp.resampling.execution.table import SourceOrTable

#: For so many seconds this process works alone where the number of workers was left open.
_ALONE = 2.0
#: So often a fresh set of processes is tried when one has died.
_ATTEMPTS = 3
_PR_SET_PDEATHSIG = 1
#: Seconds between two looks at the parent.
_BEAT = 0.5
#: More processes than this are a mistake.
MOST_WORKERS = 4096


def run_locally(source: SourceOrTable, job: Job, collected: Collected, workers: int | None) -> None:
    """Compute what is missing with ``workers`` processes; nothing but the time depends on them.

    None begins in this process, and after two seconds brings in one process for each processor.
    Without joblib it stays here.
    """
    most = len(collected.missing)
    if workers is not None:
        workers = min(workers, most)
    elif run_here(source, job, collected, _ALONE) and installed("joblib") is not None:
        workers = min(processors(), len(collected.missing))
    if workers is None or workers == 1:
        run_here(source, job, collected)
    else:
        run_in_processes(source, job, collected, workers)


def run_here(
    source: SourceOrTable, job: Job, collected: Collected, seconds: float = math.inf
) -> bool:
    """Compute what is missing in this process; True if the time was up before the end."""
    begun = time.perf_counter()
    for portion in collected.missing:
        if time.perf_counter() - begun > seconds:
            return True
        collected.add(portion, job.portion(source, portion))
    return False


def run_in_processes(source: SourceOrTable, job: Job, collected: Collected, workers: int) -> None:
    """Compute what is missing in ``workers`` processes."""
    for _ in range(_ATTEMPTS):
        try:
            _run_once(source, job, collected, workers)
        except BrokenExecutor:  # a process was killed; what it had finished is kept
            continue
        return
    run_here(source, job, collected)


def _run_once(source: SourceOrTable, job: Job, collected: Collected, workers: int) -> None:
    joblib = required("joblib", "more than one worker")
    with private_folder() as folder:
        with joblib.parallel_config(
            backend="loky", n_jobs=workers, inner_max_num_threads=1, temp_folder=str(folder),
            initializer=_begin, initargs=(os.getpid(), str(folder)),
        ):  # fmt: skip
            pool = joblib.Parallel(return_as="generator_unordered", batch_size=1)
            task = joblib.delayed(_numbered)
            results = pool(task(source, job, portion) for portion in collected.missing)
        try:
            for portion, totals in results:
                collected.add(portion, totals)
        except BaseException:
            _abandon(results)
            raise


def _begin(parent: int, folder: str) -> None:
    """What a new process does first. One that was begun for another folder is not used again."""
    end_with_parent(parent)


def end_with_parent(parent: int) -> None:
    """Make this process end with the process ``parent``, however that one ends.

    On Linux the kernel kills a worker when its parent dies (``PR_SET_PDEATHSIG``, prctl(2)).
    Everywhere a thread of the worker also looks twice a second whether the parent is still the
    same: that serves other systems, and a parent that had died before the kernel was asked. The
    kernel takes the *thread* that started the worker for its parent; if that one ends first, idle
    workers go and are started again when they are needed.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    _end_if_orphaned(parent)
    threading.Thread(target=_watch, args=(parent,), daemon=True).start()


def _watch(parent: int) -> None:
    while True:
        time.sleep(_BEAT)
        _end_if_orphaned(parent)


def _end_if_orphaned(parent: int) -> None:
    if sys.platform != "win32" and os.getppid() != parent:
        os._exit(1)


def _abandon(results: Any) -> None:
    """Stop the processes; that finished portions are thrown away is no news to the caller."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        results.close()


def _numbered(source: SourceOrTable, job: Job, portion: Portion) -> tuple[Portion, FloatArray]:
    return portion, job.portion(source, portion)
