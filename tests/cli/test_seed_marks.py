"""Every file that a run with --seed writes says that it is an experiment."""

from __future__ import annotations

import csv
import json
import pickle
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mustdp as md
from tests.cli.running import PROGRAM, Run

#: What every file, picture and page of a seeded run says of itself.
SEEDED = "made with a seed: an experiment, not a private release"

COMMANDS = {
    "release": "--statistic mean --statistic sd --epsilon 1 --delta 1e-6",
    "bootstrap": "--design subsampling -m 50 --replicates 8 --epsilon 1 --delta 1e-6",
    "audit": "",
}


@pytest.fixture
def people(tmp_path: Path) -> Path:
    path = tmp_path / "people.csv"
    values = np.random.default_rng(0).uniform(20, 80, 500)
    path.write_text("age\n" + "\n".join(map(repr, values.tolist())) + "\n", encoding="utf-8")
    return path


def written_by(command: str) -> list[str]:
    """The options of a command that name a file to write; a ledger is refused with a seed."""
    found = PROGRAM
    options = found.commands[command].params
    names = [one.opts[0] for one in options if one.metavar and "FILE" in one.metavar]
    return [name for name in names if name.startswith("--") and name != "--ledger"]


def test_the_files_of_all_commands_are_known_here() -> None:
    """A new option that writes a file has to be looked at below."""
    found = {command: sorted(written_by(command)) for command in COMMANDS}
    files = ["--csv", "--latex", "--report"]
    assert found == {"release": files, "bootstrap": files, "audit": []}


@pytest.mark.parametrize("command", ["release", "bootstrap"])
@pytest.mark.parametrize("seed", [(), ("--seed", 1)], ids=["secret", "seeded"])
def test_every_file_of_a_seeded_run_says_so(
    run: Run, people: Path, tmp_path: Path, seed: tuple[object, ...], command: str
) -> None:
    files = {name: tmp_path / f"out{name}" for name in written_by(command)}
    given = [part for name, path in files.items() for part in (name, path)]
    outcome = run(
        command, people, "--column", "age", "--lower", 0, "--upper", 100,
        *COMMANDS[command].split(), *given, *seed, "--json",
    )  # fmt: skip
    assert outcome.status == 0, outcome.err
    texts = {name: path.read_text(encoding="utf-8") for name, path in files.items()}
    marked = {name for name, text in texts.items() if "seed" in text}
    assert marked == (set(files) if seed else set())
    assert json.loads(outcome.out)["privacy"].get("seeded", False) == bool(seed)
    if seed:
        rows = list(csv.DictReader(texts["--csv"].splitlines()))
        assert all(row["flags"].startswith(SEEDED) for row in rows)
        assert SEEDED in texts["--latex"]
        assert "Nothing here is private" in texts["--report"]


def test_a_seeded_bootstrap_says_so_in_json_and_in_text(run: Run, people: Path) -> None:
    line = (
        "bootstrap", people, "--column", "age", "--lower", 0, "--upper", 100,
        *COMMANDS["bootstrap"].split(), "--seed", 1,
    )  # fmt: skip
    assert "experiment with a seed" in run(*line).out.splitlines()[0]
    found = json.loads(run(*line, "--json").out)
    assert found["privacy"]["seeded"] is True
    assert "epsilon" not in found["privacy"]


@pytest.mark.parametrize("seed", [None, 1])
def test_pictures_and_stored_results_say_so(seed: int | None) -> None:
    ages = np.random.default_rng(0).uniform(20, 80, 400)
    common: dict[str, Any] = {"lower": 0, "upper": 100, "delta": 1e-6, "seed": seed}
    results: list[Any] = []
    if seed is None:
        results += _both(ages, common)
    else:
        with pytest.warns(md.types.SeededRelease):
            results += _both(ages, common)
    for result in results:
        title = result.plot().get_title()
        assert title == ("" if seed is None else SEEDED)
        stored = pickle.loads(pickle.dumps(result))
        assert stored.privacy.seeded == (seed is not None)
        assert bool(re.search(r"\bseed", str(stored))) == (seed is not None)
        said = json.dumps(stored.as_dict())
        assert ('"seeded": true' in said) == (seed is not None)


def _both(ages: Any, common: dict[str, Any]) -> list[Any]:
    return [
        md.private_release(ages, "mean", noise_multiplier=5.0, **common),
        md.private_bootstrap(
            ages, "mean", design=md.wor(400, 100), replicates=50, noise_multiplier=9.0, **common
        ),
    ]
