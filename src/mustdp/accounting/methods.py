"""Further values of ``account(method=...)`` that packages above this one add, each by its name."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

#: Called with the plan and with ``relation``, ``accuracy`` and ``group`` as they were stated.
Method = Callable[..., Any]

_registered: dict[str, str] = {}


def register_method(name: str, function: str) -> None:
    """Add a method; ``function`` ("package.module:name") is imported when it is first asked for."""
    _registered[name] = function


def further_methods() -> tuple[str, ...]:
    """The names that were added."""
    return tuple(_registered)


def method_called(name: str) -> Method:
    """The function behind a name that was added."""
    module, _, function = _registered[name].partition(":")
    found: Method = getattr(import_module(module), function)
    return found
