"""What a cluster is given to see: arguments and names of tasks tell neither seeds nor records."""

from __future__ import annotations

import re
import sys
from typing import Any

import numpy as np
import pytest

import mustdp as md
from mustdp.data.dask import joined, measured, picked
from mustdp.data.opening import open_source
from mustdp.errors import InvalidParameter
from mustdp.estimation.bootstrap import Job, Portion, SharedSource, as_table
from mustdp.execution.cluster import Concealed
from mustdp.randomness.keys import batch_key
from mustdp.types import Design
from tests.estimation.bootstrap.execution.examples import Moments

VALUE, SEED = 0.1234567, 2**126 + 987654321
X = np.full((50, 2), VALUE)
BOUNDS = np.zeros(2), np.ones(2)
JOB = Job(Design(md.wor(50, 5), 16), Moments(), batch_key(SEED), *BOUNDS)


class Listener:
    """A client that writes down what it is given, as a dashboard would."""

    def __init__(self) -> None:
        self.heard: list[str] = []
        self.keys: list[str] = []

    def submit(self, task: Any, *arguments: Any, key: str, pure: bool, retries: int) -> str:
        assert not pure
        assert retries == 3
        self.heard.append(repr((task, arguments)))
        self.keys.append(key)
        return key

    def scatter(self, data: Any, *, broadcast: bool, hash: bool) -> str:
        assert broadcast
        assert not hash  # a name made from the data would tell equal data
        self.heard.append(repr(data))
        return "scattered"

    def wait_for_workers(self, n_workers: int, timeout: float) -> None:
        assert n_workers == 1

    def cancel(self, futures: list[Any]) -> None:
        self.heard.append(repr(futures))


@pytest.mark.parametrize("large", [False, True])
def test_tasks_show_neither_seed_nor_data(large: bool) -> None:
    listener = Listener()
    source = open_source(X)
    data = source if large else as_table(source, *BOUNDS, files=True)
    for _ in range(2):
        tasks = SharedSource(listener, data, JOB)
        for start in (0, 8):
            tasks.submit(Portion(start, start + 8))
    text = " ".join(listener.heard)
    assert "Portion(start=8, stop=16)" in text
    for secret in (str(SEED), f"{SEED:x}", "1234567"):
        assert secret not in text
    assert len(set(listener.keys)) == 4  # the same work has other names the next time
    assert all(re.fullmatch("mustdp_portion-[0-9a-f]{32}", key) for key in listener.keys)


def test_rows_of_a_partition_are_concealed_and_its_failures_kept() -> None:
    rows = Concealed(np.array([3, 12, 14, 30]))
    found = picked(X[10:20], rows, 10, 20, [1, 0])
    assert repr(found) == "<concealed>"
    assert isinstance(found.content, np.ndarray)
    np.testing.assert_array_equal(found.content, X[:2])
    # A partition that has changed: not raised where Dask would print the partition.
    failed = picked(X[10:12], rows, 10, 20, [0])
    assert repr(failed) == "<concealed>"
    with pytest.raises(InvalidParameter, match="must stay what they were, got IndexError"):
        joined([found, failed])
    assert isinstance(measured(object(), None), InvalidParameter)


def test_the_size_of_what_is_concealed_is_known() -> None:
    table = as_table(open_source(np.zeros((10_000, 2))), *BOUNDS, files=True)
    assert sys.getsizeof(Concealed(np.zeros(1000))) >= 8000
    assert sys.getsizeof(Concealed((np.zeros(1000), np.zeros(1000)))) >= 16000
    assert sys.getsizeof(Concealed(table)) >= 160_000
