"""Linear regression: printed noise, what it really gives, and the comparison at equal guarantee."""

from __future__ import annotations

import math
import re
from dataclasses import replace

import numpy as np
import pytest

from mustdp.reproduction import guarantees, regression
from mustdp.reproduction.cells import NAMES, Settings, published
from mustdp.reproduction.guarantees import (
    Target,
    calibrate_all,
    certify,
    guarantee_table,
    noise_reading,
    utility_reading,
)
from mustdp.reproduction.regression import (
    REGRESSION,
    TRUTH,
    data_sets,
    delta_primes,
    delta_table,
    deviations,
    mean_losses,
    non_private,
    row_of,
    run_job,
    table_4,
)
from mustdp.reproduction.runner import run_jobs
from mustdp.reproduction.simulation import (
    Key,
    RunMeasure,
    Runs,
    SimulationJob,
    root_mean,
    simulate,
    time_table,
)

PRIMES = REGRESSION.primes
#: Consistently evaluated with C/n, for epsilon' = 0.01 and 0.001.
CONSISTENT = {
    "WR": (3.55e-6, 3.54e-7),
    "MUSTow": (2.87e-5, 2.86e-6),
    "MUSTww": (3.89e-5, 3.87e-6),
}


def quiet(*_: object) -> None:
    """Nobody listens."""


@pytest.mark.parametrize("prime", PRIMES)
@pytest.mark.parametrize("name", NAMES)
def test_sigma_of_table_4_to_the_printed_digit(name: str, prime: float) -> None:
    found = REGRESSION.paper_sigma(REGRESSION.paper_budget(name, prime))
    assert round(found, 3) == published("4")[str(prime)][name][0]


@pytest.mark.parametrize("name", CONSISTENT)
def test_delta_prime_as_printed_and_evaluated_consistently(name: str) -> None:
    for prime, expected in zip(PRIMES, CONSISTENT[name], strict=True):
        mixed, consistent = delta_primes(name, prime)
        assert round(mixed, 3) == published("4")[str(prime)][name][1]
        assert consistent == pytest.approx(expected, rel=2e-3)


def test_verdicts_on_delta_prime() -> None:
    cells = delta_table().cells
    printed = [cell for cell in cells if cell.column == "delta' as printed"]
    consistent = [cell for cell in cells if cell.column != "delta' as printed"]
    assert [cell.verdict for cell in printed] == ["matches"] * 10
    assert [cell.verdict for cell in consistent] == ["differs, explained"] * 10


def test_the_noise_of_the_paper_costs_more_than_it_claims() -> None:
    setting = replace(REGRESSION, primes=(0.01,))
    found = certify(setting, [("WOR", 0.01), ("MUSTow", 0.01)], workers=1, progress=quiet)
    assert [each.row for each in found] == ["WOR", "MUSTow"]
    whole = [each.whole[0][1] for each in found]
    for each, epsilon in zip(found, whole, strict=True):
        assert each.claimed == pytest.approx(2.0)
        assert each.part is not None
        assert each.part.lower > 0.01  # attained by one step, at a larger delta
        assert each.claimed < epsilon.lower <= epsilon.upper
    # The smaller sigma of MUSTow is worth less, not more.
    assert whole[1].lower > whole[0].upper
    table = guarantee_table("x", "x", found)
    assert {cell.verdict for cell in table.cells} == {"new"}
    assert [cell.bound for cell in table.cells[:6]] == [
        "plain", "plain", "lower", "plain", "lower", "upper",
    ]  # fmt: skip
    line = guarantees.PaperComparison(setting, found, ()).claims()[0]
    assert "n/m = 10 times" in line
    shown = re.search(r"between (\S+) \(attained\) and (\S+) \(certified\)", line)
    assert shown is not None
    assert "MUSTow" in line
    # Neither number may promise more than is known.
    assert float(shown[1]) <= whole[1].lower
    assert float(shown[2]) >= whole[1].upper


def test_noise_at_equal_guarantee_is_ordered_and_certified() -> None:
    target = Target(2.0, 1e-3, 5)
    settled = calibrate_all((100, 15, 10), [target], NAMES, workers=1, progress=quiet)
    assert [each.name for each in settled] == list(NAMES)
    noise = [each.budget.noise_multiplier for each in settled]
    assert noise == sorted(noise)
    assert noise[0] < noise[1] < noise[3]
    for each in settled:
        assert each.budget.relation == "replace_one"
        assert 0.99 * 2.0 < each.epsilon.upper <= 2.0
        assert each.budget.spent().epsilon.upper == pytest.approx(each.epsilon.upper, rel=2e-3)
    distinct = [each.budget.scheme.expected_distinct for each in settled]
    assert distinct[3] < distinct[2] < distinct[1] == pytest.approx(10)
    measured = {(name, target): [RunMeasure("error", 1.0 + k, 0.1)] for k, name in enumerate(NAMES)}
    compared = guarantees.PaperComparison(REGRESSION, (), settled)
    table = compared.equal(measured, [("none", [RunMeasure("error", 0.5)])], "a note")
    assert table.kind == "equal"
    assert len(table.cells) == 5 * 4 + 1
    assert [cell.bound for cell in table.cells[:4]] == ["upper", "upper", "plain", "plain"]
    shown = dict(re.findall(r"(\w+) (\d+\.\d+)", noise_reading(settled)[0]))
    for name, needed in zip(NAMES, noise, strict=True):
        # Rounded up: less than this would not meet the target.
        assert needed <= float(shown[name]) < 1.01 * needed
    worse = utility_reading(settled, measured, "error", larger_is_better=False)[0]
    assert worse.endswith("worse: WOR by 1.000, WR by 2.000, MUSTow by 3.000, MUSTww by 4.000.")
    assert "Poisson is best;" in worse
    better = utility_reading(settled, measured, "error", larger_is_better=True)[0]
    assert "MUSTww is best;" in better
    wide = {key: [RunMeasure("error", part[0].value, 0.3)] for key, part in measured.items()}
    assert (
        "Poisson is best, with WOR within three standard errors; worse: WR"
        in (utility_reading(settled, wide, "error", larger_is_better=False)[0])
    )
    unclear = {key: [RunMeasure("error", part[0].value, 9.0)] for key, part in measured.items()}
    assert utility_reading(settled, unclear, "error", larger_is_better=False)[0].endswith(
        "No scheme is ahead of another by more than three standard errors."
    )


def test_losses_from_moments_are_losses_of_all_records() -> None:
    X, y = data_sets(2, 5)
    path = np.random.default_rng(0).normal(size=(2, 3, 3))
    direct = np.array(
        [[np.mean((X[r] @ w[:2] + w[2] - y[r]) ** 2) for w in path[r]] for r in range(2)]
    )
    assert mean_losses(X, y, path) == pytest.approx(direct, rel=1e-12)


def test_errors_of_root_mean_squares() -> None:
    """For normal deviations the relative error is 1/sqrt(2 R)."""
    values = np.random.default_rng(1).normal(size=(20_000, 2)) * [1.0, 5.0]
    assert root_mean(values**2)[1] == pytest.approx(
        np.array([1.0, 5.0]) / math.sqrt(40_000), rel=0.05
    )


def test_runs_without_noise_are_least_squares_up_to_batches() -> None:
    """Weights follow the truth; 60 data sets, tolerance of four standard errors (level 6e-5)."""
    found = run_job(non_private(range(2, 62)))
    assert found.losses[0] > 4 > 2 > found.losses[-1]
    off = deviations(found)
    assert (np.abs(off.mean(axis=0)) < 4 * off.std(axis=0) / math.sqrt(60)).all()
    wrong = found.values[:, 1:] - np.array(TRUTH) * 1.1
    assert (np.abs(wrong.mean(axis=0))[:1] > 4 * wrong.std(axis=0)[:1] / math.sqrt(60)).all()


def test_a_mixed_up_column_is_only_a_reason_if_it_fits() -> None:
    """MUSTow's printed error is explained by MUSTwo's where that is what was printed."""
    rng = np.random.default_rng(3)

    def made(mean: float, deviation: float) -> Runs:
        residual = mean + deviation * rng.standard_normal(1000)
        return Runs(np.column_stack([residual, np.tile(TRUTH, (1000, 1))]), np.zeros(1))

    def table_with(other: float) -> str:
        rows: dict[Key, Runs] = {
            (name, prime): made(1.0, 0.023) for name in NAMES for prime in PRIMES
        }
        rows |= {("MUSTwo", prime): made(other, 0.031) for prime in PRIMES}
        rows["MUSTow", 0.001] = made(1.0216, 0.027)
        rows["non-private Poisson",] = made(1.0, 0.023)
        cells = {(cell.row, cell.column): cell for cell in table_4(rows).cells}
        return cells[row_of("MUSTow", 0.001), "RMSE mean"].verdict

    assert table_with(1.0317) == "differs, explained"
    assert table_with(1.05) == "differs"


def test_times_are_judged_as_ratios() -> None:
    times = {"Poisson": np.array([2.0, 2.02]), "WOR": np.array([2.0, 2.02]),
             "MUSTow": np.array([3.0, 3.0])}  # fmt: skip
    printed = {"Poisson": 10.0, "WOR": 10.1, "WR": 10.0, "MUSTow": 7.5, "MUSTww": 7.5}
    cells = time_table("x", "x", printed, times, "another machine").cells
    assert [cell.row for cell in cells] == ["WOR", "MUSTow"]
    assert [cell.verdict for cell in cells] == ["matches", "differs, explained"]


def test_jobs_over_processes_keep_their_order() -> None:
    said: list[tuple[object, ...]] = []

    def note(*call: object) -> None:
        said.append(call)

    jobs = [9.0, 4.0, 1.0, 0.0]
    assert run_jobs(math.sqrt, jobs, workers=2, progress=note, what="roots") == [3, 2, 1, 0]
    assert run_jobs(math.sqrt, jobs, workers=1, progress=quiet, what="roots") == [3, 2, 1, 0]
    assert said[-1] == ("roots", 4, 4)


def test_the_last_job_can_go_first_without_changing_the_order() -> None:
    begun: list[float] = []

    def root(value: float) -> float:
        begun.append(value)
        return math.sqrt(value)

    given = {"workers": 2, "progress": quiet, "what": "roots"}
    assert run_jobs(root, [9.0, 4.0, 1.0], last_first=True, **given) == [3, 2, 1]  # type: ignore[arg-type]
    assert begun == [1.0, 4.0, 9.0]


def test_a_job_taken_apart_is_put_together_by_its_key() -> None:
    """Every seed runs once, in order, and only the first run keeps its curve."""
    budget = REGRESSION.paper_budget("WOR", 0.01)
    whole, other = (
        SimulationJob(("a", 1), budget, range(5, 8)),
        SimulationJob(("a", 2), budget, range(5, 6)),
    )
    parts = whole.one_by_one()
    assert [(list(part.seeds), part.curve) for part in parts] == [
        ([5], True), ([6], False), ([7], False),
    ]  # fmt: skip

    def made(job: SimulationJob) -> Runs:
        seeds = np.array(job.seeds, dtype=np.float64)
        return Runs(seeds[:, None], seeds / 10, (1.0,) if job.curve else ())

    found = simulate(made, [*parts, other], Settings(True, 1, None, workers=1), quiet)
    assert found["a", 1].first.tolist() == [5.0, 6.0, 7.0]
    assert found["a", 1].seconds.tolist() == [0.5, 0.6, 0.7]
    assert found["a", 1].losses == (1.0,)
    assert found["a", 2].first.tolist() == [5.0]


@pytest.mark.slow  # ./test runs every item quickly as well
def test_the_whole_item_in_miniature(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(regression, "_QUICK_SETS", 40)
    monkeypatch.setattr(
        guarantees, "certify", lambda setting, runs, *_: certify(setting, runs[:2], 1, quiet)
    )
    monkeypatch.setattr(guarantees, "names_at", lambda _: ("Poisson", "MUSTow"))
    outcome = regression.run(Settings(True, 4, None, workers=1), quiet)
    kinds = [table.kind for table in outcome.tables]
    assert kinds == ["paper", "paper", "paper", "guarantee", "equal"]
    # Of some hundred cells with a chance of 0.3 % each, two may differ by chance (level 0.4 %).
    assert sum(table.count("differs") for table in outcome.tables) <= 2
    sigma = [cell for cell in outcome.tables[0].cells if cell.column == "sigma"]
    assert [cell.verdict for cell in sigma] == ["matches"] * 10
    figure = outcome.pictures[0].figure()
    assert len(figure.axes) == 2
    assert len(figure.axes[0].lines) == 6
    assert np.size(figure.axes[0].lines[0].get_xdata()) == REGRESSION.steps
    assert any("MUSTow" in line for line in outcome.reading)


def test_a_job_draws_from_the_scheme_it_names() -> None:
    """The authors' MUSTww draws as MUSTow: other batches, the same noise."""
    budget = REGRESSION.paper_budget("MUSTww", 0.001)
    as_stated = run_job(SimulationJob(("a",), budget, range(1, 4)))
    as_run = run_job(
        SimulationJob(("b",), replace(budget, scheme=REGRESSION.scheme("MUSTow")), range(1, 4))
    )
    assert not np.allclose(deviations(as_stated), deviations(as_run))
    assert np.abs(deviations(as_stated) - deviations(as_run)).max() < 0.5
