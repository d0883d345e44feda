"""Adding or removing a record: budgets kept, errors and cut mass counted, laws coarsened safely.

The safety terms are small; each is made large enough to be seen.
"""

from __future__ import annotations

import mpmath as mp
import numpy as np

from mustdp import custom
from mustdp.accounting.pld.discretise import family_pair
from mustdp.accounting.subsampling.one_step import (
    MOST_GROUPS,
    _added,
    add_direction,
    aligned,
    certificate,
    evaluate,
    remove_direction,
    reversed_pair,
)
from mustdp.mechanisms.mechanism import GaussianNoise, LaplaceNoise, Noise, NoiseProfiles
from mustdp.sampling.schemes import stage_law
from mustdp.types import MultiplicityLaw, Stage
from tests.accounting.subsampling import exact_pairs
from tests.accounting.subsampling.recording import Recording
from tests.arrays import FloatArray

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
        remove = aligned(law, family.noise, family.shift, epsilon)
        add = reversed_pair(law, family.noise, family.shift, epsilon)
        assert np.all(remove_direction(law, family, epsilon) >= remove)
        assert np.all(add_direction(law, family, epsilon) >= add)
        assert np.all(certificate(law, family, epsilon)[0] >= np.maximum(remove, add))
        assert np.all(remove[:3] > 0.05)
