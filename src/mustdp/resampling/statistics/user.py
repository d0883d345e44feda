"""A statistic of the user's own, with a sensitivity that the user answers for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from mustdp.errors import InvalidParameter, NotCovered
from mustdp.numerics import checks
from mustdp.numerics.arrays import FloatArray, IntArray
from mustdp.resampling.statistics.columns import OfColumns
from mustdp.resampling.statistics.public import Public
from mustdp.resampling.statistics.query import Block, Query
from mustdp.resampling.statistics.sharing import block
from mustdp.resampling.unquoted import unquoted

Function = Callable[[FloatArray, IntArray], Any]


@dataclass(frozen=True)
class UserQuery(Query):
    """The user's function on multisets of a fixed size; reach is half the sensitivity."""

    public: Public
    function: Function
    sensitivity: float
    labels: tuple[str, ...]
    blocks: tuple[Block, ...] = field(init=False)

    def __post_init__(self) -> None:
        one = block("function", len(self.labels), 0.5 * self.sensitivity)
        object.__setattr__(self, "blocks", (one,))

    def total(self, values: FloatArray, counts: IntArray) -> FloatArray:
        """What the function returns, if it is finite and has one number for each label."""
        self.public.check_size(counts)
        returned = unquoted(
            lambda: self.function(values, counts), "function must not fail on any multiset"
        )
        vector = unquoted(
            lambda: np.atleast_1d(np.asarray(returned, dtype=np.float64)),
            "function must return a number or a vector of numbers",
        )
        if vector.shape != (len(self.labels),):
            raise InvalidParameter(
                f"function must return {len(self.labels)} numbers, one for each label, "
                f"got shape {vector.shape}"
            )
        if not np.isfinite(vector).all():
            raise InvalidParameter("function must return finite numbers on every multiset")
        return vector

    def estimate(self, vectors: FloatArray) -> FloatArray:
        """The released vector itself."""
        return np.array(vectors, dtype=np.float64)


@dataclass(frozen=True)
class UserStatistic(OfColumns):
    """``function(values, counts)`` of a weighted multiset, with a sensitivity stated by the caller.

    **The guarantee stands and falls with ``sensitivity``.** It must be the largest L2 distance by
    which replacing *one entry* (one copy of one record) of *any* multiset of m entries can move
    the result, over all values within [lower, upper]; not what it is on the data at hand, and not
    a typical value. **It cannot be checked**: no number of evaluations proves a bound, and one
    that is too small voids the privacy of everything released. A record that was drawn j times
    moves the result by at most j times as much (triangle inequality); the accountant takes care
    of that.

    ``sensitivity`` is a number, for one size, or a function of m. The reach is half of it: by its
    definition swapping one entry moves the vector by at most 2 * reach. ``labels`` name the
    numbers that the function returns; without them it returns one. ``values`` (distinct, columns)
    are clipped to the range, ``counts`` say how often each row was drawn; the function must be
    the same for any order of the rows and for a row written twice. It must not fail or return NaN
    on some multisets: that would be seen, and what is seen tells of the records. Poisson subsets
    are refused: their size is random, and a sensitivity for one size says nothing.

    >>> top = UserStatistic(lambda values, counts: values.max(), sensitivity=10.0)
    >>> top.query(Public([0.0], [10.0], 20)).blocks
    (Block(label='function', width=1, reach=5.0),)
    """

    function: Function
    sensitivity: float | Callable[[int], float] | None = None
    labels: tuple[str, ...] | None = None
    columns: tuple[str | int, ...] | None = None
    name = "function"
    most = None

    def __post_init__(self) -> None:
        if not callable(self.function):
            raise InvalidParameter(
                f"function must be callable with (values, counts), got {self.function!r}"
            )
        if self.sensitivity is None:
            raise InvalidParameter(
                "sensitivity must be given: the largest L2 distance that replacing one entry of a "
                "multiset of m entries can cause, as a number or a function of m"
            )
        if not callable(self.sensitivity):
            checks.real("sensitivity", self.sensitivity, above=0.0)
        if self.labels is not None:
            labels = (self.labels,) if isinstance(self.labels, str) else tuple(self.labels)
            if not labels or not all(isinstance(label, str) for label in labels):
                raise InvalidParameter(f"labels must be one or more words, got {self.labels!r}")
            object.__setattr__(self, "labels", labels)
        super().__post_init__()

    def _on(self, public: Public) -> Query:
        if public.poisson:
            raise NotCovered(
                "function must be used with subsets of a fixed size: on Poisson subsets the "
                "size is random, and its stated sensitivity does not cover that"
            )
        stated = self.sensitivity
        found = checks.real(
            "sensitivity", stated(int(public.size)) if callable(stated) else stated, above=0.0
        )
        return UserQuery(public, self.function, found, self.labels or (self.name,))
