"""The schemes that have a name: their sizes, what they do, how they are made and written down.

A scheme is registered once, here. The command line takes its choices, flags and help from this
list; descriptions are read back by it; comparisons, the explorer and the site's table of schemes
run over it, and so does the conformance test. Loading this loads no numbers.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from mustdp.sampling.epochs import Sampling

Kind = Literal["wor", "wr"]
KINDS: tuple[Kind, ...] = ("wor", "wr")


@dataclass(frozen=True)
class Size:
    """A number that describes schemes, and its option on the command line."""

    name: str
    flag: str
    metavar: str
    help: str
    #: Whether it is a chance, from 0 to 1; else an integer from 1 on.
    chance: bool = False


SIZES = {
    one.name: one
    for one in (
        Size("n", "-n", "INT", "Number of records in the data set."),
        Size("b", "-b", "INT", "Size of the first stage (must-ow, must-ww, must-wo, must-oo)."),
        Size("m", "-m", "INT", "Size of the batch, copies counted."),
        Size(
            "rate",
            "--rate",
            "P",
            "Chance of each record (poisson, truncated-poisson), 0 to 1.",
            chance=True,
        ),
        Size("cap", "--cap", "INT", "The most records in a batch (truncated-poisson)."),
    )
}


@dataclass(frozen=True)
class RegisteredScheme:
    """A scheme by name, with the sizes that describe it and the stages behind it."""

    #: As typed on the command line and written into results.
    name: str
    #: As the literature writes it.
    label: str
    sizes: tuple[str, ...]
    #: For the table of schemes, after the name.
    summary: str
    #: Empty for a scheme that has no stages.
    stages: tuple[Kind, ...] = ()
    #: Whether it shares all records out over the batches of one pass, with Gaussian noise alone.
    epoch: bool = False
    #: Whether batches have random sizes, so that under add_remove the number of records is private.
    random_size: bool = False
    #: Sizes that may be left out of a description, beside the steps of an epoch that ends early.
    optional: tuple[str, ...] = ()
    #: Whether n, b and m describe it, so that comparisons have a row for it.
    compared: bool = True
    #: The public function, where it is not the name with underscores.
    function: str = ""

    @property
    def two_stages(self) -> bool:
        """Whether the scheme has a first stage of size b."""
        return len(self.stages) == 2

    def largest_batch(self, n: int, b: int) -> int | None:
        """The largest m for these sizes; None where batches can be of any size.

        Without replacement, no more can be drawn than there are records, or than b in the second of
        two stages.
        """
        if not self.stages:
            return n
        return None if self.stages[-1] == "wr" else b if self.two_stages else n

    def build(self, **sizes: Any) -> Sampling:
        """The scheme with these sizes, which its constructor checks."""
        home = "mustdp.sampling.epochs" if self.epoch else "mustdp.sampling.schemes"
        function = self.function or self.name.replace("-", "_")
        made: Sampling = getattr(import_module(home), function)(**sizes)
        return made


_TWO = ("n", "b", "m")
CATALOGUE = (
    RegisteredScheme(
        "poisson",
        "Poisson",
        ("n", "rate"),
        "every record with the same chance, independently",
        random_size=True,
    ),
    RegisteredScheme("wor", "WOR", ("n", "m"), "m of n without replacement", ("wor",)),
    RegisteredScheme("wr", "WR", ("n", "m"), "m draws from n with replacement", ("wr",)),
    RegisteredScheme(
        "must-ow", "MUSTow", _TWO, "b of n without, then m of those with", ("wor", "wr")
    ),
    RegisteredScheme("must-ww", "MUSTww", _TWO, "b of n with, then m of those with", ("wr", "wr")),
    RegisteredScheme(
        "must-wo", "MUSTwo", _TWO, "b of n with, then m of those without", ("wr", "wor")
    ),
    RegisteredScheme(
        "must-oo", "MUSToo", _TWO, "b of n without, then m of those without", ("wor", "wor")
    ),
    RegisteredScheme(
        "truncated-poisson",
        "truncated Poisson",
        ("n", "rate", "cap"),
        "Poisson, of which at most cap records are kept, at random; n is the most there can be",
        random_size=True,
        compared=False,
    ),
)
#: Epochs: rules that share all records out over the batches of one pass.
EPOCHS = {
    one.name: one
    for one in (
        RegisteredScheme(
            "allocation",
            "random allocation",
            ("n", "bins"),
            "every record in one of the batches of an epoch, or in a few, uniformly",
            epoch=True,
            random_size=True,
            optional=("times",),
            function="random_allocation",
        ),
        RegisteredScheme(
            "shuffle", "shuffling", ("n", "m"), "a random order, cut into batches", epoch=True
        ),
    )
}
EPOCH_NAMES = tuple(EPOCHS)
BY_NAME = {one.name: one for one in CATALOGUE}
BY_LABEL = {one.label: one for one in CATALOGUE}
NAMES = tuple(BY_NAME)
#: Those that n, b and m describe.
COMPARED = tuple(one.name for one in CATALOGUE if one.compared)


def name_of(stages: tuple[Kind, ...]) -> str:
    """The name of a list of stages; ``multistage`` from three on.

    >>> name_of(("wor", "wr")), name_of(("wr", "wr", "wr"))
    ('must-ow', 'multistage')
    """
    return next((one.name for one in CATALOGUE if one.stages == stages), "multistage")
