"""``mustdp audit``: canaries from the command line."""

from __future__ import annotations

import shlex
from typing import Any

import pytest

import mustdp as md
from tests.cli.running import Run, answer, check_refused
from tests.seams import without_step_noise

pytest.importorskip("torch")

#: All records in one step; quick, and the certificate is that of a Gaussian shift.
SMALL = "audit --scheme wor -n 60 -m 60 --steps 1 --delta 1e-3 --noise-multiplier 20"


def test_what_is_found_stands_beside_what_is_certified(run: Run) -> None:
    given = answer(run, f"{SMALL} --runs 2 --seed 4 --clip 0.5 --level 0.9")
    assert (given["scheme"], given["n"], given["steps"]) == ("wor", 60, 1)
    assert (given["noise_multiplier"], given["noise"]) == (20.0, "noise multiplier as given")
    assert (given["clip"], given["runs"], given["seeded"]) == (0.5, 2, True)
    assert (given["canaries"], given["guesses"]) == (120, 24)
    assert (given["delta"], given["relation"]) == (1e-3, "replace-one")
    assert given["empirical"]["level"] == 0.9
    assert 0 <= given["empirical"]["epsilon"] <= given["certified"]["upper"]
    assert given["contradicted"] is False
    budget = md.calibrated_budget(md.wor(60, 60), steps=1, noise_multiplier=20.0, delta=1e-3)
    assert given["certified"]["upper"] == budget.spent().epsilon.upper
    assert given == answer(run, f"{SMALL} --runs 2 --seed 4 --clip 0.5 --level 0.9")


def test_runs_of_one_seed_differ(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs whose noise were the same would count the same guesses several times."""
    seeds: list[Any] = []
    made = md.PrivateTrainer.__init__

    def noted(self: Any, *given: Any, **options: Any) -> None:
        seeds.append(options["seed"])
        made(self, *given, **options)

    monkeypatch.setattr(md.PrivateTrainer, "__init__", noted)
    answer(run, f"{SMALL} --runs 3 --seed 4")
    answer(run, f"{SMALL} --runs 1")
    assert len(set(seeds[:3])) == 3
    assert seeds[3] is None


def test_words(run: Run) -> None:
    line = "audit --scheme poisson -n 40 --rate 0.5 --steps 2 --delta 1e-3 --noise-multiplier 5"
    seeded, fresh = (run(*shlex.split(f"{line} {more}")) for more in ("--seed 1", ""))
    assert (seeded.status, fresh.status) == (0, 0)
    assert seeded.err == fresh.err == ""
    assert seeded.out.startswith("a game with a seed, an experiment")
    assert fresh.out.startswith("poisson of 40 records, rate 0.5; steps: 2, runs: 1; attacker: ")
    assert "not contradicted, which proves nothing" in fresh.out
    assert "one record added or removed" in fresh.out


@pytest.mark.parametrize("more", ["", "--json"])
def test_a_contradicted_certificate_is_one_line_and_status_3(
    run: Run, monkeypatch: pytest.MonkeyPatch, more: str
) -> None:
    without_step_noise(monkeypatch)
    outcome = run(*shlex.split(f"{SMALL} --runs 2 {more}"))
    assert (outcome.status, outcome.out) == (3, "")
    assert outcome.err.count("\n") == 1
    assert "the certificate is contradicted: 24 of 24 guesses are right" in outcome.err


BAD = [
    ("audit --steps 1 --noise-multiplier 2", "--scheme is missing"),
    ("audit --scheme wor -m 5 --steps 1 --noise-multiplier 2", "-n is missing"),
    ("audit --scheme wor -n 19 -m 5 --steps 1 --noise-multiplier 2", "-n must", "20 to 5000", "19"),
    ("audit --scheme wor -n 5001 -m 5 --steps 1 --epsilon 1", "-n must", "20 to 5000", "5001"),
    ("audit --scheme wor -n 60 -m 5 --noise-multiplier 2", "--steps is missing"),
    ("audit --scheme wor -n 60 -m 5 --steps 1", "--epsilon or --noise-multiplier is missing"),
    ("audit --scheme poisson -n 60 --rate 0 --steps 1 --noise-multiplier 2", "--rate must"),
    ("audit --scheme wor -n 60 -m 5 --steps 1 --noise-multiplier 2 --clip 0", "--clip must"),
    ("audit --scheme wor -n 60 -m 5 --steps 1 --noise-multiplier 2 --clip nan", "--clip must"),
    ("audit --scheme wor -n 60 -m 5 --steps 1 --noise-multiplier 2 --clip 1e-40", "--clip must"),
    ("audit --scheme wor -n 60 -m 5 --steps 1 --noise-multiplier 2 --runs 0", "--runs must"),
    ("audit --scheme wor -n 60 -m 5 --steps 1 --noise-multiplier 2 --level 1", "--level must"),
    ("audit --scheme wor -n 60 -m 5 --steps 1 --noise-multiplier 2 --level nan", "--level must"),
    ("audit --scheme wor -n 60 -m 5 --steps 1 --noise-multiplier 2 --seed x", "--seed must"),
]


@pytest.mark.parametrize(("line", "named"), [(line, named) for line, *named in BAD])
def test_bad_input(run: Run, line: str, named: list[str]) -> None:
    check_refused(run(*shlex.split(line), "--delta", "1e-5", "--json"), *named)


def test_a_missing_delta_is_refused(run: Run) -> None:
    line = "audit --scheme wor -n 60 -m 5 --steps 1 --noise-multiplier 2"
    check_refused(run(*shlex.split(line)), "--delta is missing")


def test_noise_without_a_bound_is_not_played_with(run: Run) -> None:
    line = "audit --scheme wor -n 60 -m 5 --steps 1 --noise-multiplier 1e-6 --delta 1e-5"
    outcome = run(*shlex.split(line))
    assert (outcome.status, outcome.out) == (3, "")
    assert "no finite upper bound" in outcome.err
