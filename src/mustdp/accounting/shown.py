"""A plan in words, and what an account shows of itself when it is printed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mustdp.accounting.plan import InEpoch, Plan, Repeat, Sequence, Subsample
from mustdp.errors import MustdpError
from mustdp.numerics.decimals import as_stated, given_or_rounded, readable
from mustdp.numerics.tables import Shown

if TYPE_CHECKING:
    from mustdp.accounting.answers import Account

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
        more_private_up = name == "noise_multiplier"
        return given_or_rounded(value, "up" if more_private_up != released else "down", 6)
    if isinstance(value, list):
        return ",".join(f"{kind}:{size}" for kind, size in value)
    return str(value)


def shown(account: Account) -> Shown:
    """Epsilon at a few deltas, and the advantage of an attacker; bounds on their safe side."""
    rows = [(f"epsilon at delta {as_stated(delta)}", *_ends(account, delta)) for delta in _DELTAS]
    rows.append(("advantage of an attacker", *_ends(account, None)))
    return Shown(
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
