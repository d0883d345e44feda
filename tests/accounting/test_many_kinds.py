"""Schedules of very many different noises: joined where they hardly differ, on the safe side."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import mustdp as md
from tests.seams import join_noises_beyond


def schedule(scheme: Any, count: int, most: float = 4.0) -> md.types.Plan:
    noises = np.geomspace(2.0, most, count)
    return md.sequence(
        *(md.subsample(scheme, md.gaussian(noise_multiplier=float(z))) for z in noises)
    )


@pytest.mark.parametrize(
    "scheme", [md.poisson(2000, 0.02), md.wor(2000, 40)], ids=["poisson", "wor"]
)
def test_joined_bounds_enclose_the_exact_ones(scheme: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = schedule(scheme, 60)
    exact = md.account(plan).epsilon(1e-5)
    join_noises_beyond(monkeypatch, 20)
    joined = md.account(plan).epsilon(1e-5)
    assert joined.lower < exact.lower  # and so they were joined
    assert exact.upper < joined.upper < 1.05 * exact.upper
    assert joined.lower > 0.95 * exact.lower
    strict = md.account(plan, accuracy=0.1).epsilon(1e-5)
    assert strict.upper == pytest.approx(exact.upper, rel=0.05)


def test_moments_of_joined_steps_are_not_smaller(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = schedule(md.poisson(2000, 0.02), 60)
    exact = md.account(plan).renyi([2.0, 8.0])
    join_noises_beyond(monkeypatch, 20)
    joined = md.account(plan).renyi([2.0, 8.0])
    assert np.all(joined.upper >= exact.lower)
    assert np.all(joined.lower <= exact.upper)
    assert np.all(joined.upper <= 1.1 * exact.upper)


def test_two_thousand_noises() -> None:
    plan = schedule(md.poisson(60_000, 0.01), 2000, most=2.4)
    found = md.account(plan).epsilon(1e-5)
    quiet, loud = (
        md.account(
            md.repeat(2000, md.subsample(md.poisson(60_000, 0.01), md.gaussian(noise_multiplier=z)))
        ).epsilon(1e-5)
        for z in (2.0, 2.4)
    )
    assert loud.upper < found.lower <= found.upper < quiet.lower
    assert found.upper <= 1.01 * found.lower
