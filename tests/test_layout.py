"""ARCHITECTURE.md names files, functions and packages that exist."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")


def test_every_step_to_a_certified_number_exists() -> None:
    steps = re.findall(r"^\| (\d) \| `([\w/]+\.py)` \| `(\w+)` \|", TEXT, re.MULTILINE)
    assert [int(number) for number, _, _ in steps] == list(range(1, 8))
    for _, file, name in steps:
        body = ast.parse((ROOT / "src" / "mustdp" / file).read_text(encoding="utf-8")).body
        defined = {node.name for node in body if isinstance(node, ast.FunctionDef | ast.ClassDef)}
        assert name in defined, f"{file} has no {name}"


def test_every_file_named_exists() -> None:
    for file in re.findall(r"`((?:\w+/)+\w+\.(?:py|pyi))`", TEXT):
        path = file.removeprefix("mustdp/")
        assert (ROOT / "src" / "mustdp" / path).is_file(), file


def test_every_package_is_listed_once() -> None:
    table = TEXT[TEXT.index("| package |") : TEXT.index("Where to look for what")]
    firsts = re.findall(r"^\| (`[^|]*`) \|", table, re.MULTILINE)
    listed = [name for first in firsts for name in re.findall(r"`(\w+)`", first)]
    package = ROOT / "src" / "mustdp"
    present = {each.stem for each in package.iterdir() if each.suffix == ".py" or each.is_dir()}
    assert sorted(listed) == sorted(
        present - {"__init__", "__pycache__", "version", "_version", "types", "lazy"}
    )
