"""The compiled pass gives the noise of ``exact.py``, bit for bit, and hands over what is close."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from mustdp.noise import fused
from mustdp.noise.exact import GAUSSIAN, exact_noise, normal_tail, rounded
from mustdp.randomness.keys import NoiseSource


def kernel() -> Any:
    """Compiled where numba is installed; the same statements by the interpreter elsewhere."""
    return fused._kernel() if fused.is_available() else fused._release


@pytest.fixture(autouse=True)
def without_numba(monkeypatch: pytest.MonkeyPatch) -> None:
    found = kernel()
    monkeypatch.setattr(fused, "_kernel", lambda: found)


COUNT = 3_000_000 if fused.is_available() else 30_000


@pytest.mark.filterwarnings("ignore:overflow")
@pytest.mark.parametrize("ratio", [2.0**-10, 0.3, 77.0, 2.0**24, 1.3 * 2.0**25, 2.0**31])
def test_the_same_integers_from_the_same_words(ratio: float) -> None:
    assert fused.fits(ratio)
    step, rng = 2.0**-5, np.random.default_rng(2)
    sums = rng.normal(size=COUNT) * 100.0
    parts, found = np.split(sums, [COUNT // 3]), np.split(np.empty(COUNT, np.float32), [COUNT // 3])
    fused.release(parts, step, ratio, NoiseSource(5), found, 7.0, 1.5)
    noise = exact_noise(GAUSSIAN, ratio, COUNT, NoiseSource(5))
    whole = np.rint(sums / step).astype(np.int64) + noise
    expected = (whole * (step / 7.0 * 1.5)).astype(np.float32)
    assert np.array_equal(np.concatenate(found), expected)


def test_sums_in_single_precision_are_released_in_their_own_place() -> None:
    """Values that the table leaves in doubt are still there when they are decided."""
    step, rng = 2.0**-20, np.random.default_rng(3)
    sums = (rng.normal(size=COUNT) * 100.0).astype(np.float32)
    noise = exact_noise(GAUSSIAN, 2.0**31, COUNT, NoiseSource(6))
    whole = np.rint(sums.astype(np.float64) / step).astype(np.int64) + noise
    expected = (whole * (step / 7.0)).astype(np.float32)
    fused.release([sums], step, 2.0**31, NoiseSource(6), [sums], 7.0)
    assert np.array_equal(sums, expected)


def test_the_table_against_enclosures() -> None:
    """At random points of random cells, a size is within an eighth of the margin."""
    rng, table = np.random.default_rng(1), fused._table()
    for cell in rng.integers(len(table), size=60):
        width = 2.0 ** (np.frexp(table[cell, 0])[1] - 1 - fused._CELL_BITS)
        moved = (rng.random() - 0.5) * width
        v = Fraction(float(table[cell, 0])) + Fraction(float(moved))
        size = float(np.polynomial.polynomial.polyval(moved, table[cell, 1:]))
        allowed = Fraction(fused.MARGIN) / 8
        beyond = Fraction(normal_tail(Fraction(size) + allowed, 160)[1], 2**160)
        before = Fraction(normal_tail(max(Fraction(0), Fraction(size) - allowed), 160)[0], 2**160)
        assert beyond <= v
        assert v <= before or Fraction(size) <= allowed


def test_what_is_close_to_a_boundary_is_handed_over() -> None:
    """Words whose size lies next to a half, on both sides: none is decided by the table."""
    ratio, words = 1000.0, []
    for k in (0, 1, 500, 1234, 2999, 3500):
        boundary = Fraction(2 * k + 1, 2000)
        at = normal_tail(boundary, 63)[0]
        words += [at + step for step in (-3, -1, 0, 1, 2, 3)]
    given = np.array(words, dtype=np.uint64)
    doubtful = np.empty(len(given), dtype=np.int64)
    sums, out = np.zeros(len(given)), np.zeros(len(given), dtype=np.float32)
    count = kernel()(given, sums, out, 1.0, 1.0, fused._table(), ratio, doubtful)
    assert count == len(given)
    # The slower way leaves some of them undecided too: both draw more words for the same ones.
    assert len(rounded(GAUSSIAN, given, ratio)[1]) > 0


def test_a_wrong_table_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    fused.is_available.cache_clear()
    wrong = fused._table().copy()
    wrong[100, 1] += 2.0**-42
    monkeypatch.setattr(fused, "_table", lambda: wrong)
    fused._is_good.cache_clear()
    assert not fused._is_good()
    assert not fused.is_available()
    monkeypatch.undo()
    fused.is_available.cache_clear()
    fused._is_good.cache_clear()
    assert fused._is_good()


def test_a_numba_that_does_not_work_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails() -> Any:
        raise ImportError("no compiler")

    fused.is_available.cache_clear()
    monkeypatch.setattr(fused, "find_spec", lambda name: name)
    monkeypatch.setattr(fused, "_kernel", fails)
    assert not fused.is_available()
    fused.is_available.cache_clear()


def test_the_largest_and_smallest_words() -> None:
    words = np.array([0, 1, 2**63 - 1, 2**63, 2**63 + 1, 2**64 - 1], dtype=np.uint64)
    out, doubtful = np.zeros(6, dtype=np.float32), np.empty(6, dtype=np.int64)
    count = kernel()(words, np.zeros(6), out, 1.0, 1.0, fused._table(), 1e6, doubtful)
    expected, undecided = rounded(GAUSSIAN, words, 1e6)
    decided = np.setdiff1d(np.arange(6), doubtful[:count])
    assert np.array_equal(out[decided], expected[decided])
    assert set(undecided) <= set(doubtful[:count])
