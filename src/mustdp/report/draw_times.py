"""How long a draw takes, measured: the only numbers of a report that differ from run to run."""

from __future__ import annotations

import statistics
import time

import numpy as np

from mustdp.sampling.scheme import Scheme

_DRAWS = 15
#: No further draw is begun after this many seconds.
_ENOUGH = 0.5
#: Draws of more records than this are not timed, but counted in the batch size all the same.
_LARGEST = 5_000_000


def draw_time(scheme: Scheme) -> float:
    """Median seconds of one draw on this machine, after one that warms up; NaN if not timed.

    What is drawn is thrown away, so a fixed seed does no harm here.
    """
    if scheme.expected_size > _LARGEST:
        return float("nan")
    rng = np.random.default_rng(0)
    start = time.perf_counter()
    scheme.draw(rng)
    seconds: list[float] = []
    while len(seconds) < _DRAWS and (not seconds or time.perf_counter() - start < _ENOUGH):
        begun = time.perf_counter()
        scheme.draw(rng)
        seconds.append(time.perf_counter() - begun)
    return statistics.median(seconds)
