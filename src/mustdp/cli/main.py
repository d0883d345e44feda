"""The ``mustdp`` command: its subcommands, and the one place where results and errors are printed.

Commands return an Answer and print nothing, so standard output stays empty when something fails. A
failure is one line on standard error, never a traceback for bad input, and an exit status:

1    a result that could not be written
2    bad input: the line names the option, the value and what is allowed
3    a computation that cannot be trusted or was lost, and why
4    a budget that would be exceeded, and what still fits
130  interrupted
141  the reader of standard output has gone
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Annotated, Any

import typer
import typer.core

from mustdp.cli.account import account, amplify, risk
from mustdp.cli.audit import audit
from mustdp.cli.bootstrap import bootstrap
from mustdp.cli.calibrate import calibrate
from mustdp.cli.compare import compare, explore, report
from mustdp.cli.data_options import NAMES as READING_NAMES
from mustdp.cli.doctor import doctor
from mustdp.cli.draw import draw
from mustdp.cli.ledger import ledger
from mustdp.cli.options import paragraphs
from mustdp.cli.output import Answer, show
from mustdp.cli.parameters import JsonOption, RefusedOption, complete_help
from mustdp.cli.published import conformance, deployments
from mustdp.cli.release import plan, release
from mustdp.cli.reproduce import reproduce
from mustdp.cli.train import train
from mustdp.errors import (
    BudgetExceeded,
    ClusterLost,
    InvalidParameter,
    LargeDelta,
    MissingExtra,
    NumericalFailure,
    WorkerLost,
)
from mustdp.mechanisms.relation import Relation
from mustdp.version import __version__


class _PlainFlags:
    """Shows flags, those of typer as well, without the type that they do not take."""

    def get_params(self, ctx: Any) -> list[Any]:
        found: list[Any] = super().get_params(ctx)  # type: ignore[misc]
        for one in found:
            if getattr(one, "is_flag", False):
                one.metavar = ""
        return found


class _Command(_PlainFlags, typer.core.TyperCommand):
    """A command whose flags are plain, and whose help lists what registries hold."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        for one in self.params:
            if getattr(one, "help", None):
                one.help = complete_help(one.help)  # type: ignore[attr-defined]
        super().format_help(ctx, formatter)


class _Group(_PlainFlags, typer.core.TyperGroup):
    """The program itself, whose flags are plain as well."""


app = typer.Typer(
    name="mustdp",
    cls=_Group,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="A result that could not be written: exit status 1. Bad input: exit status 2. A "
    "computation that cannot be trusted: exit status 3. A budget that would be exceeded: exit "
    "status 4.",
)
#: The commands by what they are for, as the help lists them.
GROUPS = {
    "Account for a plan": (account, risk, calibrate, compare, report, explore),
    "Compute on data": (release, plan, bootstrap, train, draw),
    "Keep a budget": (ledger,),
    "Check this machine": (doctor,),
    "Research": (amplify, audit, conformance, deployments, reproduce),
}
COMMANDS = tuple(command for commands in GROUPS.values() for command in commands)
for _panel, _commands in GROUPS.items():
    for _command in _commands:
        app.command(cls=_Command, help=paragraphs(_command.__doc__ or ""), rich_help_panel=_panel)(
            _command
        )

#: What the package calls by another name than a command's options do.
_OTHER_NAMES = {
    "bootstrap": READING_NAMES,
    "release": {**READING_NAMES, "statistics": "--statistic"},
    "plan": {"columns": "--column", "statistics": "--statistic"},
    "ledger": {"path": "FILE", "key": "--key-file"},
}


@app.callback(invoke_without_command=True)
def _mustdp(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
    json: JsonOption = False,
) -> Answer | None:
    """Certified privacy of results computed on random subsamples."""
    called = context.invoked_subcommand
    if called is not None:
        if version:
            raise InvalidParameter(f"--version does not go before the command {called}")
        if json:
            context.default_map = {called: {"json": True}}
        return None
    if version:
        return Answer({"version": __version__}, as_json=json, heading=f"mustdp {__version__}")
    names = ", ".join(command.__name__ for command in COMMANDS)
    raise InvalidParameter(f"a command is missing: one of {names}; mustdp --help explains them")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit status."""
    command = typer.main.get_command(app)
    given = list(sys.argv[1:] if arguments is None else arguments)
    try:
        with _noting() as noted:
            answer = command.main(args=given, prog_name="mustdp", standalone_mode=False)
        if isinstance(answer, Answer):
            show(replace(answer, warnings=tuple(noted)))
        if arguments is None:
            _ignore_interrupts()
    except (Exception, KeyboardInterrupt) as problem:
        if arguments is None:
            _ignore_interrupts()
        outcome = failure(problem, _names(command, given))
        if outcome is None:
            raise
        status, line = outcome
        if isinstance(problem, OSError):
            _discard_output()
        if line:
            print(f"mustdp: {line}", file=sys.stderr)
        return status
    return answer if isinstance(answer, int) else 0


@contextmanager
def _noting() -> Iterator[dict[str, None]]:
    """Collect what is warned of in the words of the package, once each, for the answer."""
    noted: dict[str, None] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("always", LargeDelta)
        shown = warnings.showwarning

        def note(message: Any, category: Any, *rest: Any, **more: Any) -> None:
            if issubclass(category, LargeDelta):
                noted[str(message)] = None
            else:
                shown(message, category, *rest, **more)

        warnings.showwarning = note
        yield noted


def _ignore_interrupts() -> None:
    """Ignore Ctrl-C while the process ends: the answer is printed and nothing is left to stop."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.SIG_IGN)


def _names(command: Any, given: Sequence[str]) -> dict[str, str]:
    """The option behind every argument of the subcommand that was called, and the relations."""
    names = {one.value: one.option for one in Relation}
    called = next((word for word in given if word in command.commands), None)
    if called is not None:
        names |= {one.name: one.opts[0] for one in command.commands[called].params}
        names |= _OTHER_NAMES.get(called, {})
    return names


# From exception to exit status.


#: Listed at the top of this file; 130 and 141 are those of shells for SIGINT and SIGPIPE.
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
    if isinstance(problem, RefusedOption):
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


def _discard_output() -> None:
    """Send what is still buffered nowhere, so that closing standard output cannot fail again."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (AttributeError, OSError, ValueError):
        return


if __name__ == "__main__":
    sys.exit(main())
