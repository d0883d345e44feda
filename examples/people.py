"""Write people.csv, the 2000 made-up people of the documentation: python examples/people.py."""

from __future__ import annotations

import csv
import random
from pathlib import Path

COLUMNS = ("region", "born", "age", "hours", "income", "employed", "household")
REGIONS = {"north": 39, "south": 30, "east": 20, "west": 10, "abroad": 1}


def people(count: int, seed: int = 7) -> list[tuple[object, ...]]:
    """A row each, on 1 January 2026; hours are those of a week, and some incomes are missing."""
    made = random.Random(seed)
    rows: list[tuple[object, ...]] = []
    for _ in range(count):
        age = made.randint(18, 80)
        born = f"{2025 - age}-{made.randint(1, 12):02d}-{made.randint(1, 28):02d}"
        employed = made.random() < 0.8
        hours = (40 if made.random() < 0.5 else made.randint(5, 60)) if employed else 0
        income = "" if made.random() < 0.03 else round(made.lognormvariate(7.6, 0.5) + 12 * hours)
        region = made.choices(list(REGIONS), list(REGIONS.values()))[0]
        household = made.randint(1, count // 3)
        rows.append((region, born, age, hours, income, "yes" if employed else "no", household))
    return rows


if __name__ == "__main__":
    path = Path(__file__).with_name("people.csv")
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, lineterminator="\n").writerows([COLUMNS, *people(2000)])
