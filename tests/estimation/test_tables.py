"""Tables of groups: what one record does to them, how they agree, what their intervals cover."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mustdp as md
from mustdp.errors import InvalidParameter
from mustdp.estimation.queries import BoundedSum, JointSums, NoiseCovariance, Piece
from mustdp.estimation.schema import Column, PublicSchema, Range
from mustdp.estimation.statistics.counts import CellCounts, OneCell, Within
from mustdp.estimation.statistics.moments import Moments
from mustdp.estimation.statistics.quantiles import QuantileCurve
from mustdp.estimation.tables import LeastSquares, noise_shares, read_groupings, whole_counts
from mustdp.numerics.arrays import FloatArray, IntArray
from mustdp.types import Relation
from tests.estimation.release.simulated import accepted
from tests.estimation.release.swapping import allowed

SEX, REGION = ["Male", "Female"], ["north", "east", "west"]
RNG = np.random.default_rng(11)
N = 3000
PEOPLE = pd.DataFrame(
    {
        "sex": RNG.choice(SEX, N, p=[0.6, 0.4]),
        "region": RNG.choice(REGION, N, p=[0.6, 0.3, 0.1]),
        "age": RNG.integers(0, 95, N).astype(float),
        "hours": np.clip(RNG.normal(38, 12, N), 0, 80),
        "weight": RNG.choice([1.0, 1.5, 2.0], N),
    }
)
LISTS = {"sex": SEX, "region": REGION}
COMPLETE = md.types.Groups(LISTS, complete=True)
CROSSED: dict[str, Any] = {"by": ["sex", "region"], "groups": COMPLETE}


def released(*statistics: str, noise: float = 3.0, seed: int = 1, **more: Any) -> Any:
    given: dict[str, Any] = {"columns": ["hours"], "lower": 0, "upper": 80, **CROSSED, **more}
    with pytest.warns(md.types.SeededRelease):
        return md.private_release(
            PEOPLE, statistics, noise_multiplier=noise, delta=1e-6, seed=seed, **given
        )


def values(result: Any, statistic: str) -> dict[str | None, float]:
    return {one.group: one.value for one in result.estimates if one.statistic == statistic}


# What one record does to all groupings together.


GROUPINGS: dict[str, dict[str, Any]] = {
    "cells and margins": {"total": True, "consistent": True},
    "apart": {"total": True},
    "complete": {"total": True, "consistent": True, "groups": COMPLETE},
    "several": {"by": [["sex"], ["region"]]},
}
COLUMNS = (Column("x", Range(0.0, 10.0)), Column("y", Range(-1.0, 3.0)))


def schema_with(grouping: str, relation: Relation, dropped: bool) -> PublicSchema:
    options: dict[str, Any] = {"by": ["sex", "region"], **GROUPINGS[grouping]}
    found = read_groupings(options.pop("by"), options.pop("groups", LISTS), **options)
    assert found is not None
    n = 50 if relation == Relation.REPLACE_ONE else None
    return PublicSchema(
        COLUMNS, relation, n, found.labels, found.by, dropped=dropped, grouping=found
    )


def parts(schema: PublicSchema) -> tuple[Any, ...]:
    curve = QuantileCurve(schema, (0,), tuple(np.linspace(0.0, 9.0, 5).tolist()))
    return (
        CellCounts(schema, (0,), OneCell()),
        Moments(schema, (0,)),
        Moments(schema, (0, 1)),
        CellCounts(schema, (0,), Within(2.0, 7.0)),
        curve,
    )


def farthest(joint: JointSums) -> float:
    """Over swaps of any two records in any cells, those in none among them."""
    grouping = joint.schema.grouping
    assert grouping is not None
    ends = [0.0, 4.0, 10.0, *([math.nan] if joint.schema.dropped else [])]
    sizes = [len(one.labels) + 1 for one in grouping.dimensions]
    vectors = []
    for x, y, *codes in itertools.product(ends, (-1.0, 3.0), *map(range, sizes)):
        places = [
            one.places(np.array([float(code)]))
            for one, code in zip(grouping.dimensions, codes, strict=True)
        ]
        piece = Piece(np.array([[x, y]]), grouping.slots_of(places))
        vectors.append(joint.totals([piece])[0].ravel() * joint.noise.lattice.step)
    found = np.array(vectors)
    squares = (found**2).sum(axis=1)
    if joint.schema.relation == Relation.ADD_REMOVE:
        return float(np.sqrt(squares.max()))
    apart = squares[:, None] + squares[None, :] - 2.0 * found @ found.T
    return float(np.sqrt(apart.max()))


@pytest.mark.parametrize("dropped", [False, True], ids=["all", "dropped"])
@pytest.mark.parametrize("relation", list(Relation), ids=lambda one: one.option)
@pytest.mark.parametrize("grouping", GROUPINGS)
def test_no_swap_moves_the_groupings_farther_than_their_noise_allows(
    grouping: str, relation: Relation, dropped: bool
) -> None:
    schema = schema_with(grouping, relation, dropped)
    for own in (parts(schema)[:1], parts(schema)[1:2], parts(schema)):
        joint = JointSums(schema, own, 2.0, placed=bool(GROUPINGS[grouping].get("consistent")))
        moved = farthest(joint)
        assert moved <= allowed(joint)
        assert moved >= (0.6 if len(own) == 1 else 0.3) * allowed(joint)


@dataclass(frozen=True)
class NearOne(BoundedSum):
    """Contributions that are close to each other, and far from nothing."""

    schema: PublicSchema
    columns: tuple[int, ...] = (0,)
    width = 1
    radius = 1.05
    diameter = 0.1
    covariance = NoiseCovariance.of(np.eye(1))

    def natural(self, vectors: FloatArray) -> FloatArray:
        return vectors

    def rows(self, values: FloatArray, slots: IntArray) -> FloatArray:
        return np.where(values[:, :1] > 2.0, 1.05, 0.95)


def test_a_record_in_no_group_of_a_complete_list_is_counted() -> None:
    """It leaves the total, too, where nobody changes a slot otherwise."""
    schema = schema_with("complete", Relation.REPLACE_ONE, False)
    joint = JointSums(schema, (NearOne(schema),), 2.0)
    assert 0.6 * allowed(joint) <= farthest(joint) <= allowed(joint)


def test_a_grouping_that_is_not_counted_would_be_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Were every grouping given the whole budget, a swap would move them too far."""
    schema = schema_with("cells and margins", Relation.REPLACE_ONE, False)
    monkeypatch.setattr(
        JointSums, "_shares", lambda self, part: [(math.sqrt(2.0), 1.0)] * len(schema.slices)
    )
    joint = JointSums(schema, parts(schema)[:1], 2.0)
    assert farthest(joint) > 1.5 * allowed(joint)


# Agreement, against equations that are solved as a whole.


def matrix_of(groupings: Any) -> FloatArray:
    """Every slot as a sum of the cells of all dimensions."""
    cells = list(itertools.product(*(range(size) for size in groupings.sizes)))
    return np.array(
        [[float(all(cell[j] == at for j, at in key)) for cell in cells] for key in groupings.keys]
    )


@settings(max_examples=30, deadline=None)
@given(
    st.lists(st.integers(2, 4), min_size=1, max_size=3),
    st.lists(st.floats(0.1, 10.0), min_size=8, max_size=8),
    st.sampled_from(["none", "total", "margin"]),
    st.integers(0, 100),
)
def test_least_squares_along_effects_are_those_of_all_equations(
    sizes: list[int], spreads: list[float], public: str, seed: int
) -> None:
    names = [f"c{k}" for k in range(len(sizes))]
    lists = {
        name: [f"{name}{i}" for i in range(size)] for name, size in zip(names, sizes, strict=False)
    }
    groupings = read_groupings(
        names, md.types.Groups(lists, complete=True), total=True, consistent=True
    )
    assert groupings is not None
    matrix, rng = matrix_of(groupings), np.random.default_rng(seed)
    variances = tuple(spreads[: len(groupings.sets)])
    each = np.concatenate(
        [
            np.full(own.stop - own.start, v)
            for own, v in zip(groupings.slices, variances, strict=False)
        ]
    )
    measured = rng.normal(size=(len(matrix), 2)) * 5.0
    exact: tuple[Any, ...] = ()
    rows = np.zeros((0, matrix.shape[1]))
    wanted = np.zeros(0)
    if public == "total":
        exact, rows, wanted = (((), (7.0,)),), np.ones((1, matrix.shape[1])), np.array([7.0])
    elif public == "margin":
        margin = tuple(rng.integers(0, 9, sizes[0]).astype(float).tolist())
        exact = (((0,), margin),)
        at = groupings.sets.index((0,))
        rows, wanted = matrix[groupings.slices[at]], np.array(margin)
    found = LeastSquares(groupings, variances, exact)
    # Lagrange's equations of the same problem.
    information = matrix.T @ (matrix / each[:, None])
    count = len(rows)
    system = np.block([[information, rows.T], [rows, np.zeros((count, count))]])
    solve = np.linalg.pinv(system)
    right = np.concatenate([matrix.T @ (measured[:, :1] / each[:, None]), wanted[:, None]])
    cells = (solve @ right)[: matrix.shape[1]]
    assert found.adjusted(measured[:, :1]) == pytest.approx(matrix @ cells, abs=1e-7)
    gain = solve[: matrix.shape[1], : matrix.shape[1]] @ matrix.T / each
    covariance = matrix @ (gain * each) @ gain.T @ matrix.T
    assert found.covariance(range(len(matrix))) == pytest.approx(covariance, abs=1e-7)
    assert found.slot_variances == pytest.approx(np.diag(covariance), abs=1e-7)


def test_noise_is_placed_where_it_helps() -> None:
    groupings = read_groupings(
        ["a", "b"],
        md.types.Groups({"a": list("xy"), "b": [str(k) for k in range(20)]}, complete=True),
        total=True,
        consistent=True,
    )
    assert groupings is not None
    costs = (2.0,) * len(groupings.sets)
    placed = noise_shares(groupings, costs)
    assert math.fsum(placed) == pytest.approx(1.0, abs=1e-12)

    def worth(shares: Any) -> float:
        variances = tuple(c / s if s else math.inf for c, s in zip(costs, shares, strict=False))
        return float(
            np.sum([np.log(LeastSquares(groupings, variances).slot_variances[own.start])
                    for own in groupings.slices])
        )  # fmt: skip

    assert worth(placed) < worth([0.25] * 4) - 0.01
    assert worth(placed) < worth([1.0, 0.0, 0.0, 0.0]) - 0.5
    # Only numbers of groups decide.
    assert noise_shares(replace(groupings), costs) == placed


def test_cells_margins_and_totals_agree() -> None:
    result = released("count", "sum", total=True, consistent=True)
    for statistic in ("count", "sum"):
        found = values(result, statistic)
        for sex in SEX:
            assert math.fsum(found[f"{sex}, {one}"] for one in REGION) == pytest.approx(found[sex])
        for region in REGION:
            cells = math.fsum(found[f"{one}, {region}"] for one in SEX)
            assert cells == pytest.approx(found[region])
        assert math.fsum(found[one] for one in SEX) == pytest.approx(found["total"])
    assert values(result, "count")["total"] == pytest.approx(N)
    apart = values(released("count", total=True), "count")
    assert abs(math.fsum(apart[one] for one in SEX) - N) > 1e-6


def test_public_totals_are_kept() -> None:
    totals = {"sex": PEOPLE["sex"].value_counts().to_dict()}
    result = released(
        "count", "mean", total=True, consistent=True, groups=replace(COMPLETE, public_totals=totals)
    )
    found = values(result, "count")
    for sex in SEX:
        assert found[sex] == pytest.approx(totals["sex"][sex])
        assert math.fsum(found[f"{sex}, {one}"] for one in REGION) == pytest.approx(found[sex])
    without = released("count", "mean", total=True, consistent=True)
    for one, other in zip(result.estimates, without.estimates, strict=True):
        # Sampling variances of means are estimated anew, from other sums.
        assert one.standard_error <= 1.02 * other.standard_error


@pytest.mark.parametrize("public", [False, True])
def test_whole_counts_are_whole_and_agree(public: bool) -> None:
    totals = {"sex": PEOPLE["sex"].value_counts().to_dict(),
              "region": PEOPLE["region"].value_counts().to_dict()}  # fmt: skip
    groups = replace(COMPLETE, whole_counts=True, public_totals=totals if public else None)
    result = released("count", noise=80.0, total=True, consistent=True, groups=groups)
    found = values(result, "count")
    assert all(one == round(one) and one >= 0 for one in found.values())
    for sex in SEX:
        assert math.fsum(found[f"{sex}, {one}"] for one in REGION) == found[sex]
    assert found["total"] == N
    if public:
        assert {one: found[one] for one in SEX} == totals["sex"]
        assert {one: found[one] for one in REGION} == totals["region"]
    for one in result.estimates:
        assert one.interval[0] <= one.value <= one.interval[1]


def test_a_table_without_negative_numbers_is_the_nearest() -> None:
    """Against a solver for least squares without negative numbers."""
    from scipy.optimize import nnls

    groupings = read_groupings(["sex", "region"], COMPLETE, total=True, consistent=True)
    assert groupings is not None
    matrix = matrix_of(groupings)
    variances = (4.0, 1.0, 2.0, 0.5)
    each = np.concatenate(
        [
            np.full(own.stop - own.start, v)
            for own, v in zip(groupings.slices, variances, strict=False)
        ]
    )
    rng = np.random.default_rng(5)
    measured = matrix @ np.array([9.0, 0.0, 1.0, 0.5, 0.0, 30.0]) + rng.normal(size=12) * 3.0
    squares = LeastSquares(groupings, variances)
    adjusted = squares.adjusted(measured[:, None])[:, 0]
    assert (adjusted < 0).any()
    wanted, _ = nnls(matrix / np.sqrt(each)[:, None], measured / np.sqrt(each))
    found = whole_counts(squares, adjusted)[groupings.slices[0]]
    assert np.abs(found - wanted).max() <= 0.5 + 1e-4


# Groups: breaks, complete lists, several groupings, totals.


def test_values_are_those_of_the_groups() -> None:
    """With next to no noise, as pandas has them."""
    result = released(
        "mean",
        "count",
        noise=1e-4,
        by=["sex", "age"],
        groups=md.types.Groups({"sex": SEX}, breaks={"age": [0, 18, 65]}, complete=True),
        total=True,
        consistent=True,
    )
    ages = pd.cut(PEOPLE["age"], [-1, 17, 64, 200], labels=["0-17", "18-64", "65+"])
    for (sex, age), own in PEOPLE.groupby(["sex", ages], observed=True):
        assert values(result, "count")[f"{sex}, {age}"] == pytest.approx(len(own), abs=0.01)
        assert values(result, "mean")[f"{sex}, {age}"] == pytest.approx(
            own["hours"].mean(), abs=1e-3
        )
    for age, own in PEOPLE.groupby(ages, observed=True):
        assert values(result, "mean")[str(age)] == pytest.approx(own["hours"].mean(), abs=1e-3)
    assert values(result, "mean")["total"] == pytest.approx(PEOPLE["hours"].mean(), abs=1e-3)


def test_several_groupings_in_one_release() -> None:
    result = released("mean", noise=1e-4, by=[["sex"], ["region"]], groups=LISTS)
    names = [f"sex={one}" for one in (*SEX, "other")]
    names += [f"region={one}" for one in (*REGION, "other")]
    assert list(values(result, "mean")) == names
    mean = PEOPLE.loc[PEOPLE["region"] == "east", "hours"].mean()
    assert values(result, "mean")["region=east"] == pytest.approx(mean, abs=1e-3)


def test_records_in_no_group_of_a_complete_list_count_for_nothing() -> None:
    result = released(
        "count",
        noise=1e-4,
        by="region",
        groups=md.types.Groups(["north", "east"], complete=True),
        total=True,
        relation="add_remove",
    )
    found = values(result, "count")
    assert set(found) == {"north", "east", "total"}
    assert found["total"] == pytest.approx((PEOPLE["region"] != "west").sum(), abs=0.01)


@pytest.mark.parametrize(
    "design",
    [
        {"survey": md.types.Survey(weights="weight", largest_weight=2.0)},
        {"relation": "add_remove"},
        {"missing": "drop"},
    ],
    ids=["weights", "add-remove", "dropped"],
)
def test_survey_designs_have_consistent_tables(design: dict[str, Any]) -> None:
    result = released("count", "mean", noise=1e-4, total=True, consistent=True, **design)
    found = values(result, "count")
    assert math.fsum(found[one] for one in SEX) == pytest.approx(found["total"])
    weights = PEOPLE["weight"] if "survey" in design else pd.Series(np.ones(N))
    for sex in SEX:
        own = PEOPLE["sex"] == sex
        assert found[sex] == pytest.approx(weights[own].sum(), rel=1e-4)
        mean = np.average(PEOPLE.loc[own, "hours"], weights=weights[own])
        assert values(result, "mean")[sex] == pytest.approx(mean, abs=1e-3)


def test_wide_tables() -> None:
    result = released("count", "mean", total=True, consistent=True)
    table = result.table()
    assert table.columns == ("sex", "region")
    assert table.titles == ("count", "mean hours")
    assert table.groups[-1] == ("total", "total")
    assert len(table.as_csv().splitlines()) == 13
    assert table.as_latex().count(r"\\") >= 13
    frame = table.to_frame()
    assert frame.shape[0] == 12
    assert frame["count"].iloc[-1] == pytest.approx(N)
    assert "Male" in str(table)
    assert result.to_frame("polars").height == len(result.estimates)
    assert result.as_dict()["estimates"][0]["groups"] == {"sex": "Male", "region": "north"}


# Coverage, and how much narrower.


def test_intervals_of_cells_and_margins_cover() -> None:
    """Of the population that samples are drawn from; a value four errors away is refuted."""
    rng = np.random.default_rng(3)
    shares = np.array([0.35, 0.2, 0.05, 0.2, 0.15, 0.05])
    centres = np.array([40.0, 35.0, 30.0, 38.0, 33.0, 45.0])
    labels = [(sex, region) for sex in SEX for region in REGION]
    runs, n, hits, wrong = 150, 800, 0, 0
    truth = {("Male", None): centres[:3] @ shares[:3] / shares[:3].sum(), ("Female", "east"): 33.0}
    for seed in range(runs):
        at = rng.choice(6, n, p=shares)
        frame = pd.DataFrame(
            {
                "sex": [labels[k][0] for k in at],
                "region": [labels[k][1] for k in at],
                "hours": np.clip(rng.normal(centres[at], 10.0), 0, 80),
            }
        )
        with pytest.warns(md.types.SeededRelease):
            result = md.private_release(
                frame, ["mean", "count"], columns=["hours"], lower=0, upper=80, total=True,
                consistent=True, noise_multiplier=8.0, delta=1e-6, seed=seed, **CROSSED,
            )  # fmt: skip
        for (sex, region), mean in truth.items():
            label = sex if region is None else f"{sex}, {region}"
            own = result[f"mean hours ({label})"]
            hits += own.interval[0] <= mean <= own.interval[1]
            wrong += own.interval[0] <= mean + 4.0 * own.standard_error <= own.interval[1]
        count = result["count (Female, east)"]
        hits += count.interval[0] <= n * 0.15 <= count.interval[1]
    assert accepted(hits, 3 * runs)
    assert wrong < 0.1 * runs


def test_agreement_makes_margins_and_totals_narrower() -> None:
    plain = released("mean", total=True, noise=30.0)
    agreed = released("mean", total=True, consistent=True, noise=30.0)
    for one, other in zip(plain.estimates, agreed.estimates, strict=True):
        assert not one.known or other.standard_error < 1.02 * one.standard_error


# What is refused.


@pytest.mark.parametrize(
    ("given", "match"),
    [
        ({"by": None}, "by and groups must be given together"),
        ({"groups": {"sex": SEX}}, "must list the groups of every column"),
        ({"groups": SEX}, "must be lists by column"),
        ({"groups": {**LISTS, "age": ["1"]}}, "must be given for columns among"),
        ({"by": ["sex", "sex"]}, "different columns"),
        ({"by": []}, "must be a column"),
        ({"groups": replace(COMPLETE, public_totals={"sex": {"Male": 1}})}, "consistent=True"),
        (
            {"consistent": True, "groups": replace(COMPLETE, public_totals={"age": {"Male": 1}})},
            "by column of by",
        ),
        (
            {"consistent": True, "groups": replace(COMPLETE, public_totals={"sex": {"Nobody": 1}})},
            "groups that are listed",
        ),
        (
            {"consistent": True, "groups": replace(COMPLETE, public_totals={"sex": {"Male": -1}})},
            "public_totals",
        ),
        (
            {"consistent": True, "groups": replace(COMPLETE, public_totals={"sex": {"Male": 1}})},
            "add up to the number",
        ),
        ({"groups": replace(COMPLETE, whole_counts=True)}, "must be given with consistent"),
        ({"consistent": 1}, "must be True or False"),
        ({"groups": replace(COMPLETE, complete=["age"])}, "columns among"),
        ({"total": True, "groups": {**LISTS, "sex": ["total"]}}, "must not name 'total'"),
        ({"groups": md.types.Groups({"sex": SEX}, breaks={"region": [3, 1]})}, "must rise"),
        (
            {
                "consistent": True,
                "groups": replace(COMPLETE, whole_counts=True),
                "relation": "add_remove",
            },
            "number of records is public",
        ),
    ],
)
def test_bad_input(given: dict[str, Any], match: str) -> None:
    settings: dict[str, Any] = {"columns": ["hours"], "lower": 0, "upper": 80, **CROSSED, **given}
    with pytest.raises(InvalidParameter, match=match):
        md.private_release(PEOPLE, "mean", noise_multiplier=3.0, delta=1e-6, **settings)


def test_a_public_total_has_no_negative_variance() -> None:
    """What is left of the noise in a public number is nothing, whatever is rounded."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "g": rng.choice(["a", "b"], 500),
            "h": rng.choice(["u", "v"], 500),
            "age": rng.uniform(0, 90, 500),
            "x": rng.uniform(0, 100, 500),
        }
    )
    for noise in (0.5, 1.0, 2.0, 3.0, 5.0, 8.0, 10.0):
        for statistics in ("median", "gini", ("count", "gini"), ("trimmed-mean:0.1", "mean")):
            result = md.private_release(
                frame,
                statistics,
                columns=["x"],
                lower=0,
                upper=100,
                delta=1e-6,
                by=[["g", "h"], ["age"]],
                groups=md.types.Groups(
                    {"g": ["a", "b"], "h": ["u", "v"]}, breaks={"age": [0, 18, 65]}
                ),
                total=True,
                consistent=True,
                noise_multiplier=noise,
            )
            assert not any(one.standard_error < 0.0 for one in result.estimates)


def test_public_totals_name_as_many_groups_as_columns() -> None:
    data = pd.DataFrame({"a": ["x", "y"] * 20, "v": np.arange(40.0)})
    with pytest.raises(md.InvalidParameter, match="must name groups that are listed"):
        md.private_release(
            data,
            "count",
            columns=["v"],
            by="a",
            groups=md.types.Groups(
                ["x", "y"], complete=True, public_totals={"a": {("x", "z"): 20, "y": 20}}
            ),
            total=True,
            consistent=True,
            lower=0,
            upper=40,
            epsilon=1,
            delta=1e-6,
        )
