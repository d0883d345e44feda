"""The multiplicity law against enumeration, and the laws that hold for every size."""

from __future__ import annotations

from fractions import Fraction

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mustdp as md
from mustdp.types import MultiplicityLaw
from tests.accounting.subsampling.exact_pairs import binomial
from tests.sampling.exact_laws import joint_law, law_of

TINY: list[md.types.Scheme] = [
    md.poisson(4, 0.3),
    md.poisson(3, 1.0),
    md.poisson(3, 0.0),
    md.wor(5, 3),
    md.wor(3, 3),
    md.wr(4, 5),
    md.wr(1, 3),
    md.must_ow(4, 2, 4),
    md.must_ow(4, 4, 3),
    md.must_ow(4, 1, 3),
    md.must_ww(4, 3, 4),
    md.must_ww(3, 6, 2),
    md.must_wo(4, 5, 3),
    md.must_oo(5, 4, 2),
    md.multistage(4, [("wr", 3), ("wr", 4), ("wr", 3)]),
    md.multistage(5, [("wor", 4), ("wr", 3), ("wor", 2), ("wr", 4)]),
    md.multistage(4, [("wor", 4), ("wr", 5), ("wor", 4), ("wor", 3)]),
]


def label(scheme: object) -> str:
    return str(scheme).replace("stages=", "")


def enumerated(scheme: md.types.Scheme, group: int) -> dict[int, Fraction]:
    return law_of(scheme, lambda counts: sum(counts[:group]))


@pytest.mark.parametrize("scheme", TINY, ids=label)
def test_law_is_the_enumerated_one_for_every_group(scheme: md.types.Scheme) -> None:
    for group in range(1, scheme.n + 1):
        law = scheme.law(group)
        exact = enumerated(scheme, group)
        stated = Fraction(law.relative_error)
        for j, p in zip(law.values.tolist(), law.probabilities.tolist(), strict=True):
            truth = exact.pop(j, Fraction(0))
            assert abs(Fraction(p) - truth) <= stated * truth
        assert sum(exact.values()) <= Fraction(law.cut)


@pytest.mark.parametrize("scheme", TINY, ids=label)
def test_eta_and_expected_distinct_are_the_enumerated_ones(scheme: md.types.Scheme) -> None:
    eta = 1 - enumerated(scheme, 1).get(0, Fraction(0))
    distinct = law_of(scheme, lambda counts: sum(count > 0 for count in counts))
    assert abs(Fraction(scheme.eta) - eta) <= 8 * Fraction(2) ** -53 * eta
    expected = sum(k * chance for k, chance in distinct.items())
    assert scheme.expected_distinct == pytest.approx(float(expected), rel=1e-15)


@pytest.mark.parametrize("scheme", TINY, ids=label)
def test_reduced_stages_have_the_same_joint_law(scheme: md.types.Scheme) -> None:
    if isinstance(scheme, md.types.Multistage):
        assert joint_law(md.types.Multistage(scheme.n, scheme.reduced)) == joint_law(scheme)


def same(a: MultiplicityLaw, b: MultiplicityLaw) -> bool:
    return a.first == b.first and np.array_equal(a.probabilities, b.probabilities)


SIZES = st.integers(1, 400)


@given(n=SIZES, b=SIZES, m=SIZES, group=st.integers(1, 5))
@settings(max_examples=60, deadline=None)
def test_schemes_that_are_the_same_have_identical_laws(n: int, b: int, m: int, group: int) -> None:
    group = min(group, n)
    whole = md.must_ow(n, n, m)
    assert same(whole.law(group), md.wr(n, m).law(group))
    assert whole.eta == md.wr(n, m).eta
    if m <= b:
        assert same(md.must_wo(n, b, m).law(group), md.wr(n, m).law(group))
        assert md.must_wo(n, b, m).eta == md.wr(n, m).eta
    if m <= b <= n:
        assert same(md.must_oo(n, b, m).law(group), md.wor(n, m).law(group))
        assert md.must_oo(n, b, m).eta == md.wor(n, m).eta


@st.composite
def schemes(draw: st.DrawFn) -> md.types.Scheme:
    """Any scheme of moderate size."""
    n = draw(st.integers(1, 3000))
    if draw(st.integers(0, 5)) == 0:
        return md.poisson(n, draw(st.floats(0, 1)))
    stages: list[tuple[str, int]] = []
    available = n
    for _ in range(draw(st.integers(1, 3))):
        kind = draw(st.sampled_from(["wor", "wr"]))
        size = draw(st.integers(1, available if kind == "wor" else 600))
        stages.append((kind, size))
        available = size
    return md.multistage(n, stages)


@given(scheme=schemes(), group=st.integers(1, 30), tail=st.sampled_from([0.0, 1e-300, 1e-12, 0.1]))
@settings(max_examples=80, deadline=None)
def test_laws_sum_to_one_and_have_the_right_mean(
    scheme: md.types.Scheme, group: int, tail: float
) -> None:
    group = min(group, scheme.n)
    law = scheme.law(group, tail)
    slack = law.relative_error + 1e-15
    total = law.probabilities.sum()
    assert (1 - law.cut) * (1 - slack) <= total <= 1 + slack
    assert law.cut <= max(tail, 4e-300)
    assert not law.probabilities.flags.writeable
    assert law.zero + law.positive.sum() == pytest.approx(total, rel=1e-14)
    assert law.positive.size == law.positive_values.size
    assert law.values.size == law.probabilities.size
    if tail <= 1e-300:
        mean = group * scheme.expected_size / scheme.n
        assert law.mean == pytest.approx(mean, rel=1e-11, abs=1e-290)
        np.testing.assert_array_equal(law.dense(), scheme.multiplicity(group))
        if group == 1:
            assert scheme.eta == pytest.approx(law.eta, rel=1e-12, abs=1e-290)
            assert law.zero == pytest.approx(1 - scheme.eta, abs=1e-12)


@given(n=st.integers(1, 10**6), b=st.integers(1, 10**6), m=st.integers(1, 10**6))
@settings(max_examples=200, deadline=None)
def test_order_of_eta(n: int, b: int, m: int) -> None:
    b, m = min(b, n), min(m, n)
    ow, wr, wor = md.must_ow(n, b, m).eta, md.wr(n, m).eta, md.wor(n, m).eta
    slack = 1 + 1e-13
    assert ow <= wr * slack
    assert wr <= wor * slack
    assert wor == md.poisson(n, m / n).eta
    if m == 1:
        assert ow == pytest.approx(wor, rel=1e-13)
    if m > 1 and b <= n // 2:
        assert ow < wr < wor


def test_two_stages_take_their_sizes_in_order() -> None:
    """The laws by their formulas, with a second stage that is larger or smaller than the first."""
    with mp.workdps(40):
        for n, b, m in ((9, 4, 7), (9, 7, 4)):
            first = binomial(b, mp.mpf(1) / n)
            ww = [
                mp.fsum(p * binomial(m, mp.mpf(i) / b)[j] for i, p in enumerate(first))
                for j in range(m + 1)
            ]
            ow = [mp.mpf(b) / n * p for p in binomial(m, mp.mpf(1) / b)]
            ow[0] += 1 - mp.mpf(b) / n
            for scheme, exact in ((md.must_ww(n, b, m), ww), (md.must_ow(n, b, m), ow)):
                found = scheme.multiplicity()
                assert found == pytest.approx([float(p) for p in exact], rel=1e-12)
