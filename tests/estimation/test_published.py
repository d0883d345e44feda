"""Tables as they are published: command line, page, names, frames; and coverage on real data."""

from __future__ import annotations

import csv
import importlib.util
import io
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import mustdp as md
from mustdp.errors import InvalidParameter
from mustdp.types import Codebook
from tests.cli.running import Run, answer, check_refused, runner
from tests.seams import bootstrap_page, release_page
from tests.training.data.places import SHARED, needs_adult

RNG = np.random.default_rng(2)
PEOPLE = pd.DataFrame(
    {
        "sex": RNG.choice(["1", "2"], 2000),
        "age": RNG.integers(0, 95, 2000),
        "hours": RNG.uniform(0, 80, 2000).round(1),
    }
)
LABELS = """
title: Hours in Exampleland
columns: {hours: Hours worked, sex: Sex}
groups:
  sex: {1: Men, 2: Women}
footnotes: [Persons of all ages.]
"""
LINE = (
    "--column hours --lower 0 --upper 80 --statistic mean --statistic count --by sex --by age "
    "--groups sex=1,2 --breaks age=0,18,65 --complete --total --consistent "
    "--noise-multiplier 5 --delta 1e-6"
)


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    return runner(capsys)


@pytest.fixture
def people(tmp_path: Path) -> Path:
    path = tmp_path / "people.csv"
    PEOPLE.to_csv(path, index=False)
    return path


def test_the_command_line_publishes_tables(people: Path, tmp_path: Path, run: Run) -> None:
    labels = tmp_path / "labels.yaml"
    labels.write_text(LABELS)
    page, table, latex = (tmp_path / name for name in ("page.html", "table.csv", "table.tex"))
    found = answer(
        run,
        f"release {people} {LINE} --whole-counts --difference 1,2 --difference '1, 0-17;2, 0-17' "
        f"--ratio 1,2 --adjust bonferroni --labels {labels} --report {page} --csv {table} "
        f"--latex {latex} --wide",
    )
    assert len(found["estimates"]) == 24
    assert found["estimates"][0]["groups"] == {"Sex": "Men", "age": "0-17"}
    counts = {one["group"]: one["estimate"] for one in found["estimates"]
              if one["statistic"] == "count"}  # fmt: skip
    assert counts["Men"] + counts["Women"] == 2000
    assert [one["kind"] for one in found["contrasts"]] == ["difference"] * 4 + ["ratio"] * 2
    assert found["contrasts"][0]["label"] == "mean Hours worked: Men - Women"
    assert all(0 <= one["p_value"] <= 1 for one in found["contrasts"])
    text = page.read_text()
    for word in ("Hours in Exampleland", "Persons of all ages.", "Comparisons", "made to agree"):
        assert word in text
    rows = list(csv.reader(io.StringIO(table.read_text())))
    assert rows[0][:3] == ["Sex", "age", "mean Hours worked"]
    assert len(rows) == 13
    assert latex.read_text().count(r"\pm") >= 23


def test_planning_takes_the_same_tables(run: Run) -> None:
    line = LINE.replace("--noise-multiplier 5", "--epsilon 1")
    rows = answer(run, f"plan -n 2000 {line}")["rows"]
    assert len(rows) == 24
    widths = {one["label"]: one["width"] for one in rows}
    assert widths["mean hours (total)"] < widths["mean hours (1)"] < widths["mean hours (1, 65+)"]


def test_several_groupings_on_the_command_line(people: Path, run: Run) -> None:
    line = LINE.replace("--total --consistent", "--grouping sex --grouping age")
    found = answer(run, f"release {people} {line}")["estimates"]
    assert {one["group"] for one in found} == {"1", "2", "0-17", "18-64", "65+"}


@pytest.mark.parametrize(
    ("more", "option"),
    [
        ("--difference 1", "--difference"),
        ("--difference 1,7", "--difference"),
        ("--difference 1,65+", "--difference"),
        ("--groups sex=1,2", "--groups"),
        ("--groups 1,2", "--groups"),
        ("--breaks age=no", "--breaks"),
        ("--grouping region", "--grouping"),
        ("--public-totals sex=1", "--public-totals"),
        ("--public-totals sex=1:1,2:1", "--public-totals"),
        ("--labels nowhere.yaml", "--labels"),
        ("--adjust often", "--adjust"),
    ],
)
def test_bad_input(more: str, option: str, people: Path, run: Run) -> None:
    check_refused(run("release", str(people), *LINE.split(), *more.split()), option)


def test_codebooks() -> None:
    with pytest.warns(md.types.SeededRelease):
        result = md.private_release(
            PEOPLE, ["mean"], columns=["hours"], lower=0, upper=80, by="sex", groups=["1", "2"],
            noise_multiplier=3.0, delta=1e-6, seed=1,
        )  # fmt: skip
    book = Codebook(columns={"hours": "Hours"}, groups={"sex": {"1": "Men"}})
    named = book.labelled(result)
    assert [one.label for one in named.estimates][:2] == ["mean Hours (Men)", "mean Hours (2)"]
    assert named.estimates[0].value == result.estimates[0].value
    assert "Hours" in named.estimates[0].description
    assert "Men" in release_page(named, codebook=book).html()
    for wrong in ({"groups": {"sex": "Men"}}, {"columns": ["hours"]}, {"title": 3}):
        with pytest.raises(InvalidParameter, match="labels must have"):
            Codebook(**wrong)


def test_a_codebook_that_is_none(tmp_path: Path) -> None:
    for text in ("[1, 2", "- a\n- b\n", "name: x\n", "title: {a: 1}\n"):
        path = tmp_path / "labels.yaml"
        path.write_text(text)
        with pytest.raises(InvalidParameter, match="labels must"):
            Codebook.read(path)


def test_a_bootstrap_is_written_as_a_release_is(people: Path, tmp_path: Path, run: Run) -> None:
    page, table, latex = (tmp_path / name for name in ("page.html", "table.csv", "table.tex"))
    answer(
        run,
        f"bootstrap {people} --column hours --lower 0 --upper 80 --statistic mean --statistic sd "
        f"--scheme wor -m 100 --replicates 8 --noise-multiplier 9 --delta 1e-6 --report {page} "
        f"--csv {table} --latex {latex}",
    )
    assert "noisy replicates" in page.read_text()
    assert len(table.read_text().splitlines()) == 3
    assert latex.read_text().startswith(r"\begin{tabular}")
    with pytest.warns(md.types.SeededRelease):
        result = md.private_bootstrap(
            PEOPLE[["hours"]].to_numpy(), "mean", lower=0, upper=80, design=md.wor(2000, 100),
            replicates=8, noise_multiplier=9.0, delta=1e-6, seed=1,
        )  # fmt: skip
    assert result.to_frame().shape[0] == 1
    assert "Nothing here is private" in bootstrap_page(result).html()


@needs_adult
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_tables_cover_on_real_data() -> None:
    """A short version of ``benchmarks/tables.py``.

    Of 40 samples with 10 cells and 7 margins each, which vary together, at least 90 % are covered:
    a share that is not reached by chance alone where the coverage is 95 %.
    """
    place = Path(__file__).parents[2] / "benchmarks" / "tables.py"
    spec = importlib.util.spec_from_file_location("benchmark_of_tables", place)
    assert spec is not None
    assert spec.loader is not None
    module: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    people = module.population(SHARED / "adult")
    row = module.measured(people, 1.0, 40, 5)
    for kind, coverage in row["coverage"].items():
        assert coverage >= (0.8 if kind == "mean, total" else 0.9), kind
    errors = row["root mean squared error of counts"]
    assert errors["consistent"]["cell"] < 0.75 * errors["independent groupings"]["cell"]
    assert errors["consistent"]["sex"] < 0.75 * errors["cells added up"]["sex"]
    assert errors["consistent"]["education"] < 0.8 * errors["top-down"]["education"]


def test_a_comparison_of_which_nothing_is_known_is_written_as_unknown(
    people: Path, tmp_path: Path, run: Run
) -> None:
    page, line = tmp_path / "page.html", LINE.replace("multiplier 5", "multiplier 1e5")
    found = run(
        "release", people, *shlex.split(f"{line} --difference 1,2 --report {page} --seed 1")
    )
    assert found.status == 0, found.err
    assert "p = unknown" in found.out
    assert "unknown" in page.read_text()
