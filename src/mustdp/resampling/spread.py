"""How far an estimate is from the truth, judged from noisy replicates.

One number is released for each of s * r subsets: s groups, each with a first stage of its own, and
r second stages on it (r = 1 for plain designs). In one direction u of the released vector,

    u_ti = (statistic on subset i of group t) + noise,      noise of known variance N,

and with S^2 the variance of a record's influence, a_b and a_w the design's ``between`` and
``within``,

    E B = (a_b + a_w / r) S^2 + N / r      B: sample variance of the s group means
    E W = a_w S^2 + N                      W: pooled sample variance inside the groups.

Either gives an estimate of S^2 with the noise subtracted; the two are weighted by their precision.
The average of all replicates differs from the truth by the sampling of the data, the resampling,
and the noise,

    V = S^2 (1/n + a_b/s + a_w/(r s)) + N/(r s),

which contains the m-out-of-n scaling, the duplicates and the noise, each once. The precision of V
itself gives degrees of freedom (Satterthwaite 1946), so that an interval is wider where much noise
was subtracted. Where the estimate of S^2 is less than its own standard error, noise drowns the
replicates, and the result says so. Then it is worth more that S^2 cannot be negative: its place is
taken by the mean of the normal law around it cut off at zero, which is always larger, and V needs
no further widening.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import log_ndtr

from mustdp.errors import InvalidParameter
from mustdp.numerics.arrays import FloatArray
from mustdp.resampling.designs import Design


@dataclass(frozen=True)
class Spread:
    """Variance of an average of noisy replicates around the truth, and what it consists of."""

    sampling: float  # of the data: what remains without noise and with endless replicates
    resampling: float
    noise: float
    degrees_of_freedom: float
    drowned: bool

    @property
    def variance(self) -> float:
        """The whole variance."""
        return self.sampling + self.resampling + self.noise

    @property
    def noise_share(self) -> float:
        """The part of the variance that the added noise causes."""
        return self.noise / self.variance if self.variance > 0 else 0.0


def spread_of(design: Design, replicates: FloatArray, noise: float) -> Spread:
    """Judge ``replicates`` (groups, reuse), each with noise of variance ``noise``."""
    s, r = replicates.shape
    if s * r < 2:
        raise InvalidParameter(
            "a standard error needs at least two replicates, got one: "
            "raise the number of subsets or of their reuse"
        )
    parts = []  # (estimate of S^2, factor of S^2, noise, degrees of freedom)
    if s > 1:
        between = float(np.var(replicates.mean(axis=1), ddof=1))
        parts.append((between, design.between + design.within / r, noise / r, s - 1))
    if r > 1:
        within = float(np.var(replicates, axis=1, ddof=1).mean())
        parts.append((within, design.within, noise, s * (r - 1)))
    parts = [part for part in parts if part[1] > 0]
    if not parts:
        raise InvalidParameter(
            "every subset of this design is the whole data set, so that replicates say nothing "
            "about sampling error: draw fewer records than there are, or with replacement"
        )
    estimates = np.array([(seen - extra) / factor for seen, factor, extra, _ in parts])
    influence = max(float(estimates[-1]), 0.0)
    for _ in range(3):  # weights from a common S^2, not from each estimate's own luck
        errors = np.array(
            [(influence + extra / factor) * math.sqrt(2.0 / df) for _, factor, extra, df in parts]
        )
        precision = 1.0 / np.maximum(errors, 1e-150) ** 2
        pooled = float(precision @ estimates / precision.sum())
        influence = max(pooled, 0.0)
    error = float(1.0 / math.sqrt(precision.sum()))
    factor = 1.0 / design.n + (design.between + design.within / r) / s
    drowned = noise > 0 and pooled < error
    if drowned:
        influence, freedom = not_negative(pooled, error), math.inf
    else:
        influence = max(pooled, 0.0)
        total = influence * factor + noise / (r * s)
        freedom = 2.0 * total**2 / (factor * error) ** 2 if error > 0 else math.inf
    return Spread(
        sampling=influence / design.n,
        resampling=influence * (factor - 1.0 / design.n),
        noise=noise / (r * s),
        degrees_of_freedom=freedom,
        drowned=drowned,
    )


def not_negative(mean: float, error: float) -> float:
    """Mean of the normal law with this mean and standard deviation, given that it is positive."""
    at = max(mean / error, -30.0)
    density = math.exp(-0.5 * at * at - float(log_ndtr(at))) / math.sqrt(2.0 * math.pi)
    return error * (at + density)
