"""Independent jobs in several processes, each with one thread for linear algebra.

Each worker is a fresh interpreter that imports this package and never the program that is running:
scripts need no guard around their main part, and threads do no harm as they would after a fork. It
reads pickled jobs from its standard input and ends as soon as that is closed, however this process
ended. Nothing is written to disk. The number of workers changes how long it takes, never a result.

joblib's loky does not replace this: its workers go on computing after their parent was interrupted
or killed in the middle of a job, and the first result takes seconds instead of half of one.
"""

from __future__ import annotations

import itertools
import os
import pickle
import queue
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from importlib import import_module
from types import TracebackType
from typing import Any, BinaryIO, NoReturn, Protocol, Self, TypeVar

from mustdp.errors import WorkerLost

Job = TypeVar("Job")
Result = TypeVar("Result")

#: More workers would need more memory than they save time.
_MOST_WORKERS = 8
#: Seconds after which waiting is interrupted: on Windows Ctrl-C is only noticed then.
_POLL = 0.5
#: Libraries for linear algebra keep to one thread: there is a worker per processor.
_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")
_WORKER = (
    "import pickle, sys; sys.path[:] = pickle.load(sys.stdin.buffer); "
    "from mustdp.execution.processes import serve; serve()"
)


class Mapper(Protocol):
    """Applies a function to many jobs and returns the results in the order of the jobs."""

    def __call__(
        self,
        function: Callable[[Job], Result],
        jobs: Iterable[Job],
        on_start: Callable[[Job], object] = ...,
        cost: Callable[[Job], float] = ...,
    ) -> list[Result]:
        """``on_start`` is called in this thread before each job starts.

        ``cost`` estimates how long a job takes, in any unit; parallel mappers start the longest
        first. If several jobs fail, the exception of the first of them, in order, is raised.
        """


def map_serial(
    function: Callable[[Job], Result],
    jobs: Iterable[Job],
    on_start: Callable[[Job], object] = lambda _: None,
    cost: Callable[[Job], float] = lambda _: 0.0,
) -> list[Result]:
    """A :class:`Mapper` that runs one job after the other in this process."""
    results = []
    for job in jobs:
        on_start(job)
        results.append(function(job))
    return results


class WorkerPool:
    """Worker processes for the length of a ``with`` block; none on a single processor.

    ``preload`` names modules that workers import while there is nothing else to do; ``workers`` is
    their number, by default that of the processors.
    """

    def __init__(self, preload: Sequence[str] = (), workers: int | None = None) -> None:
        self._preload = tuple(preload)
        self._count = workers
        self._workers: list[_Worker] = []
        self._inbox: _Inbox = queue.SimpleQueue()
        self._numbers = itertools.count(1)

    def __enter__(self) -> Self:
        count = min(processors(), _MOST_WORKERS) if self._count is None else self._count
        if count > 1 and sys.executable and not getattr(sys, "frozen", False):
            with suppress(OSError):  # no more processes: the workers that started will do, or none
                for _ in range(count):
                    self._workers.append(_Worker(self._preload, self._inbox))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        problem: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for worker in self._workers:
            worker.kill()
        self._workers.clear()

    def map_parallel(
        self,
        function: Callable[[Job], Result],
        jobs: Iterable[Job],
        on_start: Callable[[Job], object] = lambda _: None,
        cost: Callable[[Job], float] = lambda _: 0.0,
    ) -> list[Result]:
        """A :class:`Mapper`. What cannot be pickled runs in this process."""
        if not self._workers:
            return map_serial(function, jobs, on_start)
        todo = list(jobs)
        waiting = sorted(range(len(todo)), key=lambda place: -cost(todo[place]))
        results: dict[int, Result] = {}
        failures: dict[int, Exception] = {}
        running: dict[int, int] = {}

        def run_here(place: int) -> None:
            try:
                results[place] = function(todo[place])
            except Exception as problem:
                failures[place] = problem

        while len(results) < len(todo):
            if failures:  # jobs before the first failure may fail as well
                waiting = [place for place in waiting if place < min(failures)]
                if not waiting and not any(place < min(failures) for place in running.values()):
                    raise failures[min(failures)]
            idle = [worker for worker in self._workers if worker.idle]
            if waiting and (idle or not self._workers):
                place = waiting.pop(0)
                on_start(todo[place])
                number = next(self._numbers)
                if idle and idle[0].send(number, function, todo[place]):
                    running[number] = place
                else:
                    run_here(place)
                continue
            worker, message = self._receive()
            if message is None:
                self._remove(worker, running)
            elif message.number in running:  # else a job of a call that was given up
                place = running.pop(message.number)
                if message.outcome == "result":
                    results[place] = message.value
                elif message.outcome == "failure":
                    failures[place] = message.value
                else:
                    run_here(place)
        return [results[place] for place in range(len(todo))]

    def _receive(self) -> tuple[_Worker, _Message | None]:
        while True:
            try:
                worker, message = self._inbox.get(timeout=_POLL)
            except queue.Empty:
                continue
            worker.idle = True
            return worker, message

    def _remove(self, worker: _Worker, running: dict[int, int]) -> None:
        """Go on without a worker that never started; fail if it died in the middle of a job."""
        self._workers.remove(worker)
        status = worker.kill()
        if worker.last in running:
            raise WorkerLost(
                f"a process that worked on a part of this has ended with status {status}, "
                "killed perhaps for want of memory"
            )


class _Message:
    """What a worker sends: that it is ready (number 0), or the outcome of a job."""

    def __init__(self, number: int = 0, outcome: str = "ready", value: Any = None) -> None:
        self.number, self.outcome, self.value = number, outcome, value


_Inbox = queue.SimpleQueue[tuple["_Worker", "_Message | None"]]


class _Worker:
    """One process, and the thread that receives its messages."""

    def __init__(self, preload: Sequence[str], inbox: _Inbox) -> None:
        # Ctrl-C is for this process, which kills the workers.
        apart: dict[str, Any] = {"start_new_session": True}
        if sys.platform == "win32":
            apart = {"creationflags": subprocess.CREATE_NEW_PROCESS_GROUP}
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-c", _WORKER],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            env={**os.environ, **dict.fromkeys(_THREADS, "1")}, **apart,
        )  # fmt: skip
        self._requests: Any = self._process.stdin
        self._answers: Any = self._process.stdout
        self.idle, self.last = False, -1
        self._thread = threading.Thread(target=self._listen, args=(inbox,), daemon=True)
        self._thread.start()
        self._write(sys.path)
        self._write(preload)

    def send(self, number: int, function: Callable[..., Any], job: object) -> bool:
        """Hand over a job; False if it cannot be pickled."""
        try:
            packed = pickle.dumps((function, job))
        except Exception:  # objects that cannot be pickled raise what they like
            return False
        self.idle, self.last = False, number
        self._write((number, packed))
        return True

    def kill(self) -> int:
        """Kill the process, wait until it has ended, and return its status."""
        self._process.kill()
        status = self._process.wait()
        self._thread.join()
        for pipe in (self._requests, self._answers):
            with suppress(OSError):  # what was never read
                pipe.close()
        return status

    def _write(self, content: object) -> None:
        with suppress(OSError):  # the process has ended; the listening thread notices
            pickle.dump(content, self._requests)
            self._requests.flush()

    def _listen(self, inbox: _Inbox) -> None:
        message: _Message | None = _Message()
        while message is not None:
            try:
                message = pickle.load(self._answers)
            except Exception:  # the end, perhaps in the middle of a message
                message = None
            inbox.put((self, message))


def serve() -> NoReturn:
    """The main loop of a worker: read jobs and answer them until standard input is closed."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a job prints must not be taken for an answer
    jobs: queue.SimpleQueue[Any] = queue.SimpleQueue()
    threading.Thread(target=_read_jobs, args=(sys.stdin.buffer, jobs), daemon=True).start()
    for name in jobs.get():
        import_module(name)
    packed = pickle.dumps(_Message())
    while True:
        answers.write(packed)
        answers.flush()
        packed = _run(*jobs.get())


def _read_jobs(requests: BinaryIO, jobs: queue.SimpleQueue[Any]) -> NoReturn:
    """Notice the end of standard input even while a job is running."""
    try:
        while True:
            jobs.put(pickle.load(requests))
    finally:
        os._exit(0)


def _run(number: int, packed: bytes) -> bytes:
    """The pickled outcome of a job; ``unknown`` has it run again in the parent process."""
    unknown = pickle.dumps(_Message(number, "unknown"))
    try:
        function, job = pickle.loads(packed)
    except Exception:  # something that only the parent process can import
        return unknown
    try:
        return pickle.dumps(_Message(number, "result", function(job)))
    except Exception as problem:
        problem.add_note(traceback.format_exc())
        try:
            failure = pickle.dumps(_Message(number, "failure", problem))
            pickle.loads(failure)
        except Exception:
            return unknown
        return failure


def processors() -> int:
    """Processors this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on every system
        return os.cpu_count() or 1
