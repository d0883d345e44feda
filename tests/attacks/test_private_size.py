"""Under add_remove the number of records is private: nothing that is printed may tell it.

Poisson subsets once came with the exact n in every result, and a wrong ``-n`` was refused with the
right one. Data with one record added or removed now give the same words, up to numbers with noise.
"""

from __future__ import annotations

import json
import re
import shlex
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mustdp as md
from tests.cli.running import Run, runner
from tests.seams import work_in_small_portions

STATED = 1000
AGES = np.random.default_rng(3).uniform(20, 80, 3 * STATED)
#: What has noise: estimates, their errors, intervals and the share of the noise in them.
NOISY = {"estimate", "standard_error", "interval", "noise_share"}


def released(records: int, **given: Any) -> md.types.BootstrapResult:
    settings: dict[str, Any] = {
        "lower": 0, "upper": 100, "design": md.poisson(STATED, 0.2), "replicates": 40,
        "noise_multiplier": 0.5, "delta": 1e-6,
    }  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return md.private_bootstrap(AGES[:records], "mean", **{**settings, **given})


def without_noisy(data: Any) -> Any:
    """The same without the numbers that have noise."""
    if isinstance(data, dict):
        return {key: without_noisy(value) for key, value in data.items() if key not in NOISY}
    return [without_noisy(one) for one in data] if isinstance(data, list) else data


def words(text: str) -> str:
    """A text without the row of the estimate, whose numbers also decide how wide columns are."""
    rest = re.sub(r"^ *mean .*$", "mean", text, flags=re.MULTILINE)
    return re.sub(" +", " ", rest)


@pytest.mark.parametrize("seed", [None, 5])
def test_results_do_not_depend_on_the_number_of_records(seed: int | None) -> None:
    found = [released(records, seed=seed) for records in (1013, 1012, 811)]
    for one in found:
        assert without_noisy(one.as_dict()) == without_noisy(found[0].as_dict())
        assert words(str(one)) == words(str(found[0]))
        assert (one.design, one.privacy) == (found[0].design, found[0].privacy)
        for number in ("1013", "1012", "811"):
            assert number not in words(str(one)) + json.dumps(without_noisy(one.as_dict()))
        assert one.replicates.shape == found[0].replicates.shape
    if seed is not None:  # the records differ, and that is all that differs
        assert not np.array_equal(found[0].replicates, found[2].replicates)


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    return runner(capsys)


ASKED = shlex.split(
    "--column age --lower 0 --upper 100 --design poisson --rate 0.2 --replicates 40 "
    "--noise-multiplier 0.5 --delta 1e-6"
)


def written(folder: Path, records: int) -> Path:
    path = folder / "ages.csv"
    path.write_text("age\n" + "\n".join(map(str, AGES[:records])) + "\n")
    return path


def test_the_command_line_does_not_depend_on_it(run: Run, tmp_path: Path) -> None:
    texts, data = [], []
    for records in (1013, 1012):
        path = written(tmp_path, records)
        plain = run("bootstrap", path, "-n", STATED, *ASKED)
        assert (plain.status, plain.err) == (0, "")
        texts.append(words(plain.out))
        data.append(run("bootstrap", path, "-n", STATED, *ASKED, "--json").out)
    assert texts[0] == texts[1]
    assert f"poisson of {STATED} records" in texts[0]
    first, second = (without_noisy(json.loads(one)) for one in data)
    assert first == second


@pytest.mark.parametrize("records", [600, 999, 1001, 1999])
def test_a_wrong_estimate_is_not_refused(records: int, run: Run, tmp_path: Path) -> None:
    assert released(records).design.n == STATED
    outcome = run("bootstrap", written(tmp_path, records), "-n", STATED, *ASKED)
    assert (outcome.status, outcome.err) == (0, "")
    assert str(records) not in words(outcome.out)


def test_the_number_is_never_taken_from_the_file(run: Run, tmp_path: Path) -> None:
    outcome = run("bootstrap", written(tmp_path, 777), *ASKED)
    assert (outcome.status, outcome.out) == (2, "")
    assert "-n is missing: under add-remove the number of records is private" in outcome.err
    assert "777" not in outcome.err


def test_an_estimate_far_off_is_refused_without_the_number() -> None:
    with pytest.raises(md.InvalidParameter, match="at least half") as caught:
        released(2 * STATED + 1)
    assert "2001" not in str(caught.value)


def test_progress_does_not_depend_on_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Work is cut by the stated number; it was cut by the true one, as bars then showed."""
    work_in_small_portions(monkeypatch)
    heard: dict[int, list[tuple[int, int]]] = {}
    for records in (1013, 811):
        heard[records] = []
        released(records, progress=lambda *done, to=heard[records]: to.append(done))
    assert heard[1013] == heard[811]
    assert len(heard[1013]) > 5
