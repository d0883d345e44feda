"""Three points in the plane, by brute force: densities on a grid of outcomes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tests.arrays import FloatArray


@dataclass(frozen=True, eq=False)
class Outcomes:
    """P and Q of one triple on a grid of outcomes, as masses."""

    p: FloatArray
    q: FloatArray

    def divergence(self, epsilon: FloatArray) -> FloatArray:
        """H(P || Q) at each e^epsilon."""
        return np.array([np.maximum(self.p - np.exp(e) * self.q, 0.0).sum() for e in epsilon])

    @property
    def swapped(self) -> Outcomes:
        """The pair in the other order."""
        return Outcomes(self.q, self.p)


def outcomes(
    chance: float, x: complex, other: complex, common: complex, step: float = 0.05
) -> Outcomes:
    """The pair of a triple; points are complex numbers in noise units, on a line if all real."""
    places = np.array([x, other, common])
    flat = bool(np.all(places.imag == 0.0))
    if not flat:  # kinks along the axes of the grid would be summed badly
        places = places * np.exp(0.7j)
        x, other, common = (complex(place) for place in places)
    across = np.arange(places.real.min() - 7.5, places.real.max() + 7.5, step if not flat else 2e-3)
    along = (
        np.zeros(1) if flat else np.arange(places.imag.min() - 7.5, places.imag.max() + 7.5, step)
    )
    cell = 2e-3 / np.sqrt(2.0 * np.pi) if flat else step * step / (2.0 * np.pi)

    def masses(place: complex) -> FloatArray:
        squares = np.square(across - place.real)[:, None] + np.square(along - place.imag)
        return np.asarray(np.exp(-0.5 * squares) * cell).ravel()

    rest = (1.0 - chance) * masses(common)
    return Outcomes(rest + chance * masses(x), rest + chance * masses(other))
