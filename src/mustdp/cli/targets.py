"""The options of every command that accounts: how often, between which neighbours, how private."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import typer

from mustdp.cli.numbers import clipped, number, one_of, whole
from mustdp.errors import InvalidParameter
from mustdp.limits import LARGEST_EPSILON, MOST_STEPS, SMALLEST_DELTA

RELATIONS = ("replace-one", "add-remove")


def target_option(*names: str, metavar: str, help: str, show_default: bool = False) -> Any:
    """An option in the panel of targets."""
    return typer.Option(
        *names, metavar=metavar, help=help, rich_help_panel="Accounting", show_default=show_default
    )


StepsOption = Annotated[
    str | None,
    target_option(
        "--steps",
        metavar="K",
        help="Number of applications, each with a fresh draw and fresh noise.",
    ),
]
RelationOption = Annotated[
    str | None,
    target_option(
        "--relation",
        metavar="NAME",
        help="Which data sets are neighbours: replace-one (one record is swapped) or add-remove "
        "(one record more or less). Default: add-remove for poisson, replace-one otherwise.",
    ),
]


@dataclass(frozen=True)
class RunOptions:
    """``--steps`` and ``--relation``, as typed."""

    steps: StepsOption = None
    relation: RelationOption = None

    def count(self) -> int:
        """The number of steps."""
        return read_steps(self.steps)

    def neighbours(self) -> str | None:
        """The relation as the package spells it; None for the scheme's default."""
        return None if self.relation is None else read_relation(self.relation)


def read_steps(text: str | None) -> int:
    """The number of steps, which has no default."""
    if text is None:
        raise InvalidParameter("--steps is missing: give the number of applications, 1 or more")
    return read_repeats("--steps", text)


def read_repeats(option: str, text: str) -> int:
    """How often something is repeated."""
    return whole(option, text, 1, MOST_STEPS)


def read_relation(text: str) -> str:
    """A relation as the package spells it."""
    return one_of("--relation", text, RELATIONS).replace("-", "_")


def read_epsilon(texts: Sequence[str], *, target: bool = False) -> float:
    """One epsilon; as a target it must be above 0."""
    text = _once("--epsilon", texts)
    if target:
        return number("--epsilon", text, above=0, at_most=LARGEST_EPSILON)
    return number("--epsilon", text, at_least=0, at_most=LARGEST_EPSILON)


def read_delta(texts: Sequence[str]) -> float:
    """One delta."""
    return number("--delta", _once("--delta", texts), at_least=SMALLEST_DELTA, below=1)


def _once(option: str, texts: Sequence[str]) -> str:
    """The only value of an option; a second one is refused instead of replacing the first."""
    if not texts:
        raise InvalidParameter(f"{option} is missing: give one number")
    if len(texts) > 1:
        raise InvalidParameter(f"{option} must be given once, got {clipped(' and '.join(texts))}")
    return texts[0]


def exactly_one(options: Mapping[str, str | Sequence[str] | None]) -> None:
    """Refuse two options that exclude each other, or neither of them."""
    given = [name for name, value in options.items() if value]
    if len(given) > 1:
        raise InvalidParameter(f"{' and '.join(given)} exclude each other: give exactly one")
    if not given:
        raise InvalidParameter(f"{' or '.join(options)} is missing: give exactly one")
