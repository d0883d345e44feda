"""What every mechanism must satisfy: checks of all that it states against its own definition.

The definition is the output distribution: a density, or masses on discrete outcomes. Everything
else that a mechanism states is compared with what follows from that by adding up numerically.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from scipy import stats
from scipy.signal import fftconvolve

import mustdp as md
from mustdp.accounting.plan import describe, plan_from_description
from mustdp.mechanisms.mechanism import DiscreteOutcomes, Noise, Proof
from mustdp.mechanisms.relation import shift_of
from mustdp.types import Mechanism, Relation
from tests.arrays import FloatArray

GROUPS = (1, 2, 3, 5)
SCHEMES = (
    md.poisson(20, 0.3),
    md.wor(10, 3),
    md.wr(6, 4),
    md.must_ow(20, 6, 4),
    md.must_ww(12, 6, 4),
)
#: Relative accuracy of sums over a fine grid of outcomes.
SUMMED = 2e-6


class Pair:
    """Two output distributions on the same outcomes, with the masses of each."""

    def __init__(self, p: FloatArray, q: FloatArray) -> None:
        self.p, self.q = p, q

    def delta(self, epsilon: float) -> float:
        """The hockey-stick divergence, added up."""
        return float(np.maximum(self.p - math.exp(epsilon) * self.q, 0.0).sum())

    def log_moment(self, order: float) -> float:
        """log E_Q (P/Q)^a, added up."""
        seen = (self.p > 0) & (self.q > 0)
        logs = order * np.log(self.p[seen]) + (1.0 - order) * np.log(self.q[seen])
        return float(np.logaddexp.reduce(logs))

    def loss(self) -> tuple[FloatArray, FloatArray]:
        """Losses and their chances under P; those of outcomes that Q does not have are large."""
        seen = self.p > 1e-280
        return np.log(self.p[seen]) - np.log(np.maximum(self.q[seen], 1e-300)), self.p[seen]

    def composed(self, steps: int, epsilon: float) -> float:
        """A lower bound of delta of so many steps: losses are rounded down to a fine grid."""
        spacing, reach = 1e-3, 25.0
        loss, mass = self.loss()
        index = np.floor(np.clip(loss, -reach, reach) / spacing).astype(np.int64)
        size = round(reach / spacing)
        one: FloatArray = np.bincount(index + size, weights=mass).astype(np.float64)
        one.resize(2 * size + 1, refcheck=False)
        total = one
        for _ in range(steps - 1):
            total = fftconvolve(total, one)
        at = (np.arange(total.size) - steps * size) * spacing
        return float(np.maximum(total, 0.0) @ np.maximum(-np.expm1(epsilon - at), 0.0))


def output(mechanism: Mechanism, shift: float | None) -> Noise | DiscreteOutcomes | None:
    return mechanism.attained(shift)


def pair_of(
    mechanism: Mechanism, shift: float | None, weights: FloatArray, name: str = "aligned"
) -> Pair:
    """The pair of a law of copies p_0, p_1, …, from the definition alone."""
    outcomes = mechanism.attained(shift)
    copies = np.arange(weights.size)
    if isinstance(outcomes, DiscreteOutcomes):
        up, down = outcomes.placements[name]
        masses = outcomes.masses(np.concatenate([copies * up, copies * down]))
        return Pair(weights @ masses[: copies.size], weights @ masses[copies.size :])
    assert isinstance(outcomes, Noise)
    assert shift is not None
    ahead, behind = {"aligned": (1.0, 0.0), "reversed": (0.0, 1.0), "symmetric": (0.5, -0.5)}[name]
    far = 40.0 + shift * weights.size
    x, width = np.linspace(-far, far, 400_001, retstep=True)

    def mixed(side: float) -> FloatArray:
        moved = (np.exp(outcomes.log_density(x - j * side * shift)) for j in copies)
        total: FloatArray = np.zeros(x.size)
        for weight, density in zip(weights, moved, strict=True):
            total = total + weight * float(width) * density
        return np.asarray(total)

    return Pair(mixed(ahead), mixed(behind))


def attains_profile(mechanism: Mechanism, shift: float | None) -> bool:
    """Whether the pair of one copy is said to attain the profile of one record."""
    outcomes = mechanism.attained(shift)
    return not isinstance(outcomes, DiscreteOutcomes) or outcomes.attains_profile


def only(copies: int) -> FloatArray:
    """The law of a record that occurs so often."""
    return np.asarray(np.eye(copies + 1)[copies])


def epsilons(mechanism: Mechanism, shift: float | None, group: int) -> list[float]:
    scale = group * (1.0 if shift is None else shift)
    return [share * scale for share in (0.0, 0.13, 0.5, 0.9, 1.0, 1.4)] + [-0.5 * scale]


def check_definition(mechanism: Mechanism) -> None:
    """Output distributions add up to one, and a proof is stated for its own law alone."""
    shift = mechanism.shift_for(2.0)
    outcomes = mechanism.attained(shift)
    laws = {Proof.GAUSSIAN: stats.norm, Proof.LAPLACE: stats.laplace}
    if mechanism.proof is not None:
        assert isinstance(outcomes, Noise)
        x = np.linspace(-30.0, 30.0, 601)
        assert np.allclose(outcomes.log_density(x), laws[mechanism.proof].logpdf(x), rtol=1e-12)
    if outcomes is not None:
        for copies in GROUPS:
            pair = pair_of(mechanism, shift, only(copies))
            assert pair.p.sum() == pytest.approx(1.0, rel=SUMMED)
            assert pair.q.sum() == pytest.approx(1.0, rel=SUMMED)


def check_profiles(mechanism: Mechanism) -> None:
    """Group profiles are above what is added up, close to it for one record, and in order."""
    shift = mechanism.shift_for(2.0)
    profiles = mechanism.profiles(shift)
    for group in GROUPS:
        points = np.array(epsilons(mechanism, shift, group))
        values = profiles.delta(np.array([float(group)]), points[:, None])[:, 0]
        values = np.minimum(values * (1.0 + profiles.relative_error), 1.0)
        larger = profiles.delta(np.array([group + 1.0]), points[:, None])[:, 0]
        assert np.all(larger >= values * (1.0 - 1e-9)), "profiles must not fall with the group"
        assert np.all(values >= np.maximum(0.0, -np.expm1(points)) * (1.0 - 1e-12))
        if output(mechanism, shift) is None:
            continue
        for name in ("aligned", "reversed"):
            pair = pair_of(mechanism, shift, only(group), name)
            for point, value in zip(points.tolist(), values.tolist(), strict=True):
                exact = pair.delta(point)
                assert value >= exact * (1.0 - SUMMED) - 1e-13, (group, point, value, exact)
                if group == 1 and attains_profile(mechanism, shift):
                    assert value <= exact * (1.0 + 1e-4) + 1e-7, (point, value, exact)


def check_shape(mechanism: Mechanism) -> None:
    """The profile of one record does not increase; an exact one is convex in alpha = e^epsilon."""
    profiles = mechanism.profiles(mechanism.shift_for(2.0))
    alpha = np.linspace(0.2, 8.0, 400)
    value = profiles.delta(np.array([1.0]), np.log(alpha)[:, None])[:, 0]
    assert np.all(np.diff(value) <= 1e-12)
    if output(mechanism, mechanism.shift_for(2.0)) is not None:
        assert np.all(np.diff(value, 2) >= -1e-10)
    assert np.all((value >= 0) & (value <= 1))
    assert profiles.delta(np.array([1.0]), np.array([[-np.inf]]))[0, 0] == 1.0


def check_moments(mechanism: Mechanism) -> None:
    """Stated moments are above those that are added up, and close."""
    shift = mechanism.shift_for(2.0)
    orders, copies = np.array([1.2, 2.0, 5.0]), np.array([1.0, 2.0, 3.0])
    stated = mechanism.log_moments(orders, copies, shift)
    if stated is None or output(mechanism, shift) is None:
        return
    for (i, order), (k, group) in product(enumerate(orders), enumerate(copies)):
        exact = pair_of(mechanism, shift, only(int(group))).log_moment(float(order))
        assert stated[i, k] >= exact * (1.0 - 1e-5) - 1e-9, (order, group, stated[i, k], exact)
        assert stated[i, k] <= exact * (1.0 + 1e-3) + 1e-6, (order, group, stated[i, k], exact)


def check_largest_loss(mechanism: Mechanism) -> None:
    """A stated largest loss is not passed, and is attained with a chance of one half."""
    shift = mechanism.shift_for(2.0)
    stated = mechanism.largest_loss(2)
    if stated is None:
        return
    for group in GROUPS:
        loss, mass = pair_of(mechanism, shift, only(group)).loss()
        kept = mass > 1e-200
        assert loss[kept].max() <= group * float(stated) * (1.0 + 1e-6)
        attained = mass[loss >= group * float(stated) * (1.0 - 1e-4)].sum()
        assert attained >= 0.5 * (1.0 - 1e-3)


def check_accounts(mechanism: Mechanism) -> None:
    """Under every scheme and relation: lower <= exact <= upper for one step and for a few."""
    for scheme, relation in product(SCHEMES, Relation):
        poisson = scheme.leaves_empty
        if poisson and relation == Relation.REPLACE_ONE and not mechanism.covers_left_out:
            with pytest.raises(md.NotCovered):
                md.account(md.subsample(scheme, mechanism), relation=relation).delta(0.1)
            continue
        shift = shift_of(mechanism, scheme, relation)
        if output(mechanism, shift) is None:
            bounds = md.account(md.subsample(scheme, mechanism), relation=relation).delta(0.1)
            assert bounds.lower == 0.0 <= bounds.upper
            continue
        law = scheme.multiplicity()
        names = ["symmetric"] if relation == Relation.REPLACE_ONE else []
        if not (poisson and names and mechanism.in_a_ball):
            names += ["aligned", "reversed"]
        outcomes = output(mechanism, shift)
        if isinstance(outcomes, DiscreteOutcomes):
            names = [name for name in names if name in outcomes.placements]
        pairs = {name: pair_of(mechanism, shift, law, name) for name in names}
        for steps, share in ((1, 0.5), (3, 0.5)):
            epsilon = share * (1.0 if shift is None else shift)
            plan = md.repeat(steps, md.subsample(scheme, mechanism))
            bounds = md.account(plan, relation=relation).delta(epsilon)
            where = (scheme.name, relation.value, steps, epsilon, bounds)
            if steps == 1:
                exact = max(pair.delta(epsilon) for pair in pairs.values())
                assert bounds.lower <= exact * (1.0 + SUMMED) + 1e-13, (where, exact)
            else:
                exact = max(pair.composed(steps, epsilon) for pair in pairs.values())
                exact *= 1.0 - 1e-6
            assert bounds.upper >= exact * (1.0 - SUMMED) - 1e-13, (where, exact)
            assert bounds.lower >= 0.9 * exact - 1e-9, (where, exact)
            assert bounds.lower <= bounds.upper, where
            exact_scheme = relation == Relation.ADD_REMOVE and scheme.name in ("poisson", "wor")
            if exact_scheme and attains_profile(mechanism, shift):
                assert bounds.upper <= bounds.lower * 1.03 + 1e-9, (where, "bounds should meet")


def check_plain(mechanism: Mechanism) -> None:
    """Releases on all records: both bounds around what is added up, and the gap is honest."""
    for relation in Relation:
        shift = mechanism.shift_for(2.0 if relation == Relation.REPLACE_ONE else 1.0)
        if output(mechanism, shift) is None:
            continue
        pair = pair_of(mechanism, shift, only(1))
        for steps in (1, 2, 4):
            epsilon = 0.4 * steps * (1.0 if shift is None else shift)
            bounds = md.account(md.repeat(steps, mechanism), relation=relation).delta(epsilon)
            exact = pair.delta(epsilon) if steps == 1 else pair.composed(steps, epsilon)
            assert bounds.upper >= exact * (1.0 - SUMMED) - 1e-12, (relation, steps, bounds, exact)
            above = pair.composed(steps, epsilon - 2e-3 * steps) * (1.0 + SUMMED) + 1e-12
            assert bounds.lower <= above, (relation, steps, bounds, above)
            assert bounds.lower >= 0.99 * exact - 1e-12, (relation, steps, bounds, exact)
            assert 0.0 <= bounds.numerical_gap <= bounds.upper - bounds.lower + 1e-12


def check_magnified(mechanism: Mechanism) -> None:
    """What is stated for larger contributions costs at least what they cost, and hardly more."""
    shift, larger = mechanism.shift_for(2.0), mechanism.magnified(1.7)
    if larger is None:
        return
    assert shift is not None
    moved = larger.shift_for(2.0)
    assert moved is not None
    assert Fraction(shift) * Fraction(1.7) <= Fraction(moved) * (1 + Fraction(1, 2**52))
    assert moved <= 1.7 * shift * (1.0 + 1e-14)
    distance = np.array([moved])
    assert type(larger) is type(mechanism)
    assert mechanism.profiles(shift).delta(distance / shift, np.array([[0.3]])) == pytest.approx(
        larger.profiles(moved).delta(np.array([1.0]), np.array([[0.3]])), rel=1e-9
    )


def check_json(mechanism: Mechanism) -> None:
    """Plans with it can be written and read back, and a ledger keeps them."""
    plan = md.repeat(3, md.subsample(md.wor(10, 3), mechanism))
    assert plan_from_description(json.loads(json.dumps(describe(plan)))) == plan


CHECKS: tuple[Callable[[Mechanism], None], ...] = (
    check_definition,
    check_profiles,
    check_shape,
    check_moments,
    check_largest_loss,
    check_plain,
    check_accounts,
    check_magnified,
    check_json,
)
