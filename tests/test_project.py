"""Rules of the project: import layers, scripts, version and changelog."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
import tomllib
from importlib.util import find_spec
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement

import mustdp
from tests.seams import extras as told

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


@pytest.mark.parametrize(
    "script", ["demo", "docs-site", "test", ".ci/run", ".ci/lock", ".ci/actionlint"]
)
def test_scripts_can_be_run(script: str) -> None:
    assert os.access(ROOT / script, os.X_OK)
    assert "set -euo pipefail" in (ROOT / script).read_text(encoding="utf-8")


def test_continuous_integration_runs_what_people_run() -> None:
    lines = (ROOT / ".ci" / "run").read_text(encoding="utf-8").splitlines()
    assert lines[-1] == "./test"


PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PROJECT = PYPROJECT["project"]
RELEASED = PYPROJECT["tool"]["hatch"]["version"]["fallback-version"]


def test_the_changelog_knows_the_last_version() -> None:
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert re.search(rf"^## \[{re.escape(RELEASED)}\]", text, re.MULTILINE)
    assert "### Privacy" in text


def test_the_version_without_tags_is_the_last_one() -> None:
    source = (ROOT / "src" / "mustdp" / "version.py").read_text(encoding="utf-8")
    assert f'__version__ = "{RELEASED}"' in source
    now, last = (
        [int(part) for part in one.split(".")[:3]] for one in (mustdp.__version__, RELEASED)
    )
    # A build between two tags is a development version of the next one.
    assert now > last if ".dev" in mustdp.__version__ else now == last


WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


def packages_of(requirements: list[str]) -> set[str]:
    names = (re.match(r"[\w-]+", one) for one in requirements)
    return {found[0].lower().replace("_", "-") for found in names if found}


def test_every_extra_that_is_told_of_brings_its_packages() -> None:
    """``extras.py`` is what messages and the doctor say; pyproject.toml is what pip installs."""
    declared = PROJECT["optional-dependencies"]
    other = {
        "sklearn": "scikit-learn",
        "dp_accounting": "dp-accounting",
        "jax_privacy": "jax-privacy",
        "yaml": "pyyaml",
        "distributed": "dask",
        "markupsafe": "jinja2",
    }
    for extra, (purpose, packages) in told().items():
        assert purpose
        assert {other.get(one, one) for one in packages} <= packages_of(declared[extra]), extra


def test_the_lock_file_has_all_that_is_needed() -> None:
    """At a version that is allowed; torch is chosen by the machine (``.ci/lock``)."""
    lock = tomllib.loads((ROOT / "pylock.toml").read_text(encoding="utf-8"))
    locked = {one["name"]: one.get("version", "") for one in lock["packages"]}
    extras = PROJECT["optional-dependencies"]
    needed = [*PROJECT["dependencies"], *extras["dev"]]
    needed += [
        each for name in ("plots", "files", "parallel", "dask", "site") for each in extras[name]
    ]
    for one in map(Requirement, needed):
        if one.name not in ("torch", "mustdp"):
            assert locked[one.name.lower().replace("_", "-")] in one.specifier, one
    assert "torch" not in locked
    for one in lock["packages"]:
        assert one["wheels"], one["name"]
        assert all(wheel["hashes"]["sha256"] for wheel in one["wheels"])
        assert all(
            wheel["url"].startswith("https://files.pythonhosted.org/") for wheel in one["wheels"]
        )


def test_minimum_versions_are_below_locked_ones() -> None:
    done = subprocess.run(
        [sys.executable, ".ci/minimum.py"], cwd=ROOT, capture_output=True, encoding="utf-8"
    )
    assert done.returncode == 0, done.stderr
    pinned = dict(line.split("==") for line in done.stdout.splitlines())
    assert packages_of(PROJECT["dependencies"]) <= pinned.keys()
    assert "torch" not in pinned


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_workflows_call_what_people_run(path: Path) -> None:
    workflow = yaml.safe_load(path.read_text(encoding="utf-8"))
    assert workflow["permissions"] == {"contents": "read"}
    steps = [step for job in workflow["jobs"].values() for step in job["steps"]]
    runs = [step["run"] for step in steps if "run" in step]
    assert "./test" in runs
    for run in runs:
        script = run.split()[0]
        assert not script.startswith("./") or os.access(ROOT / script, os.X_OK), run
    for job in workflow["jobs"].values():
        assert job["timeout-minutes"] <= 60
    assert all(re.fullmatch(r"[\w./-]+@[\w./-]+", step["uses"]) for step in steps if "uses" in step)


def test_every_python_that_is_supported_is_tested() -> None:
    workflow = yaml.safe_load((ROOT / ".github/workflows/test.yml").read_text(encoding="utf-8"))
    tested = workflow["jobs"]["everything"]["strategy"]["matrix"]["python"]
    named = re.findall(r"Python :: (3\.\d+)", "\n".join(PROJECT["classifiers"]))
    assert tested == named


def test_lanes_of_the_workflow_are_lanes_of_the_script() -> None:
    workflow = yaml.safe_load((ROOT / ".github/workflows/test.yml").read_text(encoding="utf-8"))
    script = (ROOT / "test").read_text(encoding="utf-8")
    for lane in workflow["jobs"]["lanes"]["strategy"]["matrix"]["lane"]:
        assert f"#   ./test {lane} " in script
        assert f"    {lane})" in script


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_workflows_follow_the_schema(path: Path) -> None:
    if find_spec("check_jsonschema") is None:
        pytest.skip("check-jsonschema is not installed")
    schema = ["--builtin-schema", "vendor.github-workflows"]
    command = [sys.executable, "-m", "check_jsonschema", *schema, str(path)]
    done = subprocess.run(command, capture_output=True, encoding="utf-8")
    assert done.returncode == 0, done.stdout


def test_actionlint_finds_nothing_in_workflows(tmp_path: Path) -> None:
    """And finds what is wrong: a matrix without that name, a machine that does not exist."""

    def lint(*paths: Path) -> subprocess.CompletedProcess[str]:
        command = [str(ROOT / ".ci" / "actionlint"), *map(str, paths)]
        return subprocess.run(command, capture_output=True, encoding="utf-8")

    done = lint(*WORKFLOWS)
    if done.returncode == 77:
        pytest.skip(done.stderr.strip())
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    planted = tmp_path / ".github" / "workflows" / "test.yml"
    planted.parent.mkdir(parents=True)
    right = (ROOT / ".github" / "workflows" / "test.yml").read_text(encoding="utf-8")
    for good, bad in (("matrix.lane }}", "matrix.lan }}"), ("ubuntu-latest", "ubuntu-last")):
        planted.write_text(right.replace(good, bad), encoding="utf-8")
        done = lint(planted)
        assert done.returncode == 1, done.stderr
        assert bad.removesuffix(" }}").removeprefix("matrix.") in done.stdout


def public_names() -> list[tuple[Path, str]]:
    """Every public name and the file that defines it, pictures included."""
    found = []
    for listed, above in (
        ("__init__.pyi", "mustdp"),
        ("types.pyi", "mustdp"),
        ("calibration/__init__.pyi", "mustdp"),
        ("estimation/__init__.pyi", "mustdp"),
        ("data/__init__.pyi", "mustdp"),
        ("training/__init__.pyi", "mustdp"),
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
