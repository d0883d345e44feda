"""How far an estimate is from the truth, judged from noisy replicates.

One number is released for each of s * r subsets: s groups, each with a first stage of its own, and
r second stages on it (r = 1 for plain designs). In one direction u of the released vector,

    u_ti = (statistic on subset i of group t) + noise,      noise of known variance N,

and with S^2 the variance of a record's influence, a_b and a_w the design's ``between`` and
``within``, A = a_b + a_w / r,

    E B = A S^2 + N / r      B: sample variance of the s group means, s - 1 degrees of freedom.

With the noise subtracted this gives S^2. (The variance inside the groups tells S^2 as well, but
that of few first stages: with heavy tails they all miss the same records, so it is left alone.) The
average of all replicates differs from the truth by the sampling of the data from a population of N
records, the resampling, and the noise,

    V = S^2 ((1 - n/N)/n + A/s) + N/(r s),

which contains the m-out-of-n scaling, the duplicates and the noise, each once. The precision of V
itself gives degrees of freedom (Satterthwaite 1946), so that an interval is wider where much noise
was subtracted.

*Drowned.* If S^2 were 0, its estimate would have the standard error (N / (r A)) sqrt(2 / (s - 1)).
An estimate below that cannot be told from nothing: noise drowns the replicates, and the result says
so. Its place is taken by the limit that S^2 stays below with a chance of 95 %, from the chi-square
law of B, and at least by the mean of the normal law around it cut off at zero. So it is where
hardly any record differs (*rare values* in ``statistics/reading.py``): S^2 comes from about s / A.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import chdtri, log_ndtr

from mustdp.errors import InvalidParameter
from mustdp.numerics.arrays import FloatArray
from mustdp.resampling.designs import Design
from mustdp.resampling.statistics.reading import Spread, rare_error, rare_limit

#: With fewer subsets a standard error says next to nothing.
FEWEST_SUBSETS = 4
#: Chance that a hidden variance stays below the limit that takes its place.
_SURE = 0.95


def check_subsets(design: Design) -> None:
    """Refuse a design that cannot tell how far its subsets differ."""
    if design.subsets < FEWEST_SUBSETS:
        raise InvalidParameter.refusing(
            "replicates" if design.reuse == 1 else "subsets",
            f"must be at least {FEWEST_SUBSETS}: a standard error comes from how subsets that "
            "were drawn independently differ",
            design.subsets,
        )
    if not design.between + design.within > 0:
        raise InvalidParameter(
            "every subset of this design is the whole data set, so that replicates say nothing "
            "about sampling error: draw fewer records than there are, or with replacement"
        )


def factor_of(design: Design, population: float = math.inf) -> float:
    """What S^2 is multiplied by in the variance of the average of all replicates."""
    unsampled = max(0.0, 1.0 - design.n / population)
    return unsampled / design.n + _between_means(design) / design.subsets


def spread_of(
    design: Design,
    replicates: FloatArray,
    noise: float,
    population: float = math.inf,
    largest: float = 0.0,
) -> Spread:
    """Judge ``replicates`` (groups, reuse), each with noise of variance ``noise``.

    ``largest`` is the largest influence of a record, where it is known.
    """
    check_subsets(design)
    s, r = replicates.shape
    df, a, own = s - 1, _between_means(design), noise / r
    seen = float(np.var(replicates.mean(axis=1), ddof=1))
    influence = (seen - own) / a
    null = own / a * math.sqrt(2.0 / df)
    factor = factor_of(design, population)
    if noise > 0 and influence < null:
        upper = (seen * df / float(chdtri(df, _SURE)) - own) / a
        hidden = max(upper, not_negative(influence, null), rare_limit(influence, largest, a / s))
        return Spread(hidden * factor, own / s, drowned=True)
    influence = max(influence, 0.0)
    rare = rare_error(influence, largest, a / s)
    if influence < rare or (largest > 0 and influence == 0.0):
        return Spread(rare_limit(influence, largest, a / s) * factor, own / s, drowned=True)
    total = influence * factor + own / s
    doubt = math.hypot((influence + own / a) * math.sqrt(2.0 / df), rare) * factor
    return Spread(
        influence * factor, own / s, 2.0 * (total / doubt) ** 2 if doubt > 0 else math.inf
    )


def not_negative(mean: float, error: float) -> float:
    """Mean of the normal law with this mean and standard deviation, given that it is positive."""
    at = max(mean / error, -30.0)
    density = math.exp(-0.5 * at * at - float(log_ndtr(at))) / math.sqrt(2.0 * math.pi)
    return error * (at + density)


def _between_means(design: Design) -> float:
    return design.between + design.within / design.reuse
