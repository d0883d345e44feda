"""Two steps against quadrature of the densities: attained values lie inside the bounds."""

from __future__ import annotations

import math

import numpy as np
import pytest

import mustdp as md
from tests.accounting.pld.mixture_pairs import ExactPair, family, two_steps

SCHEMES = {
    "wor": md.wor(4, 2),
    "wr": md.wr(3, 2),
    "must-ow": md.must_ow(4, 3, 2),
    "must-ww": md.must_ww(4, 3, 2),
}
EPSILONS = (0.05, 0.5, 1.2, 2.5)


def test_the_quadrature_itself() -> None:
    """The mean over the first loss equals a plain sum over a fine square of outcomes."""
    pair = family("aligned", [0.5, 0.3, 0.2], 0.9, "gaussian")
    x = np.linspace(-8.0, 10.0, 1801)
    p, q = pair.densities(x)
    for epsilon in EPSILONS:
        square = np.maximum(np.outer(p, p) - math.exp(epsilon) * np.outer(q, q), 0.0)
        direct = float(square.sum()) * (x[1] - x[0]) ** 2
        assert two_steps(pair, pair, epsilon) == pytest.approx(direct, rel=2e-4)


def bounds_of(
    scheme: md.types.Scheme, mechanism: str, shift: float, relation: str
) -> md.types.Account:
    noise = getattr(md, mechanism)(shift=shift)
    return md.account(md.repeat(2, md.subsample(scheme, noise)), relation=relation)


@pytest.mark.parametrize("mechanism", ["gaussian", "laplace"])
@pytest.mark.parametrize("name", SCHEMES)
def test_replacing_a_record(name: str, mechanism: str) -> None:
    """Every attained pair is below the upper bound; the lower bound is one of them."""
    scheme, shift = SCHEMES[name], 0.9
    account = bounds_of(scheme, mechanism, shift, "replace_one")
    chances = scheme.multiplicity().tolist()
    pairs = [
        family(kind, chances, shift, mechanism) for kind in ("aligned", "reversed", "symmetric")
    ]
    for epsilon in EPSILONS:
        bounds = account.delta(epsilon)
        attained = [two_steps(a, b, epsilon) for a in pairs for b in pairs]
        assert max(attained) <= bounds.upper * (1 + 1e-6)
        assert bounds.lower <= max(attained) * (1 + 1e-6)
        assert bounds.lower >= 0.97 * max(attained) - 1e-9


@pytest.mark.parametrize("mechanism", ["gaussian", "laplace"])
@pytest.mark.parametrize("name", ["wor", "wr"])
def test_adding_or_removing_a_record(name: str, mechanism: str) -> None:
    """One order throughout; the larger of the two is the answer, from both sides."""
    scheme, shift = SCHEMES[name], 0.9
    account = bounds_of(scheme, mechanism, shift, "add_remove")
    chances = scheme.multiplicity().tolist()
    ways = [family(kind, chances, shift, mechanism) for kind in ("aligned", "reversed")]
    for epsilon in EPSILONS:
        bounds = account.delta(epsilon)
        value = max(two_steps(pair, pair, epsilon) for pair in ways)
        assert bounds.lower <= value * (1 + 1e-6) + 1e-12
        assert value <= bounds.upper * (1 + 1e-6) + 1e-12
        assert bounds.upper - bounds.lower <= 0.01 * value + 1e-9


@pytest.mark.parametrize("mechanism", ["gaussian", "laplace"])
@pytest.mark.parametrize("rate", [0.02, 0.3, 0.9])
def test_poisson(rate: float, mechanism: str) -> None:
    z = 0.8
    noise = getattr(md, mechanism)(noise_multiplier=z)
    plan = md.repeat(2, md.subsample(md.poisson(10, rate), noise))
    chances = [1 - rate, rate]
    removed = [family(kind, chances, 1 / z, mechanism) for kind in ("aligned", "reversed")]
    replaced = [family("symmetric", chances, 2 / z, mechanism)]
    for relation, ways in (("add_remove", removed), ("replace_one", replaced)):
        account = md.account(plan, relation=relation)
        for epsilon in (0.02, 0.3, 1.0):
            bounds = account.delta(epsilon)
            value = max(two_steps(pair, pair, epsilon) for pair in ways)
            assert bounds.lower <= value * (1 + 1e-6) + 1e-12
            assert value <= bounds.upper * (1 + 1e-6) + 1e-12
            assert bounds.upper - bounds.lower <= 0.01 * value + 1e-9


def test_the_two_directions_differ_and_the_larger_counts() -> None:
    """Composing only one direction would understate the other, by 18 % here at epsilon = 0.05."""
    scheme, shift = md.wor(10, 3), 0.5
    account = bounds_of(scheme, "laplace", shift, "add_remove")
    chances = scheme.multiplicity().tolist()
    remove, add = (family(kind, chances, shift, "laplace") for kind in ("aligned", "reversed"))
    for epsilon, larger in ((0.05, "add"), (0.3, "remove")):
        both = [two_steps(pair, pair, epsilon) for pair in (remove, add)]
        bounds = account.delta(epsilon)
        assert bounds.lower * (1 - 1e-6) <= max(both) <= bounds.upper * (1 + 1e-6)
        assert bounds.direction == larger
        assert max(both) > 1.1 * min(both)


def test_different_steps_in_one_sequence() -> None:
    one, two = md.wor(4, 2), md.wr(3, 2)
    first, second = md.gaussian(shift=0.9), md.gaussian(shift=0.4)
    plan = md.sequence(md.subsample(one, first), md.subsample(two, second))
    other = md.sequence(md.subsample(two, second), md.subsample(one, first))
    account, swapped = (md.account(p, relation="add_remove") for p in (plan, other))
    pairs: list[tuple[ExactPair, ExactPair]] = [
        (
            family(kind, one.multiplicity().tolist(), 0.9, "gaussian"),
            family(kind, two.multiplicity().tolist(), 0.4, "gaussian"),
        )
        for kind in ("aligned", "reversed")
    ]
    for epsilon in EPSILONS:
        value = max(two_steps(a, b, epsilon) for a, b in pairs)
        bounds = account.delta(epsilon)
        assert bounds.lower <= value * (1 + 1e-6) <= bounds.upper * (1 + 2e-6)
        assert swapped.delta(epsilon).upper == pytest.approx(bounds.upper, rel=1e-9)
        assert swapped.delta(epsilon).lower == pytest.approx(bounds.lower, rel=1e-9)
