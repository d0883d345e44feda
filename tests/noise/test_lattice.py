"""The lattice: truncation never lengthens, sums are exact, and overflow is excluded beforehand."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mustdp.errors import InvalidParameter
from mustdp.noise.exact import (
    COARSEST,
    FINE,
    FINEST,
    LARGEST_INTEGER,
    Lattice,
    LawName,
    lattice_for,
    law_called,
)

MAGNITUDES = st.floats(-30, 30).map(lambda power: 10.0**power)


@given(
    values=st.lists(st.floats(allow_nan=True, allow_infinity=True), min_size=1, max_size=20),
    exponent=st.integers(-1000, 900),
)
@settings(max_examples=300)
def test_every_value_is_truncated_exactly_or_refused(values: list[float], exponent: int) -> None:
    lattice, step = Lattice(exponent), Fraction(2) ** exponent
    inside = all(math.isfinite(x) and abs(Fraction(x)) < LARGEST_INTEGER * step for x in values)
    if not inside:
        with pytest.raises(InvalidParameter, match=r"finite and below 2\^52 steps"):
            lattice.truncated(values)
        return
    steps = lattice.truncated(values)
    assert steps.dtype == np.int64
    assert steps.tolist() == [math.trunc(Fraction(x) / step) for x in values]
    points = lattice.points(steps)
    assert [Fraction(x) for x in points.tolist()] == [k * step for k in steps.tolist()]
    assert all(
        abs(Fraction(p)) <= abs(Fraction(x)) for p, x in zip(points.tolist(), values, strict=True)
    )


@given(st.lists(st.floats(-1e6, 1e6, width=32), min_size=1, max_size=9), st.integers(-20, 5))
def test_rounding_moves_by_half_a_step_at_most(values: list[float], exponent: int) -> None:
    lattice = Lattice(exponent)
    moved = lattice.points(lattice.rounded(np.array(values, dtype=np.float32))) - values
    assert np.all(np.abs(moved) <= lattice.step / 2)


def test_subnormal_numbers_and_the_smallest_steps() -> None:
    tiny = np.array([5e-324, -5e-324, 2.0**-1022, -(2.0**-999) - 2.0**-1040])
    assert Lattice(-1000).truncated(tiny).tolist() == [0, 0, 0, -2]


@given(
    scale=MAGNITUDES,
    reach=MAGNITUDES,
    records=st.integers(1, 2**40),
    law=st.sampled_from(["gaussian", "laplace"]),
)
@settings(max_examples=300)
def test_nothing_overflows_where_a_lattice_is_given(
    scale: float, reach: float, records: int, law: LawName
) -> None:
    farthest = Fraction(law_called(law).farthest) * Fraction(scale)
    most = records * Fraction(reach) + farthest
    coarsest = Fraction(2) ** (math.frexp(scale)[1] - 1 - COARSEST)
    if most / coarsest >= LARGEST_INTEGER:
        with pytest.raises(InvalidParameter, match=r"records \* reach / scale"):
            lattice_for(scale, reach=reach, records=records, law=law)
        return
    lattice = lattice_for(scale, reach=reach, records=records, law=law)
    step = Fraction(lattice.step)
    assert most / step < LARGEST_INTEGER
    assert Fraction(scale) / 2 ** (FINE + 1) < step <= Fraction(scale) / 2**COARSEST
    if step * 2 > Fraction(scale) / 2**FINE:
        return
    assert most / (step / 2) >= LARGEST_INTEGER  # no finer one had room


def test_the_usual_lattice_is_fine_and_a_finer_one_is_had_on_demand() -> None:
    assert lattice_for(1.0, reach=1.0, records=10**6) == Lattice(-FINE)
    assert lattice_for(1.5, reach=1.0, records=10**6) == Lattice(-FINE)
    assert lattice_for(2.0, reach=1.0, records=10**9).exponent > 1 - FINE
    assert lattice_for(1.0, reach=1.0, wanted=2.0**-29) == Lattice(-29)
    assert lattice_for(1.0, reach=1.0, wanted=0.0) == Lattice(-FINEST)
    assert lattice_for(1.0, reach=1.0, records=2**30, wanted=0.0).exponent > -FINEST


@pytest.mark.parametrize(
    ("given_", "message"),
    [
        ({"scale": 0.0}, "scale must be"),
        ({"scale": math.nan}, "scale must be"),
        ({"scale": 1e-300}, "scale must be"),
        ({"reach": -1.0}, "reach must be"),
        ({"reach": math.inf}, "reach must be"),
        ({"records": 0}, "records must be"),
        ({"records": 2.5}, "records must be"),
        ({"law": "cauchy"}, "law must be"),
        ({"records": 2**40}, r"records \* reach / scale must be below"),
    ],
)
def test_bounds_that_cannot_be_served(given_: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidParameter, match=message):
        lattice_for(**{"scale": 1.0, "reach": 1.0, "records": 10, **given_})


@pytest.mark.parametrize("values", [["1"], [True], [1j], [2**60], np.zeros(2, dtype=np.longdouble)])
def test_values_of_another_kind_are_refused_unseen(values: Any) -> None:
    with pytest.raises(InvalidParameter, match="values must be"):
        Lattice(0).truncated(values)


def test_errors_do_not_quote_the_data() -> None:
    with pytest.raises(InvalidParameter) as refused:
        Lattice(0).truncated([1234567.0, 8.7654321e99])
    assert "8765" not in str(refused.value)
    assert "8.76" not in str(refused.value)


@pytest.mark.parametrize("law", ["gaussian", "laplace"])
def test_a_lattice_has_room_for_the_farthest_noise_beside_the_largest_sum(law: Any) -> None:
    """At 2^26 steps to the scale, 2^26 records of reach 1 and no noise at all fill 2^52 steps."""
    farthest = math.ceil(law_called(law).farthest)
    fits = lattice_for(1.0, reach=1.0, records=2**26 - farthest - 1, law=law)
    assert fits.exponent == -26
    assert lattice_for(1.0, reach=1.0, records=2**26 - farthest // 2, law=law).exponent == -25
