"""Pairs of mixtures of shifted noise, evaluated straight from their definition.

``profile`` has 40 digits (mpmath); ``two_steps`` integrates over the outcome of the first of two
steps with the exact profile of the second inside, in double precision.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import mpmath as mp
import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

FloatArray = NDArray[np.float64]
DIGITS = 40


@dataclass(frozen=True)
class ExactPair:
    """P against Q, both mixtures ``{place: weight}``; the loss log dP/dQ must not decrease."""

    noise: str
    p: dict[float, float]
    q: dict[float, float]

    def profile(self, epsilon: float) -> mp.mpf:
        """H(P || Q) at e^epsilon: the half-line where the loss exceeds epsilon."""
        with mp.workdps(DIGITS):
            e = mp.mpf(epsilon)
            low, high = mp.mpf(-400), mp.mpf(400)
            if self._loss(high) < e:
                return mp.mpf(0)
            if self._loss(low) >= e:
                return -mp.expm1(e)
            for _ in range(160):
                middle = (low + high) / 2
                low, high = (low, middle) if self._loss(middle) >= e else (middle, high)
            value = self._above(self.p, high) - mp.exp(e) * self._above(self.q, high)
            return max(value, mp.mpf(0))

    def _loss(self, x: mp.mpf) -> mp.mpf:
        return mp.log(self._density(self.p, x)) - mp.log(self._density(self.q, x))

    def _density(self, mixture: dict[float, float], x: mp.mpf) -> mp.mpf:
        power = 2 if self.noise == "gaussian" else 1
        return mp.fsum(w * mp.exp(-(abs(x - a) ** power) / power) for a, w in mixture.items())

    def _above(self, mixture: dict[float, float], x: mp.mpf) -> mp.mpf:
        return mp.fsum(w * self._tail(x - mp.mpf(a)) for a, w in mixture.items())

    def _tail(self, t: mp.mpf) -> mp.mpf:
        if self.noise == "gaussian":
            return mp.erfc(t / mp.sqrt(2)) / 2
        return mp.exp(-t) / 2 if t > 0 else 1 - mp.exp(t) / 2

    def densities(self, x: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Both densities in double precision."""
        return self._densities(self.p, x), self._densities(self.q, x)

    def _densities(self, mixture: dict[float, float], x: FloatArray) -> FloatArray:
        total = np.zeros_like(x)
        for a, w in mixture.items():
            if self.noise == "gaussian":
                total += w * np.exp(-0.5 * np.square(x - a)) / np.sqrt(2.0 * np.pi)
            else:
                total += 0.5 * w * np.exp(-np.abs(x - a))
        return total

    def losses(self, x: FloatArray) -> FloatArray:
        """log dP/dQ in double precision."""
        p, q = self.densities(x)
        return np.log(p) - np.log(q)

    def profiles(self, epsilon: FloatArray) -> FloatArray:
        """The profile at any real epsilons, in double precision."""
        low, high = np.full(epsilon.shape, -30.0), np.full(epsilon.shape, 30.0)
        for _ in range(60):
            middle = 0.5 * (low + high)
            above = self.losses(middle) >= epsilon
            low, high = np.where(above, low, middle), np.where(above, middle, high)
        value = self._tails(self.p, high) - np.exp(epsilon) * self._tails(self.q, high)
        return np.maximum(value, 0.0)

    def _tails(self, mixture: dict[float, float], x: FloatArray) -> FloatArray:
        total = np.zeros_like(x)
        for a, w in mixture.items():
            t = x - a
            if self.noise == "gaussian":
                total += w * ndtr(-t)
            else:
                inside = 0.5 * np.exp(-np.abs(t))
                total += w * np.where(t > 0, inside, 1.0 - inside)
        return total


def family(name: str, chances: Sequence[float], shift: float, noise: str) -> ExactPair:
    """The aligned, reversed or symmetric pair for multiplicities 0, 1, 2, … with these chances."""
    half = shift / 2.0 if name == "symmetric" else shift
    right = {j * half: w for j, w in enumerate(chances) if w > 0}
    left = {-a: w for a, w in right.items()}
    still = {0.0: 1.0}
    sides = {"aligned": (right, still), "reversed": (still, left), "symmetric": (right, left)}
    return ExactPair(noise, *sides[name])


def two_steps(first: ExactPair, second: ExactPair, epsilon: float) -> float:
    """Delta of two steps: the mean over the first loss of the second step's profile."""
    kinks = sorted({*first.p, *first.q})
    borders = np.unique(np.concatenate([np.linspace(-12.0, 14.0 + kinks[-1], 600), kinks]))
    nodes, weights = np.polynomial.legendre.leggauss(6)
    half = np.diff(borders) / 2.0
    x = (borders[:-1] + half)[:, None] + half[:, None] * nodes
    density = first.densities(x.ravel())[0]
    inner = second.profiles(epsilon - first.losses(x.ravel()))
    return float(np.sum(density * inner * (half[:, None] * weights).ravel()))
