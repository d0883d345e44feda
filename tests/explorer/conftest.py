"""One explorer for all tests: what it has computed for one of them is there for the others."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from mustdp.explorer import Explorer
from tests.explorer.visiting import running


@pytest.fixture(scope="session")
def explorer() -> Iterator[Explorer]:
    with running() as one:
        yield one
