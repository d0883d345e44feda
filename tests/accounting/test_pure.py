"""Pure privacy: the largest loss by closed forms and brute force, and deltas close to its end."""

from __future__ import annotations

import math
from functools import cache

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mustdp as md
from tests.accounting.subsampling.enumerated import (
    FloatArray,
    poisson_batches,
    staged_batches,
    sum_laws,
)

MIXED = md.sequence(md.repeat(3, md.laplace(shift=1.0)), md.repeat(2, md.laplace(shift=0.5)))


def pure(plan: md.types.Plan, relation: str = "replace_one", group: int = 1) -> md.Bounds:
    return md.account(plan, relation=relation, group=group).epsilon(0)


def test_laplace_noise_on_all_records_adds_up_without_rounding() -> None:
    assert (pure(MIXED).lower, pure(MIXED).upper) == (4.0, 4.0)
    tenth = pure(md.repeat(10, md.laplace(shift=0.1)))
    assert tenth.lower <= 10 * mp.mpf(0.1) <= tenth.upper
    assert tenth.upper == 1.0000000000000002  # the double 0.1 is a little more than a tenth
    third = md.laplace(noise_multiplier=3.0)
    assert pure(md.repeat(3, third)).upper == 2.0
    assert pure(md.repeat(3, third), "add_remove").upper == 1.0
    assert pure(md.repeat(3, third), "add_remove", 4).upper == 4.0


def binomial(size: int, rate: mp.mpf, loss: mp.mpf) -> mp.mpf:
    return size * mp.log(1 - rate + rate * mp.exp(loss))


def closed_forms() -> dict[str, tuple[md.types.Scheme, str, mp.mpf]]:
    """The schemes with their largest loss for a noise multiplier of 4."""
    with mp.workdps(40):
        s, n = mp.mpf("0.5"), mp.mpf(50)
        q = mp.mpf(0.2)
        inner = mp.exp(binomial(6, mp.mpf(1) / 20, s))
        each = [mp.exp(binomial(6, mp.mpf(i) / 20, s)) for i in range(21)]
        outer = mp.fsum(
            mp.binomial(20, i) * (1 / n) ** i * (1 - 1 / n) ** (20 - i) * each[i] for i in range(21)
        )
        return {
            "wor": (md.wor(50, 10), "replace_one", mp.log1p(mp.expm1(s) / 5)),
            "wor-removed": (md.wor(50, 10), "add_remove", mp.log1p(mp.expm1(s) / 5)),
            "wr": (md.wr(50, 10), "replace_one", binomial(10, 1 / n, s)),
            "must-ow": (md.must_ow(50, 20, 6), "replace_one", mp.log((3 + 2 * inner) / 5)),
            "must-ww": (md.must_ww(50, 20, 6), "replace_one", mp.log(outer)),
            "poisson": (md.poisson(50, 0.2), "add_remove", binomial(1, q, s / 2)),
            "poisson-replaced": (
                md.poisson(50, 0.2), "replace_one", binomial(1, q, s / 2) - binomial(1, q, -s / 2),
            ),
        }  # fmt: skip


@pytest.mark.parametrize("name", list(closed_forms()))
def test_closed_forms(name: str) -> None:
    scheme, relation, largest = closed_forms()[name]
    plan = md.repeat(7, md.subsample(scheme, md.laplace(noise_multiplier=4.0)))
    found = pure(plan, relation)
    with mp.workdps(40):
        assert found.lower <= 7 * largest <= found.upper
    assert found.upper - found.lower <= 1e-11 * found.upper
    assert not found.coarse
    assert found.attained_by == ("symmetric" if name == "poisson-replaced" else "aligned")


BRUTE = {
    "wor": md.wor(4, 2), "wr": md.wr(3, 3), "must-ow": md.must_ow(4, 2, 3),
    "must-ww": md.must_ww(3, 3, 2), "poisson": md.poisson(3, 0.3),
    "three": md.multistage(3, [("wr", 2), ("wr", 3), ("wr", 2)]),
}  # fmt: skip


@cache
def largest_ratio(name: str, relation: str, group: int, z: float) -> float:
    """The largest log ratio of densities over all pairs of data sets and all results.

    Between centres both densities are a e^x + b e^-x, so that their ratio is monotone there.
    """
    scheme = BRUTE[name]
    n = scheme.n
    if isinstance(scheme, md.types.Multistage):
        stages = [(stage.kind, stage.size) for stage in scheme.stages]
        batches, smaller = staged_batches(n, stages), staged_batches(n - group, stages)
    else:
        batches, smaller = poisson_batches(n, 0.3), poisson_batches(n - group, 0.3)
    laws = sum_laws(batches, None if relation == "replace_one" else smaller, n, group)
    top = laws[0][0].size // 2
    centres = np.arange(-top, top + 1) / (2.0 * z)
    density: FloatArray = np.exp(-np.abs(centres[:, None] - centres))
    ratios = [np.log((p @ density) / (q @ density)) for p, q in laws]
    return float(np.max(np.abs(ratios)))


@pytest.mark.parametrize("relation", ["replace_one", "add_remove"])
@pytest.mark.parametrize("group", [1, 2])
@pytest.mark.parametrize("name", list(BRUTE))
def test_every_batch_of_every_pair_of_data_sets(name: str, group: int, relation: str) -> None:
    plan = md.subsample(BRUTE[name], md.laplace(noise_multiplier=1.3))
    found = pure(plan, relation, group)
    assert largest_ratio(name, relation, group, 1.3) == pytest.approx(found.upper, rel=1e-9)
    assert found.lower <= found.upper


def test_a_subset_that_is_reused() -> None:
    """E over the copies in the subset of e^{what they lose in all releases}."""
    inner = md.subsample(md.wr(2, 3), md.laplace(shift=0.4))
    plan = md.repeat(5, md.subsample(md.wor(4, 2), md.repeat(3, inner)))
    with mp.workdps(40):
        release = 3 * mp.log(mp.mpf(1) / 2 + mp.exp(mp.mpf(0.4)) / 2)
        largest = 5 * mp.log(mp.mpf(1) / 2 + mp.exp(3 * release) / 2)
    found = pure(plan)
    assert found.lower <= largest <= found.upper <= largest * (1 + 1e-12)


@settings(max_examples=12, deadline=None)
@given(
    scheme=st.sampled_from([BRUTE["wor"], BRUTE["wr"], BRUTE["poisson"], BRUTE["must-ow"]]),
    relation=st.sampled_from(["replace_one", "add_remove"]),
    z=st.floats(2.0, 20.0),
    group=st.integers(1, 2),
    steps=st.integers(1, 3),
)
def test_no_epsilon_is_above_the_largest_loss(
    scheme: md.types.Scheme, relation: str, z: float, group: int, steps: int
) -> None:
    plan = md.repeat(steps, md.subsample(scheme, md.laplace(noise_multiplier=z)))
    account = md.account(plan, relation=relation, group=group)
    found = account.epsilon(0)
    assert account.certified_epsilon(1e-6, 0.05) <= found.upper == account.certified_epsilon(0)
    nothing = account.delta(found.upper)
    assert nothing.lower == nothing.upper == nothing.numerical_gap == 0.0


def exact_two(shift: float, below: float) -> mp.mpf:
    """Delta of two Laplace releases at 2 s - below, by quadrature of the losses.

    A loss is s with chance 1/2, -s with chance e^-s/2, and has the density e^{(l-s)/2}/4 between.
    """
    with mp.workdps(40):
        s, gap = mp.mpf(shift), mp.mpf(below)
        at_top = -mp.expm1(-gap) / 4
        one = 2 * mp.quad(lambda x: mp.exp(-x / 2) / 8 * -mp.expm1(x - gap), [0, min(gap, 2 * s)])
        both = mp.quad(lambda x: x * mp.exp(-x / 2) / 16 * -mp.expm1(x - gap), [0, min(gap, 2 * s)])
        return at_top + one + both


@pytest.mark.parametrize("below", [1e-12, 1e-9, 1e-6, 1e-3, 0.05, 0.3])
@pytest.mark.parametrize("shift", [1.0, 0.375])
def test_just_below_the_largest_loss(shift: float, below: float) -> None:
    account = md.account(md.repeat(2, md.laplace(shift=shift)), relation="replace_one")
    epsilon = 2 * shift - below
    bounds = account.delta(epsilon)
    exact = exact_two(shift, 2 * shift - epsilon)
    assert bounds.lower <= exact * (1 + mp.mpf(10) ** -12)
    assert exact <= bounds.upper * (1 + 1e-12)
    assert bounds.upper <= float(exact) * (1.02 if below > 1e-10 else 1.2)


def test_deltas_of_unlike_steps_at_and_below_the_end() -> None:
    """Their ends do not fit on one grid: these were refused for want of an accuracy near zero."""
    for accuracy in (None, 1e-3):
        account = md.account(MIXED, relation="replace_one", accuracy=accuracy)
        assert account.delta(4.0).upper == account.delta(4.0).lower == 0.0
        for below in (1e-7, 1e-4, 1e-2):
            bounds = account.delta(4.0 - below)
            top = -math.expm1(-below) / 32  # all five at their largest
            assert top * (1 - 1e-6) <= bounds.lower <= bounds.upper <= top * (1.02 + 2 * below)


def test_one_step_knows_its_largest_loss() -> None:
    """Coarse tables of an inner stage may say more."""
    plan = md.subsample(BRUTE["must-ow"], md.laplace(noise_multiplier=1.0))
    account = md.account(plan, group=2)
    assert account.epsilon(1e-9).upper <= account.epsilon(0).upper


def test_where_no_loss_is_the_largest() -> None:
    noise = md.gaussian(shift=1.0)
    for plan in (noise, md.sequence(noise, md.laplace(shift=1.0)), md.custom(lambda e: 0.0 * e)):
        account = md.account(plan, relation="replace_one")
        for zero in (0, 0.0, -0.0):
            with pytest.raises(md.InvalidParameter, match="delta must"):
                account.epsilon(zero)
            with pytest.raises(md.InvalidParameter, match="delta must"):
                account.certified_epsilon(zero)
    with pytest.raises(md.InvalidParameter, match="delta must"):
        md.account(md.subsample(md.wor(9, 3), md.laplace(shift=1.0)), method="one-slope").epsilon(0)
    with pytest.raises(md.InvalidParameter, match="delta must"):
        md.account(md.laplace(shift=1.0)).epsilon(False)


def test_a_law_cut_too_early_makes_the_answer_coarse() -> None:
    """2000 copies lose 4000; what the law leaves out, 1e-300, might. Valid, and called rough."""
    plan = md.subsample(md.must_ww(60000, 3000, 2000), md.laplace(shift=2.0))
    found = pure(plan)
    assert found.coarse
    assert 3.4 < found.lower < found.upper < 4000.0
    with pytest.raises(md.NumericalFailure, match="certified"):
        md.account(plan, accuracy=0.1).epsilon(0)
