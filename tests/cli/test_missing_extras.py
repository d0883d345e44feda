"""A package that is not installed: one line that names it and the extra, status 2, no traceback."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path

import pytest

from tests.cli.running import Run, check_refused

#: A command whose work needs a package, the package, and the extra that brings it.
NEEDED = [
    ("report -n 30 -b 10 -m 4 --steps 1 --delta 1e-3 --epsilon 1", "matplotlib", "plots"),
    ("reproduce figure-3 --quick --out out", "matplotlib", "plots"),
    ("train digits {wor} --steps 5 --epsilon 1 --delta 1e-5", "sklearn", "train"),
    ("train digits {wor} --steps 5 --epsilon 1 --delta 1e-5 --model mlp", "torch", "train"),
    ("audit {wor} -n 60 --steps 5 --epsilon 1 --delta 1e-5", "torch", "train"),
    ("bootstrap ages.sav {mean} {wor} --replicates 9", "pyreadstat", "files"),
    ("bootstrap ages.csv {mean} {wor} --replicates 9 --dask local", "distributed", "dask"),
    ("bootstrap ages.csv {mean} {wor} --replicates 9 --workers 2", "joblib", "parallel"),
    ("deployments", "yaml", "deployments"),
]
MEAN = "--column age --lower 0 --upper 100 --noise-multiplier 9 --delta 1e-5"
INSTALLED_AS = {"sklearn": "scikit-learn", "yaml": "pyyaml"}


def hide(monkeypatch: pytest.MonkeyPatch, package: str) -> None:
    """Make ``package`` and all in it impossible to import, also where it was imported before."""
    for name in [*sys.modules, package]:
        if name.partition(".")[0] == package:
            monkeypatch.setitem(sys.modules, name, None)


@pytest.mark.parametrize("as_json", [[], ["--json"]])
@pytest.mark.parametrize(("line", "package", "extra"), NEEDED)
def test_a_missing_package_is_named_with_its_extra(
    run: Run,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    line: str,
    package: str,
    extra: str,
    as_json: list[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("ages.csv").write_text("age\n" + "50\n" * 90, encoding="utf-8")
    Path("ages.sav").write_bytes(b"$FL2")
    before = sorted(os.listdir())
    hide(monkeypatch, package)
    outcome = run(*shlex.split(line.format(mean=MEAN, wor="--scheme wor -m 5")), *as_json)
    check_refused(outcome, INSTALLED_AS.get(package, package), f'[{extra}]"')
    assert sorted(os.listdir()) == before
