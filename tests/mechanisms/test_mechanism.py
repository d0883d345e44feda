"""Descriptions of mechanisms: validated, frozen, and explicit about relation and shift."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

from mustdp import InvalidParameter, gaussian, laplace, must_ow, poisson, wor, wr
from mustdp.mechanisms.mechanism import AdditiveNoise
from mustdp.mechanisms.relation import default_relation, moves, resolve_relation, shift_of
from mustdp.types import Relation

MAKERS = [gaussian, laplace]
makers = pytest.mark.parametrize("make", MAKERS)
BAD = [float("nan"), float("inf"), -float("inf"), 0.0, -1.0, True, "1", b"1", [1.0], 1e-10, 1e10]


@makers
@pytest.mark.parametrize("value", BAD)
@pytest.mark.parametrize("argument", ["noise_multiplier", "shift"])
def test_bad_numbers_are_refused_by_name(
    make: type[AdditiveNoise], argument: str, value: Any
) -> None:
    with pytest.raises(InvalidParameter) as refusal:
        make(**{argument: value})
    assert argument in str(refusal.value)
    assert repr(value) in str(refusal.value)


@makers
def test_exactly_one_description_is_needed(make: type[AdditiveNoise]) -> None:
    with pytest.raises(InvalidParameter, match="exactly one of noise_multiplier and shift"):
        make()
    with pytest.raises(InvalidParameter, match=r"noise_multiplier=2.0 and shift=1.0"):
        make(noise_multiplier=2.0, shift=1.0)


@makers
def test_mechanisms_are_frozen_and_compare_by_value(make: type[AdditiveNoise]) -> None:
    mechanism = make(shift=1)
    assert type(mechanism.shift) is float
    assert mechanism == make(shift=1.0)
    assert hash(mechanism) == hash(make(shift=1.0))
    with pytest.raises(dataclasses.FrozenInstanceError):
        mechanism.shift = 2.0  # type: ignore[misc]


def test_gaussian_and_laplace_differ() -> None:
    assert len({gaussian(shift=1.0), laplace(shift=1.0)}) == 2
    assert gaussian(shift=1.0).describe() == {"mechanism": "gaussian", "shift": 1.0}
    assert laplace(noise_multiplier=2).describe() == {
        "mechanism": "laplace",
        "noise_multiplier": 2.0,
    }


def test_one_copy_moves_a_sum_by_two_c_unless_its_place_stays_empty() -> None:
    """Only Poisson sampling under add_remove leaves the place of a record empty."""
    cases: list[tuple[Any, Relation, float]] = [
        (poisson(10, 0.5), Relation.ADD_REMOVE, 1.0),
        (poisson(10, 0.5), Relation.REPLACE_ONE, 2.0),
        (wor(10, 5), Relation.ADD_REMOVE, 2.0),
        (wor(10, 5), Relation.REPLACE_ONE, 2.0),
        (wr(10, 5), Relation.ADD_REMOVE, 2.0),
        (must_ow(10, 5, 5), Relation.REPLACE_ONE, 2.0),
    ]
    for scheme, relation, copies in cases:
        assert moves(scheme, relation) == copies
        assert shift_of(gaussian(noise_multiplier=4.0), scheme, relation) == copies / 4.0
        assert shift_of(gaussian(shift=0.3), scheme, relation) == 0.3


def test_the_default_relation_is_the_fields_own() -> None:
    assert default_relation(poisson(10, 0.5)) == "add_remove"
    assert default_relation(wor(10, 5)) == "replace_one"
    assert resolve_relation(wor(10, 5), None) == "replace_one"
    assert resolve_relation(wor(10, 5), "add_remove") == "add_remove"


@pytest.mark.parametrize("relation", ["", "replace-one", "zero_out", "REPLACE_ONE", 1])
def test_unknown_relations_are_refused(relation: Any) -> None:
    with pytest.raises(InvalidParameter, match="relation must be one of 'replace_one', 'add_remo"):
        resolve_relation(wor(10, 5), relation)


@makers
def test_delta_needs_a_stated_shift_and_scales_with_the_group(make: type[AdditiveNoise]) -> None:
    with pytest.raises(InvalidParameter, match="needs a mechanism described by its shift"):
        make(noise_multiplier=1.0).delta(1.0)
    found = make(shift=0.5).delta([0.1, -0.1, 1e18], group=4)
    assert found.tolist() == make(shift=2.0).delta([0.1, -0.1, 1e18]).tolist()


@makers
@pytest.mark.parametrize("group", [0, -1, 1.0, True, "2", float("nan")])
def test_delta_refuses_groups_that_are_no_counts(make: type[AdditiveNoise], group: Any) -> None:
    with pytest.raises(InvalidParameter, match="group must be an integer"):
        make(shift=1.0).delta(1.0, group=group)


@makers
@pytest.mark.parametrize("epsilon", [[], float("nan"), [1.0, float("inf")], "1", [[1.0]], True])
def test_delta_refuses_epsilons_that_are_no_numbers(
    make: type[AdditiveNoise], epsilon: Any
) -> None:
    with pytest.raises(InvalidParameter, match="epsilon must be a number or a non-empty list"):
        make(shift=1.0).delta(epsilon)


@makers
@pytest.mark.parametrize("shift", [None, 0.0, -1.0, float("nan"), float("inf"), "1"])
def test_profiles_refuse_a_shift_that_is_none(make: type[AdditiveNoise], shift: Any) -> None:
    with pytest.raises(InvalidParameter, match="shift must be a finite number > 0"):
        make(noise_multiplier=1.0).profiles(shift)


def test_delta_of_the_largest_groups_is_one() -> None:
    assert gaussian(shift=1e9).delta(600.0, group=2**53).tolist() == [1.0]
    assert np.all(laplace(shift=1e9).delta([0.0, 600.0], group=2**53) == 1.0)
