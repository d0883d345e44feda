"""The entries of a ledger for people and other programs: a table, JSON with everything, CSV."""

from __future__ import annotations

import json
from collections.abc import Sequence

from mustdp.ledger.entry import Entry, Header
from mustdp.numerics.decimals import as_stated, readable
from mustdp.numerics.exports import csv_table
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
    """One line for each entry."""
    rows = [{**entry.describe(), "plan": entry.plan_text} for entry in entries]
    return csv_table([_COLUMNS, *([row[name] for name in _COLUMNS] for row in rows)])
