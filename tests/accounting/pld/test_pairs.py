"""Cells of concrete pairs: below P, above Q, whatever was rounded, left out or coarsened."""

from __future__ import annotations

import math

import mpmath as mp
import numpy as np

from mustdp.accounting.pld.discretise import family_pair
from mustdp.accounting.subsampling import one_step
from mustdp.mechanisms.mechanism import GaussianNoise
from mustdp.sampling.schemes import stage_law
from mustdp.types import MultiplicityLaw, Stage


def test_cells_count_the_error_of_the_law() -> None:
    """With entries off by a hundredth, P may be that much smaller and Q that much larger."""
    law = MultiplicityLaw(0, np.array([0.6, 0.4]), 0.0, 1e-2)
    sure = MultiplicityLaw(0, np.array([0.6, 0.4]), 0.0, 0.0)
    x = np.linspace(-3.0, 4.0, 15)
    for name in ("aligned", "reversed", "symmetric"):
        rough = family_pair(name, law, GaussianNoise(), 1.0).cells(x)
        exact = family_pair(name, sure, GaussianNoise(), 1.0).cells(x)
        assert np.all(rough[0] <= exact[0] * (1.0 - 9e-3))
        assert np.all(rough[1] >= exact[1] * (1.0 + 9e-3))


def test_cells_are_below_p_and_above_q_in_the_last_digit() -> None:
    law = MultiplicityLaw(0, np.array([0.6, 0.4]), 0.0, 0.0)
    pair = family_pair("aligned", law, GaussianNoise(), 1.0)
    x = np.linspace(-5.0, 6.0, 45)
    up, down = pair.cells(x)
    with mp.workdps(40):
        ends = [mp.ninf, *(mp.mpf(float(e)) for e in x), mp.inf]
        p0, p1 = mp.mpf(0.6), mp.mpf(0.4)
        for k in range(up.size):
            still = mp.ncdf(ends[k + 1]) - mp.ncdf(ends[k])
            moved = mp.ncdf(ends[k + 1] - 1) - mp.ncdf(ends[k] - 1)
            assert mp.mpf(float(up[k])) <= p0 * still + p1 * moved
            assert mp.mpf(float(down[k])) >= still


def test_wide_laws_are_coarsened_on_the_safe_side() -> None:
    """About a thousand copies: neighbouring multiplicities share the smaller of them."""
    law, noise, shift = stage_law(Stage("wr", 1_000_000), 1000, 1, 1e-36), GaussianNoise(), 0.003
    x = np.linspace(-1.0, 5.0, 601)
    for name, function in (
        ("aligned", one_step.aligned),
        ("reversed", one_step.reversed_pair),
        ("symmetric", one_step.symmetric),
    ):
        pair = family_pair(name, law, noise, shift)
        assert pair.p.weights.size < law.support.size or name == "reversed"
        p, q = (np.cumsum(cells[::-1])[::-1][1:] for cells in pair.cells(x))
        for epsilon in (0.0, 0.5, 2.0):
            whole = float(function(law, noise, shift, np.array([epsilon]))[0])
            found = float(np.max(p - math.exp(epsilon) * q))
            assert 0.9 * whole < found <= whole * (1 + 1e-7)
