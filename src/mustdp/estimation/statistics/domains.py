"""Groups within strata (domains): estimates from all strata, and influences for their errors.

Cochran 1977, sections 5A.13 and 6.11; Sarndal, Swensson & Wretman 1992, section 10.3. With shares
W_h, weights t (all 1 without weights), n_h the sum of the weights of stratum h, and 1_d whether a
record is in the group, the total of y over N is N sum_h (W_h / n_h) sum_h(t 1_d y), and an average
mu_d the ratio of that to the group's share P = sum_h (W_h / n_h) sum_h(t 1_d). An estimate
theta(mu_d) with gradient g is off, to first order, by the sum over strata and their records of

    (W_h / n_h) t (z - z_h),    z = 1_d g.(f - mu_d) / P,    z_h = sum_h(t z) / n_h,

and a total by the same with z = 1_d y: records of a stratum outside of the group count with z = 0.
n_h is itself a noisy number, measured apart from what is in the group; of everybody it is not.

*Sampling errors.* Without weights and clusters the variances of totals and means follow from sums
of y and y^2 in the group. Else, and for curved estimates, a second round adds up squares of
t (z - z_h), summed up within clusters before they are squared (``queries.py``), stratum by stratum.
That is the linearised variance of ultimate clusters, with the strata's sizes known.

*What one record does to that part.* All groups are measured in the slots of the strata. With B_d
the bound on |z - z_h|, and q_d = (z - z_h) / B_d cut to [-1, 1], a record of the group d has q_d,
and -z_h / B_d for every other group, a public number by then. Let J be the estimates of a group,
r_d = sum_j (z_h / B)_dj^2 <= J. In every grouping a record is in one group or in none, so that its
vector of all q has a squared length of at most

    L^2 = max_h sum over groupings of (J - min_d r_d + sum_d r_d),

and every entry is in [-1, 1]. ``queries.py`` says what follows for clusters. A record by itself
contributes t^2 q_d^2: numbers in [0, 1] of length at most min(L, sqrt(all of them)), as |q_d| <= 1.
None is negative, so two are at most sqrt(2) times that apart.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar, Protocol

import numpy as np

from mustdp.errors import InvalidParameter, NumericalFailure
from mustdp.estimation.queries import (
    BoundedSum,
    NoiseCovariance,
    NoisySums,
    Piece,
    radius_of_squares,
    squared_sums,
)
from mustdp.estimation.result import (
    CLEARLY,
    Interval,
    Support,
    released_spread,
    t_interval,
    vacuous_interval,
)
from mustdp.estimation.schema import PublicSchema
from mustdp.estimation.statistics.statistic import SlotRelease
from mustdp.numerics.arrays import FloatArray, IntArray

#: What rounding may add to a bound.
_SLACK = 1.0 + 2.0**-40


class SumsOfTerms(Protocol):
    """A part whose natural sums are those of numbers that every record has by itself."""

    @property
    def schema(self) -> PublicSchema:
        """What is public."""

    @property
    def columns(self) -> tuple[int, ...]:
        """What it reads."""

    @property
    def about_clipping(self) -> bool:
        """Whether it reads the values before they are clipped."""

    def terms(self, values: FloatArray) -> FloatArray:
        """What every record adds to the natural sums, of which the first is 1."""

    def extremes(self) -> FloatArray:
        """The terms of records among which linear functions of them are largest, or nearly so."""


@dataclass(frozen=True, eq=False)
class DomainInfluences(BoundedSum):
    """Squared influences on estimates of all groups, over all records of every stratum.

    z is ``along`` (groups, estimates, natural) of a record's terms, in the group; ``centres``
    (strata, groups, estimates) are the z_h. In the slots of the strata alone.
    """

    tells_records: ClassVar[bool] = False
    part: SumsOfTerms
    along: FloatArray
    centres: FloatArray
    schema: PublicSchema = field(init=False)
    columns: tuple[int, ...] = field(init=False)

    def __post_init__(self) -> None:
        if not (np.isfinite(self.along).all() and np.isfinite(self.centres).all()):
            raise NumericalFailure(
                "influences on estimates of groups came out as no numbers; nothing more is released"
            )
        object.__setattr__(self, "schema", self.part.schema)
        object.__setattr__(self, "columns", self.part.columns)

    @classmethod
    def at(cls, part: SumsOfTerms, first: NoisySums, along: FloatArray) -> DomainInfluences:
        """With what the first round says about the averages of the strata with shares."""
        schema = part.schema
        strata = schema.slices[-1]
        counts = first.sums[strata, 0]
        errors = [math.sqrt(float(first.noise_in(slot).own[0]))
                  for slot in range(strata.start, strata.stop)]  # fmt: skip
        clear = (counts > CLEARLY * np.array(errors)) & (
            np.arange(len(counts)) < len(schema.shares)
        )
        inside = first.sums[np.array(domains_of(schema))]  # (groups, strata, natural)
        centres = np.einsum("djk,dhk->hdj", along, inside)
        centres /= np.where(clear, counts, np.inf)[:, None, None]
        largest = _largest(part, along)
        return cls(part, along, np.clip(centres, -largest, largest))

    @cached_property
    def bounds(self) -> FloatArray:
        """B of every group and estimate."""
        largest = _largest(self.part, self.along)
        found: FloatArray = (largest + np.abs(self.centres).max(axis=0)) * _SLACK
        return np.maximum(found, 1e-150)

    @cached_property
    def _ratios(self) -> FloatArray:
        """z_h / B: what a record is to the groups that it is not in."""
        return np.asarray(np.clip(self.centres / self.bounds, -1.0, 1.0))

    @cached_property
    def length(self) -> float:
        """L."""
        squares = (self._ratios**2).sum(axis=2)  # (strata, groups)
        estimates, found = self.bounds.shape[1], np.zeros(len(squares))
        for own in self._by_grouping:
            here = squares[:, own]
            found += np.maximum(estimates - here.min(axis=1), 0.0) + here.sum(axis=1)
        return math.sqrt(float(found.max())) * _SLACK

    @cached_property
    def _by_grouping(self) -> list[slice]:
        """The groups of every grouping, in their order."""
        grouping, start, found = self.schema.grouping, 0, []
        for own in () if grouping is None else grouping.slices:
            count = (own.stop - own.start) // self._strata
            found.append(slice(start, start + count))
            start += count
        return found

    @property
    def _strata(self) -> int:
        """Strata, with that of those in none of the listed ones."""
        own = self.schema.slices[-1]
        return int(own.stop - own.start)

    @property
    def width(self) -> int:
        """Groups times estimates."""
        return int(self.bounds.size)

    @property
    def radius(self) -> float:
        """Proved above."""
        box = math.sqrt(self.width)
        if self.schema.largest_cluster is None:
            box = min(box, self.length)
        return radius_of_squares(self.schema, self.length, box)

    @property
    def diameter(self) -> float:
        """Proved above; a record that changes its cluster is in two of them."""
        schema = self.schema
        two = schema.largest_cluster is not None and not schema.whole_clusters
        return (2.0 if two else math.sqrt(2.0) * _SLACK) * self.radius

    def adds_to(self, grouping: int) -> bool:
        """To the strata alone."""
        return grouping == len(self.schema.slices) - 1

    def natural(self, vectors: FloatArray) -> FloatArray:
        """As they are."""
        return vectors

    @property
    def covariance(self) -> NoiseCovariance:
        """Independent."""
        return NoiseCovariance(np.zeros(self.width), np.ones(self.width))

    def rows(self, values: FloatArray, slots: IntArray) -> FloatArray:
        """Influences depend on the groups that a record is in, which ``sums`` knows."""
        raise InvalidParameter("influences in groups must be added up by sums")

    def sums(self, piece: Piece, per_step: float) -> FloatArray:
        """Of the records of the strata, or of their clusters."""
        found = np.zeros((self.schema.slots, self.width))
        strata = self.schema.slices[-1]
        if piece.cells is None or not len(piece) or piece.slots.min() < strata.start:
            return found  # nothing is added to other groupings
        given = piece.raw if self.part.about_clipping and piece.raw is not None else piece.values
        values = given[:, list(self.columns)]
        here = ~np.isnan(values).any(axis=1)
        terms, cells = self.part.terms(values[here]), piece.cells[here]
        at = piece.slots[here] - strata.start
        weights = None if piece.weights is None else piece.weights[here]
        clusters = None if piece.clusters is None else piece.clusters[here]
        for k, (group, estimate) in enumerate(np.ndindex(self.bounds.shape)):
            q = self._q(terms, cells, at, group, estimate)
            if weights is not None:
                q *= weights
            if clusters is None:
                whole = np.trunc(q**2 * per_step)
                found[strata, k] = np.bincount(at, whole, self._strata)
            else:
                squares = squared_sums(q, at, clusters, self.schema, self._strata)
                found[strata, k] = np.trunc(squares * per_step).sum(axis=1)
        return found

    def _q(
        self, terms: FloatArray, cells: IntArray, at: IntArray, group: int, estimate: int
    ) -> FloatArray:
        """One product after the other, so that no rounding depends on where a row stands."""
        slots = np.array(domains_of(self.schema)[group])
        grouping = next(k for k, own in enumerate(self._by_grouping) if group < own.stop)
        inside = cells[:, grouping] == slots[at]
        found = np.zeros(len(terms))
        for k in range(terms.shape[1]):
            found += terms[:, k] * self.along[group, estimate, k]
        found = np.where(inside, found, 0.0) - self.centres[at, group, estimate]
        found /= self.bounds[group, estimate]
        return np.asarray(np.clip(found, -1.0, 1.0))


def _largest(part: SumsOfTerms, along: FloatArray) -> FloatArray:
    """The largest |z| of every group and estimate; what should be larger is cut."""
    return np.asarray(np.abs(np.einsum("djk,rk->rdj", along, part.extremes())).max(axis=0))


def domains_of(schema: PublicSchema) -> list[list[int]]:
    """The slots of every group, one for each stratum."""
    return [] if schema.grouping is None else [slots for _, slots in schema.grouping.domains()]


@dataclass(frozen=True, eq=False)
class DomainAverages:
    """The averages of a group over all strata, with the covariance of their noise."""

    clear: bool  # whether the strata, and the group itself, stand out of the noise
    share: float  # of the population
    means: FloatArray
    noise: FloatArray
    weights: FloatArray  # W_h / n_h


def domain_averages(schema: PublicSchema, first: NoisySums, slots: Sequence[int]) -> DomainAverages:
    """Of the group in ``slots``, one for each stratum with a share."""
    count = len(schema.shares)
    start = schema.slices[-1].start
    counts = first.sums[start : start + count, 0]
    errors = np.array([float(first.noise_in(start + h).own[0]) for h in range(count)])
    weights = np.array(schema.shares) / np.maximum(counts, 1e-9)
    sums = first.sums[list(slots[:count])]
    noises = [first.noise_in(slot).matrix for slot in slots[:count]]
    share = float(weights @ sums[:, 0])
    hidden = math.sqrt(float(weights**2 @ [own[0, 0] for own in noises]))
    clear = bool((counts > CLEARLY * np.sqrt(errors)).all() and share > CLEARLY * hidden)
    size = sums.shape[1] - 1
    if not clear:
        return DomainAverages(False, 1.0, np.zeros(size), np.eye(size), weights)
    means = weights @ sums[:, 1:] / share
    noise = np.zeros((size, size))
    for h in range(count):
        beside = (sums[h, 1:] - means * sums[h, 0]) / max(counts[h], 1e-9)
        everybody = slots[h] == start + h  # the noise of the stratum is that of the group
        own = -means - (beside if everybody else 0.0)
        slope = np.concatenate([own[:, None], np.eye(size)], axis=1)
        each = slope @ noises[h] @ slope.T
        if not everybody:
            each = each + errors[h] * np.outer(beside, beside)
        noise += (weights[h] / share) ** 2 * each
    return DomainAverages(True, share, means, noise, weights)


def sampled(
    inside: Sequence[SlotRelease],
    strata: Sequence[SlotRelease],
    weights: FloatArray,
    estimate: int = 0,
) -> tuple[float, float, float]:
    """The sampling variance by the second round, its error by noise, and what it has by itself.

    K clusters are multiplied by K / (K - 1) and have K - 1 degrees of freedom; there are no more
    than records of the group.
    """
    second = strata[0].second
    if second is None or not isinstance(second.part, DomainInfluences):
        raise InvalidParameter("the second round must be one of influences in groups")
    part, schema = second.part, strata[0].schema
    slots = [at.slot for at in inside]
    group = next(d for d, own in enumerate(domains_of(schema)) if own[: len(slots)] == slots)
    column = group * part.bounds.shape[1] + estimate
    factor = weights**2 * [at.unsampled for at in strata]
    factor = factor * float(part.bounds[group, estimate]) ** 2
    freedom = np.full(len(factor), np.inf)
    if schema.largest_cluster is not None:
        count = np.array(
            [max(min(whole.clusters, at.records), 2.0)
             for at, whole in zip(inside, strata, strict=True)]
        )  # fmt: skip
        freedom = count - 1.0
        factor = factor * count / freedom * float(schema.largest_cluster) ** 2
    places = [at.slot for at in strata]
    each = factor * second.sums[places, column]
    errors = np.sqrt(second.noise.own[column] * second.variances[places])
    doubt = float((2.0 * each**2 / freedom).sum())
    return float(each.sum()), float(np.linalg.norm(factor * errors)), doubt


def domain_interval(
    inside: Sequence[SlotRelease],
    strata: Sequence[SlotRelease],
    total: FloatArray,
    square: FloatArray,
    *,
    ratio: bool,
    support: Support,
    cell: int | None = None,
    estimate: int = 0,
) -> Interval:
    """A total per head of the population, or a mean, of one group.

    ``total`` and ``square`` are the weights of the natural sums in the sum of y and of y^2; with
    ``cell``, of the first and that one. Where there is a second round it tells the sampling error,
    that of its estimate number ``estimate``.
    """
    schema, level = strata[0].schema, strata[0].level
    counts = np.array([at.records for at in strata])
    errors = np.array([float(at.noise.own[0]) for at in strata])
    if not (counts > CLEARLY * np.sqrt(errors)).all():
        return vacuous_interval(support)
    weights = np.array(schema.shares) / counts
    sums = np.array([at.first.sums[at.slot] for at in inside])
    noise = [at.noise.matrix if cell is None else at.noise.pair(cell) for at in inside]
    if cell is not None:
        sums = sums[:, [0, cell]]
    one = np.zeros(sums.shape[1])
    one[0] = 1.0
    share = float(weights @ sums[:, 0])
    hidden = math.sqrt(float(weights**2 @ [own[0, 0] for own in noise]))
    r = 0.0
    if ratio:
        if not share > CLEARLY * hidden:
            return vacuous_interval(support)
        r = float(weights @ (sums @ total)) / share
    along, curved = total - r * one, square - 2.0 * r * total + r**2 * one
    means = sums @ along / counts
    scale = share**2 if ratio else 1.0
    everybody = inside[0].slot == strata[0].slot
    own_noise = 0.0
    for w, own, mean, error in zip(weights, noise, means, errors, strict=True):
        slope = along - mean * one if everybody else along
        own_noise += w**2 * float(slope @ own @ slope)
        own_noise += 0.0 if everybody else float(w**2 * mean**2 * error)
    value = r if ratio else float(weights @ (sums @ total))
    if strata[0].second is not None:
        sampling, error, doubt = sampled(inside, strata, weights, estimate)
        return t_interval(
            value, released_spread(sampling, error, own_noise / scale, doubt), level, support
        )
    squares = sums @ curved / counts
    factor = weights**2 * [at.unsampled for at in strata] * counts
    sampling = float(factor @ np.maximum(squares - means**2, 0.0))
    unsure = math.sqrt(sum(
        (f / n) ** 2 * float(curved @ own @ curved)
        for f, n, own in zip(factor, counts, noise, strict=True)
    ))  # fmt: skip
    spread = released_spread(sampling / scale, unsure / scale, own_noise / scale)
    return t_interval(value, spread, level, support)


def needs_influences(schema: PublicSchema) -> bool:
    """Whether totals and means of groups within strata need the second round for their errors."""
    return schema.domains and (schema.weighted or schema.largest_cluster is not None)


def influences_on(
    part: SumsOfTerms, first: NoisySums, totals: Sequence[FloatArray], *, ratio: bool
) -> DomainInfluences:
    """Of ``totals``, weights of natural sums in the sum of y, or of their means."""
    schema = part.schema
    count, start = len(schema.shares), schema.slices[-1].start
    weights = np.array(schema.shares) / np.maximum(first.sums[start : start + count, 0], 1e-9)
    found = np.repeat(np.array(totals, dtype=np.float64)[None], len(domains_of(schema)), axis=0)
    if ratio:
        for group, slots in zip(found, domains_of(schema), strict=True):
            sums = weights @ first.sums[slots[:count]]
            share = float(sums[0])
            if share > 0.0:  # else nothing will be known
                group[:, 0] -= group @ sums / share
                group /= share
    return DomainInfluences.at(part, first, np.clip(found, -1e100, 1e100))
