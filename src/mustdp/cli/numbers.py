"""Text from the command line, read into checked values; every refusal names the option.

A refusal reads alike everywhere: the option, what is allowed, and the value.
"""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches
from functools import partial

from mustdp.errors import InvalidParameter
from mustdp.limits import LARGEST_SIZE

_LONGEST = 40


def read_integer(option: str, text: str, low: int = 1, high: int = LARGEST_SIZE) -> int:
    """Read an integer in [low, high]; ``1.5``, ``1e3`` and ``nan`` are refused."""
    from mustdp.numerics import checks

    try:
        value: object = int(text) if len(text) <= _LONGEST else clipped(text)
    except ValueError:
        value = clipped(text)
    return checks.integer(option, value, low, high)


def read_number(
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


#: Readers of seeds, of probabilities with and without their ends, and of learning rates and bounds.
read_natural = partial(read_integer, low=0)
read_rate = partial(read_number, at_least=0, at_most=1)
read_inner_rate = partial(read_number, above=0, below=1)
read_positive = partial(read_number, above=0)
read_scale = partial(read_number, above=0, at_most=1e9)


def one_of(option: str, text: str, allowed: Sequence[str]) -> str:
    """Return ``text`` if it is one of the ``allowed`` words; a near miss is pointed out.

    >>> one_of("--scheme", "mustow", ("wor", "must-ow"))
    Traceback (most recent call last):
    mustdp.errors.InvalidParameter: --scheme must be one of wor, must-ow, got 'mustow' (did you mean must-ow?)
    """  # noqa: E501
    if text in allowed:
        return text
    near = get_close_matches(text.lower(), allowed, n=1)
    hint = f" (did you mean {near[0]}?)" if near else ""
    raise InvalidParameter.refusing(
        option, f"must be one of {', '.join(allowed)}", f"{clipped(text)!r}{hint}"
    )


def clipped(text: str) -> str:
    """Shorten a value that would not fit on one line."""
    return text if len(text) <= _LONGEST else text[: _LONGEST - 3] + "..."
