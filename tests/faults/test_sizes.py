"""Work that would not end or not fit is refused in seconds, with the number; what fits is not."""

from __future__ import annotations

import time
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import mustdp as md
from mustdp.accounting.subsampling import one_step
from mustdp.accounting.subsampling.one_step import TAIL, certificate_cost
from mustdp.numerics import checks as cost
from mustdp.numerics.checks import WorkEstimate, check_cost, memory
from tests.cli.running import check_refused, runner


def estimate(scheme: md.types.Multistage) -> WorkEstimate:
    return certificate_cost(scheme.n, scheme.reduced, TAIL)


def test_forty_stages_are_refused_before_anything_is_certified(
    capsys: pytest.CaptureFixture[str],
) -> None:
    scheme = md.multistage(1000, [("wr", 1000)] * 40)
    begun = time.monotonic()
    plan = md.repeat(10, md.subsample(scheme, md.gaussian(noise_multiplier=10.0)))
    with pytest.raises(
        md.InvalidParameter, match=r"stages must be fewer or smaller.*minutes and \d+ GB$"
    ):
        md.account(plan).epsilon(delta=1e-5)
    stages = ",".join(["wr:1000"] * 40)
    line = f"account -n 1000 --stages {stages} --steps 10 --noise-multiplier 10 --delta 1e-5"
    check_refused(runner(capsys)(*line.split()), "stages", "minutes")
    assert time.monotonic() - begun < 60


@pytest.mark.parametrize(
    "scheme",
    [
        md.must_ow(60_000, 1000, 256),
        md.must_ww(1000, 1000, 1000),
        md.must_ww(50, 10_000, 10_000),
        md.multistage(1000, [("wr", 1000)] * 4),
        md.multistage(40_000, [("wor", 900), ("wr", 700), ("wr", 500)]),
    ],
    ids=str,
)
def test_what_ends_is_not_refused(scheme: md.types.Multistage) -> None:
    check_cost("stages", "a certificate", estimate(scheme))


def test_more_stages_cost_more() -> None:
    costs = [estimate(md.multistage(1000, [("wr", 1000)] * k)) for k in range(1, 12)]
    assert all(a.seconds < b.seconds for a, b in pairwise(costs))
    assert costs[0].seconds < 1.0 < 1000.0 < costs[-1].seconds


@pytest.mark.parametrize(
    ("noise", "finite"), [(10.0, False), pytest.param(1e5, True, marks=pytest.mark.slow)]
)
def test_two_wide_stages_are_answered_in_seconds(noise: float, finite: bool) -> None:
    """Minutes, if the first one told all multiplicities apart."""
    scheme = md.must_ww(50, 10_000, 10_000)
    assert one_step.outer_groups(scheme.n, scheme.reduced, TAIL) == 64
    begun = time.process_time()
    plan = md.repeat(10**9, md.subsample(scheme, md.gaussian(noise_multiplier=noise)))
    bounds = md.account(plan).epsilon(1e-5)
    assert bounds.lower <= bounds.upper
    assert (bounds.upper < 1.05 * bounds.lower) if finite else bounds.upper == float("inf")
    assert time.process_time() - begun < (60 if finite else 10)


def test_fewer_multiplicities_are_looser_and_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    scheme, noise = md.must_ww(10, 300, 300), md.gaussian(noise_multiplier=1000.0)
    fine = md.one_step(scheme, noise, [0.05, 0.2])
    few = certificate_cost(scheme.n, scheme.reduced, TAIL, 64).seconds
    monkeypatch.setattr(one_step, "_SOON", few)
    assert one_step.outer_groups(scheme.n, scheme.reduced, TAIL) == 64
    coarse = md.one_step(scheme, noise, [0.05, 0.2])
    for attained, tight, loose in zip(fine.lower, fine.upper, coarse.upper, strict=True):
        assert attained <= tight < loose < 1.5 * tight


def regress(columns: int, **options: Any) -> md.types.BootstrapResult:
    return md.private_bootstrap(
        np.zeros((50, columns)), "regression", lower=0, upper=1, design=md.wor(50, 10),
        noise_multiplier=1e4, delta=1e-5, **{"replicates": 100, **options},
    )  # fmt: skip


def test_a_regression_on_ten_thousand_columns_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cost, "memory", lambda: 16e9)
    with pytest.raises(md.InvalidParameter, match=r"50014999 numbers.*got one of .* GB"):
        regress(10_000, replicates=4)
    monkeypatch.setattr(cost, "memory", lambda: 0.4e9)
    with pytest.raises(md.InvalidParameter, match=r"replicates must be fewer .* 1000000 x 8 "):
        regress(3, replicates=1_000_000)


@pytest.mark.parametrize("statistic", ["regression", "covariance", "correlation"])
def test_a_release_of_ten_thousand_columns_is_refused_before_it_is_charged(statistic: str) -> None:
    names = [f"c{k}" for k in range(10_000)]
    begun = time.process_time()
    with pytest.raises(
        md.InvalidParameter,
        match=rf"columns must be fewer.* {statistic} of 10000 columns .* minutes",
    ):
        md.private_release(
            "nowhere.csv", statistic, columns=names, lower=0, upper=1, noise_multiplier=1e4,
            delta=1e-5,
        )  # fmt: skip
    assert time.process_time() - begun < 10


@pytest.mark.parametrize(("statistic", "columns"), [("regression", 60), ("covariance", 100)])
def test_a_release_that_ends_is_not_refused(statistic: str, columns: int) -> None:
    with pytest.raises(md.InvalidParameter, match="an existing file"):  # all else was in order
        md.private_release(
            "nowhere.csv", statistic, columns=[f"c{k}" for k in range(columns)], lower=0, upper=1,
            noise_multiplier=1e4, delta=1e-5,
        )  # fmt: skip


def test_the_memory_is_that_of_the_machine_or_container(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    assert memory() > 1e8
    limit = tmp_path / "memory.max"
    monkeypatch.setattr(cost, "_CONTAINER", limit)
    whole = memory()
    for text, expected in (("max\n", whole), ("50000000\n", 5e7)):
        limit.write_text(text)
        assert memory() == expected
    with pytest.raises(md.InvalidParameter, match="must be fewer or smaller"):
        check_cost("n", "nothing", WorkEstimate(seconds=float("nan")))
