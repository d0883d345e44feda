"""The page of a report: complete, offline, small, and with the numbers of the package."""

from __future__ import annotations

import dataclasses
import math
import re
import shlex
from html import unescape

import pytest

import mustdp as md
from mustdp.execution import processes
from mustdp.numerics.formatting import chance_drawn, percent, readable
from mustdp.reporting.findings import ReportQuestion, Sensitivity, gather
from mustdp.reporting.plots.drawing import DARK, figure_of, new_axes, render
from mustdp.reporting.report import draw, headline, pictures, report_page
from tests.reporting.report.questions import SAME_GUARANTEE, SAME_NOISE, compared, found, page

BOTH = pytest.mark.parametrize(
    "question", [SAME_GUARANTEE, SAME_NOISE], ids=["same guarantee", "same noise"]
)


def tables(text: str) -> list[list[list[str]]]:
    """All tables of a page as rows of cells, without their headings."""
    return [
        [
            [unescape(cell) for cell in re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row)]
            for row in re.findall(r"<tr>(.*?)</tr>", body)
        ]
        for body in re.findall(r"<tbody>(.*?)</tbody>", text)
    ]


@BOTH
def test_the_numbers_are_those_of_compare(question: ReportQuestion) -> None:
    first, _, second = tables(page(question))
    for row, cells, work in zip(compared(question), first, second, strict=True):
        epsilons = [readable(row.epsilon.lower, "down"), readable(row.epsilon.upper, "up")]
        at = cells.index(epsilons[0])
        assert cells[at : at + 2] == epsilons
        given = f"{row.noise_multiplier:g}"
        up = readable(row.noise_multiplier, "up", 4)
        assert cells[1] in (given, up)
        assert float(cells[1]) >= row.noise_multiplier
        assert work[0] == cells[0]
        assert work[1] == chance_drawn(row.eta)
        assert float(work[2].replace(",", "")) == pytest.approx(row.expected_distinct, rel=5e-3)


@BOTH
def test_no_number_of_the_page_is_below_what_was_computed(question: ReportQuestion) -> None:
    report, base = found(question), found(question).cost(found(question).reference)
    telling = set()
    for row, cells in zip(report.comparison, tables(page(question))[0], strict=True):
        ratio, mean = report.cost(row) / base, row.noise_multiplier / question.m
        shown = {"ratio": cells[-1 if report.same_noise else 2], "mean": cells[-4 + (
            not report.same_noise
        )]}  # fmt: skip
        for name, value in (("ratio", ratio), ("mean", mean)):
            assert value <= float(shown[name]) <= 1.011 * value, name
            telling |= {name} if float(shown[name]) - value > 0.5e-3 * value else set()
    given = dataclasses.replace(report, question=dataclasses.replace(question, delta=1.2345649e-6))
    assert "at delta 1.2345649e-6" in headline(given)
    assert telling or report.same_noise


@BOTH
def test_pictures_are_what_would_be_drawn_in_the_dark(question: ReportQuestion) -> None:
    report = found(question)
    for name, both in pictures(report).items():
        ax = draw(report, name, new_axes(DARK, 4.6, 3.6))
        assert both["dark"] == render(figure_of(ax), f"{name}-dark")
        assert both["dark"] != both["light"]


@BOTH
def test_what_an_attacker_achieves_is_on_the_page(question: ReportQuestion) -> None:
    text, report = unescape(page(question)), found(question)
    for row, (name, risk) in zip(tables(page(question))[1], report.risks.items(), strict=True):
        plan = md.repeat(
            question.steps,
            md.subsample(
                report.rows[name].scheme,
                md.gaussian(noise_multiplier=report.rows[name].noise_multiplier),
            ),
        )
        again = md.account(plan, relation=question.relation).risk()
        assert again == risk
        assert row[2] == readable(risk.advantage.upper, "up")
        assert row[3:6] == [percent(one.upper, "up") for one in risk.tpr]
    for sentence in report.risks["must-ow"].sentences():
        assert sentence in text


@BOTH
def test_epsilon_and_delta_are_explained(question: ReportQuestion) -> None:
    text = page(question)
    assert "<strong>Epsilon</strong>" in text
    assert "<strong>Delta</strong>" in text
    epsilon = question.epsilon or found(question).reference.epsilon.upper
    assert f"by at most {readable(math.exp(epsilon), 'up')}" in text


@BOTH
def test_nothing_is_loaded_and_the_page_is_small(question: ReportQuestion) -> None:
    text = page(question)
    assert len(text.encode()) < 3_000_000
    assert not re.search(r"https?://|<script|<link|@import|\bsrc=\"(?!data:)", text)
    assert text.count("<svg") + text.count("<img") == 10  # five pictures, light and dark


def test_the_commands_make_the_same_plan() -> None:
    text = page(SAME_GUARANTEE)
    (code,) = re.findall(r"<pre[^>]*><code>(.*?)</code></pre>", text, re.DOTALL)
    report, compare, account = (shlex.split(line) for line in unescape(code).splitlines())
    assert report[:2] == ["mustdp", "report"]
    assert report[-1] == "somewhere/my report.html"
    assert compare[:2] == ["mustdp", "compare"]
    noise = account[account.index("--noise-multiplier") + 1]
    assert float(noise) == found(SAME_GUARANTEE).rows["must-ow"].noise_multiplier
    for line in (report, compare):
        assert line[line.index("--epsilon") + 1] == "1.5"
        assert line[line.index("--delta") + 1] == "0.001"


def test_versions_are_named() -> None:
    for name in ("mustdp", "Python", "numpy", "scipy", "matplotlib"):
        assert re.search(rf"{name} \d+\.\d+", page(SAME_GUARANTEE)), name


def test_measured_times_are_said_to_be_measured() -> None:
    text = page(SAME_GUARANTEE)
    assert "draw, measured" in text
    assert "measured on the computer that made this page" in text


def test_schemes_that_do_not_exist_are_named() -> None:
    assert "Left out: Poisson, WOR, MUSTwo, MUSToo" in page(SAME_NOISE)
    assert "Left out" not in page(SAME_GUARANTEE)


def test_the_best_is_marked_good_and_what_is_worse_bad() -> None:
    text = page(SAME_GUARANTEE)
    rows = re.findall(r"<tr><th[^>]*>([^<]*)</th>(.*?)</tr>", text)[:7]
    tones = {name: re.findall(r'class="(good|bad)"', cells) for name, cells in rows}
    assert tones["Poisson"] == ["good"]
    assert tones["MUSTow"] == tones["MUSTww"] == ["bad"]
    assert tones["WOR"] == []


def test_holes_in_the_contours_are_admitted() -> None:
    report = found(SAME_GUARANTEE)
    around = report.sensitivity
    assert around is not None
    nothing = (float("nan"), *around.epsilon[0][1:])
    holes = Sensitivity(around.b, around.m, (nothing, *around.epsilon[1:]), 1.0)
    partly = report_page(dataclasses.replace(report, sensitivity=holes)).html()
    none = report_page(dataclasses.replace(report, sensitivity=None)).html()
    assert "nothing could be certified there" in partly
    assert "nothing could be certified" not in page(SAME_GUARANTEE)
    assert "b and m cannot be varied" in none
    assert none.count("<svg") == 8


def test_two_processes_make_the_same_page(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "processors", lambda: 2)
    with processes.WorkerPool() as several:
        report = gather(SAME_NOISE, None, several.map_parallel)
        timed = dataclasses.replace(report, draw_seconds=found(SAME_NOISE).draw_seconds)
        made = report_page(timed, "somewhere/my report.html", several.map_parallel).html()
        assert len(several._workers) == 2
    assert made == page(SAME_NOISE)
