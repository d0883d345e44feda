"""The quick lane: which tests it chooses, and that it ends in time."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.nearest import FEW, PACKAGE, ROOT, changed, nearest

PACKAGES = sorted(
    path.name for path in (ROOT / PACKAGE).iterdir() if (path / "__init__.py").exists()
)


def before_the_few(*paths: str) -> list[str]:
    chosen = nearest(paths)
    assert len(set(chosen)) == len(chosen)
    return [path for path in chosen if path not in FEW]


def test_every_package_is_touched_by_the_few() -> None:
    assert nearest([]) == list(FEW)
    assert all((ROOT / path).is_file() for path in FEW)
    touched = {Path(path).parts[1] for path in FEW}
    assert touched >= {name for name in PACKAGES if (ROOT / "tests" / name).is_dir()}


@pytest.mark.parametrize(
    ("path", "chosen"),
    [
        (
            "src/mustdp/accounting/pld/discretise.py",
            ["tests/accounting/pld", "src/mustdp/accounting/pld"],
        ),
        (
            "src/mustdp/accounting/pld/no_longer_there.py",
            ["tests/accounting/pld", "src/mustdp/accounting/pld"],
        ),
        (
            "tests/accounting/pld/exact_sums.py",
            ["tests/accounting/pld", "src/mustdp/accounting/pld"],
        ),
        ("tests/accounting/pld/test_dots.py", ["tests/accounting/pld/test_dots.py"]),
        (
            "tests/accounting/pld/test_no_longer_there.py",
            ["tests/accounting/pld", "src/mustdp/accounting/pld"],
        ),
        (
            "src/mustdp/training/networks/trainer.py",
            ["tests/training/networks", "src/mustdp/training/networks"],
        ),
        ("src/mustdp/training/classify.py", ["tests/training", "src/mustdp/training"]),
        ("src/mustdp/errors.py", []),
        ("tests/golden/section5.json", []),
        ("docs/cli.md", []),
    ],
)
def test_a_change_stands_for_its_package(path: str, chosen: list[str]) -> None:
    assert before_the_few(path) == chosen


def test_nothing_is_run_twice() -> None:
    assert before_the_few(
        "src/mustdp/accounting/pld/discretise.py",
        "tests/accounting/pld/test_dots.py",
        "tests/sampling/test_draw.py",
    ) == ["tests/sampling/test_draw.py", "tests/accounting/pld", "src/mustdp/accounting/pld"]
    both = before_the_few(
        "src/mustdp/training/networks/trainer.py", "src/mustdp/training/classify.py"
    )
    assert both == ["tests/training", "src/mustdp/training"]


def test_changes_are_those_since_the_last_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in os.environ if name.startswith("GIT_")]:
        monkeypatch.delenv(name)  # a hook of git says where its own repository is

    def git(*words: str) -> None:
        names = ["-c", "user.name=nobody", "-c", "user.email=nobody@localhost"]
        subprocess.run(["git", "-C", str(tmp_path), *names, *words], check=True)

    git("init", "--quiet")
    (tmp_path / ".gitignore").write_text("ignored\n", encoding="utf-8")
    for name in ("same", "edited", "moved", "staged"):
        (tmp_path / name).write_text(name, encoding="utf-8")
    git("add", "--all")
    git("commit", "--quiet", "--message=All")
    assert changed(tmp_path) == []
    (tmp_path / "edited").write_text("otherwise", encoding="utf-8")
    (tmp_path / "staged").write_text("otherwise", encoding="utf-8")
    git("add", "staged")
    (tmp_path / "moved").rename(tmp_path / "näw name")
    (tmp_path / "ignored").touch()
    assert sorted(changed(tmp_path)) == ["edited", "moved", "näw name", "staged"]


def test_what_has_not_begun_in_time_is_left_out_and_counted_at_the_end(tmp_path: Path) -> None:
    for seconds, outcome in ((0, "1 skipped"), (600, "1 passed")):
        command = [sys.executable, "-m", "pytest", "-n", "0", f"--within={seconds}"]
        quiet = ["-q", "-p", "no:cacheprovider", f"--basetemp={tmp_path / 'base'}"]
        few = "tests/test_nearest.py::test_every_package_is_touched_by_the_few"
        done = subprocess.run(
            [*command, *quiet, few],
            cwd=ROOT,
            check=True,
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert outcome in done.stdout
        told = done.stdout.partition(" not tried here ")[2]
        assert ("     1  no time left (--within)" in told) == (seconds == 0)
