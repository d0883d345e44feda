"""Errors about X and y that quote none of their values.

scikit-learn and numpy print arrays, or the entry that they stumbled on, into their messages, and a
message travels farther than the data: into logs, notebooks and reports. An error that is raised
while another is handled keeps it as its context, even with ``from None``. So what they raise is
caught, its sentence is written anew from a list of those that are known to quote sizes only, and it
is raised after the handler has ended.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, TypeVar

from mustdp.errors import InvalidParameter, MustdpError
from mustdp.training.linear.scikit import NotFittedError

_Found = TypeVar("_Found")


class WrongKind(InvalidParameter, TypeError):
    """An argument is of a kind that holds no numbers at all."""


_OTHERS = "X and y must be arrays of numbers, got others"
_RESHAPE = (
    "Reshape your data with X.reshape(-1, 1) if it has a single feature, or X.reshape(1, -1) if it "
    "is a single record"
)
_FINITE = r"dtype\('float(?:32|64)'\)"
#: How a message begins, with groups for sizes and fixed words alone, and what is said instead.
_KNOWN: tuple[tuple[str, str], ...] = (
    (
        r"Expected 2D array, got (1D|scalar) array",
        rf"X must be a 2D array, got a \1 one. {_RESHAPE}",
    ),
    (
        r"Expected 2D input|Expected a 2-dimensional",
        rf"X must be a 2D array, got another. {_RESHAPE}",
    ),
    (r"Complex data not supported", r"X and y must be real: Complex data not supported"),
    (r"Input (X |y )?contains NaN", r"Input \1contains NaN."),
    (
        rf"Input (X |y )?contains infinity or a value too large for ({_FINITE})",
        r"Input \1contains infinity or a value too large for \2.",
    ),
    (
        r"(Found array with \d+ (?:sample|feature)\(s\) \(shape=\([\d, ]*\)\) while a minimum of "
        r"\d+ is required)",
        r"\1.",
    ),
    (r"(Found array with dim \d+)", r"X must be a 2D array: \1"),
    (r"(Found input variables with inconsistent numbers of samples: \[[\d, ]*\])", r"\1"),
    (r"(X has \d+ features, but \w+ is expecting \d+ features as input)", r"\1"),
    (
        r"(?:Sparse data|A sparse matrix) was passed",
        "X and y must be dense arrays: Sparse data was passed, '.toarray()' makes it dense",
    ),
    (
        r"(?:This )?(\w+) (?:estimator )?requires y to be passed",
        r"\1 requires y to be passed, but the target y is None",
    ),
    (r"(y should be a 1d array, got an array of shape \([\d, ]*\) instead)", r"\1"),
    (
        r"(Unknown label type: (?:continuous|binary|multiclass|multilabel|unknown)[a-z-]*)\. Maybe",
        r"y must hold labels of classes: \1",
    ),
    (
        r"The feature names should match",
        "The feature names should match those that were passed during fit, in the same order; got "
        "others",
    ),
    (
        r"Classification metrics can't handle a mix",
        "y must hold labels like those of fit, got others",
    ),
)
_NO_NUMBER = r"(?:\w+\(\) )?argument must be a .*string.* number"
_NO_ARRAY = (
    r"Expected sequence or array-like|Singleton array|Input should have at least 1 dimension"
)


def without_values(problem: Exception) -> InvalidParameter:
    """What is said in the place of an error about X or y."""
    message = str(problem)
    for known, instead in _KNOWN:
        found = re.match(known, message)
        if found is not None:
            return InvalidParameter(found.expand(instead))
    if re.match(_NO_NUMBER, message):
        return WrongKind(f"{_OTHERS}: each argument must be a string or a number")
    if re.match(_NO_ARRAY, message):
        return WrongKind("X and y must be arrays or lists of rows, got something else")
    return InvalidParameter(_OTHERS)


def checked(call: Callable[..., _Found], *given: Any, **named: Any) -> _Found:
    """What ``call`` returns; errors that might quote its arguments are replaced."""
    try:
        return call(*given, **named)
    except (MustdpError, NotFittedError, MemoryError):
        raise
    except Exception as problem:
        refusal = without_values(problem)
    # Outside the handler, so that the error has no context.
    raise refusal
