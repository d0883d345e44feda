"""Runs by epochs: what they are charged for, and that they can be interrupted anywhere."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.seams import atoms, training_bar

torch = pytest.importorskip("torch")

import mustdp as md
from mustdp.errors import (
    InvalidParameter,
    NotCovered,
)
from tests.training.networks import runs

BINS = 4
EPOCH = md.random_allocation(runs.N, BINS)


def epochs(count: int = 2, **options: Any) -> md.types.Budget:
    return md.calibrated_budget(
        EPOCH, **{"epochs": count, "noise_multiplier": 1.5, "delta": 1e-3, **options}
    )


def charged_epochs(budget: md.types.Budget, steps: int) -> list[tuple[int, int]]:
    """How often, and how many batches of it, for every kind of epoch in the charge."""
    counted = atoms(budget.plan(steps))
    return [(n, atom.epoch.steps) for atom, n in counted.items() if hasattr(atom, "epoch")]


@pytest.mark.parametrize(
    ("steps", "expected"),
    [(1, [(1, 4)]), (4, [(1, 4)]), (5, [(2, 4)]), (8, [(2, 4)]), (9, [(2, 4), (1, 2)])],
)
def test_an_epoch_is_charged_as_a_whole_when_it_begins(
    steps: int, expected: list[tuple[int, int]]
) -> None:
    budget = md.calibrated_budget(EPOCH, steps=10, noise_multiplier=1.5, delta=1e-3)
    assert charged_epochs(budget, steps) == expected


def test_a_run_that_stops_within_an_epoch_pays_for_all_of_it() -> None:
    run = runs.trainer(budget=epochs())
    done = run.train(BINS + 1)
    assert (done.steps, run.steps, run.remaining) == (5, 5, 3)
    assert done.privacy.steps == 2 * BINS  # both epochs that were begun
    assert done.privacy == run.budget.spent()
    assert done.privacy.epsilon.upper > run.budget.spent(BINS).epsilon.upper
    assert run.ledger.to_json() == done.ledger.to_json()
    assert done.privacy.scheme == EPOCH
    assert done.privacy.relation == "add_remove"


def test_every_record_is_in_one_batch_of_every_epoch() -> None:
    run: Any = runs.trainer(budget=epochs())
    for first in (0, BINS):
        drawn = [run._batches.batch(first + place) for place in range(BINS)]
        rows = torch.cat([torch.tensor(batch.rows()) for batch in drawn])
        assert rows.sort().values.tolist() == list(range(runs.N))
    assert len({batch.size for batch in drawn}) > 1  # sizes vary, the divisor does not
    assert run._size == runs.N / BINS


def test_every_record_in_two_batches_of_every_epoch_goes_on_after_a_stop(tmp_path: Path) -> None:
    scheme = md.random_allocation(runs.N, BINS, times=2)
    budget = md.calibrated_budget(scheme, epochs=2, noise_multiplier=1.5, delta=1e-3)
    once = epochs().spent().epsilon
    assert budget.spent().epsilon.lower > once.upper
    whole: Any = runs.trainer(budget=budget, seed=3)
    assert whole._size == 2 * runs.N / BINS
    drawn = [whole._batches.batch(place) for place in range(BINS)]
    rows = torch.cat([torch.tensor(batch.rows()) for batch in drawn])
    assert rows.bincount().tolist() == [2] * runs.N
    assert all(len(set(batch.rows())) == batch.size for batch in drawn)
    done = whole.train()
    assert done.privacy.scheme == scheme
    path = tmp_path / "run.pt"
    runs.trainer(budget=budget, seed=3, checkpoint=path).train(BINS + 1)
    resumed = runs.trainer(budget=budget, seed=3, checkpoint=path)
    assert torch.equal(runs.weights(resumed.train().model), runs.weights(done.model))
    with pytest.raises(InvalidParameter, match="belongs to another run"):
        runs.trainer(budget=epochs(), seed=3, checkpoint=path)


def test_the_bound_is_for_batches_of_all_records() -> None:
    run: Any = runs.trainer(budget=epochs())
    assert run._bound.workload.copies == 2 * runs.N  # of an estimate that may be half the truth
    public: Any = runs.trainer(budget=epochs(relation="replace_one"))
    assert public._bound.workload.copies == runs.N


def test_the_number_of_records_is_an_estimate_under_add_remove() -> None:
    estimate = md.calibrated_budget(
        md.random_allocation(50, BINS), epochs=1, noise_multiplier=1.5, delta=1e-3
    )
    run: Any = runs.trainer(budget=estimate)
    assert sum(run._batches.batch(k).size for k in range(BINS)) == runs.N
    assert run._size == 50 / BINS
    for wrong, relation in ((29, None), (59, "replace_one")):
        budget = md.calibrated_budget(
            md.random_allocation(wrong, BINS),
            epochs=1, noise_multiplier=1.5, delta=1e-3, relation=relation,
        )  # fmt: skip
        with pytest.raises(InvalidParameter, match="records"):
            runs.trainer(budget=budget)


def test_an_empty_bin_is_a_step_of_noise_alone() -> None:
    scheme = md.random_allocation(runs.N, 2000)
    budget = md.calibrated_budget(scheme, steps=1, noise_multiplier=1.5, delta=1e-3)
    run: Any = runs.trainer(budget=budget, seed=1, losses=True)
    assert run._batches.batch(0).size == 0
    before = runs.weights(run.model).clone()
    assert run.train().losses_not_private == (0.0,)
    assert not torch.equal(before, runs.weights(run.model))


@pytest.mark.parametrize("at", [1, BINS, BINS + 2])
def test_interrupted_anywhere_it_goes_on_in_the_same_allocation(at: int, tmp_path: Path) -> None:
    whole = runs.trainer(budget=epochs(), seed=3).train()
    path = tmp_path / "run.pt"
    runs.trainer(budget=epochs(), seed=3, checkpoint=path).train(at)
    resumed = runs.trainer(budget=epochs(), seed=3, checkpoint=path)
    assert resumed.steps == at
    assert torch.equal(runs.weights(resumed.train().model), runs.weights(whole.model))


def test_without_a_seed_the_allocation_is_that_of_the_checkpoint(tmp_path: Path) -> None:
    path = tmp_path / "run.pt"
    first: Any = runs.trainer(budget=epochs(), checkpoint=path)
    first.train(1)
    second: Any = runs.trainer(budget=epochs(), checkpoint=path)
    for number in range(2 * BINS):
        assert first._batches.batch(number) == second._batches.batch(number)
    other: Any = runs.trainer(budget=epochs())
    assert any(first._batches.batch(k) != other._batches.batch(k) for k in range(BINS))


def test_a_checkpoint_of_other_epochs_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "run.pt"
    runs.trainer(budget=epochs(), checkpoint=path).train(1)
    with pytest.raises(InvalidParameter, match="belongs to another run"):
        runs.trainer(budget=epochs(3), checkpoint=path)


def test_a_ledger_is_charged_for_all_epochs_at_once(tmp_path: Path) -> None:
    with md.Ledger.open(
        tmp_path / "office.ledger", epsilon=50, delta=1e-3, relation="add_remove"
    ) as ledger:
        runs.trainer(budget=epochs(), ledger=ledger).train(1)
        assert ledger.spent() >= epochs().spent().epsilon.lower


def test_a_step_at_a_time_is_the_same_run() -> None:
    whole = runs.trainer(budget=epochs(1), seed=3).train()
    run = runs.trainer(budget=epochs(1), seed=3)
    while run.remaining:
        done = run.step()
    assert done.steps == BINS
    assert torch.equal(runs.weights(run.model), runs.weights(whole.model))


@pytest.mark.parametrize(("every", "rates"), [("step", 8), ("epoch", 2)])
def test_a_schedule_moves_on_every_step_or_every_epoch(every: str, rates: int) -> None:
    network = runs.model()
    optimizer = torch.optim.SGD(network.parameters(), lr=1.0)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.5)
    when = md.types.Schedule(schedule, every=every)
    runs.trainer(network, budget=epochs(), optimizer=optimizer, scheduler=when).train()
    assert optimizer.param_groups[0]["lr"] == 0.5**rates
    if every == "epoch":
        with pytest.raises(InvalidParameter, match="draws every batch anew"):
            runs.trainer(network, optimizer=optimizer, scheduler=when)


def test_the_line_on_the_terminal_shows_what_all_epochs_may_cost() -> None:
    budget = epochs()
    with training_bar(budget, 0) as line:
        line.step(1, None)
        assert line._epsilon == budget.spent().epsilon.upper > budget.spent(BINS).epsilon.upper


def test_few_shuffled_batches_are_charged_as_gaussian_releases() -> None:
    budget = md.calibrated_budget(
        md.shuffle(runs.N, 16), epochs=2, noise_multiplier=1.5, delta=1e-3
    )
    assert (budget.steps, budget.epochs, budget.relation) == (8, 2.0, "replace_one")
    twice = md.account(md.repeat(2, md.gaussian(noise_multiplier=1.5)), relation="replace_one")
    found = runs.trainer(budget=budget).train().privacy.epsilon
    assert found.upper == pytest.approx(twice.epsilon(1e-3).upper, rel=1e-3)
    with pytest.raises(NotCovered, match="only be run under replace_one"):
        md.calibrated_budget(
            md.shuffle(runs.N, 16),
            epochs=2, noise_multiplier=1.5, delta=1e-3, relation="add_remove",
        )  # fmt: skip


def test_what_is_refused() -> None:
    z: dict[str, Any] = {"noise_multiplier": 1.5, "delta": 1e-3}
    with pytest.raises(InvalidParameter, match="whole epoch of 4 batches, got the first 2"):
        md.calibrated_budget(EPOCH.first(2), epochs=1, **z)
    with pytest.raises(InvalidParameter, match="epochs must be left out"):
        md.calibrated_budget(md.wor(60, 20), epochs=1, **z)
    with pytest.raises(InvalidParameter, match="steps must be left out"):
        md.calibrated_budget(EPOCH, steps=4, epochs=1, **z)
    with pytest.raises(InvalidParameter, match="must be given"):
        md.calibrated_budget(EPOCH, **z)
    with pytest.raises(InvalidParameter, match="epochs must be an integer from 1"):
        md.calibrated_budget(EPOCH, epochs=0, **z)
    with pytest.raises(NotCovered, match="one by one"):
        md.audit(lambda game: game, budget=epochs(), clip=1.0)
