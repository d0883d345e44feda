"""Work side by side: the same results and errors, and no process is left behind."""

from __future__ import annotations

import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import mustdp as md
from mustdp.cli.main import failure
from mustdp.errors import WorkerLost
from mustdp.execution import processes
from mustdp.execution.processes import WorkerPool, map_serial

#: Seconds within which something must have happened that takes well under one.
GENEROUS = 60.0


@pytest.fixture
def several(monkeypatch: pytest.MonkeyPatch) -> Iterator[WorkerPool]:
    monkeypatch.setattr(processes, "processors", lambda: 2)
    with WorkerPool(preload=["math"]) as pool:
        assert len(pool._workers) == 2
        yield pool


def test_results_come_in_order_and_the_longest_begins_first(several: WorkerPool) -> None:
    begun: list[float] = []
    jobs = [1.0, 16.0, 9.0, 4.0]
    assert several.map_parallel(math.sqrt, jobs, begun.append, lambda job: job) == [
        1.0,
        4.0,
        3.0,
        2.0,
    ]
    assert begun == [16.0, 9.0, 4.0, 1.0]
    assert several.map_parallel(math.sqrt, []) == []
    assert set(several.map_parallel(os.getsid, [0, 0, 0])).isdisjoint({os.getsid(0)})


def test_the_first_job_that_fails_is_raised_whatever_comes_back_first(several: WorkerPool) -> None:
    words = ["1", "no", "2", "never"]
    with pytest.raises(ValueError, match="'no'"):
        several.map_parallel(int, words, cost=len)
    assert several.map_parallel(int, ["3", "4"]) == [3, 4]


def test_what_cannot_be_sent_is_done_here(several: WorkerPool) -> None:
    assert several.map_parallel(lambda job: job + os.getpid(), [0, 1]) == [
        os.getpid(),
        os.getpid() + 1,
    ]


def test_all_schemes_are_the_same_from_one_process_and_from_two(several: WorkerPool) -> None:
    found = [
        md.compare(
            n=8, b=4, m=2, steps=2, delta=1e-2, epsilon=1.5, composition="pair", mapper=mapper
        )
        for mapper in (map_serial, several.map_parallel)
    ]
    assert found[0] == found[1]


def test_a_refusal_is_the_same_from_one_process_and_from_two(several: WorkerPool) -> None:
    said = []
    for mapper in (map_serial, several.map_parallel):
        with pytest.raises(md.InvalidParameter) as refused:
            md.compare(
                n=30, b=10, m=4, steps=3, delta=1e-3, noise_multiplier=4.0, group=31, mapper=mapper
            )
        said.append((str(refused.value), refused.value.argument, type(refused.value)))
    assert said[0] == said[1]


def test_a_process_that_dies_is_a_clear_error(several: WorkerPool) -> None:
    with pytest.raises(WorkerLost, match="ended with status 7") as lost:
        several.map_parallel(os._exit, [7])
    status, line = failure(lost.value, {}) or (0, "")
    assert (status, line[:25]) == (3, "no result: a process that")
    assert several.map_parallel(math.sqrt, [4.0]) == [2.0]  # the other one is still there


def test_processes_that_cannot_start_are_done_without(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "processors", lambda: 2)
    with WorkerPool(preload=["no_such_module"]) as pool:
        assert pool.map_parallel(os.getsid, [0, 0]) == [os.getsid(0)] * 2
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    with WorkerPool() as pool:
        assert pool.map_parallel(os.getsid, [0, 0]) == [os.getsid(0)] * 2


def test_one_processor_needs_no_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "processors", lambda: 1)
    with WorkerPool() as pool:
        assert pool.map_parallel(os.getsid, [0, 0]) == [os.getsid(0)] * 2


#: A script without a guard around its main part.
SCRIPT = """
import os, time
from mustdp.execution import processes
processes.processors = lambda: 2
print("once", flush=True)
with processes.WorkerPool() as several:
    print(*(worker._process.pid for worker in several._workers), flush=True)
    several.map_parallel(time.sleep, [600, 600], lambda job: print("begun", flush=True))
"""


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_no_process_outlives_the_one_that_started_it(sent: signal.Signals) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", SCRIPT], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as script:
        assert script.stdout is not None
        said = [script.stdout.readline().split() for _ in range(4)]
        assert said[0] == ["once"]
        assert said[2:] == [["begun"], ["begun"]]
        script.send_signal(sent)
        script.communicate(timeout=GENEROUS)
    assert script.returncode != 0
    end = time.monotonic() + GENEROUS
    while not all(map(_gone, map(int, said[1]))):
        assert time.monotonic() < end, said[1]
        time.sleep(0.01)


@pytest.mark.skipif(not Path("/proc/thread-self/children").exists(), reason="looks into /proc")
@pytest.mark.parametrize("worked", [0.0, 2.0])
def test_an_interrupted_command_says_nothing_and_leaves_nothing(worked: float) -> None:
    """As soon as there are processes, and when one has worked for so many seconds."""
    line = "compare -n 60000 -b 3000 -m 2000 --steps 3000 --delta 1e-5 --epsilon 2"
    command = (
        "import sys; from mustdp.execution import processes; processes.processors = lambda: 2; "
        "from mustdp.cli.main import main; sys.exit(main())"
    )
    with subprocess.Popen(
        [sys.executable, "-c", command, *line.split()],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    ) as script:  # fmt: skip
        started: list[int] = []
        listed = Path(f"/proc/{script.pid}/task/{script.pid}/children")
        end = time.monotonic() + GENEROUS
        while len(started) < 2:
            assert time.monotonic() < end
            assert script.poll() is None
            time.sleep(0.01)
            started = [int(word) for word in listed.read_text().split()]
        while max(map(_spent, started)) < worked:
            assert time.monotonic() < end
            assert script.poll() is None
            time.sleep(0.01)
        script.send_signal(signal.SIGINT)
        out, err = script.communicate(timeout=GENEROUS)
    assert (script.returncode, out) == (130, "")
    assert "Traceback" not in err
    while not all(map(_gone, started)):
        assert time.monotonic() < end + GENEROUS
        time.sleep(0.01)


def _spent(pid: int) -> float:
    """Seconds of a processor that a process has used; none once it has ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return 0.0
    return int(fields[11]) / float(os.sysconf("SC_CLK_TCK"))


def _gone(pid: int) -> bool:
    """Whether a process has ended, even if nobody has asked how."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    state = Path(f"/proc/{pid}/stat")
    return state.exists() and state.read_text().rpartition(")")[2].split()[0] == "Z"
