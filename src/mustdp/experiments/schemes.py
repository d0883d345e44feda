"""The sampling schemes under the names that the paper gives them."""

from __future__ import annotations

from mustdp.numerics import checks
from mustdp.sampling.scheme import Scheme, must_ow, must_ww, poisson, wor, wr

#: In the paper's order; it treats Poisson sampling of rate m/n as WOR where one step is concerned.
NAMES = ("Poisson", "WOR", "WR", "MUSTow", "MUSTww")


def scheme_called(name: str, n: int, b: int, m: int) -> Scheme:
    """The scheme of the paper for sizes n, b and m; one-stage schemes have no b.

    >>> scheme_called("MUSTow", 1000, 500, 400).name
    'must-ow'
    """
    checks.choice("name", name, NAMES)
    if name == "Poisson":
        return poisson(n, m / n)
    if name in ("WOR", "WR"):
        return (wor if name == "WOR" else wr)(n, m)
    return (must_ow if name == "MUSTow" else must_ww)(n, b, m)
