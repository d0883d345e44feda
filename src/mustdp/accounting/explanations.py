"""What bounds say, in sentences: what is certified, what is attained, and by which data sets.

Importing this imports nothing heavy, so that the command line starts quickly.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mustdp.mechanisms.relation import Relation
from mustdp.numerics.formatting import readable

if TYPE_CHECKING:
    from mustdp.accounting.bounds import Bounds
    from mustdp.mechanisms.mechanism import Mechanism
    from mustdp.sampling.epochs import Sampling

THEOREM = "Zhao, Zhou & Liu, arXiv 2312.13389, Theorem 4"
#: The families of pairs of data sets behind lower bounds.
_PAIRS = {
    "aligned": "the record that differs at one end of its range, all others at the other end",
    "reversed": "the aligned pair in the other order",
    "symmetric": "the record that differs at opposite ends of its range, all others in the middle",
    "symmetric, largest": "the symmetric pair, seen through the largest batch",
    "symmetric, noisier": "the symmetric pair, with more noise than there is",
}
_PRESENCE = {
    "aligned": "with the record, at the end of its range, and without it",
    "reversed": "without the record, and with it at the end of its range",
    "aligned, largest": "with the record, at the end of its range, and without it; seen through "
    "the largest batch",
    "reversed, largest": "without the record, and with it at the end of its range; seen through "
    "the largest batch",
    "crowded": "with the record at one end of its range and without it, all others at the other "
    "end; seen through the largest batch, Chua et al., arXiv 2403.17673",
    "crowded, reversed": "the crowded pair in the other order",
}
#: Which order of the neighbours decided an upper bound under add-remove.
_DIRECTIONS = {"remove": "; removing a record decides it", "add": "; adding a record decides it"}


def explain_bounds(
    bounds: Bounds, what: str, relation: Relation, scheme: Sampling, group: int = 1
) -> str:
    """What the two bounds say, a line each."""
    upper = explain_upper(what, relation, bounds.direction, group)
    return f"{upper}\n{explain_lower(bounds, relation, scheme, group, what)}"


def explain_upper(what: str, relation: Relation, direction: str = "", group: int = 1) -> str:
    """What a certified upper bound says."""
    return (
        f"upper: certified, no pair of neighbouring data sets ({relation.differing(group)}) has a "
        f"larger {what}{_DIRECTIONS.get(direction, '')}."
    )


def explain_lower(
    bounds: Bounds, relation: Relation, scheme: Sampling, group: int = 1, what: str = "epsilon"
) -> str:
    """What an attained lower bound says, and which data sets attain it."""
    if bounds.attained_by.startswith("adaptive"):
        return (
            "lower: attained by an adversary who picks the aligned or the reversed pair of data "
            "sets for each step, knowing earlier results."
        )
    if bounds.upper == 0 and what == "epsilon":
        return (
            "0 says that this delta alone covers everything: no attacker gains more than it over "
            "guessing. A smaller delta says more."
        )
    if bounds.attained_by == "one run":
        return "lower: attained by one run, which is what is released if all runs score the same."
    if not bounds.lower > 0:
        return "lower: no pair of data sets that attains more than 0 is known."
    return f"lower: attained by {explain_pair(bounds.attained_by, relation, scheme, group)}."


def explain_pair(name: str, relation: Relation, scheme: Sampling, group: int = 1) -> str:
    """A named pair of data sets."""
    present = scheme.leaves_empty and relation == Relation.ADD_REMOVE
    pairs = _PRESENCE if present else _PAIRS
    details = f" ({pairs[name]})" if name in pairs and group == 1 else ""
    return f"the {name} pair of data sets{details}"


def explain_coarse(bounds: Bounds) -> tuple[str, ...]:
    """The remark upon bounds that the grid, not the truth, keeps apart."""
    if not bounds.coarse:
        return ()
    gap = readable(bounds.numerical_gap, "up")
    return (f"coarse: both bounds hold; finer grids, out of reach, may move them by {gap}.",)


def poisson_promise(
    drawn: Sampling, mechanism: Mechanism, steps: int, question: str, at: float, found: Bounds
) -> dict[str, Any]:
    """For shuffling: what Poisson sampling would promise, and how many times that is attained."""
    from mustdp.accounting.account import account
    from mustdp.accounting.plan import repeat, subsample
    from mustdp.sampling.epochs import Shuffle
    from mustdp.sampling.schemes import poisson

    if not isinstance(drawn, Shuffle):
        return {}
    scheme = poisson(drawn.n, drawn.m / drawn.n)
    plan = repeat(steps, subsample(scheme, mechanism))
    promised: Bounds = getattr(account(plan, relation=found.relation), question)(at)
    factor = found.lower / promised.upper if promised.upper > 0 else None
    return {"poisson": {f"{question}_promised": promised.upper, "factor_attained": factor}}


def explain_shuffling(known: dict[str, Any], question: str) -> str:
    """The same in words; nothing for other schemes."""
    if "poisson" not in known:
        return ""
    promised, factor = known["poisson"][f"{question}_promised"], known["poisson"]["factor_attained"]
    attained = ""
    if factor is None or factor > 1:
        times = "" if factor is None else f", {readable(factor, 'down')} times as much,"
        attained = f"; the lower bound{times} is attained by shuffled batches"
    allocation = ""
    if known.get("mechanism", "gaussian") == "gaussian":
        allocation = " Random allocation costs the same work and is charged exactly."
    return (
        f"shuffling is not Poisson sampling, which would promise {question} = "
        f"{readable(promised, 'up')} here{attained}.{allocation}"
    )
