"""One thread for torch: the machines that run these tests have few, and results repeat."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec

import pytest

#: What tests import; without torch there is nothing to find in them.
collect_ignore = (
    []
    if find_spec("torch")
    else [
        "brute_force.py",
        "exact.py",
        "killed_run.py",
        "loader_run.py",
        "runs.py",
        "two_processes.py",
        "zoo.py",
    ]
)


@pytest.fixture(autouse=True, scope="session")
def one_thread() -> Iterator[None]:
    torch = pytest.importorskip("torch")
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
