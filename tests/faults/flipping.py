"""Stored files with a flipped bit, and tables with a byte changed: refused, or read as they stand.

Every kind of stored file is sealed, so that a flipped bit must be refused, in words. A CSV file has
no seal: what a changed one says is what an independent reader finds in it.
"""

from __future__ import annotations

import csv
import random
import sqlite3
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import mustdp as md
from mustdp.data.opening import open_source
from mustdp.extras import installed
from mustdp.reproduction.runner import ENVELOPE
from tests.faults.asking import STEP

#: How a kind of file is written, and what is read from it.
Kind = tuple[Callable[[Path], None], Callable[[Path], Any]]


def _write_ledger(path: Path) -> None:
    ledger = md.Ledger()
    ledger.step(STEP, 7)
    ledger.save(path)


def _write_ledger_file(path: Path) -> None:
    with md.Ledger.open(path, epsilon=9, delta=1e-6, data="people") as ledger:
        for k in range(3):
            ledger.charge(STEP, label=f"release {k}")


def _read_ledger_file(path: Path) -> Any:
    with md.Ledger.open(path) as ledger:
        ledger.verify()
        entries = tuple((one.label, one.plan, one.hash) for one in ledger.entries())
        return ledger.spent(), entries


def _write_result(path: Path) -> None:
    cells = [{"row": k, "value": k / 7, "verdict": "matches"} for k in range(9)]
    path.write_text(ENVELOPE.seal_text({"item": "table", "cells": cells}), encoding="ascii")


def _write_checkpoint(path: Path) -> None:
    from mustdp.training.networks.checkpoint import CheckpointFile

    with (file := CheckpointFile(path)).held():
        file.write({"run": {"steps": 3}, "weights": np.arange(9.0).tolist()})


def _read_checkpoint(path: Path) -> Any:
    from mustdp.training.networks.checkpoint import CheckpointFile

    return CheckpointFile(path).read()


def kinds() -> dict[str, Kind]:
    """The kinds of stored files, as far as the packages they need are installed."""
    found: dict[str, Kind] = {
        "ledger (JSON)": (_write_ledger, lambda path: md.Ledger.load(path).to_json()),
        "ledger (file)": (_write_ledger_file, _read_ledger_file),
        "stored result": (_write_result, lambda path: ENVELOPE.open_text(path.read_bytes(), "it")),
    }
    if installed("torch") is not None:
        found["checkpoint"] = (_write_checkpoint, _read_checkpoint)
    return found


def flip(kind: Kind, folder: Path, rng: random.Random, times: int) -> Counter[str]:
    """Flip one bit of the file, ``times`` times; counts of refused, same, wrong and traceback."""
    write, read = kind
    path = folder / "stored"
    write(path)
    whole, expected, counts = path.read_bytes(), read(path), Counter[str]()
    places = [at for at, byte in enumerate(whole) if byte]  # pages of a database are mostly empty
    for _ in range(times):
        for rest in folder.iterdir():
            rest.unlink()
        damaged = bytearray(whole)
        damaged[rng.choice(places)] ^= 1 << rng.randrange(8)
        path.write_bytes(damaged)
        path.chmod(0o600)
        try:
            counts["same" if read(path) == expected else "wrong"] += 1
        except md.MustdpError:
            counts["refused"] += 1
        except (Exception, sqlite3.Error) as problem:
            counts[f"traceback: {type(problem).__name__}"] += 1
    return counts


def mutate(folder: Path, rng: random.Random, times: int) -> Counter[str]:
    """Change bytes of a CSV file, ``times`` times; counts of refused, right, wrong, traceback."""
    path, counts = folder / "table.csv", Counter[str]()
    rows = [f"{rng.uniform(-9, 9):.3f},{rng.randrange(10**6)},x{k}" for k in range(12)]
    whole = ("a,b,name\n" + "\n".join(rows) + "\n").encode()
    for _ in range(times):
        changed = bytearray(whole)
        for _ in range(rng.randint(1, 3)):
            at, how = rng.randrange(len(changed)), rng.randrange(3)
            byte = rng.choice(b'0123456789.,-+eE"\n\r x_\x00\xff\xef')
            if how == 0:
                changed[at] = byte
            elif how == 1:
                changed.insert(at, byte)
            else:
                del changed[at]
        path.write_bytes(changed)
        try:
            source = open_source(path, ["a", "b"])
            found = source.take(np.arange(source.n))
        except md.MustdpError:
            counts["refused"] += 1
        except Exception as problem:
            counts[f"traceback: {type(problem).__name__}"] += 1
        else:
            counts["right" if np.array_equal(found, _plainly(path)) else "wrong"] += 1
    return counts


def _plainly(path: Path) -> Any:
    """The two columns as Python's own reader finds them; None if it does not."""
    with path.open(encoding="utf-8-sig", errors="surrogateescape", newline="") as file:
        header, *rows = [row for row in csv.reader(file) if row]
    try:
        places = [[name.strip() for name in header].index(name) for name in ("a", "b")]
        return np.array([[float(row[at]) for at in places] for row in rows])
    except (ValueError, IndexError):
        return None
