"""What holds for all tests: packages above the accountant compose with one pair per step.

The family of pairs takes a second or three per account, and what it finds is the business of the
tests of the packages below, of what a user is shown, and of those that ask for it by name.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from mustdp.accounting.families import composition as tighter
from mustdp.execution import processes

HERE = Path(__file__).parent
#: Where "auto" is what it is for users.
IN_FULL = (
    "accounting/test_along.py",
    "accounting/test_composition_choice.py",
    "accounting/test_family.py",
    "accounting/test_family_laws.py",
    "accounting/test_family_views.py",
    "accounting/test_shared.py",
    "calibration/test_guess.py",
    "calibration/test_noise.py",
    "cli/test_account.py",
    "cli/test_documented.py",
    "interop/test_dp_accounting.py",
    "ledger/test_declared.py",
    "ledger/test_documents.py",
    "estimation/bootstrap/test_shapes.py",
    "site/test_code.py",
)


@pytest.fixture(autouse=True, scope="module")
def one_pair_per_step(request: pytest.FixtureRequest) -> Iterator[None]:
    """Composition "auto" without families, unless the module is about them."""
    path = Path(str(request.path))
    with pytest.MonkeyPatch.context() as patch:
        # Doctests show what users get.
        if path.is_relative_to(HERE) and path.relative_to(HERE).as_posix() not in IN_FULL:
            patch.setitem(tighter._WORK, "auto", 0.0)
        # Processes that are started would know nothing of what tests put in place of things.
        patch.setattr(processes, "processors", lambda: 1)
        yield
