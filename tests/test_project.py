"""Rules of the project: import layers, scripts, version and changelog."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import mustdp

ROOT = Path(__file__).parents[1]
SOURCES = sorted((ROOT / "src" / "mustdp").rglob("*.py"))
HEAVY = {"numpy", "scipy", "matplotlib", "torch"}


def test_a_package_imports_only_packages_below_it() -> None:
    """In a process of its own: absl, which dp_accounting loads, keeps a file that pytest closes."""
    lint = "import sys; from importlinter.cli import lint_imports; "
    lint += "sys.exit(lint_imports(config_filename='pyproject.toml', no_cache=True))"
    done = subprocess.run(
        [sys.executable, "-c", lint], cwd=ROOT, capture_output=True, encoding="utf-8"
    )
    assert done.returncode == 0, done.stdout + done.stderr


def imported_at_load(path: Path) -> set[str]:
    """Top-level packages that loading the module imports itself."""
    found: set[str] = set()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Import):
            found |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module.split(".")[0])
    return found


@pytest.mark.parametrize(
    "path", [p for p in SOURCES if "cli" in p.parts], ids=lambda path: str(path.name)
)
def test_the_command_line_loads_nothing_heavy(path: Path) -> None:
    assert not imported_at_load(path) & HEAVY


@pytest.mark.parametrize("path", [p for p in SOURCES if "plots" in p.parts], ids=lambda p: p.name)
def test_plots_load_without_matplotlib(path: Path) -> None:
    assert "matplotlib" not in imported_at_load(path)


@pytest.mark.parametrize("script", ["demo", "docs-site", "test", ".ci/run"])
def test_scripts_can_be_run(script: str) -> None:
    assert os.access(ROOT / script, os.X_OK)
    assert "set -euo pipefail" in (ROOT / script).read_text(encoding="utf-8")


def test_continuous_integration_runs_what_people_run() -> None:
    lines = (ROOT / ".ci" / "run").read_text(encoding="utf-8").splitlines()
    assert lines[-1] == "./test"


def test_the_changelog_knows_this_version() -> None:
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert re.search(rf"^## \[{re.escape(mustdp.__version__)}\]", text, re.MULTILINE)
    assert "### Privacy" in text


def public_names() -> list[tuple[Path, str]]:
    """Every public name and the file that defines it, pictures included."""
    found = []
    for listed, above in (
        ("__init__.pyi", "mustdp"),
        ("types.pyi", "mustdp"),
        ("reproduction/__init__.pyi", "mustdp"),
        ("reporting/plots/__init__.py", "mustdp.reporting.plots"),
    ):
        tree = ast.parse((ROOT / "src" / "mustdp" / listed).read_text(encoding="utf-8"))
        for node in tree.body:
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(above + "."):
                path = ROOT / "src" / f"{str(node.module).replace('.', '/')}.py"
                if not path.exists():  # a package: ``plot``
                    continue
                found += [(path, alias.name) for alias in node.names]
    return found


@pytest.mark.parametrize(("path", "name"), public_names(), ids=lambda one: str(one).split("/")[-1])
def test_every_public_function_and_class_has_an_example(path: Path, name: str) -> None:
    """Doctests run what is shown; that something is shown is asked for here."""
    kinds = (ast.FunctionDef, ast.ClassDef)
    tree = ast.parse(path.read_text(encoding="utf-8"))
    defined = [one for one in tree.body if isinstance(one, kinds) and one.name == name]
    if not defined:  # a version, the name of a type, a theme
        assert name in {"Plan", "__version__", "LIGHT", "DARK"}
        return
    assert any(">>> " in (ast.get_docstring(one) or "") for one in defined)
