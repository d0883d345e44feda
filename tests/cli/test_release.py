"""``mustdp release``: JSON as promised, what is refused and how."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import mustdp as md
from tests.cli.running import Run, answer

FIELDS = ["statistic", "column", "group", "estimate", "standard_error", "interval"]


@pytest.fixture
def people(tmp_path: Path) -> Path:
    rng = np.random.default_rng(4)
    age, hours = rng.integers(18, 80, 3000), rng.integers(10, 60, 3000)
    region = rng.integers(1, 5, 3000)
    rows = [f"{a},{h},{r}" for a, h, r in zip(age, hours, region, strict=True)]
    path = tmp_path / "people.csv"
    path.write_text("age,hours,region\n" + "\n".join(rows) + "\n")
    return path


def test_several_statistics_of_several_columns(run: Run, people: Path) -> None:
    found = answer(
        run,
        f"release {people} --column age --column hours --lower 0 --upper 100 --statistic mean "
        "--statistic sd@age --statistic regression --epsilon 2 --delta 1e-6",
    )
    assert list(found) == ["estimates", "level", "privacy", "notes"]
    for row in found["estimates"]:
        assert set(FIELDS) <= set(row)
    labels = [(row["statistic"], row["column"], row["cell"]) for row in found["estimates"]]
    assert labels == [
        ("mean", "age", None),
        ("mean", "hours", None),
        ("sd", "age", None),
        ("regression", "age, hours", "intercept"),
        ("regression", "age, hours", "age"),
    ]
    low, high = found["estimates"][0]["interval"]
    assert low < 48.5 < high
    assert found["privacy"]["epsilon"]["upper"] <= 2
    assert found["privacy"]["relation"] == "replace-one"


def test_groups(run: Run, people: Path) -> None:
    found = answer(
        run,
        f"release {people} --column age --lower 0 --upper 100 --by region --groups 1,2 "
        "--statistic count --statistic mean --epsilon 2 --delta 1e-6 --relation add-remove",
    )
    groups = [row["group"] for row in found["estimates"]]
    assert groups == ["1", "2", "other"] * 2
    assert 600 < found["estimates"][0]["estimate"] < 900


def test_a_seed_is_an_experiment(run: Run, people: Path) -> None:
    line = f"release {people} --column age --lower 0 --upper 100 --epsilon 1 --delta 1e-6 --seed 3"
    outcome = run(*line.split(), "--json")
    assert outcome.status == 0
    assert '"seeded": true' in outcome.out
    assert "--seed 3" in outcome.err


def test_a_ledger_is_charged_and_refuses(run: Run, people: Path, tmp_path: Path) -> None:
    path = tmp_path / "office.ledger"
    with md.Ledger.open(path, epsilon=1.5, delta=1e-6):
        pass
    line = (
        f"release {people} --column age --lower 0 --upper 100 --epsilon 1 --delta 1e-6 "
        f"--ledger {path}"
    )
    assert run(*line.split()).status == 0
    with md.Ledger.open(path) as ledger:
        (entry,) = ledger.entries()
        assert entry.label == "release: mean"
        spent = ledger.spent()
    refused = run(*line.split())
    assert refused.status == 4
    with md.Ledger.open(path) as ledger:
        assert ledger.spent() == spent


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("--column age --lower 0 --upper 100", "--epsilon or --noise-multiplier is missing"),
        ("--column age --epsilon 1 --delta 1e-6", "must have a range"),
        ("--column age --lower 9 --upper 1 --epsilon 1 --delta 1e-6", "--lower must be below"),
        ("--column age --lower 0 --upper 9 --epsilon 1", "--delta is missing"),
        ("--epsilon 1 --delta 1e-6", "--column must be given for mean"),
        (
            "--column age --lower 0 --upper 9 --statistic midrange --epsilon 1 --delta 1e-6",
            "--statistic must be one of clipping,",
        ),
        (
            "--column age --lower 0 --upper 9 --by region --epsilon 1 --delta 1e-6",
            "by and groups must be given together",
        ),
        (
            "--column age --lower 0 --upper 9 --population ten --epsilon 1 --delta 1e-6",
            "--population must be a whole number or census",
        ),
    ],
)
def test_refusals_are_one_line(run: Run, people: Path, options: str, said: str) -> None:
    outcome = run("release", people, *options.split())
    assert (outcome.status, outcome.out) == (2, "")
    assert outcome.err.count("\n") == 1
    assert said in outcome.err


def test_pages_and_tables_are_written(run: Run, people: Path, tmp_path: Path) -> None:
    ledger = tmp_path / "office.ledger"
    with md.Ledger.open(ledger, epsilon=4, delta=1e-6):
        pass
    page, table, latex = (tmp_path / name for name in ("page.html", "table.csv", "table.tex"))
    answer(
        run,
        f"release {people} --column age --lower 0 --upper 100 --by region --groups 1,2,3 "
        f"--statistic mean --statistic median --epsilon 1 --delta 1e-6 --ledger {ledger} "
        f"--report {page} --csv {table} --latex {latex}",
    )
    text = page.read_text()
    assert "mean of age clipped to [0, 100]".capitalize() in text
    assert "left in the ledger" in text
    assert text.count("<svg") == 4  # two pictures, in two themes
    assert table.read_text().count("\n") == 9
    assert latex.read_text().startswith(r"\begin{tabular}")
    refused = run(
        *f"release {people} --column age --lower 0 --upper 100 --epsilon 1 --delta 1e-6".split(),
        "--csv", tmp_path / "nowhere" / "table.csv",
    )  # fmt: skip
    assert refused.status == 2
    assert "--csv must be a file in a folder that exists" in refused.err


def test_a_plan_reads_no_data(run: Run, tmp_path: Path) -> None:
    line = "plan -n 10000 --column age --lower 0 --upper 100 --statistic mean --delta 1e-6"
    found = answer(run, f"{line} --epsilon 0.5 --epsilon 2")
    first, second = (row["width"] for row in found["rows"])
    assert first > second > 0
    wanted = answer(run, f"{line} --width {first}")["rows"][0]
    assert wanted["epsilon"] == pytest.approx(0.5, rel=0.02)
    page = tmp_path / "plan.html"
    answer(run, f"{line} --epsilon 1 --report {page}")
    assert page.read_text().count("<svg") == 2
    refused = run(*f"{line} --width 1e-9".split())
    assert refused.status == 2
    assert "--width must be at least" in refused.err


def test_survey_designs(run: Run, people: Path) -> None:
    line = f"release {people} --column age --lower 0 --upper 100 --epsilon 2 --delta 1e-6"
    (row,) = answer(run, f"{line} --strata region --stratum-shares 1=0.5,2=0.5")["estimates"]
    assert row["group"] is None
    assert "over 2 strata" in row["description"]
    weighted = answer(run, f"{line} --weights hours --largest-weight 60")["estimates"][0]
    assert weighted["interval"][0] < 48.5 < weighted["interval"][1]
    refused = run(*f"{line} --weights hours".split())
    assert refused.status == 2
    assert "must be given together" in refused.err
