"""The accountant: from a plan to an account that answers questions about it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from importlib import import_module
from threading import RLock
from typing import Any, Literal, overload

import numpy as np
from numpy.typing import ArrayLike

from mustdp.accounting import FURTHER_METHODS
from mustdp.accounting.bounds import ONE_PAIR, Bounds, Curve
from mustdp.accounting.certify import FRACTIONS, Computation, Pure, UpperSide, certify
from mustdp.accounting.families.composition import COMPOSITIONS, FamilyComposition, StepProfile
from mustdp.accounting.plan import (
    Atom,
    Banded,
    InEpoch,
    Plan,
    Repeat,
    SelectBest,
    Sequence,
    Subsample,
    atoms,
    contains,
    draws_all_records,
    with_joined_guarantees,
)
from mustdp.accounting.pld.readoff import DeltaAt, EpsilonAt, LowerCurve, Question
from mustdp.accounting.risk import USUAL_FPR, Risk, closest_tprs, risk
from mustdp.accounting.views import (
    NEGLIGIBLE_DELTA,
    Renyi,
    Summary,
    Tradeoff,
    Viewer,
    smallest_counted,
    zero_concentrated,
)
from mustdp.errors import InvalidParameter, MustdpError, NotCovered, NumericalFailure
from mustdp.limits import LARGEST_EPSILON, SMALLEST_DELTA
from mustdp.mechanisms.registry import arguments
from mustdp.mechanisms.relation import Relation
from mustdp.numerics import checks
from mustdp.numerics.arrays import FloatArray
from mustdp.numerics.formatting import Display, as_stated, given_or_rounded, readable

# A plan in words, and what an account shows of itself when it is printed.


#: Deltas at which a printed account states epsilon.
_DELTAS = (1e-3, 1e-5, 1e-7)


def in_words(plan: Plan, *, released: bool = False) -> str:
    """A plan as a phrase, from the outside in.

    Of a plan to be used, the phrase never costs more than the plan: noise is rounded up, anything
    else down. Of one that was ``released`` it never costs less.

    >>> import mustdp as md
    >>> in_words(md.repeat(10, md.subsample(md.wor(1000, 10), md.gaussian(noise_multiplier=2.0))))
    '10 x (wor, n 1000, stages wor:10; gaussian, noise multiplier 2)'
    """
    if isinstance(plan, Repeat):
        return f"{plan.count} x ({in_words(plan.inner, released=released)})"
    if isinstance(plan, Sequence):
        return ", then ".join(in_words(part, released=released) for part in plan.parts)
    if isinstance(plan, Subsample):
        inner = in_words(plan.inner, released=released)
        return f"{_listed(plan.scheme.describe(), released)}; {inner}"
    if isinstance(plan, InEpoch):
        inner = in_words(plan.inner, released=released)
        return f"{_listed(plan.epoch.describe(), released)}; {inner}"
    if isinstance(plan, Banded):
        inner = in_words(plan.unrolled, released=released)
        return f"{plan.bands} groups in turn with banded noise, each with {inner}"
    if isinstance(plan, SelectBest):
        inner = in_words(plan.inner, released=released)
        return f"best run, {_listed(plan.repetitions.describe(), released)}, of ({inner})"
    return _listed(plan.describe(), released)


def _listed(described: dict[str, object], released: bool) -> str:
    """A description on one line: its kind first, then each part by name."""
    kind, *parts = described.items()
    return ", ".join(
        (str(kind[1]), *(f"{_name(name)} {_value(name, value, released)}" for name, value in parts))
    )


def _name(name: str) -> str:
    return name.replace("_", " ")


def _value(name: str, value: object, released: bool) -> str:
    if isinstance(value, float):
        argument = arguments().get(name)
        more_private_up = argument is not None and argument.larger_is_private
        return given_or_rounded(value, "up" if more_private_up != released else "down", 6)
    if isinstance(value, list):
        parts = (part if isinstance(part, list) else [part] for part in value)
        return ",".join(":".join(_value(name, one, released) for one in part) for part in parts)
    return str(value)


def display_of(account: Account) -> Display:
    """Epsilon at a few deltas, and the advantage of an attacker; bounds on their safe side."""
    rows = [(f"epsilon at delta {as_stated(delta)}", *_ends(account, delta)) for delta in _DELTAS]
    rows.append(("advantage of an attacker", *_ends(account, None)))
    return Display(
        f"{in_words(account.plan)}; relation {account.relation.option}",
        ("", "attained", "certified"),
        tuple(rows),
    )


def _ends(account: Account, delta: float | None) -> tuple[str, str]:
    """Both bounds, or words where there is none: printing does not fail."""
    try:
        found = account.delta(0.0) if delta is None else account.epsilon(delta)
        return readable(found.lower, "down"), readable(found.upper, "up")
    except MustdpError:
        return "-", "none can be certified"


# What searches ask an account: upper bounds alone, as quickly as they can be had.


#: Relative accuracy of epsilon if none is asked for.
ACCURACY = 1e-3


class OnePairEach:
    """In place of a family of pairs: no kind of step occurs twice, and one pair bounds each."""

    applies = adaptive = False

    def tighten(self, bounds: Bounds, question: Question) -> tuple[Bounds, str]:
        """The bounds as they are."""
        return bounds, ONE_PAIR

    def profile(self, epsilon: FloatArray) -> FloatArray:
        """Nothing beyond what holds for every delta."""
        return np.ones(epsilon.size)

    def along(
        self, delta: float, counts: Collection[int], epsilon: FloatArray
    ) -> StepProfile | None:
        """Nothing."""
        return None


class SearchedAccount:
    """The computation of one plan under one relation, and the upper bounds read off them."""

    def __init__(
        self, plan: Plan, relation: Relation, accuracy: float | None, method: str,
        composition: str = "pair", dimension: int | None = None, group: int = 1,
    ) -> None:  # fmt: skip
        self.plan, self.relation = plan, Relation.read(relation)
        self.accuracy, self.method = ACCURACY if accuracy is None else accuracy, method
        self._strict = accuracy is not None
        self.group = group
        self.steps = sum(atoms(plan).values())
        plan = with_joined_guarantees(plan)
        self._work = Computation(plan, self.relation, method, group, accurate=self._strict)
        self.composition, self._chosen, self.dimension = ONE_PAIR, composition, dimension
        self._family: FamilyComposition | OnePairEach = OnePairEach()
        if any(count > 1 for count in atoms(plan).values()):
            self._family = FamilyComposition(plan, self._work, composition, dimension, group)
        self._lock = RLock()

    @property
    def shift(self) -> float | None:
        """The shift of one copy; None if atoms differ in it."""
        if len(atoms(self.plan)) != len(self._work.pairs):  # some were joined
            return None
        shifts = {pair.shift for pair in self._work.pairs}
        return shifts.pop() if len(shifts) == 1 else None

    def _pure(self, delta: float) -> Pure:
        """The largest loss, or a refusal of a delta of zero."""
        with self._lock:
            pure = self._work.pure
        if pure is None:
            raise InvalidParameter.refusing(
                "delta",
                f"must be a number >= {SMALLEST_DELTA:g} and < 1 here, as only the certificate of "
                "Laplace noise has an epsilon at 0",
                float(delta),
            )
        return pure

    def certified_epsilon(self, delta: float, accuracy: float | None = None) -> float:
        """The upper bound of epsilon alone, with one pair, for searches that need no lower one.

        Parameters
        ----------
        delta : float
            The delta to ask about, from 1e-25 to below 1; or 0, as for :meth:`epsilon`.
        accuracy : float, default=None
            Relative accuracy; None means that of the account.

        Returns
        -------
        float
            Certified.
        """
        if is_zero(delta):
            return self._pure(delta).upper
        wanted = self.accuracy if accuracy is None else accuracy
        with self._lock:
            question = EpsilonAt(delta)
            strict = self._strict
            return certify(self._work, question, wanted, both_sides=False, strict=strict).upper

    @property
    def has_family(self) -> bool:
        """Whether some steps are composed with a family of pairs."""
        return self._family.applies

    def tightest_epsilon(self, delta: float) -> float:
        """The upper bound of :meth:`epsilon` alone, for searches that need no lower one.

        Parameters
        ----------
        delta : float
            The delta to ask about, from 1e-25 to below 1.

        Returns
        -------
        float
            Certified.
        """
        with self._lock:
            question = EpsilonAt(delta)
            found = certify(
                self._work, question, self.accuracy, both_sides=False, strict=self._strict
            )
            return self._family.tighten(found, question)[0].upper

    def along(
        self, delta: float, counts: Collection[int], epsilon: ArrayLike
    ) -> StepProfile | None:
        """Upper bounds of a family at other counts of the same step, and of delta at many epsilons.

        One pass gives all of them.

        Parameters
        ----------
        delta : float
            The delta at which epsilons are asked for, from 1e-25 to below 1.
        counts : collection of int
            Numbers of steps.
        epsilon : array_like
            The epsilons to ask about, from 0 to 500.

        Returns
        -------
        StepProfile or None
            Certified epsilons by count, and deltas; None where no family is worked through step by
            step.
        """
        eps = checks.reals("epsilon", epsilon, at_least=0, at_most=LARGEST_EPSILON)
        with self._lock:
            return self._family.along(delta, counts, eps)

    def certified_tpr(self, fpr: float, *, with_family: bool = False) -> float:
        """The upper bound of the true-positive rate alone, looked for closely around its place.

        Parameters
        ----------
        fpr : float
            The false-positive rate of the attacker, from 0 to 1.
        with_family : bool, default=False
            Whether steps are composed with whatever composes best; one pair per step is quicker.

        Returns
        -------
        float
            Certified.
        """
        rate = checks.real("fpr", fpr, at_least=0, at_most=1)
        return self.certified_tprs([rate], with_family=with_family)[0]

    def certified_tprs(self, fpr: ArrayLike, *, with_family: bool = False) -> list[float]:
        """The same at several rates at once, which is quicker.

        Parameters
        ----------
        fpr : array_like
            False-positive rates of the attacker, from 0 to 1.
        with_family : bool, default=False
            As in :meth:`certified_tpr`.

        Returns
        -------
        list of float
            Certified, one for each.
        """
        rates = checks.reals("fpr", fpr, at_least=0, at_most=1)
        with self._lock:
            upper = self._work.upper(self._work.grid(FRACTIONS.first))
            smallest = smallest_counted(rates)

            def profile(eps: FloatArray) -> FloatArray:
                found = upper.curve(eps, smallest)
                return np.minimum(found, self._family.profile(eps)) if with_family else found

            return closest_tprs(rates.tolist(), profile)

    def certified_advantage(self, accuracy: float | None = None) -> float:
        """The upper bound of the advantage alone: delta at epsilon 0, with one pair.

        Parameters
        ----------
        accuracy : float, default=None
            Relative accuracy; None means that of the account.

        Returns
        -------
        float
            Certified.
        """
        wanted = self.accuracy if accuracy is None else accuracy
        with self._lock:
            return certify(self._work, DeltaAt(0.0), wanted, both_sides=False).upper


def is_zero(delta: object) -> bool:
    """Whether this is the number 0, which False is not."""
    return isinstance(delta, int | float) and not isinstance(delta, bool) and delta == 0


# The accountant: what people ask about a plan, each answer from the same computation.


class Account(SearchedAccount):
    """Certified bounds of one plan under one relation; made by :func:`account`.

    May be shared between threads, which wait for each other, and pickled if the plan can be.

    Attributes
    ----------
    plan : Plan
        What is released.
    relation : Relation
        Which data sets are neighbours.
    accuracy : float
        Relative accuracy of epsilon.
    method : str
        "certified" or "one-slope".
    steps : int
        Number of releases, each on a draw of its own or on all records; an epoch counts once.
    composition : str
        How the upper bound of the last epsilon or delta was composed. Where threads share an
        account that may be the answer to another one: the bounds themselves say it, too.
    dimension : int or None
        That of every release, where it was said.
    group : int
        How many records of one person the guarantee covers.

    Examples
    --------
    >>> import mustdp as md
    >>> step = md.subsample(md.poisson(1000, 0.01), md.gaussian(noise_multiplier=2.0))
    >>> account = md.account(md.repeat(100, step))
    >>> round(account.epsilon(delta=1e-5).upper, 3)
    0.19
    >>> account.relation.option
    'add-remove'
    """

    def __reduce__(self) -> tuple[type[Account], tuple[object, ...]]:
        """What is sent elsewhere is the description; it is worked out again there."""
        accuracy = self.accuracy if self._strict else None
        chosen = self._chosen, self.dimension, self.group
        return Account, (self.plan, self.relation, accuracy, self.method, *chosen)

    def __repr__(self) -> str:
        return f"Account({in_words(self.plan)}; relation {self.relation.option})"

    def __str__(self) -> str:
        return display_of(self).text()

    def _repr_html_(self) -> str:
        return display_of(self).html()

    def delta(self, epsilon: float) -> Bounds:
        """Bounds of delta at an epsilon.

        Parameters
        ----------
        epsilon : float
            The epsilon to ask about, from 0 to 500.

        Returns
        -------
        Bounds
            The upper one is certified.

        Raises
        ------
        NumericalFailure
            No number that can be trusted was found.
        """
        return self._bounds(DeltaAt(epsilon))

    def epsilon(self, delta: float) -> Bounds:
        """Bounds of epsilon at a delta.

        Parameters
        ----------
        delta : float
            The delta to ask about, from 1e-25 to below 1; or 0, where no loss is infinite, as with
            Laplace noise: the largest loss.

        Returns
        -------
        Bounds
            The upper one is certified; it is infinite where no finite epsilon is.

        Raises
        ------
        NumericalFailure
            No number that can be trusted was found.
        """
        if is_zero(delta):
            pure = self._pure(delta)
            gap = pure.upper - pure.lower
            coarse = gap > self.accuracy * pure.upper
            if coarse and self._strict:
                raise NumericalFailure(
                    f"epsilon = {pure.upper!r} is certified at delta = 0, but {pure.lower!r} may do"
                )
            name = pure.attained_by
            return Bounds(pure.lower, pure.upper, name, "both", gap, self.relation, coarse)
        return self._bounds(EpsilonAt(delta))

    def _bounds(self, question: Question) -> Bounds:
        with self._lock:
            # Mixtures of orders are covered by a data holder who chooses along the way.
            mixed = not self._family.adaptive
            found = certify(self._work, question, self.accuracy, mixed=mixed, strict=self._strict)
            found, self.composition = self._family.tighten(found, question)
            return replace(found, composition=self.composition)

    def curve(self, epsilon: ArrayLike) -> Curve:
        """Bounds of delta at many epsilons at once, at the first spacing.

        Parameters
        ----------
        epsilon : array_like
            The epsilons to ask about, from 0 to 500.

        Returns
        -------
        Curve
            A lower and an upper delta for each.
        """
        eps = checks.reals("epsilon", epsilon, at_least=0, at_most=LARGEST_EPSILON)
        with self._sides() as (upper_side, lower_side):
            lower = lower_side.curve(eps, NEGLIGIBLE_DELTA)
            upper = upper_side.curve(eps, NEGLIGIBLE_DELTA)
        if not np.all(lower <= upper * (1.0 + 1e-9) + 1e-300):
            raise NumericalFailure("the bounds of the curve contradict each other")
        return Curve(eps, np.minimum(lower, upper), upper)

    def tradeoff(self, fpr: ArrayLike) -> Tradeoff:
        """Missed-detection rates of an attacker at false-positive rates.

        Parameters
        ----------
        fpr : array_like
            False-positive rates of the attacker, from 0 to 1.

        Returns
        -------
        Tradeoff
            A lower and an upper missed-detection rate for each.
        """
        rates = checks.reals("fpr", fpr, at_least=0, at_most=1)
        with self._lock:
            smallest = smallest_counted(rates)
            return self._viewer.tradeoff(rates, self._end(smallest), smallest)

    def risk(self, fpr: ArrayLike = USUAL_FPR) -> Risk:
        """What an attacker who sees everything released achieves.

        Parameters
        ----------
        fpr : array_like, default=(0.001, 0.01, 0.1)
            False-positive rates of the attacker, from 0 to 1.

        Returns
        -------
        Risk
            True-positive rates at these, and the advantage; ``print`` says it in words.

        Examples
        --------
        >>> import mustdp as md
        >>> plan = md.repeat(100, md.subsample(md.wor(1000, 10), md.gaussian(noise_multiplier=2.0)))
        >>> print(md.account(plan).risk([0.01]).tpr[0])
        0.0150 attained, 0.0152 certified (replace-one)
        """
        return risk(self, fpr)

    def renyi(self, orders: ArrayLike) -> Renyi:
        """Renyi divergences by order.

        Parameters
        ----------
        orders : array_like
            The orders, above 1 and at most 1e6.

        Returns
        -------
        Renyi
            A lower and an upper divergence for each.
        """
        given = checks.reals("orders", orders, at_least=1, at_most=1e6)
        if not np.all(given > 1):
            raise InvalidParameter(f"orders must be > 1, got {given.min()!r}")
        with self._lock:
            return self._viewer.renyi(given)

    def gaussian_dp(self) -> Summary:
        """The smallest mu of Gaussian DP that is an upper bound of this account.

        Returns
        -------
        Summary
            The mu, infinite where none up to 1e6 will do.
        """
        with self._lock:
            exact = self._work.gaussian
            if exact is not None:
                return Summary(exact, "upper bound, and exact: Gaussian noise on all records")
            return self._viewer.gaussian_dp(self._end())

    def zero_concentrated(self) -> Summary:
        """The rho of zero-concentrated DP that covers the Renyi orders from 1.01 to 1000.

        Returns
        -------
        Summary
            The rho, outside an event whose probability its meaning states.
        """
        return zero_concentrated(self.renyi(1.0 + np.geomspace(0.01, 999.0, 240)))

    @property
    def _viewer(self) -> Viewer:
        return Viewer(self._work, self.accuracy, self._strict, self._family.profile)

    def _end(self, delta: float = NEGLIGIBLE_DELTA) -> float:
        """The epsilon at which delta is negligible."""
        return min(LARGEST_EPSILON, max(1.0, self.certified_epsilon(delta)))

    @contextmanager
    def _sides(self) -> Iterator[tuple[UpperSide, LowerCurve]]:
        """Both sides at the first spacing, with the account locked for other threads."""
        with self._lock:
            grid = self._work.grid(FRACTIONS.first)
            yield self._work.upper(grid), self._work.lower(grid)


# From a plan to its account: the relation, and what is refused before any work.


METHODS = ("certified", "one-slope")


@overload
def account(
    plan: Plan,
    *,
    relation: str | None = None,
    accuracy: float | None = None,
    method: Literal["certified", "one-slope"] = "certified",
    composition: str = "auto",
    dimension: int | None = None,
    group: int = 1,
) -> Account: ...
@overload
def account(
    plan: Plan,
    *,
    relation: str | None = None,
    accuracy: float | None = None,
    method: str,
    composition: str = "auto",
    dimension: int | None = None,
    group: int = 1,
) -> Any: ...
def account(
    plan: Plan,
    *,
    relation: str | None = None,
    accuracy: float | None = None,
    method: str = "certified",
    composition: str = "auto",
    dimension: int | None = None,
    group: int = 1,
) -> Any:
    """Account for a plan: what do its releases cost together?

    Parameters
    ----------
    plan : Plan
        What is released.
    relation : {"replace_one", "add_remove"}, default=None
        Which data sets are neighbours; None means add_remove where every draw is by Poisson
        sampling or random allocation, and replace_one otherwise.
    accuracy : float, default=None
        Relative accuracy of epsilon, from 1e-5 to 0.5: what cannot be had at it is refused. None
        means 1e-3, and what falls short of that is answered by bounds that hold and are marked as
        ``coarse``.
    method : str, default="certified"
        "one-slope" composes the MUST paper's theorem, in which one slope serves every multiplicity,
        instead of the certificate: valid, and looser. Other names are of methods that a package
        has registered, such as "paper" of ``mustdp.reproduction``: what the paper's own pair of
        data sets attains, not a guarantee.
    composition : {"auto", "quick", "pair", "family"}, default="auto"
        How steps are composed. "auto" also keeps a family of pairs where one is proved (fixed-size
        batches under replace_one) and lets the worst be chosen anew in every step, which brings the
        bounds of ``epsilon`` and ``delta`` closer together in up to three seconds; "family" takes
        up to twenty for closer ones, "quick" mostly less than one, without the family of MUSTww;
        "pair" keeps to one pair per step. Risk and trade-off curve take what "quick" does; other
        views have one pair per step.
    dimension : int, default=None
        Of every release: 1 says that each is a single number, which is a little less to hide. None
        where nothing is known.
    group : int, default=1
        How many records of one person the guarantee covers: neighbours differ in up to this many.
        All are replaced, or all are on one side.
        For several, families are proved for Gaussian noise on batches of one stage.

    Returns
    -------
    Account
        Or what a registered method answers with.

    Raises
    ------
    InvalidParameter
        An argument is outside what is allowed.
    NotCovered
        No theorem of this package covers what was asked.

    Examples
    --------
    >>> import mustdp as md
    >>> plan = md.repeat(100, md.subsample(md.wor(1000, 10), md.gaussian(noise_multiplier=2.0)))
    >>> bounds = md.account(plan).epsilon(delta=1e-5)
    >>> print(bounds)
    0.722 attained, 0.725 certified (replace-one)
    """
    if accuracy is not None:
        accuracy = checks.real("accuracy", accuracy, at_least=1e-5, at_most=0.5)
    checks.choice("method", method, (*METHODS, *FURTHER_METHODS))
    checks.choice("composition", composition, COMPOSITIONS)
    group = checks.integer("group", group, 1)
    if group > 1 and contains(plan, Banded):
        raise NotCovered.refusing(
            "group",
            "must be 1 with banded noise: records of one person may be in different groups, whose "
            "releases share their rows",
            group,
        )
    if dimension is not None:
        dimension = checks.integer("dimension", dimension, 1)
    if method == "one-slope" and composition == "auto":
        composition = "pair"
    if composition == "family" and method != "certified":
        raise NotCovered.refusing(
            "composition",
            f"must be 'pair' with {{method}} {method}",
            "'family'",
            mentions=("method",),
        )
    if method not in METHODS:
        module, _, function = FURTHER_METHODS[method].partition(":")
        called = getattr(import_module(module), function)
        return called(plan, relation=relation, accuracy=accuracy, group=group)
    used = relation_of(atoms(plan), relation)
    if used == Relation.ADD_REMOVE and draws_all_records(plan):
        raise NotCovered.refusing(
            "relation",
            "must be {replace_one} here, or the draw be left out: {add_remove} compares n records "
            "with one less, from which n cannot be drawn without replacement",
            "{add_remove}",
            mentions=tuple(Relation),
        )
    return Account(plan, used, accuracy, method, composition, dimension, group)


def relation_of(counted: Iterable[Atom], relation: str | None) -> Relation:
    """The relation that was stated, or the one that is taken for such atoms."""
    if relation is not None:
        return Relation.read(relation)
    return Relation.ADD_REMOVE if all(map(_random_size, counted)) else Relation.REPLACE_ONE


def _random_size(atom: Atom) -> bool:
    if isinstance(atom, InEpoch):
        return not atom.epoch.fixed_size
    if isinstance(atom, SelectBest):
        return all(map(_random_size, atoms(atom.inner)))
    return isinstance(atom, Subsample) and not atom.scheme.fixed_size
