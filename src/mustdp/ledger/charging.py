"""Charging a release: refused before any data are read, written down before noise is drawn."""

from __future__ import annotations

from mustdp.calibration.settle import Spent
from mustdp.errors import InvalidParameter
from mustdp.ledger.budget_file import LedgerFile
from mustdp.ledger.ledger import Ledger
from mustdp.mechanisms.relation import Relation

_LONGEST = 200


def check_charge(ledger: Ledger, privacy: Spent, default: Relation) -> None:
    """Refuse what cannot be charged, and a ledger that answers another question.

    ``default`` is the relation of the release where the ledger names none.
    """
    if privacy.seeded:
        raise InvalidParameter(
            "ledger must be left out where a seed is given: the run is an experiment, no release"
        )
    if privacy.plan is None or not privacy.certified:
        raise InvalidParameter(
            "ledger must be left out for a release without a guarantee: it could not be charged"
        )
    used = ledger.relation or default
    if used != privacy.relation:
        raise InvalidParameter(
            f"relation must be that of the ledger, {used}, got {privacy.relation}; make the ledger "
            f"with Ledger(relation={privacy.relation!r})"
        )
    if isinstance(ledger, LedgerFile):  # refused now, before any data are read
        ledger.check(privacy.plan)


def charge(ledger: Ledger | None, privacy: Spent, label: str) -> None:
    """Charge the plan of a release, if there is a ledger and something to charge."""
    if ledger is None or privacy.plan is None:
        return
    if isinstance(ledger, LedgerFile):
        ledger.charge(privacy.plan, label=_short(label))
    else:
        ledger.step(privacy.plan)


def _short(label: str) -> str:
    return label if len(label) <= _LONGEST else f"{label[: _LONGEST - 3]}..."
