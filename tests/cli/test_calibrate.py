"""``mustdp calibrate``: the noise, the steps or the size that meets a target."""

from __future__ import annotations

import json
import shlex

import pytest

import mustdp as md
from tests.cli.running import Run, answer, check_refused

pytestmark = pytest.mark.usefixtures("remembered_accounts")

TARGET = "--epsilon 1 --delta 1e-5"


def test_noise_is_the_packages_and_on_the_safe_side(run: Run) -> None:
    given = answer(run, f"calibrate --scheme wor -n 100 -m 10 --steps 10 {TARGET}")
    found = md.calibrate(md.wor(100, 10), epsilon=1.0, delta=1e-5, steps=10)
    assert given["noise_multiplier"] == found.noise_multiplier
    assert given["epsilon"] == {"lower": found.epsilon.lower, "upper": found.epsilon.upper}
    assert given["delta"] == 1e-5
    assert 0.999 <= given["epsilon"]["upper"] <= given["target_epsilon"] == 1.0
    assert (given["relation"], given["steps"], given["solve_for"]) == ("replace-one", 10, "noise")
    assert given["shift"] == 2 / given["noise_multiplier"]


def test_the_noise_found_is_accounted_for_within_the_target(run: Run) -> None:
    scheme = "--scheme poisson -n 100 --rate 0.1 --steps 10"
    for rest in ("", " --relation replace-one", " --mechanism laplace"):
        found = answer(run, f"calibrate {scheme}{rest} {TARGET}")
        noise = f"--noise-multiplier {found['noise_multiplier']!r}"
        spent = answer(run, f"account {scheme}{rest} {noise} --delta 1e-5")
        assert spent["epsilon"] == found["epsilon"]
        assert spent["relation"] == found["relation"]
        assert spent["epsilon"]["upper"] <= 1.0


def test_the_noise_shown_is_rounded_up(run: Run) -> None:
    line = f"calibrate --scheme wor -n 100 -m 10 --steps 10 {TARGET}"
    exact = answer(run, line)["noise_multiplier"]
    text = run(*shlex.split(line)).out
    shown = float(text.splitlines()[2].split()[0])
    assert exact <= shown <= exact * 1.0002
    assert "upper: certified" in text
    assert "lower: attained" in text


def test_the_most_steps(run: Run) -> None:
    line = "--scheme wor -n 100 -m 5 --noise-multiplier 3"
    found = answer(run, f"calibrate --solve-for steps {line} {TARGET}")
    assert (found["solve_for"], found["noise_multiplier"]) == ("steps", 3.0)
    one_more = answer(run, f"account {line} --steps {found['steps'] + 1} --delta 1e-5")
    assert found["epsilon"]["upper"] <= 1.0 < one_more["epsilon"]["upper"]


@pytest.mark.parametrize(
    ("line", "sizes"),
    [
        ("--scheme wor -n 100", "-n 100 -m {}"),
        ("--scheme must-ow -n 100 -b 50", "-n 100 -b 50 -m {}"),
    ],
)
def test_the_largest_batch(run: Run, line: str, sizes: str) -> None:
    rest = "--shift 0.4 --steps 3"
    found = answer(run, f"calibrate --solve-for m {line} {rest} {TARGET}")
    assert found["stages"][-1][1] == found["m"] >= 1
    name = line.split()[1]
    more = sizes.format(found["m"] + 1)
    over = answer(run, f"account --scheme {name} {more} {rest} --delta 1e-5")
    assert found["epsilon"]["upper"] <= 1.0 < over["epsilon"]["upper"]


def test_the_largest_poisson_batch_is_an_expectation(run: Run) -> None:
    found = answer(
        run, f"calibrate --solve-for m --scheme poisson -n 100 --shift 0.4 --steps 3 {TARGET}"
    )
    assert found["rate"] == found["m"] / 100
    assert found["relation"] == "add-remove"
    text = run(
        *shlex.split(f"calibrate --solve-for m --scheme wr -n 100 --shift 0.4 --steps 3 {TARGET}")
    ).out
    assert text.splitlines()[1].split()[0] == "m"


def test_the_smallest_first_stage(run: Run) -> None:
    line = "--scheme must-ow -n 60 -m 20 --shift 0.3 --steps 3"
    found = answer(run, f"calibrate --solve-for b {line} --epsilon 2 --delta 1e-5")
    (kind, b), _ = found["stages"]
    assert kind == "wor"
    one_less = answer(run, f"account {line} -b {b - 1} --delta 1e-5")
    assert found["epsilon"]["upper"] <= 2.0 < one_less["epsilon"]["upper"]
    shown = run(*shlex.split(f"calibrate --solve-for b {line} --epsilon 2 --delta 1e-5")).out
    assert shown.splitlines()[2].split()[0] == str(b)


def test_a_target_that_nothing_meets(run: Run) -> None:
    line = "calibrate --solve-for steps --scheme wr -n 10 -m 20 --shift 2"
    check_refused(run(*shlex.split(f"{line} {TARGET}")), "--epsilon must be at least", "got 1.0")


SCHEME = "--scheme wor -n 100 -m 5"


@pytest.mark.parametrize(
    ("line", "named"),
    [
        (f"{SCHEME} --steps 5 --noise-multiplier 2", ("--noise-multiplier 2", "noise", "finds it")),
        (f"{SCHEME} --steps 5 --shift 2", ("--shift 2", "--solve-for noise")),
        (f"{SCHEME} --solve-for steps --steps 5 --shift 1", ("--steps 5", "--solve-for steps")),
        (f"{SCHEME} --solve-for steps", ("--noise-multiplier or --shift is missing",)),
        (f"{SCHEME} --solve-for m --steps 5 --shift 1", ("-m 5", "--solve-for m")),
        (f"{SCHEME} --solve-for sigma", ("--solve-for must be one of noise, steps, m, b", "sigma")),
        ("--scheme wor -n 10 --solve-for m --shift 1", ("--steps is missing",)),
        ("--scheme wor --solve-for m --shift 1 --steps 1", ("-n is missing", "--solve-for m")),
        ("--scheme poisson -n 9 --rate 0.1 --solve-for m --shift 1", ("--rate 0.1", "-n")),
        ("--scheme must-oo -n 9 -b 5 --solve-for m --shift 1", ("--scheme with", "'must-oo'")),
        ("--scheme wor -n 9 -m 5 --solve-for b --shift 1", ("--scheme with", "must-ow, must-ww")),
        ("--stages wor:5,wr:5 -n 9 --solve-for m --shift 1", ("--stages wor:5,wr:5", "--scheme")),
        ("-n 9 --solve-for b --shift 1", ("--scheme is missing", "--solve-for b")),
        (f"{SCHEME} --steps 5 --mechanism cauchy", ("--mechanism must", "'cauchy'")),
    ],
)
def test_options_that_do_not_fit_what_is_solved_for(
    run: Run, line: str, named: tuple[str, ...]
) -> None:
    check_refused(run("calibrate", *shlex.split(f"{line} {TARGET}")), *named)


@pytest.mark.parametrize("target", ["--tpr 0.5 --fpr 0.01", "--epsilon 1 --delta 0.5"])
def test_a_target_that_needs_no_noise_says_so(run: Run, target: str) -> None:
    line = f"calibrate --scheme wor -n 1000 -m 10 --steps 1 {target}"
    found = json.loads(run(*line.split(), "--json").out)  # a delta above 1/n is warned of
    assert found["noise_multiplier"] == 1e-4
    assert "hardly any noise" in found["limit"]
    assert found["limit"] in run(*line.split()).out
