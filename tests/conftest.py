"""What holds for all tests: those of a room above the accountant compose with one pair per step.

The family of pairs takes a second or three per account, and what it finds is the business of the
tests of the rooms below, of what a user is shown, and of those that ask for it by name.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from mustdp.accounting import tighter

HERE = Path(__file__).parent
#: Where "auto" is what it is for users.
IN_FULL = (
    "accounting/test_composition_choice.py",
    "accounting/test_family.py",
    "accounting/test_family_laws.py",
    "accounting/test_shared.py",
    "calibration/test_noise.py",
    "cli/test_account.py",
    "cli/test_documented.py",
    "ledger/test_declared.py",
    "ledger/test_documents.py",
)


@pytest.fixture(autouse=True)
def one_pair_per_step(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Composition "auto" without families, unless the test is about them."""
    path = Path(str(request.path))
    if not path.is_relative_to(HERE):
        return  # doctests show what users get
    room = path.relative_to(HERE).as_posix()
    if not any(room == name or room.startswith(f"{name}/") for name in IN_FULL):
        monkeypatch.setitem(tighter._WORK, "auto", 0.0)
