"""Laplace noise: k steps against exact values, and every scheme."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import mustdp as md

GOLDEN = json.loads(
    (Path(__file__).parents[1] / "golden" / "accountant_laplace.json").read_text(encoding="utf-8")
)


@pytest.mark.parametrize(("steps", "shift", "epsilon", "delta"), GOLDEN["rows"])
def test_exact_convolutions(steps: int, shift: float, epsilon: float, delta: str) -> None:
    """Atoms at both ends and a density in between, convolved exactly (mpmath)."""
    account = md.account(md.repeat(steps, md.laplace(shift=shift)), relation="replace_one")
    bounds = account.delta(epsilon)
    assert bounds.lower <= float(delta) <= bounds.upper
    assert bounds.upper - bounds.lower <= 0.01 * float(delta)


def test_epsilon_is_never_above_pure_privacy() -> None:
    account = md.account(md.repeat(5, md.laplace(shift=0.3)), relation="replace_one")
    assert account.epsilon(1e-20).upper <= 1.5 * (1 + 1e-3)
    assert account.epsilon(1e-20).lower >= 1.5 * (1 - 2e-3)
    assert account.delta(1.5).lower == 0.0
    assert account.delta(1.5).upper < 1e-8
    assert account.delta(1.6).upper == 0.0


@pytest.mark.parametrize(
    "scheme",
    [
        md.poisson(50, 0.2), md.wor(50, 10), md.wr(50, 10), md.must_ow(50, 20, 10),
        md.must_ww(50, 20, 10), md.must_wo(50, 20, 10), md.must_oo(50, 20, 10),
        md.multistage(20, [("wor", 10), ("wr", 5), ("wr", 4)]),
    ],
    ids=lambda scheme: scheme.name,
)  # fmt: skip
@pytest.mark.parametrize("relation", ["replace_one", "add_remove"])
def test_every_scheme(scheme: md.types.Scheme, relation: str) -> None:
    plan = md.repeat(20, md.subsample(scheme, md.laplace(noise_multiplier=5.0)))
    bounds = md.account(plan, relation=relation).epsilon(1e-6)
    assert 0.0 < bounds.lower <= bounds.upper < 8.0
    meets = scheme.name in ("poisson", "wor", "wr", "must-wo", "must-oo")
    if scheme.name == "poisson" or (meets and relation == "add_remove"):
        assert bounds.upper - bounds.lower <= 2.5e-3 * bounds.upper
    else:
        assert bounds.lower >= 0.8 * bounds.upper
