"""``mustdp bootstrap --workers 2`` ended by a signal at some moment, and what is left of it."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

ROOT = Path(__file__).parents[2]
#: Longest that anything here waits.
PATIENCE = 60.0
#: Longer than any moment at which the command is ended.
REPLICATES = 100_000


def written_ages(path: Path) -> Path:
    """A file whose column is large enough to be shared through a file (over 1 MB)."""
    ages = np.random.default_rng(0).uniform(0, 100, 150_000)
    path.write_text("age\n" + "\n".join(f"{age:.2f}" for age in ages), encoding="utf-8")
    return path


def command(ages: Path, replicates: int = REPLICATES) -> list[str]:
    """The command line of a bootstrap in two processes."""
    line = (
        f"bootstrap {ages} --column age --lower 0 --upper 100 --design subsampling -m 100 "
        f"--replicates {replicates} --noise-multiplier 400 --delta 1e-6 --workers 2"
    )
    return [sys.executable, "-m", "mustdp.cli.main", *line.split()]


def environment(folder: Path) -> dict[str, str]:
    """That of the command: temporary copies go below ``folder``."""
    path = os.pathsep.join([str(ROOT / "src"), *sys.path])
    return {**os.environ, "PYTHONPATH": path, "JOBLIB_TEMP_FOLDER": str(folder)}


def end_by(number: signal.Signals, ages: Path, folder: Path, after: float) -> list[str]:
    """End the command ``after`` seconds of having begun to share records; what went wrong.

    The signal goes to the command alone, not to its workers. After SIGKILL the next start, which is
    a whole small run, has to clean up.
    """
    problems: list[str] = []
    with subprocess.Popen(
        command(ages), cwd=ROOT, env=environment(folder), start_new_session=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        begun = _until(lambda: any(folder.iterdir()) or process.poll() is not None)
        if not begun or process.poll() is not None:
            return [f"the command ended by itself: {process.communicate()[1]}"]
        moment = time.monotonic() + after
        while time.monotonic() < moment:
            problems += _open_to_others(folder)
            time.sleep(0.02)
        process.send_signal(number)
        if not _until(lambda: not _session(process.pid)):
            problems.append(f"processes stay: {_session(process.pid)}")
        out, errors = process.communicate(timeout=PATIENCE)
    if process.returncode != -number or out or "Traceback" in errors:
        problems.append(f"status {process.returncode}, {out!r}, {errors!r}")
    if number == signal.SIGKILL:
        done = subprocess.run(
            command(ages, 64), cwd=ROOT, env=environment(folder), timeout=PATIENCE, text=True,
            capture_output=True, check=False,
        )  # fmt: skip
        if done.returncode or done.stderr:
            problems.append(f"the next start: status {done.returncode}, {done.stderr!r}")
    if not _until(lambda: not any(folder.iterdir()), 2.0):
        problems.append(f"files stay: {sorted(map(str, folder.rglob('*')))}")
    return problems


def _open_to_others(folder: Path) -> list[str]:
    """What others could list or read: all that is right below ``folder`` must be private."""
    found = []
    for path in folder.iterdir():
        try:
            mode = stat.S_IMODE(path.lstat().st_mode)
        except FileNotFoundError:
            continue
        if mode != 0o700:
            found.append(f"{path.name} has mode {mode:o}")
    return found


def _session(leader: int) -> list[str]:
    """The processes that the command has started, itself included, zombies aside."""
    found = []
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            name, _, rest = status.read_text().rpartition(")")
        except (FileNotFoundError, ProcessLookupError):
            continue
        state, _, _, session = rest.split()[:4]
        if int(session) == leader and state != "Z":
            found.append(name)
    return found


def _until(reached: Callable[[], bool], seconds: float = PATIENCE) -> bool:
    """Whether it comes to that, given some time."""
    deadline = time.monotonic() + seconds
    while not reached():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True
