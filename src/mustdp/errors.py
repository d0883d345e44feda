"""The exception tree: what can go wrong, and whose turn it is then.

MustdpError
├── InvalidParameter       the caller's input is outside what is allowed (exit status 2)
│   └── NotCovered         well-formed, but no theorem here covers it: refused, with the reason
├── MissingExtra           a package is needed that is not installed (exit status 2)
├── NumericalFailure       a number came out that cannot be trusted (exit status 3)
│   └── Contradiction      a lower bound above an upper one: a proof or its arithmetic is wrong
├── ClusterLost            a cluster has gone before its work was done (exit status 3)
├── WorkerLost             a process that was started for a part has gone (exit status 3)
└── BudgetExceeded         a charge does not fit a ledger's limit (exit status 4)

LargeDelta, a warning, is here too.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, Self


class MustdpError(Exception):
    """Everything this package raises on purpose.

    Examples
    --------
    >>> import mustdp as md
    >>> try:
    ...     md.gaussian(noise_multiplier=float("nan"))
    ... except md.MustdpError as problem:
    ...     print(type(problem).__name__)
    InvalidParameter
    """


class InvalidParameter(MustdpError, ValueError):
    """An argument is outside what is allowed; the message names argument, value and range.

    The parts of the message are kept where it has them (:meth:`refusing`): the command line puts
    its own name for the argument in.

    Attributes
    ----------
    argument : str or None
        The argument that was refused; None where the message has no parts.
    allowed : str
        What it must be.
    got : str
        What was given, as it may be shown.
    mentions : tuple of str
        Other arguments and relations that the message speaks of.

    Examples
    --------
    >>> import mustdp as md
    >>> try:
    ...     md.wor(10, 20)
    ... except md.InvalidParameter as problem:
    ...     print(problem)
    m must be at most n = 10 when drawn without replacement, got 20
    """

    argument: str | None = None
    allowed: str = ""
    got: str = ""
    mentions: tuple[str, ...] = ()

    @classmethod
    def refusing(
        cls, argument: str, allowed: str, got: object, *, mentions: tuple[str, ...] = ()
    ) -> Self:
        """Refuse the value of an argument.

        Parameters
        ----------
        argument : str
            The name of the argument.
        allowed : str
            Goes on from the name: "must be ...". Other arguments and relations that it speaks of
            stand in it as ``{name}``.
        got : object
            The value, as it is to be shown.
        mentions : tuple of str, default=()
            Those other arguments and relations.

        Returns
        -------
        InvalidParameter
            To be raised.

        Examples
        --------
        >>> allowed = "must be at most {n} = 10"
        >>> problem = InvalidParameter.refusing("b", allowed, 20, mentions=("n",))
        >>> str(problem)
        'b must be at most n = 10, got 20'
        >>> problem.called({"b": "-b", "n": "-n"})
        '-b must be at most -n = 10, got 20'
        """
        parts = cls()
        parts.argument, parts.allowed, parts.got = argument, allowed, str(got)
        parts.mentions = mentions
        parts.args = (parts.called({}),)
        return parts

    def called(self, names: Mapping[str, str]) -> str:
        """The message, with other names for the arguments.

        Parameters
        ----------
        names : mapping of str to str
            Other names, by the arguments' own.

        Returns
        -------
        str
            The message.
        """
        if self.argument is None:
            return str(self)
        said = f"{self.allowed}, got {self.got}"
        for other in self.mentions:
            said = said.replace(f"{{{other}}}", names.get(other, other))
        return f"{names.get(self.argument, self.argument)} {said}"


class NotCovered(InvalidParameter):
    """A request that is well-formed but that no theorem of this package covers.

    Examples
    --------
    >>> import mustdp as md
    >>> try:
    ...     md.account(md.gaussian(shift=1.0), method="paper", group=2)
    ... except md.NotCovered as problem:
    ...     print(problem.argument)
    group
    """


class MissingExtra(MustdpError, ImportError):
    """A package that is not installed is needed; the message names the extra that brings it.

    Examples
    --------
    >>> import mustdp as md
    >>> issubclass(md.types.MissingExtra, ImportError)
    True
    """


class NumericalFailure(MustdpError, ArithmeticError):
    """A computation whose result cannot be certified; never replaced by a guess.

    Examples
    --------
    >>> import mustdp as md
    >>> issubclass(md.NumericalFailure, md.MustdpError)
    True
    """


class Contradiction(NumericalFailure):
    """A value is attained above what was certified: no number of this computation is trusted."""


class ClusterLost(MustdpError, RuntimeError):
    """The scheduler or all workers of a cluster have gone before the work was done.

    Examples
    --------
    >>> import mustdp as md
    >>> issubclass(md.types.ClusterLost, md.MustdpError)
    True
    """


class WorkerLost(MustdpError, RuntimeError):
    """A process that worked on a part of an answer has gone; there is no answer without it."""


class BudgetExceeded(MustdpError):
    """A charge that does not fit the limit of a ledger; raised before anything is written.

    All epsilons are at the ledger's delta and of the kind that it enforces.

    Parameters
    ----------
    message : str
        What is said.
    asked : float
        What the charge costs alone.
    spent : float
        What the ledger has spent without it.
    left : float
        What is left of the limit without it.
    wanted : int, default=None
        How many steps were to be charged.
    most : int, default=None
        How many of them still fit; None where it was not computed.
    largest : float, default=None
        The largest epsilon of one release with Gaussian noise that fits; None where it was not
        computed.

    Examples
    --------
    >>> import mustdp as md
    >>> problem = md.BudgetExceeded("too much", asked=0.5, spent=0.8, left=0.2)
    >>> problem.asked > problem.left
    True
    """

    def __init__(
        self,
        message: str,
        *,
        asked: float,
        spent: float,
        left: float,
        wanted: int | None = None,
        most: int | None = None,
        largest: float | None = None,
    ) -> None:
        super().__init__(message)
        self.asked, self.spent, self.left = asked, spent, left
        self.wanted, self.most, self.largest = wanted, most, largest

    def __reduce__(self) -> tuple[Any, ...]:
        """Keep the numbers on the way back from another process."""
        return partial(type(self), **vars(self)), (str(self),)


class LargeDelta(UserWarning):
    """A delta above one in the number of records, which is no protection worth the name.

    Publishing one record in n, chosen at random and in full, is (0, 1/n)-differentially private.

    Examples
    --------
    >>> import mustdp as md
    >>> issubclass(md.types.LargeDelta, Warning)
    True
    """
