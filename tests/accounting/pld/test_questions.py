"""A question reads its own answer: off a composition, a profile and a pair, each on its side."""

from __future__ import annotations

import math

import numpy as np
import pytest

from mustdp import InvalidParameter
from mustdp.accounting.pld.discretise import DominatingPair, connect, family_pair
from mustdp.accounting.pld.readoff import ComposedLoss, DeltaAt, EpsilonAt, Question
from mustdp.mechanisms.mechanism import GaussianNoise
from mustdp.types import MultiplicityLaw
from tests.arrays import FloatArray

SHIFT = 0.8
NOISE = GaussianNoise()


def profile(epsilon: FloatArray) -> FloatArray:
    return NOISE.profile(np.array(SHIFT), epsilon)


def exact(epsilon: float) -> float:
    return float(profile(np.array([epsilon]))[0])


@pytest.mark.parametrize("question", [DeltaAt(0.7), EpsilonAt(exact(0.7))])
def test_every_way_of_reading_is_on_its_side(question: Question) -> None:
    """One Gaussian step, whose delta at 0.7 is known."""
    truth = exact(0.7) if isinstance(question, DeltaAt) else 0.7
    pair = family_pair("aligned", MultiplicityLaw(1, np.ones(1), 0.0, 0.0), NOISE, SHIFT)
    dots = connect(DominatingPair.of(profile), 0.02, np.arange(0, 1500))
    composed = question.of_composed(ComposedLoss([(dots, 1)], "upper"))
    assert truth <= composed <= truth * (1 + 1e-3)
    assert truth * (1 - 1e-9) <= question.of_profile(profile) <= truth * (1 + 1e-9)
    assert truth * (1 - 1e-3) <= question.of_pair(pair) <= truth * (1 + 1e-9)
    assert question.at in (0.7, exact(0.7))


def test_how_accurate_an_answer_has_to_be() -> None:
    assert DeltaAt(1.0).tolerance(1e-9, 1e-3) == pytest.approx(4e-12)
    assert EpsilonAt(1e-5).tolerance(2.0, 1e-3) == pytest.approx(2e-3)
    assert EpsilonAt(1e-5).tolerance(0.0, 1e-3) == pytest.approx(1e-6)


@pytest.mark.parametrize("bad", [-1e-9, 501.0, math.nan, math.inf, "1", None])
def test_no_question_at_a_senseless_epsilon(bad: float) -> None:
    with pytest.raises(InvalidParameter, match="epsilon"):
        DeltaAt(bad)


@pytest.mark.parametrize("bad", [0.0, 1.0, -1e-5, 1e-26, math.nan, True, "1e-5", None])
def test_no_question_at_a_senseless_delta(bad: float) -> None:
    with pytest.raises(InvalidParameter, match="delta"):
        EpsilonAt(bad)
