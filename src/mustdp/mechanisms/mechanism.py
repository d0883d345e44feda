"""Descriptions of base mechanisms.

Noise is described either by its *noise multiplier* z = scale / C, where every record adds a vector
of norm at most C to a sum (the convention of DP-SGD), or directly by the *shift* s: how far one
copy of the differing record can move the noise-free output, in units of the noise scale. A noise
multiplier becomes a shift only once the relation is known (see ``relation.py``).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mustdp.errors import InvalidParameter
from mustdp.limits import LARGEST_NOISE, SMALLEST_NOISE
from mustdp.mechanisms.noise import GaussianNoise, LaplaceNoise, Noise
from mustdp.mechanisms.profiles import GroupProfiles, NoiseProfiles
from mustdp.numerics import checks


class Mechanism(ABC):
    """A base mechanism: something with group profiles once its shift is known.

    >>> import mustdp as md
    >>> [isinstance(one, md.Mechanism) for one in (md.gaussian(shift=1.0), md.laplace(shift=1.0))]
    [True, True]
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

    noise: ClassVar[Noise]

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

    def profiles(self, shift: float | None) -> GroupProfiles:
        """Exact group profiles at this shift."""
        return NoiseProfiles(self.noise, checks.real("shift", shift, above=0))

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
    >>> md.Gaussian(noise_multiplier=2.0) == md.gaussian(noise_multiplier=2.0)
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
    >>> md.Laplace(shift=0.1) == md.laplace(shift=0.1)
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


#: The mechanisms that have a name, as typed on the command line.
MECHANISMS: dict[str, Callable[..., AdditiveNoise]] = {"gaussian": gaussian, "laplace": laplace}
