"""How long work says how far it is: one shape for every callback; loading this loads nothing."""

from __future__ import annotations

from typing import Protocol


class Progress(Protocol):
    """Called whenever the work has got further.

    ``what`` names the part at hand, ``done`` counts the parts that are finished and ``total`` all
    of them; it is None where that is not known. What the call returns is not looked at.

    >>> import mustdp as md
    >>> def show(what: str, done: int, total: int | None) -> None:
    ...     print(f"{what}: {done} of {total}")
    >>> heard: md.Progress = show
    >>> heard("must-ow", 3, 7)
    must-ow: 3 of 7
    """

    def __call__(self, what: str, done: int = 0, total: int | None = None, /) -> object:
        """Take note."""
