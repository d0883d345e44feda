"""What a mechanism must say about itself, and what it may: the base classes of new mechanisms.

A mechanism states facts of two kinds, in separate classes, because errors in them differ:

* *Exact values* (:class:`GroupProfiles`, :class:`DiscreteOutcomes`, the methods of
  :class:`Mechanism`) enter bounds. An upper value may be too large and a lower one too small,
  never the other way round: an error here is a hole.
* *Guesses* (:class:`Steering`) say where a search begins. An error makes a bound looser or a
  search slower, never wrong.

Everything beyond the profiles is optional, and a mechanism that does not state it does without: the
accountant asks what a mechanism states and never for its class. The conformance test
(``tests/mechanisms/test_conformance.py``) checks what every registered mechanism states against its
own definition, integrated or added up numerically.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from enum import StrEnum
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from mustdp.numerics.arrays import FloatArray, IntArray
from mustdp.numerics.convex import TangentFamily, TangentTable, slope_of

if TYPE_CHECKING:
    from mustdp.mechanisms.mechanism import Noise


class Proof(StrEnum):
    """The noise law that a mechanism's output has, where theorems hold for that law alone.

    Families of pairs, epochs and sums of releases are proved for Gaussian noise; one family of
    pairs is proved for Laplace noise. No other law may state one of these, however similar it is.
    """

    GAUSSIAN = "gaussian"
    LAPLACE = "laplace"


class OutputLaw:
    """The law of an output, with what is known of this law alone.

    Those claims are not inherited: a law derived from another one states them again, or does
    without.
    """

    #: The law whose own theorems apply.
    proof: ClassVar[Proof | None] = None
    #: Whether the log likelihood ratio of the moved law is at most the distance, over the scale,
    #: and equal to it with a chance of at least one half.
    bounded_loss: ClassVar[bool] = False

    def __init_subclass__(cls) -> None:
        for claim in ("proof", "bounded_loss", "log_moments"):
            if claim not in vars(cls):
                setattr(cls, claim, vars(OutputLaw)[claim])

    def log_moments(self, a: FloatArray, distance: FloatArray) -> FloatArray | None:
        """(a-1) D_a of the law moved by a distance, rounded up; None where it is not known."""
        return None


class Steering(ABC):
    """Tangents of group profiles: where a search for good slopes begins and moves along.

    A common *parameter* t names the tangents of all profiles: the same t means the same slope in
    alpha = e^eps. Nothing but tightness and time depends on these numbers.
    """

    @abstractmethod
    def tangent(self, groups: FloatArray, t: FloatArray) -> tuple[FloatArray, FloatArray]:
        """For each ``t`` (rows) and group (columns): the eps with that slope, and d eps / d t."""

    @abstractmethod
    def parameter(self, groups: FloatArray, epsilon: FloatArray) -> FloatArray:
        """The inverse of :meth:`tangent`, column by column."""

    @abstractmethod
    def slope(self, t: FloatArray) -> FloatArray:
        """Minus the slope in alpha that ``t`` stands for; decreases in ``t``."""

    def slope_at(self, groups: FloatArray, epsilon: FloatArray) -> FloatArray:
        """Minus the slope in alpha of each profile at ``epsilon``."""
        return self.slope(self.parameter(groups, epsilon))

    def saturation(self, groups: FloatArray) -> float:
        """The ``t`` from which on no tangent of these groups moves any more."""
        return np.inf


#: Bound of the relative rounding error of profiles of noise with a density; the tests compare them
#: with mpmath and allow 2e-12.
PROFILE_ERROR = 1e-11


class GroupProfiles(ABC):
    """For every group size j, an upper bound of delta_j at every eps.

    ``delta_j(alpha)`` bounds the hockey-stick divergence, in either order, of outputs on data sets
    that differ in at most j records; it does not decrease in j.
    """

    #: Bound of the relative rounding error of the values; 0 where they are rounded up already.
    relative_error: float = PROFILE_ERROR
    #: The most multiplicities of a law around these profiles; wider laws are coarsened.
    most_groups: int = 512

    @abstractmethod
    def delta(self, groups: FloatArray, epsilon: FloatArray) -> FloatArray:
        """Values at ``epsilon[:, k]`` for group size ``groups[k]``; any real epsilon, and -inf.

        Too large is safe, too small is not.
        """

    @property
    @abstractmethod
    def steering(self) -> Steering:
        """Guesses of the tangents of these profiles."""


class TabulatedProfiles(GroupProfiles, Steering):
    """Profiles without closed-form tangents: slopes are looked up in a table per group size."""

    def __init__(self, reach: float) -> None:
        self._tables = TangentFamily(self._table, reach)

    @property
    def steering(self) -> Self:
        """The tables."""
        return self

    @abstractmethod
    def _table(self, group: int) -> TangentTable:
        """Tabulate the slopes of one profile."""

    def tangent(self, groups: FloatArray, t: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Looked up in the tables of all groups."""
        return self._tables.tangent(groups, t)

    def parameter(self, groups: FloatArray, epsilon: FloatArray) -> FloatArray:
        """Looked up in the tables of all groups."""
        return self._tables.parameter(groups, epsilon)

    def slope(self, t: FloatArray) -> FloatArray:
        """The slope behind the logit ``t``."""
        return slope_of(t)

    def saturation(self, groups: FloatArray) -> float:
        """Past the end of every table."""
        return self._tables.last(groups)


class DiscreteOutcomes(ABC):
    """Output distributions that data sets really have, as masses on countably many outcomes.

    A data set is described by its *place*, an integer: at 0 the differing record does not occur.
    The mechanism says in :attr:`placements` by how much one copy of the record changes the place.
    Places further apart must not be harder to tell apart: wide laws of copies are coarsened towards
    fewer copies.
    """

    #: Bound of the relative error of every mass, either way.
    relative_error: float
    #: Whether one copy attains the profile of one record at every eps. Where every eps has a worst
    #: pair of its own, one of these is listed, and the bounds of one release do not meet.
    attains_profile: bool = True

    @property
    @abstractmethod
    def placements(self) -> Mapping[str, tuple[int, int]]:
        """By pair of data sets: how far one copy changes the first place, and the second.

        Names are "aligned", "reversed" and "symmetric". Both places must be those of data sets that
        the relation calls neighbours; "symmetric" is used only where a record is replaced.
        """

    @abstractmethod
    def masses(self, places: IntArray) -> FloatArray:
        """One row per place, one column per outcome, the same outcomes for all rows.

        Outcomes may be merged, never left out: every row adds up to one.
        """


class Mechanism(ABC):
    """A base mechanism: something with group profiles once its shift is known.

    A new mechanism implements the four abstract members and overrides what else it can state. The
    recipe is in CONTRIBUTING.md.

    Examples
    --------
    >>> import mustdp as md
    >>> isinstance(md.laplace(shift=1.0), md.types.Mechanism)
    True
    """

    @property
    @abstractmethod
    def name(self) -> str:
        """The mechanism's name on the command line."""

    @abstractmethod
    def shift_for(self, moves: float) -> float | None:
        """The shift when one copy moves a bounded sum by so much.

        Parameters
        ----------
        moves : float
            How far one copy of a record moves the sum, in units of C: 2 where it is swapped, 1
            where it leaves an empty place.

        Returns
        -------
        float or None
            The shift, in units of the noise's scale; None where the mechanism is known by its
            profile.
        """

    @abstractmethod
    def profiles(self, shift: float | None) -> GroupProfiles:
        """Group profiles at this shift.

        Parameters
        ----------
        shift : float or None
            How far one copy moves the output, in units of the noise's scale.

        Returns
        -------
        GroupProfiles
            Deltas for groups of any size at any epsilon.
        """

    @abstractmethod
    def describe(self) -> dict[str, Any]:
        """Plain description, for JSON.

        Returns
        -------
        dict
            Plain values, ready for JSON.
        """

    # What a mechanism may state beyond its profiles. Nothing is stated unless it is overridden.

    @property
    def proof(self) -> Proof | None:
        """The noise law whose own theorems apply; None, unless the output has exactly that law."""
        return None

    @property
    def covers_left_out(self) -> bool:
        """Whether the profiles also cover a record that is left out where it was replaced.

        Poisson sampling under replace_one needs that.
        """
        return False

    @property
    def in_a_ball(self) -> bool:
        """Whether contributions are known to lie in a ball, so that leaving one out moves a sum by
        half of what swapping it does; a stated shift says nothing of the kind.
        """
        return False

    def attained(self, shift: float | None) -> Noise | DiscreteOutcomes | None:
        """Output distributions that neighbouring data sets really have, for lower bounds.

        Parameters
        ----------
        shift : float or None
            As in :meth:`profiles`.

        Returns
        -------
        Noise or DiscreteOutcomes or None
            Noise with a density, which j copies move by j times the shift; or discrete outcomes.
            None where nothing is known, and the lower bound is 0.
        """
        return None

    def log_moments(
        self, orders: FloatArray, copies: FloatArray, shift: float | None
    ) -> FloatArray | None:
        """Upper bounds of log E_Q (dP/dQ)^a for orders a > 1, where they are known.

        Parameters
        ----------
        orders : ndarray
            The orders a.
        copies : ndarray
            Numbers of copies in which P and Q differ.
        shift : float or None
            As in :meth:`profiles`.

        Returns
        -------
        ndarray or None
            One row per order, one column per number of copies; None where they are not known.
        """
        return None

    def repeated(self, count: int) -> Mechanism | None:
        """One mechanism that is no better than ``count`` of it, among other releases too.

        Parameters
        ----------
        count : int
            How many.

        Returns
        -------
        Mechanism or None
            None where it is not known; then profiles are composed.
        """
        return None

    def halved(self) -> Mechanism | None:
        """One mechanism that is no better than this one if it is run twice.

        Returns
        -------
        Mechanism or None
            None where it is not known.
        """
        return None

    def joined(self, other: Mechanism) -> Mechanism | None:
        """One mechanism that is no better than this one and another, among other releases too.

        Parameters
        ----------
        other : Mechanism
            The other.

        Returns
        -------
        Mechanism or None
            None where it is not known; then profiles are composed.
        """
        return None

    def largest_loss(self, moves: int) -> Fraction | None:
        """The largest privacy loss of one copy, without any rounding.

        To be stated only where some outcome has j times this loss for every number j of copies, so
        that mixtures attain it too, and where the outcomes with the largest loss have a chance of
        at least one half under the distribution that makes them likelier.

        Parameters
        ----------
        moves : int
            As in :meth:`shift_for`.

        Returns
        -------
        Fraction or None
            The loss; None where it has no bound or is not known.
        """
        return None


def has_proof(plan: object, proof: Proof) -> bool:
    """Whether this is a mechanism whose output has the law of ``proof``."""
    return isinstance(plan, Mechanism) and plan.proof is proof
