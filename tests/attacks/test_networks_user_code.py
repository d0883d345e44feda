"""Code of the user's that writes to what it is given, keeps what it has seen, or sees too much."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import mustdp as md
from tests.seams import keeps_apart
from tests.training.networks import runs

nn = torch.nn
SEVERAL = torch.nn.functional.one_hot(runs.data()[1], 3).float()


def plain(outputs: Any, target: Any) -> Any:
    return (outputs - 0.5 * target).square().sum(1)


def writing(outputs: Any, target: Any) -> Any:
    """The same, but it writes into both of its arguments."""
    target.mul_(0.5)
    outputs.sub_(target)
    return outputs.square().sum(1)


class Overwriting(nn.Sequential):  # type: ignore[misc, name-defined, unused-ignore]
    """Writes into its input."""

    def forward(self, x: Any) -> Any:
        x.mul_(2.0)
        return super().forward(x)


def trained(loss: Any, network: Any, data: Any) -> Any:
    run = runs.trainer(network, loss=loss, data=data, seed=3)
    run.train()
    return runs.weights(network)


def test_a_loss_that_writes_into_its_arguments() -> None:
    data = runs.data()[0], SEVERAL.clone()
    expected = trained(plain, runs.model(), data)
    found = trained(writing, runs.model(), data)
    torch.testing.assert_close(found, expected)
    assert torch.equal(data[1], SEVERAL)


def test_a_model_that_writes_into_its_input() -> None:
    inputs, target = runs.data()
    expected = trained(runs.LOSS, nn.Sequential(*runs.model()), (2.0 * inputs, target))
    given = inputs.clone()
    found = trained(runs.LOSS, Overwriting(*runs.model()), (given, target))
    torch.testing.assert_close(found, expected)
    assert torch.equal(given, inputs)


class Stored(torch.utils.data.Dataset):  # type: ignore[misc, name-defined, unused-ignore]
    """Hands out its own storage."""

    def __init__(self) -> None:
        inputs, target = runs.data()
        self.inputs, self.target = inputs.clone(), target

    def __len__(self) -> int:
        return len(self.target)

    def __getitem__(self, number: int) -> Any:
        return self.inputs[number], self.target[number]


def overwriting_collate(records: list[Any]) -> Any:
    [(x, y)] = records
    x.add_(1.0)
    return x[None], y[None]


def viewing_collate(records: list[Any]) -> Any:
    [(x, y)] = records
    return x[None], y[None]


@pytest.mark.parametrize("collate", [overwriting_collate, viewing_collate])
@pytest.mark.parametrize("size", [1, 20])
def test_neither_a_collate_function_nor_a_model_writes_into_the_dataset(
    collate: Any, size: int
) -> None:
    data = Stored()
    loader = torch.utils.data.DataLoader(data, batch_size=20, shuffle=True, collate_fn=collate)
    budget = runs.budget(steps=2, scheme=md.wor(runs.N, size))
    run = runs.trainer(Overwriting(*runs.model()), data=loader, budget=budget)
    run.train()
    assert torch.equal(data.inputs, runs.data()[0])


def test_a_callback_cannot_change_what_the_next_one_is_told() -> None:
    seen: list[bool] = []

    def forge(event: Any) -> None:
        event.seeded = False

    run = runs.trainer(seed=3, callbacks=[forge, lambda event: seen.append(event.seeded)])
    with pytest.raises(AttributeError):
        run.train(1)
    assert seen == []


def test_a_trainer_cannot_be_given_a_larger_budget() -> None:
    run: Any = runs.trainer(budget=runs.budget(steps=2))
    for name, value in (("budget", runs.budget(steps=100)), ("model", nn.Linear(6, 3))):
        with pytest.raises(AttributeError):
            setattr(run, name, value)


def mixing_hook(_: Any, __: Any, output: Any) -> Any:
    return output - output.mean(0).detach()


def replace_a_layer(network: Any) -> None:
    network[1] = nn.Tanh()


@pytest.mark.parametrize(
    "change",
    [
        replace_a_layer,
        lambda network: network[0].register_forward_hook(mixing_hook),
        lambda network: setattr(network[1], "forward", lambda x: x - x.mean(0)),
        lambda network: network[0].register_parameter("weight", nn.Parameter(torch.ones(8, 6))),
    ],
)
def test_a_callback_that_changes_the_model_ends_the_run(change: Any) -> None:
    network = runs.model()
    run = runs.trainer(network, callbacks=[lambda _: change(network)])
    with pytest.raises(md.InvalidParameter, match="must stay the same during a run"):
        run.train(2)
    assert run.steps == 1


class Remembering(nn.Module):  # type: ignore[misc, name-defined, unused-ignore]
    """Keeps what it has seen, in an attribute or a list."""

    def __init__(self, listed: bool) -> None:
        super().__init__()
        self.inner, self.seen, self.last, self.listed = nn.Linear(6, 3), list[Any](), None, listed

    def forward(self, x: Any) -> Any:
        found = self.inner(x)
        if self.listed:
            self.seen.append(found)
        else:
            self.last = found
        return found


@pytest.mark.parametrize("listed", [True, False])
def test_a_model_that_keeps_what_it_has_seen_is_refused(listed: bool) -> None:
    network = Remembering(listed)
    with pytest.raises(md.NotCovered, match="forward pass changes the attribute"):
        runs.trainer(network)
    assert network.last is None


class RememberingLoss:
    """A loss that keeps the largest target."""

    def __init__(self) -> None:
        self.largest = torch.tensor(0.0)

    def __call__(self, outputs: Any, target: Any) -> Any:
        self.largest = torch.maximum(self.largest, target.amax(1))
        return (outputs - target).square().sum(1)


def test_a_loss_that_keeps_what_it_has_seen_is_refused() -> None:
    with pytest.raises(md.NotCovered, match=r"attribute loss\.largest"):
        runs.trainer(loss=RememberingLoss(), data=(runs.data()[0], SEVERAL))
    largest = torch.tensor(0.0)

    def closure(outputs: Any, target: Any) -> Any:
        nonlocal largest
        largest = torch.maximum(largest, target.amax(1))
        return (outputs - target).square().sum(1)

    with pytest.raises(md.NotCovered, match=r"attribute loss\.closure"):
        runs.trainer(loss=closure, data=(runs.data()[0], SEVERAL))


def everywhere() -> Any:
    def hook(module: Any, _: Any, output: Any) -> Any:
        if isinstance(module, nn.ReLU) and output.ndim == 2:
            return output - output.mean(0).detach()
        return None

    return torch.nn.modules.module.register_module_forward_hook(hook)


def before_everywhere() -> Any:
    def hook(module: Any, given: Any) -> Any:
        return (given[0] - given[0].mean(0).detach(),) if isinstance(module, nn.ReLU) else None

    return torch.nn.modules.module.register_module_forward_pre_hook(hook)


@pytest.mark.parametrize("register", [everywhere, before_everywhere])
def test_a_hook_for_all_modules_that_mixes_records(register: Any) -> None:
    """Not seen once: the model counted as one of torch's own layers."""
    run = runs.trainer()
    handle = register()
    try:
        assert not keeps_apart(runs.model(), runs.LOSS)
        with pytest.raises(md.InvalidParameter, match="hooks of model must stay"):
            run.train(1)
        with pytest.raises(md.NotCovered, match="depends on other records"):
            runs.trainer()
    finally:
        handle.remove()
    run.train(1)


class Mixing(torch.overrides.TorchFunctionMode):  # type: ignore[misc, name-defined, unused-ignore]
    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        found = func(*args, **(kwargs or {}))
        return found - found.mean(0).detach() if func is torch.relu else found


class Below(torch.utils._python_dispatch.TorchDispatchMode):  # type: ignore[misc, name-defined, unused-ignore]
    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*args, **(kwargs or {}))


def saved() -> Any:
    return torch.autograd.graph.saved_tensors_hooks(lambda x: x, lambda x: x.mean(0).expand_as(x))


@pytest.mark.parametrize("mode", [Mixing, Below, saved])
def test_modes_around_the_run_are_refused(mode: Any) -> None:
    run = runs.trainer()
    around: AbstractContextManager[Any] = mode()
    with around, pytest.raises(md.NotCovered, match="is active around the run"):
        run.train(1)
    assert run.steps == 0
    with mode(), pytest.raises(md.NotCovered, match="is active around the run"):
        runs.trainer()
    run.train(1)


def test_a_default_device_is_no_such_mode() -> None:
    with torch.device("cpu"):
        runs.trainer().train(1)


class Called(nn.Linear):  # type: ignore[misc, name-defined, unused-ignore]
    """Has the forward of torch's layer, and mixes records around it."""

    def __call__(self, x: Any) -> Any:
        return super().__call__(x - x.mean(0).detach())


class Inside(nn.Conv2d):  # type: ignore[misc, name-defined, unused-ignore]
    """Mixes records in a method that torch's forward calls."""

    def _conv_forward(self, x: Any, weight: Any, bias: Any) -> Any:
        return super()._conv_forward(x - x.mean(0).detach(), weight, bias)


class Made(nn.Linear):  # type: ignore[misc, name-defined, unused-ignore]
    """Is made in another way, and otherwise torch's layer."""

    def __init__(self) -> None:
        super().__init__(6, 3)


def test_layers_with_torchs_forward_and_code_of_their_own_are_not_taken_for_torchs() -> None:
    assert keeps_apart(nn.Sequential(Made()), runs.LOSS)
    assert not keeps_apart(nn.Sequential(Called(6, 3)), runs.LOSS)
    assert not keeps_apart(nn.Sequential(Inside(3, 3, 1)), runs.LOSS)
    with pytest.raises(md.NotCovered, match="depends on other records"):
        runs.trainer(nn.Sequential(Called(6, 3)))
