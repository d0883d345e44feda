"""The clipped sum equals brute force, one record at a time, whatever the batch."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mustdp as md
from mustdp.training.linear import descent as clipping
from mustdp.training.linear.descent import LinearRecords
from tests.training.linear.brute_force import clipped_sum
from tests.training.linear.problems import KINDS, batch_of, loss_of, records_of, targets_of


def short(values: Any) -> Any:
    """Values of few digits, which lie on the grid of the weights already."""
    return np.rint(values * 2.0**12) / 2.0**12


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("scheme", [md.must_ow(30, 8, 20), md.wor(30, 12), md.poisson(30, 0.4)])
def test_brute_force(kind: str, fit_intercept: bool, scheme: md.types.Scheme) -> None:
    rng = np.random.default_rng(5)
    records = records_of(kind, 30, 3, rng, fit_intercept)
    weights = short(rng.normal(size=(records.loss.outputs, records.width)))
    batch = scheme.draw(rng)
    for clip in (0.05, 1.0, 100.0):
        ours, _ = records.clipped_sum(weights, batch, clip)
        slow = clipped_sum(kind, weights, records.rows, records.targets, batch, clip, fit_intercept)
        np.testing.assert_allclose(ours, slow, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_the_gradient_is_that_of_the_loss(kind: str) -> None:
    """Without clipping, the sum is the derivative of the loss that is reported."""
    rng = np.random.default_rng(6)
    records = records_of(kind, 20, 3, rng)
    weights = short(rng.normal(size=(records.loss.outputs, records.width)))
    batch, step = md.must_ow(20, 6, 15).draw(rng), 2.0**-20
    gradient, _ = records.clipped_sum(weights, batch, 1e9)
    for place in np.ndindex(*weights.shape):
        ahead, behind = weights.copy(), weights.copy()
        ahead[place] += step
        behind[place] -= step
        losses = [records.clipped_sum(w, batch, 1e9)[1] for w in (ahead, behind)]
        slope = (losses[0] - losses[1]) / (2 * step) * batch.size
        assert gradient[place] == pytest.approx(slope, rel=1e-6, abs=1e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_copies_weigh_as_often_as_they_were_drawn(kind: str) -> None:
    rng = np.random.default_rng(7)
    records = records_of(kind, 5, 2, rng)
    weights = rng.normal(size=(records.loss.outputs, 3))
    once, _ = records.clipped_sum(weights, batch_of(r3=1), 1.0)
    often, _ = records.clipped_sum(weights, batch_of(r3=7), 1.0)
    np.testing.assert_allclose(often, 7 * once, rtol=1e-14)
    assert np.linalg.norm(once) <= 1.0


@pytest.mark.parametrize("kind", KINDS)
def test_an_empty_batch_adds_nothing(kind: str) -> None:
    records = records_of(kind, 5, 2, np.random.default_rng(8))
    weights = np.ones((records.loss.outputs, 3))
    total, loss = records.clipped_sum(weights, batch_of(), 1.0)
    assert not total.any()
    assert total.shape == weights.shape
    assert np.isnan(loss)


@pytest.mark.parametrize("kind", KINDS)
def test_blocks_and_slices_change_nothing(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(9)
    rows, targets = rng.normal(size=(500, 4)), targets_of(kind, 500, rng)
    whole = LinearRecords(rows, targets, loss_of(kind), True)
    weights, batch = rng.normal(size=(whole.loss.outputs, 5)), md.wr(500, 400).draw(rng)
    monkeypatch.setattr(clipping, "_BLOCK", 1)
    monkeypatch.setattr(clipping, "_SLICE", 1)
    monkeypatch.setattr(clipping, "_FEWEST_ROWS", 7)
    pieces = LinearRecords(rows, targets, loss_of(kind), True)
    ours, our_loss = pieces.clipped_sum(weights, batch, 1.0)
    same, same_loss = whole.clipped_sum(weights, batch, 1.0)
    np.testing.assert_allclose(ours, same, rtol=1e-12, atol=1e-12)
    assert our_loss == pytest.approx(same_loss, rel=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_single_precision_is_close(kind: str) -> None:
    rng = np.random.default_rng(10)
    rows, targets = rng.normal(size=(60, 4)).astype(np.float32), targets_of(kind, 60, rng)
    double = LinearRecords(rows.astype(np.float64), targets, loss_of(kind), True)
    single = LinearRecords(rows, targets, loss_of(kind), True)
    weights, batch = rng.normal(size=(double.loss.outputs, 5)), md.wr(60, 40).draw(rng)
    ours, same = (r.clipped_sum(weights, batch, 1.0)[0] for r in (single, double))
    np.testing.assert_allclose(ours, same, rtol=1e-4, atol=1e-4)


def check_bounded(
    x: list[float], y: float, clip: float, precision: type, fit_intercept: bool
) -> None:
    """One record, whose gradient is clipped on its way into the sum."""
    rows = np.array([x], dtype=np.float64)
    if precision is np.float32:
        rows = np.clip(rows, -3e38, 3e38).astype(np.float32)
    records = LinearRecords(rows, np.array([y]), loss_of("squared"), fit_intercept)
    weights = np.array([[1.0, -2.0, 0.5]])[:, : records.width]
    with np.errstate(all="ignore"):
        total, _ = records.clipped_sum(weights, batch_of(r0=1), clip)
    assert math.hypot(*total[0]) <= clip


ANY = st.floats(allow_nan=False, allow_infinity=False)


@settings(max_examples=300, deadline=None)
@given(
    st.lists(ANY, min_size=2, max_size=2),
    ANY,
    st.floats(1e-30, 1e9),
    st.sampled_from([np.float64, np.float32]),
    st.booleans(),
)
def test_no_record_moves_the_sum_by_more_than_clip(
    x: list[float], y: float, clip: float, precision: type, fit_intercept: bool
) -> None:
    """Whatever finite values a record holds, overflow and underflow on the way included."""
    check_bounded(x, y, clip, precision, fit_intercept)


@pytest.mark.parametrize("x", [1e-170, 1e-320, 1e-40, 1e170, 1e308])
@pytest.mark.parametrize("y", [1e-320, 1e-170, 1.0, 1e170, 1e308])
@pytest.mark.parametrize("precision", [np.float64, np.float32])
def test_extreme_records(x: float, y: float, precision: type) -> None:
    check_bounded([x, 0.0], y, 1e-3, precision, False)
