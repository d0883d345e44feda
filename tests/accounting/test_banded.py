"""Banded noise: the plan of one group against the law of all that is released."""

from __future__ import annotations

import itertools
import json
import math
from pathlib import Path

import numpy as np
import pytest

import mustdp as md
from tests.cli.running import answer, check_refused, runner
from tests.seams import describe, plan_from_description

STRATEGY = np.array(
    [
        [0.8, 0.0, 0.0, 0.0],
        [0.6, 0.8, 0.0, 0.0],
        [0.0, 0.6, 0.8, 0.0],
        [0.0, 0.0, 0.6, 1.0],
    ]
)  # fmt: skip
ROUND = md.subsample(md.poisson(50, 0.3), md.gaussian(noise_multiplier=1.5))


def test_everything_that_is_released_lies_between_the_bounds() -> None:
    """Four steps, two groups: delta of all four rows together, by Monte Carlo over 400,000 runs.

    Later contributions of other records follow what was released before, which both sides know, so
    that they can be taken off; the record takes part in steps 1 and 3.
    """
    z, rate, rng, runs = 1.5, 0.3, np.random.default_rng(11), 400_000
    account = md.account(md.banded(md.repeat(2, ROUND), bands=2, strategy=STRATEGY))
    coins = list(itertools.product((0, 1), repeat=2))
    chances = np.array([math.prod(rate if c else 1 - rate for c in two) for two in coins])
    means = np.array([STRATEGY @ np.array([two[0], 0, two[1], 0]) for two in coins])

    def loss(y: np.ndarray) -> np.ndarray:
        logs = np.stack([(y @ mean - 0.5 * mean @ mean) / z**2 for mean in means], axis=1)
        return np.asarray(np.log(np.exp(logs) @ chances))

    which = rng.choice(len(coins), runs, p=chances)
    with_record = loss(means[which] + z * rng.normal(size=(runs, 4)))
    for epsilon in (0.1, 0.4, 0.8):
        gains = np.maximum(-np.expm1(epsilon - with_record), 0.0)
        exact, error = float(gains.mean()), float(gains.std()) / math.sqrt(runs)
        found = account.delta(epsilon)
        assert found.lower <= exact + 5 * error
        assert exact - 5 * error <= found.upper
        # Columns of norm 1 in both rounds: the bounds are exact, and a norm of 0.8 is refuted.
        assert found.upper <= exact + 5 * error + 1e-3 * exact
        small = md.account(md.banded(md.repeat(2, ROUND), bands=2, strategy=0.8 * STRATEGY))
        assert small.delta(epsilon).upper < exact - 5 * error


def test_column_norms_are_sensitivities() -> None:
    plan = md.banded(md.repeat(10, ROUND), bands=2, strategy=2.0 * STRATEGY)
    assert plan.column_norm == pytest.approx(2.0)
    stronger = md.subsample(md.poisson(50, 0.3), md.gaussian(noise_multiplier=0.75))
    found, same = (md.account(one).epsilon(1e-5) for one in (plan, md.repeat(10, stronger)))
    assert found.upper == pytest.approx(same.upper, rel=1e-6)
    shifted = md.banded(md.repeat(3, md.gaussian(shift=0.2)), bands=2, strategy=2.0 * STRATEGY)
    exact = md.account(md.gaussian(shift=0.4 * math.sqrt(3))).epsilon(1e-5)
    assert md.account(shifted).epsilon(1e-5).upper == pytest.approx(exact.upper, rel=2e-3)
    assert md.account(plan).steps == 10


def test_column_norms_count_in_batches_that_hold_all_records() -> None:
    """An epoch of one batch is that batch, and its noise is as small for its columns."""
    noise = md.gaussian(noise_multiplier=2.0)
    whole = md.subsample(md.random_allocation(10, 1), noise)
    found, expected = (
        md.account(md.banded(md.repeat(5, one), 1, strategy=3.0 * np.eye(2)), relation="add_remove")
        for one in (whole, noise)
    )
    assert found.epsilon(1e-5).upper == expected.epsilon(1e-5).upper


def test_written_and_charged(tmp_path: Path) -> None:
    plan = md.banded(md.repeat(8, ROUND), bands=3)
    assert plan_from_description(json.loads(json.dumps(describe(plan)))) == plan
    assert "3 groups in turn" in repr(md.account(plan))
    with md.Ledger.open(tmp_path / "l", epsilon=20.0, delta=1e-5, relation="add_remove") as ledger:
        ledger.charge(plan)
        assert [entry.plan for entry in ledger.entries()] == [plan]
    found = md.calibration.calibrate_plan(
        lambda noise: md.banded(md.repeat(8, md.subsample(md.poisson(50, 0.3), noise)), bands=3),
        epsilon=1.0, delta=1e-5,
    )  # fmt: skip
    assert 0.98 < found.epsilon.upper <= 1.0


@pytest.mark.parametrize(
    ("strategy", "named"),
    [
        (np.eye(3)[:2], "strategy"),
        (np.full((3, 3), math.nan), "strategy"),
        (np.tril(np.ones((4, 4))), "bands"),
        (np.triu(np.ones((2, 2))), "strategy"),
    ],
)
def test_bad_matrices_are_refused(strategy: np.ndarray, named: str) -> None:
    with pytest.raises(md.InvalidParameter, match=named):
        md.banded(ROUND, bands=2, strategy=strategy)


def test_what_is_not_covered() -> None:
    reused = md.subsample(md.wor(20, 5), md.repeat(2, md.gaussian(shift=1.0)))
    for plan in (
        md.laplace(shift=1.0),
        reused,
        md.subsample(md.shuffle(20, 5), md.gaussian(shift=1.0)),
    ):
        with pytest.raises(md.NotCovered):
            md.banded(plan, bands=2)
    with pytest.raises(md.NotCovered):
        md.subsample(md.wor(100, 50), md.banded(md.gaussian(shift=1.0), bands=2))
    with pytest.raises(md.InvalidParameter, match="bands"):
        md.banded(ROUND, bands=0)


def test_the_command_answers_as_python_does(capsys: pytest.CaptureFixture[str]) -> None:
    run = runner(capsys)
    line = "account --scheme poisson -n 50 --rate 0.3 --noise-multiplier 1.5 --steps 9 --delta 1e-4"
    given = answer(run, f"{line} --bands 2 --column-norm 1")
    found = md.account(md.banded(md.repeat(5, ROUND), bands=2)).epsilon(1e-4)
    assert given["epsilon"] == {"lower": found.lower, "upper": found.upper}
    assert (given["bands"], given["steps"]) == (2, 9)
    check_refused(run(*f"{line} --column-norm 2".split()), "--bands")
    check_refused(run(*f"{line} --bands 2 --reuse 3".split()), "--bands")


def test_several_records_of_one_person_are_refused() -> None:
    """They may be in groups that take turns, which no bound here is about."""
    step = md.subsample(md.poisson(250, 0.04), md.gaussian(noise_multiplier=2.0))
    plan = md.banded(md.repeat(25, step), bands=4)
    for one in (plan, md.repeat(2, plan), md.select_best(plan, 3)):
        with pytest.raises(md.NotCovered, match="group must be 1 with banded noise"):
            md.account(one, group=2)
