"""Answers at the end of a search range say that the range, not the target, ended the search."""

from __future__ import annotations

from typing import Any

import pytest

import mustdp as md

TARGET: dict[str, Any] = {"epsilon": 10.0, "delta": 1e-5}


def test_noise_that_hardly_matters() -> None:
    found = md.calibrate(md.wor(1000, 10), epsilon=1.0, delta=0.5, steps=1)
    assert found.limit is not None
    assert found.limit in str(found)
    assert found.epsilon.upper <= 1.0
    enough = md.calibrate(md.wor(1000, 10), epsilon=1.0, delta=1e-5, steps=1)
    assert enough.limit is None


def test_sizes_at_their_end() -> None:
    noise = md.gaussian(noise_multiplier=100.0)
    whole = md.calibration.largest_batch("wor", mechanism=noise, n=10, steps=1, **TARGET)
    assert whole.value == 10
    assert whole.limit == "all 10 records may be in every batch"
    copies = md.calibration.largest_batch("wr", mechanism=noise, n=10, steps=1, **TARGET)
    assert copies.value == 100
    assert copies.limit is not None
    first = md.calibration.smallest_first_stage(
        "must-ow", mechanism=noise, n=10, m=5, steps=1, **TARGET
    )
    assert first.value == 1
    assert first.limit is not None
    some = md.calibration.largest_batch(
        "poisson", mechanism=md.gaussian(noise_multiplier=1.0), n=100, steps=10,
        epsilon=1.0, delta=1e-5,
    )  # fmt: skip
    assert some.limit is None
    assert some.value < 100


@pytest.mark.slow
def test_more_steps_than_are_looked_at() -> None:
    noise = md.gaussian(noise_multiplier=1e5)
    found = md.calibration.most_steps(
        md.poisson(1000, 1e-6), mechanism=noise, epsilon=500.0, delta=1e-5
    )
    assert found.value == 10**9
    assert found.limit == "more than 1000000000 steps are not looked at"
