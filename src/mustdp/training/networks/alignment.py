"""Linear layers of sizes with which the rows of a product agree on a CPU, wherever they stand.

Measured with torch 2.13: with five or ten columns in float32 every second or fourth row of a
product differs in its last bits, and with one column the last rows do. Of products whose sizes are
multiples of eight none was found in which equal rows differ (``places.py`` tries it on the model).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import torch
from torch.nn import functional
from torch.overrides import TorchFunctionMode

T = TypeVar("T")


class _Aligned(TorchFunctionMode):  # type: ignore[misc, unused-ignore]
    """Runs linear layers with multiples of eight rows of the weight, and of columns.

    With others, a CPU's products of one row depend on where the row begins in memory. In the
    backward pass the columns of the weight take the part of its rows.
    """

    def __torch_function__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Any = None
    ) -> Any:
        given = {} if kwargs is None else kwargs
        factors = None if given else _factors(func, args)
        if factors is None:
            return func(*args, **given)
        x, weight, bias = factors
        rows, columns = weight.shape
        below, beside = -rows % 8, -columns % 8
        if not below and not beside:
            return func(*args)
        if below and bias is not None:
            bias = functional.pad(bias, (0, below))
        wide = functional.pad(x, (0, beside)) if beside else x
        found = functional.linear(wide, functional.pad(weight, (0, beside, 0, below)), bias)
        return found[..., :rows].contiguous() if below else found


_MATMUL = (torch.matmul, torch.Tensor.matmul, torch.Tensor.__matmul__)


def _factors(func: Any, args: Sequence[Any]) -> tuple[Any, Any, Any] | None:
    """Inputs, weight and bias of what multiplies every row by one matrix."""
    if func is functional.linear and 2 <= len(args) <= 3:
        x, weight, bias = (*args, None)[:3]
        return (x, weight, bias) if weight.ndim == 2 else None
    if func in _MATMUL and len(args) == 2 and args[0].ndim >= 2 and args[1].ndim == 2:
        return args[0], args[1].mT, None
    return None


def aligned(device: torch.device, run: Callable[[], T]) -> T:
    """Run with linear layers of sizes with which all rows of a product agree, on a CPU."""
    if device.type != "cpu":
        return run()
    # Cleaned up twice, so that Ctrl-C leaves nothing behind wherever it comes.
    try:
        try:
            with _Aligned():
                return run()
        finally:
            as_usual()
    finally:
        as_usual()


def as_usual() -> None:
    """Take off what an interruption may have left active."""
    overrides: Any = torch.overrides
    while isinstance(next(reversed(overrides._get_current_function_mode_stack()), None), _Aligned):
        overrides._pop_mode()
