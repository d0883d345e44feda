"""The notebooks run from top to bottom, in one namespace each, without Jupyter."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

FOLDER = Path(__file__).parents[2] / "docs" / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
#: What must be so in the end, by the names that the cells leave behind.
HOLDS = {
    "account-a-run": lambda names: (
        names["bounds"].lower <= names["bounds"].upper <= names["bounds"].lower * 1.15
        and 0.01 < names["found"] < 0.5
    ),
    "train": lambda names: names["accuracy"] > 0.7 and names["spent"].upper <= 8,
    "publish": lambda names: 1.8 < names["left"] < 2.05 and len(names["result"].estimates) == 6,
}


def cells(path: Path) -> list[dict[str, Any]]:
    notebook = json.loads(path.read_text(encoding="utf-8"))
    assert (notebook["nbformat"], notebook["nbformat_minor"]) == (4, 5)
    found: list[dict[str, Any]] = notebook["cells"]
    return found


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_every_notebook_runs(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, Any] = {"__name__": "__main__"}
    for number, cell in enumerate(cells(path)):
        if cell["cell_type"] == "code":
            code = compile("".join(cell["source"]), f"{path.name}, cell {number}", "exec")
            exec(code, names)
    holds: Any = HOLDS[path.stem]
    assert holds(names)
    assert capsys.readouterr().out


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebooks_are_stored_without_outputs(path: Path) -> None:
    """What a notebook printed on one machine is no document of what it prints on another."""
    found = cells(path)
    assert len({cell["id"] for cell in found}) == len(found)
    for cell in found:
        if cell["cell_type"] == "code":
            assert cell["outputs"] == []
            assert cell["execution_count"] is None
    assert found[0]["cell_type"] == "markdown"


def test_there_are_three() -> None:
    assert {path.stem for path in NOTEBOOKS} == HOLDS.keys()
