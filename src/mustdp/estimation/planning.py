"""How wide intervals will be, before any data are read; and the smallest epsilon for a width.

What is not known before is the data, so some are assumed: numbers spread over their ranges evenly
(``like="uniform"``) or normally around the middle, with a sixth of the range as their standard
deviation (``"normal"``), columns independent, categories and groups equally large. A release on
such records is computed with the variances of its noise but without noise itself; its intervals
have the expected widths. Of a survey design is assumed what :class:`PlannedSurvey` says: strata of
stated sizes, weights spread evenly, clusters of equal size in which two records have the same
values with a chance of the stated correlation, and values that are missing at random. No record of
anybody is looked at, and nothing is charged. The noise is that of the analytic formula; a release
is calibrated anew, and certified.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import ndtri

from mustdp.errors import InvalidParameter
from mustdp.estimation.grids import with_grids
from mustdp.estimation.queries import Piece
from mustdp.estimation.release import Expectation, parts_of, run_rounds
from mustdp.estimation.result import ReleasedEstimate
from mustdp.estimation.schema import (
    Columns,
    Limits,
    PublicSchema,
    Survey,
    read_schema,
    read_shares,
)
from mustdp.estimation.statistics.statistic import Statistic, StatisticRequest, read_statistics
from mustdp.estimation.tables import OTHER, Groupings, Groups, Lists, Names, read_groupings
from mustdp.limits import LARGEST_EPSILON
from mustdp.mechanisms.mechanism import analytic_sigma
from mustdp.mechanisms.relation import Relation
from mustdp.numerics import checks
from mustdp.numerics.arrays import FloatArray, IntArray
from mustdp.numerics.formatting import readable

LIKE = ("normal", "uniform")
#: Records that are made up; sums are brought to the number of records asked about.
_MADE_UP = 2**13
#: The range in which an epsilon is looked for, and how closely.
_LEAST, _MOST, _CLOSE = 1e-3, 200.0, 1.01


@dataclass(frozen=True)
class PlannedSurvey:
    """What a survey will be like, for :func:`expected_widths`.

    Parameters
    ----------
    weights : (float, float), default=None
        The smallest and the largest weight; weights are taken to be spread evenly between them.
    stratum_shares : mapping, default=None
        The strata's shares of the population, which add up to 1.
    stratum_sizes : mapping, default=None
        Their shares of the sample; None means those of the population.
    cluster_size : int, default=None
        Records of a cluster, which is also the public largest size.
    cluster_correlation : float, default=0.05
        The correlation of values within clusters.
    missing_share : float, default=0.0
        The share of values that are missing in every column; they are dropped.

    Examples
    --------
    >>> import mustdp as md
    >>> limits = {"n": 10_000, "lower": 0, "upper": 1, "epsilon": 1, "delta": 1e-6}
    >>> [plain] = md.estimation.expected_widths("mean", **limits)
    >>> survey = md.types.PlannedSurvey(cluster_size=10, cluster_correlation=0.1)
    >>> [clustered] = md.estimation.expected_widths("mean", survey=survey, **limits)
    >>> plain.width < clustered.width
    True
    """

    weights: tuple[float, float] | None = None
    stratum_shares: Mapping[str, float] | None = None
    stratum_sizes: Mapping[str, float] | None = None
    cluster_size: int | None = None
    cluster_correlation: float = 0.05
    missing_share: float = 0.0

    def __post_init__(self) -> None:
        checks.real("missing_share", self.missing_share, at_least=0, below=1)
        checks.real("cluster_correlation", self.cluster_correlation, at_least=0, at_most=1)
        if self.cluster_size is not None:
            checks.integer("cluster_size", self.cluster_size, 2, 1000)
        if self.weights is not None:
            low, high = self.weights
            checks.real("weights", high, at_least=checks.real("weights", low, above=0))
        if self.stratum_sizes is not None:
            shares = read_shares(self.stratum_shares or {})
            sizes = read_shares(self.stratum_sizes)
            if {*shares} != {*sizes}:
                raise InvalidParameter("stratum_sizes must name the strata of stratum_shares")

    @property
    def design(self) -> Survey:
        """What would be said of such a survey when it is released."""
        return Survey(
            weights=None if self.weights is None else "weight",
            largest_weight=None if self.weights is None else self.weights[1],
            strata=None if self.stratum_shares is None else "stratum",
            stratum_shares=self.stratum_shares,
            cluster=None if self.cluster_size is None else "cluster",
            largest_cluster=self.cluster_size,
        )


@dataclass(frozen=True)
class Expected:
    """The width that an interval is expected to have.

    Attributes
    ----------
    label : str
        Which estimate.
    width : float
        Expected width of its interval.
    standard_error : float
        Expected standard error.
    noise_share : float
        Which share of the variance is that of the noise.
    flags : tuple of str
        What a reader has to know.
    group : str or None
        The group; None where there are none. No record is expected in the group "other".
    relative_width : float
        The width over the value that is assumed; infinite where that is 0.

    Examples
    --------
    >>> import mustdp as md
    >>> limits = {"lower": 0, "upper": 1, "epsilon": 1, "delta": 1e-6}
    >>> [mean] = md.estimation.expected_widths("mean", n=10_000, **limits)
    >>> mean.label, mean.width < 0.01
    ('mean value', True)
    """

    label: str
    width: float
    standard_error: float
    noise_share: float
    flags: tuple[str, ...]
    group: str | None = None
    relative_width: float = math.inf

    @classmethod
    def of(cls, estimate: ReleasedEstimate) -> Expected:
        """What an estimate on records that are made up says about widths.

        Parameters
        ----------
        estimate : ReleasedEstimate
            One on records that are made up.

        Returns
        -------
        Expected
            Its width, without its value.
        """
        return cls(
            estimate.label,
            estimate.width,
            estimate.standard_error,
            estimate.noise_share,
            estimate.flags,
            estimate.group,
            estimate.width / abs(estimate.value) if estimate.known and estimate.value else math.inf,
        )

    def as_dict(self) -> dict[str, Any]:
        """Plain description, for JSON; a width without end is None.

        Returns
        -------
        dict
            Plain values, ready for JSON.
        """
        known = math.isfinite(self.width)
        return {
            "label": self.label,
            "width": self.width if known else None,
            "standard_error": self.standard_error if math.isfinite(self.standard_error) else None,
            "noise_share": self.noise_share,
            "relative_width": self.relative_width if math.isfinite(self.relative_width) else None,
            "flags": list(self.flags),
        }


def expected_widths(
    statistics: str | Statistic | Sequence[str | Statistic] = "mean",
    *,
    n: int,
    lower: Limits | None = None,
    upper: Limits | None = None,
    columns: str | Sequence[str] | Columns = "value",
    by: Names | None = None,
    groups: Lists | Groups | None = None,
    total: bool = False,
    consistent: bool = False,
    epsilon: float | None = None,
    delta: float | None = None,
    noise_multiplier: float | None = None,
    relation: str = "replace_one",
    population: int | str | None = None,
    missing: str = "refuse",
    survey: PlannedSurvey | None = None,
    releases: int = 1,
    level: float = 0.95,
    like: str = "normal",
) -> tuple[Expected, ...]:
    """Expected widths of what :func:`private_release` would give for ``n`` records like these.

    No data are read and nothing is charged. One of ``epsilon`` (with ``delta``) and
    ``noise_multiplier`` is given.

    Parameters
    ----------
    statistics : str, Statistic or sequence of them, default="mean"
        One or several statistics, as :func:`private_release` takes them.
    n : int
        Number of records, at least 1.
    lower : float, sequence or mapping, default=None
        Lower ends of the ranges of the columns, as in :func:`private_release`.
    upper : float, sequence or mapping, default=None
        Upper ends of the ranges.
    columns : str, sequence of str or Columns, default="value"
        Names of the columns, or what is known of them.
    by : str or sequence, default=None
        The column or columns of groups, as in :func:`private_release`.
    groups : sequence of str, mapping or Groups, default=None
        Their public values.
    total : bool, default=False
        Whether margins and totals are released, too.
    consistent : bool, default=False
        Whether they are to agree.
    epsilon : float, default=None
        The budget of the release, above 0 and at most 500.
    delta : float, default=None
        The delta at which epsilon is stated; well below 1/n.
    noise_multiplier : float, default=None
        Scale of the noise over C, the bound on the norm of what one record contributes to a sum;
        from 1e-9 to 1e9.
    relation : {"replace_one", "add_remove"}, default="replace_one"
        Which data sets are neighbours.
    population : int or "census", default=None
        The size of what the records are sampled from; None means endless.
    missing : {"refuse", "drop"}, default="refuse"
        What is to be done with missing values.
    survey : PlannedSurvey, default=None
        Strata, weights, clusters and missing values; None for a plain sample.
    releases : int, default=1
        How many such releases share the budget, each on its own data or on the same: what is
        expected of one of them.
    level : float, default=0.95
        Confidence of the intervals, above 0 and below 1.
    like : {"normal", "uniform"}, default="normal"
        What numbers are assumed to be like within their ranges.

    Returns
    -------
    tuple of Expected
        One for each estimate.

    Raises
    ------
    InvalidParameter
        An argument is outside what is allowed.

    Examples
    --------
    >>> (mean,) = expected_widths("mean", n=10_000, lower=0, upper=1, epsilon=1, delta=1e-6)
    >>> 0.006 < mean.width < 0.008
    True
    """
    n = checks.integer("n", n, 1)
    level = checks.real("level", level, above=0, below=1)
    checks.choice("like", like, LIKE)
    checks.choice("missing", missing, ("refuse", "drop"))
    used = Relation.read(relation)
    asked = read_statistics(statistics)
    columns = Columns.read(columns)
    if columns.names is None:
        raise InvalidParameter.refusing("columns", "must be named: there are no data", "none")
    survey = checks.instance("survey", PlannedSurvey() if survey is None else survey, PlannedSurvey)
    if survey.missing_share:
        missing = "drop"
    grouping = read_groupings(by, groups, total=total, consistent=consistent)
    schema = read_schema(
        columns, columns.names, lower=lower, upper=upper,
        grouping=survey.design.groupings(grouping), survey=survey.design,
        dropped=missing == "drop", relation=used, population=population,
    )  # fmt: skip

    def bound(to: PublicSchema) -> list[StatisticRequest]:
        return [one for statistic in asked for one in statistic.requests(to)]

    bound(schema)
    if grouping is not None:
        if not schema.known_total:
            grouping.refuse_unknown_total()
        grouping.refuse_other_total(n)
    if noise_multiplier is None:
        budget = checks.real("epsilon", epsilon, above=0, at_most=LARGEST_EPSILON)
        if delta is None:
            raise InvalidParameter.refusing("delta", "must be given, well below 1/n", "none")
        move = 2.0 if used == Relation.REPLACE_ONE else 1.0
        noise_multiplier = analytic_sigma(budget, delta, move)
    # Gaussian releases add up by the squares of one over their noise.
    noise_multiplier *= math.sqrt(checks.integer("releases", releases, 1, 10**6))
    parts = max(len(parts_of(bound(schema))), 1)
    schema = with_grids(schema, asked, noise_multiplier * math.sqrt(parts), level)
    piece = made_up(schema, like, survey)
    estimates = run_rounds(
        schema,
        lambda: iter((piece,)),
        bound,
        checks.real("noise_multiplier", noise_multiplier, above=0),
        charge=lambda: None,
        source=Expectation(n),
        level=level,
    )
    return tuple(map(Expected.of, estimates))


def smallest_epsilon(
    width: float,
    statistics: str | Statistic | Sequence[str | Statistic] = "mean",
    *,
    relative: bool = False,
    **settings: Any,
) -> tuple[float, tuple[Expected, ...]]:
    """The smallest epsilon, within 1 %, at which all expected intervals are at most that wide.

    With groups, those of the listed ones: no record is expected in any other.

    Parameters
    ----------
    width : float
        The width that no interval must exceed, above 0.
    statistics : str, Statistic or sequence of them, default="mean"
        One or several statistics, as :func:`private_release` takes them.
    relative : bool, default=False
        Whether the width is one over the value, such as 0.05.
    **settings
        What else :func:`expected_widths` takes.

    Returns
    -------
    (epsilon, expected) : float, tuple of Expected
        The epsilon, and what is expected at it.

    Raises
    ------
    InvalidParameter
        Sampling alone makes the intervals wider, or an argument is outside what is allowed.

    Examples
    --------
    >>> limits = {"n": 10_000, "lower": 0, "upper": 1, "delta": 1e-6}
    >>> epsilon, _ = smallest_epsilon(0.01, "mean", **limits)
    >>> 0.1 < epsilon < 0.5
    True
    """
    width = checks.real("width", width, above=0)

    def widest(epsilon: float) -> tuple[float, tuple[Expected, ...]]:
        found = expected_widths(statistics, epsilon=epsilon, **settings)
        listed = [one for one in found if OTHER not in (one.group or "").split(", ")]
        return max(one.relative_width if relative else one.width for one in listed), found

    reached, found = widest(_MOST)
    if not reached <= width:
        raise InvalidParameter.refusing(
            "width",
            f"must be at least {readable(reached, 'up', 4)}, which is left at epsilon {_MOST:g}",
            width,
        )
    low, high = _LEAST, _MOST
    while high > _CLOSE * low:
        middle = math.sqrt(low * high)
        reached, seen = widest(middle)
        if reached <= width:
            high, found = middle, seen
        else:
            low = middle
    return high, found


def made_up(schema: PublicSchema, like: str, survey: PlannedSurvey) -> Piece:
    """Artificial records: every column spread evenly in an order of its own."""
    rng = np.random.default_rng(0)  # an order, no secret
    even = (np.arange(_MADE_UP) + 0.5) / _MADE_UP
    values = np.empty((_MADE_UP, len(schema.columns)))
    for k, column in enumerate(schema.columns):
        shuffled = rng.permutation(even)
        if column.range is None:
            values[:, k] = np.floor(shuffled * len(column.categories))
        else:
            spread = shuffled if like == "uniform" else _normal(shuffled)
            values[:, k] = column.range.lower + column.range.width * spread
            if column.whole:
                values[:, k] = np.round(values[:, k])
    slots = np.zeros(_MADE_UP, dtype=np.int64)
    if schema.grouping is not None:
        sizes = [len(one.labels) for one in schema.grouping.dimensions]
        cells = np.arange(_MADE_UP) % math.prod(sizes)
        if schema.grouping.expected:
            cells = rng.permutation(_by_size(schema.grouping))
        places = list(np.unravel_index(cells, sizes))
        if schema.shares:
            places[0] = _strata(schema, survey, rng)
        slots = schema.grouping.slots_of(places)
    weights = None
    if survey.weights is not None:
        low = survey.weights[0] / survey.weights[1]
        weights = low + (1.0 - low) * rng.permutation(even)
    clusters = None
    if survey.cluster_size is not None:
        # Two records of a cluster both have its own values with the chance of the correlation.
        clusters = np.arange(_MADE_UP) // survey.cluster_size
        own = rng.random(_MADE_UP) < math.sqrt(survey.cluster_correlation)
        values = np.where(own[:, None], values[clusters * survey.cluster_size], values)
    if survey.missing_share:
        values[rng.random(values.shape) < survey.missing_share] = np.nan
    return Piece(values, slots, weights, values, clusters)


def _by_size(grouping: Groupings) -> IntArray:
    """The cells of all dimensions that listed groups make, in their public sizes."""
    labels = [range(len(one.labels)) for one in grouping.dimensions]
    table = np.array(grouping.expected).reshape(grouping.sizes)[np.ix_(*labels)].ravel()
    ends = np.cumsum(table)[:-1] * (_MADE_UP / table.sum())
    return np.searchsorted(ends, np.arange(_MADE_UP) + 0.5, side="right")


def _strata(schema: PublicSchema, survey: PlannedSurvey, rng: np.random.Generator) -> IntArray:
    """The strata of records, in the shares of the sample."""
    sizes = schema.shares
    if survey.stratum_sizes is not None:
        named = read_shares(survey.stratum_sizes)
        order = read_shares(survey.stratum_shares or {})
        sizes = tuple(named[name] for name in order)
    ends = np.cumsum(sizes)[:-1] * _MADE_UP
    return rng.permutation(np.searchsorted(ends, np.arange(_MADE_UP), side="right"))


def _normal(shares: FloatArray) -> FloatArray:
    """Quantiles of a normal law around 1/2 with standard deviation 1/6, kept in [0, 1]."""
    found: FloatArray = np.clip(0.5 + ndtri(shares) / 6.0, 0.0, 1.0)
    return found
