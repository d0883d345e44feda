"""The exception tree: what can go wrong, and whose turn it is then.

MustdpError
├── InvalidParameter       the caller's input is outside what is allowed (exit status 2)
│   └── NotCovered         well-formed, but no theorem here covers it: refused, with the reason
└── NumericalFailure       a number came out that cannot be trusted (exit status 3)
"""

from __future__ import annotations


class MustdpError(Exception):
    """Everything this package raises on purpose."""


class InvalidParameter(MustdpError, ValueError):
    """An argument is outside what is allowed; the message names argument, value and range."""


class NotCovered(InvalidParameter):
    """A request that is well-formed but that no theorem of this package covers."""


class NumericalFailure(MustdpError, ArithmeticError):
    """A computation whose result cannot be certified; never replaced by a guess."""
