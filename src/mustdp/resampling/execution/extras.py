"""joblib, Dask and threadpoolctl where they are wanted, and a clear word where they are missing."""

from __future__ import annotations

from importlib import import_module
from typing import Any


def parallel(module: str = "joblib") -> Any:
    """Import joblib for more than one process."""
    return _imported(module, "more than one worker", "parallel")


def distributed(module: str = "distributed") -> Any:
    """Import Dask's distributed for a cluster."""
    return _imported(module, "a Dask cluster", "dask")


def installed(module: str) -> Any:
    """Import ``module``, or return None where it is not installed."""
    try:
        return import_module(module)
    except ImportError:
        return None


def _imported(module: str, purpose: str, extra: str) -> Any:
    try:
        return import_module(module)
    except ImportError as problem:
        raise ImportError(
            f"{purpose} needs {module.split('.')[0]}, which is not installed: "
            f'pip install "mustdp[{extra}]"',
            name=module,
        ) from problem
