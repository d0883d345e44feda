"""Every place of a piece gives a record the same contribution, to the last bit."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from mustdp.errors import NotCovered
from mustdp.randomness.keys import batch_key
from mustdp.training.networks.clipping import (
    Places,
    smaller,
)
from mustdp.training.networks.devices import aligned
from mustdp.training.networks.loaders import Rows
from mustdp.training.networks.trainer import Masks
from tests.training.networks import runs, zoo
from tests.training.networks.brute_force import Case, clipper

nn = torch.nn
CPU = torch.device("cpu")
ATTENTION = (
    zoo.attention,
    zoo.transformer_encoder,
    zoo.encoder_and_decoder,
    zoo.encoder_and_decoder_places_first,
    zoo.attention_weights,
    zoo.attention_weights_of_a_head,
    zoo.attention_with_a_further_key,
    zoo.attention_across_records,
)


def results(found: Any, rows: Rows) -> list[Any]:
    with found.way.alike(), Masks(batch_key(1), CPU)(0), torch.enable_grad():
        return list(found.results(rows))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("make", [*zoo.BOOKKEEPING, *zoo.RECORD_BY_RECORD])
def test_results_do_not_depend_on_the_place(make: Callable[[], Case]) -> None:
    torch.manual_seed(0)
    model, _, inputs, target = case = make()
    found = clipper(case)
    masks = Masks(batch_key(1), CPU)
    rows = Places(found, model, lambda: masks(0)).find_rows(Rows(inputs, target), 64)
    # Attention over five places of six numbers falls back to one record at a time on some CPUs.
    if rows == 1 and make in ATTENTION:
        return
    assert rows == 64
    which = torch.randint(9, (64,), generator=torch.Generator().manual_seed(2))
    one = results(found, Rows(tuple(x[which] for x in inputs), target[which]))
    order = torch.randperm(64, generator=torch.Generator().manual_seed(3))
    two = results(found, Rows(tuple(x[which[order]] for x in inputs), target[which[order]]))
    for values, others in zip(one, two, strict=True):
        assert torch.equal(values[order], others)


def test_smaller_pieces_down_to_one_record() -> None:
    assert [*itertools.accumulate(range(8), lambda rows, _: smaller(rows), initial=200)] == [
        200, 192, 96, 32, 16, 8, 4, 2, 1,
    ]  # fmt: skip
    assert smaller(7) == 4


class Uneven(nn.Module):  # type: ignore[misc, name-defined, unused-ignore]
    """Gives rows from the fifth place on another last bit, as another kernel would."""

    def __init__(self, way: Any) -> None:
        self.way, self.seen = way, list[int]()

    def results(self, rows: Rows) -> list[Any]:
        found = torch.ones(len(rows.target))
        found[4:] += 2.0**-20
        self.seen.append(len(found))
        return [found]


def test_the_largest_pieces_that_agree_are_taken() -> None:
    case = zoo.perceptron()
    uneven: Any = Uneven(clipper(case).way)
    masks = Masks(batch_key(1), CPU)
    places = Places(uneven, case[0], lambda: masks(0))
    assert places.find_rows(Rows(*case[2:]), 64) == 4
    assert set(uneven.seen) == {64, 32, 16, 8, 4}


class Drawing(nn.Module):  # type: ignore[misc, name-defined, unused-ignore]
    """Scales by a number that is another one at every call, for all records alike."""

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.calls = nn.Linear(6, 3), 0

    def forward(self, x: Any) -> Any:
        self.calls += 1
        return self.inner(x) * (1.0 + 2.0**-20 * self.calls)


def test_a_model_that_never_gives_the_same_is_refused() -> None:
    with pytest.raises(NotCovered, match="place in the batch, or are not the same"):
        runs.trainer(Drawing())


def test_the_trial_leaves_no_trace() -> None:
    network = runs.model()
    before, state = runs.weights(network).clone(), torch.get_rng_state()
    runs.trainer(network)
    assert torch.equal(runs.weights(network), before)
    assert torch.equal(torch.get_rng_state(), state)
    assert network[2].training


def test_other_threads_and_shapes_are_tried_before_they_are_used() -> None:
    run: Any = runs.trainer(data=(runs.data()[0], runs.data()[1]))
    run.train(3)
    tried = len(run._places._tried)
    before = torch.get_num_threads()
    torch.set_num_threads(before + 1)
    try:
        run.train(1)
    finally:
        torch.set_num_threads(before)
    assert len(run._places._tried) == tried + 1


def test_what_is_found_in_training_ends_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    run: Any = runs.trainer()
    monkeypatch.setattr(run._places, "_agree", lambda *_: False)
    with pytest.raises(NotCovered, match="place in the batch"):
        run.train(1)
    assert run.steps == 0


@pytest.mark.parametrize(("inputs", "outputs"), [(6, 3), (8, 3), (5, 8), (16, 8)])
@pytest.mark.parametrize("bias", [True, False])
def test_aligned_layers_compute_the_same(inputs: int, outputs: int, bias: bool) -> None:
    torch.manual_seed(1)
    layer, x = nn.Linear(inputs, outputs, bias=bias), torch.randn(4, 2, inputs, requires_grad=True)
    found = aligned(CPU, lambda: layer(x))
    assert found.is_contiguous()
    torch.testing.assert_close(found, layer(x))
    errors = torch.randn(found.shape)
    wanted = [x, *layer.parameters()]
    pairs = [torch.autograd.grad(y, wanted, errors) for y in (found, layer(x))]
    torch.testing.assert_close(*pairs)


class Product(nn.Linear):  # type: ignore[misc, name-defined, unused-ignore]
    """A product that is not run with other sizes: on a CPU its rows differ."""

    def forward(self, x: Any) -> Any:
        return x.mm(self.weight.T)


def test_a_loss_that_hides_the_last_bits_hides_nothing_from_the_trial() -> None:
    torch.manual_seed(3)
    model = Product(17, 5, bias=False)
    inputs, target = torch.rand(9, 17), torch.full((9,), -1e9)
    found = clipper((model, lambda y, t: (y[:, 0] - t).abs(), (inputs,), target))
    masks = Masks(batch_key(1), CPU)
    places = Places(found, model, lambda: masks(0))
    both = Rows((inputs[:2],), target[:2])
    assert places._agree(both, 64)
    rows = torch.zeros(64, 17) + inputs[0]
    same = bool((model(rows) == model(rows)[:1]).all())
    assert (places.find_rows(Rows((inputs,), target), 64) == 64) is same
