"""Run the command line in this process: the one place where tests of commands reach for it."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
import typer

from mustdp.cli import main as program
from mustdp.cli.main import app


class Outcome(NamedTuple):
    status: int
    out: str
    err: str


Run = Callable[..., Outcome]
#: The program with its commands and options, as the help and the completion know them.
PROGRAM: Any = typer.main.get_command(app)
#: The functions behind the commands, by the title they have in the help.
GROUPS: dict[str, Any] = dict(program.GROUPS)
#: The statuses of failures, and what the module of the program says of them.
STATUSES = (program.NOT_WRITTEN, program.BAD_INPUT, program.NOT_TRUSTED, program.NO_BUDGET)
STATUSES_IN_WORDS = program.__doc__


def main(words: list[str]) -> int:
    """Run the program and return its status."""
    return program.main(words)


def runner(capsys: pytest.CaptureFixture[str]) -> Run:
    def run(*arguments: object) -> Outcome:
        capsys.readouterr()
        status = main([str(argument) for argument in arguments])
        return Outcome(status, *capsys.readouterr())

    return run


def answer(run: Run, line: str) -> Any:
    """The JSON answer to a line, which must be all there is."""
    outcome = run(*shlex.split(line), "--json")
    assert (outcome.status, outcome.err) == (0, "")
    assert outcome.out.count("\n") == 1
    return json.loads(outcome.out, parse_constant=no_constants)


def check_refused(outcome: Outcome, *named: str) -> None:
    """Bad input: status 2, one line on standard error that names the parts, nothing else."""
    assert outcome.status == 2
    assert outcome.out == ""
    assert outcome.err.endswith("\n")
    assert outcome.err.count("\n") == 1
    assert "Traceback" not in outcome.err
    for part in named:
        assert part in outcome.err


def no_constants(name: str) -> Any:
    """For ``json.loads(parse_constant=...)``: NaN and Infinity are not JSON."""
    raise AssertionError(f"{name} in JSON output")
