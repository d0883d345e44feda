"""Portions on a Dask cluster of two processes: the answer of one process, dead workers included."""

from __future__ import annotations

import contextlib
import gc
import os
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np
import pytest

import mustdp as md
from mustdp.data import open_partitioned
from mustdp.data.columns import Source
from mustdp.data.opening import open_source
from mustdp.errors import InvalidParameter
from mustdp.estimation import bag_of_little_bootstraps
from mustdp.estimation import bootstrap as cluster_module
from mustdp.estimation.bootstrap import Execution, run_replicates
from mustdp.estimation.queries import Query
from mustdp.numerics.arrays import FloatArray
from mustdp.types import DaskSource, Design
from tests.estimation.bootstrap.execution.examples import (
    Deadly,
    Failing,
    FileSource,
    Halting,
    Moments,
    Noting,
    all_gone,
    expected,
    kill,
    processes_seen,
)

distributed = pytest.importorskip("distributed")
pandas = pytest.importorskip("pandas")

N = 400
LOWER, UPPER = [-1.0, 0.0], [1.0, 0.5]
DESIGN = Design(md.must_ow(N, 40, 30), 64)
SEED = 2**126 + 987654321


@pytest.fixture(scope="module")
def x() -> FloatArray:
    return np.random.default_rng(1).normal(size=(N, 2))


@pytest.fixture(scope="module")
def answer(x: FloatArray) -> FloatArray:
    return expected(x, DESIGN, Moments(), SEED, LOWER, UPPER)


class Clusters:
    """A cluster of two processes, made anew when one of them was killed and not replaced.

    Dask replaces a killed worker, but not one that died before its nanny knew it had started.
    """

    def __init__(self) -> None:
        self._made: Any = None
        self._client: Any = None

    def client(self) -> Any:
        """A client that sees two workers whose nannies know them."""
        if self._client is None or not self._complete(within=10.0):
            self.close()
            self._made = distributed.LocalCluster(
                n_workers=2, processes=True, threads_per_worker=1, dashboard_address=":0"
            )
            self._client = distributed.Client(self._made, set_as_default=False)
            assert self._complete(within=120.0)
        return self._client

    def close(self) -> None:
        """Close what is there, whatever state it is in."""
        for one in (self._client, self._made):
            if one is not None:
                with contextlib.suppress(Exception):
                    one.close(timeout=10)
        self._client = self._made = None

    def _complete(self, within: float) -> bool:
        deadline = time.monotonic() + within
        while time.monotonic() < deadline:
            nannies = list(self._made.workers.values())
            known = [
                nanny.process is not None and nanny.process.status.name == "running"
                for nanny in nannies
            ]
            if sum(known) == 2 and len(self._client.scheduler_info()["workers"]) == 2:
                return True
            time.sleep(0.05)
        return False


@pytest.fixture(scope="module")
def clusters() -> Iterator[Clusters]:
    made = Clusters()
    yield made
    made.close()


@pytest.fixture
def client(clusters: Clusters) -> Any:
    return clusters.client()


def part(x: FloatArray, start: int, stop: int) -> Any:
    """A partition, with a column that is not asked for in front of the others."""
    frame = pandas.DataFrame(x[start:stop], columns=["a", "b"])
    frame.insert(0, "name", [f"record {k}" for k in range(start, stop)])
    return frame


def partitioned(client: Any, x: FloatArray) -> DaskSource:
    """Partitions that the cluster can compute again, of different lengths, one of them empty."""
    edges = [0, 90, 90, 230, 260, N]
    parts = [client.submit(part, x, start, stop, pure=False) for start, stop in pairwise(edges)]
    return open_partitioned(parts, ["a", "b"])


def source_of(kind: str, x: FloatArray, folder: Path, client: Any) -> Source:
    if kind == "memory":
        return open_source(x)
    if kind == "partitions":
        return partitioned(client, x)
    if kind == "parquet":
        part(x, 0, N).to_parquet(folder / "x.parquet", row_group_size=90)
        return open_source(folder / "x.parquet", ["a", "b"])
    np.save(folder / "x.npy", x)
    return FileSource(folder / "x.npy")


def run(source: Source, query: Query, dask: Any, **options: Any) -> FloatArray:
    execution = Execution(options.pop("workers", None), dask, options.pop("insecure", True))
    return run_replicates(
        source, options.pop("design", DESIGN), query, options.pop("seed", SEED),
        lower=LOWER, upper=UPPER, execution=execution, **options,
    )  # fmt: skip


@pytest.mark.parametrize("kind", ["memory", "file", "parquet", "partitions"])
def test_the_answer_is_that_of_one_process(
    kind: str, client: Any, x: FloatArray, answer: FloatArray, tmp_path: Path
) -> None:
    calls: list[Any] = []
    source = source_of(kind, x, tmp_path, client)
    found = run(source, Moments(), client, progress=lambda *call: calls.append(call))
    np.testing.assert_array_equal(found, answer)
    done = [call[1] for call in calls]
    assert done == sorted(set(done))
    assert calls[-1] == ("releases", 64, 64)
    assert len(calls) == (8 if kind in ("memory", "partitions") else 1)


@pytest.mark.parametrize("kind", ["memory", "partitions"])  # a file is there for the next worker
def test_a_killed_worker_costs_nothing_but_time(
    kind: str, client: Any, x: FloatArray, answer: FloatArray, tmp_path: Path
) -> None:
    source = source_of(kind, x, tmp_path, client)
    killed: list[int] = []
    calls: list[int] = []
    killer = Thread(target=kill, args=(tmp_path, killed), daemon=True)
    killer.start()
    found = run(
        source, Halting(tmp_path), client, progress=lambda _, done, total: calls.append(done)
    )  # fmt: skip
    killer.join()
    assert len(killed) == 1
    assert killed[0] != os.getpid()
    assert all_gone(killed)
    np.testing.assert_array_equal(found, answer)
    assert calls == sorted(set(calls))  # no portion counts twice
    assert calls[-1] == 64


def test_lost_data_are_sent_again(
    client: Any, x: FloatArray, answer: FloatArray, tmp_path: Path
) -> None:
    """All workers die, and the data that were sent to them with them."""
    everybody = list(client.run(os.getpid).values())
    killed: list[int] = []
    killer = Thread(target=kill, args=(tmp_path, killed, everybody), daemon=True)
    killer.start()
    found = run(open_source(x), Halting(tmp_path), client)
    killer.join()
    assert len(killed) == 2
    assert all_gone(killed)
    np.testing.assert_array_equal(found, answer)


def test_a_query_that_kills_its_workers_is_given_up(
    client: Any, x: FloatArray, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster_module, "_MOST_LOSSES", 0)
    with pytest.raises(RuntimeError, match="lost 1 times in a row"):
        run(partitioned(client, x), Deadly(os.getpid()), client)


def test_an_address_will_do_and_nothing_stays_on_the_cluster(
    client: Any, x: FloatArray, answer: FloatArray
) -> None:
    address = client.scheduler.address
    np.testing.assert_array_equal(run(open_source(x), Moments(), address), answer)
    np.testing.assert_array_equal(run(partitioned(client, x), Moments(), address), answer)

    def tasks(dask_scheduler: Any) -> list[str]:
        return [str(key) for key in dask_scheduler.tasks]

    gc.collect()
    deadline = time.monotonic() + 10
    while left := client.run_on_scheduler(tasks):
        assert time.monotonic() < deadline, left
        time.sleep(0.1)


def test_groups_and_large_counts_on_partitions(client: Any, x: FloatArray) -> None:
    design = bag_of_little_bootstraps(N, b=25, subsets=4, reuse=8)
    found = run(partitioned(client, x), Moments(), None, design=design)
    np.testing.assert_array_equal(found, expected(x, design, Moments(), SEED, LOWER, UPPER))


def test_a_cluster_is_made_and_unmade(x: FloatArray, answer: FloatArray, tmp_path: Path) -> None:
    found = run(open_source(x), Noting(tmp_path), "local", workers=2)
    np.testing.assert_array_equal(found, answer)
    assert len(processes_seen(tmp_path)) == 2
    assert all_gone(processes_seen(tmp_path))


@pytest.mark.parametrize("kind", ["memory", "file", "partitions"])
def test_errors_arrive_and_logs_and_names_tell_no_secrets(
    kind: str, client: Any, x: FloatArray, tmp_path: Path
) -> None:
    x = np.full((N, 2), 0.1234567)
    with pytest.raises(ArithmeticError, match="no value here"):
        run(source_of(kind, x, tmp_path, client), Failing(tmp_path), client)
    written = repr(client.get_worker_logs()) + repr(client.get_scheduler_logs())
    assert "the statistic has no value here" in written
    assert "mustdp_portion-" in written
    for secret in (str(SEED), f"{SEED:x}", "1234567"):
        assert secret not in written


def test_partitions_do_not_travel(client: Any, x: FloatArray) -> None:
    source = partitioned(client, x)
    before = client.who_has(list(source.partitions))
    run(source, Moments(), client)
    assert client.who_has(list(source.partitions)) == before
    assert {len(workers) for workers in before.values()} == {1}
    assert len({workers[0] for workers in before.values()}) == 2


def test_rows_of_partitions_can_be_taken(client: Any, x: FloatArray) -> None:
    source = partitioned(client, x)
    assert (source.n, source.columns) == (N, ("a", "b"))
    rows = [399, 0, 90, 89, 0]
    np.testing.assert_array_equal(source.take(rows), x[rows])


def test_a_dask_frame_and_delayed_arrays_are_partitioned_data(
    client: Any, x: FloatArray, answer: FloatArray
) -> None:
    frames = pytest.importorskip("dask.dataframe")
    delayed = pytest.importorskip("dask").delayed
    frame = frames.from_pandas(part(x, 0, N), npartitions=3)
    opened = open_partitioned(frame, ["a", "b"], client)
    np.testing.assert_array_equal(run(opened, Moments(), client), answer)
    halves = [delayed(x[:150]), delayed(x[150:])]
    opened = open_partitioned(halves, client=client)
    assert opened.columns == ("0", "1")
    np.testing.assert_array_equal(run(opened, Moments(), client), answer)


def test_partitions_that_are_not_numbers_are_refused(client: Any, x: FloatArray) -> None:
    def opened(*parts: Any, columns: Any = None) -> Any:
        futures = [client.submit(lambda value=value: value, pure=False) for value in parts]
        return open_partitioned(futures, columns)

    good = part(x, 0, 10)
    with pytest.raises(InvalidParameter, match="finite"):
        opened(good, good.assign(b=[np.nan, *range(9)]), columns=["b"])
    with pytest.raises(InvalidParameter, match="finite"):
        opened(x, np.full((3, 2), np.inf))
    with pytest.raises(InvalidParameter, match="must be numeric"):
        opened(good, columns=["name"])
    with pytest.raises(InvalidParameter, match="income"):
        opened(good, columns=["income"])
    with pytest.raises(InvalidParameter, match="same columns"):
        opened(good, good[["b", "a"]], columns=["b"])
    with pytest.raises(InvalidParameter, match="type list"):
        opened([1, 2, 3])
    with pytest.raises(InvalidParameter, match="at least one record"):
        opened(good[:0], columns=["a"])
    for data in (good, [], [good], 3):
        with pytest.raises(InvalidParameter, match="data must be a dask DataFrame"):
            open_partitioned(data, client=client)


def _loud(part: FloatArray) -> FloatArray:
    raise ValueError(f"could not read 'HIV positive' among {part}")


def test_what_is_wrong_with_partitions_is_told_without_their_values(client: Any) -> None:
    texts = pandas.DataFrame({"HIV positive": ["HIV positive"], "91234567": [1.0]})
    other = pandas.DataFrame({"x": [1.0]})
    loud = client.submit(_loud, np.array([91234567.0]), pure=False)
    for data, columns in (
        ([client.scatter(texts)], 0),
        ([client.scatter(texts)], "x"),
        ([client.scatter(texts), client.scatter(other)], None),
        ([client.scatter(texts), client.scatter(np.array([91234567890123457]))], 1),
        ([loud], None),
    ):
        with pytest.raises(InvalidParameter) as caught:
            open_partitioned(data, columns, client)
        problem: BaseException | None = caught.value
        while problem is not None:
            assert "HIV" not in repr(problem)
            assert "91234567" not in repr(problem)
            problem = problem.__context__


def test_clusters_that_are_none_are_refused(
    client: Any, x: FloatArray, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(InvalidParameter, match="cluster that holds the partitions"):
        run(partitioned(client, x), Moments(), "tcp://127.0.0.1:1")
    timeouts = pytest.importorskip("dask").config.config["distributed"]["comm"]["timeouts"]
    monkeypatch.setitem(timeouts, "connect", "200ms")
    with pytest.raises(InvalidParameter, match="scheduler that answers"):
        run(open_source(x), Moments(), "tcp://127.0.0.1:1")
