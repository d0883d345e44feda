"""Clipped sums equal the definition, record by record, for every kind of layer."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest

torch = pytest.importorskip("torch")

from tests.training.networks import zoo
from tests.training.networks.brute_force import (
    Case,
    bound,
    clipped_sum,
    clipped_sum_one_by_one,
    clipper,
    relative_gap,
)

COUNTS = [1, 3, 1, 2, 1, 1, 4, 1, 2]
EVERY = [
    *(pytest.param(make, "book-keeping", id=make.__name__) for make in zoo.BOOKKEEPING),
    *(pytest.param(make, "torch.func", id=make.__name__) for make in zoo.RECORD_BY_RECORD),
]


def median_norm(case: Case) -> float:
    """A bound that about half of the records exceed."""
    sums = partial(clipped_sum_one_by_one, clip=1e9)
    model, loss, inputs, target = case
    norms = []
    for i in range(len(target)):
        one = model, loss, tuple(x[i : i + 1] for x in inputs), target[i : i + 1]
        norms.append(float(torch.cat([g.flatten() for g in sums(one, [1])]).norm()))
    return sorted(norms)[len(norms) // 2] * 1.0001


@pytest.mark.filterwarnings("ignore:Using padding=.same:UserWarning")
@pytest.mark.filterwarnings("ignore:LSTM with projections:UserWarning")
@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize(("make", "way"), EVERY)
def test_as_if_one_record_at_a_time(make: Callable[[], Case], way: str, seed: int) -> None:
    torch.manual_seed(seed)
    case = make()
    clip = median_norm(case)
    found = clipper(case)
    assert found.way.name == way, found.way.reason
    for given in (clip, 1e6):
        inner = bound(given).inner
        assert 0.998 * given < inner < given
        expected = clipped_sum_one_by_one(case, COUNTS, inner)
        for rows in (9, 4):
            assert relative_gap(clipped_sum(found, case, COUNTS, rows, given), expected) < 1e-5
