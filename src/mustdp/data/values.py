"""Values of one column: from text, objects, Arrow data or dates to finite doubles."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, NoReturn

import numpy as np
from numpy.typing import NDArray

from mustdp.data.columns import (
    REMEDY,
    Category,
    Day,
    Kind,
    Missing,
    Number,
    Reading,
    Selected,
    Wanted,
)
from mustdp.errors import InvalidParameter
from mustdp.limits import LARGEST_SIZE
from mustdp.numerics.arrays import FloatArray, IntArray

# What a column must hold: finite numbers that double precision represents as they are.
#
# Floating-point numbers of other precisions are converted; booleans become 0 and 1. Integers
# beyond 2**53 are refused: neighbours of them would become equal. What is refused is named by its
# column and its kind. Its value is never shown.


Flags = NDArray[np.bool_]
#: Rows that are checked at a time, so that checks take no memory to speak of.
_CHUNK = 2**18


class Doubles(NamedTuple):
    """Values of a column, NaN or anything where ``missing`` says so; None if nothing is missing."""

    values: FloatArray
    missing: Flags | None = None


def floats(values: NDArray[Any], column: str) -> FloatArray:
    """``values`` (booleans, integers or floats, one-dimensional) in double precision.

    Nothing is copied where nothing is converted. ``column`` is what messages call them.
    """
    if values.dtype.kind in "iu" and values.size:
        refuse_inexact(int(values.min()), int(values.max()), column)
    with np.errstate(over="ignore"):
        return values.astype(np.float64, copy=False)


def settled(
    given: Doubles, policy: Missing, column: str, more: str = "", remedy: str = REMEDY
) -> Doubles:
    """The values with the missing ones (NaN among them) refused, marked, or replaced.

    What comes back is finite, with 0 where it is marked as missing, and marked under "drop" alone.
    ``more`` is said at the end of a refusal, and ``remedy`` behind it.
    """
    values, missing = given
    missing = missing if missing is not None and missing.any() else None
    if missing is None and _all_finite(values):
        return Doubles(values)
    marked = np.zeros(len(values), dtype=np.bool_) if missing is None else missing
    nan = np.isnan(values) & ~marked
    infinite = np.isinf(values) & ~marked
    if infinite.any() or policy == "refuse":
        refuse_counted(
            int(np.count_nonzero(marked)),
            int(np.count_nonzero(nan)),
            int(np.count_nonzero(infinite)),
            column,
            more,
            remedy,
        )
    unusable = marked | nan
    filled = np.where(unusable, 0.0 if isinstance(policy, str) else policy, values)
    return Doubles(filled, unusable if policy == "drop" else None)


def refuse_type(column: str, kind: object, wanted: Wanted) -> NoReturn:
    """Refuse a column for its type, ``kind``, which cannot become what is ``wanted``."""
    raise InvalidParameter(f"{column} must be {wanted.types_called}, got type {type_name(kind)}")


def type_name(kind: object) -> str:
    """A type without what it says in brackets: some types list the values that a column holds.

    >>> type_name("Enum(categories=['a', 'b'])"), type_name("datetime64[ns]")
    ('Enum', 'datetime64')
    """
    return re.split(r"[\[({<]", str(kind), maxsplit=1)[0].strip() or type(kind).__name__


def refuse_inexact(low: Any, high: Any, column: str) -> None:
    """Refuse a column of integers or decimals whose least and greatest values are too far out."""
    if not (low >= -LARGEST_SIZE and high <= LARGEST_SIZE):
        raise InvalidParameter(
            f"{column} must hold integers from -2**53 to 2**53, the range that is exact in double "
            "precision, got one outside of it"
        )


def _all_finite(values: FloatArray) -> bool:
    starts = range(0, len(values), _CHUNK)
    return all(np.isfinite(values[start : start + _CHUNK]).all() for start in starts)


def refuse_counted(
    missing: int, nan: int, infinite: int, column: str, more: str = "", remedy: str = REMEDY
) -> None:
    """Refuse a column if any of the counts is not 0; ``more`` and ``remedy`` are said at the end.

    How many there are is not said, nor how many rows: these numbers may be private.
    """
    counts = {"missing": missing, "NaN": nan, "infinite": infinite}
    found = ", ".join(kind for kind, count in counts.items() if count)
    found += " values" if found else ""
    way = "" if infinite else f"; {remedy}"
    if found:
        raise InvalidParameter.refusing(
            column,
            "must hold finite numbers only",
            f"{found}{more}{way}",
            mentions=("Reading(missing=...)",),
        )


# Columns of Arrow data: which types are numeric, and how they become numpy arrays. pyarrow is
# imported where it is used, so that arrays of numpy do without.


def kind_of(given: Any) -> Kind:
    """What an Arrow type is one of; decimals are numbers, and codes for texts are texts."""
    from pyarrow import types

    if types.is_dictionary(given):
        return "text" if kind_of(given.value_type) in ("number", "text") else None
    numeric = (types.is_boolean, types.is_integer, types.is_floating, types.is_decimal)
    if any(is_one(given) for is_one in numeric):
        return "number"
    if types.is_date(given) or types.is_timestamp(given):
        return "date"
    text = types.is_string(given) or types.is_large_string(given) or str(given) == "string_view"
    return "text" if text else None


def arrow_floats(array: Any, column: str) -> Doubles:
    """An Arrow array, chunked or not, of a numeric type in double precision.

    Decimals are rounded to the nearest double, as decimals in text are.
    """
    import pyarrow
    from pyarrow import compute, types

    missing = nulls(array)
    if types.is_decimal(array.type):
        # Narrow decimals have no minimum in all versions; as wide ones they are the same numbers.
        array = array.cast(pyarrow.decimal256(76, array.type.scale))
    elif types.is_boolean(array.type):
        array = array.cast(pyarrow.uint8())
    if len(array) > array.null_count and not types.is_floating(array.type):
        extremes = compute.min_max(array).as_py()
        refuse_inexact(extremes["min"], extremes["max"], column)
        array = array.cast(pyarrow.float64(), safe=False)
    return Doubles(floats(as_numpy(array), column), missing)


def arrow_days(array: Any) -> tuple[IntArray, Flags | None]:
    """An Arrow array of dates or points in time as days since 1970-01-01, on the clock shown."""
    import pyarrow
    from pyarrow import compute

    missing = nulls(array)
    if pyarrow.types.is_timestamp(array.type):
        if array.type.tz is not None:
            array = compute.local_timestamp(array)
        array = array.cast(pyarrow.timestamp("s"), safe=False)
    days = as_numpy(array.cast(pyarrow.date32(), safe=False).cast(pyarrow.int32()).fill_null(0))
    return days.astype(np.int64), missing


def arrow_distinct(array: Any) -> tuple[IntArray, list[Any]]:
    """An Arrow array as places in a list of its different values, the last of which is None."""
    import pyarrow

    if isinstance(array, pyarrow.ChunkedArray):
        array = array.combine_chunks()
    if not pyarrow.types.is_dictionary(array.type):
        array = array.dictionary_encode()
    values: list[object] = array.dictionary.to_pylist()
    at = as_numpy(array.indices.cast(pyarrow.int64()).fill_null(len(values)))
    return at, [*values, None]


def nulls(array: Any) -> Flags | None:
    """Where an Arrow array is null, None if nowhere."""
    return as_numpy(array.is_null()) if array.null_count else None


def as_numpy(array: Any) -> NDArray[Any]:
    """An Arrow array, chunked or not, as numpy has it."""
    chunked = hasattr(array, "chunks")
    return np.asarray(array.to_numpy() if chunked else array.to_numpy(zero_copy_only=False))


# One column as it is read, piece by piece: from texts, objects, numbers or days to doubles.
#
# There is one conversion for every kind of data, so that the same record becomes the same numbers
# wherever it stands. What is refused is named by its column and place. Its value is never shown.


_WORDS = {"true": 1.0, "false": 0.0}
_WHOLE = re.compile(r"[+-]?0*([0-9]+)")
#: Different values that are remembered with what became of them.
_REMEMBERED = 2**16
_NAN = float("nan")

#: Where a value stands, by its number in the piece.
Place = Callable[[int], str]


def conversions_of(
    selected: Sequence[Selected], wanted: Sequence[Wanted], reading: Reading, where: str
) -> list[Conversion]:
    """One conversion for each column."""
    return [
        Conversion(one, reading, column.of(where))
        for column, one in zip(selected, wanted, strict=True)
    ]


class Conversion:
    """What becomes of one column; it remembers what it has seen in earlier pieces."""

    def __init__(self, wanted: Wanted, reading: Reading, called: str) -> None:
        self.wanted, self.called = wanted, called
        self._reading = reading
        self._known: dict[object, float] = {}
        self._words = self._numbers = 0

    @property
    def is_number(self) -> bool:
        """Whether numbers are wanted."""
        return isinstance(self.wanted, Number)

    @property
    def refuses_missing(self) -> bool:
        """Whether a missing value is refused; for a category it is another value."""
        return self._missing == "refuse" and not isinstance(self.wanted, Category)

    @property
    def remedy(self) -> str:
        """What is said where missing values are refused."""
        return self.wanted.remedy if isinstance(self.wanted, Number) else REMEDY

    @property
    def _missing(self) -> Missing:
        own = None if isinstance(self.wanted, Category) else self.wanted.missing
        return self._reading.missing if own is None else own

    def numbers(self, given: Doubles) -> Doubles:
        """Numbers, missing ones marked or NaN."""
        missing = 0 if given.missing is None else int(np.count_nonzero(given.missing))
        self._count(0, len(given.values) - missing)
        return self._settled(given)

    def days(self, days: IntArray, missing: Flags | None) -> Doubles:
        """Days since 1970-01-01, of a type of dates; days or codes are wanted."""
        if isinstance(self.wanted, Day):
            return self._settled(Doubles((days - self.wanted.offset).astype(np.float64), missing))
        few, at = np.unique(days, return_inverse=True)
        values: list[object] = [day.item() for day in few.astype("datetime64[D]")]
        if missing is not None:
            at, values = np.where(missing, len(values), at), [*values, None]
        return self.distinct(at, values, lambda k: "")

    def distinct(self, at: IntArray, values: Sequence[object], place: Place) -> Doubles:
        """Places ``at`` in a list of values as Python has them, None for missing ones.

        Codes or days are wanted.
        """
        few = np.fromiter((self._converted(value) for value in values), np.float64, len(values))
        found = few[at]
        self._refuse_unreadable(found, place)
        return self._settled(Doubles(found))

    def texts(self, texts: Sequence[str], place: Place) -> Doubles:
        """Fields of a file of text."""
        if not self.is_number:
            return self.distinct(np.arange(len(texts)), texts, place)
        words = 0
        found = np.empty(len(texts))
        for k, written in enumerate(texts):
            text = self._reading.plain_number(written)
            try:
                number = float(text)
            except ValueError:
                number = None
            if number is None:  # outside of the handler: what is refused there would be quoted
                word = written.strip().lower()
                if word in _WORDS:
                    words += 1
                elif word not in self._reading.words:
                    self._refuse_text(place(k))
                number = _WORDS.get(word, _NAN)
            elif "_" in text or not text.isascii():  # float() reads 1_000 and all scripts' digits
                self._refuse_text(place(k))
            elif not -LARGEST_SIZE < number < LARGEST_SIZE and number not in self._reading.codes:
                self._refuse_inexact(text)
            found[k] = number
        self._count(words, len(texts) - words - int(np.count_nonzero(np.isnan(found))))
        return self._settled(Doubles(found, np.isnan(found)), place)

    def _count(self, words: int, numbers: int) -> None:
        self._words += words
        self._numbers += numbers
        if self._words and self._numbers:
            raise InvalidParameter(
                f"{self.called} must hold numbers, or the words true and false alone, "
                f"got {self._words} such words"
            )

    def _settled(self, given: Doubles, place: Place | None = None) -> Doubles:
        more = ""
        if self.is_number and self._reading.codes:
            coded = np.isin(given.values, self._reading.codes)
            if coded.any():
                marked = coded if given.missing is None else coded | given.missing
                given = Doubles(given.values, marked)
        if place is not None and not np.isfinite(given.values).all():
            more = f", the first {place(int(np.argmin(np.isfinite(given.values))))}"
        return settled(given, self._missing, self.called, more, self.remedy)

    def _converted(self, value: object) -> float:
        """A code or a day, NaN for a missing day, infinity for what is refused."""
        key = (type(value), value)
        try:
            known = self._known.get(key)
        except TypeError:  # cannot be a key: a list, say
            key, known = (str, str(value)), None
        if known is None:
            known = self._looked_at(value)
            if len(self._known) >= _REMEMBERED:
                self._known.clear()
            self._known[key] = known
        return known

    def _looked_at(self, value: object) -> float:
        wanted = self.wanted
        if isinstance(wanted, Category):
            found = float(wanted.other) if value is None else wanted.code(value)
        elif isinstance(wanted, Day):
            if value is None or (isinstance(value, str) and self._reading.is_missing(value)):
                return _NAN
            found = wanted.day(value, self._reading.dates)
        else:
            found = None
        return float("inf") if found is None else found

    def _refuse_unreadable(self, found: FloatArray, place: Place) -> None:
        unreadable = np.isinf(found)
        if unreadable.any():
            kind = self.wanted.values_called
            kind = f"{kind} in UTF-8" if isinstance(self.wanted, Category) else kind
            where = place(int(np.argmax(unreadable)))
            raise InvalidParameter(f"{self.called} must hold {kind}, got one that is none {where}")

    def _refuse_text(self, where: str) -> None:
        raise InvalidParameter(f"{self.called} must hold numbers, got a text that is none {where}")

    def _refuse_inexact(self, text: str) -> None:
        """Integers beyond 2**53; with more digits than it has, nothing need be computed."""
        whole = _WHOLE.fullmatch(text.strip())
        if whole is not None:
            size = int(whole[1]) if len(whole[1]) < 20 else 2 * LARGEST_SIZE
            refuse_inexact(size, size, self.called)
