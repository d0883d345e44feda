"""Faults on purpose, for as long as asked: counts of what was survived, refused and got wrong.

    PYTHONPATH=. python benchmarks/faults.py --seconds 600          a table
    PYTHONPATH=. python benchmarks/faults.py --seconds 600 --json   one JSON object
    PYTHONPATH=. python benchmarks/faults.py --only threads         some kinds (repeatable)

Kinds: ``kills`` ends ``mustdp bootstrap --workers 2`` by SIGTERM or SIGKILL at random moments and
looks for processes and files that stay; ``releases`` ends ``mustdp release --ledger`` likewise and
looks for anything shown that was not charged; ``flips`` flips one bit of every kind of stored file;
``tables`` changes bytes of CSV files; ``threads`` lets eight threads ask every public object that
answers questions. The same ``--seed`` and number of rounds give the same faults; moments of kills
are the seed's, what they meet is the machine's. Exit status 1 if anything was bad: a traceback, a
wrong number, a leftover. The short form of the same is in ``tests/faults``.
"""

from __future__ import annotations

import argparse
import json
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from rich.console import Console
from rich.table import Table

from tests.faults.asking import OBJECTS, asked_by_threads
from tests.faults.flipping import flip, kinds, mutate
from tests.faults.killing import end_by, written_ages
from tests.faults.releasing import Office, ended

#: What is no harm, in any kind.
GOOD = {"clean", "refused", "same", "right"}


def kills(folder: Path, rng: random.Random) -> dict[str, Counter[str]]:
    ages, temporary = written_ages(folder / "ages.csv"), folder / "temporary"
    temporary.mkdir()
    found = {}
    for number in (signal.SIGTERM, signal.SIGKILL):
        problems = end_by(number, ages, temporary, after=rng.uniform(0.0, 3.0))
        found[number.name] = Counter(problems or ["clean"])
    return found


def releases(folder: Path, rng: random.Random) -> dict[str, Counter[str]]:
    office = Office.made(folder, 50_000)
    found = {}
    for number in (signal.SIGTERM, signal.SIGKILL):
        problems = ended(number, office, after=rng.uniform(0.5, 6.0))
        found[number.name] = Counter(problems or ["clean"])
    return found


def flips(folder: Path, rng: random.Random) -> dict[str, Counter[str]]:
    found: dict[str, Counter[str]] = {}
    for name, kind in kinds().items():
        own = folder / str(len(found))
        own.mkdir()
        found[name] = flip(kind, own, rng, 20 if name == "ledger (file)" else 200)
    return found


def tables(folder: Path, rng: random.Random) -> dict[str, Counter[str]]:
    return {"CSV": mutate(folder, rng, 500)}


def threads(folder: Path, rng: random.Random) -> dict[str, Counter[str]]:
    found = {}
    for name, asked in OBJECTS.items():
        count, wrong = asked_by_threads(asked, rng)
        found[name] = Counter(wrong) + Counter({"right": count - len(wrong)})
    return found


KINDS: dict[str, Callable[[Path, random.Random], dict[str, Counter[str]]]] = {
    "kills": kills,
    "releases": releases,
    "flips": flips,
    "tables": tables,
    "threads": threads,
}


def run(names: list[str], seed: int, seconds: float) -> dict[str, dict[str, Counter[str]]]:
    """Rounds of all kinds in turn until the time is up, each begun round ended."""
    counted: dict[str, dict[str, Counter[str]]] = {name: {} for name in names}
    begun, number = time.monotonic(), 0
    while number == 0 or time.monotonic() - begun < seconds:
        for name in names:
            with tempfile.TemporaryDirectory() as folder:
                found = KINDS[name](Path(folder), random.Random(f"{seed} {number} {name}"))
            for part, counts in found.items():
                counted[name].setdefault(part, Counter()).update(counts)
        number += 1
    return counted


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", choices=KINDS, action="append")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    begun = time.monotonic()
    counted = run(given.only or list(KINDS), given.seed, given.seconds)
    everything = [counts for parts in counted.values() for counts in parts.values()]
    bad = sum(count for counts in everything for what, count in counts.items() if what not in GOOD)
    total = sum(counts.total() for counts in everything)
    if given.json:
        took = round(time.monotonic() - begun, 1)
        print(json.dumps({"seed": given.seed, "seconds": took, "faults": total, "bad": bad,
                          "kinds": counted}))  # fmt: skip
    else:
        table = Table("kind", "of", "what came of it", "times", title=f"{total} faults, {bad} bad")
        for name, parts in counted.items():
            for part, counts in parts.items():
                for what, count in counts.most_common():
                    table.add_row(name, part, what, str(count))
        Console().print(table)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
