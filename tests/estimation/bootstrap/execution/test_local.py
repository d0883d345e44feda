"""Portions on this machine: the same answer for any number of processes, dead ones included."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np
import pytest

import mustdp as md
from mustdp.data.opening import open_source
from mustdp.errors import InvalidParameter
from mustdp.estimation import bag_of_little_bootstraps
from mustdp.estimation import bootstrap as local
from mustdp.estimation import bootstrap as table
from mustdp.estimation.bootstrap import Execution, one_blas_thread, run_replicates
from mustdp.estimation.queries import Query
from mustdp.numerics.arrays import FloatArray
from mustdp.types import Design
from tests.estimation.bootstrap.execution.examples import (
    Deadly,
    Failing,
    FileSource,
    Halting,
    Moments,
    all_gone,
    expected,
    kill,
    process_at_work,
    processes_seen,
)

ROOT = Path(__file__).parents[4]
N = 400
LOWER, UPPER = [-1.0, 0.0], [1.0, 0.5]
DESIGN = Design(md.must_ow(N, 40, 30), 64)
SEED = 2**127 + 5


@pytest.fixture(scope="module")
def x() -> FloatArray:
    return np.random.default_rng(1).normal(size=(N, 2))


def run(
    x: FloatArray, query: Query, *, design: Design = DESIGN, seed: int = SEED, **options: Any
) -> FloatArray:
    execution = Execution(options.pop("workers", None), options.pop("dask", None))
    given = {"lower": LOWER, "upper": UPPER, **options}
    return run_replicates(open_source(x), design, query, seed, execution=execution, **given)


@pytest.fixture(scope="module")
def answer(x: FloatArray) -> FloatArray:
    return expected(x, DESIGN, Moments(), SEED, LOWER, UPPER)


@pytest.mark.parametrize("workers", [None, 1, 2, 3])
def test_any_number_of_workers_gives_the_same_answer_and_progress_to_the_total(
    workers: int | None, x: FloatArray, answer: FloatArray
) -> None:
    calls: list[Any] = []
    found = run(x, Moments(), workers=workers, progress=lambda *call: calls.append(call))
    np.testing.assert_array_equal(found, answer)
    done = [call[1] for call in calls]
    assert len(calls) == 8
    assert done == sorted(set(done))
    assert calls[-1] == ("releases", 64, 64)
    assert {call[2] for call in calls} == {64}


def test_groups_stay_together_in_parallel(x: FloatArray) -> None:
    design = bag_of_little_bootstraps(N, b=25, subsets=8, reuse=5)
    found = run(x, Moments(), design=design, workers=2)
    np.testing.assert_array_equal(found, expected(x, design, Moments(), SEED, LOWER, UPPER))


def test_files_are_read_by_the_workers_themselves(
    x: FloatArray, answer: FloatArray, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table, "MOST_VALUES", 1)
    monkeypatch.setattr("mustdp.estimation.bootstrap.MOST_VALUES", 600)
    np.save(tmp_path / "x.npy", x)
    source = FileSource(tmp_path / "x.npy")
    for workers in (1, 2):
        found = run_replicates(
            source, DESIGN, Moments(), SEED, lower=LOWER, upper=UPPER, execution=Execution(workers)
        )
        np.testing.assert_array_equal(found, answer)
    assert len(source.passes()) == 2 * 5  # 64 subsets of about 21 distinct rows, 300 at once


def test_large_arrays_are_mapped_and_nothing_stays_on_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JOBLIB_TEMP_FOLDER", str(tmp_path))
    large = np.random.default_rng(2).normal(size=(100_000, 2))  # joblib maps what is above 1 MB
    design = Design(md.wor(len(large), 50), 64)
    seen: list[int] = []

    def watch(*_: object) -> None:
        files = [path.stat() for path in tmp_path.rglob("*") if path.is_file()]
        seen.append(sum(file.st_size for file in files))
        assert not any(file.st_mode & 0o077 for file in files)  # nobody else may read them

    found = run(large, Moments(), design=design, workers=2, progress=watch)
    np.testing.assert_array_equal(found, expected(large, design, Moments(), SEED, LOWER, UPPER))
    assert large.nbytes <= max(seen) < 2 * large.nbytes  # one copy for all portions
    deadline = time.monotonic() + 30
    while any(path.is_file() for path in tmp_path.rglob("*")):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_other_processes_help_when_it_takes_long(
    x: FloatArray, answer: FloatArray, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local, "_ALONE", -1.0)
    monkeypatch.setattr(local, "processors", lambda: 2)
    killed: list[int] = []
    helper = Thread(
        target=kill, args=(tmp_path, killed), daemon=True
    )  # only other processes are killed
    helper.start()
    found = run(x, Halting(tmp_path))
    helper.join()
    assert killed
    assert os.getpid() not in killed
    np.testing.assert_array_equal(found, answer)
    monkeypatch.setattr(local, "installed", lambda module: None)
    np.testing.assert_array_equal(run(x, Moments()), answer)  # without joblib: here


def test_a_killed_process_costs_nothing_but_time(
    x: FloatArray, answer: FloatArray, tmp_path: Path
) -> None:
    killed: list[int] = []
    calls: list[int] = []
    killer = Thread(target=kill, args=(tmp_path, killed), daemon=True)
    killer.start()
    found = run(x, Halting(tmp_path), workers=2, progress=lambda _, done, total: calls.append(done))
    killer.join()
    assert all_gone(killed)
    assert len(killed) == 1
    np.testing.assert_array_equal(found, answer)
    assert calls == sorted(set(calls))  # no portion counts twice
    assert calls[-1] == 64


def test_where_processes_keep_dying_this_one_does_the_work(
    x: FloatArray, answer: FloatArray, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local, "_ATTEMPTS", 1)
    np.testing.assert_array_equal(run(x, Deadly(os.getpid()), workers=2), answer)


@pytest.mark.parametrize("workers", [1, 2])
def test_an_error_of_the_query_reaches_the_caller_and_ends_the_workers(
    workers: int, x: FloatArray, tmp_path: Path
) -> None:
    with pytest.raises(ArithmeticError, match="no value here"):
        run(x, Failing(tmp_path), workers=workers)
    found = processes_seen(tmp_path)
    assert found
    assert (os.getpid() in found) == (workers == 1)
    assert all_gone([pid for pid in found if pid != os.getpid()])


def test_an_error_of_the_progress_ends_the_workers(x: FloatArray, tmp_path: Path) -> None:
    (tmp_path / "go").touch()

    def stop(*_: object) -> None:
        raise RuntimeError("the window was closed")

    with pytest.raises(RuntimeError, match="window"):
        run(x, Moments(), workers=2, progress=stop)


def test_an_interrupt_from_the_keyboard_leaves_no_processes(tmp_path: Path) -> None:
    script = Path(__file__).with_name("interrupted.py")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])}
    with subprocess.Popen(
        [sys.executable, str(script), str(tmp_path)],
        cwd=ROOT, env=environment, text=True, start_new_session=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    ) as process:  # fmt: skip
        worker = process_at_work(tmp_path)
        assert worker != process.pid
        os.killpg(process.pid, signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert out == "interrupted\n", err
    assert process.returncode == 0
    assert all_gone(processes_seen(tmp_path))


def test_without_joblib_one_process_does_and_more_say_what_to_install(
    x: FloatArray, answer: FloatArray, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "joblib", None)
    monkeypatch.setitem(sys.modules, "distributed", None)
    np.testing.assert_array_equal(run(x, Moments(), workers=1), answer)
    np.testing.assert_array_equal(run(x, Moments()), answer)
    with pytest.raises(ImportError, match=r'joblib is needed.*pip install "\.\[parallel\]"'):
        run(x, Moments(), workers=2)
    with pytest.raises(ImportError, match=r'distributed is needed.*pip install "\.\[dask\]"'):
        run(x, Moments(), dask="local")


def test_how_to_compute_can_be_checked_before_anything_else(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for workers, dask in ((None, None), (1, None), (3, None), (2, "local"), (None, "tls://a:1")):
        Execution(workers, dask)
    for workers, dask in ((0, None), (True, None), (0, "local"), (None, "a:1"), (None, "remote")):
        with pytest.raises(InvalidParameter, match="must be"):
            Execution(workers, dask)
    monkeypatch.setitem(sys.modules, "joblib", None)
    Execution(workers=1)
    with pytest.raises(ImportError, match="parallel"):
        Execution(workers=2)


def test_blas_is_kept_to_one_thread_until_the_last_one_is_out() -> None:
    control = pytest.importorskip("threadpoolctl")

    def counts() -> set[int]:
        info = control.threadpool_info()
        return {lib["num_threads"] for lib in info if lib["user_api"] == "blas"}

    with control.threadpool_limits(3, user_api="blas"):
        before = counts()
        outer, inner = one_blas_thread(), one_blas_thread()
        outer.__enter__()
        inner.__enter__()
        assert counts() == {1}
        outer.__exit__(None, None, None)
        assert counts() == {1}
        inner.__exit__(None, None, None)
        assert counts() == before
    assert local._inside == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"workers": 0}, "workers must be"),
        ({"workers": 1.5}, "workers must be"),
        ({"seed": -1}, "seed must be"),
        ({"seed": None}, "seed must be"),
        ({"lower": [0.0]}, "lower must hold one bound for each of the 2 columns"),
        ({"upper": [1.0, 1.0, 1.0]}, "upper must hold"),
        ({"lower": [0.0, 0.5]}, "below upper in every column, got 0.5 and 0.5"),
        ({"lower": [0.0, np.nan]}, "finite"),
        ({"design": Design(md.wor(N + 1, 30), 8)}, "the 400 records of the data, got one for 401"),
        ({"dask": "127.0.0.1:8786"}, "dask must be the address"),
        ({"dask": 3}, "dask must be the address"),
    ],
)
def test_bad_input_is_refused(options: dict[str, Any], message: str, x: FloatArray) -> None:
    given = {"seed": 1, **options}
    with pytest.raises(InvalidParameter, match=message):
        run(x, Moments(), **given)
