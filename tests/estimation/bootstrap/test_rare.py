"""Events so rare that hardly any subset has one: intervals cover all the same, and say so."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from mustdp.estimation import bag_of_little_bootstraps
from mustdp.types import Mean, StandardDeviation, Variance
from tests.estimation.bootstrap.test_coverage import ENOUGH, N, coverage, inferred


@pytest.mark.parametrize("statistic", [Mean(), Variance(), StandardDeviation()])
@pytest.mark.parametrize(("chance", "b"), [(0.01, 45), (0.003, 100)])
def test_rare_events_in_little_bootstraps(statistic: Any, chance: float, b: int) -> None:
    """One or two events in all subsets together: 51 to 89 % were covered by normal theory."""
    design = bag_of_little_bootstraps(N, b=b, subsets=5, reuse=3)
    variance = chance * (1.0 - chance)
    truth = {"mean": chance, "variance": variance, "sd": math.sqrt(variance)}[statistic.name]

    def draw(rng: np.random.Generator) -> NDArray[np.float64]:
        return (rng.random(N) < chance).astype(np.float64)

    assert coverage(draw, truth, design, statistic, (0.0, 1.0), data_sets=60) >= ENOUGH


def test_hardly_any_event_is_said() -> None:
    rng = np.random.default_rng(1)
    design = bag_of_little_bootstraps(N, b=45, subsets=5, reuse=3)
    for statistic in (Mean(), Variance()):
        found = inferred(design, statistic, np.zeros(N), (0.0, 1.0), rng)
        assert any("hardly known" in note for note in found.notes)
        kind = inferred(design, statistic, rng.uniform(size=N), (0.0, 1.0), rng)
        assert kind.notes == ()
