"""What may be spent: the noise, steps or sizes that meet a target, and budgets of runs.

In order: the search that all share, begun from a good guess; what a calibration returns; noise for
a risk; noise for an epsilon; steps and sizes for a given noise; what a run may spend, certified
before data are touched.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from typing import Any, Generic, Protocol, TypeVar, overload

import numpy as np
from scipy.fft import next_fast_len

from mustdp.accounting.account import Account, account, in_words, relation_of
from mustdp.accounting.atoms import atom_pairs
from mustdp.accounting.bounds import Bounds
from mustdp.accounting.plan import (
    Banded,
    InEpoch,
    Plan,
    Subsample,
    atoms,
    repeat,
    steps_of,
    subsample,
)
from mustdp.accounting.pld.discretise import DiscretePair, MixturePair
from mustdp.accounting.pld.readoff import first_below
from mustdp.accounting.risk import USUAL_FPR, Risk
from mustdp.errors import InvalidParameter, MustdpError, NotCovered, NumericalFailure
from mustdp.limits import DELTA_RANGE, LARGEST_NOISE, MOST_STEPS, TARGET_RANGE
from mustdp.mechanisms.mechanism import (
    GaussianNoise,
    GroupProfile,
    Mechanism,
    NoiseProfiles,
    Proof,
    gaussian,
)
from mustdp.mechanisms.registry import RegisteredMechanism, mechanisms, registered
from mustdp.mechanisms.relation import Relation, resolve_relation
from mustdp.numerics import checks
from mustdp.numerics.arrays import FloatArray
from mustdp.numerics.checks import warn_of_large_delta
from mustdp.numerics.formatting import as_stated, readable
from mustdp.sampling.epochs import Epoch, RandomAllocation, Sampling, Shuffle
from mustdp.sampling.schemes import Poisson, Scheme, scheme_by_name

# One search for any parameter: the best value whose certified epsilon meets a target.
#
# The caller says how a value becomes a plan, and by which rule values are tried: the smallest
# noise (a real number), or the largest size (a whole one). Every value tried is accounted for; one
# that cannot be certified counts as over the target. What is returned was accounted for from both
# sides and found within the target: a rule that assumed too much could miss a better value, never
# return one over the target.
#
# The rule for noise begins at a guess and asks for what the account will say,
# mostly twice. The rule for sizes asks one pair per step, which is quick; where a family of pairs
# says less, what it found is moved closer to the target by a few full accounts.


Value = TypeVar("Value", int, float)
#: The certified epsilon at a value of the parameter, at a relative accuracy.
Cost = Callable[[Value, float], float]

#: Accuracy of the account of a size.
_FINE = 1e-3
#: A size need not come closer than the first to its target; the second is aimed at.
_NEAR, _AIM = 1.0 - 2e-3, 1.0 - 8e-4
#: Full accounts made to come closer to the target than one pair per step allows.
_MOST_ACCOUNTS = 6
#: Accounts that are kept while searching: the one that is returned is mostly among the last.
_KEPT = 4


@dataclass(frozen=True)
class EpsilonTarget:
    """At most this epsilon at this delta; the relation is that of the plan unless it is stated.

    ``composition`` is that of the accounts: "pair" is quicker and needs more noise.
    """

    epsilon: float
    delta: float
    relation: str | None = None
    #: How many records of one person may differ.
    group: int = 1
    composition: str = "auto"
    #: Of every release, where it is known.
    dimension: int | None = None

    def __post_init__(self) -> None:
        epsilon = checks.real("epsilon", self.epsilon, **TARGET_RANGE)
        object.__setattr__(self, "epsilon", epsilon)
        delta = checks.real("delta", self.delta, **DELTA_RANGE)
        object.__setattr__(self, "delta", delta)
        if self.relation is not None:
            object.__setattr__(self, "relation", Relation.read(self.relation))

    def account(self, plan: Plan, *, quick: bool = False) -> Account:
        """The account that is asked about a plan, or one that takes less time."""
        return account(
            plan,
            relation=self.relation,
            composition="quick" if quick and self.composition == "auto" else self.composition,
            dimension=self.dimension,
            group=self.group,
        )


@dataclass(frozen=True)
class MetTarget(Generic[Value]):
    """A value that meets its target, and the account that says so."""

    value: Value
    plan: Plan
    relation: Relation
    epsilon: Bounds


def meet(
    target: EpsilonTarget,
    plan_of: Callable[[Value], Plan],
    rule: Callable[[Cost[Value], float], Value],
    name: str,
    *,
    in_full: bool = False,
) -> MetTarget[Value]:
    """Search by the rule; account for what it found.

    A rule that asks ``in_full`` is told what the composition that was asked for says. Others are
    told what one pair per step says, and what they found is moved closer to the target.
    """
    tries: list[NumericalFailure | None] = []
    known: dict[Value, float] = {}
    accounts: dict[Value, Account] = {}

    def accounted(value: Value) -> Account:
        if value not in accounts:
            for old in list(accounts)[: 1 - _KEPT]:
                del accounts[old]
            accounts[value] = target.account(plan_of(value))
        return accounts[value]

    def spent(value: Value, accuracy: float) -> float:
        tries.append(None)
        try:
            rough = in_full and accuracy >= _COARSE
            tried = target.account(plan_of(value), quick=True) if rough else accounted(value)
            if in_full and tried.has_family:
                known[value] = tried.tightest_epsilon(target.delta)
            else:
                known[value] = tried.certified_epsilon(target.delta, accuracy)
        except NumericalFailure as failure:
            tries[-1] = failure
            known[value] = math.inf  # not certified: counts as over the target
        least = isinstance(value, int) and value == 1
        if least and target.epsilon < known[value] < math.inf:
            known[value] = min(known[value], whole(value))  # it may fit all the same
        return known[value]

    def whole(value: Value) -> float:
        return accounted(value).epsilon(target.delta).upper

    try:
        value = rule(spent, target.epsilon)
    except InvalidParameter:
        if len(tries) == 1 and tries[0] is not None:  # not even the least could be certified
            raise tries[0] from None
        raise
    if not in_full and accounted(value).has_family and whole(value) <= target.epsilon:
        value = _closer(value, whole, known, target.epsilon)
    settled = accounted(value)
    bounds = settled.epsilon(target.delta)
    if bounds.upper > target.epsilon:  # the search may have used a finer grid; either is certified
        bounds = replace(bounds, upper=settled.certified_epsilon(target.delta, _FINE))
    if not bounds.lower <= bounds.upper <= target.epsilon:
        raise NumericalFailure(
            f"{name} = {value!r} was found for epsilon={target.epsilon!r}, but its account says "
            f"{bounds!r}"
        )
    return MetTarget(value, settled.plan, settled.relation, bounds)


def _closer(
    value: Value, whole: Callable[[Value], float], known: dict[Value, float], target: float
) -> Value:
    """From a size that meets the target to a larger one, along a straight line of logarithms.

    The slope is that of one pair per step at first, then that of the last two full accounts; what
    is over the target bounds what is tried next.
    """
    best, spent, over, slope = value, whole(value), None, _slope(value, known)
    for _ in range(_MOST_ACCOUNTS):
        if spent >= _NEAR * target or not spent > 0 or not slope > 0:
            break
        move = math.log(_AIM * target / spent) / slope
        trial = best * math.exp(min(max(move, -2.0), 2.0))
        if over is not None and not best < trial < over:
            trial = math.sqrt(best * over)
        trial = max(math.floor(trial), best + 1)
        if over is not None and trial >= over:
            trial = over - 1
        if trial <= best:
            break
        value = type(best)(trial)
        try:
            cost = whole(value)
        except (NumericalFailure, InvalidParameter):  # not certified, or no such size
            cost = math.inf
        if 0 < cost < math.inf and cost != spent:
            slope = math.log(cost / spent) / math.log(value / best) or slope
        if cost <= target:
            best, spent = value, cost
        else:
            over = value
    return best


def _slope(value: Value, known: dict[Value, float]) -> float:
    """d log epsilon / d log value between ``value`` and the next one that was tried."""
    here = known[value]
    others = [v for v, e in known.items() if v != value and 0 < e < math.inf and e != here]
    if not others or not 0 < here < math.inf:
        return 0.0
    other = min(others, key=lambda v: abs(math.log(v / value)))
    return math.log(known[other] / here) / math.log(other / value)


def largest_size(spent: Cost[int], target: float, *, name: str, most: int) -> int:
    """Double, then bisect, for the largest size from 1 to ``most`` within ``target``."""
    least = spent(1, _FINE)
    if not least <= target:
        reached = (
            f"at least {readable(least, 'up', 6)}"
            if math.isfinite(least)
            else "larger, or the noise stronger,"
        )
        allowed = f"must be {reached} for any {{{name}}} to fit"
        raise InvalidParameter.refusing("epsilon", allowed, repr(target), mentions=(name,))
    size, over = 1, most + 1
    while 2 * size < over:
        size, over = (2 * size, over) if spent(2 * size, _FINE) <= target else (size, 2 * size)
    while over - size > 1:
        trial = (size + over) // 2
        size, over = (trial, over) if spent(trial, _FINE) <= target else (size, trial)
    return size


# A first guess of epsilon, so that a search begins close to its end.
#
# One concrete pair of data sets is composed on a coarse grid, without any care for rounding or for
# what lies outside, and raised by as much as what is certified mostly lies above it: a millisecond
# or a few, and mostly within a few per cent. The search multiplies it by a factor that it learns
# from certified values, so nothing depends on it but the number of accounts that are made.


#: Outcomes of one step, points of the grid, and how many deviations the grid spans; grids for rare
#: losses that reach further are longer, up to some length.
_OUTCOMES, _POINTS, _DEVIATIONS, _MOST_POINTS = 1500, 8192, 24.0, 65536
#: Losses rarer than this share of delta, over all steps, do not count.
_RARE = 1e-3
#: What is certified lies above what one pair attains by about so much: where data sets may choose
#: between orders in every step, where one pair is the worst, and where batches are shuffled.
_CHOOSING, _FIXED, _SHUFFLED = 1.0115, 1.0007, 1.3
#: Shifts beyond this are taken as this, and outcomes of all batches without the record.
_FARTHEST, _OTHERS = 25.0, 41
#: Exponents beyond this are taken as this.
_LARGEST = 600.0
#: Smaller deltas are lost in the rounding of a transform.
_SMALLEST_DELTA = 1e-12


def rough_epsilon(plan: Plan, delta: float, relation: str | None, group: int) -> float | None:
    """About the epsilon of a plan at ``delta``; None where no guess can be made."""
    if not delta >= _SMALLEST_DELTA:
        return None
    steps, counted, above, shuffled = [], atoms(plan), _FIXED, 0.0
    used = relation_of(counted, relation)
    try:
        for atom, count in counted.items():
            inner = atom.inner if isinstance(atom, Subsample | InEpoch) else atom
            if not isinstance(inner, Mechanism):
                return None
            if isinstance(atom, InEpoch) and isinstance(atom.epoch, RandomAllocation):
                replaced = used == Relation.REPLACE_ONE
                steps.append((*_epoch_losses(atom, group, replaced=replaced), count))
                continue
            if isinstance(atom, InEpoch) and inner.proof is Proof.GAUSSIAN:
                # Where all others are equal, a shuffled epoch attains what allocation with twice
                # the shift does when a record is left out; certified is more, by a slow factor.
                moved = 2 * group if used == Relation.REPLACE_ONE else group
                steps.append((*_epoch_losses(atom, moved, replaced=False), count))
                shuffled += count * atom.inner.shift_for(moved) ** 2
                above = _SHUFFLED
                continue
            families = atom_pairs(atom, used, "certified", group).families
            pair = families.get("aligned") or families.get("symmetric")
            if not isinstance(pair, MixturePair | DiscretePair):
                return None
            steps.append((*_losses(pair), count))
            if _chooses(families, used):
                above = _CHOOSING
    except MustdpError:  # anyone who asks for a certificate will hear of it
        return None
    found = _composed(steps, delta)
    if found is None:
        return None
    if not all(isinstance(one, InEpoch) and isinstance(one.epoch, Shuffle) for one in counted):
        return above * found
    plain = NoiseProfiles(GaussianNoise(), math.sqrt(shuffled))
    return min(above * found, first_below(GroupProfile(plain), delta))


def guess_is_close(plan: Plan, relation: str | None, group: int) -> bool:
    """Whether one pair is the worst in every step: the guess then is good to a few thousandths."""
    counted = atoms(plan)
    used = relation_of(counted, relation)
    return not any(
        _chooses(atom_pairs(atom, used, "certified", group).families, used) for atom in counted
    )


def is_shuffled(plan: Plan) -> bool:
    """Whether some batches are those of a shuffled order, whose bounds lie apart."""
    return any(
        isinstance(atom, InEpoch) and isinstance(atom.epoch, Shuffle) for atom in atoms(plan)
    )


def _chooses(families: Mapping[str, object], relation: Relation) -> bool:
    return relation == Relation.REPLACE_ONE and "reversed" in families


def _epoch_losses(atom: InEpoch, group: int, *, replaced: bool) -> tuple[FloatArray, FloatArray]:
    """Losses of an epoch: the batch with the record by itself, all others as if lognormal."""
    shift = min(group * atom.inner.shift_for(1.0), _FARTHEST)
    seen, bins = atom.epoch.steps, atom.epoch.bins
    square = shift * shift
    one = 2.0 * math.sinh(square) if replaced else math.expm1(square)

    def others(count: int) -> FloatArray:
        spread = math.log1p(one * count / bins**2) * (2.0 if replaced else 1.0)
        return np.asarray(math.sqrt(spread) * z - (0.0 if replaced else 0.5 * spread))

    z, x = np.linspace(-8.0, 8.0, _OTHERS), np.linspace(-8.0, 8.0, _OUTCOMES // 3)
    own = np.log1p(np.expm1(np.minimum(shift * x + 0.5 * square, 700.0)) / bins)
    if replaced:
        own -= np.log1p(np.expm1(-shift * x - 1.5 * square) / bins)
    loss = np.concatenate([np.add.outer(own, others(seen - 1)).ravel(), others(seen)])
    mine, theirs = (np.exp(-0.5 * np.square(at)) for at in (x, z))
    there = seen / bins
    chance = np.concatenate(
        [there * np.outer(mine / mine.sum(), theirs).ravel(), (1.0 - there) * theirs]
    )
    return loss, chance / theirs.sum()


def _losses(pair: MixturePair | DiscretePair) -> tuple[FloatArray, FloatArray]:
    """Losses of one step and their chances under P."""
    p, q = pair.outline(_OUTCOMES)
    kept = (p > 1e-290) & (q > 1e-290)
    return np.log(p[kept] / q[kept]), p[kept] / p[kept].sum()


def _composed(steps: list[tuple[FloatArray, FloatArray, int]], delta: float) -> float | None:
    """Epsilon at ``delta`` of all steps together."""
    means = [float(loss @ p) for loss, p, _ in steps]
    variance = sum(
        k * float(np.square(loss - mean) @ p)
        for (loss, p, k), mean in zip(steps, means, strict=True)
    )
    if not 0.0 < variance < math.inf:
        return None
    spacing = _DEVIATIONS * math.sqrt(variance) / _POINTS
    reach = max(
        _reach(loss - mean, k * p, _RARE * delta)
        for (loss, p, k), mean in zip(steps, means, strict=True)
    )
    # As far again on either side as the rest of the losses spreads.
    points = next_fast_len(min(_POINTS + math.ceil(2.0 * reach / spacing), _MOST_POINTS), real=True)
    spectrum = np.ones(points // 2 + 1, dtype=np.complex128)
    start, centre = 0, 0.0
    for (loss, p, count), mean in zip(steps, means, strict=True):
        # Every loss is shared by its two neighbours on the grid, which keeps the mean.
        middle = math.floor(mean / spacing)
        place = np.clip(loss / spacing - middle, 1 - points // 2, points // 2 - 2)
        cell = np.floor(place).astype(np.int64)
        share = place - cell
        masses = np.bincount(cell % points, p * (1.0 - share), points)
        masses += np.bincount((cell + 1) % points, p * share, points)
        spectrum = spectrum * np.fft.rfft(masses) ** count
        start += count * middle
        centre += count * (mean / spacing - middle)
    # The transform knows places up to multiples of its length: those around the mean are meant.
    index = round(centre) + np.arange(points) - points // 2
    masses = np.maximum(np.fft.irfft(spectrum, points)[index % points], 0.0)
    total = (start + index) * spacing
    above = np.cumsum(masses[::-1])[::-1]
    # Far out nothing is left of what is taken off.
    far = np.clip(total, -_LARGEST, _LARGEST)
    weighted = np.cumsum((masses * np.exp(-far))[::-1])[::-1]
    profile = np.maximum(above - np.exp(far) * weighted, 1e-300)
    exceeds = np.flatnonzero(profile > delta)
    if not exceeds.size:
        return None
    if exceeds[-1] + 1 == points:  # as far as the grid reaches at least
        return float(total[-1]) if total[-1] > 0.0 else None
    at = int(exceeds[-1])
    logs = np.log(profile[at : at + 2])
    found = float(total[at] + spacing * (logs[0] - math.log(delta)) / (logs[0] - logs[1]))
    return found if found > 0.0 else None


def _reach(loss: FloatArray, chance: FloatArray, rare: float) -> float:
    """The largest loss that is not rarer than this."""
    order = np.argsort(loss)
    counts = np.flatnonzero(np.cumsum(chance[order][::-1])[::-1] > rare)
    return max(0.0, float(loss[order[counts[-1]]])) if counts.size else 0.0


# The smallest noise whose certified epsilon meets a target: which one is tried next.
#
# What is spent falls with the noise z about as a guess does, up to a factor that changes slowly:
# with its logarithm taken as linear in log z, two or three certified values are enough. A bracket
# is kept all the while, and halved where that does not converge: jumps and bad guesses only cost
# time.


#: The epsilon reached by a noise lies between this fraction of the target and the target: the first
#: one tried if the guess is close, and others; families' bounds depend a little on the cells that
#: were chosen. The last is aimed at.
_CLOSE, _NEAR_NOISE, _AIM_NOISE = 1.0 - 1e-3, 1.0 - 2e-3, 1.0 - 8e-4
#: Accuracy of the account while far away, and while closing in.
_COARSE, _FINE_NOISE = 0.02, 1e-3
#: Where batches are shuffled and bounds lie apart: the least share of the target, and of the noise.
_LOOSE, _LOOSELY = 1.0 - 1e-2, 1e-3
#: Moves of log z from which on a coarse account will do, and the longest one.
_FAR, _LONGEST = 0.3, math.log(16.0)
#: No noise above this is tried: a tenth of the largest that mechanisms accept.
_LARGEST_NOISE = 1e8
#: The smallest noise multiplier that is tried: a target that it meets needs no noise to speak of.
SMALLEST = 1e-4
#: Accounts that are made at most before the search is given up.
_ROUNDS = 120

Guess = Callable[[float], float | None]


def smallest_noise(
    spent: Callable[[float, float], float],
    target: float,
    guess: Guess | None = None,
    *,
    close: bool = False,
    drift: float = 0.0,
    loose: bool = False,
) -> float:
    """Close in on the noise whose certified epsilon just meets ``target``.

    ``spent(z, accuracy)`` must not increase with the noise z. It is asked coarsely while z moves
    far; only a value that met the target is returned. ``guess(z)`` is about what is spent, and
    ``close`` says that it is good to a few thousandths; ``drift`` is how its factor changes with z
    as long as a single value is known, as a slope of logarithms. ``loose`` values may be further
    from the target.
    """
    expected = _GuessedSpending(guess, drift, target)
    low, high, met = 0.0, math.inf, math.nan  # too little noise, enough noise
    z = _within(expected.where(target, 1.0))
    moved = 0.0 if close and expected.guessed else math.inf
    for step in range(_ROUNDS):
        least = (_LOOSE if loose else _NEAR_NOISE if step or not close else _CLOSE) * target
        value = spent(z, _COARSE if moved > _FAR else _FINE_NOISE)
        if moved > _FAR and least <= value <= target:
            value = spent(z, _FINE_NOISE)
            moved = 0.0
        if value <= target:
            high = z
            if moved <= _FAR:
                met = z
            if (moved <= _FAR and value >= least) or z <= SMALLEST:
                return z
        elif moved <= _FAR or value > (1.0 + 2.0 * _COARSE) * target:
            low = z
            if z >= _LARGEST_NOISE:
                raise NumericalFailure(
                    f"no noise multiplier up to {_LARGEST_NOISE:g} reaches epsilon={target!r}"
                )
        narrow = _LOOSELY if loose and not math.isnan(met) else 1e-9
        if high / max(low, SMALLEST / 2.0) - 1.0 < narrow:
            break
        if 0.0 < value < math.inf:
            expected.learn(z, value, coarse=moved > _FAR)
            following = expected.where(_AIM_NOISE * target, z)
        else:
            following = 4.0 * z if value > 0.0 else z / 4.0
        inside = low < following < high
        if low > 0.0 and high < math.inf and (not inside or step % 4 == 3):
            following = math.sqrt(low * high)
        elif not inside:  # a slope of the wrong sign: move on all the same
            following = 2.0 * z if value > target else z / 2.0
        following = _within(following)
        moved = abs(math.log(following / z))
        z = following
    return met if not math.isnan(met) else high


def _within(z: float) -> float:
    return min(max(z, SMALLEST), _LARGEST_NOISE)


class _GuessedSpending:
    """What is expected to be spent: the guess times a power of z that fits two values.

    They are the last one and the last on the other side of the target, or the one before.
    """

    def __init__(self, guess: Guess | None, drift: float, target: float) -> None:
        self._guess, self._drift, self._coarse, self._target = guess, drift, False, target
        self._sides: dict[bool, tuple[float, float]] = {}  # by whether the target was exceeded
        self._seen: list[tuple[float, float]] = []  # log z, log of what was spent over the guess

    @property
    def guessed(self) -> bool:
        """Whether there is a guess."""
        return self._guess is not None

    def learn(self, z: float, value: float, *, coarse: bool) -> None:
        """A certified value. Coarse ones say nothing of how the factor changes close by."""
        found = math.log(z), math.log(value) - self._rough(z)
        over = value > self._target
        if coarse or self._coarse:
            self._seen, self._sides = [], {}
        across = self._sides.get(not over)
        self._seen = [*(self._seen[-1:] if across is None else [across]), found]
        self._coarse, self._sides[over] = coarse, found

    def where(self, value: float, near: float) -> float:
        """The z at which so much is expected to be spent, looked for around ``near``."""
        wanted, x = math.log(value), math.log(near)
        here, slope = self._log(x), -1.0
        for _ in range(12):
            move = (wanted - here) / slope
            move = min(max(move, -_LONGEST), _LONGEST)
            if abs(move) < 1e-5:
                break
            there = self._log(x + move)
            slope = min((there - here) / move, -0.05)
            x, here = x + move, there
        return math.exp(min(max(x, math.log(SMALLEST)), math.log(_LARGEST_NOISE)))

    def _log(self, x: float) -> float:
        """Log of what is expected at log z = x."""
        rough = self._rough(math.exp(x))
        if not self._seen:
            return rough
        place, factor = self._seen[-1]
        slope = self._drift
        if len(self._seen) == 2 and self._seen[0][0] != place:
            slope = (factor - self._seen[0][1]) / (place - self._seen[0][0])
        return rough + factor + slope * (x - place)

    def _rough(self, z: float) -> float:
        """Log of the guess; 1/z where there is none."""
        found = None if self._guess is None else self._guess(z)
        if found is None:
            self._guess = None
            return -math.log(z)
        return math.log(found)


# What a calibration returns: the same five facts always, and beside them what was looked for.


class FoundNoise:
    """Noise whose size was looked for: a noise multiplier, or whatever its kind has instead."""

    mechanism: Mechanism

    @property
    def parameter(self) -> str:
        """The argument of the mechanism that was looked for."""
        return str(registered(self.mechanism).searched)

    @property
    def size(self) -> float:
        """The value of that argument."""
        return float(self.mechanism.describe()[self.parameter])

    @property
    def noise_multiplier(self) -> float:
        """The noise multiplier found, where noise has one."""
        if self.parameter != "noise_multiplier":
            raise NotCovered(
                f"{self.mechanism.name} noise has no noise multiplier; its {self.parameter} is the "
                "size that was found"
            )
        return self.size

    @property
    def noise_found(self) -> str:
        """The size in words, rounded up: more noise is never less private."""
        return f"{self.parameter.replace('_', ' ')} {readable(self.size, 'up', 4)}"


def noise_limit(size: float, words: str = "noise multiplier") -> str | None:
    """What to say of a noise at the end of the range that is searched."""
    if size > SMALLEST:
        return None
    what = words.removeprefix("noise ")
    return f"the target needs hardly any noise: a {what} below {SMALLEST:g} is not looked at"


@dataclass(frozen=True)
class Calibrated:
    """A plan that meets a target: ``epsilon.upper`` at ``delta`` is at most what was asked.

    Attributes
    ----------
    plan : Plan
        What meets the target.
    mechanism : Mechanism
        The noise.
    relation : Relation
        Which data sets are neighbours.
    epsilon : Bounds
        Bounds of epsilon at ``delta``; the upper one is certified and within the target.
    delta : float
        The delta at which epsilon is stated.
    limit : str or None
        What ended the search where the target did not, in words; else None.

    Examples
    --------
    >>> import mustdp as md
    >>> noise = md.laplace(shift=0.5)
    >>> scheme, target = md.poisson(1000, 1.0), {"epsilon": 2, "delta": 1e-5}
    >>> found = md.calibration.most_steps(scheme, mechanism=noise, **target)
    >>> found.epsilon.upper <= 2.0, found.delta
    (True, 1e-05)
    """

    plan: Plan
    mechanism: Mechanism
    relation: Relation
    epsilon: Bounds
    delta: float
    limit: str | None = field(default=None, kw_only=True)

    def __str__(self) -> str:
        """What was found, what it is certified for, and the plan, one line each."""
        cost = f"epsilon at delta {as_stated(self.delta)}: {self.epsilon}"
        noted = () if self.limit is None else (self.limit,)
        return "\n".join((self._found, cost, in_words(self.plan), *noted))

    @property
    def _found(self) -> str:
        return in_words(self.mechanism)


@dataclass(frozen=True)
class PlanCalibration(FoundNoise, Calibrated):
    """Noise for a whole plan that meets a target; its attributes are those of :class:`Calibrated`.

    Examples
    --------
    >>> import mustdp as md
    >>> def plan(noise):
    ...     return md.repeat(3, noise)
    >>> found = md.calibration.calibrate_plan(plan, epsilon=1.0, delta=1e-5)
    >>> found.epsilon.upper <= 1.0, found.noise_multiplier > 5.0
    (True, True)
    """

    @property
    def _found(self) -> str:
        return self.noise_found


@dataclass(frozen=True)
class Calibration(PlanCalibration):
    """Noise that meets a target for repeated draws of one scheme, or of a number of batches of
    epochs.

    The other attributes are those of :class:`Calibrated`.

    Attributes
    ----------
    scheme : Scheme or Epoch
        How batches are drawn.
    steps : int
        Number of steps.

    Examples
    --------
    >>> import mustdp as md
    >>> found = md.calibrate(md.poisson(1000, 0.01), epsilon=1.0, delta=1e-5, steps=100)
    >>> found.epsilon.upper <= 1.0, found.steps, found.scheme.name
    (True, 100, 'poisson')
    >>> print(found)
    noise multiplier 0.9023
    epsilon at delta 1e-05: 0.999 attained, 1.00 certified (add-remove)
    100 x (poisson, n 1000, rate 0.01; gaussian, noise multiplier 0.902210)
    """

    scheme: Sampling
    steps: int


@dataclass(frozen=True)
class Solution(Calibrated):
    """Steps or a size that meet a target for a given noise.

    The other attributes are those of :class:`Calibrated`.

    Attributes
    ----------
    scheme : Scheme
        How batches are drawn.
    steps : int
        Number of steps.
    value : int
        The one that was looked for: steps, m or b.

    Examples
    --------
    >>> import mustdp as md
    >>> noise = md.laplace(shift=0.5)
    >>> scheme, target = md.poisson(1000, 1.0), {"epsilon": 2, "delta": 1e-5}
    >>> found = md.calibration.most_steps(scheme, mechanism=noise, **target)
    >>> found.value == found.steps
    True
    """

    scheme: Scheme
    steps: int
    value: int

    @property
    def _found(self) -> str:
        return f"found: {self.value}"


# The smallest noise that keeps an attacker down: a true-positive rate or an advantage as target.
#
# The search is the one for epsilon: what must not be exceeded is the attacker's
# gain over guessing, a certified true-positive rate less the false-positive rate, or the
# advantage itself. Both fall as the noise grows. What is returned was accounted for and found
# within the target. Kulynych et al. 2024 (arXiv 2407.02191) calibrate to such targets with
# privacy loss distributions.

#: No gain over guessing below this can be asked for: bounds are not that fine.
_SMALLEST_GAIN = 1e-9
#: Full accounts made to come closer to the target than one pair per step allows.
_MOST_RISK_ACCOUNTS = 5


@dataclass(frozen=True)
class RiskTarget:
    """At most this true-positive rate at this false-positive rate, or at most this advantage."""

    tpr: float | None = None
    fpr: float | None = None
    advantage: float | None = None

    def __post_init__(self) -> None:
        checks.exactly_one(tpr=self.tpr, advantage=self.advantage)
        if self.tpr is None:
            if self.fpr is not None:
                raise InvalidParameter("fpr must be given together with tpr, not with advantage")
            checks.real("advantage", self.advantage, at_least=_SMALLEST_GAIN, below=1)
            return
        if self.fpr is None:
            raise InvalidParameter("fpr must be given with tpr: the share of false accusations")
        rate = checks.real("fpr", self.fpr, at_least=0, below=1)
        checks.real("tpr", self.tpr, at_least=rate + _SMALLEST_GAIN, below=1)

    @property
    def gain(self) -> float:
        """The largest gain over guessing."""
        if self.tpr is None or self.fpr is None:
            return float(self.advantage or 0.0)
        return self.tpr - self.fpr

    def reached(self, tried: Account, accuracy: float) -> float:
        """The certified gain of an account, with one pair per step."""
        if self.fpr is None:
            return tried.certified_advantage(accuracy)
        return tried.certified_tpr(self.fpr) - self.fpr

    def in_full(self, tried: Account) -> float:
        """The certified gain of an account, with whatever composes best."""
        if self.fpr is None:
            return tried.delta(0.0).upper
        return tried.certified_tpr(self.fpr, with_family=True) - self.fpr

    def met(self, found: Risk) -> bool:
        """Whether the risk is within the target."""
        if self.tpr is None or self.fpr is None:
            return found.advantage.upper <= self.gain
        return found.tpr[found.fpr.index(self.fpr)].upper <= self.tpr


@dataclass(frozen=True)
class RiskCalibration(FoundNoise):
    """Noise that keeps the risk of repeated draws of one scheme within a target.

    Attributes
    ----------
    plan : Plan
        What meets the target.
    mechanism : Mechanism
        The noise that was found.
    relation : Relation
        Which data sets are neighbours.
    risk : Risk
        What an attacker can achieve: certified, and within the target.
    scheme : Scheme or Epoch
        How batches are drawn.
    steps : int
        Number of steps.
    limit : str or None
        What ended the search where the target did not, in words; else None.

    Examples
    --------
    >>> import mustdp as md
    >>> found = md.calibrate(md.poisson(100, 1.0), advantage=0.1, steps=1)
    >>> found.risk.advantage.upper <= 0.1, found.noise_multiplier > 3.9
    (True, True)
    """

    plan: Plan
    mechanism: Mechanism
    relation: Relation
    risk: Risk
    scheme: Sampling
    steps: int
    limit: str | None = field(default=None, kw_only=True)

    def __str__(self) -> str:
        """The noise that was found, what it is certified for, and the plan."""
        words = (self.noise_found, *self.risk.sentences(), in_words(self.plan))
        return "\n".join(words if self.limit is None else (*words, self.limit))


def calibrate_risk(
    scheme: Sampling,
    target: RiskTarget,
    *,
    steps: int,
    make: Callable[[float], Mechanism],
    relation: str | None,
    group: int = 1,
) -> RiskCalibration:
    """Find the smallest noise that meets the target for ``steps`` draws of ``scheme``."""

    def accounted(z: float) -> Account:
        return account(steps_of(scheme, steps, make(z)), relation=relation, group=group)

    def spent(z: float, accuracy: float) -> float:
        try:
            return target.reached(accounted(z), accuracy)
        except NumericalFailure:
            return math.inf  # not certified: counts as over the target

    z = smallest_noise(spent, target.gain)
    if z > SMALLEST:
        z = _closer_to_risk(z, lambda value: target.in_full(accounted(value)), target.gain)
    settled = accounted(z)
    rates = USUAL_FPR if target.fpr is None else tuple(sorted({*USUAL_FPR, target.fpr}))
    found = settled.risk(rates)
    if not target.met(found):
        # Rounding, or a finer grid: the next noise up that is safe.
        for _ in range(8):
            z *= 1.0 + 2e-4
            settled = accounted(z)
            found = settled.risk(rates)
            if target.met(found):
                break
        else:
            raise NumericalFailure(f"noise multiplier {z!r} was found, but its account is over it")
    limit = noise_limit(z)
    return RiskCalibration(
        settled.plan, make(z), settled.relation, found, scheme, steps, limit=limit
    )


def _closer_to_risk(z: float, reached: Callable[[float], float], target: float) -> float:
    """From the noise that one pair per step needs to what is enough with a family of pairs.

    Along a straight line of logarithms; what is over the target bounds what is tried next.
    """
    best, gain, over, slope = z, reached(z), 0.0, -1.0
    for _ in range(_MOST_RISK_ACCOUNTS):
        if not 0.0 < gain < _NEAR * target or best <= SMALLEST:
            break
        trial = best * (_AIM * target / gain) ** (1.0 / slope)
        if not over < trial < best:
            trial = math.sqrt(over * best) if over else 0.5 * best
        trial = max(trial, SMALLEST)
        try:
            found = reached(trial)
        except NumericalFailure:
            found = math.inf
        if gain < found < math.inf:
            slope = math.log(found / gain) / math.log(trial / best)
        if found <= target:
            best, gain = trial, found
        else:
            over = trial
    return best


# The smallest noise that meets a target, on the safe side.

#: One pair per step that covers both orders lies further above what is attained with more noise:
#: how fast, on logarithmic scales.
_DRIFT = 0.1


@overload
def calibrate(
    scheme: Sampling,
    *,
    epsilon: float,
    delta: float,
    steps: int | None = None,
    epochs: int | None = None,
    mechanism: str | Mechanism = "gaussian",
    relation: str | None = None,
    group: int = 1,
    composition: str = "auto",
) -> Calibration: ...
@overload
def calibrate(
    scheme: Sampling,
    *,
    steps: int | None = None,
    epochs: int | None = None,
    tpr: float | None = None,
    fpr: float | None = None,
    advantage: float | None = None,
    mechanism: str | Mechanism = "gaussian",
    relation: str | None = None,
    group: int = 1,
) -> RiskCalibration: ...
def calibrate(
    scheme: Sampling,
    *,
    epsilon: float | None = None,
    delta: float | None = None,
    steps: int | None = None,
    epochs: int | None = None,
    tpr: float | None = None,
    fpr: float | None = None,
    advantage: float | None = None,
    mechanism: str | Mechanism = "gaussian",
    relation: str | None = None,
    group: int = 1,
    composition: str = "auto",
) -> Calibration | RiskCalibration:
    """Find the smallest noise with which ``steps`` draws of ``scheme`` meet a target.

    The target is ``epsilon`` at ``delta``; or ``tpr`` at ``fpr``; or ``advantage``. The certified
    epsilon of the result is at most ``epsilon`` and mostly within 0.2 % of it (1 % where batches
    are shuffled).

    Parameters
    ----------
    scheme : Scheme or Epoch
        How batches are drawn.
    epsilon : float, default=None
        What the certified epsilon must not exceed, above 0 and at most 500.
    delta : float, default=None
        The delta at which epsilon is stated, from 1e-25 to below 1; well below 1/n.
    steps : int, default=None
        Number of steps, each on a batch of its own, from 1 to 1e9.
    epochs : int, default=None
        Number of whole epochs, in place of ``steps`` where ``scheme`` is an epoch.
    tpr : float, default=None
        The largest true-positive rate that an attacker may have at ``fpr``.
    fpr : float, default=None
        The false-positive rate of that attacker, from 0 to below 1.
    advantage : float, default=None
        The largest difference of the two rates that an attacker may have, at any.
    mechanism : str or Mechanism, default="gaussian"
        The kind of noise by name, or a noise of that kind, whose own size is not used.
    relation : {"replace_one", "add_remove"}, default=None
        Which data sets are neighbours; None means add_remove where every draw is by Poisson
        sampling or random allocation, and replace_one otherwise.
    group : int, default=1
        How many records of one person the guarantee covers: neighbours differ in up to this many.
    composition : {"auto", "quick", "pair", "family"}, default="auto"
        How steps are composed, as in :func:`account`. It is "auto" where the target is a risk.

    Returns
    -------
    Calibration or RiskCalibration
        The noise, and what it is certified for; a RiskCalibration where the target is a risk.

    Raises
    ------
    InvalidParameter
        An argument is outside what is allowed.
    NumericalFailure
        No number that can be trusted was found.

    Examples
    --------
    >>> import mustdp as md
    >>> found = md.calibrate(md.wor(1000, 10), tpr=0.05, fpr=0.01, steps=100)
    >>> print(f"{found.risk.tpr[1].upper:.3f}")
    0.050
    """
    count = _count(scheme, steps, epochs)
    if not (tpr is None and fpr is None and advantage is None):
        if not (epsilon is None and delta is None):
            raise InvalidParameter("epsilon and delta must be left out where a risk is the target")
        return calibrate_risk(
            scheme,
            RiskTarget(tpr, fpr, advantage),
            steps=count,
            make=noise_of_kind(mechanism),
            relation=relation,
            group=group,
        )
    if epsilon is None or delta is None:
        raise InvalidParameter("epsilon and delta must be given, or tpr and fpr, or advantage")
    found = calibrate_plan(
        lambda noise: steps_of(scheme, count, noise),
        epsilon=epsilon,
        delta=delta,
        mechanism=mechanism,
        relation=relation,
        group=group,
        composition=composition,
    )
    return Calibration(
        found.plan,
        found.mechanism,
        found.relation,
        found.epsilon,
        found.delta,
        scheme,
        count,
        limit=found.limit,
    )


def _count(scheme: Sampling, steps: int | None, epochs: int | None) -> int:
    """The number of batches."""
    checks.exactly_one(steps=steps, epochs=epochs)
    if epochs is None:
        return checks.integer("steps", steps, 1, MOST_STEPS)
    if not isinstance(scheme, Epoch):
        allowed = "must be left out for a scheme that draws batch by batch"
        raise InvalidParameter.refusing("epochs", allowed, epochs)
    return checks.integer("epochs", epochs, 1, MOST_STEPS // scheme.bins) * scheme.bins


def calibrate_plan(
    build: Callable[[Mechanism], Plan],
    *,
    epsilon: float,
    delta: float,
    mechanism: str | Mechanism = "gaussian",
    relation: str | None = None,
    group: int = 1,
    composition: str = "auto",
    dimension: int | None = None,
) -> PlanCalibration:
    """Find the smallest noise for a plan that is built from its mechanism, nested plans included.

    Parameters
    ----------
    build : callable
        From a mechanism to the plan; it is called with different noise multipliers and must only
        place them.
    epsilon : float
        What the certified epsilon must not exceed, above 0 and at most 500.
    delta : float
        The delta at which epsilon is stated, from 1e-25 to below 1; well below 1/n.
    mechanism : str or Mechanism, default="gaussian"
        The kind of noise by name, or a noise of that kind, whose own size is not used.
    relation : {"replace_one", "add_remove"}, default=None
        Which data sets are neighbours; None means add_remove where every draw is by Poisson
        sampling or random allocation, and replace_one otherwise.
    group : int, default=1
        How many records of one person the guarantee covers: neighbours differ in up to this many.
    composition : {"auto", "quick", "pair", "family"}, default="auto"
        How steps are composed, as in :func:`account`.
    dimension : int, default=None
        Of every release: 1 says that each is a single number, which is a little less to hide. None
        where nothing is known.

    Returns
    -------
    PlanCalibration
        The noise, and what it is certified for.

    Raises
    ------
    InvalidParameter
        An argument is outside what is allowed.
    NumericalFailure
        No number that can be trusted was found.

    Examples
    --------
    >>> import mustdp as md
    >>> count = md.laplace(shift=0.1)
    >>> def plan(noise):
    ...     return md.sequence(noise, count)
    >>> found = md.calibration.calibrate_plan(plan, epsilon=1, delta=1e-5)
    >>> found.epsilon.upper <= 1
    True
    """
    target = EpsilonTarget(epsilon, delta, relation, group, composition, dimension)
    make = noise_of_kind(mechanism)
    met = _noise_that_meets(target, build, make, make.words)
    limit = noise_limit(met.value, make.words)
    found = met.plan, make(met.value), met.relation, met.epsilon, target.delta
    return PlanCalibration(*found, limit=limit)


def _noise_that_meets(
    target: EpsilonTarget,
    build: Callable[[Mechanism], Plan],
    make: Callable[[float], Mechanism],
    words: str,
) -> MetTarget[float]:
    """The smallest noise with which a plan meets its target; ``words`` name its argument."""

    def guess(z: float) -> float | None:
        return rough_epsilon(build(make(z)), target.delta, target.relation, target.group)

    close, drift, loose = False, 0.0, False
    with suppress(NumericalFailure):  # with this noise; nothing but time depends on it
        typical = build(make(1.0))
        loose = is_shuffled(typical)
        close = not loose and guess_is_close(typical, target.relation, target.group)
        drift = 0.0 if close or target.account(typical).has_family else _DRIFT
    rule = partial(smallest_noise, guess=guess, close=close, drift=drift, loose=loose)
    return meet(target, lambda z: build(make(z)), rule, words, in_full=True)


@dataclass(frozen=True)
class NoiseOfKind:
    """Makes mechanisms of one kind from the argument that is searched, which it names."""

    entry: RegisteredMechanism
    fixed: Mapping[str, Any]

    @property
    def words(self) -> str:
        """The argument that is searched, as it is written in sentences."""
        return str(self.entry.searched).replace("_", " ")

    def __call__(self, value: float) -> Mechanism:
        """The mechanism with this value."""
        return self.entry.build(**self.fixed, **{str(self.entry.searched): value})


def noise_of_kind(mechanism: str | Mechanism) -> NoiseOfKind:
    """What makes noise of this kind of any size; the kind by name or by an example."""
    searchable = tuple(name for name, one in mechanisms().items() if one.searched is not None)
    fixed: dict[str, Any] = {}
    if isinstance(mechanism, Mechanism):
        try:
            entry = registered(mechanism)
        except NotCovered:
            entry = None
        if entry is None or entry.searched is None:
            raise InvalidParameter(
                f"mechanism must be one of {', '.join(searchable)}, got {mechanism.name!r}, which "
                "has no noise to search for"
            )
        other = {"mechanism", entry.searched, *entry.alternatives}
        fixed = {name: at for name, at in mechanism.describe().items() if name not in other}
    else:
        entry = mechanisms()[checks.choice("mechanism", mechanism, searchable)]
    return NoiseOfKind(entry, fixed)


# The most steps, the largest batch or the smallest first stage that a target allows.

#: Batches drawn with replacement are looked at up to this many times the number of records.
_MOST_COPIES = 10


def most_steps(
    scheme: Scheme,
    *,
    mechanism: Mechanism,
    epsilon: float,
    delta: float,
    relation: str | None = None,
    group: int = 1,
) -> Solution:
    """The largest number of steps whose certified epsilon is at most ``epsilon``.

    ``scheme`` and ``mechanism`` are those of :func:`one_step`; the other parameters are those of
    :func:`calibrate_plan`.

    Returns
    -------
    Solution
        The steps as ``value``, and what they are certified for.

    Raises
    ------
    InvalidParameter
        Even one step costs more, or an argument is outside what is allowed.

    Examples
    --------
    >>> import mustdp as md
    >>> noise = md.laplace(shift=0.5)
    >>> most_steps(md.poisson(1000, 1.0), mechanism=noise, epsilon=2, delta=1e-5).steps >= 4
    True
    """
    target, mechanism = EpsilonTarget(epsilon, delta, relation, group), _known(mechanism)

    def plan_of(steps: int) -> Plan:
        return repeat(steps, subsample(scheme, mechanism))

    met = meet(target, plan_of, partial(largest_size, name="steps", most=MOST_STEPS), "steps")
    limit = f"more than {MOST_STEPS} steps are not looked at" if met.value >= MOST_STEPS else None
    return _solution(met, target, mechanism, scheme, met.value, met.value, limit)


def largest_batch(
    name: str,
    *,
    mechanism: Mechanism,
    n: int,
    b: int | None = None,
    epsilon: float,
    delta: float,
    steps: int,
    relation: str | None = None,
    group: int = 1,
) -> Solution:
    """The largest m whose certified epsilon is at most ``epsilon``, for a scheme by name.

    Further parameters are those of :func:`calibrate_plan`.

    Parameters
    ----------
    name : str
        The scheme, as on the command line: "poisson", "wor", "wr", "must-ow" and so on.
    mechanism : Mechanism
        The noise, of a known size.
    n : int
        Number of records, at least 1.
    b : int, default=None
        Size of the first of two stages, for schemes that have two.
    steps : int
        Number of steps, each on a batch of its own, from 1 to 1e9.

    Returns
    -------
    Solution
        The size as ``value``, and what it is certified for.

    Raises
    ------
    InvalidParameter
        Even the smallest batch costs more, or an argument is outside what is allowed.

    Examples
    --------
    >>> import mustdp as md
    >>> noise, target = md.gaussian(noise_multiplier=4.0), {"epsilon": 1.0, "delta": 1e-5}
    >>> found = md.calibration.largest_batch("poisson", mechanism=noise, n=100, steps=10, **target)
    >>> found.value, found.epsilon.upper <= 1.0
    (30, True)
    """
    target, mechanism = EpsilonTarget(epsilon, delta, relation, group), _known(mechanism)
    steps = checks.integer("steps", steps, 1, MOST_STEPS)
    n = checks.integer("n", n, 1)

    def scheme_of(m: int) -> Scheme:
        return scheme_by_name(name, n=n, b=b, m=m)

    whole = name in ("wor", "poisson")
    most = n if whole else _MOST_COPIES * n
    met = _meet(target, mechanism, scheme_of, steps, "m", most)
    limit = None
    if met.value >= most:
        last = f"all {n} records may be in every batch"
        limit = (
            last if whole else f"batches of more than {_MOST_COPIES} n = {most} are not looked at"
        )
    return _solution(met, target, mechanism, scheme_of(met.value), steps, met.value, limit)


def smallest_first_stage(
    name: str,
    *,
    mechanism: Mechanism,
    n: int,
    m: int,
    epsilon: float,
    delta: float,
    steps: int,
    relation: str | None = None,
    group: int = 1,
) -> Solution:
    """The smallest b of a two-stage scheme whose certified epsilon is at most ``epsilon``.

    A larger first stage means fewer repeated copies, hence less privacy spent at equal noise.

    Further parameters are those of :func:`calibrate_plan`.

    Parameters
    ----------
    name : {"must-ow", "must-ww"}
        The scheme.
    mechanism : Mechanism
        The noise, of a known size.
    n : int
        Number of records, at least 1.
    m : int
        Size of a batch, copies counted, at least 1.
    steps : int
        Number of steps, each on a batch of its own, from 1 to 1e9.

    Returns
    -------
    Solution
        The size as ``value``, and what it is certified for.

    Raises
    ------
    InvalidParameter
        Even a first stage of n costs more, or an argument is outside what is allowed.

    Examples
    --------
    >>> import mustdp as md
    >>> noise, target = md.gaussian(noise_multiplier=40.0), {"epsilon": 0.1, "delta": 1e-2}
    >>> sizes = {"n": 10, "m": 5, "steps": 1}
    >>> search = md.calibration.smallest_first_stage
    >>> found = search("must-ow", mechanism=noise, **sizes, **target)
    >>> found.value, found.epsilon.upper <= 0.1
    (1, True)
    """
    target, mechanism = EpsilonTarget(epsilon, delta, relation, group), _known(mechanism)
    steps = checks.integer("steps", steps, 1, MOST_STEPS)
    checks.choice("scheme", name, ("must-ow", "must-ww"))
    n = checks.integer("n", n, 1)

    def scheme_of(left_out: int) -> Scheme:
        """The most records left out of the first stage are the fewest in it."""
        return scheme_by_name(name, n=n, b=n + 1 - left_out, m=m)

    met = _meet(target, mechanism, scheme_of, steps, "b", n)
    scheme = scheme_of(met.value)
    limit = "a first stage has one record at least" if met.value == n else None
    return _solution(met, target, mechanism, scheme, steps, n + 1 - met.value, limit)


def _meet(
    target: EpsilonTarget,
    mechanism: Mechanism,
    scheme_of: Callable[[int], Scheme],
    steps: int,
    name: str,
    most: int,
) -> MetTarget[int]:
    def plan_of(size: int) -> Plan:
        return repeat(steps, subsample(scheme_of(size), mechanism))

    return meet(target, plan_of, partial(largest_size, name=name, most=most), name)


def _solution(
    met: MetTarget[int],
    target: EpsilonTarget,
    mechanism: Mechanism,
    scheme: Scheme,
    steps: int,
    value: int,
    limit: str | None,
) -> Solution:
    found = met.plan, mechanism, met.relation, met.epsilon, target.delta
    return Solution(*found, scheme, steps, value, limit=limit)


def _known(mechanism: Mechanism) -> Mechanism:
    """The noise itself: where a size is looked for, its kind alone would not do."""
    if not isinstance(mechanism, Mechanism):
        raise InvalidParameter(
            "mechanism must be a mechanism of known size such as gaussian(noise_multiplier=4.0), "
            f"got {mechanism!r}"
        )
    return mechanism


# What a job or a training run may spend: its noise, chosen and certified before data are touched.
#
# A job says how a noise becomes its plan. The noise itself is stated as a noise multiplier, or as a
# total (epsilon, delta) that is calibrated for the whole plan. What comes out holds the plan that
# is run and charged, and says what it costs.
#
# A budget is the noise of a number of steps, each on a fresh draw of one scheme or on the next
# batch of an epoch. The plan's scheme draws the batches, so what runs is what is charged.
#
# With banded noise, steps are correlated by a strategy with bands, and records take turns in as
# many groups: the group's scheme is drawn from and charged.
#
# The batches of an epoch depend on each other, so that no step of it has a price of its own. An
# epoch is charged as a whole when its first batch is drawn: a run that stops within it, for
# whatever reason, has released a part of what was charged. Only a budget that was made to end
# within an epoch is charged for that part of its last one alone.


class PlannedRun(Protocol):
    """What is to be run; equal jobs have equal plans, and calibrations are remembered by them."""

    @property
    def scheme(self) -> Sampling:
        """The scheme that draws from the records."""

    def plan(self, mechanism: Mechanism, /) -> Plan:
        """The plan with this noise in its place."""

    def __hash__(self) -> int: ...


GIVEN = "noise multiplier as given"
CALIBRATED = "calibrated for a certified epsilon"


@dataclass(frozen=True)
class PrivacySpent:
    """What a plan costs: bounds of epsilon at delta, under a relation.

    Without a ``plan`` nothing was released, or nothing is known that would guarantee anything; the
    upper bound of ``epsilon`` is then infinite.

    Attributes
    ----------
    epsilon : Bounds
        Bounds of epsilon at delta; the upper one is certified.
    delta : float
        The delta at which epsilon is stated.
    relation : Relation
        Which data sets are neighbours.
    noise_multiplier : float
        Scale of the noise over C, the bound on the norm of what one record contributes to a sum.
    source : str
        Where the noise came from, in words.
    plan : Plan or None
        What was released, and is charged for.
    seeded : bool
        That the run is an experiment: anyone who knows the seed can subtract the noise, and
        ``epsilon`` is what the run would cost without a seed.
    dimension : int or None
        1 where every release was accounted for as a single number.
    group : int
        That epsilon holds for people with up to this many records.

    Examples
    --------
    >>> import mustdp as md
    >>> scheme = md.poisson(1000, 0.01)
    >>> budget = md.calibrated_budget(scheme, noise_multiplier=2.0, steps=100, delta=1e-5)
    >>> spent = budget.spent()
    >>> spent.certified, spent.steps, spent.relation.option
    (True, 100, 'add-remove')
    """

    epsilon: Bounds
    delta: float
    relation: Relation
    noise_multiplier: float
    source: str
    plan: Plan | None
    seeded: bool = False
    dimension: int | None = None
    group: int = 1

    @property
    def certified(self) -> bool:
        """Whether something finite is guaranteed for what was released."""
        return not self.seeded and math.isfinite(self.epsilon.upper)

    @property
    def steps(self) -> int:
        """Number of releases on a draw of their own, or on a batch of an epoch."""
        counted = {} if self.plan is None else atoms(self.plan)
        return sum(
            times * (atom.epoch.steps if isinstance(atom, InEpoch) else 1)
            for atom, times in counted.items()
        )

    @property
    def scheme(self) -> Sampling | None:
        """The scheme that every step draws by, if it is one and the same; or the epoch."""
        drawn = [] if self.plan is None else list(atoms(self.plan))
        whole = {
            atom.epoch.first(atom.epoch.bins) if isinstance(atom, InEpoch) else atom.scheme
            for atom in drawn
            if isinstance(atom, InEpoch | Subsample)
        }
        alone = len(drawn) == 1 or all(isinstance(atom, InEpoch) for atom in drawn)
        return whole.pop() if alone and len(whole) == 1 else None

    def as_dict(self) -> dict[str, Any]:
        """Plain description, for JSON; an infinite bound is None.

        Returns
        -------
        dict
            Plain values, ready for JSON.
        """
        finite = math.isfinite(self.epsilon.upper)
        both = {"lower": self.epsilon.lower, "upper": self.epsilon.upper if finite else None}
        cost = both if finite or self.plan is not None else None
        said = {"seeded": True, "epsilon_without_seed": cost} if self.seeded else {"epsilon": cost}
        return {
            **said,
            "delta": self.delta,
            "relation": self.relation.value,
            "noise_multiplier": self.noise_multiplier,
            "noise": self.source,
            "steps": self.steps,
            "scheme": None if self.scheme is None else self.scheme.describe(),
            **({} if self.dimension is None else {"dimension": self.dimension}),
            **({} if self.group == 1 else {"group": self.group}),
        }


@dataclass(frozen=True)
class NoisyPlan:
    """A plan with its noise in place, and where the noise came from."""

    plan: Plan | None
    noise_multiplier: float
    delta: float
    relation: Relation
    source: str
    #: Of every release, where it is known.
    dimension: int | None = None
    #: What the calibration that found the noise has certified already.
    known: Bounds | None = field(default=None, compare=False, repr=False)
    #: Records of one person.
    group: int = 1

    def spent(self) -> PrivacySpent:
        """What running the plan costs, certified."""
        epsilon = self.known
        if epsilon is None:
            sizes = self.dimension, self.group
            epsilon = certified_epsilon(self.plan, self.delta, self.relation, *sizes)
        return PrivacySpent(
            epsilon, self.delta, self.relation, self.noise_multiplier, self.source, self.plan,
            dimension=self.dimension, group=self.group,
        )  # fmt: skip


def plan_with_noise(
    job: PlannedRun,
    *,
    delta: float | None,
    epsilon: float | None = None,
    noise_multiplier: float | None = None,
    relation: str | None = None,
    dimension: int | None = None,
    group: int = 1,
) -> NoisyPlan:
    """The plan of a job with the noise that was stated, or that a target asks for.

    Exactly one of ``epsilon`` and ``noise_multiplier`` is given. ``dimension`` is that of every
    release, where the caller knows it.
    """
    checks.exactly_one(epsilon=epsilon, noise_multiplier=noise_multiplier)
    used = resolve_relation(job.scheme, relation)
    delta = required_delta(delta, job.scheme.n)
    warn_of_large_delta(delta, job.scheme.n)
    group = checks.integer("group", group, 1)
    if epsilon is not None:
        return _calibrated(job, epsilon, delta, used, dimension, group)
    z = checks.real("noise_multiplier", noise_multiplier, above=0, at_most=LARGEST_NOISE)
    plan = job.plan(gaussian(noise_multiplier=z))
    return NoisyPlan(plan, z, delta, used, GIVEN, dimension, group=group)


def required_delta(delta: float | None, n: int) -> float:
    """Check a delta, which has no default: what is small enough is the data holder's to say."""
    if delta is None:
        raise InvalidParameter.refusing(
            "delta",
            "must be given, well below one over the number of records: for n = "
            f"{n}, {as_stated(recommended_delta(n))} or less",
            "none",
        )
    return checks.real("delta", delta, **DELTA_RANGE)


def recommended_delta(n: int) -> float:
    """The largest power of ten that is at most 1/(10 n).

    >>> recommended_delta(10), recommended_delta(10_000), recommended_delta(60_000)
    (0.01, 1e-05, 1e-06)
    """
    return float(10.0 ** -math.ceil(1 + math.log10(n)))


@lru_cache(maxsize=256)
def _calibrated(
    job: PlannedRun,
    epsilon: float,
    delta: float,
    relation: Relation,
    dimension: int | None,
    group: int,
) -> NoisyPlan:
    target = EpsilonTarget(epsilon, delta, relation, group, dimension=dimension)
    met = _noise_that_meets(
        target, job.plan, lambda z: gaussian(noise_multiplier=z), "noise multiplier"
    )
    return NoisyPlan(
        met.plan, met.value, delta, relation, CALIBRATED, dimension, known=met.epsilon, group=group
    )


@lru_cache(maxsize=1024)
def certified_epsilon(
    plan: Plan | None,
    delta: float,
    relation: Relation,
    dimension: int | None = None,
    group: int = 1,
) -> Bounds:
    """Bounds of epsilon; infinite above where there is no plan or nothing finite is certified."""
    nothing = Bounds(0.0, math.inf)
    if plan is None:
        return nothing
    try:
        found = account(plan, relation=relation, dimension=dimension, group=group)
        return found.epsilon(delta)
    except NumericalFailure:
        # So little noise that no finite epsilon could be certified: say so, never a guess.
        return nothing


# Budgets: a number of steps on the batches of one scheme.


@dataclass(frozen=True)
class _Run:
    """A number of steps on fresh draws of a scheme, whatever their noise."""

    scheme: Sampling
    steps: int
    strategy: tuple[float, ...] = (1.0,)

    def plan(self, noise: Mechanism) -> Plan:
        bands = len(self.strategy)
        if bands == 1:
            return steps_of(self.scheme, self.steps, noise)
        rounds = steps_of(scheme_of_a_group(self.scheme, bands), -(-self.steps // bands), noise)
        norm = math.sqrt(sum(factor * factor for factor in self.strategy)) * (1.0 + 1e-12)
        return Banded(rounds, bands, norm)


@dataclass(frozen=True)
class Budget:
    """A run that is planned: scheme, noise, number of steps, and where the noise came from.

    Attributes
    ----------
    scheme : Scheme or Epoch
        How batches are drawn.
    noise_multiplier : float
        Scale of the noise over C, the bound on the norm of what one record contributes to a sum.
    steps : int
        Number of steps, each on a batch of its own.
    delta : float
        The delta at which epsilon is stated.
    relation : Relation
        Which data sets are neighbours.
    source : str
        Where the noise came from, in words.
    group : int
        That epsilon holds for people with up to this many records; 1 for single records.
    strategy : tuple of float
        The first column of the matrix that correlates the noise of steps; (1.0,) where none does.

    Examples
    --------
    >>> import mustdp as md
    >>> scheme = md.poisson(1000, 0.01)
    >>> budget = md.calibrated_budget(scheme, noise_multiplier=2.0, steps=100, delta=1e-5)
    >>> budget.steps, budget.relation.option
    (100, 'add-remove')
    >>> budget.spent().epsilon.upper < 1.0
    True
    """

    scheme: Sampling
    noise_multiplier: float
    steps: int
    delta: float
    relation: Relation
    source: str
    group: int = 1
    strategy: tuple[float, ...] = (1.0,)

    def __post_init__(self) -> None:
        check_runs(self.scheme, self.relation)
        object.__setattr__(self, "strategy", check_strategy(self.strategy))
        if self.bands > 1:
            scheme_of_a_group(self.scheme, self.bands)

    @property
    def bands(self) -> int:
        """Over how many steps noise is correlated; 1 where every step has its own."""
        return len(self.strategy)

    @property
    def fresh_draws(self) -> Scheme:
        """The scheme, where every batch is drawn anew; epochs are refused."""
        if not isinstance(self.scheme, Scheme):
            raise NotCovered(f"batches must be drawn one by one here, got {self.scheme!r}")
        return self.scheme

    @property
    def epochs(self) -> float | None:
        """How many times the run reads the data, where it has epochs."""
        return self.steps / self.scheme.bins if isinstance(self.scheme, Epoch) else None

    def plan(self, steps: int | None = None) -> Plan:
        """What the first steps are charged as.

        Parameters
        ----------
        steps : int, default=None
            How many steps are made; None means all of them.

        Returns
        -------
        Plan
            Every epoch begun is part of it as a whole.
        """
        steps = self.steps if steps is None else self.begun(steps)
        run = _Run(self.scheme, steps, self.strategy)
        return run.plan(gaussian(noise_multiplier=self.noise_multiplier))

    def begun(self, steps: int) -> int:
        """The steps that are charged once some are made: those of every epoch begun.

        Parameters
        ----------
        steps : int
            How many steps are made.

        Returns
        -------
        int
            At least as many.
        """
        if not isinstance(self.scheme, Epoch):
            return steps
        return min(-(-steps // self.scheme.bins) * self.scheme.bins, max(steps, self.steps))

    def spent(self, steps: int | None = None) -> PrivacySpent:
        """What the first steps cost, certified.

        Parameters
        ----------
        steps : int, default=None
            How many steps are made, from 0 to all; None means all of them.

        Returns
        -------
        PrivacySpent
            Bounds of epsilon at the budget's delta.
        """
        done = self.steps if steps is None else checks.integer("steps", steps, 0, self.steps)
        found = NoisyPlan(
            self.plan(done) if done else None,
            self.noise_multiplier,
            self.delta,
            self.relation,
            self.source,
            known=None if done else Bounds(0.0, 0.0),
            group=self.group,
        )
        return found.spent()


def calibrated_budget(
    scheme: Sampling,
    *,
    steps: int | None = None,
    epochs: int | None = None,
    delta: float | None = None,
    noise_multiplier: float | None = None,
    epsilon: float | None = None,
    relation: str | None = None,
    group: int = 1,
    bands: int | Sequence[float] = 1,
) -> Budget:
    """Make the budget of a run: state its noise, or calibrate it, before data are read.

    Exactly one of ``noise_multiplier`` and ``epsilon`` is given.

    Parameters
    ----------
    scheme : Scheme or Epoch
        How batches are drawn.
    steps : int, default=None
        Number of steps, each on a batch of its own, from 1 to 1e9.
    epochs : int, default=None
        Number of whole epochs, in place of ``steps`` where ``scheme`` is an epoch.
    delta : float
        The delta at which epsilon is stated, well below 1/n; it has no default.
    noise_multiplier : float, default=None
        Scale of the noise over C, the bound on the norm of what one record contributes to a sum;
        from 1e-9 to 1e9.
    epsilon : float, default=None
        What the certified epsilon of the whole run must not exceed; the noise is calibrated for it.
    relation : {"replace_one", "add_remove"}, default=None
        Which data sets are neighbours; None means add_remove where every draw is by Poisson
        sampling or random allocation, and replace_one otherwise.
    group : int, default=1
        Epsilon holds for people with up to this many records, all of which may differ. A ledger is
        charged for the plan as it is.
    bands : int or sequence of float, default=1
        Over how many steps :class:`PrivateTrainer` correlates the noise (BandMF), so that the noise
        of later steps takes back some of that of earlier ones: by the banded square root strategy,
        or by the first column of a Toeplitz matrix, which begins with 1. Records are then split at
        random into as many groups, which take turns; ``scheme`` is Poisson sampling, with the rate
        of a step among all records.

    Returns
    -------
    Budget
        What is run and charged.

    Raises
    ------
    InvalidParameter
        An argument is outside what is allowed.
    NotCovered
        No theorem of this package covers the request.
    NumericalFailure
        No number that can be trusted was found.

    Examples
    --------
    >>> import mustdp as md
    >>> budget = md.calibrated_budget(md.poisson(1000, 0.1), steps=50, epsilon=2, delta=1e-5)
    >>> md.account(budget.plan()).epsilon(delta=1e-5).upper <= 2
    True
    """
    check_runs(scheme, resolve_relation(scheme, relation))
    run = _Run(scheme, _steps(scheme, steps, epochs), strategy_of(bands))
    if len(run.strategy) > 1:
        scheme_of_a_group(scheme, len(run.strategy))
    found = plan_with_noise(
        run,
        delta=delta,
        epsilon=epsilon,
        noise_multiplier=noise_multiplier,
        relation=relation,
        group=group,
    )
    return Budget(
        scheme, found.noise_multiplier, run.steps, found.delta, found.relation, found.source, group,
        run.strategy,
    )  # fmt: skip


#: Factors of a strategy are multiples of this, so that sums of integers times them are exact.
STRATEGY_UNIT = 2.0**-10
#: Factors of a strategy at most, and their size: a sum of whole noise times factors has at most 24
#: bits more than the noise, and stays exact.
_MOST_BANDS = 4096
_LARGEST_FACTOR = 4.0


def strategy_of(bands: int | Sequence[float]) -> tuple[float, ...]:
    """The first column of a strategy: as given, or the banded square root.

    The banded square root (Kalinin & Lampert 2024, arXiv 2405.13763) has the first coefficients of
    (1 - x)^(-1/2), the square root of the matrix that adds up.

    >>> strategy_of(3)
    (1.0, 0.5, 0.375)
    """
    if isinstance(bands, Sequence) and not isinstance(bands, str):
        return check_strategy(bands)
    factors = [1.0]
    for k in range(1, checks.integer("bands", bands, 1, _MOST_BANDS)):
        factors.append(factors[-1] * (2 * k - 1) / (2 * k))
    return check_strategy(factors)


def check_strategy(factors: Sequence[float]) -> tuple[float, ...]:
    """Factors that begin with 1, rounded to multiples of :data:`STRATEGY_UNIT`."""
    if not 1 <= len(factors) <= _MOST_BANDS:
        raise InvalidParameter(
            f"bands must be from 1 to {_MOST_BANDS} factors, got {len(factors)} of them"
        )
    limits = {"at_least": -_LARGEST_FACTOR, "at_most": _LARGEST_FACTOR}
    found = [checks.real("bands", factor, **limits) for factor in factors]
    if found[0] != 1.0:
        raise InvalidParameter(f"bands must begin with the factor 1, got {found[0]!r}")
    return tuple(round(factor / STRATEGY_UNIT) * STRATEGY_UNIT for factor in found)


def scheme_of_a_group(scheme: Sampling, bands: int) -> Poisson:
    """How a group is drawn from when it is its turn, so that a step has the scheme's rate."""
    if type(scheme) is not Poisson:
        raise NotCovered(f"bands above 1 are covered for Poisson sampling, got {scheme!r}")
    if bands * scheme.rate > 1.0:
        raise InvalidParameter.refusing(
            "rate", f"must be at most 1/{bands}, since groups take turns", scheme.rate
        )
    return Poisson(max(1, scheme.n // bands), bands * scheme.rate)


def check_runs(scheme: Sampling, relation: Relation) -> None:
    """Refuse epochs that are charged as something else than what would be run."""
    if not isinstance(scheme, Epoch):
        return
    if scheme.steps != scheme.bins:
        raise InvalidParameter(
            f"scheme must be a whole epoch of {scheme.bins} batches, got the first {scheme.steps}; "
            "steps says how many of them are made"
        )
    if scheme.fixed_size and relation == Relation.ADD_REMOVE:
        raise NotCovered(
            "shuffled batches can only be run under replace_one: removing a record moves later "
            "records to other batches, and leaves no slot blank"
        )


def _steps(scheme: Sampling, steps: int | None, epochs: int | None) -> int:
    if epochs is None:
        if steps is None:
            raise InvalidParameter("steps (or, for epochs, epochs) must be given, got none")
        return checks.integer("steps", steps, 1, MOST_STEPS)
    if steps is not None:
        raise InvalidParameter(f"steps must be left out beside epochs={epochs!r}, got {steps!r}")
    if not isinstance(scheme, Epoch):
        raise InvalidParameter(
            "epochs must be left out for a scheme that draws every batch anew, got "
            f"{epochs!r}; steps says how many"
        )
    return checks.integer("epochs", epochs, 1, MOST_STEPS // scheme.bins) * scheme.bins
