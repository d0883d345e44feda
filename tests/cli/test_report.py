"""``mustdp report``: the page, the summary, and nothing written when something is wrong."""

from __future__ import annotations

import math
import os
import shlex
from functools import cache
from pathlib import Path

import pytest

from mustdp import NumericalFailure
from mustdp.reporting import findings, report
from mustdp.reporting.findings import Findings, ReportQuestion, gather, grid_of
from mustdp.reporting.pages import Page
from tests.cli.running import Run, answer, check_refused

pytestmark = pytest.mark.usefixtures("remembered_accounts")

SIZES = "-n 30 -b 10 -m 4 --steps 1 --delta 1e-3"


def nothing_certified(
    m: int, noise_multiplier: float, question: ReportQuestion
) -> tuple[float, ...]:
    return (math.nan,) * len(grid_of(question.n, question.b, question.m)[0])


@cache
def found(question: ReportQuestion) -> Findings:
    """Findings without the grid of other sizes, which takes most of the time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(findings, "epsilons_at", nothing_certified)
        return gather(question)


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Find the numbers of the same question once."""
    monkeypatch.setattr(findings, "gather", lambda question, *_: found(question))


@pytest.mark.usefixtures("quick")
def test_rows_as_in_compare_and_the_path(run: Run, tmp_path: Path) -> None:
    out = tmp_path / "my page.html"
    given = answer(run, f"report {SIZES} --noise-multiplier 3 --out {shlex.quote(str(out))}")
    compared = answer(run, f"compare {SIZES} --noise-multiplier 3")
    assert given.pop("report") == str(out)
    assert given == compared
    assert os.listdir(tmp_path) == [out.name]
    text = out.read_text(encoding="utf-8")
    assert text.startswith("<!DOCTYPE html>")
    assert text.rstrip().endswith("</html>")


@pytest.mark.usefixtures("quick")
def test_the_summary_in_the_terminal(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    outcome = run("report", *SIZES.split(), "--noise-multiplier", "2.5", "--relation", "add-remove")
    assert (outcome.status, outcome.err) == (0, "")
    compared = run(
        "compare", *SIZES.split(), "--noise-multiplier", "2.5", "--relation", "add-remove"
    ).out
    assert outcome.out.startswith(compared)
    *_, sentence, where = outcome.out.splitlines()
    assert sentence.startswith("Poisson is certified for the smallest epsilon")
    assert where.endswith(str(tmp_path / "mustdp-report.html"))
    assert os.listdir(tmp_path) == ["mustdp-report.html"]


@pytest.mark.parametrize(
    ("line", "named"),
    [
        (f"{SIZES} --epsilon 1 --out nowhere/page.html", ("--out must", "nowhere/page.html")),
        (f"{SIZES} --epsilon 1 --out .", ("--out must", "'.'")),
        (f"{SIZES} --epsilon 1 --out ''", ("--out must", "''")),
        (SIZES, ("--epsilon or --noise-multiplier is missing",)),
        (f"{SIZES} --epsilon nan", ("--epsilon must", "nan")),
        ("-n 30 -m 4 --steps 1 --delta 1e-3 --epsilon 1", ("-b is missing",)),
        ("-n 30 -b 31 -m 4 --steps 1 --delta 1e-3 --epsilon 1", ("-b must", "31")),
        (f"{SIZES} --epsilon 1 --relation sideways", ("--relation must", "sideways")),
        (f"{SIZES} --epsilon 1 --mechanism laplace", ("--mechanism",)),
    ],
)
def test_bad_input_writes_nothing(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str, named: tuple[str, ...]
) -> None:
    monkeypatch.chdir(tmp_path)
    check_refused(run("report", *shlex.split(line)), *named)
    assert os.listdir(tmp_path) == []


def test_a_number_that_cannot_be_trusted_writes_nothing(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise NumericalFailure("a tail of 1e-3")

    monkeypatch.setattr(findings, "compare", fail)
    monkeypatch.chdir(tmp_path)
    outcome = run("report", *SIZES.split(), "--epsilon", "1")
    assert (outcome.status, outcome.out) == (3, "")
    assert "a tail of 1e-3" in outcome.err
    assert os.listdir(tmp_path) == []


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize(
    ("problem", "status"), [(OSError("disk full"), 1), (KeyboardInterrupt(), 130)]
)
def test_an_old_page_survives_a_failure(
    run: Run,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    problem: BaseException,
    status: int,
) -> None:
    out = tmp_path / "page.html"
    out.write_text("old")

    def fail(*_: object) -> None:
        raise problem

    monkeypatch.setattr(report, "report_page", lambda *_: Page("New"))
    monkeypatch.setattr(os, "replace", fail)
    outcome = run("report", *SIZES.split(), "--noise-multiplier", "3", "--out", out)
    monkeypatch.undo()
    assert (outcome.status, outcome.out) == (status, "")
    assert out.read_text() == "old"
    assert os.listdir(tmp_path) == ["page.html"]
