"""One epoch of random allocation under replace_one, from both sides."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cached_property, partial

import numpy as np

from mustdp.accounting.epochs.add_remove import GaussianBound
from mustdp.accounting.epochs.observed import (
    FewLarge,
    OutcomeCells,
    Rejections,
    rejecting_above,
    rejecting_pair,
)
from mustdp.accounting.epochs.sums import Aim, IndependentSum, TooLong, Variable, places
from mustdp.accounting.epochs.tables import (
    OneSide,
    OutcomePair,
    Refined,
    falling_root,
    outcome_pair,
)
from mustdp.accounting.epochs.terms import SwappedTerm, Term
from mustdp.accounting.epochs.wide_sums import (
    REACH,
    Distance,
    WideSum,
    distance,
    few_large,
    fitting,
    furthest,
    observed_bound,
)
from mustdp.accounting.pld.discretise import Profile
from mustdp.accounting.pld.readoff import bisected, first_below
from mustdp.errors import NumericalFailure
from mustdp.limits import LARGEST_EPSILON
from mustdp.numerics.arrays import ROUNDOFF, FloatArray, IntArray

# Swapped records in an epoch of few batches with little noise, from both sides.
#
# Terms of all sizes are added up one by one on a grid that grows like them
# (``epochs/wide_sums.py``), for one alpha at a time. From below that is the profile of the pair
# itself, so it is attained.


#: Shifts for which this is done, and up to how many batches: s^3 of them, where linear grids become
#: as tight and are quicker, but so many at least and at most.
_SHIFTS, _BATCHES = (1.2, 10.0), (7, 40)
#: Grids are this many times as fine as usual at most, which is all that is done beyond the second.
_FINEST, FINEST_ASKED = 1.5, 2.0
#: How narrow a bracket of epsilon is enough, and where it is looked for first.
_NARROW, _STARTS = 1e-6, (0.999, 0.99, 0.9, 0.0)
#: Nats by which the profile falls between the points of a pair, down to this value and further on,
#: and how small it is followed.
_NATS, _LARGE, _SMALLEST = (0.1, 0.4), 0.02, 1e-14
#: Points to choose from.
_PLACES = 5000
#: For the rounding of a few products, generously.
_UP, _DOWN = 1.0 + 1e-12, 1.0 - 1e-12


class FewBatches:
    """The first ``steps`` of ``bins`` batches; ``shift`` is that of one record, C / sigma."""

    def __init__(self, shift: float, bins: float, steps: int, fine: float = 1.0) -> None:
        self._bins, self._steps = bins, steps
        # Work and memory grow with the square of the number of points.
        self._sum = WideSum(shift, steps, min(fine, _FINEST))
        self._known: dict[float, float] = {}

    @classmethod
    def of(cls, shift: float, bins: float, steps: int, fine: float = 1.0) -> FewBatches | None:
        """None where there are many batches or much noise."""
        if not _SHIFTS[0] < shift <= _SHIFTS[1]:
            return None
        most = min(max(0.98 * shift**3, _BATCHES[0]), _BATCHES[1])
        return cls(shift, bins, steps, fine) if 2 <= steps <= most else None

    @classmethod
    def noisier(cls, shift: float, bins: int, steps: int) -> float | None:
        """The largest shift that this is done for, where ``shift`` lies beyond it.

        More noise is post-processing, so that what such an epoch attains this one attains, too.
        """
        largest = _SHIFTS[1]
        done = shift > largest and cls.of(largest, bins, steps) is not None
        return largest if done else None

    def upper(self, x: float) -> float:
        """The profile at alpha = 1 + x, rounded up."""
        return self._sum.upper(math.log1p(x), self._level(x)) / self._bins * _UP

    def attained(self, epsilon: float) -> float:
        """The profile rounded down."""
        if epsilon not in self._known:
            found = self._sum.lower(epsilon, self._level(math.expm1(epsilon)) * _UP)
            self._known[epsilon] = found / self._bins * _DOWN
        return self._known[epsilon]

    def last_above(self, delta: float, near: float) -> float:
        """An epsilon below ``near`` at which more than ``delta`` is attained, or zero."""
        high = min(near, LARGEST_EPSILON)
        for start in _STARTS:
            low = start * high
            if self.attained(low) > delta:
                break
        else:
            return 0.0
        while high - low > _NARROW * high:
            middle = 0.5 * (low + high)
            low, high = (middle, high) if self.attained(middle) > delta else (low, middle)
        return low

    def pair(
        self, profile: Profile, place: Callable[[IntArray], FloatArray], end: float
    ) -> OutcomePair:
        """A discrete pair below the profile, off points out of ``place`` where that has fallen."""
        x = place(np.arange(_PLACES))
        x = x[x <= math.expm1(end)]
        upper = profile(np.log1p(x))
        chosen = [0]
        for number in range(1, x.size):
            nats = _NATS[int(upper[number] < _LARGE)]
            if upper[number] < upper[chosen[-1]] * math.exp(-nats):
                chosen.append(number)
            if upper[number] < _SMALLEST:
                break
        low = [self.attained(math.log1p(value)) for value in x[chosen].tolist()]
        side = OneSide(x[chosen], np.array(low), upper[chosen])
        return outcome_pair("symmetric", side, side)

    def _level(self, x: float) -> float:
        """What the sum of D has to exceed."""
        return (self._bins - self._steps) * x


# One epoch of random allocation under replace_one, from both sides.
#
# With T = sum over the first k of M batches of D_i - E D_i, D = X - alpha X' and y = M (alpha -
# 1), the profile is E(T - y)_+ / M, the same in both orders. Every alpha has a law of its own.
# Above, the profile is found at the alphas that one question needs, or at many and read off chords
# (``refined.py``): by one transform, or where few large terms decide by ``epochs/wide_sums.py``.
# Below, D of one alpha is cut into cells whose numbers are added up: what is seen of that is good
# at all alphas near by, so that few of them serve (``epochs/observed.py``,
# ``epochs/observed.py``).


#: Spacing times tilt times the root of the number of batches: where most of the mass is, and else.
_FINE, _COARSE = 0.025, 0.1
#: Cells of one batch on either side before they grow.
_CELLS = 250
#: How small a profile is not followed any more.
_SMALLEST_REPLACED = 1e-17
#: How narrow a bracket of an epsilon is enough.
_NARROW_REPLACED = 1e-6
#: Nats below delta that tell a value from that of no amplification at all.
_SURE = 1e-3
#: Points per factor e of 1 + (alpha - 1) / spread where cells may be looked at, and how far.
_LATTICE, _LARGEST_PLACE = 40, 120
#: Nats between the alphas whose cells are looked at: least and most, and times the spread.
_OBSERVED_NATS, _OBSERVED_SHARE = (0.3, 1.5), 0.35
#: How small a profile they are made for.
_OBSERVED_SMALLEST = 1e-14
#: How far sums of small cells are looked at where few large ones decide, by how many points.
_FURTHEST, _POINTS = 250.0, 2.0**18
#: Share of the answer that terms beyond the last point of a grid may add, and grids tried for that.
_CUT, _AIMS = 1e-4, 4
#: A shift from which on few large terms of at least so many may decide.
_LITTLE_NOISE, _SOME = 1.2, 8
#: Shifts beyond which terms overflow: there is hardly any noise, and no amplification is charged.
_FARTHEST = 15.0
#: Widths of cells that are tried, by the first.
_WIDER = tuple(2.0**k for k in range(12))
#: Tests that attain this share of what they should are good enough; no tests, which attain nothing.
_GOOD, _NO_TESTS = 0.98, Rejections(np.zeros(0), np.zeros(0))
#: Prices that are known serve as this share of them: a grid has to show what is a little rarer.
_KNOWN = 0.1
#: Batches from which on there are many.
_MANY = 100
#: The same for the profile of a replaced record.
_UP_REPLACED = 1.0 + 1e-13


class ReplacedProfile:
    """Replace_one, the same in both orders; ``shift`` is that of one record, C / sigma."""

    def __init__(
        self,
        shift: float,
        bins: float,
        steps: int,
        fine: float = 1.0,
        weights: tuple[float, ...] = (1.0,),
    ) -> None:
        """Grids are ``fine`` times as fine as usual.

        A move may be of random size, 1, 2, ... copies of the record by ``weights``: then the
        profile alone is found, and no pair below it.
        """
        self._shift, self._bins, self._steps = shift, bins, steps
        self._weights, self._farthest = weights, len(weights) * shift
        self._fine, self._lattice = fine, math.ceil(fine * _LATTICE)
        self._plain = GaussianBound(2.0 * self._farthest, steps / bins)
        self._tested: dict[int, Rejections] = {}
        self._single: dict[float, float] = {}
        self.few = FewBatches.of(shift, bins, steps, fine) if len(weights) == 1 else None

    def __call__(self, epsilon: FloatArray) -> FloatArray:
        """The profile at many epsilons, off chords between the points, rounded up."""
        if epsilon.size == 1:
            return np.array([self._at_epsilon(float(epsilon[0]))])
        out = self._plain(epsilon)
        asked = (out > _SMALLEST_REPLACED) & (epsilon <= self._plain.end)
        x = np.expm1(epsilon[asked]) * (1.0 - 8.0 * ROUNDOFF)
        out[asked] = np.minimum(out[asked], self._refined(x) * _UP_REPLACED)
        return out

    @property
    def finest(self) -> float:
        """How fine grids may be asked for: finer ones would be the same."""
        return math.inf if self.few is None else FINEST_ASKED

    def first_below(self, delta: float) -> float:
        """An epsilon at which the profile is at most ``delta``: regula falsi on its logarithm."""
        if self._at_epsilon(0.0) <= delta:
            return 0.0
        low, high = 0.0, first_below(self._plain, delta)
        above, below = (self._nats_above(delta, end) for end in (low, high))
        while below > -_SURE and high > _NARROW_REPLACED:
            # Nothing better than no amplification is known that far out: look nearer by first.
            middle = 0.5 * high
            value = self._nats_above(delta, middle)
            if value > 0.0:
                low, above = middle, value
                break
            high, below = middle, value
        nats = partial(self._nats_above, delta)
        return falling_root(nats, (low, above), (high, below), _NARROW_REPLACED)

    def _nats_above(self, delta: float, epsilon: float) -> float:
        return math.log(max(self._at_epsilon(epsilon), 1e-300) / delta)

    def _at_epsilon(self, epsilon: float) -> float:
        """At one epsilon no chord is needed."""
        if epsilon not in self._single:
            self._single[epsilon] = self._above(math.expm1(epsilon) * (1.0 - 8.0 * ROUNDOFF))
        return self._single[epsilon]

    @cached_property
    def _refined(self) -> Refined:
        end = math.expm1(min(self._plain.end, 600.0))
        # Whole epochs are one family of tilted laws.
        whole = self._bins == self._steps and len(self._weights) == 1
        bend = self._bins / (8.0 * self._shift**2) * _UP_REPLACED if whole else math.inf
        return Refined(self._above, self._bulk, end, bend, self._fine)

    def _above(self, x: float) -> float:
        """The profile at one alpha from above, never above no amplification."""
        plain = float(self._plain(np.log1p(np.array([x * (1.0 - 8.0 * ROUNDOFF)])))[0])
        if plain < _SMALLEST_REPLACED or self._farthest > _FARTHEST:
            return plain
        if self.few is not None:
            return min(plain, self.few.upper(x))
        try:
            return min(plain, self._price(x) / self._bins * _UP_REPLACED)
        except (NumericalFailure, ArithmeticError):  # terms spread too far for any grid
            return plain

    def _price(self, x: float) -> float:
        """E(T - y)_+ from above, in the way that decides it."""
        found, term, level = math.inf, self._term(x), self._level(x)
        far = self._far(term, level)
        if far is not None and far.chance < 1.0:
            with np.errstate(over="ignore", invalid="ignore"):
                found = few_large(term, self._steps, level, far, self._fine)
            found = found if found >= 0.0 else math.inf  # nor is it if it is no number
        if far is None or not (far.decides and math.isfinite(found)):
            found = min(found, self._by_one_transform(x)[0])
        return found

    def _by_one_transform(self, x: float) -> tuple[float, Aim]:
        """E(T - y)_+ from above, and how it was asked for."""
        total, y = self._at(x), x * self._bins
        found, known, aim = math.inf, math.inf, total.aim(y, y)
        for _ in range(_AIMS):
            found = min(found, float(total.upper(np.array([y]), aim, self._fineness(x))[0]))
            beyond = float(total.variable.value(np.array([total.variable.mean + aim.high]))[0])
            # Or a term beyond the last point alone makes the sum exceed y.
            if self._steps * beyond <= _CUT * found or aim.high > y + total.scale:
                break
            # Chernoff's bound was too large to tell what is rare.
            known = 0.1 * min(found, known)
            aim = total.aim(y, y, known)
        return found, aim

    def _far(self, term: Variable, level: float) -> Distance | None:
        """How far the others are below, where few large terms may decide."""
        if self._shift > _LITTLE_NOISE and self._steps >= _SOME:
            return distance(term, self._steps, level)
        return None

    def _level(self, x: float) -> float:
        """What the sum of D itself has to exceed."""
        return (self._bins - self._steps) * x

    @cached_property
    def pair(self) -> OutcomePair:
        """A discrete pair that the epoch dominates."""
        if self.few is not None:
            return self.few.pair(self, self._place, self._plain.end)
        if self._shift > _FARTHEST:
            return rejecting_pair("symmetric", [_NO_TESTS], [_NO_TESTS])
        tests, last = [], math.inf
        # The further alphas spread, the faster the best test changes with them.
        nats = min(max(_OBSERVED_NATS[0], _OBSERVED_SHARE / self._bulk), _OBSERVED_NATS[1])
        epsilons = np.log1p(self._place(np.arange(self._lattice * _LARGEST_PLACE)))
        values = self(epsilons[epsilons <= self._plain.end])
        for number, value in enumerate(values.tolist()):
            near = 0.5 if self._place(number) < 4.0 * self._bulk else 1.0
            if value < last * math.exp(-near * nats) or math.isinf(last):
                tests.append(self._tests(float(self._place(number)), _KNOWN * value * self._bins))
                last = value
            if value < _OBSERVED_SMALLEST:
                break
        return rejecting_pair("symmetric", tests, tests)

    def attained(self, epsilon: float) -> float:
        """What tests for alphas near by attain, rounded down."""
        if (
            self._shift > _FARTHEST
            or not float(self._plain(np.array([epsilon]))[0]) > _SMALLEST_REPLACED
        ):
            return 0.0
        if self.few is not None:
            return self.few.attained(epsilon)
        number = round(math.log1p(math.expm1(epsilon) / self._bulk) * self._lattice)
        seen = self._tests_at(number)
        gains = seen.p - math.exp(epsilon) * (1.0 + 1e-13) * seen.q
        return max(0.0, float(np.max(gains, initial=0.0)) * (1.0 - 1e-12))

    def _place(self, number: IntArray | int) -> FloatArray:
        """Points alpha - 1 that do not depend on what was asked."""
        return np.asarray(self._bulk * np.expm1(np.asarray(number) / self._lattice))

    def _tests_at(self, number: int) -> Rejections:
        if number not in self._tested:
            self._tested[number] = self._tests(float(self._place(number)))
        return self._tested[number]

    def _tests(self, x: float, known: float = 0.0) -> Rejections:
        """What the sum of the cells of D at one alpha tells; ``known`` is about its price."""
        term, level = Term(self._shift, 1.0 + x), self._level(x)
        try:
            far = self._far(term, level)
        except ArithmeticError:
            far = None
        found = self._few_large_tests(x, far) if far is not None and far.decides else _NO_TESTS
        expected = math.inf if far is None else far.price * self._steps
        if self._gained(found, x) < _GOOD * expected:
            seen, expected = self._by_one_transform_tests(x, known)
            found = found.with_those_of(seen)
        # Either way is a test of the epoch: where one attains little the other may do better.
        if far is not None and not far.decides and self._gained(found, x) < _GOOD * expected:
            found = found.with_those_of(self._few_large_tests(x, far))
        return found

    def _gained(self, tests: Rejections, x: float) -> float:
        """What the best of the tests attains at alpha = 1 + x, times the number of bins."""
        return self._bins * float(np.max(tests.p - (1.0 + x) * tests.q, initial=0.0))

    def _by_one_transform_tests(self, x: float, known: float) -> tuple[Rejections, float]:
        """Tests by one transform, and about what they should attain times the bins."""
        for wider in _WIDER:  # wider cells tell less, never too much
            try:
                return self._seen(x, known, wider)
            except (TooLong, NumericalFailure, ArithmeticError):
                continue
        return _NO_TESTS, math.inf

    def _seen(self, x: float, known: float, wider: float) -> tuple[Rejections, float]:
        total, y = self._at(x), x * self._bins
        if known > 0.0:
            aim, expected = total.aim(y, y, known), known / _KNOWN
        else:
            expected, aim = self._by_one_transform(x)
        spacing = wider * self._fineness(x) / (aim.tilt * math.sqrt(self._steps))
        index = total.places(spacing, aim.high, y)
        middles = 0.5 * (index[1:] + index[:-1]).astype(np.float64) * spacing
        ends = total.variable.mean + middles
        cells = OutcomeCells.trimmed(
            spacing, index, Term(self._shift, 1.0 + x).outcome(ends), self._shift
        )
        laws = [cells.law(shift) for shift in (0.0, self._shift, -self._shift)]
        (absent, off), (one, one_off), (other, other_off) = laws
        error = math.expm1((self._steps * off + max(one_off, other_off)) * (1.0 + 1e-6))
        inside = self._steps / self._bins
        elsewhere = [(1.0 - inside, [(absent, self._steps)])] if inside < 1.0 else []
        rest = (absent, self._steps - 1)
        with_p = [(inside, [(one, 1), rest]), *elsewhere]
        with_q = [(inside, [(other, 1), rest]), *elsewhere]
        return rejecting_above(with_p, with_q, error, aim.tilt, y), expected

    def _few_large_tests(self, x: float, far: Distance) -> Rejections:
        """The same where few large terms decide; none where no grid serves."""
        try:
            return self._seen_few_large(x, far)
        except (NumericalFailure, ArithmeticError):
            return _NO_TESTS

    def _seen_few_large(self, x: float, far: Distance) -> Rejections:
        term, aim = Term(self._shift, 1.0 + x), self._level(x)
        bound = observed_bound(term, self._steps, far, self._fine)
        if bound is None:
            return _NO_TESTS
        spacing = fitting(term, self._steps, far, bound)[0] / self._fine
        last = max(furthest(term, far), 1.1 * bound)
        for _ in _WIDER:
            reach = min(_FURTHEST * far.size, _POINTS * spacing)
            low, tilt = aim - reach, REACH / reach
            index = places(spacing, low, last, self._cells)
            ends = 0.5 * (index[1:] + index[:-1]).astype(np.float64) * spacing
            cells = OutcomeCells.trimmed(spacing, index, term.outcome(ends), self._shift)
            laws = [cells.law(shift) for shift in (0.0, self._shift, -self._shift)]
            (absent, off), (one, one_off), (other, other_off) = laws
            error = math.expm1((self._steps * off + max(one_off, other_off)) * (1.0 + 1e-6))
            seen = FewLarge(absent, self._steps, bound, far.size, tilt, aim, self._fine)
            try:
                return seen.rejections(one, other, self._steps / self._bins, error)
            except TooLong:
                spacing *= 2.0
        return _NO_TESTS

    @cached_property
    def _bulk(self) -> float:
        """How widely alpha spreads."""
        return self._at(0.0).scale / self._bins

    def _fineness(self, x: float) -> float:
        """Finer with few batches: there cells are as wide as what they describe."""
        share = min(1.0, math.sqrt(self._steps / _MANY)) / self._fine
        return share * (_FINE if x < 4.0 * self._bulk else _COARSE)

    def _at(self, x: float) -> IndependentSum:
        return IndependentSum(self._term(x), self._steps, even=self._cells)

    def _term(self, x: float) -> Variable:
        if len(self._weights) == 1:
            return Term(self._shift, 1.0 + x)
        return SwappedTerm(self._shift, self._weights, 1.0 + x)

    @property
    def _cells(self) -> int:
        return math.ceil(self._fine * _CELLS)


class ReplacedPair:
    """The pair below an epoch under replace_one, made when it is asked for."""

    name = "symmetric"
    lost = 0.0
    constant_ends = False

    def __init__(self, profile: ReplacedProfile) -> None:
        self._profile = profile

    def outcomes(self, spacing: float, points: IntArray) -> tuple[FloatArray, FloatArray]:
        """Probabilities under P and Q."""
        return self._profile.pair.outcomes(spacing, points)

    def attained(self, epsilon: float) -> float:
        """What the best test attains, rounded down."""
        return self._profile.attained(epsilon)

    def last_above(self, delta: float, near: float) -> float:
        """An epsilon at which more than ``delta`` is attained, or zero."""
        few = self._profile.few
        return bisected(self, delta, near) if few is None else few.last_above(delta, near)
