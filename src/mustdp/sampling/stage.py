"""One stage of a multistage draw, and the shortest list of stages with the same law."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mustdp.errors import InvalidParameter
from mustdp.numerics import checks
from mustdp.sampling.catalogue import KINDS, Kind


@dataclass(frozen=True, slots=True)
class Stage:
    """Draw ``size`` entries without (``wor``) or with (``wr``) replacement.

    Parameters
    ----------
    kind : {"wor", "wr"}
        Whether entries are drawn without or with replacement.
    size : int
        How many entries are drawn, at least 1.

    Examples
    --------
    >>> import mustdp as md
    >>> md.types.Stage("wor", 50)
    Stage(kind='wor', size=50)
    """

    kind: Kind
    size: int

    def __post_init__(self) -> None:
        checks.choice("stage kind", self.kind, KINDS)
        object.__setattr__(self, "size", checks.integer("stage size", self.size, 1))

    def __str__(self) -> str:
        return f"{self.kind}:{self.size}"


def read_stage(given: object, number: int) -> Stage:
    """Read a ``(kind, size)`` pair; messages name it as stage ``number``."""
    if isinstance(given, Stage):
        return given
    if not (isinstance(given, tuple | list) and len(given) == 2):
        raise InvalidParameter(
            f"stage {number} must be a (kind, size) pair such as ('wor', 118), got {given!r}"
        )
    kind, size = given
    checks.choice(f"kind of stage {number}", kind, KINDS)
    return Stage(kind, checks.integer(f"size of stage {number}", size, 1))


def reduce_stages(population: int, stages: Sequence[Stage]) -> tuple[Stage, ...]:
    """Return the shortest list of stages whose multiset has exactly the same law.

    Entries taken without replacement from an exchangeable list are again such a list: a ``wor``
    stage after any other only shortens it. A ``wor`` stage that takes everything changes nothing.
    What is left is at most one ``wor`` stage, in front, and any number of ``wr`` stages.

    >>> reduce_stages(9, [Stage("wr", 6), Stage("wor", 4)])
    (Stage(kind='wr', size=4),)
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


def check_stages(
    population: int, stages: Sequence[Stage], names: Sequence[str] | None = None
) -> None:
    """Refuse a ``wor`` stage that asks for more entries than there are."""
    if names is None:
        names = [f"size of stage {number}" for number in range(1, len(stages) + 1)]
    available, source = population, "n"
    for stage, name in zip(stages, names, strict=True):
        if stage.kind == "wor" and stage.size > available:
            raise InvalidParameter.refusing(
                name,
                f"must be at most {{{source}}} = {available} when drawn without replacement",
                stage.size,
                mentions=(source,),
            )
        available, source = stage.size, name
