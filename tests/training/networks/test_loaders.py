"""Loaders as people have them: what is taken from one, what is refused, killed and resumed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch.utils.data import (
    BatchSampler,
    DistributedSampler,
    IterableDataset,
    RandomSampler,
    SequentialSampler,
    TensorDataset,
    WeightedRandomSampler,
    default_collate,
    get_worker_info,
)

import mustdp as md
from mustdp.errors import (
    InvalidParameter,
    NotCovered,
)
from tests.training.data.places import SHARED, needs_mnist
from tests.training.networks import loader_run, runs
from tests.training.networks.loader_run import BATCH, BINS, EPOCHS, Images, N, loader

ROOT = Path(__file__).parents[3]
STEPS = EPOCHS * BINS


@pytest.fixture(scope="module")
def whole() -> Any:
    """The weights after a run that nobody disturbs."""
    return runs.weights(loader_run.trainer().train().model)


def test_a_shuffling_loader_becomes_random_allocation_and_says_so() -> None:
    model = loader_run.network()
    with pytest.warns(
        md.types.LoaderRedrawn, match=r"one of 4 batches.* around 50; .* taken as public"
    ):
        run = md.PrivateTrainer(
            model,
            torch.nn.CrossEntropyLoss(reduction="none"),
            loader(),
            md.training.loader_budget(loader(), epsilon=4.0, delta=1e-3, epochs=EPOCHS),
            optimizer=torch.optim.SGD(model.parameters(), lr=0.5),
            max_grad_norm=1.0,
        )
    assert run.budget.scheme == md.random_allocation(N, BINS)
    assert (run.budget.steps, run.budget.relation) == (STEPS, "add_remove")
    epsilon = run.train().privacy.epsilon
    assert 3.9 < epsilon.upper <= 4.0


def kept(data: Any, **terms: Any) -> Any:
    model = loader_run.network()
    return md.PrivateTrainer(
        model,
        torch.nn.CrossEntropyLoss(reduction="none"),
        data,
        md.training.loader_budget(
            data, delta=1e-3, epochs=EPOCHS, noise_multiplier=16.0, keep_shuffling=True, **terms
        ),
        optimizer=torch.optim.SGD(model.parameters(), lr=0.5),
        max_grad_norm=1.0,
    )


def test_a_shuffling_loader_is_kept_on_request_and_charged_as_such() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", md.types.LoaderRedrawn)
        run = kept(loader())
    scheme = md.shuffle(N, BATCH)
    assert run.budget.scheme == scheme
    assert (run.budget.steps, run.budget.relation) == (STEPS, "replace_one")
    noise = md.gaussian(noise_multiplier=16.0)
    charged = md.account(md.repeat(EPOCHS, md.subsample(scheme, noise))).epsilon(1e-3)
    assert run.train().privacy.epsilon.upper == pytest.approx(charged.upper, rel=1e-6)


def test_shuffling_that_cannot_be_kept_as_it_is() -> None:
    with pytest.raises(NotCovered, match="only be run under replace_one"):
        kept(loader(), relation="add_remove")
    with pytest.raises(InvalidParameter, match="n must be left out"):
        kept(loader(), n=N)
    with pytest.raises(NotCovered, match="drop_last"):
        kept(loader(batch_size=BATCH + 1, drop_last=True))


def test_a_loader_of_a_dataset_makes_the_same_run_as_one_of_tensors(whole: Any) -> None:
    for data in (loader(Images()), loader(Images(), collate_fn=by_hand)):
        assert torch.equal(runs.weights(loader_run.trainer(data=data).train().model), whole)


def test_workers_fetch_the_records_and_leave_torchs_generator_alone(whole: Any) -> None:
    run = loader_run.trainer(data=loader(Images(), num_workers=2))
    before = torch.random.get_rng_state()
    assert torch.equal(runs.weights(run.train().model), whole)
    assert torch.equal(torch.random.get_rng_state(), before)


def by_hand(records: list[Any]) -> Any:
    return default_collate(records)


def centred(records: list[Any]) -> Any:
    """A collate function that mixes the records of a batch."""
    inputs, labels = default_collate(records)
    return inputs - inputs.mean(0, keepdim=True), labels


def cut(records: list[Any]) -> Any:
    """One that gives every record a shape of its own."""
    inputs, labels = default_collate(records)
    return inputs[..., : 4 + int(labels[0])], labels


def test_a_collate_function_sees_every_record_alone() -> None:
    run: Any = loader_run.trainer(data=loader(Images(), collate_fn=centred))
    rows = run._records.take(torch.arange(5).numpy())
    assert not rows.inputs[0].any()  # each minus itself, nothing of the others
    with pytest.raises(InvalidParameter, match=r"same shapes.*pad to a fixed length"):
        loader_run.trainer(data=loader(Images(), collate_fn=cut))
    with pytest.raises(InvalidParameter, match=r"must be a tuple .* got Tensor"):
        loader_run.trainer(data=loader(Images(), collate_fn=lambda records: records[0][0]))


@pytest.mark.parametrize(
    ("options", "n", "bins"),
    [({}, None, 4), ({"drop_last": True}, None, 3), ({}, 250, 4), ({"batch_size": 500}, None, 1)],
)
def test_bins_are_the_batches_of_the_loader(options: Any, n: int | None, bins: int) -> None:
    run: Any = loader_run.trainer(data=loader(**options), n=n)
    assert run.budget.scheme == md.random_allocation(n or N, bins)
    assert sum(run._batches.batch(k).size for k in range(bins)) == N  # nobody is left out


class Stream(IterableDataset[Any]):
    def __iter__(self) -> Any:
        return iter(Images())


class MySampler(RandomSampler):
    pass


def refused() -> list[tuple[Any, str]]:
    data = TensorDataset(*loader_run.images())
    order = RandomSampler(data)
    replaced = RandomSampler(data, replacement=True)
    return [
        (loader(shuffle=False), "does not shuffle"),
        (loader(shuffle=None, sampler=SequentialSampler(data)), "does not shuffle"),
        (loader(shuffle=None, sampler=WeightedRandomSampler([1.0] * N, N)), "WeightedRandomS"),
        (loader(shuffle=None, sampler=replaced), "RandomSampler"),
        (loader(shuffle=None, sampler=RandomSampler(data, num_samples=50)), "RandomSampler"),
        (loader(shuffle=None, sampler=MySampler(data)), "MySampler"),
        (loader(shuffle=None, sampler=DistributedSampler(data, 2, 0)), "DistributedSampler must"),
        (
            torch.utils.data.DataLoader(data, batch_sampler=type("B", (BatchSampler,), {})(
                order, BATCH, drop_last=False
            )),
            "batch_sampler",
        ),
        (torch.utils.data.DataLoader(data, batch_size=None), "batch_sampler"),
        (torch.utils.data.DataLoader(Stream(), batch_size=BATCH), "a length"),
    ]  # fmt: skip


@pytest.mark.parametrize("number", range(10))
@pytest.mark.parametrize("budget", [None, md.wor(N, 20)], ids=["terms", "budget"])
def test_loaders_that_are_not_charged_for(number: int, budget: Any) -> None:
    data, said = refused()[number]
    options: dict[str, Any] = {} if budget is None else {"budget": runs.budget(scheme=budget)}
    with pytest.raises(NotCovered, match=said):
        loader_run.trainer(data=data, **options)


def test_terms_that_do_not_fit() -> None:
    with pytest.raises(InvalidParameter, match=r"steps .* must be given"):
        loader_run.trainer(epochs=None)
    with pytest.raises(InvalidParameter, match="loader must be a DataLoader, got tuple"):
        loader_run.trainer(data=loader_run.images())
    with pytest.raises(InvalidParameter, match=r"budget must be what .* gives, got NoneType"):
        loader_run.trainer(budget=None)
    with pytest.raises(InvalidParameter, match="exactly one"):
        loader_run.trainer(epsilon=1.0)
    with pytest.raises(InvalidParameter, match="delta must be given"):
        loader_run.trainer(delta=None)
    with pytest.raises(InvalidParameter, match="at least half of the number of records"):
        loader_run.trainer(n=99)


def test_an_estimate_is_all_that_is_said_of_the_number_of_records() -> None:
    model = loader_run.network()
    with pytest.warns(md.types.LoaderRedrawn) as said:
        run = md.PrivateTrainer(
            model,
            torch.nn.CrossEntropyLoss(reduction="none"),
            loader(),
            md.training.loader_budget(loader(), noise_multiplier=1.0, delta=1e-3, epochs=1, n=190),
            optimizer=torch.optim.SGD(model.parameters(), lr=0.5),
            max_grad_norm=1.0,
        )
    [warned] = said
    assert "public" not in str(warned.message)
    assert warned.filename == __file__
    assert run.budget.scheme == md.random_allocation(190, 3)


def test_with_a_budget_its_scheme_draws_and_nothing_is_said() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", md.types.LoaderRedrawn)
        model = loader_run.network()
        run: Any = md.PrivateTrainer(
            model,
            torch.nn.CrossEntropyLoss(reduction="none"),
            loader(),
            runs.budget(scheme=md.wor(N, 20)),
            optimizer=torch.optim.SGD(model.parameters(), lr=0.5),
            max_grad_norm=1.0,
        )
    assert run._batches.batch(0).size == 20


@pytest.mark.parametrize("step", [1, BINS + 1])
def test_killed_and_resumed(step: int, tmp_path: Path, whole: Any) -> None:
    path = tmp_path / "run.pt"
    command = [sys.executable, "-m", "tests.training.networks.loader_run", str(path), str(step)]
    ended = subprocess.run(command, cwd=ROOT, check=False, timeout=120)
    assert ended.returncode == -signal.SIGKILL
    resumed = loader_run.trainer(checkpoint=path)
    assert resumed.steps == step
    assert torch.equal(runs.weights(resumed.train().model), whole)


class Dying(Images):
    """Its first worker is killed in the middle of a batch, unless it is spared."""

    taken, spared = 0, False

    def __getitem__(self, number: int) -> Any:
        worker = get_worker_info()
        self.taken += 1
        if worker is not None and worker.id == 0 and self.taken == 70 and not self.spared:
            os.kill(os.getpid(), signal.SIGKILL)
        return super().__getitem__(number)


def test_a_worker_that_is_killed_ends_the_run_where_it_was_shown(
    tmp_path: Path, whole: Any
) -> None:
    path, data = tmp_path / "run.pt", Dying()
    run = loader_run.trainer(data=loader(data, num_workers=2), checkpoint=path)
    for _ in range(2):  # nor does it wait for ever when it is asked again
        with pytest.raises(RuntimeError, match="worker"):
            run.train()
        assert 0 < run.steps < STEPS
    data.spared = True
    resumed = loader_run.trainer(data=loader(data, num_workers=2), checkpoint=path)
    assert resumed.steps == run.steps
    assert torch.equal(runs.weights(resumed.model), runs.weights(run.model))
    assert torch.equal(runs.weights(resumed.train().model), whole)


@needs_mnist
def test_a_few_records_of_mnist() -> None:
    data = md.training.load_data("mnist", str(SHARED))
    rows = torch.tensor(data.X_train[:4000], dtype=torch.float32).view(-1, 1, 28, 28)
    labels = torch.tensor(data.y_train[:4000], dtype=torch.int64)
    run = loader_run.trainer(data=loader(TensorDataset(rows, labels), batch_size=100), epochs=1)
    trained = run.train()
    with torch.no_grad():
        right = (trained.model(rows).argmax(1) == labels).float().mean()
    assert float(right) > 0.2  # a tenth is guessing
