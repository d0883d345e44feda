"""The most steps, the largest batch or the smallest first stage that a target allows."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from mustdp.accounting.plan import Plan, repeat, subsample
from mustdp.calibration.results import Solution
from mustdp.calibration.search import EpsilonTarget, Met, largest_size, meet
from mustdp.errors import InvalidParameter
from mustdp.limits import MOST_STEPS
from mustdp.mechanisms.contract import Mechanism
from mustdp.numerics import checks
from mustdp.sampling.schemes import Scheme, scheme_by_name

#: Batches drawn with replacement are looked at up to this many times the number of records.
_MOST_COPIES = 10


def most_steps(
    scheme: Scheme,
    *,
    mechanism: Mechanism,
    epsilon: float,
    delta: float,
    relation: str | None = None,
    group: int = 1,
) -> Solution:
    """The largest number of steps whose certified epsilon is at most ``epsilon``.

    Parameters
    ----------
    scheme : Scheme
        How batches are drawn.
    mechanism : Mechanism
        The noise, of a known size.
    epsilon : float
        What the certified epsilon must not exceed, above 0 and at most 500.
    delta : float
        The delta at which epsilon is stated, from 1e-25 to below 1; well below 1/n.
    relation : {"replace_one", "add_remove"}, default=None
        Which data sets are neighbours; None means add_remove where every draw is by Poisson
        sampling or random allocation, and replace_one otherwise.
    group : int, default=1
        How many records of one person the guarantee covers: neighbours differ in up to this many.

    Returns
    -------
    Solution
        The steps as ``value``, and what they are certified for.

    Raises
    ------
    InvalidParameter
        Even one step costs more, or an argument is outside what is allowed.

    Examples
    --------
    >>> import mustdp as md
    >>> noise = md.laplace(shift=0.5)
    >>> most_steps(md.poisson(1000, 1.0), mechanism=noise, epsilon=2, delta=1e-5).steps >= 4
    True
    """
    target, mechanism = EpsilonTarget(epsilon, delta, relation, group), _known(mechanism)

    def plan_of(steps: int) -> Plan:
        return repeat(steps, subsample(scheme, mechanism))

    met = meet(target, plan_of, partial(largest_size, name="steps", most=MOST_STEPS), "steps")
    limit = f"more than {MOST_STEPS} steps are not looked at" if met.value >= MOST_STEPS else None
    return _solution(met, target, mechanism, scheme, met.value, met.value, limit)


def largest_batch(
    name: str,
    *,
    mechanism: Mechanism,
    n: int,
    b: int | None = None,
    epsilon: float,
    delta: float,
    steps: int,
    relation: str | None = None,
    group: int = 1,
) -> Solution:
    """The largest m whose certified epsilon is at most ``epsilon``, for a scheme by name.

    Parameters
    ----------
    name : str
        The scheme, as on the command line: "poisson", "wor", "wr", "must-ow" and so on.
    mechanism : Mechanism
        The noise, of a known size.
    n : int
        Number of records, at least 1.
    b : int, default=None
        Size of the first of two stages, for schemes that have two.
    epsilon : float
        What the certified epsilon must not exceed, above 0 and at most 500.
    delta : float
        The delta at which epsilon is stated, from 1e-25 to below 1; well below 1/n.
    steps : int
        Number of steps, each on a batch of its own, from 1 to 1e9.
    relation : {"replace_one", "add_remove"}, default=None
        Which data sets are neighbours; None means add_remove where every draw is by Poisson
        sampling or random allocation, and replace_one otherwise.
    group : int, default=1
        How many records of one person the guarantee covers: neighbours differ in up to this many.

    Returns
    -------
    Solution
        The size as ``value``, and what it is certified for.

    Raises
    ------
    InvalidParameter
        Even the smallest batch costs more, or an argument is outside what is allowed.

    Examples
    --------
    >>> import mustdp as md
    >>> noise, target = md.gaussian(noise_multiplier=4.0), {"epsilon": 1.0, "delta": 1e-5}
    >>> found = md.calibration.largest_batch("poisson", mechanism=noise, n=100, steps=10, **target)
    >>> found.value, found.epsilon.upper <= 1.0
    (30, True)
    """
    target, mechanism = EpsilonTarget(epsilon, delta, relation, group), _known(mechanism)
    steps = checks.integer("steps", steps, 1, MOST_STEPS)
    n = checks.integer("n", n, 1)

    def scheme_of(m: int) -> Scheme:
        return scheme_by_name(name, n=n, b=b, m=m)

    whole = name in ("wor", "poisson")
    most = n if whole else _MOST_COPIES * n
    met = _meet(target, mechanism, scheme_of, steps, "m", most)
    limit = None
    if met.value >= most:
        last = f"all {n} records may be in every batch"
        limit = (
            last if whole else f"batches of more than {_MOST_COPIES} n = {most} are not looked at"
        )
    return _solution(met, target, mechanism, scheme_of(met.value), steps, met.value, limit)


def smallest_first_stage(
    name: str,
    *,
    mechanism: Mechanism,
    n: int,
    m: int,
    epsilon: float,
    delta: float,
    steps: int,
    relation: str | None = None,
    group: int = 1,
) -> Solution:
    """The smallest b of a two-stage scheme whose certified epsilon is at most ``epsilon``.

    A larger first stage means fewer repeated copies, hence less privacy spent at equal noise.

    Parameters
    ----------
    name : {"must-ow", "must-ww"}
        The scheme.
    mechanism : Mechanism
        The noise, of a known size.
    n : int
        Number of records, at least 1.
    m : int
        Size of a batch, copies counted, at least 1.
    epsilon : float
        What the certified epsilon must not exceed, above 0 and at most 500.
    delta : float
        The delta at which epsilon is stated, from 1e-25 to below 1; well below 1/n.
    steps : int
        Number of steps, each on a batch of its own, from 1 to 1e9.
    relation : {"replace_one", "add_remove"}, default=None
        Which data sets are neighbours; None means add_remove where every draw is by Poisson
        sampling or random allocation, and replace_one otherwise.
    group : int, default=1
        How many records of one person the guarantee covers: neighbours differ in up to this many.

    Returns
    -------
    Solution
        The size as ``value``, and what it is certified for.

    Raises
    ------
    InvalidParameter
        Even a first stage of n costs more, or an argument is outside what is allowed.

    Examples
    --------
    >>> import mustdp as md
    >>> noise, target = md.gaussian(noise_multiplier=40.0), {"epsilon": 0.1, "delta": 1e-2}
    >>> sizes = {"n": 10, "m": 5, "steps": 1}
    >>> search = md.calibration.smallest_first_stage
    >>> found = search("must-ow", mechanism=noise, **sizes, **target)
    >>> found.value, found.epsilon.upper <= 0.1
    (1, True)
    """
    target, mechanism = EpsilonTarget(epsilon, delta, relation, group), _known(mechanism)
    steps = checks.integer("steps", steps, 1, MOST_STEPS)
    checks.choice("scheme", name, ("must-ow", "must-ww"))
    n = checks.integer("n", n, 1)

    def scheme_of(left_out: int) -> Scheme:
        """The most records left out of the first stage are the fewest in it."""
        return scheme_by_name(name, n=n, b=n + 1 - left_out, m=m)

    met = _meet(target, mechanism, scheme_of, steps, "b", n)
    scheme = scheme_of(met.value)
    limit = "a first stage has one record at least" if met.value == n else None
    return _solution(met, target, mechanism, scheme, steps, n + 1 - met.value, limit)


def _meet(
    target: EpsilonTarget,
    mechanism: Mechanism,
    scheme_of: Callable[[int], Scheme],
    steps: int,
    name: str,
    most: int,
) -> Met[int]:
    def plan_of(size: int) -> Plan:
        return repeat(steps, subsample(scheme_of(size), mechanism))

    return meet(target, plan_of, partial(largest_size, name=name, most=most), name)


def _solution(
    met: Met[int],
    target: EpsilonTarget,
    mechanism: Mechanism,
    scheme: Scheme,
    steps: int,
    value: int,
    limit: str | None,
) -> Solution:
    found = met.plan, mechanism, met.relation, met.epsilon, target.delta
    return Solution(*found, scheme, steps, value, limit=limit)


def _known(mechanism: Mechanism) -> Mechanism:
    """The noise itself: where a size is looked for, its kind alone would not do."""
    if not isinstance(mechanism, Mechanism):
        raise InvalidParameter(
            "mechanism must be a mechanism of known size such as gaussian(noise_multiplier=4.0), "
            f"got {mechanism!r}"
        )
    return mechanism
