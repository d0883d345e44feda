"""On a GPU: the same clipped sums and the same noise deviation; skipped where there is none."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
if not torch.cuda.is_available():
    pytest.skip("torch finds no CUDA device", allow_module_level=True)

from mustdp.randomness.keys import batch_key  # noqa: E402
from mustdp.training.networks.clipping import Clipper  # noqa: E402
from mustdp.training.networks.randomness import Masks, Noise  # noqa: E402
from mustdp.training.networks.records import Records  # noqa: E402
from tests.training.networks import runs, zoo  # noqa: E402
from tests.training.networks.brute_force import (  # noqa: E402
    Case,
    clipped_sum_one_by_one,
    relative_gap,
)

COUNTS = [1, 3, 1, 2, 1, 1, 4, 1, 2]
GPU = torch.device("cuda", 0)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("make", [*zoo.BOOKKEEPING, *zoo.RECORD_BY_RECORD])
def test_clipped_sums(make: Callable[[], Case]) -> None:
    torch.manual_seed(0)
    case = make()
    expected = clipped_sum_one_by_one(case, COUNTS, 0.5)
    model, loss, inputs, target = case
    model.to(GPU)
    records, masks = Records((*inputs, target), GPU), Masks(batch_key(1), GPU)
    clipper = Clipper(model, loss, 0.5, records.take(np.arange(4)), lambda: masks(0))
    counts = torch.tensor(COUNTS, dtype=torch.float32, device=GPU)
    found = clipper.sum([(records.take(np.arange(9)), counts)], masks(0))
    assert relative_gap([g.cpu() for g in found.gradients], expected) < 2e-5


def test_noise() -> None:
    one, other = torch.zeros(100_000, device=GPU), torch.zeros(100_000, device=GPU)
    Noise(5).add(3, [one], 2.0)
    Noise(5).add(4, [other], 2.0)
    assert float(one.std()) == pytest.approx(2.0, rel=0.015)
    assert abs(float(torch.dot(one, other))) / 4e5 < 0.015


def test_a_run_and_its_continuation(tmp_path: Any) -> None:
    whole = runs.trainer(device="cuda", seed=3).train()
    runs.trainer(device="cuda", seed=3, checkpoint=tmp_path / "run.pt").train(3)
    done = runs.trainer(device="cuda", seed=3, checkpoint=tmp_path / "run.pt").train()
    assert torch.allclose(runs.weights(done.model), runs.weights(whole.model), atol=1e-5)
