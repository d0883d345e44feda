"""An epoch that moves several batches, from below: what an observer of one sum attains.

Every batch is put into a cell of its outcomes, and the observer sees the sum of the cells' numbers
alone (``loss/observed.py``). Whichever batches are moved, the sum has the same law: with r, p, p_2
the chances of cells for a batch that is not moved, moved by one copy, by two, it is the mean over
patterns of r^{*(k - ...)} * p * ... So both laws are exact. The numbers are those of

    f(g) = log sum_c w_c e^{c s g - c^2 s^2 / 2},

w_c the chance that a given batch holds c copies, which is the loss of one batch if all batches were
drawn independently; under replace_one that less its mirror image. Any numbers would do.
"""

from __future__ import annotations

import math
from collections import Counter
from functools import cached_property

import numpy as np

from mustdp.accounting.patterns import ERROR, Pattern
from mustdp.errors import NumericalFailure
from mustdp.loss.compose import Composition, Part
from mustdp.loss.convex_tables import OutcomePair
from mustdp.loss.discrete import DiscreteLoss
from mustdp.loss.linear_laws import places
from mustdp.loss.observed import Cells, Mixed, Rejections, rejecting_above, rejecting_pair
from mustdp.loss.sums import TooLong
from mustdp.numerics.arrays import FloatArray, IntArray

#: Spacing times tilt times the root of the number of batches, and cells before they grow.
_FINENESS, _EVEN = 0.025, 250
#: Where outcomes of one batch end, and how many of them are looked at.
_END, _LOOKS = 36.0, 20_001
#: How small chances of tests are followed, and by how many aims at most.
_SMALLEST, _MOST_AIMS = 1e-17, 48
#: Tests reach this far from their aim, in units of one over the tilt, before the next ones begin.
_COVERED, _GENTLEST = 2.5, 0.1
#: Deviations below the mean at which the bulk of a law begins.
_BULK = 8.0
#: Cells become this much wider at most, and the numbers of one batch this large.
_WIDEST, _LARGEST = 64.0, 2.0**40
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
            if tests.p.size and float(tests.p.min()) < _SMALLEST:
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

    def _laws(self, cells: Cells, mirrored: bool) -> tuple[Mixed, Mixed, float]:
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

    def _cells(self, spacing: float) -> Cells:
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
) -> Cells:
    """Cells of f, each between the middles of neighbouring numbers."""
    centre = float(np.interp(0.0, g, f))
    reach = _LARGEST * spacing
    low, high = min(float(f[0]), -2.0 * spacing), max(float(f[-1]), 2.0 * spacing)
    low, high = max(low, -reach), min(high, reach)
    index = places(spacing, low, high, even, min(max(centre, low), high))
    middles = 0.5 * (index[1:] + index[:-1]).astype(np.float64) * spacing
    rising = np.append(True, np.diff(f) > 0.0)
    ends = np.interp(middles, f[rising], g[rising])
    return Cells.trimmed(spacing, index, ends, farthest)


def _turned(law: DiscreteLoss, mirrored: bool) -> DiscreteLoss:
    """The law of the number, or of the number with the other sign."""
    if not mirrored:
        return law
    return DiscreteLoss(law.spacing, -law.index[::-1], law.masses[::-1].copy())
