"""Small things that spare people a second try: hints, completion, and refusals that come early."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

import mustdp as md
from tests.cli.running import Run, check_refused

SCHEME = "--scheme wor -n 1000 -m 10 --noise-multiplier 2 --steps 10"


def test_json_before_or_after_the_command(run: Run) -> None:
    before = run("--json", "account", *SCHEME.split(), "--delta", "1e-5")
    after = run("account", *SCHEME.split(), "--delta", "1e-5", "--json")
    assert json.loads(before.out) == json.loads(after.out)


def test_an_epsilon_of_zero_says_why(run: Run) -> None:
    line = "account --scheme wor -n 1000 -m 1 --noise-multiplier 200 --steps 10 --delta 0.01"
    assert "this delta alone covers everything" in run(*line.split()).out


def test_a_missing_design_is_named_first(run: Run) -> None:
    line = "bootstrap x.csv --column a --lower 0 --upper 1 --epsilon 1 --delta 1e-5"
    check_refused(run(*line.split()), "--design is missing")


def test_the_shell_completes_commands_and_schemes() -> None:
    def offered(words: str, place: int) -> str:
        known = {"_MUSTDP_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(place)}
        command = [sys.executable, "-c", "from mustdp.cli.main import main; main()"]
        done = subprocess.run(
            command, env={**os.environ, **known}, capture_output=True, text=True, check=False
        )
        return done.stdout

    assert "calibrate" in offered("mustdp cal", 1).split()
    schemes = offered("mustdp account --scheme must-o", 3).split()
    assert schemes == ["must-ow", "must-oo"]


def test_help_lists_every_statistic_without_loading_numpy() -> None:
    code = (
        "import sys; from mustdp.cli.main import main\n"
        "for name in ('bootstrap', 'release'): main([name, '--help'])\n"
        "print(*sorted({'numpy', 'scipy', 'torch'} & set(sys.modules)), 'loaded', file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "COLUMNS": "300"}, capture_output=True, encoding="utf-8", check=True,
    )  # fmt: skip
    assert done.stderr.split() == ["loaded"]
    printed = " ".join(done.stdout.replace("│", " ").split())
    # A word that is no statistic is refused with the registry's own list of them.
    with pytest.raises(md.InvalidParameter) as refused:
        md.private_release(
            [1.0], "no statistic", lower=0, upper=1, epsilon=1, delta=1e-5, columns=("a",)
        )
    listed = str(refused.value).partition("must be one of ")[2].partition(", and may end")[0]
    assert len(listed.split(", ")) >= 16
    for name in listed.split(", "):
        assert name in printed
