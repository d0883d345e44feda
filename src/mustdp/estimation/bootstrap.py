"""``private_bootstrap``: draw subsets, release statistics of each with noise, infer."""

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
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import BrokenExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from itertools import pairwise
from time import monotonic, sleep
from typing import Any, NamedTuple
from uuid import uuid4

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import chdtri

from mustdp.accounting.plan import Plan
from mustdp.calibration.budget import NoisyPlan, PrivacySpent, plan_with_noise
from mustdp.data.columns import Source
from mustdp.data.dask import DaskSource, joined, open_partitioned, picked
from mustdp.data.opening import open_source
from mustdp.errors import ClusterLost, InvalidParameter, NumericalFailure
from mustdp.estimation.designs import MOST_REPLICATES, Design
from mustdp.estimation.queries import (
    Averaged,
    JointQuery,
    LinearQuery,
    Query,
    check_held,
    exact_release,
)
from mustdp.estimation.result import (
    CLEARLY,
    KINDS,
    RARE,
    ROUGH,
    BootstrapResult,
    Estimate,
    InferenceNote,
    Interval,
    Kind,
    Spread,
    positive_mean,
    rare_error,
    rare_limit,
    vacuous_interval,
)
from mustdp.estimation.schema import Limits, Range, Shape, SubsetSchema, check_limits, read_ranges
from mustdp.estimation.statistics.statistic import Statistic, read_statistics
from mustdp.execution.cluster import Concealed, check_dask, check_secure, connected, private_folder
from mustdp.execution.processes import processors
from mustdp.extras import installed, required
from mustdp.ledger.release import LedgerOrPath, charge_release, check_release
from mustdp.mechanisms.mechanism import Mechanism, gaussian
from mustdp.mechanisms.relation import drawn_from, most_copies
from mustdp.numerics import checks
from mustdp.numerics.arrays import FloatArray, IntArray
from mustdp.progress import Progress
from mustdp.randomness.keys import BatchKey, NoiseSource, Substreams, batch_key, release_key
from mustdp.sampling.schemes import Batch, Multistage, Scheme

# The exact totals of all queries of a design: in one process, several, or on Dask.

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
                entries = MOST_ENTRIES + 1  # an empty subset begins a new one, too
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

#: Rows clipped at a time, so that temporary copies take some megabytes.
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
#: This many portions, if of this many releases, are made of little work too: a query may be slow.
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


# BLAS libraries add up in another order when they use more threads, which changes last digits.
# joblib and Dask start their workers with one thread already; this does the same for the process of
# the caller. It needs threadpoolctl; without it, last digits of statistics that multiply matrices
# may depend on where they are computed. Several threads of a process may be inside at the same
# time: the first one in sets the limit and the last one out lifts it.


_THREADPOOLCTL = installed("threadpoolctl")
_blas_lock = threading.Lock()
_inside = 0
_limit: Any = None


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Keep BLAS to one thread inside the block."""
    global _inside, _limit
    with _blas_lock:
        if _inside == 0 and _THREADPOOLCTL is not None:
            _limit = _THREADPOOLCTL.threadpool_limits(1, user_api="blas")
        _inside += 1
    try:
        yield
    finally:
        with _blas_lock:
            _inside -= 1
            if _inside == 0 and _limit is not None:
                _limit.restore_original_limits()
                _limit = None


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


#: For this many seconds this process works alone where the number of workers was left open.
_ALONE = 2.0
#: So often a fresh set of processes is tried when one has died.
_ATTEMPTS = 3
_PR_SET_PDEATHSIG = 1
#: Seconds between two looks at the parent.
_BEAT = 0.5
#: More processes than this are a mistake.
MOST_WORKERS = 4096


@dataclass(frozen=True)
class Execution:
    """Where subsets are drawn and computed; no result depends on it.

    Parameters
    ----------
    workers : int, default=None
        Processes on this machine; None means what suits the work.
    dask : "local", distributed.Client or str, default=None
        A cluster to compute on, by its client or the address of its scheduler; "local" makes one
        of ``workers`` processes here.
    insecure : bool, default=False
        Whether to accept a scheduler without certificates: anybody can read the records there.

    Examples
    --------
    >>> import mustdp as md
    >>> md.types.Execution(workers=1).dask is None
    True
    """

    workers: int | None = None
    dask: Any = None
    insecure: bool = False

    def __post_init__(self) -> None:
        if self.workers is not None:
            checks.integer("workers", self.workers, 1, MOST_WORKERS)
        if self.dask is not None:
            check_dask(self.dask, self.insecure)
        elif self.workers is not None and self.workers > 1:
            required("joblib", "more than one worker")

    @property
    def client(self) -> Any:
        """The client of the cluster, where that is what was given.

        Returns
        -------
        distributed.Client or None
            The client.
        """
        return None if isinstance(self.dask, str) else self.dask


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
    """Stop the processes; the caller need not hear that finished portions are discarded."""
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
    source: SourceOrTable, job: Job, collected: Collected, execution: Execution
) -> None:
    """Compute what is missing on a cluster."""
    if isinstance(source, DaskSource):
        _check_home(source, execution.dask)
        check_secure(source.client, execution.insecure)
        _run(source.client, AtPartitions, source, job, collected)
        return
    with connected(execution.dask, execution.workers) as client:
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
    execution: Execution,
    progress: Progress | None = None,
) -> FloatArray:
    """The exact totals ``(design.releases, query.width)`` of the query in the order of ranks.

    The rows of ``source`` are clipped to ``[lower, upper]``, one pair of bounds for each column.
    The result depends on the seed or key alone, not on the execution. It takes equal versions of
    numpy everywhere, and threadpoolctl for equal last digits. ``progress`` is called here whenever
    some releases are done; how many at a time is decided by the sizes of ``stated``, the design
    with a public number of records, where that of the data is private.
    """
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
    data = as_table(source, low, high, files=execution.dask is None)
    in_memory, partitioned = is_in_memory(data), isinstance(data, DaskSource)
    portions = cut(
        stated or design, columns, by_work=in_memory or partitioned, by_rows=not in_memory
    )
    collected = Collected(portions, query.width, progress)
    if execution.dask is not None or partitioned:
        run_on_cluster(data, job, collected, execution)
    else:
        with one_blas_thread():
            run_locally(data, job, collected, execution.workers)
    return collected.totals()


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


# The noise of a design's releases: settled (``calibration/budget.py``) for the design's plan.
#
# The plan says no more than what is proved of the statistics. If all contributions lie in a ball
# of the radius and are added up, its noise is given as a multiplier, which the accountant takes to
# say just that. Otherwise (moments, averages over pairs, functions of a user's own) only the
# distance of any two results is bounded, by twice the radius, and the noise is given as the shift
# of one copy. One number for each subset is all there is to hide where the width of the release is
# one: a total is one integer on one lattice, and so is its noise. What was assumed is compared
# with the query that is run.


@dataclass(frozen=True)
class _Apart:
    """A design of which only the distance of any two results is known."""

    design: Design

    @property
    def scheme(self) -> Scheme:
        return self.design.scheme

    def plan(self, mechanism: Mechanism, /) -> Plan:
        return self.design.plan(gaussian(shift=mechanism.shift_for(2.0)))


def design_with_noise(
    design: Design,
    *,
    shape: Shape | None = None,
    delta: float | None = None,
    epsilon: float | None = None,
    noise_multiplier: float | None = None,
    relation: str | None = None,
) -> NoisyPlan:
    """Settle the noise of one release of all statistics together on every subset.

    Exactly one of ``epsilon`` and ``noise_multiplier`` is given. Without a ``shape`` contributions
    are taken to be in a ball, as those of a clipped sum are.
    """
    known = Shape(in_a_ball=True) if shape is None else shape
    return plan_with_noise(
        design if known.in_a_ball else _Apart(design),
        delta=delta,
        epsilon=epsilon,
        noise_multiplier=noise_multiplier,
        relation=relation,
        dimension=1 if known.one_number else None,
    )


def shape_of(statistics: Sequence[Statistic], poisson: bool, *, charged: bool) -> Shape:
    """What is known of all statistics together, before any data are read.

    A ledger counts releases of any dimension; what is ``charged`` to one is settled like that.
    """
    shapes = [statistic.shape(poisson) for statistic in statistics]
    single = len(shapes) == 1 and shapes[0].one_number and not charged
    return Shape(all(shape.in_a_ball for shape in shapes), single)


def check_shape(shape: Shape, query: JointQuery, privacy: PrivacySpent) -> None:
    """Refuse a query that has not the shape for which its noise was settled, if it was charged."""
    if privacy.plan is None:
        return
    adds_up = all(isinstance(part, LinearQuery) and part.in_a_ball for part in query.queries)
    if (shape.in_a_ball and not adds_up) or (shape.one_number and query.width != 1):
        named = "one number" if shape.one_number else "sums of vectors in a ball"
        raise NumericalFailure(
            f"the noise was calibrated for {named}, and does not fit a release of {query.width} "
            "numbers; nothing was released"
        )


# Kinds of interval: the one that is made, and those that are refused, each with its reason.
#
# The interval is the estimate plus and minus a t quantile times its standard error, where an
# estimate has no better one of its own, such as a quantile or a proportion.


#: Names that people know from bootstraps without noise, and why there is no such interval here.
REFUSED = {
    "percentile": "the shape of replicates on m records with noise is neither that of n records "
    "nor free of the noise's own",
    "bootstrap-t": "the noise hides the standard errors of single subsets, by which it would have "
    "to divide",
    "BCa": "its acceleration needs the influence of every single record, which must not be "
    "released",
}
#: All of them, for anyone who reads a word.
WORDS = (*KINDS, *REFUSED)


def check_kind(kind: str) -> None:
    """Refuse any other kind than the one that is made."""
    checks.choice("interval", kind, WORDS)
    if kind in REFUSED:
        raise InvalidParameter.refusing(
            "interval", f"must be normal, because for {kind} {REFUSED[kind]}", repr(kind)
        )


# How far an estimate is from the truth, judged from noisy replicates.
#
# One number is released for each of s * r subsets: s groups, each with a first stage of its own,
# and r second stages on it (r = 1 for plain designs). In one direction u of the released vector,
#
#     u_ti = (statistic on subset i of group t) + noise,      noise of known variance N,
#
# and with S^2 the variance of a record's influence, a_b and a_w the design's ``between`` and
# ``within``, A = a_b + a_w / r,
#
#     E B = A S^2 + N / r      B: sample variance of the s group means, s - 1 degrees of freedom.
#
# With the noise subtracted this gives S^2. (The variance inside the groups tells S^2 as well, but
# that of few first stages: with heavy tails they all miss the same records, so it is left alone.)
# The average of all replicates differs from the truth by the sampling of the data from a population
# of N records, the resampling, and the noise,
#
#     V = S^2 ((1 - n/N)/n + A/s) + N/(r s),
#
# which contains the m-out-of-n scaling, the duplicates and the noise, each once. The precision of V
# itself gives degrees of freedom (Satterthwaite 1946), so that an interval is wider where much
# noise was subtracted.
#
# *Dominated by noise.* If S^2 were 0, its estimate would have the standard error (N / (r A)) sqrt(2
# / (s - 1)). An estimate below that cannot be told from nothing: the noise hides it, and the result
# says so. Its place is taken by the limit that S^2 stays below with a chance of 95 %, from the
# chi-square law of B, and at least by the mean of the normal law around it cut off at zero. So it
# is where hardly any record differs (*rare values* in ``result.py``): S^2 comes from about s /
# A.


#: With fewer subsets a standard error says next to nothing.
FEWEST_SUBSETS = 4
#: Chance that a hidden variance stays below the limit that takes its place.
_SURE = 0.95


def check_subsets(design: Design) -> None:
    """Refuse a design that cannot tell how far its subsets differ."""
    if design.subsets < FEWEST_SUBSETS:
        raise InvalidParameter.refusing(
            "replicates" if design.reuse == 1 else "subsets",
            f"must be at least {FEWEST_SUBSETS}: a standard error comes from how subsets that "
            "were drawn independently differ",
            design.subsets,
        )
    if not design.between + design.within > 0:
        raise InvalidParameter(
            "every subset of this design is the whole data set, so that replicates say nothing "
            "about sampling error: draw fewer records than there are, or with replacement"
        )


def factor_of(design: Design, population: float = math.inf) -> float:
    """What S^2 is multiplied by in the variance of the average of all replicates."""
    unsampled = max(0.0, 1.0 - design.n / population)
    return unsampled / design.n + _between_means(design) / design.subsets


def spread_of(
    design: Design,
    replicates: FloatArray,
    noise: float,
    population: float = math.inf,
    largest: float = 0.0,
) -> Spread:
    """Judge ``replicates`` (groups, reuse), each with noise of variance ``noise``.

    ``largest`` is the largest influence of a record, where it is known.
    """
    check_subsets(design)
    s, r = replicates.shape
    df, a, own = s - 1, _between_means(design), noise / r
    seen = float(np.var(replicates.mean(axis=1), ddof=1))
    influence = (seen - own) / a
    null = own / a * math.sqrt(2.0 / df)
    factor = factor_of(design, population)
    if noise > 0 and influence < null:
        upper = (seen * df / float(chdtri(df, _SURE)) - own) / a
        hidden = max(upper, positive_mean(influence, null), rare_limit(influence, largest, a / s))
        return Spread(hidden * factor, own / s, noise_dominated=True)
    influence = max(influence, 0.0)
    rare = rare_error(influence, largest, a / s)
    if influence < rare or (largest > 0 and influence == 0.0):
        return Spread(rare_limit(influence, largest, a / s) * factor, own / s, noise_dominated=True)
    total = influence * factor + own / s
    doubt = math.hypot((influence + own / a) * math.sqrt(2.0 / df), rare) * factor
    return Spread(
        influence * factor, own / s, 2.0 * (total / doubt) ** 2 if doubt > 0 else math.inf
    )


def _between_means(design: Design) -> float:
    return design.between + design.within / design.reuse


# From noisy replicates to estimates with standard errors and intervals.
#
# Everything here only reads what was released, so it costs no privacy. The released vectors are
# averaged first and turned into estimates afterwards, which keeps the noise from bending them.
# Where what was released tells the sampling error itself (means by their squares, proportions,
# quantiles), the statistic says so. Else an estimate's error is that of the vector seen along the
# estimate's gradient (delta method), judged as above; what
# is differentiated is not clipped anywhere, and over steps far smaller than an error. Where a
# noisy variance that is divided by is not clear of the noise, the interval is all that is
# possible.


#: Below this chance of repeated pairs readers need not be told of the correction.
_WORTH_A_WORD = 0.005
#: Steps of derivatives, in standard errors.
_STEP = 1e-3
_HIDDEN_BY_NOISE = (
    "the noise hides the variation of the data, so that an upper limit of it is in the standard "
    "error, which errs on the safe side; a larger epsilon, narrower bounds, or one release on all "
    "records where there is a formula would help"
)


@dataclass(frozen=True, eq=False)
class Inference:
    """Estimates, the replicates behind them, and what a reader has to know."""

    estimates: tuple[Estimate, ...]
    replicates: FloatArray  # (releases, estimates), noisy
    notes: tuple[str, ...]


def infer(
    design: Design,
    query: Query,
    released: FloatArray,
    noise: FloatArray,
    *,
    level: float = 0.95,
    correct: bool = True,
    population: float = math.inf,
    simultaneous: bool = False,
    descriptions: tuple[str, ...] | None = None,
) -> Inference:
    """Draw inference from ``released`` (releases, width) with noise variances (width,).

    ``correct`` undoes the bias of averages over pairs that repeated records cause. ``population``
    is the number of records that those of the data were drawn from, without replacement.
    ``simultaneous`` widens all intervals until they hold together (Bonferroni).
    """
    check_subsets(design)
    notes = []
    factor = _pair_factor(design, query) if correct else np.ones(query.width)
    if float(factor.max()) > 1.0 + _WORTH_A_WORD:
        notes.append(
            f"two draws of a subset are the same record with chance {design.repeated_pairs:.3g}, "
            "which makes variances and covariances too small by that share; this is corrected"
        )
    vectors, noise = released * factor, noise * factor**2
    average = vectors.mean(axis=0)
    _check_finite(query, average)
    at = Averaged(average, noise / design.releases, factor_of(design, population))
    count = len(query.labels)
    each = 1.0 - (1.0 - level) / count if simultaneous else level
    errors = np.std(vectors, axis=0, ddof=1) / math.sqrt(design.releases)
    gradient = _gradient(query.smooth, average, errors)
    estimates = []
    for j, (label, known) in enumerate(zip(query.labels, query.known(at, each), strict=True)):
        found = known
        if found is None:
            found = _replicated(
                design, query, j, vectors, noise, at, gradient[j], errors, each, population
            )
        flags = tuple(flag for flag in found.flags if flag != ROUGH)
        if found.noise_dominated and not flags:
            flags = (_HIDDEN_BY_NOISE,)
        notes += [f"{label}: {flag}" for flag in flags]
        estimates.append(
            Estimate(
                label,
                found.value,
                found.standard_error,
                found.ends,
                found.noise_share,
                "" if descriptions is None else descriptions[j],
                flags,
                found.degrees_of_freedom,
                found.noise_dominated,
            )
        )
    groups = vectors.reshape(design.subsets, design.reuse, -1).mean(axis=1)
    notes += query.cautions(at, groups)
    return Inference(tuple(estimates), query.estimate(vectors), tuple(notes))


def _replicated(
    design: Design,
    query: Query,
    place: int,
    vectors: FloatArray,
    noise: FloatArray,
    at: Averaged,
    gradient: FloatArray,
    errors: FloatArray,
    level: float,
    population: float,
) -> Interval:
    """One estimate judged by how its replicates differ."""
    behind, part, own = query.behind(place)
    divisors = behind.divided_by(at.vector[part])
    slopes = _gradient(behind.divided_by, at.vector[part], errors[part])
    clear = divisors > CLEARLY * np.sqrt(slopes**2 @ at.noise[part])
    value = float(query.smooth(at.vector)[place])
    if not (np.all(clear) and math.isfinite(value) and np.all(np.isfinite(gradient))):
        return vacuous_interval(behind.supports[own], behind.hidden)
    along = (vectors @ gradient).reshape(design.subsets, design.reuse)
    caused = float(gradient**2 @ noise)
    spread = spread_of(design, along, caused, population, behind.largest(at.vector[part]))
    found = behind.interval(own, value, spread, level)
    # Hidden, but not by the noise.
    few = found.flags == (ROUGH,) and spread.noise_share < 0.5
    return replace(found, flags=(RARE,)) if few else found


def _check_finite(query: Query, average: FloatArray) -> None:
    values = query.estimate(average)
    if not np.all(np.isfinite(values)):
        raise NumericalFailure(
            "a statistic is not finite at the average of the replicates: "
            + ", ".join(f"{label} = {x}" for label, x in zip(query.labels, values, strict=True))
        )


def _pair_factor(design: Design, query: Query) -> FloatArray:
    """What averages over pairs of positions are multiplied by; one for everything else."""
    paired = np.array(query.paired)
    if not paired.any():
        return np.ones(query.width)
    distinct = 1.0 - design.repeated_pairs
    if not distinct > 0:
        raise InvalidParameter(
            "a variance or covariance needs subsets of more than one distinct record, got "
            f"{design.scheme!r}"
        )
    return np.where(paired, 1.0 / distinct, 1.0)


def _gradient(
    function: Callable[[FloatArray], FloatArray], average: FloatArray, errors: FloatArray
) -> FloatArray:
    """Slopes of a function of vectors over small steps either way: (numbers, width)."""
    step = np.maximum(_STEP * errors, 1e-9 * np.maximum(np.abs(average), 1e-6))
    moves = np.diag(step)
    with np.errstate(invalid="ignore", divide="ignore"):
        rise = function(average + moves) - function(average - moves)
    return np.asarray((rise / (2.0 * step)[:, None]).T)


# Statistics bound to the columns that they read, and put into one release.


def joint_query(
    statistics: Sequence[Statistic],
    source: Source,
    low: Sequence[float],
    high: Sequence[float],
    design: Design,
) -> JointQuery:
    """Bind all statistics to their columns and put them into one release."""
    public = SubsetSchema(low, high, design.size, design.poisson, design.repeated_pairs)
    picks: list[tuple[int, ...]] = []
    queries: list[Query] = []
    for statistic in statistics:
        pick = statistic.positions(source.columns)
        statistic.check_columns(len(pick))
        picks.append(pick)
        own = public.of(pick)
        names = [_called(source.columns[k]) for k in pick]
        queries.append(statistic.labelled(statistic.query(own), names))
    return JointQuery(tuple(queries), tuple(picks), names=_names(statistics, picks, source.columns))


def check_ranges(
    statistics: Sequence[Statistic],
    names: Sequence[str] | None,
    lower: Limits,
    upper: Limits,
) -> None:
    """Refuse ranges that a statistic cannot take, as far as they are known before the columns are.

    ``names`` are the columns that were asked for, None for all that the data have.
    """
    if names is not None:
        ranges = read_ranges(names, lower, upper)
        for one in statistics:
            for k in one.positions(names):
                if names[k] in ranges:
                    one.check_range(ranges[names[k]])
    elif isinstance(lower, int | float) and isinstance(upper, int | float):
        for one in statistics:
            one.check_range(Range(float(lower), float(upper)))


def _called(name: str) -> str:
    """A column by its name, or by its place where it has none."""
    return f"column {name}" if name.isdigit() else name


def descriptions(
    statistics: Sequence[Statistic],
    query: JointQuery,
    columns: Sequence[str],
    low: Sequence[float],
    high: Sequence[float],
) -> tuple[str, ...]:
    """What every estimate is one of: clipped columns are called so."""
    said = [
        f"{_called(name)} clipped to [{least:g}, {most:g}]"
        for name, least, most in zip(columns, low, high, strict=True)
    ]
    return tuple(
        statistic.described(label, [said[k] for k in pick])
        for statistic, own, pick in zip(statistics, query.queries, query.picks, strict=True)
        for label in own.labels
    )


def _names(
    statistics: Sequence[Statistic], picks: Sequence[Sequence[int]], columns: Sequence[str]
) -> tuple[str, ...] | None:
    """What tells equal statistics of different columns apart: the columns' names."""
    names = [statistic.name for statistic in statistics]
    if len(set(names)) == len(names):
        return None
    return tuple(",".join(columns[k] for k in pick) for pick in picks)


def label_of(statistics: Sequence[Statistic]) -> str:
    """What an entry of a ledger says about a bootstrap."""
    label = f"bootstrap: {', '.join(statistic.name for statistic in statistics)}"
    return label if len(label) <= 200 else f"{label[:197]}..."


# A private bootstrap: draw subsets, compute statistics on each, release them with noise, infer.
#
# Order matters. What was asked for is checked first, then the noise is settled and certified, then
# the data are read and the exact replicates computed, in steps of a lattice. Only then is the
# ledger charged and the noise drawn, in one place and once: work that had to be repeated repeats
# nothing that was released. The source of the noise never leaves this process.


def private_bootstrap(
    data: Any,
    statistics: str | Statistic | Sequence[str | Statistic] = "mean",
    *,
    lower: Limits,
    upper: Limits,
    design: Design | Scheme,
    replicates: int | None = None,
    columns: str | Sequence[str] | None = None,
    epsilon: float | None = None,
    delta: float | None = None,
    noise_multiplier: float | None = None,
    relation: str | None = None,
    interval: Kind = "normal",
    level: float = 0.95,
    simultaneous: bool = False,
    population: int | None = None,
    correct_bias: bool = True,
    execution: Execution | None = None,
    ledger: LedgerOrPath | None = None,
    seed: Any = None,
    progress: Progress | None = None,
) -> BootstrapResult:
    """Estimate with intervals from noisy replicates on random subsets, at a certified cost.

    The noise comes from a total ``epsilon`` at ``delta`` for everything released here, or from a
    ``noise_multiplier``. Further parameters are those of :func:`private_release`.

    Parameters
    ----------
    data : array, frame, table, path or Reading
        The records: an array, a pandas or polars frame, an Arrow table, the path of a CSV or
        Parquet file, or partitions on a Dask cluster.
    statistics : str, Statistic or sequence of them, default="mean"
        One or several, by name or as objects: ``"mean"``, ``"quantile:0.9"``, ``"mean@age"``,
        ``md.types.Mean()``; ``mustdp bootstrap --help`` lists the names. Several share one release.
    lower : float, sequence or mapping
        Lower ends of the ranges that values are clipped to: one for all columns, one for each, or
        by name. Public: they must be known without looking at the data.
    upper : float, sequence or mapping
        Upper ends of the ranges, given like ``lower``.
    design : Scheme or Design
        A scheme, with ``replicates`` draws; or a :class:`Design` such as :func:`double_bootstrap`
        and :func:`bag_of_little_bootstraps` give. With Poisson subsets under add_remove the number
        of records is private: the scheme's n is an estimate that is not compared with the data.
    replicates : int, default=None
        Number of subsets; needed with a scheme.
    columns : str or sequence of str, default=None
        The columns that are used; None means all numeric ones.
    epsilon : float, default=None
        What the certified epsilon of the whole release must not exceed.
    delta : float
        The delta at which epsilon is stated, well below 1/n; it has no default.
    noise_multiplier : float, default=None
        Scale of the noise over C, the bound on the norm of what one record contributes to a sum;
        from 1e-9 to 1e9.
    relation : {"replace_one", "add_remove"}, default=None
        Which data sets are neighbours; None means add_remove where every draw is by Poisson
        sampling or random allocation, and replace_one otherwise.
    interval : {"normal"}, default="normal"
        Kind of interval; other names are refused with the reason.
    population : int, default=None
        The size of what the records were drawn from, without replacement; None means endless.
    correct_bias : bool, default=True
        Whether what repeated records do to averages over pairs is divided out.
    execution : Execution, default=None
        A :class:`mustdp.types.Execution`: processes on this machine, or a Dask cluster; None means
        what suits the work.

    Returns
    -------
    BootstrapResult
        Estimates with intervals, and what they cost; all of it may be published.

    Raises
    ------
    InvalidParameter
        An argument is outside what is allowed.
    NotCovered
        No theorem of this package covers what was asked.
    BudgetExceeded
        The charge does not fit the limit of the ledger; nothing was written.
    ClusterLost
        The cluster has gone before the work was done; nothing was released.

    Warns
    -----
    InferenceNote
        A reader has to know something about an estimate.
    LargeDelta
        ``delta`` is above one in the design's number of records.
    SeededRelease
        A seed was given.

    Examples
    --------
    >>> import numpy as np, mustdp as md
    >>> ages = np.random.default_rng(0).uniform(20, 80, 10_000)
    >>> result = private_bootstrap(
    ...     ages, "mean", lower=0, upper=100, design=md.wor(10_000, 500), replicates=50,
    ...     epsilon=1, delta=1e-6,
    ... )
    >>> low, high = result.interval
    >>> bool(low < result.estimate < high)
    True
    """
    asked = read_statistics(statistics)
    for one in asked:
        one.check_bootstrap()
        if one.columns is not None:
            one.check_columns(len(one.columns))
    chosen = _read_design(design, replicates)
    check_subsets(chosen)
    check_kind(interval)
    level = checks.real("level", level, above=0, below=1)
    if not isinstance(simultaneous, bool):
        raise InvalidParameter(f"simultaneous must be True or False, got {simultaneous!r}")
    if population is not None:
        population = checks.integer("population", population, chosen.n)
    execution = Execution() if execution is None else execution
    checks.instance("execution", execution, Execution)
    names = (columns,) if isinstance(columns, str) else None if columns is None else tuple(columns)
    check_limits(lower, upper)
    check_ranges(asked, names, lower, upper)
    shape = shape_of(asked, chosen.poisson, charged=ledger is not None)
    privacy = design_with_noise(
        chosen,
        shape=shape,
        epsilon=epsilon,
        delta=delta,
        noise_multiplier=noise_multiplier,
        relation=relation,
    ).spent()
    key = release_key(seed, name="seed")
    privacy = replace(privacy, seeded=key.seeded)
    if ledger is not None:
        check_release(ledger, chosen.scheme, privacy)
    source = _open(data, names, execution.client)
    drawn = replace(chosen, scheme=drawn_from(chosen.scheme, privacy.relation, source.n))
    ranges = read_ranges(source.columns, lower, upper)
    if set(ranges) != set(source.columns):
        raise InvalidParameter(
            f"lower and upper must have one entry for each of the {len(source.columns)} columns, "
            f"by name, got {', '.join(ranges)}"
        )
    low = tuple(ranges[name].lower for name in source.columns)
    high = tuple(ranges[name].upper for name in source.columns)
    query = joint_query(asked, source, low, high, chosen)
    check_shape(shape, query, privacy)
    check_held("replicates", query.width, chosen.releases)
    copies = most_copies(chosen.scheme, privacy.relation)
    exact = exact_release(query, privacy.noise_multiplier, copies)
    totals = run_replicates(
        source, drawn, exact.stepped, key,
        lower=low, upper=high, stated=chosen, execution=execution, progress=progress,
    )  # fmt: skip
    if ledger is not None:
        charge_release(ledger, chosen.scheme, privacy, label_of(asked))
    released = exact.released(totals, NoiseSource(key.seed))
    found = infer(
        chosen, query, released, exact.deviations**2,
        level=level, correct=correct_bias, simultaneous=simultaneous,
        population=math.inf if population is None else population,
        descriptions=descriptions(asked, query, source.columns, low, high),
    )  # fmt: skip
    for note in found.notes:
        warnings.warn(note, InferenceNote, stacklevel=2)
    return BootstrapResult(
        found.estimates, privacy, chosen, level, interval, found.replicates, found.notes,
        simultaneous,
    )  # fmt: skip


def _open(data: Any, names: tuple[str, ...] | None, client: Any) -> Source:
    """The data where they are; partitions of a dask collection stay on their cluster."""
    if not hasattr(data, "__dask_graph__"):
        return open_source(data, names)
    return open_partitioned(data, names, client)


def _read_design(design: Design | Scheme, replicates: int | None) -> Design:
    if isinstance(design, Design):
        if replicates is not None and replicates != design.releases:
            raise InvalidParameter(
                f"replicates must be left out or be {design.releases}, which the design makes, "
                f"got {replicates!r}"
            )
        return design
    if replicates is None:
        raise InvalidParameter("replicates must be given with a scheme: the number of subsets")
    return Design(design, checks.integer("replicates", replicates, FEWEST_SUBSETS, MOST_REPLICATES))
