"""Which data sets are neighbours, and what that does to the shift.

``replace_one``: one record is swapped, n stays. One copy of it moves a bounded sum from one end of
the ball of radius C to the other: 2 C.

``add_remove``: one record more or less. Only under Poisson sampling does its place stay empty, and
one copy moves the sum by C. A scheme with batches of a fixed size fills the place with another
record, so one copy still moves the sum by up to 2 C.
"""

from __future__ import annotations

from typing import Literal, get_args

from mustdp.mechanisms.mechanism import Mechanism
from mustdp.numerics import checks
from mustdp.sampling.scheme import Poisson, Scheme

Relation = Literal["replace_one", "add_remove"]
RELATIONS: tuple[Relation, ...] = get_args(Relation)


def default_relation(scheme: Scheme) -> Relation:
    """``add_remove`` for Poisson sampling, as the field has it; ``replace_one`` otherwise."""
    return "add_remove" if isinstance(scheme, Poisson) else "replace_one"


def resolve_relation(scheme: Scheme, relation: str | None) -> Relation:
    """Check a relation, or choose the scheme's default for None."""
    if relation is None:
        return default_relation(scheme)
    return checks.choice("relation", relation, RELATIONS)  # type: ignore[arg-type]


def moves(scheme: Scheme, relation: Relation) -> float:
    """How far one copy moves a sum of contributions of norm at most C, in units of C."""
    return 1.0 if isinstance(scheme, Poisson) and relation == "add_remove" else 2.0


def shift_of(mechanism: Mechanism, scheme: Scheme, relation: Relation) -> float | None:
    """The shift of one copy under this scheme and relation (None for a custom mechanism)."""
    return mechanism.shift_for(moves(scheme, relation))
