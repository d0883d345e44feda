"""Blocks in single precision: their rounding stays within what is taken off the clipping norm."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import mustdp as md
from mustdp.training.networks import single_precision
from mustdp.training.networks.clipping import Bound, Workload, bound_for
from mustdp.training.networks.layers import Dense
from mustdp.training.networks.loaders import Rows
from mustdp.training.networks.single_precision import (
    blockwise_product,
    fits,
    relative_error,
    rows_of_blocks,
)
from tests.training.networks import exact
from tests.training.networks.test_attacks import clipper

nn = torch.nn
INTO, OUT, RECORDS, CLIP = 128, 64, 2000, 1.1


def bound_of(in_blocks: int, rows: int = RECORDS, parameters: int = INTO * OUT) -> Bound:
    return bound_for(CLIP, CLIP, Workload(RECORDS, rows, 1, parameters, in_blocks=in_blocks))


def moved_by_one_record(bound: Bound) -> float:
    """How far the sum moves as one record is put before others that it pushes along.

    All contribute to one entry. Most are a little more than half of the last bit of the number 1:
    added to it one by one in float32, each counts as a whole bit, and added up before it as what
    they are. One record in every block is 1, and the last of its block unless the new one comes.
    """
    layer = nn.Linear(INTO, OUT, bias=False)
    found = clipper(layer, torch.ones(8, INTO), torch.ones(8, OUT))
    values = torch.full((RECORDS,), 2.0**-24 * (1.0 + 2.0**-10))
    values[bound.block - 1 :: bound.block] = 1.0
    values[-1] = 0.0
    sums = []
    for first in ([3.0], []):
        own = torch.cat([torch.tensor(first), values])[:RECORDS]
        inputs, errors = torch.zeros(RECORDS, INTO), torch.zeros(RECORDS, OUT)
        inputs[:, 0], errors[:, 0] = 1.0, own
        piece = Rows((inputs,), errors), torch.ones(RECORDS)
        [total] = found.sum([piece], nullcontext(), bound, None, bound.block).gradients
        assert not total[1:].any()
        assert not total[:, 1:].any()
        sums.append(float(total[0, 0]))
    return sums[0] - sums[1]


def test_a_record_that_turns_the_rounding_of_all_blocks_stays_within_the_norm() -> None:
    bound, double = bound_of(RECORDS), bound_of(0)
    assert bound.block == 56
    assert moved_by_one_record(bound) <= CLIP
    # Without the margin for blocks it would not.
    unguarded = replace(bound, inner=double.inner)
    assert moved_by_one_record(unguarded) > CLIP * (1 + 2.0**-14)


def test_the_price_is_small_and_known_beforehand() -> None:
    for copies, rows in ((100, 128), (512, 128), (2000, 56), (2200, 48), (2600, 0), (60_000, 0)):
        assert rows_of_blocks(copies) == rows
        bound = bound_of(copies)
        assert bound.block == rows
        assert bound.error >= relative_error(rows) * copies * CLIP if rows else True
        assert bound.inner >= CLIP * (1.0 - 2.0**-5.9)
        assert bound.block_for(copies) == rows
        assert bound.block_for(copies + 1) == 0
    # Noise of a norm so small that underflow would count.
    tiny = bound_for(1e-25, 1e-25, Workload(100, 100, 1, 10**4, in_blocks=100))
    assert tiny.block == 0


@pytest.mark.parametrize("size", [1.0, 2.0**-20, 2.0**25])
@pytest.mark.parametrize("rows", [48, 200])
def test_sums_are_off_by_no_more_than_the_bound_in_exact_arithmetic(rows: int, size: float) -> None:
    generator = torch.Generator().manual_seed(rows)
    layer = nn.Linear(5, 3)
    inputs = torch.randn(rows, 5, generator=generator) * size
    errors = torch.randn(rows, 3, generator=generator) * torch.logspace(-6, 6, rows)[:, None]
    share = Dense(layer, inputs, errors)
    counts = torch.randint(0, 4, (rows,), generator=generator).double()
    copies = int(counts.sum())
    bound = bound_for(CLIP, CLIP, Workload(copies, rows, 1, 18, in_blocks=copies))
    sizes = share.sizes()
    weights = (bound.inner / sizes.squares.sqrt()).clamp_max(1.0) * counts
    share.block = bound.block
    found = share.weighted(weights)
    for values in found.values():
        assert values.dtype == (torch.float32 if rows <= bound.block else torch.float64)
    total = [Fraction(0)] * 18
    for w, a, d in zip(weights.tolist(), inputs.tolist(), errors.tolist(), strict=True):
        outer = [Fraction(w) * Fraction(y) * Fraction(x) for y in d for x in a]
        outer += [Fraction(w) * Fraction(y) for y in d]
        total = [t + g for t, g in zip(total, outer, strict=True)]
    entries = torch.cat([found["weight"].double().flatten(), found["bias"].double()])
    flat = [Fraction(x) for x in entries.tolist()]
    assert any(x != y for x, y in zip(flat[15:], total[15:], strict=True))
    gap = exact.square([x - y for x, y in zip(flat, total, strict=True)])
    assert 0 < gap <= Fraction(bound.error) ** 2


@pytest.mark.parametrize("spoiled", ["inputs", "errors", "weights", "tiny weights", "nan"])
def test_numbers_beyond_the_bound_are_added_up_in_double_precision(spoiled: str) -> None:
    inputs, errors = torch.ones(60, 8), torch.ones(60, 8)
    weights = torch.full((60,), 0.25, dtype=torch.float64)
    if spoiled == "inputs":
        inputs[7] = 2.0**31
    elif spoiled == "errors":
        errors[7] = 2.0**31
    elif spoiled == "nan":
        weights[7] = float("nan")
    else:
        weights[7] = 2.0**31 if spoiled == "weights" else 2.0**-61
    share = Dense(nn.Linear(8, 8, bias=False), inputs, errors)
    share.sizes()
    share.block = 64
    assert share.weighted(weights)["weight"].dtype == torch.float64
    usual = Dense(nn.Linear(8, 8, bias=False), torch.ones(60, 8), torch.ones(60, 8))
    usual.sizes()
    usual.block = 64
    found = usual.weighted(torch.ones(60, dtype=torch.float64))["weight"]
    assert found.dtype == torch.float32
    assert bool((found == 60.0).all())


def test_shorter_products_than_float32_are_not_used() -> None:
    weights = torch.ones(4, dtype=torch.float64)
    assert fits(weights, 1.0)
    before = torch.get_float32_matmul_precision()
    try:
        torch.set_float32_matmul_precision("medium")
        assert not fits(weights, 1.0)
    finally:
        torch.set_float32_matmul_precision(before)
    assert fits(weights, 1.0)


@pytest.mark.parametrize("several", [False, True])
def test_a_library_that_shortens_products_by_itself_is_found_out(
    several: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where it does so for several blocks alone."""

    def shortened(weights: Any, left: Any, right: Any, rows: int) -> Any:
        cut = left.bfloat16().float() if (len(left) > rows) == several else left
        return blockwise_product(weights, cut, right, rows)

    check = single_precision._multiplies_exactly.__wrapped__
    assert check()
    monkeypatch.setattr(single_precision, "blockwise_product", shortened)
    assert not check()


def test_blocks_are_the_same_with_and_without_numba(monkeypatch: pytest.MonkeyPatch) -> None:
    generator = torch.Generator().manual_seed(5)
    left, right = (torch.randn(300, k, generator=generator) for k in (16, 24))
    weights = torch.rand(300, generator=generator, dtype=torch.float64)
    one, alone = blockwise_product(weights, left, right, 56, alone=True)
    monkeypatch.setattr(single_precision, "_add_kernel", lambda: None)
    other, beside = blockwise_product(weights, left, right, 56, alone=True)
    assert torch.equal(one, other)
    assert torch.equal(alone, beside)


def test_a_numba_that_cannot_be_loaded_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """As one that is too old for the numpy beside it, which fails when it is imported."""

    def fails(name: str) -> Any:
        raise ImportError(f"{name} needs another numpy")

    monkeypatch.setattr(single_precision, "find_spec", lambda name: name)
    monkeypatch.setattr(single_precision, "import_module", fails)
    assert single_precision._add_kernel.__wrapped__() is None


def test_where_a_training_run_uses_blocks() -> None:
    def block(scheme: Any, model: Any, width: int) -> int:
        records = torch.randn(scheme.n, width), torch.randint(3, (scheme.n,))
        budget = md.calibrated_budget(scheme, steps=2, noise_multiplier=1.0, delta=1e-5)
        trainer = md.PrivateTrainer(
            model,
            nn.CrossEntropyLoss(reduction="none"),
            records,
            budget,
            optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
            max_grad_norm=1.0,
            progress=False,
        )
        trainer.train()
        bound: Bound = trainer._bound
        if bound.block:
            price = 2.0 * relative_error(bound.block) * bound.workload.in_blocks
            assert bound.inner < 1.0 - price
        return bound.block

    wide = nn.Sequential(nn.Linear(200, 100), nn.Tanh(), nn.Linear(100, 3))
    assert block(md.wor(3000, 100), wide, 200) == 128
    # The bound is for batches as they usually are; larger ones are added up in double precision.
    assert block(md.poisson(3000, 0.1), wide, 200) == 128
    assert block(md.wor(3000, 2900), wide, 200) == 0
    assert block(md.wor(3000, 100), nn.Linear(20, 3), 20) == 0
