"""The bridge to OpenDP, with its own measurements and profiles."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np
import pytest

import mustdp as md
from tests.interop.conftest import page_code

dp: Any = pytest.importorskip("opendp.prelude")

from mustdp.interop.opendp import make_release, privacy_profile


@pytest.fixture(autouse=True, scope="module")
def features() -> None:
    dp.enable_features("contrib", "honest-but-curious")


@pytest.fixture(autouse=True)
def quiet() -> Any:
    """Small samples have large deltas here."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", md.types.LargeDelta)
        yield


PLANS = [
    md.repeat(3, md.gaussian(noise_multiplier=2.0)),
    md.repeat(50, md.subsample(md.poisson(1000, 0.05), md.gaussian(noise_multiplier=2.0))),
    md.sequence(md.pure_dp(0.4), md.zcdp(0.05)),
]


@pytest.mark.parametrize("plan", PLANS, ids=str)
def test_a_profile_is_the_upper_bound_of_an_account(plan: Any) -> None:
    found = md.account(plan)
    profile = privacy_profile(found)
    for epsilon in (0.0, 0.3, 1.0, 2.5):
        assert profile.delta(epsilon=epsilon) == pytest.approx(found.delta(epsilon).upper)
    bounds = found.epsilon(delta=1e-6)
    inverse = profile.epsilon(delta=1e-6)
    assert bounds.lower * (1 - 1e-9) <= inverse <= bounds.upper * 1.005
    assert profile.delta(epsilon=inverse) <= 1e-6 * (1 + 1e-9)


def test_ends_of_a_profile() -> None:
    profile = privacy_profile(md.account(md.gaussian(noise_multiplier=1.0)))
    assert 0 <= profile.delta(epsilon=1e4) < 1e-20
    with pytest.raises(Exception, match="epsilon"):
        profile.delta(epsilon=-1.0)
    nothing = privacy_profile(md.account(md.gaussian(noise_multiplier=1e-6)))
    assert nothing.delta(epsilon=1.0) == 1
    with pytest.raises(md.InvalidParameter, match="account"):
        privacy_profile(md.gaussian(noise_multiplier=1.0))  # type: ignore[arg-type]


def test_beside_opendp_itself() -> None:
    """Gaussian noise by OpenDP, and its curve by us: an exact profile is no larger."""
    space = dp.vector_domain(dp.atom_domain(T=float, nan=False)), dp.l2_distance(T=float)
    theirs = dp.c.make_zCDP_to_approxDP(dp.m.make_gaussian(*space, scale=2.0)).map(1.0)
    ours = privacy_profile(md.account(md.gaussian(shift=0.5)))
    for epsilon in (0.3, 1.0, 2.0):
        assert ours.delta(epsilon=epsilon) <= theirs.delta(epsilon=epsilon) * (1 + 1e-9)


def test_a_release_is_a_measurement() -> None:
    measurement = make_release("mean", n=400, lower=0, upper=10, noise_multiplier=4.0, delta=1e-5)
    one = md.account(md.gaussian(noise_multiplier=4.0), relation="replace_one")
    epsilon, delta = measurement.map(1)
    assert (epsilon, delta) == (pytest.approx(one.epsilon(delta=1e-5).upper), 1e-5)
    assert measurement.map(0) == (0, 0)
    three = md.account(md.gaussian(noise_multiplier=4.0), relation="replace_one", group=3)
    assert measurement.map(3)[0] == pytest.approx(three.epsilon(delta=1e-5).upper)
    records = np.random.default_rng(0).uniform(2, 6, 400).tolist()
    result = measurement(records)
    assert isinstance(result, md.types.ReleaseResult)
    assert result.privacy.noise_multiplier == 4.0
    assert abs(result.estimate - np.mean(records)) < 8 * 4.0 * 10 / 400
    assert result.estimate != measurement(records).estimate  # fresh noise


def test_a_target_is_met() -> None:
    measurement = make_release(
        ["mean", "sd"], n=500, lower=0, upper=1, epsilon=0.7, delta=1e-5, level=0.9
    )
    assert measurement.check(1, (0.7, 1e-5))
    assert not measurement.check(1, (0.68, 1e-5))
    assert not measurement.check(2, (0.7, 1e-5))
    assert [one.statistic for one in measurement([0.25] * 500).estimates] == ["mean", "sd"]


def test_composition_by_opendp() -> None:
    mean = make_release("mean", n=300, lower=0, upper=1, epsilon=0.5, delta=1e-6)
    both = dp.c.make_composition([mean, mean])
    epsilon, delta = both.map(1)
    assert 2 * 0.49 < epsilon <= 1.0 + 1e-9
    assert delta == pytest.approx(2e-6)
    assert len(both([0.5] * 300)) == 2


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"n": 0}, "n must"),
        ({"lower": math.nan}, "lower"),
        ({"upper": -1}, "upper"),
        ({"delta": 2.0}, "delta"),
        ({"epsilon": -1.0}, "epsilon"),
        ({"noise_multiplier": 1.0}, "epsilon"),
        ({"seed": 3}, "seed"),
        ({"relation": "add_remove"}, "relation"),
        ({"statistics": "middle"}, "statistic"),
        ({"level": 2.0}, "level"),
    ],
    ids=str,
)
def test_bad_input(change: dict[str, Any], told: str) -> None:
    given: dict[str, Any] = {"n": 100, "lower": 0, "upper": 1, "epsilon": 1.0, "delta": 1e-5}
    given |= change
    with pytest.raises(md.InvalidParameter, match=told):
        make_release(given.pop("statistics", "mean"), **given)


def test_data_outside_the_domain_are_refused() -> None:
    """OpenDP itself does not compare data with the domain."""
    measurement = make_release("mean", n=100, lower=0, upper=1, epsilon=1.0, delta=1e-5)
    with pytest.raises(Exception, match="n = 100"):
        measurement([0.5] * 99)
    with pytest.raises(Exception, match="missing"):
        measurement([math.nan] * 100)


def test_the_lines_of_the_page(capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, Any] = {}
    exec(compile(page_code("OpenDP"), "interop.md", "exec"), names)
    assert names["both"].map(1)[0] <= 1.0 + 1e-9
    assert len(capsys.readouterr().out.splitlines()) == 3
