"""One small table of records, written in every form a source can be opened from."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

ROWS = 1_000
NAMES = ("x", "k", "flag", "z")


@pytest.fixture(scope="session")
def columns() -> dict[str, NDArray[Any]]:
    """Doubles, integers, booleans and single-precision numbers."""
    rng = np.random.default_rng(7)
    return {
        "x": rng.gamma(2.0, 3.0, ROWS),
        "k": rng.integers(-(10**6), 10**6, ROWS),
        "flag": rng.random(ROWS) < 0.4,
        "z": rng.standard_normal(ROWS).astype(np.float32),
    }


@pytest.fixture(scope="session")
def texts() -> list[str]:
    """A column that no statistic can use: commas, quotation marks and line breaks in it."""
    return [f'Mr "{k}", {k}\nof somewhere' if k % 3 == 0 else "ü" * (k % 5) for k in range(ROWS)]


@pytest.fixture(scope="session")
def expected(columns: dict[str, NDArray[Any]]) -> NDArray[np.float64]:
    """What every source must give."""
    return np.column_stack([columns[name].astype(np.float64) for name in NAMES])


@pytest.fixture
def write_csv(tmp_path: Path) -> Callable[[str], Path]:
    """Write text as a file and say where; the name decides about packing."""

    def write(text: str, name: str = "data.csv", encoding: str = "utf-8") -> Path:
        path = tmp_path / name
        content = text.encode(encoding, "surrogateescape")
        path.write_bytes(gzip.compress(content) if name.lower().endswith(".gz") else content)
        return path

    return write
