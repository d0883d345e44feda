"""Laws that hold for every plan, on small random ones."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

import mustdp as md

FEW = settings(max_examples=8, deadline=None, derandomize=True)
RELATIONS = st.sampled_from(["replace_one", "add_remove"])


@st.composite
def schemes(draw: st.DrawFn) -> md.types.Scheme:
    n = draw(st.integers(5, 60))
    m = draw(st.integers(1, 20))
    kind = draw(st.sampled_from(["poisson", "wor", "wr", "must_ow", "must_ww"]))
    if kind == "poisson":
        return md.poisson(n, draw(st.floats(0.01, 0.9)))
    if kind == "wor":
        return md.wor(n, min(m, n - 1))
    if kind == "wr":
        return md.wr(n, m)
    b = draw(st.integers(1, n - 1))
    return getattr(md, kind)(n, b, m)  # type: ignore[no-any-return]


@st.composite
def mechanisms(draw: st.DrawFn) -> md.types.Mechanism:
    make = draw(st.sampled_from([md.gaussian, md.laplace]))
    return make(noise_multiplier=draw(st.floats(2.0, 40.0)))


ACCURACY = 0.02


def account(
    scheme: md.types.Scheme, noise: md.types.Mechanism, steps: int, relation: str
) -> md.types.Account:
    plan = md.repeat(steps, md.subsample(scheme, noise))
    return md.account(plan, relation=relation, accuracy=ACCURACY)


@FEW
@given(schemes(), mechanisms(), st.integers(1, 50), RELATIONS)
def test_delta_decreases_in_epsilon(
    scheme: md.types.Scheme, noise: md.types.Mechanism, steps: int, relation: str
) -> None:
    epsilons = [0.0, 0.1, 0.4, 1.0, 3.0]
    curve = account(scheme, noise, steps, relation).curve(epsilons)
    slack = 1e-9
    assert all(b <= a * (1 + slack) for a, b in zip(curve.upper, curve.upper[1:], strict=False))
    assert all(0 <= low <= high <= 1 for low, high in zip(curve.lower, curve.upper, strict=True))


@FEW
@given(schemes(), mechanisms(), st.integers(1, 40), RELATIONS)
def test_bounds_are_ordered_and_invert_each_other(
    scheme: md.types.Scheme, noise: md.types.Mechanism, steps: int, relation: str
) -> None:
    made = account(scheme, noise, steps, relation)
    bounds = made.epsilon(1e-5)
    assert 0 <= bounds.lower <= bounds.upper
    assert bounds.numerical_gap <= ACCURACY * max(bounds.upper, 1e-3)
    if bounds.upper < 400:
        assert made.delta(bounds.upper).lower <= 1e-5 * (1 + 1e-9)
    if bounds.lower > 0:
        assert made.delta(bounds.lower).upper >= 1e-5 * (1 - 1e-9)


@FEW
@given(schemes(), st.floats(3.0, 30.0), st.integers(1, 20), RELATIONS)
def test_more_noise_costs_less(
    scheme: md.types.Scheme, z: float, steps: int, relation: str
) -> None:
    little = account(scheme, md.gaussian(noise_multiplier=z), steps, relation).epsilon(1e-5)
    much = account(scheme, md.gaussian(noise_multiplier=1.3 * z), steps, relation).epsilon(1e-5)
    assert much.upper <= little.upper * (1 + ACCURACY)
    assert much.lower <= little.upper


@FEW
@given(schemes(), st.integers(2, 20))
def test_the_accuracy_asked_for_is_reached(scheme: md.types.Scheme, steps: int) -> None:
    """A finer account differs from a coarse one by no more than the coarse one's accuracy."""
    plan = md.repeat(steps, md.subsample(scheme, md.gaussian(noise_multiplier=8.0)))
    coarse = md.account(plan, accuracy=0.02).epsilon(1e-5)
    fine = md.account(plan, accuracy=5e-4).epsilon(1e-5)
    allowed = 0.02 * max(fine.upper, 1e-3)
    assert fine.lower - 1e-9 <= coarse.upper <= fine.upper + allowed
    assert fine.lower - allowed <= coarse.lower <= fine.upper + 1e-9


@FEW
@given(schemes(), mechanisms(), st.integers(1, 15))
def test_replacing_costs_at_least_removing(
    scheme: md.types.Scheme, noise: md.types.Mechanism, steps: int
) -> None:
    """What one removal attains, a replacement certifies."""
    removed = account(scheme, noise, steps, "add_remove").epsilon(1e-5)
    replaced = account(scheme, noise, steps, "replace_one").epsilon(1e-5)
    assert removed.lower <= replaced.upper * (1 + 1e-9)
