"""Independent pieces of an experiment, spread over processes of one thread each."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from mustdp.extras import required
from mustdp.progress import Progress

Job = TypeVar("Job")
Result = TypeVar("Result")


def spread(
    function: Callable[[Job], Result],
    jobs: Iterable[Job],
    *,
    workers: int,
    progress: Progress,
    what: str,
    last_first: bool = False,
) -> list[Result]:
    """``function`` of every job, in the order of the jobs; ``what`` is named as work gets done.

    Jobs are started in the order given, or with the last one in front: long ones should be early.
    Nothing but the seed inside a job decides its result, so the number of processes changes none.
    """
    todo = list(jobs)[:: -1 if last_first else 1]
    found: list[Result] = []
    results: Iterable[Result] = map(function, todo)
    if workers > 1 and len(todo) > 1:
        results = _in_processes(function, todo, workers)
    with warnings.catch_warnings():
        # A process that has grown is replaced by a new one; its jobs are done all the same.
        warnings.filterwarnings("ignore", message="A worker stopped", category=UserWarning)
        for result in results:
            found.append(result)
            progress(what, len(found), len(todo))
    return found[::-1] if last_first else found


def _in_processes(function: Callable[[Job], Result], jobs: list[Job], workers: int) -> Any:
    joblib: Any = required("joblib", "more than one process")
    with joblib.parallel_config(backend="loky", n_jobs=workers, inner_max_num_threads=1):
        pool = joblib.Parallel(return_as="generator", pre_dispatch="all", batch_size=1)
        return pool(joblib.delayed(function)(job) for job in jobs)
