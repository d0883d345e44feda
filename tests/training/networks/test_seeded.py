"""Whatever comes out of a run with a seed says so: whoever knows the seed subtracts the noise."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.seams import checkpoint_file, train_classifier

torch = pytest.importorskip("torch")

from mustdp.types import DataSet
from tests.training.networks import runs


def spent(answer: Any) -> list[tuple[bool, bool]]:
    """Of all that states a cost: whether it says seeded, and whether certified."""
    return [(one.seeded, one.certified) for one in answer]


@pytest.mark.parametrize("seed", [3, None])
def test_every_result_event_and_ledger_of_a_run(seed: int | None) -> None:
    seen: list[Any] = []
    run = runs.trainer(seed=seed, callbacks=[seen.append])
    results: list[Any] = [run.train(2), run.step(), run.train()]
    marked = seed is not None
    assert [x.seeded for x in (*seen, *results)] == [marked] * 9
    costs = [*(x.spent() for x in seen), *(x.privacy for x in results)]
    costs += [run.privacy.spent, run.privacy.planned]
    assert spent(costs) == [(marked, not marked)] * 11
    assert [x.ledger.steps for x in [*results, run]] == ([0, 0, 0, 0] if marked else [2, 3, 6, 6])
    assert all(f"seeded={marked}" in repr(x) for x in (*seen, *results))


@pytest.mark.parametrize("seed", [3, None])
def test_a_checkpoint(tmp_path: Path, seed: int | None) -> None:
    path = tmp_path / "run.pt"
    run = runs.trainer(seed=seed, checkpoint=path)
    run.train(2)
    assert checkpoint_file(path).read()["run"]["seed"] == ('"given"' if seed else '"none"')
    assert runs.trainer(seed=seed, checkpoint=path).train(1).seeded is (seed is not None)
    other = None if seed else 3
    with pytest.raises(ValueError, match="its seed is"):
        runs.trainer(seed=other, checkpoint=path)


def test_the_line_on_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    runs.trainer(seed=3, progress=True).train(1)
    shown = " ".join(capsys.readouterr().err.split())
    assert "an experiment with a seed, not private" in shown
    assert "epsilon" not in shown


def data() -> DataSet:
    rng = np.random.default_rng(1)
    X, y = rng.random((60, 4)), np.arange(60) % 3
    return DataSet("small", X, y, X[:9], y[:9], tuple("xyz"), tuple("abcd"))


@pytest.mark.parametrize("seed", [3, None])
def test_saved_models(tmp_path: Path, seed: int | None) -> None:
    how: dict[str, Any] = {"seed": seed, "max_grad_norm": 1.0}
    arrays, network = tmp_path / "linear.npz", tmp_path / "mlp.pt"
    train_classifier(data(), runs.budget(steps=2), model="linear", save=str(arrays), **how)
    train_classifier(data(), runs.budget(steps=2), model="mlp", save=str(network), **how)
    with np.load(arrays) as saved:
        assert bool(saved.get("seeded", False)) is (seed is not None)
    state = torch.load(network, weights_only=True)
    mark = {"seeded": True} if seed else None
    assert state._metadata.get("mustdp") == mark
    layers = torch.nn.Linear(4, 128), torch.nn.ReLU(), torch.nn.Linear(128, 3)
    torch.nn.Sequential(*layers).load_state_dict(state)
