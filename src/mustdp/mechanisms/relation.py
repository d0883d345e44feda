"""Which data sets are neighbours, and what that does to the shift.

``replace_one``: one record is swapped, n stays. One copy of it moves a bounded sum from one end of
the ball of radius C to the other: 2 C.

``add_remove``: one record added or removed. Under Poisson sampling and in epochs its place stays
empty, and one copy moves the sum by C. A scheme with batches of a fixed size fills the place with
another record, so one copy still moves the sum by up to 2 C.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, TypeVar, cast

from mustdp.errors import InvalidParameter

if TYPE_CHECKING:
    from mustdp.mechanisms.mechanism import Mechanism
    from mustdp.sampling.epochs import Epoch, Sampling
    from mustdp.sampling.schemes import Scheme

Drawing = TypeVar("Drawing", bound="Scheme | Epoch")


class Relation(StrEnum):
    """Which data sets are neighbours; equal to its name as text.

    Attributes
    ----------
    REPLACE_ONE : Relation
        One record is swapped for another; their number stays, and is public.
    ADD_REMOVE : Relation
        One record added or removed.

    Examples
    --------
    >>> import mustdp as md
    >>> md.types.Relation.ADD_REMOVE == "add_remove", md.types.Relation.ADD_REMOVE.option
    (True, 'add-remove')
    """

    REPLACE_ONE = "replace_one"
    ADD_REMOVE = "add_remove"

    @property
    def option(self) -> str:
        """As it is written for people and typed on the command line."""
        return self.value.replace("_", "-")

    @property
    def neighbours(self) -> str:
        """What two neighbouring data sets differ in."""
        return self.differing(1)

    def differing(self, group: int) -> str:
        """What neighbours differ in where somebody has several records.

        Parameters
        ----------
        group : int
            How many records one person has at most.

        Returns
        -------
        str
            In words.

        Examples
        --------
        >>> Relation.REPLACE_ONE.differing(1), Relation.ADD_REMOVE.differing(3)
        ('one record replaced', 'up to 3 records added or removed')
        """
        return f"{'one record' if group == 1 else f'up to {group} records'} {_DIFFERENCE[self]}"

    @classmethod
    def read(cls, given: object) -> Relation:
        """The relation that a caller named.

        Parameters
        ----------
        given : str or Relation
            "replace_one" or "add_remove".

        Returns
        -------
        Relation
            The relation of that name.

        Raises
        ------
        InvalidParameter
            There is no such relation.
        """
        if isinstance(given, str) and given in tuple(cls):
            return cls(given)
        listed = ", ".join(repr(one.value) for one in cls)
        raise InvalidParameter.refusing("relation", f"must be one of {listed}", repr(given))

    def __repr__(self) -> str:
        return repr(self.value)


_DIFFERENCE = {
    Relation.REPLACE_ONE: "replaced",
    Relation.ADD_REMOVE: "added or removed",
}


def default_relation(scheme: Sampling) -> Relation:
    """``add_remove`` where batch sizes are random, as the field has it; ``replace_one`` else."""
    return Relation.REPLACE_ONE if scheme.fixed_size else Relation.ADD_REMOVE


def resolve_relation(scheme: Sampling, relation: str | None) -> Relation:
    """Check a relation, or choose the scheme's default for None."""
    return default_relation(scheme) if relation is None else Relation.read(relation)


def moves(scheme: Sampling, relation: Relation) -> float:
    """How far one copy moves a sum of contributions of norm at most C, in units of C."""
    return 1.0 if scheme.leaves_empty and relation == Relation.ADD_REMOVE else 2.0


#: How far off, as a factor, a public estimate of a private number of records may be.
FARTHEST_ESTIMATE = 2


def drawn_from(scheme: Drawing, relation: Relation, records: int) -> Drawing:
    """The scheme that draws from data with ``records`` records.

    Where the relation keeps the number of records fixed it is public, and must be the n of the
    scheme. Under ``add_remove`` it is not: the n of a Poisson scheme or of a random allocation is
    then an estimate, which decides divisors and is what results show, and which is not compared
    with the data. An estimate that is off by more than a factor of two is refused, whatever the
    true number.
    """
    if scheme.fixed_size or relation == Relation.REPLACE_ONE:
        if scheme.n != records:
            raise InvalidParameter.refusing(
                "data", f"must have the n = {scheme.n} records that the scheme draws from", records
            )
        return scheme
    if not records <= FARTHEST_ESTIMATE * scheme.n:
        raise InvalidParameter("n must be at least half of the number of records, got less")
    return cast("Drawing", scheme.resized(records))


def most_copies(scheme: Sampling, relation: Relation) -> int:
    """The most entries that a batch can have, whatever the data."""
    if scheme.fixed_size:
        return round(scheme.expected_size)
    return scheme.n * (FARTHEST_ESTIMATE if relation == Relation.ADD_REMOVE else 1)


def shift_of(mechanism: Mechanism, scheme: Sampling, relation: Relation) -> float | None:
    """The shift of one copy under this scheme and relation (None for a custom mechanism)."""
    return mechanism.shift_for(moves(scheme, relation))
