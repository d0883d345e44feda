"""What was chosen along the way is never counted as fixed in advance, wherever it is taken."""

from __future__ import annotations

import copy
import json
import math
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import mustdp as md
from tests.seams import digest

STEP = md.subsample(md.wor(1000, 20), md.gaussian(noise_multiplier=2.0))
OTHER = md.subsample(md.wor(1000, 10), md.gaussian(noise_multiplier=2.0))
LIMIT: dict[str, Any] = {"epsilon": 4.0, "delta": 1e-6, "data": "census"}


@pytest.fixture
def chosen(tmp_path: Path) -> md.types.LedgerFile:
    """Two charges, the second of which may have depended on what the first one released."""
    with md.Ledger.open(tmp_path / "chosen", **LIMIT) as ledger:
        ledger.charge(md.repeat(200, STEP))
        ledger.charge(md.repeat(200, OTHER))
    return ledger


def in_between(ledger: md.types.LedgerFile) -> float:
    """A limit that the charges keep as a plan fixed in advance, but not as they were chosen."""
    found = ledger.standing()
    assert found.fixed < 0.9 * found.adaptive
    return 0.5 * (found.fixed + found.adaptive)


def by_json(ledger: Any) -> md.Ledger:
    return md.Ledger.from_json(ledger.to_json())


def by_memory(ledger: Any) -> md.Ledger:
    memory = md.Ledger("replace_one")
    memory.merge(ledger)
    return memory


def by_saving(ledger: Any) -> md.Ledger:
    assert isinstance(ledger, md.types.LedgerFile)
    path = Path(ledger.path).with_name("saved.json")
    ledger.save(path)
    return md.Ledger.load(path)


def by_plan(ledger: Any) -> md.Ledger:
    memory = md.Ledger("replace_one")
    memory.step(ledger.plan)
    return memory


WAYS: list[Callable[[Any], md.Ledger]] = [
    by_json,
    by_memory,
    by_saving,
    by_plan,
    lambda ledger: by_json(by_json(ledger)),
    lambda ledger: by_memory(by_json(ledger)),
    lambda ledger: pickle.loads(pickle.dumps(by_memory(ledger))),
    lambda ledger: copy.copy(by_memory(ledger)),
    lambda ledger: copy.deepcopy(by_memory(ledger)),
]


@pytest.mark.parametrize("way", WAYS)
def test_in_memory_it_stays_what_it_was(
    chosen: md.types.LedgerFile, tmp_path: Path, way: Callable[[Any], md.Ledger]
) -> None:
    found = way(chosen)
    assert found.steps == 400
    assert found.adaptive
    assert "chosen along the way" in repr(found)
    for ask in (lambda: found.epsilon(1e-6), lambda: found.delta(1.0), found.account):
        with pytest.raises(md.NotCovered, match="chosen along the way"):
            ask()
    found.step(STEP)
    with pytest.raises(md.NotCovered, match="chosen along the way"):
        found.epsilon(1e-6)
    limit = in_between(chosen)
    with md.Ledger.open(tmp_path / "next", **{**LIMIT, "epsilon": limit}) as ledger:
        with pytest.raises(md.BudgetExceeded):
            ledger.merge(found)
        with pytest.raises(md.BudgetExceeded):
            ledger.charge(found.plan)
        assert ledger.entries() == ()


def test_merged_first_it_is_judged_by_the_filter(
    chosen: md.types.LedgerFile, tmp_path: Path
) -> None:
    limit = in_between(chosen)
    with md.Ledger.open(tmp_path / "next", **{**LIMIT, "epsilon": limit}) as ledger:
        for charge in (
            lambda: ledger.merge(chosen),
            lambda: ledger.charge(chosen.plan),
            lambda: ledger.check(chosen.plan),
            lambda: ledger.step(md.repeat(1, md.sequence(chosen.plan))),
        ):
            with pytest.raises(md.BudgetExceeded):
                charge()
        # The same plan, fixed before anything is released: what the first charge may be.
        assert ledger.check(md.sequence(md.repeat(200, STEP), md.repeat(200, OTHER))) <= limit
    with md.Ledger.open(tmp_path / "wide", **LIMIT) as wide:
        wide.merge(chosen)
        assert wide.spent() >= 0.98 * chosen.spent() > limit
        assert wide.adaptive
        [entry] = wide.entries()
        assert entry.recorded
        assert entry.describe()["recorded"]
        with pytest.raises(md.NotCovered, match="chosen along the way"):
            wide.epsilon(1e-6)
        assert wide.verify().entries == 1
        with (
            md.Ledger.open(tmp_path / "last", **{**LIMIT, "epsilon": limit}) as last,
            pytest.raises(md.BudgetExceeded),
        ):
            last.charge(entry.plan)


def test_steps_recorded_in_memory_are_no_declaration_either(tmp_path: Path) -> None:
    """They were released before the merge, and nothing says that they were fixed in advance."""
    memory = md.Ledger("replace_one")
    memory.step(STEP, 400)
    fixed = memory.epsilon(1e-6).upper
    with md.Ledger.open(tmp_path / "a", **{**LIMIT, "epsilon": 1.01 * fixed}) as ledger:
        with pytest.raises(md.BudgetExceeded):
            ledger.merge(memory)
        assert ledger.check(STEP, times=400) <= 1.01 * fixed


def test_what_happened_is_not_declared_in_advance(
    chosen: md.types.LedgerFile, tmp_path: Path
) -> None:
    for plan in (chosen.plan, md.repeat(2, chosen.plan), md.sequence(STEP, chosen.plan)):
        with pytest.raises(md.InvalidParameter, match="program must be a plan that is fixed"):
            md.Ledger.open(tmp_path / "fixed", program=plan, **LIMIT)
    plan = md.sequence(md.repeat(200, STEP), md.repeat(200, OTHER))
    assert chosen.plan == plan
    assert plan == chosen.plan
    assert hash(plan) == hash(chosen.plan)
    with md.Ledger.open(tmp_path / "fixed", program=plan, **LIMIT) as declared:
        with pytest.raises(md.InvalidParameter, match="merge that into an adaptive ledger"):
            declared.merge(chosen)
        with pytest.raises(md.InvalidParameter, match="merge that into an adaptive ledger"):
            declared.charge(chosen.plan)
        assert not declared.adaptive
        declared.charge(md.repeat(200, STEP))
        assert by_memory(declared).adaptive  # it may have been left here by what was seen
        declared.charge(md.repeat(200, OTHER))
        whole = by_memory(declared)
        assert not whole.adaptive
        assert whole.epsilon(1e-6).upper == pytest.approx(declared.standing().fixed, rel=1e-9)


def test_one_charge_is_fixed_before_anything_is_released(tmp_path: Path) -> None:
    with md.Ledger.open(tmp_path / "one", **LIMIT) as ledger:
        assert not ledger.adaptive
        ledger.charge(md.repeat(200, STEP))
        assert not ledger.adaptive
        assert by_json(ledger).epsilon(1e-6).upper == ledger.epsilon(1e-6).upper
        assert "adaptive" not in json.loads(ledger.to_json())


def test_a_mark_in_json_is_true_or_false() -> None:
    memory = md.Ledger()
    memory.step(STEP)
    for bad in (1, "yes", None, math.pi):
        body = json.loads(memory.to_json())
        del body["checksum"]
        body["adaptive"] = bad
        body["checksum"] = digest(body, "body")
        with pytest.raises(md.InvalidParameter, match="adaptive of the ledger"):
            md.Ledger.from_json(json.dumps(body))


def test_a_ledger_in_a_file_is_opened_not_loaded(chosen: md.types.LedgerFile) -> None:
    """Both are ledgers, and neither has what only the other can do."""
    assert isinstance(chosen, md.types.LedgerFile)
    assert not isinstance(chosen, md.Ledger)
    for name in ("load", "from_json", "open"):
        assert not hasattr(md.types.LedgerFile, name)
    for name in ("charge", "check", "spent", "left", "standing", "verify", "entries", "run"):
        assert not hasattr(md.Ledger, name)
