"""The page on networks says what is so: its code runs, its names exist."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from mustdp.training.networks.trainer import PrivateTrainer  # noqa: E402

PAGE = (Path(__file__).parents[3] / "docs" / "training-networks.md").read_text(encoding="utf-8")


def test_the_code_of_the_page_runs(capsys: pytest.CaptureFixture[str]) -> None:
    [code] = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    exec(compile(code, "training-networks.md", "exec"), {})
    epsilon = float(capsys.readouterr().out.split()[0])
    assert 3.5 < epsilon <= 4.0


def test_the_options_of_the_page_exist() -> None:
    options = set(inspect.signature(PrivateTrainer).parameters)
    named = {"clip", "checkpoint", "checkpoint_every", "max_rows", "mixed_precision", "seed"}
    assert named <= options
    assert all(f"`{name}" in PAGE for name in named)
