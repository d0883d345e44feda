"""What a process does that was started to work beside another one (``processes.py``)."""

from __future__ import annotations

import os
import pickle
import queue
import sys
import threading
import traceback
from importlib import import_module
from typing import Any, BinaryIO, NoReturn


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
