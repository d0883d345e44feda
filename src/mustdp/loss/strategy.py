"""What an adaptive data holder attains: aligned or reversed, chosen as releases come in.

The recursion over concrete pairs, with losses merged downwards, is a value that a real strategy
reaches: it looks at the loss so far and takes the better pair. Deciding only every so many steps is
a strategy too, so many steps cost no more than a few hundred.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mustdp.loss.compose import OUTSIDE, Composition
from mustdp.loss.cover import Snapshot
from mustdp.loss.discrete import DiscreteLoss
from mustdp.loss.merge import lumps_of, merge
from mustdp.loss.pairs import ConcretePair
from mustdp.loss.questions import EpsilonAt, Question
from mustdp.loss.recursion import STEEPEST, Recursion, Window, answer
from mustdp.numerics.arrays import IntArray

#: Decisions that are made at most and at least, and grid points that all of them work through.
_DECISIONS, _FEWEST_DECISIONS, _LONGEST = 400, 10, 2e7
_DROPPED = 1e-9

#: Pairs to choose from, the points they are merged on, and for how many steps.
Choice = tuple[Sequence[ConcretePair], IntArray, int]


@dataclass(frozen=True, eq=False)
class Attained:
    """A value that is attained, by whom, and what g looked like on the way."""

    value: float
    attained_by: str
    snapshots: tuple[Snapshot, ...]
    marks: tuple[float, ...]
    slope: float = 1.0


def attained(
    choices: Sequence[Choice],
    spacing: float,
    question: Question,
    epsilon: float,
    deviation: float,
    marks: Sequence[float],
    rare: float = 0.0,
) -> Attained:
    """The value of the strategy; ``epsilon`` is above where the answer lies.

    The largest losses, ``rare`` of mass in every step at most, are dropped: that lowers the value,
    by no more than all of that mass, and without them transforms are short.
    """
    steps = sum(count for *_, count in choices)
    spacing = _on_lumps(choices, spacing)
    losses: dict[tuple[int, int, int], list[DiscreteLoss]] = {}
    single = {
        _key(choice, 1): [
            merge(pair, spacing, choice[1], []).truncated(rare, keep=False) for pair in choice[0]
        ]
        for choice in choices
    }
    composition = Composition([(single[_key(choice, 1)][0], choice[2]) for choice in choices])
    tilt = composition.best_tilt(epsilon)
    plan: list[tuple[int, list[DiscreteLoss]]] = []
    # Rare losses that reach far make long transforms: fewer decisions then.
    length = (epsilon + 5.0 * deviation) / spacing + max(int(c[1][-1]) for c in choices)
    decisions = min(_DECISIONS, max(_FEWEST_DECISIONS, _LONGEST / length))
    for choice in reversed(choices):  # the last step is the first of the recursion
        count, stride = choice[2], max(1, math.ceil(steps / decisions))
        for length, times in ((stride, count // stride), (count % stride, 1)):
            if length and times:
                key = _key(choice, length)
                if key not in losses:
                    losses[key] = [_power(one, length, tilt) for one in single[_key(choice, 1)]]
                plan += [(length, losses[key])] * times
    window = _window(spacing, epsilon, deviation, [x for v in losses.values() for x in v], tilt)
    recursion = Recursion(window, "lower")
    kernels = {id(members): recursion.kernels(members) for members in losses.values()}
    done, snapshots, seen = 0, [], []
    wanted = sorted(marks)
    for length, members in plan:
        recursion.step(kernels[id(members)])
        done += length
        if wanted and done >= wanted[0] * steps:
            snapshots.append(Snapshot(spacing, window.first, recursion.values))
            seen.append(done / steps)
            wanted = [mark for mark in wanted if mark * steps > done]
    value = answer(recursion, question)
    slope = _slope(recursion, value if isinstance(question, EpsilonAt) else question.at)
    return Attained(value, "adaptive: aligned and reversed", tuple(snapshots), tuple(seen), slope)


def _on_lumps(choices: Sequence[Choice], spacing: float) -> float:
    """A spacing, not above the one given, on which the largest lump of the first pair lies.

    Its mirror image, the lump of the reversed pair, then lies on the grid as well. A lump between
    two grid points would cost in first order of the spacing, in every step.
    """
    pairs, points, _ = max(choices, key=lambda choice: choice[2])
    found = lumps_of(pairs[0], spacing, points)
    if not found:
        return spacing
    place = abs(max(found, key=lambda lump: lump.mass).loss)
    if not place > 0.2 * spacing:
        return spacing
    # A hair inside, so that the cell of the lump can close.
    return place / (math.ceil(place / spacing) + 1e-6)


def _key(choice: Choice, length: int) -> tuple[int, int, int]:
    return id(choice[0][0]), id(choice[0][-1]), length


def _power(loss: DiscreteLoss, times: int, tilt: float) -> DiscreteLoss:
    """The loss of ``times`` steps with the same pair, every mass rounded down."""
    if times == 1:
        return loss
    tilted = Composition([(loss, times)]).tilt(tilt)
    # What wraps around the window may sit anywhere in it.
    masses = np.maximum(tilted.masses - tilted.error - 2.0 * OUTSIDE, 0.0)
    masses = masses * (1.0 - tilted.relative - 1e-12)
    masses = masses * np.exp(tilted.log_scale - tilt * tilted.losses)
    index = np.rint(tilted.losses / loss.spacing).astype(np.int64)
    kept = masses > 0.0
    return DiscreteLoss(loss.spacing, index[kept], masses[kept], lost=times * loss.lost)


def _window(
    spacing: float, epsilon: float, deviation: float, losses: Sequence[DiscreteLoss], tilt: float
) -> Window:
    """Wide enough for the losses that matter under the tilt; what lies beyond is dropped."""
    up = down = 1
    for loss in losses:
        weight = loss.masses * np.exp(tilt * loss.losses)
        weight /= weight.sum()
        above = np.flatnonzero(np.cumsum(weight[::-1])[::-1] > _DROPPED)
        plain = np.flatnonzero(np.cumsum(loss.masses) > _DROPPED)
        up = max(up, int(loss.index[above[-1]]))
        down = max(down, -int(loss.index[plain[0]]))
    bottom = 3.0 * deviation + 16.0 * spacing
    top = epsilon + 2.0 * deviation
    steepest = 0.9 * STEEPEST / max(top + down * spacing, bottom + up * spacing)
    return Window(
        spacing, -math.ceil(bottom / spacing), math.ceil(top / spacing) + 2, up, down,
        min(tilt, steepest),
    )  # fmt: skip


def _slope(recursion: Recursion, epsilon: float) -> float:
    """Minus the slope of log g at ``epsilon``: a good tilt for the other side."""
    window, g = recursion.window, recursion.values
    middle = min(max(round(epsilon / window.spacing) - window.first, 8), window.size - 9)
    low, high = g[middle - 8], g[middle + 8]
    if not (low > 0.0 and high > 0.0):
        return 1.0
    return max(0.1, math.log(low / high) / (16.0 * window.spacing))
