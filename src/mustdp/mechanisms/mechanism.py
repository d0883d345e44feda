"""What a mechanism must say about itself, and what it may; Gaussian and Laplace mechanisms.

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

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from fractions import Fraction
from typing import Any, ClassVar, Self

import numpy as np
from numpy.polynomial.legendre import leggauss
from numpy.typing import ArrayLike, NDArray
from scipy.special import erfcx, log_ndtr, ndtr

from mustdp.errors import InvalidParameter, NotCovered, NumericalFailure
from mustdp.limits import LARGEST_NOISE, SMALLEST_NOISE
from mustdp.mechanisms.registry import SCALED_NOISE, register
from mustdp.numerics import checks
from mustdp.numerics.arrays import ROUNDOFF, FloatArray, IntArray
from mustdp.numerics.convex import TangentFamily, TangentTable, slope_of


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


@dataclass(frozen=True, eq=False)
class GroupProfile:
    """One member of a family of group profiles, its rounding error added."""

    profiles: GroupProfiles
    group: int = 1

    def __call__(self, epsilon: FloatArray) -> FloatArray:
        """The profile at many epsilons."""
        value = self.profiles.delta(np.array([float(self.group)]), epsilon[:, None])[:, 0]
        return np.minimum(value * (1.0 + self.profiles.relative_error), 1.0)


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

    def magnified(self, factor: float) -> Mechanism | None:
        """One mechanism that is no better than this one if contributions are so much larger.

        Parameters
        ----------
        factor : float
            What every contribution is multiplied by, above 0.

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


# The two noise laws, at unit scale, and their group profiles.
#
# Both are symmetric with a log-concave density f, so the likelihood ratio of the law moved by a
# distance d against the unmoved one, f(x - d)/f(x), never decreases in x. Every optimal test is
# "reject above a threshold t", and the threshold is the natural way to walk along a profile:
#
#     log_ratio(d, t)   the eps at which t is the optimal threshold: log f(t - d) - log f(t)
#     threshold(d, eps) the inverse
#     tail(t)           P(noise > t): minus the slope of the profile in alpha = e^eps at that point


class Noise(OutputLaw, ABC):
    """A symmetric log-concave noise law of unit scale, with a density."""

    name: ClassVar[str]
    #: Stands in for values that are positive but underflow.
    smallest: ClassVar[float]

    @abstractmethod
    def log_density(self, x: FloatArray) -> FloatArray:
        """Log of the density: the definition that everything else is checked against."""

    @abstractmethod
    def profile(self, distance: FloatArray, epsilon: FloatArray) -> FloatArray:
        """Hockey-stick divergence at e^epsilon of the law moved by ``distance`` (any epsilon)."""

    @abstractmethod
    def log_ratio(self, distance: FloatArray, t: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Log likelihood ratio at ``t`` and its derivative in ``t``."""

    @abstractmethod
    def threshold(self, distance: FloatArray, epsilon: FloatArray) -> FloatArray:
        """The ``t`` whose log ratio is ``epsilon``; infinite where the ratio never gets there."""

    @abstractmethod
    def tail(self, t: FloatArray) -> FloatArray:
        """Chance that the noise exceeds ``t``."""

    @abstractmethod
    def log_tail(self, t: FloatArray) -> FloatArray:
        """Its logarithm, also where the chance itself underflows."""

    @abstractmethod
    def saturation(self, distance: float) -> float:
        """The ``t`` from which on the log ratio no longer grows."""


class GaussianNoise(Noise):
    """Standard normal noise.

    >>> import numpy as np
    >>> float(GaussianNoise().profile(np.array(1.0), np.array(1.0)).round(6))
    0.126937
    """

    name = "gaussian"
    smallest = 1e-300
    proof = Proof.GAUSSIAN

    def log_density(self, x: FloatArray) -> FloatArray:
        """-x^2/2 and what makes it one in all."""
        return np.asarray(-0.5 * np.square(x) - 0.5 * np.log(2.0 * np.pi))

    def profile(self, distance: FloatArray, epsilon: FloatArray) -> FloatArray:
        """Phi(d/2 - eps/d) - e^eps Phi(-d/2 - eps/d), computed in log space."""
        e = np.asarray(epsilon, dtype=np.float64)
        size = np.exp(log_hockey_stick(distance, np.abs(e)))
        return dual(size, e)

    def log_ratio(self, distance: FloatArray, t: FloatArray) -> tuple[FloatArray, FloatArray]:
        """d t - d^2/2, linear in ``t``."""
        return distance * t - 0.5 * distance * distance, np.asarray(distance + np.zeros_like(t))

    def threshold(self, distance: FloatArray, epsilon: FloatArray) -> FloatArray:
        """eps/d + d/2."""
        return np.asarray(epsilon / distance + 0.5 * distance)

    def tail(self, t: FloatArray) -> FloatArray:
        """Phi(-t)."""
        return np.asarray(ndtr(-t))

    def log_tail(self, t: FloatArray) -> FloatArray:
        """log Phi(-t)."""
        return np.asarray(log_ndtr(-t))

    def saturation(self, distance: float) -> float:
        """The Gaussian likelihood ratio grows for ever."""
        return np.inf

    def log_moments(self, a: FloatArray, distance: FloatArray) -> FloatArray:
        """``a (a-1) d^2 / 2``."""
        return np.asarray(0.5 * a * (a - 1.0) * np.square(distance))


class LaplaceNoise(Noise):
    """Laplace noise with density exp(-|x|)/2, in one dimension.

    >>> import numpy as np
    >>> float(LaplaceNoise().profile(np.array(1.0), np.array(0.5)).round(6))
    0.221199
    """

    name = "laplace"
    smallest = 0.0
    proof = Proof.LAPLACE
    bounded_loss = True

    def log_density(self, x: FloatArray) -> FloatArray:
        """-|x| - log 2."""
        return np.asarray(-np.abs(x) - np.log(2.0))

    def profile(self, distance: FloatArray, epsilon: FloatArray) -> FloatArray:
        """max(0, 1 - exp((eps - d)/2)) for eps >= 0."""
        e = np.asarray(epsilon, dtype=np.float64)
        size = -np.expm1(np.minimum((np.abs(e) - distance) / 2.0, 0.0))
        return dual(size, e)

    def log_ratio(self, distance: FloatArray, t: FloatArray) -> tuple[FloatArray, FloatArray]:
        """|t| - |t - d|: flat outside [0, d]."""
        ratio = np.clip(2.0 * t - distance, -distance, distance)
        return ratio, np.where((t > 0) & (t < distance), 2.0, 0.0)

    def threshold(self, distance: FloatArray, epsilon: FloatArray) -> FloatArray:
        """(eps + d)/2 inside [-d, d]; beyond, no threshold reaches eps."""
        inside = np.where(epsilon < -distance, -np.inf, 0.5 * (epsilon + distance))
        return np.where(epsilon > distance, np.inf, inside)

    def tail(self, t: FloatArray) -> FloatArray:
        """Survival function of the Laplace law."""
        return np.where(t > 0, 0.5 * np.exp(-np.abs(t)), 1.0 - 0.5 * np.exp(-np.abs(t)))

    def log_tail(self, t: FloatArray) -> FloatArray:
        """Its logarithm: linear on the right."""
        right = -np.log(2.0) - np.abs(t)
        return np.where(t > 0, right, np.log1p(-0.5 * np.exp(-np.abs(t))))

    def saturation(self, distance: float) -> float:
        """The ratio stops growing at the moved centre."""
        return distance

    def log_moments(self, a: FloatArray, distance: FloatArray) -> FloatArray:
        """Log of (a e^{(a-1) d} + (a-1) e^{-a d}) / (2a-1)."""
        ratio = (a + (a - 1.0) * np.exp(-(2.0 * a - 1.0) * distance)) / (2.0 * a - 1.0)
        return np.asarray((a - 1.0) * distance + np.log(ratio) + 8.0 * ROUNDOFF)


def dual(size: FloatArray, epsilon: FloatArray) -> FloatArray:
    """Turn values at |epsilon| into values at epsilon: h(a) = 1 - a + a h(1/a) below a = 1."""
    below = np.minimum(epsilon, 0.0)
    return np.asarray(np.where(epsilon < 0, -np.expm1(below) + np.exp(below) * size, size))


@dataclass(frozen=True)
class NoiseProfiles(GroupProfiles, Steering):
    """Exact group profiles of additive noise: j records move the output by at most j * shift."""

    noise: Noise
    shift: float

    @property
    def steering(self) -> Self:
        """The thresholds of optimal tests."""
        return self

    def delta(self, groups: FloatArray, epsilon: FloatArray) -> FloatArray:
        """Exact profile of the noise at distance j * shift; never zero where the truth is not."""
        return np.maximum(self.noise.profile(groups * self.shift, epsilon), self.noise.smallest)

    def tangent(self, groups: FloatArray, t: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The log likelihood ratio at threshold ``t``."""
        return self.noise.log_ratio(groups * self.shift, t[:, None])

    def parameter(self, groups: FloatArray, epsilon: FloatArray) -> FloatArray:
        """The threshold of the optimal test."""
        return self.noise.threshold(groups * self.shift, epsilon)

    def slope(self, t: FloatArray) -> FloatArray:
        """Chance of a false alarm of the test with threshold ``t``."""
        return self.noise.tail(t)

    def saturation(self, groups: FloatArray) -> float:
        """Laplace ratios stop growing at distance j * shift; Gaussian ones never do."""
        return self.noise.saturation(float(groups[-1]) * self.shift)


# Normal tails without cancellation.
#
# With the Mills ratio R(u) = (1 - Phi(u)) / phi(u), the hockey-stick divergence of N(d, 1) from
# N(0, 1) at alpha = e^eps and the threshold t = eps/d - d/2 is
#
#     Phi(-t) - alpha Phi(-t - d) = phi(t) (R(t) - R(t + d)),
#
# because alpha phi(t + d) = phi(t). All cancellation is in the difference of R. Where d is small it
# is replaced by the integral of -R'(u) = 1 - u R(u), which is smooth and positive. The threshold
# itself is formed as (eps - d^2/2)/d with the rounding error of d^2 put back, because eps and d^2/2
# may cancel.

#: Gauss-Legendre on [0, 1]; the tests compare what it gives with mpmath (``PROFILE_ERROR``).
_NODES, _WEIGHTS = leggauss(12)
_NODES = (_NODES + 1.0) / 2.0
_WEIGHTS = _WEIGHTS / 2.0
#: The logarithm of the normal density at 0, but for the sign.
_HALF_LOG_TWO_PI = 0.5 * np.log(2.0 * np.pi)
#: Below this distance the difference of Mills ratios is integrated instead of subtracted.
_CLOSE = 0.75
#: Left of this threshold the plain difference of two tails has no cancellation left.
_FAR_LEFT = -5.0
#: Right of this threshold the logarithm, below -5e23, is returned as -inf.
_FAR_RIGHT = 1e12


def mills_ratio(u: FloatArray) -> FloatArray:
    """(1 - Phi(u)) / phi(u)."""
    return np.asarray(np.sqrt(np.pi / 2.0) * erfcx(u / np.sqrt(2.0)))


def log_hockey_stick(distance: FloatArray, epsilon: FloatArray) -> FloatArray:
    """Log of H(N(distance, 1) || N(0, 1)) at e^epsilon, for epsilon >= 0 and distance > 0.

    The arguments broadcast. The relative error of the value itself is below 2e-12 wherever the
    value is above 1e-300. Beyond that the logarithm stays meaningful, to -inf in the end.
    """
    d, e = np.broadcast_arrays(distance, epsilon)
    t = _threshold(d, e)
    out = np.full(t.shape, -np.inf)
    left = t < _FAR_LEFT
    if left.any():
        tl, dl = t[left], d[left]
        out[left] = np.log(ndtr(-tl) - np.exp(_log_phi(tl)) * mills_ratio(tl + dl))
    right = ~left & (t < _FAR_RIGHT)
    close = right & (d <= _CLOSE)
    if close.any():
        out[close] = _log_phi(t[close]) + np.log(_mills_drop_close(t[close], d[close]))
    apart = right & ~close
    if apart.any():
        ta, da = t[apart], d[apart]
        out[apart] = _log_phi(ta) + np.log(mills_ratio(ta) - mills_ratio(ta + da))
    return out


def _threshold(d: FloatArray, e: FloatArray) -> FloatArray:
    """e/d - d/2 to full relative accuracy, also where the two nearly cancel (Dekker's product)."""
    square = d * d
    big = 134217729.0 * d
    head = big - (big - d)
    tail = d - head
    error = ((head * head - square) + 2.0 * head * tail) + tail * tail
    with np.errstate(over="ignore"):
        return np.asarray(((e - 0.5 * square) - 0.5 * error) / d)


def _log_phi(t: FloatArray) -> FloatArray:
    return np.asarray(-0.5 * t * t - _HALF_LOG_TWO_PI)


def _mills_drop_close(t: FloatArray, d: FloatArray) -> FloatArray:
    """R(t) - R(t + d) for small d, by quadrature of 1 - u R(u)."""
    u = t[..., None] + d[..., None] * _NODES
    steep = 1.0 - u * mills_ratio(u)
    # 1 - u R(u) = 1/u^2 - 3/u^4 + 15/u^6 - …: the difference above loses its digits from u = 1e4.
    far = u > 50.0
    if far.any():
        v = 1.0 / np.square(u[far])
        steep[far] = v * (1.0 - v * (3.0 - v * (15.0 - v * (105.0 - v * 945.0))))
    return np.asarray(d * np.einsum("...j,j->...", steep, _WEIGHTS))


# Descriptions of base mechanisms.
#
# Noise is described either by its *noise multiplier* z = scale / C, where every record adds a
# vector of norm at most C to a sum (the convention of DP-SGD), or directly by the *shift* s: how
# far one copy of the differing record can move the noise-free output, in units of the noise scale.
# A noise multiplier becomes a shift only once the relation is known (see ``relation.py``).


@dataclass(frozen=True)
class AdditiveNoise(Mechanism):
    """Noise added to an output that one copy of a record moves by at most a known amount.

    Parameters
    ----------
    noise_multiplier : float, default=None
        Scale of the noise over C, the bound on the norm of what one record contributes to a sum;
        from 1e-9 to 1e9.
    shift : float, default=None
        How far one copy of the differing record moves the output, over the scale of the noise; from
        1e-9 to 1e9.
    """

    noise_multiplier: float | None = None
    shift: float | None = None

    #: Every subclass states its own: what is proved for one law must not pass to another unseen.
    noise: ClassVar[Noise]

    def __init_subclass__(cls) -> None:
        if "noise" not in vars(cls):
            raise TypeError(
                f"{cls.__name__} must state its noise law (noise = ...): the proofs of the law it "
                "would inherit need not hold for it"
            )

    def __post_init__(self) -> None:
        if (self.noise_multiplier is None) == (self.shift is None):
            raise InvalidParameter(
                "exactly one of noise_multiplier and shift must be given, got "
                f"noise_multiplier={self.noise_multiplier!r} and shift={self.shift!r}"
            )
        for argument in ("noise_multiplier", "shift"):
            value = getattr(self, argument)
            if value is not None:
                limits = {"at_least": SMALLEST_NOISE, "at_most": LARGEST_NOISE}
                object.__setattr__(self, argument, checks.real(argument, value, **limits))

    @property
    def name(self) -> str:
        """The mechanism's name on the command line."""
        return self.noise.name

    def shift_for(self, moves: float) -> float:
        """The stated shift, or ``moves / noise_multiplier``."""
        if self.shift is not None:
            return self.shift
        return moves / float(self.noise_multiplier)  # type: ignore[arg-type]

    @property
    def in_a_ball(self) -> bool:
        """Whether contributions are known to lie in a ball, so that leaving one out moves a sum by
        half of what swapping it does; a stated shift says nothing of the kind.
        """
        return self.shift is None

    @property
    def proof(self) -> Proof | None:
        """That of the noise."""
        return self.noise.proof

    @property
    def covers_left_out(self) -> bool:
        """A shift bounds what swapping a record does and what leaving it out does."""
        return True

    def profiles(self, shift: float | None) -> GroupProfiles:
        """Exact group profiles at this shift."""
        return NoiseProfiles(self.noise, checks.real("shift", shift, above=0))

    def attained(self, shift: float | None) -> Noise:
        """The noise, moved by a number of shifts."""
        return self.noise

    def log_moments(
        self, orders: FloatArray, copies: FloatArray, shift: float | None
    ) -> FloatArray | None:
        """Those of the noise, moved by all copies."""
        distance = copies * checks.real("shift", shift, above=0)
        return self.noise.log_moments(orders[:, None], distance)

    def repeated(self, count: int) -> Mechanism | None:
        """Gaussian releases are one with less noise, exactly: their weighted sum tells all."""
        return self._with_square(count * self._square) if self.proof is Proof.GAUSSIAN else None

    def joined(self, other: Mechanism) -> Mechanism | None:
        """The same for two that are described alike."""
        if self.proof is not Proof.GAUSSIAN or type(other) is not type(self):
            return None
        alike = (self.shift is None) == (other.shift is None)
        return self._with_square(self._square + other._square) if alike else None

    def halved(self) -> Mechanism | None:
        """What is this mechanism if it is run twice."""
        return self._with_square(self._square / 2) if self.proof is Proof.GAUSSIAN else None

    def magnified(self, factor: float) -> Mechanism | None:
        """Less noise, rounded to the side of less noise."""
        if self.shift is not None:
            return replace(self, shift=math.nextafter(self.shift * factor, math.inf))
        less = math.nextafter(float(self.noise_multiplier or math.nan) / factor, 0.0)
        return replace(self, noise_multiplier=less)

    @property
    def _square(self) -> Fraction:
        """The square of the shift, or of that of a contribution of norm C."""
        size = Fraction(self.shift if self.shift is not None else float(self.noise_multiplier or 0))
        return size * size if self.shift is not None else 1 / (size * size)

    def _with_square(self, square: Fraction) -> Mechanism | None:
        """The noise with this square, rounded to the side of less noise."""
        size = math.sqrt(square) * (1.0 + 4e-16)
        size = size if self.shift is not None else 1.0 / size
        if not 2.0 * SMALLEST_NOISE <= size <= LARGEST_NOISE / 2.0:
            return None
        if self.shift is not None:
            return replace(self, shift=size)
        return replace(self, noise_multiplier=math.nextafter(size, 0.0))

    def largest_loss(self, moves: int) -> Fraction | None:
        """The shift, where the noise bounds the loss by the distance."""
        if not self.noise.bounded_loss:
            return None
        if self.shift is not None:
            return Fraction(self.shift)
        return Fraction(moves) / Fraction(float(self.noise_multiplier or math.nan))

    def delta(self, epsilon: ArrayLike, group: int = 1) -> NDArray[np.float64]:
        """Exact profile; needs the shift to have been stated.

        Parameters
        ----------
        epsilon : array_like
            The epsilons to ask about.
        group : int, default=1
            How many records differ.

        Returns
        -------
        ndarray
            One delta for each epsilon.

        Raises
        ------
        InvalidParameter
            The noise is described by its noise multiplier: its shift depends on the relation.

        Examples
        --------
        >>> gaussian(shift=0.25).delta([0.05, 4.5])
        array([7.84136948e-02, 1.26593235e-73])
        """
        if self.shift is None:
            raise InvalidParameter(
                "delta needs a mechanism described by its shift: with a noise multiplier the "
                "shift depends on the relation"
            )
        eps = checks.reals("epsilon", epsilon)
        size = checks.integer("group", group, 1)
        return self.noise.profile(np.asarray(size * self.shift), eps)

    def describe(self) -> dict[str, Any]:
        """Plain description, for JSON."""
        given = {"noise_multiplier": self.noise_multiplier, "shift": self.shift}
        return {"mechanism": self.name, **{k: v for k, v in given.items() if v is not None}}


@dataclass(frozen=True)
class Gaussian(AdditiveNoise):
    """Gaussian noise of standard deviation sigma; contributions bounded in the 2-norm.

    The parameters are those of :func:`gaussian`, which makes it.

    Examples
    --------
    >>> import mustdp as md
    >>> md.types.Gaussian(noise_multiplier=2.0) == md.gaussian(noise_multiplier=2.0)
    True
    """

    noise: ClassVar[Noise] = GaussianNoise()


@dataclass(frozen=True)
class Laplace(AdditiveNoise):
    """Laplace noise of scale parameter b (standard deviation sqrt(2) b) on a single number.

    Made by :func:`laplace`; the parameters are those of :func:`gaussian`.

    Examples
    --------
    >>> import mustdp as md
    >>> md.types.Laplace(shift=0.1) == md.laplace(shift=0.1)
    True
    """

    noise: ClassVar[Noise] = LaplaceNoise()


@register(
    summary="Gaussian noise on a vector whose contributions are bounded in the 2-norm",
    **SCALED_NOISE,
)
def gaussian(*, noise_multiplier: float | None = None, shift: float | None = None) -> Gaussian:
    """Gaussian noise, by noise multiplier sigma / C or by shift; exactly one of them is given.

    Parameters
    ----------
    noise_multiplier : float, default=None
        Scale of the noise over C, the bound on the norm of what one record contributes to a sum;
        from 1e-9 to 1e9.
    shift : float, default=None
        How far one copy of the differing record moves the output, over the scale of the noise; from
        1e-9 to 1e9.

    Returns
    -------
    Gaussian
        A plan of one release, to be subsampled and repeated.

    Examples
    --------
    >>> gaussian(noise_multiplier=4.0).noise_multiplier
    4.0
    """
    return Gaussian(noise_multiplier, shift)


@register(summary="Laplace noise on a single number", **SCALED_NOISE)
def laplace(*, noise_multiplier: float | None = None, shift: float | None = None) -> Laplace:
    """Laplace noise on one number, by noise multiplier scale / C or by shift; one of them is given.

    Parameters, and what is returned, are those of :func:`gaussian`.

    Examples
    --------
    >>> import mustdp as md
    >>> print(f"{md.account(laplace(shift=0.5)).epsilon(delta=0).upper:.2f}")
    0.50
    """
    return Laplace(noise_multiplier, shift)


# Noise for one Gaussian release: the classical formula and the exact inverse of the profile.
#
# Classical: Dwork & Roth, "The Algorithmic Foundations of Differential Privacy" (2014), Theorem
# A.1, proved for eps < 1 only. Exact: Balle & Wang, arXiv 1805.06530v2, Theorem 8, whose profile
# delta(eps) = Phi(s/2 - eps/s) - e^eps Phi(-s/2 - eps/s), s = sensitivity / sigma, is inverted
# here.


#: Below this delta the profile is no longer known to full accuracy.
_SMALLEST_DELTA = 1e-300


def classical_sigma(
    epsilon: float, delta: float, sensitivity: float, *, beyond_proof: bool = False
) -> float:
    """Classical formula ``sensitivity * sqrt(2 ln(1.25/delta)) / epsilon``.

    Parameters
    ----------
    epsilon : float
        The epsilon of one release; the proof covers epsilons above 0 and below 1.
    delta : float
        The delta of one release, from 1e-300 to below 1.
    sensitivity : float
        How far a neighbouring data set moves the output at most, in the 2-norm.
    beyond_proof : bool, default=False
        Whether to evaluate the formula where its proof does not hold, for reproducing published
        tables; the result is then no guarantee.

    Returns
    -------
    float
        Standard deviation of the noise.

    Raises
    ------
    NotCovered
        Epsilon is 1 or more, and ``beyond_proof`` was not asked for.

    Examples
    --------
    >>> round(classical_sigma(0.5, 1e-5, 1.0), 6)
    9.689611
    """
    epsilon = checks.real("epsilon", epsilon, above=0)
    delta = checks.real("delta", delta, at_least=_SMALLEST_DELTA, below=1)
    sensitivity = checks.real("sensitivity", sensitivity, above=0)
    if not epsilon < 1 and not beyond_proof:
        raise NotCovered(
            f"the classical formula is proved for epsilon < 1 only, got {epsilon!r}; "
            "use analytic_sigma"
        )
    return _in_range(sensitivity * math.sqrt(2.0 * math.log(1.25 / delta)) / epsilon)


def analytic_sigma(epsilon: float, delta: float, sensitivity: float) -> float:
    """Smallest sigma whose exact profile meets (epsilon, delta), rounded to the safe side.

    Parameters
    ----------
    epsilon : float
        The epsilon of one release, at least 0.
    delta : float
        The delta of one release, from 1e-300 to below 1.
    sensitivity : float
        How far a neighbouring data set moves the output at most, in the 2-norm.

    Returns
    -------
    float
        Standard deviation of the noise.

    Raises
    ------
    NumericalFailure
        No number that can be trusted was found.

    Examples
    --------
    >>> round(analytic_sigma(0.5, 1e-5, 1.0), 6)
    7.031827
    """
    epsilon = checks.real("epsilon", epsilon, at_least=0)
    delta = checks.real("delta", delta, at_least=_SMALLEST_DELTA, below=1)
    sensitivity = checks.real("sensitivity", sensitivity, above=0)
    noise = GaussianNoise()

    def exceeds(shift: float) -> bool:
        # The profile is known to 2e-12: asking for a little more keeps its rounding on our side.
        value = float(noise.profile(np.asarray(shift), np.asarray(epsilon)))
        return not value * (1.0 + 4e-12) <= delta

    low, high = 1e-302, 1.0
    while not exceeds(high):
        low, high = high, 2.0 * high
        if high > 1e150:
            raise NumericalFailure(f"no shift reaches delta={delta!r} at epsilon={epsilon!r}")
    while high / low > 2.0:
        middle = math.sqrt(low) * math.sqrt(high)
        low, high = (low, middle) if exceeds(middle) else (middle, high)
    while True:
        middle = low + (high - low) / 2.0
        if middle in (low, high):
            break
        low, high = (low, middle) if exceeds(middle) else (middle, high)
    return _in_range(sensitivity / low * (1.0 + 4e-16))


def _in_range(sigma: float) -> float:
    if not np.finfo(np.float64).tiny <= sigma < math.inf:
        raise NumericalFailure(f"sigma = {sigma!r} is out of the range of double precision")
    return sigma
