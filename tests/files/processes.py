"""Work in a child process, which may end at any call to the system."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

#: What replacing a file asks of the system, once the part has a name.
CALLS = ("open", "write", "fsync", "replace", "close", "lstat", "fstat", "listdir", "unlink")
KILLED = 77


def child(work: Callable[[], None]) -> int:
    """The process number of a child that does ``work``."""
    number = os.fork()
    if number:
        return number
    status = 1
    try:
        work()
        status = 0
    finally:
        os._exit(status)


def ended(number: int) -> int:
    """Wait for a child; its exit status."""
    return os.waitstatus_to_exitcode(os.waitpid(number, 0)[1])


def die() -> None:
    """End at once, as if killed."""
    os._exit(KILLED)


def stopping_at(
    call: int, after: bool, stop: Callable[[], None], patch: Callable[[Any, str, Any], None]
) -> list[str]:
    """Do ``stop`` at the given call to the system, before or after it; return the calls so far."""
    made: list[str] = []

    def counted(name: str) -> Callable[..., Any]:
        inner = getattr(os, name)

        def outer(*given: Any, **named: Any) -> Any:
            made.append(name)
            here = len(made) == call
            if here and not after:
                stop()
            if name == "write":  # a few bytes at a time, so that there are moments in between
                given = (given[0], given[1][: max(1, len(given[1]) // 2)])
            try:
                return inner(*given, **named)
            finally:
                if here and after:
                    stop()

        return outer

    for name in CALLS:
        patch(os, name, counted(name))
    return made
