"""One stage of a multistage draw, and the shortest list of stages with the same law."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from mustdp.errors import InvalidParameter
from mustdp.numerics import checks

Kind = Literal["wor", "wr"]


@dataclass(frozen=True, slots=True)
class Stage:
    """Draw ``size`` entries without (``wor``) or with (``wr``) replacement."""

    kind: Kind
    size: int

    def __post_init__(self) -> None:
        checks.choice("stage kind", self.kind, ("wor", "wr"))
        object.__setattr__(self, "size", checks.integer("stage size", self.size, 1))

    def __str__(self) -> str:
        return f"{self.kind}:{self.size}"


def reduce_stages(population: int, stages: Sequence[Stage]) -> tuple[Stage, ...]:
    """Return the shortest list of stages whose multiset has exactly the same law.

    Entries taken without replacement from an exchangeable list are again such a list: a ``wor``
    stage after any other only shortens it. A ``wor`` stage that takes everything changes nothing.
    What is left is at most one ``wor`` stage, in front, and any number of ``wr`` stages.
    """
    reduced: list[Stage] = []
    for stage in stages:
        if stage.kind == "wor" and reduced:
            reduced[-1] = Stage(reduced[-1].kind, stage.size)
        else:
            reduced.append(stage)
    if len(reduced) > 1 and reduced[0] == Stage("wor", population):
        del reduced[0]
    return tuple(reduced)


def check_stages(population: int, stages: Sequence[Stage], names: Sequence[str]) -> None:
    """Refuse a ``wor`` stage that asks for more entries than there are."""
    available, source = population, "n"
    for stage, name in zip(stages, names, strict=True):
        if stage.kind == "wor" and stage.size > available:
            raise InvalidParameter(
                f"{name} must be at most {source} = {available} when drawn without replacement, "
                f"got {stage.size}"
            )
        available, source = stage.size, name
