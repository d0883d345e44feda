"""Objects that answer questions can be shared by threads, pickled and forked."""

from __future__ import annotations

import os
import pickle
import random
import threading
import warnings
from pathlib import Path
from typing import Any

import pytest

import mustdp as md
from tests.faults.asking import (
    OBJECTS,
    STEP,
    THREADS,
    alone,
    asked_by_threads,
    exact,
    switching_often,
)
from tests.seams import replace_account_in_ledger


@pytest.mark.parametrize("name", OBJECTS)
def test_eight_threads_hear_what_one_hears(name: str) -> None:
    count, wrong = asked_by_threads(OBJECTS[name], random.Random(name))
    assert count >= THREADS
    assert wrong == []


@pytest.mark.parametrize("name", [name for name, asked in OBJECTS.items() if asked.picklable])
def test_a_copy_answers_like_the_original(name: str) -> None:
    asked = OBJECTS[name]
    made = asked.make()
    before = pickle.loads(pickle.dumps(made))
    first = {key: exact(ask(made)) for key, ask in asked.questions.items()}
    after = pickle.loads(pickle.dumps(made))  # with whatever it has worked out by now
    for copy in (before, after):
        assert {key: exact(ask(copy)) for key, ask in asked.questions.items()} == first


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize("name", ["account", "must-ow", "gaussian", "ledger", "calibration"])
def test_a_forked_child_hears_the_same(name: str, tmp_path: Path) -> None:
    asked = OBJECTS[name]
    made, expected = asked.make(), alone(asked)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of forking where threads may be
        child = os.fork()
    if not child:
        try:
            found = {key: exact(ask(made)) for key, ask in asked.questions.items()}
            os._exit(0 if found == expected else 1)
        finally:
            os._exit(2)
    assert os.waitpid(child, 0)[1] == 0


def test_steps_of_many_threads_are_all_counted_and_none_is_forgotten_by_an_answer() -> None:
    ledger, wrong = md.Ledger(), []

    def work() -> None:
        for _ in range(40):
            before = ledger.steps
            ledger.step(STEP)
            if ledger.account().steps <= before:  # an account of fewer steps than were taken
                wrong.append(before)

    threads = [threading.Thread(target=work) for _ in range(THREADS)]
    with switching_often():
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert ledger.steps == ledger.account().steps == 40 * THREADS
    assert wrong == []


def test_a_step_that_comes_while_an_account_is_made_is_not_forgotten(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ledger = md.Ledger()
    ledger.step(STEP)
    made: Any = md.account
    others: list[threading.Thread] = []

    def slowly(plan: Any, **options: Any) -> Any:
        found = made(plan, **options)
        if not others:
            others.append(threading.Thread(target=ledger.step, args=(STEP,)))
            others[0].start()
            others[0].join(timeout=0.3)  # as long as that it may have to wait
        return found

    replace_account_in_ledger(monkeypatch, slowly)
    ledger.account()
    others[0].join()
    assert ledger.steps == ledger.account().steps == 2


def test_a_ledger_of_two_billion_steps_is_saved_and_loaded(tmp_path: Path) -> None:
    ledger = md.Ledger()
    for _ in range(2):
        ledger.step(md.repeat(10**9, STEP))
    ledger.save(tmp_path / "long.json")
    loaded = md.Ledger.load(tmp_path / "long.json")
    assert loaded.steps == 2 * 10**9
    with pytest.raises(
        md.InvalidParameter, match="1000000000"
    ):  # no answer rather than a wrong one
        loaded.epsilon(1e-5)


@pytest.mark.parametrize("content", [b"\xff\xfe\x00abc", b"", b"[" * 5000, b"null", b'{"a": 1}'])
def test_what_is_no_ledger_is_refused_in_words(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "bad").write_bytes(content)
    with pytest.raises(md.InvalidParameter):
        md.Ledger.load(tmp_path / "bad")
