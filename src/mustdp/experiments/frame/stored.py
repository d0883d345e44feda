"""Results as files: what an item found, as JSON, and back again without computing anything.

A file is sealed (:mod:`mustdp.files`): a result that was edited afterwards is computed again and
keeps no verdict. The seal is no signature: it finds accidents and edits by hand, and whoever wants
to deceive can seal again. What a file may do is limited all the same: it gives numbers, words and
the names of known drawings.
"""

from __future__ import annotations

import json
import platform
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from importlib.metadata import version
from typing import Any

from mustdp.errors import InvalidParameter, NumericalFailure
from mustdp.experiments.frame.cells import Cell, Table
from mustdp.experiments.frame.items import Item, Outcome, Settings
from mustdp.experiments.frame.pictures import Picture
from mustdp.files.envelope import Envelope
from mustdp.limits import LARGEST_RESULT
from mustdp.version import __version__

#: The version is raised when what is written changes its meaning; older files are computed again.
ENVELOPE = Envelope("mustdp-result", 3, "stored result", LARGEST_RESULT)


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
        "item": item.name,
        "mustdp": __version__,
        "quick": settings.quick,
        "seed": settings.seed,
    }


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
    return ENVELOPE.seal_text(body) + "\n"


def from_text(content: str | bytes, item: Item, settings: Settings) -> Stored:
    """A result from its JSON text; refused if it is damaged or was made under other conditions."""
    data = ENVELOPE.open_text(content, "the file")
    try:
        for name, value in conditions(item, settings).items():
            if data[name] != value:
                raise InvalidParameter(f"made with {name} {str(data[name])[:40]}, not {value}")
        tables = tuple(_table(table) for table in data["tables"])
        pictures = tuple(Picture(**picture) for picture in data["pictures"])
        reading = tuple(str(line) for line in data["reading"])
        return Stored(Outcome(tables, pictures, reading), float(data["seconds"]))
    except InvalidParameter:
        raise
    except (ValueError, KeyError, TypeError, AttributeError) as problem:
        raise InvalidParameter(f"damaged ({type(problem).__name__}: {problem})") from None


def _table(data: Mapping[str, Any]) -> Table:
    cells = tuple(Cell(**cell) for cell in data["cells"])
    return Table(**{**data, "cells": cells})


def _plain(value: Any) -> Any:
    """Numbers and arrays of numpy as JSON can hold them."""
    if hasattr(value, "tolist"):
        return value.tolist()
    raise TypeError(f"{type(value).__name__} is not JSON")
