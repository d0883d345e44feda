"""What ``mustdp account`` is asked: delta or epsilon, by which method, composed how."""

from __future__ import annotations

from typing import Annotated

from mustdp.cli.numbers import one_of
from mustdp.cli.targets import (
    ACCOUNTING,
    read_delta,
    read_epsilon,
    read_repeats,
)
from mustdp.cli.typed import option, word_from
from mustdp.errors import InvalidParameter

#: An older word for a method, still understood.
SAME = {"section4": "one-slope"}


def _read_method(name: str, text: str) -> str:
    """A method as it was typed."""
    from mustdp.accounting.account import METHODS

    return one_of(name, text, (*METHODS, *SAME))


def _read_delta(name: str, text: str) -> float:
    """A delta, or 0 for the largest loss there is."""
    try:
        return read_delta(name, text)
    except InvalidParameter as problem:
        if problem.got not in ("0.0", "-0.0"):
            raise
        return 0.0


DeltaOption = Annotated[
    float | None,
    option(
        "--delta",
        _read_delta,
        metavar="D",
        help="Ask for epsilon at this delta, well below one in the number of records; 0 asks for "
        "the largest loss, which Laplace noise bounds.",
        panel=ACCOUNTING,
    ),
]
EpsilonOption = Annotated[
    float | None,
    option(
        "--epsilon",
        read_epsilon,
        metavar="E",
        help="Ask for delta at this epsilon, at least 0.",
        panel=ACCOUNTING,
    ),
]
MethodOption = Annotated[
    str,
    option(
        "--method",
        _read_method,
        metavar="NAME",
        help="certified; one-slope (or section4): the upper bound from the theorem of the MUST "
        "paper, composed; paper: the paper's own composition, which follows one pair of data sets "
        "only.",
        panel=ACCOUNTING,
        show_default=True,
    ),
]
CompositionOption = Annotated[
    str,
    option(
        "--composition",
        word_from("mustdp.accounting.tighter", "COMPOSITIONS"),
        metavar="NAME",
        help="auto: the worst of a family of pairs is chosen anew in every step, where one is "
        "proved, in a second or three; family: the same in up to twenty, for closer bounds; pair: "
        "one dominating pair for every step.",
        panel=ACCOUNTING,
        show_default=True,
    ),
]
DimensionOption = Annotated[
    int | None,
    option(
        "--dimension",
        read_repeats,
        metavar="D",
        help="Every release has this many coordinates; 1, a single number, brings the bounds of "
        "wor closer.",
        panel=ACCOUNTING,
    ),
]
ReuseOption = Annotated[
    int | None,
    option(
        "--reuse",
        read_repeats,
        metavar="R",
        help="Repeat the last of several stages R times on what the stages before it drew, in "
        "each of the K steps.",
        panel=ACCOUNTING,
    ),
]
