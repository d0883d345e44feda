"""Every command on the pages is run, in the order of its page, and prints what the page shows.

The pages on the command line and on the statistical office have tests of their own (tests/cli).
"""

from __future__ import annotations

import contextlib
import doctest
import io
import json
import re
import shlex
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.cli.running import Run, runner
from tests.site.documented import (
    DOCS,
    ROOT,
    assert_same_shape,
    assert_same_words,
    examples,
)

pytestmark = pytest.mark.usefixtures("remembered_accounts")

#: Checked by tests/cli/test_documented.py and test_office.py.
ELSEWHERE = {DOCS / "cli.md", DOCS / "office.md"}
PAGES = sorted(path for path in DOCS.rglob("*.md") if path not in ELSEWHERE and [*examples(path)])
OWN_FILE = ROOT / "examples" / "people.csv"


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    return runner(capsys)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_command_of_a_page(
    run: Run, page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copy(OWN_FILE, tmp_path)
    for command, output, kind in examples(page):
        program, *arguments = shlex.split(command)
        assert program == "mustdp"
        outcome = run(*arguments)
        if kind == "refused":
            assert outcome.status in (2, 3, 4), command
            assert outcome.out == ""
            assert_same_shape(outcome.err.replace(str(tmp_path), "/home/you"), output)
        else:
            assert outcome.status == 0, f"{command}: {outcome.err}"
            (assert_same_shape if kind == "noisy" else assert_same_words)(outcome.out, output)


def test_the_tutorials_are_here() -> None:
    assert {"account", "publish", "choosing", "troubleshooting"} <= {page.stem for page in PAGES}


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_the_training_tutorial(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All of its Python in one go, and what it prints, noise aside."""
    pytest.importorskip("torch")
    pytest.importorskip("sklearn")
    monkeypatch.chdir(tmp_path)
    text = (DOCS / "tutorials" / "train.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```\n(?:\n((?:    [^\n]*\n)+))?", text, re.DOTALL)
    assert len(blocks) >= 6
    names: dict[str, object] = {}
    for code, shown in blocks:
        with contextlib.redirect_stdout(io.StringIO()) as out:
            exec(compile(code, "train.md", "exec"), names)
        assert_same_shape(out.getvalue(), shown)


def test_the_table_of_guarantees(run: Run) -> None:
    text = (DOCS / "which-guarantee.md").read_text(encoding="utf-8")
    assert "`mustdp account --noise-multiplier 2 --delta 1e-6` and" in text
    rows = re.findall(r"^\| ([A-G]) \|.*?`(--scheme.*?)` \| (\S+) \| (\S+) \|$", text, re.MULTILINE)
    letters = [row[0] for row in rows]
    assert letters == list("ABCDEFG")
    assert re.findall(r"\.{3,} ([A-G])  \w", text) == letters  # the tree
    assert sorted(re.findall(r"\*\*([A-G])\*\*", text)) == letters  # the questions
    for _, options, lower, upper in rows:
        line = f"account --noise-multiplier 2 --delta 1e-6 {options} --json"
        answer = json.loads(run(*line.split()).out)
        assert answer["relation"] == "replace-one"
        assert answer["epsilon"]["lower"] == pytest.approx(float(lower), rel=0.01)
        assert answer["epsilon"]["upper"] == pytest.approx(float(upper), rel=0.01)


@pytest.mark.parametrize(
    "page",
    ["reading-bounds.md", "which-sampling.md", "choosing.md", "auditing.md", "releasing.md"],
)
def test_python_sessions(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if page == "auditing.md" and find_spec("torch") is None:
        pytest.skip("torch is not installed")
    monkeypatch.chdir(tmp_path)
    shutil.copy(OWN_FILE, tmp_path)
    done = doctest.testfile(str(DOCS / page), module_relative=False)
    assert done.attempted >= 2
    assert done.failed == 0


def test_spelling() -> None:
    if find_spec("codespell_lib") is None:
        pytest.skip("codespell is not installed")
    pages = [
        *ROOT.glob("*.md"),
        *DOCS.rglob("*.md"),
        ROOT / "src",
        ROOT / "benchmarks" / "README.md",
    ]
    done = subprocess.run(
        [sys.executable, "-m", "codespell_lib", *map(str, pages)],
        cwd=ROOT, capture_output=True, encoding="utf-8", check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, ""), done.stderr


def test_prose_spells_relations_with_hyphens() -> None:
    """Python has underscores; tables that programs write have what the programs have."""
    written = {"dp-accounting-tests.md", "deployments.md"}
    for page in [*ROOT.glob("*.md"), *DOCS.rglob("*.md")]:
        if page.name not in written and page.name != "CHANGELOG.md":
            text = re.sub(r"^ *```.*?^ *```$", "", page.read_text("utf-8"), flags=re.M | re.S)
            prose = [line for line in text.splitlines() if not line.startswith(("    ", "| "))]
            left = re.sub(r"`[^`]*`", "", "\n".join(prose))
            assert not re.findall(r"replace_one|add_remove", left), page


def test_comparisons_would_notice() -> None:
    assert_same_shape("mean 3.4 [1.0, 2]", "mean 3.7 [0.5, 2.25]")
    with pytest.raises(AssertionError):
        assert_same_shape("mean 3.4", "median 3.4")
    assert_same_words("epsilon 1.31", "epsilon 1.32")
    with pytest.raises(AssertionError):
        assert_same_words("epsilon 1.31", "epsilon 1.33")
