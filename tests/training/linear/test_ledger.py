"""The linear models and a ledger: every fit is charged once, before noise is drawn."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.seams import replace_linear_data_check, replace_linear_noise

pytest.importorskip("sklearn")

from sklearn.base import clone
from sklearn.model_selection import cross_val_score

import mustdp as md
from mustdp import BudgetExceeded, InvalidParameter

N = 200
PLAIN: dict[str, Any] = {"m": 20, "steps": 5, "noise_multiplier": 4.0, "delta": 1e-5}


@pytest.fixture
def file(tmp_path: Path) -> str:
    name = str(tmp_path / "office.ledger")
    md.Ledger.open(name, epsilon=3, delta=1e-5).close()
    return name


def line() -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, 2))
    return X, X @ [0.5, -0.25]


def entries(file: str) -> list[str]:
    with md.Ledger.open(file) as ledger:
        return [entry.label for entry in ledger.entries()]


def test_every_fit_is_charged_once_before_its_noise(
    file: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    charged_before: list[int] = []

    def noted(released: Callable[..., Any]) -> Callable[..., Any]:
        def after_the_charge(noise: Any, total: Any) -> Any:
            charged_before.append(len(entries(file)))
            return released(noise, total)

        return after_the_charge

    replace_linear_noise(monkeypatch, noted)
    model = md.DPLinearRegression(ledger=file, **PLAIN).fit(*line())
    model.fit(*line())
    assert charged_before == [1] * 5 + [2] * 5
    assert entries(file) == ["training: DPLinearRegression"] * 2
    with md.Ledger.open(file) as ledger:
        assert ledger.entries()[0].plan == model.privacy_.plan


def test_what_does_not_fit_is_refused_before_the_data_are_looked_at(
    file: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def look(*_: Any, **__: Any) -> None:
        raise AssertionError("the data were looked at")

    replace_linear_data_check(monkeypatch, look)
    model = md.DPLinearRegression(ledger=file, **{**PLAIN, "noise_multiplier": 0.5})
    with pytest.raises(BudgetExceeded) as refused:
        model.fit(*line())
    assert refused.value.wanted == 5
    assert not hasattr(model, "coef_")
    assert entries(file) == []


def test_bad_data_are_not_charged(file: str) -> None:
    X, y = line()
    X[3, 1] = np.nan
    with pytest.raises(ValueError, match="NaN"):
        md.DPLinearRegression(ledger=file, **PLAIN).fit(X, y)
    assert entries(file) == []


@pytest.mark.filterwarnings("ignore::mustdp.randomness.keys.SeededRelease")
def test_what_cannot_be_charged_is_refused(file: str) -> None:
    with pytest.raises(InvalidParameter, match="an experiment, no release"):
        md.DPLinearRegression(ledger=file, random_state=1, **PLAIN).fit(*line())
    poisson = {**PLAIN, "scheme": md.poisson(N, 0.1), "m": None}
    with pytest.raises(InvalidParameter, match="relation must be that of the ledger"):
        md.DPLinearRegression(ledger=file, **poisson).fit(*line())
    wrong: Any = 3
    with pytest.raises(InvalidParameter, match="ledger must be"):
        md.DPLinearRegression(ledger=wrong, **PLAIN).fit(*line())
    assert entries(file) == []


def test_copies_charge_the_same_file(file: str) -> None:
    """In cross-validation, and as they are sent to other processes."""
    X, y = line()
    model = md.DPLogisticRegression(classes=[0, 1], ledger=file, **PLAIN)
    cross_val_score(model, X, (y > 0).astype(int), cv=3)
    pickle.loads(pickle.dumps(model)).fit(X, (y > 0).astype(int))
    assert len(entries(file)) == 4


def test_copies_charge_the_same_ledger_object(file: str) -> None:
    memory = md.Ledger("replace_one")
    with md.Ledger.open(file) as opened:
        for ledger in (memory, opened):
            model = md.DPLinearRegression(ledger=ledger, **PLAIN)
            clone(model).fit(*line())
            assert clone(model).ledger is ledger
            assert ledger.steps == 5
            for send in (pickle.dumps, copy.deepcopy):
                with pytest.raises(InvalidParameter, match="would charge a copy"):
                    send(model)
    fitted = md.DPLinearRegression(ledger=file, **PLAIN).fit(*line())
    assert pickle.loads(pickle.dumps(fitted)).ledger == file
