"""A release and its ledger: refused before data are touched, charged before noise is drawn."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from mustdp.accounting.plan import Plan
from mustdp.calibration.budget import PrivacySpent
from mustdp.errors import InvalidParameter
from mustdp.ledger.file import LedgerFile
from mustdp.ledger.ledger import BaseLedger, Ledger
from mustdp.mechanisms.relation import resolve_relation
from mustdp.sampling.epochs import Sampling

#: What the functions that release something take as ``ledger``, if any.
LedgerOrPath = BaseLedger | str | os.PathLike[str]


def find_ledger(ledger: LedgerOrPath) -> BaseLedger:
    """The ledger itself, or the one at a path, which must be there."""
    if isinstance(ledger, BaseLedger):
        return ledger
    if not isinstance(ledger, str | os.PathLike):
        raise InvalidParameter.refusing(
            "ledger", "must be a ledger, the path of one, or None", type(ledger).__name__
        )
    return open_existing(ledger)


def open_existing(path: str | os.PathLike[str]) -> LedgerFile:
    """The ledger at a path that was given as ``ledger``."""
    if not os.path.lexists(path):
        raise InvalidParameter.refusing(
            "ledger",
            "must be the path of a ledger that is there; make one with "
            "Ledger.open(path, epsilon=..., delta=...) or mustdp ledger create",
            repr(os.fspath(path)),
        )
    return Ledger.open(path)


@contextmanager
def opened(ledger: LedgerOrPath) -> Iterator[BaseLedger]:
    """The ledger itself, or the one at a path, which is closed afterwards."""
    found = find_ledger(ledger)
    try:
        yield found
    finally:
        if found is not ledger and isinstance(found, LedgerFile):
            found.close()


def check_chargeable(ledger: BaseLedger, scheme: Sampling, privacy: PrivacySpent) -> Plan:
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


def check_release(ledger: LedgerOrPath, scheme: Sampling, privacy: PrivacySpent) -> None:
    """Refuse what cannot be charged, or would pass the limit; before any data are touched."""
    with opened(ledger) as found:
        plan = check_chargeable(found, scheme, privacy)
        if isinstance(found, LedgerFile):
            found.check(plan)


def charge_release(
    ledger: LedgerOrPath, scheme: Sampling, privacy: PrivacySpent, label: str
) -> None:
    """Charge a release that was checked before; when this returns, noise may be drawn.

    What is at a path by now may be another ledger, and is asked once more.
    """
    with opened(ledger) as found:
        plan = check_chargeable(found, scheme, privacy)
        if isinstance(found, LedgerFile):
            found.charge(plan, label=label)
        else:
            found.step(plan)
