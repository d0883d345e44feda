"""Bad input: one line that names the option and the value, status 2, nothing on stdout."""

from __future__ import annotations

import shlex

import pytest

from tests.cli.running import Run, check_refused

NOISE = "--shift 1 --epsilon 1"

# The line after ``mustdp amplify``, and what the message must name.
SCHEMES = [
    ("--scheme wor -n 10 -m 20", "-m must", "-n = 10", "20"),
    ("--scheme must-ow -n 10 -b 20 -m 5", "-b must", "-n = 10", "20"),
    ("--scheme must-oo -n 10 -b 20 -m 5", "-b must", "-n = 10", "20"),
    ("--scheme must-wo -n 10 -b 4 -m 20", "-m must", "-b = 4", "20"),
    ("--scheme must-oo -n 10 -b 4 -m 5", "-m must", "-b = 4", "5"),
    ("--scheme poisson -n 10 --rate 1.5", "--rate must", "<= 1", "1.5"),
    ("--scheme poisson -n 10 --rate -0.1", "--rate must", ">= 0", "-0.1"),
    ("--scheme poisson -n 10 --rate nan", "--rate must", "nan"),
    ("--scheme poisson -n 10 --rate inf", "--rate must", "inf"),
    ("--scheme poisson -n 10 --rate half", "--rate must", "'half'"),
    ("--scheme wor -n 0 -m 1", "-n must", "from 1 to", "got 0"),
    ("--scheme wor -n -5 -m 1", "-n must", "got -5"),
    ("--scheme wor -n 10 -m 0", "-m must", "got 0"),
    ("--scheme wor -n 10 -m -3", "-m must", "got -3"),
    ("--scheme must-ow -n 10 -b 0 -m 3", "-b must", "got 0"),
    ("--scheme wor -n 10.5 -m 1", "-n must", "integer", "'10.5'"),
    ("--scheme wor -n 10 -m 2.0", "-m must", "integer", "'2.0'"),
    ("--scheme wor -n 1e3 -m 1", "-n must", "integer", "'1e3'"),
    ("--scheme wor -n nan -m 1", "-n must", "'nan'"),
    ("--scheme wor -n '' -m 1", "-n must", "''"),
    ("--scheme wr -n 9007199254740993 -m 1", "-n must", "9007199254740993"),
    ("--scheme wr -n 10 -m 1" + "0" * 30, "-m must", "1" + "0" * 30),
    ("--scheme wr -n 1" + "0" * 5000 + " -m 1", "-n must", "1000000"),
    ("--scheme wor -n 10 -m 2 --rate 0.4", "--rate 0.4", "--scheme wor", "-n and -m"),
    ("--scheme wr -n 10 -m 2 -b 3", "-b 3", "--scheme wr", "-n and -m"),
    ("--scheme poisson -n 10 --rate 0.4 -m 2", "-m 2", "--scheme poisson", "-n and --rate"),
    ("--scheme must-ow -n 10 -m 2", "-b is missing", "--scheme must-ow", "-n, -b and -m"),
    ("--scheme wor -n 10", "-m is missing", "--scheme wor"),
    ("--scheme wor -m 10", "-n is missing", "--scheme wor"),
    ("--scheme poisson -n 10", "--rate is missing"),
    ("--scheme bernoulli -n 10", "--scheme must be one of", "must-ow", "'bernoulli'"),
    ("--scheme 'wor\nwr' -n 10", "--scheme must be one of"),
    ("-n 10", "--scheme is missing", "--stages"),
    ("--scheme wor --stages wor:3 -n 10", "--scheme wor", "--stages wor:3", "exclude"),
    ("--stages wor:5,wor:7 -n 10", "--stages wor:5,wor:7", "= 5", "got 7"),
    ("--stages wor:20 -n 10", "--stages wor:20", "n = 10", "got 20"),
    ("--stages wor:5,wr -n 10", "--stages must", "'wor:5,wr'"),
    ("--stages wor:5, -n 10", "--stages must", "'wor:5,'"),
    ("--stages '' -n 10", "--stages must", "''"),
    ("--stages wor:5,with:3 -n 10", "--stages", "wor, wr", "'with'"),
    ("--stages wor:5,wr:0 -n 10", "--stages", "got 0"),
    ("--stages wor:5,wr:x -n 10", "--stages", "'x'"),
    ("--stages wor:5 -n 10 -m 5", "-m 5", "--stages"),
    ("--stages wor:5", "-n is missing", "--stages"),
]
SMALL = "--scheme wr -n 10 -m 2"
NOISES = [
    ("--epsilon 1", "--noise-multiplier", "--shift", "missing"),
    ("--epsilon 1 --shift 1 --noise-multiplier 2", "--noise-multiplier 2", "--shift 1", "exclude"),
    ("--epsilon 1 --shift 0", "--shift must", "got 0"),
    ("--epsilon 1 --shift -1", "--shift must", "got -1"),
    ("--epsilon 1 --shift nan", "--shift must", "nan"),
    ("--epsilon 1 --shift one", "--shift must", "'one'"),
    ("--epsilon 1 --shift 1e300", "--shift must", "1e+300"),
    ("--epsilon 1 --noise-multiplier 0", "--noise-multiplier must", "got 0"),
    ("--epsilon 1 --noise-multiplier inf", "--noise-multiplier must", "inf"),
    ("--epsilon 1 --shift 1 --mechanism cauchy", "--mechanism must", "laplace", "'cauchy'"),
    ("--shift 1", "--epsilon is missing"),
    ("--shift 1 --epsilon -0.5", "--epsilon must", ">= 0", "-0.5"),
    ("--shift 1 --epsilon nan", "--epsilon must", "nan"),
    ("--shift 1 --epsilon 1 --epsilon x", "--epsilon must", "'x'"),
    ("--shift 1 --epsilon", "--epsilon", "requires an argument"),
    ("--shift 1 --epsilon 1 --variance 3", "--variance", "mustdp amplify --help"),
    ("--shift 1 --epsilon 1 more", "more"),
    ("--shift 1 --epsilon 1 --json=yes", "--json", "not take a value"),
]
DRAWS = [
    (f"{SMALL} --seed -1", "--seed must", "got -1"),
    (f"{SMALL} --seed 1.5", "--seed must", "'1.5'"),
    (f"{SMALL} --shift 1", "--shift", "mustdp draw --help"),
    ("--scheme wr -n 10 -m 9007199254740992", "-m 9007199254740992", "1000000"),
    ("--scheme poisson -n 9007199254740992 --rate 0.5", "--rate 0.5", "1000000"),
    ("--stages wor:5,wr:2000000 -n 10", "--stages wor:5,wr:2000000", "1000000"),
]


@pytest.mark.parametrize("json", [[], ["--json"]])
@pytest.mark.parametrize(("line", "named"), [(line, named) for line, *named in SCHEMES])
def test_a_scheme_that_makes_no_sense(
    run: Run, line: str, named: list[str], json: list[str]
) -> None:
    check_refused(run("amplify", *shlex.split(f"{line} {NOISE}"), *json), *named)
    check_refused(run("draw", *shlex.split(line), *json), *named)


@pytest.mark.parametrize(("line", "named"), [(line, named) for line, *named in NOISES])
def test_a_noise_that_makes_no_sense(run: Run, line: str, named: list[str]) -> None:
    check_refused(run("amplify", *shlex.split(f"{SMALL} {line}")), *named)


@pytest.mark.parametrize(("line", "named"), [(line, named) for line, *named in DRAWS])
def test_a_draw_that_makes_no_sense(run: Run, line: str, named: list[str]) -> None:
    check_refused(run("draw", *shlex.split(line)), *named)


@pytest.mark.parametrize(
    ("line", "named"),
    [
        ("", ["command is missing", "amplify", "draw"]),
        ("amplfy", ["'amplfy'", "mustdp --help"]),
        ("--nope", ["--nope"]),
        ("--json", ["command is missing"]),
        ("--json amplify", ["--scheme is missing"]),
        ("--version draw", ["--version", "before the command draw"]),
    ],
)
def test_no_command_or_a_wrong_one(run: Run, line: str, named: list[str]) -> None:
    check_refused(run(*shlex.split(line)), *named)
