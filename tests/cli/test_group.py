"""``--group``: people with several records, in every command that takes it."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

import mustdp as md
from tests.cli.running import Run, answer, check_refused
from tests.seams import replace_sizes_in_report

STEP = "--scheme wor -n 100 -m 10 --steps 10"
ACCOUNT = f"account {STEP} --noise-multiplier 4 --delta 1e-5"


def plan(noise_multiplier: float) -> md.types.Plan:
    return md.repeat(
        10, md.subsample(md.wor(100, 10), md.gaussian(noise_multiplier=noise_multiplier))
    )


def test_account(run: Run) -> None:
    given = answer(run, f"{ACCOUNT} --group 3")
    bounds = md.account(plan(4.0), group=3).epsilon(1e-5)
    assert given["group"] == 3
    assert given["epsilon"] == {"lower": bounds.lower, "upper": bounds.upper}
    one = answer(run, f"{ACCOUNT} --group 1")
    assert one == answer(run, ACCOUNT)
    assert "group" not in one
    assert given["epsilon"]["lower"] > one["epsilon"]["upper"]


def test_in_words(run: Run) -> None:
    said = run(*ACCOUNT.split(), "--group", 3).out
    assert "(up to 3 records replaced)" in said
    assert "lower: attained by the aligned pair of data sets." in said
    assert "(one record replaced)" in run(*ACCOUNT.split()).out


@pytest.mark.parametrize("mechanism", ["gaussian", "laplace"])
def test_calibrate(run: Run, mechanism: str) -> None:
    line = f"calibrate {STEP} --epsilon 2 --delta 1e-5 --mechanism {mechanism}"
    alone, together = answer(run, line), answer(run, f"{line} --group 3")
    assert together["group"] == 3
    assert together["noise_multiplier"] > 1.5 * alone["noise_multiplier"]
    noise = getattr(md, mechanism)(noise_multiplier=together["noise_multiplier"])
    met = md.account(md.repeat(10, md.subsample(md.wor(100, 10), noise)), group=3).epsilon(1e-5)
    assert met.upper <= 2.0
    assert met.upper >= 1.99


def test_most_steps(run: Run) -> None:
    line = "calibrate --scheme wor -n 100 -m 10 --noise-multiplier 9 --solve-for steps"
    line += " --epsilon 2 --delta 1e-5 --group 3"
    given = answer(run, line)
    step = md.subsample(md.wor(100, 10), md.gaussian(noise_multiplier=9.0))
    over = md.account(md.repeat(given["steps"] + 1, step), group=3).epsilon(1e-5)
    assert given["epsilon"]["upper"] <= 2.0 < over.upper


@pytest.mark.slow
def test_compare_and_report(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    line = "-n 50 -b 10 -m 5 --steps 4 --delta 1e-4 --noise-multiplier 8 --group 2"
    compared = answer(run, f"compare {line}")
    assert compared["group"] == 2
    noise = md.gaussian(noise_multiplier=8.0)
    for row, scheme in zip(compared["rows"][1:3], (md.wor(50, 5), md.wr(50, 5)), strict=True):
        found = md.account(md.repeat(4, md.subsample(scheme, noise)), group=2).epsilon(1e-4)
        assert row["epsilon"]["upper"] == found.upper
    seen: list[int] = []

    def other_sizes(m: int, noise: float, question: Any, grid: Any) -> tuple[float, ...]:
        seen.append(question.group)
        return (math.nan,) * len(grid)

    replace_sizes_in_report(monkeypatch, other_sizes)
    page = tmp_path / "page.html"
    reported = answer(run, f"report {line} --out {page}")
    assert reported["rows"] == compared["rows"]
    text = page.read_text(encoding="utf-8")
    assert "up to 2 records replaced" in text
    assert text.count("--group 2") == 3
    assert set(seen) == {2}


@pytest.mark.parametrize("group", ["0", "-1", "1.5", "x", "101"])
def test_no_number_of_records(run: Run, group: str) -> None:
    check_refused(run(*ACCOUNT.split(), "--group", group), "--group")


def test_the_papers_pair_has_one_record(run: Run) -> None:
    check_refused(run(*ACCOUNT.split(), "--group", 2, "--method", "paper"), "--group", "--method")


def test_the_largest_loss(run: Run) -> None:
    line = f"account {STEP} --mechanism laplace --noise-multiplier 4 --delta 0"
    given = answer(run, line)
    found = md.account(
        md.repeat(10, md.subsample(md.wor(100, 10), md.laplace(noise_multiplier=4.0)))
    ).epsilon(0)
    assert given["epsilon"] == {"lower": found.lower, "upper": found.upper}
    assert given["delta"] == 0.0
    check_refused(run(*f"{line} --mechanism gaussian".split()), "--mechanism")
    check_refused(run(*f"account {STEP} --noise-multiplier 4 --delta 0".split()), "--delta must")


def test_coarse_bounds_say_so(run: Run) -> None:
    line = "account --scheme poisson -n 100000000 --rate 1e-6 --noise-multiplier 0.6 --steps 50"
    given = answer(run, f"{line} --delta 1e-10")
    assert given["coarse"] is True
    assert given["numerical_gap"] > 0
    assert "coarse: both bounds hold" in run(*line.split(), "--delta", "1e-10").out
    assert "coarse" not in answer(run, ACCOUNT)


def test_risk(run: Run) -> None:
    line = f"risk {STEP} --noise-multiplier 4"
    given, one = answer(run, f"{line} --group 3"), answer(run, line)
    found = md.account(plan(4.0), group=3).risk()
    assert given["group"] == 3
    assert given["advantage"]["upper"] == found.advantage.upper > one["advantage"]["upper"]
    assert "which of two given groups of 3 records" in given["words"][0]
    assert "1 % of the groups of 3 records" in given["words"][1]
    assert "which of two given records" in one["words"][0]
