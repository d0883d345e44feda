"""The exact totals of all queries of a design: in one process, several, or on Dask."""

from __future__ import annotations

import ctypes
import math
import os
import signal
import sys
import threading
import time
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import BrokenExecutor
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from time import monotonic, sleep
from typing import Any, NamedTuple
from uuid import uuid4

import numpy as np
from numpy.typing import ArrayLike

from mustdp.data.dask import DaskSource, joined, picked
from mustdp.data.frames import Source
from mustdp.errors import ClusterLost, InvalidParameter, NumericalFailure
from mustdp.estimation.designs import Design
from mustdp.estimation.queries import Query
from mustdp.execution.cluster import Concealed, check_dask, check_secure, connected
from mustdp.execution.private_folder import private_folder
from mustdp.execution.processes import one_blas_thread, processors
from mustdp.extras import installed, required
from mustdp.numerics import checks
from mustdp.numerics.arrays import FloatArray, IntArray
from mustdp.progress import Progress
from mustdp.randomness.keys import BatchKey, Substreams, batch_key
from mustdp.sampling.batch import Batch
from mustdp.sampling.schemes import Multistage

# Subsets read together: as many as memory allows, so that a file is passed over seldom.
#
# Reading a few rows of a file costs about as much as reading many, since the rows drawn are all
# over the file. So the distinct rows of a *bundle* of neighbouring subsets are read at once and
# handed out from memory.


#: Values (rows times columns) of one bundle.
MOST_VALUES = 2_000_000
#: Indices of one bundle, a row counted for every subset that holds it: 128 MB with the counts.
MOST_ENTRIES = 8_000_000


class Bundle(NamedTuple):
    """Subsets with their ranks, and the distinct rows of all of them in increasing order."""

    batches: list[tuple[int, Batch]]
    rows: IntArray


def in_bundles(draws: Iterable[tuple[int, Batch]], columns: int) -> Iterator[Bundle]:
    """Cut the draws into bundles; a subset that is too large for a bundle is one by itself."""
    most_rows = max(1, MOST_VALUES // columns)
    batches: list[tuple[int, Batch]] = []
    rows, new, fresh, entries = _none(), [_none()], 0, 0
    for rank, batch in draws:
        indices = batch.indices
        if batches and rows.size + fresh + indices.size > most_rows:
            rows, new, fresh = np.unique(np.concatenate([rows, *new])), [], 0
            full = rows.size + indices.size > most_rows
            if full and np.union1d(rows, indices).size > most_rows:
                entries = MOST_ENTRIES
        if batches and entries + indices.size > MOST_ENTRIES:
            yield Bundle(batches, np.unique(np.concatenate([rows, *new])))
            batches, rows, new, fresh, entries = [], _none(), [], 0, 0
        batches.append((rank, batch))
        new.append(indices)
        fresh += indices.size
        entries += indices.size
    if batches:
        yield Bundle(batches, np.unique(np.concatenate([rows, *new])))


def handed_out(rows: IntArray, values: FloatArray, batch: Batch) -> FloatArray:
    """The values of one subset from those of a bundle.

    A row that the bundle lacks is an error, never another row: a cluster whose workers have
    different versions of numpy could otherwise draw one thing and read another.
    """
    places = np.searchsorted(rows, batch.indices)
    if places.size and not (
        places.max() < rows.size and np.array_equal(rows[places], batch.indices)
    ):
        raise NumericalFailure(
            "a subset that was drawn twice came out differently; all workers must have the same "
            "versions of numpy and mustdp"
        )
    return values.take(places, axis=0)


def _none() -> IntArray:
    return np.empty(0, dtype=np.int64)


# The selected columns of a moderate source as one clipped array, made once for all subsets.
#
# Clipping and converting every subset by itself costs more than drawing it when subsets are small.


#: Sources in memory with more rows than this are read subset by subset.
MOST_ROWS = 5_000_000

_CHUNK = 250_000


@dataclass(frozen=True, eq=False, repr=False)
class ClippedTable:
    """All rows of a source, clipped; ``values`` may be mapped from a file that workers map too."""

    values: FloatArray

    def __sizeof__(self) -> int:
        return object.__sizeof__(self) + self.values.nbytes

    @property
    def plain(self) -> FloatArray:
        """The rows as a plain array: indexing a memory map is slow."""
        return np.asarray(self.values)


#: What portions can be computed from.
SourceOrTable = Source | ClippedTable


def as_table(source: Source, lower: FloatArray, upper: FloatArray, *, files: bool) -> SourceOrTable:
    """The source as a clipped table, if it is small enough for its kind, else itself.

    With ``files``, a file that is smaller than what is read from larger ones at a time is read
    into memory.
    """
    if source.rows_in_memory:
        if source.n > MOST_ROWS:
            return source
    elif not files or source.n * len(source.columns) > MOST_VALUES:
        return source
    at_once = _CHUNK if source.rows_in_memory else source.n
    values = np.empty((source.n, len(source.columns)))
    for start in range(0, source.n, at_once):
        rows = np.arange(start, min(start + at_once, source.n))
        values[start : start + rows.size] = taken(source, rows, lower, upper)
    values.setflags(write=False)
    return ClippedTable(values)


def is_in_memory(data: SourceOrTable) -> bool:
    """Whether reading some rows is a matter of memory alone."""
    return isinstance(data, ClippedTable) or data.rows_in_memory


def taken(source: Source, rows: IntArray, lower: FloatArray, upper: FloatArray) -> FloatArray:
    """Rows of a source, clipped to the bounds; in C order, so that sums have one order."""
    if rows.size == 0:
        return np.empty((0, lower.size))
    return within_bounds(source.take(rows), lower, upper)


def within_bounds(values: FloatArray, lower: FloatArray, upper: FloatArray) -> FloatArray:
    """A new array in C order with every column inside its bounds; NaN and infinity are refused."""
    if values.ndim != 2 or values.shape[1] != lower.size:
        raise InvalidParameter(
            f"source must give rows of {lower.size} columns, got shape {values.shape}"
        )
    if not np.isfinite(values).all():
        raise InvalidParameter("data must be finite numbers, got NaN or infinity among the rows")
    inside = np.empty(values.shape)
    return np.clip(values, lower, upper, out=inside)


# Portions: runs of neighbouring releases that one process computes, how, and all of them again.
#
# Portions are cut where a new first-stage subset begins, so that each of these is drawn once. The
# cut depends on the design and on where the data are, never on the number of workers; and since a
# subset depends on the seed and its rank alone, neither does any result.


#: More portions than this give no more workers something to do, and progress is fine enough.
_MOST_PORTIONS = 64
#: So many portions, if of so many releases, are made of little work too: a query may be slow.
_SOME_PORTIONS, _SOME_RELEASES = 16, 8
#: Work of a portion for which a task is always worth its overhead; see :func:`_work`.
_LEAST_WORK = 2_000_000
#: What drawing and evaluating a subset costs before its first value.
_PER_SUBSET = 1_000


#: The purpose of the generators of halves (``randomness/keys.py``).
HALVES = 0x68616C66

#: The rank of a subset, its clipped values, and how often each was drawn.
Multiset = tuple[int, FloatArray, IntArray]


class Portion(NamedTuple):
    """The releases ``start`` to ``stop - 1``."""

    start: int
    stop: int


@dataclass(frozen=True, eq=False, repr=False)
class Job:
    """What is computed, for every portion alike. The key is in it: it is not to be printed."""

    design: Design
    query: Query
    key: BatchKey
    lower: FloatArray
    upper: FloatArray

    def draws(self, portion: Portion) -> Iterator[tuple[int, Batch]]:
        """The subsets of a portion with their ranks."""
        return self.design.draws(self.key, *portion)

    def portion(self, source: SourceOrTable, portion: Portion) -> FloatArray:
        """The exact totals ``(releases, width)`` of a portion, by the way that suits the source.

        A pure function: computed again, elsewhere, it gives the same answer.
        """
        return self.totals(self._multisets(source, portion), portion)

    def totals(self, multisets: Iterator[Multiset], portion: Portion) -> FloatArray:
        """The totals of the multisets of a portion, which come in the order of ranks."""
        query, (start, stop) = self.query, portion
        halves = Substreams(self.key, HALVES) if query.halved else None
        totals = np.empty((stop - start, query.width))
        expected = start
        with one_blas_thread():
            for rank, values, counts in multisets:
                both = None if halves is None else in_halves(counts, halves.at(rank))
                found = query.total(values, counts, both)
                if rank != expected or rank >= stop:
                    break
                if getattr(found, "shape", None) != (query.width,):
                    raise InvalidParameter(
                        f"query must give an array of {query.width} numbers for each subset, "
                        f"got {type(found).__name__} of shape {np.shape(found)}"
                    )
                totals[rank - start] = found
                expected += 1
        if expected != stop:
            raise NumericalFailure(
                f"the releases {start} to {stop - 1} must be drawn once each and in order; "
                f"number {expected} was not"
            )
        if not np.isfinite(totals).all():
            raise NumericalFailure(
                "the query gave NaN or infinity on a subset; nothing is released"
            )
        return totals

    def _multisets(self, source: SourceOrTable, portion: Portion) -> Iterator[Multiset]:
        draws = self.draws(portion)
        if isinstance(source, ClippedTable):
            take = source.plain.take
            for rank, batch in draws:
                yield rank, take(batch.indices, 0), batch.counts
        elif source.rows_in_memory:
            for rank, batch in draws:
                yield rank, taken(source, batch.indices, self.lower, self.upper), batch.counts
        else:
            for bundle in in_bundles(draws, self.lower.size):
                values = taken(source, bundle.rows, self.lower, self.upper)
                for rank, batch in bundle.batches:
                    yield rank, handed_out(bundle.rows, values, batch), batch.counts


def in_halves(counts: IntArray, rng: np.random.Generator) -> tuple[IntArray, IntArray]:
    """The counts of two random halves of a subset, for statistics whose bias depends on its size.

    All ways of cutting the entries in half have the same chance, whatever the entries are and in
    whatever order they come; so the law of what is computed from halves depends on the multiset
    alone. One entry is left out where their number is odd.

    >>> first, second = in_halves(np.array([3, 1, 2]), np.random.default_rng(1))
    >>> (first + second).tolist(), int(first.sum())
    ([3, 1, 2], 3)
    """
    entries = np.repeat(np.arange(counts.size), counts)
    rng.shuffle(entries)
    half = entries.size // 2
    first, second = (
        np.bincount(part, minlength=counts.size).astype(np.int64)
        for part in (entries[:half], entries[half : 2 * half])
    )
    return first, second


class Collected:
    """Room for all totals in the order of ranks; a portion that comes again changes nothing."""

    def __init__(
        self, portions: tuple[Portion, ...], width: int, progress: Progress | None
    ) -> None:
        self._missing = dict.fromkeys(portions)
        self._totals = np.full((portions[-1].stop, width), np.nan)
        self._done = 0
        self._progress = progress

    @property
    def missing(self) -> tuple[Portion, ...]:
        """The portions that have not come yet, in the order of ranks."""
        return tuple(self._missing)

    def add(self, portion: Portion, totals: FloatArray) -> None:
        """Take a portion in and report the progress."""
        if portion not in self._missing:
            return
        self._totals[portion.start : portion.stop] = totals
        del self._missing[portion]
        self._done += portion.stop - portion.start
        if self._progress is not None:
            self._progress("releases", self._done, len(self._totals))

    def totals(self) -> FloatArray:
        """All totals; an error while any portion is missing."""
        if self._missing:
            raise NumericalFailure(
                f"{len(self._missing)} portions of the releases were never computed"
            )
        return self._totals


def cut(design: Design, columns: int, *, by_work: bool, by_rows: bool) -> tuple[Portion, ...]:
    """Cut the releases into portions of whole groups.

    ``by_work``: into portions worth a task each. ``by_rows``: into portions whose rows can be held
    at once, as far as groups allow. A file is cut by rows alone: every portion goes through it.
    """
    reuse, groups, count = design.reuse, design.subsets, 1
    if by_work:
        some = min(_SOME_PORTIONS, design.releases // _SOME_RELEASES)
        count = max(some, min(_MOST_PORTIONS, math.ceil(_work(design, columns) / _LEAST_WORK)))
    if by_rows:
        distinct = design.scheme.expected_distinct
        entries = reuse * distinct
        rows = entries if reuse == 1 else min(entries, _first_stage(design))
        filled = max(rows * columns / MOST_VALUES, entries / MOST_ENTRIES)
        count = max(count, math.ceil(groups * filled))
    count = min(max(count, 1), groups)
    edges = [groups * k // count * reuse for k in range(count + 1)]
    return tuple(Portion(*pair) for pair in pairwise(edges))


def _work(design: Design, columns: int) -> float:
    """A rough cost of a design on data in memory; one unit is about twenty nanoseconds."""
    subset = _PER_SUBSET + design.scheme.expected_distinct * columns
    return design.releases * subset + design.subsets * _first_stage(design)


def _first_stage(design: Design) -> float:
    """Entries of a first-stage subset; 0 where there is but one stage."""
    scheme = design.scheme
    if isinstance(scheme, Multistage) and len(scheme.stages) > 1:
        return float(scheme.stages[0].size)
    return 0.0


# Portions on this machine: in this process, or in several through joblib.
#
# Large arrays reach the processes through a memory-mapped file of joblib's in this process's
# private folder. A process that dies takes its unfinished portions with it; these are computed
# again, by fresh processes a few times and then here. If this process dies, the others end with
# it.


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


# Which tasks a portion is made of on a Dask cluster, and where they run.


#: So often Dask repeats a task that raised an error before it believes it.
_RETRIES = 3
#: Seconds until a cluster that has lost all its workers must have a new one.
_PATIENCE = 300.0


class SharedSource:
    """One task for each portion. Files are opened where it runs; data in memory are sent once."""

    def __init__(self, client: Any, source: SourceOrTable, job: Job) -> None:
        self._client = client
        self._source = source
        self._job = Concealed(job)
        self._sent: Any = Concealed(source)
        self.renew()

    def renew(self) -> None:
        """Send the data again: the workers that held them may be gone."""
        if is_in_memory(self._source):
            self.release()
            data = Concealed(self._source)
            self._client.wait_for_workers(1, timeout=_PATIENCE)
            self._sent = self._client.scatter(data, broadcast=True, hash=False)

    def release(self) -> None:
        """Remove the data from the cluster; dropping the future would leave them there."""
        if not isinstance(self._sent, Concealed):
            self._client.cancel([self._sent])

    def displaced(self) -> bool:
        """Never: a portion can run anywhere."""
        return False

    def submit(self, portion: Portion) -> Any:
        """The future of a portion's totals."""
        return _submit(self._client, "portion", _whole_portion, self._sent, self._job, portion)


class AtPartitions:
    """Rows are picked where the partitions are, by tasks that may run nowhere else."""

    def __init__(self, client: Any, source: DaskSource, job: Job) -> None:
        self._client = client
        self._source = source
        self._job = Concealed(job)
        self.renew()

    def renew(self) -> None:
        """Find out anew where the partitions are."""
        self._addresses = self._source.addresses()

    def displaced(self) -> bool:
        """Whether a worker that tasks are bound to has gone."""
        return not set(self._addresses) <= set(self._client.nthreads())

    def release(self) -> None:
        """Leave the partitions where they are: they are the caller's."""

    def submit(self, portion: Portion) -> Any:
        """The future of a portion's totals; what it is made of goes when it is done."""
        client, source = self._client, self._source
        rows = _submit(client, "draw", _drawn_rows, self._job, portion)
        parts = [
            _submit(
                client, "rows", picked, partition, rows, first, last, source.positions,
                workers=[address],
            )
            for partition, address, (first, last) in zip(
                source.partitions, self._addresses, pairwise(source.edges), strict=True
            )
        ]  # fmt: skip
        return _submit(client, "portion", _portion_from_parts, self._job, portion, rows, *parts)


def _submit(client: Any, kind: str, task: Any, *arguments: Any, **options: Any) -> Any:
    key = f"mustdp_{kind}-{uuid4().hex}"
    return client.submit(task, *arguments, key=key, pure=False, retries=_RETRIES, **options)


def _whole_portion(
    source: Concealed[SourceOrTable], job: Concealed[Job], portion: Portion
) -> FloatArray:
    return job.content.portion(source.content, portion)


def _drawn_rows(job: Concealed[Job], portion: Portion) -> Concealed[IntArray]:
    """The distinct rows of all subsets of a portion, in increasing order."""
    drawn = [batch.indices for _, batch in job.content.draws(portion)]
    return Concealed(np.unique(np.concatenate(drawn)))


def _portion_from_parts(
    job: Concealed[Job],
    portion: Portion,
    rows: Concealed[IntArray],
    *parts: Concealed[FloatArray | Exception],
) -> FloatArray:
    given = job.content
    values = within_bounds(joined(parts), given.lower, given.upper)
    multisets = (
        (rank, handed_out(rows.content, values, batch), batch.counts)
        for rank, batch in given.draws(portion)
    )
    return given.totals(multisets, portion)


# Portions on a Dask cluster: tasks that can be computed again, anywhere, without harm.
#
# Every task is a pure function of its arguments. Dask repeats those of a worker that is lost; what
# cannot be repeated that way is submitted anew. The names of tasks are random, since they are
# shown on dashboards and in logs; seeds, records and results are concealed there. Exact totals
# stay on the cluster only until they have been fetched.


#: So often in a row work may be lost that Dask does not repeat by itself.
_MOST_LOSSES = 3
#: Seconds that a scheduler may be out of reach before it counts as gone.
_OUT_OF_REACH = 5.0


def run_on_cluster(
    source: SourceOrTable,
    job: Job,
    collected: Collected,
    dask: Any,
    workers: int | None,
    insecure: bool = False,
) -> None:
    """Compute what is missing on the cluster that ``dask`` names."""
    if isinstance(source, DaskSource):
        _check_home(source, dask)
        check_secure(source.client, insecure)
        _run(source.client, AtPartitions, source, job, collected)
        return
    with connected(dask, workers) as client:
        _run(client, SharedSource, source, job, collected)


def _run(
    client: Any,
    kind: Callable[[Any, Any, Job], SharedSource | AtPartitions],
    source: SourceOrTable,
    job: Job,
    collected: Collected,
) -> None:
    """Gather what is missing; a scheduler that has gone is told in one way, whatever noticed it."""
    try:
        _gather(client, kind(client, source, job), collected)
    except ClusterLost:
        raise
    except Exception:
        if client.status != "running":
            _refuse_lost(client)
        raise


def _gather(client: Any, tasks: SharedSource | AtPartitions, collected: Collected) -> None:
    """Keep the cluster busy and take the portions in as they are done."""
    killed = required("distributed.scheduler", "a Dask cluster").KilledWorker
    at_once = 2 * max(4, sum(client.nthreads().values()))
    waiting, losses = deque(collected.missing), 0
    running: dict[str, tuple[Any, Portion]] = {}
    try:
        while waiting or running:
            while waiting and len(running) < at_once:
                future = tasks.submit(waiting[0])
                running[future.key] = future, waiting.popleft()
            settled = _settled(client, [future for future, _ in running.values()])
            _refuse_lost(client)
            lost = not settled and tasks.displaced()
            for future in settled:
                _, portion = running.pop(future.key)
                if future.cancelled() or isinstance(future.exception(), killed):
                    waiting.append(portion)
                    lost = True
                else:
                    collected.add(portion, future.result())  # raises what the task raised
                    losses = 0
                future.release()
            if lost:
                losses += 1
                if losses > _MOST_LOSSES:
                    raise ClusterLost(
                        f"workers of the Dask cluster were lost {losses} times in a row without "
                        "any portion of the work being finished"
                    )
                client.cancel([future for future, _ in running.values()])
                waiting.extend(portion for _, portion in running.values())
                running.clear()
                tasks.renew()
    finally:
        if client.status == "running":
            client.cancel([future for future, _ in running.values()])
            tasks.release()


def _refuse_lost(client: Any) -> None:
    """Go on only with a scheduler that answers; wait a little for one that is out of reach."""
    deadline = monotonic() + _OUT_OF_REACH
    while client.status != "running":
        if client.status != "connecting" or monotonic() > deadline:
            raise ClusterLost(
                "the scheduler of the Dask cluster has gone; nothing was released or charged"
            ) from None
        sleep(0.05)


def _settled(client: Any, futures: list[Any]) -> list[Any]:
    """Those that are done, after waiting at most a second for the first; their states tell how."""
    distributed = required("distributed", "a Dask cluster")
    with suppress(distributed.CancelledError, TimeoutError), client.as_current():
        distributed.wait(futures, timeout=1.0, return_when="FIRST_COMPLETED")
    return [future for future in futures if future.status in ("finished", "error", "cancelled")]


def _check_home(source: DaskSource, dask: Any) -> None:
    address = source.client.scheduler.address
    given = getattr(getattr(dask, "scheduler", None), "address", dask)
    if given is not None and given != address:
        raise InvalidParameter(
            f"dask must be left out or be the cluster that holds the partitions, {address}, "
            f"got {given!r}"
        )


# The exact totals of all queries of a design, wherever the data are and whatever computes them.
#
# What comes out has no noise yet and must not leave the caller's hands. The caller adds the noise
# once, to the complete result. So a portion that is computed twice, because a worker died, is never
# released twice and never charged twice: nothing is released here at all.


def run_replicates(
    source: Source,
    design: Design,
    query: Query,
    seed: int | BatchKey,
    *,
    lower: ArrayLike,
    upper: ArrayLike,
    stated: Design | None = None,
    workers: int | None = None,
    dask: Any = None,
    insecure: bool = False,
    progress: Progress | None = None,
) -> FloatArray:
    """The exact totals ``(design.releases, query.width)`` of the query in the order of ranks.

    The rows of ``source`` are clipped to ``[lower, upper]``, one pair of bounds for each column.
    The result depends on the seed or key alone, not on ``workers`` (processes on this machine; None
    for what suits the work) nor on ``dask`` (the address of a scheduler, a ``distributed.Client``,
    or ``"local"`` for a cluster of ``workers`` processes here; ``insecure`` accepts a scheduler
    that anybody can speak to). It takes equal versions of numpy everywhere, and threadpoolctl for
    equal last digits. ``progress`` is called here whenever some releases are done; how many at a
    time is decided by the sizes of ``stated``, the design with a public number of records, where
    that of the data is private.
    """
    check_execution(workers, dask, insecure)
    if source.n != design.n:
        raise InvalidParameter(
            f"design must be for the {source.n} records of the data, got one for {design.n}"
        )
    if stated is not None and (stated.subsets, stated.reuse) != (design.subsets, design.reuse):
        raise InvalidParameter("stated must have the subsets of the design, got others")
    if seed is None:
        raise InvalidParameter("seed must be a seed or a key, got None")
    key = batch_key(seed)
    columns = len(source.columns)
    low, high = _bounds(lower, upper, columns)
    job = Job(design, query, key, low, high)
    data = as_table(source, low, high, files=dask is None)
    in_memory, partitioned = is_in_memory(data), isinstance(data, DaskSource)
    portions = cut(
        stated or design, columns, by_work=in_memory or partitioned, by_rows=not in_memory
    )
    collected = Collected(portions, query.width, progress)
    if dask is not None or partitioned:
        run_on_cluster(data, job, collected, dask, workers, insecure)
    else:
        with one_blas_thread():
            run_locally(data, job, collected, workers)
    return collected.totals()


def check_execution(workers: int | None, dask: Any, insecure: bool = False) -> None:
    """Refuse what these cannot be, before any data are touched."""
    if workers is not None:
        checks.integer("workers", workers, 1, MOST_WORKERS)
    if dask is not None:
        check_dask(dask, insecure)
    elif workers is not None and workers > 1:
        required("joblib", "more than one worker")


def _bounds(lower: ArrayLike, upper: ArrayLike, columns: int) -> tuple[FloatArray, FloatArray]:
    low, high = checks.reals("lower", lower), checks.reals("upper", upper)
    for name, bound in (("lower", low), ("upper", high)):
        if bound.size != columns:
            raise InvalidParameter(
                f"{name} must hold one bound for each of the {columns} columns, got {bound.size}"
            )
    if not (low < high).all():
        at = int(np.argmin(low < high))
        raise InvalidParameter(
            f"lower must be below upper in every column, got {low[at]:g} and {high[at]:g}"
        )
    return low, high
