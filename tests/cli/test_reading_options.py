"""How files are read by commands: names or none, delimiters, missing values, standard input."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.running import Run, check_refused

DESIGN = (
    "--lower", "0", "--upper", "100", "--design", "subsampling", "-m", "20", "--replicates", "5",
    "--noise-multiplier", "2", "--delta", "1e-3", "--seed", "1", "--json",
)  # fmt: skip
RECORDS = [(k % 60 + 20, f"Region{k % 3}", k % 7) for k in range(100)]


@pytest.fixture
def raw(tmp_path: Path) -> Path:
    """Records alone, with blanks behind the commas, as the Adult data are published."""
    path = tmp_path / "raw.data"
    path.write_text("".join(f"{age}, {region}, {k}\n" for age, region, k in RECORDS))
    return path


@pytest.fixture
def named(tmp_path: Path) -> Path:
    path = tmp_path / "named.csv"
    rows = "".join(f"{age};{region};{k}\n" for age, region, k in RECORDS)
    path.write_text(f"age;region;children\n{rows}")
    return path


def estimate(run: Run, *words: object) -> float:
    outcome = run("bootstrap", *words, *DESIGN)
    assert outcome.status == 0, outcome.err
    found = json.loads(outcome.out)
    assert found["design"]["n"] == len(RECORDS)
    return float(found["estimate"])


def test_a_file_without_names_is_not_read_as_one_with_names(run: Run, raw: Path) -> None:
    """The first record became the names, and a person was lost."""
    outcome = run("bootstrap", raw, "--delimiter", ",", "--column", "0", *DESIGN)
    check_refused(outcome, "--no-header if it is a record", "--header if it has names")
    assert "Region0" not in outcome.err


def test_names_delimiters_and_standard_input_agree(run: Run, raw: Path, named: Path) -> None:
    first = estimate(run, raw, "--no-header", "--column", "0")
    assert estimate(run, named, "--delimiter", ";", "--column", "age") == first
    assert estimate(run, named, "--delimiter", "semicolon", "--column", "age", "-n", 100) == first
    words = ["bootstrap", "-", "--no-header", "--column", "0", *DESIGN]
    done = subprocess.run(
        [sys.executable, "-m", "mustdp.cli.main", *words],
        input=raw.read_text(), capture_output=True, text=True,
    )  # fmt: skip
    assert json.loads(done.stdout)["estimate"] == first


def test_a_name_that_is_none_gets_those_of_a_proper_header(run: Run, named: Path) -> None:
    outcome = run("bootstrap", named, "--delimiter", ";", "--column", "income", *DESIGN)
    check_refused(outcome, "(age, region, children), got 'income'")


def test_missing_values_get_a_way_on(run: Run, raw: Path) -> None:
    whole = estimate(run, raw, "--no-header", "--column", "2")
    raw.write_text(raw.read_text().replace(", 0\n", ", ?\n"))
    words = [raw, "--no-header", "--column", "2"]
    check_refused(run("bootstrap", *words, *DESIGN), "got missing", "say with --missing")
    assert estimate(run, *words, "--missing", "0") == whole
    assert estimate(run, *words, "--missing", "0", "--missing-mark", "6") < whole
    outcome = run("bootstrap", *words, "--missing", "drop", *DESIGN)
    check_refused(outcome, "--missing must be refuse or a number here", "mustdp release")


def test_another_way_to_write_numbers(run: Run, raw: Path, tmp_path: Path) -> None:
    first = estimate(run, raw, "--no-header", "--column", "0")
    path = tmp_path / "größe.csv"
    rows = "".join(f"{age},000;Süd;0.001.000\n" for age, _, _ in RECORDS)
    path.write_text(f"größe;ort;k\n{rows}", encoding="cp1252")
    said = ["--delimiter", ";", "--encoding", "cp1252", "--decimal", "comma", "--thousands", "."]
    assert estimate(run, path, *said, "--column", "größe") == first
    outcome = run("bootstrap", path, *said[:4], "--column", "größe", *DESIGN)
    check_refused(outcome, "must hold numbers, got a text that is not one in line 2")


def test_a_format_of_dates(run: Run, tmp_path: Path) -> None:
    """The form is checked before the file is opened; dates are read in the one that is said."""
    path = tmp_path / "born.csv"
    path.write_text("age,born\n" + "30,31.01.1990\n" * 50)
    said = ["release", path, "--column", "age", "--lower", "0", "--upper", "100", "--statistic",
            "mean", "--epsilon", "1", "--delta", "1e-6", "--seed", "1"]  # fmt: skip
    assert run(*said, "--date-format", "%d.%m.%Y").status == 0
    check_refused(run(*said, "--date-format", "%d.%m.%y"), "--date-format must be a format with")


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["--encoding", "utf-9"], "--encoding must be an encoding of text"),
        (["--decimal", "x"], "--decimal must be a point or a comma, got 'x'"),
        (["--thousands", "."], "--thousands must be a point, a comma"),
        (["--missing", "nan"], "--missing must be refuse, drop or a finite number, got 'nan'"),
        (["--delimiter", "::"], "--delimiter must be one character"),
        (["--header", "--no-header"], "--header and --no-header exclude each other"),
        (["--column", "1", "--no-header"], "column '1' of"),
        (["--column", "7", "--no-header"], "--column must be among the 3 columns"),
    ],
)
def test_bad_options_get_one_line(run: Run, raw: Path, words: list[str], named: str) -> None:
    chosen = words if "--column" in words else [*words, "--column", "0"]
    outcome = run("bootstrap", raw, *chosen, *DESIGN)
    check_refused(outcome, named)
    assert "Region" not in outcome.err
