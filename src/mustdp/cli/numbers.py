"""Numbers from the command line: text in, checked number out, errors that name the option.

Options are taken as text and read here, so that every refusal reads alike: the option, what is
allowed, and the value.
"""

from __future__ import annotations

from mustdp.errors import InvalidParameter
from mustdp.limits import LARGEST_SIZE

_LONGEST = 40


def whole(option: str, text: str, low: int = 1, high: int | None = None) -> int:
    """Read an integer in [low, high]; ``1.5``, ``1e3`` and ``nan`` are refused."""
    from mustdp.numerics import checks

    try:
        value: object = int(text) if len(text) <= _LONGEST else clipped(text)
    except ValueError:
        value = clipped(text)
    return checks.integer(option, value, low, LARGEST_SIZE if high is None else high)


def number(
    option: str,
    text: str,
    *,
    above: float | None = None,
    at_least: float | None = None,
    below: float | None = None,
    at_most: float | None = None,
) -> float:
    """Read a finite number; ``nan`` and ``inf`` are refused."""
    from mustdp.numerics import checks

    try:
        value: object = float(text)
    except ValueError:
        value = clipped(text)
    return checks.real(option, value, above=above, at_least=at_least, below=below, at_most=at_most)


def one_of(option: str, text: str, allowed: tuple[str, ...]) -> str:
    """Return ``text`` if it is one of the ``allowed`` words."""
    if text not in allowed:
        raise InvalidParameter(
            f"{option} must be one of {', '.join(allowed)}, got {clipped(text)!r}"
        )
    return text


def clipped(text: str) -> str:
    """Shorten a value that would not fit on one line."""
    return text if len(text) <= _LONGEST else text[: _LONGEST - 3] + "..."
