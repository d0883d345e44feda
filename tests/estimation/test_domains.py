"""Groups within strata: values by the formulas of survey sampling, and coverage."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
import pytest

import mustdp as md
from mustdp.errors import InvalidParameter, NumericalFailure
from mustdp.estimation.queries import JointSums, Piece
from mustdp.estimation.release import clustered
from mustdp.estimation.schema import Column, PublicSchema, Range
from mustdp.estimation.statistics.counts import CellCounts, Within
from mustdp.estimation.statistics.domains import DomainInfluences, SumsOfTerms
from mustdp.estimation.statistics.moments import Moments
from mustdp.estimation.statistics.quantiles import UpToPoints
from mustdp.estimation.tables import Dimension, Groupings
from mustdp.numerics.arrays import FloatArray
from mustdp.types import Relation
from tests.estimation.release.simulated import accepted
from tests.estimation.release.swapping import allowed

RNG = np.random.default_rng(0)
SIZE = 20_000
PEOPLE = pd.DataFrame({"stratum": RNG.choice(["a", "b"], SIZE, p=[0.8, 0.2])})
SMALL = PEOPLE["stratum"] == "b"
PEOPLE["sex"] = np.where(RNG.random(SIZE) < np.where(SMALL, 0.8, 0.4), "F", "M")
PEOPLE["x"] = np.clip(
    40 + 10 * SMALL + 5 * (PEOPLE["sex"] == "M") + RNG.normal(0, 10, SIZE), 0, 100
)
SHARES: Any = PEOPLE["stratum"].value_counts(normalize=True).to_dict()
STRATIFIED = md.types.Survey(strata="stratum", stratum_shares=SHARES)
GIVEN: dict[str, Any] = {
    "columns": ["x"],
    "lower": 0,
    "upper": 100,
    "survey": STRATIFIED,
    "population": SIZE,
    "by": "sex",
    "groups": md.types.Groups(["M", "F"], complete=True),
    "delta": 1e-6,
}
ASKED = ("mean", "count", "sum", "proportion:>50")


def sample(rng: np.random.Generator) -> pd.DataFrame:
    """As many of each stratum, so that shares of the sample are not those of the population."""
    each = (
        own.iloc[rng.choice(len(own), 600, replace=False)] for _, own in PEOPLE.groupby("stratum")
    )
    return pd.concat(each)


def released(frame: pd.DataFrame, noise: float, seed: int, **more: Any) -> Any:
    with pytest.warns(md.types.SeededRelease):
        return md.private_release(
            frame, ASKED, noise_multiplier=noise, seed=seed, **{**GIVEN, **more}
        )


def test_values_are_those_of_survey_sampling() -> None:
    frame = sample(np.random.default_rng(1))
    result = released(frame, 1e-4, 1, total=True)
    weight = frame["stratum"].map(SHARES) * SIZE / 600
    women = frame["sex"] == "F"
    total = float((weight * women).sum())
    summed = float((weight * women * frame["x"]).sum())
    assert result["count (F)"].value == pytest.approx(total, rel=1e-4)
    assert result["sum x (F)"].value == pytest.approx(summed, rel=1e-4)
    assert result["mean x (F)"].value == pytest.approx(summed / total, rel=1e-4)
    above = float((weight * women * (frame["x"] > 50)).sum()) / total
    assert result["proportion:>50 x (F)"].value == pytest.approx(above, abs=1e-4)
    # The variance of a domain's mean, by the influences of all records of the strata.
    z = np.where(women, frame["x"] - summed / total, 0.0) * SIZE / total
    parts = [
        SHARES[one] ** 2 * (1 - 600 / (SHARES[one] * SIZE)) * own.var() / 600
        for one, own in pd.Series(z).groupby(frame["stratum"].to_numpy())
    ]
    assert result["mean x (F)"].standard_error == pytest.approx(np.sqrt(sum(parts)), rel=2e-3)
    assert result["count (total)"].value == SIZE
    everybody = float((weight * frame["x"]).sum()) / SIZE
    assert result["mean x (total)"].value == pytest.approx(everybody, rel=1e-4)


def test_intervals_cover() -> None:
    women = PEOPLE[PEOPLE["sex"] == "F"]
    truths = {
        "mean x (F)": women["x"].mean(),
        "count (F)": len(women),
        "sum x (F)": women["x"].sum(),
        "proportion:>50 x (F)": (women["x"] > 50).mean(),
    }
    rng, runs = np.random.default_rng(5), 150
    hits, wrong = dict.fromkeys(truths, 0), dict.fromkeys(truths, 0)
    for seed in range(runs):
        result = released(sample(rng), 6.0, seed)
        for label, truth in truths.items():
            one = result[label]
            hits[label] += one.interval[0] <= truth <= one.interval[1]
            far = truth + 4.0 * one.standard_error
            wrong[label] += one.interval[0] <= far <= one.interval[1]
    assert all(accepted(one, runs) for one in hits.values()), hits
    assert all(one < 0.1 * runs for one in wrong.values()), wrong


def test_comparisons_take_the_worst() -> None:
    result = released(sample(np.random.default_rng(1)), 3.0, 1)
    one, other = (result[f"mean x ({sex})"] for sex in ("F", "M"))
    found = result.contrast("F", "M", statistic="mean")
    assert found.value == one.value - other.value
    assert found.standard_error > np.hypot(one.standard_error, other.standard_error)
    assert np.isnan(result.covariance("mean")[0, 1])


@pytest.mark.parametrize("statistic", ["mean", "sd"])
def test_engines_are_refused_before_anything_is_charged(statistic: str) -> None:
    duckdb = pytest.importorskip("duckdb")
    ledger = md.Ledger()
    weights: dict[str, Any] = {}
    if statistic == "mean":
        weights = {"survey": replace(STRATIFIED, weights="w", largest_weight=2.0)}
    people = PEOPLE.assign(w=1.0)  # noqa: F841  read by its name
    with pytest.raises(InvalidParameter, match="must be read into memory"):
        md.private_release(
            duckdb.sql("SELECT * FROM people"), statistic, noise_multiplier=3.0, ledger=ledger,
            **{**GIVEN, **weights},
        )  # fmt: skip
    assert ledger.steps == 0


def test_small_groups_are_not_known() -> None:
    frame = sample(np.random.default_rng(1))
    result = released(frame, 5000.0, 1)
    assert not result["mean x (F)"].known


@pytest.mark.parametrize(
    ("statistic", "more", "match"),
    [
        ("linear-model:x ~ 1", {}, "for groups within strata"),
        ("mean", {"consistent": True}, "must not be given with consistent"),
        ("mean", {"by": "stratum", "groups": ["a"]}, "another column than strata"),
        ("count", {"population": None}, "population must be a number"),
    ],
)
def test_bad_input(statistic: str, more: dict[str, Any], match: str) -> None:
    with pytest.raises(InvalidParameter, match=match):
        md.private_release(PEOPLE, statistic, noise_multiplier=3.0, **{**GIVEN, **more})


# Weights and clusters: the linearised variance of survey sampling, as R's svyby has it.


HOMES = np.repeat(np.arange(6000), 4)[:SIZE]
LARGE = PEOPLE.assign(
    # Clusters of up to 4 in one stratum, alike; and how many in the population a record stands for.
    cluster=HOMES + 10_000 * SMALL,
    x=np.clip(PEOPLE["x"] + 8 * np.random.default_rng(8).normal(size=6000)[HOMES], 0, 100),
    w=RNG.choice([1.0, 2.0, 3.0], SIZE),
)
WEIGHTS: dict[str, Any] = {"weights": "w", "largest_weight": 3.0}
CLUSTERS: dict[str, Any] = {"cluster": "cluster", "largest_cluster": 4}
DESIGNS = {
    "weights": WEIGHTS,
    "clusters": CLUSTERS,
    "whole clusters": {**CLUSTERS, "unit": "cluster"},
    "both": {**WEIGHTS, **CLUSTERS},
}


def linearised(frame: pd.DataFrame, z: Any, design: dict[str, Any]) -> float:
    """The standard error of sum_h W_h sum(t z) / sum(t) over the strata."""
    weight = frame["w"] if "weights" in design else pd.Series(1.0, index=frame.index)
    found = 0.0
    for name, own in frame.groupby("stratum"):
        t, values = weight[own.index], z[own.index]
        parts = t * (values - float((t * values).sum() / t.sum()))
        if "cluster" in design:
            parts = parts.groupby(own["cluster"]).sum()
            parts *= np.sqrt(len(parts) / (len(parts) - 1.0))
        found += (SHARES[name] / float(t.sum())) ** 2 * float((parts**2).sum())
    return float(np.sqrt(found))


@pytest.mark.parametrize("design", DESIGNS.values(), ids=DESIGNS)
def test_errors_are_the_linearised_ones(design: dict[str, Any]) -> None:
    frame = LARGE
    given = {**GIVEN, "population": 10**9, "survey": replace(STRATIFIED, **design)}
    with pytest.warns(md.types.SeededRelease):
        result = md.private_release(
            frame, [*ASKED, "sd", "histogram:2"], noise_multiplier=1e-3, seed=1, **given
        )
    weight = frame["w"] if "weights" in design else pd.Series(1.0, index=frame.index)
    a = weight * frame["stratum"].map(SHARES) / weight.groupby(frame["stratum"]).transform("sum")
    for group in ("F", "total"):
        inside = (frame["sex"] == group) | (group == "total")
        share = float((a * inside).sum())
        mean = float((a * inside * frame["x"]).sum()) / share
        above = float((a * inside * (frame["x"] > 50)).sum()) / share
        square = float((a * inside * (frame["x"] - mean) ** 2).sum()) / share
        low = 1.0 * (frame["x"] < 50) * inside
        expected = {
            "mean x": (mean, inside * (frame["x"] - mean) / share),
            "sum x": (1e9 * share * mean, 1e9 * inside * frame["x"]),
            "proportion:>50 x": (above, inside * ((frame["x"] > 50) - above) / share),
            "sd x": (
                np.sqrt(square),
                inside * ((frame["x"] - mean) ** 2 - square) / share / (2 * np.sqrt(square)),
            ),
            "histogram x: [0, 50)": (1e9 * float((a * low).sum()), 1e9 * low),
            "count": (1e9 * share, 1e9 * inside),
        }
        for label, (value, z) in expected.items():
            found = result[f"{label} ({group})"]
            assert found.value == pytest.approx(value, rel=1e-3), label
            error = linearised(frame, z, design)
            if (label, group) != ("count", "total"):  # which is public
                assert found.standard_error == pytest.approx(error, rel=5e-3), label


@pytest.mark.parametrize("design", ["weights", "clusters"])
def test_errors_of_clipped_shares_are_those_of_the_values_before(design: str) -> None:
    """Influences of records that are all within the range once they are clipped would be none."""
    frame = LARGE.assign(x=LARGE["x"] + np.where(LARGE["cluster"] % 3 == 0, 100.0, 0.0))
    given = {**GIVEN, "population": 10**9, "survey": replace(STRATIFIED, **DESIGNS[design])}
    with pytest.warns(md.types.SeededRelease):
        result = md.private_release(frame, "clipping", noise_multiplier=1e-3, seed=1, **given)
    weight = frame["w"] if design == "weights" else pd.Series(1.0, index=frame.index)
    a = weight * frame["stratum"].map(SHARES) / weight.groupby(frame["stratum"]).transform("sum")
    women, above = frame["sex"] == "F", 1.0 * (frame["x"] > 100)
    share = float((a * women).sum())
    value = float((a * women * above).sum()) / share
    error = linearised(frame, women * (above - value) / share, DESIGNS[design])
    found = result["clipping x: above (F)"]
    assert found.value == pytest.approx(value, rel=1e-3)
    assert found.standard_error == pytest.approx(error, rel=5e-3)


@pytest.mark.parametrize("design", [{}, *DESIGNS.values()], ids=["plain", *DESIGNS])
def test_geometric_means_are_those_of_the_logarithms(design: dict[str, Any]) -> None:
    frame = LARGE.assign(x=1.0 + LARGE["x"], logs=np.log1p(LARGE["x"]))
    given = {**GIVEN, "survey": replace(STRATIFIED, **design), "noise_multiplier": 1e-3, "seed": 1}
    found = []
    for statistic, column, lower, upper in (
        ("geometric-mean", "x", 1.0, 101.0),
        ("mean", "logs", 0.0, float(np.log(101.0))),
    ):
        own = {**given, "columns": [column], "lower": lower, "upper": upper}
        with pytest.warns(md.types.SeededRelease):
            found.append(md.private_release(frame, statistic, **own))
    one, other = found[0]["geometric-mean x (F)"], found[1]["mean logs (F)"]
    assert one.value == pytest.approx(float(np.exp(other.value)), rel=1e-9)
    assert one.interval == pytest.approx(tuple(np.exp(other.interval)), rel=1e-9)


@pytest.mark.parametrize("statistic", ["histogram:3", "median", "clipping"])
def test_counts_are_read_off_parts_that_keep_no_covariances(statistic: str) -> None:
    """What fails after the charge would be paid for."""
    with pytest.warns(md.types.SeededRelease):
        result = md.private_release(
            PEOPLE, [statistic, "count"], noise_multiplier=1e-3, seed=1, **GIVEN
        )
    women = float((PEOPLE["sex"] == "F").sum())
    assert result["count (F)"].value == pytest.approx(women, rel=1e-3)


def test_influences_on_too_many_estimates_are_refused_before_a_charge() -> None:
    ledger = md.Ledger()
    groups = [f"group {k}" for k in range(1500)]
    given = {**GIVEN, "groups": groups, "survey": replace(STRATIFIED, **WEIGHTS)}
    with pytest.raises(InvalidParameter, match=r"errors of histogram in groups .* at most"):
        md.private_release(
            LARGE, "histogram:5", noise_multiplier=3.0, ledger=ledger, **given
        )  # fmt: skip
    assert ledger.steps == 0


@pytest.mark.parametrize("design", [WEIGHTS, CLUSTERS], ids=["weights", "clusters"])
def test_intervals_of_designs_cover(design: dict[str, Any]) -> None:
    """Clusters are drawn, as many in each stratum; weights have nothing to do with values."""
    women = LARGE[LARGE["sex"] == "F"]
    truths = {
        "mean x (F)": women["x"].mean(),
        "count (F)": len(women),
        "sum x (F)": women["x"].sum(),
        "proportion:>50 x (F)": (women["x"] > 50).mean(),
        "sd x (F)": women["x"].std(),
    }
    rng, runs = np.random.default_rng(6), 100
    rows = {name: own.groupby("cluster").indices for name, own in LARGE.groupby("stratum")}
    parts = {name: LARGE[LARGE["stratum"] == name] for name in rows}
    hits, wrong = dict.fromkeys(truths, 0), dict.fromkeys(truths, 0)
    for seed in range(runs):
        drawn = []
        for name, own in rows.items():
            kept = rng.choice(np.sort(np.array(list(own))), 250, replace=False)
            drawn.append(parts[name].iloc[np.concatenate([own[one] for one in kept])])
        survey = replace(STRATIFIED, **{**CLUSTERS, **design})
        given = {**GIVEN, "population": SIZE, "survey": survey}
        with pytest.warns(md.types.SeededRelease):
            result = md.private_release(
                pd.concat(drawn), [*ASKED, "sd"], noise_multiplier=3.0, seed=seed, **given
            )
        for label, truth in truths.items():
            one = result[label]
            hits[label] += one.interval[0] <= truth <= one.interval[1]
            far = truth + 5.0 * one.standard_error
            wrong[label] += one.interval[0] <= far <= one.interval[1]
    assert all(accepted(one, runs) for one in hits.values()), hits
    assert all(one < 0.1 * runs for one in wrong.values()), wrong


def test_medians_of_groups_cover() -> None:
    women = PEOPLE[PEOPLE["sex"] == "F"]
    truth, rng, runs = float(women["x"].median()), np.random.default_rng(5), 100
    hits = 0
    for seed in range(runs):
        frame = sample(rng).assign(w=rng.choice([1.0, 2.0], 1200))
        weighted: dict[str, Any] = {"weights": "w", "largest_weight": 2.0} if seed % 2 else {}
        given = {**GIVEN, "survey": replace(STRATIFIED, **weighted)}
        with pytest.warns(md.types.SeededRelease):
            found = md.private_release(frame, "median", noise_multiplier=4.0, seed=seed, **given)[
                "median x (F)"
            ]
        assert found.width < 20.0
        hits += found.interval[0] <= truth <= found.interval[1]
    assert accepted(hits, runs)


# What one record, or one cluster, does to the influences: brute force.


COLUMNS = (Column("y", Range(0.0, 20.0)),)
STRATA = Dimension("stratum", ("a", "b"))
KIND, SEX = Dimension("kind", ("c", "d"), complete=True), Dimension("sex", ("e", "f"))
GROUPINGS = Groupings((KIND, SEX), ((0, 1), (0,))).in_strata(STRATA)


@dataclass(frozen=True, eq=False)
class Table:
    """Records with their groups; those of kind 2 are in no slot at all."""

    values: FloatArray
    places: FloatArray  # (rows, strata, kind, sex)
    weights: FloatArray
    homes: FloatArray

    def piece(self, schema: PublicSchema) -> Piece:
        assert schema.grouping is not None
        places = [self.places[:, j].astype(np.int64) for j in range(3)]
        places[1] = np.where(places[1] == 2, -1, places[1])
        slots = schema.grouping.slots_of(places)
        plain = Piece(self.values, slots, self.weights if schema.weighted else None, self.values)
        return plain if schema.largest_cluster is None else clustered([plain], self.homes, schema)


def table(count: int, rng: np.random.Generator, home: float | None = None) -> Table:
    """Records that are often alike, so that clusters are extreme."""

    def some(values: list[float]) -> FloatArray:
        return (
            rng.choice(values, count) if rng.random() < 0.3 else np.full(count, rng.choice(values))
        )

    places = np.column_stack([some([0, 1, 2]), some([0, 1, 2]), some([0, 1, 2])])
    homes = rng.integers(0, 3, count).astype(float) if home is None else np.full(count, home)
    return Table(some([0.0, 20.0, 7.0])[:, None], places, some([0.5, 1.0, 1.0]), homes)


def both(one: Table, other: Table) -> Table:
    return Table(
        *(
            np.concatenate(pair)
            for pair in zip(vars(one).values(), vars(other).values(), strict=True)
        )
    )


def kept(one: Table, rows: Any) -> Table:
    return Table(*(own[rows] for own in vars(one).values()))


class TooShort(DomainInfluences):
    """Influences that claim to be shorter than they are."""

    @property
    def length(self) -> float:
        return 0.6 * super().length


def influences(
    kind: type[DomainInfluences], schema: PublicSchema, rng: np.random.Generator
) -> DomainInfluences:
    """At any slopes and centres: the bound must hold whatever the first round has said."""
    part: SumsOfTerms = Moments(schema, (0,))
    if rng.random() < 0.5:
        part = CellCounts(schema, (0,), Within(5.0, 20.0))
    elif rng.random() < 0.5:
        part = UpToPoints(schema, (0,), (3.0, 9.0))
    natural = 3
    domains = len(list(GROUPINGS.domains()))
    along = rng.normal(size=(domains, 2, natural)) * rng.choice([0.0, 1.0], (domains, 1, 1))
    centres = 2.0 * rng.normal(size=(3, domains, 2)) * rng.choice([0.0, 0.1, 1.0], (1, domains, 1))
    return kind(part, along, centres)


def farthest(kind: type[DomainInfluences], unit: str, relation: str, tries: int) -> float:
    most = {"record": None, "in clusters": 3, "cluster": 3}[unit]
    schema = PublicSchema(
        COLUMNS, Relation.read(relation), 20, groups=GROUPINGS.labels, by="kind",
        grouping=GROUPINGS, shares=(0.6, 0.4), largest_cluster=most,
        whole_clusters=unit == "cluster",
    )  # fmt: skip
    rng, found = np.random.default_rng([len(unit), len(relation)]), 0.0
    for _, weighted in itertools.product(range(tries), (False, True)):
        own = replace(schema, largest_weight=2.0 if weighted else None)
        stack = JointSums(own, (influences(kind, own, rng),), noise_multiplier=2.0)
        for _ in range(8):
            rest, replaced = table(int(rng.integers(1, 6)), rng), relation == "replace_one"
            if unit == "cluster":
                before = both(table(3, rng, home=9.0), rest)
                after = both(table(3, rng, home=9.0), rest) if replaced else rest
            else:
                before = both(table(1, rng), rest)
                after = both(table(1, rng), rest) if replaced else rest
            sums = [stack.totals([one.piece(own)])[0] for one in (before, after)]
            moved = float(np.linalg.norm(sums[0] - sums[1])) * stack.noise.lattice.step
            found = max(found, moved / allowed(stack))
    return found


@pytest.mark.parametrize("relation", ["replace_one", "add_remove"])
@pytest.mark.parametrize("unit", ["record", "in clusters", "cluster"])
def test_no_unit_moves_influences_too_far(unit: str, relation: str) -> None:
    assert 0.2 < farthest(DomainInfluences, unit, relation, 40) <= 1.0


def test_influences_that_are_longer_than_claimed_would_be_seen() -> None:
    assert farthest(TooShort, "record", "add_remove", 40) > 1.0


def test_influences_that_are_no_numbers_are_not_released() -> None:
    schema = PublicSchema(
        COLUMNS, Relation.REPLACE_ONE, 20, groups=GROUPINGS.labels, by="kind", grouping=GROUPINGS,
        shares=(0.6, 0.4),
    )  # fmt: skip
    part = Moments(schema, (0,))
    for along, centre in ((np.nan, 0.0), (1.0, np.inf)):
        with pytest.raises(NumericalFailure, match="came out as no numbers"):
            DomainInfluences(part, np.full((9, 2, 3), along), np.full((3, 9, 2), centre))


def test_a_record_adds_to_the_strata_alone() -> None:
    schema = PublicSchema(
        COLUMNS, Relation.REPLACE_ONE, 20, groups=GROUPINGS.labels, by="kind", grouping=GROUPINGS,
        shares=(0.6, 0.4),
    )  # fmt: skip
    along, centres = np.ones((9, 2, 3)), np.full((3, 9, 2), 0.5)
    part = DomainInfluences(Moments(schema, (0,)), along, centres)
    places = np.array([[0.0, 1.0, 0.0], [1.0, 0.0, 2.0]])
    two = Table(np.array([[3.0], [9.0]]), places, np.ones(2), np.zeros(2))
    sums, _ = JointSums(schema, (part,), noise_multiplier=2.0).totals([two.piece(schema)])
    assert sums[schema.slices[-1]].any()
    assert not sums[: schema.slices[-1].start].any()


def test_totals_of_groups_in_clusters_take_one_stratum() -> None:
    survey = md.types.Survey(strata="all", stratum_shares={"all": 1.0}, **CLUSTERS)
    given = {**GIVEN, "survey": survey}
    with pytest.warns(md.types.SeededRelease):
        result = md.private_release(
            LARGE.assign(all="all"), ["count", "sum"], noise_multiplier=1e-3, seed=1, **given
        )
    women = LARGE["sex"] == "F"
    assert result["count (F)"].value == pytest.approx(float(women.sum()), rel=1e-3)
    assert result["sum x (F)"].value == pytest.approx(float(LARGE["x"][women].sum()), rel=1e-3)
