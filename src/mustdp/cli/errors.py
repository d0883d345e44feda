"""From exception to exit status: one line on standard error, never a traceback for bad input.

2    bad input: the line names the option, the value and what is allowed
3    a computation that cannot be trusted or was lost, and why
4    a budget that would be exceeded, and what still fits
130  interrupted
141  whoever was reading standard output has gone
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import Any

import typer

from mustdp.cli.typed import Refused
from mustdp.errors import (
    BudgetExceeded,
    ClusterLost,
    InvalidParameter,
    MissingExtra,
    NumericalFailure,
)

NOT_WRITTEN, BAD_INPUT, NOT_TRUSTED, NO_BUDGET, INTERRUPTED, NO_READER = 1, 2, 3, 4, 130, 141

#: The parent of all usage errors, in whichever copy of click this version of typer uses.
UsageProblem: type[Exception] = typer.BadParameter.__mro__[2]


def failure(problem: BaseException, names: Mapping[str, str]) -> tuple[int, str] | None:
    """Exit status and line for a problem that was foreseen; None for one that was not.

    ``names`` are those of the command line for arguments and relations of the package.
    """
    if isinstance(problem, Refused):
        problem = problem.problem
    if isinstance(problem, InvalidParameter):
        return BAD_INPUT, one_line(problem.called(names))
    if isinstance(problem, MissingExtra):
        return BAD_INPUT, one_line(str(problem))
    if isinstance(problem, NumericalFailure):
        return NOT_TRUSTED, one_line(f"no result that can be trusted: {problem}")
    if isinstance(problem, ClusterLost):
        return NOT_TRUSTED, one_line(f"no result: {problem}")
    if isinstance(problem, BudgetExceeded):
        return NO_BUDGET, one_line(str(problem))
    if isinstance(problem, MemoryError):
        return NOT_TRUSTED, one_line(f"not enough memory for this computation {problem}")
    if isinstance(problem, UsageProblem):
        return BAD_INPUT, _usage(problem)
    if isinstance(problem, typer.Abort | KeyboardInterrupt):
        return INTERRUPTED, one_line(str(problem))
    if isinstance(problem, BrokenPipeError):
        return NO_READER, ""
    if isinstance(problem, OSError):
        return NOT_WRITTEN, one_line(f"the result could not be written: {problem}")
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
