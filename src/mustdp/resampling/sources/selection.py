"""Which columns are meant: by name, or by position where no column has that name.

Messages call a column what the caller called it. Names that were found in the data are shown only
where they cannot well be the first record of a file without a line of names (``header``).
"""

from __future__ import annotations

import operator
from collections.abc import Hashable, Iterable, Sequence
from typing import Any, NamedTuple

from mustdp.errors import InvalidParameter
from mustdp.resampling.sources.header import are_names

#: A column as the caller names it.
Column = str | int
Columns = Column | Sequence[Column] | None

_LETTERS, _SHOWN = 40, 20


class Selected(NamedTuple):
    """A column: its position, its name in the data, and what messages call it."""

    at: int
    name: str
    called: str

    def of(self, where: str) -> str:
        """What messages call it, and whose it is."""
        return f"{self.called} of {where}"


def select(
    labels: Sequence[Hashable], columns: Columns, where: str, *, shown: bool = False
) -> tuple[Selected, ...]:
    """The ``columns`` among ``labels``, in the order asked for.

    A label itself comes first (frames may have numbers as labels), then its text, then the
    position. ``where`` says in messages whose columns these are. With ``shown`` the labels are
    listed where a column is none of them, if nothing about them looks like a record.

    >>> [column.at for column in select(["age", "income"], ["income", 0], "the table")]
    [1, 0]
    """
    asked = as_list(columns)
    # True and 1 are not the same, and nobody asks for True.
    by_label = _places(
        (at, label) for at, label in enumerate(labels) if not isinstance(label, bool)
    )
    by_text = _places((at, name_of(label)) for at, label in enumerate(labels))
    found: dict[int, Selected] = {}
    for column in asked:
        key = column if isinstance(column, str) else operator.index(column)
        matches = by_label.get(key) or by_text.get(key, [])
        at = _position(labels, column, matches, where, shown)
        if at in found:
            twice = f"{quoted(column)} twice"
            raise InvalidParameter.refusing("columns", "must be different", twice)
        named = isinstance(column, str)
        found[at] = (
            Selected(at, column, f"column {quoted(column)}") if named else unnamed(labels, at)
        )
    return tuple(found.values())


def unnamed(labels: Sequence[Hashable], at: int) -> Selected:
    """A column that was not asked for by name."""
    return Selected(at, name_of(labels[at]), f"column {at} (the first is 0)")


def as_list(columns: Columns) -> list[Any]:
    """The columns asked for as a list; None is refused here."""
    if isinstance(columns, str) or _is_integer(columns):
        return [columns]
    allowed = "columns must be a name, a position or a non-empty list of them"
    listed = None
    if columns is not None and not isinstance(columns, bytes | dict | set | frozenset):
        try:
            listed = list(columns)  # type: ignore[arg-type]
        except TypeError:
            listed = None
    if listed is None:
        raise InvalidParameter(f"{allowed}, got {_kind(columns)}")
    if not listed:
        raise InvalidParameter(f"{allowed}, got none")
    for column in listed:
        if not (isinstance(column, str) or _is_integer(column)):
            raise InvalidParameter(f"{allowed}, got {_kind(column)} among them")
    return listed


def name_of(label: object) -> str:
    """A column's name as text."""
    return label if isinstance(label, str) else str(label)


def quoted(name: object, letters: int = _LETTERS) -> str:
    """What a caller wrote, in quotation marks if it is a text, its end left out if it is long."""
    if not isinstance(name, str):
        return str(name)
    return repr(name if len(name) <= letters else name[: letters - 1] + "…")


def _places(labels: Iterable[tuple[int, Hashable]]) -> dict[Hashable, list[int]]:
    """Where each label stands."""
    found: dict[Hashable, list[int]] = {}
    for at, label in labels:
        found.setdefault(label, []).append(at)
    return found


def _position(
    labels: Sequence[Hashable], column: Column, matches: Sequence[int], where: str, shown: bool
) -> int:
    if len(matches) > 1:
        raise InvalidParameter.refusing(
            "columns",
            "must be named unambiguously",
            f"{quoted(column)}, the name of {len(matches)} columns of {where}",
        )
    if matches:
        return matches[0]
    if _is_integer(column) and 0 <= operator.index(column) < len(labels):  # type: ignore[arg-type]
        return operator.index(column)  # type: ignore[arg-type]
    listed = f" ({_listed(labels)})" if shown and are_names(labels) else ""
    raise InvalidParameter.refusing(
        "columns", f"must be among the {len(labels)} columns of {where}{listed}", quoted(column)
    )


def _listed(labels: Sequence[Hashable]) -> str:
    """The first names, as many as a message can take."""
    names = [str(label)[:_LETTERS] for label in labels[:_SHOWN]]
    return ", ".join(names) + (", …" if len(labels) > _SHOWN else "")


def _is_integer(value: object) -> bool:
    if isinstance(value, bool):
        return False
    try:
        operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        return False
    return True


def _kind(value: object) -> str:
    return "None" if value is None else f"a {type(value).__name__}"
