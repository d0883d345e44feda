"""On a GPU: the same clipped sums and the same noise deviation; skipped where there is none."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
if not torch.cuda.is_available():
    pytest.skip("torch finds no CUDA device", allow_module_level=True)

import mustdp as md
from mustdp.noise.exact import GAUSSIAN, rounded
from mustdp.randomness.keys import NoiseSource, batch_key
from mustdp.training.networks.clipping import Clipper
from mustdp.training.networks.loaders import TrainingRecords
from mustdp.training.networks.noise import (
    Begun,
    StepNoise,
    check_device,
    random_words,
)
from mustdp.training.networks.trainer import Masks
from tests.training.networks import runs, zoo
from tests.training.networks.brute_force import (
    Case,
    bound,
    clipped_sum_one_by_one,
    relative_gap,
    trials,
)

COUNTS = [1, 3, 1, 2, 1, 1, 4, 1, 2]
GPU = torch.device("cuda", 0)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("make", [*zoo.BOOKKEEPING, *zoo.RECORD_BY_RECORD])
def test_clipped_sums(make: Callable[[], Case]) -> None:
    torch.manual_seed(0)
    case = make()
    expected = clipped_sum_one_by_one(case, COUNTS, bound(0.5).inner)
    model, loss, inputs, target = case
    model.to(GPU)
    records, masks = TrainingRecords((*inputs, target), GPU), Masks(batch_key(1), GPU)
    clipper = Clipper(
        model, loss, trials(tuple(x.to(GPU) for x in inputs), target.to(GPU)), lambda: masks(0)
    )
    counts = torch.tensor(COUNTS, dtype=torch.float64, device=GPU)
    found = clipper.sum([(records.take(np.arange(9)), counts)], masks(0), bound(0.5))
    assert relative_gap([g.cpu() for g in found.gradients], expected) < 2e-5


def test_noise() -> None:
    one, other = (torch.zeros(100_000, dtype=torch.int64, device=GPU) for _ in range(2))
    StepNoise(batch_key(), 2000.0).add(3, one)
    StepNoise(batch_key(), 2000.0).add(4, other)
    assert float(one.double().std()) == pytest.approx(2000.0, rel=0.015)
    assert abs(float(torch.dot(one.double(), other.double()))) / 4e11 < 0.015


def test_noise_that_was_begun_is_used_once() -> None:
    noise = StepNoise(batch_key(), 2000.0)
    noise.begin(3, 1000, GPU)
    one, again, other = (torch.zeros(1000, dtype=torch.int64, device=GPU) for _ in range(3))
    noise.add(3, one)
    noise.add(3, again)
    noise.begin(4, 1000, GPU)
    noise.add(5, other)
    rows = {tuple(x.tolist()) for x in (one, again, other)}
    assert len(rows) == 3


def test_more_values_in_doubt_than_are_fetched_at_once() -> None:
    words = random_words(bytes(range(32)), bytes(12), 200_000, GPU)
    for ratio in (3.0, 2.0**31 * 1.1):  # with the latter nearly all are
        expected, undecided = rounded(GAUSSIAN, words.cpu().numpy().view(np.uint64), ratio)
        found = Begun(words, ratio, NoiseSource(1)).finished().cpu().numpy()
        sure = np.setdiff1d(np.arange(len(found)), undecided)
        assert np.array_equal(found[sure], expected[sure])


def test_bits_and_integers_are_those_of_the_cpu() -> None:
    check_device(GPU)
    key, nonce, count = bytes(range(32)), bytes(12), 1_000_003
    words = random_words(key, nonce, count, GPU)
    there = random_words(key, nonce, count, torch.device("cpu"))
    assert torch.equal(words.cpu(), there)
    for ratio in (3.7, 2.0**26 * 1.1):
        expected, undecided = rounded(GAUSSIAN, there.numpy().view(np.uint64), ratio)
        found = Begun(words, ratio, NoiseSource(1)).finished().cpu().numpy()
        decided = np.ones(count, dtype=bool)
        decided[undecided] = False
        assert np.array_equal(found[decided], expected[decided])
        assert len(undecided) < count * 1e-4


def test_a_run_and_its_continuation(tmp_path: Any) -> None:
    whole = runs.trainer(compute=md.types.Compute("cuda"), seed=3).train()
    runs.trainer(compute=md.types.Compute("cuda"), seed=3, checkpoint=tmp_path / "run.pt").train(3)
    done = runs.trainer(
        compute=md.types.Compute("cuda"), seed=3, checkpoint=tmp_path / "run.pt"
    ).train()
    assert torch.allclose(runs.weights(done.model), runs.weights(whole.model), atol=1e-5)
