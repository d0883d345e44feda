"""The options of survey designs: weights, strata and clusters."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any

from mustdp.cli.numbers import clipped, read_integer, read_number
from mustdp.cli.typed import option, word_of
from mustdp.errors import InvalidParameter

_PANEL = "Survey design"


def read_shares(name: str, text: str) -> dict[str, float]:
    """A=0.3,B=0.7."""
    found = {}
    for item in text.split(","):
        stratum, sign, share = item.rpartition("=")
        if not (sign and stratum.strip()) or stratum.strip() in found:
            raise InvalidParameter.refusing(
                name, "must be a list A=SHARE,B=SHARE", repr(clipped(text))
            )
        found[stratum.strip()] = read_number(name, share, above=0)
    return found


@dataclass(frozen=True)
class SurveyOptions:
    """``--weights``, ``--strata`` and ``--cluster`` with what is public about them."""

    weights: Annotated[
        str | None,
        option("--weights", metavar="COLUMN", help="A column of survey weights.", panel=_PANEL),
    ] = None
    largest_weight: Annotated[
        float | None,
        option(
            "--largest-weight",
            partial(read_number, above=0),
            metavar="W",
            help="The largest weight, known without looking; larger ones are cut to it.",
            panel=_PANEL,
        ),
    ] = None
    strata: Annotated[
        str | None,
        option("--strata", metavar="COLUMN", help="A column of strata.", panel=_PANEL),
    ] = None
    stratum_shares: Annotated[
        Any,
        option(
            "--stratum-shares",
            read_shares,
            metavar="A=X,B=Y",
            help="Shares of the strata in the population, which are public.",
            panel=_PANEL,
        ),
    ] = None
    cluster: Annotated[
        str | None,
        option(
            "--cluster",
            metavar="COLUMN",
            help="A column of numbers of clusters, such as households.",
            panel=_PANEL,
        ),
    ] = None
    largest_cluster: Annotated[
        int | None,
        option(
            "--largest-cluster",
            read_integer,
            metavar="M",
            help="The most records that a cluster has, or that count of it.",
            panel=_PANEL,
        ),
    ] = None
    unit: Annotated[
        str,
        option(
            "--unit",
            word_of(("record", "cluster")),
            metavar="UNIT",
            help="What the guarantee protects: a record, or a whole cluster.",
            panel=_PANEL,
            show_default=True,
        ),
    ] = "record"
