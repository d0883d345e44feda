"""Everything that can be reproduced, in the order of the report."""

from __future__ import annotations

from collections.abc import Sequence

from mustdp.errors import InvalidParameter
from mustdp.reproduction import adult, bootstrap, composition, draws, mnist, one_step, regression
from mustdp.reproduction.cells import Item

ITEMS: tuple[Item, ...] = (
    *one_step.ITEMS,
    *composition.ITEMS,
    *bootstrap.ITEMS,
    *regression.ITEMS,
    *adult.ITEMS,
    *mnist.ITEMS,
    *draws.ITEMS,
)


def items_called(names: Sequence[str]) -> tuple[Item, ...]:
    """The items of these names in the catalogue's order; all of them if no name is given."""
    known = {item.name: item for item in ITEMS}
    for name in names:
        if name not in known:
            raise InvalidParameter(f"ITEM must be one of {', '.join(known)}, got {name[:40]!r}")
    return tuple(item for item in ITEMS if not names or item.name in names)
