"""Tables 2 and 3: sigma to the printed digit, averages within their errors, guarantees that hold.

Every acceptance has a wrong value close by that is rejected. Monte Carlo comparisons are made at
three standard errors with a fixed seed.
"""

from __future__ import annotations

import copy
import itertools
import math
import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import mustdp as md
from mustdp.estimation.bootstrap import design_with_noise
from mustdp.reproduction import bootstrap
from mustdp.reproduction.bootstrap import ROWS, Released, Row
from mustdp.reproduction.cells import NON_PRIVATE, PaperCell, PaperTable, Settings, judge, published
from mustdp.reproduction.guarantees import Guarantee, guarantee_table, known_lower
from mustdp.reproduction.report import ITEMS
from mustdp.reproduction.runner import StoredResult, as_text, from_text

HERE = Settings(quick=True, seed=5, data=None, workers=1)
SOME = (Row(NON_PRIVATE), Row("Poisson"), Row("WOR"), Row("WR"), Row("MUSTow", 10))


def quiet(*_: object) -> None:
    return None


def settled(row: Row, replicates: int = 1) -> md.types.PrivacySpent:
    """What the bootstrap settles for the paper's setting."""
    design = md.types.Design(row.scheme(), replicates)
    z = bootstrap.paper_statement(design, bootstrap.EPSILON_PRIME, 2).multiplier(
        design.scheme, bootstrap.PAPER_DELTA
    )
    found = design_with_noise(
        design, noise_multiplier=z, delta=bootstrap.PAPER_DELTA, relation="replace_one"
    )
    if design.poisson:
        return bootstrap.without_guarantee(replace(found, known=md.Bounds(0.0, 0.0)).spent())
    return found.spent()


def fake(
    row: Row, privacy: md.types.PrivacySpent, values: Any = ((0.0, 1.0), (0.1, 0.9))
) -> Released:
    found = np.array(values)
    return Released(
        row, md.types.Design(row.scheme(), 2), privacy, found,
        np.stack([found - 1.0, found + 1.0], axis=-1), 0.0, 1e-5, 1.0,
    )  # fmt: skip


def by_place(table: PaperTable) -> dict[tuple[str, str], PaperCell]:
    return {(cell.row, cell.column): cell for cell in table.cells}


def publish(monkeypatch: pytest.MonkeyPatch, change: Callable[[dict[str, Any]], object]) -> None:
    """Let the item read a paper in which something else is printed."""

    def changed(part: str) -> dict[str, Any]:
        paper = copy.deepcopy(published(part))
        change(paper)
        return paper

    monkeypatch.setattr(bootstrap, "published", changed)


@pytest.fixture
def unwarned() -> Iterator[None]:
    """The tests' own seeded calls: simulated data, nothing secret."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", md.types.SeededRelease)
        warnings.simplefilter("ignore", md.types.InferenceNote)
        yield


# Table 2


@pytest.fixture(scope="module")
def noise() -> dict[Row, Released]:
    return {row: fake(row, settled(row)) for row in ROWS}


def test_sigma_matches_to_the_printed_digit(noise: dict[Row, Released]) -> None:
    table = bootstrap.table_2(noise)
    assert len(table.cells) == 26
    assert {cell.verdict for cell in table.cells} == {"matches"}


def test_sigma_is_the_classical_formula_with_the_sensitivity_of_n_records(
    noise: dict[Row, Released],
) -> None:
    for row in ROWS:
        base = float(md.reproduction.base_epsilon(0.1, row.scheme().eta)[0])
        expected = [md.reproduction.classical_sigma(base, 1 / 300, 8.0**k / 300, beyond_proof=True)
                    for k in (1, 2)]  # fmt: skip
        assert bootstrap.paper_sigmas(noise[row].privacy) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("factor", [0.95, 1.05])
def test_a_sigma_close_by_is_rejected(noise: dict[Row, Released], factor: float) -> None:
    off = {
        label: replace(
            each,
            privacy=replace(
                each.privacy, noise_multiplier=factor * each.privacy.noise_multiplier
            ),
        )
        for label, each in noise.items()
    }  # fmt: skip
    cells = [c for c in bootstrap.table_2(off).cells if c.column == "sigma of the variance"]
    assert {cell.verdict for cell in cells} == {"differs"}


def test_the_noise_that_is_added_has_that_sigma(unwarned: None) -> None:
    # On constant records a replicate is its noise: the sample deviation of 20,000 has a relative
    # standard error of 0.5 %.
    row, count = Row("WOR"), 20_000
    result = md.private_bootstrap(
        np.zeros(300), ["mean", md.types.Variance(form="pairs")], lower=-4, upper=4,
        design=row.scheme(), replicates=count, noise_multiplier=settled(row).noise_multiplier,
        relation="replace_one", delta=1 / 300, correct_bias=False, seed=1,
    )  # fmt: skip
    for k, sigma in enumerate(bootstrap.paper_sigmas(settled(row))):
        seen, error = float(result.replicates[:, k].std()), sigma / math.sqrt(2 * count)
        assert judge("", "", sigma, seen, half_unit=0.0, error=error).verdict == "matches"
        assert judge("", "", 1.03 * sigma, seen, half_unit=0.0, error=error).verdict == "differs"


def test_delta_prime_matches_but_for_three_rows_that_are_explained() -> None:
    cells = bootstrap.delta_table().cells
    off = {cell.row: cell for cell in cells if cell.verdict != "matches"}
    assert {cell.verdict for cell in off.values()} == {"differs, explained"}
    assert set(off) == {"Poisson", "WOR", "WR"}
    assert off["WOR"].ours == pytest.approx(2.18e-6, rel=1e-3)
    assert "eta times delta, 3.33e-04" in off["WOR"].reason
    assert off["WR"].ours == pytest.approx(5.73e-5, rel=1e-3)
    assert "printed is 10 times" in off["WR"].reason


def test_delta_prime_is_explained_by_computing_and_not_by_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def change(paper: dict[str, Any]) -> None:
        printed = paper.get("delta_prime_1e-4", {})
        printed.update({"WOR": 4.0, "WR": 5.9})

    publish(monkeypatch, change)
    found = {cell.row: cell.verdict for cell in bootstrap.delta_table().cells}
    assert (found["WOR"], found["WR"]) == ("differs", "differs")
    assert found["Poisson"] == "differs, explained"


# Table 3


@pytest.fixture(scope="module")
def simulated() -> dict[Row, Released]:
    return bootstrap.simulate_rows(SOME, 32, HERE, quiet)


def test_table_3_is_within_its_errors(simulated: dict[Row, Released]) -> None:
    cells = bootstrap.table_3(simulated, beyond=3).cells
    paper = [cell for cell in cells if cell.paper is not None]
    assert len(paper) == 4 * len(SOME)
    assert {cell.verdict for cell in paper} == {"matches"}
    new = [cell for cell in cells if cell.paper is None]
    assert {cell.row for cell in new} == {"WR", "MUSTow, b = 10"}


def test_table_3_rejects_other_averages(
    simulated: dict[Row, Released], monkeypatch: pytest.MonkeyPatch
) -> None:
    def change(paper: dict[str, Any]) -> None:
        for name, off in (("mean_sd_mu", (0.06, 0.04)), ("mean_sd_tau2", (0.12, 0.08))):
            printed = paper[name]
            printed["WOR"] = [value + by for value, by in zip(printed["WOR"], off, strict=True)]

    publish(monkeypatch, change)
    cells = bootstrap.table_3(simulated, beyond=3).cells
    assert {cell.verdict for cell in cells if cell.row == "WOR"} == {"differs"}
    assert {cell.verdict for cell in cells if cell.row == "Poisson"} == {"matches"}


def test_the_bias_is_the_chance_of_repeated_pairs(
    simulated: dict[Row, Released], monkeypatch: pytest.MonkeyPatch
) -> None:
    found = by_place(bootstrap.bias_table(simulated))
    assert {cell.verdict for cell in found.values()} == {"matches"}
    expected = found["MUSTow, b = 10", "expected: chance of different records"]
    assert expected.ours == pytest.approx(0.9)
    ratio = found["MUSTow, b = 10", "variance over WOR's"]
    assert ratio.ours is not None
    assert ratio.error is not None
    assert abs(ratio.ours - 0.9) < 3 * ratio.error < 0.05

    def change(paper: dict[str, Any]) -> None:
        paper["mean_sd_tau2"]["MUSTow"][0] = [0.93, 0.082]

    publish(monkeypatch, change)
    again = by_place(bootstrap.bias_table(simulated))
    assert again["MUSTow, b = 10", expected.column].verdict == "differs"


def test_the_correction_is_that_of_the_bootstrap(
    simulated: dict[Row, Released], unwarned: None
) -> None:
    for k, row in enumerate(SOME):
        job = replace(bootstrap.paper_release(row, 60, HERE.seed, k), correct_bias=True)
        found = [estimate.value for estimate in job.on(7).estimates]
        assert simulated[row].corrected[7] == pytest.approx(found, rel=1e-12)
    biased = simulated[Row("MUSTow", 10)]
    assert np.all(biased.corrected[:, 1] > 1.1 * biased.values[:, 1])


def test_the_noise_of_the_non_private_row_is_out_of_sight(simulated: dict[Row, Released]) -> None:
    mean, variance = bootstrap.paper_sigmas(simulated[Row(NON_PRIVATE)].privacy)
    assert max(mean / 0.058, variance / 0.084) / math.sqrt(bootstrap.T) < 0.005


def test_data_sets_begin_alike() -> None:
    few, more = bootstrap.data_sets(300, 3, 5), bootstrap.data_sets(300, 8, 5)
    assert np.array_equal(few, more[:3])
    assert not np.array_equal(few, bootstrap.data_sets(300, 3, 6))


# What the noise really gives


@pytest.fixture(scope="module")
def really(simulated: dict[Row, Released]) -> dict[str, Guarantee]:
    private = [simulated[row] for row in SOME[1:]]
    found = bootstrap.certify_runs(private, (1e-5,), 1, quiet)
    return {each.row: each for each in found}


def test_the_papers_noise_costs_far_more_than_is_claimed(
    really: dict[str, Guarantee],
) -> None:
    for row, low, high in (("WOR", 172, 200), ("WR", 238, 267)):
        each = really[row]
        assert each.claimed == pytest.approx(100.0)
        assert each.part is not None
        assert each.part.lower > 30 * bootstrap.EPSILON_PRIME
        (delta, paper), (small, more) = each.whole
        assert (delta, small) == (bootstrap.PAPER_DELTA, 1e-5)
        assert each.claimed < low < paper.lower < paper.upper < high
        assert paper.lower < more.lower
        assert paper.upper < more.upper


def test_where_nothing_is_certified_the_table_says_so(
    really: dict[str, Guarantee],
) -> None:
    cells = bootstrap.bootstrap_guarantee(list(really.values())).cells
    for delta in ("0.0033", "1e-05"):
        place = {cell.row: cell for cell in cells
                 if cell.column == f"epsilon certified at delta {delta}"}  # fmt: skip
        assert place["MUSTow, b = 10"].ours is None
        assert place["MUSTow, b = 10"].reason == "no finite epsilon could be certified"
        assert place["Poisson"].ours is None
        assert "no guarantee" in place["Poisson"].reason
        assert place["WOR"].ours is not None
        assert place["WR"].ours is not None
        attained = {cell.row: cell.ours for cell in cells
                    if cell.column == f"epsilon attained at delta {delta}"}  # fmt: skip
        # One subset alone; with b = 10 a record is often drawn several times.
        assert (attained["MUSTow, b = 10"] or 0.0) > 400


def test_a_single_release_attains_no_more_than_all(
    really: dict[str, Guarantee],
) -> None:
    for row in ("WOR", "WR"):
        each = really[row]
        assert each.part is not None
        assert each.one_subset is not None
        assert each.part.upper < each.one_subset.lower
        assert each.one_subset.upper < each.whole[0][1].lower


def test_what_is_attained_at_a_larger_delta_is_attained_at_a_smaller_one() -> None:
    endless = md.Bounds(0.0, math.inf)
    each = Guarantee(
        "a row", 0.5, 0.1, 1000, bootstrap.PAPER_DELTA,
        md.Bounds(30.0, 31.0), md.Bounds(70.0, 71.0),
        ((bootstrap.PAPER_DELTA, md.Bounds(1280.0, 1320.0)), (1e-5, endless)),
    )  # fmt: skip
    found = by_place(guarantee_table("x", "x", [each]))
    cell = found["a row", "epsilon attained at delta 1e-05"]
    assert (cell.ours, cell.reason) == (1280.0, "attained at delta 0.0033 already")
    assert found["a row", "epsilon certified at delta 1e-05"].ours is None
    # Never the other way round: an epsilon of a smaller delta says nothing of a larger one.
    turned = replace(
        each, whole=((bootstrap.PAPER_DELTA, endless), (1e-5, md.Bounds(1280.0, 1320.0)))
    )
    assert known_lower(turned, bootstrap.PAPER_DELTA)[0] == 70.0
    # Nor does one subset at the paper's delta say anything of a delta that is larger still.
    assert known_lower(replace(each, whole=((0.1, endless),)), 0.1)[0] == 0.0


# At the same guarantee


@pytest.fixture(scope="module")
def compared() -> bootstrap.Compared:
    return bootstrap.compare_all(HERE, 8, quiet)


def test_each_scheme_is_certified_within_the_target(
    compared: bootstrap.Compared,
) -> None:
    assert {epsilon for _, epsilon, _ in compared} == {4.0}
    for each in compared.values():
        privacy = each.privacy
        assert privacy.relation == "replace_one"
        assert privacy.delta == 1e-5
        assert privacy.plan is not None
        again = md.account(privacy.plan, relation="replace_one").epsilon(1e-5)
        assert 3.9 < again.upper <= 4.0
        less = each.design.plan(md.gaussian(noise_multiplier=0.98 * privacy.noise_multiplier))
        assert md.account(less, relation="replace_one").epsilon(1e-5).upper > 4.0


def test_more_copies_need_more_noise(compared: bootstrap.Compared) -> None:
    noise = {
        (sizes.n, row.label): each.privacy.noise_multiplier
        for (sizes, _, row), each in compared.items()
    }
    small = ["Poisson", "WOR", "WR", "MUSTow, b = 100", "MUSTow, b = 50", "MUSTow, b = 10"]
    for n, labels in ((300, small), (10_000, ["Poisson", "WOR", "WR", "MUSTow, b = 400"])):
        found = [noise[n, label] for label in labels]
        assert all(less < more for less, more in itertools.pairwise(found))


def test_a_cost_beyond_the_target_is_refused() -> None:
    row = Row("WOR")
    for bounds in (md.Bounds(3.9, 4.01), md.Bounds(0.0, math.inf), md.Bounds(0.0, math.nan)):
        found = fake(
            row, md.types.PrivacySpent(bounds, 1e-5, md.types.Relation.REPLACE_ONE, 1.0, "", None)
        )
        with pytest.raises(md.NumericalFailure, match="not certified"):
            bootstrap.certified(found, 4.0)
    fine = fake(
        row,
        md.types.PrivacySpent(
            md.Bounds(3.9, 4.0), 1e-5, md.types.Relation.REPLACE_ONE, 1.0, "", None
        ),
    )
    assert bootstrap.certified(fine, 4.0) == md.Bounds(3.9, 4.0)


def test_errors_and_coverage_are_those_of_the_estimates() -> None:
    privacy = md.types.PrivacySpent(
        md.Bounds(3.9, 4.0), 1e-5, md.types.Relation.REPLACE_ONE, 1.0, "", None
    )
    found = fake(Row("WOR"), privacy, ((0.5, 1.0), (-1.5, 2.5), (0.0, 1.0), (0.0, 0.0)))
    assert found.covered.mean(axis=0).tolist() == [0.75, 0.75]
    sizes = bootstrap.PAPERS
    plain_ones = bootstrap.plain_measures(sizes, 4, HERE.seed)
    table = by_place(
        bootstrap.table_at(sizes, {(sizes, 4.0, Row("WOR")): found}, plain_ones, quick=True)
    )
    row = "WOR, epsilon 4"
    assert table[row, "RMSE of the mean"].ours == pytest.approx(math.sqrt(2.5 / 4))
    assert table[row, "coverage of the variance, %"].ours == 75.0
    assert table[row, "width for the mean"].ours == pytest.approx(2.0)
    plain = table["all records, no noise", "RMSE of the mean"]
    assert 0.0 < (plain.ours or 0.0) < 0.2


# The whole


def test_the_item_can_be_stored_and_read(
    simulated: dict[Row, Released],
    really: dict[str, Guarantee],
    compared: bootstrap.Compared,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(bootstrap, "simulate_rows", lambda *given: simulated)
    monkeypatch.setattr(bootstrap, "rows_at", lambda quick: SOME[1:])
    monkeypatch.setattr(bootstrap, "certify_runs", lambda *given: list(really.values()))
    monkeypatch.setattr(bootstrap, "compare_all", lambda *given: compared)
    outcome = bootstrap.run(HERE, quiet)
    item = next(item for item in ITEMS if item.name == "tables-2-3")

    assert (item,) == bootstrap.ITEMS
    assert from_text(as_text(item, HERE, StoredResult(outcome, 1.0)), item, HERE).outcome == outcome
    assert {table.kind for table in outcome.tables} == {"paper", "guarantee", "equal"}
    assert len({table.name for table in outcome.tables}) == len(outcome.tables)
    assert not any(table.count("differs") for table in outcome.tables)
    words = " ".join(outcome.reading)
    assert "WOR 172 to 200" in words
    assert "No finite epsilon could be certified" in words
    assert "without MUSTow, b = 20" in next(t.note for t in outcome.tables if t.name == "table-2")


@pytest.mark.parametrize(
    ("scheme", "mean", "variance"),
    [  # Table 2 of the paper, as printed
        (md.wor(300, 30), 0.13, 1.02),
        (md.poisson(300, 0.1), 0.13, 1.02),
        (md.wr(300, 30), 0.12, 0.99),
        (md.must_ow(300, 10, 30), 0.06, 0.50),
        (md.must_ow(300, 50, 30), 0.11, 0.84),
        (md.must_ww(300, 100, 30), 0.11, 0.90),
    ],
    ids=lambda value: value.name if isinstance(value, md.types.Scheme) else str(value),
)
def test_the_papers_noise(scheme: md.types.Scheme, mean: float, variance: float) -> None:
    """sigma = z * reach: half of 8/30 for the mean on [-4, 4], half of 64/30 for the variance."""
    z = bootstrap.paper_statement(md.types.Design(scheme, 500), 0.1).multiplier(scheme, 1 / 300)
    assert z * 4 / 30 == pytest.approx(mean, abs=0.00501)
    assert z * 32 / 30 == pytest.approx(variance, abs=0.00501)


@pytest.mark.parametrize("bad", [0.0, -1.0, math.nan, 101.0])
def test_an_epsilon_prime_that_is_none_is_refused(bad: float) -> None:
    scheme = md.wor(300, 30)
    with pytest.raises(md.InvalidParameter, match="epsilon_prime must"):
        bootstrap.paper_statement(md.types.Design(scheme, 5), bad).multiplier(scheme, 1 / 300)


def test_the_papers_noise_on_fixed_sizes_costs_more_than_was_promised() -> None:
    privacy = settled(Row("WOR"), 500)
    assert privacy.epsilon.lower > 100  # 500 releases at epsilon' = 0.1 were promised 0.1 each


def test_poisson_subsets_are_divided_by_their_actual_size_without_a_guarantee() -> None:
    job = bootstrap.paper_release(Row("Poisson"), 1, 3, 0)
    records = bootstrap.data_sets(300, 1, 3)[0].clip(-4, 4)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = job.on(0)
    assert result.privacy.plan is None
    assert math.isinf(result.privacy.epsilon.upper)
    assert not result.privacy.certified
    assert result.as_dict()["privacy"]["epsilon_without_seed"] is None
    assert "not a guarantee" in str(result)
    mean, variance = result.estimates
    assert abs(mean.value - records.mean()) < 5 * mean.standard_error
    assert abs(variance.value - records.var()) < 5 * variance.standard_error
