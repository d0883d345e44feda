"""The sampling schemes under the names that the paper gives them."""

from __future__ import annotations

from mustdp.numerics import checks
from mustdp.sampling.catalogue import BY_LABEL
from mustdp.sampling.naming import scheme_by_name
from mustdp.sampling.scheme import Scheme

#: In the paper's order; it treats Poisson sampling of rate m/n as WOR where one step is concerned.
NAMES = ("Poisson", "WOR", "WR", "MUSTow", "MUSTww")


def scheme_called(name: str, n: int, b: int, m: int) -> Scheme:
    """The scheme of the paper for sizes n, b and m; one-stage schemes have no b.

    >>> scheme_called("MUSTow", 1000, 500, 400).name
    'must-ow'
    """
    one = BY_LABEL[checks.choice("name", name, tuple(BY_LABEL))]
    return scheme_by_name(one.name, n=n, m=m, b=b if one.two_stages else None)
