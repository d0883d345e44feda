"""Whether a line is one of names or a record: names are public, a record must never be quoted.

A record is recognised by a number, a date, a word for yes or no or for a missing value, or the same
text twice. A line without any of these may still be a record of texts; so it is quoted only where
the columns below hold numbers, for which it has none (whoever asks says so).
"""

from __future__ import annotations

import datetime
from collections.abc import Hashable, Sequence

#: Texts that stand for a missing value, in any capitals and with blanks around them.
MARKS = ("", "na", "n/a", "#n/a", "<na>", "nan", "null", "none", "?")

_WORDS = ("true", "false", "yes", "no")


def looks_like_a_record(labels: Sequence[Hashable]) -> str | None:
    """What about some labels is not like names, in words, or None; a nameless column may be one.

    >>> looks_like_a_record(["age", "income"]), looks_like_a_record(["39", "State-gov"])
    (None, 'numbers')
    """
    texts = [label.strip() if isinstance(label, str) else "" for label in labels]
    if any(not isinstance(label, str) for label in labels) or any(map(_is_number, texts)):
        return "numbers"
    if any(map(_is_date, texts)):
        return "dates"
    named = [text for text in texts if text]
    if any(text.lower() in (*MARKS, *_WORDS) for text in named):
        return "words for values"
    return "a name twice" if len(set(named)) < len(named) else None


def are_names(labels: Sequence[Hashable]) -> bool:
    """Whether all labels are names that can be shown."""
    return looks_like_a_record(labels) is None and all(
        isinstance(label, str) and label.strip() and label.isprintable() for label in labels
    )


def _is_number(text: str) -> bool:
    try:
        float(text.replace(",", ".").strip("$€£%"))
    except ValueError:
        return False
    return True


def _is_date(text: str) -> bool:
    try:
        datetime.datetime.fromisoformat(text)
    except ValueError:
        return False
    return True
