"""Killed at any moment (SIGKILL) and started again: same batches, no step uncharged."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from tests.training.networks import runs
from tests.training.networks.killed_run import KINDS, MOMENTS, STEPS

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All runs, made once."""
    folder = tmp_path_factory.mktemp("killed")
    command = [sys.executable, "-W", "ignore", "-m", "tests.training.networks.killed_run"]
    subprocess.run([*command, str(folder)], cwd=ROOT, check=True, timeout=300)
    return folder


def diary(folder: Path, name: str) -> list[tuple[int, Any]]:
    """Entries with the process that wrote them."""
    path = folder / name
    found = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    return [(entry[0], entry[1]) for entry in map(json.loads, found)]


def lines(folder: Path, name: str) -> list[Any]:
    return [entry for _, entry in diary(folder, name)]


@pytest.mark.parametrize(("seed", "every"), KINDS)
@pytest.mark.parametrize("moment", MOMENTS)
def test_killed_at(killed: Path, moment: str, every: int, seed: int | None) -> None:
    folder = killed / f"{moment}, every {every}, seed {seed}"
    assert lines(folder, "ends") == [[signal.SIGKILL, 0]]
    [done] = lines(folder, "done")
    assert done["steps"] == STEPS
    assert done["charged"] == (STEPS if seed is None else 0)  # an experiment is no release
    check_diary(folder, every)
    noise: dict[int, list[str]] = {}
    for step, value in lines(folder, "noise"):
        noise.setdefault(step, []).append(value)
    for values in noise.values():  # made again with noise of its own, or with a seed the very same
        assert len(set(values)) == (len(values) if seed is None else 1)
    if seed is not None:
        whole = runs.trainer(budget=runs.budget(STEPS), seed=seed).train()
        assert done["weights"] == runs.weights(whole.model).tolist()


def test_killed_at_any_time_again_and_again(killed: Path) -> None:
    folder = killed / "any time"
    [ends] = lines(folder, "ends")
    assert Counter(ends)[signal.SIGKILL] >= 3
    assert set(ends) <= {0, signal.SIGKILL}
    assert [entry["charged"] for entry in lines(folder, "done")] == [STEPS]
    check_diary(folder, 1)
    noise = lines(folder, "noise")
    assert len({value for _, value in noise}) == len(noise)


def check_diary(folder: Path, every: int) -> None:
    """Every step was made; one that had been shown was never made again."""
    shown = lines(folder, "released")
    assert shown == sorted(set(shown))
    assert set(shown) <= set(range(every, STEPS + 1, every))
    drawn = lines(folder, "drawn")
    assert {number for number, _ in drawn} == set(range(STEPS))
    assert len({key for _, key in drawn}) == 1  # the stream of one seed, so batch k is step k's
    seen, last = 0, None
    entries = {name: diary(folder, name) for name in ("drawn", "released")}
    for process in dict.fromkeys(number for number, _ in entries["drawn"]):
        numbers = [entry[0] for number, entry in entries["drawn"] if number == process]
        assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))
        assert numbers[0] >= seen  # goes on at or behind what was shown
        assert last is None or last + 1 - every <= numbers[0] <= last + 1
        last = numbers[-1]
        seen = max([seen, *(step for number, step in entries["released"] if number == process)])
