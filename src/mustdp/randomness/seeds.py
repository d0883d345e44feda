"""Seeds: numbers that repeat a run, and a loud word where one is used.

Whoever knows the seed of a run can subtract its noise. A seeded run is an experiment, never a
private release; without a seed every key is fresh from the operating system (``keys.py``).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mustdp.errors import InvalidParameter
from mustdp.numerics import checks

LARGEST_SEED = 2**128 - 1
#: What stands in every file that a run with a seed writes.
SEEDED = "made with a seed: an experiment, not a private release"


class SeededRelease(UserWarning):
    """A run whose noise can be repeated: for experiments only, with no privacy at all.

    Examples
    --------
    >>> import mustdp as md
    >>> issubclass(md.SeededRelease, Warning)
    True
    """


def read_seed(given: Any, name: str = "seed") -> int:
    """The seed that an integer is, or that a numpy ``Generator`` or ``RandomState`` draws."""
    if isinstance(given, np.random.Generator | np.random.RandomState):
        return int.from_bytes(given.bytes(16), "little")
    if isinstance(given, int | np.integer) and not isinstance(given, bool):
        return checks.integer(name, given, 0, LARGEST_SEED)
    raise InvalidParameter(
        f"{name} must be an integer from 0 to 2**128 - 1, a numpy Generator or RandomState, or "
        f"where nothing is to be repeated None, got {given!r}"
    )
