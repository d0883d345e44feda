"""Failures that are not the caller's: statuses 3, 130 and 141, and the real process."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import mustdp
from tests.cli.running import Outcome, Run, check_refused

LINE = ["amplify", "--scheme", "wr", "-n", "10", "-m", "2", "--shift", "1", "--epsilon", "1"]
PROCESS = [sys.executable, "-m", "mustdp.cli.main"]


def failing_with(monkeypatch: pytest.MonkeyPatch, problem: BaseException) -> None:
    def fail(*_: object) -> None:
        raise problem

    monkeypatch.setattr(mustdp, "amplify", fail)


@pytest.mark.parametrize(
    ("problem", "status", "named"),
    [
        (mustdp.NumericalFailure("tail of 1e-3\nat eps=2"), 3, "tail of 1e-3 at eps=2"),
        (MemoryError("64 PiB"), 3, "64 PiB"),
        (KeyboardInterrupt(), 130, ""),
    ],
)
def test_one_line_and_a_status(
    run: Run, monkeypatch: pytest.MonkeyPatch, problem: BaseException, status: int, named: str
) -> None:
    failing_with(monkeypatch, problem)
    outcome = run(*LINE, "--json")
    assert (outcome.status, outcome.out) == (status, "")
    assert named in outcome.err
    assert outcome.err.strip().count("\n") == 0


def test_a_result_that_is_not_a_number_is_no_answer(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = mustdp.amplify(mustdp.wr(10, 2), mustdp.gaussian(shift=1), 1.0)
    object.__setattr__(result[0], "delta_prime", float("nan"))
    monkeypatch.setattr(mustdp, "amplify", lambda *_: result)
    for line in (LINE, [*LINE, "--json"]):
        outcome = run(*line)
        assert (outcome.status, outcome.out) == (3, "")


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("account", "account --scheme wr -n 10 -m 2 --shift 1 --steps 3 --epsilon 1"),
        ("calibrate", "calibrate --scheme wr -n 10 -m 2 --steps 3 --epsilon 1 --delta 0.1"),
        ("compare", "compare -n 10 -b 5 -m 2 --steps 3 --epsilon 1 --delta 0.1"),
    ],
)
@pytest.mark.parametrize("json", [[], ["--json"]])
def test_accounting_that_cannot_be_trusted(
    run: Run, monkeypatch: pytest.MonkeyPatch, name: str, line: str, json: list[str]
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise mustdp.NumericalFailure("a tail of 1e-3")

    monkeypatch.setattr(mustdp, name, fail)
    outcome = run(*line.split(), *json)
    assert (outcome.status, outcome.out) == (3, "")
    assert outcome.err == "mustdp: no result that can be trusted: a tail of 1e-3\n"


def test_a_defect_is_not_disguised(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    failing_with(monkeypatch, ZeroDivisionError("a defect"))
    with pytest.raises(ZeroDivisionError):
        run(*LINE)


def test_a_law_too_wide_to_compute(run: Run) -> None:
    wide = ["amplify", "--scheme", "wr", "-n", "10", "-m", "9007199254740992"]
    outcome = run(*wide, "--shift", "1", "--epsilon", "1")
    assert (outcome.status, outcome.out) == (3, "")
    assert outcome.err.count("\n") == 1


def test_the_real_process() -> None:
    good = subprocess.run([*PROCESS, "--version"], capture_output=True, text=True, check=True)
    assert good.stdout == f"mustdp {mustdp.__version__}\n"
    bad = subprocess.run([*PROCESS, *LINE, "-b", "3"], capture_output=True, text=True, check=False)
    check_refused(Outcome(bad.returncode, bad.stdout, bad.stderr), "-b 3")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no full device here")
def test_a_result_that_cannot_be_written() -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [*PROCESS, "--version"], stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert done.returncode == 1
    assert done.stderr.startswith("mustdp: the result could not be written")
    assert done.stderr.count("\n") == 1


def test_a_reader_that_leaves_early() -> None:
    line = [*PROCESS, "draw", "--scheme", "wr", "-n", "1000000", "-m", "200000", "--json"]
    with subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.read(10)
        process.stdout.close()
        complaint = process.stderr.read()
    assert (process.returncode, complaint) == (141, b"")


def test_an_interruption_behind_the_answer_is_no_failure() -> None:
    """It came while processes were tidied up, as a traceback."""
    program = (
        "import atexit, os, signal, sys, time\n"
        "atexit.register(lambda: (os.kill(os.getpid(), signal.SIGINT), time.sleep(0.01)))\n"
        "from mustdp.cli.main import main\n"
        "sys.exit(main())"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, *LINE], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout
