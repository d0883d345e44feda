"""Linear models by formula: against least squares, R's coding, brute force and simulation."""

from __future__ import annotations

import csv
import io
import itertools
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import mustdp as md
from mustdp.errors import InvalidParameter
from mustdp.estimation.queries import JointSums, Piece
from mustdp.estimation.schema import Column, PublicSchema, Range
from mustdp.estimation.statistics.linear_model import DesignMatrix, Formula, LinearModelRequest
from mustdp.estimation.statistics.statistic import read_statistic
from mustdp.numerics.arrays import FloatArray
from mustdp.types import Relation
from tests.estimation.release.simulated import accepted
from tests.estimation.release.swapping import allowed, movements

COLUMNS = (
    Column("x", Range(10.0, 30.0)),
    Column("z", Range(-1.0, 1.0)),
    Column("g", None, ("a", "b", "c")),
    Column("h", None, ("u", "v")),
    Column("y", Range(0.0, 100.0)),
)
SCHEMA = PublicSchema(COLUMNS, Relation.REPLACE_ONE, 200)
WHERE: dict[str, Any] = {
    "columns": md.types.Columns(
        [one.name for one in COLUMNS], categories={"g": ["a", "b", "c"], "h": ["u", "v"]}
    ),
    "lower": {"x": 10, "z": -1, "y": 0},
    "upper": {"x": 30, "z": 1, "y": 100},
    "delta": 1e-6,
}


def people(n: int, seed: int, slope: float = 1.0) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    x, z = rng.uniform(10, 30, n), rng.uniform(-1, 1, n)
    g, h = rng.choice(["a", "b", "c"], n, p=[0.5, 0.3, 0.2]), rng.choice(["u", "v"], n)
    mean = 40 + slope * (0.7 * (x - 20) + 6 * (g == "b") - 4 * (g == "c") * z)
    y = mean + rng.normal(size=n) * (4 + 3 * (h == "v"))
    return {"x": x, "z": z, "g": g, "h": h, "y": np.clip(y, 0, 100)}


def frame(n: int, seed: int, slope: float = 1.0) -> Any:
    return pytest.importorskip("pandas").DataFrame(people(n, seed, slope))


def released(data: Any, formula: str, noise: float, seed: int = 1, **more: Any) -> Any:
    settings = {**WHERE, "noise_multiplier": noise, "seed": seed, **more}
    return md.private_release(data, f"linear-model:{formula}", **settings)


# Formulas.


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("y ~ x", "intercept x"),
        ("y ~ x - 1", "x"),
        ("y ~ 0 + x + z", "x z"),
        ("y ~ 1", "intercept"),
        ("y ~ x*z", "intercept x z x:z"),
        ("y ~ x*z - x", "intercept z x:z"),
        ("y ~ (x + z):C(h)", "intercept x:h[u] x:h[v] z:h[u] z:h[v]"),
        ("y ~ C(g) + h", "intercept g[b] g[c] h[v]"),
        ("y ~ g + h - 1", "g[a] g[b] g[c] h[v]"),
        ("y ~ x + g:x", "intercept x g[b]:x g[c]:x"),
        ("y ~ g*h", "intercept g[b] g[c] h[v] g[b]:h[v] g[c]:h[v]"),
        ("y ~ `x`+x:x", "intercept x"),
    ],
)
def test_designs_have_the_columns_that_r_gives_them(text: str, names: str) -> None:
    design = DesignMatrix.of(Formula.read(text), SCHEMA, range(5))
    assert " ".join(design.names) == names


@pytest.mark.parametrize(
    "text",
    ["", "y", "y ~", "~ x", "y ~ x +", "y ~ log(x)", "y ~ x ^ 2", "y ~ y", "y ~ (x", "y ~ x x",
     "y ~ -1", "2 ~ x", "y ~ x$"],
)  # fmt: skip
def test_what_is_no_formula_is_refused(text: str) -> None:
    with pytest.raises(InvalidParameter, match=r"^statistic must"):
        read_statistic(f"linear-model:{text}")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("y ~ C(x)", "categories must be given for C\\(x\\)"),
        ("y ~ other", "must have a formula of columns among x, z, g, h, y"),
        ("g ~ x", "must have a number on the left"),
    ],
)
def test_columns_of_another_kind_are_refused(text: str, message: str) -> None:
    with pytest.raises(InvalidParameter, match=message):
        list(md.types.LinearModel(text).requests(SCHEMA))


# Values.


def model_matrix(data: dict[str, Any], formula: str) -> FloatArray:
    x, z, g, h = data["x"], data["z"], data["g"], data["h"]
    one = np.ones(len(x))
    made = {
        "y ~ x + C(g)": [one, x, g == "b", g == "c"],
        "y ~ x*C(h) + z - 1": [x, h == "u", h == "v", z, x * (h == "v")],
        "y ~ x:z": [one, x * z],
        "y ~ z - 1": [z],
    }
    return np.column_stack(made[formula]).astype(np.float64)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("relation", ["replace_one", "add_remove"])
@pytest.mark.parametrize("formula", ["y ~ x + C(g)", "y ~ x*C(h) + z - 1", "y ~ x:z", "y ~ z - 1"])
def test_without_noise_they_are_least_squares_with_robust_errors(
    formula: str, relation: str
) -> None:
    data = people(2000, 3)
    design, y = model_matrix(data, formula), data["y"]
    result = released(frame(2000, 3), formula, 1e-5, relation=relation)
    *terms, r2 = result.estimates
    beta, *_ = np.linalg.lstsq(design, y, rcond=None)
    e, inverse = y - design @ beta, np.linalg.inv(design.T @ design)
    robust = inverse @ (design.T * e**2) @ design @ inverse * 2000 / (2000 - len(beta))
    names = [one.cell for one in terms]
    order = {"y ~ x*C(h) + z - 1": ["x", "h[u]", "h[v]", "z", "x:h[v]"]}.get(formula, names)
    found = {one.cell: one for one in terms}
    assert [found[name].value for name in order] == pytest.approx(beta, rel=1e-4, abs=1e-4)
    errors = [found[name].standard_error for name in order]
    assert errors == pytest.approx(np.sqrt(np.diag(robust)), rel=1e-3)
    centred = y - y.mean() if "- 1" not in formula else y
    plain = 1.0 - e @ e / (centred @ centred)
    assert r2.value == pytest.approx(plain, abs=0.004)
    start = int("- 1" not in formula)
    own = robust[start:, start:]
    wald = beta[start:] @ np.linalg.inv(own) @ beta[start:] / len(own)
    assert r2.test.kind == "F"
    assert r2.test.statistic == pytest.approx(wald, rel=1e-2)


@pytest.mark.filterwarnings("ignore")
def test_groups_have_models_of_their_own_and_unlisted_categories_are_left_out() -> None:
    data = frame(3000, 5)
    result = released(data, "y ~ x", 1e-4, by="h", groups=["u"])
    alone = released(data[data.h == "u"], "y ~ x", 1e-4)
    assert [one.value for one in result.estimates[:2]] == pytest.approx(
        [one.value for one in alone.estimates[:2]], abs=0.05
    )
    part = {**WHERE["columns"].categories, "g": ["a", "b"]}
    some = released(data, "y ~ C(g)", 1e-4, columns=replace(WHERE["columns"], categories=part))
    rest = released(
        data[data.g != "c"], "y ~ C(g)", 1e-4, columns=replace(WHERE["columns"], categories=part)
    )
    pairs = zip(some.estimates[:2], rest.estimates[:2], strict=True)
    assert all(abs(one.value - other.value) < 0.05 for one, other in pairs)


# Sensitivity.


SCHEMAS = {
    "replace-one": SCHEMA,
    "dropped": PublicSchema(COLUMNS, Relation.REPLACE_ONE, 200, dropped=True),
    "groups": PublicSchema(COLUMNS, Relation.REPLACE_ONE, 200, groups=("p", "other"), by="k"),
    "weights": PublicSchema(COLUMNS, Relation.REPLACE_ONE, 200, largest_weight=2.0),
    "add-remove": PublicSchema(COLUMNS, Relation.ADD_REMOVE, None),
}


@pytest.mark.parametrize("setting", SCHEMAS)
@pytest.mark.parametrize("formula", ["y ~ x*z", "y ~ x*C(g) + C(h)", "y ~ z - 1"])
def test_no_record_moves_a_model_farther_than_its_noise_allows(formula: str, setting: str) -> None:
    schema = SCHEMAS[setting]
    (request,) = md.types.LinearModel(formula).requests(schema)
    assert isinstance(request, LinearModelRequest)
    ends = [(10.0, 23.0, 30.0), (-1.0, 1.0), (0.0, 1.0, 2.0, 3.0), (0.0, 1.0), (0.0, 41.0, 100.0)]
    records = [list(one) for one in itertools.product(*ends)]
    joint = JointSums(schema, (request.sums,), noise_multiplier=2.0)
    weights = (0.0, 0.4, 1.0) if schema.weighted else (1.0,)
    farthest = movements(joint, records, weights)
    assert 0.55 * allowed(joint) < farthest <= allowed(joint)
    data = people(300, 2)
    levels = [np.searchsorted(["a", "b", "c"], data["g"]), np.searchsorted(["u", "v"], data["h"])]
    values = np.column_stack([data["x"], data["z"], *levels, data["y"]]).astype(np.float64)
    ones = np.ones(300) if schema.weighted else None
    piece = Piece(values, np.arange(300) % schema.slots, ones)
    (first,) = joint.read(joint.totals([piece])[0] * joint.noise.lattice.step)
    again = JointSums(schema, (request.second_sums(first, [request]),), noise_multiplier=2.0)
    assert movements(again, records, weights) <= allowed(again)


# Coverage, and the level of the test.


@pytest.mark.filterwarnings("ignore")
def test_intervals_cover_and_the_test_keeps_its_level() -> None:
    formula, runs = "y ~ x + C(g)", 150
    truth = {one.cell: one.value for one in released(frame(200_000, 9), formula, 1e-3).estimates}
    hits = dict.fromkeys(truth, 0)
    for run in range(runs):
        for one in released(frame(1500, 100 + run), formula, 4.0, run).estimates:
            hits[str(one.cell)] += one.interval[0] <= truth[str(one.cell)] <= one.interval[1]
    assert all(accepted(count, runs) or count > 0.95 * runs for count in hits.values())
    none = [released(frame(1500, run, 0.0), formula, 4.0, run) for run in range(runs)]
    p = np.array([one.estimates[-1].test.p_value for one in none])
    assert (p < 0.05).mean() < 0.11
    assert (p < 0.5).mean() > 0.3


@pytest.mark.filterwarnings("ignore")
def test_tests_are_written_everywhere() -> None:
    result = released(frame(1500, 4), "y ~ x", 1.0)
    assert result.as_csv().splitlines()[0].endswith(",upper,p_value,flags")
    assert "$p$" in result.as_latex()
    assert list(result.to_frame().p_value) == [one.test.p_value for one in result.estimates]
    assert result.as_dict()["estimates"][-1]["test"]["kind"] == "F"
    assert result["linear-model y ~ x: R2"].test is not None


@pytest.mark.filterwarnings("ignore")
def test_estimates_without_a_test_stand_beside_those_with_one() -> None:
    for statistics in ("linear-model:y ~ 1", ["linear-model:y ~ x", "mean@z"]):
        result = md.private_release(
            frame(1500, 4), statistics, **WHERE, noise_multiplier=1.0, seed=1
        )
        last = result.estimates[-1]
        assert last.test is None
        assert result.as_latex().splitlines()[2 + len(result.estimates) + 1].endswith(r"] & -- \\")
        assert list(csv.DictReader(io.StringIO(result.as_csv())))[-1]["p_value"] == "NA"
        assert np.isnan(list(result.to_frame().p_value)[-1])
