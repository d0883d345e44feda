"""Every command and option is documented, and every documented example is true."""

from __future__ import annotations

import doctest
import json
import re
import shlex
from collections.abc import Iterator
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
    if "--json" in arguments:
        assert_alike(json.loads(outcome.out), json.loads(output))
    else:
        assert outcome.out == output


def assert_alike(ours: Any, documented: Any) -> None:
    """Equal, floats up to the last digits that a platform may decide."""
    if isinstance(documented, dict):
        assert list(ours) == list(documented)
        for key in documented:
            assert_alike(ours[key], documented[key])
    elif isinstance(documented, list):
        assert len(ours) == len(documented)
        for mine, theirs in zip(ours, documented, strict=True):
            assert_alike(mine, theirs)
    elif isinstance(documented, float):
        assert ours == pytest.approx(documented, rel=1e-9, abs=0)
    else:
        assert ours == documented


def test_the_readme_has_an_example() -> None:
    assert "$ mustdp amplify" in (ROOT / "README.md").read_text(encoding="utf-8")


def test_python_examples_in_the_readme() -> None:
    done = doctest.testfile(str(ROOT / "README.md"), module_relative=False)
    assert done.attempted > 5
    assert done.failed == 0


def test_links_in_the_documents_lead_somewhere() -> None:
    for document in [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")]:
        for target in re.findall(r"\]\(([^)#]+)\)", document.read_text(encoding="utf-8")):
            if "://" not in target:
                assert (document.parent / target).exists(), f"{document.name}: {target}"
