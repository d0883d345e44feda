"""Records made to flip with their last bits: adding one record must not move all the others."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

import mustdp as md

N, WIDTH, OUTPUTS = 192, 17, 5


def off_target(outputs: Any, target: Any) -> Any:
    """The distance of one output from the target: its gradient is a sign times the input."""
    return (outputs[:, 0] - target).abs()


class Product(torch.nn.Linear):  # type: ignore[misc, name-defined, unused-ignore]
    """The same without a layer."""

    def forward(self, x: Any) -> Any:
        return x @ self.weight.T


class Summed(torch.nn.Linear):  # type: ignore[misc, name-defined, unused-ignore]
    """The same in a form that the trainer cannot run in another way, only in smaller pieces."""

    def forward(self, x: Any) -> Any:
        return torch.einsum("ri,oi->ro", x, self.weight)


def network(kind: Any, dtype: Any) -> Any:
    model = kind(WIDTH, OUTPUTS, bias=False, dtype=dtype)
    with torch.no_grad():
        values = torch.randn(model.weight.shape, generator=torch.Generator().manual_seed(1))
        model.weight.copy_(values)
    return model


def crafted(kind: Any, dtype: Any) -> tuple[Any, Any]:
    """Records with terms that cancel, each with a target between its two possible outputs.

    These are the output among N records and the one among N + 1, one place further: a record whose
    output is the smaller one in the first case pulls its weights, and does not in the second.
    """
    generator = torch.Generator().manual_seed(4)
    found = (torch.rand(N, WIDTH, generator=generator) * 2.0**10).to(dtype)
    with torch.no_grad():
        here = network(kind, dtype)(found)[:, 0]
        there = network(kind, dtype)(torch.cat([found[:1] * 0, found]))[1:, 0]
    return found, torch.where(here < there, there, torch.full_like(here, -1e9))


def sum_of_a_step(kind: Any, inputs: Any, target: Any) -> Any:
    """What a step releases; the same seed adds the same noise with and without a record."""
    model = network(kind, inputs.dtype)
    before = model.weight.detach().clone()
    budget = md.calibrated_budget(md.poisson(N, 1.0), steps=1, noise_multiplier=1.0, delta=1e-3)
    with pytest.warns(md.types.SeededRelease):
        trainer = md.PrivateTrainer(
            model,
            off_target,
            (inputs, target),
            budget,
            optimizer=torch.optim.SGD(model.parameters(), lr=1.0),
            max_grad_norm=1.0,
            seed=3,
            progress=False,
        )
    trainer.train()
    return (before - model.weight.detach()).double() * N


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("kind", [torch.nn.Linear, Product, Summed])
def test_one_record_more_moves_the_sum_by_one_clip(kind: Any, dtype: Any, threads: int) -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        inputs, target = crafted(kind, dtype)
        found = sum_of_a_step(kind, inputs, target)
        more = sum_of_a_step(
            kind, torch.cat([inputs[:1] * 0, inputs]), torch.cat([target[:1] * 0, target])
        )
    finally:
        torch.set_num_threads(before)
    assert float((found - more).norm()) <= 1.0 + 1e-3


def images(seed: int, count: int = 60) -> Any:
    generator = torch.Generator().manual_seed(seed)
    return torch.rand(count, 3, 7, 7, generator=generator, dtype=torch.float64)


def places_that_differ(layer: Any, rows: int) -> int:
    """How many of 100 records a layer gives other bits at some place than at the first."""
    with torch.no_grad():
        found = (layer(one.expand(rows, -1, -1, -1).clone()) for one in images(9, 100))
        return sum(not torch.equal(x, x[:1].expand_as(x)) for x in found)


@pytest.mark.parametrize("seed", range(4))
def test_a_channel_that_no_record_of_the_data_activates_is_tried(seed: int) -> None:
    """In double precision the last of seven channels differs from place to place.

    The data leave it inactive, so neither losses nor gradients showed it, and pieces of many
    records were taken. A record that activates it would have moved those beside it.
    """
    torch.manual_seed(seed)
    layer = torch.nn.Conv2d(3, 7, 3, dtype=torch.float64)
    with torch.no_grad():
        layer.bias[-1] = -100.0  # far below what images in [0, 1] add up to
    model = torch.nn.Sequential(
        layer, torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(175, 3, dtype=torch.float64)
    )
    run: Any = md.PrivateTrainer(
        model,
        torch.nn.CrossEntropyLoss(reduction="none"),
        (images(1), torch.arange(60) % 3),
        md.calibrated_budget(md.wor(60, 32), steps=1, noise_multiplier=1.0, delta=1e-3),
        optimizer=torch.optim.SGD(model.parameters(), lr=1.0),
        max_grad_norm=1.0,
        progress=False,
    )
    assert places_that_differ(layer, run._pieces._rows) == 0
