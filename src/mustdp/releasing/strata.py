"""Strata: estimates of each, put together with their public shares of the population.

The strata are the groups of one release, so one record that changes its stratum is counted. With
shares W_h that add up to one, a mean is sum W_h mean_h and its variance sum W_h^2 SE_h^2 (Cochran
1977, section 5.3): the errors of strata, sampling and noise alike, are independent. Records in no
listed stratum count for nothing.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from scipy.special import ndtri

from mustdp.errors import InvalidParameter
from mustdp.numerics import checks
from mustdp.releasing.estimate import ReleasedEstimate
from mustdp.releasing.ground import OTHER


def read_shares(
    strata: str | None,
    shares: Mapping[str, float] | None,
    asked: Sequence[str],
    by: str | None,
) -> dict[str, float]:
    """The shares, brought to a sum of one; empty without strata."""
    if strata is None and shares is None:
        return {}
    if strata is None or shares is None or by is not None:
        raise InvalidParameter("strata and stratum_shares must be given together, and not with by")
    for text in asked:
        if text.partition("@")[0].partition(":")[0] not in ("mean", "proportion"):
            raise InvalidParameter.refusing(
                "statistics", "must be means and proportions with strata", repr(text)
            )
    found = {str(name): checks.real("stratum_shares", x, above=0) for name, x in shares.items()}
    if not found:
        raise InvalidParameter.refusing("stratum_shares", "must name some strata", "none")
    total = math.fsum(found.values())
    return {name: share / total for name, share in found.items()}


def combined(
    estimates: Sequence[ReleasedEstimate], shares: Mapping[str, float], level: float
) -> tuple[ReleasedEstimate, ...]:
    """One estimate for each statistic, from those of the strata."""
    families: dict[tuple[str, str | None], list[ReleasedEstimate]] = {}
    for one in estimates:
        if one.group != OTHER:
            families.setdefault((one.statistic, one.column), []).append(one)
    return tuple(_together(rows, shares, level) for rows in families.values())


def _together(
    rows: Sequence[ReleasedEstimate], shares: Mapping[str, float], level: float
) -> ReleasedEstimate:
    weighted = [(shares[str(one.group)], one) for one in rows]
    value = math.fsum(share * one.value for share, one in weighted)
    parts = [(share * one.standard_error) ** 2 for share, one in weighted]
    variance = math.fsum(parts)
    noise = math.fsum(x * one.noise_share for x, one in zip(parts, rows, strict=True))
    error = math.sqrt(variance)
    reach = float(ndtri(0.5 + 0.5 * level)) * error
    low, high = value - reach, value + reach
    if rows[0].statistic.startswith("proportion"):
        low, high = max(low, 0.0), min(high, 1.0)
    return replace(
        rows[0],
        group=None,
        value=value,
        standard_error=error,
        interval=(low, high),
        noise_share=noise / variance if variance > 0 else 0.0,
        description=f"{rows[0].description.partition(' where ')[0]}, over {len(rows)} strata",
        flags=tuple(dict.fromkeys(f"{one.group}: {flag}" for one in rows for flag in one.flags)),
    )
