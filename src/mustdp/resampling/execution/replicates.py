"""The exact totals of all queries of a design, wherever the data are and whatever computes them.

What comes out has no noise yet and must not leave the caller's hands. The caller adds the noise
once, to the complete result. So a portion that is computed twice, because a worker died, is never
released twice and never charged twice: nothing is released here at all.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from mustdp.errors import InvalidParameter
from mustdp.extras import required
from mustdp.numerics import checks
from mustdp.numerics.arrays import FloatArray
from mustdp.progress import Progress
from mustdp.randomness.keys import BatchKey, batch_key
from mustdp.resampling.designs import Design
from mustdp.resampling.execution.cluster import run_on_cluster
from mustdp.resampling.execution.connecting import check_dask
from mustdp.resampling.execution.local import MOST_WORKERS, run_locally
from mustdp.resampling.execution.partitioned import DaskSource
from mustdp.resampling.execution.portions import Collected, Job, cut
from mustdp.resampling.execution.table import as_table, is_in_memory
from mustdp.resampling.execution.threads import one_blas_thread
from mustdp.resampling.sources.source import Source
from mustdp.resampling.statistics.query import Query


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
