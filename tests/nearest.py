"""The tests nearest to what has changed since the last commit: what ``./test --quick`` runs.

    python -m tests.nearest

A changed test file stands for itself. Any other file of a room, or of a part of one, stands for the
tests of that room or part and for its doctests. Behind these come always the few files that
together touch every room, so that there is something to run when no room has changed.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGE, TESTS = Path("src/mustdp"), Path("tests")
#: Quick files, at least one for every package.
FEW = (
    "tests/test_project.py",
    "tests/files/test_plain.py",
    "tests/execution/test_processes.py",
    "tests/data/test_selection.py",
    "tests/numerics/test_roots.py",
    "tests/randomness/test_cipher.py",
    "tests/noise/test_lattice.py",
    "tests/auditing/test_guessing.py",
    "tests/mechanisms/test_profiles.py",
    "tests/sampling/test_batch.py",
    "tests/accounting/subsampling/test_section5.py",
    "tests/accounting/pld/test_discrete.py",
    "tests/accounting/test_plan.py",
    "tests/calibration/test_compare.py",
    "tests/ledger/test_declared.py",
    "tests/training/data/test_idx.py",
    "tests/training/linear/test_rates.py",
    "tests/training/networks/test_randomness.py",
    "tests/estimation/bootstrap/test_spread.py",
    "tests/estimation/release/test_sensitivity.py",
    "tests/reporting/plots/test_rendering.py",
    "tests/reporting/pages/test_document.py",
    "tests/reproduction/test_cells.py",
    "tests/cli/test_output.py",
    "tests/interop/test_dp_accounting.py",
    "tests/reporting/report/test_reading.py",
    "tests/reporting/explorer/test_work.py",
)


def changed(root: Path = ROOT) -> list[str]:
    """Files that differ from the last commit, deleted and untracked ones among them."""
    asked = (
        ["diff", "--name-only", "-z", "--no-renames", "HEAD", "--"],
        ["ls-files", "--others", "--exclude-standard", "-z"],
    )
    found: list[str] = []
    for words in asked:
        command = ["git", "-C", str(root), *words]
        done = subprocess.run(command, check=True, capture_output=True, encoding="utf-8")
        found += filter(None, done.stdout.split("\0"))
    return found


def nearest(paths: Iterable[str], root: Path = ROOT) -> list[str]:
    """What to give to pytest: changed test files first, then folders, then the few for all."""
    files: list[Path] = []
    folders: list[Path] = []
    for path in map(Path, paths):
        if path.is_relative_to(TESTS) and path.name.startswith("test_") and (root / path).exists():
            files.append(path)
        elif (part := part_of(path, root)) is not None:
            folders += [TESTS / part, PACKAGE / part]
    folders = [folder for folder in folders if (root / folder).is_dir()]
    wanted = [*files, *folders, *map(Path, FEW)]
    return [
        path.as_posix()
        for path in dict.fromkeys(wanted)
        if not any(folder in path.parents for folder in folders)
    ]


def part_of(path: Path, root: Path = ROOT) -> Path | None:
    """The innermost part of a room that holds the file and has tests, as in training/networks."""
    for top in (PACKAGE, TESTS):
        if path.is_relative_to(top):
            for part in path.relative_to(top).parents:
                if part.parts and any((root / TESTS / part).glob("**/test_*.py")):
                    return part
    return None


if __name__ == "__main__":
    print("\n".join(nearest(changed())))
