"""Deltas that cannot move a rate are left out: on the safe side, and by next to nothing."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import norm

import mustdp as md
from mustdp.accounting import account as answers
from mustdp.accounting import account as searched
from mustdp.accounting.views import NEGLIGIBLE_DELTA, smallest_counted

RATES = [1e-6, 1e-3, 0.1, 0.5, 0.9, 1.0 - 1e-3, 1.0 - 1e-6]


@pytest.mark.parametrize(
    ("rates", "smallest"),
    [
        ([0.01, 0.5], 1e-8),
        ([0.5, 1.0 - 1e-4], 1e-10),  # what is left to one counts as well
        ([0.0, 0.5], NEGLIGIBLE_DELTA),
        ([1.0], NEGLIGIBLE_DELTA),
        ([1e-18], NEGLIGIBLE_DELTA),
        ([], 5e-7),
    ],
)
def test_a_millionth_of_the_smallest_rate(rates: list[float], smallest: float) -> None:
    assert smallest_counted(np.array(rates)) == pytest.approx(smallest, rel=1e-9)


@pytest.mark.parametrize("z", [0.5, 2.0, 20.0])
def test_rates_of_gaussian_noise_lie_between_the_bounds(z: float) -> None:
    account = md.account(md.gaussian(noise_multiplier=z))
    found = account.tradeoff(RATES)
    exact = np.asarray(norm.cdf(norm.isf(RATES) - 2.0 / z))
    assert np.all(found.lower <= exact * (1.0 + 1e-12))
    assert np.all(exact <= found.upper * (1.0 + 1e-12))
    for rate, missed, tpr in zip(RATES, exact, account.certified_tprs(RATES), strict=True):
        assert tpr >= 1.0 - missed - 1e-12, rate


@pytest.mark.parametrize("scheme", [md.must_ow(1000, 30, 20), md.poisson(1000, 0.02)])
def test_nothing_is_lost(scheme: md.types.Scheme, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = md.repeat(50, md.subsample(scheme, md.gaussian(noise_multiplier=2.0)))

    def rates() -> tuple[md.types.Tradeoff, list[float]]:
        account = md.account(plan, relation="replace_one", composition="pair")
        return account.tradeoff([1e-3, 0.1, 0.99]), account.certified_tprs([1e-3, 0.1, 0.99])

    some, quick = rates()
    for module in (answers, searched):
        monkeypatch.setattr(module, "smallest_counted", lambda _: NEGLIGIBLE_DELTA)
    whole, slow = rates()
    assert some.lower == pytest.approx(whole.lower, rel=1e-4)
    assert some.upper == pytest.approx(whole.upper, rel=1e-3)
    assert quick == pytest.approx(slow, rel=1e-4)
