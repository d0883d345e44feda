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

from tests.training.networks import runs  # noqa: E402
from tests.training.networks.killed_run import MOMENTS, STEPS  # noqa: E402

ROOT = Path(__file__).parents[3]
EVERY = (1, 2)
SEEDS = (None, 8)


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All runs, made once."""
    folder = tmp_path_factory.mktemp("killed")
    command = [sys.executable, "-W", "ignore", "-m", "tests.training.networks.killed_run"]
    subprocess.run([*command, str(folder)], cwd=ROOT, check=True, timeout=300)
    return folder


def lines(folder: Path, name: str) -> list[Any]:
    path = folder / name
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("every", EVERY)
@pytest.mark.parametrize("moment", MOMENTS)
def test_killed_at(killed: Path, moment: str, every: int, seed: int | None) -> None:
    folder = killed / f"{moment}, every {every}, seed {seed}"
    assert lines(folder, "ends") == [[signal.SIGKILL, 0]]
    [done] = lines(folder, "done")
    assert done["steps"] == STEPS
    # What was shown was shown once, in order, and only at steps that are written down.
    shown = lines(folder, "released")
    assert shown == sorted(set(shown))
    assert set(shown) <= set(range(every, STEPS + 1, every))
    # Batch k is step k's, whichever process drew it, and no step is left out.
    drawn = lines(folder, "drawn")
    assert {number for number, _ in drawn} == set(range(STEPS))
    assert len({key for _, key in drawn}) == 1
    repeated = [number for number, count in Counter(n for n, _ in drawn).items() if count > 1]
    assert len(repeated) <= every
    assert not set(range(max([0, *shown_before(folder)]))) & set(repeated)
    # A step that was made again had noise of its own, or with a seed the very same.
    noise: dict[int, list[float]] = {}
    for step, value in lines(folder, "noise"):
        noise.setdefault(step, []).append(value)
    for values in noise.values():
        assert len(set(values)) == (len(values) if seed is None else 1)
    if seed is not None:
        whole = runs.trainer(budget=runs.budget(STEPS), seed=seed).train()
        assert done["weights"] == runs.weights(whole.model).tolist()


def shown_before(folder: Path) -> list[int]:
    """Steps shown by the process that was killed: those before any number is drawn again."""
    first: list[int] = []
    for number, _ in lines(folder, "drawn"):
        if first and number <= first[-1]:
            break
        first.append(number)
    return [step for step in lines(folder, "released") if step <= len(first)]


def test_killed_at_any_time_again_and_again(killed: Path) -> None:
    folder = killed / "any time"
    [ends] = lines(folder, "ends")
    assert Counter(ends)[signal.SIGKILL] >= 3
    assert set(ends) <= {0, signal.SIGKILL}
    done = lines(folder, "done")
    assert done
    assert all(entry["steps"] == STEPS for entry in done)
    shown = lines(folder, "released")
    assert shown == sorted(set(shown))
    noise = lines(folder, "noise")
    assert len({value for _, value in noise}) == len(noise)
