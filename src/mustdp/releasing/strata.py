"""Strata: estimates of each, put together with their public shares of the population.

The strata are the groups of one release, so one record that changes its stratum is counted. With
shares W_h that add up to one, a mean is sum W_h mean_h and its variance sum W_h^2 SE_h^2 (Cochran
1977, section 5.3): the errors of strata, sampling and noise alike, are independent; a cluster is
taken to lie in one stratum. The finite-population correction is that of every stratum, 1 - n_h /
N_h. What is curved in averages is so in those of the population, sum W_h mu_h, and a distribution
function is sum W_h F_h. The shares add up to one. Records in no listed stratum are the stratum
"other" if that has a share; else they count for nothing, and where the release shows that there are
some, the estimates say so. Errors of strata that come from few clusters have few degrees of freedom
each; those of the whole are Satterthwaite's (1946).
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
    satterthwaite,
    symmetric,
)

#: Shares that were rounded to seven digits still add up to one.
_CLOSE = 1e-6


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
    if not all(one.known for one in readings):
        return replace(everything(possible), flags=(FEW, *flags))
    value = math.fsum(share * one.value for share, one in zip(ground.shares, readings, strict=True))
    sampling = noise = 0.0
    for share, one in zip(ground.shares, readings, strict=True):
        variance = (share * one.standard_error) ** 2
        noise += one.noise_share * variance
        sampling += (1.0 - one.noise_share) * variance
    freedom = satterthwaite(
        ((share * one.standard_error) ** 2, one.degrees_of_freedom)
        for share, one in zip(ground.shares, readings, strict=True)
    )
    found = symmetric(value, Judged(sampling, noise, freedom), level, possible)
    return replace(found, flags=(*found.flags, *flags))
