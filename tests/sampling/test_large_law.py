"""The multiplicity law at real sizes against arbitrary precision: its error is the stated one."""

from __future__ import annotations

from collections.abc import Iterable

import mpmath as mp
import numpy as np
import pytest

import mustdp as md
from mustdp.errors import NumericalFailure
from mustdp.sampling import schemes
from mustdp.sampling.schemes import chain_law, stage_law
from mustdp.types import MultiplicityLaw, Stage


def log_choose(n: int, k: int) -> mp.mpf:
    return mp.loggamma(n + 1) - mp.loggamma(k + 1) - mp.loggamma(n - k + 1)


def kernel(stage: Stage, population: int, special: int, j: int) -> mp.mpf:
    """Chance of j special entries after one stage, from the textbook formula."""
    size = stage.size
    if stage.kind == "wor":
        if not max(0, size - population + special) <= j <= min(size, special):
            return mp.mpf(0)
        logarithm = (
            log_choose(special, j)
            + log_choose(population - special, size - j)
            - log_choose(population, size)
        )
        return mp.exp(logarithm)
    if j > size:
        return mp.mpf(0)
    if special in (0, population):
        return mp.mpf(j == (size if special else 0))
    chance = mp.mpf(special) / population
    return mp.exp(log_choose(size, j) + j * mp.log(chance) + (size - j) * mp.log1p(-chance))


def sampled(law: MultiplicityLaw, count: int) -> Iterable[tuple[int, float]]:
    """Some entries from end to end, the largest among them."""
    size = law.probabilities.size
    picks = {int(k) for k in np.linspace(0, size - 1, count)} | {int(law.probabilities.argmax())}
    return [(law.first + k, float(law.probabilities[k])) for k in sorted(picks)]


@pytest.mark.parametrize("tail", [1e-300, 1e-30, 1e-4])
@pytest.mark.parametrize(
    ("scheme", "group"),
    [
        (md.wr(10**6, 10**5), 1),
        (md.wr(10**6, 10**5), 40),
        (md.wr(1000, 10**6), 1),
        (md.wr(7, 10**9), 2),
        (md.wr(2**53, 2**53), 3),
        (md.wor(10**6, 10**5), 1),
        (md.wor(10**6, 10**5), 5000),
        (md.wor(10**9, 10**7), 10**6),
        (md.wor(2**53, 2**52), 64),
        (md.wor(10**6, 999_999), 1000),
        (md.wr(10**9, 10**12), 10**9 - 1),
    ],
    ids=str,
)
def test_one_stage(scheme: md.types.Multistage, group: int, tail: float) -> None:
    (stage,) = scheme.reduced
    law = scheme.law(group, tail)
    with mp.workdps(60):
        for j, p in sampled(law, 25):
            truth = kernel(stage, scheme.n, group, j)
            assert abs(mp.mpf(p) - truth) <= law.relative_error * truth
    assert law.relative_error < 1e-8


@pytest.mark.parametrize(
    ("scheme", "group"),
    [
        (md.must_ow(10**6, 10**4, 10**5), 1),
        (md.must_ow(10**6, 10**4, 10**5), 30),
        (md.must_ww(10**6, 10**5, 10**5), 1),
        (md.must_ww(10**5, 10**5, 3 * 10**5), 5),
        (md.must_ww(60_000, 3000, 2000), 2),
        (md.must_ww(10**12, 10**9, 10**7), 1),
    ],
    ids=str,
)
def test_two_stages(scheme: md.types.Multistage, group: int) -> None:
    first, second = scheme.reduced
    law = scheme.law(group)
    before = stage_law(first, scheme.n, group)
    with mp.workdps(60):
        rows = [
            (i, kernel(first, scheme.n, group, i))
            for i in range(before.first, before.first + before.probabilities.size + 4)
        ]
        for j, p in sampled(law, 8):
            truth = sum(weight * kernel(second, first.size, i, j) for i, weight in rows if weight)
            if truth > 1e-285:  # below, what the cut left out would have to be counted too
                assert abs(mp.mpf(p) - truth) <= law.relative_error * truth
    assert law.relative_error < 1e-11


def test_three_stages() -> None:
    scheme = md.multistage(40_000, [("wor", 900), ("wr", 700), ("wr", 500)])
    law = scheme.law(2)
    first, second, third = scheme.reduced
    with mp.workdps(60):
        lists = [(i, kernel(first, scheme.n, 2, i)) for i in range(3)]
        middle = [
            (i, sum(w * kernel(second, first.size, s, i) for s, w in lists)) for i in range(200)
        ]
        for j in (0, 1, 2, 7, 30):
            truth = sum(w * kernel(third, second.size, i, j) for i, w in middle)
            assert abs(mp.mpf(float(law.dense()[j])) - truth) <= law.relative_error * truth


@pytest.mark.parametrize("tail", [0.5, 1e-2, 1e-9, 1e-40])
@pytest.mark.parametrize(
    ("scheme", "group"),
    [
        (md.wr(300, 900), 1),
        (md.wr(300, 900), 100),
        (md.wor(600, 400), 90),
        (md.must_ow(900, 60, 120), 4),
        (md.must_ww(80, 60, 70), 1),
        (md.poisson(500, 0.4), 120),
    ],
    ids=str,
)
def test_cut_bounds_what_is_missing(scheme: md.types.Scheme, group: int, tail: float) -> None:
    law = scheme.law(group, tail)
    largest = group if isinstance(scheme, md.types.Poisson) else int(scheme.expected_size)
    with mp.workdps(80):
        truth = exact_chain(scheme, group, largest)
        kept = {j: mp.mpf(p) for j, p in zip(law.values.tolist(), law.probabilities, strict=True)}
        missing = mp.mpf(0)
        for j, chance in enumerate(truth):
            p = kept.get(j, mp.mpf(0))
            assert p * (1 - law.relative_error) <= chance
            missing += max(chance - p * (1 + law.relative_error), mp.mpf(0))
    assert missing <= law.cut
    assert law.cut <= tail
    if tail >= 1e-9:
        assert missing > 0  # the tail asked for was really used


def exact_chain(scheme: md.types.Scheme, group: int, largest: int) -> list[mp.mpf]:
    if isinstance(scheme, md.types.Poisson):
        rate = mp.mpf(scheme.rate)
        return [
            mp.binomial(group, j) * rate**j * (1 - rate) ** (group - j) for j in range(largest + 1)
        ]
    if not isinstance(scheme, md.types.Multistage):
        raise TypeError(scheme)
    law, population = {group: mp.mpf(1)}, scheme.n
    for stage in scheme.reduced:
        law = {
            j: sum(weight * kernel(stage, population, i, j) for i, weight in law.items())
            for j in range(stage.size + 1)
        }
        population = stage.size
    return [law[j] for j in range(largest + 1)]


@pytest.mark.parametrize(
    ("scheme", "reason"),
    [
        (md.wr(2, 2**53), "at most 2000000 are supported"),
        (md.must_ww(10, 10**7, 10**7), "are supported"),
        (md.must_ww(10**9, 10, 10**9), "are supported"),
    ],
    ids=str,
)
def test_laws_too_wide_to_be_trusted_are_refused(scheme: md.types.Scheme, reason: str) -> None:
    with pytest.raises(NumericalFailure, match=reason):
        scheme.law()


def test_errors_add_up_from_stage_to_stage() -> None:
    before = MultiplicityLaw(0, np.array([0.7, 0.3]), 0.0, 1e-3)
    after = schemes._apply(before, Stage("wr", 5), 10, 1e-30)
    assert after.relative_error >= 1e-3


def test_entries_too_small_to_be_accurate_join_the_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a coarse notion of too small, most of the law is dropped, and all of it is counted."""
    monkeypatch.setattr(schemes, "_UNDERFLOW", 0.02)
    stages = (Stage("wor", 10), Stage("wr", 200))
    law = chain_law.__wrapped__(30, stages, 1, 1e-30)  # not the cached one
    missing = 1.0 - float(law.probabilities.sum())
    assert missing > 0.04
    assert law.cut >= missing * (1.0 - 1e-12)
