"""``mustdp compare``: all schemes at the same guarantee or at the same noise."""

from __future__ import annotations

import shlex
from typing import Any

import pytest

import mustdp as md
from tests.cli.running import Run, answer, check_refused

SIZES = "compare -n 80 -b 20 -m 4 --steps 3 --delta 1e-5"
ALL = ["poisson", "wor", "wr", "must-ow", "must-ww", "must-wo", "must-oo"]


def by_name(given: Any) -> dict[str, Any]:
    return {row["scheme"]: row for row in given["rows"]}


def test_the_same_guarantee(run: Run) -> None:
    given = answer(run, f"{SIZES} --epsilon 1")
    rows = by_name(given)
    assert list(rows) == ALL
    assert given["left_out"] == []
    assert (given["relation"], given["steps"], given["delta"]) == ("replace-one", 3, 1e-5)
    for row in given["rows"]:
        assert {"scheme", "eta", "expected_distinct", "noise_multiplier", "epsilon"} <= set(row)
        assert set(row["epsilon"]) == {"lower", "upper"}
        assert row["epsilon"]["lower"] <= row["epsilon"]["upper"] <= 1.0
        assert row["expected_distinct"] == 80 * row["eta"]
    found = md.calibrate(md.wor(80, 4), epsilon=1.0, delta=1e-5, steps=3)
    assert rows["wor"]["noise_multiplier"] == found.noise_multiplier
    assert rows["must-wo"]["noise_multiplier"] == rows["wr"]["noise_multiplier"]
    assert rows["must-oo"]["noise_multiplier"] == rows["wor"]["noise_multiplier"]
    assert rows["must-ow"]["noise_multiplier"] > rows["wor"]["noise_multiplier"]


@pytest.mark.parametrize("relation", ["replace-one", "add-remove"])
def test_the_same_noise(run: Run, relation: str) -> None:
    given = answer(run, f"{SIZES} --noise-multiplier 2 --relation {relation}")
    assert given["relation"] == relation
    for row in given["rows"]:
        assert row["noise_multiplier"] == 2.0
    wor = answer(
        run,
        "account --scheme wor -n 80 -m 4 --steps 3 --delta 1e-5 --noise-multiplier 2 "
        f"--relation {relation}",
    )
    assert by_name(given)["wor"]["epsilon"] == wor["epsilon"]
    # Epochs have a row each where nothing has to be searched for, unless they are not wanted.
    assert list(by_name(given)) == [*ALL, "allocation", "shuffle"]
    allocated = by_name(given)["allocation"]["epsilon"]
    assert allocated["upper"] < by_name(given)["shuffle"]["epsilon"]["upper"]
    line = f"{SIZES} --noise-multiplier 2 --relation {relation} --without-epochs"
    assert list(by_name(answer(run, line))) == ALL
    line = f"{SIZES} --noise-multiplier 2 --relation {relation} --mechanism laplace"
    assert list(by_name(answer(run, line))) == ALL


def test_schemes_that_do_not_exist_are_named(run: Run) -> None:
    line = "compare -n 8 -b 4 -m 10 --steps 2 --delta 1e-2 --noise-multiplier 20"
    given = answer(run, line)
    assert list(by_name(given)) == ["wr", "must-ow", "must-ww"]
    assert given["left_out"] == ["poisson", "wor", "must-wo", "must-oo"]
    assert "Left out: poisson, wor, must-wo, must-oo" in run(*shlex.split(line)).out


def test_the_table_says_what_it_shows(run: Run) -> None:
    text = run(*shlex.split(f"{SIZES} --noise-multiplier 2.1")).out
    heading, columns, *rows = text.splitlines()
    assert "relation replace-one" in heading
    assert "the same noise" in heading
    assert columns.split()[:4] == ["scheme", "eta", "distinct", "noise"]
    assert [row.split()[0] for row in rows[:7]] == ALL
    assert {row.split()[3] for row in rows[:7]} == {"2.1"}
    assert "certified" in text
    assert "attained" in text


def test_the_package_reports_its_progress() -> None:
    begun: list[tuple[object, ...]] = []

    def note(*said: object) -> None:
        begun.append(said)

    md.compare(n=8, b=4, m=2, steps=1, delta=0.1, noise_multiplier=9.0, progress=note)
    # Schemes of the same law (must-wo, must-oo) are computed once.
    named = [*ALL[:5], "allocation", "shuffle"]
    assert begun == [(name, done, len(named)) for done, name in enumerate(named)]


@pytest.mark.parametrize(
    ("line", "named"),
    [
        ("-n 9 -b 4 -m 2 --steps 1 --delta 0.1", ("--epsilon or --noise-multiplier is missing",)),
        (
            "-n 9 -b 4 -m 2 --steps 1 --delta 0.1 --epsilon 1 --noise-multiplier 2",
            ("--epsilon and --noise-multiplier exclude",),
        ),
        ("-n 9 -b 14 -m 2 --steps 1 --delta 0.1 --epsilon 1", ("-b must", "9", "got 14")),
        ("-n 9 -b 0 -m 2 --steps 1 --delta 0.1 --epsilon 1", ("-b must", "got 0")),
        ("-n 9 -m 2 --steps 1 --delta 0.1 --epsilon 1", ("-b is missing", "-n, -b and -m")),
        ("-n 9 -b 4 --steps 1 --delta 0.1 --epsilon 1", ("-m is missing",)),
        ("-b 4 -m 2 --steps 1 --delta 0.1 --epsilon 1", ("-n is missing",)),
        ("-n 9 -b 4 -m x --steps 1 --delta 0.1 --epsilon 1", ("-m must", "'x'")),
        ("-n 9 -b 4 -m 2 --delta 0.1 --epsilon 1", ("--steps is missing",)),
        ("-n 9 -b 4 -m 2 --steps 1 --epsilon 1", ("--delta is missing",)),
        ("-n 9 -b 4 -m 2 --steps 1 --delta 0.1 --epsilon 0", ("--epsilon must", "> 0", "got 0")),
        (
            "-n 9 -b 4 -m 2 --steps 1 --delta 0.1 --noise-multiplier 0",
            ("--noise-multiplier must", "got 0"),
        ),
        (
            "-n 9 -b 4 -m 2 --steps 1 --delta 0.1 --epsilon 1 --mechanism cauchy",
            ("--mechanism must", "'cauchy'"),
        ),
        (
            "-n 9 -b 4 -m 2 --steps 1 --delta 0.1 --epsilon 1 --relation edit",
            ("--relation must", "'edit'"),
        ),
        ("-n 9 -b 4 -m 2 --steps 1 --delta 0.1 --epsilon 1 --scheme wr", ("--scheme",)),
    ],
)
def test_a_comparison_that_makes_no_sense(run: Run, line: str, named: tuple[str, ...]) -> None:
    check_refused(run("compare", *shlex.split(line)), *named)
