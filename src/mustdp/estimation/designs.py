"""Resampling designs: which subsets are drawn, how often, and which of them share a first stage.

A design is ``subsets`` independent draws of a scheme, or, with ``reuse`` above one, ``subsets``
first stages from each of which ``reuse`` second stages are drawn. One object draws the subsets and
states the plan that is charged for them, so the two cannot differ. It also knows how much a mean
varies from one of its subsets to the next, which is what inference has to undo.

Write c_i for the copies of record i in a subset of m entries. The c_i are exchangeable with a
fixed sum, so for any values x_1 .. x_n with sample variance S^2 (divisor n - 1)

    Var( sum_i c_i x_i / m ) = S^2 n Var(c_1) / m^2,

and the variance of c_1 is that of the multiplicity law. For Poisson subsets the same holds for
ratio estimates, to first order. Where the first stage (b entries, copies k_i) is kept, this splits
into a part between first stages, S^2 n Var(k_1) / b^2, and a part within, the formula above for m
draws from b entries, times the expected sample variance of those entries. Two positions of a
subset hold the same record with chance n E[c_1 (c_1 - 1)] / (m (m - 1)); an average over pairs of
positions, such as a sample variance, is too small by that factor.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from mustdp.accounting.plan import Plan, repeat, subsample
from mustdp.errors import InvalidParameter, NotCovered
from mustdp.mechanisms.contract import Mechanism
from mustdp.numerics import checks
from mustdp.randomness.keys import BatchKey
from mustdp.sampling.batch import Batch
from mustdp.sampling.law import Stage
from mustdp.sampling.nested import Level, NestedDesign
from mustdp.sampling.schemes import Multistage, Poisson, Scheme, must_ow, must_ww
from mustdp.sampling.streams import BatchStream

#: More replicates than this are refused: they would have to be held in memory.
MOST_REPLICATES = 10**8
#: With fewer records expected in a subset, nothing that is divided by their number means anything.
_SMALLEST_SUBSET = 1e-9


@dataclass(frozen=True)
class Design:
    """Independent draws of a scheme, or several second stages from each of several first ones.

    Parameters
    ----------
    scheme : Scheme
        How batches are drawn.
    subsets : int
        Number of independent draws, or of first stages.
    reuse : int, default=1
        Number of second stages that are drawn from each first one; above 1 for a scheme of two
        stages.

    Raises
    ------
    InvalidParameter
        ``reuse`` is above 1 for a scheme that has not two stages, or too much is asked for.

    Examples
    --------
    >>> import mustdp as md
    >>> design = Design(md.must_ow(n=1000, b=50, m=40), subsets=2, reuse=3)
    >>> [(rank, batch.size) for rank, batch in design.draws(1, 0, design.releases)]
    [(0, 40), (1, 40), (2, 40), (3, 40), (4, 40), (5, 40)]
    """

    scheme: Scheme
    subsets: int
    reuse: int = 1

    def __post_init__(self) -> None:
        if not isinstance(self.scheme, Scheme):
            raise InvalidParameter(f"scheme must be a sampling scheme, got {self.scheme!r}")
        if not isinstance(self.scheme, Multistage | Poisson):
            raise NotCovered(f"{self.scheme.name} is not covered by bootstraps: use poisson")
        if not self.scheme.expected_size > _SMALLEST_SUBSET:
            allowed = f"must draw something: more than {_SMALLEST_SUBSET:g} records on average"
            raise InvalidParameter.refusing("scheme", allowed, repr(self.scheme))
        subsets = checks.integer("subsets", self.subsets, 1, MOST_REPLICATES)
        reuse = checks.integer("reuse", self.reuse, 1, MOST_REPLICATES // subsets)
        if reuse > 1 and len(self._stages) != 2:
            raise InvalidParameter.refusing(
                "reuse",
                "draws several second stages from one first stage and so needs a scheme of "
                "two stages",
                f"{reuse} with {self.scheme!r}",
            )
        object.__setattr__(self, "subsets", subsets)
        object.__setattr__(self, "reuse", reuse)

    @property
    def n(self) -> int:
        """Number of records."""
        return self.scheme.n

    @property
    def size(self) -> float:
        """Entries of one released subset, copies counted (expected ones for Poisson)."""
        return self.scheme.expected_size

    @property
    def poisson(self) -> bool:
        """Whether the size of a subset is random."""
        return isinstance(self.scheme, Poisson)

    @property
    def groups(self) -> int:
        """Number of independent first stages; the releases of one are neighbours in rank."""
        return self.subsets

    @property
    def releases(self) -> int:
        """Number of subsets that something is released about."""
        return self.subsets * self.reuse

    def plan(self, mechanism: Mechanism) -> Plan:
        """What the releases come down to.

        Parameters
        ----------
        mechanism : Mechanism
            The noise that each of them goes through.

        Returns
        -------
        Plan
            What is charged.
        """
        if self.reuse == 1:
            return repeat(self.subsets, subsample(self.scheme, mechanism))
        inner = subsample(self._second, mechanism)
        return repeat(self.subsets, subsample(self._first, repeat(self.reuse, inner)))

    def draws(self, seed: int | BatchKey, start: int, stop: int) -> Iterator[tuple[int, Batch]]:
        """Draw the subsets of some releases.

        A batch depends on the seed and its rank alone.

        Parameters
        ----------
        seed : int or BatchKey
            Decides the batches.
        start : int
            The first release, from 0 on.
        stop : int
            The one behind the last, at most ``releases``.

        Yields
        ------
        (rank, batch) : int, Batch
            For the ranks ``start`` to ``stop - 1``.
        """
        start = checks.integer("start", start, 0, self.releases)
        stop = checks.integer("stop", stop, start, self.releases)
        if self.reuse == 1:
            return BatchStream(self.scheme, seed, position=start, stop=stop).numbered()
        return self._nested.between(seed, start, stop)

    @cached_property
    def between(self) -> float:
        """Variance of a mean from one first stage to the next, in units of S^2."""
        return _spread(self.scheme if self.reuse == 1 else self._first)

    @cached_property
    def within(self) -> float:
        """Variance of a mean among second stages of one first stage, in units of S^2."""
        if self.reuse == 1:
            return 0.0
        return _spread(self._second) * (1.0 - repeated_pairs(self._first))

    @cached_property
    def repeated_pairs(self) -> float:
        """Chance that two positions of a released subset hold the same record."""
        return repeated_pairs(self.scheme)

    def describe(self) -> dict[str, Any]:
        """Plain description, for JSON.

        Returns
        -------
        dict
            Plain values, ready for JSON.
        """
        return {**self.scheme.describe(), "subsets": self.subsets, "reuse": self.reuse}

    @property
    def _stages(self) -> tuple[Stage, ...]:
        return self.scheme.stages if isinstance(self.scheme, Multistage) else ()

    @cached_property
    def _first(self) -> Multistage:
        return Multistage(self.n, self._stages[:1])

    @cached_property
    def _second(self) -> Multistage:
        return Multistage(self._stages[0].size, self._stages[1:])

    @cached_property
    def _nested(self) -> NestedDesign:
        first, second = self._stages
        levels = (
            Level(self.subsets, first.kind, first.size),
            Level(self.reuse, second.kind, second.size),
        )
        return NestedDesign(self.n, levels)


def double_bootstrap(n: int, *, b: int, m: int, subsets: int, reuse: int) -> Design:
    """Draw b of n with replacement, and from each such sample ``reuse`` times m of its b entries.

    The classical double bootstrap is b = m = n.

    Parameters
    ----------
    n : int
        Number of records, at least 1.
    b : int
        Size of the first of two stages, at least 1.
    m : int
        Size of a released subset, copies counted.
    subsets : int
        Number of first stages.
    reuse : int
        Number of second stages that are drawn from each first one.

    Returns
    -------
    Design
        What is drawn and charged.

    Examples
    --------
    >>> double_bootstrap(1000, b=200, m=100, subsets=20, reuse=5).releases
    100
    """
    return Design(must_ww(n, b, m), subsets, reuse)


def bag_of_little_bootstraps(
    n: int, *, b: int, subsets: int, reuse: int, m: int | None = None
) -> Design:
    """Draw b of n without replacement, and from each such subset ``reuse`` times n of its entries.

    Kleiner, Talwalkar, Sarkar & Jordan (2014), "A scalable bootstrap for massive data", with s
    ``subsets`` and r ``reuse``. The n draws are counts on b records, so that a replicate costs b.

    Parameters
    ----------
    n : int
        Number of records, at least 1.
    b : int
        Size of the first of two stages, from 1 to n.
    subsets : int
        Number of first stages.
    reuse : int
        Number of second stages that are drawn from each first one.
    m : int, default=None
        Size of a released subset, copies counted; None means n.

    Returns
    -------
    Design
        What is drawn and charged.

    Examples
    --------
    >>> bag_of_little_bootstraps(1000, b=200, subsets=20, reuse=5).releases
    100
    """
    return Design(must_ow(n, b, n if m is None else m), subsets, reuse)


def repeated_pairs(scheme: Scheme) -> float:
    """Chance that two different positions of a draw hold the same record; 0 for Poisson."""
    m = scheme.expected_size
    if isinstance(scheme, Poisson) or m < 2:
        return 0.0
    law = scheme.law()
    pairs = float(law.positive @ (law.positive_values * (law.positive_values - 1.0)))
    return min(1.0, scheme.n * pairs / (m * (m - 1.0)))


def _spread(scheme: Scheme) -> float:
    """Variance of a mean over draws of the scheme, in units of S^2: n Var(c) / m^2."""
    law, m, n = scheme.law(), scheme.expected_size, scheme.n
    mean = m / n
    varied = float(law.positive @ (law.positive_values - mean) ** 2) + law.zero * mean**2
    return n * varied / m**2
