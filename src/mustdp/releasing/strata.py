"""Strata: estimates of each, put together with their public shares of the population.

The strata are the groups of one release, so one record that changes its stratum is counted. With
shares W_h that add up to one, a mean is sum W_h mean_h and its variance sum W_h^2 SE_h^2 (Cochran
1977, section 5.3): the errors of strata, sampling and noise alike, are independent; a cluster is
taken to lie in one stratum. The finite-population correction is that of every stratum, 1 - n_h /
N_h. What is curved in averages is so in those of the population, sum W_h mu_h, and a distribution
function is sum W_h F_h. The shares add up to one. Records in no listed stratum are the stratum
"other" if that has a share; else they count for nothing, and where the release shows that there are
some, the estimates say so. A small stratum of which noise leaves nothing to be known may be
anywhere in what is possible: that widens the interval by its share of it, from end to end; if such
strata are more than a tenth of the population, there is no estimate. Errors of strata from
few clusters have few degrees of freedom each; those of the whole are Satterthwaite's (1946).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from mustdp.errors import InvalidParameter
from mustdp.numerics import checks
from mustdp.releasing.ground import OTHER, Ground
from mustdp.releasing.uncertainty import (
    FEW,
    Judged,
    Reading,
    everything,
    into,
    satterthwaite,
    symmetric,
)

#: Shares that were rounded to seven digits still add up to one.
_CLOSE = 1e-6
#: The share of the population of which nothing may be known.
MOST_UNKNOWN = 0.1


def read_shares(
    strata: str | None, shares: Mapping[str, float] | None, by: str | None
) -> dict[str, float]:
    """The shares, which add up to one, that of the rest last; empty without strata."""
    if strata is None and shares is None:
        return {}
    if strata is None or shares is None or by is not None:
        raise InvalidParameter("strata and stratum_shares must be given together, and not with by")
    found = {str(name): checks.real("stratum_shares", x, above=0) for name, x in shares.items()}
    rest = {name: found.pop(name) for name in (OTHER,) if name in found}
    if not found:
        raise InvalidParameter.refusing("stratum_shares", "must name some strata", "none")
    found |= rest
    total = math.fsum(found.values())
    if not abs(total - 1.0) <= _CLOSE:
        raise InvalidParameter.refusing(
            "stratum_shares",
            "must add up to 1; strata that are not listed are one more, with a share of its own "
            f"by the name of {OTHER!r}",
            f"a sum of {total:.9g}",
        )
    return {name: share / total for name, share in found.items()}


def over_strata(
    readings: Sequence[Reading], ground: Ground, level: float, possible: tuple[float, float]
) -> Reading:
    """One reading for what is an average over strata, from those of each."""
    named = zip(ground.groups, readings, strict=False)
    flags = tuple(dict.fromkeys(f"{name}: {flag}" for name, one in named for flag in one.flags))
    pairs = list(zip(ground.shares, readings, strict=True))
    known = [(share, one) for share, one in pairs if one.known]
    if math.fsum(share for share, one in pairs if not one.known) > MOST_UNKNOWN:
        return replace(everything(possible), flags=(FEW, *flags))
    value, open_ends = 0.0, 0.0  # what is not known: the middle, and half of what is possible
    for share, one in pairs:
        low, high = one.interval
        value += share * (one.value if one.known else 0.5 * (low + high))
        open_ends += 0.0 if one.known else share * 0.5 * (high - low)
    variances = [((share * one.standard_error) ** 2, one) for share, one in known]
    noise = math.fsum(variance * one.noise_share for variance, one in variances)
    sampling = math.fsum(variance * (1.0 - one.noise_share) for variance, one in variances)
    freedom = satterthwaite((variance, one.degrees_of_freedom) for variance, one in variances)
    found = symmetric(value, Judged(sampling, noise, freedom), level, possible)
    if not open_ends:
        return replace(found, flags=(*found.flags, *flags))
    error = math.hypot(found.standard_error, open_ends)
    return Reading(
        found.value,
        error,
        (
            into(found.interval[0] - open_ends, possible),
            into(found.interval[1] + open_ends, possible),
        ),
        (noise + open_ends**2) / error**2,
        (*found.flags, *flags),
        freedom,
    )
