"""Whatever is released: no bit of its noise is drawn before its charge is in the ledger."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mustdp as md
from tests.seams import replace_noise_words

X = np.random.default_rng(0).uniform(0.0, 10.0, 60)
COMMON: dict[str, Any] = {"noise_multiplier": 20.0, "delta": 1e-3}


def release(ledger: Any) -> None:
    md.private_release(X, "mean", lower=0, upper=10, ledger=ledger, **COMMON)


def release_in_two_rounds(ledger: Any) -> None:
    md.private_release(X, ["sd", "median"], lower=0, upper=10, ledger=ledger, **COMMON)


def bootstrap(ledger: Any) -> None:
    md.private_bootstrap(
        X, "mean", lower=0, upper=10, design=md.wor(60, 20), replicates=8, ledger=ledger, **COMMON
    )


def linear_model(ledger: Any) -> None:
    pytest.importorskip("sklearn")
    md.DPLinearRegression(m=10, steps=2, ledger=ledger, **COMMON).fit(X[:, None], X)


def network(ledger: Any) -> None:
    torch = pytest.importorskip("torch")
    model = torch.nn.Linear(1, 1)
    md.PrivateTrainer(
        model,
        lambda outputs, target: (outputs[:, 0] - target).square(),
        (torch.tensor(X[:, None]).float(), torch.tensor(X).float()),
        md.calibrated_budget(md.wor(60, 10), steps=2, **COMMON),
        optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
        max_grad_norm=1.0,
        ledger=ledger,
        progress=False,
    ).train()


@pytest.mark.filterwarnings("ignore::mustdp.types.InferenceNote")
@pytest.mark.parametrize("way", [release, release_in_two_rounds, bootstrap, linear_model, network])
def test_noise_is_drawn_after_the_charge(
    way: Callable[[Any], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    charged: list[int] = []
    with md.Ledger.open(tmp_path / "one.ledger", epsilon=50, delta=1e-3) as ledger:

        def watched(draw: Callable[..., Any]) -> Callable[..., Any]:
            def words(source: Any, count: int) -> Any:
                charged.append(len(ledger.entries()))
                return draw(source, count)

            return words

        replace_noise_words(monkeypatch, watched)
        way(ledger)
        assert charged
        assert set(charged) == {1}
        assert len(ledger.entries()) == 1


@pytest.mark.parametrize("way", [release, release_in_two_rounds, bootstrap, linear_model, network])
def test_a_charge_that_fails_leaves_no_noise(
    way: Callable[[Any], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The ledger had room when it was asked first, and has none when it is charged."""

    def never(source: Any, count: int) -> Any:
        raise AssertionError("noise was drawn")

    replace_noise_words(monkeypatch, lambda draw: never)
    with md.Ledger.open(tmp_path / "one.ledger", epsilon=1, delta=1e-3) as ledger:
        asked = type(ledger).check

        def used_up_meanwhile(this: Any, plan: md.types.Plan, **named: Any) -> float:
            spent = asked(this, plan, **named)
            if not ledger.entries():
                ledger.charge(md.gaussian(noise_multiplier=3.9))
            return spent

        monkeypatch.setattr(type(ledger), "check", used_up_meanwhile)
        with pytest.raises(md.BudgetExceeded):
            way(ledger)
