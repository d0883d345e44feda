"""Mechanisms known by their profile only: the black-box group bound, and what is refused."""

from __future__ import annotations

from typing import Any

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mustdp import (
    InvalidParameter,
    NotCovered,
    custom,
    gaussian,
    laplace,
    one_step,
    poisson,
    wor,
    wr,
)


def as_custom(mechanism: Any) -> Any:
    return custom(lambda epsilon: mechanism.delta(epsilon), mechanism.name)


def group_bound(mechanism: Any, j: int, epsilon: float) -> mp.mpf:
    """(e^eps - 1)/(e^{eps/j} - 1) delta(eps/j) as a geometric sum, capped at one."""
    with mp.workdps(50):
        step = mp.mpf(epsilon) / j
        factor = mp.fsum(mp.exp(i * step) for i in range(j))
        return min(mp.mpf(1), factor * mp.mpf(float(mechanism.delta(float(step))[0])))


@settings(deadline=None, max_examples=60)
@given(
    shift=st.floats(0.05, 5.0),
    epsilon=st.one_of(st.floats(1e-300, 20.0), st.sampled_from([0.0, 1e-12, 1e-6])),
    j=st.integers(1, 6),
)
def test_groups_follow_the_black_box_formula(shift: float, epsilon: float, j: int) -> None:
    base = gaussian(shift=shift)
    found = as_custom(base).profiles(None).delta(np.array([float(j)]), np.array([[epsilon]]))
    assert found[0, 0] == pytest.approx(float(group_bound(base, j, epsilon)), rel=1e-11)
    mirrored = as_custom(base).profiles(None).delta(np.array([float(j)]), np.array([[-epsilon]]))
    alpha = np.exp(-epsilon)
    assert mirrored[0, 0] == pytest.approx(1 - alpha + alpha * found[0, 0], rel=1e-12)


@settings(deadline=None, max_examples=60)
@given(shift=st.floats(1e-3, 20.0), epsilon=st.floats(0.0, 600.0), j=st.integers(1, 50))
def test_the_black_box_is_never_below_the_exact_group_profile(
    shift: float, epsilon: float, j: int
) -> None:
    for make in (gaussian, laplace):
        base = make(shift=shift)
        bound = as_custom(base).profiles(None).delta(np.array([float(j)]), np.array([[epsilon]]))
        if base.delta(epsilon / j)[0] > 0 or make is laplace:  # no underflow
            assert bound[0, 0] * (1 + 1e-11) >= base.delta(epsilon, group=j)[0]


@pytest.mark.parametrize("scheme", [wor(10, 4), wr(6, 5)])
@pytest.mark.parametrize("relation", ["replace_one", "add_remove"])
def test_a_custom_gaussian_is_never_below_the_exact_one(scheme: Any, relation: str) -> None:
    base = gaussian(shift=0.7)
    epsilon = [0.0, 0.1, 0.5, 1.0, 3.0]
    exact = one_step(scheme, base, epsilon, relation=relation)
    black_box = one_step(scheme, as_custom(base), epsilon, relation=relation)
    assert np.all(black_box.upper >= exact.lower)
    assert np.all(black_box.upper >= exact.upper * (1 - 1e-9))
    assert black_box.lower.tolist() == [0.0] * 5
    assert dict(black_box.attained) == {}
    assert black_box.shift is None


def test_without_groups_a_custom_gaussian_is_the_exact_one() -> None:
    """WOR and Poisson put one copy at most into a batch: no group bound is needed."""
    base = gaussian(shift=0.7)
    epsilon = [0.0, 0.1, 0.5, 1.0, 3.0]
    for scheme in (wor(10, 4), poisson(10, 0.3)):
        exact = one_step(scheme, base, epsilon).upper
        assert one_step(scheme, as_custom(base), epsilon).upper == pytest.approx(exact, rel=1e-9)


def test_pure_privacy_stays_pure_for_groups() -> None:
    pure = custom(lambda epsilon: np.where(epsilon >= 0.5, 0.0, 1.0))
    found = pure.profiles(None).delta(np.array([1.0, 3.0]), np.array([[0.5, 1.5], [0.49, 1.49]]))
    assert found.tolist() == [[0.0, 0.0], [1.0, 1.0]]
    assert one_step(wr(5, 3), pure, 1.5).upper[0] == 0.0


def test_a_profile_that_is_always_one_gives_no_amplification_beyond_eta() -> None:
    hopeless = custom(lambda epsilon: np.ones_like(epsilon))
    assert one_step(wor(10, 4), hopeless, [0.0, 5.0]).upper == pytest.approx([0.4, 0.4], rel=1e-9)


def test_poisson_under_replace_one_is_not_covered() -> None:
    with pytest.raises(NotCovered, match="leaving a record out"):
        one_step(poisson(10, 0.5), as_custom(gaussian(shift=1.0)), 1.0, relation="replace_one")


def never_smaller(epsilon: Any) -> Any:
    return np.minimum(1.0, 0.01 * epsilon)


@pytest.mark.parametrize(
    ("profile", "complaint"),
    [
        (0.5, "must be a function"),
        (None, "must be a function"),
        (lambda epsilon: 0.1, "one delta per epsilon"),
        (lambda epsilon: np.zeros((epsilon.size, 1)), "one delta per epsilon"),
        (lambda epsilon: 0.1 if epsilon < 1 else 0.0, "must accept an array"),
        (lambda epsilon: ["much"] * epsilon.size, "must accept an array"),
        (lambda epsilon: np.full(epsilon.size, np.nan), r"deltas in \[0, 1\], got .*nan"),
        (lambda epsilon: np.full(epsilon.size, 1.5), r"deltas in \[0, 1\], got .*1.5"),
        (lambda epsilon: np.full(epsilon.size, -1e-9), r"deltas in \[0, 1\]"),
        (lambda epsilon: np.where(epsilon > 300, np.inf, 0.1), r"deltas in \[0, 1\], got .*inf"),
        (never_smaller, "must not increase"),
    ],
)
def test_what_cannot_be_a_profile_is_refused(profile: Any, complaint: str) -> None:
    with pytest.raises(InvalidParameter, match=complaint):
        custom(profile)


def test_a_profile_that_goes_wrong_later_is_refused_then() -> None:
    """Between and beyond the points checked at first, every value is checked when used."""
    moody = custom(lambda epsilon: np.where(np.abs(epsilon - 0.123456) < 1e-9, np.nan, 0.1))
    with pytest.raises(InvalidParameter, match=r"deltas in \[0, 1\]"):
        moody.profiles(None).delta(np.ones(1), np.array([[0.123456]]))


def test_description_and_name() -> None:
    mechanism = custom(lambda epsilon: np.exp(-epsilon) / 2, "subsampled median")
    assert mechanism.name == "subsampled median"
    assert mechanism.describe() == {"mechanism": "subsampled median"}
    assert mechanism.shift_for(2.0) is None  # type: ignore[func-returns-value]
