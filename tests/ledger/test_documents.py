"""The examples in the ledger's document are true."""

from __future__ import annotations

import doctest
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def test_python_examples(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    done = doctest.testfile(str(ROOT / "docs" / "ledger.md"), module_relative=False)
    assert done.attempted >= 10
    assert done.failed == 0
