"""Runs items one by one, keeps what each has found, and resumes where a run was broken off.

Every item's result is written to OUT/<item>.json in one move, as soon as it is there, and read back
from that file: what is shown is what is stored. A run that is interrupted leaves finished items in
place and nothing half-written.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from mustdp.errors import InvalidParameter
from mustdp.experiments.frame.items import Item, Outcome, Settings
from mustdp.experiments.frame.stored import Stored, as_text, from_text
from mustdp.files.reading import read_file
from mustdp.files.replacing import SHARED, refuse_other_than_files, replace_file
from mustdp.limits import LARGEST_RESULT
from mustdp.progress import Progress
from mustdp.training.data.named import load_data

State = Literal["computed", "kept", "skipped"]


@dataclass(frozen=True)
class Result:
    """What became of one item; ``outcome`` is None if it was skipped, ``remark`` says why."""

    item: Item
    state: State
    seconds: float
    outcome: Outcome | None
    remark: str = ""


def run_items(
    items: Sequence[Item], settings: Settings, out: Path, progress: Progress
) -> tuple[Result, ...]:
    """Run the items, except those whose results are already in ``out`` under these settings."""
    found = {item.name: _look(item, settings, out) for item in items}
    waiting = [item for item in items if found[item.name].outcome is None]
    check_data(waiting, settings, progress)
    out.mkdir(parents=True, exist_ok=True)
    for item in waiting:
        known = found[item.name]
        if known.state != "skipped":
            found[item.name] = _compute(item, settings, out, progress, known.remark)
    return tuple(found[item.name] for item in items)


def check_data(items: Sequence[Item], settings: Settings, progress: Progress) -> None:
    """Read the data sets that will be needed, so that missing files are found before any work."""
    if settings.data is not None:
        for need in sorted({need for item in items for need in item.needs}):
            progress(f"{need}: checking the data set")
            load_data(need, settings.data)


def finished(items: Sequence[Item], settings: Settings, out: Path) -> tuple[Result, ...]:
    """Those items whose results are in ``out`` under these settings."""
    looked = (_look(item, settings, out) for item in items)
    return tuple(result for result in looked if result.outcome is not None)


def _path(item: Item, out: Path) -> Path:
    return out / f"{item.name}.json"


def _look(item: Item, settings: Settings, out: Path) -> Result:
    """What is already known of an item: its stored result, or what has to be done and why."""
    remark = ""
    path = _path(item, out)
    refuse_other_than_files(path)  # before any work: nothing could be written there
    if path.exists():
        try:
            stored = from_text(read_file(path, LARGEST_RESULT), item, settings)
            return Result(item, "kept", stored.seconds, stored.outcome)
        except InvalidParameter as problem:
            remark = f"{path.name} was computed again: {problem}"
    if item.needs and settings.data is None:
        needed = " and ".join(item.needs)
        return Result(item, "skipped", 0.0, None, f"{item.name} needs the data set {needed}")
    return Result(item, "computed", 0.0, None, remark)


def _compute(item: Item, settings: Settings, out: Path, progress: Progress, remark: str) -> Result:
    progress(item.name)
    begun = time.perf_counter()
    outcome = item.run(settings, lambda what, *far: progress(f"{item.name}: {what}", *far))
    text = as_text(item, settings, Stored(outcome, time.perf_counter() - begun))
    replace_file(_path(item, out), text.encode(), mode=SHARED)
    stored = from_text(text, item, settings)
    return Result(item, "computed", stored.seconds, stored.outcome, remark)
