"""``mustdp bootstrap``: estimates from a file, on the command line."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.cli.running import Run, check_refused, no_constants

N = 3000


@pytest.fixture(scope="module")
def ages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("data") / "ages.csv"
    rng = np.random.default_rng(0)
    age = rng.uniform(20, 80, N)
    rows = np.column_stack([age, 2 + 0.5 * age + rng.normal(size=N)])
    lines = [f"{a:.6f},{s:.6f},someone" for a, s in rows]
    path.write_text("\n".join(["age,score,name", *lines]) + "\n", encoding="utf-8")
    return path


def line(ages: Path, rest: str) -> list[str]:
    return ["bootstrap", str(ages), *shlex.split(rest)]


def answer(run: Run, ages: Path, rest: str) -> Any:
    outcome = run(*line(ages, rest), "--json")
    assert outcome.status == 0, outcome.err
    assert outcome.out.count("\n") == 1
    return json.loads(outcome.out, parse_constant=no_constants)


MEAN = "--column age --lower 0 --upper 100 --statistic mean"
PLAIN = f"{MEAN} --scheme wor -n {N} -m 100 --replicates 60"


def test_the_contract(run: Run, ages: Path) -> None:
    given = answer(run, ages, f"{PLAIN} --epsilon 2 --delta 1e-5")
    assert {"estimate", "standard_error", "interval", "privacy"} <= set(given)
    low, high = given["interval"]
    assert low < given["estimate"] < high
    assert abs(given["estimate"] - 50) < 6 * given["standard_error"] + 1
    assert given["privacy"]["epsilon"]["upper"] <= 2
    assert given["privacy"]["delta"] == 1e-5
    assert given["privacy"]["relation"] == "replace-one"


@pytest.mark.parametrize(
    "design",
    [
        "--design subsampling -m 100 --replicates 50",
        "--design m-out-of-n -m 100 --replicates 50",
        "--design poisson -n 3000 --rate 0.05 --replicates 50",
        "--design must-ow -b 200 -m 100 --replicates 50",
        "--design must-ww -b 200 -m 100 --replicates 50",
        "--design double -b 100 -m 100 --subsets 10 --reuse 5",
        "--design blb -b 100 --subsets 5 --reuse 5",
        "--stages wor:300,wr:100 --replicates 50",
        "--scheme must-ow -b 200 -m 100 --subsets 5 --reuse 5 --replicates 25",
    ],
)
def test_every_design(run: Run, ages: Path, design: str) -> None:
    given = answer(run, ages, f"{MEAN} {design} --noise-multiplier 20 --delta 1e-5")
    nested = "--reuse" in design
    assert given["design"]["reuse"] == (5 if nested else 1)
    assert given["design"]["n"] == N
    assert given["privacy"]["epsilon"]["lower"] <= given["privacy"]["epsilon"]["upper"]


def test_several_statistics_and_columns(run: Run, ages: Path) -> None:
    given = answer(
        run,
        ages,
        "--column age --column score --lower 0 --upper 100 --upper 60 --statistic correlation "
        "--statistic regression --design subsampling -m 300 --replicates 50 "
        "--epsilon 4 --delta 1e-5 --lower 0",
    )
    labels = [row["label"] for row in given["estimates"]]
    assert labels[0] == "correlation"
    assert labels[1:] == ["intercept", "slope of age"]
    assert given["estimates"][2]["description"].startswith(
        "slope of age in the regression of score"
    )
    assert given["estimate"] == given["estimates"][0]["estimate"]


def test_the_table_says_what_it_costs(run: Run, ages: Path) -> None:
    outcome = run(*line(ages, f"{PLAIN} --epsilon 2 --delta 1e-5"))
    assert outcome.status == 0
    assert "95 % interval" in outcome.out
    assert "mean of age clipped to [0, 100]" in outcome.out
    assert "upper: certified" in outcome.out
    assert "epsilon at delta 1e-05: at least" in outcome.out


def test_a_seed_is_said_loudly_and_repeats(run: Run, ages: Path) -> None:
    command = line(ages, f"{PLAIN} --noise-multiplier 3 --delta 1e-5 --seed 7 --json")
    first, again = run(*command), run(*command)
    assert first.out == again.out
    assert "experiments only" in first.err
    unseeded = line(ages, f"{PLAIN} --noise-multiplier 3 --delta 1e-5 --json")
    fresh = [run(*unseeded).out for _ in range(2)]
    assert fresh[0] != fresh[1]


def test_an_epsilon_without_a_bound_is_status_3(run: Run, ages: Path) -> None:
    outcome = run(*line(ages, f"{MEAN} --scheme wr -m 3000 --replicates 500 "
                        "--noise-multiplier 0.001 --delta 1e-5"))  # fmt: skip
    assert (outcome.status, outcome.out) == (3, "")
    assert "no finite upper bound" in outcome.err


@pytest.mark.parametrize(
    ("rest", "named"),
    [
        ("", ["--lower is missing"]),
        ("--column age --lower 0", ["--upper is missing"]),
        (f"{PLAIN}", ["--epsilon or --noise-multiplier is missing"]),
        (f"{PLAIN} --epsilon 0", ["--epsilon must", "0"]),
        (f"{PLAIN} --epsilon nan", ["--epsilon must", "nan"]),
        (f"{PLAIN} --epsilon 1 --delta 2", ["--delta must", "2"]),
        (f"{PLAIN} --epsilon 1 --noise-multiplier 2", ["exclude each other"]),
        (f"{PLAIN} --epsilon 1 --level 1", ["--level must", "1"]),
        (f"{PLAIN} --epsilon 1 --interval wald", ["--interval must", "wald"]),
        (f"{PLAIN} --epsilon 1 --interval bootstrap-t", ["--interval must be normal", "hides"]),
        (f"{PLAIN} --epsilon 1 --interval BCa", ["--interval must be normal", "every single"]),
        (f"{PLAIN} --epsilon 1 --population 9", ["--population must"]),
        (f"{PLAIN} --epsilon 1 --statistic mode", ["--statistic must", "mode"]),
        (f"{PLAIN} --epsilon 1 --workers 0", ["--workers must", "0"]),
        (f"{PLAIN} --epsilon 1 --dask nowhere", ["--dask must", "nowhere"]),
        (f"{PLAIN} --epsilon 1 --seed -1", ["--seed must", "-1"]),
        (f"{PLAIN} --epsilon 1 --subsets 4", ["go together"]),
        (f"{PLAIN} --epsilon 1 --design blb", ["exclude each other"]),
        (PLAIN.replace("--column age", "") + " --epsilon 1", ["--column must be named", "of them"]),
        (PLAIN.replace("upper 100", "upper 1e-300") + " --epsilon 1",
         ["--lower and --upper must be apart by"]),
        (f"{PLAIN} --epsilon 1 --interval percentile", ["--interval must be normal, because"]),
        (f"{MEAN} --replicates 9 --epsilon 1", ["--design is missing", "subsampling", "--scheme"]),
        (f"{MEAN} --design blp --replicates 9 --epsilon 1", ["'blp'", "did you mean blb?"]),
        (f"{MEAN} --design poisson -n 3000 --rate 0 --replicates 9 --epsilon 1",
         ["--scheme must draw"]),
        (f"{MEAN} --design poisson --rate .1 --replicates 9 --epsilon 1",
         ["-n is missing: under add-remove the number of records is private"]),
        (f"{MEAN} --scheme wor -m 9 --subsets 3 --reuse 3 --epsilon 1", ["--reuse draws", "got 3"]),
        (f"{PLAIN} --epsilon 1 --statistic correlation", ["--column of correlation must"]),
        (f"{PLAIN} --epsilon 1 --column age", ["--column must be different", "'age' twice"]),
        (PLAIN.replace("upper 100", "upper 0") + " --epsilon 1", ["--lower must be below"]),
        (PLAIN.replace("lower 0", "lower inf") + " --epsilon 1", ["--lower must", "inf"]),
        (PLAIN.replace("-n 3000", "-n 2999") + " --epsilon 1", ["FILE must", "2999", "3000"]),
        (PLAIN.replace("column age", "column pay") + " --epsilon 1", ["--column must", "pay"]),
        (PLAIN.replace("column age", "column name") + " --epsilon 1", ["name", "number"]),
        (PLAIN.replace("--replicates 60", "") + " --epsilon 1", ["--replicates is missing"]),
        (PLAIN.replace("replicates 60", "replicates 1") + " --epsilon 1", ["--replicates must"]),
        (f"{MEAN} --design blb -b 10 -m 5 --subsets 2 --reuse 2 --epsilon 1", ["-m 5"]),
        (f"{MEAN} --design blb -b 10 --replicates 9 --epsilon 1", ["--subsets and --reuse"]),
        (f"{MEAN} --design must-ow -b 9 -m 5 --subsets 2 --reuse 2 --replicates 5 --epsilon 1",
         ["--replicates must", "4", "5"]),
        (f"{MEAN} --lower 1 --lower 2 --scheme wr -m 5 --replicates 9 --epsilon 1",
         ["--lower must be given once"]),
    ],
)  # fmt: skip
def test_bad_input(run: Run, ages: Path, rest: str, named: list[str]) -> None:
    stated = "" if "--delta" in rest else "--delta 1e-5"
    check_refused(run(*line(ages, f"{rest} {stated}")), *named)


def test_a_missing_file(run: Run, tmp_path: Path) -> None:
    outcome = run(*line(tmp_path / "nothing.csv", f"{PLAIN} --epsilon 1 --delta 1e-5"))
    check_refused(outcome, "FILE must be", "nothing.csv")


def test_a_parquet_file(run: Run, tmp_path: Path) -> None:
    pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "ages.parquet"
    values = np.random.default_rng(1).uniform(0, 100, N)
    parquet.write_table(pyarrow.table({"age": values}), path, row_group_size=500)
    given = answer(run, path, f"{PLAIN} --noise-multiplier 0.5 --delta 1e-5 --seed 1")
    assert abs(given["estimate"] - values.mean()) < 5 * given["standard_error"]


def test_a_ledger_is_charged_and_refuses_before_data_are_read(
    run: Run, ages: Path, tmp_path: Path
) -> None:
    file = tmp_path / "office.ledger"
    made = run("ledger", "create", str(file), "--epsilon", "1.5", "--delta", "1e-6")
    assert made.status == 0
    spend = f"{PLAIN} --epsilon 1 --delta 1e-6 --ledger {file}"
    answer(run, ages, spend)
    [entry] = json.loads(run("ledger", "entries", str(file), "--json").out)["entries"]
    assert entry["label"] == "bootstrap: mean"
    missing = line(tmp_path / "missing.csv", spend)
    refused = run(*missing)
    assert refused.status == 4
    assert refused.out == ""
    assert "left" in refused.err
    seeded = run(*line(ages, f"{spend} --seed 1"))
    check_refused(seeded, "ledger", "seed")
    left = json.loads(run("ledger", "show", str(file), "--json").out)
    assert left["entries"] == 1
