"""What a release or a bootstrap gives: intervals, estimates, what they cost, tables of them."""

from __future__ import annotations

import importlib
import math
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, NamedTuple, TypeVar, get_args

from scipy.special import log_ndtr, stdtr, stdtrit

from mustdp.calibration.budget import PrivacySpent
from mustdp.estimation.designs import Design
from mustdp.estimation.tables import TOTAL
from mustdp.extras import required
from mustdp.numerics import checks
from mustdp.numerics.arrays import FloatArray
from mustdp.numerics.checks import immutable
from mustdp.numerics.formatting import (
    NOT_KNOWN,
    aligned,
    as_stated,
    csv_table,
    estimate_in_words,
    latex_text,
    noise_used,
    percent_stated,
    readable,
)
from mustdp.randomness.keys import SEEDED

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from mustdp.estimation.contrasts import Contrast, Group
    from mustdp.estimation.queries import NoisySums
    from mustdp.estimation.statistics.statistic import StatisticRequest


# From a value and its variances, of sampling and of noise, to a standard error and an interval.
#
# *The error* has two parts: what sampling (and resampling) causes, and what the noise causes. The
# second is known. The precision with which the first is known gives degrees of freedom
# (Satterthwaite 1946), and the interval takes the quantile of t. The known variance of the noise
# has no degrees of freedom to lose, so that much noise brings the quantile back to the normal.
#
# *Ratios.* Sums over noisy numbers of records are judged by Fieller's (1954) set: all r with (S -
# r N)^2 <= c^2 Var(S - r N). It stays honest where the noise of N is not small beside N: then it
# is the whole support. With a binomial variance inside, N r (1 - r), it is Wilson's (1927)
# interval, which respects 0 and 1.
#
# *Errors of errors.* A sampling variance that was itself released with noise has an error of
# known size. One below its own error is replaced by the mean of the normal law around it cut off
# at zero, or by a limit that it stays below with a chance of 95 %; both are larger, so that the
# standard error errs on the safe side.
#
# *Rare values.* A variance S^2 of influences that are at most d in size is known from k records
# with a variance of at most d^2 S^2 / k, as their fourth moment is at most d^2 S^2; yes and no
# attain it. Where few records differ this is far more than the 2 S^4 / k of normal influences. If
# S^2 itself is below that error, fewer than about one record in k differs as far as it may, and
# the limit is the largest S^2 that does not exceed what was found by more than 1.645 such errors,
# as Wilson's (1927).
#
# *Outside the support.* An estimate that the noise pushed out of what it can be is moved to the
# nearest end, and its interval is laid around that end: it holds all that it would hold around
# the estimate as it was, and does not shrink to a point. Where noise leaves nothing to be known
# there is no estimate: value and standard error are NaN, and the interval is the whole support.

#: A noisy variance or number of records is divided by if it is above this many standard errors.
CLEARLY = 3.0
#: One-sided normal quantile of the limit that takes the place of a hidden variance.
_UPPER = 1.645
#: The share of the population of which nothing may be known in an estimate over strata.
MOST_UNKNOWN = 0.1
#: What an estimate can be if nothing is known of it.
UNBOUNDED = (-math.inf, math.inf)

#: What an estimate says that rests on too few records for its noise.
FEW = "too few records for the noise: the interval is the whole possible range"
#: One whose standard error is mostly a guess.
ROUGH = "the noise hides the sampling variance: the standard error errs on the safe side"
#: One that divides by a variance which the noise hides.
UNCLEAR = (
    "the noise hides a variance that is divided by: the interval is the whole possible range; a "
    "larger epsilon or narrower bounds would help"
)
#: One whose variance rests on hardly any record.
RARE = (
    "so few of the records drawn differ that their variance is hardly known, and an upper limit of "
    "it is in the standard error; more or larger subsets, or one release on all records would help"
)
#: A quantile of which nothing but the range is known.
ANYWHERE = "what was released leaves open where it is: the interval is the whole possible range"
#: And one that the noise has driven out of what can be.
IMPOSSIBLE = "the noise made the value impossible: the interval is the whole possible range"

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


#: A chance that is smaller than any number is said to be at most this one.
LEAST_CHANCE = sys.float_info.min


def t_chance(freedom: float, statistic: float) -> float:
    """The chance of a t statistic as far out; never 0."""
    return max(2.0 * float(stdtr(min(freedom, 1e9), -abs(statistic))), LEAST_CHANCE)


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


#: Kinds of interval that are made.
Kind = Literal["normal"]
KINDS: tuple[Kind, ...] = get_args(Kind)


class InferenceNote(UserWarning):
    """Something about an estimate or its interval that its reader has to know.

    Examples
    --------
    >>> import mustdp as md
    >>> issubclass(md.types.InferenceNote, Warning)
    True
    """


@dataclass(frozen=True)
class Estimate:
    """One estimate, its standard error and its interval.

    Attributes
    ----------
    label : str
        Which estimate.
    value : float
        The estimate; NaN where noise leaves nothing to be known, which ``flags`` say.
    standard_error : float
        Of sampling and noise together; NaN or infinite where it is not known.
    interval : (float, float)
        The interval for sampling and noise together, at the result's level.
    noise_share : float
        Which share of the variance is that of the noise.
    description : str
        What was estimated, in words.
    flags : tuple of str
        What a reader has to know.
    degrees_of_freedom : float
        Those of the t quantile behind the interval.
    noise_dominated : bool
        Whether the noise hides the variation of the data, so that an upper limit stands for it.

    Examples
    --------
    >>> import mustdp as md
    >>> found = md.types.Estimate("mean", 4.2, 0.1, (4.0, 4.4), noise_share=0.2)
    >>> found.value
    4.2
    """

    label: str
    value: float
    standard_error: float
    interval: tuple[float, float]
    noise_share: float
    description: str = ""
    flags: tuple[str, ...] = ()
    degrees_of_freedom: float = math.inf
    noise_dominated: bool = False

    @property
    def known(self) -> bool:
        """Whether there is an estimate; else ``value`` is NaN and is written as NA."""
        return math.isfinite(self.value)

    @property
    def width(self) -> float:
        """Width of the interval."""
        return self.interval[1] - self.interval[0]

    def as_dict(self) -> dict[str, Any]:
        """Plain description, for JSON; what is not known is None.

        Returns
        -------
        dict
            Plain values, ready for JSON.
        """
        return {
            "label": self.label,
            "estimate": self.value if self.known else None,
            "standard_error": self.standard_error if math.isfinite(self.standard_error) else None,
            "interval": [end if math.isfinite(end) else None for end in self.interval],
            "noise_share": self.noise_share,
            "description": self.description,
        }


@dataclass(frozen=True)
class ReleasedEstimate(Estimate):
    """One number of a release on all records.

    ``column`` names the column or columns, ``group`` the group, ``cell`` the cell of a table or the
    term of a regression; each is None where there is none. Further attributes are those of
    :class:`Estimate`.

    Attributes
    ----------
    label : str
        Which estimate: statistic, columns, cell and group.
    statistic : str
        The statistic, such as "mean".
    column : str or None
        The column or columns; None where there is none.
    group : str or None
        The group; None where there are none.
    cell : str or None
        The cell of a table, or the term of a regression; None where there is none.
    where : str
        The end of the description that says which group or strata are meant; empty for none.
    groups : tuple of (str, str)
        The columns of groups with the group of each; empty for a total.
    test : Test or None
        That it is 0, for terms and R^2 of models; None for other statistics.
    candidates : tuple of str
        Of a mode, the categories that it may be at the level of the release.

    Examples
    --------
    >>> import mustdp as md
    >>> import numpy as np
    >>> ages = np.random.default_rng(0).uniform(20, 80, 1000)
    >>> result = md.private_release(ages, "mean", lower=0, upper=100, epsilon=1, delta=1e-6)
    >>> result.estimates[0].label, result.estimates[0].known
    ('mean 0', True)
    """

    statistic: str = ""
    column: str | None = None
    group: str | None = None
    cell: str | None = None
    where: str = ""
    groups: tuple[tuple[str, str], ...] = ()
    test: Test | None = None
    candidates: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """Plain description, for JSON; what is not known is None.

        Returns
        -------
        dict
            Plain values, ready for JSON.
        """
        found = super().as_dict()
        del found["label"]
        names = {name: getattr(self, name) for name in ("statistic", "column", "group", "cell")}
        if len(self.groups) > 1:
            found["groups"] = dict(self.groups)
        if self.test is not None:
            found["test"] = self.test.as_dict()
        if self.candidates:
            found["candidates"] = list(self.candidates)
        return {**names, **found, "flags": list(self.flags)}


def released_estimate(
    interval: Interval,
    *,
    statistic: str,
    column: str | None,
    group: str | None,
    cell: str | None = None,
    description: str,
    where: str = "",
    groups: tuple[tuple[str, str], ...] = (),
) -> ReleasedEstimate:
    """An interval with its names."""
    label = f"{statistic} {column}" if column else statistic
    label = f"{label}: {cell}" if cell else label
    return ReleasedEstimate(
        label=f"{label} ({group})" if group is not None else label,
        value=interval.value,
        standard_error=interval.standard_error,
        interval=interval.ends,
        noise_share=interval.noise_share,
        description=description,
        flags=interval.flags,
        degrees_of_freedom=interval.degrees_of_freedom,
        noise_dominated=interval.noise_dominated,
        statistic=statistic,
        column=column,
        group=group,
        cell=cell,
        where=where,
        groups=groups,
        test=interval.test,
        candidates=interval.candidates,
    )


E = TypeVar("E", bound=Estimate)


class EstimationResult(Generic[E]):
    """What the results of releases and bootstraps share: estimates by label, and tables of them."""

    estimates: tuple[E, ...]
    privacy: PrivacySpent
    level: float
    notes: tuple[str, ...]
    #: What tells an estimate in a table apart.
    _names: ClassVar[tuple[str, ...]] = ("label",)

    @property
    def estimate(self) -> float:
        """The first estimate."""
        return self.estimates[0].value

    @property
    def standard_error(self) -> float:
        """Standard error of the first estimate."""
        return self.estimates[0].standard_error

    @property
    def interval(self) -> tuple[float, float]:
        """Interval of the first estimate."""
        return self.estimates[0].interval

    @property
    def flags(self) -> tuple[str, ...]:
        """What readers of the first estimate have to know."""
        return self.estimates[0].flags

    def __getitem__(self, label: str) -> E:
        for estimate in self.estimates:
            if estimate.label == label:
                return estimate
        known = ", ".join(estimate.label for estimate in self.estimates)
        raise KeyError(f"no estimate {label!r}: there is {known}")

    def __str__(self) -> str:
        columns = (
            "estimate of",
            "value",
            "standard error",
            f"{as_stated(self.level)} interval",
            "noise",
        )
        rows = [
            (
                self._title(estimate),
                value,
                error,
                f"[{low}, {high}]",
                f"{100 * estimate.noise_share:.0f} %",
            )
            for estimate in self.estimates
            for value, error, low, high in [_numbers(estimate)]
        ]
        lines = aligned([columns, *rows])
        cost = cost_in_words(self.privacy)
        first = [cost, *lines] if self.privacy.seeded else [*lines, cost]
        return "\n".join([*first, *self.notes])

    def _title(self, estimate: E) -> str:
        """What the printed table calls an estimate."""
        return estimate.label

    def as_dict(self) -> dict[str, Any]:
        """Plain description, for JSON.

        Returns
        -------
        dict
            Plain values, ready for JSON.
        """
        return {
            "estimates": [estimate.as_dict() for estimate in self.estimates],
            "level": self.level,
            "privacy": self.privacy.as_dict(),
            "notes": list(self.notes),
        }

    def as_csv(self) -> str:
        """A table with one row for each estimate; numbers in full, NA for what is not known.

        A result made with a seed says so among its flags.

        Returns
        -------
        str
            CSV with a header row.
        """
        tests = self._p_values
        head = ["p_value"] if tests else []
        rows = [[*self._names, "estimate", "standard_error", "lower", "upper", *head, "flags"]]
        seeded = (SEEDED,) if self.privacy.seeded else ()
        for k, one in enumerate(self.estimates):
            names = [getattr(one, name) or "" for name in self._names]
            numbers = [one.value, one.standard_error, *one.interval, *tests[k : k + 1]]
            shown = [repr(float(x)) if math.isfinite(x) else NOT_KNOWN for x in numbers]
            rows.append([*names, *shown, "; ".join((*seeded, *one.flags))])
        return csv_table(rows)

    @property
    def _p_values(self) -> list[float]:
        """Those of all estimates, NaN for none; an empty list where no estimate has a test."""
        tests = [getattr(one, "test", None) for one in self.estimates]
        if not any(tests):
            return []
        return [math.nan if one is None else one.p_value for one in tests]

    def to_frame(self, library: str = "pandas") -> Any:
        """The estimates as a data frame, one row for each; NaN for what is not known.

        Parameters
        ----------
        library : {"pandas", "polars"}, default="pandas"
            Whose frame.

        Returns
        -------
        DataFrame
            With the columns of :meth:`as_csv`.
        """
        seeded = (SEEDED,) if self.privacy.seeded else ()
        columns: dict[str, list[Any]] = {
            name: [getattr(one, name) for one in self.estimates] for name in self._names
        }
        return as_frame(
            {
                **columns,
                "estimate": [one.value for one in self.estimates],
                "standard_error": [one.standard_error for one in self.estimates],
                "lower": [one.interval[0] for one in self.estimates],
                "upper": [one.interval[1] for one in self.estimates],
                **({"p_value": self._p_values} if self._p_values else {}),
                "flags": ["; ".join((*seeded, *one.flags)) for one in self.estimates],
            },
            library,
        )

    def as_latex(self) -> str:
        """A table for a paper, with the flags below it; needs no package.

        Returns
        -------
        str
            A ``tabular``.
        """
        level = percent_stated(self.level).removesuffix(" %")
        tests = self._p_values
        head, wide = " & $p$" if tests else "", 5 if tests else 4
        lines = [
            rf"\begin{{tabular}}{{lrrr{'r' if tests else ''}}}",
            rf"estimate of & value & standard error & {level}\,\% interval{head} \\",
            r"\hline",
        ]
        if self.privacy.seeded:
            lines.append(rf"\multicolumn{{{wide}}}{{l}}{{{latex_text(SEEDED)}}} \\")
        for k, one in enumerate(self.estimates):
            value, error, low, high = _numbers(one, unknown="--")
            value += "*" if one.flags else ""
            p = "".join(
                f" & {readable(p, 'up', 2) if math.isfinite(p) else '--'}" for p in tests[k : k + 1]
            )
            lines.append(rf"{latex_text(one.label)} & {value} & {error} & [{low}, {high}]{p} \\")
        lines += _flags_in_latex(self.estimates, wide)
        return "\n".join([*lines, r"\end{tabular}", ""])


def _flags_in_latex(estimates: Iterable[Estimate | None], wide: int) -> list[str]:
    """What flags say, below a table with so many columns."""
    flags = dict.fromkeys(flag for one in estimates if one is not None for flag in one.flags)
    rows = [rf"\multicolumn{{{wide}}}{{l}}{{* {latex_text(one)}}} \\" for one in flags]
    return [r"\hline", *rows] if rows else []


def as_frame(columns: Mapping[str, Sequence[Any]], library: str) -> Any:
    """Columns as a frame of a library that is installed."""
    checks.choice("library", library, ("pandas", "polars"))
    return required(library, "a data frame").DataFrame(dict(columns))


@dataclass(frozen=True)
class WideTable:
    """Estimates as publications show them: a row for each group, a column for each statistic.

    Attributes
    ----------
    columns : tuple of str
        The columns of groups.
    titles : tuple of str
        The statistics.
    groups : tuple of tuple
        The groups of every row; "total" for all of them.
    cells : tuple of tuple
        The estimates of every row; None where there is none.
    level : float
        Confidence of the intervals.
    seeded : bool
        Whether it was made with a seed: an experiment, no release.

    Examples
    --------
    >>> import mustdp as md
    >>> import numpy as np
    >>> ages = np.random.default_rng(0).uniform(20, 80, 1000)
    >>> result = md.private_release(ages, "mean", lower=0, upper=100, epsilon=1, delta=1e-6)
    >>> result.table().titles
    ('mean 0',)
    """

    columns: tuple[str, ...]
    titles: tuple[str, ...]
    groups: tuple[tuple[str, ...], ...]
    cells: tuple[tuple[ReleasedEstimate | None, ...], ...]
    level: float
    seeded: bool = False

    def __str__(self) -> str:
        rows = [(*self.columns, *self.titles)]
        for own, cells in zip(self.groups, self.cells, strict=True):
            rows.append((*own, *(_with_error(one, NOT_KNOWN, " ± ") for one in cells)))
        said = f"estimate ± standard error; * see flags{'; ' + SEEDED if self.seeded else ''}"
        return "\n".join([*aligned(rows), said])

    def as_csv(self) -> str:
        """A row for each group; of every statistic estimate, standard error, interval and flags.

        Returns
        -------
        str
            CSV with a header row.
        """
        frame = self._frame()
        rows = [list(frame)]
        values = zip(*frame.values(), strict=True)
        return csv_table([*rows, *([_written(value) for value in row] for row in values)])

    def as_latex(self) -> str:
        """A table for a paper; needs no package.

        Returns
        -------
        str
            A ``tabular``.
        """
        head = " & ".join(map(latex_text, (*self.columns, *self.titles)))
        align = "l" * len(self.columns) + "r" * len(self.titles)
        lines = [rf"\begin{{tabular}}{{{align}}}", rf"{head} \\", r"\hline"]
        wide = len(self.columns) + len(self.titles)
        if self.seeded:
            lines.append(rf"\multicolumn{{{wide}}}{{l}}{{{latex_text(SEEDED)}}} \\")
        for own, cells in zip(self.groups, self.cells, strict=True):
            shown = (_with_error(one, "--", r" $\pm$ ") for one in cells)
            lines.append(" & ".join([*map(latex_text, own), *shown]) + r" \\")
        lines += _flags_in_latex((one for row in self.cells for one in row), wide)
        return "\n".join([*lines, r"\end{tabular}", ""])

    def to_frame(self, library: str = "pandas") -> Any:
        """The table as a data frame.

        Parameters
        ----------
        library : {"pandas", "polars"}, default="pandas"
            Whose frame.

        Returns
        -------
        DataFrame
            With the columns of :meth:`as_csv`.
        """
        return as_frame(self._frame(), library)

    def _frame(self) -> dict[str, list[Any]]:
        found: dict[str, list[Any]] = {
            column: [own[k] for own in self.groups] for k, column in enumerate(self.columns)
        }
        for k, title in enumerate(self.titles):
            column = [row[k] for row in self.cells]
            numbers = [
                (math.nan,) * 4 if one is None else (one.value, one.standard_error, *one.interval)
                for one in column
            ]
            names = (title, *(f"{title} {end}" for end in ("standard error", "lower", "upper")))
            found |= {name: [row[i] for row in numbers] for i, name in enumerate(names)}
            found[f"{title} flags"] = ["; ".join(one.flags) if one else "" for one in column]
        if self.seeded:
            found["seeded"] = [SEEDED] * len(self.groups)
        return found


def _written(value: Any) -> str:
    if isinstance(value, str):
        return value
    return repr(float(value)) if math.isfinite(value) else NOT_KNOWN


def _with_error(one: ReleasedEstimate | None, unknown: str, sign: str) -> str:
    """A value with its standard error; a star where flags say something about it."""
    if one is None:
        return ""
    value, error, _, _ = _numbers(one, unknown=unknown)
    mark = "*" if one.flags else ""
    return f"{value}{sign}{error}{mark}" if one.known else f"{value}{mark}"


def _numbers(one: Estimate, **options: str) -> tuple[str, str, str, str]:
    return estimate_in_words(one.value, one.standard_error, one.interval, **options)


class ReleasedFamily(NamedTuple):
    """What was released about one statistic of some columns, in one or two rounds."""

    request: StatisticRequest
    first: NoisySums | None
    second: NoisySums | None

    @property
    def column(self) -> str | None:
        """The column or columns, as estimates name them."""
        return self.request.column or None


@dataclass(frozen=True, eq=False)
class ReleaseResult(EstimationResult[ReleasedEstimate]):
    """Estimates of one release on all records; all of it may be published.

    ``estimate``, ``standard_error`` and ``interval`` are those of the first; ``result[label]`` is
    the estimate of that label.

    Attributes
    ----------
    estimates : tuple of ReleasedEstimate
        All estimates, in the order of the statistics.
    privacy : PrivacySpent
        What the release cost.
    level : float
        Confidence of the intervals.
    notes : tuple of str
        What a reader has to know about all of them.
    families : tuple
        What was released, and how estimates were read off it; contrasts are made from it.
    ranges : mapping of str to (float, float)
        The ranges that were found privately, by column; empty where none was asked for.

    Examples
    --------
    >>> import mustdp as md
    >>> import numpy as np
    >>> ages = np.random.default_rng(0).uniform(20, 80, 1000)
    >>> result = md.private_release(ages, "mean", lower=0, upper=100, epsilon=1, delta=1e-6)
    >>> len(result.estimates), result.level, result.privacy.epsilon.upper <= 1.0
    (1, 0.95, True)
    """

    estimates: tuple[ReleasedEstimate, ...]
    privacy: PrivacySpent
    level: float
    notes: tuple[str, ...] = ()
    families: tuple[ReleasedFamily, ...] = field(default=(), repr=False)
    ranges: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    _names: ClassVar[tuple[str, ...]] = ("statistic", "column", "group", "cell")

    def as_dict(self) -> dict[str, Any]:
        """Plain description, for JSON.

        Returns
        -------
        dict
            Plain values, ready for JSON.
        """
        found = super().as_dict()
        if self.ranges:
            found["ranges"] = {name: list(ends) for name, ends in self.ranges.items()}
        return found

    def by_statistic(self) -> dict[str, tuple[ReleasedEstimate, ...]]:
        """Estimates that belong together: of one statistic of the same columns, in their order.

        Returns
        -------
        dict of str to tuple of ReleasedEstimate
            By statistic and columns.
        """
        found: dict[str, list[ReleasedEstimate]] = {}
        for one in self.estimates:
            name = f"{one.statistic} {one.column}" if one.column else one.statistic
            found.setdefault(name, []).append(one)
        return {name: tuple(rows) for name, rows in found.items()}

    def contrast(
        self, first: Group, second: Group, *, statistic: str | None = None,
        column: str | None = None, kind: str = "difference",
    ) -> Contrast:  # fmt: skip
        """Compare two groups: a difference or a ratio, with an interval and a test.

        Parameters
        ----------
        first : str, sequence or mapping
            A group, as estimates call it, or the groups of all columns.
        second : str, sequence or mapping
            The group that it is compared with.
        statistic : str, default=None
            Which statistic; None where there is but one.
        column : str, default=None
            Of which column; None where there is but one.
        kind : {"difference", "ratio"}, default="difference"
            The first minus the second, or the first over the second.

        Returns
        -------
        Contrast
            With its standard error, interval and p-value.
        """
        making: Any = importlib.import_module("mustdp.estimation.contrasts")
        found: Contrast = making.contrast(self, first, second, statistic, column, kind)
        return found

    def contrasts(
        self, pairs: Sequence[tuple[Group, Group]], *, statistic: str | None = None,
        column: str | None = None, kind: str = "difference", adjust: str = "holm",
    ) -> tuple[Contrast, ...]:  # fmt: skip
        """Compare several pairs of groups, with p-values and intervals that hold together.

        Parameters
        ----------
        pairs : sequence of (group, group)
            What :meth:`contrast` takes, each.
        statistic : str, default=None
            Which statistic; None where there is but one.
        column : str, default=None
            Of which column; None where there is but one.
        kind : {"difference", "ratio"}, default="difference"
            The first minus the second, or the first over the second.
        adjust : {"holm", "bonferroni", "none"}, default="holm"
            How p-values are adjusted. Intervals are Bonferroni's, unless it is "none".

        Returns
        -------
        tuple of Contrast
            In the order of the pairs.
        """
        making: Any = importlib.import_module("mustdp.estimation.contrasts")
        found: tuple[Contrast, ...] = making.contrasts(self, pairs, statistic, column, kind, adjust)
        return found

    def all_contrasts(
        self, pairs: Sequence[tuple[Group, Group]], *, kind: str = "difference",
        adjust: str = "holm",
    ) -> tuple[Contrast, ...]:  # fmt: skip
        """Compare pairs of groups by every statistic; p-values hold together over all of them.

        Parameters
        ----------
        pairs : sequence of (group, group)
            What :meth:`contrast` takes, each.
        kind : {"difference", "ratio"}, default="difference"
            The first minus the second, or the first over the second.
        adjust : {"holm", "bonferroni", "none"}, default="holm"
            How p-values are adjusted. Intervals are Bonferroni's, unless it is "none".

        Returns
        -------
        tuple of Contrast
            Statistic by statistic.
        """
        making: Any = importlib.import_module("mustdp.estimation.contrasts")
        found: tuple[Contrast, ...] = making.all_contrasts(self, pairs, kind, adjust)
        return found

    def change(
        self, earlier: ReleaseResult, group: Group | None = None, *, statistic: str | None = None,
        column: str | None = None, kind: str = "difference", same_people: bool = False,
    ) -> Contrast:  # fmt: skip
        """Compare an estimate with the same one of an earlier release.

        Parameters
        ----------
        earlier : ReleaseResult
            The release it is compared with; its noise is independent.
        group : str, sequence or mapping, default=None
            Which group, in both; None where there are none.
        statistic : str, default=None
            Which statistic; None where there is but one.
        column : str, default=None
            Of which column; None where there is but one.
        kind : {"difference", "ratio"}, default="difference"
            This minus the earlier one, or this over the earlier one.
        same_people : bool, default=False
            Whether some people may be in both samples. How their values go together is not known;
            the standard error is then the largest that is possible.

        Returns
        -------
        Contrast
            With its standard error, interval and p-value.
        """
        making: Any = importlib.import_module("mustdp.estimation.contrasts")
        found: Contrast = making.change(self, earlier, group, statistic, column, kind, same_people)
        return found

    def covariance(self, statistic: str | None = None, column: str | None = None) -> FloatArray:
        """Covariances of the estimates of one statistic, group by group, sampling and noise.

        Parameters
        ----------
        statistic : str, default=None
            Which statistic; None where there is but one.
        column : str, default=None
            Of which column; None where there is but one.

        Returns
        -------
        ndarray
            In the order of the estimates; NaN where nothing is known.
        """
        making: Any = importlib.import_module("mustdp.estimation.contrasts")
        found: FloatArray = making.covariance(self, statistic, column)
        return found

    def table(self) -> WideTable:
        """A table with a row for each group and a column for each statistic.

        Returns
        -------
        WideTable
            To be printed, or written as CSV, as LaTeX or as a frame.
        """
        rows: dict[tuple[tuple[str, str], ...], dict[str, ReleasedEstimate]] = {}
        for one in self.estimates:
            key = one.groups
            title = one.label if one.group is None else one.label.removesuffix(f" ({one.group})")
            rows.setdefault(key, {})[title] = one
        columns = tuple(dict.fromkeys(column for key in rows for column, _ in key))
        titles = tuple(dict.fromkeys(title for row in rows.values() for title in row))
        return WideTable(
            columns,
            titles,
            tuple(tuple(dict(key).get(column, TOTAL) for column in columns) for key in rows),
            tuple(tuple(row.get(title) for title in titles) for row in rows.values()),
            self.level,
            self.privacy.seeded,
        )

    def plot(self, family: str | None = None, ax: Axes | None = None) -> Axes:
        """Draw the estimates of one of :meth:`by_statistic`, groups side by side.

        Parameters
        ----------
        family : str, default=None
            Which one; None means the first.
        ax : matplotlib.axes.Axes, default=None
            Where to draw; None makes a new figure.

        Returns
        -------
        matplotlib.axes.Axes
            The axes that were drawn on; nothing is shown or saved.
        """
        drawing: Any = importlib.import_module("mustdp.reporting.plots.results")
        axes: Axes = drawing.released_estimates(self, family, ax=ax)
        return axes


@dataclass(frozen=True, eq=False)
class BootstrapResult(EstimationResult[Estimate]):
    """Estimates with intervals from noisy replicates, and the certified cost of releasing them.

    ``estimate``, ``standard_error`` and ``interval`` are those of the first; ``result[label]`` is
    the estimate of that label. All of it may be published: it was made from what was released with
    noise.

    Attributes
    ----------
    estimates : tuple of Estimate
        All estimates, each with label, value, standard_error, interval and noise_share.
    privacy : PrivacySpent
        What the release cost.
    design : Design
        What was drawn.
    level : float
        Confidence of the intervals.
    kind : str
        Kind of the intervals.
    replicates : ndarray
        The noisy replicates, one row for each release and one column for each estimate.
    notes : tuple of str
        What a reader has to know.
    simultaneous : bool
        Whether the intervals hold together.

    Examples
    --------
    >>> import mustdp as md
    >>> import numpy as np
    >>> ages = np.random.default_rng(0).uniform(20, 80, 1000)
    >>> design = md.wor(1000, 100)
    >>> result = md.private_bootstrap(
    ...     ages, "mean", lower=0, upper=100, design=design, replicates=20, noise_multiplier=9.0,
    ...     delta=1e-6,
    ... )
    >>> result.replicates.shape, result.level
    ((20, 1), 0.95)
    """

    estimates: tuple[Estimate, ...]
    privacy: PrivacySpent
    design: Design
    level: float
    kind: Kind
    replicates: FloatArray
    notes: tuple[str, ...] = ()
    simultaneous: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "replicates", immutable(self.replicates))

    def __setstate__(self, state: dict[str, Any]) -> None:
        # Arrays come out of a pickle writeable, depending on its protocol.
        self.__dict__.update(state, replicates=immutable(state["replicates"]))

    def as_dict(self) -> dict[str, Any]:
        """Plain description, for JSON: the first estimate on top, all of them in ``estimates``.

        Returns
        -------
        dict
            Plain values, ready for JSON.
        """
        shared = super().as_dict()
        first = shared["estimates"][0]
        return {
            **{key: first[key] for key in ("estimate", "standard_error", "interval")},
            "level": self.level,
            "kind": self.kind,
            "simultaneous": self.simultaneous,
            "estimates": shared["estimates"],
            "privacy": shared["privacy"],
            "design": self.design.describe(),
            "notes": shared["notes"],
        }

    def _title(self, estimate: Estimate) -> str:
        return estimate.description or estimate.label

    def plot(self, label: str | None = None, ax: Axes | None = None) -> Axes:
        """Draw the replicates of one estimate, its interval and the noise's share.

        The axes, and what is returned, are those of :meth:`ReleaseResult.plot`.

        Parameters
        ----------
        label : str, default=None
            Which estimate; None means the first.
        """
        drawing: Any = importlib.import_module("mustdp.reporting.plots.results")
        axes: Axes = drawing.bootstrap_replicates(self, label, ax=ax)
        return axes


def cost_in_words(privacy: PrivacySpent) -> str:
    """What the release costs, in one sentence."""
    bounds, neighbours = privacy.epsilon, privacy.relation.option
    if privacy.seeded:
        return f"no privacy: made with a seed, an experiment and no release ({privacy.source})"
    if privacy.plan is None:
        return f"no guarantee: {privacy.source}"
    if not privacy.certified:
        return f"no finite epsilon could be certified ({privacy.source})"
    return (
        f"({readable(bounds.upper, 'up', 5)}, {as_stated(privacy.delta)})-differentially private "
        f"under {neighbours}, certified; noise multiplier {noise_used(privacy.noise_multiplier)} "
        f"({privacy.source}{', one number a subset' if privacy.dimension == 1 else ''})"
    )
