"""``mustdp reproduce``: judged cells, a report, and runs that can be broken off."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cli.running import Run, answer, check_refused, main
from tests.cli.test_progress import on_a_terminal
from tests.seams import reproduce_figure_3_and

pytest.importorskip("matplotlib")

FEW = "reproduce figure-3 figure-s2 --quick"


def test_every_cell_is_told(run: Run, tmp_path: Path) -> None:
    given = answer(run, f"{FEW} --out {tmp_path}/out")
    assert [item["item"] for item in given["items"]] == ["figure-3", "figure-s2"]
    assert (given["quick"], given["seed"]) == (True, 1)
    assert Path(given["report"]).read_text().startswith("<!DOCTYPE html>")
    cells = given["items"][1]["cells"]
    assert set(cells[0]) == {
        "table", "kind", "row", "column", "paper", "ours", "error", "verdict", "reason",
    }  # fmt: skip
    assert {cell["verdict"] for cell in cells} == {"matches", "differs, explained", "new"}
    assert all(cell["reason"] for cell in cells if cell["verdict"] == "differs, explained")
    assert {item["state"] for item in given["items"]} == {"computed"}
    again = answer(run, f"{FEW} --out {tmp_path}/out")
    assert {item["state"] for item in again["items"]} == {"kept"}
    assert again["items"][1]["cells"] == cells


def test_a_table(run: Run, tmp_path: Path) -> None:
    outcome = run(*shlex.split(f"{FEW} --out {tmp_path} --seed 7"))
    lines = outcome.out.splitlines()
    assert lines[0] == "arXiv 2312.13389, quick run, seed 7"
    assert lines[1].split() == [
        "item", "cells", "matches", "explained", "differs", "new", "seconds",
    ]  # fmt: skip
    assert lines[2].split()[:6] == ["figure-3", "64", "0", "0", "0", "64"]
    assert lines[-1] == f"report: {tmp_path}/report.html"
    assert outcome.err == ""


def test_a_damaged_result_is_told_on_standard_error(run: Run, tmp_path: Path) -> None:
    line = f"reproduce figure-3 --quick --out {tmp_path}"
    assert run(*shlex.split(line)).err == ""
    (tmp_path / "figure-3.json").write_text("{")
    outcome = run(*shlex.split(line))
    assert outcome.status == 0
    assert outcome.err.count("\n") == 1
    assert "figure-3.json was computed again: the file must be valid JSON" in outcome.err


def test_a_bar_on_a_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    terminal = on_a_terminal(monkeypatch)
    assert main(shlex.split(f"reproduce figure-3 --quick --json --out {tmp_path}")) == 0
    assert "figure-3" in terminal.getvalue() or "report" in terminal.getvalue()
    assert json.loads(capsys.readouterr().out)["items"][0]["state"] == "computed"


def interrupted(settings: Any, report: Any) -> Any:
    raise KeyboardInterrupt


def test_interrupted(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reproduce_figure_3_and(monkeypatch, "stops", "Stops", interrupted)
    out = tmp_path / "out"
    outcome = run("reproduce", "--quick", "--out", out)
    assert (outcome.status, outcome.out) == (130, "")
    assert [path.name for path in out.iterdir()] == ["figure-3.json"]


def test_data_items_are_skipped_by_name(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reproduce_figure_3_and(monkeypatch, "needy", "Needs data", interrupted, ("adult",))
    outcome = run("reproduce", "--quick", "--out", tmp_path)
    assert outcome.status == 0
    assert "needy needs the data set adult: skipped without --data." in outcome.out
    check_refused(run("reproduce", "needy", "--out", tmp_path / "b"), "--data is missing", "adult")
    given = answer(run, f"reproduce --quick --out {tmp_path}")
    assert (given["items"][1]["state"], given["items"][1]["cells"]) == ("skipped", [])


BAD = [
    ("reproduce figure-9", "ITEM must be one of table-s1", "'figure-9'"),
    ("reproduce figure-3 --seed -1", "--seed must", "-1"),
    ("reproduce figure-3 --seed 1.5", "--seed must", "1.5"),
    ("reproduce figure-3 --data /nowhere", "--data must be a folder", "/nowhere"),
    ("reproduce figure-3 --out {file}", "--out must be a folder", "file"),
    ("reproduce figure-3 --quack", "--quack"),
]


@pytest.mark.parametrize(("line", "named"), [(line, named) for line, *named in BAD])
@pytest.mark.parametrize("as_json", [[], ["--json"]])
def test_bad_input_is_refused_before_any_work(
    run: Run,
    line: str,
    named: list[str],
    as_json: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "file"
    file.write_text("")
    check_refused(run(*shlex.split(line.format(file="file")), *as_json), *named)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_loading_the_command_loads_nothing_heavy() -> None:
    import subprocess

    code = "import sys, mustdp.cli.main; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"numpy", "scipy", "matplotlib", "mustdp.reproduction"} & set(done.stdout.split())
