"""The page on networks says what is so: its code runs, its names exist."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

import mustdp as md

PAGE = (Path(__file__).parents[3] / "docs" / "training-networks.md").read_text(encoding="utf-8")


@pytest.mark.filterwarnings("ignore::mustdp.training.networks.loaders.LoaderRedrawn")
def test_the_code_of_the_page_runs(capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, object] = {}
    script, *blocks = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    exec(compile(script, "training-networks.md", "exec"), names)
    for code, target in zip(blocks, (2.0, 2.0, 4.0), strict=True):
        exec(compile(code, "training-networks.md", "exec"), names)
        epsilon = float(capsys.readouterr().out.split()[0])
        assert 0.95 * target < epsilon <= target


def test_the_options_of_the_page_exist() -> None:
    named = {"max_grad_norm", "checkpoint", "max_rows", "mixed_precision", "seed", "every"}
    named |= {"epochs", "epsilon", "n", "noise_multiplier"}
    types, made = md.types, (md.PrivateTrainer, md.training.loader_budget)
    options = [
        set(inspect.signature(one).parameters)
        for one in (*made, types.Compute, types.Checkpoint, types.Schedule)
    ]
    assert named <= set().union(*options)
    assert all(re.search(rf"[`\" (]{name}[`= ]", PAGE) for name in named)
