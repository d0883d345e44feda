"""A release that is ended at any point was charged before anybody could see it."""

from __future__ import annotations

import os
import signal
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cli.running import main
from tests.faults.releasing import Office, ended
from tests.seams import replace_in_release

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
#: Where the command ends itself: before or after what.
POINTS = {
    "before the charge": ("charge", "before"),
    "after the charge": ("charge", "after"),
    "after the noise": ("noise", "after"),
    "before the table is written": ("table", "before"),
    "after the table is written": ("table", "after"),
}


def ending(call: Callable[..., Any], when: str, number: int) -> Callable[..., Any]:
    def at_last(*given: Any, **named: Any) -> Any:
        if when == "after":
            call(*given, **named)
        os.kill(os.getpid(), number)
        signal.pause()

    return at_last


def forked(office: Office, point: str | None, number: int) -> int:
    """The status of the command in a child that ends itself; what it says goes to a file."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of forking where threads may be
        child = os.fork()
    if not child:
        try:
            out = os.open(office.folder / "said", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            os.dup2(out, 1)
            os.dup2(out, 2)
            if point is not None:
                called, when = POINTS[point]
                replace_in_release(called, lambda call: ending(call, when, number))
            os._exit(main(office.words))
        finally:
            os._exit(99)
    return os.waitpid(child, 0)[1]


@pytest.mark.parametrize(
    ("point", "number"),
    [*((point, signal.SIGKILL) for point in POINTS), ("after the noise", signal.SIGTERM)],
)
def test_nothing_is_seen_before_it_is_charged(
    point: str, number: signal.Signals, tmp_path: Path
) -> None:
    office = Office.made(tmp_path)
    assert os.WTERMSIG(forked(office, point, number)) == number
    assert (tmp_path / "said").read_bytes() == b""
    assert office.charged() == (point != "before the charge")
    assert office.table.exists() == (point == "after the table is written")
    assert office.problems("", 0) == []


def test_at_some_moment_of_a_whole_run(tmp_path: Path) -> None:
    office = Office.made(tmp_path)
    assert ended(signal.SIGTERM, office, 0.8) == []


def test_the_check_would_see_a_fault(tmp_path: Path) -> None:
    office = Office.made(tmp_path)
    (tmp_path / "copy").write_bytes((tmp_path / "people.csv").read_bytes())
    found = office.problems('{"estimates": []}', 0)
    assert found == ["released and not charged", "records in copy"]
