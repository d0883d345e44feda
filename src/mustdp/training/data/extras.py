"""scikit-learn where it is wanted, and a clear word where it is not installed."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from mustdp.errors import InvalidParameter


def scikit_learn(module: str, purpose: str) -> Any:
    """Import a module of scikit-learn for ``purpose``."""
    try:
        return import_module(module)
    except ImportError:
        raise InvalidParameter(
            f"{purpose} must be had through scikit-learn, which is not installed: "
            "pip install 'mustdp[train]'"
        ) from None
