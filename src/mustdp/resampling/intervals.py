"""Kinds of interval: the one that is made, and those that are refused, each with its reason.

The interval is the estimate plus and minus a t quantile times its standard error, where an estimate
has no better one of its own, such as a quantile or a proportion.
"""

from __future__ import annotations

from typing import Literal, get_args

from mustdp.errors import InvalidParameter
from mustdp.numerics import checks

Kind = Literal["normal"]
KINDS: tuple[Kind, ...] = get_args(Kind)
#: Names that people know from bootstraps without noise, and why there is no such interval here.
REFUSED = {
    "percentile": "the shape of replicates on m records with noise is neither that of n records "
    "nor free of the noise's own",
    "bootstrap-t": "the noise hides the standard errors of single subsets, by which it would have "
    "to divide",
    "BCa": "its acceleration needs the influence of every single record, which must not be "
    "released",
}
#: All of them, for whoever reads a word.
WORDS = (*KINDS, *REFUSED)


def check_kind(kind: str) -> None:
    """Refuse any other kind than the one that is made."""
    checks.choice("interval", kind, WORDS)
    if kind in REFUSED:
        raise InvalidParameter.refusing(
            "interval", f"must be normal, because for {kind} {REFUSED[kind]}", repr(kind)
        )
