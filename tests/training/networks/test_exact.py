"""No record contributes more than the clip, and no sum is off by more than E, in exact arithmetic.

Every contribution, weight and sum is a floating-point number and so a rational one: the checks
here are done without any rounding.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

torch = pytest.importorskip("torch")

import mustdp as md
from mustdp.errors import NumericalFailure
from mustdp.training.networks import layers as rounding
from mustdp.training.networks.clipping import (
    Workload,
    bound_for,
)
from mustdp.training.networks.layers import (
    Dense,
    Kept,
    linear,
)
from mustdp.training.networks.rules import weights_for
from mustdp.types import Batch
from tests.training.networks import exact, runs
from tests.training.networks.exact import Known, random


def check(known: Known, clip: float, counts: Any) -> None:
    """A weight for every record whose gradient is finite; then the sum."""
    share, contributions = known
    rows = len(contributions)
    workload = Workload(int(counts.sum()), share.terms, 1, max(1, len(contributions[0])))
    bound = bound_for(clip, clip, workload)
    sizes = share.sizes()
    if not bool(torch.isfinite(sizes.squares + sizes.absolute).all()):
        return  # refused
    weights = weights_for(sizes, bound.inner, bound.cancellation)
    assert bool(((weights >= 0) & (weights <= 1)).all())
    inner, total = Fraction(bound.inner), [Fraction(0)] * len(contributions[0])
    for record in range(rows):
        w = Fraction(float(weights[record]))
        assert w * w * exact.square(contributions[record]) <= inner * inner
        scaled = w * int(counts[record])
        total = [x + scaled * g for x, g in zip(total, contributions[record], strict=True)]
    found = exact.flat(share.weighted(weights * counts))
    gap = exact.square([x - y for x, y in zip(found, total, strict=True)])
    assert gap <= Fraction(bound.error) ** 2
    step = Fraction(bound.step)
    on_lattice = [round(x / step) * step for x in found]
    gap = exact.square([x - y for x, y in zip(on_lattice, total, strict=True)])
    assert gap <= Fraction(bound.error) ** 2
    assert 2 * (inner + Fraction(bound.error)) <= 2 * Fraction(clip)
    assert inner + 2 * Fraction(bound.error) <= Fraction(clip)


def shares(generator: Any, spoil: Any) -> list[Known]:
    """One of every kind, with repeated places; ``spoil`` changes inputs and errors."""

    def make(*shape: int) -> Any:
        return spoil(random(generator, *shape))

    entries = torch.randint(4, (3, 5), generator=generator)
    found = [
        exact.dense(make(4, 1, 6), make(4, 1, 3), True),
        exact.dense(make(3, 2, 9), make(3, 2, 8), True),
        exact.dense(make(3, 4, 5), make(3, 4, 5), False),
        exact.linear_as_chosen(make(3, 6, 2), make(3, 6, 3)),
        exact.patches(make(3, 2, 3, 2), 8, 1, lambda shape: make(*shape)),
        exact.patches(make(2, 4, 2, 2), 4, 2, lambda shape: make(*shape)),
        exact.patches(make(2, 1, 5, 5), 2, 1, lambda shape: make(*shape)),
        exact.table(entries, make(3, 5, 2), 4),
        exact.tied(entries, make(3, 5, 6), make(3, 5, 6), make(3, 5, 4), True),
        exact.tied(entries[:, :1], make(3, 1, 6), make(3, 1, 6), make(3, 1, 4), False),
        exact.kept(Kept({"long": make(2, 1100)})),
        exact.dense(make(2, 1, 1100), make(2, 1, 2), True),
    ]
    inputs = make(3, 4, 5)
    if bool(torch.isfinite(inputs).all()):
        found += exact.norms(inputs, make(3, 4, 5))
    return found


@pytest.mark.parametrize("clip", [1e-30, 1e-6, 0.3, 1.0, 1e30])
@pytest.mark.parametrize("seed", range(3))
def test_no_contribution_exceeds_the_clip(seed: int, clip: float) -> None:
    generator = torch.Generator().manual_seed(seed)
    for known in shares(generator, lambda x: x):
        check(known, clip, torch.randint(1, 4, (len(known[1]),), generator=generator).double())


def test_sums_over_several_parts_of_a_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    """More rows than are lengthened at a time, weight and bias in the same pass."""
    monkeypatch.setattr(rounding, "_CONVERTED_ON_CPU", 1)
    generator = torch.Generator().manual_seed(11)
    known = exact.dense(random(generator, 150, 1, 3), random(generator, 150, 1, 2), True)
    check(known, 0.3, torch.randint(1, 4, (150,), generator=generator).double())


@pytest.mark.parametrize("tiny", [1e-3, 1e-5, 1e-7, 0.0])
def test_places_that_nearly_cancel(tiny: float) -> None:
    """The second place undoes the first but for a trifle, so that norms are small differences."""
    generator = torch.Generator().manual_seed(7)

    def cancelling(x: Any) -> Any:
        if x.ndim == 3 and x.shape[1] % 2 == 0:
            half = x[:, ::2]
            sign = -1.0 if x.shape[2] in (3, 8) else 1.0
            x = torch.stack([half, sign * half * (1 + tiny)], 2).flatten(1, 2)
        return x

    for known in shares(generator, cancelling):
        check(known, 1e-4, torch.ones(len(known[1]), dtype=torch.float64))


@pytest.mark.parametrize("seed", range(8))
def test_the_rounding_of_gram_matrices_is_added_on(seed: int) -> None:
    """Without a bias, whose norm has a margin of its own; half of the seeds need the term."""
    generator = torch.Generator().manual_seed(seed)
    a, d = random(generator, 2, 1, 12), random(generator, 2, 1, 11)
    a, d = torch.cat([a, a * (1 + 2.0**-8)], 1), torch.cat([d, -d], 1)
    check(exact.dense(a, d, False), 1e-4, torch.ones(2, dtype=torch.float64))


def cancelling(seed: int) -> Known:
    """A table whose errors undo, but for their last bits, what the linear layer contributes."""
    generator = torch.Generator().manual_seed(seed)
    given = random(generator, 3, 1, 7)
    errors = torch.zeros(3, 1, 5)
    errors[:, 0, 2] = random(generator, 3)
    below = -given * errors[:, :, 2:3]
    return exact.tied(torch.full((3, 1), 2), below, given, errors, bias=False)


def test_tied_weights_that_undo_each_other() -> None:
    for seed in range(20):
        check(cancelling(seed), 1e-4, torch.ones(3, dtype=torch.float64))


def test_the_rounding_of_tied_weights_is_added_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """With squares that are as close as double precision has them, the term is what is left."""
    monkeypatch.setattr(rounding, "row_squares", lambda x: x.double().square().sum(-1))
    monkeypatch.setattr(rounding, "upward", lambda _: 1.0)

    def too_short() -> int:
        known = [cancelling(seed) for seed in range(20)]
        return sum(
            Fraction(float(found)) < exact.square(true)
            for share, contributions in known
            for found, true in zip(share.sizes().squares, contributions, strict=True)
        )

    assert too_short() == 0
    monkeypatch.setattr(rounding, "gamma", lambda _: 0.0)
    assert too_short() > 0


def test_a_step_beyond_what_the_bound_was_derived_for_is_refused() -> None:
    bound = bound_for(1.0, 1.0, Workload(copies=10, terms=40, pieces=2, parameters=5))
    bound.check(40, 2)
    bound.check_size(10)
    for terms, pieces in ((41, 2), (40, 3)):
        with pytest.raises(NumericalFailure, match="larger than the bound"):
            bound.check(terms, pieces)
    with pytest.raises(NumericalFailure, match="more than the 10 records"):
        bound.check_size(11)


MAGNITUDES = st.sampled_from([1e-45, 1e-38, 1e-30, 1e-20, 1e-9, 1.0, 1e9, 1e20, 1e30, 3e38])
ODD = st.sampled_from([0.0, 1.0, float("nan"), float("inf")])


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**31),
    records=st.integers(1, 3),
    places=st.integers(1, 4),
    p=st.integers(1, 6),
    q=st.integers(1, 6),
    sizes=st.tuples(MAGNITUDES, MAGNITUDES),
    clip=st.sampled_from([1e-30, 1e-12, 1.0, 1e12, 1e30]),
    odd=st.tuples(ODD, ODD),
)
def test_refused_or_within_the_bound(
    seed: int, records: int, places: int, p: int, q: int,
    sizes: tuple[float, float], clip: float, odd: tuple[float, float],
) -> None:  # fmt: skip
    generator = torch.Generator().manual_seed(seed)
    a = (random(generator, records, places, p).double() * sizes[0]).float()
    d = (random(generator, records, places, q).double() * sizes[1]).float()
    a[0, 0, 0] *= odd[0]
    d[-1, -1, -1] *= odd[1]
    counts = torch.randint(1, 5, (records,), generator=generator).double()
    finite = bool(torch.isfinite(a).all()) and bool(torch.isfinite(d).all())
    layer = torch.nn.Linear(p, q)
    if not finite or not bool(torch.isfinite(d.sum(1)).all()):
        share = Dense(layer, a, d)
        found = share.sizes()
        assert not bool(torch.isfinite(found.squares + found.absolute).all())
        return
    check(exact.dense(a, d, True), clip, counts)
    chosen = linear(layer, a, d)
    if all(bool(torch.isfinite(g).all()) for g in chosen.each().values()):
        check(exact.linear_as_chosen(a, d), clip, counts)


def test_a_batch_beyond_what_the_bound_was_derived_for_is_not_released(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A scheme that drew more copies than it states: their rounding would not be covered."""
    run: Any = runs.trainer(budget=runs.budget(scheme=md.wor(runs.N, 20)))
    before = runs.weights(run.model).clone()
    too_many = Batch(np.arange(20), np.array([2, *[1] * 19]))
    monkeypatch.setattr(type(run._batches), "batch", lambda *_: too_many)
    with pytest.raises(NumericalFailure, match="more than the 20 records"):
        run.train(1)
    assert run.steps == 0
    assert torch.equal(runs.weights(run.model), before)
