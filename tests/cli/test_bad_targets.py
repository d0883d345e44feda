"""Bad steps, relations, epsilons and deltas: the same refusals in every command that accounts."""

from __future__ import annotations

import shlex

import pytest

from tests.cli.running import Run, check_refused

# Complete but for what is tested.
COMMANDS = {
    "account": "account --scheme wor -n 100 -m 10 --shift 1",
    "calibrate": "calibrate --scheme wor -n 100 -m 10 --epsilon 1",
    "compare": "compare -n 100 -b 20 -m 10 --epsilon 1",
}
STEPS = [
    ("--steps 0", "--steps must", "from 1 to 1000000000", "got 0"),
    ("--steps -3", "--steps must", "got -3"),
    ("--steps 1.5", "--steps must", "integer", "'1.5'"),
    ("--steps 1e3", "--steps must", "'1e3'"),
    ("--steps nan", "--steps must", "'nan'"),
    ("--steps ''", "--steps must", "''"),
    ("--steps 1000000001", "--steps must", "1000000001"),
    ("", "--steps is missing"),
    ("--steps 5 --relation replace_one", "--relation must", "replace-one, add-remove"),
    ("--steps 5 --relation swap", "--relation must be one of", "'swap'"),
    ("--steps 5 --relation ''", "--relation must", "''"),
]
DELTAS = [
    ("--delta 0", "--delta must", ">= 1e-25 and < 1", "got 0.0"),
    ("--delta 1", "--delta must", "got 1.0"),
    ("--delta 1.5", "--delta must", "got 1.5"),
    ("--delta -1e-5", "--delta must", "got -1e-05"),
    ("--delta nan", "--delta must", "got nan"),
    ("--delta inf", "--delta must", "got inf"),
    ("--delta 1e-26", "--delta must", "got 1e-26"),
    ("--delta tiny", "--delta must", "'tiny'"),
    ("--delta 0.1 --delta 0.2", "--delta must be given once", "0.1 and 0.2"),
]
EPSILONS = [
    ("--epsilon -1", "--epsilon must", "got -1.0"),
    ("--epsilon nan", "--epsilon must", "got nan"),
    ("--epsilon inf", "--epsilon must", "got inf"),
    ("--epsilon 501", "--epsilon must", "<= 500", "got 501.0"),
    ("--epsilon one", "--epsilon must", "'one'"),
    ("--epsilon 1 --epsilon 2", "--epsilon must be given once", "1 and 2"),
]


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize(("line", "named"), [(line, named) for line, *named in STEPS])
def test_steps_and_relations(run: Run, command: str, line: str, named: list[str]) -> None:
    check_refused(run(*shlex.split(f"{COMMANDS[command]} {line} --delta 1e-5")), *named)


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize(("line", "named"), [(line, named) for line, *named in DELTAS])
def test_deltas(run: Run, command: str, line: str, named: list[str]) -> None:
    check_refused(run(*shlex.split(f"{COMMANDS[command]} --steps 5 {line}")), *named)


@pytest.mark.parametrize("json", ["", "--json"])
@pytest.mark.parametrize(("line", "named"), [(line, named) for line, *named in EPSILONS])
def test_epsilons(run: Run, line: str, named: list[str], json: str) -> None:
    check_refused(run(*shlex.split(f"{COMMANDS['account']} --steps 5 {line} {json}")), *named)
    for command in ("calibrate", "compare"):
        target = COMMANDS[command].replace("--epsilon 1", f"--steps 5 --delta 0.1 {json}")
        check_refused(run(*shlex.split(f"{target} {line}")), *named)


@pytest.mark.parametrize(
    ("line", "named"),
    [
        ("--shift 1", ("--epsilon or --delta is missing",)),
        ("--shift 1 --epsilon 1 --delta 0.1", ("--epsilon and --delta exclude each other",)),
        ("--epsilon 1", ("--noise-multiplier or --shift is missing",)),
        ("--epsilon 1 --noise-multiplier 0", ("--noise-multiplier must", "got 0")),
        ("--epsilon 1 --shift nan", ("--shift must", "nan")),
        ("--epsilon 1 --shift 1 --method exact", ("--method must be one of", "'exact'")),
        ("--epsilon 1 --shift 1 --reuse 0", ("--reuse must", "got 0")),
        ("--epsilon 1 --shift 1 --reuse 2.5", ("--reuse must", "'2.5'")),
        ("--epsilon 1 --shift 1 --reuse 2", ("--reuse 2 does not fit wor", "two stages")),
        ("--epsilon 1 --shift 1 --seed 3", ("--seed", "mustdp account --help")),
    ],
)
def test_an_account_that_makes_no_sense(run: Run, line: str, named: tuple[str, ...]) -> None:
    check_refused(
        run("account", *shlex.split(f"--scheme wor -n 100 -m 10 --steps 5 {line}")), *named
    )


@pytest.mark.parametrize("scheme", ["poisson -n 10 --rate 0.1", "wr -n 10 -m 5"])
def test_reuse_needs_two_stages(run: Run, scheme: str) -> None:
    line = f"--scheme {scheme} --shift 1 --steps 2 --epsilon 1 --reuse 3"
    check_refused(run("account", *shlex.split(line)), f"--reuse 3 does not fit {scheme.split()[0]}")
    staged = "-n 10 --stages wr:5 --shift 1 --steps 2 --epsilon 1 --reuse 3"
    check_refused(run("account", *shlex.split(staged)), "--reuse 3", "--stages")
