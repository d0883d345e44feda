"""Comparisons of groups, and of releases: differences and ratios with intervals and tests.

*Noise.* Two estimates of one statistic are functions of the noisy sums of two slots. The noise of
these has a known covariance: none between slots that were measured apart, that of the least squares
where groupings agree (``tables.py``). It is carried to the estimates by their slopes, found by
small changes of what was released. Where an estimate has no slopes (a quantile), and slots share
noise, the covariance is taken to be the worst that is possible.

*Sampling.* Given the numbers of records in them, groups that share no record vary independently.
Of a mean of t, a part of s, the n_t records of t are among the n_s, so that Cov(mean_s, mean_t) =
(n_t / n_s) Var(mean_t). Quantiles at the same share p are off by averages of p - 1[x <= q], and of
the records of t, a share F of which is up to the quantile of s, min(F, p) - F p is not negative:
their covariance is taken to be 0, on the safe side. That of other estimates, whose influences in s
and in t may have either sign, is the worst that is possible. Totals of n records share them: with Y
the totals, Cov(Y_s, Y_t) = -Y_s Y_t / n for groups that share no record, and Var(Y_t) + (Y_t^2 -
Y_s Y_t) / n for a part t of s, each times the part of the population that was not sampled. Groups
that overlap in part are refused. Where clusters may reach into both groups, or both are parts of
the same strata, the covariance is the worst that is possible.

*Tests.* The difference over its standard error is compared with Student's t, with Satterthwaite's
(1946) degrees of freedom; a ratio has Fieller's (1954) interval, and the test is that of the
difference. Several tests are adjusted by Bonferroni or Holm (1979).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from mustdp.errors import InvalidParameter
from mustdp.estimation.result import (
    UNBOUNDED,
    Estimate,
    Interval,
    ReleasedEstimate,
    ReleasedFamily,
    Spread,
    fieller_interval,
    satterthwaite,
    t_chance,
    t_interval,
    vacuous_interval,
)
from mustdp.numerics import checks
from mustdp.numerics.arrays import FloatArray

if TYPE_CHECKING:
    from mustdp.estimation.result import ReleaseResult

#: A group by the name that estimates have, or the groups of its columns.
Group = str | Sequence[str] | Mapping[str, str]
KINDS = ("difference", "ratio")
ADJUSTMENTS = ("holm", "bonferroni", "none")
#: Steps of slopes, in standard deviations of the noise.
_STEP = 1e-3


@dataclass(frozen=True)
class Contrast(Estimate):
    """A comparison of two estimates, with a test that they are the same.

    Attributes
    ----------
    label : str
        What is compared.
    value : float
        The difference or the ratio; NaN where one of both is not known.
    standard_error : float
        Of sampling and noise together.
    interval : (float, float)
        The interval at the result's level.
    noise_share : float
        Which share of the variance is that of the noise.
    description : str
        What is compared, in words.
    flags : tuple of str
        What a reader has to know.
    degrees_of_freedom : float
        Those of the t quantile behind the interval.
    noise_dominated : bool
        Whether the noise hides the variation of the data.
    kind : str
        "difference" or "ratio".
    p_value : float
        Of the test that both are the same, two-sided; adjusted where there are several tests.

    Examples
    --------
    >>> import mustdp as md
    >>> found = md.types.Contrast("mean: a - b", 1.0, 0.5, (0.0, 2.0), 0.1, p_value=0.046)
    >>> found.p_value
    0.046
    """

    kind: str = "difference"
    p_value: float = math.nan

    def as_dict(self) -> dict[str, Any]:
        """Plain description, for JSON; what is not known is None.

        Returns
        -------
        dict
            Plain values, ready for JSON.
        """
        p = self.p_value if math.isfinite(self.p_value) else None
        return {**super().as_dict(), "kind": self.kind, "p_value": p, "flags": list(self.flags)}


@dataclass(frozen=True, eq=False)
class _Family:
    """Estimates of one statistic, with what they were read off."""

    estimates: tuple[ReleasedEstimate, ...]
    released: ReleasedFamily | None
    level: float
    _found: dict[int, FloatArray | None] = field(default_factory=dict)

    def at(self, group: Group | None) -> int:
        """The place of a group among the estimates."""
        for place, one in enumerate(self.estimates):
            if group is None and one.group is None:
                return place
            if isinstance(group, str) and one.group == group:
                return place
            if isinstance(group, Mapping) and dict(one.groups) == dict(group):
                return place
            if not isinstance(group, str | Mapping | None) and (
                tuple(own for _, own in one.groups) == tuple(group)
            ):
                return place
        known = ", ".join(str(one.group) for one in self.estimates[:12])
        raise InvalidParameter.refusing("group", f"must be one of {known}", repr(group))

    def covariances(self, first: int, second: int) -> tuple[float | None, float | None]:
        """Of sampling and of noise; None where the worst has to be assumed."""
        one, other = self.estimates[first], self.estimates[second]
        if first == second:
            return _sampling(one), _noise(one)
        if self.released is None or self.released.first is None:
            return None, None
        schema, cells = self.released.request.schema, self._cells
        if schema.shares:  # groups within strata, which share the strata's numbers of records
            return None, None
        slots = (first // cells, second // cells)
        if first % cells != second % cells:
            raise InvalidParameter("estimates that are compared must be of the same cell")
        return self._sampling(one, other, slots), self._noise(first, second, slots, schema.slots)

    @property
    def _cells(self) -> int:
        if self.released is None:
            return 1
        return max(len(self.estimates) // max(len(self.released.request.schema.groups), 1), 1)

    def _sampling(
        self, one: ReleasedEstimate, other: ReleasedEstimate, slots: tuple[int, int]
    ) -> float | None:
        if self.released is None or self.released.first is None:
            return None
        request, sums = self.released.request, self.released.first.sums
        schema = request.schema
        if schema.largest_cluster is not None:
            return None
        overlap = "apart" if schema.grouping is None else schema.grouping.overlap(*slots)
        if overlap == "crossed":
            raise InvalidParameter(
                "groups that are compared must have no record in common, or one must hold the "
                "other, got groups that overlap in part"
            )
        if overlap == "holds":
            return self._sampling(other, one, (slots[1], slots[0]))
        total = float(schema.n or 0) if schema.public_size else schema.of_all(sums[:, 0])
        shared = 0.0
        if request.is_total and not schema.weighted and not schema.census and total > 0:
            left = schema.unsampled(total)
            inside = one.value**2 if overlap == "within" else 0.0
            shared = left * (inside - one.value * other.value) / total
        if overlap == "apart":
            return shared
        if request.is_total:
            return _sampling(one) + shared
        if not request.is_average:
            return None if request.smooth else 0.0
        records = sums[list(slots), 0]
        part = float(records[0] / records[1]) if records[1] > 0 else 1.0
        return _sampling(one) * min(max(part, 0.0), 1.0)

    def _noise(self, first: int, second: int, slots: tuple[int, int], count: int) -> float | None:
        if self.released is None or self.released.first is None:
            return None
        if self.released.first.agreed is None or not min(
            _noise(self.estimates[place]) for place in (first, second)
        ):
            return 0.0
        for place in (first, second):
            if place not in self._found:
                self._found[place] = self._slopes(place)
        ahead, behind = self._found[first], self._found[second]
        if ahead is None or behind is None:
            return None
        return self.released.first.between(slots, ahead, behind)

    def _slopes(self, place: int) -> FloatArray | None:
        """How an estimate changes with the natural sums of its slot."""
        from mustdp.estimation.statistics.statistic import SlotRelease

        if self.released is None or self.released.first is None:
            return None
        request, first, second = self.released
        if not request.smooth or first is None:
            return None
        slot, cell = divmod(place, self._cells)
        steps = _STEP * np.sqrt(np.maximum(first.noise_in(slot).own, 0.0))
        found = np.zeros(len(steps))

        def value(change: FloatArray) -> float:
            sums = first.sums.copy()
            sums[slot] += change
            at = SlotRelease(request.schema, replace(first, sums=sums), second, slot, self.level)
            return list(request.read(at))[cell][1].value

        for k, step in enumerate(steps.tolist()):
            if step > 0:
                change = np.zeros(len(steps))
                change[k] = step
                found[k] = (value(change) - value(-change)) / (2.0 * step)
        # What is cut to its support has no slopes there.
        return found if np.isfinite(found).all() and found.any() else None


def _sampling(one: Estimate) -> float:
    return one.standard_error**2 * (1.0 - one.noise_share)


def _noise(one: Estimate) -> float:
    return one.standard_error**2 * one.noise_share


def _family(result: ReleaseResult, statistic: str | None, column: str | None) -> _Family:
    """The estimates of one statistic of one column; refused where several are meant."""
    named = [
        one
        for one in result.estimates
        if statistic in (None, one.statistic) and column in (None, one.column)
    ]
    kinds = list(dict.fromkeys((one.statistic, one.column) for one in named))
    if len(kinds) != 1:
        known = dict.fromkeys(
            f"{one.statistic} {one.column or ''}".strip() for one in result.estimates
        )
        raise InvalidParameter.refusing(
            "statistic", f"must name one of {', '.join(known)}",
            f"{statistic!r}" + ("" if column is None else f" of {column!r}"),
        )  # fmt: skip
    released = next(
        (one for one in result.families if (one.request.name, one.column) == kinds[0]), None
    )
    return _Family(tuple(named), released, result.level)


def contrast(
    result: ReleaseResult, first: Group, second: Group, statistic: str | None,
    column: str | None, kind: str, level: float | None = None,
) -> Contrast:  # fmt: skip
    """See ``ReleaseResult.contrast``."""
    checks.choice("kind", kind, KINDS)
    family = _family(result, statistic, column)
    places = family.at(first), family.at(second)
    if places[0] == places[1]:
        raise InvalidParameter.refusing("second", "must be another group", repr(second))
    one, other = (family.estimates[place] for place in places)
    sign = " - " if kind == "difference" else " / "
    label = f"{one.label.removesuffix(f' ({one.group})')}: {one.group}{sign}{other.group}"
    return _compared(one, other, family.covariances(*places), kind, label, level or result.level)


def contrasts(
    result: ReleaseResult, pairs: Sequence[tuple[Group, Group]], statistic: str | None,
    column: str | None, kind: str, adjust: str,
) -> tuple[Contrast, ...]:  # fmt: skip
    """See ``ReleaseResult.contrasts``."""
    return _several(result, [(*pair, statistic, column) for pair in pairs], kind, adjust)


def all_contrasts(
    result: ReleaseResult, pairs: Sequence[tuple[Group, Group]], kind: str, adjust: str
) -> tuple[Contrast, ...]:
    """See ``ReleaseResult.all_contrasts``; statistics with several cells are left out."""
    families = result.by_statistic().values()
    single = [rows[0] for rows in families if all(one.cell is None for one in rows)]
    asked = [(*pair, one.statistic, one.column) for one in single for pair in pairs]
    return _several(result, asked, kind, adjust)


def _several(
    result: ReleaseResult,
    asked: Sequence[tuple[Group, Group, str | None, str | None]],
    kind: str,
    adjust: str,
) -> tuple[Contrast, ...]:
    checks.choice("adjust", adjust, ADJUSTMENTS)
    if not asked:
        raise InvalidParameter.refusing("pairs", "must be at least one pair of groups", "none")
    level = result.level
    if adjust != "none":
        level = 1.0 - (1.0 - level) / len(asked)
    found = [
        contrast(result, first, second, statistic, column, kind, level)
        for first, second, statistic, column in asked
    ]
    adjusted = adjusted_p_values([one.p_value for one in found], adjust)
    return tuple(replace(one, p_value=p) for one, p in zip(found, adjusted, strict=True))


def adjusted_p_values(values: Sequence[float], adjust: str) -> list[float]:
    """By Bonferroni or Holm (1979); a test of which nothing is known counts among them.

    >>> adjusted_p_values([0.01, 0.04, 0.03], "holm")
    [0.03, 0.06, 0.06]
    """
    count = len(values)
    if adjust == "none":
        return list(values)
    if adjust == "bonferroni":
        return [min(1.0, count * p) if math.isfinite(p) else p for p in values]
    order = sorted(range(count), key=lambda k: values[k] if math.isfinite(values[k]) else 2.0)
    found, largest = list(values), 0.0
    for rank, k in enumerate(order):
        if math.isfinite(values[k]):
            largest = max(largest, min(1.0, (count - rank) * values[k]))
            found[k] = largest
    return found


def change(
    result: ReleaseResult, earlier: ReleaseResult, group: Group | None, statistic: str | None,
    column: str | None, kind: str, same_people: bool,
) -> Contrast:  # fmt: skip
    """See ``ReleaseResult.change``."""
    checks.choice("kind", kind, KINDS)
    families = [_family(one, statistic, column) for one in (result, earlier)]
    one, other = (family.estimates[family.at(group)] for family in families)
    if (one.statistic, one.column, one.cell) != (other.statistic, other.column, other.cell):
        raise InvalidParameter("both releases must have the same statistic, got others")
    label = f"{one.label}: {'change' if kind == 'difference' else 'ratio'} between releases"
    shared: tuple[float | None, float | None] = (None if same_people else 0.0, 0.0)
    return _compared(one, other, shared, kind, label, result.level)


def _compared(
    one: ReleasedEstimate,
    other: ReleasedEstimate,
    shared: tuple[float | None, float | None],
    kind: str,
    label: str,
    level: float,
) -> Contrast:
    flags = tuple(dict.fromkeys((*one.flags, *other.flags)))
    said = f"{one.description}, compared with {other.description}"
    if not (one.known and other.known):
        nothing = vacuous_interval(UNBOUNDED)
        return _named(replace(nothing, flags=flags or nothing.flags), kind, label, said, math.nan)
    pairs = ((_sampling(one), _sampling(other)), (_noise(one), _noise(other)))
    variances = []
    for (own, others), both in zip(pairs, shared, strict=True):
        most = math.sqrt(own * others)
        variances.append(
            own + others - 2.0 * (-most if both is None else min(max(both, -most), most))
        )
    freedom = satterthwaite((own.standard_error**2, own.degrees_of_freedom) for own in (one, other))
    spread = Spread(max(variances[0], 0.0), max(variances[1], 0.0), freedom)
    difference = one.value - other.value
    found = t_interval(difference, spread, level)
    error = found.standard_error
    freedom = min(max(freedom, 1.0), 1e9)
    p = t_chance(freedom, difference / error) if error > 0 else float(difference == 0)
    if kind == "ratio":
        covariance = np.array(
            [
                [other.standard_error**2, 0.0],
                [0.0, one.standard_error**2],
            ]
        )
        covariance[0, 1] = covariance[1, 0] = 0.5 * (
            covariance[0, 0] + covariance[1, 1] - spread.variance
        )
        noise_share = spread.noise_share
        found = fieller_interval(
            one.value, other.value, variance=(0.0, 0.0, 0.0), noise=covariance,
            precision=replace(spread, sampling=0.0, noise=0.0), level=level, support=UNBOUNDED,
        )  # fmt: skip
        found = replace(found, noise_share=noise_share)
    return _named(replace(found, flags=(*flags, *found.flags)), kind, label, said, p)


def _named(found: Interval, kind: str, label: str, said: str, p: float) -> Contrast:
    return Contrast(
        label, found.value, found.standard_error, found.ends, found.noise_share, said,
        found.flags, found.degrees_of_freedom, found.noise_dominated, kind, p,
    )  # fmt: skip


def covariance(result: ReleaseResult, statistic: str | None, column: str | None) -> FloatArray:
    """See ``ReleaseResult.covariance``."""
    family = _family(result, statistic, column)
    count = len(family.estimates)
    found = np.full((count, count), np.nan)
    for i in range(count):
        for j in range(i + 1):
            if not (family.estimates[i].known and family.estimates[j].known):
                continue
            try:
                parts = family.covariances(i, j)
            except InvalidParameter:  # of groups that overlap in part nothing is known
                continue
            if None not in parts:
                found[i, j] = found[j, i] = math.fsum(x for x in parts if x is not None)
    return found
