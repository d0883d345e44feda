"""``mustdp ledger``: a budget is made, shown, listed, verified and exported."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

import mustdp as md
from mustdp.cli.main import main
from tests.cli.running import Run, answer, check_refused

LIMIT = "--epsilon 4 --delta 1e-6"
PLAN = "--scheme wor -n 1000 -m 20 --noise-multiplier 2 --steps 50"


@pytest.fixture
def file(tmp_path: Path, run: Run) -> Path:
    path = tmp_path / "office.ledger"
    answer(run, f"ledger create {path} {LIMIT} --data census")
    with md.Ledger.open(path, who="ada") as ledger:
        ledger.charge(md.laplace(shift=1.0), label="first")
        ledger.charge(md.laplace(shift=0.5), label="second", times=2)
    return path


def test_create_and_show(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "a"
    made = answer(run, f"ledger create {path} {LIMIT} --relation add-remove")
    assert made == answer(run, f"ledger show {path}")
    assert made["limit"] == {"epsilon": 4.0, "delta": 1e-6}
    assert (made["data"], made["relation"], made["program"]) == ("a", "add-remove", "adaptive")
    assert (made["spent"], made["left"], made["entries"]) == (0.0, 4.0, 0)


def test_a_page_for_people(run: Run, file: Path) -> None:
    shown = run("ledger", "show", file)
    assert shown.status == 0
    lines = shown.out.splitlines()
    assert lines[0] == "census: 2.00 spent and 2.00 left of epsilon 4 at delta 1e-06"
    assert lines[1] == f"[{'#' * 20}{'.' * 20}]"
    assert lines[3].split()[1:3] == ["2", "2.00"]
    assert "(enforced)" in lines[4]
    assert lines[4].startswith("adaptive: 2.00")
    assert lines[5].startswith("fixed: ")
    assert "2 charges, 3 steps" in lines[6]
    given = answer(run, f"ledger show {file}")
    assert given["spent"] + given["left"] == pytest.approx(4.0)
    assert [day["charges"] for day in given["timeline"]] == [2]


def test_entries(run: Run, file: Path) -> None:
    given = answer(run, f"ledger entries {file}")
    assert [entry["label"] for entry in given["entries"]] == ["first", "second"]
    assert given["entries"][1]["plan"] == {"mechanism": "laplace", "shift": 0.5}
    assert given["spent"] == given["entries"][1]["epsilon"]
    assert "ada" in run("ledger", "entries", file).out


def test_verify_and_export(run: Run, file: Path, tmp_path: Path) -> None:
    first = answer(run, f"ledger verify {file}")
    assert (first["verified"], first["entries"]) == (True, 2)
    assert answer(run, f"ledger verify {file} --known {first['hash']}") == first
    check_refused(run("ledger", "verify", file, "--known", "00"), "older state")
    for kind in ("json", "csv"):
        out = tmp_path / f"export.{kind}"
        given = answer(run, f"ledger export {file} --out {out}")
        assert given == {"written": str(out), "format": kind, "entries": 2}
        assert "second" in out.read_text()
    assert json.loads((tmp_path / "export.json").read_text())["data"] == "census"
    check_refused(run("ledger", "export", file, "--out", tmp_path / "x.txt"), "--out", ".csv")
    check_refused(run("ledger", "export", file), "--out", "nothing")


def test_a_declared_plan(run: Run, tmp_path: Path) -> None:
    given = answer(run, f"ledger create {tmp_path / 'a'} --epsilon 2 --delta 1e-6 {PLAN}")
    assert given["program"] == "fixed"
    step = md.subsample(md.wor(1000, 20), md.gaussian(noise_multiplier=2.0))
    with md.Ledger.open(tmp_path / "a") as ledger:
        ledger.charge(step, times=50)
    shown = run("ledger", "show", tmp_path / "a").out
    assert "for comparison" in shown.splitlines()[4]
    refused = run(*f"ledger create {tmp_path / 'b'} --epsilon 0.1 --delta 1e-6 {PLAN}".split())
    assert (refused.status, refused.out) == (4, "")
    assert "the declared plan costs" in refused.err
    assert not (tmp_path / "b").exists()


def test_a_budget_that_would_be_exceeded_has_its_own_status(
    file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def charge(*given: object, **named: object) -> object:
        with md.Ledger.open(file) as ledger:
            return ledger.charge(md.laplace(shift=3.0))

    monkeypatch.setattr("mustdp.cli.ledger._show", charge)
    assert main(["ledger", "show", str(file)]) == 4
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.count("\n") == 1
    assert "the budget of census would be exceeded" in shown.err


def test_keys(run: Run, tmp_path: Path) -> None:
    key, path = tmp_path / "key", tmp_path / "a"
    key.write_bytes(os.urandom(32))
    answer(run, f"ledger create {path} {LIMIT} --key-file {key}")
    answer(run, f"ledger verify {path} --key-file {key}")
    check_refused(run("ledger", "show", path), "--key-file must be")
    check_refused(run("ledger", "show", path, "--key-file", tmp_path / "none"), "--key-file")


@pytest.mark.parametrize(
    ("line", "named"),
    [
        ("ledger show {0}/none", ["FILE must be a ledger that is there"]),
        ("ledger sho {0}/none", ["ACTION must be one of create, show", "sho"]),
        ("ledger create {0}/new --epsilon 1", ["--delta is missing"]),
        ("ledger create {0}/new --epsilon 0 --delta 1e-6", ["--epsilon must be", "0"]),
        ("ledger create {0}/new --epsilon nan --delta 1e-6", ["--epsilon must be", "nan"]),
        ("ledger create {0}/new --epsilon 1 --delta 2", ["--delta must be", "2"]),
        ("ledger create {0}/new --epsilon 1 --delta 1e-6 --steps 3", ["--scheme is missing"]),
        ("ledger create {0}/office.ledger --epsilon 1 --delta 1e-6", ["must not be there yet"]),
        ("ledger show {0}/office.ledger --epsilon 1", ["--epsilon 1 belongs to create"]),
        ("ledger show {0}/office.ledger --steps 1", ["--steps 1 belongs to create"]),
        ("ledger show {0}/office.ledger --scheme wor", ["belong to create"]),
    ],
)
def test_bad_input(run: Run, file: Path, line: str, named: list[str]) -> None:
    before = sorted(os.listdir(file.parent))
    check_refused(run(*line.format(file.parent).split()), *named)
    assert sorted(os.listdir(file.parent)) == before
