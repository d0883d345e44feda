"""Schemes: frozen descriptions of a random draw that can be drawn and be charged.

Here they are made by name; ``poisson.py`` and ``multistage.py`` say what they are. [Z] = Zhao,
Zhou & Liu, "MUltistage Sampling Technique (MUST)", arXiv 2312.13389.
"""

from __future__ import annotations

from collections.abc import Iterable

from mustdp.errors import InvalidParameter
from mustdp.numerics import checks
from mustdp.sampling.catalogue import BY_NAME
from mustdp.sampling.multistage import Multistage as Multistage
from mustdp.sampling.poisson import Poisson as Poisson
from mustdp.sampling.rule import Scheme as Scheme
from mustdp.sampling.stage import Stage, check_stages


def poisson(n: int, rate: float) -> Poisson:
    """Every one of ``n`` records independently with chance ``rate``.

    Parameters
    ----------
    n : int
        Number of records, at least 1.
    rate : float
        Chance of every record to be in a batch, from 0 to 1.

    Returns
    -------
    Poisson
        What is drawn and charged.

    Examples
    --------
    >>> import mustdp as md
    >>> md.poisson(1000, 0.01).eta
    0.01
    """
    return Poisson(n, rate)


def wor(n: int, m: int) -> Multistage:
    """``m`` of ``n`` records without replacement.

    Parameters
    ----------
    n : int
        Number of records, at least 1.
    m : int
        Size of a batch, from 1 to n.

    Returns
    -------
    Multistage
        What is drawn and charged.

    Examples
    --------
    >>> import mustdp as md
    >>> batch = md.wor(1000, 10).draw()
    >>> batch.size, batch.distinct
    (10, 10)
    """
    return named("wor", n, m=m)


def wr(n: int, m: int) -> Multistage:
    """``m`` draws from ``n`` records with replacement.

    Parameters
    ----------
    n : int
        Number of records, at least 1.
    m : int
        Size of a batch, copies counted, at least 1.

    Returns
    -------
    Multistage
        What is drawn and charged.

    Examples
    --------
    >>> import mustdp as md
    >>> md.wr(1000, 10).draw().size
    10
    """
    return named("wr", n, m=m)


def must_ow(n: int, b: int, m: int) -> Multistage:
    """``b`` of ``n`` without replacement, then ``m`` draws from those with replacement.

    Parameters
    ----------
    n : int
        Number of records, at least 1.
    b : int
        Size of the first of two stages, from 1 to n.
    m : int
        Size of a batch, copies counted, at least 1.

    Returns
    -------
    Multistage
        What is drawn and charged.

    Examples
    --------
    >>> import mustdp as md
    >>> md.must_ow(10000, 500, 200).describe()["stages"]
    [['wor', 500], ['wr', 200]]
    """
    return named("must-ow", n, b=b, m=m)


def must_ww(n: int, b: int, m: int) -> Multistage:
    """``b`` draws from ``n`` with replacement, then ``m`` draws from those with replacement.

    Parameters
    ----------
    n : int
        Number of records, at least 1.
    b : int
        Size of the first of two stages, at least 1.
    m : int
        Size of a batch, copies counted, at least 1.

    Returns
    -------
    Multistage
        What is drawn and charged.

    Examples
    --------
    >>> import mustdp as md
    >>> round(md.must_ww(1000, 50, 10).eta, 5)
    0.00911
    """
    return named("must-ww", n, b=b, m=m)


def must_wo(n: int, b: int, m: int) -> Multistage:
    """``b`` draws from ``n`` with replacement, then ``m`` of those without: the law of ``wr``.

    Parameters
    ----------
    n : int
        Number of records, at least 1.
    b : int
        Size of the first of two stages, at least 1.
    m : int
        Size of a batch, from 1 to b.

    Returns
    -------
    Multistage
        What is drawn and charged.

    Examples
    --------
    >>> import mustdp as md
    >>> md.must_wo(1000, 50, 10).reduced == md.wr(1000, 10).reduced
    True
    """
    return named("must-wo", n, b=b, m=m)


def must_oo(n: int, b: int, m: int) -> Multistage:
    """``b`` of ``n`` without replacement, then ``m`` of those without: the law of ``wor``.

    Parameters
    ----------
    n : int
        Number of records, at least 1.
    b : int
        Size of the first of two stages, from 1 to n.
    m : int
        Size of a batch, from 1 to b.

    Returns
    -------
    Multistage
        What is drawn and charged.

    Examples
    --------
    >>> import mustdp as md
    >>> md.must_oo(1000, 50, 10).reduced == md.wor(1000, 10).reduced
    True
    """
    return named("must-oo", n, b=b, m=m)


def multistage(n: int, stages: Iterable[tuple[str, int]]) -> Multistage:
    """Any number of ``("wor", size)`` and ``("wr", size)`` stages, one after another.

    Parameters
    ----------
    n : int
        Number of records, at least 1.
    stages : iterable of (kind, size)
        The stages from first to last: each draws ``size`` entries of what the one before has left,
        without ("wor") or with ("wr") replacement.

    Returns
    -------
    Multistage
        What is drawn and charged.

    Raises
    ------
    InvalidParameter
        A stage draws more entries without replacement than there are.

    Examples
    --------
    >>> import mustdp as md
    >>> md.multistage(1000, [("wor", 100), ("wr", 50), ("wr", 10)]).name
    'multistage'
    """
    try:
        listed = tuple(stages)
    except TypeError:
        raise InvalidParameter(
            f"stages must be a list of pairs such as ('wor', 118), got {stages!r}"
        ) from None
    return Multistage(n, listed)  # type: ignore[arg-type]


def named(name: str, n: int, **sizes: int) -> Multistage:
    """The scheme of stages called ``name``, with the sizes of its stages by their names."""
    n = checks.integer("n", n, 1)
    kinds = BY_NAME[name].stages
    stages = [
        Stage(kind, checks.integer(argument, size, 1))
        for kind, (argument, size) in zip(kinds, sizes.items(), strict=True)
    ]
    check_stages(n, stages, list(sizes))
    return Multistage(n, tuple(stages))


def scheme_from_description(description: object) -> Scheme:
    """Rebuild a scheme from what :meth:`Scheme.describe` gave; anything else is refused."""
    scheme: Scheme | None = None
    if isinstance(description, dict):
        if set(description) == {"scheme", "n", "rate"}:
            scheme = poisson(description["n"], description["rate"])
        elif set(description) == {"scheme", "n", "stages"}:
            scheme = multistage(description["n"], description["stages"])
    if scheme is None or scheme.name != description["scheme"]:  # type: ignore[index]
        raise InvalidParameter(
            f"description must be what Scheme.describe() gives, got {description!r}"
        )
    return scheme
