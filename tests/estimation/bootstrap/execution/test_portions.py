"""Portions: whole groups, every rank once; and one portion, whatever way its rows are read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import mustdp as md
from mustdp.data.opening import open_source
from mustdp.errors import InvalidParameter, NumericalFailure
from mustdp.estimation import bag_of_little_bootstraps
from mustdp.estimation import bootstrap as bundles
from mustdp.estimation import bootstrap as table
from mustdp.estimation.bootstrap import (
    ClippedTable,
    Job,
    Portion,
    SourceOrTable,
    as_table,
    cut,
    handed_out,
    in_bundles,
)
from mustdp.estimation.queries import Halves, Query
from mustdp.estimation.schema import SubsetSchema
from mustdp.numerics.arrays import FloatArray, IntArray
from mustdp.randomness.keys import batch_key
from mustdp.types import Batch, Design
from tests.estimation.bootstrap.execution.examples import FileSource, Moments, expected

N = 400
LOWER, UPPER = np.array([-1.0, 0.0]), np.array([1.0, 0.5])
QUERY = Moments()
DESIGNS = [
    Design(md.wor(N, 30), 60),
    Design(md.wr(N, 50), 60),
    Design(md.poisson(N, 0.004), 60),  # a fifth of the subsets are empty
    Design(md.must_ow(N, 40, 30), 60),
    Design(md.must_ww(N, 60, 30), 6, 10),
    bag_of_little_bootstraps(N, b=25, subsets=4, reuse=15),
]


def evaluate_portion(
    source: SourceOrTable,
    design: Design,
    query: Query,
    seed: int,
    start: int,
    stop: int,
    lower: FloatArray,
    upper: FloatArray,
) -> FloatArray:
    job = Job(design, query, batch_key(seed), lower, upper)
    return job.portion(source, Portion(start, stop))


@pytest.fixture(scope="module")
def x() -> FloatArray:
    return np.random.default_rng(1).normal(size=(N, 2))


@given(
    subsets=st.integers(1, 3000),
    reuse=st.integers(1, 60),
    size=st.integers(1, 500_000),
    columns=st.integers(1, 9),
    by_work=st.booleans(),
    by_rows=st.booleans(),
)
def test_portions_cover_every_rank_once_and_keep_groups_together(
    subsets: int, reuse: int, size: int, columns: int, by_work: bool, by_rows: bool
) -> None:
    design = Design(md.must_ow(10**6, 10**5, size), subsets, reuse)
    found = cut(design, columns, by_work=by_work, by_rows=by_rows)
    ranks = [rank for portion in found for rank in range(*portion)]
    assert ranks == list(range(design.releases))
    assert all(portion.start % reuse == 0 and portion.start < portion.stop for portion in found)


def test_a_file_is_cut_as_coarsely_as_memory_allows() -> None:
    in_file = {"by_work": False, "by_rows": True}
    assert len(cut(Design(md.wor(10**8, 1000), 500), 2, **in_file)) == 1
    assert len(cut(Design(md.wor(10**8, 10**4), 500), 2, **in_file)) == 5
    assert len(cut(Design(md.wor(10**8, 10**7), 5), 2, **in_file)) == 5
    # The 50 replicates of a subset read the same 20000 rows, though each has 1e8 entries.
    little = bag_of_little_bootstraps(10**8, b=20_000, subsets=24, reuse=50)
    assert len(cut(little, 1, **in_file)) == 3


def test_slow_queries_find_portions_too() -> None:
    assert len(cut(Design(md.wor(100, 10), 500), 1, by_work=True, by_rows=False)) == 16
    assert len(cut(Design(md.wor(100, 10), 10**6), 1, by_work=True, by_rows=False)) == 64


@pytest.mark.parametrize("design", DESIGNS, ids=lambda design: str(design.scheme))
@pytest.mark.parametrize("kind", ["table", "memory", "file"])
def test_a_portion_is_what_a_plain_loop_gives(
    design: Design, kind: str, x: FloatArray, tmp_path: Path
) -> None:
    np.save(tmp_path / "x.npy", x)
    source: SourceOrTable = FileSource(tmp_path / "x.npy") if kind == "file" else open_source(x)
    if kind == "table":
        source = as_table(open_source(x), LOWER, UPPER, files=True)
    assert isinstance(source, ClippedTable) == (kind == "table")
    whole = expected(x, design, QUERY, 7, LOWER.tolist(), UPPER.tolist())
    r = design.reuse
    for portion in (Portion(0, design.releases), Portion(r, 3 * r)):
        found = evaluate_portion(source, design, QUERY, 7, *portion, LOWER, UPPER)
        np.testing.assert_array_equal(found, whole[portion.start : portion.stop])
    other = evaluate_portion(source, design, QUERY, 8, 0, design.releases, LOWER, UPPER)
    assert not np.array_equal(other, whole)


def test_halves_depend_on_the_key_and_the_rank_alone(x: FloatArray) -> None:
    """Computed again, or in other portions, a function on halves gives the same bits."""
    spread = md.types.UserStatistic(
        lambda values, counts: np.ptp(values), lambda m: 2.0, columns=(0,)
    )
    query = spread.query(SubsetSchema([-1.0], [1.0], 30))
    source = open_source(x[:, :1])

    def between(start: int, stop: int, key: int = 7) -> FloatArray:
        return evaluate_portion(
            source, DESIGNS[0], query, key, start, stop, LOWER[:1], UPPER[:1]
        )  # fmt: skip

    whole = between(0, 60)
    assert np.array_equal(whole, np.concatenate([between(0, 23), between(23, 60)]))
    assert not np.array_equal(whole, between(0, 60, 8))
    assert np.all(whole[:, 1] <= whole[:, 0])  # a half reaches no farther than the whole
    assert len(np.unique(whole[:, 1])) > 20


def test_values_are_clipped(x: FloatArray) -> None:
    design = Design(md.wor(N, 30), 5)
    unclipped = expected(x, design, QUERY, 7, [-np.inf, -np.inf], [np.inf, np.inf])
    narrow = np.array([0.0, 0.0]), np.array([1e-9, 1e-9])
    for source in (open_source(x), as_table(open_source(x), *narrow, files=True)):
        found = evaluate_portion(source, design, QUERY, 7, 0, 5, *narrow)
        assert np.abs(found).max() <= 30e-9
    assert np.abs(unclipped).max() > 1


def test_an_order_of_columns_in_memory_changes_nothing(x: FloatArray) -> None:
    design = Design(md.wr(N, 50), 20)
    rows, columns = (
        evaluate_portion(open_source(order), design, QUERY, 3, 0, 20, LOWER, UPPER)
        for order in (x, np.asfortranarray(x))
    )
    np.testing.assert_array_equal(rows, columns)


def test_a_file_is_passed_over_once_for_many_subsets(
    x: FloatArray, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    np.save(tmp_path / "x.npy", x)
    source, design = FileSource(tmp_path / "x.npy"), Design(md.wor(N, 30), 60)
    found = evaluate_portion(source, design, QUERY, 7, 0, 60, LOWER, UPPER)
    assert len(source.passes()) == 1
    monkeypatch.setattr(bundles, "MOST_VALUES", 2 * 150)
    again = evaluate_portion(source, design, QUERY, 7, 0, 60, LOWER, UPPER)
    np.testing.assert_array_equal(again, found)
    assert len(source.passes()) > 5
    assert max(source.passes()[1:]) <= 150


@given(
    sizes=st.lists(st.integers(0, 40), max_size=30),
    columns=st.integers(1, 3),
    most_values=st.integers(1, 200),
    most_entries=st.integers(1, 200),
)
@example(sizes=[2, 0], columns=1, most_values=1, most_entries=1)
@settings(max_examples=60)
def test_bundles_hold_every_subset_once_and_no_more_than_allowed(
    sizes: list[int], columns: int, most_values: int, most_entries: int
) -> None:
    rng = np.random.default_rng(len(sizes))
    draws = [
        (rank, Batch(rng.choice(60, size, replace=False), np.ones(size, dtype=np.int64)))
        for rank, size in enumerate(sizes)
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bundles, "MOST_VALUES", most_values)
        patch.setattr(bundles, "MOST_ENTRIES", most_entries)
        found = list(in_bundles(iter(draws), columns))
    assert [pair for bundle in found for pair in bundle.batches] == draws
    for bundle in found:
        union: set[int] = set()
        for _, batch in bundle.batches:
            union |= set(batch.indices.tolist())
        assert bundle.rows.tolist() == sorted(union)
        if len(bundle.batches) > 1:
            assert len(union) * columns <= max(most_values, columns)
            assert sum(batch.distinct for _, batch in bundle.batches) <= most_entries


@pytest.mark.parametrize("indices", [[3], [1, 9], [0]])
def test_a_row_that_was_not_fetched_is_an_error_and_not_another_row(indices: list[int]) -> None:
    batch = Batch(np.array(indices), np.ones(len(indices), dtype=np.int64))
    with pytest.raises(NumericalFailure, match="drawn twice"):
        handed_out(np.array([1, 2, 5]), np.zeros((3, 1)), batch)


def test_small_files_are_read_once_and_large_ones_left_alone(
    x: FloatArray, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    np.save(tmp_path / "x.npy", x)
    source = FileSource(tmp_path / "x.npy")
    held = as_table(source, LOWER, UPPER, files=True)
    assert isinstance(held, ClippedTable)
    np.testing.assert_array_equal(held.values, np.clip(x, LOWER, UPPER))
    assert source.passes() == [N]
    assert as_table(source, LOWER, UPPER, files=False) is source
    monkeypatch.setattr(table, "MOST_VALUES", 2 * N - 1)
    assert as_table(source, LOWER, UPPER, files=True) is source
    memory = open_source(x)
    monkeypatch.setattr(table, "MOST_ROWS", N - 1)
    assert as_table(memory, LOWER, UPPER, files=True) is memory


def test_tables_are_made_in_pieces(x: FloatArray, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table, "_CHUNK", 77)
    held = as_table(open_source(x), LOWER, UPPER, files=True)
    assert isinstance(held, ClippedTable)
    np.testing.assert_array_equal(held.values, np.clip(x, LOWER, UPPER))


class Wrong(Moments):
    def __init__(self, answer: Any) -> None:
        super().__init__()
        object.__setattr__(self, "answer", answer)

    def total(self, values: FloatArray, counts: IntArray, halves: Halves = None) -> FloatArray:
        return self.answer  # type: ignore[attr-defined, no-any-return]


@pytest.mark.parametrize("answer", [np.zeros(5), np.zeros((6, 1)), np.zeros(1), 0.0, [0.0] * 6])
def test_a_query_of_another_width_is_refused(answer: Any, x: FloatArray) -> None:
    with pytest.raises(InvalidParameter, match="6 numbers"):
        evaluate_portion(open_source(x), DESIGNS[0], Wrong(answer), 7, 0, 5, LOWER, UPPER)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_answers_that_are_not_finite_are_not_passed_on(value: float, x: FloatArray) -> None:
    with pytest.raises(NumericalFailure, match="nothing is released"):
        evaluate_portion(
            open_source(x), DESIGNS[0], Wrong(np.full(6, value)), 7, 0, 5, LOWER, UPPER
        )  # fmt: skip


@pytest.mark.parametrize("value", [np.nan, -np.inf])
def test_data_that_are_not_finite_are_refused_before_clipping(
    value: float, x: FloatArray, tmp_path: Path
) -> None:
    bad = x.copy()
    bad[:, 1] = value
    np.save(tmp_path / "x.npy", bad)
    source = FileSource(tmp_path / "x.npy")
    with pytest.raises(InvalidParameter, match="finite"):
        evaluate_portion(source, DESIGNS[0], QUERY, 7, 0, 5, LOWER, UPPER)


@pytest.mark.parametrize("ranks", [[0, 1, 2], [0, 1, 2, 2, 3], [1, 0, 2, 3], [0, 1, 2, 3, 4]])
def test_draws_that_are_not_those_asked_for_are_noticed(ranks: list[int]) -> None:
    multisets = ((rank, np.zeros((1, 2)), np.ones(1, dtype=np.int64)) for rank in ranks)
    job = Job(DESIGNS[0], QUERY, batch_key(7), LOWER, UPPER)
    if ranks == [0, 1, 2, 3, 4]:  # more than asked for are left alone
        assert job.totals(multisets, Portion(0, 4)).shape == (4, 6)
        return
    with pytest.raises(NumericalFailure, match="once each and in order"):
        job.totals(multisets, Portion(0, 4))
