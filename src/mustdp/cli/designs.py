"""The options that describe a resampling design, and the design they make."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from mustdp.cli.numbers import read_integer
from mustdp.cli.options import SchemeOptions
from mustdp.cli.targets import read_repeats
from mustdp.cli.typed import Panel, exactly_one, word_of
from mustdp.errors import InvalidParameter

if TYPE_CHECKING:
    from mustdp.resampling.designs import Design

#: Designs by the names statisticians know, and the scheme behind each.
DESIGNS = {
    "subsampling": "wor",
    "m-out-of-n": "wr",
    "poisson": "poisson",
    "must-ow": "must-ow",
    "must-ww": "must-ww",
    "double": "must-ww",
    "blb": "must-ow",
}
_resampling = Panel(
    "Resampling",
    """
    --design NAME   Instead of --scheme: subsampling (-m), m-out-of-n (-m), poisson (--rate),
                    must-ow and must-ww (-b, -m), double (double bootstrap: -b, -m, --subsets,
                    --reuse) or blb (bag of little bootstraps: -b, --subsets, --reuse).
    --replicates T  Number of subsets, one release each.
    --subsets S     With --reuse: number of first-stage subsets.
    --reuse R       Second-stage draws from each first-stage subset.
    """,
)


def read_replicates(name: str, text: str) -> int:
    """A number of subsets that fits into memory."""
    from mustdp.resampling.designs import MOST_REPLICATES
    from mustdp.resampling.spread import FEWEST_SUBSETS

    return read_integer(name, text, FEWEST_SUBSETS, MOST_REPLICATES)


@dataclass(frozen=True)
class DesignOptions:
    """``--design`` or a scheme, and how many subsets."""

    design: Annotated[str | None, _resampling("--design", word_of(tuple(DESIGNS)))] = None
    replicates: Annotated[int | None, _resampling("--replicates", read_replicates)] = None
    subsets: Annotated[int | None, _resampling("--subsets", read_repeats)] = None
    reuse: Annotated[int | None, _resampling("--reuse", read_repeats)] = None

    def check(self, options: SchemeOptions) -> tuple[SchemeOptions, tuple[int, int]]:
        """The scheme's options with a design's name turned into its scheme's, and the counts."""
        given = {"--design": self.design, "--scheme": options.scheme, "--stages": options.stages}
        if all(value is None for value in given.values()):
            raise InvalidParameter(
                f"--design is missing: one of {', '.join(DESIGNS)}, or --scheme or --stages instead"
            )
        exactly_one(given)
        counts = self._counts()
        if self.design in ("double", "blb") and self.reuse is None:
            raise InvalidParameter(
                f"--design {self.design} takes --subsets and --reuse: both are missing"
            )
        if self.design == "blb" and options.m is not None:
            raise InvalidParameter(
                f"-m {options.m} does not fit --design blb, which draws n of every subset"
            )
        if self.design is not None:
            options = dataclasses.replace(options, scheme=DESIGNS[self.design])
        options.check(later=("n", "m") if self.design == "blb" else ("n",))
        return options, counts

    def build(self, options: SchemeOptions, n: int, counts: tuple[int, int]) -> Design:
        """The design, once the number of records is known."""
        from mustdp.resampling.designs import Design

        m = n if self.design == "blb" else options.m
        return Design(dataclasses.replace(options, n=n, m=m).build(), *counts)

    def _counts(self) -> tuple[int, int]:
        """Number of first-stage subsets and how often each is used."""
        if self.subsets is None and self.reuse is None:
            if self.replicates is None:
                raise InvalidParameter(
                    "--replicates is missing: give the number of subsets, 2 or more"
                )
            return self.replicates, 1
        if self.subsets is None or self.reuse is None:
            raise InvalidParameter("--subsets and --reuse go together: one of them is missing")
        releases = self.subsets * self.reuse
        if self.replicates not in (None, releases):
            raise InvalidParameter.refusing(
                "--replicates",
                f"must be left out or be --subsets times --reuse = {releases}",
                self.replicates,
            )
        return self.subsets, self.reuse
