"""Nested designs: subsets are really reused, and one path alone has the scheme's law."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mustdp as md
from mustdp.types import NestedDesign
from tests.sampling.chi_square import ACCEPT, REJECT, p_value
from tests.sampling.exact_laws import Counts, joint_law


def design(n: Any, levels: Any) -> NestedDesign:
    return NestedDesign(n, levels)


def bad(value: Any) -> Any:
    """Something that the type checker would have refused."""
    return value


BAG = design(10_000, ((4, "wor", 50), (6, "wr", 80)))
DEEP = design(5_000, [(3, "wr", 90), (2, "wor", 60), (4, "wr", 70)])


def test_the_design_describes_itself() -> None:
    assert BAG.releases == 24
    assert DEEP.releases == 24
    assert BAG.scheme == md.must_ow(10_000, 50, 80)
    listed = design(10_000, [[4, "wor", 50], [6, "wr", 80]])
    assert listed == BAG
    assert hash(listed) == hash(BAG)
    assert DEEP.levels[1] == (2, "wor", 60)
    described = json.loads(json.dumps(BAG.describe()))
    assert described["releases"] == 24
    assert [level["subsets"] for level in described["levels"]] == [4, 24]
    assert described["levels"][0]["expected_distinct"] == 50
    assert described["levels"][1]["expected_distinct"] == BAG.scheme.expected_distinct


@pytest.mark.parametrize("nested", [BAG, DEEP], ids=["bag", "deep"])
def test_every_release_is_drawn_from_the_subset_above_it(nested: NestedDesign) -> None:
    seen = []
    for path, batch in nested.draws(seed=3):
        seen.append(path)
        assert batch.size == nested.levels[-1].size
        assert batch == nested.subset(path, seed=3)
        for k in range(1, len(path) + 1):
            subset = nested.subset(path[:k], seed=3)
            level = nested.levels[k - 1]
            assert subset.size == level.size
            assert np.isin(nested.subset(path, seed=3).indices, subset.indices).all()
            if k > 1 and level.kind == "wor":
                above = nested.subset(path[: k - 1], seed=3)
                have = dict(zip(above.indices.tolist(), above.counts.tolist(), strict=True))
                for index, count in zip(subset.indices, subset.counts, strict=True):
                    assert count <= have[int(index)]
    assert seen == list(nested.paths())
    assert len(set(seen)) == nested.releases


def test_reuse_is_real() -> None:
    """Six resamples of one stage-I subset stay inside its 50 records and differ; others do not."""
    releases = dict(BAG.draws(seed=8))
    together = [set(releases[0, j].indices.tolist()) for j in range(6)]
    assert len(set().union(*together)) <= 50
    assert len({frozenset(members) for members in together}) == 6
    apart = [set(releases[i, 0].indices.tolist()) for i in range(4)]
    assert len(set().union(*apart)) > 100


@given(workers=st.integers(1, 30), seed=st.integers(0, 2**128 - 1))
@settings(max_examples=25, deadline=None)
def test_workers_share_the_paths_out(workers: int, seed: int) -> None:
    whole = list(DEEP.draws(seed))
    shared = [
        release for w in range(workers) for release in DEEP.draws(seed, worker=w, workers=workers)
    ]
    assert shared == whole


def test_a_seed_reproduces_the_design_and_another_does_not() -> None:
    assert list(BAG.draws(1)) == list(BAG.draws(1))
    assert list(BAG.draws(1)) != list(BAG.draws(2))
    assert list(BAG.draws()) != list(BAG.draws())


@pytest.mark.parametrize(
    "levels",
    [
        ((1, "wor", 3), (1, "wr", 4)),
        ((1, "wr", 4), (1, "wr", 4)),
        ((1, "wr", 5), (1, "wor", 3)),
        ((1, "wor", 4), (1, "wor", 3)),
        ((1, "wr", 5), (1, "wr", 4), (1, "wor", 3)),
    ],
    ids=str,
)
def test_one_path_has_the_law_of_the_scheme(levels: Any) -> None:
    """Any fixed path does, so many stage-I subsets with one release each are independent draws."""
    first, *rest = levels
    nested = design(5, ((8_000, *first[1:]), *rest))
    vectors = counted(nested, seed=12)
    assert p_value(vectors, joint_law(nested.scheme)) > ACCEPT
    sizes = [stage.size for stage in nested.scheme.stages]
    close_by = md.wr(5, sizes[-1])
    if joint_law(close_by) == joint_law(nested.scheme):
        close_by = md.wor(5, sizes[-1])
    assert p_value(vectors, joint_law(close_by)) < REJECT


def test_releases_of_one_subset_are_not_independent() -> None:
    """Two releases from one subset pass for the reused design and fail for independent draws."""
    nested = design(4, ((8_000, "wor", 2), (2, "wr", 2)))
    vectors = counted(nested, seed=13)
    pairs = list(zip(vectors[0::2], vectors[1::2], strict=True))
    once = joint_law(nested.scheme)
    independent = {(a, b): once[a] * once[b] for a in once for b in once}
    subsets, inner = joint_law(md.wor(4, 2)), joint_law(md.wr(2, 2))
    reused: dict[tuple[Counts, Counts], float] = {}
    for subset, chance in subsets.items():
        places = [k for k, taken in enumerate(subset) if taken]
        for a, p in inner.items():
            for b, q in inner.items():
                pair = spread(a, places), spread(b, places)
                reused[pair] = reused.get(pair, 0.0) + float(chance * p * q)
    assert p_value(pairs, reused) > ACCEPT
    assert p_value(pairs, independent) < REJECT


def counted(nested: NestedDesign, seed: int) -> list[Counts]:
    return [
        tuple(np.bincount(batch.rows(), minlength=nested.n).tolist())
        for _, batch in nested.draws(seed)
    ]


def spread(counts: Counts, places: list[int]) -> Counts:
    vector = [0, 0, 0, 0]
    for place, count in zip(places, counts, strict=True):
        vector[place] = count
    return tuple(vector)


def test_cost_follows_the_subsets_and_not_the_draws() -> None:
    nested = design(2**53, ((2, "wor", 1000), (2, "wr", 10**12), (2, "wr", 10**12)))
    for _, batch in nested.draws(5):
        assert batch.size == 10**12
        assert batch.distinct <= 1000


@pytest.mark.parametrize(
    ("n", "levels", "message"),
    [
        (0, [(1, "wor", 1)], "n must be an integer from 1 .* got 0"),
        (10, [], r"levels must be a non-empty list of .* got \[\]"),
        (10, 7, "levels must be a non-empty list .* got 7"),
        (10, [(1, "wor")], r"level 1 must be \(repeats, kind, size\) .* got \(1, 'wor'\)"),
        (10, ["wor"], "level 1 must be .* got 'wor'"),
        (10, [(0, "wor", 3)], "repeats of level 1 must be an integer from 1 .* got 0"),
        (10, [(2**32 + 1, "wor", 3)], "repeats of level 1 must be an integer from 1 to 4294967296"),
        (10, [(1, "wor", 3), (1.5, "wr", 3)], "repeats of level 2 must be an integer .* got 1.5"),
        (10, [(1, "or", 3)], "kind of level 1 must be one of 'wor', 'wr', got 'or'"),
        (10, [(1, "wor", True)], "size of level 1 must be an integer .* got True"),
        (10, [(1, "wor", 11)], "size of level 1 must be at most n = 10 .* got 11"),
        (10, [(1, "wr", 5), (1, "wor", 6)], "size of level 2 must be at most size of level 1 = 5"),
    ],
)
def test_a_design_that_makes_no_sense_is_refused(n: Any, levels: Any, message: str) -> None:
    with pytest.raises(md.InvalidParameter, match=message):
        design(n, levels)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: BAG.draws(-1), "seed must be an integer from 0 .* got -1"),
        (lambda: BAG.draws(1, worker=2, workers=2), "worker must be an integer from 0 to 1, got 2"),
        (lambda: BAG.draws(1, workers=0), "workers must be an integer from 1 .* got 0"),
        (lambda: BAG.subset((), 1), r"path must hold 1 to 2 numbers, got \(\)"),
        (lambda: BAG.subset((0, 0, 0), 1), "path must hold 1 to 2 numbers"),
        (lambda: BAG.subset(bad(3), 1), "path must hold 1 to 2 numbers, got 3"),
        (lambda: BAG.subset((4,), 1), "number 1 of path must be an integer from 0 to 3, got 4"),
        (lambda: BAG.subset((0, 6), 1), "number 2 of path must be an integer from 0 to 5, got 6"),
        (lambda: BAG.subset((0, 0), bad(None)), "seed must be an integer .* got None"),
        (lambda: next(design(2**53, [(1, "wor", 2**40)]).draws(1)), r"at most 2\*\*31"),
    ],
)
def test_bad_arguments_are_named(call: Any, message: str) -> None:
    with pytest.raises(md.InvalidParameter, match=message):
        call()
