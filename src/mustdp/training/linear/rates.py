"""Learning rates: a number, a named schedule around it, or a function of the step.

All rates of a run are worked out and checked before its first step. They depend on the number of
the step alone, never on the data, so they cost no privacy.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mustdp.errors import InvalidParameter
from mustdp.numerics import checks
from mustdp.numerics.checks import frozen

LearningRate = float | Callable[[int], float]

#: Factor of the learning rate at step t (from 0) of T.
_FACTORS: dict[str, Callable[[int, int], float]] = {
    "constant": lambda t, T: 1.0,
    "linear": lambda t, T: 1.0 - t / T,
    "cosine": lambda t, T: 0.5 * (1.0 + math.cos(math.pi * t / T)),
    "inverse-sqrt": lambda t, T: 1.0 / math.sqrt(1.0 + t),
}
SCHEDULES = tuple(_FACTORS)
_LARGEST = 1e9


def learning_rates(learning_rate: Any, schedule: str, steps: int) -> NDArray[np.float64]:
    """The rate of every step, read-only.

    >>> learning_rates(0.5, "linear", 4)
    array([0.5  , 0.375, 0.25 , 0.125])
    >>> learning_rates(lambda step: 1 / (1 + step), "constant", 3)[1:]
    array([0.5       , 0.33333333])
    """
    checks.choice("schedule", schedule, SCHEDULES)
    if not callable(learning_rate):
        rate = checks.real("learning_rate", learning_rate, above=0, at_most=_LARGEST)
        factor = _FACTORS[schedule]
        return frozen(np.array([rate * factor(step, steps) for step in range(steps)]))
    if schedule != "constant":
        raise InvalidParameter(
            f"schedule must be 'constant' when learning_rate is a function, got {schedule!r}"
        )
    return frozen(
        np.array(
            [
                checks.real(
                    f"learning_rate({step})", learning_rate(step), at_least=0, at_most=_LARGEST
                )
                for step in range(steps)
            ]
        )
    )
