"""Charges: admitted up to the limit and not beyond, and every question about them answered."""

from __future__ import annotations

import csv
import io
import json
import math
import os
import pickle
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mustdp as md

STEP = md.subsample(md.wor(1000, 20), md.gaussian(noise_multiplier=2.0))
QUIET = md.subsample(md.wor(1000, 20), md.gaussian(noise_multiplier=8.0))
LOUD = md.laplace(shift=1.0)


def opened(folder: Path, **given: Any) -> md.types.LedgerFile:
    return md.Ledger.open(folder / "office.ledger", **{"epsilon": 4.0, "delta": 1e-6, **given})


def test_pure_noise_is_charged_to_the_very_limit(tmp_path: Path) -> None:
    with opened(tmp_path, data="census", who="ada") as ledger:
        for number in range(1, 5):
            before = ledger.left()
            entry = ledger.charge(LOUD, label=f"day {number}")
            assert (entry.number, entry.label, entry.who) == (number, f"day {number}", "ada")
            assert entry.epsilon == ledger.spent() == pytest.approx(number, rel=1e-7)
            assert before - ledger.left() == pytest.approx(1.0, rel=1e-6)
        with pytest.raises(md.BudgetExceeded, match="budget of census") as caught:
            ledger.charge(LOUD)
        assert caught.value.asked == pytest.approx(1.0, rel=1e-6)
        assert caught.value.spent == ledger.spent()
        assert caught.value.left == ledger.left() < 1e-6
        assert caught.value.most == 0
        again = pickle.loads(pickle.dumps(caught.value))
        assert (str(again), vars(again)) == (str(caught.value), vars(caught.value))
    assert [entry.number for entry in ledger.entries()] == [1, 2, 3, 4]
    assert ledger.verify().entries == 4
    assert ledger.entries()[0].plan == LOUD


def test_the_limit_is_settled_when_the_file_is_made(tmp_path: Path) -> None:
    path = tmp_path / "office.ledger"
    with pytest.raises(md.InvalidParameter, match=r"come with the epsilon and delta"):
        md.Ledger.open(path)
    with pytest.raises(md.InvalidParameter, match="come with the epsilon"):
        md.Ledger.open(path, epsilon=1)
    assert os.listdir(tmp_path) == []
    with md.Ledger.open(path, epsilon=2, delta=1e-6, relation="add_remove", data="a") as ledger:
        assert ledger.relation == "add_remove"
    assert path.stat().st_mode & 0o777 == 0o600
    with md.Ledger.open(path) as again:
        assert (again.header.epsilon, again.header.delta, again.header.data) == (2.0, 1e-6, "a")
    with md.Ledger.open(path, epsilon=2, delta=1e-6):
        pass
    different: list[dict[str, Any]] = [
        {"epsilon": 3},
        {"delta": 1e-5},
        {"relation": "replace_one"},
        {"data": "b"},
        {"program": STEP},
    ]
    for given in different:
        with pytest.raises(md.InvalidParameter, match="must be left out, or be that of the ledger"):
            md.Ledger.open(path, **given)


@pytest.mark.parametrize(
    "given",
    [
        {"epsilon": 0},
        {"epsilon": math.nan},
        {"epsilon": 501},
        {"delta": 0},
        {"delta": 1},
        {"delta": math.nan},
        {"delta": 1e-20},
        {"relation": "both"},
        {"data": ""},
        {"data": "two\nlines"},
        {"data": "x" * 201},
        {"who": "\ud800"},
        {"program": "fixed"},
        {"key": b"short"},
        {"key": "a text of many letters"},
    ],
)
def test_what_a_ledger_is_made_with_is_checked(tmp_path: Path, given: dict[str, Any]) -> None:
    with pytest.raises(md.InvalidParameter, match=next(iter(given))):
        opened(tmp_path, **given)
    assert os.listdir(tmp_path) == []


def test_a_refused_charge_leaves_nothing(tmp_path: Path) -> None:
    with opened(tmp_path, epsilon=1.0) as ledger:
        ledger.charge(QUIET, times=30)
        before = (tmp_path / "office.ledger").read_bytes()
        for plan in (md.repeat(10**6, QUIET), md.gaussian(shift=4.0)):
            with pytest.raises(md.BudgetExceeded):
                ledger.charge(plan)
            with pytest.raises(md.BudgetExceeded):
                ledger.check(plan)
        with pytest.raises(md.NotCovered):
            ledger.charge(md.custom(lambda e: 0.0 * e))
        for bad in ({"times": 0}, {"times": 1.5}, {"label": "a\nb"}, {"label": 3}):
            with pytest.raises(md.InvalidParameter, match=next(iter(bad))):
                ledger.charge(QUIET, **bad)
        ledger.close()
        assert (tmp_path / "office.ledger").read_bytes() == before


def test_what_is_said_to_fit_fits_and_more_does_not(tmp_path: Path) -> None:
    with opened(tmp_path, epsilon=1.0) as ledger:
        ledger.charge(QUIET, times=30)
        with pytest.raises(md.BudgetExceeded) as caught:
            ledger.charge(md.repeat(100_000, QUIET))
        refused = caught.value
        assert refused.wanted == 100_000
        assert refused.most is not None
        assert 0 < refused.most < 100_000
        assert refused.largest is not None
        assert refused.largest > 0
        assert str(refused.most) in str(refused)
        assert ledger.check(QUIET, times=refused.most) <= 1.0
        with pytest.raises(md.BudgetExceeded):
            ledger.check(QUIET, times=2 * refused.most)
        sigma = md.reproduction.analytic_sigma(refused.largest, 1e-6, sensitivity=1.0)
        assert ledger.check(md.gaussian(shift=0.999 / sigma)) <= 1.0
        with pytest.raises(md.BudgetExceeded):
            ledger.check(md.gaussian(shift=1.02 / sigma))
        assert [entry.number for entry in ledger.entries()] == [1]


def test_the_two_numbers_and_their_names(tmp_path: Path) -> None:
    with opened(tmp_path) as ledger:
        empty = ledger.standing()
        assert (empty.spent, empty.left, empty.adaptive, empty.fixed) == (0.0, 4.0, 0.0, 0.0)
        ledger.charge(md.repeat(200, STEP))
        ledger.charge(STEP, times=100)
        found = ledger.standing()
        tight = md.account(md.repeat(300, STEP), relation="replace_one").epsilon(1e-6).upper
        assert found.program == "adaptive"
        assert found.fixed == pytest.approx(tight, rel=1e-3)
        assert tight < found.adaptive < 1.6 * tight
        assert found.spent == found.adaptive == ledger.spent()
        assert (found.entries, found.steps) == (2, 300)
        assert ledger.steps == 300
        # Composition does not cover plans that are chosen along the way: the number for comparison
        # is called fixed, and epsilon gives none.
        for ask in (lambda: ledger.epsilon(1e-6), lambda: ledger.delta(1.0), ledger.account):
            with pytest.raises(md.NotCovered, match="chosen along the way"):
                ask()
    with md.Ledger.open(tmp_path / "one", epsilon=4, delta=1e-6) as ledger:
        ledger.charge(md.repeat(300, STEP))
        assert ledger.epsilon(1e-6).upper == pytest.approx(tight, rel=1e-3)


def test_the_first_charge_may_take_the_whole_budget(tmp_path: Path) -> None:
    """It is chosen before anything was released: the certified bound of it alone decides."""
    scheme = md.wor(1000, 100)
    found = md.calibrate(scheme, epsilon=1.0, delta=1e-6, steps=10)
    noise = md.gaussian(noise_multiplier=found.noise_multiplier)
    plan = md.repeat(10, md.subsample(scheme, noise))
    with opened(tmp_path, epsilon=1.0) as ledger:
        assert ledger.check(plan) <= 1.0
        entry = ledger.charge(plan)
        assert entry.epsilon == pytest.approx(found.epsilon.upper, rel=1e-3)
        assert ledger.left() == 0.0
        for more in (md.gaussian(shift=1e-6), md.laplace(shift=1e-9)):
            with pytest.raises(md.BudgetExceeded, match="0 left"):
                ledger.charge(more)
        assert ledger.verify().entries == 1
    with md.Ledger.open(tmp_path / "second.ledger", epsilon=1.0, delta=1e-6) as other:
        other.charge(md.laplace(shift=1e-9))
        with pytest.raises(md.BudgetExceeded):
            other.charge(plan)
        with pytest.raises(md.BudgetExceeded, match="costs more than any limit"):
            other.charge(md.gaussian(shift=1e4))


def test_equal_charges_are_stored_once_and_counted(tmp_path: Path) -> None:
    with opened(tmp_path, epsilon=50.0) as ledger:
        for _ in range(20):
            ledger.charge(STEP)
        ledger.charge(md.repeat(3, STEP))
        with ledger._store.reading() as connection:
            assert connection.execute("SELECT COUNT(*) FROM plans").fetchone()[0] < 8
        assert ledger.plan == md.sequence(md.repeat(23, STEP))


def test_a_charge_does_not_account_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = md.subsample(md.wor(1000, 21), md.gaussian(noise_multiplier=2.0))
    with opened(tmp_path, epsilon=50.0) as ledger:
        for _ in range(18):
            ledger.charge(plan)

        def asked(*given: object, **named: object) -> Any:
            raise AssertionError("accounted again")

        for place in ("filter", "program"):
            monkeypatch.setattr(f"mustdp.ledger.{place}.account", asked)
        for _ in range(10):
            ledger.charge(plan)


def test_relations(tmp_path: Path) -> None:
    plan = md.subsample(md.poisson(100, 0.1), md.gaussian(noise_multiplier=4.0))
    spent = []
    for relation in ("add_remove", "replace_one"):
        path = tmp_path / relation
        given: dict[str, Any] = {"epsilon": 20, "delta": 1e-6, "data": "census"}
        with md.Ledger.open(path, relation=relation, **given) as ledger:
            spent.append(ledger.charge(plan, times=20).epsilon)
            assert ledger.entries()[0].relation == relation
            assert ledger.account().relation == relation
    assert spent[0] < spent[1]
    everything = md.subsample(md.wor(10, 10), md.gaussian(noise_multiplier=4.0))
    with md.Ledger.open(tmp_path / "add_remove") as ledger:
        with pytest.raises(md.NotCovered, match="add_remove compares n records with one less"):
            ledger.charge(everything)
        with pytest.raises(md.InvalidParameter, match="different relations"):
            ledger.merge(md.Ledger.open(tmp_path / "replace_one"))


def test_merging_and_todays_json(tmp_path: Path) -> None:
    old = md.Ledger("replace_one")
    old.step(STEP, 7)
    old.step(LOUD)
    old.save(tmp_path / "old.json")
    undecided = md.Ledger()
    undecided.step(STEP, 2)
    with opened(tmp_path, data="census") as ledger, opened(tmp_path) as same:
        ledger.merge(md.Ledger.load(tmp_path / "old.json"))
        ledger.merge(undecided)
        assert ledger.steps == 10
        assert [entry.label for entry in ledger.entries()] == ["merged: 8 steps", "merged: 2 steps"]
        with pytest.raises(md.InvalidParameter, match="with itself"):
            ledger.merge(same)
        with md.Ledger.open(tmp_path / "b", epsilon=9, delta=1e-6, data="census") as other:
            other.merge(ledger)
            assert other.steps == 10
            assert other.verify().entries == 1
        with (
            md.Ledger.open(tmp_path / "c", epsilon=9, delta=1e-6, data="taxes") as foreign,
            pytest.raises(md.InvalidParameter, match="different data"),
        ):
            foreign.merge(ledger)
        memory = md.Ledger("replace_one")
        memory.merge(ledger)
        assert memory.steps == 10
        assert md.Ledger.from_json(ledger.to_json()).steps == 10
        old.step(LOUD, 4)
        with pytest.raises(md.BudgetExceeded):
            ledger.merge(old)
        assert len(ledger.entries()) == 2


def test_exports(tmp_path: Path) -> None:
    with opened(tmp_path, data="census", who="@ada") as ledger:
        ledger.charge(LOUD, label='=SUM(A1), "quoted" and ü')
        ledger.charge(STEP, times=3)
        whole = json.loads(ledger.export_json())
        table = list(csv.DictReader(io.StringIO(ledger.export_csv())))
    assert whole["limit"] == {"epsilon": 4.0, "delta": 1e-6}
    assert [entry["times"] for entry in whole["entries"]] == [1, 3]
    assert whole["entries"][0]["label"] == '=SUM(A1), "quoted" and ü'
    assert whole["entries"][1]["hash"] == ledger.entries()[1].hash
    assert table[0]["label"] == '\'=SUM(A1), "quoted" and ü'
    assert table[0]["who"] == "'@ada"
    assert float(table[1]["epsilon"]) == ledger.spent()
    assert len(ledger.entries(since=1)) == 1


def test_a_bootstrap_charges_a_file_as_it_charges_memory(tmp_path: Path) -> None:
    given: dict[str, Any] = {"lower": 0.0, "upper": 1.0, "delta": 1e-6, "replicates": 20}
    given |= {"design": md.wor(200, 20)}
    with opened(tmp_path) as ledger:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # whether the noise hides everything is chance
            md.private_bootstrap(np.full(200, 0.5), epsilon=1.0, ledger=ledger, **given)
        assert ledger.steps == 20
        with pytest.raises(md.BudgetExceeded):
            md.private_bootstrap(np.full(200, 0.5), epsilon=6.0, ledger=ledger, **given)
        assert ledger.steps == 20


def test_a_ledger_is_not_sent_to_another_process(tmp_path: Path) -> None:
    with opened(tmp_path) as ledger, pytest.raises(md.InvalidParameter, match="by each process"):
        pickle.dumps(ledger)
