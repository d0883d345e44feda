"""Attacks that once moved the sum further than the certificate allows, one test for each."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import mustdp as md
from mustdp.errors import (
    InvalidParameter,
    NotCovered,
)
from mustdp.training.networks.clipping import (
    Bound,
    Clipper,
    Piece,
    Trial,
    Workload,
    bound_for,
)
from mustdp.training.networks.loaders import (
    Rows,
    TrainingRecords,
)
from mustdp.training.networks.noise import on_lattice
from mustdp.training.networks.separation import check_scaling
from tests.training.networks import runs

nn = torch.nn


def chosen_errors(outputs: Any, target: Any) -> Any:
    """A loss whose gradient with respect to the outputs is the target."""
    return (outputs * target).flatten(1).sum(1)


def clipper(layer: Any, inputs: Any, errors: Any) -> Clipper:
    """Decided on records of the same shapes that show nothing of the attack."""
    generator = torch.Generator().manual_seed(3)
    trials = []
    for size in (5, 7):
        shapes = (size, *inputs.shape[1:]), (size, *errors.shape[1:])
        a, d = (torch.randn(shape, generator=generator) for shape in shapes)
        trials.append(Trial(*[Rows((a,), d)] * 2))
    found = Clipper(layer, chosen_errors, trials, nullcontext)
    assert found.way.name == "book-keeping"
    return found


def longest(layer: Any, inputs: Any, errors: Any, clip: float) -> float:
    """Norm of the clipped sum over one record."""
    found = clipper(layer, inputs, errors)
    bound = bound_for(clip, clip, Workload(1, 4, 1, 10**6))
    sums = found.sum([(Rows((inputs,), errors), torch.ones(1))], nullcontext(), bound).gradients
    return math.sqrt(math.fsum(float(g.double().square().sum()) for g in sums))


@pytest.mark.parametrize(
    ("p", "q", "start", "apart"),
    [(512, 512, 0.7, 2.0**-9), (4096, 256, 0.1, 2.0**-8), (65536, 32, 0.1, 2.0**-8)],
)
def test_two_places_that_nearly_cancel(p: int, q: int, start: float, apart: float) -> None:
    """In float32 these contributed 1.01, 1.26 and 3.99."""
    a = torch.full((1, 2, p), start)
    a[:, 1] = a[:, 0] * (1 + apart)
    d = torch.randn(1, 2, q, generator=torch.Generator().manual_seed(p))
    d[:, 1] = -d[:, 0]
    d *= 2.0**11
    layer = nn.Linear(p, q, bias=False)
    assert 0.998 < longest(layer, a, d, 1.0) <= 1.0
    # Terms that are 4096 times as long as their sum; from 1024 on the weight is reduced.
    a[:, 1] = a[:, 0] * (1 + 2.0**-11)
    assert 0.24 < longest(layer, a, d, 1.0) <= 0.26


@pytest.mark.parametrize("clip", [1e-30, 1e-20, 1e-6, 1e20, 1e30])
def test_extreme_clips(clip: float) -> None:
    """In float32 a record of size 1e-12 times 1e-12 had norm zero and contributed 5e-24."""
    generator = torch.Generator().manual_seed(1)
    inputs, errors = (torch.randn(1, 1, 8, generator=generator) for _ in range(2))
    for size in (1e-20, 1e-12, 1.0, 1e12):
        for bias in (True, False):
            layer = nn.Linear(8, 8, bias=bias)
            assert longest(layer, inputs * size, errors * size, clip) <= clip


def test_clips_beyond_the_arithmetic_are_refused() -> None:
    for clip in (1e-31, 1e31, math.inf):
        with pytest.raises(InvalidParameter, match="max_grad_norm must be"):
            runs.trainer(max_grad_norm=clip)


def swap_moves(n: int, seed: int) -> tuple[float, Bound]:
    """How far the sum moves if the first of n records is replaced by its opposite."""
    found = clipper(nn.Linear(1, 1, bias=False), torch.ones(8, 1), torch.ones(8, 1))
    rows = 1 << 13
    bound = bound_for(1.0, 1.0, Workload(n, rows, -(-n // rows), 1))
    usual = torch.rand(n, 1, generator=torch.Generator().manual_seed(seed)) * 0.5 + 0.6
    sums = []
    for first in (3.0, -3.0):
        errors = usual.clone()
        errors[0] = first
        records = TrainingRecords((torch.ones(n, 1), errors), torch.device("cpu"))

        def pieces(records: TrainingRecords = records) -> Iterator[Piece]:
            for start in range(0, n, rows):
                part = np.arange(start, min(n, start + rows))
                yield records.take(part), torch.ones(len(part))

        gradients = found.sum(pieces(), nullcontext(), bound).gradients
        sums.append(int(on_lattice(gradients, bound.step)))
    return (sums[0] - sums[1]) * bound.step, bound


def test_swapping_one_of_a_million_records() -> None:
    """In float32 the sum moved by 2.0625."""
    moved, bound = swap_moves(10**6, 4)
    assert moved <= 2.0
    assert moved > 1.9
    assert bound.error < 0.005


def test_too_many_records_for_the_arithmetic_are_refused() -> None:
    with pytest.raises(InvalidParameter, match="smaller batches"):
        bound_for(1.0, 1.0, Workload(1 << 45, 1 << 13, 1 << 32, 10**6))


class Sorting(nn.Module):  # type: ignore[misc, name-defined, unused-ignore]
    """Sorts its batch by the first column, works on it, and puts it back in order."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3))

    def forward(self, x: Any) -> Any:
        order = x[:, 0].argsort()
        return self.inner(x[order])[order.argsort()]


def test_a_model_that_sorts_its_batch_is_worked_on_record_by_record() -> None:
    inputs, target = runs.data()
    inputs = inputs[inputs[:, 0].argsort()]  # in order, as the first records once had to be
    run: Any = runs.trainer(Sorting(), data=(inputs, target))
    assert run.method.startswith("torch.func")
    assert "another order" in run.method
    run.train(2)


class Packing(Sorting):
    """The same, as it is done for sequences: torch.func cannot run it."""

    def forward(self, x: Any) -> Any:
        order = torch.tensor(sorted(range(len(x)), key=lambda i: float(x[i, 0])))
        return self.inner(x[order])[order.argsort()]


def test_a_model_that_sorts_and_cannot_be_run_alone_is_refused() -> None:
    with pytest.raises(NotCovered, match="one record at a time"):
        runs.trainer(Packing())


class Sometimes(nn.Module):  # type: ignore[misc, name-defined, unused-ignore]
    """Turns its batch round in the middle of the model, but only where a record has a mark."""

    def forward(self, x: Any) -> Any:
        return x.flip(0) if bool((x.detach()[:, :1] > 1e3).any()) else x


def test_records_that_mix_only_now_and_then_are_found_in_training(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Were such a module taken for one that keeps records apart, the batch itself would tell."""
    monkeypatch.setattr("mustdp.training.networks.bookkeeping.keeps_apart", lambda *_: True)
    inputs, target = runs.data()
    network = nn.Sequential(nn.Linear(6, 6), Sometimes(), nn.Linear(6, 3))
    with torch.no_grad():
        network[0].weight.copy_(torch.eye(6))
    run = runs.trainer(network, data=(inputs, target), budget=runs.budget(scheme=md.wor(60, 60)))
    run.train(1)
    inputs[17, 0] = 1e4  # after the trials, as another record of another data set might be
    with pytest.raises(NotCovered, match="depends on other records"):
        run.train(1)
    assert run.steps == 1


class Hidden(nn.Module):  # type: ignore[misc, name-defined, unused-ignore]
    """Mixes records where no gradient sees it."""

    def forward(self, x: Any) -> Any:
        return x - x.mean(0).detach()


def test_mixing_that_gradients_do_not_see() -> None:
    with pytest.raises(NotCovered, match="depends on other records"):
        runs.trainer(nn.Sequential(nn.Linear(6, 8), Hidden(), nn.Linear(8, 3)))


class TimeFirst(nn.Module):  # type: ignore[misc, name-defined, unused-ignore]
    """Turns (records, places, p) round: the first dimension counts places."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(6, 3)

    def forward(self, x: Any) -> Any:
        return self.inner(x.transpose(0, 1)).mean(0)


@pytest.mark.parametrize("places", [4, 5, 7, 35])
def test_places_as_many_as_the_trial_has_records(places: int) -> None:
    data = torch.randn(60, places, 6), runs.data()[1]
    run = runs.trainer(TimeFirst(), data=data)
    assert run.method.startswith("torch.func")
    run.train(1)


class _Flushing(torch.autograd.Function):  # type: ignore[misc, name-defined, unused-ignore]
    """Hands errors back as a processor does that takes numbers near the end of float32 for zero."""

    @staticmethod
    def forward(ctx: Any, values: Any) -> Any:
        return values.clone()

    @staticmethod
    def backward(ctx: Any, *errors: Any) -> Any:
        (given,) = errors
        return given.where(given.abs() >= 2.0**-125, 0.0)


def test_a_processor_that_flushes_tiny_errors_mixes_nothing() -> None:
    """Scaled by eight an error may be kept that alone was taken for zero."""
    scales = torch.tensor([1.0, 8.0, 4.0])

    def check(size: float, mixed: float = 0.0) -> None:
        outputs = torch.ones(3, 2, requires_grad=True) * 1.0
        edge = torch.autograd.graph.get_gradient_edge(outputs)
        losses = (_Flushing.apply(outputs) * size).sum(1)
        check_scaling(losses + mixed * losses.detach() * losses.sum(), [edge], scales)

    check(2.0**-126)
    check(1.0)
    with pytest.raises(md.NotCovered, match="depends on other records"):
        check(1.0, mixed=0.1)
