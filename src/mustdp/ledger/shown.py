"""What a ledger in a file shows of itself when it is printed."""

from __future__ import annotations

from collections.abc import Sequence

from mustdp.ledger.entry import Entry, Header
from mustdp.numerics.decimals import as_stated, readable
from mustdp.numerics.tables import Shown

#: How many charges are shown.
_LAST = 10


def shown(header: Header, entries: Sequence[Entry], spent: float, left: float) -> Shown:
    """Spent and left of the limit, and the last charges."""
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
