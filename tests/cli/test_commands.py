"""What the commands answer."""

from __future__ import annotations

import json
import shlex

import numpy as np
import pytest

import mustdp as md
from tests.cli.running import Run, answer, no_constants

NAMES = ("account", "calibrate", "compare", "amplify", "draw")
AMPLIFY = "amplify --scheme must-ow -n 1000 -b 500 -m 400 --mechanism laplace --shift 0.25"


def test_amplify_says_what_the_package_says(run: Run) -> None:
    given = answer(run, f"{AMPLIFY} --epsilon 0.05 --epsilon 0.5")
    scheme = md.must_ow(1000, 500, 400)
    result = md.amplify(scheme, md.laplace(shift=0.25), [0.05, 0.5])
    assert given["scheme"] == "must-ow"
    assert given["eta"] == scheme.eta
    assert given["expected_distinct"] == scheme.expected_distinct
    assert (given["relation"], given["shift"]) == ("replace-one", 0.25)
    assert "arXiv 2312.13389, Theorem 4" in given["theorem"]
    fields = ["epsilon", "delta", "epsilon_prime", "delta_prime", "kind", "ratio", "difference"]
    assert [list(row) for row in given["rows"]] == [fields, fields]
    assert given["rows"] == [{name: row[name] for name in fields} for row in result]
    assert [row["kind"] for row in given["rows"]] == ["strong", "weak-1"]


def test_a_noise_multiplier_becomes_a_shift_by_the_relation(run: Run) -> None:
    noise = "--noise-multiplier 4 --epsilon 1"
    fixed = answer(run, f"amplify --scheme wor -n 100 -m 10 {noise}")
    poisson = answer(run, f"amplify --scheme poisson -n 100 --rate 0.1 {noise}")
    assert (fixed["relation"], fixed["shift"]) == ("replace-one", 0.5)
    assert (poisson["relation"], poisson["shift"]) == ("add-remove", 0.25)
    assert fixed["noise_multiplier"] == poisson["noise_multiplier"] == 4.0


def test_gaussian_is_the_default(run: Run) -> None:
    line = "amplify --scheme wr -n 100 -m 10 --shift 1 --epsilon 1"
    assert answer(run, line) == answer(run, f"{line} --mechanism gaussian")


@pytest.mark.parametrize(
    ("named", "staged"),
    [
        ("--scheme must-ow -b 118 -m 200", "wor:118,wr:200"),
        ("--scheme must-wo -b 300 -m 200", "wr:300,wor:200"),
        ("--scheme wr -m 7", "wr:7"),
    ],
)
def test_stages_spell_out_a_named_scheme(run: Run, named: str, staged: str) -> None:
    rest = "-n 10000 --shift 1 --epsilon 1"
    assert answer(run, f"amplify {named} {rest}") == answer(
        run, f"amplify --stages {staged} {rest}"
    )


def test_three_stages(run: Run) -> None:
    line = "amplify -n 60 --stages wor:30,wr:20,wr:10 --shift 1 --epsilon 1"
    given = answer(run, line)
    scheme = md.multistage(60, [("wor", 30), ("wr", 20), ("wr", 10)])
    assert (given["scheme"], given["eta"]) == ("multistage", scheme.eta)


@pytest.mark.parametrize("epsilon", ["0", "1e-300", "700", "1e6"])
@pytest.mark.parametrize("mechanism", ["gaussian", "laplace"])
def test_extreme_epsilons_are_still_valid_json(run: Run, epsilon: str, mechanism: str) -> None:
    noise = f"--mechanism {mechanism} --shift 1 --epsilon {epsilon}"
    row = answer(run, f"amplify --scheme wr -n 10 -m 20 {noise}")["rows"][0]
    assert 0 <= row["epsilon_prime"] <= float(epsilon)
    assert 0 <= row["delta_prime"] <= 1


def test_a_seeded_draw_is_the_packages_draw(run: Run) -> None:
    line = "draw --scheme must-ow -n 1000 -b 50 -m 40 --seed 7 --json"
    outcome = run(*shlex.split(line))
    given = json.loads(outcome.out, parse_constant=no_constants)
    batch = md.must_ow(1000, 50, 40).draw(np.random.default_rng(7))
    assert given == {"indices": batch.indices.tolist(), "counts": batch.counts.tolist()}
    assert all(isinstance(number, int) for numbers in given.values() for number in numbers)
    assert outcome.err.count("\n") == 1
    assert "--seed 7" in outcome.err
    assert "experiments only" in outcome.err


def test_draws_without_a_seed_differ(run: Run) -> None:
    line = "draw --scheme wr -n 1000000 -m 20"
    first, second = answer(run, line), answer(run, line)
    assert sum(first["counts"]) == sum(second["counts"]) == 20
    assert first != second


def test_json_may_stand_before_the_command(run: Run) -> None:
    line = shlex.split(f"{AMPLIFY} --epsilon 0.5")
    assert run("--json", *line) == run(*line, "--json")
    assert run(*line) != run(*line, "--json")


def test_a_draw_without_a_seed_asks_no_statistical_generator(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(np.random, "default_rng", None)
    assert run(*shlex.split("draw --scheme wr -n 100 -m 20")).status == 0


def test_an_empty_draw(run: Run) -> None:
    line = "draw --scheme poisson -n 10 --rate 0"
    assert answer(run, line) == {"indices": [], "counts": []}
    assert run(*shlex.split(line)).out.startswith("0 draws, 0 distinct records\n")


def test_version(run: Run) -> None:
    assert run("--version") == (0, f"mustdp {md.__version__}\n", "")
    assert answer(run, "--version") == {"version": md.__version__}


@pytest.mark.parametrize("line", ["--help", "-h", *(f"{name} --help" for name in NAMES)])
def test_help(run: Run, line: str) -> None:
    outcome = run(*shlex.split(line))
    assert outcome.status == 0
    assert "Usage: mustdp" in outcome.out
    assert outcome.err == ""
