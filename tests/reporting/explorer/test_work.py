"""The pile of parts: newest first, each once, and what nobody looks at any more is dropped."""

from __future__ import annotations

import time
from collections.abc import Callable
from threading import Event
from typing import Any

import pytest

import mustdp as md
from mustdp.calibration.compare import EpochRow
from mustdp.reporting import explorer as module
from mustdp.reporting.explorer import Failure, PartsToCompute, read_state
from mustdp.reporting.findings import FindingsPart, ReportQuestion, parts_of

#: Seconds that a busy machine may take for what takes none.
PATIENCE = 60.0


def noisy(steps: int) -> ReportQuestion:
    return read_state({"n": "12", "b": "6", "m": "2", "steps": str(steps), "noise": "3"})


def rows(steps: int) -> list[FindingsPart]:
    return [part for part in parts_of(noisy(steps)) if part.kind == "row"]


def soon(found: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE
    while not found():
        assert time.monotonic() < end, "nothing came in time"
        time.sleep(0.02)


def settled(work: PartsToCompute, parts: list[FindingsPart]) -> dict[FindingsPart, Any]:
    soon(lambda: len(work.ask(parts)[0]) == len(parts))
    return work.ask(parts)[0]


def test_newest_first_though_everybody_is_busy() -> None:
    go_on, order = Event(), []

    def compute(part: FindingsPart, row: EpochRow | None) -> Any:
        if part.question.steps == 1:
            go_on.wait(PATIENCE)
        order.append(part.question.steps)
        return {}

    work = PartsToCompute(compute)
    work.ask(rows(1))
    soon(lambda: len(work._running) == 2)
    settled(work, rows(2))
    assert set(order) == {2}
    go_on.set()
    settled(work, rows(1))
    assert work.stop(patience=PATIENCE)


def test_a_part_is_computed_once() -> None:
    seen: list[FindingsPart] = []

    def compute(part: FindingsPart, row: EpochRow | None) -> Any:
        seen.append(part)
        return {}

    work = PartsToCompute(compute)
    for _ in range(3):
        settled(work, rows(3))
    assert sorted(seen, key=str) == sorted(rows(3), key=str)
    assert work.stop(patience=PATIENCE)


def test_what_nobody_asks_for_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_FORGOTTEN", -1.0)
    work = PartsToCompute(lambda part, row: {})
    work.ask(rows(4))
    soon(lambda: not work._stack)
    assert not work._answers
    assert work.stop(patience=PATIENCE)


def test_a_fault_in_one_part_does_not_end_the_others() -> None:
    def compute(part: FindingsPart, row: EpochRow | None) -> Any:
        raise ZeroDivisionError("secret")

    work = PartsToCompute(compute)
    found = settled(work, rows(5))
    assert set(found.values()) == {Failure("nothing could be computed: ZeroDivisionError")}
    assert work.stop(patience=PATIENCE)


def test_a_part_waits_for_the_noise_of_its_scheme() -> None:
    noises: dict[str, float | None] = {}

    def compute(part: FindingsPart, row: EpochRow | None) -> Any:
        noises[part.kind] = None if row is None else row.noise_multiplier
        return EpochRow(md.wor(12, 2), 7.0, md.Bounds(0.9, 1.0)) if row is None else {}

    work, state = (
        PartsToCompute(compute),
        read_state({"n": "12", "b": "6", "m": "2", "epsilon": "1"}),
    )
    settled(work, [FindingsPart("risk", state, "wor"), FindingsPart("sizes", state, "2")])
    assert noises == {"row": None, "risk": 7.0, "sizes": 7.0}
    assert work.stop(patience=PATIENCE)


def test_a_part_whose_row_failed_says_why() -> None:
    def compute(part: FindingsPart, row: EpochRow | None) -> Any:
        raise md.NumericalFailure("too little noise")

    work, risk = PartsToCompute(compute), FindingsPart("risk", noisy(6), "wor")
    assert settled(work, [risk]) == {risk: Failure("too little noise")}
    assert work.stop(patience=PATIENCE)
