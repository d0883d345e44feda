"""Every command and option is documented, and every documented example is true."""

from __future__ import annotations

import doctest
import json
import re
import shlex
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
import typer

from mustdp.cli.main import app
from tests.cli.running import Run

ROOT = Path(__file__).parents[2]
REFERENCE = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")
GROUP: Any = typer.main.get_command(app)


def examples() -> Iterator[tuple[str, str]]:
    """Commands and their outputs in the console blocks of the documentation."""
    for document in (ROOT / "README.md", ROOT / "docs" / "cli.md"):
        text = document.read_text(encoding="utf-8")
        for block in re.findall(r"```console\n(.*?)```", text, flags=re.DOTALL):
            for example in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
                command, _, output = example.partition("\n")
                yield command, output


@pytest.mark.parametrize("name", sorted(GROUP.commands))
def test_every_command_has_its_section(name: str) -> None:
    assert f"## mustdp {name}\n" in REFERENCE
    assert GROUP.commands[name].help


@pytest.mark.parametrize("name", sorted(GROUP.commands))
def test_every_option_is_named_and_explained(name: str) -> None:
    for parameter in GROUP.commands[name].params:
        assert parameter.help, parameter.opts
        for option in parameter.opts:
            assert re.search(
                rf"`{re.escape(option)}\b|[ \[(]{re.escape(option)}[\] ]", REFERENCE
            ), option


def test_no_section_without_a_command() -> None:
    assert set(re.findall(r"^## mustdp (\S+)$", REFERENCE, re.MULTILINE)) == set(GROUP.commands)


@pytest.mark.parametrize(("command", "output"), list(examples()))
def test_documented_output_is_the_real_output(run: Run, command: str, output: str) -> None:
    program, *arguments = shlex.split(command)
    assert program == "mustdp"
    outcome = run(*arguments)
    assert outcome.status == 0
    if "--json" not in arguments:
        assert_same_words(outcome.out, output)
    elif arguments[0] in ("amplify", "draw"):
        assert_alike(json.loads(outcome.out), json.loads(output), rel=1e-9)
    else:
        assert_alike(json.loads(outcome.out), json.loads(output), rel=0.01)


def assert_same_words(ours: str, documented: str) -> None:
    """Equal line by line, numbers up to one in the last digit shown."""
    assert len(ours.splitlines()) == len(documented.splitlines())
    for line, shown in zip(ours.splitlines(), documented.splitlines(), strict=True):
        for word, expected in zip(line.split(), shown.split(), strict=True):
            if word != expected:
                digit = 10 ** int(Decimal(expected).as_tuple().exponent)
                assert abs(Decimal(word) - Decimal(expected)) <= digit, shown


def assert_alike(ours: Any, documented: Any, rel: float) -> None:
    """Equal, floats as far as a platform or a finer grid does not decide them."""
    if isinstance(documented, dict):
        assert list(ours) == list(documented)
        for key in documented.keys() - {"numerical_gap"}:
            assert_alike(ours[key], documented[key], rel)
    elif isinstance(documented, list):
        assert len(ours) == len(documented)
        for mine, theirs in zip(ours, documented, strict=True):
            assert_alike(mine, theirs, rel)
    elif isinstance(documented, float):
        assert ours == pytest.approx(documented, rel=rel, abs=0)
    else:
        assert ours == documented


def test_the_readme_begins_with_examples_that_are_checked() -> None:
    documented = [command for command, _ in examples()]
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    for name in ("account", "compare", "calibrate"):
        assert f"$ mustdp {name}" in text
        assert any(command.startswith(f"mustdp {name} ") for command in documented)


def test_python_examples_in_the_readme() -> None:
    done = doctest.testfile(str(ROOT / "README.md"), module_relative=False)
    assert done.attempted > 5
    assert done.failed == 0


def test_links_in_the_documents_lead_somewhere() -> None:
    for document in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]:
        for target in re.findall(r"\]\(([^)#]+)\)", document.read_text(encoding="utf-8")):
            if "://" not in target:
                assert (document.parent / target).exists(), f"{document.name}: {target}"
