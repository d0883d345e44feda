"""From a value and its variances, of sampling and of noise, to a standard error and an interval.

*The error* has two parts: what sampling (and resampling) causes, and what the noise causes. The
second is known. The precision with which the first is known gives degrees of freedom (Satterthwaite
1946), and the interval takes the quantile of t. The known variance of the noise has no degrees of
freedom to lose, so that much noise brings the quantile back to the normal.

*Ratios.* Sums over noisy numbers of records are judged by Fieller's (1954) set: all r with (S - r
N)^2 <= c^2 Var(S - r N). It stays honest where the noise of N is not small beside N: then it is
the whole support. With a binomial variance inside, N r (1 - r), it is Wilson's (1927) interval,
which respects 0 and 1.

*Errors of errors.* A sampling variance that was itself released with noise has an error of known
size. One below its own error is replaced by the mean of the normal law around it cut off at zero,
or by a limit that it stays below with a chance of 95 %; both are larger, so that the standard error
errs on the safe side.

*Rare values.* A variance S^2 of influences that are at most d in size is known from k records
with a variance of at most d^2 S^2 / k, as their fourth moment is at most d^2 S^2; yes and no
attain it. Where few records differ this is far more than the 2 S^4 / k of normal influences. If
S^2 itself is below that error, fewer than about one record in k differs as far as it may, and
the limit is the largest S^2 that does not exceed what was found by more than 1.645 such errors,
as Wilson's (1927).

*Outside the support.* An estimate that the noise pushed out of what it can be is moved to the
nearest end, and its interval is laid around that end: it holds all that it would hold around the
estimate as it was, and does not shrink to a point. Where noise leaves nothing to be known there is
no estimate: value and standard error are NaN, and the interval is the whole support.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from scipy.special import log_ndtr, stdtrit

from mustdp.numerics.arrays import FloatArray
from mustdp.numerics.formatting import readable

#: A noisy variance or number of records is divided by if it is above so many standard errors.
CLEARLY = 3.0
#: One-sided normal quantile of the limit that takes the place of a hidden variance.
_UPPER = 1.645
#: The share of the population of which nothing may be known in an estimate over strata.
MOST_UNKNOWN = 0.1
#: What an estimate can be if nothing is known of it.
UNBOUNDED = (-math.inf, math.inf)

#: What an estimate says that rests on too few records for its noise.
FEW = "too few records for the noise: the interval is all that is possible"
#: One whose standard error is mostly a guess.
ROUGH = "the noise hides the sampling variance: the standard error errs on the safe side"
#: One that divides by a variance which the noise hides.
UNCLEAR = (
    "the noise hides a variance that is divided by: the interval is all that is possible; a "
    "larger epsilon or narrower bounds would help"
)
#: One whose variance rests on hardly any record.
RARE = (
    "so few of the records drawn differ that their variance is hardly known, and an upper limit of "
    "it is in the standard error; more or larger subsets, or one release on all records would help"
)
#: A quantile of which nothing but the range is known.
ANYWHERE = "what was released leaves open where it is: the interval is all that is possible"
#: And one that the noise has driven out of what can be.
IMPOSSIBLE = "the noise made the value impossible: the interval is all that is possible"

Support = tuple[float, float]


@dataclass(frozen=True)
class Spread:
    """The variance of an estimate around the truth, and what it consists of."""

    sampling: float  # of the data and of the subsets
    noise: float
    degrees_of_freedom: float = math.inf
    noise_dominated: bool = False

    @property
    def variance(self) -> float:
        """The whole variance."""
        return self.sampling + self.noise

    @property
    def noise_share(self) -> float:
        """The part of the variance that the added noise causes."""
        return self.noise / self.variance if self.variance > 0 else 0.0

    def quantile(self, level: float) -> float:
        """The two-sided t quantile for the precision of the standard error."""
        freedom = min(max(self.degrees_of_freedom, 1.0), 1e9)
        return float(stdtrit(freedom, 0.5 + 0.5 * level))


@dataclass(frozen=True)
class Test:
    """A test that an estimate, or all that it stands for, is 0.

    Attributes
    ----------
    kind : str
        The law of the statistic under the hypothesis, "t" or "F".
    statistic : float
        Its value.
    degrees_of_freedom : tuple of float
        Those of the law.
    p_value : float
        The chance of a statistic as far out, under the hypothesis.

    Examples
    --------
    >>> import mustdp as md
    >>> md.types.Test("F", 3.2, (2, 97.0), 0.045).p_value
    0.045
    """

    #: Not a test of this project, for collectors of them.
    __test__ = False

    kind: str
    statistic: float
    degrees_of_freedom: tuple[float, ...]
    p_value: float

    def __str__(self) -> str:
        freedom = ", ".join(readable(one, "down", 4) for one in self.degrees_of_freedom)
        p = readable(self.p_value, "up", 2)
        return f"{self.kind}({freedom}) = {self.statistic:.3g}, p = {p}"

    def as_dict(self) -> dict[str, Any]:
        """Plain description, for JSON; endless degrees of freedom are None.

        Returns
        -------
        dict
            Plain values, ready for JSON.
        """
        freedom = [one if math.isfinite(one) else None for one in self.degrees_of_freedom]
        return {
            "kind": self.kind,
            "statistic": self.statistic,
            "degrees_of_freedom": freedom,
            "p_value": self.p_value,
        }


@dataclass(frozen=True)
class Interval:
    """A value with its standard error and its interval."""

    value: float
    standard_error: float
    ends: tuple[float, float]
    noise_share: float = 0.0
    flags: tuple[str, ...] = ()
    #: Those of the t quantile behind the interval.
    degrees_of_freedom: float = math.inf
    noise_dominated: bool = False
    #: That the estimate is 0, for statistics that come with one.
    test: Test | None = None
    #: The categories that a mode may be.
    candidates: tuple[str, ...] = ()

    @property
    def known(self) -> bool:
        """Whether there is an estimate."""
        return math.isfinite(self.value)

    def scaled(self, scale: float, shift: float = 0.0) -> Interval:
        """The same in other units: shift + scale * value, for a positive scale."""
        low, high = (shift + scale * end for end in self.ends)
        return replace(
            self,
            value=shift + scale * self.value,
            standard_error=scale * self.standard_error,
            ends=(low, high),
        )


def into(value: float, support: Support) -> float:
    """The nearest number in the support."""
    return min(max(value, support[0]), support[1])


def t_interval(
    value: float,
    spread: Spread,
    level: float,
    support: Support = UNBOUNDED,
    *,
    curved: bool = False,
) -> Interval:
    """value +- quantile * error, cut to the support.

    ``curved``: the estimate is not linear in the noise, so that far outside of its support its
    error cannot be trusted either, and nothing is known.
    """
    error = math.sqrt(spread.variance)
    reach = spread.quantile(level) * error
    if curved:
        # A few rounding errors are no impossibility.
        slack = 1e-9 * max(abs(value), error, 1e-300)
        if not (support[0] <= value + reach + slack and value - reach - slack <= support[1]):
            return vacuous_interval(support, IMPOSSIBLE, spread)
    # Around the nearest end where the value is outside: no interval shrinks to a point.
    inside = into(value, support)
    return Interval(
        inside,
        error,
        (into(inside - reach, support), into(inside + reach, support)),
        spread.noise_share,
        (ROUGH,) if spread.noise_dominated else (),
        spread.degrees_of_freedom,
        spread.noise_dominated,
    )


def vacuous_interval(support: Support, flag: str = FEW, spread: Spread | None = None) -> Interval:
    """What is left where noise says nothing: the whole support, and no estimate."""
    if spread is None:
        return Interval(math.nan, math.nan, support, 1.0, (flag,))
    return Interval(
        math.nan,
        math.nan,
        support,
        spread.noise_share,
        (flag,),
        spread.degrees_of_freedom,
        spread.noise_dominated,
    )


def root_interval(squared: Interval) -> Interval:
    """The interval of a square root, from that of what it is the root of.

    Both ends stay apart where the value is 0. The error is that of a root where the variance is
    clear, else half of the interval.
    """
    low, high = (math.sqrt(end) for end in squared.ends)
    if not squared.known:
        return replace(squared, ends=(low, high))
    root = math.sqrt(squared.value)
    if squared.value > CLEARLY * squared.standard_error:
        error = squared.standard_error / (2.0 * root)
    else:
        error = 0.5 * (high - low)
    return replace(squared, value=root, standard_error=error, ends=(low, high))


def fisher_interval(value: float, spread: Spread, level: float) -> Interval:
    """That of a correlation, made on Fisher's (1915) scale, where 1 is far away."""
    plain = t_interval(value, spread, level, (-1.0, 1.0), curved=True)
    if not (plain.known and abs(value) < 1.0):
        return plain
    reach = spread.quantile(level) * plain.standard_error / (1.0 - value**2)
    low, high = (math.tanh(math.atanh(value) + sign * reach) for sign in (-1.0, 1.0))
    return replace(plain, ends=(low, high))


def fieller_interval(
    top: float,
    bottom: float,
    *,
    variance: tuple[float, float, float],
    noise: FloatArray,
    precision: Spread | None = None,
    level: float,
    support: Support,
) -> Interval:
    """Fieller's interval of top / bottom, or of the nearest ratio in the support.

    ``noise`` is the covariance of (bottom, top). ``variance`` are the coefficients of 1, r and r^2
    in what sampling adds to Var(top - r bottom); ``precision`` says how well that is known.
    """
    precise = precision or Spread(0.0, 0.0)
    c2 = precise.quantile(level) ** 2
    ours = (float(noise[1, 1]), -2.0 * float(noise[0, 1]), float(noise[0, 0]))
    zero, one, two = (own + added for own, added in zip(ours, variance, strict=True))
    lead = bottom**2 - c2 * two
    clear = bottom > CLEARLY * math.sqrt(ours[2])
    if not (bottom > 0 and lead > 0 and clear):
        return vacuous_interval(support)
    value = into(top / bottom, support)
    top = value * bottom
    middle, last = top * bottom + 0.5 * c2 * one, top**2 - c2 * zero
    spread = math.sqrt(max(middle**2 - lead * last, 0.0))
    ends = (into((middle - spread) / lead, support), into((middle + spread) / lead, support))
    whole = max(zero + one * value + two * value**2, 0.0)
    mine = max(ours[0] + ours[1] * value + ours[2] * value**2, 0.0)
    return Interval(
        value,
        math.sqrt(whole) / bottom,
        (min(ends[0], value), max(ends[1], value)),
        min(mine / whole, 1.0) if whole > 0 else 0.0,
        (ROUGH,) if precise.noise_dominated else (),
        precise.degrees_of_freedom,
        precise.noise_dominated,
    )


def wilson_interval(found: float, factor: float, noise: float, level: float) -> Interval:
    """Wilson's (1927) interval with noise: all p with (found - p)^2 <= c^2 (F p (1-p) + N).

    It respects 0 and 1, and does not shrink to a point at either of them. ``factor`` is F, what
    p (1 - p) is multiplied by in the variance of the share that was found.
    """
    inside = into(found, (0.0, 1.0))
    spread = Spread(inside * (1.0 - inside) * factor, noise)
    low, high = _wilson_ends(found, spread.quantile(level), factor, noise)
    if not (low <= 1.0 and high >= 0.0):
        return vacuous_interval((0.0, 1.0), IMPOSSIBLE, spread)
    low, high = _wilson_ends(inside, spread.quantile(level), factor, noise)
    ends = (min(into(low, (0.0, 1.0)), inside), max(into(high, (0.0, 1.0)), inside))
    return Interval(inside, math.sqrt(spread.variance), ends, spread.noise_share)


def _wilson_ends(found: float, quantile: float, factor: float, noise: float) -> tuple[float, float]:
    """The ends of Wilson's interval with noise; NaN where no share is possible."""
    wide = quantile**2
    lead, middle = 1.0 + wide * factor, found + 0.5 * wide * factor
    square = middle**2 - lead * (found**2 - wide * noise)
    root = math.sqrt(square) if square >= 0.0 else math.nan
    return (middle - root) / lead, (middle + root) / lead


# Sampling variances that were themselves released, with an error of known size.


def released_spread(sampling: float, error: float, noise: float, doubt: float = 0.0) -> Spread:
    """A sampling variance released with an error, beside a known variance of noise.

    ``doubt`` is the variance that the sampling variance has by itself, as it comes from few units:
    2 V^2 / f with f degrees of freedom, added up over strata.
    """
    noise_dominated = error > 0 and sampling < error
    used = positive_mean(sampling, error) if noise_dominated else max(sampling, 0.0)
    # A hidden variance is replaced by a larger one: its error by the noise is no longer counted.
    unsure = math.sqrt(doubt) if noise_dominated else math.hypot(math.sqrt(doubt), error)
    freedom = 2.0 * ((used + noise) / unsure) ** 2 if unsure > 0 else math.inf
    return Spread(used, noise, freedom, noise_dominated)


def spread_of_bounded(
    influence: float, error: float, most: float, factor: float, noise: float, largest: float
) -> Spread:
    """The spread where the variance S^2 of bounded influences was released, with a known error.

    S^2 is at most ``most``; ``factor`` is what it is multiplied by in the variance of the average,
    ``largest`` the largest influence that is possible.
    """
    rare = rare_error(influence, largest, factor)
    if influence < math.hypot(error, rare):
        upper = max(influence, 0.0) + _UPPER * error
        upper = min(max(upper, rare_limit(influence, largest, factor)), max(most, 0.0))
        return Spread(upper * factor, noise, noise_dominated=True)
    total, doubt = influence * factor + noise, math.hypot(error, rare) * factor
    freedom = 2.0 * (total / doubt) ** 2 if doubt > 0 else math.inf
    return Spread(max(influence, 0.0) * factor, noise, freedom)


def rare_error(influence: float, largest: float, factor: float) -> float:
    """The error of S^2 that influences up to ``largest`` can cause, over ``1 / factor`` records."""
    return largest * math.sqrt(max(influence, 0.0) * factor)


def rare_limit(influence: float, largest: float, factor: float) -> float:
    """The largest S^2 that is not above ``influence`` by more than 1.645 of its errors."""
    step = _UPPER * largest * math.sqrt(factor)
    return (0.5 * (step + math.sqrt(step**2 + 4.0 * max(influence, 0.0)))) ** 2


def positive_mean(mean: float, error: float) -> float:
    """Mean of the normal law with this mean and standard deviation, given that it is positive."""
    at = max(mean / error, -30.0)
    density = math.exp(-0.5 * at * at - float(log_ndtr(at))) / math.sqrt(2.0 * math.pi)
    return error * (at + density)


def satterthwaite(variances: Iterable[tuple[float, float]]) -> float:
    """Degrees of freedom of a sum of independent (variance, degrees of freedom); none: endless."""
    pairs = list(variances)
    unsure = math.fsum(variance**2 / freedom for variance, freedom in pairs)
    total = math.fsum(variance for variance, _ in pairs)
    return total**2 / unsure if unsure > 0 else math.inf


# Strata: estimates of each, put together with their public shares of the population.
#
# The strata are the groups of one release, so one record that changes its stratum is counted. With
# shares W_h that add up to one, a mean is sum W_h mean_h and its variance sum W_h^2 SE_h^2 (Cochran
# 1977, section 5.3): the errors of strata, sampling and noise alike, are independent; a cluster is
# taken to lie in one stratum. The finite-population correction is that of every stratum, 1 - n_h /
# N_h. What is curved in averages is so in those of the population, sum W_h mu_h, and a distribution
# function is sum W_h F_h. Records in no listed stratum are the stratum "other" if that has a share;
# else they count for nothing, and where the release shows that there are some, the estimates say
# so. A small stratum of which noise leaves nothing to be known may be anywhere in its support: that
# widens the interval by its share of it, from end to end; if such strata are more than a tenth of
# the population, there is no estimate. Errors of strata from few clusters have few degrees of
# freedom each; those of the whole are Satterthwaite's (1946).


def over_strata(
    intervals: Sequence[Interval],
    shares: Sequence[float],
    names: Sequence[str],
    level: float,
    support: Support,
) -> Interval:
    """One interval for what is an average over strata, from those of each; ``names`` are theirs."""
    named = zip(names, intervals, strict=False)
    flags = tuple(dict.fromkeys(f"{name}: {flag}" for name, one in named for flag in one.flags))
    pairs = list(zip(shares, intervals, strict=True))
    known = [(share, one) for share, one in pairs if one.known]
    if math.fsum(share for share, one in pairs if not one.known) > MOST_UNKNOWN:
        return replace(vacuous_interval(support), flags=(FEW, *flags))
    value, open_ends = 0.0, 0.0  # what is not known: the middle, and half of the support
    for share, one in pairs:
        low, high = one.ends
        value += share * (one.value if one.known else 0.5 * (low + high))
        open_ends += 0.0 if one.known else share * 0.5 * (high - low)
    variances = [((share * one.standard_error) ** 2, one) for share, one in known]
    noise = math.fsum(variance * one.noise_share for variance, one in variances)
    sampling = math.fsum(variance * (1.0 - one.noise_share) for variance, one in variances)
    freedom = satterthwaite((variance, one.degrees_of_freedom) for variance, one in variances)
    found = t_interval(value, Spread(sampling, noise, freedom), level, support)
    if not open_ends:
        return replace(found, flags=(*found.flags, *flags))
    error = math.hypot(found.standard_error, open_ends)
    low, high = found.ends
    return replace(
        found,
        standard_error=error,
        ends=(into(low - open_ends, support), into(high + open_ends, support)),
        noise_share=(noise + open_ends**2) / error**2,
        flags=(*found.flags, *flags),
    )
