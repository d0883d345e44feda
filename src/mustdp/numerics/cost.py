"""Work that would not end or not fit is refused beforehand, with the estimate that says so.

The estimates stand beside the work (``amplification/effort.py``, ``resampling/statistics``); the
limits and the words are here. Estimates are rough, within a factor of a few, and the limits are
generous: what is refused would have taken a night or filled the machine.
"""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from mustdp.errors import InvalidParameter
from mustdp.limits import MOST_MEMORY_SHARE, MOST_SECONDS

#: Where Linux says what a container may use.
_CONTAINER = Path("/sys/fs/cgroup/memory.max")
#: Bytes that are assumed where the system does not tell its memory.
_ASSUMED = 16 * 10**9


@dataclass(frozen=True)
class Cost:
    """What some work is expected to take, in processor seconds and bytes of memory."""

    seconds: float = 0.0
    bytes: float = 0.0


def check_cost(argument: str, work: str, cost: Cost) -> None:
    """Refuse ``work`` that takes more than is allowed; ``argument`` is what makes it large.

    >>> check_cost("stages", "a certificate", Cost(seconds=90.0))
    """
    most = MOST_MEMORY_SHARE * memory()
    if not (cost.seconds <= MOST_SECONDS and cost.bytes <= most):
        raise InvalidParameter.refusing(
            argument,
            f"must be fewer or smaller: {work} may take {MOST_SECONDS / 60:.0f} minutes and "
            f"{most / 1e9:.3g} GB here",
            f"one of about {cost.seconds / 60:.3g} minutes and {cost.bytes / 1e9:.3g} GB",
        )


def memory() -> float:
    """Bytes of memory of this machine, or of the container that this process runs in."""
    found = float(_ASSUMED)
    with suppress(AttributeError, ValueError, OSError):
        found = float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    with suppress(OSError, ValueError):  # ValueError: "max", no limit
        found = min(found, float(_CONTAINER.read_text(encoding="ascii")))
    return found
