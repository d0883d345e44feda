"""How tensors travel to a device and in which formats it multiplies."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache
from typing import Any, TypeVar

import torch
from torch import Tensor
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.overrides import TorchFunctionMode

# Copies of small tensors between a CPU and a GPU that neither of them waits for.
#
# A plain copy makes the CPU wait until the GPU has done all it was told before. Copies from and to
# page-locked memory take their place in the queue instead.


def sent(values: Tensor, device: torch.device) -> Tensor:
    """On the device, in time for whatever it is told to do next."""
    if device.type != "cuda" or values.is_cuda:
        return values.to(device)
    return values.pin_memory().to(device, non_blocking=True)


def fetched(values: Tensor) -> Tensor:
    """On the CPU, complete when an event that is recorded after this has come."""
    if not values.is_cuda:
        return values
    buffer = torch.empty(values.shape, dtype=values.dtype, pin_memory=True)
    return buffer.copy_(values, non_blocking=True)


@cache
def _kernels() -> Any:
    try:
        from mustdp.training.networks import kernels
    except ImportError:  # no Triton
        return None
    return kernels


def kernels_for(device: torch.device) -> Any:
    """The module of kernels for this device; None where torch's own operations are used."""
    return _kernels() if device.type == "cuda" else None


# In which formats torch multiplies: shortened for speed, or as long as the numbers are.
#
# What a record contributes may be computed in any format, as it is a function of that record; what
# concerns several records is computed in double precision.


def shortened(device: torch.device, dtype: torch.dtype | None) -> AbstractContextManager[Any]:
    """Forward passes in a shorter format; for None they stay as they are."""
    return nullcontext() if dtype is None else torch.autocast(device.type, dtype=dtype)


def plain_attention(device: torch.device) -> AbstractContextManager[Any]:
    """Attention by its formula on a GPU: under ``vmap`` the fused kernel there has no gradient."""
    return sdpa_kernel(SDPBackend.MATH) if device.type == "cuda" else nullcontext()


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


def precision_settings() -> tuple[Any, ...]:
    """All settings of torch that may choose other kernels for the same operation."""
    matmul, convolution, _, _ = _switches()
    cudnn: Any = torch.backends.cudnn
    return (
        getattr(*matmul),
        getattr(*convolution),
        torch.get_float32_matmul_precision(),
        torch.is_autocast_enabled(),
        torch.are_deterministic_algorithms_enabled(),
        (cudnn.enabled, cudnn.benchmark, cudnn.deterministic, cudnn.allow_tf32),
    )


@contextmanager
def _set(switch: Switch, value: Any) -> Iterator[None]:
    before = getattr(*switch)
    setattr(*switch, value)
    try:
        yield
    finally:
        setattr(*switch, before)


# Linear layers of sizes with which the rows of a product agree on a CPU, wherever they stand.
#
# Measured with torch 2.13: with five or ten columns in float32 every second or fourth row of a
# product differs in its last bits, and with one column the last rows do. Of products whose sizes
# are multiples of eight none was found in which equal rows differ (``clipping.Places`` tries it
# on the model).


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
        below, beside = -rows % _multiple(rows), -columns % _multiple(columns)
        if not below and not beside:
            return func(*args)
        if below and bias is not None:
            bias = functional.pad(bias, (0, below))
        wide = functional.pad(x, (0, beside)) if beside else x
        found = functional.linear(wide, functional.pad(weight, (0, beside, 0, below)), bias)
        return found[..., :rows].contiguous() if below else found


def _multiple(size: int) -> int:
    """Large matrices, which take long to fill up, were found to need multiples of four only."""
    return 8 if size < _LARGE else 4


#: From this size on four are enough, as said above.
_LARGE = 1024
_MATMUL = (torch.matmul, torch.Tensor.matmul, torch.Tensor.__matmul__)


def _factors(func: Any, args: Sequence[Any]) -> tuple[Any, Any, Any] | None:
    """Inputs, weight and bias of what multiplies every row by one matrix."""
    if func is functional.linear and 2 <= len(args) <= 3:
        x, weight, bias = (*args, None)[:3]
        return (x, weight, bias) if weight.ndim == 2 else None
    if func in _MATMUL and len(args) == 2 and args[0].ndim >= 2 and args[1].ndim == 2:
        return args[0], args[1].mT, None
    if func is torch.addmm and len(args) == 3 and args[0].ndim == 1:
        return args[1], args[2].mT, args[0]
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
