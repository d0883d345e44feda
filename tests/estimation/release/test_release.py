"""What a release does in which order, and that its intervals stay within what is possible."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import mustdp as md
from mustdp.estimation.queries import JointSums
from mustdp.estimation.schema import Column, PublicSchema, Range
from mustdp.estimation.statistics.moments import Moments
from mustdp.types import Relation

pytestmark = pytest.mark.filterwarnings("ignore::mustdp.types.SeededRelease")
BUDGET: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-6}
X = np.random.default_rng(0).uniform(0, 10, 2000)


def test_a_seed_repeats_a_release_and_secret_ones_differ() -> None:
    first, second = (
        md.private_release(X, ["mean", "sd"], lower=0, upper=10, seed=4, **BUDGET).as_dict()
        for _ in range(2)
    )
    assert first == second
    assert first["privacy"]["seeded"] is True
    assert "epsilon" not in first["privacy"]
    secret = {md.private_release(X, "mean", lower=0, upper=10, **BUDGET).estimate for _ in range(3)}
    assert len(secret) == 3


def test_the_ledger_is_asked_before_the_data_and_charged_for_releases_only(tmp_path: Path) -> None:
    path = tmp_path / "office.ledger"
    with md.Ledger.open(path, epsilon=0.5, delta=1e-6) as ledger:
        with pytest.raises(md.BudgetExceeded):
            md.private_release(
                "nowhere.csv", "mean", columns="x", lower=0, upper=1, ledger=ledger, **BUDGET
            )
        bad = np.array([1.0, np.nan])
        with pytest.raises(md.InvalidParameter, match="NaN"):
            md.private_release(
                bad, "mean", lower=0, upper=1, ledger=ledger, epsilon=0.1, delta=1e-6
            )
        assert ledger.entries() == ()
        found = md.private_release(
            X, ["mean", "sd"], lower=0, upper=10, ledger=ledger, epsilon=0.2, delta=1e-6
        )
        (entry,) = ledger.entries()
        assert entry.label == "release: mean, sd"
        assert found.privacy.steps == 1
        with pytest.raises(md.InvalidParameter, match="relation"):
            md.private_release(
                X, "mean", lower=0, upper=10, ledger=ledger, relation="add_remove",
                epsilon=0.1, delta=1e-6,
            )  # fmt: skip


def test_the_lattice_does_not_tell_the_number_of_records() -> None:
    column = (Column("x", Range(0.0, 1.0)),)
    lattices = set()
    for n in (None, 10, 10**6):
        schema = PublicSchema(column, Relation.ADD_REMOVE, n)
        lattices.add(JointSums(schema, (Moments(schema, (0,)),), 2.0).noise)
    assert len(lattices) == 1


@pytest.mark.parametrize("statistic", ["correlation", "regression"])
def test_nothing_is_claimed_where_noise_hides_the_variance(statistic: str) -> None:
    """Columns that vary by a thousandth of their range: -1 in [-1, -1] would be a lie."""
    frame = np.column_stack([X, X + np.random.default_rng(1).normal(0, 1, X.size)])
    for seed in range(20):
        found = md.private_release(
            frame, statistic, lower=-5000, upper=5000, seed=seed, **BUDGET
        ).estimates[-1]
        assert found.flags
        assert found.width >= 2.0


def test_an_sd_that_noise_hides_is_no_certain_zero() -> None:
    for seed in range(20):
        found = md.private_release(X, "sd", lower=-5000, upper=5000, seed=seed, **BUDGET)
        assert found.interval[0] <= X.std() <= found.interval[1]
        assert found.standard_error > 1.0 or found.flags


@pytest.mark.parametrize("relation", ["replace_one", "add_remove"])
@pytest.mark.parametrize("value", [0.0, 1.0])
def test_shares_and_means_stay_where_they_can_be(relation: str, value: float) -> None:
    constant = np.full(400, value)
    for seed in range(10):
        found = md.private_release(
            constant, ["proportion:>0.5", "mean", "variance", "count"],
            lower=0, upper=1, relation=relation, seed=seed, **BUDGET,
        )  # fmt: skip
        share, mean, variance, count = found.estimates
        for one, low, high in ((share, 0, 1), (mean, 0, 1), (variance, 0, 0.26), (count, 0, 1e9)):
            assert low <= one.interval[0] < one.interval[1] <= high or one is count, one
            assert one.interval[0] <= one.value <= one.interval[1] or one.flags, one
        assert share.width > 0


def test_small_groups_are_shown_and_flagged() -> None:
    frame = pd.DataFrame({"x": X, "kind": ["a"] * 1990 + ["b"] * 10})
    found = md.private_release(
        frame, ["count", "mean"], columns=["x"], lower=0, upper=10, by="kind",
        groups=["a", "b", "c"], seed=1, **BUDGET,
    )  # fmt: skip
    assert [one.group for one in found.estimates] == ["a", "b", "c", "other"] * 2
    assert not found["mean x (a)"].flags
    for group in ("b", "c", "other"):
        assert found[f"mean x ({group})"].interval == (0.0, 10.0)
        assert "too few" in found[f"mean x ({group})"].flags[0]


@pytest.mark.parametrize("relation", ["replace_one", "add_remove"])
def test_a_second_round_narrows_the_interval_of_a_quantile(
    relation: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Around the quantile, for the same budget; data that are read once have one round."""
    income = np.random.default_rng(5).lognormal(10.3, 0.7, 1000)
    truth = float(np.exp(10.3 + 0.7 * 1.2816))
    given: dict[str, Any] = {"lower": 0, "upper": 200_000, "relation": relation, "delta": 1e-6}
    asked = ["quantile:0.9", "median"]

    def found() -> list[md.types.ReleaseResult]:
        return [
            md.private_release(income, asked, noise_multiplier=12.0, seed=seed, **given)
            for seed in range(12)
        ]

    twice = found()
    monkeypatch.setattr("mustdp.estimation.release.read_once", lambda data: True)
    once = found()
    for k in range(2):
        wide, narrow = (np.mean([one.estimates[k].width for one in way]) for way in (once, twice))
        assert narrow < 0.9 * wide
    assert sum(one.interval[0] < truth < one.interval[1] for one in twice) >= 10


def test_all_intervals_hold_together_on_request() -> None:
    settings: dict[str, Any] = {"lower": 0, "upper": 10, "seed": 1, **BUDGET}
    alone = md.private_release(X, ["mean", "histogram:4"], **settings)
    together = md.private_release(X, ["mean", "histogram:4"], simultaneous=True, **settings)
    for narrow, wide in zip(alone.estimates, together.estimates, strict=True):
        assert wide.interval[0] < narrow.interval[0]
        assert narrow.interval[1] < wide.interval[1]


def test_tables_of_results_hold_every_estimate() -> None:
    found = md.private_release(
        X, ["mean", "proportion:<5"], lower=0, upper=10, by=None, seed=1, **BUDGET
    )
    lines = found.as_csv().splitlines()
    assert len(lines) == 3
    assert lines[2].startswith("proportion:<5,0,,,")
    assert "proportion:$<$5" in found.as_latex()
    assert "no privacy" in str(found)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"statistics": []}, "at least one statistic"),
        ({"statistics": "midrange"}, "statistic must be one of"),
        ({"statistics": "mean@y"}, "must name columns among"),
        ({"statistics": "quantile:1.5"}, "statistic must be a finite number"),
        ({"statistics": "proportion:>11"}, "limits from 0 to 10"),
        ({"statistics": "correlation"}, "at least 2"),
        ({"upper": None}, "lower and upper must be given together"),
        ({"level": 1.0}, "level must be"),
        ({"by": "kind"}, "by and groups must be given together"),
        ({"missing": "guess"}, "missing must be"),
        ({"population": 5}, "population must be at least the number of records"),
        ({"delta": None}, "delta must be given"),
        ({"epsilon": None}, "exactly one of epsilon"),
        ({"survey": md.types.PlannedSurvey()}, "survey must be a Survey, got PlannedSurvey"),
        ({"survey": {}}, "survey must be a Survey, got dict"),
        ({"ranges": False}, "ranges must be a Ranges, got bool"),
    ],
)
def test_refusals_name_what_is_wrong(settings: dict[str, Any], said: str) -> None:
    given: dict[str, Any] = {"statistics": "mean", "lower": 0, "upper": 10, **BUDGET, **settings}
    with pytest.raises(md.InvalidParameter, match=said):
        md.private_release(X, **given)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"weights": "w"}, "weights and largest_weight must be given together"),
        ({"largest_cluster": 3}, "cluster and largest_cluster must be given together"),
        ({"strata": "kind"}, "strata and stratum_shares must be given together"),
        ({"unit": "cluster"}, "unit must be record"),
        ({"unit": "household"}, "unit must be one of"),
        ({"weights": "w", "largest_weight": float("nan")}, "largest_weight must be"),
        ({"weights": "w", "largest_weight": 1e60}, "largest_weight must be"),
        ({"cluster": "k", "largest_cluster": 0}, "largest_cluster must be"),
    ],
)
def test_a_survey_names_what_is_wrong_with_it(given: dict[str, Any], said: str) -> None:
    with pytest.raises(md.InvalidParameter, match=said):
        md.types.Survey(**given)


def test_a_column_has_categories_or_dates() -> None:
    with pytest.raises(md.InvalidParameter, match="dates must be given for columns without"):
        md.types.Columns("day", categories={"day": ["a"]}, dates={"day": "2020-01-01"})


def _sources(values: list[float], folder: Path) -> list[Any]:
    path = folder / f"{len(values)}.csv"
    path.write_text("\n".join(["x", *map(str, values)]) + "\n")
    return [np.array(values), pd.DataFrame({"x": np.array(values)}), str(path)]


def test_a_private_size_is_not_told_by_a_refusal_or_by_the_progress(tmp_path: Path) -> None:
    """One record and none are neighbours where records are added or removed."""
    shown: list[list[int]] = []
    for values in ([], [5.0], [5.0] * 40, [5.0] * 70_000):
        for source in _sources(values, tmp_path):
            told: list[int] = []
            found = md.private_release(
                source, ["mean", "count"], columns=None if isinstance(source, np.ndarray) else "x",
                lower=0, upper=10, relation="add_remove", **BUDGET,
                progress=lambda what, done=0, total=None, told=told: told.append(done),
            )  # fmt: skip
            assert all(np.isfinite(one.value) or one.flags for one in found.estimates)
            shown.append(told)
    assert all(one == [0] for one in shown)


def test_a_public_size_is_checked_and_shown(tmp_path: Path) -> None:
    for source in _sources([], tmp_path):
        columns = None if isinstance(source, np.ndarray) else "x"
        with pytest.raises(md.MustdpError, match="at least one record"):
            md.private_release(source, "mean", columns=columns, lower=0, upper=10, **BUDGET)
    told: list[int] = []
    md.private_release(
        X, "mean", lower=0, upper=10, **BUDGET,
        progress=lambda what, done=0, total=None: told.append(done),
    )  # fmt: skip
    assert told[-1] == len(X)
