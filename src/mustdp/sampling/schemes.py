"""Sampling schemes: frozen descriptions of a random draw that draw batches and are charged for
them.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Self, cast

import numpy as np

from mustdp.errors import InvalidParameter
from mustdp.numerics import checks
from mustdp.numerics.arrays import ROUNDOFF, FloatArray
from mustdp.numerics.checks import frozen
from mustdp.randomness.keys import generator
from mustdp.sampling.catalogue import BY_NAME, COMPARED, name_of
from mustdp.sampling.draws import Batch, choose, draw_poisson, draw_stages, drawn
from mustdp.sampling.law import (
    TAIL,
    MultiplicityLaw,
    Stage,
    Window,
    as_law,
    binomial,
    chain_law,
    check_stages,
    hypergeometric,
    read_stage,
    reduce_stages,
)

if TYPE_CHECKING:
    from mustdp.randomness.keys import BatchKey
    from mustdp.sampling.streams import BatchStream

# What every scheme can do: draw, know its law, describe itself.
#
# The schemes themselves are in ``scheme.py``.


class Scheme(ABC):
    """A random rule that turns ``n`` records into a multiset of draws.

    Attributes
    ----------
    n : int
        Number of records, at least 1.
    fixed_size : bool
        Whether every batch has the same size, so that another record takes a missing one's place.
    leaves_empty : bool
        Whether a record that is not there leaves its place empty.

    Examples
    --------
    >>> import mustdp as md
    >>> scheme = md.must_ow(1000, 50, 10)
    >>> scheme.draw().size, round(scheme.expected_distinct, 2)
    (10, 9.15)
    """

    n: int
    fixed_size: ClassVar[bool] = True
    leaves_empty: ClassVar[bool] = False

    @property
    @abstractmethod
    def name(self) -> str:
        """The scheme's name on the command line."""

    @property
    @abstractmethod
    def eta(self) -> float:
        """Chance that one given record is drawn at least once."""

    @property
    @abstractmethod
    def expected_size(self) -> float:
        """Expected number of draws, copies counted (the fixed batch size where it is fixed)."""

    @abstractmethod
    def law(self, group: int = 1, tail: float = TAIL) -> MultiplicityLaw:
        """Law of the copies of given records in one draw, with the mass that was cut.

        Parameters
        ----------
        group : int, default=1
            How many given records are counted together, from 1 to n.
        tail : float, default=1e-300
            Mass that may be cut off, from 0 to below 1.

        Returns
        -------
        MultiplicityLaw
            Probabilities of the numbers of copies.
        """

    @abstractmethod
    def draw(self, rng: np.random.Generator | None = None) -> Batch:
        """Draw one batch.

        Parameters
        ----------
        rng : numpy.random.Generator, default=None
            Where randomness comes from; None means the operating system's entropy.

        Returns
        -------
        Batch
            The records drawn, and how often each.
        """

    @abstractmethod
    def describe(self) -> dict[str, Any]:
        """Plain description, for JSON; ``scheme_from_description`` reads it back.

        Returns
        -------
        dict
            Plain values, ready for JSON.
        """

    def resized(self, n: int) -> Self:
        """The same rule for another number of records.

        Parameters
        ----------
        n : int
            Number of records, at least 1.

        Returns
        -------
        Scheme
            The rule for ``n`` records.

        Raises
        ------
        InvalidParameter
            The rule depends on the number of records, as it does where batches have a fixed size.
        """
        raise InvalidParameter(f"a scheme of fixed size is one for n = {self.n} records, not {n}")

    @property
    def expected_distinct(self) -> float:
        """Expected number of distinct records in one draw: exactly ``n * eta``."""
        return self.n * self.eta

    def multiplicity(self, group: int = 1) -> FloatArray:
        """Probabilities ``p_0, p_1, …`` of the copies of given records in one draw.

        Parameters
        ----------
        group : int, default=1
            How many given records are counted together, from 1 to n.

        Returns
        -------
        ndarray
            The probabilities, read-only.
        """
        return self.law(group).dense()

    def batches(self, seed: int | BatchKey | None = None, count: int | None = None) -> BatchStream:
        """Stream of independent batches that a seed or a key decides.

        Parameters
        ----------
        seed : int or BatchKey, default=None
            Decides the batches; None means a secret key, fresh from the operating system.
        count : int, default=None
            Number of batches; None means without end.

        Returns
        -------
        BatchStream
            The batches, in their order.
        """
        from mustdp.sampling.streams import BatchStream  # streams are made of schemes

        stop = None if count is None else checks.integer("count", count, 0)
        return BatchStream(self, seed, stop=stop)

    def _law_arguments(self, group: int, tail: float) -> tuple[int, float]:
        return (
            checks.integer("group", group, 1, self.n),
            checks.real("tail", tail, at_least=0, below=1),
        )


# Poisson sampling: a coin of its own for every record, so that batches have random sizes.


@dataclass(frozen=True)
class Poisson(Scheme):
    """Every record is taken independently with chance ``rate``.

    The parameters are those of :func:`poisson`, which makes it.

    Examples
    --------
    >>> import mustdp as md
    >>> md.types.Poisson(1000, 0.01).expected_size
    10.0
    """

    name: ClassVar[str] = "poisson"
    fixed_size: ClassVar[bool] = False
    leaves_empty: ClassVar[bool] = True

    n: int
    rate: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "n", checks.integer("n", self.n, 1))
        object.__setattr__(self, "rate", checks.real("rate", self.rate, at_least=0, at_most=1))

    @property
    def eta(self) -> float:
        """Chance that one given record is drawn."""
        return self.rate

    @property
    def expected_size(self) -> float:
        """Expected batch size ``n * rate``; the size itself is random."""
        return self.n * self.rate

    def law(self, group: int = 1, tail: float = TAIL) -> MultiplicityLaw:
        """Law of the number of records of the group that are taken."""
        group, tail = self._law_arguments(group, tail)
        if group == 1 and 0.0 < self.rate < 1.0:
            both = frozen(np.array([1.0 - self.rate, self.rate]))
            return MultiplicityLaw(0, both, 0.0, 2.0**-53)
        return as_law(binomial(group, *self.rate.as_integer_ratio(), tail))

    def draw(self, rng: np.random.Generator | None = None) -> Batch:
        """Draw the size, then that many records without replacement: the same law, at O(batch)."""
        return draw_poisson(self.n, self.rate, generator(rng))

    def resized(self, n: int) -> Self:
        """The same chance for each of ``n`` records."""
        return replace(self, n=n)

    def describe(self) -> dict[str, Any]:
        """Plain description, for JSON."""
        return {"scheme": self.name, "n": self.n, "rate": self.rate}


@dataclass(frozen=True)
class TruncatedPoisson(Scheme):
    """Poisson sampling with a cap: of a larger batch ``cap`` records are kept, uniformly at random.

    The parameters are those of :func:`truncated_poisson`, which makes it.

    Examples
    --------
    >>> import mustdp as md
    >>> scheme = md.types.TruncatedPoisson(1000, 0.01, 20)
    >>> scheme.draw().size <= 20, round(scheme.expected_size, 2)
    (True, 10.0)
    """

    name: ClassVar[str] = "truncated-poisson"
    fixed_size: ClassVar[bool] = False
    leaves_empty: ClassVar[bool] = True

    n: int
    rate: float
    cap: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "n", checks.integer("n", self.n, 1))
        object.__setattr__(self, "rate", checks.real("rate", self.rate, at_least=0, at_most=1))
        object.__setattr__(self, "cap", checks.integer("cap", self.cap, 1))

    @property
    def poisson(self) -> Poisson:
        """The same without the cap."""
        return Poisson(self.n, self.rate)

    @cached_property
    def eta(self) -> float:
        """Chance that one given record is drawn and kept."""
        return self.expected_size / self.n

    @cached_property
    def expected_size(self) -> float:
        """Expected batch size, capped."""
        sizes = self._drawn(self.n)
        return float(sizes.probabilities @ np.minimum(sizes.values, self.cap))

    def law(self, group: int = 1, tail: float = TAIL) -> MultiplicityLaw:
        """Law of the records of the group that are drawn and kept.

        A batch of a given size is a uniform subset, so the law is a mixture of hypergeometric ones.
        """
        group, tail = self._law_arguments(group, tail)
        if self.cap >= self.n:
            return self.poisson.law(group, tail)
        if group == 1:
            share, error = self.eta, self._drawn(self.n).relative_error + 1e-12
            return MultiplicityLaw(0, frozen(np.array([1.0 - share, share])), 0.0, error)
        sizes = self._drawn(self.n, tail / 2.0)
        capped = np.minimum(sizes.values, self.cap)
        chances = np.bincount(capped - capped[0], weights=sizes.probabilities)
        mixed, cut = np.zeros(group + 1), sizes.cut
        error = sizes.relative_error + (chances.size + 1) * ROUNDOFF
        for k, chance in enumerate(chances.tolist()):
            row = hypergeometric(self.n, group, int(capped[0]) + k, tail / 2.0)
            mixed[row.first : row.first + row.probabilities.size] += chance * row.probabilities
            cut, error = cut + chance * row.cut, max(error, row.relative_error)
        return MultiplicityLaw(0, frozen(mixed), cut, 2.0 * error)

    def overflow(self, group: int = 1) -> float:
        """Chance, rounded up, that the other records leave less than ``group`` places.

        Parameters
        ----------
        group : int, default=1
            How many records are at stake.

        Returns
        -------
        float
            That of a binomial number of the others above ``cap - group``.
        """
        others = self._drawn(self.n - group)
        above = others.probabilities[others.values > self.cap - group]
        error = others.relative_error + (above.size + 4) * ROUNDOFF
        return min(1.0, float(above.sum()) * (1.0 + error) + others.cut)

    def kept(self, records: int) -> float:
        """Chance, rounded up, that a record is drawn and kept, given that the others fill a batch.

        Parameters
        ----------
        records : int
            How many records there are, more than cap; of more, each is kept less often.

        Returns
        -------
        float
            The rate times the mean of cap over the number of all that would be drawn with it.
        """
        others = self._drawn(records - 1)
        crowded = others.values >= self.cap
        chances, sizes = others.probabilities[crowded], others.values[crowded]
        if not chances.size:
            return self.rate
        error = 2.0 * others.relative_error + (chances.size + 16) * ROUNDOFF
        mean = float(chances @ (self.cap / (sizes + 1.0))) / float(chances.sum())
        missed = others.cut / float(chances.sum())  # those may be of any size
        return min(self.rate, self.rate * (mean + missed) * (1.0 + error))

    def _drawn(self, records: int, tail: float = TAIL) -> Window:
        return binomial(records, *self.rate.as_integer_ratio(), tail)

    def draw(self, rng: np.random.Generator | None = None) -> Batch:
        """Draw by Poisson sampling, and keep a uniform subset of what is too large."""
        used = generator(rng)
        batch = draw_poisson(self.n, self.rate, used)
        if batch.size <= self.cap:
            return batch
        kept = np.sort(choose(batch.size, self.cap, used))
        return drawn(batch.indices[kept], batch.counts[kept])

    def resized(self, n: int) -> Self:
        """The same for fewer records; the cap is charged for up to ``n`` of them."""
        if not n <= self.n:
            raise InvalidParameter(
                "n must be at least the number of records with truncated-poisson: the chance of "
                "more than cap is charged for n of them"
            )
        return replace(self, n=n)

    def describe(self) -> dict[str, Any]:
        """Plain description, for JSON."""
        return {"scheme": self.name, "n": self.n, "rate": self.rate, "cap": self.cap}


# Draws in stages: each takes entries of what the one before has left, with or without replacement.
#
# [Z] = Zhao, Zhou & Liu, "MUltistage Sampling Technique (MUST)", arXiv 2312.13389: the schemes
# MUSTow, MUSTww, MUSTwo, MUSToo are the two-stage cases.


@dataclass(frozen=True)
class Multistage(Scheme):
    """Any number of stages, each with or without replacement; batches have a fixed size.

    The parameters are those of :func:`multistage`, which makes it.

    Examples
    --------
    >>> import mustdp as md
    >>> scheme = md.types.Multistage(1000, (("wor", 50), ("wr", 10)))
    >>> scheme == md.must_ow(1000, 50, 10), scheme.m
    (True, 10)
    """

    n: int
    stages: tuple[Stage, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "n", checks.integer("n", self.n, 1))
        if not isinstance(self.stages, tuple | list) or not self.stages:
            raise InvalidParameter(
                "stages must be a non-empty list of (kind, size) pairs such as ('wor', 118), "
                f"got {self.stages!r}"
            )
        stages = tuple(read_stage(given, k) for k, given in enumerate(self.stages, start=1))
        object.__setattr__(self, "stages", stages)
        check_stages(self.n, stages)

    @property
    def name(self) -> str:
        """``wor``, ``wr``, ``must-ow`` and so on; ``multistage`` from three stages on."""
        return name_of(tuple(stage.kind for stage in self.stages))

    @property
    def m(self) -> int:
        """Batch size: the number of draws of the last stage."""
        return self.stages[-1].size

    @property
    def expected_size(self) -> float:
        """The batch size, which is fixed."""
        return float(self.m)

    @cached_property
    def reduced(self) -> tuple[Stage, ...]:
        """The shortest list of stages with the same law; what is drawn and what is charged."""
        return reduce_stages(self.n, self.stages)

    @cached_property
    def eta(self) -> float:
        """Chance that one given record is drawn at least once."""
        first, *rest = self.reduced
        if not rest:
            if first.kind == "wor":
                return first.size / self.n
            return _at_least_once(first.size, 1, self.n)
        # Condition on the list before the last stage, which is always with replacement here.
        before = chain_law(self.n, self.reduced[:-1], 1)
        slots = self.reduced[-2].size
        return math.fsum(
            p * _at_least_once(self.m, int(i), slots)
            for i, p in zip(before.positive_values, before.positive, strict=True)
        )

    def law(self, group: int = 1, tail: float = TAIL) -> MultiplicityLaw:
        """Law of the copies of ``group`` given records: the chain of the stages' kernels."""
        return chain_law(self.n, self.reduced, *self._law_arguments(group, tail))

    def draw(self, rng: np.random.Generator | None = None) -> Batch:
        """Draw from the last stage backwards, so that only occupied slots are ever filled."""
        return draw_stages(self.n, self.reduced, generator(rng))

    def describe(self) -> dict[str, Any]:
        """Plain description, for JSON."""
        stages = [[stage.kind, stage.size] for stage in self.stages]
        return {"scheme": self.name, "n": self.n, "stages": stages}


def _at_least_once(draws: int, special: int, slots: int) -> float:
    """1 - (1 - special/slots)^draws without cancellation."""
    if special >= slots:
        return 1.0
    return -math.expm1(draws * math.log1p(-special / slots))


# Schemes: frozen descriptions of a random draw that can be drawn and be charged.
#
# Here they are made by name; ``poisson.py`` and ``multistage.py`` say what they are. [Z] = Zhao,
# Zhou & Liu, "MUltistage Sampling Technique (MUST)", arXiv 2312.13389.


def poisson(n: int, rate: float) -> Poisson:
    """Poisson sampling: each of ``n`` records independently, with probability ``rate``.

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


def truncated_poisson(n: int, rate: float, cap: int) -> TruncatedPoisson:
    """Poisson sampling with a cap: of a larger batch ``cap`` records are kept, uniformly at random.

    A record that is added to a batch that is full takes another one's place, which moves sums by 2C
    instead of C; the chance of that is charged. So n must be public and not below the number of
    records, under add_remove too.

    Parameters
    ----------
    n : int
        The most records there can be, at least 1; where a record is replaced, their number.
    rate : float
        Chance of every record to be drawn, from 0 to 1.
    cap : int
        The most records in a batch, at least 1.

    Returns
    -------
    TruncatedPoisson
        What is drawn and charged.

    References
    ----------
    Chua et al. 2024, arXiv 2411.04205; Ganesh 2025, arXiv 2508.15089. The bound that is used is
    proved in docs/derivations/one-step.md.

    Examples
    --------
    >>> import mustdp as md
    >>> noise = md.gaussian(noise_multiplier=1.0)
    >>> capped = md.subsample(md.truncated_poisson(10_000, 0.01, 150), noise)
    >>> print(f"{md.account(md.repeat(100, capped)).epsilon(1e-6).upper:.2f}")
    0.96
    """
    return TruncatedPoisson(n, rate, cap)


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

    The parameters are those of :func:`wor`, but ``m``, copies counted, may exceed ``n``.

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

    The parameters are those of :func:`must_ow`, but ``b`` may exceed ``n``.

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

    The parameters are those of :func:`must_ow`, but ``b`` may exceed ``n`` and ``m`` is at most
    ``b``.

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

    The parameters are those of :func:`must_ow`, but ``m`` is at most ``b``.

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
        given = {key: value for key, value in description.items() if key != "scheme"}
        name = description.get("scheme")
        entry = BY_NAME.get(name) if isinstance(name, str) else None
        if set(given) == {"n", "stages"}:
            scheme = multistage(given["n"], given["stages"])
        elif entry is not None and not entry.stages and set(given) == set(entry.sizes):
            scheme = cast("Scheme", entry.build(**given))
    if scheme is None or scheme.name != description["scheme"]:  # type: ignore[index]
        raise InvalidParameter(
            f"description must be what Scheme.describe() gives, got {description!r}"
        )
    return scheme


# Schemes by name, for anyone who takes a name and sizes from a user.


def scheme_by_name(name: str, *, n: int, m: int, b: int | None = None) -> Scheme:
    """The scheme called ``name`` with batches of m (in expectation, for Poisson).

    Two-stage schemes need ``b``, the size of the first stage; the others refuse it.

    >>> scheme_by_name("must-ow", n=1000, b=500, m=400).name
    'must-ow'
    """
    one = BY_NAME[checks.choice("scheme", name, COMPARED)]
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
