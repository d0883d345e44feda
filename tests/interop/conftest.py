from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.cli.running import Run, runner


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    return runner(capsys)


def page_code(heading: str) -> str:
    """The Python under a heading of docs/interop.md."""
    text = (Path(__file__).parents[2] / "docs" / "interop.md").read_text(encoding="utf-8")
    section = text.partition(f"## {heading}\n")[2].partition("\n## ")[0]
    return "\n".join(re.findall(r"```python\n(.*?)```", section, re.DOTALL))
