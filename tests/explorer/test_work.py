"""The pile of parts: newest first, each once, and what nobody looks at any more is dropped."""

from __future__ import annotations

import time
from threading import Event
from typing import Any

import pytest

from mustdp.explorer import work as module
from mustdp.explorer.asked import Asked
from mustdp.explorer.parts import Part, parts_of
from mustdp.explorer.work import Work


def noisy(steps: int) -> Asked:
    return Asked.read({"n": "12", "b": "6", "m": "2", "steps": str(steps), "noise": "3"})


def rows(steps: int) -> list[Part]:
    return [part for part in parts_of(noisy(steps)) if part.kind == "row"]


def settled(work: Work, parts: list[Part]) -> dict[Part, dict[str, Any]]:
    end = time.monotonic() + 20
    while time.monotonic() < end:
        found, _ = work.ask(parts)
        if len(found) == len(parts):
            return found
        time.sleep(0.02)
    raise AssertionError("the parts were not computed in time")


def test_newest_first_though_everybody_is_busy(monkeypatch: pytest.MonkeyPatch) -> None:
    go_on, order = Event(), []

    def compute(part: Part, noise: float | None) -> dict[str, Any]:
        if part.asked.steps == 1:
            go_on.wait(20)
        order.append(part.asked.steps)
        return {"noise": noise}

    monkeypatch.setattr(module, "compute", compute)
    work = Work()
    work.ask(rows(1))
    time.sleep(0.2)
    assert len(work._running) == 2
    settled(work, rows(2))
    assert set(order) == {2}
    go_on.set()
    settled(work, rows(1))
    assert work.stop(patience=20)


def test_a_part_is_computed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Part] = []

    def compute(part: Part, noise: float | None) -> dict[str, Any]:
        seen.append(part)
        return {}

    monkeypatch.setattr(module, "compute", compute)
    work = Work()
    for _ in range(3):
        settled(work, rows(3))
    assert sorted(seen, key=str) == sorted(rows(3), key=str)
    assert work.stop(patience=20)


def test_what_nobody_asks_for_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "compute", lambda part, noise: {})
    monkeypatch.setattr(module, "_FORGOTTEN", -1.0)
    work = Work()
    work.ask(rows(4))
    time.sleep(0.3)
    assert not work._pile
    assert not work._answers
    assert work.stop(patience=20)


def test_a_fault_in_one_part_does_not_end_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    def compute(part: Part, noise: float | None) -> dict[str, Any]:
        raise ZeroDivisionError("secret")

    monkeypatch.setattr(module, "compute", compute)
    work = Work()
    found = settled(work, rows(5))
    assert {one["error"] for one in found.values()} == {
        "nothing could be computed: ZeroDivisionError"
    }
    assert work.stop(patience=20)


def test_a_part_waits_for_the_noise_of_its_scheme(monkeypatch: pytest.MonkeyPatch) -> None:
    noises: dict[str, float | None] = {}

    def compute(part: Part, noise: float | None) -> dict[str, Any]:
        noises[part.kind] = noise
        return {"noise": 7.0} if part.kind == "row" else {}

    monkeypatch.setattr(module, "compute", compute)
    work, asked = Work(), Asked.read({"n": "12", "b": "6", "m": "2", "epsilon": "1"})
    settled(work, [Part("risk", asked, "wor"), Part("contour", asked, "2")])
    assert noises == {"row": None, "risk": 7.0, "contour": 7.0}
    assert work.stop(patience=20)
