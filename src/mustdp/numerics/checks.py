"""One validator per kind of argument; each names the argument, the value and what is allowed.

Every comparison is written so that NaN fails it.
"""

from __future__ import annotations

import operator
import os
import sys
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mustdp.errors import InvalidParameter, LargeDelta, MustdpError
from mustdp.limits import LARGEST_SIZE, MOST_MEMORY_SHARE, MOST_SECONDS

T = TypeVar("T")


def integer(name: str, value: object, low: int, high: int = LARGEST_SIZE) -> int:
    """Return ``value`` as an int in [low, high]; floats and booleans are refused."""
    allowed = f"must be an integer from {low} to {high}"
    if isinstance(value, bool | np.bool_):
        raise InvalidParameter.refusing(name, allowed, repr(value))
    try:
        number = operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        raise InvalidParameter.refusing(name, allowed, repr(value)) from None
    if not low <= number <= high:
        raise InvalidParameter.refusing(name, allowed, number)
    return number


def real(
    name: str,
    value: object,
    *,
    above: float | None = None,
    at_least: float | None = None,
    below: float | None = None,
    at_most: float | None = None,
) -> float:
    """Return ``value`` as a finite float inside the stated limits."""
    limits = []
    if above is not None:
        limits.append(f"> {above:g}")
    if at_least is not None:
        limits.append(f">= {at_least:g}")
    if below is not None:
        limits.append(f"< {below:g}")
    if at_most is not None:
        limits.append(f"<= {at_most:g}")
    allowed = "must be a finite number" + (" " + " and ".join(limits) if limits else "")
    if isinstance(value, bool | np.bool_ | str | bytes):
        raise InvalidParameter.refusing(name, allowed, repr(value))
    try:
        number = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        raise InvalidParameter.refusing(name, allowed, repr(value)) from None
    inside = (
        np.isfinite(number)
        and (above is None or number > above)
        and (at_least is None or number >= at_least)
        and (below is None or number < below)
        and (at_most is None or number <= at_most)
    )
    if not inside:
        raise InvalidParameter.refusing(name, allowed, repr(value))
    return number


def reals(
    name: str,
    values: ArrayLike,
    *,
    at_least: float | None = None,
    at_most: float | None = None,
) -> NDArray[np.float64]:
    """Return ``values`` as a new one-dimensional float array, every entry finite and in range."""
    allowed = "must be a number or a non-empty list of finite numbers"
    if at_least is not None:
        allowed += f" >= {at_least:g}"
    if at_most is not None:
        allowed += f"{' and' if at_least is not None else ''} <= {at_most:g}"
    try:
        given = np.asarray(values)
        if given.dtype.kind not in "iuf":
            raise TypeError
        array = np.atleast_1d(np.array(given, dtype=np.float64))
    except (TypeError, ValueError, OverflowError):
        raise InvalidParameter.refusing(name, allowed, repr(values)) from None
    if array.ndim != 1 or array.size == 0:
        raise InvalidParameter.refusing(name, allowed, f"an array of shape {array.shape}")
    good = np.isfinite(array)
    if at_least is not None:
        good &= array >= at_least
    if at_most is not None:
        good &= array <= at_most
    if not good.all():
        raise InvalidParameter.refusing(name, allowed, repr(float(array[~good][0])))
    return array


def exactly_one(**given: object) -> None:
    """Refuse arguments that exclude each other unless exactly one of them is not None."""
    named = [name for name, value in given.items() if value is not None]
    if len(named) != 1:
        names = list(given)
        raise InvalidParameter(
            f"exactly one of {', '.join(names[:-1])} and {names[-1]} must be given, got "
            + (" and ".join(named) if named else "none")
        )


def choice(name: str, value: T, options: Sequence[T]) -> T:
    """Return ``value`` if it is one of ``options``."""
    if value not in options:
        listed = ", ".join(repr(option) for option in options)
        raise InvalidParameter.refusing(name, f"must be one of {listed}", repr(value))
    return value


def instance(name: str, value: object, kind: type[T]) -> T:
    """Return ``value`` if it is one of ``kind``."""
    if not isinstance(value, kind):
        raise InvalidParameter.refusing(name, f"must be a {kind.__name__}", type(value).__name__)
    return value


def frozen(array: NDArray[T]) -> NDArray[T]:  # type: ignore[type-var]
    """Mark ``array`` read-only and return it."""
    array.setflags(write=False)
    return array


def immutable(array: NDArray[T]) -> NDArray[T]:  # type: ignore[type-var]
    """A copy of ``array`` that cannot be written to, and cannot be made writeable either.

    >>> immutable(np.zeros(2)).flags.writeable = True
    Traceback (most recent call last):
    ValueError: cannot set WRITEABLE flag to True of this array
    """
    copied: NDArray[T] = np.frombuffer(array.tobytes(), dtype=array.dtype)  # type: ignore[type-var]
    return copied.reshape(array.shape)


# Failures of code that is not ours, without its words: they may quote values of the records.
#
# ``float("HIV positive")`` says what it could not read, gzip shows the first bytes of a file, and a
# user's function may say anything. What is refused here names the place and the kind of failure.


def unquoted(call: Callable[[], T], refusal: str) -> T:
    """What ``call`` gives; where it fails, ``refusal`` and the kind of failure, nothing more.

    Errors of this package pass: they are written without values. The new error is raised after the
    handler, because inside of one it would carry the old error along in its context.

    >>> unquoted(lambda: float("a secret"), "the column must hold numbers")
    Traceback (most recent call last):
    mustdp.errors.InvalidParameter: the column must hold numbers, got ValueError
    """
    try:
        return call()
    except (MustdpError, MemoryError):
        raise
    except Exception as problem:
        number = problem.errno if isinstance(problem, OSError) else None
        kind = type(problem).__name__ if number is None else os.strerror(number)
    raise InvalidParameter(f"{refusal}, got {kind}")


def warn_of_large_delta(delta: float, n: int) -> None:
    """Warn with :class:`LargeDelta` of a delta above 1/n; ``n`` must be public, and at least 2.

    A number of records that is private must not come here: a warning would tell of it.
    """
    if n >= 2 and delta > 1.0 / n:
        warnings.warn(
            f"delta {delta!r} is above one in the number of records, {n}: publishing a record "
            "chosen at random would be as private; take a delta well below 1/n",
            LargeDelta,
            stacklevel=_first_outside(),
        )


def _first_outside() -> int:
    """The level, for ``warnings.warn``, of the nearest caller outside of this package."""
    here, level, frame = str(Path(__file__).parents[1]), 1, sys._getframe(2)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(here):
        frame, level = frame.f_back, level + 1
    return level + 1


# Work that would not end or not fit is refused beforehand, with the estimate that says so.
#
# The estimates stand beside the work (``accounting/subsampling/one_step.py``,
# ``estimation``); the limits and the words are here. Estimates are rough, within a
# factor of a few, and the limits are generous: what is refused would have taken a night or filled
# the machine.


#: Where Linux says what a container may use.
_CONTAINER = Path("/sys/fs/cgroup/memory.max")
#: Bytes that are assumed where the system does not tell its memory.
_ASSUMED = 16 * 10**9


@dataclass(frozen=True)
class WorkEstimate:
    """What some work is expected to take, in processor seconds and bytes of memory."""

    seconds: float = 0.0
    bytes: float = 0.0


def check_cost(argument: str, work: str, cost: WorkEstimate) -> None:
    """Refuse ``work`` that takes more than is allowed; ``argument`` is what makes it large.

    >>> check_cost("stages", "a certificate", WorkEstimate(seconds=90.0))
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
