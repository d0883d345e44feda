"""Which columns are meant: by name, or by position where no column has that name."""

from __future__ import annotations

import operator
from collections.abc import Hashable, Sequence
from typing import Any

from mustdp.errors import InvalidParameter

#: A column as the caller names it.
Column = str | int
Columns = Column | Sequence[Column] | None

_LISTED = 10
_LETTERS = 40


def select(labels: Sequence[Hashable], columns: Columns, where: str) -> list[int]:
    """Positions of ``columns`` among ``labels``, in the order asked for.

    A label itself comes first (frames may have numbers as labels), then its text, then the
    position. ``where`` says in messages whose columns these are.

    >>> select(["age", "income"], ["income", 0], "the table")
    [1, 0]
    """
    found: list[int] = []
    for column in as_list(columns):
        position = _position(labels, column, where)
        if position in found:
            raise InvalidParameter.refusing(
                "columns", "must be different", f"{name_of(labels[position])!r} twice"
            )
        found.append(position)
    return found


def as_list(columns: Columns) -> list[Any]:
    """The columns asked for as a list; None is refused here."""
    if isinstance(columns, str) or _is_integer(columns):
        return [columns]
    allowed = "columns must be a name, a position or a non-empty list of them"
    if columns is None or isinstance(columns, bytes | dict | set | frozenset):
        raise InvalidParameter(f"{allowed}, got {columns!r}")
    try:
        listed = list(columns)  # type: ignore[arg-type]
    except TypeError:
        raise InvalidParameter(f"{allowed}, got {columns!r}") from None
    if not listed:
        raise InvalidParameter(f"{allowed}, got none")
    for column in listed:
        if not (isinstance(column, str) or _is_integer(column)):
            raise InvalidParameter(f"{allowed}, got {column!r} among them")
    return listed


def name_of(label: object) -> str:
    """A column's name as text."""
    return label if isinstance(label, str) else str(label)


def listing(labels: Sequence[object]) -> str:
    """The names there are, clipped to what one can read.

    >>> listing(["a", "b"])
    "'a', 'b'"
    """
    names = [clipped(name_of(label)) for label in labels[:_LISTED]]
    more = len(labels) - len(names)
    return ", ".join(names) + (f" and {more} more" if more > 0 else "")


def clipped(text: str, letters: int = _LETTERS) -> str:
    """``text`` quoted, its end left out if it is long."""
    return repr(text if len(text) <= letters else text[: letters - 1] + "…")


def _position(labels: Sequence[Hashable], column: Column, where: str) -> int:
    by_label = [at for at, label in enumerate(labels) if _same(label, column)]
    by_text = [at for at, label in enumerate(labels) if name_of(label) == column]
    matches = by_label or by_text
    if len(matches) > 1:
        raise InvalidParameter.refusing(
            "columns",
            "must be named unambiguously",
            f"{column!r}, the name of {len(matches)} columns of {where}",
        )
    if matches:
        return matches[0]
    if _is_integer(column) and 0 <= operator.index(column) < len(labels):  # type: ignore[arg-type]
        return operator.index(column)  # type: ignore[arg-type]
    shown = clipped(column) if isinstance(column, str) else str(column)
    raise InvalidParameter.refusing(
        "columns", f"must be among those of {where} ({listing(labels)})", shown
    )


def _same(label: Hashable, column: Column) -> bool:
    """Whether a label is what was asked for; True and 1 are not the same."""
    return isinstance(label, bool) == isinstance(column, bool) and bool(label == column)


def _is_integer(value: object) -> bool:
    if isinstance(value, bool):
        return False
    try:
        operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        return False
    return True
