"""One question is paid for once, however it is written; what cannot work is refused before it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import mustdp as md
from tests.cli.running import runner

pytestmark = pytest.mark.filterwarnings("ignore::mustdp.types.SeededRelease")
RNG = np.random.default_rng(4)
FRAME = pd.DataFrame({"x": RNG.uniform(0, 10, 500), "y": RNG.uniform(0, 10, 500)})
GIVEN: dict[str, Any] = {"lower": 0, "upper": 10, "noise_multiplier": 3.0, "delta": 1e-6}


@pytest.mark.parametrize("missing", ["refuse", "drop"])
@pytest.mark.parametrize("asked", [
    ("correlation@x,y", "correlation@y,x"), ("covariance@y,x", "covariance@x,y"),
])  # fmt: skip
def test_a_pair_in_either_order_costs_once(asked: tuple[str, str], missing: str) -> None:
    alone = md.private_release(FRAME, asked[0], seed=1, missing=missing, **GIVEN)
    both = md.private_release(FRAME, asked, seed=1, missing=missing, **GIVEN)
    one, other = both.estimates
    assert one.standard_error == pytest.approx(alone.standard_error, rel=1e-9)
    assert one.value == pytest.approx(alone.estimate, rel=1e-9)
    assert other.value == pytest.approx(one.value, rel=1e-9)
    assert other.standard_error == pytest.approx(one.standard_error, rel=1e-6)
    assert one.label != other.label


def test_regressions_either_way_share_their_moments() -> None:
    given = {**GIVEN, "noise_multiplier": 1e-4}
    found = md.private_release(FRAME, ["regression@x,y", "regression@y,x"], seed=1, **given)
    x, y = FRAME["x"], FRAME["y"]
    both = float(np.cov(x, y)[0, 1])
    assert found["regression x, y: x"].value == pytest.approx(both / x.var(), rel=1e-2)
    assert found["regression y, x: y"].value == pytest.approx(both / y.var(), rel=1e-2)


@pytest.mark.parametrize(
    "asked", ["correlation@x,x", "covariance@x,x", "regression@x,x,y", "contingency@y,y"]
)
def test_a_column_twice_is_refused_before_it_costs(asked: str, tmp_path: Path) -> None:
    with md.Ledger.open(tmp_path / "a.ledger", epsilon=5, delta=1e-6) as ledger:
        with pytest.raises(md.InvalidParameter, match="must differ"):
            md.private_release(FRAME, asked, ledger=ledger, **GIVEN)
        assert ledger.entries() == ()


@pytest.mark.parametrize(
    "limits",
    [
        {"lower": 0, "upper": 1e60},
        {"lower": -1e31, "upper": 1},
        {"lower": 0, "upper": 1e-31},
    ],
)
def test_ranges_that_overflow_are_refused_before_they_cost(
    limits: dict[str, Any], tmp_path: Path
) -> None:
    given = {**GIVEN, **limits, "columns": ["x"]}
    with md.Ledger.open(tmp_path / "a.ledger", epsilon=5, delta=1e-6) as ledger:
        with pytest.raises(md.InvalidParameter, match=r"lower|upper"):
            md.private_release(FRAME, "variance", ledger=ledger, **given)
        assert ledger.entries() == ()


@pytest.mark.parametrize("upper", [1e80, 1e-80])
def test_a_bootstrap_refuses_such_ranges_too(upper: float, tmp_path: Path) -> None:
    with md.Ledger.open(tmp_path / "a.ledger", epsilon=5, delta=1e-6) as ledger:
        with pytest.raises(md.InvalidParameter, match=r"upper must be"):
            md.private_bootstrap(
                np.zeros(100), "variance", lower=0, upper=upper, design=md.wor(100, 10),
                replicates=10, noise_multiplier=9.0, delta=1e-6, ledger=ledger,
            )  # fmt: skip
        assert ledger.entries() == ()


@pytest.mark.parametrize("width", [1e30, 1e-29])
@pytest.mark.parametrize("unit", ["record", "cluster"])
def test_the_widest_and_the_narrowest_ranges_give_numbers(width: float, unit: str) -> None:
    frame = (FRAME / 10 * width).assign(home=np.arange(500) // 5)
    found = md.private_release(
        frame,
        ["mean", "sum", "variance", "sd", "covariance", "correlation", "regression"],
        columns=["x", "y"],
        lower=0,
        upper=width,
        noise_multiplier=0.3,
        delta=1e-6,
        seed=2,
        survey=md.types.Survey(cluster="home", largest_cluster=5, unit=unit),
        population=2**53,
    )
    for one in found.estimates:
        assert one.known
        assert np.isfinite([one.standard_error, *one.interval]).all(), one
        assert one.standard_error > 0


def test_a_column_may_have_any_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "odd.csv"
    FRAME.rename(columns={"x": "age where known"}).assign(kind="a").to_csv(path, index=False)
    words = ["--column", "age where known", "--lower", "0", "--upper", "10", "--by", "kind"]
    words += ["--groups", "a", "--noise-multiplier", "2", "--delta", "1e-6"]
    outcome = runner(capsys)("release", path, *words)
    assert "estimated: mean of age where known clipped to [0, 10]." in outcome.out


@pytest.mark.parametrize("upper", [60, 100, 400, 5000])
@pytest.mark.parametrize("relation", ["replace_one", "add_remove"])
def test_medians_of_whole_numbers_are_whole(upper: int, relation: str) -> None:
    """Few records, so that the noise hides that they are whole."""
    x = RNG.integers(0, upper, 200).astype(float)
    given = {**GIVEN, "upper": upper, "relation": relation, "noise_multiplier": 8.0}
    between = 0
    for seed in range(12):
        found = md.private_release(
            x, ["median", "quantile:0.2"], columns=md.types.Columns(whole="0"), seed=seed, **given
        ).estimates
        for one in found:
            assert one.known is False or one.value == round(one.value)
            assert all(end == round(end) for end in one.interval)
        plain = md.private_release(x, "median", seed=seed, **given).estimate
        between += plain % 1.0 > 0.0
    assert between > 0


def test_what_is_declared_whole_needs_a_whole_range() -> None:
    for whole, limits in (("x", {"upper": 9.5}), ("z", {})):
        columns = md.types.Columns(whole=whole)
        with pytest.raises(md.InvalidParameter, match="whole must name"):
            md.private_release(FRAME, "median", **{**GIVEN, **limits, "columns": columns})
