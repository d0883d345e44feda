"""What a run does: the update, the price, pieces, seeds, callbacks."""

from __future__ import annotations

import math
import sys
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import mustdp as md
from mustdp import PrivateTrainer
from mustdp.errors import InvalidParameter
from mustdp.types import SeededRelease, StepEvent
from tests.training.networks import runs
from tests.training.networks.brute_force import clipped_sum_one_by_one

QUIET = 1e-9  # a noise multiplier that leaves the clipped sum as it is, to seven digits


def plain() -> Any:
    torch.manual_seed(3)
    return torch.nn.Sequential(torch.nn.Linear(6, 5), torch.nn.Tanh(), torch.nn.Linear(5, 3))


@pytest.mark.parametrize(
    "scheme",
    [
        *(md.must_ow(60, 10, 24), md.wor(60, 20), md.wr(60, 30), md.poisson(60, 0.3)),
        *(md.random_allocation(60, 4), md.shuffle(60, 16)),
    ],
    ids=lambda scheme: scheme.name,
)
def test_one_step_is_the_clipped_sum_over_the_fixed_size(scheme: Any) -> None:
    network, (inputs, target) = plain(), runs.data()
    before = runs.weights(network).clone()
    sgd = torch.optim.SGD(network.parameters(), lr=0.5)
    batch = scheme.batches(seed=11).batch(0)
    chosen = torch.tensor(batch.indices)
    case = network, runs.LOSS, (inputs[chosen],), target[chosen]
    expected = clipped_sum_one_by_one(case, batch.counts.tolist(), 0.7)
    run = runs.trainer(
        network,
        budget=runs.budget(scheme=scheme, z=QUIET),
        optimizer=sgd,
        max_grad_norm=0.7,
        seed=11,
    )
    run.train(1)
    moved = before - runs.weights(network)
    flat = torch.cat([g.flatten() for g in expected]) * 0.5 / scheme.expected_size
    assert torch.allclose(moved.double(), flat, atol=1e-6)


def test_an_empty_batch_is_a_step_of_noise_alone() -> None:
    scheme = md.poisson(60, 1e-4)
    assert scheme.batches(seed=1).batch(0).size == 0
    network = plain()
    before = runs.weights(network).clone()
    run = runs.trainer(
        network,
        budget=runs.budget(scheme=scheme, z=2.0),
        optimizer=torch.optim.SGD(network.parameters(), lr=1.0),
        max_grad_norm=3.0,
        seed=1,
        losses=True,
    )
    assert run.train(1).losses_not_private == (0.0,)
    moved = (runs.weights(network) - before) * scheme.expected_size
    assert run.steps == 1
    # 53 normal numbers of deviation z C = 6: the chance to be outside is below 1e-6.
    assert 6 * 0.5 < float(moved.std()) < 6 * 1.6


def test_noise_has_the_deviation_that_is_charged() -> None:
    network = torch.nn.Linear(400, 50)
    data = torch.zeros(60, 400), torch.zeros(60, dtype=torch.long)
    found = []
    for z, clip in ((2.0, 0.5), (0.5, 4.0)):
        before = runs.weights(network).clone()
        scheme = md.wor(60, 30)
        run = runs.trainer(
            network,
            data=data,
            budget=runs.budget(scheme=scheme, z=z),
            optimizer=torch.optim.SGD(network.parameters(), lr=1.0),
            max_grad_norm=clip,
        )
        run.train(1)
        # Inputs are zero, so the weights move by noise alone.
        moved = (runs.weights(network) - before)[: 400 * 50].double().numpy() * 30
        found.append(float(moved.std()) / (z * clip))
        assert abs(float(moved.mean())) < 5 * z * clip / math.sqrt(moved.size)
    # The deviation of 20,000 numbers is known to 0.5 %: five times that either way.
    assert np.allclose(found, 1.0, atol=0.025)


def test_privacy_is_that_of_the_steps_made() -> None:
    run = runs.trainer()
    assert run.privacy.spent.epsilon.upper == 0.0
    done = run.train(2)
    assert (done.steps, done.privacy.steps, done.ledger.steps) == (2, 2, 2)
    assert done.privacy == run.budget.spent(2)
    assert done.ledger.epsilon(1e-3).upper == pytest.approx(done.privacy.epsilon.upper)
    assert run.train().steps == 6
    with pytest.raises(InvalidParameter, match="used up: all of its 6 steps"):
        run.train()
    with pytest.raises(InvalidParameter, match="at most 0, which is left of the 6 steps"):
        run.step()
    assert run.train(0).losses_not_private == ()
    assert run.privacy.spent == run.privacy.planned == run.budget.spent()


@pytest.mark.parametrize("rows", [1, 3, 7])
def test_pieces_give_the_same_result(rows: int) -> None:
    whole = runs.trainer(plain(), seed=4).train().model
    pieces = runs.trainer(plain(), seed=4, compute=md.types.Compute(max_rows=rows)).train().model
    assert torch.allclose(runs.weights(whole), runs.weights(pieces), atol=1e-6)


def test_a_seed_repeats_everything_and_warns() -> None:
    first, second = (runs.trainer(seed=9, losses=True).train() for _ in range(2))
    assert torch.equal(runs.weights(first.model), runs.weights(second.model))
    assert first.losses_not_private == second.losses_not_private
    assert not torch.equal(
        runs.weights(first.model), runs.weights(runs.trainer(seed=10).train().model)
    )
    network = plain()
    with pytest.warns(SeededRelease, match="seed is set"):
        PrivateTrainer(
            network, runs.LOSS, runs.data(), runs.budget(), max_grad_norm=1.0, seed=9,
            optimizer=torch.optim.SGD(network.parameters(), lr=0.1),
        )  # fmt: skip


def test_without_a_seed_batches_and_noise_are_fresh_and_global_state_is_left_alone() -> None:
    torch.manual_seed(1)
    state, state_numpy = torch.get_rng_state(), str(np.random.get_state())  # noqa: NPY002
    found = [runs.weights(runs.trainer(plain()).train().model) for _ in range(2)]
    assert not torch.equal(*found)
    network = plain()
    torch.set_rng_state(state)
    runs.trainer(network).train()
    assert torch.equal(torch.get_rng_state(), state)
    assert str(np.random.get_state()) == state_numpy  # noqa: NPY002


def test_any_optimiser_and_schedule() -> None:
    for make in (torch.optim.AdamW, torch.optim.RMSprop, torch.optim.Adagrad):
        network = plain()
        before = runs.weights(network).clone()
        optimizer = make(network.parameters(), lr=0.1)
        schedule = torch.optim.lr_scheduler.StepLR(optimizer, 2, 0.5)
        runs.trainer(network, optimizer=optimizer, scheduler=schedule).train()
        assert optimizer.param_groups[0]["lr"] == pytest.approx(0.1 * 0.5**3)
        assert not torch.equal(before, runs.weights(network))
        assert all(p.grad is None for p in network.parameters())


def test_frozen_parameters_stay() -> None:
    network = plain()
    network[0].requires_grad_(False)
    frozen = network[0].weight.clone()
    runs.trainer(network).train()
    assert torch.equal(network[0].weight, frozen)


def test_a_gradient_left_over_from_before_is_not_used() -> None:
    one, other = plain(), plain()
    for parameter in one.parameters():
        parameter.grad = torch.full_like(parameter, 1e6)
    one[0].requires_grad_(False)
    other[0].requires_grad_(False)
    optimizer = torch.optim.SGD(one.parameters(), lr=0.1)
    runs.trainer(one, optimizer=optimizer, seed=2).train()
    optimizer = torch.optim.SGD(other.parameters(), lr=0.1)
    runs.trainer(other, optimizer=optimizer, seed=2).train()
    assert torch.equal(runs.weights(one), runs.weights(other))


def test_callbacks_see_each_step_and_may_stop() -> None:
    seen: list[tuple[int, int, float]] = []

    def watch(event: StepEvent) -> None:
        seen.append((event.steps, len(event.losses_not_private), event.spent().epsilon.upper))
        if event.steps == 3:
            event.stop()

    done = runs.trainer(callbacks=[watch], losses=True).train()
    assert [steps for steps, _, _ in seen] == [1, 2, 3]
    assert [count for _, count, _ in seen] == [1, 1, 1]
    assert seen[0][2] < seen[1][2] < seen[2][2] == done.privacy.epsilon.upper
    assert done.steps == 3


def test_a_dataset_is_read_record_by_record() -> None:
    inputs, target = runs.data()

    class Pairs:
        def __len__(self) -> int:
            return len(target)

        def __getitem__(self, i: int) -> tuple[Any, int]:
            return inputs[i], int(target[i])

    found = [
        runs.weights(runs.trainer(plain(), data=given, seed=1).train().model)
        for given in (
            (inputs, target),
            (inputs.numpy(), target.numpy()),
            torch.utils.data.TensorDataset(inputs, target),
            Pairs(),
        )
    ]
    assert all(torch.equal(found[0], other) for other in found[1:])


def test_mixed_precision_is_for_the_forward_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    shapes = []
    network, usual = plain(), torch.nn.functional.linear

    def linear(*given: Any) -> Any:
        shapes.append(usual(*given).dtype)
        return usual(*given)

    monkeypatch.setattr(torch.nn.functional, "linear", linear)
    run = runs.trainer(network, compute=md.types.Compute(mixed_precision=torch.bfloat16), seed=3)
    done = run.train()
    monkeypatch.undo()
    exact = runs.trainer(plain(), seed=3).train()
    assert shapes[-1] == torch.bfloat16
    assert runs.weights(network).dtype == torch.float32
    assert torch.allclose(runs.weights(network), runs.weights(exact.model), atol=0.02)
    assert done.privacy == exact.privacy


def test_progress_shows_what_is_spent_and_losses_if_asked(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for losses in (False, True):
        runs.trainer(progress=True, losses=losses).train()
        text = " ".join(capsys.readouterr().err.split())
        assert ("loss" in text) == ("not private" in text) == losses
        assert "epsilon" in text
        assert capsys.readouterr().out == ""


def test_progress_of_a_run_without_a_certified_epsilon(capsys: pytest.CaptureFixture[str]) -> None:
    runs.trainer(progress=True, budget=runs.budget(z=QUIET)).train(1)
    assert "no finite epsilon" in " ".join(capsys.readouterr().err.split())


def test_losses_leave_only_if_asked_for_and_are_never_printed() -> None:
    seen: list[StepEvent] = []
    done = runs.trainer(callbacks=[seen.append]).train()
    assert done.losses_not_private == ()
    assert all(event.losses_not_private == () for event in seen)
    done = runs.trainer(callbacks=[seen.append], losses=True).train()
    assert len(done.losses_not_private) == 6
    assert "loss" not in repr(done).lower()
    assert "loss" not in repr(seen[-1]).lower()


def test_importing_the_package_does_not_load_torch() -> None:
    import subprocess

    code = "import sys, mustdp; import mustdp.calibration.budget; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
