"""The staircase mechanism: noise whose density is a staircase, on a single number.

Geng & Viswanath 2014 ("The optimal mechanism in differential privacy", arXiv 1212.1186v3, equation
(17)): for a sensitivity of 1, b = e^-epsilon and 0 < gamma <= 1, the density at x is a b^n(x) with

    n(x) = floor(|x| + 1 - gamma),    a = (1 - b) / (2 (gamma + b (1 - gamma))).

It falls by the factor b at gamma, 1 + gamma, 2 + gamma, … on both sides, so moving it by at most
the sensitivity changes it by at most that factor.

*Farther is worse.* f is symmetric and does not increase with |x|. Moving it by d and then a little
further changes the divergence E max(0, f(x - d) - alpha f(x)) at the steps of f(x - d) alone. A
step from u down to v, at distance r on the right of d, adds phi(f(d + r)) with

    phi(y) = max(0, u - alpha y) - max(0, v - alpha y) >= 0,

and its mirror image, at d - r, takes phi(f(d - r)) off. phi does not increase, and f(d + r) <=
f(d - r) as |d - r| <= d + r: the divergence does not decrease in d, for any alpha. So the worst
that j records can do is to move the output by j sensitivities.

*Profiles.* At distance j the loss is a multiple of epsilon. With w = min(gamma, 1 - gamma), the
line from -w to j + w falls into j + 1 intervals of length 2w around 0, …, j and j of length
1 - 2w between them. The loss is j epsilon right of it and -j epsilon left of it. On the interval
around c it is (2c - j) epsilon, and f(x - j) = a b^(j-c); between c and c + 1 it is
(2c + 1 - j) epsilon, and f(x - j) = a b^(j-c), or a b^(j-c-1) where gamma > 1/2. With p_i the
chance of the loss i epsilon, the divergence is linear in alpha between the points e^(i epsilon),
and

    delta(i epsilon) = delta((i+1) epsilon) + (1 - b) v_i,    v_i = p_(i+1) + b v_(i+1),

from v_j = delta(j epsilon) = 0 on: sums of positive terms alone. The slope from i epsilon to
(i+1) epsilon is -v_i b^(i+1).

*Moments.* With q = e^-((2a-1) epsilon) at the order a, and G(k) = 1 + q + … + q^(k-1),

    E_Q (P/Q)^a = e^((a-1) j epsilon) ((1/2 - a_0 w) (1 + q^j) + 2 w a_0 G(j+1) + (1-2w) a_0 s G(j))

where a_0 is the density at 0 and s = e^-(a epsilon), or e^-((a-1) epsilon) where gamma > 1/2.

*What is attained.* Numbers that one record moves by the sensitivity, or, where one record is
replaced by another, by half of it to either side: densities moved by multiples of half the
sensitivity are constant between the points k/2 + gamma and k/2 - gamma, and beyond all places their
ratios repeat with period 1.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from fractions import Fraction
from functools import cached_property
from math import floor
from typing import Any, ClassVar

import numpy as np
from scipy.signal import lfilter

from mustdp.mechanisms.mechanism import (
    DiscreteOutcomes,
    GroupProfiles,
    Mechanism,
    TabulatedProfiles,
    dual,
)
from mustdp.mechanisms.registry import MECHANISM_EPSILON, Argument, register
from mustdp.numerics import checks
from mustdp.numerics.arrays import ROUNDOFF, FloatArray, IntArray
from mustdp.numerics.convex import TangentTable, chord, two_sided

#: The largest loss that is tabulated.
_REACH = 690.0
#: Columns of a table of masses; where there are more, neighbouring outcomes are merged.
_MOST_MASSES, _FEWEST_CELLS = 4_000_000, 4096


@dataclass(frozen=True)
class StaircaseLaw:
    """The law of the noise, in units of the sensitivity."""

    epsilon: float
    gamma: float

    @property
    def _narrow(self) -> bool:
        return self.gamma <= 0.5

    @property
    def _total(self) -> float:
        return float(self.gamma + np.exp(-self.epsilon) * (1.0 - self.gamma))

    @property
    def top(self) -> float:
        """The density at 0."""
        return float(-np.expm1(-self.epsilon) / (2.0 * self._total))

    @cached_property
    def pieces(self) -> tuple[float, float, float]:
        """Chances under the density at 0: of 2w, of 1 - 2w; and P(X > w), without cancellation."""
        gamma, low = Fraction(self.gamma), float(np.exp(-self.epsilon))
        w = min(gamma, 1 - gamma)
        rest = low if self._narrow else float(1 - 2 * w) + 2.0 * low * float(w)
        return self.top * float(2 * w), self.top * float(1 - 2 * w), rest / (2.0 * self._total)

    def losses(self, distance: int) -> FloatArray:
        """Chances of the losses -j, …, j, times epsilon, of the law moved by the distance j."""
        around, between, beyond = self.pieces
        falling = np.exp(-self.epsilon * np.arange(distance, -1.0, -1.0))
        chances = np.zeros(2 * distance + 1)
        chances[::2] = around * falling
        chances[1::2] = between * (falling[:-1] if self._narrow else falling[1:])
        chances[0] += beyond * falling[0]
        chances[-1] += beyond
        return chances

    def log_moments(self, a: FloatArray, distance: FloatArray) -> FloatArray:
        """By the formula above, rounded up."""
        around, between, beyond = self.pieces
        rate = (2.0 * a - 1.0) * self.epsilon
        side = np.exp(-(a if self._narrow else a - 1.0) * self.epsilon)

        def series(count: FloatArray) -> FloatArray:
            return np.asarray(np.expm1(-rate * count) / np.expm1(-rate))

        inside = beyond * (1.0 + np.exp(-rate * distance))
        inside = inside + around * series(distance + 1.0) + between * side * series(distance)
        moments = (a - 1.0) * distance * self.epsilon * (1.0 + 4.0 * ROUNDOFF)
        return np.asarray(np.where(distance > 0.0, moments + np.log(inside) + 64.0 * ROUNDOFF, 0.0))


class StaircaseProfiles(TabulatedProfiles):
    """Exact group profiles: linear in alpha between the powers of e^epsilon."""

    def __init__(self, law: StaircaseLaw) -> None:
        self._law = law
        self._kinks: dict[int, tuple[FloatArray, FloatArray]] = {}
        super().__init__(_REACH)

    def delta(self, groups: FloatArray, epsilon: FloatArray) -> FloatArray:
        """Read off chords between the kinks, which are moved to the safe side."""
        j, e = np.broadcast_arrays(groups, np.asarray(epsilon, dtype=np.float64))
        found = np.zeros(e.shape)
        for group in np.unique(j).tolist():
            here = j == group
            found[here] = chord(*self._profile(round(group)), np.abs(e[here]))
        return dual(np.minimum(found, 1.0), e)

    def _profile(self, group: int) -> tuple[FloatArray, FloatArray]:
        """The losses from 0 on, rounded up, and the profile at each, rounded up."""
        if group not in self._kinks:
            value = np.append(np.cumsum(self._v(group))[::-1], 0.0)
            value = value * -np.expm1(-self._law.epsilon)
            losses = self._law.epsilon * np.arange(group + 1.0) * (1.0 + 4.0 * ROUNDOFF)
            self._kinks[group] = losses, value * (1.0 + 8.0 * ROUNDOFF * (group + 8.0))
        return self._kinks[group]

    def _v(self, group: int) -> FloatArray:
        """The numbers v, from the last one down."""
        positive = self._law.losses(group)[group + 1 :]
        v = lfilter([1.0], [1.0, -np.exp(-self._law.epsilon)], positive[::-1])
        return np.asarray(v, dtype=np.float64)

    def _table(self, group: int) -> TangentTable:
        kinks, _ = self._profile(group)
        slopes = self._v(group)[::-1] * np.exp(-kinks[1:])
        # The slope is constant from each kink to just before the next one.
        ends = np.stack([kinks[:-1], kinks[:-1] + (1.0 - 1e-9) * np.diff(kinks)], axis=1)
        epsilon = np.append(ends.ravel(), kinks[-1] * np.array([1.0, 1.001, 2.0]))
        slope = np.append(np.repeat(slopes, 2), np.zeros(3))
        epsilon, first = np.unique(np.minimum(epsilon, _REACH), return_index=True)
        value = self.delta(np.array([float(group)]), epsilon[:, None])[:, 0]
        return two_sided(epsilon, value, slope[first])


@dataclass(frozen=True)
class StaircaseOutcomes(DiscreteOutcomes):
    """Intervals on which the density is constant wherever it is moved; places are half units."""

    law: StaircaseLaw

    relative_error = 1e-12  # of exponentials down to the smallest
    placements: ClassVar[Mapping[str, tuple[int, int]]] = {
        "aligned": (2, 0),
        "reversed": (0, 2),
        "symmetric": (1, -1),
    }

    def masses(self, places: IntArray) -> FloatArray:
        """One column for each interval, and one for all that repeat it beyond all places."""
        lengths, ahead, behind = self._period
        first, last = int(places.min()) // 2 - 2, -(-int(places.max()) // 2) + 1
        units = np.arange(first, last + 1)
        repeated = np.ones(units.size)
        repeated[[0, -1]] = -1.0 / np.expm1(-self.law.epsilon)
        weight = self.law.top * repeated[:, None] * lengths
        cells = max(_MOST_MASSES // places.size, _FEWEST_CELLS)
        cuts = np.unique(np.linspace(0, weight.size, min(cells, weight.size) + 1).astype(np.intp))
        rows = []
        for place in places.tolist():
            whole, half = np.divmod(2 * units - place, 2)
            steps = np.maximum(whole[:, None] + ahead[half], behind[half] - whole[:, None])
            mass = weight * np.exp(-self.law.epsilon * steps)
            rows.append(np.add.reduceat(mass.ravel(), cuts[:-1]))
        return np.array(rows)

    @cached_property
    def _period(self) -> tuple[FloatArray, IntArray, IntArray]:
        """The lengths of the intervals of one unit, and their steps ahead and behind, exactly.

        At x, which is a whole number and half a unit or none from the middle of an interval, the
        number of steps is floor(max(x, -x) + 1 - gamma).
        """
        gamma, half = Fraction(self.law.gamma), Fraction(1, 2)
        starts = sorted({at % 1 for at in (gamma, -gamma, gamma + half, half - gamma)})
        ends = [*starts[1:], starts[0] + 1]
        middles = [(start + end) / 2 for start, end in zip(starts, ends, strict=True)]
        ahead = [[floor(m + h + 1 - gamma) for m in middles] for h in (0, half)]
        behind = [[floor(-m - h + 1 - gamma) for m in middles] for h in (0, half)]
        lengths = [float(end - start) for start, end in zip(starts, ends, strict=True)]
        return np.array(lengths), np.array(ahead), np.array(behind)


@dataclass(frozen=True)
class Staircase(Mechanism):
    """Staircase noise on a number (see :func:`staircase`)."""

    mechanism_epsilon: float
    gamma: float

    name: ClassVar[str] = "staircase"

    def __post_init__(self) -> None:
        limits = {"at_least": 1e-9, "at_most": 100.0}
        checked = checks.real("epsilon", self.mechanism_epsilon, **limits)
        object.__setattr__(self, "mechanism_epsilon", checked)
        gamma = checks.real("gamma", self.gamma, at_least=1e-9, at_most=1.0)
        object.__setattr__(self, "gamma", gamma)

    @property
    def law(self) -> StaircaseLaw:
        """The law of the noise."""
        return StaircaseLaw(self.mechanism_epsilon, self.gamma)

    def shift_for(self, moves: float) -> None:
        """The noise is stated for its sensitivity."""
        return

    @property
    def covers_left_out(self) -> bool:
        """The sensitivity bounds what swapping a record does, and what leaving it out does."""
        return True

    def profiles(self, shift: float | None) -> GroupProfiles:
        """Exact group profiles."""
        return StaircaseProfiles(self.law)

    def attained(self, shift: float | None) -> DiscreteOutcomes:
        """The noise, moved by a number of half sensitivities."""
        return StaircaseOutcomes(self.law)

    def log_moments(
        self, orders: FloatArray, copies: FloatArray, shift: float | None
    ) -> FloatArray:
        """Those of the law."""
        return self.law.log_moments(orders[:, None], copies)

    def largest_loss(self, moves: int) -> Fraction:
        """The epsilon."""
        return Fraction(self.mechanism_epsilon)

    def describe(self) -> dict[str, Any]:
        """Plain description, for JSON."""
        return {"mechanism": self.name, **asdict(self)}


@register(
    summary="staircase noise on a single number, for its sensitivity (Geng & Viswanath 2014)",
    arguments=(
        MECHANISM_EPSILON,
        Argument(
            "gamma",
            "GAMMA",
            "Half of the width of the central step, in sensitivities, at most 1; "
            "1 / (1 + exp(E/2)) has the least error.",
            1e-9,
            1.0,
        ),
    ),
    examples=(
        {"mechanism_epsilon": 2.0, "gamma": 0.27},
        {"mechanism_epsilon": 0.8, "gamma": 0.7},
        {"mechanism_epsilon": 1.0, "gamma": 1.0},
        {"mechanism_epsilon": 0.2, "gamma": 0.5},
    ),
)
def staircase(epsilon: float, gamma: float) -> Mechanism:
    """Staircase noise on a single number (Geng & Viswanath 2014).

    The density is constant up to ``gamma`` sensitivities from the centre, and falls by the factor
    e^-epsilon there and after every further sensitivity. No other epsilon-private noise has a
    smaller mean absolute value than this one at ``gamma = 1 / (1 + math.exp(epsilon / 2))``. At
    large epsilons it is far smaller than that of Laplace noise.

    The sensitivity bounds how far one copy of a record moves the number, swapped or left out. The
    mechanism is accounted for, not drawn: floating-point numbers do not have this density, and a
    sampler that rounds them may lose more.

    Parameters
    ----------
    epsilon : float
        The epsilon of one release, from 1e-9 to 100.
    gamma : float
        Half of the width of the central step, in sensitivities, from 1e-9 to 1.

    Returns
    -------
    Mechanism
        A plan of one release, to be subsampled and repeated.

    References
    ----------
    Geng & Viswanath 2014, arXiv 1212.1186v3.

    Examples
    --------
    >>> import mustdp as md
    >>> noisy = md.repeat(20, md.staircase(epsilon=0.5, gamma=0.4))
    >>> print(md.account(noisy).epsilon(delta=1e-5))
    9.71 attained, 9.72 certified (replace-one)
    """
    return Staircase(epsilon, gamma)
