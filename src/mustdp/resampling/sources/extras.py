"""pyarrow where it is wanted, and a clear word where it is not installed."""

from __future__ import annotations

from importlib import import_module
from typing import Any


def arrow(module: str, purpose: str) -> Any:
    """Import ``module`` of pyarrow for ``purpose``."""
    try:
        return import_module(module)
    except ImportError as problem:
        raise ImportError(
            f'{purpose} need pyarrow, which is not installed: pip install "mustdp[files]"'
        ) from problem


def arrow_or_none(module: str) -> Any:
    """Import ``module`` of pyarrow, or return None where it is not installed."""
    try:
        return import_module(module)
    except ImportError:
        return None
