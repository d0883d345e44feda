"""``mustdp train``: a private classifier from the command line."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.cli.running import Run, check_refused, no_constants
from tests.seams import replace_step_noise
from tests.training.data.places import SHARED, needs_adult, needs_mnist

pytest.importorskip("sklearn")

DIGITS = "train digits --scheme must-ow -b 300 -m 200 --steps 300"


def answer(run: Run, line: str) -> Any:
    outcome = run(*shlex.split(line), "--json")
    assert outcome.status == 0, outcome.err
    assert outcome.out.count("\n") == 1
    return json.loads(outcome.out, parse_constant=no_constants)


def test_digits_at_a_certified_epsilon(run: Run) -> None:
    given = answer(run, f"{DIGITS} --epsilon 4 --delta 1e-4")
    assert given["epsilon"]["lower"] <= given["epsilon"]["upper"] <= 4
    assert (given["delta"], given["relation"], given["steps"]) == (1e-4, "replace-one", 300)
    assert (given["scheme"], given["n"]) == ("must-ow", 1347)
    assert given["stages"] == [["wor", 300], ["wr", 200]]
    assert given["noise"] == "calibrated for a certified epsilon"
    # 0.84 to 0.88 over many seeds.
    assert given["test_accuracy"] > 0.8
    assert given["majority_baseline"] == 0.1
    assert given["test_records"] == 450


@pytest.mark.parametrize("model", ["linear", "mlp"])
def test_epochs_of_random_allocation(run: Run, model: str, tmp_path: Path) -> None:
    line = f"train digits --scheme allocation -n 1340 -m 64 --epochs 2 --model {model} --delta 1e-4"
    files = ""
    if model == "mlp":
        pytest.importorskip("torch")
        files = f"--checkpoint {tmp_path / 'run.pt'}"
    given = answer(run, f"{line} --noise-multiplier 1 {files}")
    assert (given["scheme"], given["n"], given["bins"]) == ("allocation", 1340, 21)
    assert (given["steps"], given["epochs"], given["relation"]) == (42, 2.0, "add-remove")
    assert 0 < given["epsilon"]["lower"] <= given["epsilon"]["upper"] < 2.5
    assert given["test_accuracy"] > 0.5
    if files:  # a run that is finished says so again, and nothing more is made
        again = answer(run, f"{line} --noise-multiplier 1 {files} --resume")
        assert again == given


def test_every_record_in_two_batches_of_an_epoch(run: Run) -> None:
    line = "train digits --scheme allocation -n 1340 -m 64 --times 2 --epochs 1"
    given = answer(run, f"{line} --noise-multiplier 2 --delta 1e-4")
    # As large a batch as without, and twice as many of them.
    assert (given["bins"], given["times"], given["steps"]) == (42, 2, 42)
    assert 0 < given["epsilon"]["lower"] <= given["epsilon"]["upper"]


def test_shuffled_epochs_say_what_they_are_not(run: Run) -> None:
    line = "train digits --scheme shuffle -m 100 --epochs 1 --noise-multiplier 4 --delta 1e-4"
    outcome = run(*shlex.split(line))
    assert outcome.status == 0, outcome.err
    assert "shuffling is not Poisson sampling" in outcome.out
    given = answer(run, line)
    assert (given["steps"], given["relation"]) == (14, "replace-one")
    assert given["poisson"]["epsilon_promised"] < given["epsilon"]["upper"]


@needs_adult
def test_adult(run: Run) -> None:
    line = "train adult --scheme wor -m 1000 --steps 100 --noise-multiplier 5 --delta 1e-6"
    given = answer(run, f"{line} --learning-rate 3 --schedule cosine --seed 1 --data {SHARED}")
    assert given["majority_baseline"] == pytest.approx(0.7402, abs=1e-4)
    assert given["test_accuracy"] > 0.78
    assert given["noise"] == "noise multiplier as given"
    assert (given["learning_rate"], given["schedule"], given["clip"]) == (3.0, "cosine", 1.0)


@needs_mnist
def test_mnist(run: Run) -> None:
    line = "train mnist --stages wor:1500,wr:1000 --steps 40 --noise-multiplier 3 --seed 1"
    given = answer(run, f"{line} -n 60000 --delta 1e-6 --data {SHARED / 'mnist'}")
    assert given["test_accuracy"] > 0.75
    assert given["test_records"] == 10_000


def test_a_seed_repeats_and_is_remarked_upon(run: Run) -> None:
    line = "train digits --scheme poisson -n 1300 --rate 0.1 --steps 20 --noise-multiplier 2"
    first, again = (run(*shlex.split(f"{line} --delta 1e-5 --seed 3")) for _ in range(2))
    assert first.out.startswith("an experiment with a seed, no private release")
    data = answer(run, f"{line} --delta 1e-5 --seed 3")
    assert data["seeded"] is True
    assert "epsilon" not in data
    assert first == again
    assert first.err.count("\n") == 1
    assert "--seed 3" in first.err
    assert "experiments only" in first.err
    assert "relation add-remove" in first.out
    assert run(*shlex.split(f"{line} --delta 1e-5")).err == ""


def test_a_table(run: Run) -> None:
    outcome = run(*shlex.split(f"{DIGITS} --noise-multiplier 6 --delta 1e-5"))
    assert "test accuracy  majority baseline" in outcome.out
    assert "digits, linear model: must-ow of 1347 records" in outcome.out
    assert "certified" in outcome.out


BAD = [
    ("train", "DATASET"),
    ("train iris", "DATASET must be one of digits, mnist, adult", "'iris'"),
    ("train digits --steps 5 --epsilon 1", "--scheme is missing"),
    ("train digits --scheme wor -m 5 --epsilon 1", "--steps is missing"),
    ("train digits --scheme wor -m 5 --epochs 5 --epsilon 1", "--epochs 5 only fits"),
    ("train digits --scheme wor -m 5 --steps 5 --bins 5 --epsilon 1", "--bins 5 only fits"),
    ("train digits --scheme allocation -m 64 --epsilon 1", "--epochs is missing"),
    (
        "train digits --scheme allocation -m 64 --epochs 1 --noise-multiplier 1 --delta 1e-4",
        "-n is",
    ),
    ("train digits --scheme allocation --epochs 1 --noise-multiplier 1", "--bins"),
    ("train digits --scheme allocation -m 64 --epochs 1 --steps 4 --epsilon 1", "give one"),
    (
        "train digits --scheme shuffle -m 64 --epochs 1 --noise-multiplier 1 --delta 1e-4 "
        "--relation add-remove",
        "only be run under replace_one",
    ),
    ("train digits --scheme wor -m 5 --steps 5", "--epsilon or --noise-multiplier is missing"),
    ("train digits --scheme wor -m 5 --steps 5 --epsilon 1 --noise-multiplier 1", "exclude"),
    ("train digits --scheme wor -m 5 --steps 5 --epsilon 0", "--epsilon must", "got 0"),
    ("train digits --scheme wor -m 5 --steps 5 --noise-multiplier nan", "--noise-multiplier must"),
    ("train digits --scheme wor -m 5 --steps 5 --epsilon 1 --delta 1", "--delta must"),
    ("train digits --scheme Wor -m 5 --steps 5 --epsilon 1", "'Wor'", "did you mean wor?"),
    ("train digits --scheme wor -m 2000 --steps 5 --epsilon 1", "-m must", "-n = 1347", "2000"),
    ("train digits --scheme must-ow -m 5 --steps 5 --epsilon 1", "-b is missing"),
    ("train digits --scheme wor -n 500 -m 5 --steps 5 --epsilon 1", "-n must be 1347", "500"),
    ("train digits --scheme poisson -n 1300 --rate 0 --steps 5 --noise-multiplier 1", "--rate"),
    ("train digits --scheme wor -m 5 --steps 5 --epsilon 1 --clip 0", "--clip must", "got 0"),
    ("train digits --scheme wor -m 5 --steps 5 --epsilon 1 --learning-rate -1", "--learning-rate"),
    ("train digits --scheme wor -m 5 --steps 5 --epsilon 1 --schedule up", "--schedule must"),
    ("train digits --scheme wor -m 5 --steps 5 --epsilon 1 --model tree", "--model must", "'tree'"),
    ("train digits --scheme wor -m 5 --steps 5 --epsilon 1 --seed -1", "--seed must", "-1"),
    ("train digits --scheme wor -m 5 --steps 5 --epsilon 1 --data .", "--data must not be given"),
    ("train mnist --scheme wor -m 5 --steps 5 --epsilon 1 --data /nowhere", "--data must", "/nowh"),
    ("train adult --scheme wor -m 5 --steps 5 --epsilon 1 --data /nowhere", "--data must", "/nowh"),
    ("train digits --scheme wor -m 5 --steps 5 --epsilon 1 --relation swap", "--relation must"),
    ("train digits --scheme wor -m 5 --steps 5 --epsilon 1 --checkpoint x", "--checkpoint must be"),
    ("train digits --scheme wor -m 5 --steps 5 --epsilon 1 --device cpu", "--device must be"),
    ("train digits --scheme wor -m 5 --steps 5 --epsilon 1 --resume", "--resume must come with"),
    ("train digits --scheme wor -m 5 --steps 5 --epsilon 1 --save /nowhere/x", "--save must be in"),
    ("train digits --scheme wor -m 5 --steps 5 --epsilon 1 --ledger /nowhere/x", "/nowhere/x"),
]


@pytest.mark.parametrize(("line", "named"), [(line, named) for line, *named in BAD])
@pytest.mark.parametrize("as_json", [[], ["--json"]])
def test_bad_input(run: Run, line: str, named: list[str], as_json: list[str]) -> None:
    stated = [] if "--delta" in line or line == "train" else ["--delta", "1e-5"]
    check_refused(run(*shlex.split(line), *stated, *as_json), *named)


def test_damaged_files_are_refused(run: Run, tmp_path: Path) -> None:
    (tmp_path / "adult.data").write_text("half a file")
    (tmp_path / "adult.test").write_text("")
    line = f"train adult --scheme wor -m 5 --steps 5 --epsilon 1 --delta 1e-5 --data {tmp_path}"
    check_refused(run(*shlex.split(line)), "adult.test must be the file as published")


def test_noise_without_a_bound_is_not_trained_with(run: Run) -> None:
    line = "train digits --scheme wor -m 5 --steps 1 --noise-multiplier 1e-6 --delta 1e-5"
    outcome = run(*shlex.split(line))
    assert outcome.status == 3
    assert outcome.out == ""
    assert "no finite upper bound" in outcome.err


def test_a_network_with_torch(run: Run) -> None:
    pytest.importorskip("torch")
    line = "train digits --scheme wor -m 200 --steps 50 --noise-multiplier 1 --model mlp --seed 1"
    given = answer(run, f"{line} --delta 1e-5")
    assert given["test_accuracy"] > 0.6
    assert given["model"] == "mlp"


SMALL = "train digits --scheme wor -n 1347 -m 200 --steps 6 --noise-multiplier 4 --delta 1e-5"


def made(run: Run, folder: Path, epsilon: float) -> str:
    file = str(folder / "office.ledger")
    outcome = run("ledger", "create", file, "--epsilon", epsilon, "--delta", "1e-5")
    assert outcome.status == 0
    return file


def labels(run: Run, file: str) -> list[str]:
    shown = json.loads(run("ledger", "entries", file, "--json").out)
    return [entry["label"] for entry in shown["entries"]]


def test_a_ledger_is_charged_and_refuses_before_data_are_read(run: Run, tmp_path: Path) -> None:
    file = made(run, tmp_path, 2)
    answer(run, f"{SMALL} --ledger {file}")
    assert labels(run, file) == ["training: linear model on digits"]
    large = "train adult --scheme wor -n 30000 -m 15000 --steps 60 --noise-multiplier 4"
    missing = f"{large} --delta 1e-5 --data {tmp_path / 'missing'}"
    refused = run(*shlex.split(f"{missing} --ledger {file}"))
    assert (refused.status, refused.out) == (4, "")
    for part in ("would be exceeded", "is spent", "left of epsilon 2", "steps fit"):
        assert part in refused.err
    check_refused(run(*shlex.split(f"{SMALL} --ledger {file} --seed 1")), "ledger", "seed")
    assert len(labels(run, file)) == 1


def test_interrupted_and_gone_on(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch")
    file, checkpoint, saved = made(run, tmp_path, 2), tmp_path / "run.pt", tmp_path / "model.pt"
    line = f"{SMALL} --model mlp --ledger {file} --checkpoint {checkpoint} --save {saved}"
    check_refused(run(*shlex.split(f"{line} --resume")), "--resume must come with a --checkpoint")

    def pressed(add: Callable[..., None]) -> Callable[..., None]:
        def until_the_fourth(noise: Any, step: int, sums: Any) -> None:
            if step == 4:
                raise KeyboardInterrupt
            add(noise, step, sums)

        return until_the_fourth

    with monkeypatch.context() as patched:
        replace_step_noise(patched, pressed)
        stopped = run(*shlex.split(line))
    assert (stopped.status, stopped.out) == (130, "")
    assert f"{checkpoint} holds 4 of 6 steps" in stopped.err
    assert "--resume goes on" in stopped.err
    assert not saved.exists()
    check_refused(run(*shlex.split(line)), "--checkpoint must not be there yet; --resume")
    given = answer(run, f"{line} --resume --device cpu")
    assert given["steps"] == 6
    [label] = labels(run, file)
    assert label.startswith("training: 6 steps, run ")
    weights = torch.load(saved, weights_only=True)
    assert weights["0.weight"].shape == (128, 64)
    assert saved.stat().st_mode & 0o077 == 0


def test_a_linear_model_is_saved(run: Run, tmp_path: Path) -> None:
    saved = tmp_path / "model.npz"
    answer(run, f"{SMALL} --save {saved}")
    with np.load(saved) as found:
        assert found["coef"].shape == (10, 64)
        assert found["intercept"].shape == (10,)
