"""Epochs on the command line."""

from __future__ import annotations

import pytest

from tests.cli.running import Run, answer

pytestmark = pytest.mark.usefixtures("remembered_accounts")

SHUFFLE = "--scheme shuffle -n 10000 -m 100 --noise-multiplier 1 --delta 1e-6"


def test_account_of_ten_epochs(run: Run) -> None:
    line = "account --scheme allocation -n 60000 --epochs 10 --noise-multiplier 1 --delta 1e-5"
    found = answer(run, f"{line} --bins 234")
    assert found["relation"] == "add-remove"
    assert (found["steps"], found["epochs"], found["shift"]) == (2340, 10, 1.0)
    assert 1.046 < found["epsilon"]["lower"] <= found["epsilon"]["upper"] < 1.049
    assert answer(run, f"{line} -m 257")["epsilon"] == found["epsilon"]


def test_a_record_in_several_bins(run: Run) -> None:
    line = "--scheme allocation -n 1000 --noise-multiplier 2 --epochs 2 --times 3"
    found = answer(run, f"account {line} --bins 30 --delta 1e-5")
    assert (found["times"], found["steps"], found["expected_distinct"]) == (3, 60, 100)
    once = answer(run, f"account {line[:-2]} 1 --bins 30 --delta 1e-5")
    assert "times" not in once
    assert once["epsilon"]["upper"] < found["epsilon"]["lower"]
    # -m is the size of a batch, whatever the number of bins that a record is in.
    assert answer(run, f"account {line} -m 100 --delta 1e-5")["epsilon"] == found["epsilon"]
    words = run("account", *line.split(), "--bins", "30", "--delta", "1e-5").out
    assert "1000 records, each to 3 of 30 batches of about 100" in words
    batches = answer(run, "draw --scheme allocation -n 20 --bins 5 --times 2")["batches"]
    assert sorted(i for batch in batches for i in batch) == sorted([*range(20), *range(20)])


def test_shuffling_says_that_it_is_not_poisson(run: Run) -> None:
    found = answer(run, f"account {SHUFFLE} --epochs 1 --relation add-remove")
    assert found["poisson"]["factor_attained"] > 4
    assert found["epsilon"]["lower"] > 4 * found["poisson"]["epsilon_promised"]
    words = run("account", *SHUFFLE.split(), "--epochs", "1").out
    assert "shuffling is not Poisson sampling" in words


def test_calibrate_and_draw(run: Run) -> None:
    found = answer(
        run, "calibrate --scheme shuffle -n 20 -m 10 --epochs 2 --epsilon 2 --delta 1e-5"
    )
    assert found["epsilon"]["upper"] <= 2
    batches = answer(run, "draw --scheme allocation -n 20 --bins 3")["batches"]
    assert len(batches) == 3
    assert sorted(record for batch in batches for record in batch) == list(range(20))


@pytest.mark.parametrize(
    ("line", "names"),
    [
        ("account --scheme wor -n 9 -m 3 --epochs 2 --shift 1 --delta 1e-5", "--epochs 2"),
        ("account --scheme wor -n 9 -m 3 --bins 2 --shift 1 --steps 2 --delta 1e-5", "--bins 2"),
        ("account --scheme wor -n 9 -m 3 --times 2 --shift 1 --steps 2 --delta 1e-5", "--times 2"),
        (f"account {SHUFFLE} --times 2", "--times 2 does not fit --scheme shuffle"),
        ("draw --scheme allocation -n 9 --bins 3 --times 4", "--times must be an integer from 1"),
        (f"account {SHUFFLE}", "--epochs is missing"),
        (f"account {SHUFFLE} --epochs 2 --steps 3", "--steps 3"),
        ("draw --scheme allocation -n 9", "--bins"),
        ("draw --scheme allocation -n 9 -m 3 --bins 3", "--bins"),
        ("amplify --scheme allocation -n 9 --shift 1 --epsilon 1", "--scheme allocation"),
        ("calibrate --scheme allocation -n 9 --bins 3 --solve-for steps --shift 1 --epsilon 1 "
         "--delta 1e-5", "--bins 3"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused(run: Run, line: str, names: str) -> None:
    outcome = run(*line.split())
    assert (outcome.status, outcome.out) == (2, "")
    assert names in outcome.err
    assert outcome.err.count("\n") == 1
