"""Schemes by name, for whoever takes a name and sizes from a user."""

from __future__ import annotations

from mustdp.errors import InvalidParameter
from mustdp.numerics import checks
from mustdp.sampling.scheme import (
    Scheme,
    must_oo,
    must_ow,
    must_wo,
    must_ww,
    poisson,
    wor,
    wr,
)

_TWO_STAGES = {"must-ow": must_ow, "must-ww": must_ww, "must-wo": must_wo, "must-oo": must_oo}
_ONE_STAGE = {"wor": wor, "wr": wr}
NAMES = ("poisson", *_ONE_STAGE, *_TWO_STAGES)


def scheme_by_name(name: str, *, n: int, m: int, b: int | None = None) -> Scheme:
    """The scheme called ``name`` with batches of m (in expectation, for Poisson).

    Two-stage schemes need ``b``, the size of the first stage; the others refuse it.

    >>> scheme_by_name("must-ow", n=1000, b=500, m=400).name
    'must-ow'
    """
    checks.choice("scheme", name, NAMES)
    if name in _TWO_STAGES:
        if b is None:
            raise InvalidParameter(f"b must be given for {name}: the size of its first stage")
        return _TWO_STAGES[name](n, b, m)
    if b is not None:
        raise InvalidParameter(f"b must not be given for {name}, which has one stage; got {b!r}")
    if name == "poisson":
        n = checks.integer("n", n, 1)
        return poisson(n, checks.integer("m", m, 1, n) / n)
    return _ONE_STAGE[name](n, m)
