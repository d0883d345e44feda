"""One epoch of random allocation under replace_one, from both sides.

With T = sum over the first k of M batches of D_i - E D_i, D = X - alpha X' and y = M (alpha - 1),
the profile is E(T - y)_+ / M, the same in both orders. Every alpha has a law of its own. Above, the
profile is found at many alphas and read off chords. Below, D of one alpha is cut into cells whose
numbers are added up: what is seen of that is good at all alphas near by, so that few of them serve
(``loss/observed.py``).
"""

from __future__ import annotations

import math
from functools import cached_property

import numpy as np

from mustdp.accounting.allocated import GaussianBound
from mustdp.amplification.allocation import Term
from mustdp.loss.convex_tables import OutcomePair
from mustdp.loss.observed import Cells, Rejections, rejecting_above, rejecting_pair
from mustdp.loss.sums import Aim, IndependentSum, TooLong
from mustdp.numerics.arrays import ROUNDOFF, FloatArray, IntArray

#: Spacing times tilt times the root of the number of batches: where most of the mass is, and else.
_FINE, _COARSE = 0.025, 0.1
#: Cells of one batch on either side before they grow.
_CELLS = 250
#: How far apart alphas are: at least a share of the spread; and nats by which the profile falls
#: where it is above each of these values, and below all of them.
_SHARE, _NATS, _LAST_NATS = 0.04, ((1e-5, 0.1), (1e-10, 0.2)), 0.6
#: Alphas that share an aim, the most of them, and how small a profile is not followed any more.
_SHARED, _MOST, _SMALLEST, _STUCK = 6, 500, 1e-17, 16
#: Nats between the alphas whose cells are looked at: least and most, and times the spread.
_OBSERVED_NATS, _OBSERVED_SHARE = (0.3, 1.5), 0.35
#: How small a profile they are made for.
_OBSERVED_SMALLEST = 1e-14
#: Batches from which on there are many.
_MANY = 100
#: How many times the spread one large term may decide; closed forms so close, relatively, serve.
_LARGE, _CLOSED = 15.0, 1e-3
_UP = 1.0 + 1e-13


class ReplacedProfile:
    """Replace_one, the same in both orders; ``shift`` is that of one record, C / sigma."""

    def __init__(self, shift: float, bins: int, steps: int) -> None:
        self._shift, self._bins, self._steps = shift, bins, steps
        self._plain = GaussianBound(2.0 * shift, steps / bins)

    def __call__(self, epsilon: FloatArray) -> FloatArray:
        """The profile at many epsilons, off chords between the points, rounded up."""
        out = self._plain(epsilon)
        x = np.expm1(np.minimum(epsilon, 600.0)) * (1.0 - 8.0 * ROUNDOFF)
        nodes, upper, _ = self._table
        inside = x <= nodes[-1]
        out[inside] = np.minimum(out[inside], np.interp(x[inside], nodes, upper) * _UP)
        return out

    @cached_property
    def _table(self) -> tuple[FloatArray, FloatArray, tuple[Aim, ...]]:
        """Points alpha - 1, chosen by how fast the profile falls, and upper bounds there."""
        end = math.expm1(min(self._plain.end, 600.0))
        nodes: list[float] = []
        found: list[float] = []
        aims: list[Aim] = []
        x, step = 0.0, _SHARE * self._bulk
        while True:
            total, y = self._at(x), x * self._bins
            if len(nodes) % _SHARED == 0:
                known = 0.1 * found[-1] * self._bins if found else math.inf
                aim = total.aim(y, y + _SHARED * step * self._bins, known)
            value = self._above(x, aim) / self._bins * _UP
            value = min(value, float(self._plain(np.log1p(np.array([x])))[0]))
            nodes.append(x)
            found.append(value)
            aims.append(aim)
            stuck = len(found) > _STUCK and value >= 0.9 * found[-_STUCK]
            if x >= end or value < _SMALLEST or stuck or len(found) == _MOST:
                return np.array(nodes), np.minimum.accumulate(found), tuple(aims)
            nats = next((apart for least, apart in _NATS if value > least), _LAST_NATS)
            if len(found) > 1:
                fell = math.log(max(found[-2], 1e-300) / value)
                wanted = step * nats / max(fell, nats / 3.0)
                step = max(min(wanted, 1.5 * step), _SHARE * self._bulk)
            x = min(x + step, end)

    def _above(self, x: float, aim: Aim) -> float:
        """E(T - y)_+ from above: in closed form where one large term decides."""
        total, y = self._at(x), np.array([x * self._bins])
        if x > _LARGE * self._bulk:
            low, high = total.one_large(y)
            if high[0] <= low[0] * (1.0 + _CLOSED):
                return float(high[0])
        return float(total.upper(y, aim, self._fineness(x))[0])

    @cached_property
    def pair(self) -> OutcomePair:
        """A discrete pair that the epoch dominates."""
        nodes, upper, aims = self._table
        tests, last = [], math.inf
        # The further alphas spread, the faster the best test changes with them.
        nats = min(max(_OBSERVED_NATS[0], _OBSERVED_SHARE / self._bulk), _OBSERVED_NATS[1])
        for x, value, aim in zip(nodes.tolist(), upper.tolist(), aims, strict=True):
            near = 0.5 if x < 4.0 * self._bulk else 1.0
            if value < last * math.exp(-near * nats) or math.isinf(last):
                tests.append(self._tests(x, aim))
                last = value
            if value < _OBSERVED_SMALLEST:
                break
        return rejecting_pair("symmetric", tests, tests)

    def _tests(self, x: float, aim: Aim, wider: float = 1.0) -> Rejections:
        """What the sum of the cells of D at one alpha tells."""
        total, y = self._at(x), x * self._bins
        spacing = wider * self._fineness(x) / (aim.tilt * math.sqrt(self._steps))
        index = total.places(spacing, aim.high, y)
        middles = 0.5 * (index[1:] + index[:-1]).astype(np.float64) * spacing
        ends = total.variable.mean + middles
        cells = Cells.trimmed(spacing, index, Term(self._shift, 1.0 + x).outcome(ends), self._shift)
        laws = [cells.law(shift) for shift in (0.0, self._shift, -self._shift)]
        (absent, off), (one, one_off), (other, other_off) = laws
        error = math.expm1((self._steps * off + max(one_off, other_off)) * (1.0 + 1e-6))
        inside = self._steps / self._bins
        elsewhere = [(1.0 - inside, [(absent, self._steps)])] if inside < 1.0 else []
        rest = (absent, self._steps - 1)
        with_p = [(inside, [(one, 1), rest]), *elsewhere]
        with_q = [(inside, [(other, 1), rest]), *elsewhere]
        try:
            return rejecting_above(with_p, with_q, error, aim.tilt, y)
        except TooLong:  # wider cells tell less, never too much
            return self._tests(x, aim, 2.0 * wider)

    @cached_property
    def _bulk(self) -> float:
        """How widely alpha spreads."""
        return self._at(0.0).scale / self._bins

    def _fineness(self, x: float) -> float:
        """Finer with few batches: there cells are as wide as what they describe."""
        share = min(1.0, math.sqrt(self._steps / _MANY))
        return share * (_FINE if x < 4.0 * self._bulk else _COARSE)

    def _at(self, x: float) -> IndependentSum:
        return IndependentSum(Term(self._shift, 1.0 + x), self._steps, even=_CELLS)


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
        return self._profile.pair.attained(epsilon)
