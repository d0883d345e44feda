"""Laws of neighbouring settings: more noise, fewer steps or a larger delta never cost more.

Both bounds may be off by their numerical gap, so they are in order up to that; and what one setting
attains is never more than what is certified for one that hides less.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

import pytest

import mustdp as md
from mustdp.accounting.epochs.pairs import epoch_sides
from mustdp.accounting.plan import InEpoch
from mustdp.accounting.pld.readoff import last_above
from mustdp.types import Relation

NOISES = (0.7, 0.75, 0.8, 0.9, 1.0, 1.3, 2.0, 4.0)
SCHEMES: dict[str, Callable[[float, int], md.types.Plan]] = {
    "poisson": lambda z, steps: _draws(md.poisson(1000, 0.02), z, steps),
    "wor": lambda z, steps: _draws(md.wor(1000, 20), z, steps),
    "wr": lambda z, steps: _draws(md.wr(1000, 20), z, steps),
    "must-ow": lambda z, steps: _draws(md.must_ow(1000, 100, 20), z, steps),
    "must-ww": lambda z, steps: _draws(md.must_ww(1000, 100, 20), z, steps),
    "gaussian": lambda z, steps: md.repeat(steps, md.gaussian(noise_multiplier=z)),
    "laplace": lambda z, steps: md.repeat(steps, md.laplace(noise_multiplier=z)),
    "shuffle": lambda z, steps: _draws(md.shuffle(100, 5), z, steps),
    "allocation": lambda z, steps: _draws(md.random_allocation(1000, 20), z, steps),
}


def _draws(scheme: md.types.Scheme | md.types.Epoch, z: float, steps: int) -> md.types.Plan:
    return md.repeat(steps, md.subsample(scheme, md.gaussian(noise_multiplier=z)))


def _in_order(found: Sequence[md.Bounds]) -> None:
    """Bounds by settings that hide more and more."""
    for less, more in itertools.pairwise(found):
        room = less.numerical_gap + more.numerical_gap + 1e-9 * less.upper
        assert more.upper <= less.upper + room
        assert more.lower <= less.lower + room
    for first, second in itertools.combinations(found, 2):
        assert second.lower <= first.upper


@pytest.mark.parametrize(("steps", "noises"), [(1, NOISES), (4, NOISES[1::2])], ids=["1", "4"])
@pytest.mark.parametrize("name", SCHEMES)
def test_more_noise_never_costs_more(name: str, steps: int, noises: Sequence[float]) -> None:
    plans = [SCHEMES[name](z, steps) for z in noises]
    accounts = [md.account(plan, composition="pair") for plan in plans]
    _in_order([one.epsilon(1e-5) for one in accounts])
    _in_order([one.delta(0.5) for one in accounts])


@pytest.mark.parametrize("name", SCHEMES)
def test_more_steps_never_cost_less(name: str) -> None:
    plans = [SCHEMES[name](1.0, steps) for steps in (30, 10, 3, 2, 1)]
    _in_order([md.account(plan, composition="pair").epsilon(1e-5) for plan in plans])


@pytest.mark.parametrize("name", SCHEMES)
def test_a_larger_delta_never_costs_more(name: str) -> None:
    account = md.account(SCHEMES[name](1.0, 3), composition="pair")
    _in_order([account.epsilon(delta) for delta in (1e-12, 1e-8, 1e-5, 1e-3, 0.1, 0.5)])
    _in_order([account.delta(epsilon) for epsilon in (0.0, 0.1, 0.5, 1.0, 3.0)])


@pytest.mark.parametrize("relation", ["add_remove", "replace_one"])
@pytest.mark.parametrize("bins", [2, 7, 200])
def test_allocation_is_in_order_at_all_noises(bins: int, relation: str) -> None:
    noises = (0.02, 0.06, 0.15, 0.4, 0.55, 0.8, 1.1, 1.7, 3.0, 30.0, 1e6)
    found = []
    for z in noises:
        step = md.subsample(md.random_allocation(1000, bins), md.gaussian(noise_multiplier=z))
        found.append(md.account(step, relation=relation).epsilon(1e-5))
    _in_order(found)


@pytest.mark.parametrize("bins", [2, 3])
def test_what_few_bins_attain_does_not_collapse_at_little_noise(bins: int) -> None:
    """Below a multiplier of 0.1 it was 102 where 140 was attained with more noise.

    Straight off the pairs of an epoch, of those that are quick: upper bounds take long there.
    """

    def attained(z: float, *names: str) -> float:
        atom = InEpoch(md.random_allocation(10 * bins, bins), md.gaussian(noise_multiplier=z))
        _, _, pairs = epoch_sides(atom, Relation.REPLACE_ONE, "certified")
        return max(last_above(pairs[name], 1e-5, 150.0) for name in names if name in pairs)

    with_more_noise = attained(0.1, "symmetric")
    assert with_more_noise > 100.0
    quick = attained(0.0999, "symmetric, largest", "symmetric, noisier")
    assert quick >= with_more_noise * (1.0 - 1e-5)
