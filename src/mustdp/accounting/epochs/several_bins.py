"""Epochs in which a record, or a group of records, is in several batches."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from mustdp.accounting.epochs.add_remove import GaussianBound
from mustdp.accounting.epochs.observed import (
    Mixed,
    OutcomeCells,
    Rejections,
    rejecting_above,
    rejecting_pair,
)
from mustdp.accounting.epochs.sums import TooLong, places
from mustdp.accounting.epochs.tables import OutcomePair
from mustdp.accounting.pld.discretise import DiscreteLoss, DominatingPair, Profile, survey
from mustdp.accounting.pld.readoff import Composition, Part, UpperCurve, first_below
from mustdp.errors import NotCovered, NumericalFailure
from mustdp.numerics.arrays import ROUNDOFF, FloatArray, IntArray
from mustdp.sampling.epochs import RandomAllocation

# Where the records that differ are in an epoch: how many of them each batch holds, by chance.
#
# Given the pattern, its batches are distinct and uniform among those that are released. One record
# in t of M bins, of which the first k are released, is in J of these, J hypergeometric. Several
# records with one bin each coincide by chance: the sizes of the groups in one bin are a partition
# of those that are in the first k bins at all.


#: Relative error of a chance.
ERROR = 1e-12
#: The most records whose coincidences are added up one by one.
MOST_RECORDS = 4
#: The most patterns of one record that are all kept apart; else they are told apart by the chance
#: that lies beyond them.
MOST = 12
_BEYOND = np.array([0.95, 0.8, 0.5, 0.2, 0.05, 1e-2, 1e-3, 1e-5, 1e-8, 1e-12, 1e-18])


@dataclass(frozen=True)
class Pattern:
    """How many of the records each occupied batch holds, most first, and the chance of that."""

    chance: float
    copies: tuple[int, ...]

    @property
    def square(self) -> int:
        """The squared length of the move of all batches together, in shifts of one copy."""
        return sum(c * c for c in self.copies)


def patterns(epoch: RandomAllocation, group: int) -> tuple[Pattern, ...]:
    """The patterns of ``group`` records; chances add up to one, each known to within ``ERROR``.

    Of one record more than ``MOST`` are taken together, as that with the least batches: fewer that
    are moved tell less, so that such patterns are for what is attained alone.
    """
    if group == 1:
        return _one_record(epoch)
    if epoch.times > 1 or group > MOST_RECORDS:
        raise NotCovered(
            f"coincidences of {group} records in {epoch.times} bins each are not added up"
        )
    return _several_records(epoch, group)


def _one_record(epoch: RandomAllocation) -> tuple[Pattern, ...]:
    first, chances = _hypergeometric(epoch.bins, epoch.times, epoch.steps)
    counts = first + np.arange(chances.size)
    if chances.size <= MOST:
        chosen = zip(counts.tolist(), chances.tolist(), strict=True)
        return tuple(Pattern(chance, (1,) * number) for number, chance in chosen)
    beyond = np.cumsum(chances)
    cells = np.searchsorted(-_BEYOND, -beyond)
    found = []
    for cell in np.unique(cells):
        here = cells == cell
        found.append(Pattern(float(chances[here].sum()), (1,) * int(counts[here][0])))
    return tuple(found)


def _hypergeometric(bins: int, times: int, steps: int) -> tuple[int, FloatArray]:
    """Chances of J = first, first + 1, ... from their ratios, outwards from the largest."""
    first, last = max(0, times - (bins - steps)), min(times, steps)
    mode = min(max((times + 1) * (steps + 1) // (bins + 2), first), last)
    j = np.arange(first, last, dtype=np.float64)
    # P(J = j + 1) / P(J = j)
    ratios = (times - j) * (steps - j) / ((j + 1.0) * (bins - steps - times + j + 1.0))
    up = np.cumprod(ratios[mode - first :])
    down = np.cumprod(1.0 / ratios[: mode - first][::-1])[::-1]
    sizes = np.concatenate([down, [1.0], up])
    return first, sizes / sizes.sum()


def _several_records(epoch: RandomAllocation, group: int) -> tuple[Pattern, ...]:
    bins, steps = epoch.bins, epoch.steps
    found = []
    for inside in range(group + 1):
        share = math.comb(group, inside) * (bins - steps) ** (group - inside)
        for sizes in _partitions(inside, inside):
            if len(sizes) > steps:
                continue
            ways = math.factorial(inside)
            for size, times in Counter(sizes).items():
                ways //= math.factorial(size) ** times * math.factorial(times)
            number = share * ways * math.perm(steps, len(sizes))
            if number:
                found.append(Pattern(number / bins**group, sizes))
    return tuple(found)


def _partitions(total: int, largest: int) -> Iterator[tuple[int, ...]]:
    """The ways to write ``total`` as a sum, largest part first."""
    if total == 0:
        yield ()
    for part in range(min(total, largest), 0, -1):
        for rest in _partitions(total - part, part):
            yield (part, *rest)


# An epoch that moves several batches, from above: random allocations one after another.
#
# The record with most copies comes first: c_1 >= c_2 >= ... copies in distinct batches of the k
# that are released. Cut these at random into groups, as many as there can be moves, of sizes
# rounded up and down, and let the j-th move be in the j-th group: that is the same law, so that by
# Jensen's inequality the epoch is no worse than one with the groups known. And that is no worse
# than a chain of random allocations, one to each group, whose moves are independent: c_j is at
# most what the most telling moves before it make of it (docs/derivations/epochs.md).


#: Spacing over the deviation of one allocation, and how small deltas are followed.
_FRACTION, _SMALLEST = 0.02, 1e-30
#: What chances of moves of several copies are multiples of.
_UNIT = 2.0**-45


@dataclass(frozen=True)
class Link:
    """One allocation of a chain: the number of batches, and the chances of 1, 2, ... copies."""

    steps: int
    chances: tuple[float, ...]

    @property
    def inside(self) -> float:
        """The chance of any copy at all."""
        return min(1.0, sum(self.chances))

    @property
    def most(self) -> int:
        """The largest number of copies."""
        return max(copies for copies, chance in enumerate(self.chances, 1) if chance > 0.0)

    @property
    def alike(self) -> bool:
        """Whether there are as many copies as that, or none."""
        return sum(chance > 0.0 for chance in self.chances) == 1

    @property
    def certain(self) -> bool:
        """Whether one batch is moved in any case, by one number of copies."""
        return self.steps == 1 and self.inside == 1.0 and self.alike


def links(found: tuple[Pattern, ...], steps: int) -> tuple[Link, ...]:
    """The chain of the patterns of an epoch of which ``steps`` batches are released."""
    most = max(len(one.copies) for one in found)
    if len(found) == 1:
        laws = [(*(0.0,) * (copies - 1), 1.0) for copies in found[0].copies]
    else:
        laws = [_most_telling(found, place) for place in range(most)]
    # In proportion to how often they are used, groups tell least; each has a batch at least.
    used = np.cumsum([sum(law) for law in laws])
    ends = np.rint((steps - most) * used / used[-1]).astype(np.int64) + np.arange(1, most + 1)
    sizes = np.diff(ends, prepend=0).tolist()
    return tuple(Link(size, law) for size, law in zip(sizes, laws, strict=True))


def _most_telling(found: tuple[Pattern, ...], place: int) -> tuple[float, ...]:
    """Chances of 1, 2, ... copies whose tails are the largest, whatever came before."""
    after: dict[tuple[int, ...], list[tuple[int, float]]] = {}
    for one in found:
        if len(one.copies) >= place:
            here = one.copies[place] if len(one.copies) > place else 0
            after.setdefault(one.copies[:place], []).append((here, one.chance))
    tails = []
    for copies in range(1, max(c for law in after.values() for c, _ in law) + 1):
        shares = [
            sum(w for c, w in law if c >= copies) / sum(w for _, w in law) for law in after.values()
        ]
        tails.append(min(1.0, max(shares) * (1.0 + 2.0 * ERROR)))
    return tuple(max(0.0, a - b) for a, b in itertools.pairwise([*tails, 0.0]))


def whole_weights(chances: tuple[float, ...]) -> tuple[float, ...]:
    """Chances of 1, 2, ... copies given any, whose sum is one without any rounding.

    Chances of more copies than one are rounded up to multiples of ``_UNIT``, which moves more.
    """
    inside, left, weights = sum(chances), 1.0, []
    for chance in reversed(chances[1:]):
        weight = min(math.ceil(chance / inside * (1.0 + 4.0 * ERROR) / _UNIT) * _UNIT, left)
        left -= weight
        weights.append(weight)
    return (left, *reversed(weights))


def chained(
    chain: tuple[Link, ...],
    farthest: float,
    allocated: Callable[[Link], DominatingPair],
    fine: float = 1.0,
) -> DominatingPair:
    """What dominates a chain; nor is it worse than a Gaussian release that far away.

    It is composed on a grid ``fine`` times as fine as usual.
    """
    counted = Counter(chain)
    made = _Chain([allocated(link) for link in counted], list(counted.values()), farthest, fine)
    return DominatingPair.of(made.ahead) if made.self_dual else made.both


class _Chain:
    """Allocations one after another, composed in both orders when they are asked for."""

    def __init__(
        self, pairs: list[DominatingPair], counts: list[int], farthest: float, fine: float
    ) -> None:
        self._pairs, self._counts, self._fraction = pairs, counts, _FRACTION / fine
        self._plain = GaussianBound(farthest * (1.0 + 1e-15), 1.0)
        self.self_dual = all(pair.self_dual for pair in pairs)
        self.ahead = _Side(self._plain, lambda: self._composed(self._pairs))
        behind = _Side(self._plain, lambda: self._composed([pair.swapped for pair in pairs]))
        self.both = DominatingPair(self.ahead, behind)

    def _composed(self, pairs: list[DominatingPair]) -> Profile:
        if self._counts == [1]:
            return pairs[0].forward
        curve = UpperCurve(pairs, self._counts, survey(pairs, self._counts).grid(self._fraction))
        return lambda epsilon: curve.curve(epsilon, _SMALLEST)


class _Side:
    """One order of a chain: its profile, made when it is asked for, or a plain release."""

    def __init__(self, plain: Profile, make: Callable[[], Profile]) -> None:
        self._plain, self._make = plain, make

    def __call__(self, epsilon: FloatArray) -> FloatArray:
        """The profile at many epsilons, rounded up."""
        return np.asarray(np.minimum(self._composed(epsilon), self._plain(epsilon)))

    @cached_property
    def _composed(self) -> Profile:
        return self._make()


# An epoch whose pattern is known, by joint convexity: the mean over patterns of what it is then.
#
# Under add_remove Q is the same for all patterns, so that with chances w_c and any a_c >= 0
#
#     P - alpha Q = sum_c w_c (P_c - a_c Q)                 if sum_c w_c a_c = alpha,
#     Q - alpha P = alpha sum_c w_c (a_c Q - P_c)           if sum_c w_c a_c = 1 / alpha:
#
# the observer need not be told the pattern to be charged for less than alpha times Q in each. The
# a_c at which all tests reject equally often under Q are proposed off a table; whichever they are,
# the bound is evaluated at them.


#: How small profiles are looked at for the proposals, and at how many points on either side.
_TABLED, _POINTS = 1e-18, 600


def mixed(
    found: tuple[Pattern, ...], made: Callable[[Pattern], DominatingPair], *, swapped: bool
) -> DominatingPair:
    """What dominates an epoch, from what is ``made`` of it if a pattern is known.

    Where records are ``swapped``, every pattern has a Q of its own.
    """
    # Without a copy in what is released P and Q are the same.
    parts = [(one.chance, made(one)) for one in found if one.copies]
    if swapped:
        return DominatingPair.of(_Mean([(chance, pair.forward) for chance, pair in parts]))
    absent = sum(one.chance for one in found if not one.copies)
    split = _SplitMean(parts, absent)
    return DominatingPair(split.ahead, split.behind)


class _Mean:
    """A mean of profiles."""

    def __init__(self, parts: list[tuple[float, Profile]]) -> None:
        self._parts = parts

    def __call__(self, epsilon: FloatArray) -> FloatArray:
        """The profile at many epsilons, rounded up."""
        means = [chance * (1.0 + 2.0 * ERROR) * profile(epsilon) for chance, profile in self._parts]
        return np.asarray(np.minimum(np.sum(means, axis=0), 1.0))


class _SplitMean:
    """Both orders of a mixture against one Q, alpha being split among the patterns."""

    def __init__(self, parts: list[tuple[float, DominatingPair]], absent: float) -> None:
        self._chances, self._pairs = [chance for chance, _ in parts], [pair for _, pair in parts]
        self._absent = absent
        self._alike = [
            _Mean(list(zip(self._chances, profiles, strict=True)))
            for profiles in (
                [pair.forward for pair in self._pairs],
                [pair.backward for pair in self._pairs],
            )
        ]

    def ahead(self, epsilon: FloatArray) -> FloatArray:
        """H(P || Q) at many epsilons, rounded up."""
        found, alpha = self._alike[0](epsilon), np.exp(np.minimum(epsilon, 600.0))
        # The pattern without a copy has no excess over Q itself.
        left = alpha * (1.0 - 1e-11) - self._absent * (1.0 + 2.0 * ERROR)
        at = self._proposed(left)
        total = np.zeros(epsilon.size)
        for chance, pair, a in zip(self._chances, self._pairs, at, strict=True):
            total += chance * (1.0 + 2.0 * ERROR) * _excess(pair, a)
        return np.minimum(found, np.where(left > 0.0, total * (1.0 + 1e-12), 1.0))

    def behind(self, epsilon: FloatArray) -> FloatArray:
        """H(Q || P) at many epsilons, rounded up."""
        found, alpha = self._alike[1](epsilon), np.exp(np.minimum(epsilon, 600.0))
        left = (1.0 + 1e-11) / alpha - self._absent * (1.0 - 2.0 * ERROR)
        at = self._proposed(left)
        total = np.zeros(epsilon.size)
        for chance, pair, a in zip(self._chances, self._pairs, at, strict=True):
            # a H_{1/a}(Q || P_c)
            total += chance * (1.0 + 2.0 * ERROR) * _excess(pair.swapped, 1.0 / a) * a
        with np.errstate(over="ignore"):
            split = total * alpha * (1.0 + 1e-12)
        # Where a record is absent often enough Q is below alpha P everywhere.
        return np.minimum(found, np.where(left > 0.0, split, 0.0))

    def _proposed(self, left: FloatArray) -> list[FloatArray]:
        """An a_c for every pattern with a copy, whose mean over chances is ``left``."""
        wanted = np.where(left > 0.0, left, 1.0)
        keys, logs = self._table
        shares = np.interp(np.log(wanted), logs[0], keys)
        at = [np.exp(np.interp(shares, keys, log_a)) for log_a in logs[1:]]
        mean = sum(chance * a for chance, a in zip(self._chances, at, strict=True))
        return [np.maximum(a * (wanted / mean), 1e-290) for a in at]

    @cached_property
    def _table(self) -> tuple[FloatArray, list[FloatArray]]:
        """Shares that tests reject; the log of the mean of a_c there, and of every a_c."""
        each = [_levels(pair) for pair in self._pairs]
        keys = np.unique(np.concatenate([key for _, key in each]))[::-1]
        # np.interp needs what increases: more is rejected where a is smaller.
        at = [np.interp(-keys, -key, log_a) for log_a, key in each]
        mean = sum(chance * np.exp(a) for chance, a in zip(self._chances, at, strict=True))
        return -keys, [np.log(mean), *at]


def _excess(pair: DominatingPair, a: FloatArray) -> FloatArray:
    """H_a(P || Q) at any a > 0, rounded up: below one it is 1 - a + a H_{1/a}(Q || P)."""
    log_a, out = np.log(a), np.empty(a.size)
    eps = np.abs(log_a)
    eps = np.maximum(eps - 1e-13 * (1.0 + eps), 0.0)
    large = log_a >= 0.0
    if np.any(large):
        out[large] = pair.forward(eps[large])
    if not np.all(large):
        small = a[~large]
        out[~large] = (1.0 - small) + small * pair.backward(eps[~large])
    return out


def _levels(pair: DominatingPair) -> tuple[FloatArray, FloatArray]:
    """Increasing log a, and there the log odds of being rejected under Q by the test at a."""
    logs, odds = [], []
    for profile, sign in ((pair.backward, -1.0), (pair.forward, 1.0)):
        end = min(first_below(profile, _TABLED), 600.0)
        eps = np.linspace(0.0, end, _POINTS)
        value = profile(eps)
        if sign > 0.0:
            # H falls by the chance under Q per unit of a.
            share = -np.diff(value) / np.diff(np.exp(eps))
        else:
            # So does a H_{1/a}(Q || P), by the chance of the opposite.
            inverse = np.exp(-eps)
            share = np.diff(inverse * value) / np.diff(inverse)
        share = np.clip(share, 1e-300, 1.0 - 1e-15)
        odd = sign * (np.log(share) - np.log1p(-share))
        middle = sign * 0.5 * (eps[1:] + eps[:-1])
        order = slice(None, None, int(sign))
        logs.append(middle[order])
        odds.append(odd[order])
    log_a, odd = np.concatenate(logs), np.minimum.accumulate(np.concatenate(odds))
    return log_a, odd - 1e-9 * np.arange(odd.size)


def least(one: DominatingPair, other: DominatingPair) -> DominatingPair:
    """The smaller of two upper bounds of one profile, in both orders."""
    ahead = _Least(one.forward, other.forward)
    if one.self_dual and other.self_dual:
        return DominatingPair.of(ahead)
    return DominatingPair(ahead, _Least(one.backward, other.backward))


class _Least:
    """The smaller of two profiles."""

    def __init__(self, one: Profile, other: Profile) -> None:
        self._one, self._other = one, other

    def __call__(self, epsilon: FloatArray) -> FloatArray:
        """The profile at many epsilons."""
        return np.minimum(self._one(epsilon), self._other(epsilon))


# An epoch that moves several batches, from below: what an observer of one sum attains.
#
# Every batch is put into a cell of its outcomes, and the observer sees the sum of the cells'
# numbers alone (``epochs/observed.py``). Whichever batches are moved, the sum has the same law:
# with r, p, p_2 the chances of cells for a batch that is not moved, moved by one copy, by two, it
# is the mean over patterns of r^{*(k - ...)} * p * ... So both laws are exact. The numbers are
# those of
#
#     f(g) = log sum_c w_c e^{c s g - c^2 s^2 / 2},
#
# w_c the chance that a given batch holds c copies, which is the loss of one batch if all batches
# were drawn independently; under replace_one that less its mirror image. Any numbers would do.


#: Spacing times tilt times the root of the number of batches, and cells before they grow.
_FINENESS, _EVEN = 0.025, 250
#: Where outcomes of one batch end, and how many of them are looked at.
_END, _LOOKS = 36.0, 20_001
#: How small chances of tests are followed, and by how many aims at most.
_SMALLEST_SEEN_SUMS, _MOST_AIMS = 1e-17, 48
#: Tests reach this far from their aim, in units of one over the tilt, before the next ones begin.
_COVERED, _GENTLEST = 2.5, 0.1
#: Deviations below the mean at which the bulk of a law begins.
_BULK = 8.0
#: Cells become this much wider at most, and the numbers of one batch this large.
_WIDEST, _LARGEST = 64.0, 2.0**40
#: Where so few batches are released the observer sees the cells of all of them, without their
#: order: so many cells together at most, out to so many deviations beyond the means, and so many
#: tests.
_FEWEST_SEEN, _JOINT_CELLS, _JOINT_REACH, _JOINT_TESTS = 7, 900_000, 4.5, 4000
#: Cells of one batch at most.
_CELLS_OF_ONE = 1500
#: No tests at all, which attain nothing.
_NONE = Rejections(np.zeros(0), np.zeros(0))


class SeenSum:
    """What the sum of the numbers of all batches tells, made when it is asked for."""

    def __init__(
        self,
        found: tuple[Pattern, ...],
        shift: float,
        steps: int,
        *,
        swapped: bool,
        fine: float = 1.0,
    ) -> None:
        """Cells are ``fine`` times as fine as usual."""
        self._patterns, self._steps = found, steps
        self._fineness, self._even = _FINENESS / fine, math.ceil(fine * _EVEN)
        # Swapped records are half of the shift on either side of none.
        self._shift, self._swapped = 0.5 * shift if swapped else shift, swapped

    def pair(self, name: str, *, exchanged: bool = False) -> SeenPair:
        """The pair of all tests, in this order or the other."""
        return SeenPair(name, self, exchanged)

    @cached_property
    def ahead(self) -> tuple[Rejections, ...]:
        """Tests that reject large sums: chances under the moved and the other law."""
        return self._tests(mirrored=False)

    @cached_property
    def behind(self) -> tuple[Rejections, ...]:
        """Tests that reject small sums, P and Q exchanged."""
        return self.ahead if self._swapped else self._tests(mirrored=True)

    def _tests(self, *, mirrored: bool) -> tuple[Rejections, ...]:
        joint = (self._joint_tests(mirrored),) if self._steps <= _FEWEST_SEEN else ()
        return self._tests_of_sums(mirrored) + joint

    def _joint_tests(self, mirrored: bool) -> Rejections:
        """Tests of the cells of all batches by their likelihood ratio."""
        steps, each = self._steps, 2
        while math.comb(each + steps, steps) <= _JOINT_CELLS and each < _CELLS_OF_ONE:
            each += 1
        high = _JOINT_REACH + self._farthest
        ends = np.linspace(-high if self._swapped else -_JOINT_REACH, high, each - 1)
        cells = OutcomeCells(1.0, np.arange(each), ends)
        plain, worst = cells.law(0.0)
        which, ways = _without_order(each, steps)
        base = ways * np.prod(plain.masses[which], axis=1)
        ratios: dict[int, FloatArray] = {}
        sides = []
        for sign in (1, -1) if self._swapped else (1, 0):
            total = np.zeros(ways.size)
            for one in self._patterns:
                copies = tuple(sign * c for c in one.copies)
                for new in set(copies) - set(ratios):
                    law, off = cells.law(new * self._shift)
                    ratios[new] = (law.masses / plain.masses)[which]
                    worst = max(worst, off)
                placed = set(itertools.permutations((*copies, *(None,) * (steps - len(copies)))))
                for where in sorted(placed, key=str):
                    moved = np.full(ways.size, one.chance / len(placed))
                    for batch, move in enumerate(where):
                        if move is not None:
                            moved *= ratios[move][:, batch]
                    total += moved
            sides.append(total * base)
        p, q = sides[::-1] if mirrored else sides
        with np.errstate(divide="ignore", invalid="ignore"):
            order = np.argsort(-np.where(p > 0.0, p / q, 0.0), kind="stable")
        error = math.expm1(3.0 * steps * worst * (1.0 + 1e-6)) + ERROR
        error += 4.0 * ROUNDOFF * p.size
        p = np.cumsum(p[order]) * (1.0 - error)
        q = np.cumsum(q[order]) * (1.0 + error)
        # Evenly by the logarithm of what is rejected, so that rare outcomes are told apart.
        last = int(np.searchsorted(p, 1.0 - 2.0 * error)) or 1
        logs = np.log(np.maximum(p[:last], 1e-300))
        kept = np.searchsorted(logs, np.linspace(-40.0, float(logs[-1]), _JOINT_TESTS))
        kept = np.unique(np.minimum(kept, last - 1))
        sensible = kept[(p[kept] > q[kept]) & (q[kept] < 1.0)]
        return Rejections(p[sensible], q[sensible])

    def _tests_of_sums(self, mirrored: bool) -> tuple[Rejections, ...]:
        g, f = self._numbers
        weights = np.exp(-0.5 * np.square(g))
        weights /= weights.sum()
        spread = math.sqrt(float(weights @ np.square(f - weights @ f)))
        try:
            rough = self._laws(self._cells(0.1 * spread), mirrored)
            near, total = (Composition(max(law, key=lambda part: part[0])[1]) for law in rough[:2])
        except NumericalFailure:  # no test tells nothing, never too much
            return (_NONE,)
        # Below its bulk the law that is rejected gladly is rejected anyway.
        aim = max(total.mean + total.deviation, near.mean - _BULK * near.deviation)
        aim = min(aim, 0.5 * (total.mean + total.largest))
        found: list[Rejections] = []
        least = _GENTLEST / (spread * math.sqrt(self._steps))
        while aim < total.largest and len(found) < _MOST_AIMS:
            tilt = max(total.best_tilt(aim), least)
            tests = self._around(tilt, aim, mirrored)
            found.append(tests)
            if tests.p.size and float(tests.p.min()) < _SMALLEST_SEEN_SUMS:
                break
            # Tests begin where those before them end.
            end = aim + _COVERED / tilt
            aim = end + _COVERED / max(total.best_tilt(end), least)
        return tuple(found) or (_NONE,)

    def _around(self, tilt: float, aim: float, mirrored: bool, wider: float = 1.0) -> Rejections:
        spacing = wider * self._fineness / (tilt * math.sqrt(self._steps))
        try:
            cells = self._cells(spacing)
            with_p, with_q, error = self._laws(cells, mirrored)
            # The sum is about the log of the likelihood ratio: one less undoes it.
            return rejecting_above(with_p, with_q, error, tilt, aim, max(0.0, tilt - 1.0))
        except (TooLong, NumericalFailure):
            if wider >= _WIDEST:  # fewer tests tell less, never too much
                return _NONE
            return self._around(tilt, aim, mirrored, 2.0 * wider)

    def _laws(self, cells: OutcomeCells, mirrored: bool) -> tuple[Mixed, Mixed, float]:
        """The laws of the sum with the records on either side, and the error of their chances."""
        plain, off = cells.law(0.0)
        plain = _turned(plain, mirrored)
        laws: dict[int, DiscreteLoss] = {0: plain}
        worst = off
        for copies in {c for one in self._patterns for c in one.copies}:
            for sign in (1, -1) if self._swapped else (1,):
                law, more = cells.law(sign * copies * self._shift)
                laws[sign * copies] = _turned(law, mirrored)
                worst = max(worst, more)

        def mixed(sign: int) -> Mixed:
            parts: list[tuple[float, list[Part]]] = []
            for one in self._patterns:
                moved = Counter(sign * c for c in one.copies)
                rest = self._steps - len(one.copies)
                drawn = [(plain, rest), *((laws[c], count) for c, count in moved.items())]
                parts.append((one.chance, [part for part in drawn if part[1]]))
            return parts

        error = math.expm1(self._steps * worst * (1.0 + 1e-6)) + ERROR
        moved, other = mixed(1), mixed(-1) if self._swapped else [(1.0, [(plain, self._steps)])]
        return (other, moved, error) if mirrored else (moved, other, error)

    def _cells(self, spacing: float) -> OutcomeCells:
        return _cells(*self._numbers, spacing, self._farthest, self._even)

    @cached_property
    def _numbers(self) -> tuple[FloatArray, FloatArray]:
        """Outcomes of one batch, increasing, and f there."""
        g = np.linspace(-_END, _END, _LOOKS)
        chances: dict[int, float] = {}
        for one in self._patterns:
            for copies in one.copies:
                chances[copies] = chances.get(copies, 0.0) + one.chance / self._steps
        none = max(0.0, 1.0 - sum(chances.values()))

        def loss(at: FloatArray) -> FloatArray:
            terms = [np.full(at.size, math.log(none) if none > 0.0 else -np.inf)]
            for copies, chance in chances.items():
                s = copies * self._shift
                terms.append(math.log(chance) + s * at - 0.5 * s * s)
            return np.asarray(np.logaddexp.reduce(np.stack(terms), axis=0))

        f = loss(g)
        return g, f - loss(-g) if self._swapped else f

    @property
    def _farthest(self) -> float:
        return self._shift * max(max(one.copies, default=0) for one in self._patterns)


def _without_order(each: int, steps: int) -> tuple[IntArray, FloatArray]:
    """Numbers of cells of all batches, increasing (rows), and how many orders these have."""
    which = np.arange(each)[:, None]
    run, ways = np.ones(each), np.ones(each)
    for number in range(2, steps + 1):
        last = which[:, -1]
        count = each - last
        first = np.repeat(np.cumsum(count) - count, count)
        added = np.arange(first.size) - first + np.repeat(last, count)
        again = added == np.repeat(last, count)
        run = np.where(again, np.repeat(run, count) + 1.0, 1.0)
        ways = np.repeat(ways, count) * number / run
        which = np.column_stack([np.repeat(which, count, axis=0), added])
    return which, ways


class SeenPair:
    """A concrete pair that the epoch attains."""

    lost = 0.0
    constant_ends = False

    def __init__(self, name: str, seen: SeenSum, exchanged: bool) -> None:
        self.name, self._seen, self._exchanged = name, seen, exchanged

    @cached_property
    def _pair(self) -> OutcomePair:
        sides = self._seen.ahead, self._seen.behind
        return rejecting_pair(self.name, *(sides[::-1] if self._exchanged else sides))

    def outcomes(self, spacing: float, points: IntArray) -> tuple[FloatArray, FloatArray]:
        """Probabilities under P and Q."""
        return self._pair.outcomes(spacing, points)

    def attained(self, epsilon: float) -> float:
        """What the best test attains, rounded down."""
        return self._pair.attained(epsilon)


def _cells(
    g: FloatArray, f: FloatArray, spacing: float, farthest: float, even: int = _EVEN
) -> OutcomeCells:
    """Cells of f, each between the middles of neighbouring numbers."""
    centre = float(np.interp(0.0, g, f))
    reach = _LARGEST * spacing
    low, high = min(float(f[0]), -2.0 * spacing), max(float(f[-1]), 2.0 * spacing)
    low, high = max(low, -reach), min(high, reach)
    index = places(spacing, low, high, even, min(max(centre, low), high))
    middles = 0.5 * (index[1:] + index[:-1]).astype(np.float64) * spacing
    rising = np.append(True, np.diff(f) > 0.0)
    ends = np.interp(middles, f[rising], g[rising])
    return OutcomeCells.trimmed(spacing, index, ends, farthest)


def _turned(law: DiscreteLoss, mirrored: bool) -> DiscreteLoss:
    """The law of the number, or of the number with the other sign."""
    if not mirrored:
        return law
    return DiscreteLoss(law.spacing, -law.index[::-1], law.masses[::-1].copy())
