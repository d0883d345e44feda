"""How long work says how far it is: one shape for every callback; loading this loads nothing."""

from __future__ import annotations

from typing import Protocol


class Progress(Protocol):
    """Called whenever the work has got further; what the call returns is not looked at.

    Parameters
    ----------
    what : str
        Names the part at hand.
    done : int, default=0
        How many parts are finished.
    total : int, default=None
        How many there are; None where that is not known.

    Examples
    --------
    >>> import mustdp as md
    >>> def show(what: str, done: int, total: int | None) -> None:
    ...     print(f"{what}: {done} of {total}")
    >>> heard: md.types.Progress = show
    >>> heard("must-ow", 3, 7)
    must-ow: 3 of 7
    """

    def __call__(self, what: str, done: int = 0, total: int | None = None, /) -> object:
        """Take note."""
