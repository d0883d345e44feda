"""Noise and masks: the law, the tails, and that no number serves twice."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

torch = pytest.importorskip("torch")

from mustdp.randomness.keys import batch_key  # noqa: E402
from mustdp.training.networks.randomness import Masks, Noise, Normal  # noqa: E402
from mustdp.training.networks.records import rounded_up  # noqa: E402


def drawn(seed: int, size: int, deviation: float = 1.0) -> NDArray[np.float64]:
    generator = np.random.default_rng(seed)
    found = Normal().draw(generator, size, deviation, torch.float32)
    return np.asarray(found.double().numpy())


def test_the_noise_is_normal_and_a_wrong_law_nearby_is_not() -> None:
    sample = drawn(1, 400_001)
    assert sample.size == 400_001
    # Level 1e-3 each; a deviation 2 % off is rejected at the same level.
    assert stats.kstest(sample, "norm").pvalue > 1e-3
    assert stats.kstest(sample * 1.02, "norm").pvalue < 1e-3
    assert stats.kstest(drawn(2, 400_000, 3.0) / 3.0, "norm").pvalue > 1e-3
    beyond = int((np.abs(sample) > 4.0).sum())
    expected = sample.size * 2 * stats.norm.sf(4.0)
    assert stats.poisson.cdf(beyond, expected) > 1e-3
    assert stats.poisson.sf(beyond - 1, expected) > 1e-3


def test_both_halves_of_a_draw_are_independent() -> None:
    sample = drawn(3, 400_000)
    first, second = sample[:200_000], sample[200_000:]
    for one, other in ((first, second), (first**2, second**2), (sample[:-1], sample[1:])):
        assert abs(np.corrcoef(one, other)[0, 1]) < 4.5 / np.sqrt(one.size)


def test_the_tails_go_beyond_those_of_float32() -> None:
    class Smallest:
        """The extreme that 53 bits can take."""

        def random(self, out: NDArray[np.float64]) -> None:
            out[:] = 1.0 - 2.0**-53

    extreme: Any = Smallest()
    found = Normal().draw(extreme, 1, 1.0, torch.float64)
    assert float(found.abs().max()) == pytest.approx(8.57, abs=0.01)


def test_noise_belongs_to_its_key_and_step() -> None:
    def noise(key: int, step: int) -> list[float]:
        sums = [torch.zeros(3), torch.zeros(2, 2)]
        Noise(key).add(step, sums, 2.0)
        return [float(x) for part in sums for x in part.flatten()]

    assert noise(1, 0) == noise(1, 0)
    everything = [*noise(1, 0), *noise(1, 1), *noise(2, 0), *noise(2**128 - 1, 0)]
    assert len(set(everything)) == len(everything)


def test_masks_belong_to_their_step_and_process() -> None:
    cpu = torch.device("cpu")

    def mask(key: int, step: int, rank: int = 0) -> list[float]:
        with Masks(batch_key(key), cpu, rank)(step):
            return [float(x) for x in torch.rand(3)]

    assert mask(1, 0) == mask(1, 0)
    different = [*mask(1, 0), *mask(1, 1), *mask(2, 0), *mask(1, 0, 1)]
    assert len(set(different)) == len(different)


def test_rows_are_filled_up_with_records_that_do_not_count() -> None:
    indices, counts = np.arange(300), np.full(300, 2)
    filled, weights = rounded_up(indices, counts, 1000)
    assert len(filled) == len(weights) == 384
    assert weights.sum() == 600
    assert (weights[300:] == 0).all()
    for same in (rounded_up(indices, counts, 350), rounded_up(indices[:100], counts[:100], 1000)):
        assert len(same[0]) in (300, 100)
