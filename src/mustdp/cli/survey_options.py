"""The options of survey designs: weights, strata and clusters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from mustdp.cli.numbers import clipped, read_integer, read_positive
from mustdp.cli.typed import Panel, word_of
from mustdp.errors import InvalidParameter

_survey = Panel(
    "Survey design",
    """
    --weights COLUMN          A column of survey weights.
    --largest-weight W        The largest weight, known without looking; larger ones are cut to it.
    --strata COLUMN           A column of strata.
    --stratum-shares A=X,B=Y  Shares of the strata in the population, which are public.
    --cluster COLUMN          A column of numbers of clusters, such as households.
    --largest-cluster M       The most records that a cluster has, or that count of it.
    --unit UNIT               What the guarantee protects: a record, or a whole cluster.
    """,
)


def read_shares(name: str, text: str) -> dict[str, float]:
    """A=0.3,B=0.7."""
    found = {}
    for item in text.split(","):
        stratum, sign, share = item.rpartition("=")
        if not (sign and stratum.strip()) or stratum.strip() in found:
            raise InvalidParameter.refusing(
                name, "must be a list A=SHARE,B=SHARE", repr(clipped(text))
            )
        found[stratum.strip()] = read_positive(name, share)
    return found


@dataclass(frozen=True)
class SurveyOptions:
    """``--weights``, ``--strata`` and ``--cluster`` with what is public about them."""

    weights: Annotated[str | None, _survey("--weights")] = None
    largest_weight: Annotated[float | None, _survey("--largest-weight", read_positive)] = None
    strata: Annotated[str | None, _survey("--strata")] = None
    stratum_shares: Annotated[Any, _survey("--stratum-shares", read_shares)] = None
    cluster: Annotated[str | None, _survey("--cluster")] = None
    largest_cluster: Annotated[int | None, _survey("--largest-cluster", read_integer)] = None
    unit: Annotated[str, _survey("--unit", word_of(("record", "cluster")))] = "record"
