"""Gaussian and Laplace mechanisms, and the noise one Gaussian release needs."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mustdp.errors import InvalidParameter, NotCovered, NumericalFailure
from mustdp.limits import LARGEST_NOISE, SMALLEST_NOISE
from mustdp.mechanisms.contract import GroupProfiles, Mechanism, Proof
from mustdp.mechanisms.laws import GaussianNoise, LaplaceNoise, Noise, NoiseProfiles
from mustdp.numerics import checks
from mustdp.numerics.arrays import FloatArray

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

    Exactly one of ``noise_multiplier`` and ``shift`` is given.

    Parameters
    ----------
    noise_multiplier : float, default=None
        Scale of the noise over C, the bound on the norm of what one record contributes to a sum;
        from 1e-9 to 1e9.
    shift : float, default=None
        How far one copy of the differing record moves the output, over the scale of the noise; from
        1e-9 to 1e9.

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

    Exactly one of ``noise_multiplier`` and ``shift`` is given.

    Parameters
    ----------
    noise_multiplier : float, default=None
        Scale of the noise over C, the bound on the norm of what one record contributes to a sum;
        from 1e-9 to 1e9.
    shift : float, default=None
        How far one copy of the differing record moves the output, over the scale of the noise; from
        1e-9 to 1e9.

    Examples
    --------
    >>> import mustdp as md
    >>> md.types.Laplace(shift=0.1) == md.laplace(shift=0.1)
    True
    """

    noise: ClassVar[Noise] = LaplaceNoise()


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


def laplace(*, noise_multiplier: float | None = None, shift: float | None = None) -> Laplace:
    """Laplace noise on one number, by noise multiplier scale / C or by shift; one of them is given.

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
    Laplace
        A plan of one release, to be subsampled and repeated.

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
