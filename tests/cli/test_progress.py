"""The progress bar: on standard error, on a terminal, and nowhere else."""

from __future__ import annotations

import io
import json
import shlex
import sys

import pytest

from tests.cli.running import Run, main, no_constants
from tests.seams import progress

COMPARE = "compare -n 20 -b 10 -m 2 --steps 2 --delta 0.01 --noise-multiplier 9 --json"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """Called inside the test: pytest sets standard error anew once fixtures are made."""
    fake = Terminal()
    monkeypatch.setattr(sys, "stderr", fake)
    monkeypatch.setenv("TERM", "xterm")
    return fake


def test_a_bar_on_a_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    terminal = on_a_terminal(monkeypatch)
    assert main(shlex.split(COMPARE)) == 0
    assert "shuffl" in terminal.getvalue()  # the last one
    assert len(json.loads(capsys.readouterr().out, parse_constant=no_constants)["rows"]) == 9


def test_no_bar_elsewhere(run: Run) -> None:
    assert run(*shlex.split(COMPARE)).err == ""


@pytest.mark.parametrize(
    ("far", "words"), [((), "third [part] "), ((1, 2), "third [part]: 1 of 2 ")]
)
def test_parts_are_named_and_counted(
    monkeypatch: pytest.MonkeyPatch, far: tuple[int, ...], words: str
) -> None:
    terminal = on_a_terminal(monkeypatch)
    with progress("beginning") as move:
        move("first", 0, 2)
        move("second")
        move("third [part]", *far)
    assert words in terminal.getvalue()


def test_the_cursor_comes_back_after_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = on_a_terminal(monkeypatch)
    with pytest.raises(KeyboardInterrupt), progress("working"):
        raise KeyboardInterrupt
    assert terminal.getvalue().rindex("\x1b[?25h") > terminal.getvalue().rindex("\x1b[?25l")


def test_nothing_happens_without_standard_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", None)
    with progress() as move:
        move("part", 1, 2)
