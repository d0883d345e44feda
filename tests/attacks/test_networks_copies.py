"""One run, one object, one process, one thread: copies and threads release nothing unpaid."""

from __future__ import annotations

import copy
import os
import pickle
import threading
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import mustdp as md
from tests.training.networks import runs


@pytest.mark.parametrize("way", [copy.copy, copy.deepcopy, pickle.dumps])
def test_a_trainer_is_not_copied(way: Any) -> None:
    """Thirty steps once ran on a ledger with room for three."""
    run = runs.trainer(budget=runs.budget(steps=3), ledger=md.Ledger("replace_one"))
    with pytest.raises(md.InvalidParameter, match="must not be copied or pickled"):
        way(run)
    run.train(1)


def test_a_trainer_that_was_copied_by_hand_makes_no_steps() -> None:
    run = runs.trainer()
    other = object.__new__(md.PrivateTrainer)
    other.__dict__.update(run.__dict__)
    with pytest.raises(md.InvalidParameter, match="must not be copied"):
        other.train(1)
    run.train(1)


def test_two_threads_in_one_run() -> None:
    """Four threads once made 49 to 85 releases of a budget of 20."""
    released: list[int] = []
    found: list[BaseException] = []
    inside, go_on = threading.Event(), threading.Event()

    def wait(event: Any) -> None:
        released.append(event.steps)
        inside.set()
        assert go_on.wait(60)

    run = runs.trainer(callbacks=[wait])

    def train() -> None:
        try:
            run.train()
        except md.MustdpError as problem:
            found.append(problem)

    first = threading.Thread(target=train)
    first.start()
    assert inside.wait(60)
    others = [threading.Thread(target=train) for _ in range(3)]
    for thread in others:
        thread.start()
    for thread in others:
        thread.join()
    go_on.set()
    first.join()
    assert released == list(range(1, 7))
    assert [str(problem).startswith("train must not be called while") for problem in found] == [
        True
    ] * 3


def test_a_callback_does_not_train() -> None:
    run: Any = runs.trainer(callbacks=[lambda _: run.train(1)])
    with pytest.raises(md.InvalidParameter, match="from a callback"):
        run.train(1)


def test_two_runs_on_one_model_at_a_time() -> None:
    network = runs.model()
    other = runs.trainer(network)
    run = runs.trainer(network, callbacks=[lambda _: other.train(1)])
    with pytest.raises(md.InvalidParameter, match="by two runs at the same time"):
        run.train(1)
    other.train(1)


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_makes_no_steps() -> None:
    run = runs.trainer()
    child = os.fork()
    if not child:
        try:
            run.train(1)
        except md.InvalidParameter:
            os._exit(7)
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    run.train(1)


opacus = pytest.importorskip("opacus")


def loader() -> Any:
    data = torch.utils.data.TensorDataset(*runs.data())
    return md.interop.opacus.multiset_loader(data, md.wor(runs.N, 5))


def test_the_sampler_of_a_loader_is_not_copied() -> None:
    given = loader()
    assert copy.copy(given).batch_sampler is given.batch_sampler  # one count for both
    for way in (copy.deepcopy, pickle.dumps):
        with pytest.raises(md.InvalidParameter, match="must not be copied or pickled"):
            way(given)


def test_threads_share_the_batches_of_a_loader() -> None:
    given = loader().batch_sampler
    found: list[Any] = []
    threads = [threading.Thread(target=lambda: found.extend(given)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert given.drawn == len(found) == 4 * len(given)
    assert len({tuple(batch) for batch in found}) == len(found)


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_draws_no_batches() -> None:
    given = loader().batch_sampler
    child = os.fork()
    if not child:
        try:
            next(iter(given))
        except md.InvalidParameter:
            os._exit(7)
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7


def test_a_batch_pays_for_one_step_of_one_accountant() -> None:
    given = loader()
    name = md.interop.opacus.charged_to(given)
    charges = [
        opacus.accountants.create_accountant(name).get_optimizer_hook_fn(0.1) for _ in range(2)
    ]
    optimizer: Any = type("Optimizer", (), {"accumulated_iterations": 1, "noise_multiplier": 1.0})
    next(iter(given.batch_sampler))
    charges[0](optimizer)
    with pytest.raises(md.InvalidParameter, match="was not drawn by the loader"):
        charges[1](optimizer)
