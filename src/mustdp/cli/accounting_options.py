"""What ``mustdp account`` is asked: delta or epsilon, by which method, composed how."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from mustdp.cli.numbers import one_of
from mustdp.cli.targets import ACCOUNTING, GroupOption, read_delta, read_epsilon, read_repeats
from mustdp.cli.typed import Panel, exactly_one, word_from
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


_accounting = Panel(
    ACCOUNTING,
    """
    --epsilon E         Ask for delta at this epsilon, at least 0.
    --delta D           Ask for epsilon at this delta, well below one in the number of records; 0
                        asks for the largest loss, which Laplace noise bounds.
    --method NAME       certified; one-slope (or section4): the upper bound from the theorem of the
                        MUST paper, composed; paper: the paper's own composition, which follows one
                        pair of data sets only.
    --composition NAME  auto: the worst of a family of pairs is chosen anew in every step, where one
                        is proved, in a second or three; family: the same in up to twenty, for
                        closer bounds; pair: one dominating pair for every step.
    --dimension D       Every release has this many coordinates; 1, a single number, brings the
                        bounds of wor closer.
    --reuse R           Repeat the last of several stages R times on what the stages before it drew,
                        in each of the K steps.
    """,
)


@dataclass(frozen=True)
class QuestionOptions:
    """``--epsilon`` or ``--delta``, and how the answer is found."""

    epsilon: Annotated[float | None, _accounting("--epsilon", read_epsilon)] = None
    delta: Annotated[float | None, _accounting("--delta", _read_delta)] = None
    method: Annotated[str, _accounting("--method", _read_method)] = "certified"
    composition: Annotated[
        str, _accounting("--composition", word_from("mustdp.accounting.tighter", "COMPOSITIONS"))
    ] = "auto"
    dimension: Annotated[int | None, _accounting("--dimension", read_repeats)] = None
    reuse: Annotated[int | None, _accounting("--reuse", read_repeats)] = None
    group: GroupOption = 1

    @property
    def asked(self) -> str:
        """The one of the two that is asked for."""
        return "epsilon" if self.epsilon is None else "delta"

    @property
    def given(self) -> str:
        """The one of the two that is given."""
        return "delta" if self.epsilon is None else "epsilon"

    def at(self) -> float:
        """Its value."""
        exactly_one({"--epsilon": self.epsilon, "--delta": self.delta})
        return next(value for value in (self.epsilon, self.delta) if value is not None)

    def check_method(self) -> None:
        """Refuse a method that does not cover what else is asked for."""
        if self.method == "paper" and self.group != 1:
            raise InvalidParameter(f"--group {self.group} does not fit --method paper")
        if self.method == "paper" and self.composition == "family":
            raise InvalidParameter("--composition family does not fit --method paper")
        if self.reuse is not None and self.method != "certified":
            raise InvalidParameter(f"--reuse {self.reuse} is not covered by --method {self.method}")
