"""One explorer for all tests: what it has computed for one of them is there for the others."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.reporting.explorer.visiting import Explorer, running


@pytest.fixture(scope="session")
def explorer() -> Iterator[Explorer]:
    with running() as one:
        yield one


@pytest.fixture(autouse=True)
def nothing_goes_on(request: pytest.FixtureRequest) -> Iterator[None]:
    """What a test leaves to be computed must not meet what the next one patches or forks."""
    yield
    if "explorer" in request.fixturenames:
        work = request.getfixturevalue("explorer").work
        with work._changed:
            work._stack.clear()
            assert work._changed.wait_for(lambda: not work._running, 120)
