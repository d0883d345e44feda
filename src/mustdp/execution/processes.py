"""Independent pieces of work side by side, in processes with one thread for linear algebra each."""

from __future__ import annotations

import itertools
import os
import pickle
import queue
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from threading import Lock
from types import TracebackType
from typing import Any, BinaryIO, NoReturn, Protocol, Self, TypeVar

from mustdp.errors import WorkerLost
from mustdp.extras import installed

# Independent pieces of work side by side, in processes that this one starts and ends.
#
# Each is a fresh interpreter that loads this package and never the program that is running: scripts
# need no guard around their main part, and threads do no harm as they would after a fork. It reads
# pickled jobs from its standard input and ends at once when that does, however this process ended.
# Nothing but the time depends on how many there are.


Job = TypeVar("Job")
Result = TypeVar("Result")

#: More at once would need more memory than they save time.
_MOST = 8
#: Seconds after which a wait looks up: on Windows Ctrl-C is only heard then.
_LOOK = 0.5
#: Libraries for linear algebra are told to keep to one thread: there is a process per processor.
_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")
_START = (
    "import pickle, sys; sys.path[:] = pickle.load(sys.stdin.buffer); "
    "from mustdp.execution.processes import serve; serve()"
)


class Spread(Protocol):
    """How the results of many jobs are found, in the order of the jobs."""

    def __call__(
        self,
        function: Callable[[Job], Result],
        jobs: Iterable[Job],
        begun: Callable[[Job], object] = ...,
        long: Callable[[Job], float] = ...,
    ) -> list[Result]:
        """``begun`` hears of every job before it begins, in this thread.

        ``long`` is about how long one takes, in any unit: anyone who does several at a time begins
        with the longest. The first job that fails, in their order, is the one that is raised.
        """


def in_turn(
    function: Callable[[Job], Result],
    jobs: Iterable[Job],
    begun: Callable[[Job], object] = lambda _: None,
    long: Callable[[Job], float] = lambda _: 0.0,
) -> list[Result]:
    """One after the other, in this process."""
    found = []
    for job in jobs:
        begun(job)
        found.append(function(job))
    return found


class Processes:
    """A few processes for as long as a block lasts; none where there is a single processor.

    ``loads`` names modules that they load before there is anything to do.
    """

    def __init__(self, loads: Sequence[str] = ()) -> None:
        self._loads = tuple(loads)
        self._workers: list[_Worker] = []
        self._heard: queue.SimpleQueue[tuple[_Worker, Any]] = queue.SimpleQueue()
        self._numbers = itertools.count(1)

    def __enter__(self) -> Self:
        count = min(processors(), _MOST)
        if count > 1 and sys.executable and not getattr(sys, "frozen", False):
            try:
                for _ in range(count):
                    self._workers.append(_Worker(self._loads, self._heard))
            except OSError:  # no more processes here: those that there are will do, or none
                pass
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        problem: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for worker in self._workers:
            worker.end()
        self._workers.clear()

    def spread(
        self,
        function: Callable[[Job], Result],
        jobs: Iterable[Job],
        begun: Callable[[Job], object] = lambda _: None,
        long: Callable[[Job], float] = lambda _: 0.0,
    ) -> list[Result]:
        """A :class:`Spread`; ``function`` is that of a module. What cannot be sent is done here."""
        if not self._workers:
            return in_turn(function, jobs, begun)
        todo = list(jobs)
        waiting = sorted(range(len(todo)), key=lambda place: -long(todo[place]))
        found: dict[int, Result] = {}
        failed: dict[int, Exception] = {}
        doing: dict[int, int] = {}

        def here(place: int) -> None:
            try:
                found[place] = function(todo[place])
            except Exception as problem:
                failed[place] = problem

        while len(found) < len(todo):
            if failed:  # those before it may fail as well
                waiting = [place for place in waiting if place < min(failed)]
                if not waiting and not any(place < min(failed) for place in doing.values()):
                    raise failed[min(failed)]
            free = [worker for worker in self._workers if worker.ready and not worker.busy]
            if waiting and (free or not self._workers):
                place = waiting.pop(0)
                begun(todo[place])
                number = next(self._numbers)
                if free and free[0].send(number, function, todo[place]):
                    doing[number] = place
                else:
                    here(place)
                continue
            worker, said = self._hear()
            if said is None:
                self._lose(worker, doing)
            elif isinstance(said, tuple):
                number, outcome, value = said
                if number in doing:  # else it was begun for somebody who did not wait
                    place = doing.pop(number)
                    if outcome == "found":
                        found[place] = value
                    elif outcome == "failed":
                        failed[place] = value
                    else:
                        here(place)
        return [found[place] for place in range(len(todo))]

    def _hear(self) -> tuple[_Worker, Any]:
        while True:
            try:
                worker, said = self._heard.get(timeout=_LOOK)
            except queue.Empty:
                continue
            worker.ready, worker.busy = True, None
            return worker, said

    def _lose(self, worker: _Worker, doing: dict[int, int]) -> None:
        """Go on without a process that never began; refuse to guess what another one was doing."""
        self._workers.remove(worker)
        status = worker.end()
        if worker.last in doing:
            raise WorkerLost(
                f"a process that worked on a part of this has ended with status {status}, "
                "killed perhaps for want of memory"
            )


class _Worker:
    """One process, and the thread that hears it."""

    def __init__(self, loads: Sequence[str], heard: queue.SimpleQueue[tuple[_Worker, Any]]) -> None:
        # Ctrl-C is for this process, which ends the others.
        apart: dict[str, Any] = {"start_new_session": True}
        if sys.platform == "win32":
            apart = {"creationflags": subprocess.CREATE_NEW_PROCESS_GROUP}
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-c", _START],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            env={**os.environ, **dict.fromkeys(_THREADS, "1")}, **apart,
        )  # fmt: skip
        self._requests: Any = self._process.stdin
        self._answers: Any = self._process.stdout
        self.ready, self.last = False, -1
        self.busy: int | None = None
        self._thread = threading.Thread(target=self._listen, args=(heard,), daemon=True)
        self._thread.start()
        self._say(sys.path)
        self._say(loads)

    def send(self, number: int, function: Callable[..., Any], job: object) -> bool:
        """Hand over a job; False if it cannot be sent."""
        try:
            packed = pickle.dumps((function, job))
        except Exception:  # whatever an object says that cannot be pickled
            return False
        self.busy = self.last = number
        self._say((number, packed))
        return True

    def end(self) -> int:
        """End the process and wait until it is gone; its status."""
        self._process.kill()
        status = self._process.wait()
        self._thread.join()
        for pipe in (self._requests, self._answers):
            with suppress(OSError):  # what was never read
                pipe.close()
        return status

    def _say(self, what: object) -> None:
        try:
            pickle.dump(what, self._requests)
            self._requests.flush()
        except OSError:  # it is gone; the thread that hears it will notice
            pass

    def _listen(self, heard: queue.SimpleQueue[tuple[_Worker, Any]]) -> None:
        said: Any = True
        while said is not None:
            try:
                said = pickle.load(self._answers)
            except Exception:  # the end, in the middle of a word perhaps
                said = None
            heard.put((self, said))


def serve() -> NoReturn:
    """What a process does: read jobs, answer them, until there is nobody to read from."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever else is printed must not be taken for an answer
    jobs: queue.SimpleQueue[Any] = queue.SimpleQueue()
    threading.Thread(target=_read, args=(sys.stdin.buffer, jobs), daemon=True).start()
    for name in jobs.get():
        import_module(name)
    said: Any = True
    while True:
        answers.write(pickle.dumps(said))
        answers.flush()
        number, packed = jobs.get()
        said = (number, *_done(packed))


def _read(requests: BinaryIO, jobs: queue.SimpleQueue[Any]) -> NoReturn:
    """Hear of the end even while a job is being done."""
    try:
        while True:
            jobs.put(pickle.load(requests))
    finally:
        os._exit(0)


def _done(packed: bytes) -> tuple[str, Any]:
    """The outcome of a job, as it can be sent."""
    try:
        function, job = pickle.loads(packed)
    except Exception:  # something that only the other process knows
        return "unknown", None
    try:
        answer = "found", function(job)
        pickle.dumps(answer)
        return answer
    except Exception as problem:
        problem.add_note(traceback.format_exc())
        try:
            pickle.loads(pickle.dumps(problem))
        except Exception:
            return "unknown", None  # it is asked again where the error can be raised
        return "failed", problem


def processors() -> int:
    """Processors this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on every system
        return os.cpu_count() or 1


# One thread for linear algebra while totals are computed, so that sums have one order everywhere.
#
# BLAS libraries add up in another order when they use more threads, which changes last digits.
# joblib and Dask start their workers with one thread already; this does the same for the process
# of the caller. It needs threadpoolctl; without it, last digits of statistics that multiply
# matrices may depend on where they are computed. Several threads of a process may be inside at the
# same time: the first one in sets the limit and the last one out lifts it.


_lock = Lock()
_inside = 0
_limit: Any = None


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Keep BLAS to one thread inside the block."""
    global _inside, _limit
    with _lock:
        if _inside == 0:
            control = installed("threadpoolctl")
            _limit = None if control is None else control.threadpool_limits(1, user_api="blas")
        _inside += 1
    try:
        yield
    finally:
        with _lock:
            _inside -= 1
            if _inside == 0 and _limit is not None:
                _limit.restore_original_limits()
                _limit = None
