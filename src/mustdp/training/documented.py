"""Long lists of parameters stand in files of their own; here they become part of a docstring."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")
_EXAMPLES = "    Examples\n    --------\n"


def documented(sections: str) -> Callable[[type[T]], type[T]]:
    """Put ``sections`` in front of the examples in the docstring of a class."""

    def put(described: type[T]) -> type[T]:
        said, heading, examples = (described.__doc__ or "").partition(_EXAMPLES)
        parts = (said.rstrip(), sections.strip("\n"), f"{heading}{examples}".strip("\n"))
        described.__doc__ = "\n\n".join(parts)
        return described

    return put
