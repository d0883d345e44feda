"""The gradient of a step for a loop of the user's own: the same release, the same price."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import mustdp as md
from mustdp.errors import BudgetExceeded, InvalidParameter, NumericalFailure
from tests.training.networks import runs


def bare(**options: Any) -> md.PrivateTrainer:
    """A trainer without an optimizer."""
    return runs.trainer(**{"optimizer": None, **options})


def test_two_optimizers_make_the_steps_of_one() -> None:
    whole, parts = runs.model(), runs.model()
    rate = {"lr": 0.05, "momentum": 0.5}
    one = runs.trainer(whole, optimizer=torch.optim.SGD(whole.parameters(), **rate), seed=3)
    one.train()
    mine = bare(network=parts, seed=3)
    halves = [torch.optim.SGD(parts[k].parameters(), **rate) for k in (0, 3)]
    while mine.remaining:
        mine.compute_gradients()
        for optimizer in halves:
            optimizer.step()
            optimizer.zero_grad()
    assert torch.equal(runs.weights(whole), runs.weights(parts))


def test_the_model_is_left_and_the_step_is_charged() -> None:
    model = runs.model()
    made = bare(network=model)
    before = runs.weights(model).clone()
    found = made.compute_gradients()
    assert torch.equal(runs.weights(model), before)
    assert (found.steps, made.steps, made.remaining, made.ledger.steps) == (1, 1, 5, 1)
    assert found.privacy.certified
    gradient = torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None])
    # Noise of deviation 1.5 on sums that are divided by 20.
    deviation = float(gradient.std())
    assert 0.5 * 1.5 / 20 < deviation < 2.0 * 1.5 / 20
    assert made.budget.spent(1).epsilon.upper == found.privacy.epsilon.upper


def test_the_whole_budget_is_charged_before_the_first_gradient(tmp_path: Path) -> None:
    with md.Ledger.open(tmp_path / "office.ledger", epsilon=400, delta=1e-2) as ledger:
        model = runs.model()
        made = bare(network=model, ledger=ledger)
        assert len(list(ledger.entries())) == 0
        made.compute_gradients()
        made.compute_gradients()
        assert len(list(ledger.entries())) == 1
    with (
        md.Ledger.open(tmp_path / "small.ledger", epsilon=1e-3, delta=1e-2) as small,
        pytest.raises(BudgetExceeded),
    ):
        bare(ledger=small)


def test_no_gradient_beyond_the_budget() -> None:
    model = runs.model()
    made = bare(network=model, budget=runs.budget(steps=1))
    made.compute_gradients()
    model.zero_grad()
    with pytest.raises(InvalidParameter, match="at most 0"):
        made.compute_gradients()
    assert all(p.grad is None for p in model.parameters())


def test_gradients_of_a_step_that_fails_are_not_written() -> None:
    inputs, labels = runs.data()
    model = runs.model()
    made = bare(network=model, data=(inputs, labels), budget=runs.budget(scheme=md.wor(60, 60)))
    with torch.no_grad():
        next(model.parameters()).fill_(1e38)
    with pytest.raises((NumericalFailure, md.NotCovered)):
        made.compute_gradients()
    assert all(p.grad is None for p in model.parameters())
    assert made.steps == 0


def test_what_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidParameter, match="optimizer must be given to train"):
        bare().train()
    with pytest.raises(InvalidParameter, match="optimizer must be given to train"):
        bare().step()
    with pytest.raises(InvalidParameter, match="no optimizer"):
        bare(checkpoint=tmp_path / "run.pt")
    with pytest.raises(InvalidParameter, match="checkpoint must be left out"):
        runs.trainer(checkpoint=tmp_path / "run.pt").compute_gradients()
