"""Records must be worked on separately, or clipping one of them does not bound its influence.

A layer that mixes records lets one record change the gradients of all others in the batch, and a
buffer that the forward pass changes carries data out of the run without any noise. Known layers of
that kind are refused by name; for the rest the model is tried on a few records, and again on the
records of a batch now and then.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from mustdp.errors import InvalidParameter, NotCovered


class Unsuitable(NotCovered):
    """A model that book-keeping cannot follow; it is then worked on record by record."""


def refuse_mixing(modules: Iterable[tuple[str, nn.Module]]) -> None:
    """Refuse layers that are known to mix records or to remember them."""
    for name, module in modules:
        reason = _mixes(module)
        if reason:
            raise NotCovered(f"layer {name or 'model'} ({type(module).__name__}) {reason}")


def _mixes(module: nn.Module) -> str:
    if isinstance(module, nn.modules.batchnorm._BatchNorm):
        if module.training or module.running_mean is None:
            return (
                "mixes the records of a batch, so that clipping one record's gradient does not "
                "bound its influence; use GroupNorm or LayerNorm, or eval() it to keep its "
                "statistics fixed"
            )
    elif isinstance(module, nn.modules.instancenorm._InstanceNorm):
        if module.track_running_stats and module.training:
            return (
                "remembers statistics of the records without noise; use track_running_stats=False"
            )
    elif isinstance(module, nn.Embedding | nn.EmbeddingBag):
        if module.max_norm is not None:
            return "changes its table in the forward pass (max_norm), without noise"
        if module.scale_grad_by_freq:
            return "scales gradients by how often an entry is in the batch, which mixes records"
    return ""


class Watch:
    """Watches a model while records pass through it: no layer may mix, no buffer may change."""

    def __init__(self, model: nn.Module) -> None:
        kinds = (
            nn.modules.batchnorm._BatchNorm,
            nn.modules.instancenorm._InstanceNorm,
            nn.Embedding,
            nn.EmbeddingBag,
        )
        modules = list(model.named_modules())
        self._suspects = [(name, m) for name, m in modules if isinstance(m, kinds)]
        self._parameters = list(model.parameters())
        self._trained = [p.requires_grad for p in self._parameters]
        self._owners = [(f"{name}.{key}", m, key) for name, m in modules for key in m._buffers]

    def start(self) -> list[tuple[str, int, int]]:
        """Refuse layers that mix; name, identity and version of every buffer."""
        refuse_mixing(self._suspects)
        if [p.requires_grad for p in self._parameters] != self._trained:
            raise InvalidParameter(
                "which parameters are trained must stay the same during a run, as the bound C "
                "holds for all of them together; start another run on the model"
            )
        return self._seen()

    def check(self, before: list[tuple[str, int, int]]) -> None:
        """Refuse if a buffer has changed since :meth:`start`."""
        changed = {now[0] for now in set(self._seen()) ^ set(before)}
        if changed:
            raise NotCovered(
                f"the forward pass changes the buffer {min(changed)}, which would carry what it "
                "has seen of the records out of the run without noise"
            )

    def _seen(self) -> list[tuple[str, int, int]]:
        found = ((name, m._buffers.get(key)) for name, m, key in self._owners)
        return [(name, id(b), b._version) for name, b in found if b is not None]


@contextmanager
def as_before(model: nn.Module) -> Iterator[None]:
    """Put the buffers back if the model turns out to be one that is refused."""
    kept = [(buffer, buffer.clone()) for buffer in model.buffers()]
    try:
        yield
    except BaseException:
        with torch.no_grad():
            for buffer, before in kept:
                buffer.copy_(before)
        raise


def check_finite(losses: Tensor) -> None:
    """Refuse if the trial already fails on numbers."""
    if not bool(torch.isfinite(losses).all()):
        raise InvalidParameter(
            "the loss must be finite, on the first records of the data it is not; look for NaN "
            "or infinity in the data and in the model's parameters"
        )


def check_separate(losses: Tensor, edges: list[torch.autograd.graph.GradientEdge]) -> None:
    """Refuse if the loss of a record depends on what a layer computed for another.

    A layer that has one row for each record, but in an order of its own, is only unsuitable.
    """
    for record in range(len(losses)):
        found = torch.autograd.grad(losses[record], edges, allow_unused=True, retain_graph=True)
        for errors in found:
            if errors is None:
                continue
            rows = errors.flatten(1).count_nonzero(1).nonzero().flatten().tolist()
            if len(rows) > 1:
                raise NotCovered(MIXED)
            if rows not in ([], [record]):
                raise Unsuitable(REORDERED)


def check_scaling(
    losses: Tensor, edges: list[torch.autograd.graph.GradientEdge], scales: Tensor
) -> None:
    """Refuse if the errors of a layer's rows do not scale with the losses of their records."""
    scales = scales.to(losses.dtype)
    plain = torch.autograd.grad(losses.sum(), edges, allow_unused=True, retain_graph=True)
    total = (losses * scales).sum()
    scaled = torch.autograd.grad(total, edges, allow_unused=True, retain_graph=True)
    for one, other in zip(plain, scaled, strict=True):
        if one is None or other is None:
            continue
        expected = one.flatten(1) * scales.to(one.dtype)[:, None]
        gap = (other.flatten(1) - expected).abs().amax(1)
        if bool((gap > _SCALING * expected.abs().amax(1) + _FLUSHED).any()):
            raise NotCovered(MIXED)


#: By how much a row of errors may miss its scale, relative to its largest entry.
_SCALING = 2.0**-10
#: Errors below this are zero to some processors and not to others: float32 ends at 2^-126, and
#: up to eight times that is compared with it. No clip is that small.
_FLUSHED = 2.0**-120
MIXED = (
    "the loss of one record depends on other records of the batch; the first dimension of every "
    "layer's output must be the record, and no operation may mix records"
)
REORDERED = "a layer sees the records of a batch in another order than they came"


def per_record(losses: Tensor, rows: int) -> Tensor:
    """Check that the loss has one value for every record."""
    if not isinstance(losses, Tensor) or losses.shape != (rows,):
        got = (
            f"shape {tuple(losses.shape)}"
            if isinstance(losses, Tensor)
            else f"a {type(losses).__name__}"
        )
        raise InvalidParameter(
            f"loss must return one value per record (reduction='none', then a sum or mean over "
            f"each record's own dimensions): shape ({rows},), got {got}"
        )
    return losses
