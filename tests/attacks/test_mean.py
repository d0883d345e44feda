"""The mean of a thousand records, one of which somebody looks for in the last bits."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

import mustdp as md
from mustdp.noise import exact as noise_room
from mustdp.noise.exact import LARGEST_INTEGER
from tests.attacks.range_of_a_product import products

N, M, REPLICATES = 1000, 999, 100
SCHEME = md.wor(N, M)
#: Ends of the range. With them the scale of the noise below is 1.4: fewest doubles are products.
END = 1.4


@pytest.fixture(autouse=True)
def _noise_drowns_on_purpose() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", md.types.InferenceNote)
        yield


def middles(record: float) -> NDArray[np.float64]:
    """All records at the middle of their range, where they contribute nothing, but for one."""
    data = np.zeros(N)
    data[0] = record
    return data


def released(data: NDArray[np.float64], **given: Any) -> md.types.BootstrapResult:
    settings: dict[str, Any] = {
        "lower": -END, "upper": END, "design": SCHEME, "replicates": REPLICATES, "delta": 1e-9,
    }  # fmt: skip
    return md.private_bootstrap(data, "mean", **{**settings, **given})


def test_is_there_a_double_whose_product_with_the_scale_is_the_value() -> None:
    """With noise in floating point it is told in all of 100 releases whether the record is there.

    With exact noise the answer is the same with the record and without, whatever it is.
    """
    scale = released(middles(0.0), epsilon=0.1).privacy.noise_multiplier * END / M
    rng = np.random.default_rng(1)
    recognised = {}
    for record in (0.0, END):
        floating = record / M + scale * rng.standard_normal((100, REPLICATES))
        recognised[record] = int(products(floating, scale).all(axis=1).sum())
    assert recognised == {0.0: 100, END: 0}

    shares = []
    for record in (0.0, END):
        runs = [released(middles(record), epsilon=0.1) for _ in range(100)]
        assert all(run.privacy.certified and run.privacy.epsilon.upper <= 0.1 for run in runs)
        found = np.array([run.replicates[:, 0] for run in runs])
        shares.append(products(found, scale).mean())
        assert np.abs(found).max() < 10 * scale  # it is noise of that scale
    # Two shares of 10000 values each; beyond 5 standard deviations in 6e-7 of all runs.
    assert abs(shares[0] - shares[1]) < 5 * math.sqrt(2 * 0.25 / (100 * REPLICATES))


class Watched:
    """What goes into the release of totals and what comes out of it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.steps: list[NDArray[np.float64]] = []

        def watching(sums: Any, noise: Any, source: Any) -> NDArray[np.float64]:
            found = release(sums, noise, source)
            self.steps.append(found / np.array([one.lattice.step for one in noise]))
            return found

        release = noise_room.release
        monkeypatch.setattr("mustdp.estimation.queries.release", watching)


STATISTICS = ["mean", "variance", "median", "proportion:>0.5", "sd", "quantile:0.9"]


@pytest.mark.parametrize("statistic", STATISTICS)
@pytest.mark.parametrize("scheme", [SCHEME, md.poisson(N, 0.3), md.wr(N, 300)], ids=str)
def test_all_that_is_released_lies_on_the_lattice(
    statistic: str, scheme: md.types.Scheme, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every coordinate of every replicate, before public divisors and midpoints are put on it."""
    watched = Watched(monkeypatch)
    data = np.random.default_rng(4).uniform(-0.3, 0.8, N)
    result = md.private_bootstrap(
        data, statistic, lower=-1, upper=1, design=scheme, replicates=50, noise_multiplier=3.0,
        delta=1e-9,
    )  # fmt: skip
    [steps] = watched.steps
    assert len(steps) == len(result.replicates) == 50
    assert np.array_equal(steps, np.rint(steps))
    assert np.abs(steps).max() < LARGEST_INTEGER
    assert np.unique(steps % 256).size > 30  # in steps far below the noise


def test_low_bits_are_those_of_the_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    """Uniform with the record and without; a sum that left its mark there would be seen."""
    watched = Watched(monkeypatch)
    for record in (0.0, 1.0):
        released(middles(record), noise_multiplier=5.0, replicates=5000)
    for steps in watched.steps:
        counts = np.bincount(steps[:, 0].astype(np.int64) & 63, minlength=64)
        assert stats.chisquare(counts).pvalue > 1e-7
    blunt = watched.steps[0][:, 0].astype(np.int64) & ~1 & 63  # the last bit always zero
    assert stats.chisquare(np.bincount(blunt, minlength=64)).pvalue < 1e-7


def far_out(record: float) -> NDArray[np.float64]:
    """Means just below and just above a half beyond 2^52 + 2, whichever record is left out."""
    data = np.full(N, 0.0)
    data[:500] = 1.0
    data[0] = record
    return data + (2.0**52 + 2)


def test_a_range_where_doubles_are_integers() -> None:
    """Midpoint first, noise second: the noise was rounded away and the mean disclosed in full."""
    deviation = 20.0 * 2.0 / M  # 0.04, with a noise multiplier of 20
    noise = deviation * np.random.default_rng(2).standard_normal(4000)
    shares_before, shares_now = [], []
    for record in (-2.0, 2.0):
        data = far_out(record)
        mean = (data - (2.0**52 + 2)).sum() / N
        shares_before.append(np.mean((mean + (2.0**52 + 2)) + noise > 2.0**52 + 2))
        result = released(
            data, lower=2.0**52, upper=2.0**52 + 4, noise_multiplier=20.0, replicates=4000
        )
        shares_now.append(np.mean(result.replicates[:, 0] > 2.0**52 + 2))
    assert shares_before == [0.0, 1.0]
    # One release is (0.6, 1e-9)-private; a shift of a tenth of the noise moves a share by 0.04.
    assert abs(shares_now[0] - shares_now[1]) < 0.04 + 5 * math.sqrt(2 * 0.25 / 4000)
    assert all(0.3 < share < 0.7 for share in shares_now)


def test_a_far_range_is_on_the_lattice_before_the_shift(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is rounded with the midpoint has its noise already: both neighbours overlap."""
    watched = Watched(monkeypatch)
    for record in (-2.0, 2.0):
        released(
            far_out(record), lower=2.0**52, upper=2.0**52 + 4, noise_multiplier=20.0,
            replicates=2000,
        )  # fmt: skip
    one, other = (steps[:, 0] for steps in watched.steps)
    for steps in (one, other):
        assert np.array_equal(steps, np.rint(steps))
        assert np.unique(steps).size > 1990
    moved = abs(one.mean() - other.mean()) / one.std()
    assert moved < 0.1 + 5 * math.sqrt(2 / 2000)
    assert one.min() < other.max()
    assert other.min() < one.max()
