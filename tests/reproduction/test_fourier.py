"""The authors' own computation of the symmetric pair, against our enclosure of it."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

import mustdp as md
from tests.seams import fourier_delta

PUBLISHED: dict[str, dict[str, Any]] = json.loads(
    (Path(__file__).parents[1] / "golden" / "fourier_published.json").read_text(encoding="utf-8")
)
WW = md.must_ww(n=10_000, b=118, m=200)
WR = md.wr(n=10_000, m=200)


def steps(scheme: md.types.Scheme, z: float, count: int) -> md.types.Plan:
    return md.repeat(count, md.subsample(scheme, md.gaussian(noise_multiplier=z)))


def test_the_authors_interval_belongs_to_1500_steps() -> None:
    case = PUBLISHED["authors_interval"]
    scheme = md.must_ow(case["n"], case["b"], case["m"])
    given = {name: case[name] for name in ("sigma", "epsilon", "L", "r")}
    found = fourier_delta(scheme, steps=case["steps"], **given)
    assert found.lower == pytest.approx(case["lower"], rel=1e-7)
    assert found.upper == pytest.approx(case["upper"], rel=1e-7)
    assert 450 < found.upper / found.lower < 460
    fewer = fourier_delta(scheme, steps=1000, **given)
    assert 58 < fewer.upper / fewer.lower < 61
    for count, interval in ((1500, found), (1000, fewer)):
        pair = md.reproduction.PaperAccount(steps(scheme, case["sigma"], count)).delta(
            case["epsilon"]
        )
        assert interval.lower < pair.attained_lower <= pair.attained_upper < interval.upper
    assert "not a guarantee" in repr(found)


@pytest.mark.parametrize("scheme", [WW, WR], ids=["must-ww", "wr"])
def test_the_authors_method_with_laws_in_log_space(scheme: md.types.Scheme) -> None:
    found = fourier_delta(scheme, sigma=4.0, steps=1000, epsilon=1.0, L=6.0, r=300_000)
    pair = md.reproduction.PaperAccount(steps(scheme, 4.0, 1000)).delta(1.0)
    assert found.lower < pair.attained_lower <= pair.attained_upper < found.upper


@pytest.mark.parametrize("scheme", [md.wor(20, 5), md.must_ow(20, 8, 10)])
def test_both_methods_agree_where_it_is_easy(scheme: md.types.Scheme) -> None:
    found = fourier_delta(scheme, sigma=4.0, steps=4, epsilon=0.3, L=8.0, r=200_000)
    assert found.upper / found.lower < 1.01
    pair = md.reproduction.PaperAccount(steps(scheme, 4.0, 4), delta_width=1e-4).delta(0.3)
    assert found.lower < pair.attained_lower <= pair.attained_upper < found.upper
    assert found.lower_mass < 1 < found.upper_mass


def test_the_upper_value_of_the_authors_method_is_no_upper_bound() -> None:
    scheme = md.poisson(20, 0.25)
    found = fourier_delta(scheme, sigma=4.0, steps=4, epsilon=0.3, L=8.0, r=400_000)
    pair = md.reproduction.PaperAccount(steps(scheme, 4.0, 4), delta_width=1e-4).delta(0.3)
    assert found.lower < found.upper < pair.attained_lower
    assert found.upper == pytest.approx(pair.attained_lower, rel=1e-3)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"sigma": 0.1}, "masses of one step"),  # losses reach far beyond L
        ({"sigma": 1e3, "steps": 100}, "composed mass"),  # the whole loss lies in a few cells
        ({"sigma": 1e3, "steps": 10**6}, "composed mass came out as nan"),
    ],
)
def test_failures_of_the_authors_method_are_found(change: dict[str, Any], why: str) -> None:
    given = {"sigma": 1.0, "steps": 10, "epsilon": 1.0, "L": 4.0, "r": 2000}
    with pytest.raises(md.NumericalFailure, match=why):
        fourier_delta(md.wor(100, 10), **{**given, **change})


BAD = {
    "sigma": (0.0, math.nan),
    "steps": (0, 1.5),
    "epsilon": (-0.1, 4.0),
    "L": (0.0, math.inf),
    "r": (2, 2001),
    "scheme": ("wor", md.poisson(10, 0.0)),
}


@pytest.mark.parametrize(("name", "bad"), [(k, bad) for k, all_ in BAD.items() for bad in all_])
def test_bad_parameters_of_the_authors_method_are_refused(name: str, bad: Any) -> None:
    given = {"sigma": 1.0, "steps": 10, "epsilon": 1.0, "L": 4.0, "r": 2000}
    with pytest.raises(md.InvalidParameter, match=name):
        fourier_delta(**{"scheme": md.wor(100, 10), **given, name: bad})
