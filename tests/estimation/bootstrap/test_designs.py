"""Designs: what they draw is what they charge for, and they know how much a mean varies."""

from __future__ import annotations

import math
import pickle

import numpy as np
import pytest

import mustdp as md
from mustdp.errors import InvalidParameter
from mustdp.estimation import bag_of_little_bootstraps, double_bootstrap
from mustdp.types import Design
from tests.seams import repeated_pairs

DESIGNS = [
    Design(md.wor(40, 12), 4000),
    Design(md.wr(40, 12), 4000),
    Design(md.must_ow(40, 8, 12), 4000),
    Design(md.must_ww(40, 8, 12), 4000),
    Design(md.must_ow(40, 8, 12), 1000, 4),
    Design(md.must_ww(40, 8, 12), 1000, 4),
    Design(md.multistage(40, [("wr", 20), ("wor", 10)]), 1000, 4),
    bag_of_little_bootstraps(40, b=10, subsets=1000, reuse=4),
    double_bootstrap(40, b=40, m=40, subsets=1000, reuse=4),
]


def identity(design: Design) -> str:
    return f"{design.scheme.name}-{design.reuse}-{design.size:g}"


@pytest.mark.parametrize("design", DESIGNS, ids=identity)
def test_variances_of_means_are_those_of_the_draws(design: Design) -> None:
    """Between and within first stages, against 4000 draws; 20 % more would be rejected."""
    values = np.random.default_rng(3).gamma(1.0, size=design.n)
    influence = np.var(values, ddof=1)
    means = np.array(
        [
            values[batch.indices] @ batch.counts / design.size
            for _, batch in design.draws(17, 0, design.releases)
        ]
    ).reshape(design.subsets, design.reuse)
    groups = np.var(means.mean(axis=1), ddof=1)
    expected = (design.between + design.within / design.reuse) * influence
    assert abs(groups / expected - 1.0) < 5.0 * math.sqrt(2.0 / design.subsets)
    assert abs(groups / (1.2 * expected) - 1.0) > 0.05
    if design.reuse > 1:
        inside = np.var(means, axis=1, ddof=1).mean()
        # Gamma data have heavy tails: the groups' variances vary by more than normal ones.
        assert abs(inside / (design.within * influence) - 1.0) < 0.09
        assert abs(inside / (1.3 * design.within * influence) - 1.0) > 0.09


@pytest.mark.parametrize("design", DESIGNS, ids=identity)
def test_reuse_splits_the_variance_and_adds_none(design: Design) -> None:
    whole = Design(design.scheme, 2).between
    assert design.between + design.within == pytest.approx(whole, rel=1e-12)


@pytest.mark.parametrize(
    ("scheme", "chance"),
    [
        (md.wor(50, 20), 0.0),
        (md.poisson(50, 0.3), 0.0),
        (md.wr(50, 20), 1 / 50),
        (md.must_ow(50, 10, 20), 1 / 10),
        (md.must_ww(50, 10, 20), 1 - (1 - 1 / 10) * (1 - 1 / 50)),
        (md.must_oo(50, 30, 20), 0.0),
        (md.must_wo(50, 30, 20), 1 / 50),
    ],
    ids=lambda value: value.name if isinstance(value, md.types.Scheme) else f"{value:.3f}",
)
def test_chance_of_repeated_pairs(scheme: md.types.Scheme, chance: float) -> None:
    assert repeated_pairs(scheme) == pytest.approx(chance, abs=1e-14)


def test_the_plan_is_nested_where_subsets_are_reused() -> None:
    noise = md.gaussian(noise_multiplier=2.0)
    plain = Design(md.must_ow(100, 20, 30), 6)
    assert plain.plan(noise) == md.repeat(6, md.subsample(md.must_ow(100, 20, 30), noise))
    reused = Design(md.must_ow(100, 20, 30), 2, 3)
    inner = md.repeat(3, md.subsample(md.wr(20, 30), noise))
    assert reused.plan(noise) == md.repeat(2, md.subsample(md.wor(100, 20), inner))
    assert reused.releases == plain.releases == 6
    # Six releases on two subsets cost more than six on fresh ones.
    cost = [md.account(design.plan(noise)).epsilon(1e-5) for design in (plain, reused)]
    assert cost[1].lower > cost[0].upper


@pytest.mark.parametrize("design", DESIGNS[:1] + DESIGNS[4:6], ids=identity)
def test_a_batch_depends_on_seed_and_rank_alone(design: Design) -> None:
    everything = dict(design.draws(5, 0, 40))
    parts = dict(design.draws(5, 30, 40)) | dict(design.draws(5, 0, 30))
    assert everything == parts
    assert list(everything) == list(range(40))
    other = dict(design.draws(6, 0, 40))
    assert any(everything[rank] != other[rank] for rank in range(40))
    copy = pickle.loads(pickle.dumps(design))
    assert dict(copy.draws(5, 30, 40)) == {rank: everything[rank] for rank in range(30, 40)}


def test_second_stages_of_a_group_draw_from_one_first_stage() -> None:
    design = Design(md.must_ow(1000, 5, 50), 3, 4)
    sets = [set(batch.indices.tolist()) for _, batch in design.draws(2, 0, 12)]
    for group in range(3):
        assert len(set().union(*sets[4 * group : 4 * group + 4])) <= 5
    assert len(set().union(*sets)) > 10


@pytest.mark.parametrize(
    ("make", "named"),
    [
        (lambda: Design(md.wor(10, 5), 0), "subsets must"),
        (lambda: Design(md.wor(10, 5), 3, 2), "needs a scheme of two stages"),
        (lambda: Design(md.poisson(10, 0.5), 3, 2), "needs a scheme of two stages"),
        (lambda: Design(md.poisson(10, 0.0), 3), "must draw something"),
        (lambda: Design(md.poisson(10, 1e-300), 3), "must draw something"),
        (lambda: Design("wor", 3), "scheme must be"),  # type: ignore[arg-type]
        (lambda: Design(md.wor(10, 5), 10**9), "subsets must"),
        (lambda: Design(md.must_ow(10, 5, 5), 10**5, 10**5), "reuse must"),
        (lambda: bag_of_little_bootstraps(10, b=20, subsets=2, reuse=2), "b must"),
    ],
)
def test_bad_designs(make: object, named: str) -> None:
    with pytest.raises(InvalidParameter, match=named):
        make()  # type: ignore[operator]
