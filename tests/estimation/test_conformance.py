"""Every registered statistic keeps the contract, in releases and in the bootstrap.

Nothing here names a statistic: a new one is tested by being registered. What its class says it can
do is what is asked of it. Sensitivities are tried out by brute force, intervals by simulation, and
what is unsound on purpose is shown to fail.
"""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from html import escape
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import mustdp as md
from mustdp.cli.parameters import complete_help
from mustdp.errors import InvalidParameter
from mustdp.estimation import expected_widths
from mustdp.estimation.bootstrap import infer
from mustdp.estimation.queries import BoundedSum, JointSums, Piece, Query
from mustdp.estimation.release import parts_of, run_rounds
from mustdp.estimation.schema import Column, PublicSchema, Range, SubsetSchema
from mustdp.estimation.statistics.moments import Moments
from mustdp.estimation.statistics.statistic import (
    Statistic,
    StatisticRequest,
    read_statistic,
    registered,
    usages,
)
from mustdp.numerics.arrays import FloatArray
from mustdp.randomness.keys import NoiseSource
from mustdp.reporting.release_page import plan_page, release_page
from mustdp.types import Design, Estimate, Expected, Relation, ReleasedEstimate
from tests.cli.running import Run, answer, check_refused, runner
from tests.estimation.bootstrap.statistics.swaps import moved
from tests.estimation.release.simulated import accepted
from tests.estimation.release.swapping import allowed, movements

WRITTEN = {name: one for name, one in registered().items() if one.usage is not None}
RELEASED = [name for name, one in WRITTEN.items() if one.for_release]
RESAMPLED = [name for name, one in WRITTEN.items() if one.for_bootstrap]

COLUMNS = (Column("x", Range(0.0, 1.0)), Column("y", Range(0.0, 1.0)))
PLAIN = PublicSchema(COLUMNS, Relation.REPLACE_ONE, 50)
GROUPED: dict[str, Any] = {"groups": ("a", "b", "other"), "by": "kind"}
SCHEMAS = {
    "replace-one": PLAIN,
    "dropped": replace(PLAIN, dropped=True),
    "groups": replace(PLAIN, **GROUPED),
    "weights": replace(PLAIN, largest_weight=3.0),
    "strata": replace(PLAIN, **GROUPED, shares=(0.5, 0.4, 0.1), population=1e6),
    "add-remove": PublicSchema(COLUMNS, Relation.ADD_REMOVE, None),
    "add-remove, groups": PublicSchema(COLUMNS, Relation.ADD_REMOVE, None, dropped=True, **GROUPED),
}


def example(name: str) -> Statistic:
    """The statistic of as many columns as it takes, at most two."""
    kind = WRITTEN[name]
    bare: Any = read_statistic(kind.example or name)
    found: Statistic = replace(bare, columns=("x",) if kind.fewest == 1 else ("x", "y"))
    return found


def start(name: str) -> float:
    """The lower end of both ranges, which are one wide; values are moved by as much."""
    return 0.5 if WRITTEN[name].positive else 0.0


def ranged(name: str, setting: str = "replace-one") -> PublicSchema:
    """The setting, with the ranges of this statistic."""
    low = start(name)
    columns = (Column("x", Range(low, low + 1.0)), Column("y", Range(low, low + 1.0)))
    return replace(SCHEMAS[setting], columns=columns)


def clipped(name: str, values: FloatArray) -> FloatArray:
    return np.clip(values, start(name), start(name) + 1.0)


def drawn(n: int, seed: int | tuple[int, ...]) -> FloatArray:
    """Two columns that vary together; some values are beyond the ranges from 0 to 1."""
    rng = np.random.default_rng(seed)
    x = 1.2 * rng.beta(2.0, 3.0, n) - 0.05
    return np.column_stack([x, 0.25 + 0.5 * x + 0.15 * rng.normal(size=n)])


# What results are called, and how it is written.


@pytest.mark.parametrize("name", WRITTEN)
def test_what_is_written_is_read_again(name: str) -> None:
    statistic = example(name)
    assert read_statistic(statistic.written) == statistic
    assert statistic.name == name
    assert statistic.__doc__
    assert statistic.for_release or statistic.for_bootstrap


def test_lists_and_help_are_those_of_the_registry() -> None:
    for runner_name, names in (("for_release", RELEASED), ("for_bootstrap", RESAMPLED)):
        assert usages(runner_name) == tuple(WRITTEN[name].usage or name for name in names)
        assert complete_help(f"{{{runner_name}}}") == ", ".join(usages(runner_name))
    assert all(WRITTEN[name].about for name in WRITTEN)  # for the table of docs/cli.md


@pytest.mark.parametrize("name", WRITTEN)
def test_bad_input_is_refused(name: str) -> None:
    kind = WRITTEN[name]
    for text in (f"{name}:", f"{name}:no", f"{name}:1e999", f" {name.upper()}", f"{name}@x,x"):
        with pytest.raises(InvalidParameter):
            read_statistic(text).check_bootstrap() if kind.for_bootstrap else read_statistic(text)
    bare: Any = example(name)
    if kind.for_release:
        with pytest.raises(InvalidParameter, match="must name columns among x, y"):
            list(replace(bare, columns=("x", "other")).requests(PLAIN))
        if kind.numeric:
            without = replace(PLAIN, columns=(Column("x"), Column("y")))
            with pytest.raises(InvalidParameter, match="must have a range"):
                list(bare.requests(without))
        if kind.positive:
            with pytest.raises(InvalidParameter, match=r"^lower must be above 0 for .*, got 0$"):
                list(bare.requests(PLAIN))
    else:
        with pytest.raises(InvalidParameter):
            list(bare.requests(PLAIN))
    if kind.for_bootstrap and kind.positive:
        count = len(bare.columns)
        with pytest.raises(InvalidParameter, match=r"^lower must be above 0 for .*, got 0$"):
            bare.query(SubsetSchema([0.0] * count, [1.0] * count, 4))
    if not kind.for_bootstrap:
        with pytest.raises(InvalidParameter, match="must be one of"):
            bare.check_bootstrap()


# Sensitivity, by brute force over swaps of records.


def requests(name: str, schema: PublicSchema) -> list[StatisticRequest]:
    try:
        return list(example(name).requests(schema))
    except InvalidParameter:  # a survey design that it refuses
        return []


def rounds(
    made: list[StatisticRequest], schema: PublicSchema, low: float
) -> Iterator[tuple[BoundedSum, ...]]:
    """What is added up in the first round and, chosen by a first round without noise, the next."""
    first = tuple(parts_of(made))
    if not first:
        return
    yield first
    joint = JointSums(schema, first, 2.0)
    values = drawn(300, 5) + low
    own = np.clip(values, low, low + 1.0)
    piece = Piece(own, np.arange(300) % schema.slots, _ones(schema), values)
    noiseless = joint.read(joint.totals([piece])[0] * joint.noise.lattice.step)
    found = dict(zip(first, noiseless, strict=True))
    for one in made:
        if one.two_rounds and one.sums in found:
            shared = one.second_request
            part = shared.second_sums(found[one.sums], [one])
            yield (part,)
            for _ in shared.later_shares[1:]:
                joint = JointSums(schema, (part,), 2.0)
                (last,) = joint.read(joint.totals([piece])[0] * joint.noise.lattice.step)
                part = shared.next_sums(last)
                yield (part,)


def _ones(schema: PublicSchema) -> FloatArray | None:
    return np.ones(300) if schema.weighted else None


def records(schema: PublicSchema) -> list[list[float]]:
    """Corners, middles, places inside and beyond; missing values where they are dropped."""
    ends = [0.0, 0.39, 0.5, 1.0, *([math.nan] if schema.dropped else [])]
    rng = np.random.default_rng(1)
    return [*map(list, itertools.product(ends, ends)), *rng.uniform(size=(25, 2)).tolist()]


@pytest.mark.parametrize("setting", SCHEMAS)
@pytest.mark.parametrize("name", RELEASED)
def test_no_record_moves_a_release_farther_than_its_noise_allows(name: str, setting: str) -> None:
    schema, low = ranged(name, setting), start(name)
    weights = (0.0, 0.4, 1.0) if schema.weighted else (1.0,)
    swapped = [[low + x for x in record] for record in records(schema)]
    for parts in rounds(requests(name, schema), schema, low):
        joint = JointSums(schema, parts, noise_multiplier=2.0)
        assert movements(joint, swapped, weights) <= allowed(joint)


@pytest.mark.parametrize("poisson", [False, True], ids=["fixed size", "poisson"])
@pytest.mark.parametrize("name", RESAMPLED)
def test_no_entry_moves_a_query_farther_than_its_reaches_allow(name: str, poisson: bool) -> None:
    assert _worst(example(name), poisson) <= 1.0 + 1e-9


def _worst(statistic: Statistic, poisson: bool) -> float:
    size, count = 4, len(statistic.columns or ())
    low = start(statistic.name)
    lower, upper = [low] * count, [low + 1.0] * count
    query = statistic.query(SubsetSchema(lower, upper, size, poisson=poisson))
    points = np.array(list(itertools.product((0.0, 0.39, 1.0), repeat=count)))
    rng, worst = np.random.default_rng(2), 0.0
    points = low + np.concatenate([points, rng.uniform(size=(6, count))])
    for _ in range(30):
        rows = points[rng.integers(len(points), size=size - 1)]
        ones = np.ones(size, dtype=np.int64)
        ends = [query.evaluate(np.vstack([rows, one]), ones) for one in points]
        worst = max(worst, *(moved(query, a - b, copies=2) for a, b in itertools.pairwise(ends)))
        worst = max(worst, *(moved(query, ends[0] - one, copies=2) for one in ends[1:]))
        if poisson:
            bare = query.evaluate(rows, ones[1:])
            worst = max(worst, *(moved(query, one - bare, copies=1) for one in ends))
    return worst


class Understated:
    """A statistic of the bootstrap whose query states eight tenths of what an entry can do."""

    def __init__(self, inner: Any) -> None:
        self.name, self.columns, self._inner = inner.name, inner.columns, inner

    def query(self, schema: SubsetSchema) -> Any:
        query: Any = self._inner.query(schema)
        blocks = tuple(replace(one, radius=0.8 * one.radius) for one in query.blocks)
        return SimpleNamespace(evaluate=query.evaluate, blocks=blocks)


@pytest.mark.parametrize("poisson", [False, True], ids=["fixed size", "poisson"])
@pytest.mark.parametrize("name", ["mean", "proportion", "median"])
def test_reaches_that_are_too_small_would_be_seen(name: str, poisson: bool) -> None:
    unsound: Any = Understated(example(name))
    assert _worst(unsound, poisson) > 1.0


@dataclass(frozen=True)
class TooFine(Moments):
    """Sums that claim less than one record can do."""

    @property
    def radius(self) -> float:
        return 0.8 * super().radius

    @property
    def diameter(self) -> float:
        return 0.8 * super().diameter


@pytest.mark.parametrize("setting", SCHEMAS)
def test_a_sensitivity_that_is_too_small_would_be_seen(setting: str) -> None:
    schema = SCHEMAS[setting]
    joint = JointSums(schema, (TooFine(schema, (0, 1)),), noise_multiplier=2.0)
    assert movements(joint, records(schema)) > allowed(joint)


# Values and intervals, by simulation.


def released(name: str, values: FloatArray, noise: float, seed: int) -> list[ReleasedEstimate]:
    """A release without ledger or calibration; the number of records is private."""
    schema, values = ranged(name, "add-remove"), values + start(name)
    piece = Piece(clipped(name, values), np.zeros(len(values), np.int64), None, values)
    return list(
        run_rounds(
            schema, lambda: iter((piece,)), lambda to: list(example(name).requests(to)), noise,
            charge=lambda: None, source=NoiseSource(seed), level=0.95,
        )
    )  # fmt: skip


def resampled(name: str, values: FloatArray, noise: float, seed: int) -> tuple[Estimate, ...]:
    """What a bootstrap infers, without its bookkeeping."""
    statistic, rng = example(name), np.random.default_rng(seed)
    own = clipped(name, values + start(name))[:, : len(statistic.columns or ())]
    design = Design(md.wor(len(own), len(own) // 5), 30)
    query = _bound(statistic, design.size)
    rows = [
        query.evaluate(own[batch.indices], batch.counts)
        for _, batch in design.draws(seed, 0, design.releases)
    ]
    deviations = noise * np.concatenate([np.full(one.width, one.radius) for one in query.blocks])
    noisy = np.array(rows) + rng.normal(size=(len(rows), query.width)) * deviations
    return infer(design, query, noisy, deviations**2).estimates


def _bound(statistic: Statistic, size: float) -> Query:
    count = len(statistic.columns or ())
    low = start(statistic.name)
    return statistic.query(SubsetSchema([low] * count, [low + 1.0] * count, size))


POPULATION = drawn(100_000, 99)


def truths(name: str) -> list[float]:
    """The estimates on a large population with next to no noise."""
    return [one.value for one in released(name, POPULATION, 1e-3, 1)]


@pytest.mark.parametrize("name", sorted({*RELEASED} & {*RESAMPLED}))
def test_both_runners_estimate_the_same(name: str) -> None:
    query = _bound(example(name), len(POPULATION))
    values = clipped(name, POPULATION + start(name))[:, : len(example(name).columns or ())]
    exact = query.estimate(query.evaluate(values, np.ones(len(values), dtype=np.int64)))
    assert exact == pytest.approx(truths(name), abs=0.01)


def covers(found: list[Estimate], truth: float) -> tuple[bool, bool]:
    """Whether 95 % coverage is not refuted, and whether a value five errors away is."""
    error = float(np.median([one.standard_error for one in found]))
    hits = [sum(one.interval[0] <= at <= one.interval[1] for one in found)
            for at in (truth, truth + 5.0 * error)]  # fmt: skip
    return accepted(hits[0], len(found)), not accepted(hits[1], len(found))


@pytest.mark.parametrize("name", RELEASED)
def test_intervals_of_a_release_cover_the_truth_and_little_else(name: str) -> None:
    runs, n = 120, 500
    values = truths(name)
    at = max(range(len(values)), key=lambda k: abs(values[k]))
    truth = values[at] * (n / len(POPULATION) if WRITTEN[name].is_total else 1.0)
    found: list[Estimate] = [released(name, drawn(n, (k, 1)), 4.0, k)[at] for k in range(runs)]
    known = [one for one in found if one.known]
    assert len(known) >= 0.9 * runs
    assert covers(known, truth) == (True, True)


@pytest.mark.parametrize("name", RESAMPLED)
def test_intervals_of_a_bootstrap_cover_the_truth_and_little_else(name: str) -> None:
    found = [resampled(name, drawn(500, (k, 2)), 0.5, k)[-1] for k in range(120)]
    assert covers(found, truths(name)[-1]) == (True, True)


def test_intervals_that_are_too_narrow_or_too_wide_would_be_seen() -> None:
    found = [resampled("mean", drawn(500, (k, 2)), 0.5, k)[-1] for k in range(120)]
    truth = truths("mean")[-1]

    def scaled(one: Estimate, factor: float) -> Estimate:
        low, high = ((1.0 - factor) * one.value + factor * end for end in one.interval)
        return replace(one, interval=(low, high))

    assert covers(found, truth) == (True, True)
    assert not covers([scaled(one, 0.6) for one in found], truth)[0]
    assert not covers([scaled(one, 6.0) for one in found], truth)[1]


# JSON, tables, pages, plans and the command line.


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("conformance") / "records.csv"
    np.savetxt(path, drawn(300, 8), delimiter=",", header="x,y", comments="")
    return path


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    return runner(capsys)


def given(name: str) -> str:
    return f"--lower {start(name)} --upper {start(name) + 1.0} --delta 1e-5"


def columns(name: str) -> str:
    return " ".join(f"--column {one}" for one in example(name).columns or ())


@pytest.mark.parametrize("name", RELEASED)
@pytest.mark.filterwarnings("ignore::mustdp.types.LargeDelta")
def test_a_release_is_written_and_drawn(name: str, table: Path) -> None:
    result = md.private_release(
        str(table), example(name), columns=list(map(str, example(name).columns or ())),
        lower=start(name), upper=start(name) + 1.0, noise_multiplier=3.0, delta=1e-5,
    )  # fmt: skip
    data = result.as_dict()
    assert json.loads(json.dumps(data, allow_nan=False)) == data
    assert len(result.as_csv().splitlines()) == 1 + len(result.estimates)
    assert result.as_latex().count(r"\\") >= 1 + len(result.estimates)
    assert name in release_page(result).html()
    assert all(one.description for one in result.estimates)


def planned(name: str, epsilon: float) -> Sequence[Expected]:
    about: dict[str, Any] = {
        "n": 1000,
        "lower": start(name),
        "upper": start(name) + 1.0,
        "columns": ("x", "y"),
    }
    return expected_widths(example(name), epsilon=epsilon, delta=1e-6, **about)


@pytest.mark.parametrize("name", RELEASED)
def test_a_release_is_planned(name: str) -> None:
    for wide, narrow in zip(planned(name, 0.5), planned(name, 2.0), strict=True):
        assert math.isfinite(narrow.width)
        assert narrow.width <= wide.width
        assert 0.0 <= narrow.noise_share <= 1.0


def test_plans_are_drawn() -> None:
    less, more = ([planned(name, at)[0] for name in RELEASED] for at in (0.5, 2.0))
    page = plan_page([(0.5, less), (2.0, more)], 1000).html()
    for one in less:
        assert escape(one.label) in page


@pytest.mark.parametrize("name", RELEASED)
def test_the_command_line_releases_it(name: str, table: Path, run: Run) -> None:
    text = example(name).written
    line = (
        f"release {table} {columns(name)} --statistic '{text}' {given(name)} --noise-multiplier 3"
    )
    found = answer(run, line)["estimates"]
    assert {one["statistic"].partition(":")[0] for one in found} == {name}
    line = f"plan -n 300 {columns(name)} --statistic '{text}' {given(name)} --epsilon 1"
    assert len(answer(run, line)["rows"]) == len(found)
    words = (
        "release",
        table,
        *columns(name).split(),
        *given(name).split(),
        "--noise-multiplier",
        "3",
    )
    wrong = f"{name}:0.5@x,nothing" if ":" in text else f"{name}@x,nothing"
    check_refused(run(*words, "--statistic", wrong), "--statistic")


@pytest.mark.parametrize("name", RESAMPLED)
def test_the_command_line_resamples_it(name: str, table: Path, run: Run) -> None:
    text = example(name).written
    rest = f"--scheme wor -m 50 --replicates 8 {given(name)} --noise-multiplier 9"
    line = f"bootstrap {table} {columns(name)} --statistic '{text}' {rest}"
    found = answer(run, line)
    assert set(found) >= {"estimate", "standard_error", "interval", "estimates", "privacy"}
    assert all(one["description"] for one in found["estimates"])
