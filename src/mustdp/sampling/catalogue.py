"""The schemes that have a name, and the stages they are made of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from mustdp.errors import InvalidParameter
from mustdp.numerics import checks

# The schemes that have a name: what they are called, what describes them, what they do.
#
# Loading this loads no numbers: the command line reads its choices from here.


Kind = Literal["wor", "wr"]
KINDS: tuple[Kind, ...] = ("wor", "wr")


@dataclass(frozen=True)
class Named:
    """A scheme by name, with the sizes that describe it and the stages behind it."""

    #: As typed on the command line and written into results.
    name: str
    #: As the literature writes it.
    label: str
    sizes: tuple[str, ...]
    #: Empty for Poisson sampling, which has no stages.
    stages: tuple[Kind, ...] = ()

    @property
    def two_stages(self) -> bool:
        """Whether the scheme has a first stage of size b."""
        return len(self.stages) == 2


CATALOGUE = (
    Named("poisson", "Poisson", ("n", "rate")),
    Named("wor", "WOR", ("n", "m"), ("wor",)),
    Named("wr", "WR", ("n", "m"), ("wr",)),
    Named("must-ow", "MUSTow", ("n", "b", "m"), ("wor", "wr")),
    Named("must-ww", "MUSTww", ("n", "b", "m"), ("wr", "wr")),
    Named("must-wo", "MUSTwo", ("n", "b", "m"), ("wr", "wor")),
    Named("must-oo", "MUSToo", ("n", "b", "m"), ("wor", "wor")),
)
#: Epochs: rules that share all records out over the batches of one pass.
EPOCHS = {
    "allocation": Named("allocation", "random allocation", ("n", "bins")),
    "shuffle": Named("shuffle", "shuffling", ("n", "m")),
}
EPOCH_NAMES = tuple(EPOCHS)
BY_NAME = {one.name: one for one in CATALOGUE}
BY_LABEL = {one.label: one for one in CATALOGUE}
NAMES = tuple(BY_NAME)


def name_of(stages: tuple[Kind, ...]) -> str:
    """The name of a list of stages; ``multistage`` from three on.

    >>> name_of(("wor", "wr")), name_of(("wr", "wr", "wr"))
    ('must-ow', 'multistage')
    """
    return next((one.name for one in CATALOGUE if one.stages == stages), "multistage")


# One stage of a multistage draw, and the shortest list of stages with the same law.


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
    >>> md.Stage("wor", 50)
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
