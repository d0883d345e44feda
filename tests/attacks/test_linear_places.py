"""Does a record's place in the batch decide what it contributes to a linear model?

Matrix products give the last rows of a block other last bits. Records whose terms cancel, with
targets between the two values, then have a residual of another sign, and a clipped gradient that
points the other way: a record of zeros before them, which contributes nothing, moved them all.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

pytest.importorskip("sklearn")

import mustdp as md
from mustdp.training.linear import descent as clipping
from mustdp.training.linear import descent as perturbing
from mustdp.training.linear.descent import (
    LinearRecords,
    LogisticLoss,
    Loss,
    MultinomialLoss,
    SquaredError,
)

D, START = 784, 0.1
#: Rows that were multiplied at once, and how many such blocks there are.
BLOCK, BLOCKS = 250, 4
LOSSES: dict[str, Loss] = {
    "squared": SquaredError(),
    "logistic": LogisticLoss(),
    "few classes": MultinomialLoss(4),
    "many classes": MultinomialLoss(40),
}


def crafted(places: list[int]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Rows of zeros, but for records at ``places`` of each block whose residual hangs on a bit."""
    x = np.random.default_rng(1).normal(size=D)
    x = (x - x.mean()) * 1e20
    rows, targets = np.zeros((BLOCK * BLOCKS, D)), np.zeros(BLOCK * BLOCKS)
    scores = np.repeat(x[None], BLOCK, axis=0) @ np.full((D, 1), START)
    for block in range(BLOCKS):
        for place in places:
            rows[block * BLOCK + place] = x
            targets[block * BLOCK + place] = 0.5 * (scores[0, 0] + scores[place, 0])
    return rows, targets


@pytest.fixture
def without_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    def exact(total: Any, noise: Any, source: Any) -> NDArray[np.float64]:
        points: NDArray[np.float64] = noise.lattice.points(total)
        return points

    monkeypatch.setattr(perturbing, "release", exact)


def released_sum(rows: NDArray[np.float64], targets: NDArray[np.float64]) -> NDArray[np.float64]:
    """What noise would be added to in the first step of a certified run."""
    n = BLOCK * BLOCKS
    model = md.DPLinearRegression(
        scheme=md.random_allocation(n, 1), steps=1, max_grad_norm=1.0, noise_multiplier=20.0,
        delta=1e-6, learning_rate=float(n), start=START, fit_intercept=False,
    ).fit(rows, targets)  # fmt: skip
    assert model.privacy_.certified
    assert model.privacy_.epsilon.upper < 0.25
    # The rate over the batch size is one: the weights have moved by the sum.
    moved: NDArray[np.float64] = START - model.coef_
    return moved


@pytest.mark.usefixtures("without_noise")
@pytest.mark.parametrize("places", [[BLOCK - 1], [BLOCK - 2, BLOCK - 1], [0, 1, BLOCK - 1]])
def test_a_record_of_zeros_moves_no_other(places: list[int]) -> None:
    """It moved a sum by twice the number of blocks, where 1 was charged."""
    rows, targets = crafted(places)
    with_zeros = np.vstack([np.zeros((1, D)), rows]), np.append(0.0, targets)
    moved = np.linalg.norm(released_sum(*with_zeros) - released_sum(rows, targets))
    assert moved <= 0.01  # twice the slack for rounding at most


@pytest.mark.usefixtures("without_noise")
def test_the_order_of_the_records_is_not_seen() -> None:
    rows, targets = crafted([BLOCK - 1])
    order = np.random.default_rng(2).permutation(len(rows))
    moved = np.linalg.norm(released_sum(rows[order], targets[order]) - released_sum(rows, targets))
    assert moved <= 0.01  # twice the slack for rounding at most


def contributions(
    records: LinearRecords,
    batch: md.types.Batch,
    weights: NDArray[np.float64],
    monkeypatch: pytest.MonkeyPatch,
) -> NDArray[np.float64]:
    """What each record's row is weighted with, (K, distinct records)."""
    found: list[NDArray[np.float64]] = []
    clip = clipping.clip_gradient

    def kept(gradient: NDArray[np.float64], *given: Any) -> None:
        clip(gradient, *given)
        found.append(gradient.copy())

    with monkeypatch.context() as patched, np.errstate(all="ignore"):
        patched.setattr(clipping, "clip_gradient", kept)
        records.clipped_sum(weights, batch, 1.0)
    return np.concatenate(found, axis=1)


def cancelling(
    kind: str, n: int, d: int, rng: np.random.Generator
) -> tuple[NDArray[np.float64], Any, NDArray[np.float64]]:
    """Records of all sizes, most of whose scores cancel to the last bits."""
    loss = LOSSES[kind]
    weights = rng.normal(size=(loss.outputs, d + 1)) * 10.0 ** rng.uniform(-2, 2)
    rows = rng.normal(size=(n, d)) * 10.0 ** rng.uniform(-20, 20, (n, 1))
    rows -= (rows @ weights[0, :d] / np.sum(weights[0, :d] ** 2))[:, None] * weights[0, :d]
    rows[::7] = 0.0
    targets = np.zeros(n) if kind == "squared" else rng.integers(0, 2, n)
    return rows, targets, weights


@pytest.mark.parametrize("kind", LOSSES)
@pytest.mark.parametrize("d", [1, 5, 64, 301])
@pytest.mark.parametrize("single", [False, True])
def test_contributions_are_the_same_bits_at_every_place(
    kind: str, d: int, single: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In batches of 1 to 70 records, in blocks of several sizes, and in any order."""
    n = 70
    rng = np.random.default_rng(d)
    rows, targets, weights = cancelling(kind, n, d, rng)
    if single:
        rows = rows.astype(np.float32)
    records = LinearRecords(rows, targets, LOSSES[kind], True)

    def found(indices: Any) -> NDArray[np.float64]:
        indices = np.asarray(indices)
        batch = md.types.Batch(indices, np.ones(len(indices), dtype=np.int64))
        return contributions(records, batch, weights, monkeypatch)

    alone = np.concatenate([found([record]) for record in range(n)], axis=1)
    assert np.isfinite(alone).all()
    for size in range(1, n + 1):
        assert np.array_equal(found(np.arange(size)), alone[:, :size])
        order = rng.permutation(n)[:size]
        assert np.array_equal(found(order), alone[:, order])
    for fewest in (3, 17):
        monkeypatch.setattr(clipping, "_BLOCK", 1)
        monkeypatch.setattr(clipping, "_SLICE", 1)
        monkeypatch.setattr(clipping, "_FEWEST_ROWS", fewest)
        records = LinearRecords(rows, targets, LOSSES[kind], True)
        assert np.array_equal(found(np.arange(n)), alone)


@pytest.mark.parametrize("d", [1, 2, 5, 64, 301])
def test_rows_and_norms_depend_on_the_row_alone(d: int) -> None:
    """Under add-remove the number of rows is private: it must not change a norm's last bit."""
    rows, targets, _ = cancelling("squared", 70, d, np.random.default_rng(d))
    loss = SquaredError()
    whole = LinearRecords(rows, targets, loss, True)
    for begin in range(70):
        for end in (begin + 1, 70):
            part = LinearRecords(rows[begin:end], targets[begin:end], loss, True)
            assert np.array_equal(part.rows, whole.rows[begin:end])
            assert np.array_equal(part.norms, whole.norms[begin:end])


@pytest.mark.parametrize("kind", LOSSES)
def test_routines_that_treat_the_last_entries_differently_change_nothing(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A numpy whose ``exp`` is off at the last place, as with another routine there."""
    rows, targets, weights = cancelling(kind, 30, 5, np.random.default_rng(3))
    # So short that none is clipped, which would hide the error.
    rows *= 0.1 / np.maximum(np.abs(rows).max(axis=1, keepdims=True), 1e-30)
    weights /= np.abs(weights).max()
    records = LinearRecords(rows, targets, LOSSES[kind], True)
    batch = md.types.Batch(np.arange(30), np.ones(30, dtype=np.int64))
    straight = contributions(records, batch, weights, monkeypatch)

    def crooked(routine: Any) -> Any:
        def off(values: Any, *given: Any, **named: Any) -> Any:
            found = routine(values, *given, **named)
            found[..., -1] *= 1.0 + 2.0**-40
            return found

        return off

    for name in ("exp", "expm1", "exp2", "tanh", "log", "log1p"):
        monkeypatch.setattr(np, name, crooked(getattr(np, name)))
    assert np.array_equal(contributions(records, batch, weights, monkeypatch), straight)


def test_a_product_that_is_not_exact_is_found_before_the_first_step(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(np, "einsum", lambda text, *given: np.sum(given[0] * 1.000001, axis=1))

    def step(number: int) -> None:
        raise AssertionError("a step was made")

    model = md.DPLinearRegression(m=5, noise_multiplier=3.0, delta=1e-4, on_step=step)
    with pytest.raises(md.NumericalFailure, match="not exact"):
        model.fit(np.ones((20, 3)), np.ones(20))
