"""What every table in memory must tell about its columns, and how they become what is wanted."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Sequence

import numpy as np

from mustdp.errors import InvalidParameter
from mustdp.numerics.arrays import FloatArray, IntArray
from mustdp.resampling.sources.conversion import Conversion
from mustdp.resampling.sources.reading import Reading
from mustdp.resampling.sources.selection import Columns, Selected, as_list, select, unnamed
from mustdp.resampling.sources.values import Doubles, Flags, refuse_type, type_name
from mustdp.resampling.sources.wanted import Kind, Number, Wanted
from mustdp.resampling.unquoted import unquoted

_USUAL = Reading(None)


class Frame(ABC):
    """Columns with labels, types and values; ``where`` is what messages call the whole."""

    def __init__(self, where: str, labels: Sequence[Hashable], rows: int) -> None:
        self.where = where
        self.labels = tuple(labels)
        self.rows = rows

    @abstractmethod
    def type_of(self, at: int) -> str:
        """The type of the column at this position, in its library's words."""

    @abstractmethod
    def kind_of(self, at: int) -> Kind:
        """What that type is one of: numbers and booleans, dates and points in time, or texts."""

    @abstractmethod
    def numbers(self, at: int, column: str) -> Doubles:
        """The values of a numeric column in double precision; ``column`` in messages."""

    @abstractmethod
    def days(self, at: int) -> tuple[IntArray, Flags | None]:
        """The values of a column of dates as days since 1970-01-01, and where there are none."""

    @abstractmethod
    def distinct(self, at: int) -> tuple[IntArray, Sequence[object]]:
        """Any column as places in a list of values; None in that list stands for missing ones."""

    @abstractmethod
    def part(self, start: int, stop: int) -> Frame:
        """Some of the rows."""

    def whole(self) -> FloatArray | None:
        """All columns as one array ``(rows, columns)``, if the data are just that."""
        return None

    def select(self, columns: Columns) -> tuple[Selected, ...]:
        """The columns asked for, None for all numeric ones; refused if one is not numeric."""
        if columns is not None:
            return self.selected([Number(column) for column in as_list(columns)])
        numeric = [at for at in range(len(self.labels)) if self.kind_of(at) == "number"]
        if not numeric:
            kinds = {type_name(self.type_of(at)) for at in range(len(self.labels))}
            got = f"type {' and '.join(sorted(kinds))} only" if kinds else "no columns"
            raise InvalidParameter(f"{self.where} must have a numeric column, got {got}")
        return tuple(unnamed(self.labels, at) for at in numeric)

    def selected(self, wanted: Sequence[Wanted]) -> tuple[Selected, ...]:
        """The columns that are described; refused if one has a type that does not suit."""
        shown = any(self.kind_of(at) == "number" for at in range(len(self.labels)))
        found = select(self.labels, [one.column for one in wanted], self.where, shown=shown)
        for column, one in zip(found, wanted, strict=True):
            self.refuse_unsuited(column, one)
        return found

    def refuse_unsuited(self, column: Selected, wanted: Wanted) -> None:
        """Refuse a column whose type cannot become what is wanted of it."""
        if self.kind_of(column.at) not in wanted.kinds:
            refuse_type(column.of(self.where), self.type_of(column.at), wanted)

    def read(self, column: Selected, reading: Reading = _USUAL) -> FloatArray:
        """The numbers of a selected column; errors of the frame's library are not passed on."""
        conversion = Conversion(Number(column.at), reading, column.of(self.where))
        return self.convert(column.at, conversion).values

    def convert(self, at: int, conversion: Conversion, first: int = 0) -> Doubles:
        """The column at a position as it is wanted; ``first`` is the number of the first row."""

        def converted() -> Doubles:
            if conversion.is_number:
                return conversion.numbers(self.numbers(at, conversion.called))
            if self.kind_of(at) == "date":
                return conversion.days(*self.days(at))
            return conversion.distinct(
                *self.distinct(at), lambda k: f"in row {first + k}, counted from 0"
            )

        return unquoted(
            converted, f"{conversion.called} must be readable as {conversion.wanted.values_called}"
        )


def each_for_itself(values: list[object]) -> tuple[IntArray, list[object]]:
    """A list of values as places in itself; a NaN among them is missing."""
    return np.arange(len(values)), [None if value != value else value for value in values]
