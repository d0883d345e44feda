"""The private bootstrap as people call it: data in, estimates with intervals and a cost out."""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

import mustdp as md
from mustdp.errors import InvalidParameter
from tests.seams import design_with_noise, replace_open_source

N = 2000
SCHEME = md.wor(N, 100)
AGES = np.random.default_rng(0).normal(50.0, 10.0, N)
PAIRS = np.column_stack([AGES, 3.0 + 0.5 * AGES + np.random.default_rng(1).normal(0, 4, N)])
RANGE: dict[str, Any] = {"lower": 0, "upper": 100}


@pytest.fixture(autouse=True)
def _seeds_on_purpose() -> Iterator[None]:
    """Seeded runs warn, and so do notes; both are tested by name below."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", md.types.SeededRelease)
        warnings.simplefilter("ignore", md.types.InferenceNote)
        yield


def released(statistic: Any = "mean", data: Any = AGES, **given: Any) -> md.types.BootstrapResult:
    settings: dict[str, Any] = {
        "delta": 1e-5,
        **RANGE, "design": SCHEME, "replicates": 60, "noise_multiplier": 1.0, "seed": 4,
    }  # fmt: skip
    return md.private_bootstrap(data, statistic, **{**settings, **given})


@pytest.mark.parametrize(
    ("statistic", "data", "truth"),
    [
        ("mean", AGES, AGES.mean()),
        ("variance", AGES, AGES.var()),
        ("sd", AGES, AGES.std()),
        ("median", AGES, np.median(AGES)),
        ("quantile:0.9", AGES, np.quantile(AGES, 0.9)),
        ("proportion:>60", AGES, np.mean(AGES > 60)),
        ("covariance", PAIRS, np.cov(PAIRS[:, 0], PAIRS[:, 1])[0, 1]),
        ("correlation", PAIRS, stats.pearsonr(PAIRS[:, 0], PAIRS[:, 1]).statistic),
        ("regression", PAIRS, stats.linregress(*PAIRS.T).slope),
    ],
)
@pytest.mark.parametrize("scheme", [SCHEME, md.wr(N, 100), md.poisson(N, 0.05)], ids=str)
def test_every_statistic_is_near_that_of_all_the_data(
    statistic: str, data: Any, truth: float, scheme: md.types.Scheme
) -> None:
    """Within 4 standard errors with little noise, and these are small beside the value."""
    result = released(statistic, data, design=scheme, noise_multiplier=0.05)
    found = result.estimates[-1]
    assert abs(found.value - truth) < 4 * found.standard_error
    assert found.standard_error < 0.2 * (abs(truth) + 0.5)  # else near would mean nothing
    assert found.interval[0] < found.value < found.interval[1]
    assert 0 <= found.noise_share <= 1


def test_the_noise_is_what_the_plan_says() -> None:
    """Replicates of constant data are nothing but noise: its scale is z times the radius."""
    result = released(data=np.full(N, 50.0), noise_multiplier=2.0, replicates=4000)
    scale = 2.0 * 100 / (2 * 100)
    values = result.replicates[:, 0]
    freedom = values.size - 1
    low, high = (float(stats.chi2.ppf(p, freedom)) / freedom for p in (1e-4, 1 - 1e-4))
    assert low < values.var(ddof=1) / scale**2 < high
    assert not low < values.var(ddof=1) / (0.9 * scale) ** 2 < high
    assert stats.kstest((values - 50.0) / scale, "norm").pvalue > 1e-4


def test_the_charge_is_that_of_all_replicates_and_statistics() -> None:
    ledger = md.Ledger()
    asked: dict[str, Any] = {"noise_multiplier": 3.0, "delta": 1e-5, "seed": None}
    result = released(["mean", "variance"], **asked, ledger=ledger)
    plan = md.repeat(60, md.subsample(SCHEME, md.gaussian(noise_multiplier=3.0)))
    expected = md.account(plan).epsilon(1e-5)
    assert result.privacy.epsilon == expected
    assert ledger.epsilon(1e-5).upper == pytest.approx(expected.upper, rel=1e-9)
    assert ledger.steps == 60


def test_several_statistics_share_the_noise() -> None:
    alone = released("mean", data=np.full(N, 50.0), replicates=2000)
    shared = released(["mean", "median"], data=np.full(N, 50.0), replicates=2000)
    ratio = shared.replicates[:, 0].std() / alone.replicates[:, 0].std()
    assert ratio == pytest.approx(math.sqrt(2), rel=0.08)
    assert [estimate.label for estimate in shared.estimates] == ["mean", "median"]


def test_data_are_clipped() -> None:
    wild = AGES.copy()
    wild[:50] = 1e12
    result = released(data=wild, noise_multiplier=1e-3)
    clipped = np.clip(wild, 0, 100).mean()
    assert abs(result.estimate - clipped) < 4 * result.standard_error


def test_same_seed_same_answer_and_no_seed_no_repetition() -> None:
    first, again, other = released(), released(), released(seed=5)
    assert np.array_equal(first.replicates, again.replicates)
    assert not np.array_equal(first.replicates, other.replicates)
    fresh = released(seed=None).estimate, released(seed=None).estimate
    assert fresh[0] != fresh[1]


def test_draws_and_noise_come_from_different_streams() -> None:
    """Noise of many replicates is uncorrelated with what was drawn under the same seed."""
    exact = released(noise_multiplier=1e-6, replicates=3000).replicates[:, 0]
    noisy = released(noise_multiplier=1.0, replicates=3000).replicates[:, 0]
    noise = noisy - exact
    assert abs(np.corrcoef(exact, noise)[0, 1]) < 4 / math.sqrt(3000)


def test_seeded_releases_and_notes_are_said_loudly() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", md.types.SeededRelease)
        with pytest.raises(md.types.SeededRelease):
            released()
        released(seed=None)
    with pytest.warns(md.types.InferenceNote, match="hides"):
        result = released(seed=2, noise_multiplier=200.0)
    assert any("hides" in note for note in result.notes)
    assert "hides" in str(result)


def test_an_interval_of_a_quantile_is_never_narrower_than_a_step_of_the_grid() -> None:
    wide = {"lower": -1e5, "upper": 1e5, "noise_multiplier": 1e-3}
    assert released("median", **wide).estimates[0].width >= 2e5 / 64


def test_levels_widen_intervals() -> None:
    result, wider = released(level=0.8), released(level=0.96)
    assert wider.estimates[0].width > 1.3 * result.estimates[0].width


def test_a_finite_population_and_intervals_that_hold_together() -> None:
    plain, finite = released(), released(population=N + N // 10)
    assert finite.estimate == plain.estimate
    assert finite.standard_error < 0.9 * plain.standard_error
    together = released(["mean", "variance"], simultaneous=True)
    alone = released(["mean", "variance"])
    assert together.as_dict()["simultaneous"] is True
    for one, other in zip(alone.estimates, together.estimates, strict=True):
        assert other.width > 1.1 * one.width


def test_results_say_what_was_estimated() -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"age": AGES, "income": 1e3 * AGES})
    result = released("mean", frame, columns="income", lower=0, upper=200_000)
    assert result.estimates[0].description == "mean of income clipped to [0, 200000]"
    assert "mean of income clipped to [0, 200000]" in str(result)
    both = released(
        [md.types.LinearRegression(), md.types.Proportion(above=60.0, columns=("age",))],
        frame,
        columns=["age", "income"],
        lower=[0, 0],
        upper=[100, 200_000],
    )
    assert [one.label for one in both.estimates] == ["intercept", "slope of age", "proportion"]
    assert [one.description for one in both.estimates][1:] == [
        "slope of age in the regression of income clipped to [0, 200000] on age clipped to "
        "[0, 100]",
        "share of records with age clipped to [0, 100] > 60",
    ]
    unnamed = released("regression", PAIRS)
    assert unnamed.estimates[1].label == "slope of column 0"


def test_nested_designs_charge_reuse() -> None:
    design = md.estimation.bag_of_little_bootstraps(N, b=100, subsets=5, reuse=6)
    result = released(design=design, replicates=None, noise_multiplier=400.0, delta=1e-4)
    noise = md.gaussian(noise_multiplier=400.0)
    inner = md.repeat(6, md.subsample(md.wr(100, N), noise))
    nested = md.repeat(5, md.subsample(md.wor(N, 100), inner))
    assert result.privacy.epsilon == md.account(nested).epsilon(1e-4)
    assert result.replicates.shape == (30, 1)


def test_frames_and_columns() -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"age": AGES, "other": AGES[::-1], "name": "x"})
    by_name = released(data=frame, columns="age")
    assert by_name.estimate == released(data=AGES).estimate
    both = released(
        [md.types.Mean(columns=("age",)), md.types.Mean(columns=("other",))],
        data=frame,
        columns=["age", "other"],
        lower={"age": 0, "other": 0},
        upper={"age": 100, "other": 100},
    )
    assert [estimate.label for estimate in both.estimates] == ["age mean", "other mean"]
    assert both["other mean"].value == both.estimates[1].value
    with pytest.raises(KeyError, match="no estimate"):
        both["third"]


def test_a_user_function_with_a_stated_sensitivity() -> None:
    def trimmed(values: Any, counts: Any) -> float:
        return float(np.average(np.clip(values[:, 0], 20, 80), weights=counts))

    result = released(md.types.UserStatistic(trimmed, sensitivity=lambda m: 60 / m))
    assert abs(result.estimate - np.clip(AGES, 20, 80).mean()) < 5 * result.standard_error
    with pytest.raises(InvalidParameter, match="sensitivity"):
        md.types.UserStatistic(trimmed, sensitivity=None)


def test_result_as_table_and_as_data() -> None:
    asked: dict[str, Any] = {"epsilon": 1.0, "noise_multiplier": None, "delta": 1e-4}
    result = released(["mean", "median"], **asked, seed=None)
    text = str(result)
    assert "median" in text.splitlines()[2]
    assert "0.0001)-differentially private under replace-one, certified" in text
    data = result.as_dict()
    assert data["estimate"] == result.estimate
    assert data["interval"] == list(result.interval)
    assert data["privacy"]["epsilon"]["upper"] <= 1.0
    seeded = released(["mean", "median"], **asked)
    assert str(seeded).splitlines()[0].startswith("no privacy: made with a seed")
    assert seeded.as_dict()["privacy"]["seeded"] is True
    assert "epsilon" not in seeded.as_dict()["privacy"]


def test_result_draws_itself() -> None:
    pytest.importorskip("matplotlib")
    ax = released(["mean", "median"]).plot("median")
    assert ax.get_xlabel() == "median"
    legend = ax.get_legend()
    assert legend is not None
    labels = [text.get_text() for text in legend.get_texts()]
    assert any("95 % interval" in label for label in labels)
    assert any("noise" in label for label in labels)


BAD: list[tuple[dict[str, Any], str]] = [
    ({"statistic": "mode"}, "statistic must"),
    ({"statistic": []}, "statistics must"),
    ({"lower": 100, "upper": 0}, "lower must be below upper"),
    ({"lower": 5, "upper": 5}, "lower must be below upper"),
    ({"lower": math.nan}, "lower must"),
    ({"upper": math.inf}, "upper must"),
    ({"lower": [0, 0, 0]}, "lower must be one number or one for each"),
    ({"lower": {"age": 0}, "upper": {"age": 1}}, "lower must be given for columns among"),
    ({"upper": {"age": 1}}, "upper must be given for columns among"),
    ({"design": md.wor(N + 1, 100)}, "data must have the n = 2001 records"),
    (
        {"design": md.poisson(N + 1, 0.1), "relation": "replace_one"},
        "data must have the n = 2001 records",
    ),
    ({"design": md.poisson(N // 3, 0.1)}, "n must be at least half"),
    ({"design": "wor"}, "scheme must"),
    ({"replicates": None}, "replicates must be given"),
    ({"replicates": 3}, "replicates must be a whole number from 4|replicates must"),
    ({"design": md.types.Design(SCHEME, 3), "replicates": None}, "replicates must be at least 4"),
    ({"population": N - 1}, "population must"),
    ({"simultaneous": 1}, "simultaneous must"),
    ({"interval": "percentile"}, "interval must be normal, because"),
    ({"replicates": 0}, "replicates must"),
    ({"design": md.types.Design(SCHEME, 5), "replicates": 6}, "replicates must be left out"),
    ({"noise_multiplier": None, "epsilon": 0.0}, "epsilon must"),
    ({"noise_multiplier": None}, "exactly one of"),
    ({"interval": "wald"}, "interval must"),
    ({"level": 1.0}, "level must"),
    ({"level": math.nan}, "level must"),
    ({"execution": 2}, "execution must be"),
    ({"statistic": "covariance"}, "column"),
    ({"statistic": md.types.Mean(columns=("age",))}, "statistic must name columns among"),
    ({"columns": "age"}, "column"),
    ({"data": np.append(AGES[1:], math.nan)}, "NaN"),
    ({"data": np.append(AGES[1:], math.inf)}, "infinit"),
    ({"data": np.array(["a"] * N)}, "numeric|numbers"),
    ({"seed": -1}, "seed must"),
]


@pytest.mark.parametrize(("given", "named"), BAD, ids=lambda value: str(value)[:40])
def test_bad_input(given: dict[str, Any], named: str) -> None:
    with pytest.raises(InvalidParameter, match=named):
        released(**given)


def test_bad_parameters_are_refused_before_data_are_touched(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def touched(*args: Any, **kwargs: Any) -> None:
        raise AssertionError("the data were opened")

    replace_open_source(monkeypatch, touched)
    refused: list[dict[str, Any]] = [
        {"statistic": "mode"},
        {"lower": 100, "upper": 0},
        {"level": 2.0},
        {"noise_multiplier": math.nan},
        {"interval": "wald"},
        {"execution": 2},
    ]
    for given in refused:
        with pytest.raises(InvalidParameter):
            released(**given)
    with pytest.raises(AssertionError, match="opened"):
        released()


def test_nothing_is_charged_when_reading_fails(tmp_path: Path) -> None:
    ledger = md.Ledger()
    with pytest.raises(InvalidParameter):
        released(data=tmp_path / "missing.parquet", columns="x", ledger=ledger, seed=None)
    assert ledger.steps == 0


def test_a_release_without_a_guarantee_cannot_be_put_on_a_ledger() -> None:
    with pytest.raises(InvalidParameter, match="without a guarantee"):
        released(noise_multiplier=1e-6, ledger=md.Ledger(), seed=None)
    with pytest.raises(InvalidParameter, match="where a seed is given"):
        released(ledger=md.Ledger())


def test_a_ledger_of_another_relation_is_refused() -> None:
    """A ledger left to its default would account Poisson subsets for add_remove, for less."""
    poisson = {
        "design": md.poisson(N, 0.05),
        "relation": "replace_one",
        "delta": 1e-5,
        "seed": None,
    }
    ledger = md.Ledger()
    with pytest.raises(InvalidParameter, match="relation must be that of the ledger"):
        released(**poisson, ledger=ledger)
    assert ledger.steps == 0
    asked = md.Ledger(relation="replace_one")
    result = released(**poisson, ledger=asked)
    assert asked.epsilon(1e-5).upper == pytest.approx(result.privacy.epsilon.upper, rel=1e-9)


def test_the_cost_in_words_is_rounded_to_its_safe_side() -> None:
    result = released(noise_multiplier=0.31, delta=N**-1.1, seed=None)
    shown = re.search(r"\((\S+), (\S+)\)-differentially", str(result))
    assert shown is not None
    assert float(shown[1]) >= result.privacy.epsilon.upper > 10
    assert float(shown[2]) >= result.privacy.delta == N**-1.1


def test_moments_that_are_those_of_no_data_are_cautioned_about() -> None:
    flat = np.column_stack([np.full(N, 50.0), PAIRS[:, 1]])
    assert any("floor" in note for note in released("regression", flat).notes)
    assert not any("floor" in note for note in released("regression", PAIRS).notes)


def test_calibration_is_made_once_for_equal_designs() -> None:
    first = design_with_noise(md.types.Design(SCHEME, 33), epsilon=1.5, delta=1e-4)
    again = design_with_noise(md.types.Design(md.wor(N, 100), 33), epsilon=1.5, delta=1e-4)
    assert again is first
