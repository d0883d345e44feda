"""The schemes that have a name: what they are called, what describes them, what they do.

Loading this loads no numbers: the command line reads its choices from here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

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
