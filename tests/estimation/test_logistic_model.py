"""Logistic models by formula: against maximum likelihood, brute force and simulation."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import mustdp as md
from mustdp.errors import InvalidParameter
from mustdp.estimation import release
from mustdp.estimation.queries import JointSums, Piece
from mustdp.estimation.schema import Column, PublicSchema, Range
from mustdp.estimation.statistics.logistic_model import (
    LastScores,
    LogisticModelRequest,
    Scores,
    squared_sensitivities,
)
from mustdp.numerics.arrays import FloatArray
from mustdp.types import Relation
from tests.estimation.release.simulated import accepted
from tests.estimation.release.swapping import allowed, movements

WHERE: dict[str, Any] = {
    "columns": md.types.Columns(
        ["x", "g", "y", "z"], categories={"g": ["a", "b", "c"], "y": ["no", "yes"]}
    ),
    "lower": {"x": 10, "z": 0},
    "upper": {"x": 30, "z": 1},
    "delta": 1e-6,
}
pytestmark = pytest.mark.filterwarnings("ignore")


def people(n: int, seed: int, shift: float = -1.0) -> Any:
    pandas = pytest.importorskip("pandas")
    rng = np.random.default_rng(seed)
    x, g = rng.uniform(10, 30, n), rng.choice(["a", "b", "c"], n, p=[0.5, 0.3, 0.2])
    # A bend that no model here has: its errors are those of the sandwich alone.
    eta = shift + 0.1 * (x - 20) + 1.0 * (g == "b") - 0.01 * (x - 20) ** 2
    z = (rng.random(n) < 1 / (1 + np.exp(-eta))).astype(float)
    return pandas.DataFrame({"x": x, "g": g, "y": np.where(z == 1, "yes", "no"), "z": z})


def released(data: Any, formula: str, noise: float, seed: int = 1, **more: Any) -> Any:
    settings = {**WHERE, "noise_multiplier": noise, "seed": seed, **more}
    return md.private_release(data, f"logistic-model:{formula}", **settings)


def likelihood(data: Any, design: FloatArray, weights: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The estimate that solves the equations, and its sandwich errors."""
    y, beta = data["z"].to_numpy(), np.zeros(design.shape[1])
    for _ in range(50):
        p = 1 / (1 + np.exp(-design @ beta))
        bread = np.linalg.inv((design.T * (weights * p * (1 - p))) @ design)
        beta = beta + bread @ (design.T @ (weights * (y - p)))
    meat = (design.T * (weights * (y - p)) ** 2) @ design
    return beta, np.sqrt(np.diag(bread @ meat @ bread))


def design_of(data: Any, formula: str) -> FloatArray:
    x, g, one = data["x"].to_numpy(), data["g"].to_numpy(), np.ones(len(data))
    made: dict[str, FloatArray] = {
        "x + C(g)": np.column_stack([one, x, g == "b", g == "c"]).astype(float),
        "g - 1": np.column_stack([g == "a", g == "b", g == "c"]).astype(float),
        "x - 1": x[:, None] - 0.0,
        "1": one[:, None],
    }
    return made[formula]


@pytest.mark.parametrize("response", ["y", "z"])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("formula", ["x + C(g)", "g - 1", "x - 1", "1"])
def test_without_noise_they_are_maximum_likelihood_with_robust_errors(
    formula: str, weighted: bool, response: str
) -> None:
    data = people(3000, 3)
    data["w"] = np.random.default_rng(1).uniform(0.2, 1.0, len(data))
    weights = data["w"].to_numpy() if weighted else np.ones(len(data))
    design = design_of(data, formula)
    beta, errors = likelihood(data, design, weights)
    more: dict[str, Any] = (
        {"survey": md.types.Survey(weights="w", largest_weight=1.0)} if weighted else {}
    )
    found = released(data, f"{response} ~ {formula}", 1e-5, **more).estimates
    assert [one.value for one in found] == pytest.approx(beta, abs=0.02 * errors.min())
    assert [one.standard_error for one in found] == pytest.approx(errors, rel=5e-3)
    assert found[0].test.kind == "t"
    assert "log odds of" in found[0].description


def test_rare_responses_are_reached_within_the_rounds() -> None:
    data = people(40_000, 5, shift=-4.0)
    assert data["z"].mean() < 0.03
    beta, errors = likelihood(data, design_of(data, "x + C(g)"), np.ones(len(data)))
    found = released(data, "z ~ x + C(g)", 1e-4).estimates
    for one, truth, error in zip(found, beta, errors, strict=True):
        assert one.value == pytest.approx(truth, abs=0.1 * error)


def test_groups_have_models_of_their_own_and_unlisted_categories_are_left_out() -> None:
    data = people(4000, 5)
    result = released(data, "z ~ x", 1e-4, by="g", groups=["a"])
    alone = released(data[data.g == "a"], "z ~ x", 1e-4)
    assert [one.value for one in result.estimates[:2]] == pytest.approx(
        [one.value for one in alone.estimates], abs=0.02
    )
    part = {**WHERE["columns"].categories, "g": ["a", "b"]}
    some = released(data, "z ~ C(g)", 1e-4, columns=replace(WHERE["columns"], categories=part))
    rest = released(
        data[data.g != "c"], "z ~ C(g)", 1e-4, columns=replace(WHERE["columns"], categories=part)
    )
    pairs = zip(some.estimates, rest.estimates, strict=True)
    assert all(abs(one.value - other.value) < 0.02 for one, other in pairs)


@pytest.mark.parametrize(
    ("formula", "more", "message"),
    [
        ("x ~ z", {}, "two categories, or of numbers from 0 to 1"),
        ("g ~ x", {}, "two categories, or of numbers from 0 to 1"),
        ("z ~ x", {"upper": {"x": 30, "z": 2}}, "numbers from 0 to 1"),
        ("z ~ other", {}, "must have a formula of columns among"),
        ("z ~ x", {"ranges": md.types.Ranges(find="z")}, "numbers from 0 to 1"),
        (
            "z ~ x",
            {"survey": md.types.Survey(cluster="k", largest_cluster=3)},
            "clusters or strata",
        ),
    ],
)
def test_what_cannot_be_done_is_refused_before_anything_is_spent(
    formula: str, more: dict[str, Any], message: str
) -> None:
    ledger = md.Ledger()
    with pytest.raises(InvalidParameter, match=message):
        released(people(50, 1), formula, 2.0, ledger=ledger, **{"seed": None, **more})
    assert ledger.steps == 0


# Sensitivity and cost.


COLUMNS = (Column("x", Range(10.0, 30.0)), Column("g", None, ("a", "b")), Column("z", Range(0, 1)))
SCHEMA = PublicSchema(COLUMNS, Relation.REPLACE_ONE, 200)
SCHEMAS = {
    "replace-one": SCHEMA,
    "dropped": replace(SCHEMA, dropped=True),
    "groups": replace(SCHEMA, groups=("p", "other"), by="k"),
    "weights": replace(SCHEMA, largest_weight=2.0),
    "add-remove": PublicSchema(COLUMNS, Relation.ADD_REMOVE, None),
}


@pytest.mark.parametrize("setting", SCHEMAS)
@pytest.mark.parametrize("formula", ["z ~ x", "z ~ x*C(g)", "z ~ x - 1"])
def test_no_record_moves_any_round_farther_than_its_noise_allows(
    formula: str, setting: str
) -> None:
    schema = SCHEMAS[setting]
    (request,) = md.types.LogisticModel(formula).requests(schema)
    assert isinstance(request, LogisticModelRequest)
    ends = [(10.0, 12.0, 23.0, 30.0), (0.0, 1.0, 2.0), (0.0, 0.4, 1.0)]
    if schema.dropped:
        ends[0] = (*ends[0], np.nan)
    records = [list(one) for one in itertools.product(*ends)]
    weights = (0.0, 0.4, 1.0) if schema.weighted else (1.0,)
    rng = np.random.default_rng(2)
    values = np.column_stack(
        [rng.uniform(10, 30, 300), rng.integers(0, 2, 300), rng.random(300) < 0.2]
    ).astype(np.float64)
    ones = np.ones(300) if schema.weighted else None
    piece = Piece(values, np.arange(300) % schema.slots, ones)
    parts: list[Any] = [request.sums]
    for turn in range(3):
        joint = JointSums(schema, (parts[-1],), noise_multiplier=2.0)
        farthest = movements(joint, records, weights)
        assert farthest <= allowed(joint)
        assert farthest > 0.4 * allowed(joint)
        if turn == 2:
            break
        (noisy,) = joint.read(joint.totals([piece])[0] * joint.noise.lattice.step)
        later = request.next_sums(noisy) if turn else request.second_sums(noisy, [request])
        parts.append(later)
    # At slopes far out, where the largest residual is attained.
    steep = replace(parts[1], theta=np.full_like(parts[1].theta, 5.0))
    joint = JointSums(schema, (steep,), noise_multiplier=2.0)
    assert 0.6 * allowed(joint) < movements(joint, records, weights) <= allowed(joint)
    assert [one.errors for one in parts] == [False, False, True]


@pytest.mark.parametrize("statistics", [["z ~ x"], ["z ~ x", "y ~ C(g)"], ["z ~ x", "median@x"]])
def test_all_rounds_together_cost_what_is_charged(
    statistics: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[float, float]] = []
    plain = release._released

    def watched(joint: JointSums, *rest: Any) -> Any:
        squares = sum(x**2 for x in joint.weights or ())
        seen.append((joint.share * squares, joint.noise.scale * joint.share**0.5))
        return plain(joint, *rest)

    monkeypatch.setattr(release, "_released", watched)
    ledger, data = md.Ledger(), people(500, 1)
    asked = [one if "@" in one else f"logistic-model:{one}" for one in statistics]
    md.private_release(data, [*asked, "mean@x"], **WHERE, noise_multiplier=3.0, ledger=ledger)
    assert ledger.steps == 1
    assert len(seen) == 3
    assert 1.0 - 1e-9 < sum(share for share, _ in seen) <= 1.0 + 2.0**-45
    assert all(scale >= 1.5 for _, scale in seen)  # 3.0 over half of what a swap does


def points(rng: np.random.Generator, c: float, count: int) -> tuple[FloatArray, FloatArray]:
    """Scores a and weights w of records with residuals of either sign, and of weighted ones."""
    q = 0.5 + 0.5 * rng.random(count) ** rng.choice([0.2, 1.0, 5.0], count)
    shorter = np.where(rng.random(count) < 0.7, 1.0, rng.random(count))
    part = np.where(rng.random(count) < 0.5, 1.0, rng.random(count))  # of the largest residual
    return part * shorter * np.minimum(q / c, 1.0), shorter**2 * 4.0 * q * (1.0 - q)


@pytest.mark.parametrize("c", [0.5, 0.7, 0.95, 1.0])
@pytest.mark.parametrize(("h", "m"), [(1.0, 0.0), (1.2, 0.7), (3.0, 0.3)])
def test_two_records_are_no_farther_apart_than_proved(c: float, h: float, m: float) -> None:
    rng, count = np.random.default_rng(0), 400_000
    (a, w), (b, v) = (points(rng, c, count) for _ in range(2))
    t = np.where(rng.random(count) < 0.5, 1.0, rng.random(count))
    lengths = a**2 + h**2 * w**2 + m**2 * a**4
    apart = lengths + b**2 + h**2 * v**2 + m**2 * b**4
    apart += 2 * a * b * t - 2 * h**2 * w * v * t**2 - 2 * m**2 * (a * b * t) ** 2
    radius, diameter = squared_sensitivities(c, h, m)
    assert 0.97 * radius < lengths.max() <= radius
    assert 0.97 * diameter < apart.max() <= diameter
    if c == 1.0 and h < 2.0:  # the curvature adds hardly anything to what scores alone move
        assert 4.0 <= diameter < 4.1


def test_what_moves_a_round_farthest_is_nearly_attained() -> None:
    (request,) = md.types.LogisticModel("z ~ x").requests(SCHEMA)
    assert isinstance(request, LogisticModelRequest)
    # Nearly the same record on both sides of a steep boundary, with the other response each.
    steep = LastScores(request.sums, np.array([[-291.0, 300.0]]), 1)
    joint = JointSums(SCHEMA, (steep,), noise_multiplier=2.0)
    records = [[30.0, 0.0, 0.0], [29.4, 0.0, 1.0], [30.0, 0.0, 1.0], [10.0, 0.0, 0.5]]
    assert 0.96 * allowed(joint) < movements(joint, records) <= allowed(joint)


def test_a_bound_that_is_too_small_would_be_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    (request,) = md.types.LogisticModel("z ~ x").requests(SCHEMA)
    records = [list(one) for one in itertools.product((10.0, 30.0), (0.0,), (0.0, 1.0))]
    monkeypatch.setattr(Scores, "diameter", property(lambda self: 0.6 * self.radius))
    assert isinstance(request, LogisticModelRequest)
    joint = JointSums(SCHEMA, (request.sums,), noise_multiplier=2.0)
    assert movements(joint, records) > allowed(joint)


# Coverage.


def test_intervals_cover_what_the_population_gives() -> None:
    formula, runs = "z ~ x + C(g)", 150
    population = people(200_000, 9)
    truth, _ = likelihood(population, design_of(population, "x + C(g)"), np.ones(200_000))
    hits, false = np.zeros(4), np.zeros(4)
    for run in range(runs):
        found = released(people(3000, 100 + run), formula, 1.5, run).estimates
        low, high = np.array([one.interval for one in found]).T
        hits += (low <= truth) & (truth <= high)
        off = truth + 5.0 * np.array([one.standard_error for one in found])
        false += (low <= off) & (off <= high)
    assert all(accepted(int(count), runs) or count > 0.95 * runs for count in hits)
    assert not any(accepted(int(count), runs) for count in false)


def test_where_noise_hides_the_curvature_nothing_is_claimed() -> None:
    for one in released(people(300, 1), "z ~ x + C(g)", 50.0).estimates:
        assert not one.known
        assert one.interval == (-np.inf, np.inf)
