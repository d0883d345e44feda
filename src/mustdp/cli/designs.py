"""The options that describe a resampling design, and the design they make."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mustdp.cli.numbers import clipped, one_of, whole
from mustdp.cli.options import SchemeOptions
from mustdp.cli.targets import read_repeats
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


def resampling_option(*names: str, metavar: str, help: str, show_default: bool = False) -> Any:
    """An option in the panel of resampling."""
    return typer.Option(
        *names, metavar=metavar, help=help, rich_help_panel="Resampling", show_default=show_default
    )


@dataclass(frozen=True)
class DesignOptions:
    """``--design`` or a scheme, and how many subsets, as typed."""

    design: Annotated[
        str | None,
        resampling_option(
            "--design",
            metavar="NAME",
            help="Instead of --scheme: subsampling (-m), m-out-of-n (-m), poisson (--rate), "
            "must-ow and must-ww (-b, -m), double (double bootstrap: -b, -m, --subsets, --reuse) "
            "or blb (bag of little bootstraps: -b, --subsets, --reuse).",
        ),
    ] = None
    replicates: Annotated[
        str | None,
        resampling_option("--replicates", metavar="T", help="Number of subsets, one release each."),
    ] = None
    subsets: Annotated[
        str | None,
        resampling_option(
            "--subsets", metavar="S", help="With --reuse: number of first-stage subsets."
        ),
    ] = None
    reuse: Annotated[
        str | None,
        resampling_option(
            "--reuse", metavar="R", help="Second-stage draws from each first-stage subset."
        ),
    ] = None

    def check(self, options: SchemeOptions) -> tuple[SchemeOptions, tuple[int, int]]:
        """The scheme's options with a design's name turned into its scheme's, and the counts."""
        counts = self._counts()
        if self.design is None:
            return options, counts
        for name, text in (("--scheme", options.scheme), ("--stages", options.stages)):
            if text is not None:
                raise InvalidParameter(
                    f"--design {clipped(self.design)} and {name} {clipped(text)} exclude each "
                    "other: give one of them"
                )
        name = one_of("--design", self.design, tuple(DESIGNS))
        if name in ("double", "blb") and self.reuse is None:
            raise InvalidParameter(f"--design {name} takes --subsets and --reuse: both are missing")
        if name == "blb" and options.m is not None:
            raise InvalidParameter(
                f"-m {clipped(options.m)} does not fit --design blb, which draws n of every subset"
            )
        return dataclasses.replace(options, scheme=DESIGNS[name]), counts

    def build(self, options: SchemeOptions, counts: tuple[int, int]) -> Design:
        """The design, once the number of records is among the options."""
        from mustdp.resampling.designs import Design

        if self.design == "blb":
            options = dataclasses.replace(options, m=options.n)
        return Design(options.build(), *counts)

    def _counts(self) -> tuple[int, int]:
        """Number of first-stage subsets and how often each is used."""
        if self.subsets is None and self.reuse is None:
            if self.replicates is None:
                raise InvalidParameter(
                    "--replicates is missing: give the number of subsets, 2 or more"
                )
            return whole("--replicates", self.replicates, 2, 10**8), 1
        if self.subsets is None or self.reuse is None:
            raise InvalidParameter("--subsets and --reuse go together: one of them is missing")
        subsets = read_repeats("--subsets", self.subsets)
        reuse = read_repeats("--reuse", self.reuse)
        if (
            self.replicates is not None
            and whole("--replicates", self.replicates) != subsets * reuse
        ):
            raise InvalidParameter(
                "--replicates must be left out or be --subsets times --reuse = "
                f"{subsets * reuse}, got {clipped(self.replicates)}"
            )
        return subsets, reuse
