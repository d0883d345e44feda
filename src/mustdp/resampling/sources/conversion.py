"""One column as it is read, piece by piece: from texts, objects, numbers or days to doubles.

There is one conversion for every kind of data and for both ways to read text, so that the same
record becomes the same numbers wherever it stands. What is refused is named by its column and
place. Its value is never shown.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import numpy as np

from mustdp.errors import InvalidParameter
from mustdp.limits import LARGEST_SIZE
from mustdp.numerics.arrays import FloatArray, IntArray
from mustdp.resampling.sources.reading import Reading
from mustdp.resampling.sources.selection import Selected
from mustdp.resampling.sources.values import Doubles, Flags, refuse_inexact, settled
from mustdp.resampling.sources.wanted import REMEDY, Category, Day, Missing, Number, Wanted

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
        for k, text in enumerate(texts):
            try:
                number = float(text)
            except ValueError:
                number = None
            if number is None:  # outside of the handler: what is refused there would be quoted
                word = text.strip().lower()
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
            found = wanted.day(value)
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
