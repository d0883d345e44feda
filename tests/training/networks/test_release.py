"""What was released reaches every parameter, in its own format and shape."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

from mustdp.training.networks.noise import (
    as_gradients,
    on_lattice,
)


@pytest.mark.parametrize(
    "kinds",
    [
        (torch.float32, torch.float32),
        (torch.float64, torch.float64),
        (torch.float32, torch.float64),
    ],
)
def test_gradients_are_what_was_released_over_the_size(kinds: tuple[Any, Any]) -> None:
    shapes = ((3, 2), (4,))
    parameters = [
        torch.nn.Parameter(torch.zeros(shape, dtype=kind))
        for shape, kind in zip(shapes, kinds, strict=True)
    ]
    sums = [torch.randn(shape, dtype=torch.float64) * 1e3 for shape in shapes]
    step, size = 2.0**-20, 7.0
    integers = on_lattice(sums, step)
    as_gradients(integers, step, size, parameters)
    released = torch.split(integers, [6, 4])
    for parameter, found in zip(parameters, released, strict=True):
        expected = (found.double() * (step / size)).to(parameter.dtype).view_as(parameter)
        assert parameter.grad is not None
        assert parameter.grad.dtype == parameter.dtype
        assert torch.equal(parameter.grad, expected)
