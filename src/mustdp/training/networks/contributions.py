"""The gradient of a piece of a batch as a sum over its records, ready to be clipped.

A parameter that is used in one place has its share there. One that is used in several (tied
weights, a layer called twice) has a gradient that is the sum over these places, and the norm of a
sum is not the sum of the norms: its contributions are written out and added before they are
measured.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from mustdp.training.networks.shares import Kept, Share, Sizes, total_of

Parameters = Sequence[torch.nn.Parameter]


@dataclass(frozen=True)
class Part:
    """A share, and the parameter that each of its names stands for."""

    share: Share
    parameters: dict[str, torch.nn.Parameter]


class Contributions:
    """Losses and contributions of the records of one piece."""

    def __init__(self, losses: Tensor, parts: Sequence[Part]) -> None:
        self.losses = losses
        self._parts = _with_single_uses(parts)

    @property
    def terms(self) -> int:
        """How many products are added up in one entry of the weighted sum, at most."""
        return max((part.share.terms for part in self._parts), default=0)

    def sizes(self) -> Sizes:
        """How large every record's gradient is, over all parameters, bounded from above."""
        if not self._parts:
            zero = torch.zeros_like(self.losses, dtype=torch.float64)
            return Sizes(zero, zero)
        return total_of([part.share.sizes() for part in self._parts])

    def by_record(self) -> list[Tensor]:
        """All that decides what each record contributes, records first."""
        sizes = self.sizes()
        values = [x for part in self._parts for x in part.share.by_record()]
        return [self.losses, sizes.squares, sizes.absolute, *values]

    def add_weighted(self, weights: Tensor, sums: dict[int, Tensor]) -> None:
        """Add the weighted sum to ``sums``, which is keyed by the identity of the parameter."""
        for part in self._parts:
            for name, value in part.share.weighted(weights).items():
                key, found = id(part.parameters[name]), value.view_as(part.parameters[name])
                sums[key] = sums[key].add_(found) if key in sums else found


def _joined(calls: list[Part]) -> list[Part]:
    first, *others = calls
    one = first.share.joined([part.share for part in others]) if others else None
    return calls if one is None else [Part(one, first.parameters)]


def _with_single_uses(parts: Sequence[Part]) -> list[Part]:
    """Join all parts that share a parameter into one that has its contributions written out.

    Calls of one layer may have a shorter way.
    """
    calls: dict[tuple[int, ...], list[Part]] = {}
    for part in parts:
        calls.setdefault(tuple(id(p) for p in part.parameters.values()), []).append(part)
    parts = [part for same in calls.values() for part in _joined(same)]
    uses = Counter(id(p) for part in parts for p in part.parameters.values())
    single: list[Part] = []
    shared: list[Part] = []
    for part in parts:
        once = all(uses[id(p)] == 1 for p in part.parameters.values())
        (single if once else shared).append(part)
    if not shared:
        return single
    summed: dict[str, Tensor] = {}
    owners: dict[str, torch.nn.Parameter] = {}
    for part in shared:
        for name, gradient in part.share.each().items():
            key = str(id(part.parameters[name]))
            owners[key] = part.parameters[name]
            summed[key] = summed[key] + gradient if key in summed else gradient
    return [*single, Part(Kept(summed), owners)]
