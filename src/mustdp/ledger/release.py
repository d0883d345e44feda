"""A release and its ledger: refused before data are touched, charged before noise is drawn."""

from __future__ import annotations

from mustdp.accounting.plan import Plan
from mustdp.calibration.settle import Spent
from mustdp.errors import InvalidParameter
from mustdp.ledger.budget_file import LedgerFile
from mustdp.ledger.ledger import Ledger
from mustdp.mechanisms.relation import resolve_relation
from mustdp.sampling.epochs import Sampling


def check_chargeable(ledger: Ledger, scheme: Sampling, privacy: Spent) -> Plan:
    """The plan that is to be charged; refused if it cannot be, or the ledger asks otherwise."""
    if privacy.seeded:
        raise InvalidParameter(
            "ledger must be left out where a seed is given: the run is an experiment, no release"
        )
    if privacy.plan is None or not privacy.certified:
        raise InvalidParameter(
            "ledger must be left out for a release without a guarantee: it could not be charged"
        )
    used = ledger.relation or resolve_relation(scheme, None)
    if used != privacy.relation:
        raise InvalidParameter(
            f"relation must be that of the ledger, {used}, got {privacy.relation}; make the ledger "
            f"with Ledger(relation={privacy.relation!r})"
        )
    return privacy.plan


def check_release(ledger: Ledger | None, scheme: Sampling, privacy: Spent) -> None:
    """Refuse what cannot be charged, or would pass the limit; before any data are touched."""
    if ledger is None:
        return
    plan = check_chargeable(ledger, scheme, privacy)
    if isinstance(ledger, LedgerFile):
        ledger.check(plan)


def charge_release(ledger: Ledger | None, plan: Plan | None, label: str) -> None:
    """Charge a release that was checked before; when this returns, noise may be drawn."""
    if ledger is None or plan is None:
        return
    if isinstance(ledger, LedgerFile):
        ledger.charge(plan, label=label)
    else:
        ledger.step(plan)
