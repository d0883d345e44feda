from __future__ import annotations

import pytest

from tests.cli.running import Run, runner


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    return runner(capsys)
