"""The walk from the command to the number, as ARCHITECTURE.md tells it."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_every_hop_of_the_walk_is_there() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    hops = re.findall(r"^\| (\d) \| `([\w/]+\.py)` \| `(\w+)` \|", text, re.MULTILINE)
    assert [int(number) for number, _, _ in hops] == list(range(1, 9))
    for _, file, name in hops:
        body = ast.parse((ROOT / "src" / "mustdp" / file).read_text(encoding="utf-8")).body
        defined = {node.name for node in body if isinstance(node, ast.FunctionDef | ast.ClassDef)}
        assert name in defined, f"{file} has no {name}"


def test_every_room_is_listed_once() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    table = text[text.index("| room | does |") : text.index("## The command line")]
    firsts = re.findall(r"^\| (`[^|]*`) \|", table, re.MULTILINE)
    listed = [name for first in firsts for name in re.findall(r"`(\w+)`", first)]
    house = ROOT / "src" / "mustdp"
    rooms = {each.stem for each in house.iterdir() if each.suffix == ".py" or each.is_dir()}
    assert sorted(listed) == sorted(rooms - {"__init__", "__pycache__", "version"})
