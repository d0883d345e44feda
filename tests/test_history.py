"""No certified bound becomes looser from version to version, and no benchmark ratio doubles.

The history also keeps a promise: a plan that could be described stays describable.
"""

from __future__ import annotations

import importlib.util
import json
import math
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

import mustdp as md

ROOT = Path(__file__).parents[1]


def _module() -> Any:
    spec = importlib.util.spec_from_file_location("history", ROOT / "benchmarks" / "history.py")
    assert spec is not None
    assert spec.loader is not None
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


history = _module()
VERSIONS = history.versions()
LATEST = VERSIONS[-1]


def test_this_version_or_the_one_before_is_there() -> None:
    order = [
        [int(part) for part in one.split(".")[:3]] for one in (LATEST["version"], md.__version__)
    ]
    assert order == sorted(order)
    assert len(LATEST["bounds"]) >= 37
    names = {row["name"] for row in LATEST["bounds"]}
    assert names == {name for name, *_ in history.settings()}


@pytest.mark.parametrize("row", LATEST["bounds"], ids=lambda row: row["name"])
def test_no_bound_is_looser_than_it_was(row: dict[str, Any]) -> None:
    now = history.answer(row)
    assert history.worse(row, now) is None, now


@pytest.mark.parametrize(
    ("now", "said"),
    [
        ({"lower": 0.9, "upper": 1.001}, "looser"),
        ({"lower": 0.9, "upper": float("nan")}, "crossed"),
        ({"lower": 0.5, "upper": 0.89}, "below what an earlier version attained"),
        ({"lower": 1.01, "upper": 1.0}, "crossed"),
    ],
)
def test_what_is_worse_is_noticed(now: dict[str, float], said: str) -> None:
    found = history.worse({"lower": 0.9, "upper": 1.0}, now)
    assert found is not None
    assert said in found


def test_a_planted_change_is_noticed() -> None:
    """A bound that is one part in a thousand looser, one that is missing, a ratio that doubles."""
    before = LATEST["bounds"]
    assert history.loosened(before, before) == []
    first, *others = before
    (said,) = history.loosened(before, [{**first, "upper": first["upper"] * 1.001}, *others])
    assert said == f"{first['name']}: the certified bound has become looser"
    (said,) = history.loosened(before, others)
    assert said == f"{first['name']}: is no longer computed"
    slower = {name: 2.01 * ratio for name, ratio in LATEST["ratios"].items()}
    assert len(history.doubled(LATEST["ratios"], slower)) == len(slower)


@pytest.mark.slow  # a time, even as a ratio, depends on the machine
def test_no_ratio_has_doubled_since_the_last_version() -> None:
    now = history.measured_again(LATEST["ratios"], history.ratios())
    assert history.doubled(LATEST["ratios"], now) == []


def test_what_seems_to_have_doubled_is_measured_three_times(monkeypatch: Any) -> None:
    measured = []

    def ratios(only: set[str]) -> dict[str, float]:
        measured.append(only)
        return {name: 3.0 if name == "slow" else 1.5 for name in only}

    monkeypatch.setattr(history, "ratios", ratios)
    before = {"slow": 1.0, "busy": 1.0, "same": 1.0}
    now = history.measured_again(before, {"slow": 2.5, "busy": 4.0, "same": 1.1})
    assert measured == [{"slow", "busy"}, {"slow"}]
    assert now == {"slow": 2.5, "busy": 1.5, "same": 1.1}
    assert history.doubled(before, now) == ["slow: 1 has become 2.5"]


@pytest.mark.slow
def test_a_ratio_that_doubles_is_measured() -> None:
    def work(count: int) -> float:
        return sum(math.sqrt(k) for k in range(count))

    assert 1.4 < history._ratio(lambda: work(20_000), lambda: work(10_000)) < 3.0


def test_bounds_may_become_tighter() -> None:
    assert history.worse({"lower": 0.9, "upper": 1.0}, {"lower": 0.95, "upper": 0.96}) is None


def test_no_ratio_doubles_from_version_to_version() -> None:
    for before, after in pairwise(VERSIONS):
        assert not history.doubled(before["ratios"], after["ratios"])
        assert not history.loosened(before["bounds"], after["bounds"])
    assert history.doubled({"a": 1.0, "b": 1.0}, {"a": 2.1, "b": 1.9}) == ["a: 1 has become 2.1"]


@pytest.mark.parametrize("version", VERSIONS, ids=lambda one: one["version"])
def test_every_plan_that_was_described_is_still_read(version: dict[str, Any]) -> None:
    for row in version["bounds"]:
        plan = history.plan_from_description(row["plan"])
        again = json.loads(json.dumps(history.describe(plan)))
        assert history.plan_from_description(again) == plan
