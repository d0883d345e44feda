"""A machine whose arithmetic is worse than assumed draws no noise."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from mustdp.errors import NumericalFailure
from mustdp.noise.exact import ARITHMETIC, Law, check_arithmetic, exact_noise
from mustdp.randomness.keys import NoiseSource
from tests.noise.exact_tails import LAWS


@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.name)
def test_this_machine_is_trusted(law: Law) -> None:
    check_arithmetic(law)


@pytest.mark.parametrize("wrong", [ARITHMETIC / 4, -ARITHMETIC / 4])
@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.name)
def test_a_quarter_of_the_margin_is_too_much(law: Law, wrong: float) -> None:
    def worse(values: Any, out: Any = None) -> Any:
        sizes = law.negative_sizes(values)
        return np.multiply(sizes, 1 + wrong, out=out)

    broken = replace(law, negative_sizes=worse)
    with pytest.raises(NumericalFailure, match="nothing was drawn"):
        exact_noise(broken, 100.0, 5, NoiseSource(1))


@pytest.mark.parametrize("value", [np.nan, -np.inf, 0.0])
@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.name)
def test_answers_that_are_no_sizes(law: Law, value: float) -> None:
    broken = replace(law, negative_sizes=lambda values, out=None: np.full(np.shape(values), value))
    with pytest.raises(NumericalFailure, match="nothing was drawn"):
        check_arithmetic(broken)
