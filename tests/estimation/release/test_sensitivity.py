"""No record moves a release by more than its noise was made for, whatever it is swapped with."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import mustdp as md
from mustdp.errors import InvalidParameter
from mustdp.estimation import release
from mustdp.estimation.queries import BoundedSum, JointSums, Piece
from mustdp.estimation.release import open_table
from mustdp.estimation.schema import Column, PublicSchema, Range
from mustdp.estimation.statistics.counts import CellCounts, Crossed, Listed, OneCell, Within
from mustdp.estimation.statistics.moments import Influences, Moments, WeightSquares
from mustdp.estimation.statistics.quantiles import QuantileCurve, QuantileWindow
from mustdp.types import Relation
from tests.estimation.release.swapping import allowed, movements

COLUMNS = (
    Column("x", Range(0.0, 10.0)),
    Column("y", Range(-1.0, 3.0)),
    Column("z", Range(5.0, 6.0)),
    Column("kind", categories=("a", "b")),
)
REPLACE = PublicSchema(COLUMNS, Relation.REPLACE_ONE, 50)
GROUPS = ("north", "south", "other")
GROUNDS = {
    "fixed": REPLACE,
    "dropped": replace(REPLACE, dropped=True),
    "grouped": replace(REPLACE, groups=GROUPS, by="kind"),
    "grouped and dropped": replace(REPLACE, groups=GROUPS, by="kind", dropped=True),
    "weighted": replace(REPLACE, largest_weight=3.0),
    "private size": PublicSchema(COLUMNS, Relation.ADD_REMOVE, None),
    "private size, grouped": PublicSchema(
        COLUMNS, Relation.ADD_REMOVE, None, groups=GROUPS, by="kind", dropped=True
    ),
}


def parts(schema: PublicSchema) -> dict[str, tuple[BoundedSum, ...]]:
    one, two = Moments(schema, (0,)), Moments(schema, (0, 1))
    three = Moments(schema, (0, 1, 2))
    inside = CellCounts(schema, (0,), Within(2.0, 7.0))
    table = CellCounts(schema, (3, 0), Crossed((Listed(COLUMNS[3].cells), Within(2.0, 7.0))))
    curve = QuantileCurve(schema, (0,), tuple(np.linspace(0.0, 9.0, 7).tolist()))
    rng = np.random.default_rng(3)
    squares = Influences(
        two,
        rng.normal(size=(schema.slots, 3, 5)),
        np.clip(rng.normal(scale=0.3, size=(schema.slots, 5)), -1.0, 1.0),
    )
    places = np.sort([rng.permutation(7)[:4] for _ in range(schema.slots)], axis=1)
    everybody = CellCounts(schema, (0,), OneCell())
    found: dict[str, tuple[BoundedSum, ...]] = {
        "one column": (one,),
        "two columns": (two,),
        "three columns": (three,),
        "share": (inside,),
        "table": (table,),
        "curve": (curve,),
        "window": (QuantileWindow(curve, places),),
        "influences": (squares,),
        "many": (one, two, inside, table, curve),
    }
    if schema.groups:
        grids = (curve.grid, curve.grid[:2], curve.grid[1:5])
        own = QuantileCurve(schema, (0,), curve.grid, grids)
        found["curve of own grids"] = (own,)
        found["window of own grids"] = (QuantileWindow(own, places[:, :3], (3, 1, 2)),)
    if schema.weighted:
        found["squared weights"] = (WeightSquares(schema),)
    if schema.counted:
        found["count"] = (everybody,)
    return found


def records(schema: PublicSchema) -> list[list[float]]:
    """Corners, middles and random places of the box; missing values where they are dropped."""
    numbers = [[r.lower, r.mid, r.upper] for c in COLUMNS if (r := c.range) is not None]
    if schema.dropped:
        numbers = [[*own, math.nan] for own in numbers]
    found = [list(map(float, one)) for one in itertools.product(*numbers, (0, 1, 2))]
    rng = np.random.default_rng(1)
    for _ in range(60):
        inside = [rng.uniform(r.lower, r.upper) for c in COLUMNS if (r := c.range) is not None]
        found.append([*inside, float(rng.integers(3))])
    return found


CASES = [(name, part) for name, schema in GROUNDS.items() for part in parts(schema)]


@pytest.mark.parametrize(("name", "part"), CASES)
def test_one_record_moves_the_release_by_what_the_noise_was_made_for(name: str, part: str) -> None:
    schema = GROUNDS[name]
    stack = JointSums(schema, parts(schema)[part], noise_multiplier=2.0, share=0.7)
    weights = (0.0, 0.4, 1.0) if schema.weighted else (1.0,)
    moved = movements(stack, records(schema), weights)
    assert moved <= allowed(stack)
    # Nothing is wasted either, or the test would not see a bound that is far too large.
    least = {"many": 0.35, "influences": 0.6, "curve": 0.7, "window": 0.6}.get(part, 0.75)
    assert moved >= least * allowed(stack)


@pytest.mark.parametrize("name", [name for name, schema in GROUNDS.items() if schema.groups])
def test_groups_with_fewer_points_have_less_noise_for_the_same_reach(name: str) -> None:
    schema = GROUNDS[name]
    (own,) = parts(schema)["curve of own grids"]
    alone = QuantileCurve(schema, (0,), (0.0, 1.5))
    assert isinstance(own, QuantileCurve)
    values = np.array([[record[0]] for record in records(schema) if record[0] == record[0]])
    longest = [
        float(np.linalg.norm(own.rows(values, np.full(len(values), slot)), axis=1).max())
        for slot in range(3)
    ]
    assert max(longest) <= own.radius
    assert min(longest) >= 0.99 * own.radius
    found = own.covariance_in(1)
    assert found is not None
    # What the slot's own points have by themselves: noise goes with how far one record moves it.
    assert found.own * own.radius**2 == pytest.approx(alone.covariance.own * alone.radius**2)
    with pytest.raises(InvalidParameter, match="where records are not counted"):
        _ = QuantileCurve(REPLACE, (0,), own.grid, own.own).radius


@pytest.mark.parametrize("name", ["fixed", "grouped", "private size"])
def test_the_test_would_see_noise_that_is_too_small(name: str) -> None:
    schema = GROUNDS[name]
    stack = JointSums(schema, parts(schema)["two columns"], noise_multiplier=2.0)
    moved = movements(stack, records(schema))
    assert moved > 0.8 * allowed(stack)


def test_a_record_that_changes_its_group_is_counted() -> None:
    alone, grouped = GROUNDS["fixed"], GROUNDS["grouped"]
    share = CellCounts(grouped, (0,), Within(2.0, 7.0))
    assert grouped.sensitivity(share) == pytest.approx(math.sqrt(2.0))
    assert alone.sensitivity(CellCounts(alone, (0,), Within(2.0, 7.0))) == pytest.approx(1.0)


def test_mean_and_mean_square_cost_what_the_mean_costs_alone() -> None:
    assert REPLACE.sensitivity(Moments(REPLACE, (0,))) == pytest.approx(2.0)


def test_the_rounds_of_a_release_cost_what_one_does(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every share of every part of both rounds, whatever is asked together."""
    made: list[JointSums] = []

    def noted(*given: Any) -> JointSums:
        made.append(JointSums(*given))
        return made[-1]

    monkeypatch.setattr(release, "JointSums", noted)
    x = np.random.default_rng(0).uniform(0, 10, (300, 2))
    for asked in (
        ["median"],
        ["median", "quantile:0.9", "mean"],
        ["median", "sd", "quantile:0.1@0", "correlation", "proportion:>5"],
        ["mean", "sd"],
    ):
        for clipping in (None, 0.1):
            made.clear()
            md.private_release(
                x,
                asked,
                lower=0,
                upper=10,
                noise_multiplier=9.0,
                delta=1e-6,
                ranges=md.types.Ranges(report_clipping=clipping),
            )
            assert len(made) == 2
            spent = sum(one.share * sum(w**2 for w in one.weights or ()) for one in made)
            assert 1.0 - 1e-12 < spent <= 1.0
            # One record moves a round by at most one, and the noise is that of its share.
            precision = sum(one.noise.scale**-2 for one in made)
            assert precision <= (9.0 / 2.0) ** -2


def test_two_rounds_cost_what_one_does() -> None:
    z, schema = 3.0, REPLACE
    first, second = (
        JointSums(schema, parts(schema)["one column"], z, share).noise.scale
        for share in (0.85, 0.15)
    )
    together = 1.0 / math.sqrt(first**-2 + second**-2)
    assert together == pytest.approx(z / 2, rel=1e-5)
    assert together >= z / 2


def test_more_records_than_sums_are_exact_for_are_refused() -> None:
    """With next to no noise the steps are so fine that few records fit into exact integers."""
    settings: dict[str, Any] = {"lower": 0, "upper": 2, "noise_multiplier": 1e-9, "delta": 1e-6}
    with pytest.raises(md.NumericalFailure, match="more records than sums are exact for"):
        md.private_release(np.ones(100), "mean", **settings)


def test_records_that_change_between_two_rounds_are_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The second round would be on other records than those the first was about."""

    class Shrinking:
        def __init__(self, *given: Any) -> None:
            self._table: Any = open_table(*given)
            self._passes = 0

        def pieces(self) -> Iterator[Piece]:
            self._passes += 1
            for piece in self._table.pieces():
                cut = len(piece) - (self._passes > 1)
                yield Piece(piece.values[:cut], piece.slots[:cut])

    monkeypatch.setattr(release, "open_table", Shrinking)
    with pytest.raises(md.InvalidParameter, match="must not change while they are read"):
        md.private_release(
            np.linspace(0, 1, 50), "sd", lower=0, upper=1, noise_multiplier=9.0, delta=1e-6
        )


def test_shares_that_add_up_to_more_than_the_budget_are_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The last look before the second round, should the shares ever be wrong."""
    monkeypatch.setattr(release, "_shares", lambda parts, clipping: [1.1 / len(parts)] * len(parts))
    monkeypatch.setattr(release, "SECOND_SHARE", 0.1)
    with pytest.raises(md.NumericalFailure, match="all rounds must cost no more than one"):
        md.private_release(
            np.linspace(0, 1, 50), ["mean", "sd"], lower=0, upper=1, noise_multiplier=9.0,
            delta=1e-6,
        )  # fmt: skip
