"""Runs items one by one, stores what each found, and resumes where a run was interrupted."""

from __future__ import annotations

import itertools
import json
import platform
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal, TypeVar

from mustdp.errors import InvalidParameter, NumericalFailure
from mustdp.execution.processes import WorkerPool
from mustdp.files.reading import Envelope, read_file
from mustdp.files.replacing import SHARED, refuse_other_than_files, replace_file
from mustdp.limits import LARGEST_RESULT
from mustdp.progress import Progress
from mustdp.reproduction.cells import Item, ItemOutcome, PaperCell, PaperTable, Picture, Settings
from mustdp.training.data import load_data
from mustdp.version import __version__

# Independent jobs of an experiment in several processes.


Job = TypeVar("Job")
JobResult = TypeVar("JobResult")


def run_jobs(
    function: Callable[[Job], JobResult],
    jobs: Iterable[Job],
    *,
    workers: int,
    progress: Progress,
    what: str,
    last_first: bool = False,
) -> list[JobResult]:
    """``function`` of every job, in the order of the jobs; ``what`` names them for ``progress``.

    Long jobs should start early: ``last_first`` starts with the last one. Nothing but the seed
    inside a job decides its result, so the number of workers changes none.
    """
    todo = list(enumerate(jobs))
    started = itertools.count()
    with WorkerPool(workers=min(workers, len(todo))) as pool:
        results = pool.map_parallel(
            partial(_run_job, function),
            todo,
            on_start=lambda _: progress(what, next(started), len(todo)),
            cost=(lambda job: float(job[0])) if last_first else (lambda _: 0.0),
        )
    progress(what, len(todo), len(todo))
    return results


def _run_job(function: Callable[[Job], JobResult], job: tuple[int, Job]) -> JobResult:
    return function(job[1])


# Results as files: what an item found, as JSON, and back again without computing anything.
#
# A file is sealed (:mod:`mustdp.files`): a result that was edited afterwards is computed again and
# keeps no verdict. The seal is no signature: it finds accidents and edits by hand, and a forger
# can seal again. What a file may do is limited all the same: it gives numbers,
# words and the names of known drawings.


#: The version is raised when what is written changes its meaning; older files are computed again.
ENVELOPE = Envelope("mustdp-result", 3, "stored result", LARGEST_RESULT)


@dataclass(frozen=True)
class StoredResult:
    """What one item found, and how long that took."""

    outcome: ItemOutcome
    seconds: float


def conditions(item: Item, settings: Settings) -> dict[str, Any]:
    """What a file must agree with to be taken in place of a new computation.

    Neither the number of processes nor the place of the data sets changes a result: the data sets
    are checked when they are read.
    """
    return {
        "item": item.name,
        "mustdp": __version__,
        "quick": settings.quick,
        "seed": settings.seed,
    }


def as_text(item: Item, settings: Settings, found: StoredResult) -> str:
    """The JSON text of a result; a number that JSON cannot hold is a failure."""
    versions = {"python": platform.python_version()}
    versions |= {name: version(name) for name in ("numpy", "scipy")}
    data = {
        **conditions(item, settings),
        "title": item.title,
        "versions": versions,
        "seconds": round(found.seconds, 3),
        "tables": [asdict(table) for table in found.outcome.tables],
        "pictures": [vars(picture) for picture in found.outcome.pictures],
        "reading": list(found.outcome.reading),
    }
    try:
        body = json.loads(json.dumps(data, allow_nan=False, default=_plain))
    except ValueError as problem:
        raise NumericalFailure(f"{item.name}: a result cannot be stored: {problem}") from None
    return ENVELOPE.seal_text(body) + "\n"


def from_text(content: str | bytes, item: Item, settings: Settings) -> StoredResult:
    """A result from its JSON text; refused if it is damaged or was made under other conditions."""
    data = ENVELOPE.open_text(content, "the file")
    try:
        for name, value in conditions(item, settings).items():
            if data[name] != value:
                raise InvalidParameter(f"made with {name} {str(data[name])[:40]}, not {value}")
        tables = tuple(_table(table) for table in data["tables"])
        pictures = tuple(Picture(**picture) for picture in data["pictures"])
        reading = tuple(str(line) for line in data["reading"])
        return StoredResult(ItemOutcome(tables, pictures, reading), float(data["seconds"]))
    except InvalidParameter:
        raise
    except (ValueError, KeyError, TypeError, AttributeError) as problem:
        raise InvalidParameter(f"damaged ({type(problem).__name__}: {problem})") from None


def _table(data: Mapping[str, Any]) -> PaperTable:
    cells = tuple(PaperCell(**cell) for cell in data["cells"])
    return PaperTable(**{**data, "cells": cells})


def _plain(value: Any) -> Any:
    """Numbers and arrays of numpy as JSON can hold them."""
    if hasattr(value, "tolist"):
        return value.tolist()
    raise TypeError(f"{type(value).__name__} is not JSON")


# Runs items one by one, keeps what each has found, and resumes where a run was broken off.
#
# Every item's result is written to OUT/<item>.json in one move, as soon as it is there, and read
# back from that file: what is shown is what is stored. A run that is interrupted leaves finished
# items in place and nothing half-written.


State = Literal["computed", "kept", "skipped"]


@dataclass(frozen=True)
class Result:
    """What became of one item; ``outcome`` is None if it was skipped, ``remark`` says why."""

    item: Item
    state: State
    seconds: float
    outcome: ItemOutcome | None
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
    text = as_text(item, settings, StoredResult(outcome, time.perf_counter() - begun))
    replace_file(_path(item, out), text.encode(), mode=SHARED)
    stored = from_text(text, item, settings)
    return Result(item, "computed", stored.seconds, stored.outcome, remark)
