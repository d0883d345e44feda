"""Every registered rule of a layer keeps the contract; rules that break it are found out.

The definition is the gradient of one record at a time, in double precision. What a rule says of
norms, of weighted sums and of single records is compared with that, and no record may change what
is said of another one.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch import Tensor, nn

from mustdp.training.networks.layers import (
    _RULES,
    EmbeddingShare,
    Kept,
    Share,
    Sizes,
    linear,
    rule_for,
)

ROWS = 6
Example = tuple[nn.Module, Tensor]

#: Layers and inputs for every rule, by the forward that it is registered for.
EXAMPLES: dict[Any, list[Callable[[], Example]]] = {
    nn.Linear.forward: [
        lambda: (nn.Linear(5, 3), torch.randn(ROWS, 5)),
        lambda: (nn.Linear(5, 3, bias=False), torch.randn(ROWS, 4, 5)),
        lambda: (nn.Linear(2, 30), torch.randn(ROWS, 2, 2)),
        lambda: (nn.Linear(30, 40), torch.randn(ROWS, 3, 30)),
    ],
    nn.Conv2d.forward: [
        lambda: (nn.Conv2d(2, 4, 3, padding=1), torch.randn(ROWS, 2, 6, 6)),
        lambda: (nn.Conv2d(4, 4, 2, groups=2, stride=2), torch.randn(ROWS, 4, 6, 6)),
        lambda: (nn.Conv2d(8, 30, 2), torch.randn(ROWS, 8, 3, 3)),
    ],
    nn.Embedding.forward: [
        lambda: (nn.Embedding(7, 4), torch.randint(7, (ROWS, 5))),
        lambda: (nn.Embedding(3, 4, padding_idx=1), torch.randint(3, (ROWS, 5))),
    ],
    nn.LayerNorm.forward: [
        lambda: (nn.LayerNorm(6), torch.randn(ROWS, 5, 6)),
        lambda: (nn.LayerNorm((5, 6)), torch.randn(ROWS, 5, 6)),
    ],
    nn.RMSNorm.forward: [lambda: (nn.RMSNorm(6), torch.randn(ROWS, 5, 6))],
    nn.GroupNorm.forward: [
        lambda: (nn.GroupNorm(2, 4), torch.randn(ROWS, 4, 3, 3)),
        lambda: (nn.GroupNorm(3, 6), torch.randn(ROWS, 6)),
    ],
}
CASES = [
    pytest.param(make, id=f"{forward.__qualname__} {number}")
    for forward, makes in EXAMPLES.items()
    for number, make in enumerate(makes)
]
Rule = Callable[[Any, Tensor, Tensor], Share]


def gradients(layer: nn.Module, given: Tensor, errors: Tensor) -> dict[str, Tensor]:
    """One record at a time, in double precision."""
    double = copy.deepcopy(layer).double()
    names, parameters = zip(
        *((n, p) for n, p in double.named_parameters() if p.requires_grad), strict=True
    )
    rows: list[tuple[Tensor, ...]] = []
    for row in range(len(given)):
        one = given[row : row + 1]
        out = double(one.double() if one.is_floating_point() else one)
        rows.append(torch.autograd.grad((out * errors[row : row + 1].double()).sum(), parameters))
    return {
        name: torch.stack(each) for name, each in zip(names, zip(*rows, strict=True), strict=True)
    }


def same(ours: dict[str, Tensor], exact: dict[str, Tensor]) -> bool:
    """Up to the rounding of float32."""
    return ours.keys() == exact.keys() and all(
        torch.allclose(
            ours[name].double().reshape(one.shape),
            one,
            rtol=1e-4,
            atol=2e-5 * float(one.abs().max()),
        )
        for name, one in exact.items()
    )


def check(rule: Rule, layer: nn.Module, given: Tensor) -> None:
    """Everything that a rule says of these records."""
    with torch.no_grad():
        errors = torch.randn_like(layer(given))
    share, exact = rule(layer, given, errors), gradients(layer, given, errors)
    assert same(share.each(), exact), "contributions"
    norms = sum(one.flatten(1).square().sum(1) for one in exact.values())
    sizes = share.sizes()
    assert bool((sizes.squares >= norms * (1.0 - 1e-5)).all()), "a norm is said to be smaller"
    assert bool((sizes.squares <= norms * (1.0 + 1e-3)).all()), "a norm is said to be much larger"
    assert bool((sizes.absolute >= sizes.squares * (1.0 - 1e-12)).all()), "absolute"
    weights = torch.linspace(0.0, 3.0, ROWS, dtype=torch.float64)
    found = share.weighted(weights)
    expected = {name: torch.tensordot(weights, one, 1) for name, one in exact.items()}
    assert same(found, expected), "weighted sums"
    assert all(one.dtype == torch.float64 for one in found.values())
    assert share.terms >= ROWS
    # The others are other records now, and in another order.
    order = torch.tensor([3, 1, 4, 0, 5, 2])
    moved, pushed = given[order].clone(), errors[order].clone()
    moved[1:], pushed[1:] = moved[1:].flip(0), 3.0 * pushed[1:].flip(0)
    beside = rule(layer, moved, pushed)
    assert torch.allclose(beside.sizes().squares[0], sizes.squares[3], rtol=1e-5)
    for name, one in share.each().items():
        assert torch.allclose(beside.each()[name][0], one[3], rtol=1e-4, atol=1e-5), "mixes records"
    assert all(len(each) == ROWS for each in share.by_record())


def test_every_rule_has_examples() -> None:
    assert EXAMPLES.keys() == _RULES.keys()


@pytest.mark.parametrize("make", CASES)
def test_registered_rules_conform(make: Callable[[], Example]) -> None:
    torch.manual_seed(1)
    layer, given = make()
    rule = rule_for(layer)
    assert rule is not None
    check(rule, layer, given)
    names = dict(layer.named_parameters())
    for frozen in names if len(names) > 1 else ():
        names[frozen].requires_grad_(False)
        check(rule, layer, given)
        names[frozen].requires_grad_(True)


# Rules that break the contract, each in one way.


def _written_out(layer: Any, given: Tensor, errors: Tensor) -> dict[str, Tensor]:
    return {name: one.float() for name, one in gradients(layer, given, errors).items()}


class _ForgetsBias(Kept):
    def sizes(self) -> Sizes:
        return Kept({"weight": self.each()["weight"]}).sizes()


class _AddsSquares(Kept):
    """Squares of single places added up, as if places were orthogonal."""

    def __init__(self, layer: Any, given: Tensor, errors: Tensor) -> None:
        super().__init__(_written_out(layer, given, errors))
        places = [_written_out(layer, given[:, t], errors[:, t]) for t in range(given.shape[1])]
        self._places = [Kept(one).sizes().squares for one in places]

    def sizes(self) -> Sizes:
        found = torch.stack(self._places).sum(0)
        return Sizes(found, found)


class _SquaresWeights(Kept):
    def weighted(self, weights: Tensor) -> dict[str, Tensor]:
        return super().weighted(weights.square())


class _LeavesOneOut(Kept):
    def weighted(self, weights: Tensor) -> dict[str, Tensor]:
        return super().weighted(torch.cat([weights[:-1], torch.zeros_like(weights[:1])]))


class _Cancels(Kept):
    """Says that rounding is relative to less than the contribution itself."""

    def sizes(self) -> Sizes:
        found = super().sizes()
        return Sizes(found.squares, 0.5 * found.squares)


def _averages_places(layer: Any, given: Tensor, errors: Tensor) -> Share:
    return linear(layer, given, errors / given.shape[1])


def _subtracts_the_mean(layer: Any, given: Tensor, errors: Tensor) -> Share:
    return linear(layer, given, errors - errors.mean(0))


def _loses_digits(layer: Any, given: Tensor, errors: Tensor) -> Share:
    return linear(layer, given.half().float() * (1.0 - 2e-3), errors)


UNSOUND: dict[str, Rule] = {
    "forgets the bias": lambda *given: _ForgetsBias(_written_out(*given)),
    "adds squares of places": _AddsSquares,
    "squares the weights": lambda *given: _SquaresWeights(_written_out(*given)),
    "leaves one record out": lambda *given: _LeavesOneOut(_written_out(*given)),
    "knows no cancellation": lambda *given: _Cancels(_written_out(*given)),
    "averages places": _averages_places,
    "subtracts the mean of the batch": _subtracts_the_mean,
    "loses digits": _loses_digits,
}


@pytest.mark.parametrize("rule", UNSOUND.values(), ids=list(UNSOUND))
def test_rules_that_break_the_contract_are_found_out(rule: Rule) -> None:
    torch.manual_seed(2)
    layer, given = nn.Linear(5, 3), torch.randn(ROWS, 4, 5) + 1.0
    check(lambda *of: Kept(_written_out(*of)), layer, given)  # the same, without a fault
    with pytest.raises(AssertionError):
        check(rule, layer, given)


def test_an_embedding_that_counts_padding_is_found_out() -> None:
    def counting(layer: nn.Embedding, given: Tensor, errors: Tensor) -> Share:
        plain = nn.Embedding(layer.num_embeddings, layer.embedding_dim)
        return EmbeddingShare(plain, given, errors)

    torch.manual_seed(3)
    with pytest.raises(AssertionError):
        check(counting, nn.Embedding(3, 4, padding_idx=1), torch.randint(3, (ROWS, 5)))
