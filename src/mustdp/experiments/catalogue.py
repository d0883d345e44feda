"""Everything that can be reproduced, in the order of the report."""

from __future__ import annotations

from collections.abc import Sequence

from mustdp.errors import InvalidParameter
from mustdp.experiments import (
    adult,
    amplification,
    bootstrap,
    composition,
    contours,
    distinct,
    mnist,
    regression,
    table_s1,
)
from mustdp.experiments.item import Item

ITEMS: tuple[Item, ...] = (
    table_s1.ITEM,
    amplification.FIGURE_3,
    amplification.FIGURE_4,
    contours.FIGURE_5,
    contours.FIGURE_S1,
    amplification.FIGURE_S2,
    composition.ITEM,
    bootstrap.ITEM,
    Item("tables-4-s2", "Tables 4 and S2, Figure S4: linear regression", regression.run),
    Item("adult", "Tables 5 and 7, Figure S5: logistic regression on Adult", adult.run, ("adult",)),
    Item("mnist", "Tables 5 and 7, Figure 6: a network on MNIST", mnist.run, ("mnist",)),
    distinct.ITEM,
)


def items_called(names: Sequence[str]) -> tuple[Item, ...]:
    """The items of these names in the catalogue's order; all of them if no name is given."""
    known = {item.name: item for item in ITEMS}
    for name in names:
        if name not in known:
            raise InvalidParameter(f"ITEM must be one of {', '.join(known)}, got {name[:40]!r}")
    return tuple(item for item in ITEMS if not names or item.name in names)
