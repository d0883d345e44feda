"""Portions on a Dask cluster: tasks that can be computed again, anywhere, without harm.

Every task is a pure function of its arguments. Dask repeats those of a worker that is lost; what
cannot be repeated that way is submitted anew. The names of tasks are random, since they are shown
on dashboards and in logs; seeds, records and results are concealed there. Exact totals stay on the
cluster only until they have been fetched.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from mustdp.errors import InvalidParameter
from mustdp.extras import required
from mustdp.resampling.execution.collected import Collected
from mustdp.resampling.execution.partitioned import DaskSource
from mustdp.resampling.execution.placing import AtPartitions, SharedSource
from mustdp.resampling.execution.portions import Job, Portion
from mustdp.resampling.execution.table import SourceOrTable

#: Workers that may die under a task before Dask gives it up, on a cluster that is ours.
_ALLOWED_FAILURES = 10
#: So often in a row work may be lost that Dask does not repeat by itself.
_MOST_LOSSES = 3
_ADDRESS = re.compile(r"(tcp|tls|ws|wss|ucx|inproc)://\S+")


def run_on_cluster(
    source: SourceOrTable, job: Job, collected: Collected, dask: Any, workers: int | None
) -> None:
    """Compute what is missing on the cluster that ``dask`` names."""
    if isinstance(source, DaskSource):
        _check_home(source, dask)
        _gather(source.client, AtPartitions(source.client, source, job), collected)
        return
    with connected(dask, workers) as client:
        _gather(client, SharedSource(client, source, job), collected)


def check_dask(dask: Any) -> None:
    """Refuse what cannot name a cluster; nothing is connected to."""
    distributed = required("distributed", "a Dask cluster")
    if isinstance(dask, distributed.Client):
        if dask.asynchronous:
            raise InvalidParameter("dask must be a client that is not asynchronous, got one")
    elif not (isinstance(dask, str) and (dask == "local" or _ADDRESS.fullmatch(dask))):
        raise InvalidParameter.refusing(
            "dask",
            "must be the address of a scheduler such as 'tcp://10.0.0.1:8786', 'local' or a "
            "distributed.Client",
            repr(dask),
        )


@contextmanager
def connected(dask: Any, workers: int | None = None) -> Iterator[Any]:
    """A client of the cluster that ``dask`` names; what was started for it is stopped after it.

    ``dask`` is ``"local"`` (a cluster of ``workers`` processes on this machine, without a
    dashboard), the address of a scheduler, or a ``distributed.Client``, for instance one with the
    certificates that a protected cluster asks for.
    """
    distributed = required("distributed", "a Dask cluster")
    if isinstance(dask, distributed.Client):
        yield dask
    elif dask == "local":
        with (
            distributed.LocalCluster(
                n_workers=workers,
                processes=True,
                threads_per_worker=1,
                dashboard_address="127.0.0.1:0",
                scheduler_kwargs={"allowed_failures": _ALLOWED_FAILURES, "dashboard": False},
            ) as cluster,
            distributed.Client(cluster, set_as_default=False) as client,
        ):
            yield client
    else:
        try:
            client = distributed.Client(dask, set_as_default=False)
        except OSError:
            raise InvalidParameter.refusing(
                "dask", "must be the address of a scheduler that answers", repr(dask)
            ) from None
        with client:
            yield client


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
                    raise RuntimeError(
                        f"workers of the Dask cluster were lost {losses} times in a row without "
                        "any portion of the work being finished"
                    )
                client.cancel([future for future, _ in running.values()])
                waiting.extend(portion for _, portion in running.values())
                running.clear()
                tasks.renew()
    finally:
        client.cancel([future for future, _ in running.values()])
        tasks.release()


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
