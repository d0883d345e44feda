"""The examples of loops of one's own run, learn, and are charged for every step."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

PATH = Path(__file__).parents[3] / "examples" / "own_loops.py"


@pytest.fixture(scope="module")
def example() -> Any:
    found: Any = importlib.util.spec_from_file_location("own_loops", PATH)
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ["plain", "lightning", "transformers"])
def test_a_loop(name: str, example: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if name != "plain":
        pytest.importorskip(name)
    monkeypatch.chdir(tmp_path)
    torch.manual_seed(0)
    model, trainer = example.LOOPS[name]()
    inputs, labels = example.data()
    with torch.no_grad():
        assert (model(inputs).argmax(1) == labels).float().mean() > 0.6  # a third is guessing
    assert (trainer.steps, trainer.remaining) == (example.STEPS, 0)
    assert trainer.privacy.spent == trainer.privacy.planned
    assert 3.9 < trainer.privacy.spent.epsilon.upper <= 4.0
