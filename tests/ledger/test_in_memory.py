"""The ledger: single steps add up, and only an intact file of the right version is read."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mustdp as md
from tests.seams import digest

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


#: As version 0.1.0 wrote it, and with the line ends taken out.
OLD = """{
 "format": "mustdp-ledger",
 "version": 1,
 "relation": "replace_one",
 "entries": [
  {
   "count": 6,
   "plan": {
    "subsample": {
     "scheme": "wor",
     "n": 200,
     "stages": [
      [
       "wor",
       20
      ]
     ]
    },
    "inner": {
     "mechanism": "gaussian",
     "noise_multiplier": 3.0
    }
   }
  },
  {
   "count": 3,
   "plan": {
    "subsample": {
     "scheme": "must-ow",
     "n": 200,
     "stages": [
      [
       "wor",
       30
      ],
      [
       "wr",
       10
      ]
     ]
    },
    "inner": {
     "mechanism": "laplace",
     "noise_multiplier": 3.3333333333333335
    }
   }
  }
 ],
 "checksum": "d8945d423ab8d121f6d964090b1ffa23f1c1b65fe4f4f290806e0aa9a1b6a373"
}"""


@pytest.mark.parametrize("text", [OLD, OLD.replace("\n", ""), OLD + "\n"])
def test_ledgers_of_earlier_versions_are_read(tmp_path: Path, text: str) -> None:
    path = tmp_path / "ledger.json"
    path.write_text(text, encoding="utf-8")
    for found in (md.Ledger.from_json(text), md.Ledger.load(path)):
        assert found.plan == filled().plan
        assert found.to_json() == filled().to_json() == OLD


def deep(times: int) -> bytes:
    plan = '{"repeat": 1, "inner": ' * times + '{"mechanism": "gaussian"}' + "}" * times
    return b'{"format": "mustdp-ledger", "version": 1, "entries": [' + plan.encode() + b"]}"


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"\xff\xfe\x00", "must be text in UTF-8"),
        (OLD.replace("wor", "w\xf6r").encode("latin-1"), "must be text in UTF-8"),
        (deep(200), "nested at most"),
        (deep(100_000), "nested at most"),
        (b"[" * 10**6, "nested at most"),
        (b" " * 16777216 + b"1", "at most 16777216 bytes"),
        (OLD.replace('"count": 6', '"count": 6, "count": 6').encode(), "twice"),
        (OLD.replace("3.0", "NaN").encode(), "no number"),
        (changed({"more": 1}, repair=True).encode(), "relation and entries, got entries, more"),
        (b"", "valid JSON"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_hostile_files_are_refused(tmp_path: Path, content: bytes, reason: str) -> None:
    path = tmp_path / "ledger.json"
    path.write_bytes(content)
    with pytest.raises(md.InvalidParameter, match=reason):
        md.Ledger.load(path)


def test_a_ledger_cut_off_or_flipped_anywhere_is_refused_or_the_same() -> None:
    accepted = 0
    for place, letter in enumerate(OLD):
        flipped = OLD[:place] + chr(ord(letter) ^ 1 << place % 8) + OLD[place + 1 :]
        for text in (OLD[:place], flipped):
            try:
                assert md.Ledger.from_json(text).to_json() == OLD
                accepted += 1
            except md.InvalidParameter:
                continue
    assert accepted < 10


def test_links_are_neither_read_nor_replaced(tmp_path: Path) -> None:
    target, link = tmp_path / "ledger.json", tmp_path / "link.json"
    filled().save(target)
    link.symlink_to(target)
    with pytest.raises(md.InvalidParameter, match="link"):
        md.Ledger.load(link)
    with pytest.raises(md.InvalidParameter, match="link"):
        md.Ledger().save(link)
    assert link.is_symlink()
    assert md.Ledger.load(target).steps == 9
    assert target.stat().st_mode & 0o777 == 0o600
    with pytest.raises(FileNotFoundError):
        md.Ledger.load(tmp_path / "nowhere.json")
    assert sorted(os.listdir(tmp_path)) == ["ledger.json", "link.json"]


def test_a_ledger_that_could_not_be_read_back_is_not_written(
    tmp_path: Path,
) -> None:
    plan: md.types.Plan = md.gaussian(noise_multiplier=3.0)
    for _ in range(60):
        plan = md.repeat(1, md.sequence(plan))
    ledger = md.Ledger()
    ledger.step(md.subsample(md.wor(200, 20), md.sequence(plan, plan)))
    with pytest.raises(md.InvalidParameter, match="a ledger must be nested at most"):
        ledger.save(tmp_path / "ledger.json")
    assert os.listdir(tmp_path) == []


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


def test_a_ledger_forgets_its_old_answer() -> None:
    step = md.subsample(md.wor(100, 10), md.gaussian(noise_multiplier=4.0))
    ledger, other = md.Ledger(), md.Ledger()
    ledger.step(step, 2)
    answers = [ledger.epsilon(1e-5).upper]
    ledger.step(step, 3)
    answers.append(ledger.epsilon(1e-5).upper)
    other.step(step, 4)
    ledger.merge(other)
    answers.append(ledger.epsilon(1e-5).upper)
    exact = [md.account(md.repeat(k, step)).epsilon(1e-5).upper for k in (2, 5, 9)]
    assert answers == exact


@pytest.mark.parametrize("relation", ["replace_one", "add_remove"])
def test_a_ledger_accounts_under_its_own_relation(relation: str) -> None:
    """The default of a Poisson draw would be add_remove, that of a fixed-size one replace_one."""
    noise = md.gaussian(noise_multiplier=4.0)
    for scheme in (md.poisson(100, 0.1), md.wor(100, 10)):
        step = md.subsample(scheme, noise)
        ledger = md.Ledger(relation)
        ledger.step(step, 3)
        account = md.account(md.repeat(3, step), relation=relation)
        assert ledger.account().relation == relation
        assert ledger.epsilon(1e-5) == account.epsilon(1e-5)
        assert md.Ledger.from_json(ledger.to_json()).epsilon(1e-5) == account.epsilon(1e-5)
