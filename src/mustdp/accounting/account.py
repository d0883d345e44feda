"""From a plan to its account: the relation, and what is refused before any work."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, overload

from mustdp.accounting.answers import Account
from mustdp.accounting.paper import PaperAccount
from mustdp.accounting.plan import Atom, InEpoch, Plan, Subsample, atoms, draws_everything
from mustdp.accounting.searched import ACCURACY
from mustdp.accounting.tighter import COMPOSITIONS
from mustdp.errors import NotCovered
from mustdp.mechanisms.relation import Relation
from mustdp.numerics import checks

METHODS = ("certified", "one-slope", "paper")


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
    method: Literal["paper"],
    composition: str = "auto",
    dimension: int | None = None,
    group: int = 1,
) -> PaperAccount: ...
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
) -> Account | PaperAccount: ...
def account(
    plan: Plan,
    *,
    relation: str | None = None,
    accuracy: float | None = None,
    method: str = "certified",
    composition: str = "auto",
    dimension: int | None = None,
    group: int = 1,
) -> Account | PaperAccount:
    """Account for a plan: what does releasing it cost?

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
    method : {"certified", "one-slope", "paper"}, default="certified"
        "one-slope" composes the paper's theorem, in which one slope serves every multiplicity,
        instead of the certificate: valid, and looser. "paper" composes the paper's own pair of data
        sets: what that pair attains, not a guarantee.
    composition : {"auto", "pair", "family"}, default="auto"
        How steps are composed. "auto" also keeps a family of pairs where one is proved (fixed-size
        batches under replace_one) and lets the worst be chosen anew in every step, which brings the
        bounds of ``epsilon`` and ``delta`` closer together in a second or three; "family" takes up
        to twenty for closer ones, and has a family for MUSTww too; "pair" keeps to one pair per
        step. Risk and trade-off curve take it as well; other views have one pair per step.
    dimension : int, default=None
        Of every release: 1 says that each is a single number, which is a little less to hide. None
        where nothing is known.
    group : int, default=1
        How many records of one person the guarantee covers: neighbours differ in up to so many. All
        of them are replaced, or all are on one side; families are proved for one record.

    Returns
    -------
    Account or PaperAccount
        A PaperAccount for ``method="paper"`` alone.

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
    checks.choice("method", method, METHODS)
    checks.choice("composition", composition, COMPOSITIONS)
    group = checks.integer("group", group, 1)
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
    counted = atoms(plan)
    used = relation_of(counted, relation)
    if method == "paper":
        if group > 1:
            raise NotCovered.refusing(
                "group", "must be 1 with {method} paper", group, mentions=("method",)
            )
        paper = PaperAccount(plan, epsilon_width=ACCURACY if accuracy is None else accuracy)
        if relation is not None and used != paper.relation:
            raise NotCovered.refusing(
                "relation",
                f"must be {{{paper.relation.value}}} for this plan with {{method}} paper",
                f"{{{used.value}}}",
                mentions=(*Relation, "method"),
            )
        return paper
    if used == Relation.ADD_REMOVE and draws_everything(plan):
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
    return isinstance(atom, Subsample) and not atom.scheme.fixed_size
