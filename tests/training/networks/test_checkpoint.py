"""A run in a file: it goes on where it was, and only where it belongs."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest

from tests.seams import checkpoint_file, step_noise

torch = pytest.importorskip("torch")

import mustdp as md
from mustdp.errors import InvalidParameter
from tests.training.networks import runs


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "run.pt"


@pytest.mark.parametrize("every", [1, 2, 4])
def test_an_interrupted_run_ends_like_one_that_was_not(path: Path, every: int) -> None:
    whole = runs.trainer(seed=3).train()
    runs.trainer(seed=3, checkpoint=md.types.Checkpoint(path, every)).train(3)
    resumed = runs.trainer(seed=3, checkpoint=md.types.Checkpoint(path, every))
    assert resumed.steps == 3
    done = resumed.train()
    assert done.steps == 6
    assert torch.equal(runs.weights(done.model), runs.weights(whole.model))
    assert done.privacy == whole.privacy
    again = runs.trainer(seed=3, checkpoint=path)
    assert again.steps == 6
    assert torch.equal(runs.weights(again.model), runs.weights(whole.model))


def test_without_a_seed_batches_go_on_and_noise_is_fresh(path: Path) -> None:
    def run(name: Path) -> Any:
        return runs.trainer(checkpoint=name)

    first = run(path)
    first.train(2)
    copy = path.with_name("copy.pt")
    copy.write_bytes(path.read_bytes())
    one, other = run(path), run(copy)
    drawn = [[r._batches.batch(k) for k in range(6)] for r in (first, one, other)]
    assert drawn[0] == drawn[1] == drawn[2]
    one.train(1)
    other.train(1)
    assert not torch.allclose(runs.weights(one.model), runs.weights(other.model), atol=1e-3)


def test_the_noise_cannot_be_had_from_the_file(path: Path) -> None:
    run = runs.trainer(checkpoint=path)
    run.train(1)
    state = checkpoint_file(path).read()
    saved = {"run", "model", "optimizer", "scheduler", "batches", "ledger"}
    assert set(state) == saved | {"clipping", "average", "extra"}
    assert run._batches.key.text == state["batches"]["seed"]
    assert not run._batches.key.seeded
    # The source of the noise can neither be written nor copied, and what is in the file is no seed
    # of it: two sources of the same batch key have nothing in common.
    with pytest.raises(TypeError, match="never copied"):
        pickle.dumps(run._noise)
    theirs, ours = (torch.zeros(5, dtype=torch.int64) for _ in range(2))
    step_noise(run._batches.key, 1e6).add(0, theirs)
    step_noise(run._batches.key, 1e6).add(0, ours)
    assert not torch.equal(theirs, ours)


def test_nothing_is_shown_before_it_is_charged_on_disk(path: Path) -> None:
    seen = []

    def watch(event: Any) -> None:
        state = checkpoint_file(path).read()
        ledger = md.Ledger.from_json(state["ledger"])
        seen.append((event.steps, len(event.losses_not_private), ledger.steps))
        on_disk = torch.cat([v.flatten() for v in state["model"].values()])
        assert torch.equal(on_disk, runs.weights(event.model))

    runs.trainer(checkpoint=md.types.Checkpoint(path, 4), callbacks=[watch], losses=True).train()
    assert seen == [(4, 4, 4), (6, 2, 6)]


def test_a_run_that_breaks_off_hands_back_what_was_released_last(path: Path) -> None:
    run: Any = runs.trainer(checkpoint=md.types.Checkpoint(path, 3))
    step, calls = run._optimizer.step, []

    def breaking() -> None:
        calls.append(1)
        step()
        if len(calls) == 5:
            raise KeyboardInterrupt

    run._optimizer.step = breaking
    with pytest.raises(KeyboardInterrupt):
        run.train()
    state = checkpoint_file(path).read()
    assert run.steps == md.Ledger.from_json(state["ledger"]).steps == 3
    on_disk = torch.cat([v.flatten() for v in state["model"].values()])
    assert torch.equal(on_disk, runs.weights(run.model))
    run._optimizer.step = step
    assert run.train().steps == 6


def test_the_gradient_of_a_step_that_is_taken_back_is_not_left_behind(path: Path) -> None:
    """The step is made again with the same batch and fresh noise, and is charged once."""

    class Breaking(torch.optim.SGD):  # type: ignore[misc, name-defined, unused-ignore]
        def step(self, closure: Any = None) -> Any:
            raise KeyboardInterrupt

    model = runs.model()
    optimizer = Breaking(model.parameters(), lr=0.1)
    run = runs.trainer(model, optimizer=optimizer, checkpoint=path)
    with pytest.raises(KeyboardInterrupt):
        run.train()
    assert run.steps == 0
    assert all(p.grad is None for p in model.parameters())


def test_without_a_file_a_step_that_breaks_off_is_charged() -> None:
    run: Any = runs.trainer()

    def breaking() -> None:
        raise KeyboardInterrupt

    run._optimizer.step = breaking
    with pytest.raises(KeyboardInterrupt):
        run.train()
    assert run.steps == 1


def test_a_file_that_cannot_be_written_takes_the_step_back(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = runs.trainer(checkpoint=path)
    run.train(2)
    before = runs.weights(run.model).clone()

    def full(*_: Any) -> None:
        raise OSError("no space left on device")

    with monkeypatch.context() as patched:
        patched.setattr("os.fsync", full)
        with pytest.raises(OSError, match="no space"):
            run.train()
    assert run.steps == 2
    assert torch.equal(runs.weights(run.model), before)
    assert run.train().steps == 6


OTHER_RUNS: list[tuple[dict[str, Any], str]] = [
    ({"budget": runs.budget(z=1.6)}, "its plan is"),
    ({"budget": runs.budget(steps=7)}, "its plan is"),
    ({"budget": runs.budget(scheme=md.must_ow(60, 30, 21))}, "its plan is"),
    ({"budget": runs.budget(scheme=md.wor(60, 20))}, "its plan is"),
    ({"max_grad_norm": 2.0}, "its max_grad_norm is"),
    ({"seed": 1}, "its seed is"),
    ({"network": torch.nn.Linear(6, 3)}, "its model is"),
]


@pytest.mark.parametrize(("options", "reason"), OTHER_RUNS)
def test_a_checkpoint_of_another_run(path: Path, options: dict[str, Any], reason: str) -> None:
    runs.trainer(checkpoint=path).train(2)
    content = path.read_bytes()
    with pytest.raises(InvalidParameter, match=f"belongs to another run.*{reason}"):
        runs.trainer(checkpoint=path, **options)
    assert path.read_bytes() == content


def test_a_checkpoint_with_another_optimiser_seed_or_schedule(path: Path) -> None:
    runs.trainer(checkpoint=path, seed=1).train(2)
    with pytest.raises(InvalidParameter, match="another seed"):
        runs.trainer(checkpoint=path, seed=2)
    network = runs.model()
    sgd = torch.optim.SGD(network.parameters(), lr=0.1)
    with pytest.raises(InvalidParameter, match="its optimizer is"):
        runs.trainer(network, checkpoint=path, seed=1, optimizer=sgd)
    network = runs.model()
    adam = torch.optim.Adam(network.parameters())
    schedule = torch.optim.lr_scheduler.StepLR(adam, 1)
    with pytest.raises(InvalidParameter, match="scheduler"):
        runs.trainer(network, checkpoint=path, seed=1, optimizer=adam, scheduler=schedule)
    groups = torch.optim.Adam([{"params": [p]} for p in network.parameters()])
    with pytest.raises(InvalidParameter, match="does not fit"):
        runs.trainer(network, checkpoint=path, seed=1, optimizer=groups)


def test_damaged_files_are_refused_and_left_alone(path: Path) -> None:
    runs.trainer(checkpoint=path).train(2)
    good = path.read_bytes()
    flipped = bytearray(good)
    flipped[-200] ^= 1
    for content, message in (
        (b"", "no checkpoint"),
        (b"something else entirely", "no checkpoint"),
        (good[:-1], "damaged"),
        (good[: len(good) // 2], "damaged"),
        (bytes(flipped), "damaged"),
    ):
        path.write_bytes(content)
        with pytest.raises(InvalidParameter, match=message):
            runs.trainer(checkpoint=path)
        assert path.read_bytes() == content
    path.write_bytes(good)
    assert runs.trainer(checkpoint=path).train().steps == 6


def test_an_old_checkpoint_is_not_overwritten_by_accident(path: Path) -> None:
    runs.trainer(checkpoint=path).train(2)
    with pytest.raises(InvalidParameter, match="exists; resume=True"):
        runs.trainer(checkpoint=md.types.Checkpoint(path, resume=False))
    with pytest.raises(InvalidParameter, match="folder that exists"):
        runs.trainer(checkpoint=path.parent / "nowhere" / "run.pt")


def test_two_runs_do_not_share_a_file(path: Path) -> None:
    one, other = runs.trainer(checkpoint=path), runs.trainer(checkpoint=path)
    one.train(2)
    with pytest.raises(InvalidParameter, match="written by another run"):
        other.train(1)
    third: Any = runs.trainer(checkpoint=path)
    with (
        third._saved.file.held(),
        pytest.raises(InvalidParameter, match="in use by another run"),
    ):
        third.train(1)


def test_only_its_owner_may_read_a_checkpoint(path: Path) -> None:
    runs.trainer(checkpoint=path).train(1)
    assert path.stat().st_mode & 0o077 == 0
    assert sorted(p.name for p in path.parent.iterdir()) == ["run.pt", "run.pt.lock"]
