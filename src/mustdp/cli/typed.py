"""Options with a type: typer hands their text to a reader, so that commands get values.

Options are declared by the lines that the help has of them, and each by its reader:

    accounting = Panel("Accounting", "--steps K  Number of applications, each with a fresh draw.")
    StepsOption = Annotated[int | None, accounting("--steps", read_integer)]

A reader takes the option's name and the text, and raises InvalidParameter for what it refuses.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib import import_module
from typing import Any

import typer

from mustdp.cli.numbers import clipped, one_of
from mustdp.errors import InvalidParameter
from mustdp.numerics.decimals import as_stated

Reader = Callable[[str, str], Any]


class Refused(Exception):
    """Takes a refusal past typer, which puts words of its own in place of a ValueError."""

    def __init__(self, problem: InvalidParameter) -> None:
        super().__init__(str(problem))
        self.problem = problem


class Panel:
    """Options that the help shows together, by the lines that it has of them.

    A line begins with the option and what it takes; two spaces part it from what it says, which
    may go on in lines that are indented. An option that takes nothing is a flag.
    """

    def __init__(self, title: str | None, lines: str) -> None:
        self._title = title
        self._said: dict[str, tuple[str, str]] = {}
        name = ""
        for line in inspect.cleandoc(lines).splitlines():
            if line.startswith("-"):
                option, _, line = line.partition("  ")
                name, _, takes = option.partition(" ")
                self._said[name] = takes, ""
            takes, said = self._said[name]
            self._said[name] = takes, f"{said} {line.strip()}".strip()

    def __call__(self, name: str, read: Reader | None = None) -> Any:
        """One of the options, whose text goes through ``read``; without a reader it stays text."""
        takes, said = self._said[name]
        return option(name, read, metavar=takes or None, help=said, panel=self._title)


def option(
    name: str,
    read: Reader | None = None,
    *,
    metavar: str | None,
    help: str,
    panel: str | None = None,
    show_default: bool = True,
) -> Any:
    """An option whose text goes through ``read``; without a reader it stays text."""
    return typer.Option(
        name,
        parser=parser(name, read) if read else None,
        metavar=metavar,
        help=help,
        rich_help_panel=panel,
        show_default=show_default,
        autocompletion=_completion(read),
    )


def _completion(read: Reader | None) -> Callable[[str], list[str]] | None:
    """What a shell offers for an option that takes one of a few words."""
    words = getattr(read, "keywords", {}).get("allowed")
    if words is None:
        return None
    # typer hands over what was typed so far under this name.
    return lambda incomplete: [word for word in words if word.startswith(incomplete)]


def parser(name: str, read: Reader) -> Callable[[Any], Any]:
    """What typer calls with the text that was given for ``name``, or with a default."""

    def parse(given: Any) -> Any:
        if type(given) is not str:
            return given
        try:
            return read(name, given)
        except InvalidParameter as problem:
            raise Refused(problem) from None

    return parse


def word_of(choices: Sequence[str]) -> Reader:
    """A reader of one of these words."""
    return partial(one_of, allowed=tuple(choices))


def word_from(module: str, choices: str) -> Reader:
    """A reader of one of the words that a room lists, which is loaded when one is read."""

    def read(name: str, text: str) -> str:
        return one_of(name, text, tuple(getattr(import_module(module), choices)))

    return read


def as_typed(value: object) -> str:
    """A value as it could be typed again, for messages.

    >>> as_typed(0.4), as_typed(20), as_typed((("wor", 5), ("wr", 3)))
    ('0.4', '20', 'wor:5,wr:3')
    """
    if isinstance(value, float):
        return as_stated(value)
    if isinstance(value, tuple):
        return clipped(",".join(f"{kind}:{size}" for kind, size in value))
    return clipped(str(value))


def exactly_one(options: Mapping[str, object]) -> None:
    """Refuse options that exclude each other, or none of them."""
    given = {name: value for name, value in options.items() if value is not None}
    if not given:
        raise InvalidParameter(f"{' or '.join(options)} is missing: give exactly one")
    if len(given) > 1:
        values = " and ".join(f"{name} {as_typed(value)}" for name, value in given.items())
        raise InvalidParameter(
            f"{' and '.join(given)} exclude each other: give exactly one, got {values}"
        )
