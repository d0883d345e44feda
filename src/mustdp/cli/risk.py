"""``mustdp risk``: what an attacker who sees everything that is released can achieve."""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

from mustdp.cli import output
from mustdp.cli.options import ACCOUNTING, PlanOptions, counted
from mustdp.cli.output import RISK_COLUMNS, Answer, progress, risk_rows
from mustdp.cli.parameters import Panel, read_number, read_rate, with_bundles
from mustdp.numerics.formatting import as_stated, readable

if TYPE_CHECKING:
    from mustdp.accounting.account import Account
    from mustdp.accounting.views import Renyi, Summary

#: Orders of Renyi divergences unless others are given.
_ORDERS = (2.0, 4.0, 8.0, 16.0, 32.0)

_accounting = Panel(
    ACCOUNTING,
    """
    --fpr F    False-positive rate of the attacker, 0 to 1; may be given several times. Default:
               0.001, 0.01 and 0.1.
    --order A  Order of a Renyi divergence, above 1; may be given several times. Default: 2, 4, 8,
               16 and 32.
    """,
)


@with_bundles
def risk(
    plan: PlanOptions,
    fpr: Annotated[list[float] | None, _accounting("--fpr", read_rate)] = None,
    order: Annotated[
        list[float] | None, _accounting("--order", partial(read_number, above=1, at_most=1e6))
    ] = None,
) -> Answer:
    """Say in words what an attacker who sees everything that is released can achieve.

    At most: certified, for every pair of neighbouring data sets and every attacker. At least:
    reached by an attacker on a concrete pair. The same account is also given as mu of Gaussian
    DP, rho of zero-concentrated DP and Renyi divergences.

    Example: mustdp risk --scheme must-ow -n 10000 -b 118 -m 200 --noise-multiplier 4 --steps 1000
    """
    built, mechanism, steps = plan.build()

    import mustdp
    from mustdp.accounting.plan import steps_of
    from mustdp.accounting.risk import USUAL_FPR

    with progress("accounting"):
        account = mustdp.account(
            steps_of(built, steps, mechanism), relation=plan.run.relation, group=plan.group
        )
        found = account.risk(fpr or USUAL_FPR)
        views = _views(account, tuple(order or _ORDERS))
    relation = account.relation
    data = {
        **output.begun(built, mechanism, relation, account.shift, plan.group),
        "steps": steps,
        **counted(built, steps),
        **found.as_dict(),
        **views,
    }
    heading = f"{output.describe(built)}; steps: {steps}"
    lower, upper = output.ends(found.advantage)
    noted = (
        *found.sentences(),
        "advantage (true less false positives, at its largest): at least "
        f"{lower}, at most {upper}.",
        f"found: share of the records that were there and are accused; {_CERTIFIED}",
        _in_words(views),
        output.noise_in_words(mechanism, account.shift, relation),
    )
    return Answer(
        data,
        heading=heading,
        columns=RISK_COLUMNS,
        rows=risk_rows(found),
        note="\n".join(noted),
    )


_CERTIFIED = (
    "at most: certified for every attacker and pair of neighbouring data sets; at least: reached."
)


def _views(account: Account, orders: tuple[float, ...]) -> dict[str, Any]:
    mu, rho, renyi = account.gaussian_dp(), account.zero_concentrated(), account.renyi(orders)
    outside = (
        "Renyi divergences by order, outside an event of probability "
        f"{readable(renyi.outside, 'up')}; upper is certified, lower reached by a named pair"
    )
    return {
        "mu": _one(mu),
        "rho": _one(rho),
        "renyi": _divergences(renyi),
        "meaning": {"mu": mu.meaning, "rho": rho.meaning, "renyi": outside},
    }


def _one(summary: Summary) -> float | str:
    """The number, or a word that no tool takes for a small one: text sorts above all numbers."""
    return summary.value if math.isfinite(summary.value) else "infinite"


def _divergences(renyi: Renyi) -> list[dict[str, Any]]:
    rows = zip(renyi.orders.tolist(), renyi.lower.tolist(), renyi.upper.tolist(), strict=True)
    return [
        {"order": order, "lower": low, "upper": high if math.isfinite(high) else "infinite"}
        for order, low, high in rows
    ]


def _in_words(views: dict[str, Any]) -> str:
    """The other views in a line each."""
    divergences = ", ".join(
        f"{row['upper'] if isinstance(row['upper'], str) else readable(row['upper'], 'up')} "
        f"(order {as_stated(row['order'])})"
        for row in views["renyi"]
    )
    named = {"mu": "Gaussian DP, mu", "rho": "zero-concentrated DP, rho"}
    lines = [
        f"{name}: {views[key] if isinstance(views[key], str) else readable(views[key], 'up')} "
        f"({views['meaning'][key]})."
        for key, name in named.items()
    ]
    return "\n".join((*lines, f"Renyi divergence, at most: {divergences}."))
