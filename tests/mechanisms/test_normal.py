"""The normal hockey stick against mpmath, over eighteen orders of magnitude of distance."""

from __future__ import annotations

import json
from pathlib import Path

import mpmath as mp
import numpy as np
import pytest

from mustdp.mechanisms.mechanism import log_hockey_stick, mills_ratio

GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "gaussian_profile.json").read_text())
ROWS = [(float.fromhex(s), float.fromhex(e), mp.mpf(value)) for s, e, value in GOLDEN["rows"]]


def test_the_golden_file_states_its_origin() -> None:
    assert set(GOLDEN["origin"]) >= {"what", "script", "tool", "digits"}
    assert len(ROWS) > 200


def test_values_above_1e_minus_300_have_full_relative_accuracy() -> None:
    checked = 0
    for shift, epsilon, exact in ROWS:
        if exact > 1e-300:
            log_value = float(log_hockey_stick(np.array(shift), np.array(epsilon)))
            ours = mp.exp(mp.mpf(log_value))
            assert abs(ours / exact - 1) < 2e-12, (shift, epsilon, exact)
            checked += 1
    assert checked > 190


def test_values_below_1e_minus_300_keep_their_logarithm() -> None:
    for distance, epsilon in [(0.25, 20.0), (0.7, 600.0), (0.8, 600.0), (3.0, 600.0)]:
        with mp.workdps(400):
            d, e = mp.mpf(distance), mp.mpf(epsilon)
            t = e / d - d / 2
            exact = mp.erfc(t / mp.sqrt(2)) / 2
            exact -= mp.exp(e) * mp.erfc((t + d) / mp.sqrt(2)) / 2
            log_exact = mp.log(exact)
        ours = float(log_hockey_stick(np.array(distance), np.array(epsilon)))
        assert ours == pytest.approx(float(log_exact), rel=1e-12)


def test_the_threshold_keeps_its_digits_where_epsilon_and_half_the_square_cancel() -> None:
    """At distance 1e6, eps = 5e11: e/d - d/2 computed naively is off by 1e-10."""
    distance = 1e6
    epsilon = (20.0 + distance / 2.0) * distance
    with mp.workdps(60):
        t = mp.mpf(epsilon) / mp.mpf(distance) - mp.mpf(distance) / 2
        log_exact = mp.log(mp.erfc(t / mp.sqrt(2)) / 2)
        ours = mp.mpf(float(log_hockey_stick(np.array(distance), np.array(epsilon))))
        # The second tail is smaller by the factor d/t = 5e4 at least.
        assert abs(ours - log_exact) < 5e-5
    near = np.array([epsilon, np.nextafter(epsilon, np.inf)])
    assert np.all(np.diff(log_hockey_stick(np.array(distance), near)) < 0)


@pytest.mark.parametrize("distance", [1e-300, 1e-9, 0.5, 1.0, 1e9, 1e25])
def test_the_ends_of_the_range_are_quiet_and_ordered(distance: float) -> None:
    epsilon = np.array([0.0, 1e-300, 1e-9, 1.0, 600.0, 1e6, 1e17, 1e300, np.inf])
    logs = log_hockey_stick(np.full(epsilon.size, distance), epsilon)
    assert not np.any(np.isnan(logs))
    assert np.all(logs <= 0.0)
    assert np.all(np.diff(logs[np.isfinite(logs)]) <= 0.0)
    assert logs[-1] == -np.inf


def test_arguments_broadcast() -> None:
    table = log_hockey_stick(np.array([0.5, 1.0, 20.0])[:, None], np.array([0.0, 1.0]))
    assert table.shape == (3, 2)
    assert table[1, 1] == log_hockey_stick(np.array(1.0), np.array(1.0))


def test_the_mills_ratio_is_the_tail_over_the_density() -> None:
    for u in (-8.0, 0.0, 1.0, 30.0, 1e6):
        exact = mp.quad(lambda x, at=u: mp.exp(-at * x - x * x / 2), [0, 1, 4, 40])
        assert float(mills_ratio(np.array(u))) == pytest.approx(float(exact), rel=1e-13)
