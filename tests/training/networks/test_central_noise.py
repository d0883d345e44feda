"""Noise whose centre comes from ``erfinv`` is the exact noise, word for word."""

from __future__ import annotations

import math
from typing import Any

import mpmath
import numpy as np
import pytest

torch = pytest.importorskip("torch")

from mustdp.noise.exact import (
    ARITHMETIC,
    GAUSSIAN,
    exact_noise,
)
from mustdp.randomness.keys import NoiseSource
from mustdp.training.networks import noise


class Words:
    """A source that gives chosen words."""

    def __init__(self, words: Any) -> None:
        self._words, self._at = words.view(np.uint64), 0

    def words(self, count: int) -> Any:
        found = self._words[self._at : self._at + count]
        self._at += count
        return found


@pytest.mark.parametrize("ratio", [0.3, 3.7, 1e3, 2.0**24 * 1.3, 2.0**32])
@pytest.mark.parametrize("count", [0, 1, 100_000])
def test_the_same_words_give_the_same_noise(ratio: float, count: int) -> None:
    assert noise.erfinv_is_good()
    expected = exact_noise(GAUSSIAN, ratio, count, NoiseSource(5))
    assert np.array_equal(noise.central_noise(ratio, count, NoiseSource(5)).numpy(), expected)


def extreme() -> Any:
    """Both ends of the words, both ends of the centre, and some in between."""
    edge = round(2**63 * math.erfc(noise.WITHIN / math.sqrt(2.0)))
    near = [sign * (edge + k * 2**40) for sign in (1, -1) for k in range(-50, 51)]
    ends = [0, -1, 1, -2, 2**63 - 1, -(2**63), -(2**63) + 1, 2**20, 2**62]
    rng = np.random.default_rng(3)
    rest = rng.integers(-(2**63), 2**63, size=50_000, dtype=np.int64)
    more = rng.integers(-(2**63), 2**63, size=1000, dtype=np.int64)  # for what is undecided
    return np.concatenate([np.array([*ends, *near], dtype=np.int64), rest]), more


@pytest.mark.parametrize("ratio", [17.3, 2.0**24 * 1.3, 2.0**32])
def test_extreme_words(ratio: float) -> None:
    words, more = extreme()
    both = np.concatenate([words, more])
    source, other = Words(both), Words(both)
    expected = exact_noise(GAUSSIAN, ratio, len(words), source)  # type: ignore[arg-type]
    found = noise.central_noise(ratio, len(words), other)  # type: ignore[arg-type]
    assert np.array_equal(found.numpy(), expected)


def test_the_margin_covers_every_continuation_of_a_word() -> None:
    """Sizes in 50 digits at both ends of what begins with a word; a tenth would not do."""
    rng = np.random.default_rng(11)
    tails = np.geomspace(math.erfc(noise.WITHIN / math.sqrt(2.0)), 1.0, 300)
    leading = [min(int(2**63 * t) + int(k), 2**63 - 1) for t, k in zip(
        tails, rng.integers(0, 2**20, 300), strict=True)]  # fmt: skip
    words = np.array(leading + [-m - 1 for m in leading], dtype=np.int64).view(np.uint64)
    points = torch.from_numpy((words ^ noise._LOWEST_63_BITS).view(np.int64)).double()
    sizes = points.mul_(2.0**-63).erfinv_().mul_(math.sqrt(2.0)).abs().tolist()
    used = 0.0
    with mpmath.workdps(50):
        for m, size in zip([*leading, *leading], sizes, strict=True):
            for v in (mpmath.mpf(m) / 2**63, mpmath.mpf(m + 1) / 2**63):
                true = mpmath.sqrt(2) * mpmath.erfinv(1 - v)
                used = max(used, float(abs(true - size)) / noise.margin(size))
    assert used < 1.0
    assert used > 0.1


def test_the_margin_is_used_up_where_the_density_is_small() -> None:
    """Halving what 1 - V may be off by would leave less than it takes."""
    density = math.sqrt(2.0 / math.pi) * math.exp(-0.5 * noise.WITHIN**2)
    lost = (2.0**-54 + 2.0**-63) / density
    assert noise.margin(noise.WITHIN) - ARITHMETIC * noise.WITHIN >= 2.0 * lost


@pytest.mark.parametrize("wrong", [ARITHMETIC, -ARITHMETIC, math.nan])
def test_an_erfinv_that_is_worse_is_not_used(wrong: float, monkeypatch: pytest.MonkeyPatch) -> None:
    good = torch.erfinv
    try:
        noise.erfinv_is_good.cache_clear()
        monkeypatch.setattr(torch, "erfinv", lambda x: good(x) + 0.5 * wrong)
        assert not noise.erfinv_is_good()
        expected = exact_noise(GAUSSIAN, 1e3, 10, NoiseSource(5))
        assert np.array_equal(noise.central_noise(1e3, 10, NoiseSource(5)).numpy(), expected)
    finally:
        noise.erfinv_is_good.cache_clear()


def test_many_points_of_erfinv() -> None:
    """Against scipy's inverse, whose own error the tests of the noise measure."""
    t = np.rint(np.random.default_rng(2).random(10**6) * 0.9995 * 2.0**53) * 2.0**-53
    expected = -GAUSSIAN.negative_sizes((1.0 - t) / 2.0)
    found = torch.erfinv(torch.from_numpy(t)).numpy() * math.sqrt(2.0)
    assert np.all(np.abs(found - expected) <= ARITHMETIC / 4.0 * np.maximum(1.0, expected))
