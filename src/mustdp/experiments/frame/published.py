"""The paper's schemes by its names, and its printed numbers with how exact they are."""

from __future__ import annotations

import json
from decimal import Decimal
from functools import lru_cache
from importlib import resources
from typing import Any

from mustdp.experiments.frame.cells import Cell, judge
from mustdp.numerics import checks
from mustdp.sampling.catalogue import BY_LABEL
from mustdp.sampling.naming import scheme_by_name
from mustdp.sampling.scheme import Scheme

#: In the paper's order; it treats Poisson sampling of rate m/n as WOR where one step is concerned.
NAMES = ("Poisson", "WOR", "WR", "MUSTow", "MUSTww")
#: The row of runs without noise.
NON_PRIVATE = "non-private Poisson"


def scheme_called(name: str, n: int, b: int, m: int) -> Scheme:
    """The scheme of the paper for sizes n, b and m; one-stage schemes have no b.

    >>> scheme_called("MUSTow", 1000, 500, 400).name
    'must-ow'
    """
    one = BY_LABEL[checks.choice("name", name, tuple(BY_LABEL))]
    return scheme_by_name(one.name, n=n, m=m, b=b if one.two_stages else None)


@lru_cache(maxsize=1)
def _all() -> dict[str, Any]:
    text = resources.files(__package__).joinpath("published.json").read_text("utf-8")
    found: dict[str, Any] = json.loads(text)
    return found


def published(part: str) -> dict[str, Any]:
    """What the paper prints in a table or a passage, by the name in ``published.json``.

    >>> published("S1")["epsilon_prime"]["WR"][1]
    '0.194'
    """
    found: dict[str, Any] = _all()[checks.choice("part", part, tuple(_all()))]
    return found


def half_unit(text: str) -> float:
    """Half of the last digit of a number as printed; a plain 0 is meant exactly.

    >>> half_unit("0.194"), half_unit("6.50e-35"), half_unit("0")
    (0.0005, 5e-38, 0.0)
    """
    if text == "0":
        return 0.0
    return float(Decimal(5).scaleb(int(Decimal(text).as_tuple().exponent) - 1))


def judge_printed(row: str, column: str, text: str, ours: float, reason: str = "") -> Cell:
    """Compare ours with a number as it is printed, to its last digit.

    >>> judge_printed("WR", "epsilon'", "0.194", 0.19449).verdict
    'matches'
    """
    return judge(row, column, float(text), ours, half_unit=half_unit(text), reason=reason)
