"""Portions on a Dask cluster: tasks that can be computed again, anywhere, without harm.

Every task is a pure function of its arguments. Dask repeats those of a worker that is lost; what
cannot be repeated that way is submitted anew. The names of tasks are random, since they are shown
on dashboards and in logs; seeds, records and results are concealed there. Exact totals stay on the
cluster only until they have been fetched.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from contextlib import suppress
from time import monotonic, sleep
from typing import Any

from mustdp.errors import ClusterLost, InvalidParameter
from mustdp.extras import required
from mustdp.resampling.execution.connecting import check_secure, connected
from mustdp.resampling.execution.partitioned import DaskSource
from mustdp.resampling.execution.placing import AtPartitions, SharedSource
from mustdp.resampling.execution.portions import Collected, Job, Portion
from mustdp.resampling.execution.table import SourceOrTable

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
