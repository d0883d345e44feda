"""What holds for every single draw, whatever the scheme and the seed."""

from __future__ import annotations

import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mustdp as md
from tests.seams import draw_in_portions

SEEDS = st.integers(0, 2**32)


@st.composite
def schemes(draw: st.DrawFn) -> md.types.Scheme:
    """Any scheme whose batch is small, over any number of records."""
    n = draw(st.one_of(st.integers(1, 50), st.integers(1, 2**53)))
    if draw(st.integers(0, 4)) == 0:
        return md.poisson(n, draw(st.floats(0, 1)) * min(1.0, 300 / n))
    stages: list[tuple[str, int]] = []
    available = n
    for _ in range(draw(st.integers(1, 4))):
        kind = draw(st.sampled_from(["wor", "wr"]))
        largest = draw(st.sampled_from([3, 60, 1500, 2**40]))
        size = draw(st.integers(1, min(available, largest) if kind == "wor" else largest))
        stages.append((kind, size))
        available = size
    return md.multistage(n, [*stages, ("wor", min(available, 2000))])


@given(scheme=schemes(), seed=SEEDS)
@settings(max_examples=300, deadline=None)
def test_a_batch_is_a_multiset_of_records(scheme: md.types.Scheme, seed: int) -> None:
    batch = scheme.draw(np.random.default_rng(seed))
    for array in (batch.indices, batch.counts):
        assert array.dtype == np.int64
        assert array.ndim == 1
        assert not array.flags.writeable
    assert batch.indices.size == batch.counts.size == batch.distinct
    assert np.unique(batch.indices).size == batch.distinct
    assert (batch.indices >= 0).all()
    assert (batch.indices < scheme.n).all()
    assert (batch.counts >= 1).all()
    assert batch.rows().size == batch.size
    if isinstance(scheme, md.types.Multistage):
        assert batch.size == scheme.m
        assert batch.distinct <= min(scheme.n, *(stage.size for stage in scheme.stages))
        if scheme.reduced[-1].kind == "wor":
            assert (batch.counts == 1).all()
    else:
        assert (batch.counts == 1).all()


@given(scheme=schemes(), seed=SEEDS)
@settings(max_examples=50, deadline=None)
def test_equal_seeds_give_equal_batches(scheme: md.types.Scheme, seed: int) -> None:
    first, second = (scheme.draw(np.random.default_rng(seed)) for _ in range(2))
    np.testing.assert_array_equal(first.indices, second.indices)
    np.testing.assert_array_equal(first.counts, second.counts)


@given(n=st.integers(1, 40), m=st.integers(1, 40), b=st.integers(1, 40), seed=SEEDS)
@settings(max_examples=50, deadline=None)
def test_equal_laws_draw_alike(n: int, m: int, b: int, seed: int) -> None:
    """Schemes with the same reduced stages give the very same batches."""

    def drawn(scheme: md.types.Scheme) -> md.types.Batch:
        return scheme.draw(np.random.default_rng(seed))

    assert drawn(md.must_ow(n, n, m)) == drawn(md.wr(n, m))
    assert drawn(md.must_wo(n, max(b, m), m)) == drawn(md.wr(n, m))
    if m <= b <= n:
        assert drawn(md.must_oo(n, b, m)) == drawn(md.wor(n, m))


def test_drawing_leaves_global_randomness_alone() -> None:
    before = np.random.get_state(legacy=False)["state"]["pos"]  # noqa: NPY002
    md.must_ww(1000, 100, 100).draw()
    assert np.random.get_state(legacy=False)["state"]["pos"] == before  # noqa: NPY002


def test_without_a_generator_draws_differ() -> None:
    scheme = md.wor(10**9, 50)
    assert scheme.draw() != scheme.draw()


def test_an_empty_poisson_batch_is_a_batch() -> None:
    rng = np.random.default_rng(0)
    for scheme in (md.poisson(10, 0.0), md.poisson(2**53, 0.0), md.poisson(3, 1e-9)):
        batch = scheme.draw(rng)
        assert (batch.size, batch.distinct, batch.rows().size) == (0, 0, 0)
        assert batch.indices.dtype == np.int64


def test_a_poisson_batch_can_be_everything() -> None:
    assert sorted(md.poisson(7, 1.0).draw().indices.tolist()) == list(range(7))


@pytest.mark.parametrize(
    ("scheme", "word"),
    [
        (md.wr(2**53, 2**32), "4294967296"),
        (md.wor(2**53, 2**31 + 1), "2147483649"),
        (md.must_ow(2**53, 2**40, 2**50), "1125899906842624"),
        (md.must_ww(10, 2**40, 2**40), "1099511627776"),
        (md.poisson(2**53, 0.5), "rate must be at most"),
        (md.poisson(2**33, 1.0), "rate must be at most"),
    ],
    ids=str,
)
def test_a_batch_that_cannot_be_held_is_refused_before_any_work(
    scheme: md.types.Scheme, word: str
) -> None:
    start = time.thread_time()
    with pytest.raises(md.InvalidParameter, match=r"2\*\*31") as refusal:
        scheme.draw(np.random.default_rng(0))
    assert word in str(refusal.value)
    assert time.thread_time() - start < 5


@pytest.mark.parametrize("n", [10**4, 2 * 10**9, 2**53])
def test_cost_follows_the_batch(n: int) -> None:
    """A generous limit that anything of order n, b or m would break by far."""
    rng = np.random.default_rng(1)
    start = time.thread_time()
    for scheme in (
        md.poisson(n, 1000 / n),
        md.wor(n, 1000),
        md.wr(n, 10**15 if n == 10**4 else 1000),
        md.must_ow(n, 10**4, 10**10),
        md.must_ww(n, 2**50, 1000),
    ):
        scheme.draw(rng)
    assert time.thread_time() - start < 20


def test_large_counts_are_drawn_in_portions(monkeypatch: pytest.MonkeyPatch) -> None:
    draw_in_portions(monkeypatch, 64)
    batch = md.wr(50, 1000).draw(np.random.default_rng(2))
    assert batch.size == 1000
    assert batch.distinct == 50
