"""A run and its ledger: charged once, before the first step, and never gone back behind."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.seams import atoms, checkpoint_file, replace_charged_run, replace_step_noise

torch = pytest.importorskip("torch")

import mustdp as md
from mustdp.errors import (
    BudgetExceeded,
    InvalidParameter,
)
from tests.training.networks import runs
from tests.training.networks.killed_run import log, process

STEPS = 6


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "run.pt"


@pytest.fixture
def file(tmp_path: Path) -> str:
    """A ledger that has room for one run, and not for two."""
    name = str(tmp_path / "office.ledger")
    md.Ledger.open(name, epsilon=20, delta=1e-3).close()
    return name


@pytest.fixture
def noises(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The steps for which noise was drawn."""
    drawn: list[int] = []

    def noted(add: Callable[..., None]) -> Callable[..., None]:
        def drawing(noise: Any, step: int, sums: Any) -> None:
            drawn.append(step)
            add(noise, step, sums)

        return drawing

    replace_step_noise(monkeypatch, noted)
    return drawn


def charged(file: str) -> list[int]:
    """How many steps every entry charges."""
    with md.Ledger.open(file) as ledger:
        ledger.verify()
        return [sum(atoms(e.plan).values()) * e.times for e in ledger.entries()]


def test_the_whole_plan_is_charged_once_before_the_first_noise(
    file: str, noises: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    order: list[str] = []

    def noted(pay: Callable[..., None]) -> Callable[..., None]:
        def paying(run: Any, *given: Any, **named: Any) -> None:
            order.append(f"charged after {len(noises)}")
            pay(run, *given, **named)

        return paying

    replace_charged_run(monkeypatch, "charge", noted)
    with md.Ledger.open(file) as ledger:
        run = runs.trainer(ledger=ledger, callbacks=[lambda event: event.stop()])
        assert ledger.entries() == ()
        assert run.train().steps == 1  # stopped by what it saw: charged for what was planned
        assert run.train(1).steps == 2
        [entry] = ledger.entries()
        assert entry.plan == run.budget.plan()
        assert entry.label.startswith("training: 6 steps")
    assert order == ["charged after 0"]


def test_what_does_not_fit_is_refused_before_the_data_are_touched(file: str) -> None:
    class Untouchable:
        def __len__(self) -> int:
            raise AssertionError("the data were touched")

        def __getitem__(self, _: int) -> Any:
            raise AssertionError("the data were touched")

    with md.Ledger.open(file) as ledger:
        runs.trainer(ledger=ledger).train()
        with pytest.raises(BudgetExceeded) as refused:
            runs.trainer(ledger=ledger, data=Untouchable())
        assert refused.value.wanted == STEPS
        assert refused.value.most is not None
        assert refused.value.most < STEPS
        assert len(ledger.entries()) == 1


def test_two_trainers_with_one_ledger(file: str, noises: list[int]) -> None:
    """Both fit when they are made; the one that comes second makes no step."""
    with md.Ledger.open(file) as one, md.Ledger.open(file) as other:
        first, second = runs.trainer(ledger=one), runs.trainer(ledger=other)
        first.train(1)
        before = runs.weights(second.model).clone()
        with pytest.raises(BudgetExceeded):
            second.train()
        assert torch.equal(runs.weights(second.model), before)
        assert second.steps == 0
        assert first.train().steps == STEPS
    assert noises == list(range(STEPS))
    assert charged(file) == [STEPS]


def test_what_cannot_be_charged_is_refused(file: str, path: Path) -> None:
    with md.Ledger.open(file) as ledger:
        with pytest.raises(InvalidParameter, match="an experiment, no release"):
            runs.trainer(ledger=ledger, seed=1)
        poisson = runs.budget(scheme=md.poisson(60, 0.2))
        with pytest.raises(InvalidParameter, match="relation must be that of the ledger"):
            runs.trainer(ledger=ledger, budget=poisson)
        assert ledger.entries() == ()
    with pytest.raises(InvalidParameter, match="ledger must be a ledger"):
        runs.trainer(ledger=7)
    with pytest.raises(InvalidParameter, match="would forget the run"):
        runs.trainer(ledger=md.Ledger("replace_one"), checkpoint=path)


def test_a_ledger_in_memory_is_charged_for_the_plan() -> None:
    ledger = md.Ledger("replace_one")
    run = runs.trainer(ledger=ledger)
    assert ledger.steps == 0
    run.train(1)
    run.train()
    assert ledger.steps == STEPS


MOMENTS: dict[str, tuple[str, bool]] = {
    "the first state saved, not charged": ("charge", False),
    "charged, nothing more": ("charge", True),
    "a state saved, not noted": ("advance", False),
    "a state noted, not shown": ("advance", True),
}


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
@pytest.mark.parametrize("moment", list(MOMENTS))
def test_killed_and_gone_on(
    file: str, path: Path, moment: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, after = MOMENTS[moment]
    shown: list[int] = []

    def run(killed: bool) -> None:
        def deadly(inner: Callable[..., None]) -> Callable[..., None]:
            def killing(run: Any, *given: Any, **named: Any) -> None:
                if after:
                    inner(run, *given, **named)
                os.kill(os.getpid(), signal.SIGKILL)

            return killing

        if killed:  # in a child
            replace_charged_run(monkeypatch, name, deadly)
        with md.Ledger.open(file) as ledger:
            note = [lambda event: shown.append(event.steps)]
            runs.trainer(ledger=ledger, checkpoint=path, callbacks=note).train()

    assert process(lambda: run(True)) == signal.SIGKILL
    saved = md.Ledger.from_json(checkpoint_file(path).read()["ledger"]).steps
    assert saved == (1 if name == "advance" else 0)
    run(False)
    assert charged(file) == [STEPS]
    assert shown == list(range(saved + 1, STEPS + 1))


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_killed_at_any_time_again_and_again(file: str, path: Path) -> None:
    """Whenever it is killed: one charge, and no step is shown twice."""

    def run(checkpoint: Path = path, book: str = file) -> None:
        with md.Ledger.open(book) as ledger:
            note = [lambda event: log(checkpoint.parent, "shown", event.steps)]
            here = runs.trainer(ledger=ledger, checkpoint=checkpoint, callbacks=note)
            here.train(here.remaining)  # nothing, where it was killed behind the last step

    elsewhere = path.parent / "elsewhere"
    elsewhere.mkdir()
    md.Ledger.open(elsewhere / "ledger", epsilon=20, delta=1e-3).close()
    start = time.monotonic()
    assert process(lambda: run(elsewhere / "run.pt", str(elsewhere / "ledger"))) == 0
    whole = time.monotonic() - start
    ends = [process(run, whole * part) for part in (0.3, 0.5, 0.6, 0.7, 0.8, 0.9)]
    assert signal.SIGKILL in ends
    assert process(run) == 0
    diary = path.parent / "shown"
    shown = [json.loads(one)[1] for one in diary.read_text().splitlines()] if diary.exists() else []
    assert shown == sorted(set(shown))  # one that was saved may never have been shown
    assert md.Ledger.from_json(checkpoint_file(path).read()["ledger"]).steps == STEPS
    assert charged(file) == [STEPS]


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_run_does_not_go_on_in_two_processes(file: str) -> None:
    with md.Ledger.open(file) as ledger:
        run = runs.trainer(ledger=ledger)
        run.train(1)
        refused: list[bool] = []

        def twin() -> None:
            with pytest.raises(InvalidParameter, match="in the process that began it"):
                run.train()

        refused.append(process(twin) == 0)
        assert refused == [True]
        assert run.train().steps == STEPS


def test_a_plan_that_was_declared(tmp_path: Path) -> None:
    """A ledger with a fixed program has room for the run it was made for, by its tight bound."""
    budget = runs.budget()
    cost = budget.spent().epsilon.upper
    name = tmp_path / "declared.ledger"
    with md.Ledger.open(name, epsilon=cost, delta=1e-3, program=budget.plan()) as ledger:
        runs.trainer(ledger=ledger, budget=budget).train()
        with pytest.raises(BudgetExceeded):
            runs.trainer(ledger=ledger, budget=budget)
        assert len(ledger.entries()) == 1


def test_an_older_checkpoint_is_refused(file: str, path: Path) -> None:
    older: list[bytes] = []
    with md.Ledger.open(file) as ledger:
        note = [lambda event: older.append(path.read_bytes())]
        runs.trainer(ledger=ledger, checkpoint=path, callbacks=note).train(3)
        for content in older[:-1]:
            path.write_bytes(content)
            with pytest.raises(InvalidParameter, match="would repeat batches"):
                runs.trainer(ledger=ledger, checkpoint=path)
            assert path.read_bytes() == content
        path.write_bytes(older[-1])
        assert runs.trainer(ledger=ledger, checkpoint=path).train().steps == STEPS
    assert charged(file) == [STEPS]


def test_the_state_before_the_first_step_is_an_older_one(file: str, path: Path) -> None:
    with md.Ledger.open(file) as ledger:
        runs.trainer(ledger=ledger, checkpoint=path).train(0)
        first = path.read_bytes()
        runs.trainer(ledger=ledger, checkpoint=path).train(1)
        path.write_bytes(first)
        with pytest.raises(InvalidParameter, match="knows a later one, of 1 steps"):
            runs.trainer(ledger=ledger, checkpoint=path)


@pytest.mark.parametrize("both_begun", [False, True])
def test_of_two_copies_one_goes_on(file: str, path: Path, both_begun: bool) -> None:
    """The other one makes no step, or one that is in its file but is not shown."""
    copy, shown = path.with_name("copy.pt"), []
    with md.Ledger.open(file) as ledger:
        runs.trainer(ledger=ledger, checkpoint=path).train(2)
        copy.write_bytes(path.read_bytes())
        one = runs.trainer(ledger=ledger, checkpoint=path)
        note = [lambda event: shown.append(event.steps)]
        other = runs.trainer(ledger=ledger, checkpoint=copy, callbacks=note)
        before = runs.weights(other.model).clone()
        if both_begun:
            one.train(0)
            other.train(0)
        one.train(1)
        with pytest.raises(InvalidParameter, match="a second copy"):
            other.train()
        assert shown == []
        assert other.steps == 2
        assert torch.equal(runs.weights(other.model), before)
        with pytest.raises(InvalidParameter, match="a second copy"):
            runs.trainer(ledger=ledger, checkpoint=copy)
        assert one.train().steps == STEPS
    assert charged(file) == [STEPS]


def test_a_ledger_that_was_put_back_does_not_know_the_run(file: str, path: Path) -> None:
    empty = Path(file).read_bytes()
    with md.Ledger.open(file) as ledger:
        runs.trainer(ledger=ledger, checkpoint=path).train(2)
    Path(file).write_bytes(empty)
    with (
        md.Ledger.open(file) as ledger,
        pytest.raises(InvalidParameter, match="does not know the run"),
    ):
        runs.trainer(ledger=ledger, checkpoint=path)


def test_a_run_keeps_its_ledger(file: str, path: Path) -> None:
    plain = path.with_name("plain.pt")
    runs.trainer(checkpoint=plain).train(1)
    with (
        md.Ledger.open(file) as ledger,
        md.Ledger.open(f"{file}2", epsilon=20, delta=1e-3) as another,
    ):
        runs.trainer(ledger=ledger, checkpoint=path).train(1)
        with pytest.raises(InvalidParameter, match="began with another one, and here it is left"):
            runs.trainer(checkpoint=path)
        with pytest.raises(InvalidParameter, match="began with another one"):
            runs.trainer(ledger=another, checkpoint=path)
        with pytest.raises(InvalidParameter, match="began without one"):
            runs.trainer(ledger=another, checkpoint=plain)
        assert another.entries() == ()


def test_a_state_that_could_not_be_noted_is_not_shown(
    file: str, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown: list[int] = []
    with md.Ledger.open(file) as ledger:
        note = [lambda event: shown.append(event.steps)]
        run = runs.trainer(ledger=ledger, checkpoint=path, callbacks=note)
        run.train(2)
        before = runs.weights(run.model).clone()

        def full(*_: Any) -> None:
            raise OSError("no space left on device")

        with monkeypatch.context() as patched:
            replace_charged_run(patched, "advance", lambda advance: full)
            with pytest.raises(OSError, match="no space"):
                run.train()
        assert shown == [1, 2]
        assert run.steps == 2
        assert torch.equal(runs.weights(run.model), before)
        assert run.train().steps == STEPS
    assert charged(file) == [STEPS]


def test_a_changed_note_of_a_run_is_noticed(file: str, path: Path) -> None:
    import sqlite3

    with md.Ledger.open(file) as ledger:
        runs.trainer(ledger=ledger, checkpoint=path).train(2)
    with sqlite3.connect(file) as connection:
        connection.execute("UPDATE runs SET steps = 1")
    connection.close()
    with pytest.raises(InvalidParameter, match="must be as it was written"):
        runs.trainer(ledger=file, checkpoint=path)
    with pytest.raises(InvalidParameter, match="must be as it was written"):
        md.Ledger.open(file)
