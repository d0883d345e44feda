"""Which tasks a portion is made of on a Dask cluster, and where they run."""

from __future__ import annotations

from itertools import pairwise
from typing import Any
from uuid import uuid4

import numpy as np

from mustdp.numerics.arrays import FloatArray, IntArray
from mustdp.resampling.execution.bundles import handed_out
from mustdp.resampling.execution.concealed import Concealed
from mustdp.resampling.execution.partitioned import DaskSource, joined, picked
from mustdp.resampling.execution.portions import Job, Portion
from mustdp.resampling.execution.table import SourceOrTable, is_in_memory, within_bounds

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
