"""Results as files: what an item found, as JSON, and back again without computing anything."""

from __future__ import annotations

import json
import platform
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import partial
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any

from mustdp.errors import InvalidParameter, NumericalFailure
from mustdp.experiments.frame.cells import Cell, Outcome, Picture, Settings, Table
from mustdp.experiments.frame.items import Item
from mustdp.version import __version__

#: Raised when what is written changes its meaning; older files are then computed again.
FORMAT = 1


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
        "pictures": [_picture_data(picture) for picture in found.outcome.pictures],
        "reading": list(found.outcome.reading),
    }
    try:
        return json.dumps(data, allow_nan=False, default=_plain, indent=1) + "\n"
    except ValueError as problem:
        raise NumericalFailure(f"{item.name}: a result cannot be stored: {problem}") from None


def from_text(text: str, item: Item, settings: Settings) -> Stored:
    """A result from its JSON text; refused if it is damaged or was made under other conditions."""
    try:
        data = json.loads(text, parse_constant=_no_constants)
        for name, value in conditions(item, settings).items():
            if data[name] != value:
                raise InvalidParameter(f"made with {name} {data[name]}, not {value}")
        tables = tuple(_table(table) for table in data["tables"])
        pictures = tuple(_picture(picture) for picture in data["pictures"])
        reading = tuple(str(line) for line in data["reading"])
        return Stored(Outcome(tables, pictures, reading), float(data["seconds"]))
    except InvalidParameter:
        raise
    except (ValueError, KeyError, TypeError, AttributeError, ImportError) as problem:
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


def _picture_data(picture: Picture) -> dict[str, Any]:
    drawing: Any = picture.figure.func
    return {
        "name": picture.name,
        "title": picture.title,
        "alt": picture.alt,
        "drawing": f"{drawing.__module__}:{drawing.__qualname__}",
        "data": picture.data,
    }


def _picture(data: Mapping[str, Any]) -> Picture:
    home, _, name = data["drawing"].partition(":")
    if not home.startswith("mustdp."):
        raise InvalidParameter(f"damaged (a drawing of {home!r}, which is not this package)")
    drawing = partial(getattr(import_module(home), name), **data["data"])
    return Picture(data["name"], data["title"], drawing, data["alt"])


def _plain(value: Any) -> Any:
    """Numbers and arrays of numpy as JSON can hold them."""
    if hasattr(value, "tolist"):
        return value.tolist()
    raise TypeError(f"{type(value).__name__} is not JSON")


def _no_constants(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")
