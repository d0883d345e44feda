"""What holds for all tests: packages above the accountant compose with one pair per step.

The family of pairs takes a second or three per account, and what it finds is the business of the
tests of the packages below, of what a user is shown, and of those that ask for it by name.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from mustdp.accounting.families import composition as tighter
from mustdp.execution import processes
from tests.seams import remember_accounts

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
    "site/test_pages.py",
    "site/test_tables.py",
)


#: Cases of parametrised tests, and simulations, that take long and add little to what else is run:
#: left to the slow lane.
SLOW = (
    "accounting/test_monotone.py::test_allocation_is_in_order_at_all_noises[200-replace_one]",
    "accounting/test_monotone.py::test_allocation_is_in_order_at_all_noises[7-replace_one]",
    "accounting/test_monotone.py::test_allocation_is_in_order_at_all_noises[200-add_remove]",
    "accounting/test_monotone.py::test_more_noise_never_costs_more[shuffle-4]",
    "accounting/test_several_bins.py::test_hardly_any_noise_is_answered[add_remove-2]",
    "accounting/test_several_bins.py::test_both_bounds_hold_against_simulated_epochs[epoch4-3-",
    "accounting/test_several_bins.py::test_both_bounds_hold_against_simulated_epochs[epoch3-3-",
    "accounting/test_few_large.py::test_both_bounds_meet_to_a_thousandth[0.3-16]",
    "accounting/test_extremes.py::test_hardly_any_noise_reveals_who_was_drawn[0.01-replace_one]",
    "accounting/subsampling/test_replaced_twice.py::test_many_steps_lie_between",
    "reproduction/test_bootstrap.py::test_each_scheme_is_certified_within_the_target",
    "reproduction/test_bootstrap.py::test_table_3_is_within_its_errors",
    "reproduction/test_analytic.py::test_distinct_records_match",
    "reproduction/test_adult.py::test_chains_and_program_agree_where_noise_is_small",
    "training/networks/test_loaders.py::test_killed_and_resumed[5]",
    "training/networks/test_loaders.py::test_a_few_records_of_mnist",
    "faults/test_killing.py::test_nothing_stays_of_a_bootstrap_that_is_ended[15]",
    "files/test_replacing.py::test_killed_at_every_call_to_the_system[True-True]",
    "files/test_replacing.py::test_killed_at_every_call_to_the_system[False-False]",
    "reporting/report/test_page.py::test_pictures_are_what_would_be_drawn_in_the_dark[same noise]",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what is left to the slow lane."""
    for item in items:
        if item.nodeid.removeprefix("tests/").startswith(SLOW):
            item.add_marker(pytest.mark.slow)


@pytest.fixture(autouse=True, scope="session")
def interrupts_are_heard() -> Iterator[None]:
    """A script's background processes ignore SIGINT, and whatever they start inherits that."""
    before = signal.getsignal(signal.SIGINT)
    if before is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture(scope="module")
def remembered_accounts() -> Iterator[None]:
    """Equal questions about equal plans are computed once; for tests of commands and pages."""
    with pytest.MonkeyPatch.context() as patch:
        remember_accounts(patch)
        yield


@pytest.fixture(autouse=True, scope="module")
def one_pair_per_step(request: pytest.FixtureRequest) -> Iterator[None]:
    """Composition "auto" without families, unless the module is about them."""
    path = Path(str(request.path))
    with pytest.MonkeyPatch.context() as patch:
        # Doctests show what users get.
        if path.is_relative_to(HERE) and path.relative_to(HERE).as_posix() not in IN_FULL:
            for name in ("auto", "quick"):
                patch.setitem(tighter._WORK, name, 0.0)
        # Processes that are started would know nothing of what tests put in place of things.
        patch.setattr(processes, "processors", lambda: 1)
        yield
