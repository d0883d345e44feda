"""Training on batches of random size under add_remove: the number of records is private too."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import mustdp as md
from tests.training.networks import runs

STATED = 60
SCHEMES = (md.poisson(STATED, 0.5), md.random_allocation(STATED, 2))
BUDGETS = [md.calibrated_budget(one, steps=3, noise_multiplier=1.5, delta=1e-3) for one in SCHEMES]
each = pytest.mark.parametrize("budget", BUDGETS, ids=lambda budget: budget.scheme.name)


def trainer(records: int, budget: md.types.Budget, **options: Any) -> md.PrivateTrainer:
    return runs.trainer(data=runs.data(records), budget=budget, **options)


@each
@pytest.mark.parametrize("seed", [None, 5])
def test_runs_do_not_depend_on_the_number_of_records(
    budget: md.types.Budget, seed: int | None, tmp_path: Path
) -> None:
    """Neither what is said and certified, nor the lattice, nor how far a record is clipped."""
    seen = []
    for records in (67, 66, 41):
        made = trainer(records, budget, seed=seed, checkpoint=tmp_path / f"{seed}-{records}")
        done = made.train()
        said = re.sub(r" at 0x[0-9a-f]+", "", f"{done} {done!r}")
        seen.append((said, done.privacy, made.method, made._bound))
    assert seen[0] == seen[1] == seen[2]
    assert "67" not in seen[0][0]


@each
def test_all_records_are_drawn_from_and_no_others(budget: md.types.Budget) -> None:
    """The scheme that is charged has the stated number; the one that draws has the true one."""
    for records in (2 * STATED, 31):
        made = trainer(records, budget)
        drawn = np.concatenate([made._batches.batch(k).indices for k in range(3)])
        assert drawn.max() < records
        assert drawn.max() > 0.8 * records
        assert made.budget.scheme.n == STATED


@each
def test_a_number_that_is_far_off_is_refused_and_not_told(budget: md.types.Budget) -> None:
    with pytest.raises(md.InvalidParameter, match="at least half") as caught:
        trainer(2 * STATED + 1, budget)
    assert "121" not in str(caught.value)


@each
def test_a_run_goes_on_with_the_same_batches(budget: md.types.Budget, tmp_path: Path) -> None:
    """The file has the stated number; batches that were drawn from it would be others."""
    whole, parts = (runs.model() for _ in range(2))
    trainer(67, budget, network=whole, seed=5).train()
    trainer(67, budget, network=parts, seed=5, checkpoint=tmp_path / "run").train(1)
    again = runs.model()
    trainer(67, budget, network=again, seed=5, checkpoint=tmp_path / "run").train()
    assert torch.equal(runs.weights(whole), runs.weights(again))


@pytest.mark.parametrize("scheme", SCHEMES, ids=lambda scheme: scheme.name)
@pytest.mark.parametrize(
    "model", [md.DPLinearRegression, partial(md.DPLogisticRegression, classes=[0, 1])]
)
def test_linear_models_do_not_tell_it(model: Any, scheme: Any) -> None:
    rng = np.random.default_rng(1)
    X, y = rng.normal(size=(2 * STATED + 1, 3)), np.tile([0, 1], STATED + 1)[: 2 * STATED + 1]
    said = []
    for records in (67, 66, 41):
        made = model(scheme=scheme, steps=3, noise_multiplier=1.5, delta=1e-3)
        made.fit(X[:records], y[:records])
        said.append((repr(made), made.privacy_, made.n_iter_))
    assert said[0][1:] == said[1][1:] == said[2][1:]
    assert said[0][0] == said[1][0] == said[2][0]
    with pytest.raises(md.InvalidParameter, match="at least half") as caught:
        made.fit(X, y)
    assert "121" not in str(caught.value)
