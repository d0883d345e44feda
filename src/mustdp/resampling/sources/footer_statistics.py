"""What the statistics in a Parquet footer already say against a column, before anything is read.

Writers may leave statistics out; then nothing is refused here and values are checked upon reading.
Nothing is taken from them but refusals: a footer may say anything.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator, Sequence
from typing import Any

from mustdp.errors import InvalidParameter
from mustdp.resampling.sources.selection import Selected
from mustdp.resampling.sources.thrift import decode
from mustdp.resampling.sources.values import refuse_counted, refuse_inexact

#: Larger footers are left alone: to look at them would take seconds.
LARGEST_FOOTER = 2**22
_FORMATS = {1: "<i", 2: "<q", 4: "<f", 5: "<d"}


def refuse_by_statistics(
    footer: bytes, columns: Sequence[tuple[Selected, str]], unsigned: Sequence[bool], where: str
) -> None:
    """Refuse columns of numbers with missing or infinite values, or integers that are not exact.

    Each comes with what is said where missing values are refused.
    """
    if len(footer) > LARGEST_FOOTER:
        return
    try:
        chunks = list(_chunks(decode(footer)))
    except (ValueError, IndexError):
        return
    for (column, remedy), is_unsigned in zip(columns, unsigned, strict=True):
        called, missing = column.of(where), 0
        for _, chunk in chunks:
            if chunk.get(3) == [column.name.encode()]:
                missing += _refuse_chunk(chunk, is_unsigned, called)
        refuse_counted(missing, 0, 0, called, remedy=remedy)


def _chunks(footer: dict[int, Any]) -> Iterator[tuple[int, dict[int, Any]]]:
    """Row count and metadata of every column chunk, as far as they are what they should be."""
    for group in _structures(footer.get(4)):
        rows = group.get(3)
        for chunk in _structures(group.get(1)):
            metadata = chunk.get(3)
            if isinstance(metadata, dict) and isinstance(rows, int):
                yield rows, metadata


def _structures(found: object) -> Iterator[dict[int, Any]]:
    if isinstance(found, list):
        yield from (one for one in found if isinstance(one, dict))


def _refuse_chunk(chunk: dict[int, Any], unsigned: bool, called: str) -> int:
    """How many values are missing; extremes that cannot be used are refused."""
    statistics, kind = chunk.get(12), chunk.get(1)
    if not isinstance(statistics, dict) or not isinstance(kind, int):
        return 0
    form = _FORMATS.get(kind, "")
    # Fields 5 and 6, or 1 and 2 of old writers, which may have the order of signed numbers.
    found = [_number(statistics.get(new), form, unsigned) for new in (6, 5)]
    if None in found and not unsigned:
        found = [_number(statistics.get(old), form, unsigned) for old in (2, 1)]
    low, high = found
    if isinstance(low, float) and isinstance(high, float):
        if math.isinf(low) or math.isinf(high):
            raise InvalidParameter(
                f"{called} must hold finite numbers only, got infinite ones by its statistics"
            )
    elif low is not None and high is not None:
        refuse_inexact(low, high, called)
    missing = statistics.get(3)
    return missing if isinstance(missing, int) and missing > 0 else 0


def _number(value: object, form: str, unsigned: bool) -> float | int | None:
    form = form.upper() if unsigned else form
    if not form or not isinstance(value, bytes) or len(value) != struct.calcsize(form):
        return None
    number: float | int = struct.unpack(form, value)[0]
    return number
