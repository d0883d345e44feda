"""From exception to exit status: one line on standard error, never a traceback for bad input.

1    a result that could not be written
2    bad input: the line names the option, the value and what is allowed
3    a computation that cannot be trusted or was lost, and why
4    a budget that would be exceeded, and what still fits
130  interrupted
141  the reader of standard output has gone
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import Any

import typer

from mustdp.cli.parameters import Refused
from mustdp.errors import (
    BudgetExceeded,
    ClusterLost,
    InvalidParameter,
    MissingExtra,
    NumericalFailure,
    WorkerLost,
)

NOT_WRITTEN, BAD_INPUT, NOT_TRUSTED, NO_BUDGET, INTERRUPTED, NO_READER = 1, 2, 3, 4, 130, 141

#: The parent of all usage errors, in whichever copy of click this version of typer uses.
UsageProblem: type[Exception] = typer.BadParameter.__mro__[2]


#: What else may end a command, with its status and its line; of two kinds, the narrower first.
_FORESEEN: tuple[tuple[type[BaseException], int, str], ...] = (
    (MissingExtra, BAD_INPUT, "{}"),
    (NumericalFailure, NOT_TRUSTED, "no result that can be trusted: {}"),
    (ClusterLost, NOT_TRUSTED, "no result: {}"),
    (WorkerLost, NOT_TRUSTED, "no result: {}"),
    (BudgetExceeded, NO_BUDGET, "{}"),
    (MemoryError, NOT_TRUSTED, "not enough memory for this computation {}"),
    (typer.Abort, INTERRUPTED, "{}"),
    (KeyboardInterrupt, INTERRUPTED, "{}"),
    (BrokenPipeError, NO_READER, ""),
    (OSError, NOT_WRITTEN, "the result could not be written: {}"),
)


def failure(problem: BaseException, names: Mapping[str, str]) -> tuple[int, str] | None:
    """Exit status and line for a problem that was foreseen; None for one that was not.

    ``names`` are those of the command line for arguments and relations of the package.
    """
    if isinstance(problem, Refused):
        problem = problem.problem
    if isinstance(problem, InvalidParameter):
        return BAD_INPUT, one_line(problem.called(names))
    for kind, status, line in _FORESEEN:
        if isinstance(problem, kind):
            return status, one_line(line.format(problem))
    if isinstance(problem, UsageProblem):
        return BAD_INPUT, _usage(problem)
    return None


def _usage(problem: Any) -> str:
    """A usage error in one line, with the place that lists what is allowed."""
    context = getattr(problem, "ctx", None)
    path = context.command_path if context else "mustdp"
    message = one_line(problem.format_message()).rstrip(".")
    return f"{message[:1].lower()}{message[1:]}; {path} --help lists what is allowed"


def one_line(message: str) -> str:
    """Squeeze all white space, line ends included, into single spaces."""
    return " ".join(message.split())


def forget_output() -> None:
    """Send what is still buffered nowhere, so that closing standard output cannot fail again."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (AttributeError, OSError, ValueError):
        return
