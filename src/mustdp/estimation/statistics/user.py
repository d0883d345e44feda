"""A statistic of the user's own, with a sensitivity that the user answers for.

**Bias.** A statistic that is no average has a bias on m records that it does not have on n, and
averaging over subsets does not remove it. To second order it is c times what a plug-in variance
loses, the chance that two of the m entries, drawn with replacement, are the same record:

    beta_m = 1 - (1 - 1/m)(1 - rho),      rho the chance of repeated pairs of the design.

On a random half of the entries, h = m // 2 of them, it is c beta_h with the same rho. So the
function is evaluated on every subset and on two random halves of it, and with F_m and F_h the
released value and the released mean of the halves the estimate is

    F_m - lambda (F_h - F_m),      lambda = beta_m / (beta_h - beta_m),

exact for quadratic functions such as a variance (lambda = 1 without repeated records and for even
m). Where the two differ in more than a bias from subset to subset (a maximum, say), the statistic
does not behave like an average at all, and a caution says so.

**Reach.** Halves are cut at random, each cut with the same chance whatever the entries are
(``bootstrap.py``). Fix the cut by positions: swapping one entry moves F_m by at most
Delta(m) and one of the halves, so that F_h moves by at most Delta(h)/2. The radii are half of
that, with shares (``queries.py``) that make the noise of the estimate smallest. This holds for
every cut, and the cuts of both multisets have the same law, so it holds for the mixture over them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from mustdp.errors import InvalidParameter, NotCovered
from mustdp.estimation.queries import Averaged, Halves, Query, QueryBlock, block, enlarged
from mustdp.estimation.schema import Shape, SubsetSchema
from mustdp.estimation.statistics.statistic import Statistic, register
from mustdp.numerics import checks
from mustdp.numerics.arrays import FloatArray, IntArray
from mustdp.numerics.checks import unquoted

Function = Callable[[FloatArray, IntArray], Any]


#: Share of the subsets' own variance that halves may differ by before it is no bias any more.
_ALIKE = 0.1


@dataclass(frozen=True)
class UserQuery(Query):
    """The user's function on multisets of a fixed size; with ``on_half``, on halves of them too.

    ``sensitivity`` is that on the whole subset, ``on_half`` that on a half of it.
    """

    public: SubsetSchema
    function: Function
    sensitivity: float
    labels: tuple[str, ...]
    on_half: float | None = None
    blocks: tuple[QueryBlock, ...] = field(init=False)

    def __post_init__(self) -> None:
        whole = block("function", len(self.labels), 0.5 * self.sensitivity)
        blocks: tuple[QueryBlock, ...] = (whole,)
        if self.on_half is not None:
            half = block("function on halves", len(self.labels), 0.25 * self.on_half)
            ours, theirs = (
                (1.0 + self._extrapolation) * whole.radius,
                self._extrapolation * half.radius,
            )
            share = ours / (ours + theirs)
            blocks = (enlarged(whole, math.sqrt(share)), enlarged(half, math.sqrt(1.0 - share)))
        object.__setattr__(self, "blocks", blocks)

    @property
    def halved(self) -> bool:
        """Unless it is an average."""
        return self.on_half is not None

    def total(self, values: FloatArray, counts: IntArray, halves: Halves = None) -> FloatArray:
        """What the function returns and, unless it is an average, its mean over both halves."""
        if not self.halved:
            self.public.check_size(counts)
            return self._returned(values, counts)
        if halves is None:
            raise InvalidParameter("halves must be given where the function is no average")
        self.public.check_size(counts)
        whole = self._returned(values, counts)
        parts = []
        for half in halves:
            if half.sum() != self.public.size // 2 or not np.all(half <= counts):
                raise InvalidParameter("halves must be those of the multiset")
            there = half > 0
            parts.append(self._returned(values[there], half[there]))
        return np.concatenate([whole, 0.5 * parts[0] + 0.5 * parts[1]])

    def estimate(self, vectors: FloatArray) -> FloatArray:
        """The released numbers, extrapolated beyond the size of the subsets."""
        whole = np.array(vectors[..., : len(self.labels)], dtype=np.float64)
        if not self.halved:
            return whole
        return whole - self._extrapolation * (vectors[..., len(self.labels) :] - whole)

    def cautions(self, at: Averaged, grouped: FloatArray) -> tuple[str, ...]:
        """A word where halves differ from the whole by more than a bias."""
        if not self.halved:
            return ()
        count, groups = len(self.labels), len(grouped)
        noise = at.noise[:count] + at.noise[count:]
        apart = np.var(grouped[:, :count] - grouped[:, count:], axis=0, ddof=1) - groups * noise
        own = np.var(grouped[:, :count], axis=0, ddof=1) - groups * at.noise[:count]
        chance = 2.0 * groups * noise * math.sqrt(2.0 / (groups - 1))
        unlike = apart > np.maximum(_ALIKE * np.maximum(own, 0.0), chance)
        return tuple(
            f"{label}: on halves of a subset the function differs from that on the subset by more "
            "than a bias, as an extreme does and a smooth statistic does not; its bias is not "
            "removed, and the interval cannot be trusted; larger subsets may help"
            for label, odd in zip(self.labels, unlike, strict=True)
            if odd
        )

    @property
    def _extrapolation(self) -> float:
        """lambda above."""
        size, distinct = self.public.size, 1.0 - self.public.repeated_pairs
        ours, theirs = (1.0 - (1.0 - 1.0 / m) * distinct for m in (size, size // 2))
        return ours / (theirs - ours)

    def _returned(self, values: FloatArray, counts: IntArray) -> FloatArray:
        # Copies, both ways: other statistics read the same rows, and a view shows what is behind
        # it; and the function may return one buffer every time.
        own, times = np.array(values, order="C"), np.array(counts)
        returned = unquoted(
            lambda: self.function(own, times), "function must not fail on any multiset"
        )
        vector = unquoted(
            lambda: np.atleast_1d(np.array(returned, dtype=np.float64)),
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


@register
@dataclass(frozen=True)
class UserStatistic(Statistic):
    """``function(values, counts)`` of a weighted multiset, with a sensitivity stated by the caller.

    **The guarantee stands and falls with ``sensitivity``.** It must be the largest L2 distance by
    which replacing *one entry* (one copy of one record) of *any* multiset of m entries can move the
    result, over all values within [lower, upper]; not what it is on the data at hand, and not a
    typical value. **It cannot be checked**: no number of evaluations proves a bound, and one that
    is too small voids the privacy of everything released. A record that was drawn j times moves the
    result by at most j times as much (triangle inequality); the accountant takes care of that.

    Poisson subsets are refused: their size is random, and a sensitivity for one size says nothing.

    Parameters
    ----------
    function : callable
        From ``values`` (distinct, columns), clipped to the range, and ``counts``, how often each
        row was drawn, to a number or several. It must be the same for any order of the rows and for
        a row written twice, and must not fail or return NaN on some multisets: that would be seen,
        and what is seen tells of the records. Both arrays are copies of its own, to be written to
        as it likes; it must not remember anything from one call to the next.
    sensitivity : float or callable
        The bound above, for one size, or as a function of m. The radius is half of it: by its
        definition swapping one entry moves the vector by at most 2 * radius.
    labels : sequence of str, default=None
        Names of the numbers that the function returns; None for one number.
    columns : str, int or sequence, default=None
        The columns it reads, by name or position; None means all that are given.
    average : bool, default=False
        That the function is an average over the entries, or a linear function of averages, which
        has no bias on subsets. Without it the function is evaluated on two random halves of every
        subset as well, and the bias extrapolated away (see above), at about three times the noise;
        ``sensitivity`` must then be a function of m, since it is needed for both sizes.

    Examples
    --------
    >>> top = UserStatistic(lambda values, counts: values[0, 0], sensitivity=10.0, average=True)
    >>> top.query(SubsetSchema([0.0], [10.0], 20)).blocks
    (QueryBlock(label='function', width=1, radius=5.0),)
    """

    function: Function
    sensitivity: float | Callable[[int], float] | None = None
    labels: tuple[str, ...] | None = None
    columns: tuple[str | int, ...] | None = None
    average: bool = False
    name = "function"
    usage = None
    most = None
    for_release = False

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
        if not isinstance(self.average, bool):
            raise InvalidParameter(f"average must be True or False, got {self.average!r}")
        if not callable(self.sensitivity):
            checks.real("sensitivity", self.sensitivity, above=0.0)
            if not self.average:
                raise InvalidParameter(
                    "sensitivity must be a function of m, unless average=True says that the "
                    "function is an average: the bias of any other on subsets is removed by "
                    f"values on halves of them, got {self.sensitivity!r}"
                )
        if self.labels is not None:
            labels = (self.labels,) if isinstance(self.labels, str) else tuple(self.labels)
            if not labels or not all(isinstance(label, str) for label in labels):
                raise InvalidParameter(f"labels must be one or more words, got {self.labels!r}")
            object.__setattr__(self, "labels", labels)
        super().__post_init__()

    def shape(self, poisson: bool) -> Shape:
        """Nothing but distances is known of it; one number if it is an average with one label."""
        single = self.average and len(self.labels or (self.name,)) == 1
        return Shape(in_a_ball=False, one_number=single and not poisson)

    def _on(self, public: SubsetSchema) -> Query:
        if public.poisson:
            raise NotCovered(
                "function must be used with subsets of a fixed size: on Poisson subsets the "
                "size is random, and its stated sensitivity does not cover that"
            )
        labels = self.labels or (self.name,)
        if self.average:
            return UserQuery(public, self.function, self._at(int(public.size)), labels)
        public.refuse_below(2)
        if not public.repeated_pairs < 1.0:
            raise NotCovered("function must be used with subsets of more than one distinct record")
        whole, half = (self._at(m) for m in (int(public.size), int(public.size) // 2))
        return UserQuery(public, self.function, whole, labels, half)

    def _at(self, size: int) -> float:
        """The stated sensitivity on multisets of one size."""
        stated = self.sensitivity
        return checks.real("sensitivity", stated(size) if callable(stated) else stated, above=0.0)
