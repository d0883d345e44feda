"""Any mechanism that is mu-GDP: no easier to tell apart than two normal laws at the distance mu.

Dong, Roth & Su 2022 ("Gaussian differential privacy", arXiv 1905.02383v3), Definition 2.6: for
neighbouring data sets every test of the outputs P and Q has errors at least as large as the best
test of N(0, 1) against N(mu, 1).

*Profiles.* By Blackwell's theorem (Theorem 2.10 there) P and Q are then N(0, 1) and N(mu, 1) after
one and the same randomised map, which cannot increase a hockey-stick divergence or a Renyi
divergence. Data sets that differ in j records are j mu-GDP (Theorem 2.14 there): their divergences
are at most those of normal laws at the distance j mu.

*What is attained.* A number that one record moves by mu, with standard normal noise, is such a
mechanism, and j copies of a record move it by j mu.

Nothing more is known of P and Q. So the theorems on Gaussian noise around vectors are not used, and
no more is said of a record that is left out where one was replaced.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, ClassVar

import numpy as np

from mustdp.mechanisms.mechanism import (
    GaussianNoise,
    GroupProfiles,
    Mechanism,
    Noise,
    NoiseProfiles,
)
from mustdp.mechanisms.registry import Argument, register
from mustdp.numerics import checks
from mustdp.numerics.arrays import FloatArray

_NOISE = GaussianNoise()


@dataclass(frozen=True)
class GaussianDP(Mechanism):
    """Any mechanism that is mu-GDP (see :func:`gdp`)."""

    mechanism_mu: float

    name: ClassVar[str] = "gdp"

    def __post_init__(self) -> None:
        mu = checks.real("mu", self.mechanism_mu, at_least=1e-9, at_most=1e3)
        object.__setattr__(self, "mechanism_mu", mu)

    def shift_for(self, moves: float) -> float:
        """The mu, whatever the relation."""
        return self.mechanism_mu

    def profiles(self, shift: float | None) -> GroupProfiles:
        """Those of normal laws j mu apart."""
        return NoiseProfiles(_NOISE, self.mechanism_mu)

    def attained(self, shift: float | None) -> Noise:
        """Standard normal noise, moved by a number of mu."""
        return _NOISE

    def log_moments(
        self, orders: FloatArray, copies: FloatArray, shift: float | None
    ) -> FloatArray:
        """Those of normal laws j mu apart."""
        return np.asarray(_NOISE.log_moments(orders[:, None], copies * self.mechanism_mu))

    def describe(self) -> dict[str, Any]:
        """Plain description, for JSON."""
        return {"mechanism": self.name, **asdict(self)}


@register(
    summary="any mechanism with this mu of Gaussian privacy (Dong et al. 2022)",
    arguments=(
        Argument(
            "mechanism_mu",
            "MU",
            "The mu of every release on its own: no easier to tell apart than normal laws at this "
            "distance.",
            1e-9,
            1e3,
            parameter="mu",
        ),
    ),
    examples=({"mechanism_mu": 1.5}, {"mechanism_mu": 0.4}),
)
def gdp(mu: float) -> Mechanism:
    """Any mechanism that is mu-GDP: Gaussian differential privacy (Dong, Roth & Su 2022).

    The guarantee must hold for batches that differ in one entry: swapped for schemes of a fixed
    batch size, left out for Poisson sampling under add_remove. Where the noise is known to be
    Gaussian, :func:`gaussian` says more.

    Parameters
    ----------
    mu : float
        The mu of one release, from 1e-9 to 1000.

    Returns
    -------
    Mechanism
        A plan of one release, to be subsampled and repeated.

    References
    ----------
    Dong, Roth & Su 2022, arXiv 1905.02383v3.

    Examples
    --------
    >>> import mustdp as md
    >>> released = md.repeat(4, md.gdp(mu=0.5))
    >>> print(md.account(released).epsilon(delta=1e-5))
    4.37 attained, 4.38 certified (replace-one)
    """
    return GaussianDP(mu)
