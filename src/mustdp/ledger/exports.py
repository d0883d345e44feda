"""The entries of a ledger for other programs: JSON with everything, CSV as a table."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence

from mustdp.ledger.entry import Entry, Header

_COLUMNS = ("number", "when", "label", "who", "times", "epsilon", "relation", "package", "plan")


def as_json(header: Header, entries: Sequence[Entry]) -> str:
    """Header and entries; for reading, not for charging on."""
    body = {
        "format": "mustdp-ledger-export",
        "version": 1,
        "data": header.data,
        "limit": {"epsilon": header.epsilon, "delta": header.delta},
        "relation": header.relation.value,
        "program": header.program,
        "created": header.created,
        "entries": [entry.describe() for entry in entries],
    }
    return json.dumps(body, indent=1, allow_nan=False)


def as_csv(entries: Sequence[Entry]) -> str:
    """One line for each entry.

    A text that a spreadsheet would take for a formula gets an apostrophe in front.
    """
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(_COLUMNS)
    for entry in entries:
        row = entry.describe()
        texts = {"label": _plain(entry.label), "who": _plain(entry.who), "plan": entry.plan_text}
        writer.writerow([texts.get(name, row[name]) for name in _COLUMNS])
    return out.getvalue()


def _plain(text: str) -> str:
    return f"'{text}" if text[:1] in ("=", "+", "-", "@") else text
