"""The numbers of a report are those of the package, and every band is one."""

from __future__ import annotations

import dataclasses
import math
from itertools import pairwise

import numpy as np
import pytest

import mustdp as md
from mustdp import NumericalFailure
from mustdp.calibration.compare import distinct_laws
from mustdp.reporting import findings as module
from mustdp.reporting.findings import ReportQuestion, count_parts, gather, grid_of
from tests.reporting.report.questions import SAME_GUARANTEE, SAME_NOISE, compared, found


def nothing_certified(
    m: int, noise_multiplier: float, question: ReportQuestion
) -> tuple[float, ...]:
    return (math.nan,) * len(grid_of(question.n, question.b, question.m)[0])


BOTH = pytest.mark.parametrize(
    "question", [SAME_GUARANTEE, SAME_NOISE], ids=["same guarantee", "same noise"]
)


@BOTH
def test_the_comparison_is_that_of_the_package(question: ReportQuestion) -> None:
    assert found(question).comparison == compared(question)


@BOTH
def test_lower_is_never_above_upper(question: ReportQuestion) -> None:
    report = found(question)
    for curve in report.profiles.values():
        assert np.all(curve.lower <= curve.upper)
        assert np.all(np.diff(curve.upper) <= 1e-12)
    for bands in report.by_steps.values():
        bounds = [bands[count] for count in sorted(bands)]
        assert all(one.lower <= one.upper for one in bounds)
        assert all(one.upper <= more.upper * 1.002 for one, more in pairwise(bounds))


@BOTH
def test_the_point_asked_about_is_in_the_pictures(question: ReportQuestion) -> None:
    report = found(question)
    for name, bands in report.by_steps.items():
        assert bands[question.steps] == report.rows[name].epsilon
    around = report.sensitivity
    assert around is not None
    # The grid is certified coarsely, which can only make it larger.
    certified = report.rows["must-ow"].epsilon.upper
    assert certified * 0.999 <= around.at(question.b, question.m) <= certified * 1.03
    assert around.holes == 0


def test_schemes_with_the_law_of_another_are_drawn_once() -> None:
    assert list(found(SAME_GUARANTEE).profiles) == ["poisson", "wor", "wr", "must-ow", "must-ww"]
    assert list(found(SAME_NOISE).profiles) == ["wr", "must-ow", "must-ww"]


def test_the_same_work_at_the_same_guarantee() -> None:
    report = found(SAME_GUARANTEE)
    same = report.same_work
    assert same is not None
    assert same.m == round(report.rows["must-ow"].expected_distinct) == 3
    step = md.subsample(md.wor(30, 3), md.gaussian(noise_multiplier=same.noise_multiplier))
    assert md.account(md.repeat(3, step)).epsilon(1e-3).upper <= 1.5 * 1.001
    assert same.epsilon.upper <= 1.5


def test_at_one_noise() -> None:
    report = found(SAME_GUARANTEE)
    noise = md.gaussian(noise_multiplier=report.rows["wor"].noise_multiplier)
    plan = md.repeat(3, md.subsample(md.must_ow(30, 10, 4), noise))
    expected = md.account(plan, composition="pair").epsilon(1e-3)
    assert report.at_one_noise == {"wor": report.rows["wor"].epsilon, "must-ow": expected}


@BOTH
def test_draws_were_timed(question: ReportQuestion) -> None:
    times = found(question).draw_seconds
    assert list(times) == [row.scheme.name for row in found(question).comparison]
    assert all(0 < seconds < 1 for seconds in times.values())


@BOTH
def test_the_number_of_parts_is_known_in_advance(
    question: ReportQuestion, monkeypatch: pytest.MonkeyPatch
) -> None:
    report = found(question)
    begun: list[tuple[object, ...]] = []

    def note(*call: object) -> None:
        begun.append(call)

    def compare(progress: md.types.Progress) -> md.types.Comparison:
        for scheme in distinct_laws([row.scheme for row in report.comparison]):
            progress(scheme.name)
        return report.comparison

    monkeypatch.setattr(module, "compare", lambda **asked: compare(asked["progress"]))
    monkeypatch.setattr(module, "epsilons_at", nothing_certified)
    monkeypatch.setattr(module, "_by_steps", lambda *_: {1: report.reference.epsilon})
    again = gather(question, note)
    total = count_parts(question)
    assert [call[1:] for call in begun] == [(done, total) for done in range(total)]
    assert again.comparison == report.comparison
    assert again.sensitivity is None


def test_grids_stay_within_what_exists() -> None:
    for n, b, m in ((100, 100, 7), (100, 1, 1), (3, 2, 50), (10**9, 10**6, 10**6)):
        grid = grid_of(n, b, m)
        for sizes, chosen, largest in ((grid[0], b, n), (grid[1], m, 10**9)):
            assert list(sizes) == sorted(set(sizes))
            assert chosen in sizes
            assert sizes[0] >= 1
            assert sizes[-1] <= largest
    assert grid_of(1, 1, 50) == ((), ())


def test_an_epsilon_without_limit_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    report = found(SAME_NOISE)
    rows = [
        dataclasses.replace(row, epsilon=dataclasses.replace(row.epsilon, upper=math.inf))
        for row in report.comparison
    ]
    endless = dataclasses.replace(report.comparison, rows=tuple(rows))
    monkeypatch.setattr(module, "compare", lambda **_: endless)
    with pytest.raises(NumericalFailure, match="epsilon of wr has no finite upper bound"):
        gather(SAME_NOISE)
