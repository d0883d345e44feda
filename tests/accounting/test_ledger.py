"""The ledger: single steps add up, and only an intact file of the right version is read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mustdp as md
from mustdp.files.plain import digest

STEP = md.subsample(md.wor(200, 20), md.gaussian(noise_multiplier=3.0))
OTHER = md.subsample(md.must_ow(200, 30, 10), md.laplace(noise_multiplier=1 / 0.3))


def filled() -> md.Ledger:
    ledger = md.Ledger("replace_one")
    for _ in range(6):
        ledger.step(STEP)
    ledger.step(OTHER, times=3)
    return ledger


def test_single_steps_equal_a_repeated_plan() -> None:
    ledger = md.Ledger()
    for _ in range(12):
        ledger.step(STEP)
    account = md.account(md.repeat(12, STEP))
    assert ledger.steps == 12
    assert ledger.epsilon(1e-6) == account.epsilon(1e-6)
    assert ledger.delta(0.7) == account.delta(0.7)


def test_order_and_grouping_do_not_matter() -> None:
    ledger = md.Ledger("replace_one")
    ledger.step(md.sequence(OTHER, md.repeat(2, STEP)))
    ledger.step(md.repeat(2, md.sequence(OTHER, STEP, STEP)))
    assert ledger.steps == filled().steps == 9
    assert ledger.epsilon(1e-6).upper == pytest.approx(filled().epsilon(1e-6).upper, rel=1e-9)


def test_answers_follow_new_steps() -> None:
    ledger = md.Ledger()
    assert ledger.epsilon(1e-6) == md.Bounds(0.0, 0.0)
    assert ledger.delta(1.0).upper == 0.0
    with pytest.raises(md.InvalidParameter, match="empty"):
        _ = ledger.plan
    seen = []
    for _ in range(3):
        ledger.step(STEP, times=4)
        seen.append(ledger.epsilon(1e-6).upper)
    assert seen == sorted(seen)
    assert seen[0] < seen[2]


def test_merging() -> None:
    one, two = filled(), filled()
    one.merge(two)
    assert one.steps == 18
    assert one.plan == md.sequence(md.repeat(12, STEP), md.repeat(6, OTHER))
    with pytest.raises(md.InvalidParameter, match="relations"):
        one.merge(md.Ledger("add_remove"))


def test_json_round_trip_is_exact(tmp_path: Path) -> None:
    ledger = filled()
    odd = md.gaussian(noise_multiplier=float(np.nextafter(1.1, 2.0)))
    ledger.step(md.subsample(md.wor(200, 50), md.repeat(2, md.subsample(md.wr(50, 7), odd))))
    text = ledger.to_json()
    again = md.Ledger.from_json(text)
    assert again.to_json() == text
    assert again.plan == ledger.plan
    assert again.relation == "replace_one"
    assert again.epsilon(1e-6) == ledger.epsilon(1e-6)
    ledger.save(tmp_path / "ledger.json")
    assert md.Ledger.load(tmp_path / "ledger.json").to_json() == text
    assert [path.name for path in tmp_path.iterdir()] == ["ledger.json"]


def changed(change: dict[str, Any], repair: bool = False) -> str:
    body = json.loads(filled().to_json())
    body.update(change)
    if repair:
        body.pop("checksum")
        body["checksum"] = digest(body, "body")
    return json.dumps(body)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "null",
        "[]",
        "{}",
        changed({"format": "other"}),
        changed({"version": 2}),
        changed({"version": None}),
        changed({"version": 2}, repair=True),
        changed({"relation": "add_remove"}),
        changed({"relation": "unknown"}, repair=True),
        changed({"entries": []}),
        changed({"entries": {}}, repair=True),
        changed({"entries": [{"count": 1}]}, repair=True),
        changed({"entries": [{"count": 0, "plan": {"mechanism": "gaussian", "shift": 1}}]}, True),
        changed({"entries": [{"count": 1.0, "plan": {"mechanism": "gaussian", "shift": 1}}]}, True),
        changed({"entries": [{"count": 1, "plan": {"mechanism": "gaussian", "shift": 0}}]}, True),
        changed({"checksum": None}),
        filled().to_json().replace('"count": 6', '"count": 5'),
        filled().to_json().replace("3.0", "30.0"),
        filled().to_json()[:-20],
    ],
)
def test_damaged_or_foreign_ledgers_are_refused(text: str) -> None:
    with pytest.raises(md.InvalidParameter):
        md.Ledger.from_json(text)


def test_a_failed_save_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "ledger.json"
    filled().save(target)
    before = target.read_text(encoding="utf-8")
    broken = filled()
    broken.step(md.custom(lambda e: 0.1 * np.exp(-np.asarray(e))))
    with pytest.raises(md.NotCovered):
        broken.save(target)
    monkeypatch.setattr("os.replace", lambda *args: (_ for _ in ()).throw(OSError("full")))
    with pytest.raises(OSError, match="full"):
        filled().save(target)
    assert target.read_text(encoding="utf-8") == before
    assert [path.name for path in tmp_path.iterdir()] == ["ledger.json"]


@pytest.mark.parametrize("times", [0, -1, 1.5, True, None])
def test_times(times: object) -> None:
    with pytest.raises(md.InvalidParameter, match="times"):
        md.Ledger().step(STEP, times)  # type: ignore[arg-type]


@pytest.mark.parametrize("relation", ["replace-one", "", "none"])
def test_relations(relation: str) -> None:
    with pytest.raises(md.InvalidParameter, match="relation"):
        md.Ledger(relation)


@pytest.mark.parametrize("delta", [0.0, 1.0, float("nan")])
def test_an_empty_ledger_checks_its_arguments_too(delta: float) -> None:
    with pytest.raises(md.InvalidParameter, match="delta"):
        md.Ledger().epsilon(delta)
