"""What can be reproduced about draws."""

from __future__ import annotations

from mustdp.experiments.draws import distinct
from mustdp.experiments.frame.items import Item

ITEMS = (Item("table-6", "Table 6: distinct records and drawing times", distinct.run),)
