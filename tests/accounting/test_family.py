"""Bounds of many steps from a family: brute force over triples, play, and the laws they obey."""

from __future__ import annotations

import math

import numpy as np
import pytest

import mustdp as md
from mustdp import InvalidParameter
from mustdp.accounting.bounds import FamilyBounds
from mustdp.accounting.families.composition import family_bounds, family_of
from mustdp.accounting.families.recursion import LossWindow, Recursion, attained
from mustdp.accounting.families.triples import (
    DiscTriples,
    DistantTriples,
    LineTriples,
    ReplacedTwice,
)
from mustdp.accounting.plan import Atom, Subsample, atoms
from mustdp.accounting.pld.discretise import family_pair, merge
from mustdp.accounting.pld.readoff import DeltaAt, EpsilonAt, Question
from mustdp.mechanisms.mechanism import GaussianNoise
from mustdp.types import Relation
from tests.accounting.subsampling.three_points import Outcomes, outcomes
from tests.arrays import FloatArray

REPLACE = Relation.REPLACE_ONE
USUAL = EpsilonAt(1e-5)


def atom_of(scheme: md.types.Scheme, mechanism: md.types.Mechanism) -> Atom:
    (atom,) = atoms(md.subsample(scheme, mechanism))
    return atom


def bounds(
    scheme: md.types.Scheme, z: float, steps: int, question: Question = USUAL,
    dimension: int | None = None, work: float = 5e7,
) -> FamilyBounds:  # fmt: skip
    atom = atom_of(scheme, md.gaussian(noise_multiplier=z))
    found = family_bounds(
        [(atom, steps)],
        REPLACE,
        question,
        dimension=dimension,
        work=work,
    )
    assert found is not None
    return found


def one_pair(scheme: md.types.Scheme, z: float, steps: int) -> md.types.Account:
    plan = md.repeat(steps, md.subsample(scheme, md.gaussian(noise_multiplier=z)))
    return md.account(plan, composition="pair")


def all_triples(shift: float, parts: int, *, flat: bool) -> list[tuple[complex, complex, complex]]:
    """x, x' and y over the triangles that dominate the others (a line: y between the two)."""
    if flat:
        return [(0j, complex(shift), complex(f * shift)) for f in np.linspace(0.0, 1.0, parts)]
    triples = []
    for omega in np.linspace(0.3, 0.5 * math.pi, parts):
        for share in np.linspace(0.0, 1.0, parts):
            a, b = (1.0 - share) * omega, share * omega
            u, w = shift * math.cos(b), shift * math.sin(a + b)
            place = u * complex(math.sin(a), math.cos(a))  # the cosine at x is sin a
            triples.append((0j, complex(w), place))
    return triples


def best_game(pairs: list[Outcomes], steps: int, epsilon: float) -> float:
    """The adaptive game over all pairs, by sums over outcomes."""
    e = np.linspace(-5.0, 5.0, 401)
    g = np.maximum(-np.expm1(e), 0.0)
    histograms = []
    for pair in pairs:  # outcomes of one pair, gathered by their loss
        loss = np.log(pair.p) - np.log(pair.q)
        fine = np.round(loss / 2e-3).astype(np.int64)
        low = fine.min()
        mass = np.bincount(fine - low, weights=pair.p)
        mean = np.bincount(fine - low, weights=pair.p * loss)
        kept = mass > 1e-15
        histograms.append((mass[kept], mean[kept] / mass[kept]))
    for step in range(steps):
        at = e if step < steps - 1 else np.array([epsilon])
        values = [
            np.interp(at[:, None] - loss, e, g, left=1.0, right=0.0) @ mass
            for mass, loss in histograms
        ]
        g = np.max(values, axis=0)
    return float(g[0])


@pytest.mark.parametrize(("flat", "steps"), [(True, 2), (True, 3), (False, 2), (False, 3)])
def test_few_steps_against_brute_force_over_triples(flat: bool, steps: int) -> None:
    chance, shift = 0.2, 1.0
    triples = all_triples(shift, 9 if flat else 6, flat=flat)
    pairs = [outcomes(chance, *points, step=0.1) for points in triples]
    pairs += [pair.swapped for pair in pairs]
    for epsilon in (0.05, 0.6):
        game = best_game(pairs, steps, epsilon)
        found = bounds(md.wor(50, 10), 2.0 / shift, steps, DeltaAt(epsilon), 1 if flat else None)
        assert game * (1.0 - 3e-3) <= found.upper <= game * 1.03
        assert found.lower <= game * (1.0 + 3e-3)


def copied(weights: list[float], x: complex, other: complex, common: complex) -> Outcomes:
    """J copies of x, or of x', in places that otherwise hold one common record."""
    grid = np.arange(-9.0, 11.0, 0.1)

    def law(end: complex) -> FloatArray:
        total = np.zeros((grid.size, grid.size))
        for j, weight in enumerate(weights):
            place = j * (end - common) * np.exp(0.7j)
            far = np.square(grid - place.real)[:, None] + np.square(grid - place.imag)
            total += weight * np.exp(-0.5 * far)
        return np.asarray(total.ravel() * 0.01 / (2.0 * math.pi) + 1e-300)

    return Outcomes(law(x), law(other))


@pytest.mark.parametrize(
    ("scheme", "weights"),
    [
        (md.wr(5, 2), [16 / 25, 8 / 25, 1 / 25]),
        (md.must_ow(6, 3, 2), [0.5 + 2 / 9, 2 / 9, 1 / 18]),
        (md.must_ww(8, 3, 2), md.must_ww(8, 3, 2).law().probabilities.tolist()),
    ],
)
def test_two_steps_of_copies_against_brute_force(
    scheme: md.types.Scheme, weights: list[float]
) -> None:
    shift = 0.8
    triples = all_triples(shift, 5, flat=False)
    pairs = [copied(weights, *points) for points in triples]
    pairs += [pair.swapped for pair in pairs]
    for epsilon in (0.05, 0.6):
        game = best_game(pairs, 2, epsilon)
        found = bounds(scheme, 2.0 / shift, 2, DeltaAt(epsilon), work=2e7)
        assert game * (1.0 - 3e-3) <= found.upper <= game * 1.15
        assert found.lower <= game * (1.0 + 3e-3)


def test_one_step_has_no_family_to_choose_from() -> None:
    atom = atom_of(md.wor(100, 10), md.gaussian(noise_multiplier=1.0))
    assert family_bounds([(atom, 1)], REPLACE, USUAL) is None


@pytest.mark.parametrize(
    ("scheme", "z"),
    [(md.wor(1000, 50), 2.0), (md.wr(1000, 50), 2.0), (md.must_ow(2000, 100, 60), 4.0)],
)
def test_between_what_is_attained_and_the_single_pair(scheme: md.types.Scheme, z: float) -> None:
    steps = 40
    old = one_pair(scheme, z, steps)
    before = old.epsilon(1e-5)
    found = bounds(scheme, z, steps)
    assert found.composition == "family"
    assert before.lower * (1.0 - 4e-3) <= found.lower <= found.upper
    assert found.upper < before.lower + 0.6 * (before.upper - before.lower)
    delta = bounds(scheme, z, steps, DeltaAt(0.8 * before.lower))
    assert delta.lower <= delta.upper <= old.delta(0.8 * before.lower).upper * (1.0 + 1e-2)
    assert delta.lower >= old.delta(0.8 * before.lower).lower * 0.95


def test_an_adaptive_strategy_beats_the_aligned_pair() -> None:
    scheme, z, steps = md.wor(60_000, 2_000), 3.117, 300
    found = bounds(scheme, z, steps, work=6e8)
    assert 1.7493 < found.lower <= 1.7525  # the aligned pair alone attains 1.7457
    assert found.upper <= 1.760
    assert found.block == steps


def test_one_dimension_closes_the_gap() -> None:
    found = bounds(md.wor(60_000, 2_000), 3.117, 300, dimension=1)
    assert found.lower <= found.upper <= 1.005 * found.lower


def test_more_steps_and_less_noise_cost_more() -> None:
    scheme = md.wor(500, 20)
    steps = [bounds(scheme, 2.0, k).upper for k in (10, 20, 40)]
    noise = [bounds(scheme, z, 20).upper for z in (3.0, 2.0, 1.5)]
    size = [bounds(md.wor(500, m), 2.0, 20).upper for m in (10, 20, 40)]
    for values in (steps, noise, size):
        assert values[0] < values[1] < values[2]


def test_blocks_are_looser_and_no_looser_than_one_pair() -> None:
    scheme, z, steps = md.wor(2000, 40), 1.5, 600
    whole = bounds(scheme, z, steps, work=1e8)
    parts = bounds(scheme, z, steps, work=3e6)
    old = one_pair(scheme, z, steps)
    assert whole.composition == "family"
    assert parts.composition == "family in blocks"
    assert parts.block < steps
    assert whole.upper <= parts.upper <= old.epsilon(1e-5).upper * (1.0 + 1e-3)


def test_mixed_plans_are_bounded_in_any_order() -> None:
    first = atom_of(md.wor(500, 20), md.gaussian(noise_multiplier=2.0))
    second = atom_of(md.wor(500, 60), md.gaussian(noise_multiplier=3.0))
    for order in ([(first, 30), (second, 30)], [(second, 30), (first, 30)]):
        found = family_bounds(order, REPLACE, USUAL, work=5e7)
        old = md.account(
            md.sequence(*(md.repeat(count, atom) for atom, count in order)), composition="pair"
        ).epsilon(1e-5)
        assert found is not None
        assert found.lower == 0.0  # what is attained would belong to one order
        # A data holder who plays the first kind to the end and then the second attains as much.
        played = attained_in_order(order)
        assert played <= found.upper < old.upper


def attained_in_order(order: list[tuple[Atom, int]]) -> float:
    """The adaptive strategy over all steps, executed in this order."""
    choices, noise = [], GaussianNoise()
    for atom, count in order:
        assert isinstance(atom, Subsample)
        assert isinstance(atom.inner, md.types.Gaussian)
        law, shift = atom.scheme.law(1, 1e-40), atom.inner.shift_for(2.0)
        pairs = [family_pair(name, law, noise, shift) for name in ("aligned", "reversed")]
        choices.append((pairs, np.arange(0, 3000, dtype=np.int64), count))
    return attained(choices, 1e-3, USUAL, 2.5, 0.3, ()).value


def test_small_deltas() -> None:
    found = bounds(md.wor(1000, 20), 1.5, 60, EpsilonAt(1e-14))
    old = one_pair(md.wor(1000, 20), 1.5, 60)
    assert old.epsilon(1e-14).lower * 0.99 <= found.lower <= found.upper
    assert found.upper <= old.epsilon(1e-14).upper * (1.0 + 1e-3)


def test_which_atoms_have_a_family() -> None:
    noise, shift = md.gaussian(noise_multiplier=1.0), md.gaussian(shift=1.0)
    wor = family_of(atom_of(md.wor(100, 10), noise), REPLACE)
    assert type(wor) is DiscTriples
    stated = family_of(atom_of(md.wor(100, 10), shift), REPLACE)
    assert isinstance(stated, DistantTriples)
    assert isinstance(family_of(atom_of(md.wor(100, 10), noise), REPLACE, dimension=1), LineTriples)
    assert isinstance(
        family_of(atom_of(md.wor(100, 10), md.laplace(noise_multiplier=1.0)), REPLACE), LineTriples
    )
    assert isinstance(family_of(atom_of(md.must_ww(100, 10, 10), noise), REPLACE), ReplacedTwice)
    for scheme, mechanism in (
        (md.wr(100, 10), shift),
        (md.wr(100, 10), md.laplace(noise_multiplier=1.0)),
        (md.must_ww(10, 100, 10), noise),  # slots with the record are the rule
        (md.must_ww(100, 10, 10), shift),
        (md.wr(10, 5000), noise),
        (md.poisson(100, rate=0.1), noise),
    ):
        assert family_of(atom_of(scheme, mechanism), REPLACE) is None
    assert family_of(atom_of(md.wor(100, 10), noise), Relation.ADD_REMOVE) is None
    assert family_of(noise, REPLACE) is None


def test_no_atoms_are_refused() -> None:
    with pytest.raises(InvalidParameter, match="at least once"):
        family_bounds([], REPLACE, USUAL)


def play(chance: float, shift: float, steps: int, epsilon: float, seed: int) -> FloatArray:
    """Simulate the strategy: look at the loss so far, take the better pair, add up losses."""
    noise, d = GaussianNoise(), 0.01
    law = md.wor(1000, round(1000 * chance)).law(1, 1e-40)
    points = np.arange(0, 700, dtype=np.int64)
    window = LossWindow(d, -400, 700, 699, 699, 1.0)
    members = [
        merge(family_pair(name, law, noise, shift), d, points, [])
        for name in ("aligned", "reversed")
    ]
    recursion = Recursion(window, "lower")
    kernels = recursion.kernels(members)
    aligned_wins = []
    for _ in range(steps):
        first, second = recursion.applied(kernels)
        aligned_wins.append(first >= second)
        recursion.step(kernels)
    rng = np.random.default_rng(seed)
    left = np.full(3_000_000, epsilon)
    for wins in reversed(aligned_wins):
        place = np.clip(np.rint(left / d).astype(np.int64) - window.first, 0, window.size - 1)
        aligned = wins[place]
        x = rng.standard_normal(left.size)
        x += np.where(aligned & (rng.random(left.size) < chance), shift, 0.0)
        loss = np.log(1.0 - chance + chance * np.exp(shift * x - 0.5 * shift * shift))
        left -= np.where(aligned, loss, -loss)
    return np.asarray(np.maximum(-np.expm1(left), 0.0))


def test_playing_the_strategy_lies_between_the_bounds() -> None:
    chance, shift, steps, epsilon = 0.2, 1.0, 6, 0.9
    gains = play(chance, shift, steps, epsilon, 7)
    mean, error = float(gains.mean()), float(gains.std() / math.sqrt(gains.size))
    scheme = md.wor(1000, 200)
    found = bounds(scheme, 2.0 / shift, steps, DeltaAt(epsilon))
    assert found.lower - 4.0 * error <= mean <= found.upper + 4.0 * error
    assert found.lower >= mean * 0.97
    old = one_pair(scheme, 2.0 / shift, steps).delta(epsilon)
    assert mean - 4.0 * error > old.lower  # what any fixed pair attains


@pytest.mark.slow
@pytest.mark.parametrize(
    ("scheme", "z", "steps", "most", "work"),
    [
        (md.wor(60_000, 256), 1.6, 14_063, 4.70, 18e8),
        (md.wr(60_000, 2_000), 3.153, 300, 1.80, 6e8),
        (md.must_ow(60_000, 3_000, 2_000), 4.283, 300, 1.94, 6e8),
        (md.must_ow(10_000, 118, 200), 4.0, 1000, 9.53, 6e8),
        (md.wor(50_000, 120), 6.0, 104_166, 1.118, 6e8),
        (md.wor(60_000, 256), 1.6, 1_000_000, 104.9, 6e8),
    ],
)
def test_targets(scheme: md.types.Scheme, z: float, steps: int, most: float, work: float) -> None:
    found = bounds(scheme, z, steps, work=work)
    assert found.lower <= found.upper <= most


@pytest.mark.slow
@pytest.mark.parametrize(("delta", "most"), [(1e-5, 1.118), (1e-7, 1.395), (1e-9, 1.629)])
def test_below_renyi_accounting_of_fixed_size_batches(delta: float, most: float) -> None:
    """FS-RDP, arXiv 2408.10456, gives ``most`` for n = 50000, m = 120, z = 6 and 104166 steps."""
    step = md.subsample(md.wor(50_000, 120), md.gaussian(noise_multiplier=6.0))
    account = md.account(md.repeat(104_166, step))
    assert account.epsilon(delta).upper < most
    assert account.composition == "blocks"


@pytest.mark.parametrize(
    ("scheme", "z", "steps"),
    [
        (md.must_ow(60_000, 3000, 2000), 4.283, 300),
        (md.must_ww(60_000, 3000, 2000), 4.283, 300),
        (md.must_ow(10_000, 118, 200), 4.0, 1000),
    ],
)
def test_two_stages_are_within_one_percent_by_default(
    scheme: md.types.Scheme, z: float, steps: int
) -> None:
    plan = md.repeat(steps, md.subsample(scheme, md.gaussian(noise_multiplier=z)))
    found = md.account(plan).epsilon(1e-5)
    assert found.lower < found.upper < 1.01 * found.lower
