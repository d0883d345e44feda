"""The options of every command that accounts: how often, between which neighbours, how private."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Annotated

from mustdp.cli.numbers import one_of, read_integer, read_number
from mustdp.cli.typed import Panel
from mustdp.errors import InvalidParameter
from mustdp.limits import LARGEST_EPSILON, MOST_STEPS, SMALLEST_DELTA, warn_of_large_delta
from mustdp.mechanisms.relation import Relation

ACCOUNTING = "Accounting"
_RELATIONS = {one.option: one for one in Relation}

read_repeats = partial(read_integer, high=MOST_STEPS)
read_delta = partial(read_number, at_least=SMALLEST_DELTA, below=1)
#: An epsilon that is asked about.
read_epsilon = partial(read_number, at_least=0, at_most=LARGEST_EPSILON)


def read_target(name: str, text: str) -> float:
    """An epsilon to be kept."""
    try:
        return read_number(name, text, above=0, at_most=LARGEST_EPSILON)
    except InvalidParameter as problem:
        if problem.got not in ("0.0", "-0.0"):
            raise
        why = "a target is met to within a fraction of itself, which leaves nothing at 0"
        raise InvalidParameter.refusing(name, f"{problem.allowed} ({why})", "0") from None


def read_relation(name: str, text: str) -> Relation:
    """A relation, as the command line spells it."""
    return _RELATIONS[one_of(name, text, tuple(_RELATIONS))]


_accounting = Panel(
    ACCOUNTING,
    """
    --steps K        Number of applications, each with a fresh draw and fresh noise.
    --relation NAME  Which data sets are neighbours: replace-one (one record is swapped) or
                     add-remove (one record more or less). Default: add-remove for poisson and
                     allocation, replace-one otherwise.
    --group G        How many records one person may have: the guarantee then covers all of them,
                     replaced together, or all there or not.
    --epsilon E      The largest epsilon allowed, above 0; the noise is calibrated for it.
    --delta D        The delta at which epsilon is stated, well below one in the number of records.
    """,
)
StepsOption = Annotated[int | None, _accounting("--steps", read_repeats)]
RelationOption = Annotated[Relation | None, _accounting("--relation", read_relation)]
GroupOption = Annotated[int, _accounting("--group", read_integer)]
TargetOption = Annotated[float | None, _accounting("--epsilon", read_target)]
DeltaOption = Annotated[float | None, _accounting("--delta", read_delta)]


@dataclass(frozen=True)
class RunOptions:
    """``--steps`` and ``--relation``."""

    steps: StepsOption = None
    #: None for the scheme's default.
    relation: RelationOption = None

    def count(self) -> int:
        """The number of steps, which has no default."""
        if self.steps is None:
            raise InvalidParameter("--steps is missing: give the number of applications, 1 or more")
        return self.steps


def stated(delta: float | None, n: int | None) -> float:
    """The delta that was given; a missing one is refused with one that is usual for n records."""
    if delta is None:
        raise InvalidParameter(
            "--delta is missing: give the delta at which epsilon is stated, well below 1/n; "
            f"{usual_delta(n or 10_000)} is usual for n = {n or 10_000}"
        )
    if n is not None:
        warn_of_large_delta(delta, n)
    return delta


def usual_delta(n: int) -> str:
    """The largest power of ten that is at most 1 / (10 n).

    >>> usual_delta(1000), usual_delta(1347)
    ('1e-4', '1e-5')
    """
    return f"1e-{len(str(10 * n - 1))}"
