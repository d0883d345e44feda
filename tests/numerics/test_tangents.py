"""Tables of tangents: the two directions invert each other, whatever the scale."""

from __future__ import annotations

import numpy as np
import pytest

from mustdp.numerics.convex import TangentFamily, TangentTable, slope_of, two_sided


def exponential(scale: float) -> TangentTable:
    """h(alpha) = max(0, 1 - sqrt(alpha / e^scale)), slopes -e^{-(eps + scale)/2}/2 in alpha."""
    epsilon = np.linspace(0.0, scale, 200)
    value = -np.expm1((epsilon - scale) / 2.0)
    return two_sided(epsilon, value, 0.5 * np.exp(-(epsilon + scale) / 2.0))


@pytest.mark.parametrize("scale", [1e-3, 1.0, 8.0])
def test_parameter_and_tangent_invert_each_other(scale: float) -> None:
    family = TangentFamily(lambda group: exponential(group * scale), reach=700.0)
    groups = np.array([1.0, 2.0, 3.0])
    epsilon = np.linspace(-0.9, 0.9, 7)[:, None] * groups * scale
    t = family.parameter(groups, epsilon)
    back = np.stack([family.tangent(groups, t[:, k])[0][:, k] for k in range(3)], axis=1)
    assert np.allclose(back, epsilon, atol=0.05 * scale)


def test_a_function_that_is_one_to_rounding_keeps_its_table_on_the_right() -> None:
    """With h = 1 - 1e-20 at eps = 0 nothing is known on the left; the right must not suffer."""
    family = TangentFamily(lambda group: exponential(30.0 * group), reach=700.0)
    groups = np.array([1.0, 2.0, 3.0])
    epsilon = np.array([[1.0, 1.0, 1.0], [20.0, 50.0, 80.0]])
    t = family.parameter(groups, epsilon)
    assert np.all(np.isfinite(t))
    exact = 0.5 * (epsilon + 30.0 * groups) + np.log(2.0)
    assert np.allclose(t, exact, rtol=0.01)


def test_slopes_far_below_e_to_the_minus_100_are_told_apart() -> None:
    family = TangentFamily(lambda group: exponential(600.0 * group), reach=700.0)
    t = family.parameter(np.ones(1), np.array([[300.0], [500.0]]))
    assert t[0, 0] < 460.0 < t[1, 0]


def test_epsilons_outside_a_table_have_no_parameter() -> None:
    family = TangentFamily(exponential, reach=700.0)
    groups = np.array([1.0, 2.0])
    t = family.parameter(groups, np.array([[1.5, 1.5], [-1.5, -3.0]]))
    assert t[0, 0] == np.inf
    assert np.isfinite(t[0, 1])
    assert t[1].tolist() == [-np.inf, -np.inf]


def test_tables_of_different_group_lists_do_not_mix() -> None:
    """Lists with equal ends but different members in between are looked up on their own."""
    family = TangentFamily(exponential, reach=700.0)
    all_of_them = family.tangent(np.array([1.0, 2.0, 3.0]), np.array([0.5]))[0]
    outer = family.tangent(np.array([1.0, 3.0]), np.array([0.5]))[0]
    assert outer.tolist() == [[all_of_them[0, 0], all_of_them[0, 2]]]


def test_a_constant_function_can_be_tabulated() -> None:
    table = TangentTable(np.array([0.0]), np.array([np.inf]))
    assert table.epsilon.size == table.t.size == 2


def test_slopes_fall_with_the_logit_and_keep_their_digits() -> None:
    t = np.array([-700.0, -1.0, 0.0, 1.0, 700.0])
    slopes = slope_of(t)
    assert np.all(np.diff(slopes) <= 0)
    assert slopes[2] == 0.5
    assert slopes[-1] == pytest.approx(np.exp(-700.0), rel=1e-12)
