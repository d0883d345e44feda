"""Laws that every scheme, mechanism and relation must obey, on random small cases."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from mustdp import NotCovered, gaussian, laplace, multistage, one_step, poisson
from mustdp.types import Mechanism, Scheme
from tests.seams import one_slope_bound, upper_bound

EPSILONS = np.array([0.0, 0.02, 0.1, 0.3, 0.7, 1.2, 2.0, 3.5, 6.0])
#: Bounds of one stage are solved to rounding; deeper ones follow tables of slopes.
FLAT, DEEP = 1e-9, 1e-2
#: Mass that stages may leave out, times a few stages and neighbours.
FLOOR = 1e-33
Drawer = Callable[..., Any]


@st.composite
def staged(draw: Drawer, most: int = 3) -> Scheme:
    n = draw(st.integers(2, 12))
    stages, available = [], n
    for _ in range(draw(st.integers(1, most))):
        kind = draw(st.sampled_from(["wor", "wr"]))
        size = draw(st.integers(1, min(6, available) if kind == "wor" else 6))
        stages.append((kind, size))
        available = size
    return multistage(n, stages)


rates = st.one_of(st.floats(1e-6, 1.0), st.sampled_from([0.5, 1.0]))
poissons = st.builds(poisson, st.integers(2, 12), rates)
schemes = st.one_of(staged(), poissons)
shifts = st.floats(-3.0, 1.2).map(lambda exponent: 10.0**exponent)
mechanisms = st.one_of(
    st.builds(gaussian, shift=shifts),
    st.builds(laplace, shift=shifts),
    st.builds(gaussian, noise_multiplier=shifts),
)
relations = st.sampled_from(["replace_one", "add_remove"])
groups = st.integers(1, 2)


def tolerance(scheme: Scheme) -> float:
    return DEEP if len(getattr(scheme, "reduced", ())) > 1 else FLAT


def floor(scheme: Scheme, mechanism: Mechanism) -> float:
    """What may be left where nothing should be: the cut, or what blurs the kink of Laplace."""
    if mechanism.name != "laplace":
        return FLOOR
    return 1e-3 if tolerance(scheme) == DEEP else 1e-12


def bounds(scheme: Scheme, mechanism: Mechanism, relation: str, group: int = 1) -> Any:
    try:
        return one_step(scheme, mechanism, EPSILONS, relation=relation, group=group)
    except NotCovered:
        assume(False)


@settings(deadline=None, max_examples=60)
@given(schemes, mechanisms, relations, groups)
def test_a_profile_is_bracketed_decreasing_and_convex(
    scheme: Scheme, mechanism: Mechanism, relation: str, group: int
) -> None:
    step = bounds(scheme, mechanism, relation, group)
    assert np.all(step.lower <= step.upper)
    assert np.all((step.lower >= 0.0) & (step.upper <= 1.0))
    for values in step.attained.values():
        assert np.all(values <= step.upper)
    assert np.all(
        np.diff(step.upper) <= tolerance(scheme) * step.upper[:-1] + floor(scheme, mechanism)
    )
    alpha = np.exp(EPSILONS)
    share = (alpha[1:-1] - alpha[:-2]) / (alpha[2:] - alpha[:-2])
    chord = (1.0 - share) * step.upper[:-2] + share * step.upper[2:]
    assert np.all(step.upper[1:-1] <= chord * (1.0 + tolerance(scheme)) + floor(scheme, mechanism))


@settings(deadline=None, max_examples=40)
@given(schemes, mechanisms, relations, groups)
def test_more_records_at_stake_cost_more(
    scheme: Scheme, mechanism: Mechanism, relation: str, group: int
) -> None:
    assume(group < scheme.n)
    one, more = (bounds(scheme, mechanism, relation, size) for size in (group, group + 1))
    assert np.all(one.upper <= more.upper * (1.0 + tolerance(scheme)) + floor(scheme, mechanism))


@settings(deadline=None, max_examples=40)
@given(staged(), mechanisms)
def test_the_certificate_is_never_worse_than_one_slope(
    scheme: Scheme, mechanism: Mechanism
) -> None:
    """One slope for all multiplicities is one of the choices the certificate minimises over."""
    step = bounds(scheme, mechanism, "replace_one")
    assert step.one_slope is not None
    assert np.all(step.upper <= step.one_slope * (1.0 + 1e-9))
    alone = upper_bound(scheme, mechanism, EPSILONS, relation="replace_one")
    assert np.all(alone <= step.one_slope * (1.0 + tolerance(scheme)) + floor(scheme, mechanism))


@settings(deadline=None, max_examples=40)
@given(poissons, mechanisms, groups)
def test_poisson_is_never_worse_than_one_slope(
    scheme: Scheme, mechanism: Mechanism, group: int
) -> None:
    step = bounds(scheme, mechanism, "add_remove", group)
    assert step.one_slope is not None
    assert np.all(step.upper <= step.one_slope * (1.0 + 1e-9) + floor(scheme, mechanism))
    if group == 1:  # one slope is all there is
        assert step.upper == pytest.approx(step.one_slope, rel=1e-7, abs=1e-290)


@settings(deadline=None, max_examples=40)
@given(schemes, shifts, st.floats(1.01, 3.0), st.sampled_from([gaussian, laplace]), relations)
def test_the_bound_grows_with_the_shift(
    scheme: Scheme, shift: float, factor: float, make: Any, relation: str
) -> None:
    mechanism: Mechanism = make(shift=shift)
    small = bounds(scheme, mechanism, relation)
    large = bounds(scheme, make(shift=shift * factor), relation)
    assert np.all(small.upper <= large.upper * (1.0 + tolerance(scheme)) + floor(scheme, mechanism))
    assert np.all(small.lower <= large.upper)


@settings(deadline=None, max_examples=40)
@given(staged(), mechanisms, groups)
def test_add_remove_is_never_worse_than_replace_one(
    scheme: Scheme, mechanism: Mechanism, group: int
) -> None:
    """For batches of a fixed size, leaving a record out is a substitution by common records.

    If all substitutes are batches of common records, the inequalities that the replace_one proof
    rests on hold for both orders of (X, X'), so its bound covers add_remove as well.
    """
    try:
        removed = upper_bound(scheme, mechanism, EPSILONS, relation="add_remove", group=group)
    except NotCovered:
        assume(False)
    replaced = upper_bound(scheme, mechanism, EPSILONS, relation="replace_one", group=group)
    assert np.all(removed <= replaced * (1.0 + tolerance(scheme)) + floor(scheme, mechanism))


@settings(deadline=None, max_examples=60)
@given(st.one_of(staged(most=1), poissons), mechanisms, groups)
def test_one_stage_under_add_remove_leaves_no_gap(
    scheme: Scheme, mechanism: Mechanism, group: int
) -> None:
    step = bounds(scheme, mechanism, "add_remove", group)
    visible = step.upper > 1e-30
    limit = step.lower * (1.0 + 1e-6) + floor(scheme, mechanism)
    assert np.all(step.upper[visible] <= limit[visible])


@settings(deadline=None, max_examples=40)
@given(staged(), st.data())
def test_relabelled_and_shortened_schemes_are_the_same(scheme: Any, data: Any) -> None:
    """A stage without replacement behind any other only shortens it."""
    stages = [(stage.kind, stage.size) for stage in scheme.stages]
    kind, size = stages[-1]
    longer = [*stages[:-1], (kind, size + data.draw(st.integers(0, 2))), ("wor", size)]
    assume(kind == "wr" or longer[-2][1] <= (stages[-2][1] if len(stages) > 1 else scheme.n))
    mechanism = gaussian(shift=0.4)
    same = one_step(multistage(scheme.n, longer), mechanism, EPSILONS)
    assert same.upper.tolist() == one_step(scheme, mechanism, EPSILONS).upper.tolist()


@settings(deadline=None, max_examples=40)
@given(staged(), mechanisms, groups)
def test_one_slope_covers_what_is_attained(
    scheme: Scheme, mechanism: Mechanism, group: int
) -> None:
    step = bounds(scheme, mechanism, "replace_one", group)
    assert step.shift is not None
    bound = one_slope_bound(scheme.law(group), mechanism.profiles(step.shift), EPSILONS)
    assert np.all(step.lower <= bound)
