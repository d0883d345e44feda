"""A delta above one in the number of records is warned of, and a private number never tells."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mustdp as md
from tests.cli.running import Run, runner
from tests.seams import warn_of_large_delta

N = 50
ABOVE, AT = 0.021, 0.02
X = np.linspace(0.0, 1.0, N)


def release(delta: float, **more: Any) -> None:
    md.private_release(X, lower=0, upper=1, noise_multiplier=1.0, delta=delta, **more)


def bootstrap(delta: float) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", md.types.InferenceNote)
        md.private_bootstrap(
            X, "mean", lower=0, upper=1, design=md.wor(N, 20), replicates=6,
            noise_multiplier=3.0, delta=delta,
        )  # fmt: skip


def settle(delta: float) -> None:
    md.calibrated_budget(md.wor(N, 10), steps=2, noise_multiplier=2.0, delta=delta)


def estimator(delta: float) -> None:
    model = md.DPLinearRegression(
        scheme="wor", m=10, steps=2, noise_multiplier=2.0, delta=delta, learning_rate=0.1
    )
    model.fit(X[:, None], X)


CALLS: list[Callable[[float], None]] = [release, bootstrap, settle, estimator]


@pytest.mark.parametrize("call", CALLS)
def test_a_delta_above_one_in_n_warns(call: Callable[[float], None]) -> None:
    with pytest.warns(md.types.LargeDelta, match="0.021 is above one in the number of records, 50"):
        call(ABOVE)
    with warnings.catch_warnings():
        warnings.simplefilter("error", md.types.LargeDelta)
        call(AT)


def test_the_warning_names_the_callers_line() -> None:
    for call in CALLS:
        with pytest.warns(md.types.LargeDelta) as caught:
            call(ABOVE)
        assert {Path(one.filename).name for one in caught} <= {Path(__file__).name}


@pytest.mark.parametrize("n", [0, 1])
def test_one_record_is_no_number_to_compare_with(n: int) -> None:
    warn_of_large_delta(0.9, n)


def test_a_private_number_of_records_is_not_told_by_a_warning() -> None:
    """Under add_remove, and where clusters are the units, the number read decides nothing."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", md.types.InferenceNote)
        release(ABOVE, relation="add_remove")
        md.private_bootstrap(
            X, "mean", lower=0, upper=1, design=md.poisson(40, 0.5), replicates=6,
            noise_multiplier=3.0, delta=ABOVE,
        )  # fmt: skip


@pytest.mark.filterwarnings("error")
def test_a_warning_that_is_an_error_charges_nothing(tmp_path: Path) -> None:
    with md.Ledger.open(tmp_path / "ledger", epsilon=9, delta=0.05, data="x") as ledger:
        with pytest.raises(md.types.LargeDelta):
            release(ABOVE, ledger=ledger)
        assert not ledger.entries()


@pytest.fixture(name="run")
def running(capsys: pytest.CaptureFixture[str]) -> Run:
    return runner(capsys)


LINES = {
    "account": "account --scheme wor -n 50 -m 10 --noise-multiplier 3 --steps 2 --delta {}",
    "calibrate": "calibrate --scheme wor -n 50 -m 10 --epsilon 1 --steps 2 --delta {}",
    "compare": "compare -n 50 -b 20 -m 10 --steps 2 --epsilon 1 --delta {}",
    "release": "release FILE --lower 0 --upper 1 --epsilon 1 --delta {}",
    "bootstrap": "bootstrap FILE --lower 0 --upper 1 --design subsampling -m 20 --replicates 6 "
    "--epsilon 1 --delta {}",
}


@pytest.mark.parametrize("line", LINES.values(), ids=LINES)
def test_the_command_line_says_it_once(run: Run, line: str, tmp_path: Path) -> None:
    data = tmp_path / "x.csv"
    data.write_text("x\n" + "\n".join(map(repr, X.tolist())) + "\n", encoding="utf-8")
    words = line.replace("FILE", f"{data} --column x")
    said = run(*words.format(ABOVE).split(), "--json")
    assert said.status == 0
    [warning] = json.loads(said.out)["warnings"]
    assert said.err == f"mustdp: warning: {warning}\n"
    assert "delta 0.021 is above one in the number of records, 50" in warning
    silent = run(*words.format(AT).split(), "--json")
    assert "warnings" not in json.loads(silent.out)
    assert silent.err == ""
