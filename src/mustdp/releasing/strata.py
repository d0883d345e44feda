"""Strata: estimates of each, put together with their public shares of the population.

The strata are the groups of one release, so one record that changes its stratum is counted. With
shares W_h that add up to one, a mean is sum W_h mean_h and its variance sum W_h^2 SE_h^2 (Cochran
1977, section 5.3): the errors of strata, sampling and noise alike, are independent; a cluster is
taken to lie in one stratum. The finite-population correction is that of every stratum, 1 - n_h /
N_h. What is curved in averages is so in those of the population, sum W_h mu_h, and a distribution
function is sum W_h F_h. Records in no listed stratum count for nothing.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from mustdp.errors import InvalidParameter
from mustdp.numerics import checks
from mustdp.releasing.ground import Ground
from mustdp.releasing.uncertainty import Judged, Reading, symmetric


def read_shares(
    strata: str | None, shares: Mapping[str, float] | None, by: str | None
) -> dict[str, float]:
    """The shares, brought to a sum of one; empty without strata."""
    if strata is None and shares is None:
        return {}
    if strata is None or shares is None or by is not None:
        raise InvalidParameter("strata and stratum_shares must be given together, and not with by")
    found = {str(name): checks.real("stratum_shares", x, above=0) for name, x in shares.items()}
    if not found:
        raise InvalidParameter.refusing("stratum_shares", "must name some strata", "none")
    total = math.fsum(found.values())
    return {name: share / total for name, share in found.items()}


def over_strata(
    readings: Sequence[Reading], ground: Ground, level: float, possible: tuple[float, float]
) -> Reading:
    """One reading for what is an average over strata, from those of each."""
    value = math.fsum(share * one.value for share, one in zip(ground.shares, readings, strict=True))
    sampling = noise = 0.0
    for share, one in zip(ground.shares, readings, strict=True):
        variance = (share * one.standard_error) ** 2
        noise += one.noise_share * variance
        sampling += (1.0 - one.noise_share) * variance
    found = symmetric(value, Judged(sampling, noise), level, possible)
    named = zip(ground.groups, readings, strict=False)
    flags = dict.fromkeys(f"{name}: {flag}" for name, one in named for flag in one.flags)
    return Reading(
        found.value,
        found.standard_error,
        found.interval,
        found.noise_share,
        (*found.flags, *flags),
    )
