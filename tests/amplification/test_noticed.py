"""Small safety terms that ordinary parameters hide: each is made large enough to be seen."""

from __future__ import annotations

import mpmath as mp
import numpy as np
import pytest

from mustdp import custom, must_ow, must_ww, one_step, wr
from mustdp.amplification import attained
from mustdp.amplification.directions import _added, add_direction, remove_direction
from mustdp.amplification.mixed_slope import MOST_GROUPS, certificate, evaluate
from mustdp.amplification.one_slope import one_slope_bound
from mustdp.amplification.one_step import upper_bound
from mustdp.amplification.poisson import replace_one_record
from mustdp.amplification.stages import ChordProfiles, StagedProfiles
from mustdp.loss.pairs import family_pair
from mustdp.mechanisms.noise import GaussianNoise, LaplaceNoise, Noise
from mustdp.mechanisms.profiles import FloatArray, NoiseProfiles
from mustdp.numerics.windows import binomial
from mustdp.sampling import law as law_module
from mustdp.sampling.law import MultiplicityLaw, chain_law, stage_law
from mustdp.sampling.stage import Stage
from tests.amplification import exact_pairs
from tests.amplification.recording import Recording

NOISES: list[Noise] = [GaussianNoise(), LaplaceNoise()]


def kinked(epsilon: FloatArray) -> FloatArray:
    """A profile whose slope jumps at 0.7, so that common tangents jump over the budget."""
    return 0.3 * np.maximum(0.0, 1.0 - np.exp(np.asarray(epsilon) - 0.7)) + 1e-6


def test_one_slope_for_all_keeps_to_the_budget_too() -> None:
    """Where tangents jump, equal slopes are tried as well: they have the same constraint."""
    law = stage_law(Stage("wr", 10), 20, 1, 1e-36)
    equal = {"remove": 0, "add": 0}
    with mp.workdps(60):
        chances = exact_pairs.binomial(10, mp.mpf(1) / 20)
        for epsilon in (0.05, 0.1, 0.3, 0.5, 1.0, 2.0):
            alpha = mp.exp(mp.mpf(epsilon))
            for name, bound in (("remove", remove_direction), ("add", add_direction)):
                family = Recording(custom(kinked).profiles(None))
                bound(law, family, np.array([epsilon]))
                for row in family.rows:
                    pairs = list(zip(chances[1:], row.tolist(), strict=True))
                    if name == "remove":
                        used = mp.fsum(p * mp.exp(mp.mpf(e)) for p, e in pairs)
                        assert used <= alpha - chances[0]
                    else:
                        got = mp.fsum(p * mp.exp(-mp.mpf(e)) for p, e in pairs)
                        assert alpha * (chances[0] + got) >= 1
                    equal[name] += np.ptp(row) == 0.0
    assert min(equal.values()) > 0  # the case was met in both directions


@pytest.mark.parametrize("noise", NOISES, ids=lambda noise: noise.name)
def test_mass_that_a_poisson_law_left_out_is_added(noise: Noise) -> None:
    whole = [mp.mpf("0.7"), mp.mpf("0.3")]
    rough = MultiplicityLaw(0, np.array([0.7, 0.2]), 0.1, 1e-16)
    epsilon = np.array([0.0, 0.5, 2.0])
    for value, e in zip(
        replace_one_record(rough, noise, 12.0, epsilon), epsilon.tolist(), strict=True
    ):
        assert mp.mpf(float(value)) >= exact_pairs.symmetric(noise.name, whole, 12.0, e)


@pytest.mark.parametrize("rate", [0.01, 0.3, 0.5, 0.9])
@pytest.mark.parametrize("shift", [1e-9, 1e-7, 1e-5])
def test_replaced_records_at_tiny_shifts(shift: float, rate: float) -> None:
    """Logarithms of order one lack the digits that a shift of 1e-9 needs; room is left for it."""
    law = MultiplicityLaw(0, np.array([1.0 - rate, rate]), 0.0, 2.0**-53)
    with mp.workdps(60):
        exact_law = exact_pairs.flip(rate)
    epsilon = rate * shift * np.array([0.01, 0.1, 0.3, 0.7, 1.0, 2.0])
    for noise in NOISES:
        values = replace_one_record(law, noise, shift, epsilon)
        for value, e in zip(values.tolist(), epsilon.tolist(), strict=True):
            exact = exact_pairs.symmetric(noise.name, exact_law, shift, e)
            assert mp.mpf(value) >= exact


def test_the_error_of_the_law_is_in_the_sum() -> None:
    """Entries may be a thousandth too small, so the sum over them must be that much larger."""
    error = 1e-3
    law = MultiplicityLaw(0, np.array([0.5, 0.3, 0.2]), 0.0, error)
    family = NoiseProfiles(LaplaceNoise(), 1.0)
    logs = np.array([[0.2, 0.4]])
    deltas = family.delta(law.positive_values, logs)[0]
    assert evaluate(law, family, logs)[0] >= (1.0 + error) * float(law.positive @ deltas)
    added = _added(law, family, -logs, np.array([0.1]))[0]
    weights = law.positive * np.exp(0.1 - logs[0])
    assert added >= (1.0 + error) * float(weights @ deltas)


def test_the_error_of_the_profiles_is_in_the_sum() -> None:
    class Rough(Recording):
        relative_error = 1e-3

        def __init__(self) -> None:
            super().__init__(NoiseProfiles(LaplaceNoise(), 1.0))
            self.relative_error = 1e-3

    law, family = MultiplicityLaw(0, np.array([0.5, 0.3, 0.2]), 0.0, 0.0), Rough()
    logs = np.array([[0.2, 0.4]])
    deltas = family.delta(law.positive_values, logs)[0]
    assert evaluate(law, family, logs)[0] >= (1.0 + 1e-3) * float(law.positive @ deltas)
    added = _added(law, family, -logs, np.array([0.1]))[0]
    assert added >= (1.0 + 1e-3) * float(law.positive * np.exp(0.1 - logs[0]) @ deltas)


def test_the_papers_bound_leaves_room_for_the_error_of_the_law() -> None:
    """A law whose chance of a draw is a thousandth too small still covers the true one."""
    true = MultiplicityLaw(0, np.array([0.5, 0.5]), 0.0, 0.0)
    rough = MultiplicityLaw(0, np.array([0.5, 0.5 / 1.001]), 0.0, 1e-3)
    family, epsilon = NoiseProfiles(GaussianNoise(), 1.0), np.array([0.0, 0.3, 1.0])
    assert np.all(one_slope_bound(rough, family, epsilon) >= one_slope_bound(true, family, epsilon))


def test_lower_bounds_leave_room_for_the_error_of_the_profiles() -> None:
    class Generous(GaussianNoise):
        def profile(self, distance: FloatArray, epsilon: FloatArray) -> FloatArray:
            return super().profile(distance, epsilon) * (1.0 + 9e-12)

    law = MultiplicityLaw(0, np.array([0.6, 0.3, 0.1]), 0.0, 1e-16)
    exact_law = [mp.mpf("0.6"), mp.mpf("0.3"), mp.mpf("0.1")]
    epsilon = np.array([0.0, 0.2, 1.0])
    for name in ("aligned", "reversed_pair", "symmetric"):
        values = getattr(attained, name)(law, Generous(), 1.0, epsilon)
        for value, e in zip(values.tolist(), epsilon.tolist(), strict=True):
            assert mp.mpf(value) <= getattr(exact_pairs, name)("gaussian", exact_law, 1.0, e)


def test_adding_a_record_where_almost_nothing_is_left() -> None:
    """Close to e^epsilon rho_0 = 1 the bound is a difference of two numbers of order one.

    With the two sides far apart it is 1 - e^epsilon rho_0 itself.
    """
    family, seen = NoiseProfiles(GaussianNoise(), 60.0), 0
    for zero in np.linspace(0.05, 0.95, 40).tolist():
        law = MultiplicityLaw(0, np.array([zero, 1.0 - zero]), 0.0, 2.0**-53)
        end = -np.log(zero)
        epsilon = end - end * 2.0**-53 * np.arange(-2.0, 12.0)
        bounds = add_direction(law, family, epsilon)
        with mp.workdps(40):
            for bound, e in zip(bounds.tolist(), epsilon.tolist(), strict=True):
                exact = 1 - mp.exp(mp.mpf(e)) * mp.mpf(zero)
                assert mp.mpf(bound) >= exact
                seen += exact > 0
    assert seen > 100


def test_errors_add_up_from_stage_to_stage() -> None:
    before = MultiplicityLaw(0, np.array([0.7, 0.3]), 0.0, 1e-3)
    after = law_module._apply(before, Stage("wr", 5), 10, 1e-30)
    assert after.relative_error >= 1e-3


def test_a_coarsened_law_keeps_its_cut() -> None:
    law = stage_law(Stage("wr", 100_000), 2, 1, 1e-2)
    assert law.positive.size > MOST_GROUPS
    assert law.cut > 1e-3
    for up in (True, False):
        assert law.coarsened(MOST_GROUPS, up=up).cut >= law.cut
        rough = MultiplicityLaw(1, np.full(1000, 1e-3), 0.0, 1e-6)
        assert rough.coarsened(10, up=up).relative_error >= 1e-6
    family, epsilon = NoiseProfiles(GaussianNoise(), 1e-6), np.array([0.0, 5.0])
    assert np.all(certificate(law, family, epsilon)[0] >= law.cut)
    assert np.all(remove_direction(law, family, epsilon) >= law.cut)
    for name in ("reversed", "symmetric"):
        assert family_pair(name, law, GaussianNoise(), 1e-6).lost >= law.cut


def test_wide_laws_are_coarsened_on_the_safe_side() -> None:
    """About a thousand copies: neighbouring multiplicities share the larger one, not the smaller.

    Both directions are exact, so a law coarsened the wrong way falls below what is attained.
    """
    law = stage_law(Stage("wr", 1_000_000), 1000, 1, 1e-36)
    assert law.positive.size > MOST_GROUPS
    epsilon = np.array([0.0, 0.5, 2.0, 6.0])
    for family in (NoiseProfiles(noise, 0.003) for noise in NOISES):
        remove = attained.aligned(law, family.noise, family.shift, epsilon)
        add = attained.reversed_pair(law, family.noise, family.shift, epsilon)
        assert np.all(remove_direction(law, family, epsilon) >= remove)
        assert np.all(add_direction(law, family, epsilon) >= add)
        assert np.all(certificate(law, family, epsilon)[0] >= np.maximum(remove, add))
        assert np.all(remove[:3] > 0.05)


def test_chords_lie_above_their_family_on_both_sides_of_zero() -> None:
    """Inner stages are asked at slopes below one as well, where self-duality gives the profile."""
    staged = StagedProfiles(Stage("wr", 5), 10, NoiseProfiles(GaussianNoise(), 0.7), 50.0)
    groups, epsilon = np.array([1.0, 2.0, 4.0]), np.array([-8.0, -2.0, -0.3, 0.0, 0.3, 2.0])
    where = np.repeat(epsilon[:, None], groups.size, axis=1)
    chords, values = ChordProfiles(staged).delta(groups, where), staged.delta(groups, where)
    assert np.all(chords >= values * (1.0 - 1e-12))
    assert np.all(chords <= values * 1.01)


def test_mass_beyond_the_window_is_cut_mass() -> None:
    """What Bernstein's inequality leaves outside is no more than it says, but it is not zero."""
    size, tail = 1_000_000, 1e-20
    window = binomial(size, 1, 2, tail)
    with mp.workdps(60):
        below = window.first - 1  # the law is symmetric
        term = mp.exp(
            mp.loggamma(size + 1) - mp.loggamma(below + 1) - mp.loggamma(size - below + 1)
            - size * mp.log(2)
        )  # fmt: skip
        outside = mp.mpf(0)
        for k in range(below, below - 3000, -1):
            outside += term
            term *= mp.mpf(k) / (size - k + 1)
        last = window.first + window.probabilities.size - 1
        assert last == size - window.first
        assert window.cut >= 2 * outside
        assert window.cut <= tail


def test_mass_that_underflows_is_cut_mass() -> None:
    """Eleven copies at a chance of 1e-30 each: their mass of 1e-329 is no double, and not zero."""
    window = binomial(12, 1, 10**30, 0.0)
    assert window.probabilities.size == 11
    assert window.cut >= 1e-320


def test_entries_too_small_to_be_accurate_join_the_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a coarse notion of too small, most of the law is dropped, and all of it is counted."""
    monkeypatch.setattr(law_module, "_UNDERFLOW", 0.02)
    stages = (Stage("wor", 10), Stage("wr", 200))
    law = chain_law.__wrapped__(30, stages, 1, 1e-30)  # not the cached one
    missing = 1.0 - float(law.probabilities.sum())
    assert missing > 0.04
    assert law.cut >= missing * (1.0 - 1e-12)


def test_the_larger_direction_of_add_remove_is_the_bound() -> None:
    """With noise on a sum removing is worse; by the black-box bound for groups adding may be."""

    def rare(e: FloatArray) -> FloatArray:
        return 0.3 * np.maximum(0.0, 1.0 - np.exp(e - 0.03)) + 1e-3 * np.exp(-e)

    scheme, mechanism, epsilon = wr(3, 12), custom(rare), np.array([1e-3, 0.3, 1.0])
    upper = one_step(scheme, mechanism, epsilon, relation="add_remove").upper
    remove = upper_bound(scheme, mechanism, epsilon, relation="add_remove", direction="remove")
    add = upper_bound(scheme, mechanism, epsilon, relation="add_remove", direction="add")
    assert np.any(add > 1.1 * remove)
    assert np.all(upper >= np.maximum(remove, add))


def test_two_stages_take_their_sizes_in_order() -> None:
    """The laws by their formulas, with a second stage that is larger or smaller than the first."""
    with mp.workdps(40):
        for n, b, m in ((9, 4, 7), (9, 7, 4)):
            first = exact_pairs.binomial(b, mp.mpf(1) / n)
            ww = [
                mp.fsum(p * exact_pairs.binomial(m, mp.mpf(i) / b)[j] for i, p in enumerate(first))
                for j in range(m + 1)
            ]
            ow = [mp.mpf(b) / n * p for p in exact_pairs.binomial(m, mp.mpf(1) / b)]
            ow[0] += 1 - mp.mpf(b) / n
            for scheme, exact in ((must_ww(n, b, m), ww), (must_ow(n, b, m), ow)):
                found = scheme.multiplicity()
                assert found == pytest.approx([float(p) for p in exact], rel=1e-12)
