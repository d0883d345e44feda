"""Schemes by name, for whoever takes a name and sizes from a user."""

from __future__ import annotations

from mustdp.errors import InvalidParameter
from mustdp.numerics import checks
from mustdp.sampling.catalogue import BY_NAME, NAMES
from mustdp.sampling.scheme import Scheme, named, poisson


def scheme_by_name(name: str, *, n: int, m: int, b: int | None = None) -> Scheme:
    """The scheme called ``name`` with batches of m (in expectation, for Poisson).

    Two-stage schemes need ``b``, the size of the first stage; the others refuse it.

    >>> scheme_by_name("must-ow", n=1000, b=500, m=400).name
    'must-ow'
    """
    one = BY_NAME[checks.choice("scheme", name, NAMES)]
    if one.two_stages:
        if b is None:
            raise InvalidParameter(f"b must be given for {name}: the size of its first stage")
        return named(name, n, b=b, m=m)
    if b is not None:
        raise InvalidParameter(f"b must not be given for {name}, which has one stage; got {b!r}")
    if one.stages:
        return named(name, n, m=m)
    n = checks.integer("n", n, 1)
    return poisson(n, checks.integer("m", m, 1, n) / n)
