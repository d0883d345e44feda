"""Clipped sums equal the definition, record by record, for every kind of layer."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest

torch = pytest.importorskip("torch")

from mustdp.randomness.keys import batch_key
from mustdp.training.networks.loaders import Rows
from mustdp.training.networks.trainer import Masks
from tests.training.networks import zoo
from tests.training.networks.brute_force import (
    Case,
    bound,
    clipped_sum,
    clipped_sum_one_by_one,
    clipper,
    gap_after_training,
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


@pytest.mark.parametrize(
    "make",
    [
        zoo.perceptron,
        zoo.convolution_few_places,
        zoo.residual_network,
        zoo.lstm,
        zoo.transformer_encoder,
        zoo.tied_by_hand,
    ],
)
def test_steps_as_if_one_record_at_a_time(make: Callable[[], Case]) -> None:
    torch.manual_seed(4)
    gap, method = gap_after_training(make())
    assert gap < 0.03
    assert method.startswith("torch.func" if make is zoo.tied_by_hand else "book-keeping")


@pytest.mark.filterwarnings("ignore:Using padding=.same:UserWarning")
@pytest.mark.filterwarnings("ignore:LSTM with projections:UserWarning")
@pytest.mark.parametrize(("make", "way"), EVERY)
def test_slots_of_a_unit_are_added_up_before_they_are_clipped(
    make: Callable[[], Case], way: str
) -> None:
    """Four users with two records each, of which the second counts by half."""
    torch.manual_seed(3)
    case = make()
    model, loss, inputs, target = case
    clip, counts = median_norm(case), [1, 2, 1, 3]
    parameters = [p for p in model.parameters() if p.requires_grad]
    expected = [torch.zeros_like(p, dtype=torch.float64) for p in parameters]
    for user, count in enumerate(counts):
        total = 0.0
        for slot, share in ((2 * user, 1.0), (2 * user + 1, 0.5)):
            one = slice(slot, slot + 1)
            total = total + share * loss(model(*(x[one] for x in inputs)), target[one]).sum()
        found = torch.autograd.grad(total, parameters, allow_unused=True)
        whole = [
            torch.zeros_like(p) if g is None else g for p, g in zip(parameters, found, strict=True)
        ]
        norm = float(torch.cat([g.double().flatten() for g in whole]).norm())
        for sums, g in zip(expected, whole, strict=True):
            sums += count * min(1.0, bound(clip).inner / max(norm, 1e-300)) * g.double()
    slots = [torch.unflatten(x[:8], 0, (4, 2)) for x in (*inputs, target)]
    rows = Rows(tuple(slots[:-1]), slots[-1], weights=torch.tensor([[1.0, 0.5]] * 4))
    pieces = [(rows, torch.tensor(counts, dtype=torch.float64))]
    masks = Masks(batch_key(1), torch.device("cpu"))
    ours = clipper(case).sum(pieces, masks(0), bound(clip)).gradients
    # Norms of what is written out are bounded from above in float32, by up to 1e-4 for long rows.
    assert relative_gap(ours, expected) < 1e-4
