"""Plain JSON that means one thing: read strictly, and written canonically for checksums.

Read: UTF-8, no name twice in an object, no NaN or infinity, nested at most ``DEEPEST_JSON`` deep,
not longer than stated. Canonical: names sorted, no spaces, ASCII; equal texts stand for equal
values and, numbers being written with all their digits, the other way round. What would be refused
when read is refused when written.
"""

from __future__ import annotations

import hashlib
import json
import math
from typing import Any

from mustdp.errors import InvalidParameter
from mustdp.files.reading import too_large
from mustdp.limits import DEEPEST_JSON


def read_json(content: str | bytes, what: str, largest: int | None = None) -> Any:
    """The value of a JSON text; ``what`` names it where it is refused."""
    if not isinstance(content, str | bytes):
        raise InvalidParameter(f"{what} must be text, got {type(content).__name__}")
    if largest is not None and len(content) > largest:
        raise too_large(what, largest)
    try:
        text = content if isinstance(content, str) else content.decode("utf-8")
        value = json.loads(text, object_pairs_hook=_object, parse_constant=_no_constant)
    except UnicodeDecodeError as problem:
        raise InvalidParameter(
            f"{what} must be text in UTF-8, got other bytes at {problem.start}"
        ) from None
    except RecursionError:
        raise _too_deep(what) from None
    except ValueError as problem:
        raise InvalidParameter(f"{what} must be valid JSON: {problem}") from None
    check_plain(value, what)
    return value


def canonical(value: object, what: str) -> str:
    """The one text that stands for a value of plain JSON."""
    check_plain(value, what)
    try:
        return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)
    except ValueError as problem:  # whole numbers of thousands of digits
        raise InvalidParameter(f"{what} must be plain JSON: {problem}") from None


def digest(value: object, what: str) -> str:
    """SHA-256 of the canonical text, as 64 hexadecimal digits."""
    return hashlib.sha256(canonical(value, what).encode("ascii")).hexdigest()


def check_plain(value: object, what: str) -> None:
    """Refuse what JSON cannot hold, and what is nested too deeply to be read back."""
    level: list[object] = [value]
    for _ in range(DEEPEST_JSON):
        below: list[object] = []
        for each in level:
            if isinstance(each, dict):
                if not all(isinstance(name, str) for name in each):
                    raise InvalidParameter(f"{what} must be plain JSON: names must be text")
                below.extend(each.values())
            elif isinstance(each, list | tuple):
                below.extend(each)
            elif isinstance(each, float):
                if not math.isfinite(each):
                    raise InvalidParameter(f"{what} must be plain JSON: numbers must be finite")
            elif not (each is None or isinstance(each, str | int)):
                raise InvalidParameter(f"{what} must be plain JSON, got a {type(each).__name__}")
        if not below:
            return
        level = below
    raise _too_deep(what)


def _too_deep(what: str) -> InvalidParameter:
    return InvalidParameter(f"{what} must be nested at most {DEEPEST_JSON} deep, got more")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a name occurs twice in one object")
    return found


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no number of JSON")
