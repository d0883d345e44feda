"""Results as files: what an item found, as JSON, and back again without computing anything.

A file is sealed by a checksum over all it says: a result that was edited afterwards is computed
again and keeps no verdict. The checksum is no signature: it finds accidents and edits by hand, and
whoever wants to deceive can compute it again. What a file may do is limited all the same: it gives
numbers, words and the names of known drawings.
"""

from __future__ import annotations

import hashlib
import json
import platform
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from mustdp.errors import InvalidParameter, NumericalFailure
from mustdp.experiments.frame.cells import Cell, Table
from mustdp.experiments.frame.items import Item, Outcome, Settings
from mustdp.experiments.frame.pictures import Picture
from mustdp.version import __version__

#: Raised when what is written changes its meaning; older files are then computed again.
FORMAT = 2


@dataclass(frozen=True)
class Stored:
    """What one item found, and how long that took."""

    outcome: Outcome
    seconds: float


def conditions(item: Item, settings: Settings) -> dict[str, Any]:
    """What a file must agree with to be taken in place of a new computation.

    Neither the number of processes nor the place of the data sets changes a result: the data sets
    are checked when they are read.
    """
    return {
        "format": FORMAT,
        "item": item.name,
        "mustdp": __version__,
        "quick": settings.quick,
        "seed": settings.seed,
    }


def checksum(body: Mapping[str, Any]) -> str:
    """SHA-256 of everything a file says but the checksum itself, however it is laid out."""
    said = {name: value for name, value in body.items() if name != "sha256"}
    text = json.dumps(said, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode("ascii")).hexdigest()


def as_text(item: Item, settings: Settings, found: Stored) -> str:
    """The JSON text of a result; a number that JSON cannot hold is a failure."""
    versions = {"python": platform.python_version()}
    versions |= {name: version(name) for name in ("numpy", "scipy")}
    data = {
        **conditions(item, settings),
        "title": item.title,
        "versions": versions,
        "seconds": round(found.seconds, 3),
        "tables": [asdict(table) for table in found.outcome.tables],
        "pictures": [vars(picture) for picture in found.outcome.pictures],
        "reading": list(found.outcome.reading),
    }
    try:
        body = json.loads(json.dumps(data, allow_nan=False, default=_plain))
    except ValueError as problem:
        raise NumericalFailure(f"{item.name}: a result cannot be stored: {problem}") from None
    return json.dumps({**body, "sha256": checksum(body)}, indent=1) + "\n"


def from_text(text: str, item: Item, settings: Settings) -> Stored:
    """A result from its JSON text; refused if it is damaged or was made under other conditions."""
    try:
        data = json.loads(text, parse_constant=_no_constants)
        for name, value in conditions(item, settings).items():
            if data[name] != value:
                raise InvalidParameter(f"made with {name} {str(data[name])[:40]}, not {value}")
        if data["sha256"] != checksum(data):
            raise InvalidParameter("damaged (what it says does not fit its checksum)")
        tables = tuple(_table(table) for table in data["tables"])
        pictures = tuple(Picture(**picture) for picture in data["pictures"])
        reading = tuple(str(line) for line in data["reading"])
        return Stored(Outcome(tables, pictures, reading), float(data["seconds"]))
    except InvalidParameter:
        raise
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as problem:
        raise InvalidParameter(f"damaged ({type(problem).__name__}: {problem})") from None


def read(path: Path, item: Item, settings: Settings) -> Stored:
    """A result from its file; see :func:`from_text`."""
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise InvalidParameter("damaged (it is not text)") from None
    return from_text(text, item, settings)


def _table(data: Mapping[str, Any]) -> Table:
    cells = tuple(Cell(**cell) for cell in data["cells"])
    return Table(**{**data, "cells": cells})


def _plain(value: Any) -> Any:
    """Numbers and arrays of numpy as JSON can hold them."""
    if hasattr(value, "tolist"):
        return value.tolist()
    raise TypeError(f"{type(value).__name__} is not JSON")


def _no_constants(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")
