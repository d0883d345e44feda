"""Failures of code that is not ours, without its words: they may quote values of the records.

``float("HIV positive")`` says what it could not read, gzip shows the first bytes of a file, and a
user's function may say anything. What is refused here names the place and the kind of failure.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TypeVar

from mustdp.errors import InvalidParameter, MustdpError

T = TypeVar("T")


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
