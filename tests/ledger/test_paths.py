"""Whatever releases something takes the path of a ledger in place of the ledger."""

from __future__ import annotations

import gc
import os
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mustdp as md

BUDGET: dict[str, Any] = {"epsilon": 0.5, "delta": 1e-6}
DATA = np.linspace(0.0, 1.0, 200)


def release(ledger: Any) -> None:
    md.private_release(DATA, ["mean"], lower=0.0, upper=1.0, ledger=ledger, **BUDGET)


def bootstrap(ledger: Any) -> None:
    given: dict[str, Any] = {"lower": 0.0, "upper": 1.0, "replicates": 4}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # whether the noise hides everything is chance
        md.private_bootstrap(DATA, design=md.wor(200, 20), ledger=ledger, **given, **BUDGET)


def linear(ledger: Any) -> None:
    model = md.DPLinearRegression(**BUDGET, steps=2, scheme=md.wor(200, 20), ledger=ledger)
    model.fit(DATA[:, None], DATA)


def network(ledger: Any) -> None:
    torch = pytest.importorskip("torch")
    model = torch.nn.Linear(1, 1)
    data = torch.tensor(DATA[:, None], dtype=torch.float32)
    budget = md.calibrated_budget(md.wor(200, 20), steps=2, noise_multiplier=20.0, delta=1e-6)

    def loss(found: Any, right: Any) -> Any:
        return ((found - right) ** 2).sum(dim=1)

    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    trainer = md.PrivateTrainer(
        model, loss, (data, data), budget, optimizer=optimizer, max_grad_norm=1.0, ledger=ledger
    )
    trainer.train()


RUNNERS: list[Callable[[Any], None]] = [release, bootstrap, linear, network]


@pytest.mark.parametrize("runner", RUNNERS)
def test_a_path_is_opened_and_charged(tmp_path: Path, runner: Callable[[Any], None]) -> None:
    path = tmp_path / "office.ledger"
    md.Ledger.open(path, epsilon=50, delta=1e-6).close()
    with warnings.catch_warnings():
        warnings.simplefilter("error", ResourceWarning)
        runner(path)
        runner(str(path))
        gc.collect()
    with md.Ledger.open(path) as ledger:
        assert len(ledger.entries()) == 2
        runner(ledger)
        assert len(ledger.entries()) == 3
        assert ledger.spent() > 0
    if os.path.isdir("/proc/self/fd"):
        ends = [f"/proc/self/fd/{one}" for one in os.listdir("/proc/self/fd")]
        assert str(path) not in [os.readlink(end) for end in ends if os.path.lexists(end)]


@pytest.mark.parametrize("runner", RUNNERS)
def test_what_is_not_there_or_is_no_ledger_is_refused(
    tmp_path: Path, runner: Callable[[Any], None]
) -> None:
    for missing in (tmp_path / "none.ledger", str(tmp_path / "no folder" / "x"), ""):
        with pytest.raises(md.InvalidParameter, match="mustdp ledger create") as caught:
            runner(missing)
        assert "ledger must be the path of a ledger that is there" in str(caught.value)
        assert "\n" not in str(caught.value)
    assert os.listdir(tmp_path) == []
    for wrong in (7, b"office.ledger", ["office.ledger"], True):
        with pytest.raises(md.InvalidParameter, match="ledger must be a ledger, the path of one"):
            runner(wrong)
    other = tmp_path / "data.csv"
    other.write_text("1\n")
    with pytest.raises(md.InvalidParameter, match=r"no ledger|damaged"):
        runner(other)
    keyed = tmp_path / "keyed.ledger"
    md.Ledger.open(keyed, epsilon=50, delta=1e-6, key=b"sixteen bytes or more").close()
    with pytest.raises(md.InvalidParameter, match="key must be"):
        runner(keyed)


@pytest.mark.parametrize("runner", RUNNERS)
def test_what_passes_the_limit_is_refused(tmp_path: Path, runner: Callable[[Any], None]) -> None:
    path = tmp_path / "office.ledger"
    with md.Ledger.open(path, epsilon=0.001, delta=1e-6) as ledger:
        with pytest.raises(md.BudgetExceeded):
            runner(path)
        assert ledger.entries() == ()


def test_what_passes_the_limit_is_refused_before_data_are_read(tmp_path: Path) -> None:
    """There are none: whatever opened them first would say so."""
    path, missing = tmp_path / "office.ledger", str(tmp_path / "nowhere.csv")
    md.Ledger.open(path, epsilon=0.001, delta=1e-6).close()
    given: dict[str, Any] = {"lower": 0.0, "upper": 1.0, **BUDGET}
    column: dict[str, Any] = {"columns": ["age"]}
    with pytest.raises(md.BudgetExceeded):
        md.private_release(missing, ["mean"], ledger=path, **column, **given)
    design: dict[str, Any] = {"design": md.wor(200, 20), "replicates": 4}
    with pytest.raises(md.BudgetExceeded):
        md.private_bootstrap(missing, ledger=path, **design, **column, **given)


def test_a_ledger_that_was_exchanged_while_data_were_read_is_asked_once_more(
    tmp_path: Path,
) -> None:
    """The certificate is for one relation; under another it would be charged for too little."""
    path = tmp_path / "office.ledger"
    md.Ledger.open(path, epsilon=50, delta=1e-6).close()

    def exchange(what: str, done: int) -> None:
        path.unlink(missing_ok=True)
        md.Ledger.open(path, epsilon=50, delta=1e-6, relation="add_remove").close()

    given: dict[str, Any] = {"lower": 0.0, "upper": 1.0, "progress": exchange, **BUDGET}
    with pytest.raises(md.InvalidParameter, match="relation must be that of the ledger"):
        md.private_release(DATA, ["mean"], ledger=path, **given)
    with md.Ledger.open(path) as ledger:
        assert ledger.steps == 0
