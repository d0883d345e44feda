"""What a trainer refuses, with the reason, before anything is released."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

import mustdp as md
from mustdp.errors import (
    InvalidParameter,
    NotCovered,
    NumericalFailure,
)
from tests.training.networks import runs

nn = torch.nn


def images() -> tuple[Any, Any]:
    return torch.randn(60, 2, 6, 6), runs.data()[1]


def behind(layer: Any) -> Any:
    """A network with this layer in the middle, for images."""
    return nn.Sequential(nn.Conv2d(2, 4, 3), layer, nn.ReLU(), nn.Flatten(), nn.Linear(4 * 16, 3))


class Centred(nn.Module):  # type: ignore[misc, name-defined, unused-ignore]
    """Mixes records without being a layer that is known for it."""

    def forward(self, x: Any) -> Any:
        return x - x.mean(0)


class Paired(nn.Module):  # type: ignore[misc, name-defined, unused-ignore]
    """Mixes each record with its neighbour only."""

    def forward(self, x: Any) -> Any:
        even = len(x) // 2 * 2
        swapped = x[:even].unflatten(0, (-1, 2)).flip(1).flatten(0, 1)
        return x + torch.cat([swapped, x[even:]])


class Counting(nn.Module):  # type: ignore[misc, name-defined, unused-ignore]
    """Remembers something of the records."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("total", torch.zeros(()))

    def forward(self, x: Any) -> Any:
        self.total += x.detach().sum()
        return x


@pytest.mark.parametrize(
    ("layer", "reason"),
    [
        (nn.BatchNorm2d(4), "mixes the records"),
        (nn.BatchNorm2d(4, affine=False), "mixes the records"),
        (nn.BatchNorm2d(4, track_running_stats=False).eval(), "mixes the records"),
        (nn.SyncBatchNorm(4), "mixes the records"),
        (nn.InstanceNorm2d(4, track_running_stats=True), "remembers statistics"),
        (Centred(), "depends on other records"),
        (Paired(), "depends on other records"),
        (Counting(), "changes the buffer 1.total"),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_models_that_mix_or_remember_records(layer: Any, reason: str) -> None:
    with pytest.raises(NotCovered, match=reason):
        runs.trainer(behind(layer), data=images())


def test_a_refused_model_is_left_as_it_was() -> None:
    layer = Counting()
    with pytest.raises(NotCovered):
        runs.trainer(behind(layer), data=images())
    assert float(layer.total) == 0.0


def test_a_layer_that_is_switched_to_mixing_between_two_steps() -> None:
    network = behind(nn.BatchNorm2d(4))
    network[1].eval()
    run = runs.trainer(network, data=images(), callbacks=[lambda event: network.train()])
    with pytest.raises(NotCovered, match="mixes the records"):
        run.train()
    assert run.steps == 1


def test_parameters_that_are_frozen_or_unfrozen_between_two_steps() -> None:
    for frozen in (True, False):
        network = runs.model()
        network[0].requires_grad_(frozen)

        def switch(event: Any) -> None:
            event.model[0].requires_grad_(not frozen)  # noqa: B023

        run = runs.trainer(network, callbacks=[switch])
        with pytest.raises(InvalidParameter, match="must stay the same"):
            run.train()
        assert run.steps == 1


def test_tables_that_change_themselves() -> None:
    words = torch.randint(5, (60, 3)), runs.data()[1]
    for option, reason in (
        ({"max_norm": 1.0}, "max_norm"),
        ({"scale_grad_by_freq": True}, "mixes"),
    ):
        table = nn.Embedding(5, 2, **option)
        with pytest.raises(NotCovered, match=reason):
            runs.trainer(nn.Sequential(table, nn.Flatten(), nn.Linear(6, 3)), data=words)


def test_packed_sequences_get_a_clear_answer() -> None:
    class Packing(nn.Module):  # type: ignore[misc, name-defined, unused-ignore]
        def __init__(self) -> None:
            super().__init__()
            self.cells, self.out = nn.GRU(2, 4, batch_first=True), nn.Linear(4, 3)

        def forward(self, x: Any) -> Any:
            lengths = torch.full((len(x),), 3)
            packed = nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True)
            return self.out(self.cells(packed)[1][0])

    data = runs.data()[0].reshape(-1, 3, 2), runs.data()[1]
    with pytest.raises(NotCovered, match=r"packed sequences.*pad the sequences.*mask the loss"):
        runs.trainer(Packing(), data=data)


def test_recurrent_layers_are_themselves_again_after_a_run() -> None:
    class Recurrent(nn.Module):  # type: ignore[misc, name-defined, unused-ignore]
        def __init__(self) -> None:
            super().__init__()
            self.cells, self.out = nn.GRU(2, 4, batch_first=True), nn.Linear(4, 3)

        def forward(self, x: Any) -> Any:
            return self.out(self.cells(x)[0][:, -1])

    model = Recurrent()
    trainer = runs.trainer(model, data=(runs.data()[0].reshape(-1, 3, 2), runs.data()[1]))
    trainer.train(2)
    assert trainer.method.startswith("book-keeping")
    assert "forward" not in vars(model.cells)


def test_batch_normalisation_is_replaced() -> None:
    layers = nn.Conv2d(2, 6, 3), nn.BatchNorm2d(6), nn.ReLU(), nn.Flatten(), nn.Linear(96, 3)
    model = nn.Sequential(*layers[:2], nn.Sequential(nn.BatchNorm2d(6, affine=False)), *layers[2:])
    nn.init.normal_(layers[1].weight)
    with pytest.raises(NotCovered, match="BatchNorm"):
        runs.trainer(model, data=images())
    changed = md.training.replace_batchnorm(model, groups=4)
    norms = [m for m in changed.modules() if isinstance(m, nn.GroupNorm)]
    assert [(m.num_groups, m.num_channels, m.affine) for m in norms] == [
        (2, 6, True),
        (2, 6, False),
    ]
    assert torch.equal(norms[0].weight, layers[1].weight)
    assert norms[0].weight is not layers[1].weight
    assert isinstance(model[1], nn.BatchNorm2d)
    runs.trainer(changed, data=images()).train(1)
    assert isinstance(md.training.replace_batchnorm(nn.BatchNorm1d(5)), nn.GroupNorm)


def test_a_model_that_cannot_be_run_record_by_record() -> None:
    class Branching(nn.Module):  # type: ignore[misc, name-defined, unused-ignore]
        def __init__(self) -> None:
            super().__init__()
            self.scale, self.inner = nn.Parameter(torch.ones(3)), nn.Linear(6, 3)

        def forward(self, x: Any) -> Any:
            return self.inner(x) * (self.scale if float(x.sum()) > 0 else 1.0)

    with pytest.raises(NotCovered, match=r"one record at a time.*the model itself owns"):
        runs.trainer(Branching())


class _Inside(nn.Module):  # type: ignore[misc, name-defined, unused-ignore]
    """Applies what is not possible for one record at a time."""

    def __init__(self, what: Any) -> None:
        super().__init__()
        self.inner, self.what = nn.Linear(6, 3), what

    def forward(self, x: Any) -> Any:
        return self.inner(self.what(x))


def _decides(x: Any) -> Any:
    if x.sum() > 0:
        x = x * 2
    return x


@pytest.mark.parametrize(
    ("what", "instead"),
    [
        (_decides, r"decides by the values of a record.*torch\.where"),
        (
            lambda x: x * (1.0 + 0.0 * x.detach().sum().item()),
            r"reads a number off a tensor.*keep it a tensor",
        ),
        (lambda x: x * (1.0 + 0.0 * x[x > 0].sum()), r"shape of a result.*multiply by the mask"),
    ],
    ids=["if", "item", "mask"],
)
def test_what_cannot_be_run_is_named_with_what_to_write_instead(what: Any, instead: str) -> None:
    line = what.__code__.co_firstlineno + (what is _decides)
    place = rf"layer 1 \(_Inside\), line {line} of test_refusals\.py"
    with pytest.raises(NotCovered, match=f"{instead}.*{place}"):
        runs.trainer(nn.Sequential(nn.Linear(6, 6), _Inside(what)))


def test_the_layer_that_fails_is_named() -> None:
    wrong = nn.Sequential(nn.Linear(6, 4), nn.ReLU(), nn.Linear(5, 3))
    with pytest.raises(InvalidParameter, match=r"a RuntimeError, in layer 2 \(Linear\)$"):
        runs.trainer(wrong)

    def loss(outputs: Any, target: Any) -> Any:
        return outputs @ torch.ones(7)

    line = loss.__code__.co_firstlineno + 1
    with pytest.raises(InvalidParameter, match=rf"RuntimeError, line {line} of test_refusals\.py"):
        runs.trainer(loss=loss)


def test_models_that_say_that_they_throw_activations_away() -> None:
    """As those of transformers do; their hooks around a pass fail without naming it."""
    model = runs.model()
    vars(model[0])["gradient_checkpointing"] = True
    with pytest.raises(NotCovered, match=r"gradient_checkpointing_disable\(\)"):
        runs.trainer(model)


GOOD, LABELS = runs.data()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_grad_norm": 0.0}, "max_grad_norm must be"),
        ({"max_grad_norm": float("nan")}, "max_grad_norm must be"),
        ({"compute": md.types.Compute(device="nowhere")}, "device must be"),
        ({"budget": 3}, "budget must be"),
        ({"budget": runs.budget(scheme=md.poisson(60, 0.0))}, "expected size"),
        ({"budget": runs.budget(scheme=md.wor(61, 5))}, "n = 61 records"),
        ({"data": (GOOD, LABELS[:-1])}, "same length"),
        ({"data": (GOOD,)}, "at least two tensors"),
        ({"data": (GOOD.clone().fill_(float("nan")), LABELS)}, "NaN or infinity"),
        ({"data": (GOOD, LABELS + 1)}, "targets must be from 0 to 2"),
        ({"data": (GOOD, LABELS - 1)}, "targets must be from 0 to 2"),
        ({"data": (GOOD[:, :5], LABELS)}, "fail on the first records"),
        ({"data": (GOOD.double(), LABELS)}, "fail on the first records"),
        ({"data": 5}, "data must be"),
        ({"data": [(GOOD[0] * float("inf"), 1)] * 60}, "loss must be finite"),
        ({"data": [{"x": 1}] * 60}, "must be a tuple"),
        ({"loss": nn.CrossEntropyLoss()}, "reduction='none'"),
        ({"loss": lambda outputs, target: outputs}, "one value per record"),
        ({"seed": -1}, "seed must be"),
        ({"optimizer": 3}, "optimizer must be"),
        ({"optimizer": torch.optim.SGD(nn.Linear(2, 2).parameters())}, "of the model only"),
    ],
    ids=lambda value: value if isinstance(value, str) else ",".join(value),
)
def test_bad_input(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidParameter, match=message):
        runs.trainer(**options)


def test_optimisers_that_do_not_fit() -> None:
    network = runs.model()
    with pytest.raises(InvalidParameter, match=r"0\.bias is missing"):
        runs.trainer(network, optimizer=torch.optim.SGD([network[0].weight, network[3].weight]))
    with pytest.raises(NotCovered, match="several gradients"):
        runs.trainer(network, optimizer=torch.optim.LBFGS(network.parameters()))
    network.requires_grad_(False)
    with pytest.raises(InvalidParameter, match="all of them are frozen"):
        runs.trainer(network, optimizer=torch.optim.SGD(network.parameters()))
    lazy = nn.Sequential(nn.LazyLinear(3))
    with pytest.raises(InvalidParameter, match="no shape yet"):
        runs.trainer(lazy, optimizer=torch.optim.SGD([torch.zeros(1, requires_grad=True)]))


def test_a_gradient_that_is_not_finite_ends_the_run_uncharged() -> None:
    inputs, target = runs.data()
    many = [(inputs[i] if i else inputs[i] * float("inf"), int(target[i])) for i in range(60)]
    reordered = [many[-1], *many[1:-1], many[0]]  # out of sight of the trial
    run = runs.trainer(data=reordered, budget=runs.budget(scheme=md.wor(60, 59)), seed=1)
    before = runs.weights(run.model).clone()
    with pytest.raises(NumericalFailure, match="not finite"):
        run.train()
    if run.steps == 0:
        assert torch.equal(before, runs.weights(run.model))
    assert run.steps < 6


def test_the_place_where_records_mix_is_named() -> None:
    class Centred(nn.Module):  # type: ignore[misc, name-defined, unused-ignore]
        def __init__(self, first: bool) -> None:
            super().__init__()
            self.one, self.two, self.first = nn.Linear(6, 4), nn.Linear(4, 3), first

        def forward(self, x: Any) -> Any:
            hidden = self.one(x)
            if self.first:
                return self.two(hidden - hidden.mean(0))
            found = self.two(hidden)
            return found - found.mean(0)

    with pytest.raises(NotCovered, match=r"no operation may mix records; .* before layer two"):
        runs.trainer(Centred(first=True))
    with pytest.raises(NotCovered, match=r"they mix after the last layer, or in the loss"):
        runs.trainer(Centred(first=False))
