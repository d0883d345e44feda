"""Records that stay in DuckDB or Spark: the same bits as in memory, and nothing but sums leaves."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest

import mustdp as md
from mustdp.errors import InvalidParameter
from tests.cli.running import Run, runner
from tests.seams import engine_of

duckdb = pytest.importorskip("duckdb")

#: Records with everything that is allowed: gaps, ends of ranges, texts with blanks and marks.
QUOTES = "O'Brien\\"


def people(n: int = 3000) -> pandas.DataFrame:
    rng = np.random.default_rng(3)
    found = pandas.DataFrame(
        {
            "age": rng.normal(40, 25, n),
            "income": rng.gamma(2, 15_000, n),
            "weight": rng.uniform(-0.5, 3, n),
            "town": rng.choice(["a", " b\t", QUOTES, "A", ""], n),
            "children": rng.integers(-2, 9, n),
            'a "name`': rng.uniform(0, 1, n),
            "employed": rng.random(n) < 0.6,
        }
    )
    # Halves of a step, signed zeros, the smallest and largest doubles, values far outside.
    odd = [0.0, -0.0, 5e-324, -5e-324, 1.7976931348623157e308, -1.7976931348623157e308, 50.0, 100.0]
    found.loc[: len(odd) - 1, "age"] = odd
    found.loc[::17, "income"] = np.nan
    found.loc[::23, "weight"] = np.nan
    found.loc[::29, "town"] = None
    return found


@pytest.fixture(scope="module")
def session() -> Iterator[Any]:
    pyspark = pytest.importorskip("pyspark.sql")
    if shutil.which("java") is None:
        pytest.skip("Spark needs Java")
    builder = pyspark.SparkSession.builder.master("local[1]").appName("mustdp")
    for key, value in {
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
    }.items():
        builder = builder.config(key, value)
    found = builder.getOrCreate()
    found.sparkContext.setLogLevel("OFF")
    yield found
    found.stop()


CONNECTIONS: list[Any] = []
Opened = Callable[[pandas.DataFrame], Any]


def in_duckdb(frame: pandas.DataFrame) -> Any:
    connection = duckdb.connect()
    CONNECTIONS.append(connection)  # a relation may not keep it
    connection.register("frame", frame)
    # NaN of pandas is a gap; a table has both, and they are told apart only where they are refused.
    return connection.sql("SELECT * FROM frame")


@pytest.fixture(params=["duckdb", "spark"])
def opened(request: pytest.FixtureRequest) -> Opened:
    if request.param == "duckdb":
        return in_duckdb
    session = request.getfixturevalue("session")

    def in_spark(frame: pandas.DataFrame) -> Any:
        import pyarrow

        return session.createDataFrame(pyarrow.Table.from_pandas(frame, preserve_index=False))

    return in_spark


RANGES: dict[str, Any] = {
    "lower": {"age": 0, "income": 0, "children": 0, 'a "name`': 0.1},
    "upper": {"age": 100, "income": 90_000, "children": 7, 'a "name`': 0.7},
    "columns": ["age", "income", "children", 'a "name`'],
    "missing": "drop",
}
PLAIN: dict[str, Any] = {"epsilon": 1, "delta": 1e-6, "seed": 5}

CASES: list[tuple[list[str], dict[str, Any]]] = [
    (["mean", "sum", "count", "variance", "median@age"], {}),
    (
        ["correlation@age,income", "regression@income,age,children", "quantile:0.9@children"],
        {"relation": "add_remove"},
    ),
    (
        ["mean@age", "histogram:7@children", "proportion:>20@age", "median@age"],
        {"by": "town", "groups": ["a", "b", QUOTES]},
    ),
    (["mean", "proportion:>20@age"], {"survey": md.types.Survey("weight", 2)}),
    (["mean@age"], {"ranges": md.types.Ranges(report_clipping=0.1), "missing": 7.25}),
    (
        ["mean@income", "count"],
        {
            "by": [["town"], ["children"]],
            "groups": md.types.Groups({"town": ["a", "A"]}, {"children": [0, 1, 3, 9]}),
            "total": True,
        },
    ),
]  # fmt: skip


@pytest.mark.filterwarnings("ignore::mustdp.randomness.keys.SeededRelease")
@pytest.mark.parametrize(("statistics", "more"), CASES)
def test_the_same_bits_as_in_memory(
    opened: Opened, statistics: list[str], more: dict[str, Any]
) -> None:
    frame = people()
    arguments = {**PLAIN, **RANGES, **more}
    here = md.private_release(frame, statistics, **arguments)
    there = md.private_release(opened(frame), statistics, **arguments)
    assert here.as_dict() == there.as_dict()


@pytest.mark.filterwarnings("ignore::mustdp.randomness.keys.SeededRelease")
def test_categories_and_crossed_tables(opened: Opened) -> None:
    frame = people()
    lists = {"town": ["a", "b", QUOTES, "x' OR 1=1 --"], "employed": ["true", "false"]}
    arguments = {**PLAIN, "columns": md.types.Columns(["town", "employed"], categories=lists)}
    statistics = ["contingency@town,employed", "count"]
    here = md.private_release(frame, statistics, **arguments)
    there = md.private_release(opened(frame), statistics, **arguments)
    assert here.as_dict() == there.as_dict()


@pytest.mark.filterwarnings("ignore::mustdp.randomness.keys.SeededRelease")
@pytest.mark.parametrize("collation", ["NOCASE", "NOACCENT"])
def test_no_collation_counts_a_record_twice(collation: str) -> None:
    """Under either of these, one of the labels is equal to the others."""
    with duckdb.connect() as connection:
        connection.execute(f"SET default_collation = '{collation}'")
        connection.execute(f"CREATE TABLE people (name VARCHAR COLLATE {collation})")
        connection.execute("INSERT INTO people SELECT 'A' FROM range(99)")
        found = md.private_release(
            connection.table("people"),
            "count",
            columns=md.types.Columns(["name"], categories={"name": ["a", "A", "\u00c1"]}),
            by="name",
            groups=["a", "A", "\u00c1"],
            noise_multiplier=1e-6,
            delta=1e-6,
            seed=1,
            relation="add_remove",
        )
    assert [round(one.value) for one in found.estimates] == [0, 99, 0, 0]


@pytest.mark.filterwarnings("ignore::mustdp.randomness.keys.SeededRelease")
@pytest.mark.parametrize(
    "groups",
    [
        ["3", "-1", "07", "+2", "x", "0", "-0", "\u0664"],
        ["nothing", "1.0"],
        ["1", "9223372036854775808", "2"],
    ],
)
def test_whole_numbers_as_groups(opened: Opened, groups: list[str]) -> None:
    frame = people()
    arguments = {**PLAIN, **RANGES, "by": "children", "groups": groups}
    arguments |= {"columns": ["age"], "lower": 0, "upper": 100}
    here = md.private_release(frame, ["mean@age", "count"], **arguments)
    there = md.private_release(opened(frame), ["mean@age", "count"], **arguments)
    assert here.as_dict() == there.as_dict()


def numbers(frame: dict[str, Any], opened: Opened, **more: Any) -> Any:
    arguments: dict[str, Any] = {
        "lower": 0,
        "upper": 1,
        "columns": ["x"],
        "epsilon": 1,
        "delta": 1e-6,
        **more,
    }
    return md.private_release(opened(pandas.DataFrame(frame)), "mean", **arguments)


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ([0.5, np.inf], "got infinite"),
        ([0.5, -np.inf, np.nan], "infinite"),
        (pandas.array([1, None, 0], dtype="Int64"), "got missing"),
        ([2**53 + 2, 0], "exact in double precision"),
        ([-(2**63), 2**63 - 1], "exact in double precision"),
        (["HIV positive", "x"], "must be numeric"),
    ],
)
def test_what_is_refused_in_memory_is_refused_there(opened: Opened, values: Any, said: str) -> None:
    with pytest.raises(md.InvalidParameter, match=said) as refused:
        numbers({"x": values}, opened)
    assert "HIV" not in str(refused.value)
    assert refused.value.__cause__ is None


def test_nan_is_refused_unless_something_is_said() -> None:
    relation = duckdb.sql("SELECT unnest([0.25, 'nan'::DOUBLE, NULL]) AS x")
    arguments: dict[str, Any] = {
        "lower": 0,
        "upper": 1,
        "columns": ["x"],
        "epsilon": 1,
        "delta": 1e-6,
    }
    with pytest.raises(md.InvalidParameter, match="missing, NaN values"):
        md.private_release(relation, "mean", **arguments)
    found = md.private_release(relation, "count", missing="drop", **{**arguments, "epsilon": 400})
    assert found.estimates[0].value == pytest.approx(1, abs=0.4)


def test_sums_that_64_bits_would_not_hold() -> None:
    """Contributions are just below 2^52 steps: a few thousand of them pass 2^63."""
    connection = duckdb.connect()
    relation = connection.sql("SELECT 1 AS x FROM range(4096)")
    engine = engine_of(relation)
    assert engine is not None
    term = engine.dialect.total(engine.dialect.truncated("4503599627370495.5e0 * x"))
    (row,) = relation.query("records", f"SELECT {term} FROM records").fetchall()
    assert row == (4096 * (2**52 - 1),)


def test_rounding_is_towards_zero(opened: Opened) -> None:
    """A cast of DuckDB rounds to the nearest: one record in the middle would be a step longer."""
    values = [1.5, 2.5, -1.5, -2.5, 0.9999999999999999, -0.9999999999999999, 2.0**51 + 0.5]
    engine = engine_of(opened(pandas.DataFrame({"x": values})))
    assert engine is not None
    cut = engine.dialect.total(engine.dialect.truncated("x"))
    ((total, count),) = engine.rows(f"SELECT {cut}, COUNT(*) FROM records")
    assert (int(total), count) == (sum(int(one) for one in values), len(values))


def test_no_records_and_a_private_size(opened: Opened) -> None:
    empty = opened(pandas.DataFrame({"x": np.empty(0)}))
    arguments: dict[str, Any] = {
        "lower": 0,
        "upper": 1,
        "columns": ["x"],
        "epsilon": 1,
        "delta": 1e-6,
    }
    with pytest.raises(md.InvalidParameter, match="at least one record"):
        md.private_release(empty, "mean", **arguments)
    found = md.private_release(empty, "count", relation="add_remove", **arguments)
    assert abs(found.estimates[0].value) < 100


def test_nothing_is_charged_for_what_is_refused(tmp_path: Path) -> None:
    with md.Ledger.open(tmp_path / "a.ledger", epsilon=2, delta=1e-6) as ledger:
        with pytest.raises(md.InvalidParameter):
            numbers({"x": [np.inf]}, in_duckdb, ledger=ledger)
        assert ledger.spent() == 0
        numbers({"x": [0.5] * 100_000}, in_duckdb, ledger=ledger)
        assert ledger.spent() > 0.9


@pytest.mark.parametrize(
    ("statistics", "more", "said"),
    [
        ("geometric-mean", {}, "read them into memory"),
        ("median", {"survey": md.types.Survey(weights="w", largest_weight=1)}, "quantiles"),
        ("mean", {"survey": md.types.Survey(cluster="w", largest_cluster=3)}, "cluster"),
        ("mean", {"columns": ["nothing"]}, "must be among the columns"),
    ],
)
def test_what_engines_cannot_do_is_said_before_anything_is_charged(
    statistics: str, more: dict[str, Any], said: str
) -> None:
    ledger = md.Ledger()
    relation = duckdb.sql("SELECT 0.5::DOUBLE AS x, 1 AS w FROM range(9)")
    arguments: dict[str, Any] = {
        "lower": 0.1,
        "upper": 1,
        "columns": ["x"],
        "epsilon": 1,
        "delta": 1e-6,
        **more,
    }
    with pytest.raises(md.InvalidParameter, match=said):
        md.private_release(relation, statistics, ledger=ledger, **arguments)
    assert ledger.steps == 0


def test_an_engine_that_fails_quotes_nothing() -> None:
    relation = duckdb.sql("SELECT error('HIV positive') AS y, 0.5::DOUBLE AS x FROM range(3)")
    broken = relation.query("r", "SELECT CAST(y AS DOUBLE) AS x FROM r")
    with pytest.raises(md.InvalidParameter, match="must answer") as refused:
        md.private_release(broken, "mean", columns=["x"], lower=0, upper=1, epsilon=1, delta=1e-6)
    shown = f"{refused.value!r} {refused.value.__cause__!r} {refused.value.__context__!r}"
    assert "HIV" not in shown


@pytest.mark.filterwarnings("ignore::mustdp.randomness.keys.SeededRelease")
def test_files_and_databases_from_the_command_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    run: Run = runner(capsys)
    monkeypatch.chdir(tmp_path)
    frame = people()[["age", "children"]]
    frame.to_parquet("people.parquet")
    frame.to_csv("people.csv", index=False)
    with duckdb.connect("people.duckdb") as connection:
        connection.register("frame", frame)
        connection.execute("CREATE TABLE people AS SELECT * FROM frame")
    line = "release {} --column age --lower 0 --upper 100 --statistic mean --epsilon 1 --delta 1e-6"
    line += " --seed 3"
    alone = answer_of(run, line.format("people.parquet"))
    for data in ("duckdb::people.parquet", "people.duckdb::people", "duckdb::people.csv"):
        assert answer_of(run, line.format(data)) == alone, data
    for data in ("duckdb::nothing.parquet", "people.duckdb::nobody", "duckdb::people.duckdb"):
        outcome = run(*line.format(data).split())
        assert (outcome.status, outcome.out) == (2, "")
        assert outcome.err.count("\n") == 1


def test_the_page_about_engines() -> None:
    page = (Path(__file__).parents[3] / "docs" / "engines.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    names: dict[str, Any] = {}
    exec(compile(code, "engines.md", "exec"), names)
    assert names["result"].estimate == pytest.approx(50, abs=1)


def answer_of(run: Run, line: str) -> Any:
    outcome = run(*line.split(), "--json")
    assert outcome.status == 0, outcome.err
    return outcome.out


@pytest.mark.parametrize(("usual", "group"), [("True", "true"), ("0x1", "1"), ("-0", "0")])
def test_no_record_of_a_file_changes_how_others_are_read(
    tmp_path: Path, usual: str, group: str
) -> None:
    """Types are not guessed from the records: one that is no number would change all others."""
    pytest.importorskip("duckdb")
    counted = []
    for last in (usual, "z"):
        path = tmp_path / f"{last}.csv"
        path.write_text("g,x\n" + f"{usual},5\n" * 99 + f"{last},5\n")
        with pytest.warns(md.types.SeededRelease):
            result = md.private_release(
                f"duckdb::{path}", "count", columns=["x"], lower=0, upper=9, by="g",
                groups=[group], noise_multiplier=1e-6, delta=1e-6, seed=1,
            )  # fmt: skip
        counted.append(result.estimates[0].value)
    assert abs(counted[0] - counted[1]) < 1.5


def test_a_path_is_no_pattern(tmp_path: Path) -> None:
    pytest.importorskip("duckdb")
    for name in ("a[12].csv", "a1.csv", "a2.csv"):
        (tmp_path / name).write_text("x\n1\n")
    with pytest.raises(InvalidParameter, match="must be a path without"):
        md.private_release(
            f"duckdb::{tmp_path}/a[12].csv", "mean", columns=["x"], lower=0, upper=9,
            noise_multiplier=1.0, delta=1e-6,
        )  # fmt: skip
