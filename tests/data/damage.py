"""Bits flipped in a Parquet file, and what reading makes of them.

    python -m tests.data.damage FOLDER SEED COUNT [plain]

prints how often a damaged file was refused, read as it was before, or read as other numbers. A
crash of the process is seen by whoever started it, a traceback is one here. With "plain" the file
is written without checksums: other numbers are to be expected then.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path

import numpy as np

from mustdp.data.columns import Category, Day, Number
from mustdp.data.opening import open_records, open_source
from mustdp.errors import InvalidParameter
from mustdp.extras import required
from mustdp.types import Reading

WANTED = (
    Number("x", missing="drop"),
    Category("region", ("north", "south")),
    Day("day"),
    Number("price"),
    Number("k"),
)


def write(path: Path, checked: bool = True) -> None:
    """A file with many kinds of columns, several row groups, statistics, and checksums or not."""
    pa, pq = (required(name, "Parquet files") for name in ("pyarrow", "pyarrow.parquet"))
    rng = np.random.default_rng(5)
    n = 600
    table = pa.table(
        {
            "x": pa.array(rng.normal(size=n), mask=rng.random(n) < 0.1),
            "region": [("north", "south", "west")[k % 3] for k in range(n)],
            "day": pa.array(rng.integers(0, 20_000, n).astype("datetime64[D]")),
            "price": pa.array(rng.integers(0, 9999, n)).cast(pa.decimal128(24, 2)),
            "k": rng.integers(0, 2**40, n),
        }
    )
    pq.write_table(table, path, row_group_size=250, write_page_checksum=checked)


def read(path: Path) -> bytes:
    """All records, by both readers of Parquet files."""
    blocks = list(open_records(path, WANTED).blocks())
    found = b"".join(block.values.tobytes() + block.missing.tobytes() for block in blocks)
    source = open_source(Reading(path, missing=0.0), ["x", "k"])
    return found + source.take(np.arange(source.n)).tobytes()


def footer_start(content: bytes) -> int:
    """Where the footer of a Parquet file begins."""
    return len(content) - 8 - int.from_bytes(content[-8:-4], "little")


def flips(folder: Path, seed: int, count: int, checked: bool = True) -> dict[str, int]:
    """Counts over ``count`` files with one bit flipped, half of them in the footer."""
    path = folder / "whole.parquet"
    write(path, checked)
    whole = path.read_bytes()
    start, expected = footer_start(whole), read(path)
    rng = np.random.default_rng(seed)
    counts: Counter[str] = Counter()
    for k in range(count):
        place, low, high = ("footer", start, len(whole)) if k % 2 else ("pages", 0, start)
        damaged = bytearray(whole)
        at = int(rng.integers(low, high))
        damaged[at] ^= 1 << int(rng.integers(8))
        one = folder / f"{k}.parquet"
        one.write_bytes(damaged)
        try:
            outcome = "same" if read(one) == expected else "other"
        except InvalidParameter:
            outcome = "refused"
        one.unlink()
        counts[f"{place} {outcome}"] += 1
    return dict(counts)


if __name__ == "__main__":
    folder, seed, count, *plain = sys.argv[1:]
    print(json.dumps(flips(Path(folder), int(seed), int(count), not plain)))
