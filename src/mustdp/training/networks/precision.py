"""In which formats torch multiplies: shortened for speed, or as long as the numbers are.

What a record contributes may be computed in any format, as it is a function of that record; what
concerns several records is computed in double precision.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import torch


def shortened(device: torch.device, dtype: torch.dtype | None) -> AbstractContextManager[Any]:
    """Forward passes in a shorter format; for None they stay as they are."""
    return nullcontext() if dtype is None else torch.autocast(device.type, dtype=dtype)


@contextmanager
def full_precision(device: torch.device) -> Iterator[None]:
    """Products in true float32 on a GPU, where the default may be a shortened format."""
    if device.type != "cuda":
        yield
        return
    matmul, convolution, _, full = _switches()
    with _set(matmul, full), _set(convolution, full):
        yield


@contextmanager
def as_convolutions(device: torch.device) -> Iterator[None]:
    """Matrix products in the format that convolutions have on a GPU, which is usually short."""
    if device.type != "cuda":
        yield
        return
    matmul, convolution, short, full = _switches()
    with _set(matmul, short if getattr(*convolution) == short else full):
        yield


Switch = tuple[Any, str]


def _switches() -> tuple[Switch, Switch, Any, Any]:
    """Where torch keeps the formats of products and of convolutions, and its two words for them."""
    matmul: Any = torch.backends.cuda.matmul
    convolution: Any = torch.backends.cudnn
    if hasattr(convolution, "conv"):
        name = "fp32_precision"
        return (matmul, name), (convolution.conv, name), "tf32", "ieee"
    return (matmul, "allow_tf32"), (convolution, "allow_tf32"), True, False


@contextmanager
def _set(switch: Switch, value: Any) -> Iterator[None]:
    before = getattr(*switch)
    setattr(*switch, value)
    try:
        yield
    finally:
        setattr(*switch, before)
