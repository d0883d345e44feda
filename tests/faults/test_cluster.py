"""Dask: who has no key gets nothing, and a scheduler that is killed is told of in seconds."""

from __future__ import annotations

import json
import logging
import os
import pickle
import signal
import subprocess
import sys
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mustdp as md
from mustdp.execution.cluster import connected
from tests.faults.killing import PATIENCE, ROOT, environment

distributed = pytest.importorskip("distributed")
pytest.importorskip("cryptography")


def listening(pids: list[int]) -> list[int]:
    """TCP ports on which the processes listen."""
    sockets = set()
    for pid in pids:
        for handle in Path(f"/proc/{pid}/fd").iterdir():
            try:
                sockets.add(os.readlink(handle))
            except OSError:
                continue
    ports = set()
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        fields = line.split()
        if fields[3] == "0A" and f"socket:[{fields[9]}]" in sockets:
            ports.add(int(fields[1].partition(":")[2], 16))
    return sorted(ports)


def intrude(addresses: list[str], ports: list[int], folder: Path) -> list[str]:
    """What another process gets that knows everything but the key."""
    given = json.dumps({"addresses": addresses, "ports": ports})
    done = subprocess.run(
        [sys.executable, "-m", "tests.faults.intruder", given],
        cwd=ROOT, env=environment(folder), text=True, capture_output=True, timeout=180, check=True,
    )  # fmt: skip
    found: list[str] = json.loads(done.stdout)
    return found


@pytest.mark.skipif(not Path("/proc/net/tcp").exists(), reason="needs /proc")
def test_nobody_without_the_key_gets_into_a_local_cluster(tmp_path: Path) -> None:
    with connected("local", 1) as client:
        info = client.scheduler_info()
        workers = list(info["workers"].values())
        addresses = [info["address"], *info["workers"], *(each["nanny"] for each in workers)]
        assert all(address.startswith("tls://127.0.0.1:") for address in addresses)
        ports = listening([os.getpid(), *client.run(os.getpid).values()])
        assert len(ports) >= len(addresses)
        assert intrude(addresses, ports, tmp_path) == []
        assert client.submit(int, 7).result() == 7
        places = client.run(lambda dask_worker: dask_worker.local_directory)
        assert all("mustdp-records-" in place for place in places.values())
    # The same attempts get into a cluster without protection: they are able to fail.
    with distributed.LocalCluster(
        n_workers=1, processes=False, protocol="tcp://", dashboard_address=":0",
        silence_logs=logging.CRITICAL,
    ) as open_to_all:  # fmt: skip
        port = open_to_all.scheduler.http_server.port
        found = intrude([open_to_all.scheduler_address], [port], tmp_path)
    assert {line.partition(" ")[0] for line in found} == {"run", "call", "page"}


def test_connections_that_anybody_can_use_are_refused_unless_that_is_said() -> None:
    data = np.zeros((100, 1))
    given: dict[str, Any] = {
        "lower": 0, "upper": 1, "design": md.wor(100, 10), "replicates": 8,
        "noise_multiplier": 9.0, "delta": 1e-5,
    }  # fmt: skip
    unclear: Any = "no"
    for address in ("tcp://127.0.0.1:1", "ws://127.0.0.1:1", "ucx://127.0.0.1:1"):
        with pytest.raises(md.InvalidParameter, match=r"certificates.*insecure accepts that"):
            md.private_bootstrap(data, execution=md.types.Execution(dask=address), **given)
    with pytest.raises(md.InvalidParameter, match="insecure must be True or False"):
        md.types.Execution(dask="tcp://127.0.0.1:1", insecure=unclear)
    with (
        distributed.LocalCluster(
            n_workers=1, processes=False, protocol="tcp://", dashboard_address=":0"
        ) as cluster,
        distributed.Client(cluster, set_as_default=False) as client,
    ):
        with pytest.raises(md.InvalidParameter, match="certificates"):
            md.private_bootstrap(data, execution=md.types.Execution(dask=client), **given)
        with warnings.catch_warnings():
            warnings.simplefilter(
                "ignore", md.types.InferenceNote
            )  # whether noise hides all is chance
            where = md.types.Execution(dask=client, insecure=True)
            found = md.private_bootstrap(data, execution=where, **given)
    assert found.privacy.certified


@contextmanager
def scheduler_and_worker() -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A scheduler of its own process, with one worker of another."""
    code = (
        "import asyncio, sys, distributed\n"
        "async def serve():\n"
        "    async with distributed.Scheduler(port=0, host='127.0.0.1', dashboard=False) as one:\n"
        "        print(one.address, flush=True)\n"
        "        await one.finished()\n"
        "asyncio.run(serve())\n"
    )
    given: dict[str, Any] = {
        "cwd": ROOT, "env": environment(ROOT), "text": True, "stderr": subprocess.DEVNULL,
    }  # fmt: skip
    with subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, **given
    ) as scheduler:
        if scheduler.stdout is None:
            raise RuntimeError("standard output must be a pipe")
        address = scheduler.stdout.readline().strip()
        worker = subprocess.Popen(
            [sys.executable, "-c",
             "import asyncio, sys, distributed\n"
             "async def serve():\n"
             "    async with distributed.Worker(sys.argv[1], nthreads=1, dashboard=False) as one:\n"
             "        await one.finished()\n"
             "asyncio.run(serve())", address],
            stdout=subprocess.DEVNULL, **given,
        )  # fmt: skip
        try:
            yield scheduler, address
        finally:
            for process in (worker, scheduler):
                process.kill()
                process.wait(timeout=PATIENCE)


def test_a_scheduler_that_is_killed_is_told_of_in_seconds_and_in_one_line(tmp_path: Path) -> None:
    ages = tmp_path / "ages.csv"
    ages.write_text("age\n" + "\n".join(str(k % 90) for k in range(5_000)), encoding="utf-8")
    line = (
        f"bootstrap {ages} --column age --lower 0 --upper 100 --statistic median --design "
        "subsampling -m 2500 --replicates 40000 --noise-multiplier 400 --delta 1e-6 --insecure"
    )
    command = [sys.executable, "-m", "mustdp.cli.main", *line.split(), "--dask"]
    with (
        scheduler_and_worker() as (scheduler, address),
        subprocess.Popen(
            [*command, address], cwd=ROOT, env=environment(tmp_path), text=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        ) as process,
    ):  # fmt: skip
        _wait_for_work(address)
        scheduler.send_signal(signal.SIGKILL)
        killed = time.monotonic()
        out, errors = process.communicate(timeout=PATIENCE)
        took = time.monotonic() - killed
    assert (process.returncode, out) == (3, ""), errors
    assert errors == (
        "mustdp: no result: the scheduler of the Dask cluster has gone; nothing was released or "
        "charged\n"
    )
    assert took < 25  # waiting for it to come back took 35


def _wait_for_work(address: str) -> None:
    deadline = time.monotonic() + PATIENCE
    with distributed.Client(address, set_as_default=False) as client:
        while not any(client.processing().values()):
            assert time.monotonic() < deadline
            time.sleep(0.05)


def test_lost_clusters_can_be_told_by_other_processes() -> None:
    problem = pickle.loads(pickle.dumps(md.types.ClusterLost("gone")))
    assert isinstance(problem, md.types.ClusterLost)
    assert isinstance(problem, RuntimeError)
