"""A bootstrap in several processes that is ended from outside leaves no process and no record."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from mustdp.execution import cluster as module
from mustdp.execution.cluster import private_folder, remove_leftovers
from tests.faults.killing import ROOT, end_by, environment, written_ages

pytest.importorskip("joblib")
pytestmark = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_nothing_stays_of_a_bootstrap_that_is_ended(number: signal.Signals, tmp_path: Path) -> None:
    folder = tmp_path / "temporary"
    folder.mkdir()
    ages = written_ages(tmp_path / "ages.csv")
    assert end_by(number, ages, folder, after=random.Random(int(number)).uniform(0, 2)) == []


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("JOBLIB_TEMP_FOLDER", str(tmp_path))
    monkeypatch.setattr(module, "_here", module._RunFolder())
    return tmp_path


def test_the_folder_is_private_shared_by_runs_and_gone_after_the_last(place: Path) -> None:
    before = signal.getsignal(signal.SIGTERM)
    with private_folder() as first:
        assert first.stat().st_mode & 0o777 == 0o700
        with private_folder() as second:
            assert second == first
        (first / "records").write_text("1")
        remove_leftovers()  # it is in use
        assert (first / "records").exists()
        if before is signal.SIG_DFL:
            assert signal.getsignal(signal.SIGTERM) is module._end
    assert not first.exists()
    assert signal.getsignal(signal.SIGTERM) is before
    with private_folder() as third:
        assert third == first  # processes that joblib keeps know this path


def test_only_rests_are_removed(place: Path) -> None:
    rest = place / f"mustdp-records-{'a' * 32}"
    open_to_all, other = place / f"mustdp-records-{'b' * 32}", place / "mustdp-records-mine"
    link = place / f"mustdp-records-{'c' * 32}"
    for folder in (rest, open_to_all, other):
        folder.mkdir(mode=0o700)
        (folder / "records").write_text("1")
    open_to_all.chmod(0o755)  # not made by us, whatever its name
    link.symlink_to(other)
    with private_folder():
        assert not rest.exists()
    assert open_to_all.exists()
    assert other.exists()
    assert link.is_symlink()


def test_a_forked_child_has_a_folder_of_its_own(place: Path) -> None:
    code = (
        "import os\n"
        "from mustdp.execution.cluster import private_folder\n"
        "with private_folder() as mine:\n"
        "    child = os.fork()\n"
        "    if not child:\n"
        "        with private_folder() as its:\n"
        "            good = its != mine and its.exists() and mine.exists()\n"
        "        os._exit(0 if good and not its.exists() and mine.exists() else 1)\n"
        "    status = os.waitpid(child, 0)[1]\n"
        "    print(status, mine.exists())\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env=environment(place), text=True,
        capture_output=True, timeout=60, check=True,
    )  # fmt: skip
    assert done.stdout == "0 True\n"
    assert os.listdir(place) == []
