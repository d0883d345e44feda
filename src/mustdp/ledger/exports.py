"""The entries of a ledger for people and other programs: a table, JSON with everything, CSV."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence

from mustdp.ledger.entry import Entry, Header
from mustdp.numerics.decimals import as_stated, readable
from mustdp.numerics.tables import Shown

#: How many charges are shown.
_LAST = 10
_COLUMNS = ("number", "when", "label", "who", "times", "epsilon", "relation", "package", "plan")


def shown(header: Header, entries: Sequence[Entry], spent: float, left: float) -> Shown:
    """What a ledger shows when it is printed: spent and left of the limit, the last charges."""
    heading = (
        f"{header.data}: {readable(spent, 'up')} spent and {readable(left, 'down')} left of "
        f"epsilon {as_stated(header.epsilon)} at delta {as_stated(header.delta)}; relation "
        f"{header.relation.option}"
    )
    rows = tuple(
        (
            str(one.number),
            f"{one.when:%Y-%m-%d %H:%M}",
            one.label,
            one.who,
            readable(one.epsilon, "up"),
        )
        for one in entries[-_LAST:]
    )
    before = len(entries) - len(rows)
    note = f"{before} charges before these" if before else ""
    return Shown(heading, ("number", "when (UTC)", "label", "who", "spent by then"), rows, note)


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
