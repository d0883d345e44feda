"""One training step, certified (0.1, 1e-9): do the weights tell whether a record was there?"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.seams import without_step_noise

torch = pytest.importorskip("torch")

import mustdp as md
from tests.attacks.range_of_a_product import products

N, WIDTH = 64, 4000
#: Makes the deviation 1.4 times a power of two, where fewest doubles are products with it.
CLIP = 0.9
BUDGET = md.calibrated_budget(md.wor(N, N), steps=1, epsilon=0.1, delta=1e-9)


def pulled(outputs: Any, target: Any) -> Any:
    return -outputs.flatten(1).sum(1) - 0.0 * target


def stepped(record: float) -> tuple[NDArray[np.float64], md.PrivateTrainer]:
    """The weights after one step. All records are zero but one, which pulls on every weight."""
    model = torch.nn.Linear(WIDTH, 1, bias=False).double()
    torch.nn.init.zeros_(model.weight)
    rows = torch.zeros(N, WIDTH, dtype=torch.float64)
    rows[0] = record
    # The rate is the size of the batch, a power of two: the weights are what was released.
    optimizer = torch.optim.SGD(model.parameters(), lr=float(N))
    trainer = md.PrivateTrainer(
        model, pulled, (rows, torch.zeros(N)), BUDGET,
        optimizer=optimizer, max_grad_norm=CLIP, progress=False,
    )  # fmt: skip
    trained = trainer.train()
    assert trained.privacy.certified
    assert trained.privacy.epsilon.upper <= 0.1
    weights: NDArray[np.float64] = model.weight.detach().numpy()[0]
    return weights, trainer


def test_weights_are_lattice_points_and_no_more_products_with_the_record_than_without() -> None:
    deviation = BUDGET.noise_multiplier * CLIP
    rng = np.random.default_rng(8)
    floating = [
        products(x + deviation * rng.standard_normal(WIDTH), deviation).mean()
        for x in (0.0, CLIP / math.sqrt(WIDTH))
    ]
    assert floating[0] == 1.0
    assert floating[1] < 0.95
    shares = []
    for record in (0.0, 100.0):
        weights, trainer = stepped(record)
        steps = weights / trainer._bound.step
        assert np.array_equal(steps, np.rint(steps))
        assert trainer._bound.step < 2.0**-20 * deviation
        assert 0.9 < weights.std() / deviation < 1.1
        shares.append(products(weights, deviation).mean())
    assert abs(shares[0] - shares[1]) < 5 * math.sqrt(2 * 0.25 / WIDTH)


def test_the_record_would_show_without_the_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that the test above looks at the record at all."""
    without_step_noise(monkeypatch)
    assert not stepped(0.0)[0].any()
    assert np.linalg.norm(stepped(100.0)[0]) == pytest.approx(CLIP, rel=0.01)
