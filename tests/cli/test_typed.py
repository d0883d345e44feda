"""Options with a type: read once, given once, refused with a reason, and nothing heavy at start."""

from __future__ import annotations

import shlex
import subprocess
import sys

import pytest

from mustdp.cli.options import usual_delta
from mustdp.cli.parameters import Panel, as_typed
from tests.cli.running import Run, answer, check_refused

WOR = "--scheme wor -n 100 -m 10"
HEAVY = {"numpy", "scipy", "torch", "matplotlib", "sklearn", "joblib", "pyarrow"}


@pytest.mark.parametrize(
    ("line", "named"),
    [
        (f"draw {WOR} -n 90", ("-n must be given once", "got 100 and 90")),
        (f"draw {WOR} --scheme wr", ("--scheme must be given once", "wor and wr")),
        (f"draw {WOR} --seed 1 --seed 1", ("--seed must be given once", "1 and 1")),
        (
            "draw -n 9 --stages wor:5,wr:3 --stages wr:2",
            ("--stages must be given once", "wor:5,wr:3 and wr:2"),
        ),
        (
            f"account {WOR} --shift 1 --epsilon 1 --steps 2 --steps 3",
            ("--steps must be given once", "2 and 3"),
        ),
        (
            f"account {WOR} --shift 1 --epsilon 1 --steps 2 --relation add-remove "
            "--relation replace-one",
            ("--relation must be given once",),
        ),
        (
            "compare -n 9 -b 4 -m 2 --steps 1 --delta 0.1 --noise-multiplier 1 "
            "--noise-multiplier 2.5",
            ("--noise-multiplier must be given once", "1 and 2.5"),
        ),
    ],
)
def test_a_second_value_does_not_replace_the_first(
    run: Run, line: str, named: tuple[str, ...]
) -> None:
    check_refused(run(*shlex.split(line)), *named)


def test_an_option_may_repeat_its_default(run: Run) -> None:
    line = f"calibrate {WOR} --steps 2 --epsilon 1 --delta 1e-3"
    assert answer(run, line) == answer(run, f"{line} --mechanism gaussian --solve-for noise")


@pytest.mark.parametrize(
    ("given", "meant"),
    [("mustow", "must-ow"), ("Wor", "wor"), ("MUST-WW", "must-ww"), ("poison", "poisson")],
)
def test_a_near_miss_is_pointed_out(run: Run, given: str, meant: str) -> None:
    outcome = run("draw", "--scheme", given, "-n", "10", "-m", "2")
    check_refused(outcome, "--scheme must be one of poisson, wor", f"'{given}'")
    assert outcome.err.endswith(f"(did you mean {meant}?)\n")


def test_nothing_is_suggested_for_what_is_like_nothing(run: Run) -> None:
    outcome = run("draw", "--scheme", "xyz", "-n", "10", "-m", "2")
    check_refused(outcome, "'xyz'")
    assert "did you mean" not in outcome.err


@pytest.mark.parametrize(
    "line",
    [
        f"calibrate {WOR} --steps 2 --delta 0.1",
        "compare -n 9 -b 4 -m 2 --steps 1 --delta 0.1",
        "train digits --scheme wor -m 5 --steps 5 --delta 0.1",
    ],
)
@pytest.mark.parametrize("zero", ["0", "0.0", "-0.0", "0e5"])
def test_a_target_of_0_is_refused_with_the_reason(run: Run, line: str, zero: str) -> None:
    outcome = run(*shlex.split(line), "--epsilon", zero)
    check_refused(outcome, "--epsilon must be a finite number > 0", "a fraction of itself", "got 0")


LINES = {
    "calibrate": "calibrate --scheme wor -m 10 --steps 2 --epsilon 1",
    "compare": "compare -b 4 -m 2 --steps 1 --epsilon 1",
    "report": "report -b 4 -m 2 --steps 1 --noise-multiplier 1",
    "train": "train mnist --data /nowhere --scheme wor -m 5 --steps 5 --epsilon 1",
    "bootstrap": "bootstrap /nowhere.csv --lower 0 --upper 1 --scheme wr -m 5 --replicates 9 "
    "--noise-multiplier 1",
}


@pytest.mark.parametrize("command", LINES)
def test_a_missing_delta_is_refused_before_any_work(run: Run, command: str) -> None:
    outcome = run(*shlex.split(LINES[command]), "-n", "3000")
    check_refused(outcome, "--delta is missing", "well below 1/n", "1e-5 is usual for n = 3000")


@pytest.mark.parametrize("command", ["train", "bootstrap"])
def test_a_delta_is_recommended_where_n_is_not_known_yet(run: Run, command: str) -> None:
    outcome = run(*shlex.split(LINES[command]))
    check_refused(outcome, "--delta is missing", "1e-5 is usual for n = 10000")


@pytest.mark.parametrize("n", [1, 2, 9, 10, 11, 999, 1000, 1001, 60_000, 2**53])
def test_the_usual_delta_is_a_tenth_of_1_over_n_at_most(n: int) -> None:
    delta = usual_delta(n)
    exponent = int(delta.removeprefix("1e-"))
    assert 10 * n <= 10**exponent < 100 * n  # in integers: no rounding decides


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.1, "0.1"), (1e-9, "1e-09"), (2.0, "2"), (7, "7"), ("x" * 50, "x" * 37 + "...")],
)
def test_values_are_shown_as_they_are_typed(value: object, text: str) -> None:
    assert as_typed(value) == text


def test_options_are_declared_by_the_lines_of_the_help() -> None:
    panel = Panel(
        "Files",
        """
        --out FILE  Where to, with
                    -n or --resume.
        --resume    Go on.
        """,
    )
    out, resume = panel("--out"), panel("--resume")
    assert (out.metavar, out.help) == ("FILE", "Where to, with -n or --resume.")
    assert (resume.metavar, resume.help) == (None, "Go on.")
    assert out.rich_help_panel == resume.rich_help_panel == "Files"
    with pytest.raises(KeyError):
        panel("--save")


def modules_after(*lines: str) -> set[str]:
    """The modules that a process of its own has loaded after these commands."""
    code = "\n".join(
        [
            "import sys",
            "from mustdp.cli.main import main",
            *(f"main({shlex.split(line)!r})" for line in lines),
            "print('modules:', *sys.modules)",
        ]
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.rpartition("modules:")[2].split())


def test_help_loads_nothing_heavy() -> None:
    """But for that of bootstrap, release and plan, which asks the statistics what they are."""
    commands = ("account", "calibrate", "compare", "report", "amplify", "draw", "train")
    lines = [f"{name} --help" for name in (*commands, "conformance", "reproduce")]
    assert not HEAVY & modules_after("--version", "--help", *lines)


def test_a_wrong_scheme_is_refused_before_torch_is_loaded() -> None:
    pytest.importorskip("sklearn")
    run = "train digits --steps 5 --epsilon 1 --delta 1e-5 --model mlp"
    loaded = modules_after(
        f"{run} --scheme mustow -b 9 -m 5",
        f"{run} --scheme must-ow -m 5",
        f"{run} --scheme wor -m 5000",
        f"{run} --scheme wor -m 5 -n 7",
    )
    assert "sklearn" in loaded  # the number of records is known by then
    assert "torch" not in loaded
