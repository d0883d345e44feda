"""``mustdp ledger``: a budget is made, shown, listed, verified and exported."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

import mustdp as md
from tests.cli.running import Outcome, Run, answer, check_refused, main
from tests.seams import replace_ledger_show

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

    replace_ledger_show(monkeypatch, charge)
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
        ("ledger sho {0}/none", ["ACTION must be one of create, declare, show", "sho"]),
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


@pytest.fixture
def people(tmp_path: Path) -> Path:
    path = tmp_path / "people.csv"
    path.write_text("age\n" + "\n".join(str(age) for age in range(100)) + "\n")
    return path


def release(run: Run, people: Path, ledger: Path, more: str = "") -> Outcome:
    given = f"release {people} --column age --lower 0 --upper 100 --ledger {ledger} {more}"
    return run(*given.split(), "--json")


def test_a_year_is_declared_and_drawn_release_by_release(
    run: Run, tmp_path: Path, people: Path
) -> None:
    path = tmp_path / "year.ledger"
    made = answer(run, f"ledger declare {path} --releases 3 --each 0.3 --delta 1e-6 --data census")
    step = md.gaussian(noise_multiplier=made["declared"]["noise_multiplier"])
    assert md.account(step).epsilon(1e-6).upper <= 0.3
    whole = md.account(md.repeat(3, step)).epsilon(1e-6).upper
    assert made["declared"] == {
        "steps": 3,
        "left": 3,
        "epsilon": pytest.approx(whole, rel=1e-9),
        "noise_multiplier": step.noise_multiplier,
    }
    assert whole <= made["limit"]["epsilon"] <= 1.002 * whole
    assert (made["program"], made["spent"]) == ("fixed", 0.0)
    for left, more in ((2, ""), (1, "--epsilon 0.3 --delta 1e-6"), (0, "--relation replace-one")):
        drawn = release(run, people, path, more)
        assert (drawn.status, drawn.err) == (0, "")
        privacy = json.loads(drawn.out)["privacy"]
        assert privacy["noise_multiplier"] == step.noise_multiplier
        assert privacy["delta"] == 1e-6
        shown = answer(run, f"ledger show {path}")
        assert shown["declared"]["left"] == left
    assert shown["spent"] == pytest.approx(whole, rel=1e-9)
    assert shown["spent"] < shown["adaptive"]
    over = release(run, people, path)
    assert (over.status, over.out) == (4, "")
    assert "0 steps of the declared plan are left" in over.err
    assert answer(run, f"ledger verify {path}")["entries"] == 3


def test_a_declaration_by_its_total_or_by_its_noise(run: Run, tmp_path: Path, people: Path) -> None:
    total = answer(run, f"ledger declare {tmp_path / 'a'} --releases 12 --epsilon 1 --delta 1e-6")
    assert total["limit"]["epsilon"] == 1.0
    assert 0.99 < total["declared"]["epsilon"] <= 1.0
    line = f"ledger declare {tmp_path / 'b'} --releases 2 --noise-multiplier 30 --delta 1e-6"
    noisy = answer(run, f"{line} --relation add-remove --epsilon 2")
    assert noisy["declared"]["noise_multiplier"] == 30.0
    assert (noisy["limit"]["epsilon"], noisy["relation"]) == (2.0, "add-remove")
    drawn = json.loads(release(run, people, tmp_path / "b").out)
    assert drawn["privacy"]["relation"] == "add-remove"
    refused = release(run, people, tmp_path / "b", "--noise-multiplier 29 --delta 1e-6")
    check_refused(refused, "relation must be that of the ledger")
    other = "--noise-multiplier 29 --delta 1e-6 --relation add-remove"
    check_refused(release(run, people, tmp_path / "b", other), "plan must go on in the plan")
    too_much = run(*f"{line.replace('/b', '/c')} --epsilon 0.01".split())
    assert (too_much.status, too_much.out) == (4, "")
    assert "the declared plan costs" in too_much.err
    assert not (tmp_path / "c").exists()


@pytest.mark.parametrize(
    ("line", "named"),
    [
        ("declare {0}/new --delta 1e-6 --each 0.3", ["--releases is missing"]),
        ("declare {0}/new --releases 3 --each 0.3", ["--delta is missing"]),
        ("declare {0}/new --releases 3 --delta 1e-6", ["--each or --noise-multiplier or"]),
        ("declare {0}/new --releases 0 --delta 1e-6 --each 0.3", ["--releases must be", "0"]),
        ("declare {0}/new --releases 3 --delta 1e-6 --each 0", ["--each must be", "0"]),
        ("declare {0}/new --releases 3 --delta 1e-6 --each nan", ["--each must be", "nan"]),
        (
            "declare {0}/new --releases 3 --delta 1e-6 --each 0.3 --noise-multiplier 2",
            ["--each and --noise-multiplier exclude each other"],
        ),
        ("declare {0}/new --releases 3 --delta 1e-6 --shift 1", ["--shift belongs to create"]),
        (
            "declare {0}/new --releases 3 --delta 1e-6 --each 1 --mechanism laplace",
            ["--mechanism must be gaussian", "laplace"],
        ),
        (
            "declare {0}/new --releases 3 --delta 1e-6 --each 1 --scheme wor -n 9 -m 3",
            ["a scheme belongs to create"],
        ),
        ("declare {0}/new --releases 3 --delta 1e-6 --each 1 --steps 2", ["--steps 2 belongs to"]),
        (
            "declare {0}/office.ledger --releases 3 --delta 1e-6 --each 1",
            ["FILE must not be there yet"],
        ),
        (
            "create {0}/new --epsilon 1 --delta 1e-6 --releases 3",
            ["--releases 3 belongs to declare"],
        ),
        ("show {0}/office.ledger --each 1", ["--each 1 belongs to declare"]),
    ],
)
def test_bad_declarations(run: Run, file: Path, line: str, named: list[str]) -> None:
    before = sorted(os.listdir(file.parent))
    check_refused(run("ledger", *line.format(file.parent).split()), *named)
    assert sorted(os.listdir(file.parent)) == before


def test_a_release_without_an_epsilon_needs_a_declaration(
    run: Run, file: Path, people: Path, tmp_path: Path
) -> None:
    check_refused(release(run, people, file), "--epsilon or --noise-multiplier is missing")
    check_refused(release(run, people, tmp_path / "none"), "--ledger must be", "ledger create")
    answer(run, f"ledger create {tmp_path / 'a'} --epsilon 2 --delta 1e-6 {PLAN}")
    check_refused(release(run, people, tmp_path / "a"), "releases on all records")
