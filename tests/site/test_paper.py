"""The tables of the manuscript are what its script has computed, and that can be repeated."""

from __future__ import annotations

import json
import math
import re
import runpy
from pathlib import Path
from typing import Any

import pytest

import mustdp as md

PAPER = Path(__file__).parents[2] / "docs" / "paper"
TEXT = (PAPER / "manuscript.md").read_text(encoding="utf-8")


def computed(name: str) -> Any:
    return json.loads((PAPER / f"{name}.json").read_text(encoding="utf-8"))


def test_the_table_of_clones() -> None:
    found = computed("clones")
    rows = re.findall(r"^\| ([\d.]+) \| (.+) \|$", TEXT, re.MULTILINE)
    rows = [row for row in rows if f"{float(row[0])}, replace_one" in found]
    assert len(rows) == len(found) / 2
    for z, cells in rows:
        shown = [math.inf if cell == "-" else float(cell) for cell in cells.split(" | ")]
        for side, three in (("replace_one", shown[:3]), ("add_remove", shown[3:])):
            one = found[f"{float(z)}, {side}"]
            assert three[0] <= one["attained"] <= three[0] + 1e-3
            assert three[1] - 1e-3 <= one["7 and 8"] <= three[1]
            assert one["9"] is None or three[2] - 1e-3 <= one["9"] <= three[2]
            assert one["attained"] < min(one["7 and 8"], one["9"] or math.inf)


def test_the_table_of_schemes() -> None:
    found = computed("must")
    for name, scheme in (("MUSTow", "must_ow"), ("MUSTww", "must_ww")):
        listed = re.findall(r"^\| ?(\w*) \| (\d+) \| ([\d.]+) \| (\d+) \|$", TEXT, re.MULTILINE)
        start = next(i for i, row in enumerate(listed) if row[0] == name)
        for _, b, noise, distinct in listed[start : start + 3]:
            where = list(zip(found["b"], found["scheme"], strict=True)).index((int(b), scheme))
            assert float(noise) == pytest.approx(found["noise"][where], abs=5e-4)
            assert float(distinct) == pytest.approx(found["distinct"][where], abs=0.5)


def test_the_numbers_below_the_picture_of_families() -> None:
    found = computed("families")
    said = TEXT.split("(`python docs/paper/figures.py families`). ")[1].splitlines()[0]
    for steps, one_pair, family, attained in re.findall(
        r"(\d+)(?: steps)?: ([\d.]+), ([\d.]+) and ([\d.]+\d)", said
    ):
        at = found["steps"].index(int(steps))
        assert float(one_pair) - 1e-3 <= found["one pair"][at] <= float(one_pair)
        assert float(family) - 1e-3 <= found["family"][at] <= float(family)
        assert float(attained) <= found["attained"][at] <= float(attained) + 1e-3
    assert said.count(": ") == 2


def test_what_the_figures_show_is_computed_again() -> None:
    module = runpy.run_path(str(PAPER / "figures.py"))
    drawn = computed("allocation")
    allocated = module["steps_of"](md.random_allocation(60_000, 1000), 4.0, 1)
    lower, upper = module["epsilon"](allocated, 1e-6, relation="replace_one")
    place = drawn["noise multiplier"].index(4.0)
    assert drawn["allocation, attained"][place] == pytest.approx(lower, rel=2e-3)
    assert drawn["allocation, certified"][place] == pytest.approx(upper, rel=2e-3)
    assert module["hockey_stick"](0.5, 2.0) == pytest.approx(
        float(md.gaussian(shift=0.5).delta([math.log(2.0)])[0]), rel=1e-9
    )
