"""Noise of steps and masks: the law, and that no number serves twice."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import mustdp as md
from mustdp.mechanisms.relation import resolve_relation
from mustdp.noise.exact import GAUSSIAN, rounded
from mustdp.randomness.keys import NoiseSource, batch_key
from mustdp.sampling.schemes import drawn
from mustdp.training.networks.clipping import (
    Pieces,
    rows_of_pieces,
)
from mustdp.training.networks.loaders import TrainingRecords
from mustdp.training.networks.noise import (
    Begun,
    StepNoise,
    check_device,
    random_words,
)
from mustdp.training.networks.trainer import Masks
from mustdp.training.networks.units import Slots

CPU = torch.device("cpu")


def noise(seed: int | None, step: int, count: int = 6) -> list[int]:
    sums = torch.zeros(count, dtype=torch.int64)
    StepNoise(batch_key(seed), 1e6).add(step, sums)
    return [int(x) for x in sums]


def test_seeded_noise_belongs_to_its_key_and_step() -> None:
    assert noise(1, 0) == noise(1, 0)
    everything = [*noise(1, 0), *noise(1, 1), *noise(2, 0), *noise(2**128 - 1, 0)]
    assert len(set(everything)) == len(everything)


def test_noise_without_a_seed_never_comes_again() -> None:
    one = StepNoise(batch_key(), 1e6)
    seen = []
    for _ in range(3):
        sums = torch.zeros(6, dtype=torch.int64)
        one.add(0, sums)
        seen += sums.tolist()
    seen += [*noise(None, 0), *noise(None, 0)]
    assert len(set(seen)) == len(seen)


def test_noise_is_added_in_place_and_leaves_sums_whole() -> None:
    sums = torch.full((3, 4), 10**9, dtype=torch.int64)
    StepNoise(batch_key(), 1e3).add(0, sums)
    assert sums.shape == (3, 4)
    assert (sums - 10**9).abs().max() < 10_000
    assert (sums - 10**9).unique().numel() > 6


@pytest.mark.parametrize("ratio", [0.3, 3.7, 1e3, 2.0**24 * 1.3, 2.0**32])
def test_the_rounding_on_tensors_is_that_of_the_cpu(ratio: float) -> None:
    """The same words in, the same integers out; extremes of the words included."""
    rng = np.random.default_rng(3)
    words = rng.integers(-(2**63), 2**63, size=200_000, dtype=np.int64)
    words[:6] = [0, -1, 1, 2**63 - 1, -(2**63), 2**20]
    check_device(CPU)
    expected, undecided = rounded(GAUSSIAN, words.view(np.uint64), ratio)
    found = Begun(lambda: torch.from_numpy(words), ratio, NoiseSource(1)).finished().numpy()
    decided = np.ones(len(words), dtype=bool)
    decided[undecided] = False
    assert np.array_equal(found[decided], expected[decided])
    assert 0 < len(undecided) < len(words) / 100
    # What was undecided is settled to a value next to where the words point.
    assert np.all(np.abs(found[undecided[5:]]) < 10 * ratio + 10)


def test_values_in_doubt_are_sent_along_however_fine_the_lattice_is() -> None:
    words = np.random.default_rng(4).integers(-(2**63), 2**63, size=1 << 21, dtype=np.int64)
    made = []

    def again() -> Any:
        made.append(len(words))
        return torch.from_numpy(words)

    begun = Begun(again, 2.0**32, NoiseSource(1))
    assert int(begun._number) > 1 << 10
    begun.finished()
    assert len(made) == 1


def test_masks_belong_to_their_step_and_process() -> None:
    cpu = torch.device("cpu")

    def mask(key: int, step: int, rank: int = 0) -> list[float]:
        with Masks(batch_key(key), cpu, rank)(step):
            return [float(x) for x in torch.rand(3)]

    assert mask(1, 0) == mask(1, 0)
    different = [*mask(1, 0), *mask(1, 1), *mask(2, 0), *mask(1, 0, 1)]
    assert len(set(different)) == len(different)


def test_rows_are_filled_up_with_records_that_do_not_count() -> None:
    """Every piece has one shape, so that one kernel serves all records."""
    x = torch.arange(300.0)[:, None]
    records = TrainingRecords((x, x[:, 0]), torch.device("cpu"))
    clipper: Any = SimpleNamespace(slots=Slots())
    batch = drawn(np.arange(300), np.full(300, 2))
    found = list(Pieces(records, torch.device("cpu"), clipper, 128).of(batch))
    assert [len(rows.target) for rows, _ in found] == [128] * 3
    assert [float(counts.sum()) for _, counts in found] == [256.0, 256.0, 88.0]
    rows, counts = found[-1]
    assert rows.target[:44].tolist() == list(range(256, 300))
    assert set(rows.target[44:].tolist()) == {256.0}
    assert not counts[44:].any()


@pytest.mark.parametrize("scheme", [md.wor(600, 50), md.poisson(600, 0.1), md.must_ow(600, 50, 40)])
@pytest.mark.parametrize("max_rows", [None, 1000, 33, 7])
@pytest.mark.parametrize("processes", [1, 3])
def test_rows_of_a_piece(scheme: md.types.Scheme, max_rows: int | None, processes: int) -> None:
    rows = rows_of_pieces(scheme, resolve_relation(scheme, None), processes, 500, max_rows)
    assert rows <= min(500, max_rows or 500)
    assert rows == 7 if max_rows == 7 else rows % 32 == 0


class OnGpu:
    """Sums that say they are on a GPU."""

    device: Any = SimpleNamespace(type="cuda")

    def __init__(self) -> None:
        self.values = torch.zeros(1000, dtype=torch.int64)

    def view(self, _: int) -> Any:
        return self.values


def test_noise_that_was_begun_ahead_is_used_once(monkeypatch: pytest.MonkeyPatch) -> None:
    def begin(ratio: float, count: int, _: Any, source: NoiseSource) -> Begun:
        words = random_words(source.words(4).tobytes(), bytes(12), count, CPU)
        return Begun(lambda: words, ratio, source)

    monkeypatch.setattr("mustdp.training.networks.noise.begin", begin)
    noise = StepNoise(batch_key(), 2000.0)
    found: list[Any] = [OnGpu() for _ in range(3)]
    noise.begin(3, 1000, OnGpu.device)
    noise.add(3, found[0])
    noise.add(3, found[1])
    noise.begin(4, 1000, OnGpu.device)
    noise.add(5, found[2])
    assert len({tuple(sums.values.tolist()) for sums in found}) == 3
