"""Any file and any frame: a release or one clear line, and nothing of the data in what is said."""

from __future__ import annotations

import datetime
import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import mustdp as md
from tests.cli.running import Run, runner
from tests.data.test_bad_text import FIELDS, SECRETS, lines

pytest.importorskip("pyarrow")

ENCODINGS = st.sampled_from(["utf-8", "utf-8", "utf-8", "utf-8-sig", "latin-1", "utf-16", "cp037"])
MISSING = st.sampled_from([None, "drop", "drop", 0.0])
#: What is asked of a file with the columns x, t and d, in the words of the command line.
ASKED = (
    "--column x --lower 0 --upper 10 --statistic mean --statistic median",
    "--column x --lower 0 --upper 10 --statistic sd --report-clipping 0.1",
    "--column x --lower 0 --upper 10 --statistic count --statistic sum --by t --groups north,1",
    "--column t --categories t=north,1 --statistic proportion:=north --statistic histogram",
    "--column d --date d=2000-01-01 --lower -9999 --upper 9999 --statistic quantile:0.9",
    "--column x --column d --date d=2000-01-01 --lower 0 --upper 10 --statistic correlation",
    "--column x --lower 0 --upper 10 --statistic mean --weights d --largest-weight 2",
    "--column x --lower 0 --upper 10 --cluster d --largest-cluster 2 --unit cluster",
    "--column x --lower 0 --upper 10 --statistic mean --strata t --stratum-shares north=.2,1=.8",
    "--column x --lower 0 --upper 10 --statistic proportion:>1 --statistic sum --cluster d "
    "--largest-cluster 2",
    "--column x --lower 0 --upper 10 --statistic quantile:0.9 --statistic sd --strata t "
    "--stratum-shares north=0.25,1=0.75",
    "--column y --lower 0 --upper 10 --statistic mean",
)
#: Rows of which most can be read: numbers, categories, and dates or numbers, any of them missing.
KIND = st.tuples(
    st.sampled_from(["1", "-2.5", " 3 ", "1e3", '"7"', "", "NA"]),
    st.sampled_from(["north", " 1", "elsewhere", "", "?"]),
    st.sampled_from(["1", "2", "2020-02-29", "", "null"]),
    st.sampled_from(["\n", "\n", "\r\n", "\n\n"]),
).map(lambda row: ",".join(row[:3]) + row[3])
BUDGET = "--noise-multiplier 2 --delta 1e-6 --json"
QUICK = settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    return runner(capsys)


def told(text: str) -> None:
    """None of the secrets is in a text, however it is escaped."""
    for secret in SECRETS:
        assert secret not in text.replace("\\xe9", "\xe9"), text


def check(outcome: Any) -> None:
    """A result, or status 2 and one line."""
    told(outcome.err)
    if outcome.status == 0:
        told(outcome.out)
        assert json.loads(outcome.out)["estimates"]
        return
    assert outcome.status == 2, outcome.err
    assert outcome.out == ""
    assert outcome.err.count("\n") == 1
    assert "Traceback" not in outcome.err


def stored(content: str, encoding: str, base: Path) -> Path:
    path = base / "people.csv"
    path.write_bytes(content.encode(encoding, "replace"))
    return path


@QUICK
@given(
    text=st.lists(KIND, max_size=8).map("".join) | st.lists(lines(), max_size=6).map("".join),
    encoding=ENCODINGS,
    asked=st.sampled_from(ASKED),
    missing=MISSING,
    relation=st.sampled_from(["replace-one", "add-remove"]),
)
@example(text="", encoding="utf-8", asked=ASKED[0], missing=None, relation="replace-one")
@example(text=",,\n", encoding="utf-8", asked=ASKED[0], missing="drop", relation="replace-one")
@example(text=",,\n", encoding="utf-8", asked=ASKED[1], missing="drop", relation="add-remove")
@example(
    text="1,1,1\n2,1,\n", encoding="utf-8", asked=ASKED[6], missing="drop", relation="replace-one"
)
@example(text="1,1,1\n", encoding="utf-8", asked=ASKED[7], missing="drop", relation="replace-one")
def test_any_file(
    text: str, encoding: str, asked: str, missing: Any, relation: str, run: Run,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:  # fmt: skip
    path = stored("x,t,d\n" + text, encoding, tmp_path_factory.getbasetemp())
    words = f"{asked} {BUDGET} --relation {relation}".split()
    check(run("release", path, *words, *([] if missing is None else ["--missing", missing])))


@QUICK
@given(first=lines(), text=st.lists(lines(), max_size=4).map("".join), header=st.booleans())
def test_any_first_line(
    first: str, text: str, header: bool, run: Run, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """What may be a record is never quoted as if it were names."""
    path = stored("73519.25," + first + text, "utf-8", tmp_path_factory.getbasetemp())
    way = [] if header else ["--no-header"]
    asked = "--column 0 --lower 0 --upper 10 --by 1 --groups north --missing drop"
    check(run("release", path, *asked.split(), *BUDGET.split(), *way))


@QUICK
@given(text=st.lists(lines(), max_size=6).map("".join), encoding=ENCODINGS, m=st.integers(1, 4))
def test_any_file_for_the_bootstrap(
    text: str, encoding: str, m: int, run: Run, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = stored("x,t,d\n" + text, encoding, tmp_path_factory.getbasetemp())
    asked = (
        f"--column x --lower 0 --upper 10 --statistic mean --design m-out-of-n -m {m} --workers 1 "
        "--replicates 4 --missing 0"
    )
    check(run("bootstrap", path, *asked.split(), *BUDGET.split()))


THINGS = st.one_of(
    FIELDS,
    st.none(),
    st.integers(-(10**25), 10**25),
    st.floats(),
    st.booleans(),
    st.binary(max_size=4),
    st.sampled_from([datetime.date(1973, 5, 19), pd.NaT, pd.NA, [91], {"HIV": 1}, 2j, object()]),
)


@QUICK
@given(
    rows=st.lists(st.tuples(THINGS, THINGS), min_size=1, max_size=6),
    missing=MISSING,
    chosen=st.integers(0, 3),
)
def test_any_frame(rows: list[tuple[Any, Any]], missing: Any, chosen: int) -> None:
    frame = pd.DataFrame({"x": [one for one, _ in rows], "t": [other for _, other in rows]})
    limits: dict[str, Any] = {"columns": ["x"], "lower": 0, "upper": 10}
    given: dict[str, Any] = (
        {"statistics": ["mean", "sd"], **limits},
        {"statistics": ["count", "median"], "by": "t", "groups": ["north", "1"], **limits},
        {
            "statistics": "histogram",
            "columns": md.types.Columns(["t"], categories={"t": ["north", "true"]}),
        },
        {"statistics": "mean", "columns": md.types.Columns(dates={"x": "1970-01-01"}), **limits},
    )[chosen]
    refusal: Exception | None = None
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            found = md.private_release(
                frame, missing=missing, noise_multiplier=2.0, delta=1e-6, **given
            )
        except (md.MustdpError, ValueError) as error:
            refusal = error
    said = str(found) + found.as_csv() if refusal is None else str(refusal)
    told(said)
    assert refusal is None or ("\n" not in said and refusal.__cause__ is None)


@pytest.mark.parametrize("width", [2, 131_072, 1_000_000])
def test_very_many_columns(width: int, run: Run, tmp_path: Path) -> None:
    names, row = ",".join(f"c{k}" for k in range(width)), ",".join(["73519.25"] * width)
    path = tmp_path / "wide.csv"
    path.write_text(f"{names}\n{row}\n{row}\n")
    asked = "--column c1 --lower 0 --upper 10 --statistic mean"
    outcome = run("release", path, *asked.split(), *BUDGET.split())
    check(outcome)
    assert outcome.status == (0 if width <= 131_072 else 2)
    assert len(outcome.err) < 400


def test_records_in_an_array_of_any_kind() -> None:
    kinds: tuple[Any, ...] = (
        np.array([["HIV", "1"]]),
        np.array([1 + 2j]),
        np.zeros((0,)),
        np.zeros((2, 2, 2)),
        np.array([np.inf, 1.0]),
        np.array(["1973-05-19"], dtype="M8[D]"),
        np.array([object()]),
        [], "", None, {"x": ["HIV"]},
    )  # fmt: skip
    for data in kinds:
        with pytest.raises((md.MustdpError, ValueError)) as refusal:
            md.private_release(
                data, "mean", columns=["0"], lower=0, upper=1, noise_multiplier=1.0, delta=1e-6
            )
        assert "\n" not in str(refusal.value)
        told(str(refusal.value))
