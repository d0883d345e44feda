"""``mustdp risk`` and targets of ``mustdp calibrate`` that an attacker must not reach."""

from __future__ import annotations

import pytest

import mustdp as md
from tests.cli.running import Run, answer, check_refused

SCHEME = "--scheme wor -n 1000 -m 10"
LINE = f"risk {SCHEME} --noise-multiplier 2 --steps 100"


def test_the_numbers_of_the_package(run: Run) -> None:
    given = answer(run, f"{LINE} --fpr 0.01 --fpr 0.2 --order 3")
    plan = md.repeat(100, md.subsample(md.wor(1000, 10), md.gaussian(noise_multiplier=2.0)))
    account = md.account(plan)
    found = account.risk([0.01, 0.2])
    advantage = {"lower": found.advantage.lower, "upper": found.advantage.upper}
    assert given["advantage"] == advantage
    assert given["tpr"] == [
        {"fpr": fpr, "lower": one.lower, "upper": one.upper}
        for fpr, one in zip(found.fpr, found.tpr, strict=True)
    ]
    assert given["mu"] == account.gaussian_dp().value
    assert given["rho"] == account.zero_concentrated().value
    assert [row["order"] for row in given["renyi"]] == [3.0]
    assert given["renyi"][0]["upper"] == account.renyi([3.0]).upper[0]
    assert given["words"] == list(found.sentences())
    assert {(row["prior"], row["fpr"]) for row in given["suspicion"]} == {
        (prior, fpr) for prior in (0.5, 0.01) for fpr in (0.01, 0.2)
    }
    assert (given["relation"], given["steps"], given["shift"]) == ("replace-one", 100, 1.0)


def test_words_without_json(run: Run) -> None:
    outcome = run(*LINE.split())
    assert outcome.status == 0
    for fpr in ("0.1 %", "1 %", "10 %"):
        assert fpr in outcome.out
    for part in ("guessing is right in 50 %", "mu:", "rho:", "order 32", "relation replace-one"):
        assert part in outcome.out


def test_calibrating_to_a_risk(run: Run) -> None:
    given = answer(run, f"calibrate {SCHEME} --steps 20 --tpr 0.05 --fpr 0.01")
    found = md.calibrate(md.wor(1000, 10), tpr=0.05, fpr=0.01, steps=20)
    assert given["noise_multiplier"] == found.noise_multiplier
    assert (given["target_tpr"], given["target_fpr"]) == (0.05, 0.01)
    assert {row["fpr"]: row["upper"] for row in given["tpr"]}[0.01] <= 0.05
    outcome = run(*f"calibrate {SCHEME} --steps 20 --advantage 0.1".split())
    assert outcome.status == 0
    assert "noise multiplier" in outcome.out


@pytest.mark.parametrize(
    ("line", "named"),
    [
        ("--tpr 0.05", "--fpr"),
        ("--fpr 0.05", "--tpr"),
        ("--tpr 0.01 --fpr 0.05", "--tpr"),
        ("--tpr 1 --fpr 0.05", "--tpr"),
        ("--advantage 0", "--advantage"),
        ("--advantage nan", "--advantage"),
        ("--advantage 0.1 --tpr 0.2 --fpr 0.1", "--advantage"),
        ("--advantage 0.1 --epsilon 1", "--epsilon"),
        ("--advantage 0.1 --delta 1e-5", "--delta"),
        ("--advantage 0.1 --noise-multiplier 3", "--noise-multiplier"),
        ("--advantage 0.1 --solve-for m", "--solve-for"),
    ],
)
def test_targets_that_are_refused(run: Run, line: str, named: str) -> None:
    check_refused(run(*f"calibrate {SCHEME} --steps 20 {line}".split()), named)


@pytest.mark.parametrize(
    "line", ["--fpr 1.5", "--fpr -1", "--fpr nan", "--order 1", "--order x", "--steps 0"]
)
def test_questions_that_are_refused(run: Run, line: str) -> None:
    check_refused(run(*f"risk {SCHEME} --noise-multiplier 2 {line}".split()), line.split()[0])


def test_whole_epochs(run: Run) -> None:
    given = answer(run, "risk --scheme allocation -n 100 --bins 5 --noise-multiplier 4 --epochs 2")
    step = md.subsample(md.random_allocation(100, 5), md.gaussian(noise_multiplier=4.0))
    found = md.account(md.repeat(2, step)).risk()
    assert (given["steps"], given["epochs"], given["relation"]) == (10, 2.0, "add-remove")
    assert given["advantage"]["upper"] == found.advantage.upper
    check_refused(run(*f"{LINE} --epochs 2".split()), "--epochs")
