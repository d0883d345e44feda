"""Clipping rules: how long what a record contributes may be, and how it is made so.

Every rule turns a gradient g into w g, where the whole contribution has norm at most C' (the
clipping norm less what rounding may do, :func:`bound_for`) in real arithmetic. So the noise
multiplier of the plan is the same for all of them (docs/derivations/clipping.md, "Rules").

- flat: w = min(1, C'/|g|).
- per layer: the parameters fall into L groups, and each group's part is scaled down to C'/sqrt(L).
- automatic: w = C' / (|g| + s), a gradient of norm below C' for every record (Bu, Wang, Zha &
  Karypis 2022, arXiv 2206.07136v3, section 3).
- quantile: the threshold follows a quantile of the norms (Andrew, Thakkar, McMahan & Ramaswamy
  2021, arXiv 1905.03871v5). One more number, f C' (2 b - 1) with b = 1 where |g| is at most the
  threshold, is released together with a gradient that is scaled to C' sqrt(1 - f^2). Both are one
  vector of norm at most C', so that the count costs nothing beside the plan: the gradient has a
  noise multiplier of z / sqrt(1 - f^2), and the count of records noise of deviation z / (2 f).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from mustdp.errors import InvalidParameter, NumericalFailure
from mustdp.numerics import checks
from mustdp.training.networks.bookkeeping import Contributions, trainable
from mustdp.training.networks.layers import Sizes

#: A factor that covers the square root, the sum, the product and the quotient that make a weight.
_WEIGHT_ROUNDED_DOWN = 1.0 - 2.0**-48
#: By how much the threshold of quantile clipping may move from where it began.
_MOST_MOVED = 2.0**40


def longest(sizes: Sizes, cancellation: float) -> Tensor:
    """What a record is measured by: its norm, or more where its terms cancel too much."""
    return torch.maximum(sizes.squares.sqrt(), sizes.absolute.sqrt() / cancellation)


def weights_for(sizes: Sizes, inner: float, cancellation: float) -> Tensor:
    """Weights w <= 1 with w |g| <= C' and w R <= rho C' in real arithmetic, for every record."""
    return (inner * _WEIGHT_ROUNDED_DOWN / longest(sizes, cancellation)).clamp_(max=1.0)


class ClippingRule:
    """All parameters together, scaled down to C' where they are longer.

    What a rule remembers from step to step is released already.
    """

    #: Numbers that are released with every gradient.
    released = 0
    #: What a released gradient is multiplied by.
    scale = 1.0

    def weights(self, found: Contributions, inner: float, cancellation: float) -> Sequence[Tensor]:
        """A weight for every record, one tensor for each part of the contributions."""
        return [weights_for(found.sizes(), inner, cancellation)] * len(found.parts)

    def numbers(
        self, sizes: Sizes, counts: Tensor, inner: float, cancellation: float
    ) -> Tensor | None:
        """The further numbers of a piece, in double precision."""
        return None

    def update(self, numbers: Sequence[float], inner: float) -> None:
        """Go on from what a step has released."""

    def state(self) -> float | None:
        """What is saved."""
        return None

    def restore(self, state: float | None) -> None:
        """Go on from it."""

    def describe(self) -> str:
        """For comparing runs."""
        return "flat"


class PerLayer(ClippingRule):
    """Each layer scaled down to its own part of C'."""

    def __init__(self, model: nn.Module) -> None:
        self._groups = _owners(model)
        self._number = len(set(self._groups.values()))

    def weights(self, found: Contributions, inner: float, cancellation: float) -> Sequence[Tensor]:
        """One for each layer; the squares of the bounds add up to that of C'."""
        groups = found.split(self._groups)
        each = inner / math.sqrt(self._number) * (1.0 - 2.0**-50)
        weights = {
            group: weights_for(sizes, each, cancellation)
            for group, sizes in found.sizes_of(groups).items()
        }
        return [weights[group] for group in groups]

    def describe(self) -> str:
        """With the number of layers."""
        return f"per layer, {self._number}"


def _owners(model: nn.Module) -> dict[int, int]:
    """The group of each parameter, by identity: its layer's, joined where layers share one."""
    found: dict[int, int] = {}
    for number, module in enumerate(model.modules()):
        own = [id(p) for p in module.parameters(recurse=False) if p.requires_grad]
        joined = {found[p] for p in own if p in found}
        found |= dict.fromkeys(own, number)
        found = {p: number if group in joined else group for p, group in found.items()}
    return {id(p): found[id(p)] for p in trainable(model).values()}


@dataclass(frozen=True)
class AutomaticClipping:
    """Every gradient is brought to nearly the same length: it is divided by its norm plus s.

    Attributes
    ----------
    stability : float, default=0.01
        The s, from 1e-6 to 1e6: gradients far below it stay small.

    Examples
    --------
    >>> import mustdp as md
    >>> md.types.AutomaticClipping().stability
    0.01
    """

    stability: float = 0.01

    def __post_init__(self) -> None:
        checks.real("stability", self.stability, at_least=1e-6, at_most=1e6)


class AutomaticRule(ClippingRule):
    """Normalised gradients."""

    def __init__(self, wanted: AutomaticClipping) -> None:
        self._stability = wanted.stability

    def weights(self, found: Contributions, inner: float, cancellation: float) -> Sequence[Tensor]:
        """The same for all parts; they may be above one."""
        size = longest(found.sizes(), cancellation).add_(self._stability)
        return [inner * _WEIGHT_ROUNDED_DOWN / size] * len(found.parts)

    def describe(self) -> str:
        """With its constant."""
        return f"automatic, {self._stability!r}"


@dataclass(frozen=True)
class QuantileClipping:
    """The clipping norm follows a quantile of the gradients' norms, found with noise.

    It begins at ``max_grad_norm``. The count of the records below it is released in every step
    together with the gradient, within the same plan and at no further charge.

    Attributes
    ----------
    quantile : float, default=0.5
        The share of gradients that shall be below the norm, from 0 to 1.
    rate : float, default=0.2
        How fast it moves: a share that is off by a tenth changes it by a tenth of this.
    count_noise : float, default=None
        Deviation of the noise on the count; None means a twentieth of the expected batch, or twice
        the plan's noise multiplier where that is more. It must be above half of that multiplier:
        the smaller, the more noise gradients get.

    Examples
    --------
    >>> import mustdp as md
    >>> md.types.QuantileClipping(quantile=0.7).rate
    0.2
    """

    quantile: float = 0.5
    rate: float = 0.2
    count_noise: float | None = field(default=None)

    def __post_init__(self) -> None:
        checks.real("quantile", self.quantile, at_least=0, at_most=1)
        checks.real("rate", self.rate, above=0, at_most=10)
        if self.count_noise is not None:
            checks.real("count_noise", self.count_noise, above=0)


class QuantileRule(ClippingRule):
    """A threshold that moves, in units in which the clipping norm stays what it was.

    Gradients are scaled by C'/C_t on the way in and what is released by C_t/C on the way out, so
    that lattice, bounds and noise are those of C in every step.
    """

    released = 1

    def __init__(self, wanted: QuantileClipping, norm: float, noise: float, size: float) -> None:
        count_noise = wanted.count_noise or max(size / 20.0, 2.0 * noise)
        # At a smaller deviation nothing would be left for the gradient.
        if not count_noise > noise / 2.0 * 1.01:
            raise InvalidParameter.refusing(
                "count_noise",
                f"must be above half of the noise multiplier, {noise / 2.0:.4g}, by a hundredth",
                f"{count_noise:.4g}",
            )
        self._wanted, self._first, self._size = wanted, norm, size
        self._share = noise / (2.0 * count_noise)
        self._rest = math.sqrt(1.0 - self._share**2) * (1.0 - 2.0**-50)
        self._threshold = norm

    @property
    def scale(self) -> float:  # type: ignore[override]
        """From units of the first norm to those of the threshold."""
        return self._threshold / self._first / self._rest

    def weights(self, found: Contributions, inner: float, cancellation: float) -> Sequence[Tensor]:
        """Scaled down to the threshold, and that to what the count leaves of C'."""
        size = longest(found.sizes(), cancellation).clamp_(min=self._threshold)
        return [inner * self._rest * _WEIGHT_ROUNDED_DOWN / size] * len(found.parts)

    def numbers(
        self, sizes: Sizes, counts: Tensor, inner: float, cancellation: float
    ) -> Tensor | None:
        """f C' times the records below the threshold less those above it."""
        below = longest(sizes, cancellation) <= self._threshold
        return (2.0 * below.double() - 1.0) @ counts * (self._share * inner)

    def update(self, numbers: Sequence[float], inner: float) -> None:
        """Move towards the quantile, by the size that was expected, never by what came out."""
        share = 0.5 + numbers[0] / (self._share * inner) / (2.0 * self._size)
        share = min(2.0, max(-1.0, share))  # noise may carry it beyond what there is
        moved = self._threshold * math.exp(-self._wanted.rate * (share - self._wanted.quantile))
        low, high = self._first / _MOST_MOVED, self._first * _MOST_MOVED
        self._threshold = min(high, max(low, moved))

    def state(self) -> float | None:
        """The threshold."""
        return self._threshold

    def restore(self, state: float | None) -> None:
        """The threshold."""
        # Beyond what it can have moved to, weights would not be finite.
        if state is None or not 1.0 / _MOST_MOVED <= state / self._first <= _MOST_MOVED:
            raise NumericalFailure("a checkpoint of quantile clipping must have its threshold")
        self._threshold = state

    def describe(self) -> str:
        """With all that decides the threshold."""
        return f"quantile, {self._wanted!r}"


#: What ``clipping=`` takes by name.
RULES = ("flat", "per_layer", "automatic", "quantile")


def clipping_rule(
    wanted: Any, model: nn.Module, max_grad_norm: float, noise: float, size: float
) -> ClippingRule:
    """The rule that was asked for, by name or with its settings."""
    if wanted == "automatic":
        wanted = AutomaticClipping()
    if wanted == "quantile":
        wanted = QuantileClipping()
    if isinstance(wanted, AutomaticClipping):
        return AutomaticRule(wanted)
    if isinstance(wanted, QuantileClipping):
        return QuantileRule(wanted, max_grad_norm, noise, size)
    named = checks.choice("clipping", wanted, RULES)
    return PerLayer(model) if named == "per_layer" else ClippingRule()
