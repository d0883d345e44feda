"""Three kinds of interval from the same noisy replicates.

- ``normal``: the estimate plus and minus a t quantile times the standard error.
- ``percentile``: replicates, shrunk until they vary as much as an estimate from all the data does
  without noise, keep their shape; what resampling and noise add is a normal kernel around each.
  This undoes the noise in the replicates and the m-out-of-n scaling at once.
- ``bootstrap-t`` (double bootstrap): every first stage is studentised by the standard error that
  its own second stages tell, noise subtracted; the quantiles of these replace those of t.
"""

from __future__ import annotations

import math
from typing import Literal, get_args

import numpy as np
from scipy.optimize import brentq
from scipy.special import ndtr, ndtri, stdtrit

from mustdp.errors import InvalidParameter
from mustdp.numerics.arrays import FloatArray
from mustdp.resampling.designs import Design
from mustdp.resampling.spread import Spread

Kind = Literal["normal", "percentile", "bootstrap-t"]
KINDS: tuple[Kind, ...] = get_args(Kind)
#: Share of groups that may have a negative variance estimate before bootstrap-t is given up.
_MOST_NEGATIVE = 0.05


def check_kind(kind: Kind, level: float, design: Design) -> None:
    """Refuse a kind of interval that the design has too few replicates for."""
    needed = math.ceil(2.0 / (1.0 - level) - 1e-9) - 1
    if kind == "percentile" and design.releases < needed:
        raise InvalidParameter.refusing(
            "interval",
            f"'percentile' at level {level:g} needs at least {needed} replicates",
            design.releases,
        )
    if kind == "bootstrap-t" and (design.reuse < 3 or design.subsets < needed):
        raise InvalidParameter.refusing(
            "interval",
            f"'bootstrap-t' at level {level:g} needs a nested design with at least {needed} "
            "subsets, each used 3 times or more",
            f"{design.subsets} subsets used {design.reuse} times",
        )


def t_quantile(level: float, spread: Spread) -> float:
    """The two-sided t quantile for the precision of the standard error."""
    freedom = min(max(spread.degrees_of_freedom, 1.0), 1e9)
    return float(stdtrit(freedom, 0.5 + 0.5 * level))


def percentile(
    value: float, shrunk: FloatArray, spread: Spread, level: float
) -> tuple[float, float]:
    """Quantiles of ``shrunk`` replicates, blurred by what resampling and noise add."""
    blur = math.sqrt(spread.resampling + spread.noise)
    wider = t_quantile(level, spread) / float(ndtri(0.5 + 0.5 * level))
    ends = [_blurred_quantile(shrunk, blur, 0.5 * (1.0 + sign * level)) for sign in (-1.0, 1.0)]
    low, high = (value + wider * (end - value) for end in ends)
    return min(low, value), max(high, value)


def bootstrap_t(
    value: float, groups: FloatArray, noise: float, design: Design, spread: Spread, level: float
) -> tuple[float, float] | None:
    """The studentised interval from replicates (groups, reuse) in one direction; None if drowned.

    The mean of group t has variance (a_b + a_w/r) S_t^2 + N/r around the average of all, where
    S_t^2 = (W_t - N) / a_w comes from the group's own replicates.
    """
    r = groups.shape[1]
    influence = (np.var(groups, axis=1, ddof=1) - noise) / design.within
    if np.mean(influence <= 0) > _MOST_NEGATIVE:
        return None
    own = (design.between + design.within / r) * np.maximum(influence, 0.0) + noise / r
    if not np.all(own > 0):
        return None
    means = groups.mean(axis=1)
    studentised = (means - means.mean()) / np.sqrt(own)
    low, high = np.quantile(studentised, [0.5 - 0.5 * level, 0.5 + 0.5 * level], method="weibull")
    error = math.sqrt(spread.variance)
    return float(min(value - high * error, value)), float(max(value - low * error, value))


def _blurred_quantile(centres: FloatArray, blur: float, share: float) -> float:
    """Quantile of an equal mixture of normals of standard deviation ``blur`` at ``centres``."""
    width = float(np.ptp(centres))
    if not blur > 1e-9 * max(width, float(np.abs(centres).max()) * 1e-6):
        return float(np.quantile(centres, share, method="weibull"))
    reach = abs(float(ndtri(share))) * blur + blur
    low, high = float(centres.min()) - reach, float(centres.max()) + reach
    return float(brentq(lambda x: float(ndtr((x - centres) / blur).mean()) - share, low, high))
