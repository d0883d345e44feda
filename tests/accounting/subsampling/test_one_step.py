"""The front door: what is refused, what is returned, and the corners of the parameter space."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest

from mustdp import (
    InvalidParameter,
    NotCovered,
    custom,
    gaussian,
    laplace,
    multistage,
    must_ow,
    must_ww,
    one_step,
    poisson,
    wor,
    wr,
)
from mustdp.types import Scheme
from tests.arrays import FloatArray
from tests.seams import replace_direction, upper_bound

EPSILONS = np.array([0.0, 1e-12, 1e-8, 1e-3, 0.1, 0.5, 1.0, 2.0, 5.0, 20.0, 100.0, 300.0, 600.0])
SCHEMES: dict[str, Scheme] = {
    "wor": wor(10, 3),
    "wor-all": wor(5, 5),
    "wor-one": wor(1, 1),
    "wor-rare": wor(2**53, 1),
    "wr": wr(100, 10),
    "wr-one": wr(1, 3),
    "wr-two": wr(2, 10_000),
    "wr-big": wr(10**9, 10**6),
    "must-ow": must_ow(1000, 100, 100),
    "must-ow-one": must_ow(5, 1, 7),
    "must-ww": must_ww(50, 10, 20),
    "must-ww-gaps": must_ww(3, 2, 1000),
    "three": multistage(10, [("wr", 4), ("wr", 3), ("wr", 5)]),
    "poisson": poisson(100, 0.01),
    "poisson-all": poisson(3, 1.0),
    "poisson-almost": poisson(3, 1.0 - 1e-16),
}


@pytest.mark.parametrize("name", list(SCHEMES))
@pytest.mark.parametrize("make", [gaussian, laplace])
@pytest.mark.parametrize("shift", [1e-9, 0.1, 5.0, 1e3, 1e9])
def test_every_corner_gives_ordered_finite_bounds_without_a_warning(
    name: str, make: Any, shift: float
) -> None:
    scheme = SCHEMES[name]
    for relation in ("replace_one", "add_remove"):
        for group in (1, 2):
            if group > scheme.n:
                continue
            try:
                step = one_step(scheme, make(shift=shift), EPSILONS, relation=relation, group=group)
            except NotCovered:
                assert relation == "add_remove"
                assert name in ("wor-all", "wor-one", "wor")
                continue
            assert np.all((step.lower >= 0) & (step.lower <= step.upper) & (step.upper <= 1))
            assert np.all(np.diff(step.upper) <= 1e-9 * step.upper[:-1] + 1e-34)
            assert step.upper[0] > 0


@pytest.mark.parametrize("epsilon", [-1e-9, float("nan"), float("inf"), 601.0, [], "1", True, None])
def test_bad_epsilons_are_refused(epsilon: Any) -> None:
    with pytest.raises(InvalidParameter, match="epsilon must be a number or a non-empty list"):
        one_step(wor(10, 3), gaussian(shift=1.0), epsilon)
    one_step(wor(10, 3), gaussian(shift=1.0), 600.0)


@pytest.mark.parametrize("group", [0, 11, 1.0, True, "1", None])
def test_bad_groups_are_refused(group: Any) -> None:
    with pytest.raises(InvalidParameter, match="group must be an integer from 1 to 10"):
        one_step(wor(10, 3), gaussian(shift=1.0), 1.0, group=group)


def test_bad_relations_are_refused() -> None:
    with pytest.raises(InvalidParameter, match="relation must be one of"):
        one_step(wor(10, 3), gaussian(shift=1.0), 1.0, relation="swap")


def test_removing_a_record_that_must_be_drawn_is_not_covered() -> None:
    with pytest.raises(NotCovered, match="from which 10 cannot be drawn without replacement"):
        one_step(wor(10, 10), gaussian(shift=1.0), 1.0, relation="add_remove")
    with pytest.raises(NotCovered, match="n = 10 records with 8"):
        one_step(must_ow(10, 9, 3), gaussian(shift=1.0), 1.0, relation="add_remove", group=2)
    one_step(wr(10, 10), gaussian(shift=1.0), 1.0, relation="add_remove")


def test_a_scheme_of_an_unknown_kind_is_not_covered() -> None:
    class Biased(type(poisson(3, 0.5)).__mro__[1]):  # type: ignore[misc]
        n = 3
        name = "biased"
        eta = expected_size = 0.5

        def law(self, group: int = 1, tail: float = 0.0) -> Any:
            return poisson(3, 0.5).law(group)

        def draw(self, rng: Any = None) -> Any:
            raise NotImplementedError

        def describe(self) -> Any:
            return {}

    for relation in ("replace_one", "add_remove"):
        with pytest.raises(NotCovered, match="no certificate for a scheme of type Biased"):
            one_step(Biased(), gaussian(shift=1.0), 1.0, relation=relation)


def test_the_result_is_frozen() -> None:
    step = one_step(wor(10, 3), gaussian(shift=1.0), [0.5, 1.0])
    for array in (step.epsilon, step.upper, step.lower, step.one_slope, step.attained["aligned"]):
        assert array is not None
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0.0
    with pytest.raises(TypeError):
        step.attained["aligned"] = step.upper  # type: ignore[index]
    with pytest.raises(AttributeError):
        step.upper = step.lower  # type: ignore[misc]


def test_the_result_names_its_relation_shift_and_group() -> None:
    step = one_step(wor(10, 3), gaussian(noise_multiplier=4.0), 0.5, group=2)
    assert (step.relation, step.shift, step.group) == ("replace_one", 0.5, 2)
    assert set(step.attained) == {"aligned", "reversed", "symmetric"}
    step = one_step(wor(10, 3), gaussian(noise_multiplier=4.0), 0.5, relation="add_remove")
    assert (step.relation, step.shift) == ("add_remove", 0.5)
    assert set(step.attained) == {"aligned", "reversed"}
    assert step.one_slope is None


def test_full_sampling_is_the_base_mechanism() -> None:
    """eta = 1: WOR with m = n and Poisson with rate 1 amplify nothing."""
    epsilon = np.array([0.0, 0.3, 1.0, 3.0])
    for make in (gaussian, laplace):
        base = make(shift=0.8).delta(epsilon)
        assert one_step(wor(6, 6), make(shift=0.8), epsilon).upper == pytest.approx(base, rel=1e-9)
        assert one_step(poisson(6, 1.0), make(shift=0.8), epsilon).upper == pytest.approx(
            base, rel=1e-9
        )
        three = make(shift=0.8).delta(epsilon, group=3)
        assert one_step(wr(1, 3), make(shift=0.8), epsilon).upper == pytest.approx(three, rel=1e-9)


def test_the_number_of_copies_matters_when_zero_is_out_of_reach() -> None:
    """WR(2, 10000): the record is drawn about 5000 times, never zero times in the window."""
    law = wr(2, 10_000).law(tail=1e-36)
    assert law.first > 4000
    step = one_step(wr(2, 10_000), gaussian(shift=1e-4), [0.0, 0.5, 2.0])
    about = gaussian(shift=1e-4).delta([0.0, 0.5, 2.0], group=5000)
    assert step.upper == pytest.approx(about, rel=0.02)
    assert np.all(step.lower >= 0.99 * step.upper)


@pytest.mark.parametrize("scheme", [wor(10, 3), wr(10, 4), must_ow(10, 5, 4), poisson(10, 0.3)])
def test_answers_do_not_depend_on_the_company(scheme: Scheme) -> None:
    """One epsilon asked alone or among others: the same bounds, up to steering."""
    together = one_step(scheme, gaussian(shift=0.7), [0.1, 1.0, 50.0])
    for k, epsilon in enumerate([0.1, 1.0, 50.0]):
        alone = one_step(scheme, gaussian(shift=0.7), epsilon)
        assert alone.upper[0] == pytest.approx(together.upper[k], rel=1e-9)
        assert alone.lower[0] == pytest.approx(together.lower[k], rel=1e-9)


def test_pieces_agree_with_the_whole() -> None:
    scheme, mechanism = wr(20, 6), gaussian(shift=0.6)
    epsilon = np.array([0.1, 0.9])
    step = one_step(scheme, mechanism, epsilon, relation="add_remove")
    parts = [
        upper_bound(scheme, mechanism, epsilon, relation="add_remove", direction=direction)
        for direction in ("remove", "add")
    ]
    assert np.array_equal(step.upper, np.maximum(*parts))
    assert np.array_equal(step.lower, np.maximum(*step.attained.values()))


@pytest.mark.parametrize("direction", ["remove_direction", "add_direction"])
def test_under_add_remove_the_larger_direction_counts(
    direction: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    replace_direction(
        monkeypatch, direction, lambda law, inner, epsilon: np.full(epsilon.size, 0.9)
    )
    for scheme in (wr(20, 6), must_ow(20, 10, 6), poisson(20, 0.3)):
        step = one_step(scheme, gaussian(shift=0.6), [0.1, 0.9], relation="add_remove")
        assert step.upper.tolist() == [0.9, 0.9]


def test_large_schemes_are_quick() -> None:
    start = time.thread_time()
    one_step(wr(10**6, 10**5), gaussian(shift=0.5), np.linspace(0.0, 5.0, 50))
    one_step(must_ow(10**7, 10**5, 10**5), gaussian(shift=0.5), np.linspace(0.0, 5.0, 50))
    assert time.thread_time() - start < 30.0


def test_the_larger_direction_of_add_remove_is_the_bound() -> None:
    """With noise on a sum removing is worse; by the black-box bound for groups adding may be."""

    def rare(e: FloatArray) -> FloatArray:
        return 0.3 * np.maximum(0.0, 1.0 - np.exp(e - 0.03)) + 1e-3 * np.exp(-e)

    scheme, mechanism, epsilon = wr(3, 12), custom(rare), np.array([1e-3, 0.3, 1.0])
    upper = one_step(scheme, mechanism, epsilon, relation="add_remove").upper
    remove = upper_bound(scheme, mechanism, epsilon, relation="add_remove", direction="remove")
    add = upper_bound(scheme, mechanism, epsilon, relation="add_remove", direction="add")
    assert np.any(add > 1.1 * remove)
    assert np.all(upper >= np.maximum(remove, add))
