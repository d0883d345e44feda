"""Banded noise in the trainer: groups that take turns, exact rows, correlated noise, charges."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import mustdp as md
from mustdp.calibration.budget import STRATEGY_UNIT, strategy_of
from mustdp.errors import InvalidParameter, NotCovered
from mustdp.randomness.keys import batch_key
from mustdp.sampling.schemes import BatchesInTurn
from mustdp.training.networks.noise import Bands
from mustdp.types import Budget
from tests.training.networks import runs

STRATEGY = (1.0, 0.5, 0.375)


def budget(steps: int = 12, rate: float = 0.1, z: float = 1.5, bands: int = 3) -> Budget:
    scheme = md.poisson(runs.N, rate)
    return md.calibrated_budget(scheme, steps=steps, noise_multiplier=z, delta=1e-3, bands=bands)


def test_the_banded_square_root_squared_adds_up() -> None:
    factors = np.array(strategy_of(64))
    exact = [math.comb(2 * k, k) / 4.0**k for k in range(64)]
    assert np.abs(factors - exact).max() <= STRATEGY_UNIT / 2.0
    assert np.allclose(np.convolve(exact, exact)[:64], 1.0)


@pytest.mark.parametrize("steps", [1, 3, 4, 12])
def test_the_plan_is_that_of_one_group(steps: int) -> None:
    found = budget(12)
    rounds = md.repeat(
        -(-steps // 3),
        md.subsample(md.poisson(runs.N // 3, 3 * 0.1), md.gaussian(noise_multiplier=1.5)),
    )
    matrix = sum(np.diag([factor] * (steps - k), -k) for k, factor in enumerate(STRATEGY[:steps]))
    here = md.account(found.plan(steps)).epsilon(1e-3).upper
    stated = md.account(md.banded(rounds, 3, strategy=matrix)).epsilon(1e-3).upper
    assert here >= stated * (1.0 - 1e-9)
    if steps >= 3:  # a shorter run has no whole column
        assert here == pytest.approx(stated, rel=1e-6)
    independent = md.account(rounds).epsilon(1e-3).upper
    assert here > independent  # the column norm is charged for


def test_records_stay_in_their_groups_which_take_turns() -> None:
    n, bands, stop = 3000, 4, 40
    batches = BatchesInTurn(md.poisson(n, 0.3), bands, batch_key(3), stop)
    seen = np.zeros((n, bands), dtype=int)
    for number in range(stop):
        seen[batches.batch(number).indices, number % bands] += 1
    assert np.all((seen > 0).sum(axis=1) <= 1)
    assert (seen > 0).any(axis=0).all()
    # Ten turns with chance .3 each, and groups of about equal size.
    assert abs(seen.sum() - 0.3 * 10 * n) < 5 * math.sqrt(10 * n * 0.21)
    assert np.all(np.abs((seen > 0).sum(axis=0) - n / bands) < 5 * math.sqrt(n * 0.19))


def test_a_record_more_leaves_the_groups_of_others() -> None:
    key = batch_key(5)
    one = BatchesInTurn(md.poisson(200, 0.4), 4, key, 8)._group_of
    two = BatchesInTurn(md.poisson(201, 0.4), 4, key, 8)._group_of
    assert np.array_equal(one, two[:200])


def test_rows_are_exact_and_estimates_undo_them() -> None:
    generator = torch.Generator().manual_seed(1)
    sums = torch.randint(-(2**40), 2**40, (9, 5), generator=generator)
    bands = Bands(STRATEGY)
    whole = [round(factor / STRATEGY_UNIT) for factor in STRATEGY]
    for step in range(9):
        row = bands.row(step, sums[step])
        expected = [
            sum(whole[k] * int(sums[step - k, j]) for k in range(min(step, 2) + 1))
            for j in range(5)
        ]
        assert row.tolist() == expected
        assert torch.allclose(bands.estimate(step, row), sums[step].double(), rtol=0, atol=1.0)
    assert len(bands._sums) <= 4


def test_what_is_released_has_independent_noise_of_the_charged_deviation() -> None:
    """The attack: from gradients, that are seen, back to rows, and the sums taken away."""
    steps, z, clip = 120, 1.5, 0.7
    seen: list[Any] = []
    network = torch.nn.Linear(6, 3)
    found = budget(steps, rate=1e-12, z=z)  # no record is ever drawn: noise alone
    run = runs.trainer(
        network, budget=found, max_grad_norm=clip, seed=4, optimizer=None,
    )  # fmt: skip
    for _ in range(steps):
        run.compute_gradients()
        seen.append(torch.cat([p.grad.flatten() for p in network.parameters()]).double())
    gradients = torch.stack(seen) * found.scheme.expected_size
    rows = gradients.clone()
    for k, factor in enumerate(STRATEGY[1:], 1):
        rows[k:] += factor * gradients[:-k]
    noise = rows.numpy() / (z * clip)
    count = noise.size
    assert abs(noise.std() - 1.0) < 5 / math.sqrt(2 * count)
    for lag in (1, 2, 3):
        assert abs((noise[lag:] * noise[:-lag]).mean()) < 5 / math.sqrt(count)
    # The gradients themselves are correlated: later noise takes back earlier noise.
    plain = gradients.numpy() / (z * clip)
    assert (plain[1:] * plain[:-1]).mean() < -0.3


def test_rows_of_a_run_hold_the_clipped_sums_of_the_groups() -> None:
    """With hardly any noise the gradients are those of the batches that groups were drawn for."""
    network = torch.nn.Linear(6, 3)
    found = budget(9, rate=0.3, z=1e-6)
    run = runs.trainer(network, budget=found, max_grad_norm=0.5, seed=4, optimizer=None)
    inputs, target = runs.data()
    for number in range(9):
        batch = run._batches.batch(number)
        expected = torch.zeros(21)
        for i in batch.indices:
            network.zero_grad()
            runs.LOSS(network(inputs[i : i + 1]), target[i : i + 1]).sum().backward()
            one = torch.cat([p.grad.flatten() for p in network.parameters()])
            expected += one * min(1.0, 0.5 / float(one.norm()))
        run.compute_gradients()
        seen = torch.cat([p.grad.flatten() for p in network.parameters()])
        assert torch.allclose(seen * found.scheme.expected_size, expected, atol=1e-3)


@pytest.mark.parametrize("clipping", ["flat", "per_layer", "automatic"])
@pytest.mark.parametrize("steps", [2, 10, 12])
def test_what_a_record_moves_is_what_is_charged(clipping: str, steps: int) -> None:
    """The attack: one run with a record of huge gradients and one where it contributes nothing.

    Batches and noise are those of one seed, gradients do not depend on the weights, so that what
    differs in the rows is the record: the norm of a block and the number of blocks are charged.
    """
    clip, z, record = 0.5, 1.5, 7
    inputs, _ = runs.data()
    inputs[record] = 1e4
    weights = torch.ones(runs.N, 1)
    nothing = weights.clone()
    nothing[record] = 0.0
    found = budget(steps, rate=1 / 3, z=z)  # groups are drawn as a whole
    seen = []
    for target in (weights, nothing):
        network = torch.nn.Linear(6, 3)
        run = runs.trainer(
            network, loss=lambda out, y: (out * y).sum(1), data=(inputs, target), budget=found,
            max_grad_norm=clip, clipping=clipping, seed=4, optimizer=None,
        )  # fmt: skip
        rows = []
        for _ in range(steps):
            run.compute_gradients()
            rows.append(torch.cat([p.grad.flatten() for p in network.parameters()]).double())
        seen.append(torch.stack(rows) * found.scheme.expected_size)
    moved = seen[0] - seen[1]
    rows = moved.clone()
    for k, factor in enumerate(STRATEGY[1:], 1):
        rows[k:] += factor * moved[:-k]
    squares = rows.square().sum(1).numpy()
    first = int(np.flatnonzero(squares > 1e-6)[0])
    assert first < len(STRATEGY)  # the group of the record
    blocks = [squares[start : start + 3].sum() for start in range(first, steps, 3)]
    charged = (clip * math.sqrt(sum(factor**2 for factor in STRATEGY))) ** 2
    assert max(blocks) <= charged * (1 + 1e-5)  # released in single precision
    assert squares[:first].sum() <= 1e-6
    whole = [
        block
        for start, block in zip(range(first, steps, 3), blocks, strict=True)
        if start + 3 <= steps
    ]
    assert all(block > 0.99 * charged for block in whole)
    assert len(blocks) <= md.account(found.plan()).steps


def test_a_step_that_breaks_off_is_made_again_from_the_same_sums() -> None:
    """An optimizer that fails after the release: the next rows are right all the same."""
    network, found = torch.nn.Linear(6, 3), budget(9, rate=1 / 3, z=1e-6)
    run = runs.trainer(network, budget=found, max_grad_norm=0.5, seed=4, optimizer=None)
    other = runs.trainer(
        torch.nn.Linear(6, 3), budget=found, max_grad_norm=0.5, seed=4, optimizer=None
    )
    other.model.load_state_dict(network.state_dict())
    clipped: Any = run._clipped
    broken: list[bool] = []

    def once(*given: Any) -> Any:
        if run.steps == 4 and not broken:
            broken.append(True)
            raise RuntimeError("a kernel failed")
        return clipped(*given)

    run._clipped = once  # type: ignore[assignment, method-assign]
    for _ in range(9):
        other.compute_gradients()
        try:
            run.compute_gradients()
        except RuntimeError:
            run.compute_gradients()
        one, two = (
            torch.cat([p.grad.flatten() for p in each.model.parameters()]) for each in (run, other)
        )
        assert torch.allclose(one, two, atol=1e-6)
    assert broken
    assert run.steps == 9


def test_training_is_charged_by_groups() -> None:
    ledger = md.Ledger("add_remove")
    run = runs.trainer(budget=budget(12), ledger=ledger)
    assert run.train(4).steps == 4
    assert md.account(run.budget.plan(4)).steps == 2
    assert ledger.epsilon(1e-3).upper == pytest.approx(
        md.account(run.budget.plan()).epsilon(1e-3).upper, rel=1e-3
    )
    assert run.train().steps == 12


def test_calibration_keeps_the_target() -> None:
    found = md.calibrated_budget(md.poisson(1000, 0.02), steps=40, epsilon=2, delta=1e-5, bands=8)
    assert 1.9 < found.spent().epsilon.upper <= 2.0
    assert found.bands == 8


def test_refusals() -> None:
    poisson = md.poisson(100, 0.2)
    given: dict[str, Any] = {"steps": 4, "noise_multiplier": 1.0, "delta": 1e-3}
    with pytest.raises(InvalidParameter, match=r"rate.* must be at most 1/8"):
        md.calibrated_budget(poisson, bands=8, **given)
    with pytest.raises(NotCovered, match="Poisson sampling"):
        md.calibrated_budget(md.wor(100, 10), bands=2, **given)
    with pytest.raises(InvalidParameter, match="begin with the factor 1"):
        md.calibrated_budget(poisson, bands=(2.0, 1.0), **given)
    with pytest.raises(InvalidParameter, match="bands must be"):
        md.calibrated_budget(poisson, bands=0, **given)
    with pytest.raises(NotCovered):  # records of one person may be in different groups
        md.calibrated_budget(poisson, bands=2, group=2, **given).spent()


def test_no_checkpoint_holds_sums_without_noise(tmp_path: object) -> None:
    with pytest.raises(NotCovered, match="checkpoint must be left out with banded noise"):
        runs.trainer(budget=budget(), checkpoint=f"{tmp_path}/run.pt")
