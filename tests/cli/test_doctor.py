"""``mustdp doctor``: self-tests that fail are named, and what is missing is said."""

from __future__ import annotations

import platform

import pytest

import mustdp as md
from tests.cli.running import Run, answer
from tests.cli.test_missing_extras import hide
from tests.seams import extras


@pytest.fixture(autouse=True)
def _few_values(monkeypatch: pytest.MonkeyPatch) -> None:
    """Speeds are for people: one round of each is enough here."""
    monkeypatch.setattr("mustdp.cli.doctor.ROUNDS", 1)


def test_everything_is_tried(run: Run) -> None:
    said = answer(run, "doctor")
    assert said["version"] == md.__version__
    assert set(said["self_tests"].values()) <= {"passed"}
    assert len(said["self_tests"]) == 5
    assert all(speed > 0 for speed in said["speed"].values())
    assert said["extras"].keys() == extras().keys()
    assert said["extras"]["plots"]["works"]
    assert set(said["packages"]) >= {"numpy", "scipy", "randomgen", "pyarrow"}
    assert None not in said["packages"].values()
    assert platform.node() not in str(said)


def test_what_is_missing_is_said(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    hide(monkeypatch, "matplotlib")
    outcome = run("doctor")
    assert outcome.status == 0
    line = next(line for line in outcome.out.splitlines() if "extra plots" in line)
    assert "matplotlib is not installed" in line
    assert "works" not in line


@pytest.mark.parametrize(
    ("seam", "broken", "named"),
    [
        ("mustdp.randomness.keys._KNOWN", (("00" * 16, "00" * 16, "00" * 16),), "cipher"),
        ("mustdp.noise.exact._ALLOWED", 0, "normal quantiles"),
        ("mustdp.cli.doctor._ONE_RELEASE", 1.99, "closed form"),
    ],
)
def test_a_failed_self_test_ends_with_status_3(
    run: Run, monkeypatch: pytest.MonkeyPatch, seam: str, broken: object, named: str
) -> None:
    monkeypatch.setattr(seam, broken)
    outcome = run("doctor", "--json")
    assert (outcome.status, outcome.out) == (3, "")
    assert outcome.err.count("\n") == 1
    assert named in outcome.err


def test_a_system_without_file_locks_is_no_failure(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*path: object, **limits: object) -> None:
        raise md.InvalidParameter("a ledger must be on a system with file locks")

    monkeypatch.setattr(md.Ledger, "open", refuse)
    said = answer(run, "doctor")["self_tests"]["a ledger in a file"]
    assert said.startswith("not here: ")
